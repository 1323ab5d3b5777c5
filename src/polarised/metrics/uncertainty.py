"""How sure a number is: standard errors from influence functions and from the bootstrap."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from polarised.errors import ConfigError
from polarised.metrics._inputs import Floats
from polarised.random import stream

__all__ = ["Estimate", "bootstrap", "covariance_error", "mean_error"]


class Estimate(NamedTuple):
    """A value and its standard error."""

    value: float
    error: float


def mean_error(values: Floats) -> float:
    """Return the standard error of a mean over rows: std / sqrt(n).

    >>> mean_error(np.array([0.0, 2.0]))
    1.0
    """
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def covariance_error(codes: Floats, gradient: Floats) -> float:
    """Return the delta-method standard error of a function f of the covariance whose gradient is given.

    se = std_i( x_i' G x_i ) / sqrt(n), G = df/dC, x_i the centred codes: the influence of each observation,
    without assuming a Gaussian. Where the gradient vanishes (independent variables) it understates.

    >>> round(covariance_error(np.array([[-1.0], [0.0], [1.0]]), np.eye(1)), 3)
    0.333
    """
    centred = codes - codes.mean(axis=0)
    return mean_error(np.einsum("ni,ij,nj->n", centred, gradient, centred, optimize=True))


def bootstrap(
    metric: Callable[..., Any], *arrays: npt.ArrayLike, repeats: int = 100, seed: int = 0, **settings: Any
) -> Estimate:
    """Return any metric of row-aligned arrays with its bootstrap standard error.

    se = std over resamples of the rows with replacement [Efron1993]. A NamedTuple is read by its first field.

    >>> from polarised.metrics import total_correlation
    >>> bootstrap(total_correlation, [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]] * 9, repeats=5).value
    0.0
    """
    if repeats < 2:
        raise ConfigError(f"repeats must be at least 2 to have a spread, got {repeats}")
    columns = [np.asarray(array) for array in arrays]
    rows = len(columns[0])

    def value(chosen: list[npt.NDArray[Any]]) -> float:
        result = metric(*chosen, **settings)
        return float(result[0] if isinstance(result, tuple) else result)

    draws = np.empty(repeats)
    for repeat in range(repeats):
        index = stream(seed, "bootstrap", repeat).integers(rows, size=rows)
        draws[repeat] = value([column[index] for column in columns])
    return Estimate(value(columns), float(draws.std(ddof=1)))
