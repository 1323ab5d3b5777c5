import numpy as np
import pytest
import torch

from polarised.data import dsprites
from polarised.errors import ConfigError, TrainingError
from polarised.models import build_vae
from polarised.objectives import ELBO, BetaVAE
from polarised.training import train
from polarised.training.history import CHECKPOINT, Records, load_checkpoint
from polarised.training.loop import _Adam

CONFIG = {"architecture": {"name": "mlp", "widths": [16]}, "latents": 4}
DATA = dsprites(size=32)


def model(seed=0):
    return build_vae(CONFIG, DATA.shape, seed=seed)


def weights(vae):
    return {name: value.clone() for name, value in vae.state_dict().items()}


def fit(vae, **settings):
    defaults = {"steps": 12, "batch_size": 8, "learning_rate": 1e-3, "log_every": 5, "progress": False}
    return train(vae, BetaVAE(beta=2.0), DATA, **(defaults | settings))


def test_history_has_every_term_and_the_open_window_last():
    history = fit(model())
    assert history.steps.tolist() == [5, 10, 12]
    assert set(history.terms) == {"distortion", "rate"}
    table = history.table()
    np.testing.assert_allclose(table["loss"], table["distortion"] + table["rate"])


def test_seconds_continue_after_a_resume_without_the_pause():
    before = Records(every=5)
    before.take(1, ["loss"], torch.tensor([1.0]))
    before.flush()
    state = before.state() | {"history.seconds": np.array([100.0])}
    after = Records(every=5)
    after.restore(state, step=1)
    assert 100.0 <= after.history().seconds < 110.0


def test_training_lowers_the_loss():
    history = fit(model(), steps=150, log_every=10)
    assert history.loss[-1] < 0.5 * history.loss[0]


def test_the_same_seed_gives_the_same_weights_and_another_seed_does_not():
    first, second, other = model(), model(), model()
    fit(first), fit(second), fit(other, seed=1)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first.parameters(), other.parameters(), strict=True))


def test_training_neither_reads_nor_moves_the_global_random_state():
    torch.manual_seed(3)
    first = model()
    before = torch.get_rng_state()
    fit(first)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(4)
    second = model()
    fit(second)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


@pytest.mark.parametrize(("stop", "precision"), [(1, "float32"), (5, "float32"), (7, "float32"), (7, "bfloat16")])
def test_a_stopped_run_continues_to_bit_identical_weights_and_history(tmp_path, stop, precision):
    whole = model()
    expected = fit(whole, precision=precision)
    fit(model(), steps=stop, directory=tmp_path, precision=precision)
    resumed = model(seed=9)
    history = fit(resumed, directory=tmp_path, precision=precision)
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), resumed.parameters(), strict=True))
    np.testing.assert_array_equal(history.loss, expected.loss)
    np.testing.assert_array_equal(history.steps, expected.steps)


def test_bfloat16_follows_single_precision_and_keeps_weights_and_loss_in_it():
    single, half = model(), model()
    expected, history = fit(single, steps=60), fit(half, steps=60, precision="bfloat16")
    assert all(parameter.dtype == torch.float32 for parameter in half.parameters())
    assert not np.array_equal(history.loss, expected.loss)
    # A product in bfloat16 has a relative error of at most 2^-8.
    np.testing.assert_allclose(history.loss, expected.loss, rtol=2**-8)


def test_a_checkpoint_of_another_precision_is_refused(tmp_path):
    fit(model(), steps=5, directory=tmp_path)
    with pytest.raises(TrainingError, match="differs in precision"):
        fit(model(), directory=tmp_path, precision="bfloat16")


def test_a_finished_run_is_not_trained_again(tmp_path):
    first = fit(model(), directory=tmp_path)
    again = model(seed=5)
    second = fit(again, directory=tmp_path)
    np.testing.assert_array_equal(first.loss, second.loss)


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    fit(model(), directory=tmp_path)
    with pytest.raises(TrainingError, match="differs in objective, learning rate"):
        train(model(), ELBO(), DATA, steps=20, batch_size=8, directory=tmp_path, progress=False)


def test_a_broken_checkpoint_is_refused_with_the_remedy(tmp_path):
    (tmp_path / CHECKPOINT).write_bytes(b"half a file")
    with pytest.raises(TrainingError, match="delete it to start afresh"):
        fit(model(), directory=tmp_path)


class Diverging(ELBO):
    def __call__(self, step):
        terms = super().__call__(step)
        return terms | {"penalty": terms["rate"] * (float("nan") if step.number >= 7 else 0.0)}


def test_a_term_that_is_not_finite_stops_and_keeps_the_last_good_checkpoint(tmp_path):
    settings = {"steps": 20, "batch_size": 8, "checkpoint_every": 3, "directory": tmp_path, "progress": False}
    with pytest.raises(TrainingError, match=r"penalty became nan at step 8; .*; the checkpoint of step 6 is kept"):
        train(model(), Diverging(), DATA, **settings)
    vae = model()
    optimiser = torch.optim.Adam(vae.parameters())
    found = load_checkpoint(tmp_path, {}, {"vae": vae}, optimiser)
    assert found.step == 6
    assert all(torch.isfinite(p).all() for p in vae.parameters())


@pytest.mark.parametrize("where", ["nowhere", "folder"])
def test_the_error_mentions_no_checkpoint_if_none_was_written(tmp_path, where):
    directory = tmp_path if where == "folder" else None
    settings = {"steps": 20, "batch_size": 8, "checkpoint_every": 10, "directory": directory, "progress": False}
    with pytest.raises(TrainingError, match="no checkpoint was written"):
        train(model(), Diverging(), DATA, **settings)


class Flat(ELBO):
    """The ELBO with a penalty on the derivative of the outputs with respect to the codes."""

    def __call__(self, step):
        (slope,) = torch.autograd.grad(step.outputs.sum(), step.z, create_graph=True)
        return {**super().__call__(step), "slope": (slope**2).sum() / len(step.z)}


def test_an_objective_of_others_may_differentiate_inside_a_step():
    history = train(model(), Flat(), dsprites(size=32), steps=60, batch_size=32, log_every=20)
    assert history.terms["slope"][-1] < history.terms["slope"][0]


def test_a_hook_on_a_module_is_called_also_if_a_training_hook_registers_it():
    seen = []

    class Registering(Watching):
        def __call__(self, step, vae):
            if step == 4:
                vae.decoder.register_forward_hook(lambda *_: seen.append(True))

    fit(model(), steps=8, hooks=[Registering()])
    assert len(seen) == 4


@pytest.mark.parametrize("flushing", [False, True])
def test_the_way_in_which_tiny_numbers_are_rounded_is_left_as_it_was(flushing):
    def keeps_tiny_numbers():
        return bool(torch.tensor(1e-39) * 1)

    try:
        if not torch.set_flush_denormal(flushing):
            pytest.skip("this CPU cannot round tiny numbers to zero")
        fit(model(), steps=3)
        assert keeps_tiny_numbers() is not flushing
    finally:
        torch.set_flush_denormal(False)


def test_averages_of_unused_weights_are_rounded_to_zero_once_they_are_tiny():
    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU cannot round tiny numbers to zero")
    torch.set_flush_denormal(False)
    layer = torch.nn.Linear(10, 10)
    optimiser = _Adam([{"params": list(layer.parameters())}], lr=0.01, fused=True)
    for _ in range(2):
        for weight in layer.parameters():
            weight.grad = torch.zeros_like(weight)
            if optimiser.state:
                optimiser.state[weight]["exp_avg"].fill_(1e-39)
        optimiser.update()
    averages = [optimiser.state[weight]["exp_avg"] for weight in layer.parameters()]
    assert not any(average.any() for average in averages)


class Watching:
    every = 4

    def __init__(self):
        self.seen = []

    def __call__(self, step, vae):
        self.seen.append(step)

    def state(self):
        return {"seen": np.array(self.seen)}

    def restore(self, state):
        self.seen = state["seen"].tolist()


def test_hooks_are_called_at_the_start_at_intervals_and_at_the_end_and_survive_a_resume(tmp_path):
    hook = Watching()
    fit(model(), steps=10, hooks=[hook])
    assert hook.seen == [0, 4, 8, 10]
    fit(model(), steps=6, hooks=[Watching()], directory=tmp_path)
    resumed = Watching()
    fit(model(), steps=10, hooks=[resumed], directory=tmp_path)
    assert resumed.seen == [0, 4, 6, 8, 10]


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"batch_size": 1}, {"checkpoint_every": 0}, {"log_every": 0}])
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ConfigError, match="at least 1"):
        fit(model(), **wrong)


def test_an_unknown_precision_is_refused():
    with pytest.raises(ConfigError, match="float32 or bfloat16, got 'float16'"):
        fit(model(), precision="float16")


@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("lost", [None, 4])
def test_the_fused_update_equals_that_of_torch(amsgrad, lost):
    def layers():
        torch.manual_seed(0)
        return torch.nn.Linear(5, 3), torch.nn.Linear(3, 2)

    def groups(first, second):
        return [
            {"params": list(first.parameters()), "lr": 0.1},
            {"params": list(second.parameters()), "betas": (0.5, 0.9)},
        ]

    ours, theirs = layers(), layers()
    short = _Adam(groups(*ours), lr=0.01, amsgrad=amsgrad, fused=True)
    plain = torch.optim.Adam(groups(*theirs), lr=0.01, amsgrad=amsgrad, fused=True)
    for step in range(8):
        x = torch.randn(7, 5, generator=torch.Generator().manual_seed(step))
        for (first, second), optimiser, update in ((ours, short, short.update), (theirs, plain, plain.step)):
            optimiser.zero_grad(set_to_none=True)
            second(first(x)).square().sum().backward()
            if step == lost:
                first.bias.grad = None
            optimiser.param_groups[0]["lr"] = 0.1 / (1 + step)
            update()
    assert short._ready
    for mine, other in zip(
        (p for m in ours for p in m.parameters()), (p for m in theirs for p in m.parameters()), strict=True
    ):
        assert torch.equal(mine, other)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_compiled_networks_train_the_same_and_are_restored(tmp_path):
    plain, compiled = model(), model()
    names = list(compiled.state_dict())
    expected = fit(plain, steps=4)
    history = fit(compiled, steps=4, compiled=True, directory=tmp_path)
    np.testing.assert_allclose(history.loss, expected.loss, rtol=1e-5)
    assert list(compiled.state_dict()) == names
    assert compiled.encoder._compiled_call_impl is None
    assert compiled.decoder._compiled_call_impl is None
    with pytest.raises(TrainingError, match="differs in compiled"):
        fit(model(), steps=8, directory=tmp_path)
