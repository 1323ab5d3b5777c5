import numpy as np
import pytest

from polarised import metrics
from polarised.errors import ConfigError, DataError
from polarised.metrics.streaming import (
    BinnedCounts,
    Moments,
    Ranges,
    chunks_of,
    streamed_mutual_information_matrix,
)


def codes(dtype: type = np.float32) -> np.ndarray:
    generator = np.random.default_rng(0)
    z = generator.normal(size=(30_000, 5)) @ generator.normal(size=(5, 5)) + [0.0, 1.0, 300.0, -5.0, 0.0]
    z[:, 4] = 0.1
    return z.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [1, 7, 10_001, 100_000])
def test_moments_equal_those_of_the_whole_array(rows: int, dtype: type) -> None:
    z = codes(dtype)[:500] if rows < 10 else codes(dtype)
    moments = Moments()
    for chunk in chunks_of(z, rows=rows):
        moments.update(chunk)
    exact = metrics.covariance(z)
    scale = np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
    assert moments.rows == len(z)
    np.testing.assert_allclose(moments.covariance, exact, atol=1e-12 * scale.max())
    np.testing.assert_allclose(moments.mean, z.mean(axis=0, dtype=np.float64), rtol=1e-12)
    assert moments.covariance[4].tolist() == [0.0] * 5
    total = metrics.total_correlation_from_covariance(moments.covariance)
    assert total == pytest.approx(metrics.total_correlation(z), rel=1e-9)


def test_merging_is_the_same_in_any_order() -> None:
    z = codes()
    parts = [Moments() for _ in range(3)]
    for part, chunk in zip(parts, np.array_split(z, 3), strict=True):
        part.update(chunk)
    merged = Moments()
    for part in (parts[2], parts[0], parts[1]):
        merged.merge(part)
    np.testing.assert_allclose(merged.covariance, metrics.covariance(z), rtol=1e-9, atol=1e-12)
    merged.merge(Moments())
    assert merged.rows == len(z)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_streamed_information_equals_that_of_the_whole_array(dtype: type) -> None:
    z = codes(dtype)
    streamed = streamed_mutual_information_matrix(lambda: chunks_of(z, rows=4_321))
    np.testing.assert_allclose(streamed, metrics.mutual_information_matrix(z), rtol=1e-12, atol=1e-14)


def test_counts_and_ranges_merge() -> None:
    z = codes()
    left, right = Ranges(), Ranges()
    left.update(z[:100])
    right.update(z[100:])
    left.merge(right)
    counts, others = BinnedCounts(left.edges()), BinnedCounts(left.edges())
    counts.update(z[:100])
    others.update(z[100:])
    counts.merge(others)
    np.testing.assert_allclose(counts.information(), metrics.mutual_information_matrix(z), rtol=1e-12, atol=1e-14)
    with pytest.raises(DataError, match="same bin edges"):
        counts.merge(BinnedCounts(right.edges(bins=3)))


def test_invalid_chunks_are_refused() -> None:
    moments = Moments()
    with pytest.raises(DataError, match="at least 2"):
        _ = moments.covariance
    moments.update(np.zeros((3, 2)))
    with pytest.raises(DataError, match="shape"):
        moments.update(np.zeros((3, 4)))
    with pytest.raises(DataError, match="finite"):
        moments.update([[np.nan, 0.0]])
    assert moments.rows == 3
    with pytest.raises(DataError, match="finite"):
        Ranges().update([[np.inf, 0.0]])
    with pytest.raises(DataError, match="edges"):
        Ranges().edges()
    with pytest.raises(ConfigError, match="rows"):
        next(chunks_of(np.zeros((3, 2)), rows=0))
    other = Moments()
    other.update(np.zeros((3, 4)))
    with pytest.raises(DataError, match="same variables"):
        moments.merge(other)
