"""Scores that are functions of the covariance alone, and their gradients for standard errors."""

from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import digamma

from polarised.errors import DataError
from polarised.metrics._inputs import Floats, checked_codes

__all__ = [
    "RankOf",
    "correlation",
    "correlation_of",
    "covariance",
    "effective_rank_gradient",
    "effective_rank_of",
    "total_correlation_bias",
    "total_correlation_gradient",
    "total_correlation_of",
    "wasserstein_correlation_of",
    "wasserstein_gradient",
]

RankOf = Literal["covariance", "codes", "correlation"]


def covariance(codes: npt.ArrayLike) -> Floats:
    """Return the unbiased covariance (d, d); the row and column of a constant variable are exactly zero.

    C = sum_i (z_i - m)(z_i - m)' / (n - 1).

    >>> covariance([[0.0, 0.1], [2.0, 0.1]])
    array([[2., 0.],
           [0., 0.]])
    """
    array = checked_codes(codes)
    centred = array - array.mean(axis=0)
    centred[:, np.ptp(array, axis=0) == 0] = 0.0
    return np.asarray(centred.T @ centred / (len(array) - 1))


def correlation(codes: npt.ArrayLike) -> Floats:
    """Return the Pearson correlation matrix (d, d); a constant variable has correlation 0 with every other.

    >>> correlation([[0.0, 1.0, 5.0], [1.0, 0.0, 5.0]]).round(6)
    array([[ 1., -1.,  0.],
           [-1.,  1.,  0.],
           [ 0.,  0.,  1.]])
    """
    return correlation_of(covariance(codes))


def correlation_of(covariance: npt.ArrayLike) -> Floats:
    """Return the correlation matrix of a covariance, R_ij = C_ij / sqrt(C_ii C_jj), with R_ii = 1.

    >>> correlation_of([[4.0, 1.0], [1.0, 1.0]])
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    matrix = _checked_covariance(covariance)
    scale = np.sqrt(np.diag(matrix))
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    result = np.clip(matrix * inverse[:, None] * inverse, -1.0, 1.0)
    np.fill_diagonal(result, 1.0)
    return result


def total_correlation_of(covariance: npt.ArrayLike) -> float:
    """Return the total correlation of a Gaussian with this covariance.

    TC = (sum_j log C_jj - log det C) / 2 = -log det R / 2.  [Locatello2019; Cheng2021, prop. 1]
    Constant variables count nothing; variables that determine each other give infinity.

    >>> round(total_correlation_of([[1.01, 0.1], [0.1, 1.01]]), 7)
    0.0049257
    """
    matrix = _checked_covariance(covariance)
    varying = np.diag(matrix) > 0
    if varying.sum() < 2:
        return 0.0
    varied = correlation_of(matrix[np.ix_(varying, varying)])
    eigenvalues = np.linalg.eigvalsh(varied)
    if eigenvalues[0] <= len(varied) * np.finfo(np.float64).eps:
        return float("inf")
    return max(0.0, float(-0.5 * np.linalg.slogdet(varied)[1]))


def total_correlation_bias(variables: int, rows: int) -> float:
    """Return what the estimate exceeds the truth by on average for Gaussian codes, about d (d - 1) / 4n.

    bias = ( d psi((n-1)/2) - sum_i psi((n-i)/2) ) / 2, i = 1..d, psi the digamma function (Wishart moments).

    >>> round(total_correlation_bias(10, 10_000), 6)
    0.002251
    """
    if rows <= variables:
        return float("inf")
    index = np.arange(1, variables + 1)
    return float(0.5 * (variables * digamma((rows - 1) / 2) - digamma((rows - index) / 2).sum()))


def wasserstein_correlation_of(covariance: npt.ArrayLike, *, normalised: bool = False) -> float:
    """Return the squared 2-Wasserstein distance of a Gaussian from the product of its marginals.

    W = 2 tr C - 2 tr (D C)^(1/2), D = diag(C); normalised: W / tr C.  [Locatello2019]

    >>> round(wasserstein_correlation_of([[1.0, 0.6], [0.6, 1.0]]), 6)
    0.205267
    """
    matrix = _checked_covariance(covariance)
    scale = np.sqrt(np.diag(matrix))
    # (D C) and D^1/2 C D^1/2 share their eigenvalues, and the second is symmetric: no complex roots.
    roots = np.sqrt(np.clip(np.linalg.eigvalsh(matrix * scale[:, None] * scale), 0.0, None))
    trace = float(np.trace(matrix))
    distance = max(0.0, 2.0 * (trace - float(roots.sum())))
    if not normalised:
        return distance
    return distance / trace if trace > 0 else 0.0


def effective_rank_of(covariance: npt.ArrayLike, *, of: RankOf = "covariance") -> float:
    """Return the effective rank exp(-sum_k p_k log p_k) of codes with this covariance.

    p_k is proportional to the eigenvalues of C (``of="covariance"``, as in the authors' code), to their roots, the
    singular values of the centred codes (``of="codes"``, the definition in print), or to the eigenvalues of
    the correlation matrix (``of="correlation"``, blind to scale).  [Roy2007; Bonheme2023BeMoreActive]
    Codes that do not vary have rank 0.

    >>> round(effective_rank_of(np.diag([1.0] * 6 + [0.02**2] * 4)), 2)
    6.01
    """
    matrix = _checked_covariance(covariance)
    varying = np.diag(matrix) > 0
    share, _ = _rank_shares(matrix[np.ix_(varying, varying)], of)
    return float(np.exp(-(share * np.log(share)).sum())) if share.size else 0.0


def total_correlation_gradient(covariance: Floats) -> Floats:
    """Return dTC/dC = (diag(1 / C_jj) - C^-1) / 2, zero for constant variables.

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
    """Return the derivative of the effective rank by the covariance it is computed from.

    dr/dC = V diag(g) V', g_k = -r (log p_k + H) dp_k, with p over eigenvalues (or their roots) of C.

    >>> effective_rank_gradient(np.eye(2)).round(6) + 0.0
    array([[0., 0.],
           [0., 0.]])
    """
    varying = np.diag(covariance) > 0
    inner = covariance[np.ix_(varying, varying)]
    gradient = np.zeros_like(covariance)
    if not varying.any():
        return gradient
    share, (values, vectors) = _rank_shares(inner, of)
    entropy = -(share * np.log(share)).sum()
    slope = -np.exp(entropy) * share * (np.log(share) + entropy)
    slope = slope / (2 * values) if of == "codes" else slope / values
    block = (vectors * slope) @ vectors.T
    if of == "correlation":
        scale = 1.0 / np.sqrt(np.diag(inner))
        normal = correlation_of(inner)
        block = block - np.diag((block * normal).sum(axis=1))
        block = block * scale[:, None] * scale
    gradient[np.ix_(varying, varying)] = block
    return gradient


def wasserstein_gradient(covariance: Floats) -> Floats:
    """Return dW/dC of the Wasserstein correlation, W = 2 tr C - 2 tr (D C)^(1/2).

    With M = D^1/2 C D^1/2 and S = M^-1/2: dW = 2 I - (D^1/2 S D^1/2) - diag((D^-1/2 S D^1/2 C)_jj).

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


def _rank_shares(matrix: Floats, of: RankOf) -> tuple[Floats, tuple[Floats, Floats]]:
    matrix = correlation_of(matrix) if of == "correlation" else matrix
    values, vectors = np.linalg.eigh(matrix)
    # Rounding leaves noise where an exact zero belongs; a zero eigenvalue has no share.
    kept = values > values.max(initial=0.0) * len(matrix) * np.finfo(np.float64).eps
    values, vectors = values[kept], vectors[:, kept]
    weights = np.sqrt(values) if of == "codes" else values
    return weights / weights.sum(), (values, vectors)


def _checked_covariance(covariance: npt.ArrayLike) -> Floats:
    matrix = np.asarray(covariance, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
        raise DataError(f"a covariance must be a finite square matrix, got shape {matrix.shape}; see covariance(codes)")
    if (np.diag(matrix) < 0).any():
        raise DataError("a covariance must not have negative variances; pass a covariance, not codes")
    return matrix
