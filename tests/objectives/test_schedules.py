import json
import math
from itertools import pairwise

import pytest
import torch

from polarised import registry
from polarised.errors import ConfigError
from polarised.models import build_vae
from polarised.objectives import AnnealedVAE, BetaTCVAE, BetaVAE, take_step
from polarised.objectives.schedules import in_steps, level


def factors(spec, steps, losses=()):
    schedule = registry.build("schedule", spec, steps)
    return [schedule(number, losses) for number in range(steps)]


@pytest.mark.parametrize("name", registry.names("schedule"))
def test_every_schedule_is_a_pure_function_between_zero_and_one(name):
    first, again = factors(name, 200), factors(name, 200)
    assert first == again
    assert all(0 <= factor <= 1 for factor in first)
    assert max(first) == 1.0


@pytest.mark.parametrize("name", registry.names("schedule"))
def test_every_schedule_survives_serialisation(name):
    spec = json.loads(json.dumps(registry.complete("schedule", name)))
    assert registry.complete("schedule", spec) == spec
    assert factors(spec, 100) == factors(name, 100)


def test_a_share_equals_the_same_length_in_steps():
    assert factors({"name": "cosine", "warm_up": 0.1, "hold": 0.4}, 100) == factors(
        {"name": "cosine", "warm_up": 10, "hold": 40}, 100
    )


def test_the_whole_run_is_the_share_one_and_a_single_step_the_number_one():
    assert (in_steps(1.0, 500), in_steps(1, 500)) == (500, 1)


@pytest.mark.parametrize("wrong", [-1, 1.5, math.nan, True])
def test_a_length_that_is_neither_steps_nor_a_share_is_refused(wrong):
    with pytest.raises(ConfigError, match="whole number of steps or a share"):
        in_steps(wrong, 100)


def test_cosine_holds_then_falls_to_its_end():
    found = factors({"name": "cosine", "hold": 50, "end": 0.2}, 100)
    assert found[:51] == [1.0] * 51
    assert all(a > b for a, b in pairwise(found[50:]))
    assert found[75] == pytest.approx(0.6)


def test_warm_up_begins_above_zero_and_multiplies_the_rest():
    found = factors({"name": "step", "at": [0.5], "factor": 0.1, "warm_up": 4}, 8)
    assert found == pytest.approx([0.25, 0.5, 0.75, 1.0, 0.1, 0.1, 0.1, 0.1])


def test_plateau_waits_restarts_after_a_decrease_and_stops_at_its_minimum():
    schedule = registry.build("schedule", {"name": "plateau", "patience": 2, "factor": 0.1, "least": 0.05}, 100)
    falling = [10.0, 9.0, 8.0, 7.0]
    assert schedule(99, falling) == 1.0
    assert schedule(99, [*falling, 7.0]) == 1.0
    assert schedule(99, [*falling, 7.0, 7.0]) == pytest.approx(0.1)
    assert schedule(99, [*falling, 7.0, 6.0, 6.0]) == 1.0
    assert schedule(99, [*falling, *[7.0] * 20]) == 0.05


def test_plateau_recognises_a_decrease_of_a_negative_loss():
    schedule = registry.build("schedule", {"name": "plateau", "patience": 1, "threshold": 0.1}, 100)
    assert schedule(99, [-10.0, -12.0]) == 1.0
    assert schedule(99, [-10.0, -10.5]) == 0.5


def test_cycles_restart_and_reach_the_full_weight():
    found = factors({"name": "cyclical", "cycles": 4, "rise": 0.5}, 400)
    assert [found[start] for start in (0, 100, 200, 300)] == [0.0] * 4
    assert found[25] == pytest.approx(0.5)
    assert found[50:100] == [1.0] * 50


def a_step(number, steps):
    vae = build_vae({"architecture": {"name": "mlp", "widths": [8]}, "latents": 2}, (1, 4, 4))
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(4, 1, 4, 4, generator=generator)
    return take_step(vae, x, number=number, steps=steps, dataset_size=100, generator=generator)


@pytest.mark.parametrize("ramp", ["cyclical", {"name": "linear", "length": 0.5}])
def test_a_ramp_multiplies_the_weight_of_the_objective(ramp):
    step = a_step(10, 200)
    share = level(10, 200, ramp=ramp)
    assert 0 < share < 1
    rate = BetaVAE(beta=1.0)(step)["rate"]
    assert BetaVAE(beta=4.0, ramp=ramp)(step)["rate"].item() == pytest.approx(4 * share * rate.item())
    capacity = AnnealedVAE(gamma=1.0, c_max=50.0, ramp=ramp)(step)["capacity"]
    assert capacity.item() == pytest.approx(abs(rate.item() - 50 * share), rel=1e-5)
    whole = BetaTCVAE(beta=3.0)(step)["total_correlation"]
    assert BetaTCVAE(beta=3.0, ramp=ramp)(step)["total_correlation"].item() == pytest.approx(share * whole.item())


def test_a_warm_up_may_be_a_share_of_the_run():
    step = a_step(30, 200)
    by_share, by_steps = BetaVAE(warm_up=0.5)(step)["rate"], BetaVAE(warm_up=100)(step)["rate"]
    assert by_share.item() == by_steps.item() == pytest.approx(0.3 * BetaVAE()(step)["rate"].item())


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        (BetaVAE(beta=4.0, ramp={"name": "linear", "length": 200}), "beta reaches 1.98 of 4 in this run"),
        (AnnealedVAE(c_max=25.0, ramp={"name": "linear", "length": 200}), "the capacity reaches 12.4 of 25"),
        (BetaTCVAE(beta=3.0, ramp={"name": "linear", "length": 200}), "beta - 1 reaches 0.99 of 2"),
    ],
)
def test_a_ramp_longer_than_the_run_is_reported(objective, words):
    (sentence,) = objective.warnings(steps=100, dataset_size=1000)
    assert words in sentence
    assert not objective.warnings(steps=400, dataset_size=1000)


@pytest.mark.parametrize("name", ["cyclical", "cosine"])
def test_a_ramp_that_reaches_its_weight_is_not_reported(name):
    assert not BetaVAE(beta=4.0, ramp=name).warnings(steps=100, dataset_size=1000)


def test_plateau_is_refused_as_a_ramp_of_a_weight():
    with pytest.raises(ConfigError, match="depends only on the step"):
        BetaVAE(ramp="plateau")(a_step(0, 100))


def test_a_ramp_in_a_config_is_validated_and_completed():
    assert registry.complete("objective", {"name": "BetaVAE", "ramp": "linear"})["ramp"] == {
        "name": "linear",
        "length": 0.1,
        "start": 0.0,
    }
    with pytest.raises(ConfigError, match="did you mean 'linear'"):
        registry.complete("objective", {"name": "BetaVAE", "ramp": "linaer"})
    with pytest.raises(ConfigError, match=r"^BetaVAE\.ramp: linear has no setting 'steps'"):
        registry.complete("objective", {"name": "BetaVAE", "ramp": {"name": "linear", "steps": 5}})
