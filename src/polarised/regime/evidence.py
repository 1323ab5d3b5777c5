"""The evidence for the types of variables: running statistics of (mean, variance), updated in chunks and merged.

Inputs are assigned in turn to a fixed number of blocks, each with its own moments in float64. Their sum is the exact
statistic over all rows; their variation gives standard errors and a bootstrap, both in a single pass. The positions of
one convolutional input are not independent rows: they belong to one block.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polarised._io.limits import available_memory
from polarised._threads import in_two_threads, one_blas_thread
from polarised.errors import DataError
from polarised.regime._moments import (
    BLOCKS,
    BlockedMoments,
    TwoStates,
    blocked_moments,
    count_ratios,
    rows_per_block,
    share_below,
    two_states,
)
from polarised.regime.encodings import Axis, checked_kl, checked_repeats, gaussians, prior_of

if TYPE_CHECKING:
    from polarised.regime.classify import Regime, Rule
    from polarised.regime.decoder import DecoderUse

__all__ = ["Evidence", "Statistics", "TwoStates", "count_ratios", "share_below", "two_states"]

Array = NDArray[np.float64]


# The first three also need their variance: Var(r), Var(sigma) and Var(mu) are used in the rules.
QUANTITIES = ("ratio", "variance", "mean", "shift", "log_ratio")


SPREAD = 3
# Numbers in a table from which a second thread saves time.
_LARGE = 2**19
# The memory of a diagnosis per variable, measured with a hundred thousand of them.
BYTES_OF_A_VARIABLE = 25_000


@dataclass(frozen=True)
class Statistics:
    """Statistics of each variable over inputs; arrays (..., d).

    With r = variance / prior variance and s = (mean - prior mean)^2 / prior variance of one input, all over inputs:
    E[r], Var[r], E[s], E[log r], mean and variance of the posterior variance, and those of the posterior mean.
    """

    ratio_mean: Array
    ratio_variance: Array
    shift: Array
    log_ratio: Array
    variance_mean: Array
    variance_variance: Array
    mean_mean: Array
    mean_variance: Array
    own_kl: Array | None = None

    @property
    def kl(self) -> Array:
        """KL(q(z_j|x) || p(z_j)) in nats, averaged over inputs: 1/2 E[r + s - 1 - log r], or `own_kl` if given."""
        gaussian: Array = 0.5 * (self.ratio_mean + self.shift - 1.0 - self.log_ratio)
        return np.maximum(gaussian if self.own_kl is None else self.own_kl, 0.0)

    @property
    def noise_share(self) -> Array:
        """E[variance] / (E[variance] + Var(mean)): 1 is pure noise, 0 is z = mean. A constant variable has 1."""
        total = self.variance_mean + self.mean_variance
        return np.where(total > 0, self.variance_mean / np.where(total > 0, total, 1.0), 1.0)

    @property
    def information(self) -> Array:
        """1/2 log(1 + Var(mean) / E[variance]): the information of a Gaussian variable of this noise share, in nats.

        The rest of `kl` moves the posteriors of all inputs away from the prior in the same way.
        """
        with np.errstate(divide="ignore"):
            return -0.5 * np.log(self.noise_share)

    @property
    def polarity(self) -> Array:
        """Var[r] / (m (1 - m)), m = E[r] in [0, 1]: 0 = the same for every input, 1 = each input on or off."""
        level = np.clip(self.ratio_mean, 0.0, 1.0)
        widest = level * (1.0 - level)
        return np.where(widest > 0, np.minimum(self.ratio_variance / np.where(widest > 0, widest, 1.0), 1.0), 0.0)

    @property
    def calibration(self) -> Array:
        """E[r] + E[s]: 1 for every variable once a learned prior variance has settled."""
        return self.ratio_mean + self.shift


class Evidence:
    """Streaming evidence on the variables of a VAE: `update` with chunks, `merge` with others, then `classify`.

    The result equals that of all rows at once, in float64, for any chunks. With ``covariance=True`` the covariance
    of the means is computed in the same pass; that of the sampled code also has E[variance] on the diagonal.

    Args:
        covariance: Whether to compute the covariance of the means too.

    >>> evidence = Evidence(covariance=True)
    >>> evidence.update([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> evidence.update([[1.0, 0.0]], variance=[[0.02, 1.0]])
    >>> evidence.classify().types
    ('active', 'passive')
    >>> evidence.covariance.round(3).tolist()
    [[1.143, -0.006], [-0.006, 0.0]]
    """

    def __init__(self, *, covariance: bool = False) -> None:
        self._covers = covariance
        self.latents: int | None = None
        self.inputs = 0
        self.learned_prior_mean = False
        self.learned_prior_variance = False

    @property
    def rows(self) -> int:
        """The number of rows so far: inputs, or the positions of convolutional latents."""
        return int(self._counts.sum()) if self.latents is not None else 0

    def update(
        self,
        mean: ArrayLike,
        *,
        variance: ArrayLike | None = None,
        log_variance: ArrayLike | None = None,
        prior_mean: ArrayLike = 0.0,
        prior_variance: ArrayLike = 1.0,
        kl: ArrayLike | None = None,
        axis: Axis = None,
        repeats: int = 1,
    ) -> None:
        """Add the posteriors (and priors) of more inputs, any number of rows.

        `kl` (d,) is the mean KL of these inputs if the prior is not Gaussian, as its moments do not determine it.
        `axis` is that of `Encodings`; in a table of latents with positions, `repeats` consecutive rows are one input.

        Args:
            mean: Posterior means, one row for each input.
            variance: Posterior variances of the same shape; either this or `log_variance`.
            log_variance: Their logarithms.
            prior_mean: Means of the prior: a number, (d,) or one row for each input.
            prior_variance: Variances of the prior, in the same format.
            kl: The rate of each variable, if the prior is not Gaussian.
            axis: The axis of the variables, for latents with more than two axes.
            repeats: The number of consecutive rows that are one input.
        """
        fixed = np.ndim(prior_mean) <= 1 and np.ndim(prior_variance) <= 1
        means, variances, places = gaussians(mean, variance, log_variance, axis, checked=not fixed)
        rows, latents = means.shape
        _check_memory(latents)
        repeats = checked_repeats(repeats * places, rows)
        prior_means, prior_variances = prior_of(prior_mean, prior_variance, rows, latents)
        divergence = checked_kl(kl, latents)
        location, scale = self._both_moments(means, variances, fixed=fixed, repeats=repeats)
        # Invalid numbers make the moments invalid, which is fast to detect; a slower check then locates them.
        if location and scale and not (np.isfinite(location.squares + scale.squares).all() and scale.lowest >= 0):
            gaussians(mean, variance, log_variance, axis)
        self._start(latents)
        self._count(variances, prior_variances)
        self.learned_prior_mean |= prior_means.ndim == 2
        self.learned_prior_variance |= prior_variances.ndim == 2 or bool((prior_variances != 1).any())
        self._average_kl(rows, divergence)
        if location and self._covers:
            self._add_covariance(rows, location.centre, location.products)
        if location and scale:
            self._add_moments(location, scale, prior_means, prior_variances)
            self.inputs += rows // repeats
            return
        step = max(_CHUNK // repeats, 1) * repeats
        for start in range(0, rows, step):
            part = slice(start, start + step)
            prior = (
                prior_means[part] if prior_means.ndim == 2 else prior_means,
                prior_variances[part] if prior_variances.ndim == 2 else prior_variances,
            )
            self._add(means[part], variances[part], *prior, repeats=repeats)
            self.inputs += len(means[part]) // repeats

    def merge(self, other: Self) -> Self:
        """Add the evidence on other inputs (another file, worker or machine); returns itself.

        Args:
            other: Evidence on other inputs of the same variables.

        Returns:
            The combined evidence.
        """
        if other.latents is None:
            return self
        if self._covers and not other._covers:
            raise DataError(
                "expected evidence with covariance=True, as in this one, got one without; use the same setting"
            )
        self._start(other.latents)
        self._average_kl(other.rows, other._kl)
        if self._covers:
            self._add_covariance(other.rows, other._centre, other._products)
        self.learned_prior_mean |= other.learned_prior_mean
        self.learned_prior_variance |= other.learned_prior_variance
        self._ratios += other._ratios
        # The next input of this evidence belongs to block inputs % BLOCKS: continue from there.
        turn = self.inputs % BLOCKS
        self._combine(*(np.roll(part, turn, axis=0) for part in (other._counts, other._means, other._squares)))
        self.inputs += other.inputs
        return self

    def beside(self, other: Self) -> Self:
        """Return the evidence on the variables of both, measured on the same inputs (two groups of latents).

        Every input has the same weight, whatever its number of positions in either.

        Args:
            other: Evidence on other variables of the same inputs.

        Returns:
            The combined evidence.
        """
        if self.latents is None or other.latents is None or self.inputs != other.inputs:
            raise DataError(f"expected evidence on the same inputs, got {self.inputs} and {other.inputs}")
        joined = type(self)()
        joined._start(self.latents + other.latents)
        inputs = rows_per_block(self.inputs)
        joined._counts, joined.inputs = inputs, self.inputs
        for part in (self, other):
            columns = slice(0, self.latents) if part is self else slice(self.latents, None)
            places = np.divide(part._counts, inputs, out=np.ones(BLOCKS), where=inputs > 0)[:, None, None]
            joined._means[:, :, columns], joined._squares[:, :, columns] = part._means, part._squares / places
        joined._ratios = np.concatenate([self._ratios, other._ratios], axis=1)
        if self._kl is not None or other._kl is not None:
            joined._kl = np.concatenate([self.statistics().kl, other.statistics().kl])
        joined.learned_prior_mean = self.learned_prior_mean or other.learned_prior_mean
        joined.learned_prior_variance = self.learned_prior_variance or other.learned_prior_variance
        return joined

    def statistics(self) -> Statistics:
        """Return the statistics over all inputs so far."""
        if self.rows < 2:
            raise DataError(f"expected at least two inputs before computing statistics, got {self.rows}")
        return self._pooled(np.ones((1, BLOCKS)), squeeze=True)

    @property
    def covariance(self) -> Array:
        """The unbiased covariance (d, d) of the means over all inputs so far; exactly zero for a constant."""
        if not self._covers or self.rows < 2:
            raise DataError(
                f"expected Evidence(covariance=True) and at least two inputs, got covariance={self._covers} "
                f"and {self.rows}"
            )
        return self._products / (self.rows - 1)

    def resampled(self, draws: int, generator: np.random.Generator) -> Statistics:
        """Return bootstrap statistics (draws, d): blocks of inputs drawn with replacement.

        Args:
            draws: The number of draws.
            generator: The source of the draws.

        Returns:
            The statistics of each draw.
        """
        filled = np.flatnonzero(self._counts)
        weights = np.zeros((draws, BLOCKS))
        weights[:, filled] = generator.multinomial(len(filled), np.full(len(filled), 1 / len(filled)), size=draws)
        with one_blas_thread():
            return self._pooled(weights)

    def columns(self, chosen: slice) -> Self:
        """Return the evidence on consecutive variables only, without their covariance.

        Args:
            chosen: Consecutive variables.

        Returns:
            The evidence on these variables.
        """
        part = type(self)()
        part._start(len(range(*chosen.indices(self.latents or 0))))
        part._counts, part.inputs = self._counts, self.inputs
        part._means, part._squares = self._means[..., chosen], self._squares[..., chosen]
        part._kl = None if self._kl is None else self._kl[chosen]
        part._ratios = self._ratios[:, chosen]
        return part

    def two_states(self) -> TwoStates:
        """Return the split of each variable's inputs into those for which it is on and off."""
        return two_states(self._ratios)

    def share_below(self, ratio: Array | float) -> Array:
        """Return the share of the inputs whose variance ratio is below a value, for each variable.

        Args:
            ratio: A number, or one for each variable.

        Returns:
            The shares, (d,).
        """
        return share_below(self._ratios, ratio)

    def classify(
        self,
        *,
        alpha: float = 0.1,
        rule: "Rule" = "used",
        use_shift: bool = True,
        decoder: "DecoderUse | None" = None,
        rest_ratio: ArrayLike | None = None,
        seed: int = 0,
    ) -> "Regime":
        """Decide the type of every variable from the evidence so far; see `polarised.classify`.

        Args:
            alpha: The threshold.
            rule: "used", "relative" or "standard".
            use_shift: Whether a mean away from the prior mean counts against passive.
            decoder: The use of each variable by the decoder, if there is one.
            rest_ratio: The variance ratio of an unused variable at rest, if the objective is known.
            seed: Seed of the bootstrap.

        Returns:
            The types with their evidence.
        """
        from polarised.regime.classify import decide

        settings = {"alpha": alpha, "rule": rule, "use_shift": use_shift, "seed": seed}
        return decide(self, decoder=decoder, rest_ratio=rest_ratio, **settings)  # type: ignore[arg-type]

    def _start(self, latents: int) -> None:
        if self.latents is None:
            self.latents = latents
            self._counts = np.zeros(BLOCKS)
            self._means = np.zeros((BLOCKS, len(QUANTITIES), latents))
            self._squares = np.zeros((BLOCKS, SPREAD, latents))
            covered = latents if self._covers else 0
            self._centre, self._products = np.zeros(covered), np.zeros((covered, covered))
            self._kl: Array | None = None
            self._ratios = count_ratios(np.zeros((0, latents)))
        if latents != self.latents:
            raise DataError(f"expected {self.latents} latent variables as in earlier chunks, got {latents}")

    def _both_moments(
        self, means: NDArray[Any], variances: NDArray[Any], *, fixed: bool, repeats: int
    ) -> tuple[BlockedMoments | None, BlockedMoments | None]:
        """Return the moments of the means and of the variances, or None where they are not needed."""

        # Each thread has an error state of its own.
        def of_means() -> BlockedMoments | None:
            with np.errstate(invalid="ignore", over="ignore"):
                return blocked_moments(means, products=self._covers, repeats=repeats) if fixed or self._covers else None

        def of_variances() -> BlockedMoments | None:
            with np.errstate(invalid="ignore", over="ignore"):
                return blocked_moments(variances, logarithms=True, repeats=repeats) if fixed else None

        if fixed and means.size >= _LARGE:
            return in_two_threads(of_means, of_variances)
        return of_means(), of_variances()

    def _average_kl(self, rows: int, kl: Array | None) -> None:
        if self.rows and (self._kl is None) != (kl is None):
            raise DataError("expected the kl of every part of the inputs or of none, got it only for some")
        if kl is not None:
            before = 0.0 if self._kl is None else self._kl
            self._kl = before + (kl - before) * (rows / (self.rows + rows))

    def _count(self, variances: NDArray[Any], prior_variances: NDArray[Any]) -> None:
        # Some ten thousand inputs per chunk are enough for shares: further ones are represented by their neighbours.
        every = max(len(variances) // _COUNTED, 1) | 1
        prior = prior_variances[::every] if prior_variances.ndim == 2 else prior_variances
        with np.errstate(over="ignore"):
            self._ratios += every * count_ratios(variances[::every] / prior)

    def _add_covariance(self, rows: int, centre: Array, products: Array) -> None:
        # A separate mean: that of the blocks is rounded, and would make the covariance of a constant differ from zero.
        gap, share = centre - self._centre, rows / (self.rows + rows)
        self._products += products + np.outer(gap, gap) * (self.rows * share)
        self._centre += gap * share

    def _add_moments(
        self, location: BlockedMoments, scale: BlockedMoments, prior_mean: NDArray[Any], prior_variance: NDArray[Any]
    ) -> None:
        """Add rows with a common prior: every quantity follows from the moments of mean and variance."""
        counts = location.counts
        held = np.maximum(counts, 1.0)[:, None]
        shifts = (location.squares / held + np.square(location.means - prior_mean)) / prior_variance
        ratios, logarithms = scale.means / prior_variance, scale.logarithms - np.log(prior_variance)
        levels = [ratios, scale.means, location.means, shifts, logarithms]
        squares = [scale.squares / np.square(prior_variance), scale.squares, location.squares]
        empty = counts[:, None, None] == 0
        turn = self.inputs % BLOCKS
        stacked = (counts, np.where(empty, 0.0, np.stack(levels, axis=1)), np.stack(squares, axis=1))
        self._combine(*(np.roll(part, turn, axis=0) for part in stacked))

    def _add(
        self,
        mean: NDArray[Any],
        variance: NDArray[Any],
        prior_mean: NDArray[Any],
        prior_variance: NDArray[Any],
        *,
        repeats: int,
    ) -> None:
        means = mean.astype(np.float64)
        variances = variance.astype(np.float64)
        ratios = variances / prior_variance
        shifts = np.square(means - prior_mean) / prior_variance
        with np.errstate(divide="ignore"):
            logarithms = np.log(ratios)
        turn = self.inputs % BLOCKS
        counts = repeats * rows_per_block(len(means) // repeats)
        quantities = [x.reshape(-1, repeats, x.shape[1]) for x in (ratios, variances, means, shifts, logarithms)]
        levels = np.stack([_blocked_mean(x, counts) for x in quantities], axis=1)
        squares = np.stack([_blocked_squares(x, levels[:, i]) for i, x in enumerate(quantities[:SPREAD])], axis=1)
        self._combine(*(np.roll(part, turn, axis=0) for part in (counts, levels, squares)))

    def _combine(self, counts: Array, means: Array, squares: Array) -> None:
        # The parallel update of Chan, Golub and LeVeque (1979): stable where sums of squares would cancel.
        total = self._counts + counts
        share = np.divide(counts, total, out=np.zeros_like(total), where=total > 0)[:, None, None]
        gap = means[:, :SPREAD] - self._means[:, :SPREAD]
        self._squares += squares + np.square(gap) * share * self._counts[:, None, None]
        self._means[:, :SPREAD] += gap * share
        # log r may be minus infinity, where a difference would be NaN: use weights instead.
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
            own_kl=self._kl,
        )


_COUNTED = 1 << 14
# Small enough for the working arrays to stay in the processor's cache, a multiple of the number of blocks.
_CHUNK = BLOCKS * 64


def _blocked_mean(inputs: Array, counts: Array) -> Array:
    values = inputs.sum(axis=1)
    whole = len(values) // BLOCKS * BLOCKS
    sums = values[:whole].reshape(-1, BLOCKS, values.shape[1]).sum(axis=0)
    sums[: len(values) - whole] += values[whole:]
    means: Array = sums / np.maximum(counts, 1.0)[:, None]
    return means


def _blocked_squares(inputs: Array, levels: Array) -> Array:
    whole, (repeats, latents) = len(inputs) // BLOCKS * BLOCKS, inputs.shape[1:]
    gaps = inputs[:whole].reshape(-1, BLOCKS, repeats, latents) - levels[:, None]
    squares: Array = np.einsum("rbpd,rbpd->bd", gaps, gaps)
    rest = len(inputs) - whole
    squares[:rest] += np.square(inputs[whole:] - levels[:rest, None]).sum(axis=1)
    return squares


def _check_memory(latents: int) -> None:
    """Refuse more variables than fit into memory: a few zipped bytes can expand to millions of them."""
    most = available_memory() // 2 // BYTES_OF_A_VARIABLE
    if latents > most:
        raise DataError(
            f"expected at most {most:,} variables in the available memory, got {latents:,}; if another axis is the "
            "variable, set axis="
        )
