"""A training step never waits for the device between two log points."""

import contextlib

import pytest
from torch.utils._python_dispatch import TorchDispatchMode

from polarised import registry
from polarised.data import dsprites
from polarised.models import build_vae
from polarised.training import train

DATA = dsprites(size=32)

# Operations that read a value from the device, or whose result's shape depends on values.
READS = ("_local_scalar_dense", "is_nonzero", "equal", "nonzero", "masked_select", "unique", "_unique2", "item")
# Operations that copy numbers of the host to the device (a single scalar is passed with the call).
CONSTANTS = ("lift_fresh",)
SPECS = {
    "FactorVAE": {"critic_layers": 1, "critic_width": 8},
    "RTCVAE": {"critic_layers": 1, "critic_width": 8},
    "AnnealedVAE": {"iteration_threshold": 5},
}
SETTINGS = [{"name": name, **SPECS.get(name, {})} for name in registry.names("objective")]
SETTINGS += [
    {"name": "BetaVAE", "ramp": "cyclical"},
    {"name": "BetaTCVAE", "estimator": "mss1"},
    {"name": "Decomposition", "alpha": 10.0, "divergence": "inclusive_kl"},
    {"name": "Decomposition", "alpha": 10.0, "divergence": "mmd"},
]
PRIORS = registry.names("prior")


class Tracing(TorchDispatchMode):
    """Records every operation that would wait for a GPU."""

    def __init__(self):
        super().__init__()
        self.reads, self.constants, self.generators, self.operations = [], [], [], 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = function.overloadpacket.__name__
        self.operations += 1
        if name in READS:
            self.reads.append(name)
        if name in CONSTANTS:
            self.constants.append(name)
        if name in ("randn", "rand", "randint", "normal_", "uniform_", "randperm"):
            self.generators.append(kwargs.get("generator"))
        return function(*args, **kwargs)


class Window:
    """A hook that traces all operations between two steps."""

    every = 1

    def __init__(self, first, last):
        self.first, self.last = first, last
        self.tracing, self.open = Tracing(), contextlib.ExitStack()

    def __call__(self, step, vae):
        if step == self.first:
            self.open.enter_context(self.tracing)
        if step == self.last:
            self.open.close()

    def state(self):
        return {}

    def restore(self, state):
        pass


def traced(objective, prior="StandardNormal", **settings):
    data = DATA.with_auxiliary() if prior == "Conditional" else DATA
    vae = build_vae(
        {"architecture": {"name": "mlp", "widths": [8]}, "latents": 3, "prior": prior}, data.shape, data.auxiliary_size
    )
    window = Window(3, 8)
    defaults = {"steps": 10, "batch_size": 8, "log_every": 9, "progress": False, "hooks": [window]}
    train(vae, registry.build("objective", objective), data, **(defaults | settings))
    return window.tracing


@pytest.mark.parametrize("objective", SETTINGS, ids=lambda spec: "-".join(map(str, spec.values())))
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.filterwarnings("ignore")
def test_no_step_waits_for_the_device(objective, prior):
    tracing = traced(objective, prior)
    assert tracing.operations > 100
    assert tracing.reads == []
    # The images and auxiliary variables of each of the five steps, and nothing else.
    assert len(tracing.constants) == 5 * (2 if prior == "Conditional" else 1)
    assert tracing.generators
    assert all(generator is not None for generator in tracing.generators)


@pytest.mark.parametrize("schedule", registry.names("schedule"))
def test_no_schedule_waits_for_the_device(schedule):
    settings = {"window": 9} if schedule == "plateau" else {}
    assert traced({"name": "BetaVAE"}, schedule={"name": schedule, **settings}).reads == []


def test_the_trace_sees_a_value_that_is_read():
    assert traced({"name": "BetaVAE"}, log_every=5).operations
    assert traced({"name": "BetaVAE"}, schedule={"name": "plateau", "window": 5}).reads == ["_local_scalar_dense"]
