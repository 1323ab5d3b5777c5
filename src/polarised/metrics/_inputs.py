"""What every metric accepts, and the sentence that refuses the rest."""

import numpy as np
import numpy.typing as npt

from polarised.errors import ConfigError, DataError

__all__ = ["Floats", "Integers", "checked_codes", "checked_pair", "checked_split"]

Floats = npt.NDArray[np.float64]


Integers = npt.NDArray[np.int64]


def checked_codes(codes: npt.ArrayLike, *, name: str = "codes") -> Floats:
    """Return codes as a finite float64 array (n, d) with at least two rows, or say what is wrong.

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
            "put one observation in each row"
        )
    if not np.isfinite(array).all():
        bad = np.flatnonzero(~np.isfinite(array).all(axis=0))
        raise DataError(
            f"{name} must be finite, got NaN or infinity in column(s) {', '.join(map(str, bad[:10]))}; "
            "find the inputs that produce them or drop these rows"
        )
    return array


def checked_pair(codes: npt.ArrayLike, factors: npt.ArrayLike) -> tuple[Floats, Integers]:
    """Return codes (n, d) and factor classes (n, F) of the same rows, or say what is wrong.

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
            f"factors must be whole-numbered classes, got {raw.dtype}; pass class indices (0, 1, ...), "
            "or bin a continuous factor first"
        )
    return array, raw.astype(np.int64)


def checked_split(rows: int, n_train: int | None) -> int:
    """Return how many leading rows train: two thirds unless told; at least two train, at least one tests.

    >>> checked_split(15_000, None)
    10000
    """
    split = 2 * rows // 3 if n_train is None else int(n_train)
    if not 2 <= split < rows:
        raise ConfigError(
            f"n_train must leave at least two rows to train and one to test, got {split} of {rows} rows; "
            "pass more rows or another n_train"
        )
    return split
