"""Arrays in a file (.npz, .npy, parquet) → Encodings, whole or in chunks of files larger than memory.

The arrays go by common names: mean (mu, loc, z_mean ...), one of variance, log_variance (logvar ...), std, log_std, and
optionally prior_mean, a prior variance, factors (labels) and factor_names. Parquet has a column for each variable
(``mean_0``, ``log_variance_0`` ...) or list columns under the same names.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polarised.adapters.array_files import LARGEST_WHOLE, open_arrays
from polarised.adapters.spread import Second, as_variance
from polarised.errors import DataError
from polarised.representations import Encodings

__all__ = ["Chunk", "Names", "chunks_of_file", "from_arrays"]

Array = NDArray[Any]

LARGEST_CHUNK = 1 << 28
MEAN = ("mean", "means", "mu", "z_mean", "mean_representation", "loc", "qz_m", "embedding")
SECOND: dict[Second, tuple[str, ...]] = {
    "variance": ("variance", "variances", "var", "z_var", "qz_v", "qz_var", "sigma2", "sigma_squared"),
    "log_variance": ("log_variance", "log_variances", "logvar", "log_var", "z_log_var", "log_covariance", "log_sigma2"),
    "std": ("std", "stddev", "standard_deviation", "z_std", "scale"),
    "log_std": ("log_std", "log_sigma", "log_scale"),
}
FACTORS = ("factors", "labels", "latents_classes", "y")


class Chunk(NamedTuple):
    """The posteriors (and priors and factors) of consecutive inputs."""

    mean: Array
    variance: Array
    prior_mean: Array | float
    prior_variance: Array | float
    factors: Array | None


@dataclass(frozen=True)
class Names:
    """Which array of a file is what."""

    mean: str
    spread: str
    second: Second
    prior_mean: str | None = None
    prior_spread: str | None = None
    prior_second: Second = "variance"
    factors: str | None = None

    @classmethod
    def among(
        cls, offered: Mapping[str, Any] | tuple[str, ...], where: str, *, second: Second | None = None
    ) -> "Names":
        """Recognise the arrays of a file by their names, or ask.

        >>> Names.among(("mu", "logvar"), "codes.npz").second
        'log_variance'
        """
        by_name = {name.lower(): name for name in offered}
        mean = next((by_name[name] for name in MEAN if name in by_name), None)
        found = [(kind, by_name[name]) for kind, names in SECOND.items() for name in names if name in by_name]
        listed = ", ".join(offered) or "nothing"
        if mean is None:
            raise DataError(f"expected an array called mean (or mu, loc, z_mean ...) in {where}, it has {listed}")
        if not found and "sigma" in by_name:
            if second is None:
                raise DataError(
                    f"sigma in {where} is a variance in some papers and a standard deviation in others: which is it? "
                    "Say second='variance' or second='std'"
                )
            found = [(second, by_name["sigma"])]
        if not found:
            raise DataError(
                f"expected the spread of q(z|x) beside {mean} in {where}: variance, log_variance, std or log_std; "
                f"it has {listed}"
            )
        priors = [
            (kind, by_name[f"prior_{name}"])
            for kind, names in SECOND.items()
            for name in names
            if f"prior_{name}" in by_name
        ]
        kind, spread = found[0]
        return cls(
            mean,
            spread,
            second or kind,
            prior_mean=next((by_name[f"prior_{name}"] for name in MEAN if f"prior_{name}" in by_name), None),
            prior_spread=priors[0][1] if priors else None,
            prior_second=priors[0][0] if priors else "variance",
            factors=next((by_name[name] for name in FACTORS if name in by_name), None),
        )


def from_arrays(
    path: str | Path, *, second: Second | None = None, examples: int | None = None, certain: bool = False
) -> Encodings:
    """Read encodings from an .npz, a parquet file, or .npy files of one folder, under common names.

    `second` overrides what the name of the spread says; `examples` reads only so many leading inputs.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "codes.npz"
    >>> np.savez(path, mu=np.zeros((5, 2)), logvar=np.full((5, 2), -1.0))
    >>> from_arrays(path)
    Encodings(5 inputs, 2 latent variables, N(0, I))
    """
    file = open_arrays(path)
    names = Names.among(file.names, str(path), second=second)
    shape = file.shape(names.mean)
    if examples is None and 16 * prod(shape) > LARGEST_WHOLE:
        raise DataError(
            f"expected encodings that fit in memory, {path} has {shape}; read some with examples=, "
            "or diagnose the file in chunks (polarised diagnose, polarised.shards)"
        )
    chunks = list(chunks_of_file(path, second=second, examples=examples, certain=certain))
    factors = (
        None if chunks[0].factors is None else np.concatenate([c.factors for c in chunks if c.factors is not None])
    )
    return Encodings(
        np.concatenate([chunk.mean for chunk in chunks]),
        variance=np.concatenate([chunk.variance for chunk in chunks]),
        prior_mean=_prior([chunk.prior_mean for chunk in chunks]),
        prior_variance=_prior([chunk.prior_variance for chunk in chunks]),
        factors=factors,
        factor_names=file.factor_names if factors is not None else None,
    )


def chunks_of_file(
    path: str | Path,
    *,
    rows: int = 1 << 16,
    second: Second | None = None,
    examples: int | None = None,
    certain: bool = False,
) -> Iterator[Chunk]:
    """Yield a file's posteriors in chunks of at most `rows` inputs, so that a file may be larger than memory.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "codes.npz"
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
    wanted = length if examples is None else min(examples, length)
    for number, parts in enumerate(file.chunks(each, rows, wanted)):
        # One look at the first chunk settles what the numbers are; a small last one could mislead.
        yield _chunk({**constant, **parts}, names, certain=certain or number > 0)


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


def _prior(parts: list[Array | float]) -> Array | float:
    return np.concatenate(parts) if np.ndim(parts[0]) == 2 else parts[0]
