from itertools import pairwise

import numpy as np
import pytest
import torch

from polarised.data import dsprites
from polarised.errors import ConfigError, TrainingError
from polarised.models import build_vae
from polarised.objectives import AnnealedVAE, BetaTCVAE, BetaVAE, FactorVAE
from polarised.objectives.schedules import constant, in_steps
from polarised.training import Settling, has_settled, train
from polarised.training.pace import Pace, never_settles

CONFIG = {"architecture": {"name": "mlp", "widths": [16]}, "latents": 4}
DATA = dsprites(size=32)

SCHEDULES = [
    {"name": "constant", "warm_up": 6},
    {"name": "cosine", "warm_up": 0.2, "end": 0.1},
    {"name": "step", "at": [0.3, 12]},
    {"name": "plateau", "window": 3, "patience": 1, "threshold": 0.5},
    {"name": "linear", "length": 0.5},
    {"name": "cyclical", "cycles": 3},
]


def model(seed=0):
    return build_vae(CONFIG, DATA.shape, seed=seed)


def fit(vae, objective=None, **settings):
    defaults = {"steps": 20, "batch_size": 8, "learning_rate": 1e-3, "log_every": 5, "progress": False}
    return train(vae, objective or BetaVAE(beta=2.0), DATA, **(defaults | settings))


def agree(first, second):
    return all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


class Kill:
    """A hook that ends the run after some steps without a last checkpoint, as a machine failure does."""

    every = 1

    def __init__(self, at):
        self.at = at

    def __call__(self, step, vae):
        if step == self.at:
            raise ConnectionError("killed")

    def state(self):
        return {}

    def restore(self, state):
        pass


class Rates:
    """A hook that records how far the weights moved at each step."""

    every = 1

    def __init__(self):
        self.before, self.moves = None, []

    def __call__(self, step, vae):
        now = torch.cat([p.detach().flatten() for p in vae.parameters()])
        if self.before is not None:
            self.moves.append(float((now - self.before).abs().max()))
        self.before = now

    def state(self):
        return {}

    def restore(self, state):
        pass


@pytest.mark.parametrize("kill", [1, 5, 7, 14])
@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda spec: spec["name"])
def test_a_killed_run_resumes_exactly_under_every_schedule(tmp_path, schedule, kill):
    whole = model()
    expected = fit(whole, schedule=schedule)
    with pytest.raises(ConnectionError):
        fit(model(), schedule=schedule, directory=tmp_path, checkpoint_every=3, hooks=[Kill(kill)])
    resumed = model(seed=9 if kill > 3 else 0)
    history = fit(resumed, schedule=schedule, directory=tmp_path, checkpoint_every=3)
    assert agree(whole, resumed)
    np.testing.assert_array_equal(history.loss, expected.loss)


@pytest.mark.parametrize("kind", [BetaVAE, BetaTCVAE, AnnealedVAE])
@pytest.mark.parametrize("ramp", ["cyclical", {"name": "linear", "length": 0.4}])
def test_a_killed_run_resumes_exactly_under_every_ramp(tmp_path, ramp, kind):
    objective, whole, resumed = kind(ramp=ramp), model(), model(seed=9)
    fit(whole, objective)
    with pytest.raises(ConnectionError):
        fit(model(), objective, directory=tmp_path, checkpoint_every=3, hooks=[Kill(11)])
    fit(resumed, objective, directory=tmp_path, checkpoint_every=3)
    assert agree(whole, resumed)


def test_the_constant_schedule_does_not_change_the_results():
    plain, named = model(), model()
    fit(plain), fit(named, schedule={"name": "constant", "warm_up": 0})
    assert agree(plain, named)


def test_the_weights_move_as_the_schedule_says():
    rates = Rates()
    fit(model(), schedule={"name": "step", "at": [10], "factor": 0.0}, hooks=[rates])
    assert min(rates.moves[:10]) > 0
    assert rates.moves[10:] == [0.0] * 10


def test_the_critic_follows_the_schedule_too():
    objective = FactorVAE(critic_layers=1, critic_width=8, critic_learning_rate=0.1)
    still = fit(model(), objective, schedule={"name": "step", "at": [0], "factor": 0.0}, log_every=1)
    # A critic that never learns separates no more at the end than at the beginning.
    moved = fit(model(), objective, log_every=1)
    assert still.terms["critic"][0] == moved.terms["critic"][0]
    assert abs(still.terms["critic"][1:] - moved.terms["critic"][1:]).min() > 0


def test_a_checkpoint_of_another_schedule_or_length_is_refused(tmp_path):
    with pytest.raises(ConnectionError):
        fit(model(), schedule="cosine", directory=tmp_path, checkpoint_every=3, hooks=[Kill(7)])
    with pytest.raises(TrainingError, match="differs in schedule"):
        fit(model(), schedule="step", directory=tmp_path)
    with pytest.raises(TrainingError, match="differs in steps"):
        fit(model(), schedule="cosine", steps=40, directory=tmp_path)


def looks(*kls):
    """Evaluations every 100 steps of variables of the given KL, with types by a threshold."""
    steps = [100 * (i + 1) for i in range(len(kls))]
    return steps, [tuple("active" if k > 0.5 else "passive" for k in kl) for kl in kls], np.array(kls)


def drift(t):
    """The change of a KL of 3 + exp(-t / 400), evaluated every 50 steps, between the halves of the last third."""
    recent = [3 + np.exp(-step / 400) for step in range(50, t + 1, 50) if 3 * step >= 2 * t]
    half = len(recent) // 2
    return np.mean(recent[:half]) - np.mean(recent[half:]), np.mean(recent[half:])


def test_a_converging_variable_has_settled_once_the_last_third_is_stable():
    steps = list(range(50, 5001, 50))
    kl, types = 3 + np.exp(-np.array(steps) / 400)[:, None], [("active",)] * len(steps)
    found = next(n for n in range(4, 100) if has_settled(steps[:n], types[:n], kl[:n], nats=0.0, share=0.01))
    (moved, size), (earlier, larger) = drift(steps[found - 1]), drift(steps[found - 2])
    assert moved <= 0.01 * size
    assert earlier > 0.01 * larger
    assert 600 < steps[found - 1] < 1500


def test_noise_around_a_fixed_value_is_not_drift():
    steps, types = list(range(10, 3001, 10)), [("active",)] * 300
    noise = np.random.default_rng(0).normal(size=(300, 1))
    assert has_settled(steps, types, 2.5 + 0.05 * noise)
    assert not has_settled(steps, types, 2.5 + 0.05 * noise + np.linspace(0, 1, 300)[:, None])


BEFORE = [[9.0, 9.0]] * 5


def test_a_type_that_changed_within_the_last_third_is_not_settled():
    still = [[0.505, 1.0]] * 5
    assert has_settled(*looks(*BEFORE, *still))
    assert not has_settled(*looks(*BEFORE, still[0], [0.495, 1.0], *still[2:]))


def test_the_larger_tolerance_applies_and_every_variable_counts():
    assert has_settled(*looks(*BEFORE, [5.0, 0.01], [5.0, 0.01], [5.045, 0.025], [5.045, 0.025]))
    assert not has_settled(*looks(*BEFORE, [5.0, 0.01], [5.0, 0.01], [5.06, 0.01], [5.06, 0.01]))
    assert not has_settled(*looks(*BEFORE, [5.0, 0.01], [5.0, 0.01], [5.0, 0.04], [5.0, 0.04]))


def test_fewer_than_four_evaluations_are_not_settled():
    assert not has_settled(*looks([1.0], [1.0], [1.0], [1.0], [1.0], [1.0]))


@pytest.mark.parametrize("least", [100, 130, 0.6])
def test_a_model_that_does_not_move_settles_at_the_minimum_number_of_steps(least):
    vae = model()
    history = fit(vae, steps=250, learning_rate=1e-12, settling=Settling(least=least, every=10, decay=0.2, examples=50))
    settled = round(0.6 * 250) if least == 0.6 else least
    assert history.settled_step == settled
    assert history.steps[-1] == settled + round(0.2 * settled)


def test_a_model_that_keeps_moving_ends_at_the_maximum_number_of_steps_and_reports_it():
    history = fit(
        model(), steps=60, learning_rate=3e-2, settling=Settling(least=10, every=2, decay=0.5, nats=1e-9, share=1e-9)
    )
    assert history.settled_step is None
    assert history.steps[-1] == 60


def test_the_rate_is_constant_until_the_model_has_settled_and_then_falls_to_zero():
    pace = Pace(constant(300), Settling(decay=0.5), DATA, steps=300, seed=0)
    assert pace.end == 300
    assert [pace.factor(number) for number in (0, 100, 199, 200)] == [1.0] * 4
    pace.settled_step = pace._phase = 120
    assert pace.end == 180
    fall = [pace.factor(number) for number in range(119, 180)]
    assert fall[:2] == [1.0, 1.0]
    assert all(a > b for a, b in pairwise(fall[1:]))
    assert 0 < fall[-1] < 0.01


@pytest.mark.parametrize("kill", [13, 33, 45])
def test_a_killed_run_settles_at_the_same_step(tmp_path, kill):
    settling = Settling(least=20, every=5, decay=0.5, nats=0.5, share=0.5, examples=40)
    whole, resumed = model(), model(seed=9)
    expected = fit(whole, steps=90, settling=settling)
    assert expected.settled_step is not None
    assert kill < expected.steps[-1]
    with pytest.raises(ConnectionError):
        fit(model(), steps=90, settling=settling, directory=tmp_path, checkpoint_every=3, hooks=[Kill(kill)])
    history = fit(resumed, steps=90, settling=settling, directory=tmp_path, checkpoint_every=3)
    assert agree(whole, resumed)
    assert history.settled_step == expected.settled_step
    again = fit(model(seed=3), steps=90, settling=settling, directory=tmp_path)
    assert again.settled_step == expected.settled_step


@pytest.mark.parametrize(("least", "every"), [(40, 5), (46, 5), (4000, 200), (0.2, 0.01), (10, 300), (7, 1), (1, 90)])
def test_the_shortest_run_is_that_of_a_model_that_never_changes(least, every):
    settling, steps = Settling(least=least, every=every), 10_000
    first, interval = in_steps(least, steps), in_steps(every, steps)
    looks: list[int] = []
    for step in range(interval, steps, interval):
        looks.append(step)
        if step >= first and has_settled(looks, [("active",)] * len(looks), [[1.0]] * len(looks)):
            break
    assert settling.fewest(steps) == looks[-1] + settling.fall(looks[-1])


@pytest.mark.parametrize("steps", [40, 89, 90, 500])
@pytest.mark.parametrize("every", [1, 7, 8, 44, 45])
def test_a_run_that_is_evaluated_too_rarely_to_settle_is_reported(steps, every):
    settling = Settling(least=1, every=every)
    looks = list(range(every, settling.most(steps) + 1, every))
    settles = any(has_settled(looks[:n], [("active",)] * n, [[1.0]] * n) for n in range(1, len(looks) + 1))
    assert bool(never_settles(settling, steps)) != settles


def test_a_run_is_told_that_its_schedule_or_settling_does_not_fit():
    with pytest.warns(UserWarning, match="the learning rate reaches 0.5 of its value"):
        fit(model(), schedule={"name": "cosine", "warm_up": 40})
    with pytest.warns(UserWarning, match="lower settling.every from 5 to 1"):
        fit(model(), settling=Settling(least=4, every=5))


def test_settling_never_takes_more_than_the_steps():
    for steps in range(1, 400):
        for decay in (0.0, 0.1, 0.25, 1 / 3, 1.0):
            settling = Settling(decay=decay)
            most = settling.most(steps)
            assert most + settling.fall(most) <= steps
            # A run that ends before it may settle has its longest phase.
            assert Settling(decay=decay, every=steps).fewest(steps) == most + settling.fall(most)


def test_incompatible_settings_are_refused():
    with pytest.raises(ConfigError, match="its own decay, got cosine"):
        fit(model(), schedule="cosine", settling=Settling())
    with pytest.raises(ConfigError, match=r"settling.least from 1 to 16, so that phase and decay fit into 20 steps"):
        fit(model(), settling=Settling(least=18))
    with pytest.raises(ConfigError, match="2 examples or more"):
        Settling(examples=1)
