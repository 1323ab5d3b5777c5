"""Theorems 7 and 8 of Be More Active, theorem 1 and figure 1 of RTC-VAE."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from polarised.theory import (
    averaged_mutual_information,
    gaussian_total_correlation,
    hidden_correlation,
    noisy_total_correlation_limit,
    with_passive,
)

COVARIANCE = np.array([[1.0, 0.5, 0.2], [0.5, 2.0, -0.3], [0.2, -0.3, 0.7]])
ORACLE = json.loads((Path(__file__).parents[1] / "oracles" / "estimators" / "gaussian_tc.json").read_text())


def cases():
    entries = ORACLE if isinstance(ORACLE, list) else ORACLE.values()
    flat = [entry for group in entries for entry in (group if isinstance(group, list) else [group])]
    return [entry for entry in flat if isinstance(entry, dict) and "covariance" in entry and "tc" in entry]


def test_total_correlation_of_the_oracles():
    found = cases()
    assert found
    for case in found:
        if case["tc"] is not None and math.isfinite(case["tc"]):
            assert gaussian_total_correlation(np.array(case["covariance"])) == pytest.approx(
                case["tc"], rel=1e-9, abs=1e-12
            )


@pytest.mark.parametrize("count", [1, 3, 10])
@pytest.mark.parametrize("variance", [0.02, 1.0, 9.0])
def test_theorem_7(count, variance):
    whole = with_passive(COVARIANCE, count, variance=variance)
    assert gaussian_total_correlation(whole) == pytest.approx(gaussian_total_correlation(COVARIANCE), abs=1e-12)


def test_theorem_8():
    alone = averaged_mutual_information(COVARIANCE)
    previous = alone
    for count in range(1, 8):
        value = averaged_mutual_information(with_passive(COVARIANCE, count))
        assert value < previous
        assert value == pytest.approx(alone * 3 * 2 / ((3 + count) * (2 + count)))
        previous = value


def test_theorems_7_and_8_on_drawn_codes():
    """With a finite sample the passive variables add only the bias of the estimator, d(d - 1)/4n."""
    generator = np.random.default_rng(0)
    n = 20_000
    active = generator.multivariate_normal(np.zeros(3), COVARIANCE, size=n)
    codes = np.hstack([active, generator.normal(size=(n, 5))])
    few, many = (np.cov(z, rowvar=False) for z in (active, codes))
    assert gaussian_total_correlation(many) == pytest.approx(gaussian_total_correlation(few), abs=4 * 8 * 7 / (4 * n))
    assert averaged_mutual_information(many) < 0.2 * averaged_mutual_information(few)


@pytest.mark.parametrize(
    ("latents", "std", "limit"),
    [(2, 0.1, 1.9635), (2, 1.0, 0.1438), (5, 0.1, 8.4295), (5, 1.0, 0.8370), (10, 0.1, 19.621), (10, 1.0, 2.2668)],
)
def test_noise_bounds_the_total_correlation_of_the_sample(latents, std, limit):
    assert noisy_total_correlation_limit(latents, std) == pytest.approx(limit, abs=5e-4)
    limit = noisy_total_correlation_limit(latents, std)
    previous = -1.0
    for rho in (0.0, 0.5, 0.9, 0.99, 0.999, 0.999999):
        mean = np.full((latents, latents), rho) + (1 - rho) * np.eye(latents)
        value = gaussian_total_correlation(mean + std**2 * np.eye(latents))
        assert previous < value < limit
        previous = value
    assert previous == pytest.approx(limit, rel=1e-3)
    assert gaussian_total_correlation(mean) > 3 * previous


def test_figure_1():
    example = hidden_correlation()
    assert example.total_correlation_of_mean == pytest.approx(6.9078, abs=1e-4)
    assert example.total_correlation_of_sample == pytest.approx(0.0049257, abs=1e-7)
    singular = hidden_correlation(margin=0.0)
    assert np.linalg.det(singular.covariance_of_mean) == pytest.approx(0, abs=1e-15)
    as_deviations = singular.covariance_of_mean + np.diag([0.01**2, 1.0])
    assert gaussian_total_correlation(as_deviations) == pytest.approx(0.0049747, abs=1e-7)
