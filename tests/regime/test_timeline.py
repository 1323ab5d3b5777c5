import numpy as np
import pytest

from polarised.errors import DataError
from polarised.regime import Encodings
from polarised.regime.timeline import Timeline, correlated_shares, load_timeline, pairs_by_type

GENERATOR = np.random.default_rng(0)
Z = GENERATOR.normal(size=(500, 3))
ALIVE, DEAD = np.full((500, 3), 0.02), np.ones((500, 3))


def test_types_information_and_correlations_are_kept_for_each_step():
    timeline = Timeline()
    timeline.update(0, 0.01 * Z, variance=DEAD)
    timeline.update(100, np.column_stack([Z[:, 0], Z[:, 0] + 0.1 * Z[:, 1], np.zeros(500)]), log_variance=np.log(ALIVE))
    assert timeline.steps == [0, 100]
    assert timeline.types[0] == ("passive",) * 3
    assert timeline.counts().rows() == [
        (0, 0, 0, 3, pytest.approx(0.0, abs=1e-3)),
        (100, 2, 0, 1, pytest.approx(float(timeline.latest.statistics.kl.sum()))),
    ]
    np.testing.assert_allclose(timeline.correlations[1][0, 1], np.corrcoef(Z[:, 0], Z[:, 0] + 0.1 * Z[:, 1])[0, 1])
    assert timeline.correlations[1][2].tolist() == [0.0, 0.0, 0.0]
    assert timeline.correlated_pairs(threshold=0.2).tolist() == [1, 1, 0]
    assert timeline.table().filter(variable=1, step=100)["type"].item() == "active"


def test_a_collapse_causes_a_single_warning():
    timeline = Timeline()
    timeline.update(4000, Z, variance=ALIVE)
    with pytest.warns(UserWarning, match="^at step 4,200 all 3 variables are passive: lower beta or warm it up$"):
        timeline.update(4200, 0.01 * Z, variance=DEAD)
    timeline.update(4400, 0.01 * Z, variance=DEAD)
    timeline.update(4600, Z, variance=ALIVE)
    with pytest.warns(UserWarning, match="at step 4,800"):
        timeline.update(4800, 0.01 * Z, variance=DEAD)


def test_a_posterior_that_is_the_same_for_all_inputs_warns_too():
    timeline = Timeline()
    timeline.update(4000, Z, variance=ALIVE)
    with pytest.warns(UserWarning, match="^at step 4,200 all 3 variables are nothing but noise, for a KL of 24 nats"):
        timeline.update(4200, 4.0 + 0.01 * Z, variance=DEAD)
    assert timeline.types[-1] == ("passive",) * 3


def test_the_beginning_is_not_a_collapse_but_staying_there_is():
    timeline = Timeline(patience=1000)
    for step in (0, 500):
        timeline.update(step, 0.01 * Z, variance=DEAD)
    assert timeline.collapse() is None
    with pytest.warns(UserWarning, match="at step 1,000"):
        timeline.update(1000, 0.01 * Z, variance=DEAD)


def test_without_warnings_collapse_is_still_reported():
    timeline = Timeline(warn=False)
    timeline.update(2000, 0.01 * Z, variance=DEAD)
    assert timeline.collapse().startswith("at step 2,000")


@pytest.mark.parametrize("keep", ["statistics", "encodings"])
def test_a_restored_state_is_complete(keep):
    timeline = Timeline(keep=keep)
    for step in (0, 10):
        timeline.take(step, Encodings(Z * step, variance=ALIVE))
    again = Timeline(keep=keep)
    again.restore({name: array.copy() for name, array in timeline.state().items()})
    assert again.table().equals(timeline.table())
    np.testing.assert_array_equal(again.correlations, timeline.correlations)
    assert ("mean" in again.state()) == (keep == "encodings")
    again.restore({})
    assert len(again) == 0


def test_a_repeated_step_replaces_the_old_one_and_sizes_must_agree():
    timeline = Timeline()
    timeline.update(5, Z, variance=ALIVE)
    timeline.update(5, Z, variance=DEAD * 0.5)
    assert timeline.types == [("mixed",) * 3]
    with pytest.raises(DataError, match="3 variables as before"):
        timeline.update(6, Z[:, :2], variance=ALIVE[:, :2])


def test_final_types_are_those_of_the_last_step_or_of_the_trained_model(tmp_path):
    timeline = Timeline()
    timeline.update(0, Z, variance=ALIVE)
    timeline.update(5, Z, variance=ALIVE)
    path = timeline.save(tmp_path / "snapshots.npz")
    assert load_timeline(path).final_types == ("active",) * 3
    told = load_timeline(path, final_types=["active", "mixed", "passive"])
    assert told.final_types == ("active", "mixed", "passive")
    assert told.types[-1] == ("active",) * 3
    with pytest.raises(DataError, match="3 variables"):
        load_timeline(path, final_types=["active"])


def test_every_pair_has_one_kind() -> None:
    types = ("active", "mixed", "passive", "active", "passive", "mixed")
    found = pairs_by_type(types)
    pairs = [pair for own in found.values() for pair in zip(*own, strict=True)]
    assert len(pairs) == len(set(pairs)) == 15
    assert {kind: len(own) for kind, (own, _) in found.items()} == {
        "active–active": 1,
        "active–passive": 4,
        "passive–passive": 1,
        "mixed–any": 9,
    }


def test_shares_are_of_pairs_and_moments_and_leave_the_diagonal_out() -> None:
    correlations = np.tile(np.eye(4), (10, 1, 1))
    correlations[:3, 0, 2] = correlations[:3, 2, 0] = -0.5
    correlations[:, 1, 0] = correlations[:, 0, 1] = 0.2
    shares = correlated_shares(correlations, ["active", "active", "passive", "passive"])
    assert shares == {"active–active": 0.0, "active–passive": pytest.approx(3 / 40), "passive–passive": 0.0}
    assert correlated_shares(correlations, ["active"] * 4, threshold=0.1) == {"active–active": pytest.approx(13 / 60)}
