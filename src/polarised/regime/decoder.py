"""The outputs of a decoder and its use of the variables, as plain arrays without torch."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polarised.errors import DataError
from polarised.random import stream

if TYPE_CHECKING:
    import polars

__all__ = ["CodedBatch", "DecoderUse", "Pictures", "measure_decoder_use"]

Array = NDArray[np.float64]
Images = NDArray[np.float32]

# A variable is used if exchanging it costs more than both: nats per image, and a share of the distortion.
LEAST_NATS, SHARE_OF_DISTORTION = 0.1, 0.005
# Standard errors from the threshold that are beyond doubt, and that end the measurement early.
ERRORS, EARLY = 2.0, 4.0
# Numbers of inputs after which a measurement may end: early, by default, and in any case.
FEW, USUAL, MOST = 500, 2_000, 10_000


class Pictures(NamedTuple):
    """Images and outputs of a decoder, all (..., channels, height, width) in [0, 1].

    Row j of `traversals` moves variable j over `values` and keeps the others at the code of the first original.
    """

    originals: Images
    reconstructions: Images
    traversals: Images
    values: NDArray[np.floating]


class CodedBatch(NamedTuple):
    """Some inputs with their codes and a decoder.

    `distortion` maps codes (n, d), one row per input, to -log p(x|z) in nats (n,); `codes` are a sample from q(z|x) and
    `prior_codes` one from p(z|u), both (n, d); `floor` (n,) is the distortion of a decoder that returns x itself.
    """

    distortion: Callable[[NDArray[Any]], NDArray[Any]]
    codes: NDArray[Any]
    prior_codes: NDArray[Any]
    floor: NDArray[Any]


@dataclass(frozen=True, eq=False)
class DecoderUse:
    """How much a decoder relies on each variable: the rise of -log p(x|z) in nats per image, with standard errors.

    `permuted`: z_j is replaced by that of another input, which decides whether it is used; `redrawn`: by a draw from
    p(z_j|u), which tests whether sampling from the prior works. If permuting costs nothing and redrawing does, the
    variable is constant, but not at the prior. `examples` counts the inputs on which each variable was exchanged;
    `distortion` is the mean of -log p(x|z) above that of a decoder that returns x itself. Arrays are (d,).

    >>> use = DecoderUse(
    ...     permuted=np.array([30.0, 0.02]), permuted_error=np.array([1.0, 0.03]), redrawn=np.array([31.0, 0.0]),
    ...     redrawn_error=np.array([1.0, 0.03]), examples=np.array([500, 500]), distortion=60.0,
    ... )
    >>> use.threshold, use.used.tolist(), use.doubtful.tolist()
    (0.3, [True, False], [False, False])
    """

    permuted: Array
    permuted_error: Array
    redrawn: Array
    redrawn_error: Array
    examples: NDArray[np.int64]
    distortion: float

    @property
    def threshold(self) -> float:
        """The threshold in nats above which a variable counts as used: 0.1, or 0.5 % of the distortion if larger."""
        return max(LEAST_NATS, SHARE_OF_DISTORTION * self.distortion)

    @property
    def used(self) -> NDArray[np.bool_]:
        """Whether exchanging each variable costs more than the threshold."""
        return np.asarray(self.permuted > self.threshold)

    @property
    def doubtful(self) -> NDArray[np.bool_]:
        """Whether that lies within two standard errors of the threshold."""
        return np.asarray(np.abs(self.permuted - self.threshold) <= ERRORS * self.permuted_error)

    def keep(self, variables: NDArray[Any] | list[int]) -> "DecoderUse":
        """Return the use of a selection of variables, in the given order."""
        chosen = np.asarray(variables)
        return DecoderUse(
            self.permuted[chosen],
            self.permuted_error[chosen],
            self.redrawn[chosen],
            self.redrawn_error[chosen],
            self.examples[chosen],
            self.distortion,
        )

    def table(self) -> "polars.DataFrame":
        """Return a row for each variable: the two rises with their errors, the number of inputs, the distortion."""
        import polars

        return polars.DataFrame(
            {
                "variable": np.arange(len(self.permuted)),
                "permuted": self.permuted,
                "permuted_error": self.permuted_error,
                "redrawn": self.redrawn,
                "redrawn_error": self.redrawn_error,
                "examples": self.examples,
                "distortion": np.full(len(self.permuted), self.distortion),
            }
        )

    @classmethod
    def of_table(cls, table: "polars.DataFrame") -> "DecoderUse":
        """Return the inverse of `table`."""
        columns = ("permuted", "permuted_error", "redrawn", "redrawn_error", "examples")
        if missing := [name for name in ("variable", *columns, "distortion") if name not in table.columns]:
            raise DataError(f"expected a table of a decoder's use, it lacks {', '.join(missing)}; measure it again")
        if not table.height or not all(
            table.schema[name].is_numeric() and not table[name].null_count()
            for name in ("variable", *columns, "distortion")
        ):
            raise DataError(
                "expected numbers for every variable in a table of a decoder's use, got others; measure it again"
            )
        rows = table.sort("variable")
        level, error, again, again_error, examples = (rows[name].to_numpy() for name in columns)
        return cls(level, error, again, again_error, examples, float(rows["distortion"][0]))


def measure_decoder_use(batches: Iterable[CodedBatch], *, redraw: bool = True, seed: int = 0) -> DecoderUse:
    """Measure how much a decoder relies on each variable, on as many batches as needed to decide.

    rise_j = E[-log p(x|z with z_j of another input) + log p(x|z)]. A variable is measured until its rise is two
    standard errors away from the threshold (four before 2,000 inputs, because it is tested repeatedly). No further
    batch is requested once all variables are decided, or after 10,000 inputs.

    Args:
        batches: Batches of different inputs; the first should have at least 500. Redrawing is measured on the first
            only.
        redraw: Whether to measure redrawing, which decides nothing and takes half of the time. NaN if not.
        seed: Seed of the permutations.

    Returns:
        The rises with their standard errors.

    Raises:
        DataError: If there is no batch, or a batch has fewer than two inputs.

    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(600, 2))
    >>> def distortion(codes):
    ...     return 50 * (codes[:, 0] - z[:, 0]) ** 2 + 9
    >>> measure_decoder_use([CodedBatch(distortion, z, rng.normal(size=(600, 2)), np.zeros(600))]).used.tolist()
    [True, False]
    """
    draws = stream(seed, "decoder use")
    rises: list[list[Array]] = []
    redrawn: list[Array] = []
    distortions: list[Array] = []
    open_: list[int] = []
    seen = 0
    for batch in batches:
        inputs, latents = batch.codes.shape
        if inputs < 2:
            raise DataError(f"expected at least two inputs to exchange codes between, got {inputs}; pass more images")
        if not rises:
            rises, open_ = [[] for _ in range(latents)], list(range(latents))
        own = np.asarray(batch.distortion(batch.codes), dtype=np.float64)
        distortions.append(own - batch.floor)
        for j in open_:
            # A cycle through all inputs in random order: no input keeps its own code.
            order = draws.permutation(inputs)
            other = np.empty(inputs, dtype=np.int64)
            other[order] = np.roll(order, 1)
            rises[j].append(_exchanged(batch, j, batch.codes[other, j]) - own)
        if not redrawn and not redraw:
            redrawn = [np.full(inputs, np.nan)] * latents
        if not redrawn:
            redrawn = [_exchanged(batch, j, batch.prior_codes[:, j]) - own for j in range(latents)]
        seen += inputs
        found = _use(rises, redrawn, distortions)
        away = np.abs(found.permuted - found.threshold) > (EARLY if seen < USUAL else ERRORS) * found.permuted_error
        open_ = [j for j in range(latents) if not away[j]]
        if not open_ or seen >= MOST:
            break
    if not rises:
        raise DataError("expected at least one batch of inputs to measure the decoder on, got none; pass some images")
    return _use(rises, redrawn, distortions)


def _exchanged(batch: CodedBatch, variable: int, values: NDArray[Any]) -> Array:
    changed = batch.codes.copy()
    changed[:, variable] = values
    return np.asarray(batch.distortion(changed), dtype=np.float64)


def _use(rises: list[list[Array]], redrawn: list[Array], distortions: list[Array]) -> DecoderUse:
    permuted = [np.concatenate(parts) for parts in rises]
    (level, error), (again, again_error) = _means_and_errors(permuted), _means_and_errors(redrawn)
    examples = np.array([len(parts) for parts in permuted])
    return DecoderUse(level, error, again, again_error, examples, float(np.concatenate(distortions).mean()))


def _means_and_errors(rises: list[Array]) -> tuple[Array, Array]:
    level = np.array([part.mean() for part in rises])
    return level, np.array([part.std(ddof=1) / np.sqrt(len(part)) for part in rises])
