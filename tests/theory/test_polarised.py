"""Distances of the statements, compared with independent computations on draws."""

import numpy as np
import pytest
from scipy.stats import kstest, wasserstein_distance

from polarised import Encodings, diagnose
from polarised.errors import DataError
from polarised.theory import (
    correlation_gap,
    mean_statement,
    mixture_distance,
    sample_distances,
    statements,
    states_of_inputs,
    types_of_states,
    variance_statement,
)

N, DRAWS = 2000, 200


def made(seed=0):
    """Four variables: active, passive, on for two thirds of the inputs, weak for all; each under its own scale."""
    rng = np.random.default_rng(seed)
    on = np.arange(N) % 3 > 0
    mean = np.column_stack(
        [rng.normal(size=N), 0.02 * rng.normal(size=N), np.where(on, rng.normal(size=N), 0.0), 0.7 * rng.normal(size=N)]
    )
    variance = np.column_stack([np.full(N, 0.01), np.full(N, 0.98), np.where(on, 0.02, 1.0), np.full(N, 0.5)])
    scale = np.array([2.0, 0.25, 1.0, 1.0])
    return Encodings(mean * scale, variance=variance * scale**2, prior_variance=scale**2)


def test_distances_are_those_of_many_draws():
    encodings, rng = made(), np.random.default_rng(1)
    found = sample_distances(encodings)
    for j in range(4):
        mean, variance = encodings.mean[:, j], encodings.variance[:, j]
        scale = float(np.sqrt(encodings.prior_variance[j]))
        z = (mean + np.sqrt(variance) * rng.normal(size=(DRAWS, N))).ravel()
        prior = scale * rng.normal(size=len(z))
        assert found.noise_ks[j] == pytest.approx(kstest(z, "norm").statistic, abs=0.01)
        assert found.prior_ks[j] == pytest.approx(kstest(z / scale, "norm").statistic, abs=0.01)
        assert found.prior_wasserstein[j] == pytest.approx(wasserstein_distance(z, prior) / scale, abs=0.01)
        spread = z.std()
        assert found.mean_wasserstein[j] == pytest.approx(wasserstein_distance(z, mean) / spread, abs=0.015)


def test_a_diagnosis_shows_the_statements_on_request():
    encodings = made()
    diagnosis = diagnose(encodings)
    table, told = diagnosis.table(theory=True), statements(encodings)
    added = [name for name in told.columns if name != "variable"]
    assert {"noise_ks", "prior_ks", "mean_wasserstein"} <= set(added)
    assert table.select(added).equals(told.select(added))
    assert table.drop(added).equals(diagnosis.table())


def test_the_statements_distinguish_the_types():
    encodings = made()
    found = sample_distances(encodings)
    # Theorem 5: active as its mean, passive as the prior (not as N(0, 1), whose scale it does not have).
    assert found.mean_wasserstein[0] < 0.05
    assert found.prior_ks[1] < 0.02 < 0.25 < found.noise_ks[1]
    assert types_of_states(states_of_inputs(encodings)) == ("active", "passive", "mixed", "neither")
    means, variances = mean_statement(encodings), variance_statement(encodings)
    assert means.variance[1] < 0.01 < 0.5 < means.variance[0]
    assert means.offset.max() < 0.1
    assert variances.level == pytest.approx([0.01, 0.98, 0.02 * 2 / 3 + 1 / 3, 0.5], abs=0.01)
    assert variances.spread.argmax() == 2
    table = statements(encodings)
    assert table["active_inputs"].to_list() == pytest.approx([1.0, 0.0, 2 / 3, 0.0], abs=0.01)


def test_a_mixed_variable_is_a_mixture_of_noise_and_its_means():
    c, distance = mixture_distance(made(), 2)
    assert c == pytest.approx(1 / 3, abs=0.01)
    assert distance < 0.05
    with pytest.raises(DataError, match="on for some inputs"):
        mixture_distance(Encodings(np.zeros((9, 1)), variance=np.ones((9, 1))), 0)


def test_a_passive_mean_follows_a_learned_prior_mean():
    rng = np.random.default_rng(2)
    known = rng.normal(size=(N, 1))
    driven = Encodings(known, variance=np.full((N, 1), 0.01), prior_mean=known, prior_variance=np.full((N, 1), 0.01))
    statement = mean_statement(driven)
    assert statement.offset[0] == 0.0
    assert statement.variance[0] == pytest.approx(statement.prior_variance[0])
    assert sample_distances(driven).prior_ks[0] < 1e-9
    assert states_of_inputs(driven).mean() == 2.0


def test_the_gap_of_active_variables_closes_unless_their_means_are_nearly_dependent():
    rng = np.random.default_rng(3)
    means = rng.normal(size=(N, 2))
    apart = Encodings(means, variance=np.full((N, 2), 0.01))
    assert correlation_gap(apart, [0, 1]) < 1e-3
    assert correlation_gap(apart, [0]) == 0.0
    twins = Encodings(means[:, :1] + 0.01 * rng.normal(size=(N, 2)), variance=np.full((N, 2), 0.01))
    assert correlation_gap(twins, [0, 1]) > 1.0
