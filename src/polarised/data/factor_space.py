"""The factors images were made from, and the way between an image's index and its factors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polarised.catalogue import nearest
from polarised.errors import DataError

__all__ = ["FactorSpace", "OutOfRangeError", "resolved"]

Indices = NDArray[np.int64]


class OutOfRangeError(DataError, IndexError):
    """An index past the end, for those who catch IndexError and those who catch ours."""


@dataclass(frozen=True, eq=False)
class FactorSpace:
    """The generative factors of a dataset and the way between an image's index and its factors.

    Without `table` every combination has one image and the last factor varies fastest:
    index = sum_i factor_i * prod_(j > i) size_j [Locatello2019, appendix]. With `table` (one row of factors an
    image) combinations may have several images, as labels do, or none.

    >>> space = FactorSpace(("shape", "scale"), (3, 6))
    >>> space.index([[2, 5], [0, 1]])
    array([17,  1])
    >>> space.factors([17])
    array([[2, 5]])
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    values: tuple[NDArray[Any], ...] | None = field(default=None, kw_only=True)
    table: NDArray[Any] | None = field(default=None, kw_only=True)
    _sorted: NDArray[Any] = field(init=False, repr=False)
    _order: NDArray[Any] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(self.names))
        object.__setattr__(self, "sizes", tuple(int(size) for size in self.sizes))
        if not self.names or len(self.names) != len(self.sizes) or min(self.sizes) < 1:
            raise DataError(
                f"expected as many factor names as positive sizes, got names {self.names} and sizes {self.sizes}"
            )
        if float(np.prod(np.array(self.sizes, dtype=float))) >= 2.0**63:
            raise DataError(
                f"expected fewer than 2^63 combinations of factors, got sizes {self.sizes}; keep fewer factors"
            )
        if self.values is not None:
            object.__setattr__(self, "values", tuple(np.asarray(of) for of in self.values))
            lengths = tuple(len(of) for of in self.values or ())
            if lengths != self.sizes:
                raise DataError(
                    f"expected one value for each step of a factor, sizes {self.sizes}, got {lengths} values"
                )
        if self.table is not None:
            table = self._checked(self.table, "table")
            keys = self._key(table)
            order = np.argsort(keys, kind="stable")
            object.__setattr__(self, "table", table.astype(np.min_scalar_type(max(self.sizes))))
            object.__setattr__(self, "_sorted", keys[order])
            object.__setattr__(self, "_order", order)

    def __len__(self) -> int:
        return int(np.prod(self.sizes, dtype=np.int64)) if self.table is None else len(self.table)

    def index(self, factors: NDArray[Any] | Sequence[Any], generator: np.random.Generator | None = None) -> Indices:
        """Return the index of an image with each row of factors; of several, the first, or one drawn by `generator`.

        >>> labels = FactorSpace(("digit",), (10,), table=np.array([[7], [3], [7]]))
        >>> labels.index([[7], [3]])
        array([0, 1])
        """
        keys = self._key(self._checked(factors, "factors"))
        if self.table is None:
            return keys
        first = np.searchsorted(self._sorted, keys, side="left")
        count = np.searchsorted(self._sorted, keys, side="right") - first
        if not count.all():
            missing = np.asarray(factors).reshape(len(keys), -1)[np.argmin(count)]
            raise DataError(f"no image has the factors {self._named(missing)}; draw existing ones with sample()")
        if generator is not None:
            first = first + generator.integers(count)
        return self._order[first].astype(np.int64)

    def factors(self, indices: NDArray[Any] | Sequence[int] | slice) -> Indices:
        """Return the factors of each image, one row an index.

        >>> FactorSpace(("x", "y"), (2, 3)).factors([4])
        array([[1, 1]])
        """
        wanted = resolved(indices, len(self))
        if self.table is not None:
            return self.table[wanted].astype(np.int64)
        return np.stack(np.unravel_index(wanted, self.sizes), axis=-1).astype(np.int64)

    def sample(self, n: int, generator: np.random.Generator, *, fixed: Mapping[str, int] | None = None) -> Indices:
        """Draw n rows of factors uniformly, some of them held at a value.

        >>> from polarised.randomness import stream
        >>> FactorSpace(("x", "y"), (2, 3)).sample(2, stream(0, "example"), fixed={"x": 1})[:, 0]
        array([1, 1])
        """
        held = {self.column(name): int(value) for name, value in (fixed or {}).items()}
        for column, value in held.items():
            if not 0 <= value < self.sizes[column]:
                raise DataError(f"expected {self.names[column]} between 0 and {self.sizes[column] - 1}, got {value}")
        if self.table is None:
            drawn = [generator.integers(size, size=n) for size in self.sizes]
            return np.stack(
                [np.full(n, held[i]) if i in held else drawn[i] for i in range(len(drawn))], axis=-1
            ).astype(np.int64)
        rows = np.flatnonzero(
            np.logical_and.reduce([self.table[:, i] == value for i, value in held.items()])
            if held
            else np.ones(len(self.table), dtype=bool)
        )
        if not len(rows):
            raise DataError(f"no image has {dict(fixed or {})}; fix fewer factors or other values")
        return self.table[rows[generator.integers(len(rows), size=n)]].astype(np.int64)

    def _checked(self, factors: NDArray[Any] | Sequence[Any], called: str) -> Indices:
        array = np.asarray(factors)
        if array.ndim != 2 or array.shape[1] != len(self.names):
            raise DataError(
                f"expected {called} of shape (n, {len(self.names)}) for {', '.join(self.names)}, got {array.shape}"
            )
        if array.dtype.kind not in "iubf" or not np.array_equal(array, np.floor(array)):
            raise DataError(f"expected whole numbers as {called}, got {array.dtype}; give the index of each value")
        bad = np.argwhere((array < 0) | (array >= self.sizes))
        if len(bad):
            row, column = bad[0]
            raise DataError(
                f"expected {self.names[column]} between 0 and {self.sizes[column] - 1}, "
                f"got {array[row, column]} in row {row} of {called}"
            )
        return array.astype(np.int64)

    def _key(self, factors: Indices) -> Indices:
        key = np.zeros(len(factors), dtype=np.int64)
        for column, size in enumerate(self.sizes):
            key = key * size + factors[:, column]
        return key

    def column(self, name: str) -> int:
        """Return which factor has this name.

        >>> FactorSpace(("x", "y"), (2, 3)).column("y")
        1
        """
        if name not in self.names:
            raise DataError(
                f"no factor is called {name!r}{nearest(name, self.names)}; there are {', '.join(self.names)}"
            )
        return self.names.index(name)

    def _named(self, row: NDArray[Any]) -> str:
        return ", ".join(f"{name}={value}" for name, value in zip(self.names, row, strict=True))


def resolved(key: Any, length: int) -> Indices:
    """Turn an index expression (slice, mask, list, array; negative counts from the end) into checked indices.

    >>> resolved([0, -1], 10)
    array([0, 9])
    """
    if isinstance(key, slice):
        return np.arange(*key.indices(length), dtype=np.int64)
    array = np.asarray(key)
    if array.dtype == bool and array.shape == (length,):
        return np.flatnonzero(array)
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError(
            f"expected a list of whole indices, a slice or a mask of length {length}, "
            f"got {array.dtype} of shape {array.shape}"
        )
    indices = array.astype(np.int64, copy=False)
    low, high = int(indices.min()), int(indices.max())
    if low < -length or high >= length:
        raise OutOfRangeError(f"expected indices below {length}, got {high if high >= length else low}")
    return np.where(indices < 0, indices + length, indices) if low < 0 else indices
