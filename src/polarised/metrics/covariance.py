"""The starting point of every metric: checked codes and their covariance.

Also the scores that are functions of the covariance alone, so that the scores of many subsets cost one pass over the
data.
"""

from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import digamma

from polarised.errors import ConfigError, DataError
from polarised.regime._moments import scaled_to_correlation

__all__ = [
    "Floats",
    "Integers",
    "RankOf",
    "checked_codes",
    "checked_pair",
    "checked_split",
    "correlation",
    "correlation_from_covariance",
    "covariance",
    "effective_rank_from_covariance",
    "rank_shares",
    "total_correlation_bias",
    "total_correlation_from_covariance",
    "wasserstein_correlation_from_covariance",
]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
RankOf = Literal["covariance", "codes", "correlation"]


def checked_codes(codes: npt.ArrayLike, *, name: str = "codes") -> Floats:
    """Return codes as a finite float64 array (n, d) with at least two rows, or raise an error.

    >>> checked_codes([[0, 1], [2, 3]]).dtype
    dtype('float64')
    """
    try:
        array = np.asarray(codes, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} must be numbers of shape (n, d), got {type(codes).__name__}: {error}") from error
    if array.ndim != 2 or array.shape[0] < 2 or array.shape[1] < 1:
        raise DataError(
            f"{name} must have shape (n, d) with n >= 2 rows and d >= 1 variables, got {array.shape}; "
            "pass one observation per row"
        )
    if not np.isfinite(array).all():
        bad = np.flatnonzero(~np.isfinite(array).all(axis=0))
        raise DataError(
            f"{name} must be finite, got NaN or infinity in column(s) {', '.join(map(str, bad[:10]))}; "
            "check the inputs that produce them or drop these rows"
        )
    return array


def checked_pair(codes: npt.ArrayLike, factors: npt.ArrayLike) -> tuple[Floats, Integers]:
    """Return codes (n, d) and factor classes (n, F) of the same rows, or raise an error.

    A one-dimensional ``factors`` is a single factor.

    >>> checked_pair([[0.0], [1.0]], [3, 4])[1].shape
    (2, 1)
    """
    array = checked_codes(codes)
    raw = np.asarray(factors)
    raw = raw[:, None] if raw.ndim == 1 else raw
    if raw.ndim != 2 or raw.shape[1] < 1:
        raise DataError(f"factors must have shape (n, F) with F >= 1 columns of classes, got {raw.shape}")
    if len(raw) != len(array):
        raise DataError(
            f"codes and factors must have one row per observation, got {len(array)} and {len(raw)} rows; "
            "pass the factors of exactly the encoded images"
        )
    if raw.dtype.kind not in "iub" and not (raw.dtype.kind == "f" and np.array_equal(raw, np.round(raw))):
        raise DataError(
            f"factors must be whole-number classes, got {raw.dtype}; pass class indices (0, 1, ...), "
            "or bin a continuous factor first"
        )
    return array, raw.astype(np.int64)


def checked_split(rows: int, n_train: int | None) -> int:
    """Return the number of leading rows for training: two thirds by default; at least two train, at least one tests.

    >>> checked_split(15_000, None)
    10000
    """
    split = 2 * rows // 3 if n_train is None else int(n_train)
    if not 2 <= split < rows:
        raise ConfigError(
            f"n_train must leave at least two rows for training and one for testing, got {split} of {rows} rows; "
            "pass more rows or another n_train"
        )
    return split


def covariance(codes: npt.ArrayLike) -> Floats:
    """Return the unbiased covariance (d, d); the row and column of a constant variable are exactly zero.

    C = sum_i (z_i - m)(z_i - m)' / (n - 1).

    Args:
        codes: Codes (n, d), one observation in each row.

    Returns:
        The covariance (d, d).

    Raises:
        DataError: If the codes are not finite numbers (n, d).

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

    Args:
        codes: Codes (n, d), one observation in each row.

    Returns:
        The correlations (d, d), 1 on the diagonal.

    Raises:
        DataError: If the codes are not finite numbers (n, d).

    >>> correlation([[0.0, 1.0, 5.0], [1.0, 0.0, 5.0]]).round(6)
    array([[ 1., -1.,  0.],
           [-1.,  1.,  0.],
           [ 0.,  0.,  1.]])
    """
    return correlation_from_covariance(covariance(codes))


def correlation_from_covariance(covariance: npt.ArrayLike) -> Floats:
    """Return the correlation matrix of a covariance, R_ij = C_ij / sqrt(C_ii C_jj), with R_ii = 1.

    Args:
        covariance: A covariance (d, d).

    Returns:
        The correlations (d, d), 0 for constant variables.

    Raises:
        DataError: If the covariance is not a finite square matrix, or has a negative variance.

    >>> correlation_from_covariance([[4.0, 1.0], [1.0, 1.0]])
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    result = scaled_to_correlation(_checked_covariance(covariance))
    np.fill_diagonal(result, 1.0)
    return result


def total_correlation_from_covariance(covariance: npt.ArrayLike) -> float:
    """Return the total correlation of a Gaussian with this covariance.

    TC = (sum_j log C_jj - log det C) / 2 = -log det R / 2.  [Locatello2019; Cheng2021, prop. 1]
    Constant variables contribute nothing; variables that determine each other give infinity.

    Args:
        covariance: A covariance (d, d).

    Returns:
        The total correlation in nats.

    Raises:
        DataError: If the covariance is not a finite square matrix, or has a negative variance.

    >>> round(total_correlation_from_covariance([[1.01, 0.1], [0.1, 1.01]]), 7)
    0.0049257
    """
    matrix = _checked_covariance(covariance)
    varying = np.diag(matrix) > 0
    if varying.sum() < 2:
        return 0.0
    varied = correlation_from_covariance(matrix[np.ix_(varying, varying)])
    eigenvalues = np.linalg.eigvalsh(varied)
    if eigenvalues[0] <= len(varied) * np.finfo(np.float64).eps:
        return float("inf")
    return max(0.0, float(-0.5 * np.log(eigenvalues).sum()))


def total_correlation_bias(variables: int, rows: int) -> float:
    """Return the mean excess of the estimate over the true value for Gaussian codes, about d (d - 1) / 4n.

    bias = ( d psi((n-1)/2) - sum_i psi((n-i)/2) ) / 2, i = 1..d, psi the digamma function (Wishart moments).

    Args:
        variables: Number of variables that are not constant.
        rows: Number of observations.

    Returns:
        The bias in nats; infinity if there are no more rows than variables.

    >>> round(total_correlation_bias(10, 10_000), 6)
    0.002251
    """
    if rows <= variables:
        return float("inf")
    index = np.arange(1, variables + 1)
    return float(0.5 * (variables * digamma((rows - 1) / 2) - digamma((rows - index) / 2).sum()))


def wasserstein_correlation_from_covariance(covariance: npt.ArrayLike, *, normalised: bool = False) -> float:
    """Return the squared 2-Wasserstein distance of a Gaussian from the product of its marginals.

    W = 2 tr C - 2 tr (D C)^(1/2), D = diag(C); normalised: W / tr C.  [Locatello2019]

    Args:
        covariance: A covariance (d, d).
        normalised: Whether to divide by the total variance.

    Returns:
        The squared distance.

    Raises:
        DataError: If the covariance is not a finite square matrix, or has a negative variance.

    >>> round(wasserstein_correlation_from_covariance([[1.0, 0.6], [0.6, 1.0]]), 6)
    0.205267
    """
    matrix = _checked_covariance(covariance)
    # Scale by a power of four, whose root is exact too: squares of large variances would not be finite.
    unit = 4.0 ** np.floor(np.log2(max(float(np.diag(matrix).max(initial=0.0)), 1e-300)) / 2)
    matrix = matrix / unit
    scale = np.sqrt(np.diag(matrix))
    # (D C) and D^1/2 C D^1/2 have the same eigenvalues, and the second is symmetric: no complex roots.
    roots = np.sqrt(np.clip(np.linalg.eigvalsh(matrix * scale[:, None] * scale), 0.0, None))
    trace = float(np.trace(matrix))
    distance = max(0.0, 2.0 * (trace - float(roots.sum())))
    if not normalised:
        return float(unit * distance)
    return distance / trace if trace > 0 else 0.0


def effective_rank_from_covariance(covariance: npt.ArrayLike, *, of: RankOf = "covariance") -> float:
    """Return the effective rank exp(-sum_k p_k log p_k) of codes with this covariance.

    p_k is proportional to the eigenvalues of C (``of="covariance"``, as in the authors' code), to their roots, the
    singular values of the centred codes (``of="codes"``, as printed in the paper), or to the eigenvalues of
    the correlation matrix (``of="correlation"``, independent of scale).  [Roy2007; Bonheme2023BeMoreActive]
    Constant codes have rank 0.

    Args:
        covariance: A covariance (d, d).
        of: The source of the shares: "covariance", "codes" or "correlation".

    Returns:
        The effective rank, between 0 and d.

    Raises:
        DataError: If the covariance is not a finite square matrix, or has a negative variance.

    >>> round(effective_rank_from_covariance(np.diag([1.0] * 6 + [0.02**2] * 4)), 2)
    6.01
    """
    matrix = _checked_covariance(covariance)
    varying = np.diag(matrix) > 0
    matrix = matrix[np.ix_(varying, varying)]
    values: Floats = np.asarray(
        np.linalg.eigvalsh(correlation_from_covariance(matrix) if of == "correlation" else matrix), dtype=np.float64
    )
    share = _shares(values[_not_zero(values)], of)
    return float(np.exp(-(share * np.log(share)).sum())) if share.size else 0.0


def rank_shares(matrix: Floats, of: RankOf) -> tuple[Floats, tuple[Floats, Floats]]:
    """Return the shares p_k of the effective rank, with the underlying eigenvalues and eigenvectors.

    Args:
        matrix: A covariance (d, d) of variables that are not constant.
        of: The source of the shares: "covariance", "codes" or "correlation".

    Returns:
        The shares (k,), and the nonzero eigenvalues (k,) with their eigenvectors (d, k).
    """
    matrix = correlation_from_covariance(matrix) if of == "correlation" else matrix
    values, vectors = np.linalg.eigh(matrix)
    kept = _not_zero(values)
    values, vectors = values[kept], vectors[:, kept]
    return _shares(values, of), (values, vectors)


def _not_zero(values: Floats) -> npt.NDArray[np.bool_]:
    """Which eigenvalues exceed the rounding error of an exact zero; a zero eigenvalue has no share."""
    return np.asarray(values > values.max(initial=0.0) * len(values) * np.finfo(np.float64).eps)


def _shares(values: Floats, of: RankOf) -> Floats:
    weights = np.sqrt(values) if of == "codes" else values
    return np.asarray(weights / weights.sum())


def _checked_covariance(covariance: npt.ArrayLike) -> Floats:
    matrix = np.asarray(covariance, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
        raise DataError(f"a covariance must be a finite square matrix, got shape {matrix.shape}; see covariance(codes)")
    if (np.diag(matrix) < 0).any():
        raise DataError("a covariance must not have negative variances; pass a covariance, not codes")
    return matrix
