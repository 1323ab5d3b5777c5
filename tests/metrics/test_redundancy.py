import numpy as np
import pytest

from polarised import metrics
from polarised.errors import DataError
from polarised.metrics.covariance import total_correlation_bias


def gaussian(rows: int, variables: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, variables))


def test_floors_of_independent_variables() -> None:
    z = gaussian(10_000, 10)
    assert metrics.total_correlation(z) == pytest.approx(0.0026, abs=0.001)
    assert metrics.mutual_information(z) == pytest.approx(0.0154, abs=0.001)
    assert metrics.effective_rank(z) == pytest.approx(9.994, abs=0.003)


def test_corrected_scores_of_independent_variables_are_zero() -> None:
    found = np.array(
        [
            (
                metrics.total_correlation(gaussian(500, 6, seed), correction="gaussian"),
                metrics.mutual_information(gaussian(500, 6, seed), correction="permutation"),
                metrics.mutual_information(gaussian(500, 6, seed), correction="miller_madow"),
                metrics.mutual_information(gaussian(500, 6, seed)),
            )
            for seed in range(20)
        ]
    )
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    assert abs(found[:, 0].mean()) < 4 * error[0]
    assert abs(found[:, 1].mean()) < 4 * error[1]
    assert 0 < found[:, 2].mean() < 0.6 * found[:, 3].mean()


def test_the_gaussian_correction_is_exact_for_correlated_variables_too() -> None:
    mixing = np.array([[1.0, 0.5, 0.2], [0.0, 1.0, 0.7], [0.0, 0.0, 1.0]])
    truth = metrics.total_correlation_from_covariance(mixing.T @ mixing)
    found = [metrics.total_correlation(gaussian(30, 3, seed) @ mixing, correction="gaussian") for seed in range(400)]
    assert np.mean(found) == pytest.approx(truth, abs=4 * np.std(found) / 20)
    assert total_correlation_bias(3, 30) > 0.02


@pytest.mark.parametrize(
    ("metric", "settings"),
    [
        (metrics.total_correlation, {}),
        (metrics.effective_rank, {}),
        (metrics.effective_rank, {"of": "codes"}),
        (metrics.effective_rank, {"of": "correlation"}),
        (metrics.wasserstein_correlation, {}),
        (metrics.wasserstein_correlation, {"normalised": True}),
        (metrics.hoyer, {}),
    ],
)
def test_analytic_errors_agree_with_the_bootstrap(metric, settings) -> None:  # type: ignore[no-untyped-def]
    generator = np.random.default_rng(1)
    z = generator.standard_t(8, size=(1000, 4)) @ generator.normal(size=(4, 4))
    analytic = metric(z, errors=True, **settings)
    resampled = metrics.bootstrap(metric, z, repeats=200, settings=settings)
    assert analytic.value == resampled.value == metric(z, **settings)
    assert analytic.error == pytest.approx(resampled.error, rel=0.3)


def test_error_of_mutual_information_covers_repeats() -> None:
    def draw(seed: int) -> np.ndarray:
        z = np.clip(gaussian(2000, 2, seed), -2.5, 2.5)
        z[:, 1] = 0.7 * z[:, 0] + 0.7 * z[:, 1]
        return z

    estimates = [metrics.mutual_information(draw(seed), errors=True) for seed in range(40)]
    spread = np.std([estimate.value for estimate in estimates], ddof=1)
    assert estimates[0].error == pytest.approx(spread, rel=0.4)


def test_a_constant_variable_changes_nothing() -> None:
    z = gaussian(300, 3) @ gaussian(3, 3, 1)
    wider = np.column_stack([z, np.full(300, 0.1)])
    for metric in (metrics.total_correlation, metrics.effective_rank, metrics.wasserstein_correlation, metrics.hoyer):
        assert metric(wider) == pytest.approx(metric(z), rel=1e-12)
    assert metrics.mutual_information_matrix(wider)[3].tolist() == [0.0] * 4


def test_scores_of_constants_and_of_one_variable_are_defined() -> None:
    constant, single = np.full((5, 3), 0.1), gaussian(50, 1)
    for metric in (metrics.total_correlation, metrics.mutual_information, metrics.wasserstein_correlation):
        assert metric(constant) == metric(single) == 0.0
        assert metric(constant, errors=True) == (0.0, 0.0)
    assert metrics.effective_rank(constant) == 0.0
    assert metrics.effective_rank(single) == 1.0
    assert metrics.hoyer(constant) == metrics.hoyer(single) == 0.0


def test_dependent_variables_have_infinite_total_correlation_and_other_scores_finite() -> None:
    z = gaussian(200, 3)
    tied = np.column_stack([z, z[:, 0] - 2 * z[:, 1]])
    assert metrics.total_correlation(tied) == np.inf
    assert metrics.total_correlation(tied, errors=True) == (np.inf, np.inf)
    assert np.isfinite(metrics.effective_rank(tied, errors=True)).all()
    assert np.isfinite(metrics.wasserstein_correlation(tied, errors=True)).all()


def test_nearly_dependent_variables_have_large_finite_total_correlation() -> None:
    z = gaussian(2000, 2)
    z[:, 1] = z[:, 0] + 1e-4 * z[:, 1]
    assert metrics.total_correlation(z) == pytest.approx(-np.log(1e-4), abs=0.1)


def test_rescaling() -> None:
    z = gaussian(500, 4) @ gaussian(4, 4, 1)
    scaled = z * [1.0, 10.0, 1e-3, 5.0] + [0.0, 3.0, 0.0, -100.0]
    assert metrics.total_correlation(scaled) == pytest.approx(metrics.total_correlation(z), rel=1e-8)
    assert metrics.mutual_information(scaled) == pytest.approx(metrics.mutual_information(z), abs=2e-3)
    assert metrics.effective_rank(scaled, of="correlation") == pytest.approx(
        metrics.effective_rank(z, of="correlation"), rel=1e-9
    )
    assert metrics.wasserstein_correlation(7 * z, normalised=True) == pytest.approx(
        metrics.wasserstein_correlation(z, normalised=True), rel=1e-9
    )


def test_effective_rank_of_covariance_and_of_codes() -> None:
    z = gaussian(100_000, 10)
    z[:, 6:] *= 0.02
    assert metrics.effective_rank(z) == pytest.approx(6.01, abs=0.01)
    assert metrics.effective_rank(z, of="codes") == pytest.approx(6.40, abs=0.01)


def test_overlap() -> None:
    mean = np.arange(50.0)[:, None] * 1000
    assert metrics.index_information(mean, np.ones_like(mean)) == pytest.approx(np.log(50))
    assert metrics.index_information(np.zeros_like(mean), np.ones_like(mean)) == 0.0
    estimate = metrics.index_information(gaussian(300, 2), np.full((300, 2), 0.5), errors=True)
    assert 0 < estimate.error < estimate.value


@pytest.mark.parametrize(
    ("codes", "words"),
    [
        (np.zeros(3), "shape"),
        (np.zeros((1, 3)), "n >= 2"),
        ([[0.0, np.nan], [1.0, 2.0]], "column"),
        ([["a"], ["b"]], "numbers"),
        (np.zeros((4, 0)), "d >= 1"),
    ],
)
def test_invalid_codes_are_refused(codes, words) -> None:  # type: ignore[no-untyped-def]
    for metric in (metrics.total_correlation, metrics.mutual_information, metrics.effective_rank, metrics.hoyer):
        with pytest.raises(DataError, match=words):
            metric(codes)


def test_a_log_variance_is_not_a_variance() -> None:
    with pytest.raises(DataError, match="logarithm"):
        metrics.index_information(gaussian(10, 2), gaussian(10, 2))


def test_the_gaussian_correction_needs_more_rows_than_variables() -> None:
    with pytest.raises(DataError, match="more rows than varying variables, got 4 rows and 4"):
        metrics.total_correlation(gaussian(4, 4), correction="gaussian")
    constant = np.column_stack([gaussian(4, 3), np.zeros(4)])
    assert np.isfinite(metrics.total_correlation(constant, correction="gaussian"))
