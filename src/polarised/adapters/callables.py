"""Any function that encodes a batch → Encodings."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from numpy.typing import ArrayLike

from polarised.adapters.encoder_calls import Encode, call_encoder
from polarised.adapters.spread import Second, as_variance
from polarised.representations import Encodings

__all__ = ["from_callable"]


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
