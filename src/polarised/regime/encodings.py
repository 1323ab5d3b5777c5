"""The interface between any VAE and the analysis: the mean and variance of q(z|x)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polarised._io.files import replacing
from polarised._io.readers import read_npz
from polarised.errors import DataError, MissingFileError
from polarised.random import stream

__all__ = ["Encodings", "Estimator", "importance_weights", "log_densities", "log_densities_by_variable"]

Array = NDArray[np.float64]
Floats = NDArray[np.floating[Any]]
Axis = int | tuple[int, ...] | None
# Estimators of the aggregate posterior q(z) = E_x[q(z|x)] from the posteriors of a minibatch.
Estimator = Literal["mws", "mss0", "mss1", "eq10b", "disentanglement_lib"]
LARGEST_CLASS = 2**53


@dataclass(frozen=True, init=False, eq=False)
class Encodings:
    """Gaussian posteriors q(z|x_i) = N(mean_i, diag variance_i) of n inputs, with their prior.

    Arrays are (n, d): one row per input, one column per latent variable. Latents with more axes (feature maps,
    sequences) need `axis`, the axis of the variables; every position along the other axes is an observation. In a table
    of such latents, `repeats` consecutive rows are the positions of one input. The prior is N(0, I) by default; pass
    `prior_mean` and `prior_variance` as numbers, (d,) or (n, d) arrays if it is learned or depends on the input. If the
    prior is not Gaussian, they are the Gaussian to compare with, and `kl` (d,) is the mean of KL(q(z_j|x) || p(z_j))
    over inputs, which they do not determine. `rest_ratio` (d,) is the variance of an unused variable at rest, divided
    by the prior variance (NaN: nowhere; None: unknown).

    >>> encodings = Encodings([[0.0, 1.0], [2.0, 1.0]], variance=[[0.1, 1.0], [0.1, 1.0]])
    >>> len(encodings), encodings.latents
    (2, 2)
    """

    mean: Floats
    variance: Floats
    prior_mean: Floats
    prior_variance: Floats
    factors: NDArray[np.int64] | None
    factor_names: tuple[str, ...]
    kl: NDArray[np.float64] | None
    repeats: int
    rest_ratio: NDArray[np.float64] | None

    def __init__(
        self,
        mean: ArrayLike,
        *,
        variance: ArrayLike | None = None,
        log_variance: ArrayLike | None = None,
        prior_mean: ArrayLike = 0.0,
        prior_variance: ArrayLike = 1.0,
        factors: ArrayLike | None = None,
        factor_names: Sequence[str] | None = None,
        kl: ArrayLike | None = None,
        axis: Axis = None,
        repeats: int = 1,
        rest_ratio: ArrayLike | None = None,
    ) -> None:
        """Check the arrays and convert them to tables.

        Args:
            mean: The means of q(z|x), (n, d) or with more axes.
            variance: The variances, of the same shape; either this or `log_variance`.
            log_variance: The logarithms of the variances.
            prior_mean: A number, (d,) or (n, d).
            prior_variance: A number, (d,) or (n, d).
            factors: Known factors of each input, whole numbers, (n,) or (n, factors).
            factor_names: A name for each factor.
            kl: (d,), if the prior is not Gaussian.
            rest_ratio: (d,), the variance ratio of an unused variable at rest, as defined by the objective.
            axis: The axis of `mean` that is the variable: 1 for channels first, -1 for channels last or sequences;
                several, such as (1, 2, 3), make every combination a variable; 0 for a table (d, n).
            repeats: The number of consecutive rows of a table that are one input.

        Raises:
            DataError: If shapes do not match, or the input is ambiguous.
        """
        mean_array, variance_array, places = gaussians(mean, variance, log_variance, axis)
        rows, latents = mean_array.shape
        if rows < 2:
            raise DataError(f"expected at least two inputs, got {rows}: types are statistics over inputs; encode more")
        repeats = checked_repeats(repeats * places, rows)
        factor_array, names = _factors(factors, factor_names, rows, repeats)
        prior_mean_array, prior_variance_array = prior_of(prior_mean, prior_variance, rows, latents)
        values = {
            "mean": mean_array,
            "variance": variance_array,
            "prior_mean": prior_mean_array,
            "prior_variance": prior_variance_array,
            "factors": factor_array,
            "factor_names": names,
            "kl": checked_kl(kl, latents),
            "repeats": repeats,
            "rest_ratio": checked_rest(rest_ratio, latents),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.mean)

    def __repr__(self) -> str:
        prior = "N(0, I)" if self.has_standard_prior else "given prior"
        known = f", factors {', '.join(self.factor_names)}" if self.factors is not None else ""
        return f"Encodings({describe(len(self), self.latents, self.repeats)}, {prior}{known})"

    def _repr_html_(self) -> str:
        from polarised.regime.advice import encodings_html

        return encodings_html(self)

    @property
    def latents(self) -> int:
        """The number of latent variables d."""
        return int(self.mean.shape[1])

    @property
    def has_standard_prior(self) -> bool:
        """Whether the prior is N(0, I)."""
        return bool(np.all(self.prior_mean == 0) and np.all(self.prior_variance == 1))

    def sample(self, *, seed: int) -> Floats:
        """Return the sampled representation z = mean + sqrt(variance) * noise, one draw for each input.

        Args:
            seed: Seed of the noise.

        Returns:
            One draw of q(z|x) for each input, (n, d).

        >>> Encodings([[0.0], [1.0]], variance=[[0.0], [0.0]]).sample(seed=0).tolist()
        [[0.0], [1.0]]
        """
        noise = stream(seed, "sampled representation").standard_normal(self.mean.shape, dtype=np.float32)
        sampled: Floats = self.mean + np.sqrt(self.variance) * noise.astype(self.mean.dtype, copy=False)
        return sampled

    def keep(self, variables: ArrayLike) -> Self:
        """Return the encodings of a selection of variables, in the given order (indices, or a mask of length d).

        Args:
            variables: Their indices, in the new order.

        Returns:
            The same inputs with only these variables.

        >>> Encodings([[0.0, 1.0], [2.0, 3.0]], variance=np.ones((2, 2))).keep([1]).mean.tolist()
        [[1.0], [3.0]]
        """
        chosen = _indices(variables, self.latents)
        return type(self)(
            self.mean[:, chosen],
            variance=self.variance[:, chosen],
            prior_mean=self.prior_mean[..., chosen],
            prior_variance=self.prior_variance[..., chosen],
            factors=self.factors,
            factor_names=self.factor_names,
            kl=None if self.kl is None else self.kl[chosen],
            repeats=self.repeats,
            rest_ratio=None if self.rest_ratio is None else self.rest_ratio[chosen],
        )

    def chunks(self, rows: int = 8192) -> Iterator[tuple[Floats, Floats, Floats, Floats]]:
        """Yield (mean, variance, prior mean, prior variance) of consecutive rows, without splitting an input.

        Args:
            rows: The number of rows of each chunk.

        Returns:
            The encodings chunk by chunk.
        """
        step = max(rows // self.repeats, 1) * self.repeats
        for start in range(0, len(self), step):
            part = slice(start, start + step)
            prior_mean = self.prior_mean[part] if self.prior_mean.ndim == 2 else self.prior_mean
            prior_variance = self.prior_variance[part] if self.prior_variance.ndim == 2 else self.prior_variance
            yield self.mean[part], self.variance[part], prior_mean, prior_variance

    def save(self, path: str | Path) -> Path:
        """Write everything atomically to an ``.npz`` that `load` reads.

        Args:
            path: The .npz file to write.
        """
        path = Path(path)
        if path.suffix != ".npz":
            raise DataError(f"expected a file name that ends in .npz, got {path.name!r}")
        arrays: dict[str, NDArray[Any]] = {
            "mean": self.mean,
            "variance": self.variance,
            "prior_mean": self.prior_mean,
            "prior_variance": self.prior_variance,
            "factor_names": np.array(self.factor_names, dtype=np.str_),
        }
        if self.factors is not None:
            arrays["factors"] = self.factors
        if self.kl is not None:
            arrays["kl"] = self.kl
        if self.rest_ratio is not None:
            arrays["rest_ratio"] = self.rest_ratio
        if self.repeats > 1:
            arrays["repeats"] = np.array(self.repeats)
        with replacing(path) as temporary:
            np.savez(temporary, allow_pickle=False, **arrays)
        return path

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file written by `save` (NumPy arrays only; pickled objects are refused).

        Args:
            path: An .npz written by `save`.

        Returns:
            The encodings.
        """
        path = Path(path)
        try:
            arrays = read_npz(path)
        except FileNotFoundError:
            raise MissingFileError(
                f"expected an encodings file, but {path} does not exist; write one with Encodings.save"
            ) from None
        missing = {"mean", "variance"} - arrays.keys()
        if missing:
            raise DataError(
                f"expected arrays mean and variance in {path}, got no {' and '.join(sorted(missing))} "
                f"(it has {', '.join(arrays) or 'nothing'}); write it with Encodings.save"
            )
        names = arrays.get("factor_names")
        return cls(
            arrays["mean"],
            variance=arrays["variance"],
            prior_mean=arrays.get("prior_mean", np.zeros(1)),
            prior_variance=arrays.get("prior_variance", np.ones(1)),
            factors=arrays.get("factors"),
            factor_names=[str(name) for name in names] if names is not None and "factors" in arrays else None,
            kl=arrays.get("kl"),
            repeats=checked_repeats(arrays.get("repeats", 1), len(arrays["mean"])),
            rest_ratio=arrays.get("rest_ratio"),
        )


def describe(rows: int, latents: int, repeats: int = 1) -> str:
    """Return how a table was interpreted, in words.

    >>> describe(640_000, 4, 64)
    '10,000 inputs × 4 variables (64 positions each)'
    """
    variables = f"{latents:,} variable{'' if latents == 1 else 's'}"
    return f"{rows // repeats:,} inputs × {variables}" + (f" ({repeats:,} positions each)" if repeats > 1 else "")


def gaussians(
    mean: ArrayLike,
    variance: ArrayLike | None,
    log_variance: ArrayLike | None,
    axis: Axis = None,
    *,
    checked: bool = True,
) -> tuple[Floats, Floats, int]:
    """Return mean and variance as (n, d) tables, with all values checked by default, and the rows per input."""
    mean_array = _floats(mean, "mean", checked=checked)
    variance_array = _variance(variance, log_variance, checked=checked)
    if mean_array.shape != variance_array.shape:
        raise DataError(
            f"expected mean and variance of the same shape, got {mean_array.shape} and {variance_array.shape}; "
            "both have a row for each input and a column for each latent variable"
        )
    (mean_array, repeats), (variance_array, _) = as_table(mean_array, axis), as_table(variance_array, axis)
    if mean_array.size == 0:
        raise DataError(f"expected at least one input and one latent variable, got shape {mean_array.shape}")
    return mean_array, variance_array, repeats


def as_table(array: NDArray[Any], axis: Axis = None) -> tuple[NDArray[Any], int]:
    """Return an array as (rows, variables) and the number of rows per input; refuse latents without a known axis.

    >>> as_table(np.zeros((5, 8, 8, 4)), axis=-1)[0].shape
    (320, 4)
    >>> as_table(np.zeros((5, 4, 8, 8)), axis=(1, 2, 3))[0].shape
    (5, 256)
    """
    if array.ndim < 2:
        raise DataError(f"expected an array (inputs, variables), got shape {array.shape}; a single variable is (n, 1)")
    if axis is None:
        if array.ndim > 2:
            every = tuple(range(1, array.ndim))
            raise DataError(
                f"latents of shape {array.shape} are ambiguous: set the axis of the variables to axis=1 "
                f"({array.shape[1]} variables, if channels come first), axis=-1 ({array.shape[-1]} variables, for "
                f"sequences or if channels come last), or axis={every} (every position is a separate variable)"
            )
        return array, 1
    axes = tuple(a + array.ndim if a < 0 else a for a in (axis if isinstance(axis, tuple) else (axis,)))
    if (
        not axes
        or len(set(axes)) < len(axes)
        or not all(0 <= a < array.ndim for a in axes)
        or (0 in axes and array.ndim > 2)
    ):
        raise DataError(
            f"expected axis as that of the variables, 1 to {array.ndim - 1} or -1, for latents of shape {array.shape}"
            f", got {axis}"
        )
    if axes == (0,):
        return array.T, 1
    rest = tuple(a for a in range(1, array.ndim) if a not in axes)
    table = array.transpose(0, *rest, *axes).reshape(-1, int(np.prod([array.shape[a] for a in axes])))
    return table, int(np.prod([array.shape[a] for a in rest], dtype=np.int64))


def from_table(table: NDArray[Any], shape: tuple[int, ...], axis: Axis = None) -> NDArray[Any]:
    """Return a table as latents (n, *shape): the inverse of `as_table`.

    >>> latents = np.arange(24.0).reshape(2, 3, 4)
    >>> bool((from_table(as_table(latents, axis=-1)[0], (3, 4), axis=-1) == latents).all())
    True
    """
    if axis is None or len(shape) == 1:
        return table
    axes = tuple(a + len(shape) + 1 if a < 0 else a for a in (axis if isinstance(axis, tuple) else (axis,)))
    rest = tuple(a for a in range(1, len(shape) + 1) if a not in axes)
    order = (0, *rest, *axes)
    laid = table.reshape(-1, *(shape[a - 1] for a in (*rest, *axes)))
    return laid.transpose(np.argsort(order))


def prior_of(prior_mean: ArrayLike, prior_variance: ArrayLike, rows: int, latents: int) -> tuple[Floats, Floats]:
    """Return the checked mean and variance of the prior, each (d,) or (n, d)."""
    mean = _prior(prior_mean, "prior_mean", rows, latents)
    variance = _prior(prior_variance, "prior_variance", rows, latents)
    if not (variance > 0).all():
        raise DataError(
            f"expected prior_variance above zero everywhere, got {variance.min():.4g}; "
            "if it is a log-variance, pass np.exp of it"
        )
    return mean, variance


def as_array(value: Any) -> NDArray[Any]:
    """Return an array, or the values of a tensor on any device, with or without gradient; NumPy has no bfloat16.

    >>> as_array([1.0, 2.0])
    array([1., 2.])
    """
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = (value.float() if value.is_floating_point() and value.dtype.itemsize < 4 else value).numpy()
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype.name.startswith(("bfloat16", "float8")) else array


def checked_encodings(value: Any) -> Encodings:
    """Return encodings, or raise an error that says how to create them."""
    if not isinstance(value, Encodings):
        raise DataError(
            f"expected Encodings, got {type(value).__name__}; "
            "create them from your arrays with Encodings(mean, variance=variance)"
        )
    return value


def checked_repeats(repeats: Any, rows: int) -> int:
    """Return the number of consecutive rows that are one input, or raise an error."""
    count = np.asarray(repeats)
    if count.size != 1 or count.dtype.kind not in "iu" or count.item() < 1 or rows % count.item():
        raise DataError(
            f"expected repeats as a whole number of rows per input that divides the {rows} rows, got {repeats!r}"
        )
    return int(count.item())


def checked_kl(kl: ArrayLike | None, latents: int) -> NDArray[np.float64] | None:
    """Return the mean KL of each variable (d,), if known."""
    if kl is None:
        return None
    array = _floats(kl, "kl")
    if array.shape != (latents,):
        raise DataError(f"expected kl as ({latents},), the mean over inputs of each variable, got shape {array.shape}")
    return array.astype(np.float64)


def checked_rest(rest_ratio: ArrayLike | None, latents: int) -> NDArray[np.float64] | None:
    """Return the variance ratio of an unused variable at rest, (d,), or raise an error."""
    if rest_ratio is None:
        return None
    values = np.asarray(rest_ratio, dtype=np.float64)
    if values.shape not in ((), (1,), (latents,)) or (values <= 0).any() or np.isinf(values).any():
        raise DataError(
            f"expected rest_ratio as a positive number or one for each of {latents} variables (NaN where an unused one "
            f"rests nowhere), got {rest_ratio!r}"
        )
    return np.broadcast_to(values, (latents,))


def _floats(value: ArrayLike, name: str, *, checked: bool = True) -> Floats:
    try:
        array = as_array(value)
        if array.dtype.kind == "c":
            raise DataError(f"expected real numbers in {name}, got {array.dtype}; pass the real part if that is meant")
        if array.dtype == np.float16:
            array = array.astype(np.float32)
        elif array.dtype not in (np.float32, np.float64):
            array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"expected numbers in {name}, got {type(value).__name__}: {error}") from error
    # A finite sum has only finite terms; an overflow is resolved by the slower check.
    if checked and not np.isfinite(array.sum()) and not (finite := np.isfinite(array)).all():
        first = tuple(int(axis[0]) for axis in np.nonzero(~finite))
        raise DataError(
            f"expected finite numbers in {name}, {int((~finite).sum())} of {array.size} are NaN or infinite "
            f"(first at {first}); check the inputs for NaN, and whether training diverged"
        )
    return array


def _variance(variance: ArrayLike | None, log_variance: ArrayLike | None, *, checked: bool) -> Floats:
    if (variance is None) == (log_variance is None):
        given = "neither" if variance is None else "both"
        raise DataError(f"expected either variance= or log_variance=, got {given}; pass the one your encoder returns")
    if log_variance is not None:
        logarithm = _floats(log_variance, "log_variance")
        if logarithm.size and (logarithm.min() < -80 or logarithm.max() > 80):
            logarithm = logarithm.astype(np.float64)
        if logarithm.size and logarithm.max() > 700:
            raise DataError(f"expected log_variance below 700, got {logarithm.max():.4g}: its variance is infinite")
        return np.exp(logarithm)
    array = _floats(variance if variance is not None else 0.0, "variance", checked=checked)
    if checked and (array < 0).any():
        raise DataError(
            f"expected variance at or above zero, got {int((array < 0).sum())} negative entries "
            f"(smallest {array.min():.4g}); if this is a log-variance, pass it as log_variance="
        )
    return array


def _prior(value: ArrayLike, name: str, rows: int, latents: int) -> Floats:
    array = _floats(value, name)
    if array.ndim <= 1 and array.size in (1, latents):
        return np.broadcast_to(array, (latents,))
    if array.shape == (rows, latents):
        return array
    raise DataError(
        f"expected {name} as a number, ({latents},) or ({rows}, {latents}), got shape {array.shape}; "
        "it is the prior of the same inputs and variables as mean"
    )


def _factors(
    factors: ArrayLike | None, factor_names: Sequence[str] | None, rows: int, repeats: int
) -> tuple[NDArray[np.int64] | None, tuple[str, ...]]:
    if factors is None:
        if factor_names:
            raise DataError(f"expected factors with factor_names, got only the names {list(factor_names)}")
        return None, ()
    array = np.asarray(factors)
    array = array[:, None] if array.ndim == 1 else array
    numbers = array.dtype.kind in "iuf" and array.ndim == 2
    # From this size on a float does not distinguish whole numbers; rounding does not change infinity.
    if not numbers or not np.array_equal(array, np.rint(array)) or (np.abs(array.astype(float)) > LARGEST_CLASS).any():
        got = f"{array.dtype} of shape {array.shape}"
        hint = "bin continuous factors first" if numbers else "number the classes first, for example with np.unique"
        raise DataError(
            f"expected factors as whole-number classes (n, factors), got {got}"
            f"{' with fractional, infinite or huge values' if numbers else ''}; {hint}"
        )
    array = np.repeat(array, repeats, axis=0) if len(array) * repeats == rows else array
    if len(array) != rows:
        raise DataError(f"expected a row of factors for each of the {rows} inputs, got {len(array)}")
    names = tuple(factor_names) if factor_names is not None else tuple(f"factor {i}" for i in range(array.shape[1]))
    if len(names) != array.shape[1]:
        raise DataError(f"expected {array.shape[1]} factor_names, got {len(names)}: {', '.join(names)}")
    return array.astype(np.int64), names


def _indices(variables: ArrayLike, latents: int) -> NDArray[np.int64]:
    array = np.atleast_1d(np.asarray(variables))
    if array.dtype == np.bool_ and array.shape == (latents,):
        return np.flatnonzero(array)
    valid = array.ndim == 1 and array.size > 0 and np.issubdtype(array.dtype, np.integer)
    if not valid or array.min() < 0 or array.max() >= latents or len(set(array.tolist())) < array.size:
        raise DataError(f"expected distinct variables from 0 to {latents - 1}, at least one, got {array.tolist()}")
    return array.astype(np.int64)


def importance_weights(batch: int, dataset_size: int, *, estimator: Estimator) -> Array:
    """Return the weight W[i, k] of encoder k in the minibatch estimate of q(z_i).

    log q(z_i) = log sum_k W[i, k] q(z_i|x_k), with M = B - 1 and s = (N - M) / (N M):
    "mws": 1 / (N B), biased [Chen2018, eq. 3]; "mss0": the stratified weights as released, whose strides run down
    two columns; "mss1": the weights as intended, on the diagonals, unbiased [Cheng2021, appendix 1]; "eq10b": its
    average over the choice of the stratum [Mathieu2019, eq. 10b]; "disentanglement_lib": 1, without the constants.

    Args:
        batch: The size B of the batch.
        dataset_size: The number N of inputs from which the batch was drawn; at least B is used.
        estimator: The kind of weights.

    Returns:
        The weights, (B, B).

    >>> importance_weights(2, 4, estimator="eq10b")
    array([[0.25, 0.75],
           [0.75, 0.25]])
    >>> importance_weights(3, 8, estimator="mss1")[0]
    array([0.125, 0.375, 0.5  ])
    """
    others, size = max(batch - 1, 1), max(dataset_size, batch)
    stratum = (size - others) / (size * others)
    every = np.arange(batch)
    if estimator == "disentanglement_lib":
        return np.ones((batch, batch))
    if estimator == "mws":
        return np.full((batch, batch), 1 / (size * batch))
    if estimator == "eq10b":
        weights = np.full((batch, batch), (size - 1) / (size * others))
        weights[every, every] = 1 / size
        return weights
    weights = np.full((batch, batch), 1 / others)
    if estimator == "mss1":
        weights[every, (every + 1) % batch] = stratum
        weights[every, every] = 1 / size
        return weights
    weights[:, 0] = 1 / size
    weights[:, 1:2] = stratum
    weights[others - 1, 0] = stratum
    return weights


def log_densities(z: Array, mean: Array, variance: Array) -> Array:
    """Return log N(z_i; mean_k, variance_k) of every code under every posterior, without an array of (m, n, d).

    Args:
        z: Codes (m, d).
        mean: Posterior means (n, d).
        variance: Posterior variances (n, d).

    Returns:
        The log densities (m, n).

    >>> log_densities(np.zeros((1, 2)), np.zeros((1, 2)), np.ones((1, 2))).round(4)
    array([[-1.8379]])
    """
    precision = 1 / variance
    squared = z**2 @ precision.T - 2 * z @ (mean * precision).T + (mean**2 * precision).sum(axis=1)
    return np.asarray(-0.5 * (np.maximum(squared, 0.0) + np.log(2 * np.pi * variance).sum(axis=1)))


def log_densities_by_variable(z: Array, mean: Array, variance: Array) -> Array:
    """Return log N(z_id; mean_kd, variance_kd) of every variable of every code under every posterior.

    Args:
        z: Codes (m, d).
        mean: Posterior means (n, d).
        variance: Posterior variances (n, d).

    Returns:
        The log densities (m, n, d).

    >>> log_densities_by_variable(np.zeros((1, 2)), np.zeros((1, 2)), np.ones((1, 2))).sum(axis=2).round(4)
    array([[-1.8379]])
    """
    return np.asarray(-0.5 * ((z[:, None, :] - mean) ** 2 / variance + np.log(2 * np.pi * variance)))
