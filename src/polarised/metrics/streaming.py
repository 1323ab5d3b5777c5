"""The same scores for codes that do not fit into memory: read in chunks, merged across processes.

One pass of :class:`Moments` gives the covariance, and with it total correlation, effective rank and Wasserstein
correlation; two passes (:class:`Ranges`, then :class:`BinnedCounts`) give binned mutual information. Sums are
float64 for any type of the chunks; results equal those of the whole array up to rounding.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.linalg.blas import dgemm

from polarised.errors import ConfigError, DataError
from polarised.metrics.covariance import Floats, Integers
from polarised.metrics.information import Correction, bin_codes, bin_edges, information_of_counts, joint_counts

__all__ = ["BinnedCounts", "Moments", "Ranges", "chunks_of", "streamed_mutual_information_matrix"]

# Rows of float64 workspace that fit into the second-level cache for ten variables.
_BLOCK = 4096
_LONG = 64


def chunks_of(codes: npt.NDArray[Any], *, rows: int = 1_000_000) -> Iterator[npt.NDArray[Any]]:
    """Yield consecutive row slices of an array, memory-mapped or not, without copying.

    Args:
        codes: An array (n, d).
        rows: Number of rows in a slice.

    Yields:
        Slices (m, d) of at most `rows` rows.

    Raises:
        ConfigError: If `rows` is below 1.

    >>> [len(chunk) for chunk in chunks_of(np.zeros((5, 2)), rows=2)]
    [2, 2, 1]
    """
    if rows < 1:
        raise ConfigError(f"rows per chunk must be at least 1, got {rows}")
    for start in range(0, len(codes), rows):
        yield codes[start : start + rows]


class Moments:
    """Mean and covariance of rows that arrive in chunks.

    With x shifted by a typical row: C = (sum x x' - (sum x)(sum x)' / n) / (n - 1).  [Chan1983]

    >>> moments = Moments()
    >>> moments.update([[0.0, 0.0], [2.0, 2.0]])
    >>> moments.update([[4.0, 4.0]])
    >>> moments.covariance
    array([[4., 4.],
           [4., 4.]])
    """

    def __init__(self) -> None:
        self.rows = 0
        self._shift: Floats = np.zeros(0)
        self._sum: Floats = np.zeros(0)
        self._products: Floats = np.zeros((0, 0))

    def update(self, codes: npt.ArrayLike) -> None:
        """Add the rows of one chunk (m, d).

        Args:
            codes: Codes (m, d).

        Raises:
            DataError: If the chunk has another number of variables, or is not finite.
        """
        chunk = _checked_chunk(codes, None if self.rows == 0 else len(self._shift))
        if not len(chunk):
            return
        if self.rows == 0:
            self._start(chunk)
        variables = chunk.shape[1]
        total, products = np.zeros(_LONG * variables), np.zeros((variables, variables), order="F")
        # Long rows are shifted and summed several times faster than rows of ten.
        long_shift, ones = np.tile(self._shift, _LONG), np.ones(_BLOCK // _LONG)
        space = np.empty((min(_BLOCK, len(chunk)), variables))
        for start in range(0, len(chunk), _BLOCK):
            part = chunk[start : start + _BLOCK]
            block = space[: len(part)]
            np.copyto(block, part)
            whole = len(block) // _LONG
            table = block[: whole * _LONG].reshape(whole, len(long_shift))
            rest = block[whole * _LONG :].ravel()
            table -= long_shift
            rest -= long_shift[: len(rest)]
            total += ones[:whole] @ table
            total[: len(rest)] += rest
            # NumPy would use the symmetric routine for this product, which is slower for few variables.
            products = dgemm(1.0, block.T, block.T, trans_b=True, beta=1.0, c=products, overwrite_c=True)
        if not np.isfinite(products.trace()):
            raise DataError(
                f"codes must be finite, got NaN or infinity in rows {self.rows} to {self.rows + len(chunk)}; "
                "check the inputs that produce them or drop these rows"
            )
        self._sum += total.reshape(_LONG, -1).sum(axis=0)
        self._products += (products + products.T) / 2
        self.rows += len(chunk)

    def merge(self, other: Self) -> None:
        """Add the data of another accumulator.

        Args:
            other: The accumulator to add.

        Raises:
            DataError: If it has another number of variables.
        """
        if other.rows == 0:
            return
        if self.rows == 0:
            self._shift, self._sum = other._shift.copy(), np.zeros_like(other._sum)
            self._products = np.zeros_like(other._products)
        if len(self._shift) != len(other._shift):
            raise DataError(
                f"both accumulators must have the same variables, got {len(self._shift)} and {len(other._shift)}"
            )
        move = other._shift - self._shift
        cross = np.outer(move, other._sum)
        self._products += other._products + cross + cross.T + other.rows * np.outer(move, move)
        self._sum += other._sum + other.rows * move
        self.rows += other.rows

    @property
    def mean(self) -> Floats:
        """The mean of each variable."""
        self._require_rows(1)
        return self._shift + self._sum / self.rows

    @property
    def covariance(self) -> Floats:
        """The unbiased covariance (d, d); exactly zero for a constant variable."""
        self._require_rows(2)
        return (self._products - np.outer(self._sum, self._sum) / self.rows) / (self.rows - 1)

    def _start(self, chunk: npt.NDArray[Any]) -> None:
        head = chunk[:_BLOCK].astype(np.float64)
        # A constant must be shifted to exact zeros, which its rounded mean would not do.
        self._shift = np.where(np.ptp(head, axis=0) == 0, head[0], head.mean(axis=0))
        variables = head.shape[1]
        self._sum, self._products = np.zeros(variables), np.zeros((variables, variables))

    def _require_rows(self, rows: int) -> None:
        if self.rows < rows:
            raise DataError(f"expected at least {rows} row(s), got {self.rows}; call update(codes) first")


class Ranges:
    """Lowest and highest value of each variable, chunk by chunk: the first pass of binned information.

    >>> ranges = Ranges()
    >>> ranges.update([[0.0], [3.0]])
    >>> ranges.edges(bins=3)
    array([[0., 1., 2., 3.]])
    """

    def __init__(self) -> None:
        self.lowest: npt.NDArray[Any] | None = None
        self.highest: npt.NDArray[Any] | None = None

    def update(self, codes: npt.ArrayLike) -> None:
        """Add the rows of one chunk (m, d).

        Args:
            codes: Codes (m, d).

        Raises:
            DataError: If the chunk has another number of variables, or is not finite.
        """
        chunk = _checked_chunk(codes, None if self.lowest is None else len(self.lowest))
        if len(chunk):
            self._widen(chunk.min(axis=0), chunk.max(axis=0))

    def merge(self, other: Self) -> None:
        """Add the data of another accumulator.

        Args:
            other: The accumulator to add.
        """
        if other.lowest is not None and other.highest is not None:
            self._widen(other.lowest, other.highest)

    def edges(self, *, bins: int = 20) -> Floats:
        """Return the (d, bins + 1) bin edges over the data so far.

        Args:
            bins: Number of equal-width bins of each variable.

        Returns:
            The edges, as computed by `bin_edges`.

        Raises:
            DataError: If there is no data yet.
        """
        if self.lowest is None or self.highest is None:
            raise DataError("expected at least one row before computing edges, got none; call update(codes) first")
        return bin_edges(self.lowest, self.highest, bins=bins)

    def _widen(self, low: npt.NDArray[Any], high: npt.NDArray[Any]) -> None:
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise DataError("codes must be finite, got NaN or infinity in this chunk; drop these rows")
        self.lowest = low if self.lowest is None else np.minimum(self.lowest, low)
        self.highest = high if self.highest is None else np.maximum(self.highest, high)


class BinnedCounts:
    """Contingency tables of all pairs of binned variables, chunk by chunk: the second pass.

    Args:
        edges: The bin edges (d, bins + 1) of the first pass.

    >>> counts = BinnedCounts(bin_edges([0.0, 0.0], [1.0, 1.0], bins=2))
    >>> counts.update([[0.0, 1.0], [1.0, 0.0]])
    >>> counts.information().round(3)
    array([[0.693, 0.693],
           [0.693, 0.693]])
    """

    def __init__(self, edges: Floats) -> None:
        self.edges = edges
        variables, bins = edges.shape[0], edges.shape[1] - 1
        self.counts: Integers = np.zeros((variables, bins, variables, bins), dtype=np.int64)

    def update(self, codes: npt.ArrayLike) -> None:
        """Add the rows of one chunk (m, d).

        Args:
            codes: Codes (m, d).

        Raises:
            DataError: If the chunk has another number of variables.
        """
        chunk = _checked_chunk(codes, len(self.edges))
        bins = self.edges.shape[1] - 1
        for start in range(0, len(chunk), _BLOCK):
            labels = bin_codes(chunk[start : start + _BLOCK], edges=self.edges)
            self.counts += joint_counts(labels, labels, sizes=(bins, bins))

    def merge(self, other: Self) -> None:
        """Add the data of another accumulator over the same edges.

        Args:
            other: The accumulator to add.

        Raises:
            DataError: If it has other edges.
        """
        if not np.array_equal(self.edges, other.edges):
            raise DataError("counts can be merged only over the same bin edges; merge the ranges first")
        self.counts += other.counts

    def information(self, *, correction: Correction = "none") -> Floats:
        """Return the (d, d) mutual information, entropies on the diagonal.

        Args:
            correction: "none", or "miller_madow" for the bias of the entropies.

        Returns:
            The information in nats.
        """
        return information_of_counts(self.counts, correction=correction)


def streamed_mutual_information_matrix(
    chunks: Callable[[], Iterable[npt.ArrayLike]], *, bins: int = 20, correction: Correction = "none"
) -> Floats:
    """Return the mutual information matrix of codes that are read twice in chunks.

    Equal to :func:`polarised.metrics.mutual_information_matrix` of the whole array, in constant memory.

    Args:
        chunks: Called twice, each time returning all chunks (m, d).
        bins: Number of equal-width bins of each variable.
        correction: "none", or "miller_madow" for the bias of the entropies.

    Returns:
        The information (d, d) in nats.

    Raises:
        DataError: If there are no rows, or they are not finite.

    >>> codes = np.arange(8.0).reshape(4, 2)
    >>> streamed_mutual_information_matrix(lambda: chunks_of(codes, rows=3), bins=2).round(3)
    array([[0.693, 0.693],
           [0.693, 0.693]])
    """
    ranges = Ranges()
    for chunk in chunks():
        ranges.update(chunk)
    counts = BinnedCounts(ranges.edges(bins=bins))
    for chunk in chunks():
        counts.update(chunk)
    return counts.information(correction=correction)


def _checked_chunk(codes: npt.ArrayLike, variables: int | None) -> npt.NDArray[Any]:
    chunk = np.asarray(codes)
    if chunk.ndim != 2 or chunk.dtype.kind not in "fiub" or (variables is not None and chunk.shape[1] != variables):
        expected = "d" if variables is None else variables
        raise DataError(f"a chunk must be numbers of shape (m, {expected}), got {chunk.dtype} {chunk.shape}")
    return chunk
