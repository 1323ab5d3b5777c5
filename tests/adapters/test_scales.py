import numpy as np
import pytest

from polarised.adapters.arrays import as_variance
from polarised.errors import DataError


def test_an_implausibly_wide_posterior_is_refused():
    spread = np.concatenate([np.full((3, 1), -1.0), np.full((9, 1), 30.0)])
    with pytest.raises(DataError, match="swapped"):
        as_variance(spread, "log_variance")
    assert as_variance(spread, "log_variance", trust_scale=True).max() == pytest.approx(np.exp(30.0))


def test_broken_numbers_and_unknown_forms_are_refused():
    with pytest.raises(DataError, match="got NaN or infinity"):
        as_variance(np.array([[np.nan]]), "variance")
    with pytest.raises(DataError, match="got none"):
        as_variance(np.zeros((0, 1)), "variance")
    with pytest.raises(DataError, match="one of variance"):
        as_variance(np.ones((1, 1)), "precision")

    for values in (np.array([["0.5"]]), np.array([[0.5j]]), np.array([[None]])):
        with pytest.raises(DataError, match="real numbers"):
            as_variance(values, "variance")
