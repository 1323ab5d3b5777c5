"""The same inputs give the same diagnosis in every form."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import polarised as po
from polarised.adapters.batches import batches_of
from polarised.errors import DataError

from .models import INPUTS, LABELS, Flat, Grid, same_state, state

NETWORK = Flat()
WHOLE = po.diagnose(NETWORK, INPUTS)


class Items:
    """A dataset of single items, as in torch."""

    def __len__(self):
        return len(INPUTS)

    def __getitem__(self, i):
        return torch.from_numpy(INPUTS[i]), int(LABELS[i])


def pieces():
    for start in range(0, len(INPUTS), 50):
        yield {"image": INPUTS[start : start + 50], "label": LABELS[start : start + 50]}


FORMS = {
    "tensor": (torch.from_numpy(INPUTS), False),
    "half precision": (torch.from_numpy(INPUTS).double(), False),
    "loader of x": (DataLoader(torch.from_numpy(INPUTS), batch_size=70), False),
    "loader of (x, y)": (DataLoader(TensorDataset(torch.from_numpy(INPUTS), torch.from_numpy(LABELS)), 70), True),
    "pair": ((INPUTS, LABELS), True),
    "list of batches": ([INPUTS[:100], INPUTS[100:]], False),
    "list of pairs": ([(INPUTS[:100], LABELS[:100]), (INPUTS[100:], LABELS[100:])], True),
    "mapping": ({"x": INPUTS, "y": LABELS}, True),
    "items": (Items(), True),
    "generator of dictionaries": (pieces, True),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_data_gives_the_same_diagnosis(form):
    data, labelled = FORMS[form]
    before = state(NETWORK)
    found = po.diagnose(NETWORK, data() if callable(data) else data)
    assert same_state(before, state(NETWORK))
    assert found.regime.types == WHOLE.regime.types
    np.testing.assert_allclose(found.encodings.mean, WHOLE.encodings.mean, atol=1e-5)
    assert (found.encodings.factors is not None) == labelled
    if labelled:
        np.testing.assert_array_equal(found.encodings.factors[:, 0], LABELS)


def test_a_dataset_of_ours_its_name_and_pictures_in_a_folder(tmp_path):
    from PIL import Image

    sprites = po.data.dsprites(size=32)
    network = Grid()
    network.mean, network.logvar = (torch.nn.Conv2d(1, 4, 2, 2) for _ in range(2))
    named = po.diagnose(network, sprites, examples=50)
    assert named.regime.inputs == 50
    assert named.encodings.factor_names == sprites.factor_space.names
    for kind in ("cats", "dogs"):
        (tmp_path / kind).mkdir()
        for i in range(6):
            picture = np.random.default_rng(i).integers(0, 256, size=(20, 20, 3), dtype=np.uint8)
            Image.fromarray(picture).save(tmp_path / kind / f"{i}.png")
    found = po.diagnose(Grid(), tmp_path)
    assert (found.regime.inputs, found.encodings.factor_names) == (12, ("folder",))


def test_factors_can_be_given_beside_the_data():
    assert po.diagnose(NETWORK, INPUTS, factors=LABELS, factor_names=["sign"]).encodings.factor_names == ("sign",)
    with pytest.raises(DataError, match="row of factors"):
        po.diagnose(NETWORK, INPUTS, factors=LABELS[:-1])


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int16, torch.int64])
def test_labels_of_any_whole_type_become_factors(dtype):
    labels = torch.from_numpy(LABELS).to(dtype)
    loader = DataLoader(TensorDataset(torch.from_numpy(INPUTS), labels), batch_size=70)
    np.testing.assert_array_equal(po.diagnose(NETWORK, loader).encodings.factors[:, 0], LABELS)


def test_a_truncated_batch_keeps_its_mask():
    codes = np.random.default_rng(0).normal(size=(100, 4, 3))
    mask = np.arange(4) < 1 + np.arange(100)[:, None] % 4
    encode = lambda i: {"mean": codes[i], "var": np.full(codes[i].shape, 0.01)}  # noqa: E731
    batches = [{"x": np.arange(100), "attention_mask": mask}]
    found = po.diagnose(encode, batches, axis=-1, mask="attention_mask", examples=30)
    assert (found.regime.inputs, found.regime.rows) == (30, int(mask[:30].sum()))


def test_examples_limit_any_form():
    for data in (INPUTS, [INPUTS[:100], INPUTS[100:]], Items(), pieces()):
        assert po.diagnose(NETWORK, data, examples=130).regime.inputs == 130


def test_objects_that_are_not_data_are_refused():
    for data in (3, "no_such_dataset", [], iter(())):
        with pytest.raises(po.PolarisedError):
            po.diagnose(NETWORK, data)
    with pytest.raises(DataError, match="image, x or pixel_values"):
        list(batches_of([{"foo": INPUTS, "bar": INPUTS}]))


def test_a_stream_is_never_held_in_memory_at_once():
    import weakref

    given, most = [], 0

    def stream():
        nonlocal most
        for i in range(40):
            batch = np.random.default_rng(i).normal(size=(100, 6))
            given.append(weakref.ref(batch))
            yield batch
            most = max(most, sum(reference() is not None for reference in given))

    found = po.diagnose(lambda x: (x[:, :4] * 1, x[:, :4] * 0 - 2), stream(), scale_kind="log_variance")
    assert (found.regime.inputs, len(found.encodings)) == (4000, 4000)
    assert most <= 4


def test_a_mask_leaves_padding_out():
    generator = np.random.default_rng(0)
    lengths = generator.integers(1, 9, size=300)
    mask = np.arange(8) < lengths[:, None]
    mean = generator.normal(size=(300, 8, 3)) * [1.0, 1.0, 0.0]
    variance = np.broadcast_to([0.01, 0.01, 1.0], mean.shape).copy()
    mean[~mask], variance[~mask] = 99.0, 50.0
    encode = lambda i: (mean[i], variance[i])  # noqa: E731
    found = po.diagnose(encode, np.arange(300), scale_kind="variance", axis=-1, mask=mask)
    rows = po.Encodings(mean[mask], variance=variance[mask])
    assert (found.regime.inputs, found.regime.rows) == (300, int(mask.sum()))
    assert found.regime.passive == [2]
    for name in ("ratio_mean", "kl", "mean_variance"):
        expected = getattr(po.classify(rows).statistics, name)
        np.testing.assert_allclose(getattr(found.regime.statistics, name), expected, rtol=1e-9, atol=1e-12)
    batches = [{"x": np.arange(300), "attention_mask": mask}]
    again = po.diagnose(encode, batches, scale_kind="variance", axis=-1, mask="attention_mask")
    np.testing.assert_allclose(again.regime.statistics.kl, found.regime.statistics.kl)
    called = po.diagnose(encode, np.arange(300), scale_kind="variance", axis=-1, mask=lambda i: mask[i])
    np.testing.assert_allclose(called.regime.statistics.kl, found.regime.statistics.kl)
    with pytest.raises(DataError, match="8 positions"):
        po.diagnose(encode, np.arange(300), scale_kind="variance", axis=-1, mask=mask[:, :3])


def test_the_prior_of_each_input_comes_with_the_output_or_by_a_function():
    generator = np.random.default_rng(0)
    centre = generator.normal(size=(400, 2)) * 3
    mean = centre + generator.normal(size=(400, 2)) * [0.0, 1.0]
    scale = np.broadcast_to([1.0, 0.01], mean.shape)
    own = lambda i: {"mu": mean[i], "var": scale[i], "prior_mu": centre[i], "prior_var": scale[i] * 0 + 1}  # noqa: E731
    pair = lambda i: (mean[i], scale[i])  # noqa: E731
    first = po.diagnose(own, np.arange(400))
    second = po.diagnose(pair, np.arange(400), scale_kind="variance", prior=lambda i: (centre[i], np.ones((len(i), 2))))
    expected = po.classify(po.Encodings(mean, variance=scale, prior_mean=centre, prior_variance=np.ones((400, 2))))
    for found in (first, second):
        np.testing.assert_allclose(found.regime.statistics.kl, expected.statistics.kl, rtol=1e-9)
    fixed = po.diagnose(pair, np.arange(400), scale_kind="variance", prior=(0.0, 4.0))
    assert fixed.encodings.prior_variance.tolist() == [4.0, 4.0]
    normal = torch.distributions.Normal(torch.zeros(2), 2 * torch.ones(2))
    drawn = po.diagnose(pair, np.arange(400), scale_kind="variance", prior=normal)
    np.testing.assert_allclose(drawn.regime.statistics.kl, fixed.regime.statistics.kl)


def test_a_progress_bar_shows_rate_and_time_left(capsys):
    po.diagnose(NETWORK, INPUTS, progress=True, batch_size=50)
    shown = capsys.readouterr()
    assert "encoding" in shown.err
    assert shown.out == ""
    po.diagnose(NETWORK, INPUTS)
    assert capsys.readouterr().err == ""
