"""What the types of variables rest on: running statistics of (mean, variance), updated in chunks and merged.

Rows are dealt in turn to a fixed number of blocks, each with its own moments in float64. Their sum is the exact
statistic over all rows; their spread gives standard errors and a bootstrap, both without seeing a row twice.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polarised.errors import DataError
from polarised.representations.encodings import gaussians, prior_of

if TYPE_CHECKING:
    from polarised.representations.regime import Regime, Rule

__all__ = ["Evidence", "Statistics"]

Array = NDArray[np.float64]

BLOCKS = 64
# The first three also need their spread: Var(r), Var(sigma) and Var(mu) enter the rules.
QUANTITIES = ("ratio", "variance", "mean", "shift", "log_ratio")
SPREAD = 3


@dataclass(frozen=True)
class Statistics:
    """Statistics of each variable over inputs; arrays (..., d).

    With r = variance / prior variance and s = (mean - prior mean)^2 / prior variance of one input, all over inputs:
    E[r], Var[r], E[s], E[log r], the posterior variance's own mean and variance, and the mean's.
    """

    ratio_mean: Array
    ratio_variance: Array
    shift: Array
    log_ratio: Array
    variance_mean: Array
    variance_variance: Array
    mean_mean: Array
    mean_variance: Array

    @property
    def kl(self) -> Array:
        """KL(q(z_j|x) || p(z_j)) in nats, averaged over inputs: 1/2 E[r + s - 1 - log r]."""
        divergence: Array = 0.5 * (self.ratio_mean + self.shift - 1.0 - self.log_ratio)
        return np.maximum(divergence, 0.0)

    @property
    def noise_share(self) -> Array:
        """E[variance] / (E[variance] + Var(mean)): 1 is pure noise, 0 is z = mean. A constant variable has 1."""
        total = self.variance_mean + self.mean_variance
        return np.where(total > 0, self.variance_mean / np.where(total > 0, total, 1.0), 1.0)

    @property
    def polarity(self) -> Array:
        """Var[r] / (m (1 - m)), m = E[r] in [0, 1]: 0 = alike for every input, 1 = each input on or off."""
        level = np.clip(self.ratio_mean, 0.0, 1.0)
        widest = level * (1.0 - level)
        return np.where(widest > 0, np.minimum(self.ratio_variance / np.where(widest > 0, widest, 1.0), 1.0), 0.0)

    @property
    def calibration(self) -> Array:
        """E[r] + E[s]: 1 for every variable once a learned prior variance has settled."""
        return self.ratio_mean + self.shift


class Evidence:
    """Streaming evidence on the variables of a VAE: `update` with chunks, `merge` with others, then `classify`.

    The result is that of all rows at once, in float64, whatever the chunks.

    >>> evidence = Evidence()
    >>> evidence.update([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> evidence.update([[1.0, 0.0]], variance=[[0.02, 1.0]])
    >>> evidence.classify().types
    ('active', 'passive')
    """

    def __init__(self) -> None:
        self.latents: int | None = None
        self.learned_prior_mean = False
        self.learned_prior_variance = False

    @property
    def rows(self) -> int:
        """The number of inputs seen."""
        return int(self._counts.sum()) if self.latents is not None else 0

    def update(
        self,
        mean: ArrayLike,
        *,
        variance: ArrayLike | None = None,
        log_variance: ArrayLike | None = None,
        prior_mean: ArrayLike = 0.0,
        prior_variance: ArrayLike = 1.0,
        positions: Literal["observations", "variables"] = "observations",
    ) -> None:
        """Take in the posteriors (and priors) of more inputs, any number of rows."""
        means, variances, _ = gaussians(mean, variance, log_variance, positions)
        rows, latents = means.shape
        prior_means, prior_variances = prior_of(prior_mean, prior_variance, rows, latents)
        self._start(latents)
        self.learned_prior_mean |= prior_means.ndim == 2
        self.learned_prior_variance |= prior_variances.ndim == 2 or bool((prior_variances != 1).any())
        if prior_means.ndim == 1 and prior_variances.ndim == 1:
            self._take_against_fixed_prior(means, variances, prior_means, prior_variances)
            return
        for start in range(0, rows, _CHUNK):
            part = slice(start, start + _CHUNK)
            prior = (
                prior_means[part] if prior_means.ndim == 2 else prior_means,
                prior_variances[part] if prior_variances.ndim == 2 else prior_variances,
            )
            self._take(means[part], variances[part], *prior)

    def merge(self, other: Self) -> Self:
        """Add the evidence of other inputs (another file, worker or machine); returns itself."""
        if other.latents is None:
            return self
        self._start(other.latents)
        self.learned_prior_mean |= other.learned_prior_mean
        self.learned_prior_variance |= other.learned_prior_variance
        # The next row of this evidence belongs to block rows % BLOCKS: go on dealing from there.
        turn = self.rows % BLOCKS
        self._combine(*(np.roll(part, turn, axis=0) for part in (other._counts, other._means, other._squares)))
        return self

    def statistics(self) -> Statistics:
        """Return the statistics over every input seen."""
        if self.rows < 2:
            raise DataError(f"expected at least two inputs before asking for statistics, got {self.rows}")
        return self._pooled(np.ones((1, BLOCKS)), squeeze=True)

    def resampled(self, draws: int, generator: np.random.Generator) -> Statistics:
        """Return bootstrap statistics (draws, d): blocks of inputs drawn with replacement."""
        filled = np.flatnonzero(self._counts)
        weights = np.zeros((draws, BLOCKS))
        weights[:, filled] = generator.multinomial(len(filled), np.full(len(filled), 1 / len(filled)), size=draws)
        return self._pooled(weights)

    def classify(
        self, *, alpha: float = 0.1, rule: "Rule" = "relative", use_shift: bool = True, seed: int = 0
    ) -> "Regime":
        """Decide the type of every variable on the evidence so far; see `polarised.classify`."""
        from polarised.representations.regime import decide

        return decide(self, alpha=alpha, rule=rule, use_shift=use_shift, seed=seed)

    def _start(self, latents: int) -> None:
        if self.latents is None:
            self.latents = latents
            self._counts = np.zeros(BLOCKS)
            self._means = np.zeros((BLOCKS, len(QUANTITIES), latents))
            self._squares = np.zeros((BLOCKS, SPREAD, latents))
        if latents != self.latents:
            raise DataError(f"expected {self.latents} latent variables as in earlier chunks, got {latents}")

    def _take_against_fixed_prior(
        self,
        mean: NDArray[Any],
        variance: NDArray[Any],
        prior_mean: NDArray[Any],
        prior_variance: NDArray[Any],
    ) -> None:
        """Take in rows whose prior is the same for all: every quantity follows from moments of mean and variance."""
        counts = _dealt(len(mean))
        held = np.maximum(counts, 1.0)[:, None]
        means, mean_squares, _ = _blocked_moments(mean, held, logarithms=False)
        variances, variance_squares, logarithms = _blocked_moments(variance, held, logarithms=True)
        shifts = (mean_squares / held + np.square(means - prior_mean)) / prior_variance
        levels = [variances / prior_variance, variances, means, shifts, logarithms - np.log(prior_variance)]
        squares = [variance_squares / np.square(prior_variance), variance_squares, mean_squares]
        empty = counts[:, None, None] == 0
        turn = self.rows % BLOCKS
        stacked = (counts, np.where(empty, 0.0, np.stack(levels, axis=1)), np.stack(squares, axis=1))
        self._combine(*(np.roll(part, turn, axis=0) for part in stacked))

    def _take(
        self,
        mean: NDArray[Any],
        variance: NDArray[Any],
        prior_mean: NDArray[Any],
        prior_variance: NDArray[Any],
    ) -> None:
        means = mean.astype(np.float64)
        variances = variance.astype(np.float64)
        ratios = variances / prior_variance
        shifts = np.square(means - prior_mean) / prior_variance
        with np.errstate(divide="ignore"):
            logarithms = np.log(ratios)
        turn = self.rows % BLOCKS
        counts = _dealt(len(means))
        levels = np.stack([_blocked_mean(x, counts) for x in (ratios, variances, means, shifts, logarithms)], axis=1)
        squares = np.stack(
            [_blocked_squares(x, levels[:, i]) for i, x in enumerate((ratios, variances, means))], axis=1
        )
        self._combine(*(np.roll(part, turn, axis=0) for part in (counts, levels, squares)))

    def _combine(self, counts: Array, means: Array, squares: Array) -> None:
        # The parallel update of Chan, Golub and LeVeque (1979): stable where sums of squares would cancel.
        total = self._counts + counts
        share = np.divide(counts, total, out=np.zeros_like(total), where=total > 0)[:, None, None]
        gap = means[:, :SPREAD] - self._means[:, :SPREAD]
        self._squares += squares + np.square(gap) * share * self._counts[:, None, None]
        self._means[:, :SPREAD] += gap * share
        # log r may be minus infinity, where a difference would be NaN: weigh instead.
        rest = slice(SPREAD, None)
        self._means[:, rest] = self._means[:, rest] * (1.0 - share) + np.where(share > 0, means[:, rest], 0.0) * share
        self._counts = total

    def _pooled(self, weights: Array, *, squeeze: bool = False) -> Statistics:
        counts = weights * self._counts
        total = counts.sum(axis=1)[:, None, None]
        overall = np.tensordot(self._counts, self._means, 1) / self._counts.sum()
        with np.errstate(invalid="ignore"):
            centred = self._means - overall
        centred = np.where(np.isfinite(centred), centred, 0.0)
        offset = np.tensordot(counts, centred, 1) / total
        spread = centred[:, :SPREAD]
        squares = np.tensordot(weights, self._squares, 1) + np.tensordot(counts, np.square(spread), 1)
        variances = np.maximum(squares / total - np.square(offset[:, :SPREAD]), 0.0)
        means = overall + offset
        if squeeze:
            means, variances = means[0], variances[0]
        return Statistics(
            ratio_mean=means[..., 0, :],
            ratio_variance=variances[..., 0, :],
            shift=means[..., 3, :],
            log_ratio=means[..., 4, :],
            variance_mean=means[..., 1, :],
            variance_variance=variances[..., 1, :],
            mean_mean=means[..., 2, :],
            mean_variance=variances[..., 2, :],
        )


# Small enough for the working arrays to stay in the processor's cache, a multiple of the number of blocks.
_CHUNK = BLOCKS * 64


# Variances multiplied before one logarithm is taken of them; eight of single precision cannot leave double's range.
_FACTORS = 8


def _dealt(rows: int) -> Array:
    """Return how many of these rows each block gets."""
    counts = np.full(BLOCKS, rows // BLOCKS, dtype=np.float64)
    counts[: rows % BLOCKS] += 1
    return counts


def _blocked_moments(values: NDArray[Any], held: Array, *, logarithms: bool) -> tuple[Array, Array, Array]:
    """Return each block's mean, sum of squares about it and, if asked, mean logarithm; each (blocks, d).

    Sums are taken relative to the first row, which keeps digits and makes the moments of a constant exact.
    """
    latents = values.shape[1]
    origin = values[0].astype(np.float64)
    far = np.tile(origin, BLOCKS)
    sums, squares, logs = (np.zeros(BLOCKS * latents) for _ in range(3))
    # One work space for all chunks: fresh ones would cost as much again in page faults.
    space, ones = np.empty((min(_CHUNK, len(values)), latents)), np.ones(_CHUNK // BLOCKS)
    for start in range(0, len(values), _CHUNK):
        part = values[start : start + _CHUNK]
        whole = len(part) // BLOCKS * BLOCKS
        np.copyto(space[: len(part)], part)
        # A row of these tables is one round of dealing, long enough to be summed at the speed of memory.
        for table in (space[:whole].reshape(-1, BLOCKS * latents), space[whole : len(part)].reshape(1, -1)):
            width = table.shape[1]
            if not table.size:
                continue
            if logarithms:
                logs[:width] += _summed_logarithms(table)
            table -= far[:width]
            sums[:width] += ones[: len(table)] @ table
            squares[:width] += ones[: len(table)] @ np.square(table, out=table)
    totals, squared, logged = (x.reshape(BLOCKS, latents) for x in (sums, squares, logs))
    about_mean = np.maximum(squared - np.square(totals) / held, 0.0)
    return origin + totals / held, about_mean, logged / held


def _summed_logarithms(table: Array) -> Array:
    rows = len(table) // _FACTORS * _FACTORS
    products = np.multiply.reduce(table[:rows].reshape(_FACTORS, -1, table.shape[1]), axis=0)
    with np.errstate(divide="ignore"):
        if rows and (products.min() < 1e-290 or products.max() > 1e290):
            return np.asarray(np.log(table).sum(axis=0))
        return np.asarray(np.log(products).sum(axis=0) + np.log(table[rows:]).sum(axis=0))


def _blocked_mean(values: Array, counts: Array) -> Array:
    whole = len(values) // BLOCKS * BLOCKS
    sums = values[:whole].reshape(-1, BLOCKS, values.shape[1]).sum(axis=0)
    sums[: len(values) - whole] += values[whole:]
    means: Array = sums / np.maximum(counts, 1.0)[:, None]
    return means


def _blocked_squares(values: Array, levels: Array) -> Array:
    whole = len(values) // BLOCKS * BLOCKS
    gaps = values[:whole].reshape(-1, BLOCKS, values.shape[1]) - levels
    squares: Array = np.einsum("rbd,rbd->bd", gaps, gaps)
    squares[: len(values) - whole] += np.square(values[whole:] - levels[: len(values) - whole])
    return squares
