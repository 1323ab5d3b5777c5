"""How a claim is decided: one value per seed, a 95 % interval, and the region that the claim needs.

Every kind of test below is one-sided at 2.5 % in each direction: "confirmed" means that the true effect is in the
region, "refuted" that it is outside, "undecided" that the seeds do not decide. If all seeds have the same value, an
interval would have no width and always decide; the share of seeds on each side decides instead, which needs at least
six seeds: 2^-6 < 0.025.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polarised.errors import DataError

__all__ = [
    "LEAST_SEEDS",
    "LEVEL",
    "Decision",
    "Kind",
    "Region",
    "Word",
    "above",
    "below",
    "between",
    "clopper_pearson",
    "decidable_effect",
    "decide",
    "decide_share",
    "every",
    "holm",
    "within",
]

LEVEL = 0.025
LEAST_SEEDS = 6
RESAMPLES = 2000

Kind = Literal["mean", "median", "sign", "share"]
Word = Literal["confirmed", "refuted", "undecided"]


@dataclass(frozen=True)
class Region:
    """The open interval that a claim needs for its effect; with `size`, for the absolute effect."""

    low: float = -np.inf
    high: float = np.inf
    size: bool = False

    def __contains__(self, value: float) -> bool:
        value = abs(value) if self.size else value
        return self.low < value < self.high

    def __str__(self) -> str:
        if self.size:
            return f"±{self.high:g}"
        if np.isinf(self.high):
            return f"> {self.low:g}"
        return f"< {self.high:g}" if np.isinf(self.low) else f"between {self.low:g} and {self.high:g}"


def above(margin: float) -> Region:
    """Return the region of effects above a margin."""
    return Region(low=margin)


def below(margin: float) -> Region:
    """Return the region of effects below a margin."""
    return Region(high=margin)


def between(low: float, high: float) -> Region:
    """Return the region of effects between two margins."""
    return Region(low, high)


def within(margin: float) -> Region:
    """Return the region of effects that are zero up to a margin, of either sign."""
    return Region(high=margin, size=True)


@dataclass(frozen=True)
class Decision:
    """The decision from the values of seeds: the verdict, the estimate with its interval, and the p-values.

    `p_confirmed` and `p_refuted` are the one-sided p-values of the two directions; `interval_of` says to what the
    interval belongs: the "mean" or "median" effect, or the "share" of seeds in the region.
    """

    word: Word
    estimate: float
    low: float
    high: float
    interval_of: Kind
    seeds: int
    p_confirmed: float
    p_refuted: float

    @property
    def width(self) -> float:
        """The width of the interval."""
        return self.high - self.low

    def __str__(self) -> str:
        estimate, low, high = (f"{round(value, 12) + 0.0:.3g}" for value in (self.estimate, self.low, self.high))
        if self.interval_of in ("sign", "share"):
            return f"{estimate}, in a share of seeds of [{low}, {high}]"
        return f"{estimate} [{low}, {high}]"


def decide(values: ArrayLike, region: Region, *, kind: Kind = "mean", looks: int = 1) -> Decision:
    """Decide whether an effect is in a region, given independent values from seeds.

    mean: Student's interval, mean ± t s / sqrt(n). median: the bias-corrected and accelerated bootstrap, combined with
    the order statistics that contain the median in 95 % of samples. sign: the share of seeds in the region by the exact
    binomial test, for effects with few values, such as rank correlations. An absolute effect (`within`) must be
    inside by two one-sided tests of the signed effect and by a test of its size, so that opposite signs do not cancel.

    Args:
        values: One effect per seed; values that are not finite are ignored.
        region: The region that the claim needs.
        kind: The tested statistic: the mean, the median, or the sign of most seeds.
        looks: The number of such decisions for one claim, of which the worst counts; refuting needs 2.5 % over all.

    Returns:
        The decision; with fewer than six seeds it is always undecided.

    Raises:
        DataError: If no value is finite.

    Example:
        >>> print(decide([0.9, 1.0, 1.1, 1.0, 0.95, 1.05], above(0.5)))
        1 [0.926, 1.07]
        >>> print(decide([0.3] * 6, above(0.0)), decide([0.3] * 5, above(0.0)).word)
        0.3, in a share of seeds of [0.541, 1] undecided
    """
    array = _finite(values)
    if not len(array):
        raise DataError("expected at least one finite effect, got none; leave out effects without a value")
    if kind == "share":
        return decide_share(int(np.round(array.sum())), len(array), region, looks=looks)
    effects = np.abs(array) if region.size else array
    if kind == "sign" or np.ptp(effects) <= 1e-12 * max(1.0, float(np.abs(effects).max())):
        return _by_sign(array, region, looks)
    test = _Student(effects) if kind == "mean" else _Median(effects)
    inside, outside = test.inside(region), test.outside(region)
    if region.size:
        signed = _Student(array) if kind == "mean" else _Median(array)
        inside = max(inside, signed.inside(Region(-region.high, region.high)))
    low, high = test.interval()
    if high - low <= 0:
        return _by_sign(array, region, looks)
    estimate = float(np.mean(array) if kind == "mean" else np.median(array))
    if region.size:
        estimate, low = test.estimate, max(low, 0.0)
    return _worded(Decision("undecided", estimate, low, high, kind, len(array), inside, min(1.0, outside * looks)))


def decide_share(successes: int, seeds: int, region: Region, *, looks: int = 1) -> Decision:
    """Decide whether the share of seeds in which a condition holds is in a region, by Clopper and Pearson.

    >>> print(decide_share(6, 6, above(0.5)), decide_share(3, 3, above(0.5)).word)
    1, in a share of seeds of [0.541, 1] undecided
    """
    low, high = clopper_pearson(successes, seeds)
    upper, lower = _share_above(successes, seeds, region.low), _share_below(successes, seeds, region.high)
    inside = max(upper, lower)
    outside = min(_share_below(successes, seeds, region.low), _share_above(successes, seeds, region.high), 1.0)
    share = successes / seeds
    return _worded(Decision("undecided", share, low, high, "share", seeds, inside, min(1.0, outside * looks)))


def every(decisions: Sequence[Decision]) -> tuple[Word, int]:
    """Combine decisions that are all needed: return the verdict and the index of the worst one.

    All must confirm; one refutation is enough, since its p-value already accounts for the number of looks.

    >>> sure = decide([1.0, 1.1, 0.9, 1.0, 1.2, 0.8], above(0.5))
    >>> every([sure, decide([1.0, -1.0, 0.5, 0.2, 0.1, 0.0], above(0.5))])
    ('undecided', 1)
    """
    order = sorted(range(len(decisions)), key=lambda k: (decisions[k].p_confirmed, -decisions[k].p_refuted))
    worst = order[-1]
    refuted = [k for k in order if decisions[k].word == "refuted"]
    if refuted:
        return "refuted", max(refuted, key=lambda k: (decisions[k].p_confirmed, -decisions[k].p_refuted))
    if all(decision.word == "confirmed" for decision in decisions):
        return "confirmed", worst
    undecided = [k for k in order if decisions[k].word == "undecided"]
    return "undecided", undecided[-1]


def clopper_pearson(successes: int, trials: int, *, level: float = LEVEL) -> tuple[float, float]:
    """Return the exact interval of a share, with `level` on each side.

    >>> [round(clopper_pearson(n, n)[0], 2) for n in (3, 5, 6, 10, 50)]
    [0.29, 0.48, 0.54, 0.69, 0.93]
    """
    from scipy.special import betaincinv

    low = 0.0 if successes == 0 else float(betaincinv(successes, trials - successes + 1, level))
    high = 1.0 if successes == trials else float(betaincinv(successes + 1, trials - successes, 1 - level))
    return low, high


def holm(p_values: Sequence[float], *, level: float = LEVEL) -> list[bool]:
    """Return which of a family of tests remain significant after Holm's correction.

    >>> holm([0.001, 0.02, 0.012]), holm([0.02, 0.02])
    ([True, True, True], [False, False])
    """
    order = np.argsort(p_values, kind="stable")
    stands = [False] * len(p_values)
    for rank, k in enumerate(order):
        if p_values[k] > level / (len(p_values) - rank):
            break
        stands[k] = True
    return stands


def decidable_effect(seeds: int, *, kind: Kind = "mean", power: float = 0.8) -> float | None:
    """Return the smallest effect that a number of seeds decides in four of five studies; None if they decide nothing.

    For a mean or a median: the distance from the margin in standard deviations between seeds. For a sign or a share:
    the share of seeds that must be in the region, compared with one half.

    >>> [round(decidable_effect(n), 2) for n in (6, 10, 34)], round(decidable_effect(10, kind="sign"), 2)
    ([1.43, 1.0, 0.5], 0.92)
    >>> decidable_effect(5) is None
    True
    """
    from scipy.optimize import brentq
    from scipy.stats import binom, nct, t

    if seeds < LEAST_SEEDS:
        return None
    if kind in ("mean", "median"):
        bound = t.ppf(1 - LEVEL, seeds - 1)
        found = brentq(lambda d: nct.sf(bound, seeds - 1, d * np.sqrt(seeds)) - power, 1e-6, 20.0)
        # A median has about 64 % of the efficiency of a mean of normal values.
        return float(found) * (1.0 if kind == "mean" else float(np.sqrt(np.pi / 2)))
    needed = min(k for k in range(seeds + 1) if binom.sf(k - 1, seeds, 0.5) <= LEVEL)
    return float(brentq(lambda share: binom.sf(needed - 1, seeds, share) - power, 0.5, 1.0))


def _worded(decision: Decision) -> Decision:
    """Set the verdict from the p-values; fewer than six seeds decide nothing."""
    word: Word = "undecided"
    if decision.seeds >= LEAST_SEEDS:
        if decision.p_confirmed <= LEVEL:
            word = "confirmed"
        elif decision.p_refuted <= LEVEL:
            word = "refuted"
    return replace(decision, word=word)


def _by_sign(array: NDArray[np.float64], region: Region, looks: int) -> Decision:
    """Decide by the number of seeds in the region: the median is in it if most are."""
    inside = sum(float(value) in region for value in array)
    low, high = clopper_pearson(inside, len(array))
    confirmed, refuted = _share_above(inside, len(array), 0.5), _share_below(inside, len(array), 0.5)
    estimate = float(np.median(np.abs(array) if region.size else array))
    return _worded(Decision("undecided", estimate, low, high, "sign", len(array), confirmed, min(1.0, refuted * looks)))


def _share_above(successes: int, trials: int, share: float) -> float:
    """Return the p-value for a true share above the given one; no share is below 0."""
    from scipy.special import bdtrc

    if share < 0:
        return 0.0
    return 1.0 if share >= 1 or not successes else float(bdtrc(successes - 1, trials, share))


def _share_below(successes: int, trials: int, share: float) -> float:
    from scipy.special import bdtr

    if share > 1:
        return 0.0
    return 1.0 if share <= 0 or successes == trials else float(bdtr(successes, trials, share))


class _Student:
    """Student's test of the mean of values that are not all equal."""

    def __init__(self, values: NDArray[np.float64]) -> None:
        self.estimate, self.freedom = float(values.mean()), len(values) - 1
        self.error = float(values.std(ddof=1) / np.sqrt(len(values)))

    def interval(self) -> tuple[float, float]:
        from scipy.special import stdtrit

        reach = float(stdtrit(self.freedom, 1 - LEVEL)) * self.error
        return self.estimate - reach, self.estimate + reach

    def above(self, bound: float) -> float:
        from scipy.special import stdtr

        return 0.0 if np.isneginf(bound) else float(stdtr(self.freedom, (bound - self.estimate) / self.error))

    def below(self, bound: float) -> float:
        from scipy.special import stdtr

        return 0.0 if np.isposinf(bound) else float(stdtr(self.freedom, (self.estimate - bound) / self.error))

    def inside(self, region: Region) -> float:
        low = -np.inf if region.size else region.low
        return max(self.above(low), self.below(region.high))

    def outside(self, region: Region) -> float:
        low = -np.inf if region.size else region.low
        sides = [self.below(low)] * bool(np.isfinite(low)) + [self.above(region.high)] * bool(np.isfinite(region.high))
        return min(sides, default=1.0)


class _Median(_Student):
    """The median: the exact sign test decides, and the BCa bootstrap interval must agree."""

    def __init__(self, values: NDArray[np.float64]) -> None:
        self.values, self.estimate = np.sort(values), float(np.median(values))
        first, last = _order_statistics(len(values))
        low, high = _bootstrap(self.values)
        self.low, self.high = min(low, float(self.values[first])), max(high, float(self.values[last]))

    def interval(self) -> tuple[float, float]:
        return self.low, self.high

    def above(self, bound: float) -> float:
        if np.isneginf(bound):
            return 0.0
        sign = _share_above(int((self.values > bound).sum()), len(self.values), 0.5)
        return sign if self.low > bound else max(sign, 2 * LEVEL)

    def below(self, bound: float) -> float:
        if np.isposinf(bound):
            return 0.0
        sign = _share_above(int((self.values < bound).sum()), len(self.values), 0.5)
        return sign if self.high < bound else max(sign, 2 * LEVEL)


def _bootstrap(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the BCa interval of a median; if it is undefined, because of few distinct values, only the median."""
    import warnings

    from scipy.stats import bootstrap

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        drawn = bootstrap(
            (values,), np.median, n_resamples=RESAMPLES, method="BCa", random_state=np.random.default_rng(0)
        )
    low, high = drawn.confidence_interval
    middle = float(np.median(values))
    return (float(low) if np.isfinite(low) else middle), (float(high) if np.isfinite(high) else middle)


def _order_statistics(count: int) -> tuple[int, int]:
    """Return the positions of the sorted values between which the median lies in at least 95 % of samples."""
    below_it = max((k for k in range(count) if _share_below(k, count, 0.5) <= LEVEL), default=0)
    return below_it, count - 1 - below_it


def _finite(values: ArrayLike) -> NDArray[np.float64]:
    array: NDArray[np.float64] = np.asarray(values, dtype=np.float64).ravel()
    return array[np.isfinite(array)]
