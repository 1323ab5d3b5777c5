"""A dataset: images, their generative factors, and batches that are pure functions of (seed, step)."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polarised.errors import ConfigError, DataError
from polarised.random import stream, streams
from polarised.registry import nearest

__all__ = ["Batch", "Dataset", "FactorSpace", "Images", "OutOfRangeError", "check_choice", "check_counts", "resolved"]

Indices = NDArray[np.int64]


class OutOfRangeError(DataError, IndexError):
    """An index past the end; both an IndexError and a DataError."""


@dataclass(frozen=True, eq=False)
class FactorSpace:
    """The generative factors of a dataset and the mapping between the index of an image and its factors.

    Without a table every combination has one image and the last factor varies fastest:
    index = sum_i factor_i * prod_(j > i) size_j [Locatello2019, appendix]. With one, combinations may have several
    images, as labels do, or none.

    Args:
        names: The names of the factors.
        sizes: The number of values of each.
        values: The values of each factor, for captions; numbered from 0 by default.
        table: The factors of each image, (n, F), if not every combination has exactly one.

    Raises:
        DataError: If names, sizes, values and table are inconsistent.

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
        """Return the index of an image with each row of factors.

        Args:
            factors: Rows of factors, (n, F).
            generator: The source of the choice among several images; None for the first.

        Returns:
            One index for each row.

        Raises:
            DataError: If a row does not consist of factors, or no image has it.

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
        """Return the factors of each image.

        Args:
            indices: Indices of images, as a list, an array, a mask or a slice.

        Returns:
            The factors, (n, F).

        >>> FactorSpace(("x", "y"), (2, 3)).factors([4])
        array([[1, 1]])
        """
        wanted = resolved(indices, len(self))
        if self.table is not None:
            return self.table[wanted].astype(np.int64)
        return np.stack(np.unravel_index(wanted, self.sizes), axis=-1).astype(np.int64)

    def sample(self, n: int, generator: np.random.Generator, *, fixed: Mapping[str, int] | None = None) -> Indices:
        """Draw n rows of factors uniformly, with some factors held at a value.

        Args:
            n: The number of rows.
            generator: The source of random numbers.
            fixed: The value of each factor that is held, by name.

        Returns:
            The factors, (n, F).

        Raises:
            DataError: If a factor or its value does not exist, or no image has the values.

        >>> from polarised.random import stream
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
            raise DataError(f"expected whole numbers as {called}, got {array.dtype}; pass the index of each value")
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
        """Return the index of the factor with this name.

        Args:
            name: The name.

        Returns:
            The index of the factor, from 0.

        Raises:
            DataError: If there is no such factor.

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

    Args:
        key: The index expression.
        length: The number of items.

    Returns:
        Indices from 0.

    Raises:
        DataError: If it is not such an expression.
        OutOfRangeError: If an index is past the end.

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


Floats = NDArray[np.float32]

# Image values that `batches` reads at once (4 MB): enough to amortise a call, few enough for the caches.
AT_ONCE = 2**20


@dataclass(frozen=True, eq=False)
class Batch:
    """Some images with their factors (B, F) and auxiliary variables u (B, k), if there are any.

    Args:
        images: The images, (B, *shape).
        factors: Their factors, (B, F), or None.
        u: Their auxiliary variables, (B, k), or None.
        indices: Their indices in the dataset.

    >>> from polarised.data import pinwheel
    >>> batch = pinwheel().batch(0, 8, 0)
    >>> batch.images.shape, batch.factors.shape, batch.u
    ((8, 2), (8, 1), None)
    """

    images: Floats
    factors: Indices | None
    u: Floats | None
    indices: Indices

    def __len__(self) -> int:
        return len(self.indices)


@dataclass(frozen=True, eq=False)
class Images:
    """The images of a dataset, read on access: an index, a slice, a list or a mask returns float32.

    Args:
        read: A function from indices to images.
        length: The number of images.
        shape: The shape of one image.

    >>> from polarised.data import dsprites
    >>> dsprites().images[[0, 5]].shape
    (2, 1, 64, 64)
    """

    read: Callable[[Indices], Floats]
    length: int
    shape: tuple[int, ...]

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, key: Any) -> Floats:
        if isinstance(key, int | np.integer):
            one: Floats = self.read(resolved([int(key)], self.length))[0]
            return one
        return self.read(resolved(key, self.length))


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images of one shape, their factors, and batches drawn as pure functions of (seed, step).

    Nuisance is variation that no factor explains, such as a colour or a background; u are the auxiliary variables of an
    identifiable VAE [Khemakhem2020].

    Args:
        name: Its name in tables.
        shape: The shape of one image, (C, H, W), or of one vector, (D,).
        length: The number of images.
        read: A function from indices to images in float32.
        factor_space: The generative factors of the images, if known.
        nuisance: A function from images and a generator to images with nuisance.
        auxiliary: A function from indices to the auxiliary variables u, (B, k).
        auxiliary_size: The number of auxiliary variables.
        sources: The true sources of synthetic data, (n, k).

    >>> from polarised.data import dsprites
    >>> batch = dsprites().batch(step=3, size=8, seed=0)
    >>> batch.images.shape, batch.factors.shape
    ((8, 1, 64, 64), (8, 5))
    """

    name: str
    shape: tuple[int, ...]
    length: int
    read: Callable[[Indices], Floats]
    factor_space: FactorSpace | None = field(default=None, kw_only=True)
    nuisance: Callable[[Floats, np.random.Generator], Floats] | None = field(default=None, kw_only=True)
    auxiliary: Callable[[Indices], Floats] | None = field(default=None, kw_only=True)
    auxiliary_size: int = field(default=0, kw_only=True)
    sources: NDArray[np.float64] | None = field(default=None, kw_only=True)

    def __len__(self) -> int:
        return self.length

    @property
    def images(self) -> Images:
        """Every image by index; nuisance, if any, is a fixed function of the index."""
        return Images(self.read if self.nuisance is None else self._with_fixed_nuisance, self.length, self.shape)

    def draw(self, indices: NDArray[Any] | Sequence[int], generator: np.random.Generator) -> Floats:
        """Return the images with these indices, with newly drawn nuisance if the dataset has any.

        Args:
            indices: The indices of the images.
            generator: The source of the nuisance.

        Returns:
            The images, (B, *shape).

        >>> from polarised.data import color_dsprites
        >>> color_dsprites().draw([0, 1], stream(0, "colours")).shape
        (2, 3, 64, 64)
        """
        images = self.read(resolved(indices, self.length))
        return images if self.nuisance is None else self.nuisance(images, generator)

    def batch(self, step: int, size: int, seed: int) -> Batch:
        """Return one batch of independent draws with replacement, which depends only on seed and step.

        Args:
            step: The number of the batch.
            size: The number of images.
            seed: The seed of the run.

        Returns:
            The batch.

        Raises:
            DataError: If the size is below 1 or the step below 0.

        >>> from polarised.data import pinwheel
        >>> bool((pinwheel().batch(7, 64, 0).images == pinwheel().batch(7, 64, 0).images).all())
        True
        """
        return next(self.batches(range(step, step + 1), size, seed))

    def batches(self, steps: range, size: int, seed: int) -> Iterator[Batch]:
        """Yield the batches of these steps, identical to those of `batch`; several of them are read at once.

        Args:
            steps: The numbers of the batches.
            size: The number of images in a batch.
            seed: The seed of the draws.

        Yields:
            One batch for each step.

        Raises:
            DataError: If the size is below 1 or a step below 0.

        >>> from polarised.data import pinwheel
        >>> drawn = [batch.images for batch in pinwheel().batches(range(5, 8), 64, 0)]
        >>> bool((drawn[2] == pinwheel().batch(7, 64, 0).images).all())
        True
        """
        if size < 1 or (len(steps) and min(steps) < 0):
            raise DataError(f"expected a batch size of at least 1 and steps from 0, got {size} and {steps}")
        draws = streams(seed, "data", steps)
        together = min(max(AT_ONCE // (size * math.prod(self.shape)), 1), 64)
        for first in range(0, len(steps), together):
            block = steps[first : first + together]
            indices = np.concatenate([next(draws).integers(self.length, size=size) for _ in block])
            images = self.read(indices)
            factors = None if self.factor_space is None else self.factor_space.factors(indices)
            u = None if self.auxiliary is None else self.auxiliary(indices)
            for i, step in enumerate(block):
                rows = slice(i * size, (i + 1) * size)
                own = images[rows]
                yield Batch(
                    images=own if self.nuisance is None else self.nuisance(own, stream(seed, "nuisance", step)),
                    factors=None if factors is None else factors[rows],
                    u=None if u is None else u[rows],
                    indices=indices[rows],
                )

    def sample(self, n: int, seed: int) -> Batch:
        """Return n images for evaluation: all different if there are enough.

        Args:
            n: The number of images to draw.
            seed: The seed of the draw.

        Returns:
            The images, with replacement only if there are fewer than n.

        Raises:
            DataError: If n is below 1.

        >>> from polarised.data import pinwheel
        >>> len(set(pinwheel().sample(400, 0).indices.tolist()))
        400
        """
        if n < 1:
            raise DataError(f"expected to draw at least 1 image, got {n}")
        generator = stream(seed, "evaluation")
        indices = generator.choice(self.length, n, replace=n > self.length)
        return self._assemble(indices, seed, "evaluation nuisance")

    def split(self, share: float) -> tuple["Dataset", "Dataset"]:
        """Return this share of the images and the rest, to train on one part and evaluate on the other.

        The assignment of images is a fixed draw, the same for every seed and share, so that images are only added to
        the first part as `share` grows. Both parts keep the order of the whole.

        Args:
            share: The share of the first part, above 0 and below 1.

        Returns:
            The two parts.

        Raises:
            DataError: If a part would be empty.

        >>> from polarised.data import pinwheel
        >>> [len(part) for part in pinwheel().split(0.9)]
        [360, 40]
        """
        first = round(share * self.length) if 0 < share < 1 else 0
        if not 0 < first < self.length:
            raise DataError(
                f"expected a share of the {self.length} images above 0 and below 1 that leaves no part empty, "
                f"got {share}; 0.9 is common"
            )
        order = stream(0, "split").permutation(self.length)
        return self._part(np.sort(order[:first])), self._part(np.sort(order[first:]))

    def _part(self, indices: Indices) -> "Dataset":
        """Return the images with these indices as a separate dataset."""
        space, auxiliary = self.factor_space, self.auxiliary
        if space is not None:
            space = FactorSpace(space.names, space.sizes, values=space.values, table=space.factors(indices))
        return replace(
            self,
            length=len(indices),
            read=lambda wanted: self.read(indices[wanted]),
            factor_space=space,
            auxiliary=None if auxiliary is None else lambda wanted: auxiliary(indices[wanted]),
            sources=None if self.sources is None else self.sources[indices],
        )

    def with_auxiliary(self, *, factors: Sequence[str] | None = None) -> "Dataset":
        """Return the same images with u = factor / (size - 1) of the named factors, or of all.

        Args:
            factors: The names of the factors; all of them if None.

        Returns:
            The dataset with u.

        Raises:
            DataError: If the dataset has no factors, or not the named ones.

        >>> from polarised.data import dsprites
        >>> dsprites().with_auxiliary(factors=["shape", "scale"]).batch(0, 4, 0).u.shape
        (4, 2)
        """
        if self.factor_space is None:
            raise DataError(f"{self.name} has no factors for u; use a dataset with factors or labels")
        space = self.factor_space
        names = space.names if factors is None else tuple(factors)
        if isinstance(factors, str) or not names:
            raise DataError(f"expected a list of factor names, got {factors!r}; write for example ['shape']")
        columns = [space.column(name) for name in names]
        scale = np.array([max(space.sizes[column] - 1, 1) for column in columns], dtype=np.float32)

        def auxiliary(indices: Indices) -> Floats:
            return space.factors(indices)[:, columns].astype(np.float32) / scale

        return replace(self, auxiliary=auxiliary, auxiliary_size=len(columns))

    def _assemble(self, indices: Indices, seed: int, purpose: str, step: int = 0) -> Batch:
        images = self.read(indices)
        return Batch(
            images=images if self.nuisance is None else self.nuisance(images, stream(seed, purpose, step)),
            factors=None if self.factor_space is None else self.factor_space.factors(indices),
            u=None if self.auxiliary is None else self.auxiliary(indices),
            indices=indices,
        )

    def _with_fixed_nuisance(self, indices: Indices) -> Floats:
        """Draw the nuisance of each image from its own stream, so that an image does not depend on the others."""
        if not len(indices):
            return np.empty((0, *self.shape), dtype=np.float32)
        return np.concatenate([self.draw([i], stream(0, "nuisance of one image", int(i))) for i in indices])


def check_choice(setting: str, value: object, choices: Sequence[object]) -> None:
    """Refuse a value that is not among the choices.

    Args:
        setting: The name of the setting.
        value: Its value.
        choices: The allowed values.

    Raises:
        ConfigError: If the value is not one of the choices.

    >>> check_choice("split", "trian", ("train", "test"))
    Traceback (most recent call last):
    polarised.errors.ConfigError: expected split as one of 'train', 'test', got 'trian' (did you mean 'train'?)
    """
    if value not in choices:
        offered = ", ".join(map(repr, choices))
        hint = nearest(str(value), [str(choice) for choice in choices])
        raise ConfigError(f"expected {setting} as one of {offered}, got {value!r}{hint}")


def check_counts(**counts: int) -> None:
    """Refuse a count below 1.

    Args:
        **counts: The counts by the names of their settings.

    Raises:
        ConfigError: If a number is below 1.

    >>> check_counts(arms=0)
    Traceback (most recent call last):
    polarised.errors.ConfigError: expected arms of 1 or more, got 0
    """
    for name, count in counts.items():
        if count < 1:
            raise ConfigError(f"expected {name} of 1 or more, got {count}")
