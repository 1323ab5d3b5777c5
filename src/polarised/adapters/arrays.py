"""Arrays in a file (.npz, .npy, parquet, csv, safetensors, .pt, .h5ad) → Encodings.

The arrays have common names: mean (mu, loc, z_mean ...), one of variance, log_variance (logvar ...), std, log_std, and
optionally prior_mean, a prior variance, factors (labels) and factor_names. Parquet has a column for each variable
(``mean_0``, ``log_variance_0`` ...) or list columns under the same names.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polarised._io.arrays import LARGEST_CHUNK, LARGEST_WHOLE, ArrayFile, HeldArrays, open_arrays
from polarised.errors import DataError
from polarised.regime import Encodings
from polarised.regime.encodings import Axis, as_array, as_table, checked_repeats

__all__ = [
    "Chunk",
    "Names",
    "ScaleKind",
    "as_variance",
    "chunk_of_arrays",
    "chunks_of_file",
    "from_arrays",
    "gather",
    "laid_out",
    "open_file",
]

ScaleKind = Literal["log_variance", "variance", "std", "log_std"]

Array = NDArray[Any]

TO_VARIANCE: dict[str, Callable[[Array], Array]] = {
    "variance": lambda value: value,
    "log_variance": np.exp,
    "std": np.square,
    "log_std": lambda value: np.exp(2.0 * value),
}


def as_variance(values: Array, scale_kind: ScaleKind, *, trust_scale: bool = False) -> Array:
    """Convert a scale to the variance of q(z|x); raise an error if the values contradict the given kind.

    Args:
        values: The scale that an encoder returned, or a file contains, together with the mean.
        scale_kind: Its meaning: "variance", "log_variance", "std" or "log_std".
        trust_scale: Skip the check whether the values are plausible for `scale_kind`.

    Returns:
        The variances, of the same shape.

    Raises:
        DataError: If the values are impossible or implausible for the given kind.

    >>> as_variance(np.array([[0.0, -2.0]]), "log_std").round(3)
    array([[1.   , 0.018]])
    """
    if scale_kind not in TO_VARIANCE:
        raise DataError(f"expected scale_kind as one of {', '.join(TO_VARIANCE)}, got {scale_kind!r}")
    if values.dtype.kind not in "fiub":
        raise DataError(f"expected real numbers as {scale_kind}, got {values.dtype}; save plain arrays of floats")
    if not values.size or not np.isfinite(values).all():
        raise DataError(
            f"expected finite numbers as {scale_kind}, got {'NaN or infinity' if values.size else 'none'}; "
            "check the inputs for NaN, and whether training diverged"
        )
    lowest, average = float(values.min()), float(values.mean())
    if scale_kind in ("variance", "std") and lowest < 0:
        raise DataError(
            f"a {scale_kind} is never negative, but this one falls to {lowest:.4g}; if it is a log-variance (or "
            "log_std), give scale_kind='log_variance' or 'log_std'"
        )
    if scale_kind in ("log_variance", "log_std") and not trust_scale and lowest >= 0 and values.max() > 0:
        other = scale_kind.removeprefix("log_")
        raise DataError(
            f"this {scale_kind} is never below zero (average {average:.3g}), so no variable would be narrower than its "
            f"prior; if it is the {other} itself, give scale_kind={other!r}; if it is right, trust_scale=True"
        )
    wide = values.astype(np.float64) if np.abs(values).max(initial=0) > 40 else values
    with np.errstate(over="ignore"):
        variance = TO_VARIANCE[scale_kind](wide)
    if not trust_scale and float(np.median(variance)) > 1e4:
        raise DataError(
            f"read as {scale_kind}, half of the posterior variances exceed {np.median(variance):.3g}; check whether "
            f"mean and {scale_kind} are swapped or the scale is of another kind; if it is right, give trust_scale=True"
        )
    return variance


MEAN = (
    "mean",
    "means",
    "mu",
    "z_mean",
    "mean_representation",
    "loc",
    "qz_m",
    "embedding",
    "z_mu",
    "posterior_mean",
    "q_mean",
)

SCALE_NAMES: dict[ScaleKind, tuple[str, ...]] = {
    "variance": ("variance", "variances", "var", "z_var", "qz_v", "qz_var", "sigma2", "sigma_squared"),
    "log_variance": (
        *("log_variance", "log_variances", "logvar", "log_var", "z_log_var", "log_covariance", "log_sigma2"),
        *("logvariance", "ln_var", "log_sigma_squared", "log_sigma_sq", "z_logvar"),
    ),
    "std": ("std", "stddev", "standard_deviation", "z_std", "scale", "std_dev"),
    "log_std": ("log_std", "log_sigma", "log_scale", "logstd", "z_log_std"),
}

FACTORS = ("factors", "labels", "latents_classes", "y")


@dataclass(frozen=True)
class Names:
    """The roles of the arrays in a file."""

    mean: str
    scale: str
    scale_kind: ScaleKind
    prior_mean: str | None = None
    prior_scale: str | None = None
    prior_scale_kind: ScaleKind = "variance"
    factors: str | None = None

    @classmethod
    def among(
        cls, offered: Mapping[str, Any] | tuple[str, ...], where: str, *, scale_kind: ScaleKind | None = None
    ) -> "Names":
        """Recognise the arrays of a file by their names; raise an error if they are ambiguous.

        >>> Names.among(("mu", "logvar"), "codes.npz").scale_kind
        'log_variance'
        """
        by_name = {name.lower(): name for name in offered}
        mean = next((by_name[name] for name in MEAN if name in by_name), None)
        found = [(kind, by_name[name]) for kind, names in SCALE_NAMES.items() for name in names if name in by_name]
        listed = ", ".join(name or "a column without a name" for name in offered) or "nothing"
        if mean is None:
            raise DataError(
                f"expected an array called mean (or mu, loc, z_mean ...) in {where}, but it has {listed}; "
                f"{_how_to_name(where)}"
            )
        if not found and "sigma" in by_name:
            if scale_kind is None:
                raise DataError(
                    f"sigma in {where} is a variance in some papers and a standard deviation in others; "
                    "give scale_kind='variance' or scale_kind='std'"
                )
            found = [(scale_kind, by_name["sigma"])]
        if not found:
            raise DataError(
                f"expected the scale of q(z|x) together with {mean} in {where}: variance, log_variance, std or "
                f"log_std, but it has {listed}"
            )
        priors = [
            (kind, by_name[f"prior_{name}"])
            for kind, names in SCALE_NAMES.items()
            for name in names
            if f"prior_{name}" in by_name
        ]
        kind, scale = next((pair for pair in found if pair[0] == scale_kind), found[0])
        return cls(
            mean,
            scale,
            scale_kind or kind,
            prior_mean=next((by_name[f"prior_{name}"] for name in MEAN if f"prior_{name}" in by_name), None),
            prior_scale=priors[0][1] if priors else None,
            prior_scale_kind=priors[0][0] if priors else "variance",
            factors=next((by_name[name] for name in FACTORS if name in by_name), None),
        )


def _how_to_name(where: str) -> str:
    """Say how the arrays of such a file get the names by which they are recognised."""
    if where.endswith(".npy"):
        return "name the files x_mean.npy and x_variance.npy, in one folder"
    if where.endswith((".csv", ".parquet", ".pq")):
        return "name the columns mean_0, mean_1 ... and variance_0, variance_1 ..."
    if where.endswith(".npz"):
        return "save them by name: np.savez(file, mean=..., variance=...)"
    if where.endswith(".h5ad"):
        return "store both results of scvi-tools' get_latent_representation(return_dist=True) in obsm as qz_m and qz_v"
    return "name them mean and variance (or log_variance)"


def open_file(path: str | Path) -> ArrayFile:
    """Open a file of named arrays; files saved by torch (.pt, .pth) are read with weights_only, so no code is run."""
    if Path(path).suffix.lower() in (".pt", ".pth"):
        from polarised.adapters.published import read_state

        return HeldArrays(Path(path), {name: as_array(value) for name, value in read_state(path).items()})
    return open_arrays(path)


class Chunk(NamedTuple):
    """The posteriors, priors and factors of consecutive inputs as tables; `kl` and `repeats` as in `Encodings`.

    `mean` and `variance` are (rows, d); `factors` has one row per input, that is per `repeats` rows.
    """

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
    scale_kind: ScaleKind | None = None,
    examples: int | None = None,
    axis: Axis = None,
    trust_scale: bool = False,
) -> Iterator[Chunk]:
    """Yield the posteriors of a file in chunks of at most `rows` inputs, so that a file may be larger than memory.

    Args:
        path: An .npz, .npy, parquet or csv file.
        rows: Inputs per chunk.
        scale_kind: The meaning of the scale, if its name does not give it.
        examples: Read only this many inputs from the start.
        axis: The axis of the latent variables, as in `Encodings`.
        trust_scale: Skip the check whether the values of the scale are plausible.

    Yields:
        The chunks.

    Raises:
        DataError: If the file does not contain encodings, or they are ambiguous.

    >>> import tempfile
    >>> import numpy as np
    >>> path = Path(tempfile.mkdtemp()) / "codes.npz"
    >>> np.savez(path, mean=np.zeros((5, 2)), variance=np.ones((5, 2)))
    >>> [len(chunk.mean) for chunk in chunks_of_file(path, rows=3)]
    [3, 2]
    """
    file = open_file(path)
    names = Names.among(file.names, str(path), scale_kind=scale_kind)
    length = file.rows(names.mean)
    if axis in (0, (0,)):
        raise DataError(
            f"expected a row for each input in {path}, which is read row by row; save the arrays transposed"
        )
    if length < 1 or len(file.shape(names.mean)) < 2:
        raise DataError(
            f"expected {names.mean} of {path} as (inputs, variables), got {file.shape(names.mean)}; "
            "a single variable is (n, 1)"
        )
    each: list[str] = [names.mean, names.scale]
    once: list[str] = []
    for name in (names.prior_mean, names.prior_scale):
        if name is not None:
            # A prior of shape (d,) or a scalar is the same for every input and is read once.
            (each if len(file.shape(name)) > 1 else once).append(name)
    most = max(1, prod(file.shape(names.mean)[1:]))
    for name in once:
        if prod(file.shape(name)) > most:
            raise DataError(
                f"expected {name} of {path} to be a number or to have one number for each of the {most} variables, got "
                f"shape {file.shape(name)}; it is the prior of the same variables as {names.mean}"
            )
    if names.factors is not None:
        each.append(names.factors)
    for name in each:
        if file.rows(name) != length:
            raise DataError(
                f"expected a row of {name} for each of the {length} inputs of {names.mean} in {path}, "
                f"got {file.rows(name)}"
            )
    # The limit is memory, not rows: an input of a convolutional model has thousands of numbers.
    widest = max(prod(file.shape(name)[1:]) for name in each)
    rows = max(1, min(rows, LARGEST_CHUNK // (8 * max(1, widest))))
    constant = {name: file.whole(name) for name in once}
    kl, repeats = _of_all_inputs(file, file.shape(names.mean))
    wanted = length if examples is None else min(examples, length)
    rows, wanted = (max(count // repeats, 1) * repeats for count in (rows, wanted))
    for number, parts in enumerate(file.chunks(each, rows, wanted)):
        # The kind of scale is checked on the first chunk only; a small last chunk could be misleading.
        trusted = trust_scale or scale_kind is not None or number > 0
        chunk = chunk_of_arrays({**constant, **parts}, names, axis=axis, trust_scale=trusted)
        yield chunk._replace(kl=kl, repeats=repeats * chunk.repeats)


def _of_all_inputs(file: ArrayFile, shape: tuple[int, ...]) -> tuple[Array | None, int]:
    """Return the KL and repeats that `Encodings.save` may have added; arrays of other shapes are not ours."""
    kl = file.whole("kl") if "kl" in file.names and file.shape("kl") == shape[1:2] else None
    if "repeats" not in file.names or file.shape("repeats") != ():
        return kl, 1
    return kl, checked_repeats(file.whole("repeats"), shape[0])


def chunk_of_arrays(parts: Mapping[str, Array], names: Names, *, axis: Axis = None, trust_scale: bool = False) -> Chunk:
    """Return arrays with known names as one chunk.

    Args:
        parts: The arrays.
        names: The roles of the arrays.
        axis: The axis of the latent variables, as in `Encodings`.
        trust_scale: Skip the check whether the values of the scale are plausible.

    Raises:
        DataError: If their shapes do not match.
    """
    mean, variance = parts[names.mean], as_variance(parts[names.scale], names.scale_kind, trust_scale=trust_scale)
    if mean.shape != variance.shape:
        raise DataError(
            f"expected {names.mean} and {names.scale} to have the same shape, got {mean.shape} and {variance.shape}"
        )
    prior_mean = parts[names.prior_mean] if names.prior_mean is not None else 0.0
    prior_variance: Array | float = 1.0
    if names.prior_scale is not None:
        prior_variance = as_variance(parts[names.prior_scale], names.prior_scale_kind, trust_scale=True)
    return laid_out(
        mean, variance, prior_mean, prior_variance, parts[names.factors] if names.factors is not None else None, axis
    )


def laid_out(
    mean: Array,
    variance: Array,
    prior_mean: Array | float = 0.0,
    prior_variance: Array | float = 1.0,
    factors: Array | None = None,
    axis: Axis = None,
) -> Chunk:
    """Return posteriors with any number of axes as a chunk of tables, with priors of the same shape."""
    table, repeats = as_table(mean, axis)
    priors = [
        as_table(np.asarray(prior), axis)[0] if np.shape(prior) == mean.shape else prior
        for prior in (prior_mean, prior_variance)
    ]
    return Chunk(table, as_table(variance, axis)[0], priors[0], priors[1], factors, repeats=repeats)


def gather(chunks: Sequence[Chunk], factor_names: Sequence[str] | None = None) -> Encodings:
    """Concatenate chunks to encodings."""
    alike = len({chunk.repeats for chunk in chunks}) == 1
    factors = [
        chunk.factors if alike else np.repeat(chunk.factors, chunk.repeats, axis=0)
        for chunk in chunks
        if chunk.factors is not None
    ]
    return Encodings(
        np.concatenate([chunk.mean for chunk in chunks]),
        variance=np.concatenate([chunk.variance for chunk in chunks]),
        prior_mean=_prior([chunk.prior_mean for chunk in chunks]),
        prior_variance=_prior([chunk.prior_variance for chunk in chunks]),
        factors=np.concatenate(factors) if factors else None,
        factor_names=factor_names if factors else None,
        kl=chunks[0].kl,
        repeats=chunks[0].repeats if alike else 1,
    )


def from_arrays(
    path: str | Path,
    *,
    scale_kind: ScaleKind | None = None,
    examples: int | None = None,
    axis: Axis = None,
    trust_scale: bool = False,
) -> Encodings:
    """Read encodings from an .npz, a parquet or csv file, or .npy files of one folder, under common names.

    Args:
        path: The file.
        scale_kind: The meaning of the scale, if its name does not give it or is wrong.
        examples: Read only this many inputs from the start.
        axis: The axis of the latent variables, as in `Encodings`.
        trust_scale: Skip the check whether the values of the scale are plausible.

    Returns:
        The encodings.

    Raises:
        DataError: If the file does not contain encodings, or they are ambiguous.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "codes.npz"
    >>> np.savez(path, mu=np.zeros((5, 2)), logvar=np.full((5, 2), -1.0))
    >>> from_arrays(path)
    Encodings(5 inputs × 2 variables, N(0, I))
    """
    file = open_file(path)
    names = Names.among(file.names, str(path), scale_kind=scale_kind)
    shape = file.shape(names.mean)
    if examples is None and 16 * prod(shape) > LARGEST_WHOLE:
        raise DataError(
            f"expected encodings that fit in memory, but {path} has {shape}; read fewer with examples=, "
            "or let polarised.diagnose read the file in chunks"
        )
    rows = file.rows(names.mean)
    wanted = rows if examples is None else min(examples, rows)
    file.budget.hold(16 * wanted * prod(shape[1:]))
    settings = {"scale_kind": scale_kind, "examples": examples, "axis": axis, "trust_scale": trust_scale}
    return gather(list(chunks_of_file(path, **settings)), file.factor_names)  # type: ignore[arg-type]


def _prior(parts: list[NDArray[Any] | float]) -> NDArray[Any] | float:
    return np.concatenate(parts) if np.ndim(parts[0]) == 2 else parts[0]
