"""What minibatch estimates of the aggregate posterior q(z) get wrong."""

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

__all__ = ["entropy_estimate", "no_overlap_entropy", "no_overlap_total_correlation"]

Array = NDArray[np.float64]


def entropy_estimate(z: Array, mean: Array, std: Array | float, *, dataset_size: int) -> float:
    """Return the minibatch estimate of H[q(z)] from B codes and their encoders [Mathieu2019, eq. 10].

    H = -mean_b log(q(z_b|x_b)/n + (n - 1)/(n (B - 1)) sum_{b' != b} q(z_b|x_b')). The density inside is unbiased, its
    logarithm is low by Var/(2 q^2): for B far below n the estimate tends to log n + H[q(z|x)].

    >>> round(entropy_estimate(np.zeros((2, 1)), np.zeros((2, 1)), 1.0, dataset_size=100), 4)
    0.9189
    """
    std = np.broadcast_to(np.asarray(std, dtype=float), mean.shape)
    scaled = (z[:, None] - mean[None]) / std[None]
    log_each = (-0.5 * (scaled**2 + math.log(2 * math.pi)) - np.log(std)[None]).sum(2)
    batch, n = len(z), dataset_size
    log_weight = np.full((batch, batch), math.log((n - 1) / (n * (batch - 1))))
    np.fill_diagonal(log_weight, -math.log(n))
    return float(-np.mean(logsumexp(log_each + log_weight, axis=1)))


def no_overlap_entropy(*, dataset_size: int, conditional_entropy: float) -> float:
    """Return log n + H[q(z|x)], the entropy of n encoders that do not overlap [Mathieu2019, appendix C].

    >>> round(no_overlap_entropy(dataset_size=20_000, conditional_entropy=0.0), 4)
    9.9035
    """
    return math.log(dataset_size) + conditional_entropy


def no_overlap_total_correlation(
    latents: int, std: float, *, batch: int, dataset_size: int, estimator: Literal["mws", "mss0", "mss1", "eq10b"]
) -> float:
    """Return the minibatch estimate of a total correlation of 0 where encoders do not overlap: far above 0.

    For independent unit-normal means it is d log(1 + 1/std^2)/2 + log w, w = 1/B (mws, mss0) or 1/N (mss1, eq10b), and
    (d - 1) log N more for mws, whose weights do not sum to one. It grows with every active variable
    [Cheng2021, appendix 1].

    >>> round(no_overlap_total_correlation(10, 0.1, batch=500, dataset_size=50_000, estimator="mss1"), 2)
    12.26
    """
    own = 1 / dataset_size if estimator in ("mss1", "eq10b") else 1 / batch
    scale = (latents - 1) * math.log(dataset_size) if estimator == "mws" else 0.0
    return 0.5 * latents * math.log1p(1 / std**2) + math.log(own) + scale
