"""A dataset: images, the factors they were made from, and batches that are pure functions of (seed, step)."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polarised.data.factor_space import FactorSpace, resolved
from polarised.errors import DataError
from polarised.randomness import stream

__all__ = ["Batch", "Dataset", "FactorSpace", "Images"]

Floats = NDArray[np.float32]
Indices = NDArray[np.int64]

# Values of images that `batches` reads at once (4 MB): enough to spread the cost of a call, few enough for the caches.
AT_ONCE = 2**20


@dataclass(frozen=True, eq=False)
class Batch:
    """Some images with what is known of them: factors (B, F) and auxiliary variables u (B, k), where there are any.

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
    """The images of a dataset, read when asked for: an index, a slice, a list or a mask gives float32.

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

    `nuisance` adds to the images what no factor explains (a colour, a background), from a random stream.
    `auxiliary` gives the u of an identifiable VAE [Khemakhem2020], `sources` the true ones of synthetic data.

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
        """Every image by index; nuisance, if any, is then a fixed function of the index."""
        return Images(self.read if self.nuisance is None else self._settled, self.length, self.shape)

    def draw(self, indices: NDArray[Any] | Sequence[int], generator: np.random.Generator) -> Floats:
        """Return the images of these indices with nuisance, where the dataset has some, from `generator`.

        >>> from polarised.data import color_dsprites
        >>> color_dsprites().draw([0, 1], stream(0, "colours")).shape
        (2, 3, 64, 64)
        """
        images = self.read(resolved(indices, self.length))
        return images if self.nuisance is None else self.nuisance(images, generator)

    def batch(self, step: int, size: int, seed: int) -> Batch:
        """Return batch number `step`: independent draws with replacement, the same for the same seed.

        >>> from polarised.data import pinwheel
        >>> bool((pinwheel().batch(7, 64, 0).images == pinwheel().batch(7, 64, 0).images).all())
        True
        """
        return next(self.batches(range(step, step + 1), size, seed))

    def batches(self, steps: range, size: int, seed: int) -> Iterator[Batch]:
        """Yield the batches of these steps, each exactly as `batch` gives it; several of them are read at once.

        Args:
            steps: The numbers of the batches.
            size: How many images a batch has.
            seed: The seed of the draws.

        Yields:
            One batch for each step.

        >>> from polarised.data import pinwheel
        >>> drawn = [batch.images for batch in pinwheel().batches(range(5, 8), 64, 0)]
        >>> bool((drawn[2] == pinwheel().batch(7, 64, 0).images).all())
        True
        """
        if size < 1 or (len(steps) and min(steps) < 0):
            raise DataError(f"expected a batch size of 1 or more and steps from 0 on, got {size} and {steps}")
        together = min(max(AT_ONCE // (size * math.prod(self.shape)), 1), 64)
        for first in range(0, len(steps), together):
            block = steps[first : first + together]
            indices = np.concatenate([stream(seed, "data", step).integers(self.length, size=size) for step in block])
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
        """Return n images to evaluate on: all different while there are enough.

        >>> from polarised.data import pinwheel
        >>> len(set(pinwheel().sample(400, 0).indices.tolist()))
        400
        """
        if n < 1:
            raise DataError(f"expected to draw 1 image or more, got {n}")
        generator = stream(seed, "evaluation")
        indices = generator.choice(self.length, n, replace=n > self.length)
        return self._assembled(indices, seed, "evaluation nuisance")

    def split(self, share: float) -> tuple["Dataset", "Dataset"]:
        """Return this share of the images and the rest, to train on the one and to measure on the other.

        Which image goes where is a fixed draw, the same for every seed and share, so that more of them are added to
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
                f"expected a share of the {self.length} images above 0 and below 1 that leaves both parts some, "
                f"got {share}; 0.9 is customary"
            )
        order = stream(0, "split").permutation(self.length)
        return self._part(np.sort(order[:first])), self._part(np.sort(order[first:]))

    def _part(self, indices: Indices) -> "Dataset":
        """Return the images of these indices as a dataset of their own."""
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

        >>> from polarised.data import dsprites
        >>> dsprites().with_auxiliary(factors=["shape", "scale"]).batch(0, 4, 0).u.shape
        (4, 2)
        """
        if self.factor_space is None:
            raise DataError(f"{self.name} has no factors to take u from; give a dataset with factors or labels")
        space = self.factor_space
        names = space.names if factors is None else tuple(factors)
        if isinstance(factors, str) or not names:
            raise DataError(f"expected a list of factor names, got {factors!r}; write for example ['shape']")
        columns = [space.column(name) for name in names]
        scale = np.array([max(space.sizes[column] - 1, 1) for column in columns], dtype=np.float32)

        def auxiliary(indices: Indices) -> Floats:
            return space.factors(indices)[:, columns].astype(np.float32) / scale

        return replace(self, auxiliary=auxiliary, auxiliary_size=len(columns))

    def _assembled(self, indices: Indices, seed: int, purpose: str, step: int = 0) -> Batch:
        images = self.read(indices)
        return Batch(
            images=images if self.nuisance is None else self.nuisance(images, stream(seed, purpose, step)),
            factors=None if self.factor_space is None else self.factor_space.factors(indices),
            u=None if self.auxiliary is None else self.auxiliary(indices),
            indices=indices,
        )

    def _settled(self, indices: Indices) -> Floats:
        """Draw each image's nuisance from a stream of its own, so that an image does not depend on its company."""
        if not len(indices):
            return np.empty((0, *self.shape), dtype=np.float32)
        return np.concatenate([self.draw([i], stream(0, "nuisance of one image", int(i))) for i in indices])
