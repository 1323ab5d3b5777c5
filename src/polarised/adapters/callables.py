"""Any function that encodes a batch → Encodings, with a question where its output looks like something else."""

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polarised.errors import DataError
from polarised.representations import Encodings

__all__ = ["Second", "as_variance", "from_callable"]

Second = Literal["log_variance", "variance", "std", "log_std"]
Array = NDArray[Any]

TO_VARIANCE: dict[str, Callable[[Array], Array]] = {
    "variance": lambda value: value,
    "log_variance": np.exp,
    "std": np.square,
    "log_std": lambda value: np.exp(2.0 * value),
}


def from_callable(
    encode: Callable[[Any], tuple[ArrayLike, ArrayLike]],
    batches: Iterable[Any],
    *,
    second: Second,
    certain: bool = False,
    prior_mean: ArrayLike = 0.0,
    prior_variance: ArrayLike = 1.0,
    factors: ArrayLike | None = None,
    factor_names: Sequence[str] | None = None,
    positions: Literal["observations", "variables"] = "observations",
) -> Encodings:
    """Encode batches with any function that returns (mean, second) of q(z|x), in any framework.

    `second` says what the second array is. Where its numbers look like something else a question is
    raised instead of a guess made; `certain=True` answers that it is what you said.

    >>> batches = [np.array([[0.5], [-1.0]]), np.array([[2.0]])]
    >>> from_callable(lambda x: (x, np.full_like(x, -4.0)), batches, second="log_variance")
    Encodings(3 inputs, 1 latent variables, N(0, I))
    """
    means, seconds = [], []
    with _without_gradients():
        for number, batch in enumerate(batches):
            mean, spread = _pair(encode(batch), number)
            if number == 0 and not certain and not np.array_equal(mean, _pair(encode(batch), number)[0]):
                raise DataError(
                    "expected the same mean for the same batch, got two different ones; does the encoder return a "
                    "sample instead of the mean, or is dropout on (call model.eval())? certain=True takes it as it is"
                )
            means.append(mean)
            seconds.append(spread)
    if not means:
        raise DataError("expected at least one batch, got none; a generator can be used up only once")
    mean_array, spread = np.concatenate(means), np.concatenate(seconds)
    return Encodings(
        mean_array,
        variance=as_variance(spread, second, certain=certain),
        prior_mean=prior_mean,
        prior_variance=prior_variance,
        factors=factors,
        factor_names=factor_names,
        positions=positions,
    )


def as_variance(values: Array, second: Second, *, certain: bool = False) -> Array:
    """Return the variance of q(z|x), or ask where the numbers contradict what they are said to be.

    >>> as_variance(np.array([[0.0, -2.0]]), "log_std").round(3)
    array([[1.   , 0.018]])
    """
    if second not in TO_VARIANCE:
        raise DataError(f"expected second as one of {', '.join(TO_VARIANCE)}, got {second!r}")
    if not values.size or not np.isfinite(values).all():
        raise DataError(f"expected finite numbers as {second}, got none, NaN or infinity; did training diverge?")
    lowest, average = float(values.min()), float(values.mean())
    if second in ("variance", "std") and lowest < 0:
        raise DataError(
            f"a {second} is never negative, but this one falls to {lowest:.4g}: is it the log-variance (or log_std)? "
            "say so with second='log_variance' or 'log_std'"
        )
    if second in ("log_variance", "log_std") and not certain and lowest >= 0:
        other = second.removeprefix("log_")
        raise DataError(
            f"this {second} is never below zero (average {average:.3g}), so no variable would be narrower than its "
            f"prior: is it the {other} itself? Then say second={other!r}; if it is right, certain=True"
        )
    wide = values.astype(np.float64) if np.abs(values).max(initial=0) > 40 else values
    with np.errstate(over="ignore"):
        variance = TO_VARIANCE[second](wide)
    if not certain and float(np.median(variance)) > 1e4:
        raise DataError(
            f"read as {second}, half of the posterior variances exceed {np.median(variance):.3g}: are mean and "
            f"{second} swapped, or is it something else? If it is right, certain=True"
        )
    return variance


def _pair(output: Any, number: int) -> tuple[Array, Array]:
    if not isinstance(output, tuple | list) or len(output) != 2:
        came = f"{len(output)} things" if isinstance(output, tuple | list) else type(output).__name__
        raise DataError(
            f"expected the encoder to return (mean, second), got {came} for batch {number}; wrap it: a single array "
            "with both is split by you (halves or interleaved?), of (z, mean, log_variance) the last two are meant"
        )
    mean, spread = (_array(part) for part in output)
    if mean.shape != spread.shape:
        raise DataError(
            f"expected mean and second of one shape, got {mean.shape} and {spread.shape} for batch {number}; "
            "a variance shared by all variables is broadcast by you"
        )
    return mean, spread


def _array(value: Any) -> Array:
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = (value.float() if value.dtype.itemsize < 4 else value).numpy()
    return np.asarray(value)


def _without_gradients() -> AbstractContextManager[Any]:
    torch = sys.modules.get("torch")
    return torch.no_grad() if torch is not None else nullcontext()
