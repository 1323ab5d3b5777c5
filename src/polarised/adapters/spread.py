"""What the second output of an encoder is: variance, standard deviation or the logarithm of one; or a question."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from polarised.errors import DataError

__all__ = ["Second", "as_variance"]

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
