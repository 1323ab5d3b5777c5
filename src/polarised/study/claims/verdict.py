"""How a claim is decided: an effect for every seed or model, its mean with an interval, and a threshold."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["CORRELATION", "Interval", "Verdict", "above", "mean_interval", "undecided", "within"]

Word = Literal["confirmed", "not confirmed", "undecided"]
MINIMUM = 3
# Where effects can lie: anywhere, unless a claim knows better.
ANYWHERE, CORRELATION = (-np.inf, np.inf), (-1.0, 1.0)


@dataclass(frozen=True)
class Interval:
    """A mean and the interval that holds it with probability 0.95."""

    mean: float
    low: float
    high: float
    count: int

    def __str__(self) -> str:
        mean, low, high = (f"{round(value, 12) + 0.0:.3g}" for value in (self.mean, self.low, self.high))
        return f"{mean} [{low}, {high}]"


@dataclass(frozen=True)
class Verdict:
    """What the results say about one claim; `effect` is the number it hangs on."""

    name: str
    claim: str
    verdict: Word
    effect: float | None
    evidence: str

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON types."""
        return asdict(self)


def mean_interval(values: ArrayLike, limits: tuple[float, float] = ANYWHERE) -> Interval:
    """Return the mean of independent values with its 95 % interval, mean ± t s / sqrt(n), t Student's with n - 1.

    It ends at the `limits` of what the mean can be. With the three to five seeds of many studies a percentile
    bootstrap would hold the mean four times in five only.

    >>> print(mean_interval([1.0, 2.0, 3.0]))
    2 [-0.484, 4.48]
    """
    from scipy.stats import t

    array = _finite(values)
    if not len(array):
        return Interval(float("nan"), float("nan"), float("nan"), 0)
    mean, reach = float(array.mean()), 0.0
    if len(array) > 1:
        reach = float(t.ppf(0.975, len(array) - 1) * array.std(ddof=1) / np.sqrt(len(array)))
    return Interval(mean, max(mean - reach, limits[0]), min(mean + reach, limits[1]), len(array))


def above(
    name: str,
    claim: str,
    values: ArrayLike,
    threshold: float,
    measured: str,
    *,
    unit: str = "seed",
    limits: tuple[float, float] = ANYWHERE,
) -> Verdict:
    """Confirm that the mean effect is above a threshold; the opposite needs the whole interval below it.

    `values` are independent of each other, one of each `unit`: a seed of a dataset, a model, a variable.

    >>> above("n", "c", [0.9, 1.0, 1.1], 0.5, "effect").evidence
    'effect 1 [0.752, 1.25] over 3 seeds, needed > 0.5'
    >>> above("n", "c", [0.9], 0.5, "effect").evidence
    'effect 0.9 in 1 seed, 3 are needed'
    """
    word, effect, evidence = _inside((threshold, np.inf), f"> {threshold:g}", values, measured, unit, limits)
    return Verdict(name, claim, word, effect, evidence)


def within(
    name: str,
    claim: str,
    values: ArrayLike,
    margin: float,
    measured: str,
    *,
    unit: str = "seed",
    limits: tuple[float, float] = ANYWHERE,
) -> Verdict:
    """Confirm that the mean effect is nil up to a margin; the opposite needs the whole interval outside it.

    >>> within("n", "c", [0.0, 0.01, 0.02], 0.1, "gap").evidence
    'gap 0.01 [-0.0148, 0.0348] over 3 seeds, needed ±0.1'
    """
    word, effect, evidence = _inside((-margin, margin), f"±{margin:g}", values, measured, unit, limits)
    return Verdict(name, claim, word, effect, evidence)


def _inside(
    region: tuple[float, float],
    needed: str,
    values: ArrayLike,
    measured: str,
    unit: str,
    limits: tuple[float, float],
) -> tuple[Word, float | None, str]:
    """Decide whether the mean lies inside an open region: its whole interval must, or must lie outside."""
    found = mean_interval(values, limits)
    if not found.count:
        return "undecided", None, f"{measured}: no {unit} has a value, {MINIMUM} are needed"
    if found.count < MINIMUM:
        numbers = " and ".join(f"{value:.3g}" for value in _finite(values))
        return "undecided", found.mean, f"{measured} {numbers} in {_many(found.count, unit)}, {MINIMUM} are needed"
    low, high = region
    word: Word = "undecided"
    if found.low > low and found.high < high:
        word = "confirmed"
    elif found.high <= low or found.low >= high:
        word = "not confirmed"
    return word, found.mean, f"{measured} {found} over {_many(found.count, unit)}, needed {needed}"


def _finite(values: ArrayLike) -> NDArray[np.float64]:
    array: NDArray[np.float64] = np.asarray(values, dtype=np.float64)
    return array[np.isfinite(array)]


def _many(count: int, unit: str) -> str:
    """Return a count with its unit, whose first word may need an s."""
    first, _, rest = unit.partition(" ")
    if count == 1:
        return f"1 {unit}"
    return f"{count} {first}s{' ' if rest else ''}{rest}"


def undecided(name: str, claim: str, evidence: str) -> Verdict:
    """Say that the results cannot tell."""
    return Verdict(name, claim, "undecided", None, evidence)
