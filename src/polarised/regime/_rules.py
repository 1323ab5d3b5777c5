"""The rules for the types of variables, as distances to their thresholds: positive if a clause holds."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from polarised.regime._moments import TWO
from polarised.regime.decoder import ERRORS, DecoderUse
from polarised.regime.evidence import Evidence, Statistics

if TYPE_CHECKING:
    from polarised.regime.classify import Rule

__all__ = ["Picture", "Slacks", "Use", "follows_prior", "picture"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
# A bound that depends on alpha: constant + slope * alpha.
Bound = tuple[float, float]

# At rest: at least this share of the rest variance, with at most this share of the inputs below half of it.
AT_REST, EXCEPTIONS = 0.8, 0.02
# All noise, and enough noise for doubt if the objective does not define where an unused variable rests.
NOISE, HALF_NOISE = 0.9, 0.5


@dataclass(frozen=True)
class Picture:
    """How a rule is shown: in words, and in the plane of the level of a variable and its variation over inputs.

    Args:
        about: The quantity that the rule uses.
        level: The name of the level.
        spread: The name of the variation.
        clauses: The condition of each type, with ``{alpha}`` for the threshold.
        regions: The range of the level for each type, as bounds that depend on alpha; None for no upper bound.
    """

    about: str
    level: str
    spread: str
    clauses: Mapping[str, str]
    regions: Mapping[str, tuple[Bound, Bound | None]]


_NEAR_ZERO: tuple[Bound, Bound] = ((0.0, 0.0), (0.0, 1.0))
_NEAR_ONE: tuple[Bound, Bound] = ((1.0, -1.0), (1.0, 1.0))


def picture(rule: "Rule", *, use_shift: bool = True, decoder: bool = False) -> Picture:
    """Return how a rule is shown, based on its thresholds.

    Args:
        rule: "used", "relative" or "standard".
        use_shift: Whether the relative rule uses the shift.
        decoder: Whether a decoder measures the use.

    Returns:
        Words and regions.

    >>> picture("standard").clauses["active"]
    'E[σ²] ≤ {alpha} and Var[σ²] < {alpha}'
    """
    if rule == "standard":
        words = {
            "active": "E[σ²] ≤ {alpha} and Var[σ²] < {alpha}",
            "mixed": "everything else",
            "passive": "|E[σ²] − 1| ≤ {alpha}, Var[σ²] < {alpha}",
        }
        about = "the rule of Bonheme and Grzes (2023) as published: the posterior variance itself"
        return Picture(about, "E[variance]", "Var[variance]", words, {"active": _NEAR_ZERO, "passive": _NEAR_ONE})
    if rule == "relative":
        shift = ", shift ≤ {alpha}" if use_shift else ""
        words = {
            "active": "E[r] ≤ {alpha} and Var[r] ≤ {alpha}, and not all noise",
            "mixed": "everything else",
            "passive": "|E[r] − 1| ≤ {alpha}, Var[r] ≤ {alpha}" + shift,
        }
        about = "the posterior variance relative to the prior’s, with shift and noise share"
        level, spread = "E[variance / prior variance]", "Var[variance / prior variance]"
        return Picture(about, level, spread, words, {"active": _NEAR_ZERO, "passive": _NEAR_ONE})
    unused = (
        "not used: exchanging it between inputs costs the decoder next to nothing"
        if decoder
        else f"not used: E[r] ≥ {AT_REST:g} r₀ for all but {EXCEPTIONS:.0%} of the inputs, or noise share ≥ {NOISE:g}"
    )
    words = {
        "active": "used, with E[r] ≤ {alpha} r₀ and Var[r] ≤ {alpha} r₀² (r₀: where an unused variable rests), or "
        "noise share ≤ {alpha}",
        "mixed": "used otherwise: on for some inputs, or weak for all",
        "passive": unused,
    }
    about = "whether the variable is used: by the decoder if there is one, and compared with an unused variable"
    at_rest = {} if decoder else {"passive": ((AT_REST, 0.0), None)}
    level, spread = "E[variance] / variance at rest", "Var[variance] / variance at rest²"
    return Picture(about, level, spread, words, {"active": _NEAR_ZERO, **at_rest})


@dataclass(frozen=True)
class Use:
    """The evidence of the rule "used" that is not part of the statistics."""

    decoder: DecoderUse | None
    rest: Array
    held: Mask
    below: Array
    on_for_some: Mask
    suspicious: Mask
    inputs: int
    alpha: float

    @classmethod
    def of(cls, evidence: Evidence, decoder: DecoderUse | None, rest_ratio: Array | None, alpha: float) -> "Use":
        statistics, states = evidence.statistics(), evidence.two_states()
        held = np.ones(len(statistics.ratio_mean), dtype=bool) if rest_ratio is None else np.isfinite(rest_ratio)
        rest = np.ones_like(statistics.ratio_mean) if rest_ratio is None else np.where(held, rest_ratio, 1.0)
        on_for_some = (states.separation >= TWO) & (states.ratio_off >= AT_REST * rest) & (states.on > EXCEPTIONS)
        suspicious = _share_a_variance(statistics) if rest_ratio is None else np.zeros_like(held)
        below = evidence.share_below(0.5 * rest)
        return cls(decoder, rest, held, below, on_for_some, suspicious, evidence.inputs, alpha)

    def columns(self, chosen: slice) -> "Use":
        """Return the same for a slice of the variables."""
        return replace(
            self,
            decoder=None if self.decoder is None else self.decoder.keep(np.arange(len(self.rest))[chosen]),
            rest=self.rest[chosen],
            held=self.held[chosen],
            below=self.below[chosen],
            on_for_some=self.on_for_some[chosen],
            suspicious=self.suspicious[chosen],
        )

    def slacks(self, statistics: Statistics, draws: np.random.Generator | None = None) -> "Slacks":
        """How far a variable is from being used, and from being active; with `draws`, for resampled inputs."""
        level, spread, noise = self._scaled(statistics)
        if self.decoder is not None:
            used = self._by_decoder(self.decoder, level.shape, draws)
        else:
            used = self._by_encoder(level, noise, draws)
        active = np.maximum(np.minimum(self.alpha - spread, self.alpha - level), self.alpha - noise)
        active = np.where(follows_prior(statistics, self.alpha), -1.0, active)
        return Slacks(-used[None], np.stack([used, active]), strict=False)

    def doubtful(self, statistics: Statistics) -> Mask:
        """Where a variable is too close to the threshold, or the evidence on its use is contradictory."""
        level, _, noise = self._scaled(statistics)
        wide = (level >= AT_REST) & (self.below <= EXCEPTIONS)
        if self.decoder is not None:
            # As wide as at rest, and used less than the information it carries: training has not settled, or a remnant.
            remnant = self.held & wide & self.decoder.used & _used_less_than_informative(self.decoder, statistics)
            return self.decoder.doubtful | remnant
        # As wide as at rest although its mean varies; or narrower for some inputs although it is all noise.
        parting = np.where(wide, noise < NOISE, (noise >= NOISE) & self.on_for_some)
        nowhere = (noise >= HALF_NOISE) & (noise < NOISE)
        return np.asarray(np.where(self.held, parting, nowhere) | self.suspicious)

    def _scaled(self, statistics: Statistics) -> tuple[Array, Array, Array]:
        return statistics.ratio_mean / self.rest, statistics.ratio_variance / self.rest**2, statistics.noise_share

    def _by_decoder(self, decoder: DecoderUse, shape: tuple[int, ...], draws: np.random.Generator | None) -> Array:
        noise = np.zeros(shape) if draws is None else draws.standard_normal(shape)
        rise: Array = decoder.permuted + decoder.permuted_error * noise - decoder.threshold
        return rise

    def _by_encoder(self, level: Array, noise: Array, draws: np.random.Generator | None) -> Array:
        below = self.below
        if draws is not None:
            below = draws.binomial(self.inputs, below, size=level.shape) / self.inputs
        narrow = np.maximum(AT_REST - level, below - EXCEPTIONS)
        telling = np.where(self.on_for_some, 1.0, NOISE - noise)
        return np.asarray(np.where(self.held, np.minimum(narrow, telling), NOISE - noise))


def _used_less_than_informative(decoder: DecoderUse, statistics: Statistics) -> Mask:
    """Where the decoder loses less, by more than two standard errors, than the information a variable carries.

    At an optimum it loses at least as much: otherwise one common posterior for all inputs would save that rate.
    """
    return np.asarray(decoder.permuted + ERRORS * decoder.permuted_error < statistics.information)


def _share_a_variance(statistics: Statistics) -> Mask:
    """Variables that share one small variance, the same for all inputs, and are the noisiest of those not all noise.

    Unused variables look like this under a penalty on the variance, if the objective is not known.
    """
    level, noise = statistics.ratio_mean, statistics.noise_share
    steady = (level < 0.3) & (statistics.ratio_variance <= 0.1 * level**2) & (noise < NOISE) & (noise > 0.2)
    if steady.sum() < 2:
        return np.zeros_like(steady)
    centre = np.median(level[steady])
    alike = steady & (np.abs(level - centre) <= 0.3 * centre)
    others = ~alike & (noise < NOISE)
    noisiest = not others.any() or noise[alike].min(initial=1.0) > noise[others].max()
    return alike if alike.sum() >= 2 and noisiest else np.zeros_like(steady)


def follows_prior(statistics: Statistics, alpha: float) -> Mask:
    """Where the posterior follows the prior but is not noise: the prior itself depends on the input."""
    # The mean varies without being noise, but stays within the width of the prior around the prior mean: both vary.
    quiet = (np.abs(statistics.ratio_mean - 1) <= alpha) & (statistics.shift <= 1)
    return np.asarray(quiet & (statistics.noise_share <= alpha))


@dataclass(frozen=True)
class Slacks:
    """How far each clause of the rule is from failing (negative: it fails), each (clauses, ..., d)."""

    passive: Array
    active: Array
    strict: bool

    @classmethod
    def of(cls, statistics: Statistics, *, alpha: float, rule: "Rule", use_shift: bool) -> "Slacks":
        if rule == "standard":
            level, spread = statistics.variance_mean, statistics.variance_variance
            # The bounds are computed as 1 - alpha and 1 + alpha, as in the published code.
            passive = [alpha - spread, level - (1 - alpha), (1 + alpha) - level]
            return cls(np.stack(passive), np.stack([alpha - spread, alpha - level]), strict=True)
        level, spread = statistics.ratio_mean, statistics.ratio_variance
        noisy = statistics.noise_share - (1 - alpha)
        still = [alpha - spread, alpha - np.abs(level - 1)]
        if use_shift:
            still.append(alpha - statistics.shift)
        # Passive by the ratio, or active by the ratio but all noise.
        dead = np.minimum(np.minimum(alpha - spread, alpha - level), noisy)
        passive_slack = np.maximum(np.min(np.stack(still), axis=0), dead)
        return cls(passive_slack[None], np.stack([alpha - spread, alpha - level, -noisy]), strict=False)

    def types(self) -> NDArray[np.int64]:
        """Indices into TYPES."""
        if self.strict:
            # As published: the variance must be strictly below alpha, the level may equal its bound.
            passive = (self.passive[0] > 0) & (self.passive[1:] >= 0).all(axis=0)
            active = (self.active[0] > 0) & (self.active[1:] >= 0).all(axis=0)
        else:
            passive = (self.passive >= 0).all(axis=0)
            active = (self.active >= 0).all(axis=0) & ~passive
        return np.where(active, 0, np.where(passive, 2, 1))

    def distance(self, types: NDArray[np.int64], resampled: "Slacks") -> tuple[Array, Array]:
        """Distance of each variable to the nearest change of its type: in its own units, and in standard errors."""
        raw, scaled = [], []
        for slack, draws in ((self.passive, resampled.passive), (self.active, resampled.active)):
            errors = draws.std(axis=1)
            raw.append(slack.min(axis=0))
            certain = np.copysign(np.inf, slack)
            scaled.append(np.min(np.divide(slack, errors, out=certain, where=errors > 0), axis=0))
        return _distance_to_change(raw[0], raw[1], types), _distance_to_change(scaled[0], scaled[1], types)


def _distance_to_change(passive: Array, active: Array, types: NDArray[np.int64]) -> Array:
    return np.select([types == 0, types == 2], [active, passive], np.minimum(-passive, -active))
