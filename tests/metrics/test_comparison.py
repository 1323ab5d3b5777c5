import numpy as np
import pytest

from polarised import Encodings, classify, compare
from polarised.errors import DataError
from polarised.metrics import effective_rank, mutual_information, total_correlation
from polarised.metrics.evaluation import subsets

N = 4000


@pytest.fixture(scope="module")
def encodings():
    """Two active, one mixed and two passive variables whose means are copies of an active one."""
    generator = np.random.default_rng(0)
    first, second = generator.standard_normal((2, N))
    on = generator.random(N) < 0.5
    mean = np.stack([first, second, np.where(on, second, 0.0), 0.03 * first, 0.05 * first], 1)
    variance = np.stack([np.full(N, 0.02)] * 2 + [np.where(on, 0.02, 0.99)] + [np.full(N, 0.98)] * 2, 1)
    return Encodings(mean + 1e-4 * generator.standard_normal(mean.shape), variance=variance)


def test_the_subsets_are_those_of_the_paper(encodings):
    regime = classify(encodings)
    assert subsets(regime) == {
        "full": [0, 1, 2, 3, 4],
        "active": [0, 1],
        "mixed": [2],
        "passive": [3, 4],
        "active_mixed": [0, 1, 2],
        "active_passive": [0, 1, 3, 4],
        "mixed_passive": [2, 3, 4],
    }


def test_every_value_equals_the_metric_on_the_chosen_columns(encodings):
    regime = classify(encodings)
    scores = compare(encodings, regime, seed=3)
    values = {tuple(row[:3]): row[3] for row in scores.iter_rows()}
    codes = {"mean": encodings.mean, "sampled": encodings.sample(seed=3)}
    for (metric, representation, variables), value in values.items():
        columns = codes[representation][:, subsets(regime)[variables]]
        plain = {
            "total_correlation": total_correlation,
            "mutual_information": mutual_information,
            "effective_rank": effective_rank,
        }
        if metric in plain:
            np.testing.assert_allclose(value, plain[metric](columns), rtol=1e-9, atol=1e-12)
    assert ("total_correlation", "mean", "mixed") not in values
    assert len(values) == 4 * 2 * 6


def test_passive_variables_make_the_mean_look_correlated_and_the_sample_not(encodings):
    scores = compare(encodings, classify(encodings))
    values = {tuple(row[:3]): row[3] for row in scores.iter_rows()}
    assert values["total_correlation", "mean", "full"] > 10 * values["total_correlation", "sampled", "full"]
    alive = values["total_correlation", "mean", "active"], values["total_correlation", "sampled", "active"]
    assert abs(alive[0] - alive[1]) < 0.005


def test_plain_arrays_are_refused(encodings):
    with pytest.raises(DataError, match="expected Encodings, got ndarray"):
        compare(encodings.mean, classify(encodings))


def test_a_regime_of_another_model_is_refused(encodings):
    with pytest.raises(DataError, match="same 2 variables"):
        compare(encodings.keep([0, 1]), classify(encodings))


@pytest.mark.parametrize(
    ("kept", "alive"), [([0, 1, 2, 3], [0, 1, 2]), ([0, 1, 3, 4], [0, 1]), ([2, 3], [2]), ([3, 4], [])]
)
def test_without_passive_is_scored_in_every_model(encodings, kept, alive):
    own = encodings.keep(kept)
    scores = compare(own, classify(own), without_passive=True, seed=3)
    values = {tuple(row[:2]): row[3] for row in scores.iter_rows() if row[2] == "alive"}
    columns = own.sample(seed=3)[:, [kept.index(j) for j in alive]]
    assert len(values) == 4 * 2
    expected = total_correlation(columns) if len(alive) > 1 else 0.0
    assert values["total_correlation", "sampled"] == pytest.approx(expected)
    if len(alive) < 2:
        assert values["mutual_information", "mean"] == values["wasserstein_correlation", "mean"] == 0.0
        assert values["effective_rank", "mean"] == len(alive)
    assert "alive" not in compare(own, classify(own))["variables"].to_list()
