"""Codes of drawn factors: batches with one factor held fixed, and a table of the codes of all combinations."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from polarised.errors import ConfigError, DataError
from polarised.metrics.covariance import Integers
from polarised.random import stream

__all__ = ["CodeTable", "Draws", "Represent", "represent_by_lookup"]

Represent = Callable[[Integers], npt.ArrayLike]

Codes = npt.NDArray[np.floating]
Numbers = list[npt.NDArray[Any]]


# Votes drawn together: enough to amortise the calls, few enough that their codes stay in the cache.
_BLOCK = 512


# Codes read from a table one group of columns after the other, so that a part of the table is fetched once for many.
_TOGETHER = 2**21


# Combinations drawn as one number: short integers are fast, and this far below 2^16 few draws are rejected.
_DIGITS = 2**12


# Bytes of a row that are read together: NumPy copies so few inline, and less of a large table competes for the cache.
_PIECE = 32


class CodeTable:
    """The codes of all combinations of factors, as a function from factors (m, F) to codes (m, d).

    `Draws` recognises it and reads the rows of combinations without computing their factors.

    Args:
        codes: Codes (N, d) of all N combinations, the last factor varying fastest.
        sizes: The number of values of each factor.
    """

    def __init__(self, codes: npt.NDArray[np.number], sizes: Sequence[int]) -> None:
        self.codes, self.sizes = codes, tuple(sizes)
        self._strides = _strides(self.sizes)

    def __call__(self, factors: Integers) -> npt.NDArray[np.number]:
        """Return the codes (m, d) of combinations (m, F)."""
        return np.asarray(self.codes.take(factors @ self._strides, axis=0))

    @cached_property
    def pieces(self) -> list[Codes]:
        """The codes as groups of successive columns whose rows are read fast, all of them finite."""
        codes = _checked(self.codes, (prod(self.sizes), len(self.sizes)))
        width = max(1, _PIECE // codes.itemsize)
        # At least one group, so that codes without any column can be joined again.
        starts = range(0, max(1, codes.shape[1]), width)
        return [np.ascontiguousarray(codes[:, first : first + width]) for first in starts]


def represent_by_lookup(codes: npt.ArrayLike, factors: npt.ArrayLike) -> tuple[CodeTable, tuple[int, ...]]:
    """Return ``represent`` and ``factor_sizes`` for encodings of every combination of factors.

    Args:
        codes: Codes (n, d), one observation in each row.
        factors: Indices (n, F) of the factors of the same rows.

    Returns:
        A function from factor indices (m, F) to codes (m, d), and the number of values of each factor.

    Raises:
        DataError: If a combination of factors was not encoded, or the factors do not match the codes.

    >>> represent, sizes = represent_by_lookup([[0.5], [0.7]], [[1], [0]])
    >>> represent(np.array([[0], [1]])).ravel().tolist(), sizes
    ([0.7, 0.5], (2,))
    """
    table, labels = np.asarray(codes), np.asarray(factors, dtype=np.int64)
    if labels.ndim != 2 or len(labels) != len(table) or not labels.size or (labels < 0).any():
        raise DataError(f"factors must be indices (n, F) of the {len(table)} codes, got shape {labels.shape}")
    sizes = tuple(int(size) for size in labels.max(axis=0) + 1)
    combinations = prod(sizes)
    # Checked before an array of that size is allocated: with many factors it would exceed any memory.
    if combinations > len(labels):
        raise _incomplete(combinations, len(np.unique(labels, axis=0)))
    place = np.full(combinations, -1, dtype=np.int64)
    place[labels @ _strides(sizes)] = np.arange(len(labels))
    if (place < 0).any():
        raise _incomplete(combinations, int((place >= 0).sum()))
    return CodeTable(table.take(place, axis=0), sizes), sizes


class Draws:
    """Batches of codes with one factor held fixed, from our stream or in the order of the reference code.

    Args:
        represent: Maps factor indices (m, F) to codes (m, d).
        sizes: The number of values of each factor.
        batch_size: Number of images in a batch.
        seed: Seed of the random draws.
        reference_stream: Whether to draw in the order of disentanglement_lib.
    """

    def __init__(
        self,
        represent: Represent,
        sizes: Sequence[int],
        *,
        batch_size: int,
        seed: int = 0,
        reference_stream: bool = False,
    ) -> None:
        self.sizes = np.asarray(sizes, dtype=np.int64)
        if self.sizes.ndim != 1 or not self.sizes.size or (self.sizes < 1).any():
            raise ConfigError(f"factor_sizes must be the number of values of each factor, got {sizes!r}")
        if batch_size < 2:
            raise ConfigError(f"batch_size must be at least 2 to have a variance, got {batch_size}")
        self.represent, self.batch_size = represent, batch_size
        self.reference = np.random.RandomState(seed) if reference_stream else None
        self.generator = stream(seed, "votes")
        self.groups = _joined(self.sizes.tolist())
        self.table = None
        if isinstance(represent, CodeTable):
            known, asked = represent.sizes, tuple(self.sizes.tolist())
            # Beyond its last value, a factor would read the row of another combination.
            if len(known) != len(asked) or any(size > most for size, most in zip(asked, known, strict=True)):
                raise ConfigError(
                    f"factor_sizes must be those of the look-up, {known}, or smaller ones, got {asked}; pass the sizes "
                    "returned with the look-up"
                )
            self.table = represent if known == asked else None

    def codes(self, count: int) -> Codes:
        """Return the codes (count, d) of independent combinations of factors."""
        if self.reference is not None:
            return self._represented(self._reference_rows(self.reference, count))
        return self._represented(self._factors(self._numbers((count,))))

    def votes(self, count: int, pairs: int, reduce: Callable[..., Codes]) -> tuple[Integers, Codes]:
        """Return fixed factors (count,) and what a function makes of the codes of batches that agree on them.

        Args:
            count: Number of votes.
            pairs: Number of batches of a vote.
            reduce: Maps ``pairs`` arrays (batch_size, b, columns), which it must not change, to one array (b, columns),
                each column by itself.

        Returns:
            The factors, and the reduced codes (count, d).
        """
        if count < 1:
            raise ConfigError(f"expected at least 1 vote or point for training and for testing, got {count}")
        if self.table is not None and self.reference is None:
            parts = self._from_table(self.table, count, pairs, reduce)
        else:
            parts = self._by_function(count, pairs, reduce)
        fixed, reduced = zip(*parts, strict=True)
        return np.concatenate(fixed), np.concatenate(reduced)

    def spend_one(self) -> None:
        """Advance the reference stream by the draw that liblinear made."""
        if self.reference is not None:
            self.reference.randint(np.iinfo("i").max)

    def _by_function(self, count: int, pairs: int, reduce: Callable[..., Codes]) -> Iterator[tuple[Integers, Codes]]:
        """Yield what `votes` returns, a block after the other, asking `represent` for the codes."""
        for size in _split(count, _BLOCK):
            if self.reference is not None:
                fixed, batches = self._reference_block(self.reference, size, pairs)
            else:
                fixed, numbers = self._block(size, pairs)
                batches = [self._factors(each) for each in numbers]
                for factor, votes in enumerate(self._votes_of(fixed)):
                    _share(batches, factor, votes)
            yield fixed, reduce(*(self._represented(each) for each in batches))

    def _from_table(
        self, table: CodeTable, count: int, pairs: int, reduce: Callable[..., Codes]
    ) -> Iterator[tuple[Integers, Codes]]:
        """Yield what `votes` returns, many blocks after each other, reading the codes in pieces of a table."""
        for together in _split(count, _BLOCK * max(1, _TOGETHER // (_BLOCK * self.batch_size * pairs))):
            blocks = [self._block(size, pairs) for size in _split(together, _BLOCK)]
            places = [self._places(fixed, numbers) for fixed, numbers in blocks]
            columns = [
                np.concatenate([reduce(*(piece.take(each, axis=0) for each in block)) for block in places])
                for piece in table.pieces
            ]
            yield np.concatenate([fixed for fixed, _ in blocks]), np.concatenate(columns, axis=1)

    def _represented(self, factors: Integers) -> Codes:
        """Return the codes (..., d) of factor indices (F, ...), refusing what is not (m, d)."""
        rows = factors.reshape(len(self.sizes), -1).T
        return _checked(np.asarray(self.represent(rows)), rows.shape).reshape(*factors.shape[1:], -1)

    def _places(self, fixed: Integers, batches: list[Numbers]) -> list[Integers]:
        """Return the rows of a table of all combinations that belong to numbers, once they agree on fixed factors."""
        # As `_share` for digits: unsigned numbers wrap around, so that a negative difference is added correctly.
        votes_of = self._votes_of(fixed)
        for group, first, last in zip(self.groups, batches[0], batches[-1], strict=True):
            stride = 1
            for factor in reversed(group):
                votes, values = votes_of[factor], int(self.sizes[factor])
                shared = _digit(first[: 1 if len(batches) == 1 else None, votes], stride, values)
                last[:, votes] += (shared - _digit(last[:, votes], stride, values)) * last.dtype.type(stride)
                stride *= values
        found = []
        for numbers in batches:
            places = numbers[0].astype(np.int64)
            for group, drawn in zip(self.groups[1:], numbers[1:], strict=True):
                places *= prod(self.sizes[group].tolist())
                places += drawn.astype(np.int64)
            found.append(places)
        return found

    def _block(self, size: int, pairs: int) -> tuple[Integers, list[Numbers]]:
        """Return fixed factors (b,) in order, and the independent numbers (batch_size, b) of ``pairs`` batches."""
        fixed = np.sort(self.generator.integers(len(self.sizes), size=size))
        return fixed, [self._numbers((self.batch_size, size)) for _ in range(pairs)]

    def _votes_of(self, fixed: Integers) -> list[slice]:
        """Return the votes with each fixed factor, a slice, which is written many times faster than single columns."""
        ends = np.searchsorted(fixed, np.arange(len(self.sizes) + 1))
        return [slice(start, end) for start, end in pairwise(ends)]

    def _numbers(self, shape: tuple[int, ...]) -> Numbers:
        """Return a random number for each group of factors, whose digits are the indices of the factors."""
        drawn: Numbers = []
        for group in self.groups:
            combinations = prod(self.sizes[group].tolist())
            # `_digit` needs every size of a factor, not only every index, to fit.
            kind = np.uint16 if combinations < 2**16 else np.uint64
            drawn.append(self.generator.integers(combinations, size=shape, dtype=kind))
        return drawn

    def _factors(self, numbers: Numbers) -> Integers:
        """Return the factor indices (F, ...) that are the digits of numbers."""
        result = np.empty((len(self.sizes), *numbers[0].shape), dtype=np.int64)
        for group, rest in zip(self.groups, numbers, strict=True):
            for factor in group[:0:-1]:
                # Division by one number is fast, computing the remainder too is not.
                size = rest.dtype.type(self.sizes[factor])
                quotient = rest // size
                result[factor], rest = rest - quotient * size, quotient
            result[group[0]] = rest
        return result

    def _reference_rows(self, reference: np.random.RandomState, count: int) -> Integers:
        """Return (F, count) independent factor indices."""
        return np.stack([reference.randint(size, size=count) for size in self.sizes])

    def _reference_block(
        self, reference: np.random.RandomState, size: int, pairs: int
    ) -> tuple[Integers, list[Integers]]:
        """Return fixed factors (b,) and ``pairs`` arrays of factor indices (F, batch_size, b)."""
        fixed = np.empty(size, dtype=np.int64)
        groups = [np.empty((len(self.sizes), self.batch_size, size), dtype=np.int64) for _ in range(pairs)]
        for vote in range(size):
            fixed[vote] = reference.randint(len(self.sizes))
            for group in groups:
                group[:, :, vote] = self._reference_rows(reference, self.batch_size)
            _share(groups, fixed[vote], slice(vote, vote + 1))
        return fixed, groups


def _joined(sizes: Sequence[int]) -> list[list[int]]:
    """Return groups of successive factors, each drawn as one number."""
    groups = [[0]]
    for factor in range(1, len(sizes)):
        together = [*groups[-1], factor]
        if prod(sizes[each] for each in together) <= _DIGITS:
            groups[-1] = together
        else:
            groups.append([factor])
    return groups


def _split(count: int, most: int) -> list[int]:
    """Return the sizes of successive blocks, all but the last of them as large as possible."""
    return [min(most, count - start) for start in range(0, count, most)]


def _strides(sizes: Sequence[int]) -> Integers:
    """Return how far apart successive values of each factor are in a table of all combinations."""
    return np.append(np.cumprod(np.array(sizes[:0:-1], dtype=np.int64))[::-1], 1)


def _share(batches: Sequence[Integers], factor: int, votes: slice) -> None:
    """Let batches of factor indices (F, batch_size, b) agree on a factor: two row by row, the rows of a single one."""
    shared = batches[0][factor, :, votes]
    batches[-1][factor, :, votes] = shared[0].copy() if len(batches) == 1 else shared


def _digit(numbers: npt.NDArray[Any], stride: int, size: int) -> npt.NDArray[Any]:
    """Return the digit of numbers that has a stride and a number of values."""
    kind = numbers.dtype.type
    quotient = numbers // kind(stride) if stride > 1 else numbers
    return np.asarray(quotient - quotient // kind(size) * kind(size))


def _checked(codes: npt.NDArray[Any], rows: tuple[int, ...]) -> Codes:
    """Return codes (m, d) of m rows as floating-point numbers, refusing other shapes and what is not finite."""
    if codes.ndim != 2 or len(codes) != rows[0]:
        raise DataError(f"represent must map factors {rows} to codes ({rows[0]}, d), got {codes.shape}")
    if codes.dtype.kind != "f" or codes.itemsize < 4:
        # Sums over half-precision codes overflow or round visibly.
        codes = codes.astype(np.float64)
    # A finite sum of squares has only finite terms; an overflow is resolved by the slower check.
    flat = codes.reshape(-1)
    if not np.isfinite(np.dot(flat, flat)) and not np.isfinite(codes).all():
        raise DataError("represent must return finite codes, got NaN or infinity; check the output of the encoder")
    return codes


def _incomplete(combinations: int, encoded: int) -> DataError:
    return DataError(
        f"a look-up needs all {combinations} combinations of factors encoded, got {encoded}; "
        "encode the whole dataset, or pass your own represent function"
    )
