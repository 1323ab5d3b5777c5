import numpy as np
import pytest

from polarised.adapters import from_callable
from polarised.errors import DataError

X = np.random.default_rng(0).normal(size=(40, 3))
VARIANCE = np.array([0.01, 0.5, 1.0]) * np.ones((40, 1))
FORMS = {
    "variance": VARIANCE,
    "log_variance": np.log(VARIANCE),
    "std": np.sqrt(VARIANCE),
    "log_std": 0.5 * np.log(VARIANCE),
}


def table(second):
    """An encoder that looks up its outputs, so that the second output can have any kind."""
    return lambda rows: (X[rows], FORMS[second][rows])


BATCHES = [np.arange(0, 15), np.arange(15, 40)]


@pytest.mark.parametrize("second", FORMS)
def test_every_kind_of_scale_gives_the_same_encodings(second):
    encodings = from_callable(table(second), BATCHES, scale_kind=second)
    np.testing.assert_allclose(encodings.mean, X)
    np.testing.assert_allclose(encodings.variance, VARIANCE)


def test_a_negative_variance_is_refused():
    with pytest.raises(DataError, match="if it is a log-variance"):
        from_callable(table("log_variance"), BATCHES, scale_kind="variance")
    with pytest.raises(DataError, match="never negative"):
        from_callable(table("log_std"), BATCHES, scale_kind="std")


@pytest.mark.parametrize(("said", "given"), [("log_variance", "variance"), ("log_std", "std")])
def test_a_logarithm_that_is_never_negative_is_refused(said, given):
    with pytest.raises(DataError, match=f"if it is the {given} itself"):
        from_callable(table(given), BATCHES, scale_kind=said)
    assert from_callable(table(given), BATCHES, scale_kind=said, trust_scale=True).variance.min() > 1
