"""Why a variable is active or passive: what the best encoder does with a variable its decoder uses, or does not."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["optimal_posterior_covariance", "variance_ratio"]

Array = NDArray[np.float64]


def optimal_posterior_covariance(
    jacobian: Array, *, prior_covariance: Array, decoder_variance: float, beta: float = 1.0
) -> Array:
    """Return the best covariance of q(z|x) for a decoder that is linear around its mean.

    S = (P^-1 + J'J / (beta gamma))^-1, J the decoder's Jacobian (pixels, d), P the prior's covariance, gamma the
    decoder's variance [Bonheme2023iVAE, eq. 11]; beta multiplies gamma.

    >>> optimal_posterior_covariance(np.array([[3.0, 0.0]]), prior_covariance=np.eye(2), decoder_variance=1.0).tolist()
    [[0.1, 0.0], [0.0, 1.0]]
    """
    precision = np.linalg.inv(prior_covariance) + jacobian.T @ jacobian / (beta * decoder_variance)
    return np.asarray(np.linalg.inv(precision))


def variance_ratio(
    squared_slope: ArrayLike, *, prior_variance: ArrayLike = 1.0, decoder_variance: float = 1.0, beta: float = 1.0
) -> Array:
    """Return posterior over prior variance of a variable: 1 if the decoder ignores it, towards 0 if it relies on it.

    sigma / sigma+ = 1 / (1 + sigma+ |J_j|^2 / (beta gamma))  [Bonheme2023iVAE, eq. 11, diagonal case]

    It does not change when z_j is rescaled together with its prior, which is why types are told by this ratio.

    >>> variance_ratio([0.0, 9.0, 99.0]).tolist()
    [1.0, 0.1, 0.01]
    """
    return np.asarray(1 / (1 + np.asarray(prior_variance) * np.asarray(squared_slope) / (beta * decoder_variance)))
