"""Standard errors of metrics: by the bootstrap, and by influence functions from the gradients of the scores."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from polarised.errors import ConfigError
from polarised.metrics.covariance import Floats, RankOf, correlation_from_covariance, rank_shares
from polarised.random import stream

__all__ = [
    "Estimate",
    "bootstrap",
    "covariance_error",
    "effective_rank_gradient",
    "mean_error",
    "total_correlation_gradient",
    "wasserstein_gradient",
]


class Estimate(NamedTuple):
    """A value and its standard error.

    Args:
        value: The number itself.
        error: Its standard error.
    """

    value: float
    error: float


def mean_error(values: Floats) -> float:
    """Return the standard error of a mean over rows: std / sqrt(n).

    Args:
        values: Values (n,) to average.

    Returns:
        The standard error.

    >>> mean_error(np.array([0.0, 2.0]))
    1.0
    """
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def covariance_error(codes: Floats, gradient: Floats) -> float:
    """Return the delta-method standard error of a function f of the covariance with the given gradient.

    se = std_i( x_i' G x_i ) / sqrt(n), G = df/dC, x_i the centred codes: the influence of each observation,
    without assuming a Gaussian. If the gradient vanishes (independent variables), it is too small.

    Args:
        codes: Codes (n, d), one observation in each row.
        gradient: Derivative (d, d) of the function with respect to the covariance.

    Returns:
        The standard error.

    >>> round(covariance_error(np.array([[-1.0], [0.0], [1.0]]), np.eye(1)), 3)
    0.333
    """
    centred = codes - codes.mean(axis=0)
    return mean_error(np.einsum("ni,ij,nj->n", centred, gradient, centred, optimize=True))


def bootstrap(
    metric: Callable[..., Any],
    *arrays: npt.ArrayLike,
    repeats: int = 100,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
) -> Estimate:
    """Return any metric of row-aligned arrays with its bootstrap standard error.

    se = std over resamples of the rows with replacement [Efron1993]. Of a NamedTuple, the first field is used.

    Args:
        metric: The metric, called with the arrays.
        *arrays: Arrays with one row for each observation.
        repeats: Number of resamples.
        seed: Seed of the resamples.
        settings: Settings of the metric.

    Returns:
        The value on all rows with its standard error.

    Raises:
        ConfigError: If there are fewer than two repeats.

    >>> from polarised.metrics import total_correlation
    >>> bootstrap(total_correlation, [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]] * 9, repeats=5).value
    0.0
    """
    if repeats < 2:
        raise ConfigError(f"repeats must be at least 2 to have a standard deviation, got {repeats}")
    columns = [np.asarray(array) for array in arrays]
    rows = len(columns[0])

    def value(chosen: list[npt.NDArray[Any]]) -> float:
        result = metric(*chosen, **(settings or {}))
        return float(result[0] if isinstance(result, tuple) else result)

    draws = np.empty(repeats)
    for repeat in range(repeats):
        index = stream(seed, "bootstrap", repeat).integers(rows, size=rows)
        draws[repeat] = value([column[index] for column in columns])
    return Estimate(value(columns), float(draws.std(ddof=1)))


def total_correlation_gradient(covariance: Floats) -> Floats:
    """Return dTC/dC = (diag(1 / C_jj) - C^-1) / 2, zero for constant variables.

    Args:
        covariance: A covariance (d, d).

    Returns:
        The gradient (d, d).

    >>> total_correlation_gradient(np.eye(2))
    array([[0., 0.],
           [0., 0.]])
    """
    varying = np.diag(covariance) > 0
    inner = covariance[np.ix_(varying, varying)]
    gradient = np.zeros_like(covariance)
    gradient[np.ix_(varying, varying)] = 0.5 * (np.diag(1.0 / np.diag(inner)) - np.linalg.pinv(inner))
    return gradient


def effective_rank_gradient(covariance: Floats, *, of: RankOf = "covariance") -> Floats:
    """Return the derivative of the effective rank with respect to the covariance.

    dr/dC = V diag(g) V', g_k = -r (log p_k + H) dp_k, with p over eigenvalues (or their roots) of C.

    Args:
        covariance: A covariance (d, d).
        of: The source of the shares: "covariance", "codes" or "correlation".

    Returns:
        The gradient (d, d).

    >>> effective_rank_gradient(np.eye(2)).round(6) + 0.0
    array([[0., 0.],
           [0., 0.]])
    """
    varying = np.diag(covariance) > 0
    inner = covariance[np.ix_(varying, varying)]
    gradient = np.zeros_like(covariance)
    if not varying.any():
        return gradient
    share, (values, vectors) = rank_shares(inner, of)
    entropy = -(share * np.log(share)).sum()
    slope = -np.exp(entropy) * share * (np.log(share) + entropy)
    slope = slope / (2 * values) if of == "codes" else slope / values
    block = (vectors * slope) @ vectors.T
    if of == "correlation":
        scale = 1.0 / np.sqrt(np.diag(inner))
        normal = correlation_from_covariance(inner)
        block = block - np.diag((block * normal).sum(axis=1))
        block = block * scale[:, None] * scale
    gradient[np.ix_(varying, varying)] = block
    return gradient


def wasserstein_gradient(covariance: Floats) -> Floats:
    """Return dW/dC of the Wasserstein correlation, W = 2 tr C - 2 tr (D C)^(1/2).

    With M = D^1/2 C D^1/2 and S = M^-1/2: dW = 2 I - (D^1/2 S D^1/2) - diag((D^-1/2 S D^1/2 C)_jj).

    Args:
        covariance: A covariance (d, d).

    Returns:
        The gradient (d, d).

    >>> wasserstein_gradient(np.eye(2)).round(6) + 0.0
    array([[0., 0.],
           [0., 0.]])
    """
    varying = np.diag(covariance) > 0
    inner = covariance[np.ix_(varying, varying)]
    gradient = np.zeros_like(covariance)
    scale = np.sqrt(np.diag(inner))
    values, vectors = np.linalg.eigh(inner * scale[:, None] * scale)
    kept = values > values.max(initial=0.0) * len(inner) * np.finfo(np.float64).eps
    inverse_root = (vectors[:, kept] / np.sqrt(values[kept])) @ vectors[:, kept].T
    by_covariance = inverse_root * scale[:, None] * scale
    by_diagonal = ((inverse_root * scale) @ inner).diagonal() / scale
    gradient[np.ix_(varying, varying)] = 2 * np.eye(len(inner)) - by_covariance - np.diag(by_diagonal)
    return gradient
