import numpy as np
import pytest
from sklearn.metrics import mutual_info_score

from polarised.errors import ConfigError
from polarised.metrics.information import bin_codes, bin_edges, entropies, information_between, pointwise_information


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_labels_equal_those_of_numpy(dtype: type) -> None:
    z = np.random.default_rng(0).normal(size=(5000, 6)).astype(dtype)
    if dtype is np.float64:
        # In single precision the edges of numpy differ by rounding between versions.
        z[:, 3] = np.round(z[:, 3], 1)
    for variable, labels in enumerate(bin_codes(z).T):
        edges = np.histogram(z[:, variable], bins=20)[1]
        assert np.array_equal(labels, np.digitize(z[:, variable], edges[:-1]) - 1)


def test_information_equals_that_of_scikit_learn() -> None:
    generator = np.random.default_rng(1)
    first, second = generator.integers(7, size=(400, 3)), generator.integers(40, size=(400, 2)) * 1000 - 5
    expected = [[mutual_info_score(a, b) for b in second.T] for a in first.T]
    np.testing.assert_allclose(information_between(first, second), expected, atol=1e-12)
    np.testing.assert_allclose(entropies(second), [mutual_info_score(b, b) for b in second.T], atol=1e-12)
    pointwise = pointwise_information(first[:, 0], second[:, 1])
    assert pointwise.mean() == pytest.approx(expected[0][1])


def test_extremes_are_in_the_first_and_last_bin() -> None:
    labels = bin_codes(np.array([[-1e300], [0.0], [1e300]]))
    assert labels.ravel().tolist() == [0, 10, 19]
    assert len(np.unique(bin_codes(np.full((3, 1), 2.0)))) == 1


def test_fewer_than_one_bin_are_refused() -> None:
    with pytest.raises(ConfigError, match="bins"):
        bin_edges([0.0], [1.0], bins=0)
