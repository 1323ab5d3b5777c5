"""The effect of passive variables and noise on the correlation of a code."""

import math
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from polarised.regime._moments import scaled_to_correlation
from polarised.regime.encodings import importance_weights, log_densities_by_variable

__all__ = [
    "HiddenCorrelation",
    "averaged_mutual_information",
    "entropy_estimate",
    "gaussian_total_correlation",
    "hidden_correlation",
    "no_overlap_entropy",
    "no_overlap_total_correlation",
    "noisy_total_correlation_limit",
    "optimal_posterior_covariance",
    "variance_ratio",
    "with_passive",
]

Array = NDArray[np.float64]


def gaussian_total_correlation(covariance: Array) -> float:
    """Return TC of N(0, S) = (log|diag S| - log|S|) / 2 [Cheng2021, proposition 1].

    Args:
        covariance: The covariance S, (d, d).

    Returns:
        The total correlation in nats.

    >>> round(gaussian_total_correlation(np.array([[1.0, 0.6], [0.6, 1.0]])), 4)
    0.2231
    """
    return float(0.5 * (np.log(np.diag(covariance)).sum() - np.linalg.slogdet(covariance)[1]))


def averaged_mutual_information(covariance: Array) -> float:
    """Return the mean over ordered pairs of -log(1 - rho_ij^2) / 2, the mutual information of two Gaussians.

    Args:
        covariance: The covariance, (d, d).

    Returns:
        The average in nats.

    >>> round(averaged_mutual_information(np.array([[1.0, 0.6], [0.6, 1.0]])), 4)
    0.2231
    """
    size = len(covariance)
    correlation = scaled_to_correlation(covariance)
    pairs = -0.5 * np.log1p(-(correlation[~np.eye(size, dtype=bool)] ** 2))
    return float(pairs.sum() / (size * (size - 1)))


def with_passive(covariance: Array, count: int, *, variance: float = 1.0) -> Array:
    """Return the covariance of a sampled code with `count` additional passive variables: independent prior draws.

    They do not change the total correlation [Bonheme2023BeMoreActive, theorem 7]; the averaged mutual information
    shrinks by k (k - 1) / ((k + p) (k + p - 1)) for p of them in addition to k [Bonheme2023BeMoreActive, theorem 8].

    Args:
        covariance: The covariance of the existing variables, (k, k).
        count: The number p of passive variables to add.
        variance: The variance of each of them.

    Returns:
        The covariance, (k + p, k + p).

    >>> with_passive(np.array([[2.0]]), 1).tolist()
    [[2.0, 0.0], [0.0, 1.0]]
    """
    size = len(covariance)
    whole = np.eye(size + count) * variance
    whole[:size, :size] = covariance
    return whole


def noisy_total_correlation_limit(latents: int, std: float) -> float:
    """Return the limit of TC(mean + std noise) as all means become the same unit normal [Cheng2021, theorem 1].

    (d log(1 + s^2) - (d - 1) log s^2 - log(s^2 + d)) / 2: finite, while TC(mean) diverges.

    Args:
        latents: The number d of variables.
        std: The standard deviation s of the noise.

    Returns:
        The limit in nats.

    >>> round(noisy_total_correlation_limit(2, 0.1), 4)
    1.9635
    """
    squared = std**2
    return 0.5 * (latents * math.log1p(squared) - (latents - 1) * math.log(squared) - math.log(squared + latents))


class HiddenCorrelation(NamedTuple):
    """A code with an almost degenerate mean whose sample looks independent.

    Args:
        covariance_of_mean: The covariance of the mean, (2, 2).
        covariance_of_sample: The covariance of the sample, (2, 2).
        total_correlation_of_mean: The total correlation of the mean in nats.
        total_correlation_of_sample: The total correlation of the sample in nats.
    """

    covariance_of_mean: Array
    covariance_of_sample: Array
    total_correlation_of_mean: float
    total_correlation_of_sample: float


def hidden_correlation(*, margin: float = 1e-6) -> HiddenCorrelation:
    """Return the example of Cheng's figure 1, with the off-diagonal times sqrt(1 - margin) so that TC(mean) is finite.

    mean ~ N(0, [[1, 0.1], [0.1, 0.01]]), z_1|mean ~ N(mean_1, 0.01), z_2|mean ~ N(mean_2, 1) [Cheng2021, figure 1].

    Args:
        margin: The distance of the means from being one variable.

    Returns:
        The example.

    >>> example = hidden_correlation()
    >>> round(example.total_correlation_of_mean, 4), round(example.total_correlation_of_sample, 6)
    (6.9078, 0.004926)
    """
    shared = 0.1 * math.sqrt(1 - margin)
    mean = np.array([[1.0, shared], [shared, 0.01]])
    sample = mean + np.diag([0.01, 1.0])
    return HiddenCorrelation(mean, sample, gaussian_total_correlation(mean), gaussian_total_correlation(sample))


def entropy_estimate(z: Array, mean: Array, std: Array | float, *, dataset_size: int) -> float:
    """Return the minibatch estimate of H[q(z)] from B codes and their encoders [Mathieu2019, eq. 10].

    H = -mean_b log(q(z_b|x_b)/n + (n - 1)/(n (B - 1)) sum_{b' != b} q(z_b|x_b')). The density inside is unbiased, its
    logarithm is too low by Var/(2 q^2): for B far below n the estimate tends to log n + H[q(z|x)].

    Args:
        z: Codes, one for each encoder, (B, d).
        mean: The means of the encoders, (B, d).
        std: Their standard deviations, (B, d) or one number.
        dataset_size: The number n of encoders in the dataset.

    Returns:
        The estimate in nats.

    >>> round(entropy_estimate(np.zeros((2, 1)), np.zeros((2, 1)), 1.0, dataset_size=100), 4)
    0.9189
    """
    variance = np.broadcast_to(np.asarray(std, dtype=float) ** 2, mean.shape)
    log_each = log_densities_by_variable(z, mean, variance).sum(2)
    weights = importance_weights(len(z), dataset_size, estimator="eq10b")
    return float(-np.mean(logsumexp(log_each, b=weights, axis=1)))


def no_overlap_entropy(*, dataset_size: int, conditional_entropy: float) -> float:
    """Return log n + H[q(z|x)], the entropy of n encoders that do not overlap [Mathieu2019, appendix C].

    Args:
        dataset_size: The number n of encoders.
        conditional_entropy: The entropy H[q(z|x)] of one of them, in nats.

    Returns:
        The entropy in nats.

    >>> round(no_overlap_entropy(dataset_size=20_000, conditional_entropy=0.0), 4)
    9.9035
    """
    return math.log(dataset_size) + conditional_entropy


def no_overlap_total_correlation(
    latents: int, std: float, *, batch: int, dataset_size: int, estimator: Literal["mws", "mss0", "mss1", "eq10b"]
) -> float:
    """Return the minibatch estimate of a total correlation of 0 if encoders do not overlap: far above 0.

    For independent unit-normal means it is d log(1 + 1/std^2)/2 + log w, w = 1/B (mws, mss0) or 1/N (mss1, eq10b), plus
    (d - 1) log N for mws, whose weights do not sum to one. It grows with every active variable
    [Cheng2021, appendix 1].

    Args:
        latents: The number d of variables.
        std: The standard deviation of the encoders.
        batch: The size B of the batch.
        dataset_size: The number N of images in the dataset.
        estimator: The weights of the estimate.

    Returns:
        The estimate in nats.

    >>> round(no_overlap_total_correlation(10, 0.1, batch=500, dataset_size=50_000, estimator="mss1"), 2)
    12.26
    """
    own = 1 / dataset_size if estimator in ("mss1", "eq10b") else 1 / batch
    scale = (latents - 1) * math.log(dataset_size) if estimator == "mws" else 0.0
    return 0.5 * latents * math.log1p(1 / std**2) + math.log(own) + scale


def optimal_posterior_covariance(
    jacobian: Array, *, prior_covariance: Array, decoder_variance: float, beta: float = 1.0
) -> Array:
    """Return the optimal covariance of q(z|x) for a decoder that is linear around its mean.

    S = (P^-1 + J'J / (beta gamma))^-1, J the decoder's Jacobian (pixels, d), P the prior's covariance, gamma the
    decoder's variance [Bonheme2023iVAE, eq. 11]; beta multiplies gamma.

    Args:
        jacobian: The decoder's Jacobian J, (pixels, d).
        prior_covariance: The prior's covariance P, (d, d).
        decoder_variance: The decoder's variance gamma.
        beta: The weight of the rate.

    Returns:
        The covariance S, (d, d).

    >>> optimal_posterior_covariance(np.array([[3.0, 0.0]]), prior_covariance=np.eye(2), decoder_variance=1.0).tolist()
    [[0.1, 0.0], [0.0, 1.0]]
    """
    precision = np.linalg.inv(prior_covariance) + jacobian.T @ jacobian / (beta * decoder_variance)
    return np.asarray(np.linalg.inv(precision))


def variance_ratio(
    squared_slope: ArrayLike, *, prior_variance: ArrayLike = 1.0, decoder_variance: float = 1.0, beta: float = 1.0
) -> Array:
    """Return posterior over prior variance of a variable: 1 if the decoder ignores it, close to 0 if it relies on it.

    sigma / sigma+ = 1 / (1 + sigma+ |J_j|^2 / (beta gamma))  [Bonheme2023iVAE, eq. 11, diagonal case]

    It does not change if z_j is rescaled together with its prior, which is why types are based on this ratio.

    Args:
        squared_slope: |J_j|^2, how strongly the decoder's output changes with each variable.
        prior_variance: The variance sigma+ of each variable's prior.
        decoder_variance: The decoder's variance gamma.
        beta: The weight of the rate.

    Returns:
        The ratio of each variable.

    >>> variance_ratio([0.0, 9.0, 99.0]).tolist()
    [1.0, 0.1, 0.01]
    """
    return np.asarray(1 / (1 + np.asarray(prior_variance) * np.asarray(squared_slope) / (beta * decoder_variance)))
