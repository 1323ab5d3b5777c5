"""What passive variables, and noise, do to the correlation of a code."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "HiddenCorrelation",
    "averaged_mutual_information",
    "gaussian_total_correlation",
    "hidden_correlation",
    "noisy_total_correlation_limit",
    "with_passive",
]

Array = NDArray[np.float64]


def gaussian_total_correlation(covariance: Array) -> float:
    """Return TC of N(0, S) = (log|diag S| - log|S|) / 2 [Cheng2021, proposition 1].

    >>> round(gaussian_total_correlation(np.array([[1.0, 0.6], [0.6, 1.0]])), 4)
    0.2231
    """
    return float(0.5 * (np.log(np.diag(covariance)).sum() - np.linalg.slogdet(covariance)[1]))


def averaged_mutual_information(covariance: Array) -> float:
    """Return the mean over ordered pairs of -log(1 - rho_ij^2) / 2, the mutual information of two Gaussians.

    >>> round(averaged_mutual_information(np.array([[1.0, 0.6], [0.6, 1.0]])), 4)
    0.2231
    """
    size = len(covariance)
    scale = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(scale, scale)
    pairs = -0.5 * np.log1p(-(correlation[~np.eye(size, dtype=bool)] ** 2))
    return float(pairs.sum() / (size * (size - 1)))


def with_passive(covariance: Array, count: int, *, variance: float = 1.0) -> Array:
    """Return the covariance of a sampled code with `count` passive variables more: independent draws of the prior.

    Their total correlation is that without them [Bonheme2023BeMoreActive, theorem 7]; the averaged mutual information
    shrinks by k (k - 1) / ((k + p) (k + p - 1)) for p of them beside k [Bonheme2023BeMoreActive, theorem 8].

    >>> with_passive(np.array([[2.0]]), 1).tolist()
    [[2.0, 0.0], [0.0, 1.0]]
    """
    size = len(covariance)
    whole = np.eye(size + count) * variance
    whole[:size, :size] = covariance
    return whole


def noisy_total_correlation_limit(latents: int, std: float) -> float:
    """Return the limit of TC(mean + std noise) as the means become one and the same unit normal [Cheng2021, theorem 1].

    (d log(1 + s^2) - (d - 1) log s^2 - log(s^2 + d)) / 2: finite, while TC(mean) goes to infinity.

    >>> round(noisy_total_correlation_limit(2, 0.1), 4)
    1.9635
    """
    squared = std**2
    return 0.5 * (latents * math.log1p(squared) - (latents - 1) * math.log(squared) - math.log(squared + latents))


class HiddenCorrelation(NamedTuple):
    """A code whose mean is as good as degenerate while its sample looks independent."""

    covariance_of_mean: Array
    covariance_of_sample: Array
    total_correlation_of_mean: float
    total_correlation_of_sample: float


def hidden_correlation(*, margin: float = 1e-6) -> HiddenCorrelation:
    """Return the example of Cheng's figure 1, with the off-diagonal times sqrt(1 - margin) so that TC(mean) is finite.

    mean ~ N(0, [[1, 0.1], [0.1, 0.01]]), z_1|mean ~ N(mean_1, 0.01), z_2|mean ~ N(mean_2, 1) [Cheng2021, figure 1].

    >>> example = hidden_correlation()
    >>> round(example.total_correlation_of_mean, 4), round(example.total_correlation_of_sample, 6)
    (6.9078, 0.004926)
    """
    shared = 0.1 * math.sqrt(1 - margin)
    mean = np.array([[1.0, shared], [shared, 0.01]])
    sample = mean + np.diag([0.01, 1.0])
    return HiddenCorrelation(mean, sample, gaussian_total_correlation(mean), gaussian_total_correlation(sample))
