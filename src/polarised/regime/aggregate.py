"""The aggregate posterior q(z) = E_x[q(z|x)] from some of its parts: densities of pairs, and weights of a minibatch."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["Estimator", "importance_weights", "log_densities", "log_densities_by_variable"]

Array = NDArray[np.float64]

Estimator = Literal["mws", "mss0", "mss1", "eq10b", "disentanglement_lib"]


def importance_weights(batch: int, dataset_size: int, *, estimator: Estimator) -> Array:
    """Return the weight W[i, k] of encoder k in the minibatch estimate of q(z_i).

    log q(z_i) = log sum_k W[i, k] q(z_i|x_k), with M = B - 1 and s = (N - M) / (N M):
    "mws": 1 / (N B), biased [Chen2018, eq. 3]; "mss0": the stratified weights as released, whose strides run down
    two columns; "mss1": on the diagonals, as meant, unbiased [Cheng2021, appendix 1]; "eq10b": its average over
    the choice of the stratum [Mathieu2019, eq. 10b]; "disentanglement_lib": 1, the constants dropped.

    Args:
        batch: The size B of the batch.
        dataset_size: The number N of inputs the batch was drawn from; B if it is smaller.
        estimator: Which weights.

    Returns:
        The weights, (B, B).

    >>> importance_weights(2, 4, estimator="eq10b")
    array([[0.25, 0.75],
           [0.75, 0.25]])
    >>> importance_weights(3, 8, estimator="mss1")[0]
    array([0.125, 0.375, 0.5  ])
    """
    others, size = max(batch - 1, 1), max(dataset_size, batch)
    stratum = (size - others) / (size * others)
    every = np.arange(batch)
    if estimator == "disentanglement_lib":
        return np.ones((batch, batch))
    if estimator == "mws":
        return np.full((batch, batch), 1 / (size * batch))
    if estimator == "eq10b":
        weights = np.full((batch, batch), (size - 1) / (size * others))
        weights[every, every] = 1 / size
        return weights
    weights = np.full((batch, batch), 1 / others)
    if estimator == "mss1":
        weights[every, (every + 1) % batch] = stratum
        weights[every, every] = 1 / size
        return weights
    weights[:, 0] = 1 / size
    weights[:, 1:2] = stratum
    weights[others - 1, 0] = stratum
    return weights


def log_densities(z: Array, mean: Array, variance: Array) -> Array:
    """Return log N(z_i; mean_k, variance_k) of every code under every posterior, without an array of (m, n, d).

    Args:
        z: Codes (m, d).
        mean: Posterior means (n, d).
        variance: Posterior variances (n, d).

    Returns:
        The log densities (m, n).

    >>> log_densities(np.zeros((1, 2)), np.zeros((1, 2)), np.ones((1, 2))).round(4)
    array([[-1.8379]])
    """
    precision = 1 / variance
    squared = z**2 @ precision.T - 2 * z @ (mean * precision).T + (mean**2 * precision).sum(axis=1)
    return np.asarray(-0.5 * (np.maximum(squared, 0.0) + np.log(2 * np.pi * variance).sum(axis=1)))


def log_densities_by_variable(z: Array, mean: Array, variance: Array) -> Array:
    """Return log N(z_id; mean_kd, variance_kd) of every variable of every code under every posterior.

    Args:
        z: Codes (m, d).
        mean: Posterior means (n, d).
        variance: Posterior variances (n, d).

    Returns:
        The log densities (m, n, d).

    >>> log_densities_by_variable(np.zeros((1, 2)), np.zeros((1, 2)), np.ones((1, 2))).sum(axis=2).round(4)
    array([[-1.8379]])
    """
    return np.asarray(-0.5 * ((z[:, None, :] - mean) ** 2 / variance + np.log(2 * np.pi * variance)))
