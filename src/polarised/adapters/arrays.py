"""Arrays in a file (.npz, .npy, parquet) → Encodings.

The arrays go by common names: mean (mu, loc, z_mean ...), one of variance, log_variance (logvar ...), std, log_std, and
optionally prior_mean, a prior variance, factors (labels) and factor_names. Parquet has a column for each variable
(``mean_0``, ``log_variance_0`` ...) or list columns under the same names.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polarised._io.arrays import LARGEST_WHOLE, ArrayFile, open_arrays
from polarised.errors import DataError
from polarised.regime import Encodings
from polarised.regime.encodings import checked_repeats

__all__ = ["Chunk", "Names", "Second", "as_variance", "chunks_of_file", "from_arrays"]

Second = Literal["log_variance", "variance", "std", "log_std"]


Array = NDArray[Any]


TO_VARIANCE: dict[str, Callable[[Array], Array]] = {
    "variance": lambda value: value,
    "log_variance": np.exp,
    "std": np.square,
    "log_std": lambda value: np.exp(2.0 * value),
}


def as_variance(values: Array, second: Second, *, certain: bool = False) -> Array:
    """Return the variance of q(z|x), or ask where the numbers contradict what they are said to be.

    >>> as_variance(np.array([[0.0, -2.0]]), "log_std").round(3)
    array([[1.   , 0.018]])
    """
    if second not in TO_VARIANCE:
        raise DataError(f"expected second as one of {', '.join(TO_VARIANCE)}, got {second!r}")
    if values.dtype.kind not in "fiub":
        raise DataError(f"expected real numbers as {second}, got {values.dtype}; save plain arrays of floats")
    if not values.size or not np.isfinite(values).all():
        raise DataError(f"expected finite numbers as {second}, got none, NaN or infinity; did training diverge?")
    lowest, average = float(values.min()), float(values.mean())
    if second in ("variance", "std") and lowest < 0:
        raise DataError(
            f"a {second} is never negative, but this one falls to {lowest:.4g}: is it the log-variance (or log_std)? "
            "Say so with second='log_variance' or 'log_std' (on the command line --second log_variance)"
        )
    if second in ("log_variance", "log_std") and not certain and lowest >= 0:
        other = second.removeprefix("log_")
        raise DataError(
            f"this {second} is never below zero (average {average:.3g}), so no variable would be narrower than its "
            f"prior: is it the {other} itself? Then say second={other!r} (on the command line --second {other}); "
            f"if it is right, certain=True (--second {second})"
        )
    wide = values.astype(np.float64) if np.abs(values).max(initial=0) > 40 else values
    with np.errstate(over="ignore"):
        variance = TO_VARIANCE[second](wide)
    if not certain and float(np.median(variance)) > 1e4:
        raise DataError(
            f"read as {second}, half of the posterior variances exceed {np.median(variance):.3g}: are mean and "
            f"{second} swapped, or is it something else? If it is right, certain=True (on the command line --second "
            f"{second})"
        )
    return variance


MEAN = ("mean", "means", "mu", "z_mean", "mean_representation", "loc", "qz_m", "embedding")


SECOND: dict[Second, tuple[str, ...]] = {
    "variance": ("variance", "variances", "var", "z_var", "qz_v", "qz_var", "sigma2", "sigma_squared"),
    "log_variance": ("log_variance", "log_variances", "logvar", "log_var", "z_log_var", "log_covariance", "log_sigma2"),
    "std": ("std", "stddev", "standard_deviation", "z_std", "scale"),
    "log_std": ("log_std", "log_sigma", "log_scale"),
}


FACTORS = ("factors", "labels", "latents_classes", "y")


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
            beside = "; name the files x_mean.npy and x_variance.npy, side by side" if where.endswith(".npy") else ""
            raise DataError(
                f"expected an array called mean (or mu, loc, z_mean ...) in {where}, it has {listed}{beside}"
            )
        if not found and "sigma" in by_name:
            if second is None:
                raise DataError(
                    f"sigma in {where} is a variance in some papers and a standard deviation in others: which is it? "
                    "Say second='variance' or second='std' (on the command line --second std)"
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
        kind, spread = next((pair for pair in found if pair[0] == second), found[0])
        return cls(
            mean,
            spread,
            second or kind,
            prior_mean=next((by_name[f"prior_{name}"] for name in MEAN if f"prior_{name}" in by_name), None),
            prior_spread=priors[0][1] if priors else None,
            prior_second=priors[0][0] if priors else "variance",
            factors=next((by_name[name] for name in FACTORS if name in by_name), None),
        )


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
    wanted = shape[0] if examples is None else min(examples, shape[0])
    file.budget.hold(16 * wanted * prod(shape[1:]))
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
        kl=chunks[0].kl,
        repeats=chunks[0].repeats,
    )


def _prior(parts: list[NDArray[Any] | float]) -> NDArray[Any] | float:
    return np.concatenate(parts) if np.ndim(parts[0]) == 2 else parts[0]
