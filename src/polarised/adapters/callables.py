"""Any function that encodes a batch → Encodings."""

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polarised.adapters.arrays import Second, as_variance
from polarised.errors import DataError
from polarised.regime import Encodings
from polarised.regime.encodings import as_array

__all__ = ["Encode", "call_encoder", "from_callable"]

Encode = Callable[[Any], tuple[ArrayLike, ArrayLike]]


Array = NDArray[Any]


def call_encoder(encode: Encode, batches: Iterable[Any], *, certain: bool = False) -> tuple[Array, Array]:
    """Return the two outputs over all batches; a first batch that comes out different the second time is a question.

    >>> call_encoder(lambda x: (x, x), [[[1.0], [2.0]], [[3.0]]])[0].ravel()
    array([1., 2., 3.])
    """
    pairs: list[tuple[Array, Array]] = []
    with _without_gradients():
        for number, batch in enumerate(batches):
            pairs.append(_pair(encode(batch), number))
            if number == 0 and not certain and not _alike(pairs[0][0], _pair(encode(batch), number)[0]):
                raise DataError(
                    "expected the same mean for the same batch, got two different ones; does the encoder return a "
                    "sample instead of the mean, or is dropout on (call model.eval())? certain=True takes it as it is"
                )
    if not pairs:
        raise DataError("expected at least one batch, got none; a generator can be used up only once")
    means, seconds = zip(*pairs, strict=True)
    return np.concatenate(means), np.concatenate(seconds)


def _pair(output: Any, number: int) -> tuple[Array, Array]:
    if not isinstance(output, tuple | list) or len(output) != 2:
        came = f"{len(output)} things" if isinstance(output, tuple | list) else type(output).__name__
        raise DataError(
            f"expected the encoder to return (mean, second), got {came} for batch {number}; wrap it: a single array "
            "with both is split by you (halves or interleaved?), of (z, mean, log_variance) the last two are meant"
        )
    mean, spread = (as_array(part) for part in output)
    if mean.shape != spread.shape:
        raise DataError(
            f"expected mean and second of one shape, got {mean.shape} and {spread.shape} for batch {number}; "
            "a variance shared by all variables is broadcast by you"
        )
    return mean, spread


def _alike(first: Array, second: Array) -> bool:
    # Kernels of a graphics card need not repeat their rounding; broken numbers are spoken of later.
    return first.shape == second.shape and np.allclose(first, second, rtol=1e-3, atol=1e-5, equal_nan=True)


def _without_gradients() -> AbstractContextManager[Any]:
    torch = sys.modules.get("torch")
    return torch.no_grad() if torch is not None else nullcontext()


def from_callable(
    encode: Encode,
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

    >>> batches = [[[0.5], [-1.0]], [[2.0]]]
    >>> from_callable(lambda x: (x, [[-4.0]] * len(x)), batches, second="log_variance")
    Encodings(3 inputs, 1 latent variables, N(0, I))
    """
    mean, spread = call_encoder(encode, batches, certain=certain)
    return Encodings(
        mean,
        variance=as_variance(spread, second, certain=certain),
        prior_mean=prior_mean,
        prior_variance=prior_variance,
        factors=factors,
        factor_names=factor_names,
        positions=positions,
    )
