"""Random shapes, axes, number types and forms of output: read correctly or refused, never misread silently."""

from types import SimpleNamespace

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import polarised as po
from polarised.errors import PolarisedError

KINDS = {
    "variance": lambda v: v,
    "log_variance": np.log,
    "std": np.sqrt,
    "log_std": lambda v: 0.5 * np.log(v),
}
NAMES = {"variance": "var", "log_variance": "logvar", "std": "std", "log_std": "log_std"}
DTYPES = [np.float16, np.float32, np.float64, torch.bfloat16, torch.float16, torch.float32, torch.float64]


def as_type(array, dtype):
    return torch.tensor(array).to(dtype) if isinstance(dtype, torch.dtype) else np.asarray(array).astype(dtype)


def output(form, mean, scale, kind):
    sample = mean + 0.1
    return {
        "pair": lambda: (mean, scale),
        "list": lambda: [mean, scale],
        "dict": lambda: {"mu": mean, NAMES[kind]: scale, "z": sample},
        "object": lambda: SimpleNamespace(z_mean=mean, **{NAMES[kind]: scale}),
        "groups": lambda: {"one": (mean, scale), "two": (mean, scale)},
        "stacked": lambda: torch.cat([torch.as_tensor(mean), torch.as_tensor(scale)], dim=-1),
        "three": lambda: (mean, scale, sample),
        "one": lambda: mean,
    }[form]()


FORMS = ["pair", "list", "dict", "object", "groups", "stacked", "three", "one"]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    form=st.sampled_from(FORMS),
    kind=st.sampled_from(sorted(KINDS)),
    said=st.booleans(),
    dtype=st.sampled_from(DTYPES),
    positions=st.sampled_from([(), (3,), (2, 3), (2, 2, 2)]),
    last=st.booleans(),
    axis=st.booleans(),
    container=st.sampled_from(["array", "batches", "pairs", "tensor"]),
    live=st.lists(st.booleans(), min_size=2, max_size=6),
)
def test_an_encoder_is_read_correctly_or_refused(form, kind, said, dtype, positions, last, axis, container, live):
    inputs, variables = 80, len(live)
    generator = np.random.default_rng(0)
    alive = np.array(live)
    mean = generator.normal(size=(inputs, *positions, variables)) * alive
    variance = np.broadcast_to(np.where(alive, 0.02, 1.0), mean.shape)
    if not last:
        mean, variance = np.moveaxis(mean, -1, 1), np.moveaxis(variance, -1, 1)
    scale = KINDS[kind](variance)
    rows = np.arange(inputs)
    data = {
        "array": rows,
        "tensor": torch.arange(inputs),
        "batches": [rows[:30], rows[30:]],
        "pairs": [(rows[:30], rows[:30] % 2), (rows[30:], rows[30:] % 2)],
    }[container]

    def encode(i):
        chosen = np.asarray(i)
        return output(form, as_type(mean[chosen], dtype), as_type(scale[chosen], dtype), kind)

    told = {"scale_kind": kind} if said else {}
    if axis and positions:
        told["axis"] = -1 if last else 1
    try:
        diagnosis = po.diagnose(encode, data, trust_scale=True, **told)
    except PolarisedError:
        named = form in ("dict", "object")
        # With all settings given and a supported form, nothing is ambiguous.
        understood = form in ("pair", "list", "dict", "object", "groups") and (said or named)
        if understood and (axis or not positions):
            raise
        return
    assert form not in ("stacked", "one")
    assert diagnosis.regime.inputs == inputs
    repeats = 2 if form == "groups" else 1
    assert len(diagnosis.regime.types) == variables * repeats
    assert diagnosis.regime.rows in (inputs, inputs * int(np.prod(positions, dtype=int)))
    expected = [] if not alive.any() else [j for j in range(variables * repeats) if alive[j % variables]]
    assert diagnosis.regime.alive == expected
    np.testing.assert_allclose(
        diagnosis.regime.statistics.variance_mean, np.tile(np.where(alive, 0.02, 1.0), repeats), rtol=0.05
    )
