import numpy as np
import pytest

from polarised import metrics
from polarised.errors import ConfigError, DataError
from polarised.metrics import estimators
from polarised.regime.encodings import importance_weights


def batch(rows: int = 30, variables: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    mean, variance = generator.normal(size=(rows, variables)), generator.uniform(0.05, 1.0, size=(rows, variables))
    return mean + np.sqrt(variance) * generator.normal(size=mean.shape), mean, variance


def test_all_weightings_agree_if_the_batch_is_the_dataset() -> None:
    rows = batch()
    exact = estimators.exact(*rows)
    even = estimators.eq10b(*rows, dataset_size=30)
    assert even.total_correlation == pytest.approx(exact.total_correlation, rel=1e-12)
    np.testing.assert_allclose(even.log_density, exact.log_density)


def test_exact_on_some_rows_is_close_to_exact_on_all() -> None:
    rows = batch(800)
    part, whole = estimators.exact(*rows, rows=400), estimators.exact(*rows)
    assert len(part.log_density) == 400
    assert part.information == pytest.approx(whole.information, abs=0.15)


@pytest.mark.parametrize("name", ["mws", "mss0", "mss1", "eq10b"])
def test_one_variable_has_no_total_correlation(name: str) -> None:
    z, mean, variance = batch(20, 1)
    assert getattr(estimators, name)(z, mean, variance, dataset_size=100).total_correlation == 0.0


def test_unbiased_weights_sum_to_one() -> None:
    for name in ("mss1", "eq10b"):
        np.testing.assert_allclose(importance_weights(7, 100, estimator=name).sum(axis=1), 1.0)


def test_density_ratio_is_close_to_the_gaussian_value() -> None:
    z = np.random.default_rng(0).normal(size=(3000, 2))
    z[:, 1] = 0.8 * z[:, 0] + 0.6 * z[:, 1]
    found = estimators.density_ratio(z, hidden=(40,))
    assert found == pytest.approx(metrics.total_correlation(z), abs=0.1)
    assert estimators.density_ratio(z[:, :1]) == 0.0


def test_invalid_arguments_are_refused() -> None:
    z, mean, variance = batch()
    with pytest.raises(DataError, match="logarithm"):
        estimators.mws(z, mean, np.log(variance), dataset_size=100)
    with pytest.raises(DataError, match="one shape"):
        estimators.mws(z[:-1], mean, variance, dataset_size=100)
    with pytest.raises(ConfigError, match="dataset_size"):
        estimators.mss1(z, mean, variance, dataset_size=10)
    with pytest.raises(DataError, match="20 rows"):
        estimators.density_ratio(z[:10])
    with pytest.raises(ConfigError, match="determinant"):
        estimators.equicorrelated(3, 0.0)
