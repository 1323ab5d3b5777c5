"""Posteriors of a file in chunks of consecutive inputs, so that the file may be larger than memory."""

from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from polarised.adapters.array_files import ArrayFile, open_arrays
from polarised.adapters.array_names import Names
from polarised.adapters.spread import Second, as_variance
from polarised.errors import DataError
from polarised.representations.encodings import checked_repeats

__all__ = ["Chunk", "chunks_of_file"]

Array = NDArray[Any]

LARGEST_CHUNK = 1 << 28


class Chunk(NamedTuple):
    """The posteriors (and priors and factors) of consecutive inputs; `kl` and `repeats` are those of `Encodings`."""

    mean: Array
    variance: Array
    prior_mean: Array | float
    prior_variance: Array | float
    factors: Array | None
    kl: Array | None = None
    repeats: int = 1


def chunks_of_file(
    path: str | Path,
    *,
    rows: int = 1 << 16,
    second: Second | None = None,
    examples: int | None = None,
    certain: bool = False,
) -> Iterator[Chunk]:
    """Yield a file's posteriors in chunks of at most `rows` inputs, so that a file may be larger than memory.

    >>> import tempfile
    >>> import numpy as np
    >>> path = Path(tempfile.mkdtemp()) / "codes.npz"
    >>> np.savez(path, mean=np.zeros((5, 2)), variance=np.ones((5, 2)))
    >>> [len(chunk.mean) for chunk in chunks_of_file(path, rows=3)]
    [3, 2]
    """
    file = open_arrays(path)
    names = Names.among(file.names, str(path), second=second)
    length = file.rows(names.mean)
    if length < 1 or len(file.shape(names.mean)) < 2:
        raise DataError(
            f"expected {names.mean} of {path} as (inputs, variables), got {file.shape(names.mean)}; "
            "a single variable is (n, 1)"
        )
    each: list[str] = [names.mean, names.spread]
    once: list[str] = []
    for name in (names.prior_mean, names.prior_spread):
        if name is not None:
            # A prior of (d,) or a single number is the same for every input and read once.
            (each if len(file.shape(name)) > 1 else once).append(name)
    if names.factors is not None:
        each.append(names.factors)
    for name in each:
        if file.rows(name) != length:
            raise DataError(
                f"expected a row of {name} for each of the {length} inputs of {names.mean} in {path}, "
                f"got {file.rows(name)}"
            )
    # What counts is memory, not rows: an input of a convolutional model has thousands of numbers.
    widest = max(prod(file.shape(name)[1:]) for name in each)
    rows = max(1, min(rows, LARGEST_CHUNK // (8 * max(1, widest))))
    constant = {name: file.whole(name) for name in once}
    kl, repeats = _of_all_inputs(file, file.shape(names.mean))
    wanted = length if examples is None else min(examples, length)
    rows, wanted = (max(count // repeats, 1) * repeats for count in (rows, wanted))
    for number, parts in enumerate(file.chunks(each, rows, wanted)):
        # One look at the first chunk settles what the numbers are; a small last one could mislead.
        chunk = _chunk({**constant, **parts}, names, certain=certain or second is not None or number > 0)
        yield chunk._replace(kl=kl, repeats=repeats)


def _of_all_inputs(file: ArrayFile, shape: tuple[int, ...]) -> tuple[Array | None, int]:
    """Return what `Encodings.save` adds where it is needed; arrays of other shapes are somebody's own."""
    kl = file.whole("kl") if "kl" in file.names and file.shape("kl") == shape[1:2] else None
    if "repeats" not in file.names or file.shape("repeats") != ():
        return kl, 1
    return kl, checked_repeats(file.whole("repeats"), shape[0])


def _chunk(parts: Mapping[str, Array], names: Names, *, certain: bool) -> Chunk:
    prior_variance: Array | float = 1.0
    if names.prior_spread is not None:
        prior_variance = as_variance(parts[names.prior_spread], names.prior_second, certain=True)
    return Chunk(
        parts[names.mean],
        as_variance(parts[names.spread], names.second, certain=certain),
        parts[names.prior_mean] if names.prior_mean is not None else 0.0,
        prior_variance,
        parts[names.factors] if names.factors is not None else None,
    )
