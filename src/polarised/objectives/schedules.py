"""Schedules of the learning rate or of a weight of an objective: a factor for every step of a run.

An entry is called with the number of steps of the run and returns a `Schedule`. A length is a whole number of steps,
or a float from 0 to 1: that share of the run. Every factor is a pure function of the step (and, for `plateau`, of the
previous losses), so an interrupted run resumes exactly.
"""

import functools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator

from polarised.errors import ConfigError
from polarised.registry import Spec, build, complete, register

__all__ = [
    "Length",
    "Ramp",
    "Schedule",
    "constant",
    "cosine",
    "cut_short",
    "cyclical",
    "in_steps",
    "level",
    "linear",
    "plateau",
    "step",
]

Length = int | float
"""A whole number of steps, or a float from 0 to 1: a share of the run."""

Ramp = Annotated[
    Mapping[str, Any] | str | None, BeforeValidator(lambda spec: None if spec is None else complete("schedule", spec))
]
"""A schedule of a weight as named in a config, or None."""


@dataclass(frozen=True)
class Schedule:
    """A factor for every step: 1 leaves the rate or the weight as given.

    Args:
        factor: A function of the number of a step (from 0) and the mean losses of the windows before it.
        every: The length of the windows of steps whose mean loss `factor` uses; 0 if it uses none.

    >>> Schedule(lambda number, losses: 0.5)(7)
    0.5
    """

    factor: Callable[[int, Sequence[float]], float]
    every: int = 0

    def __call__(self, number: int, losses: Sequence[float] = ()) -> float:
        """Return the factor at a step.

        Args:
            number: The step, from 0.
            losses: The mean loss of every completed window of `every` steps, oldest first.

        Returns:
            The factor.
        """
        return self.factor(number, losses)


@register("schedule", title="constant rate")
def constant(steps: int, *, warm_up: Length = 0) -> Schedule:
    """Keep the rate constant after a linear warm-up.

    factor(t) = min(1, (t + 1) / warm_up)

    Args:
        steps: The length of the run.
        warm_up: The steps over which the rate rises from 0.

    Returns:
        The schedule.

    >>> [constant(10, warm_up=4)(t) for t in (0, 1, 3, 9)]
    [0.25, 0.5, 1.0, 1.0]
    """
    return _with_warm_up(steps, warm_up, lambda number, losses: 1.0)


@register("schedule", title="cosine decay", references=("Loshchilov2017",))
def cosine(steps: int, *, warm_up: Length = 0, hold: Length = 0, end: float = 0.0) -> Schedule:
    """Decay the rate along half a cosine until the end of the run [Loshchilov2017, eq. 5].

    factor(t) = end + (1 - end) (1 + cos(pi p)) / 2, with p the completed share of the steps after warm-up and hold

    Args:
        steps: The length of the run.
        warm_up: The steps over which the rate rises from 0.
        hold: The steps at the full rate before the decay.
        end: The factor at the end.

    Returns:
        The schedule.

    >>> [round(cosine(100, end=0.1)(t), 3) for t in (0, 50, 100)]
    [1.0, 0.55, 0.1]
    """
    _check_share("cosine", "end", end)
    first = in_steps(warm_up, steps) + in_steps(hold, steps)
    fall = max(steps - first, 1)

    def factor(number: int, losses: Sequence[float]) -> float:
        over = min(max(number - first, 0) / fall, 1.0)
        return end + (1 - end) * (1 + math.cos(math.pi * over)) / 2

    return _with_warm_up(steps, warm_up, factor)


@register("schedule", title="steps")
def step(steps: int, *, at: tuple[Length, ...] = (0.5, 0.75), factor: float = 0.1, warm_up: Length = 0) -> Schedule:
    """Multiply the rate by `factor` at each of the given steps.

    Args:
        steps: The length of the run.
        at: The steps at which the rate drops.
        factor: The factor of each drop.
        warm_up: The steps over which the rate rises from 0.

    Returns:
        The schedule.

    >>> [round(step(100, factor=0.5)(t), 3) for t in (49, 50, 75)]
    [1.0, 0.5, 0.25]
    """
    _check_share("step", "factor", factor)
    places = [in_steps(place, steps) for place in at]
    by = factor
    return _with_warm_up(steps, warm_up, lambda number, losses: by ** sum(number >= place for place in places))


@register("schedule", title="decay on a plateau")
def plateau(
    steps: int,
    *,
    window: Length = 0.01,
    patience: int = 5,
    factor: float = 0.5,
    threshold: float = 1e-3,
    least: float = 1e-3,
    warm_up: Length = 0,
) -> Schedule:
    """Multiply the rate by `factor` whenever the training loss has not decreased for some windows of steps.

    A window counts as a decrease if its mean loss is below the previous best by more than `threshold` relative to the
    best; after `patience` windows without a decrease, the rate drops and the count restarts.

    Args:
        steps: The length of the run.
        window: The steps over which the loss is averaged.
        patience: The number of windows without a decrease before the rate drops.
        factor: The factor of each drop.
        threshold: The smallest decrease that counts, relative to the best loss.
        least: The minimum of the factor.
        warm_up: The steps over which the rate rises from 0.

    Returns:
        The schedule.

    Raises:
        ConfigError: If a setting is out of range.

    >>> waiting = plateau(100, window=10, patience=2)
    >>> [waiting(99, losses) for losses in ([5.0, 4.0], [5.0, 5.0, 5.0], [5.0, 5.0, 5.0, 5.0, 5.0])]
    [1.0, 0.5, 0.25]
    """
    _check_share("plateau", "factor", factor)
    if patience < 1 or not threshold >= 0:
        raise ConfigError(
            f"expected plateau.patience of at least 1 and plateau.threshold of at least 0, got {patience}, {threshold}"
        )
    by = factor

    def reached(number: int, losses: Sequence[float]) -> float:
        best, waited, level = math.inf, 0, 1.0
        for loss in losses:
            if math.isinf(best) or loss < best - threshold * abs(best):
                best, waited = loss, 0
                continue
            waited += 1
            if waited >= patience:
                level, waited = max(level * by, least), 0
        return level

    return _with_warm_up(steps, warm_up, reached, every=max(in_steps(window, steps), 1))


@register("schedule", title="linear rise", references=("Bowman2016",))
def linear(steps: int, *, length: Length = 0.1, start: float = 0.0) -> Schedule:
    """Rise linearly to 1 and stay there: the warm-up of a weight [Bowman2016; Burgess2018, eq. 8].

    factor(t) = start + (1 - start) min(1, t / length)

    Args:
        steps: The length of the run.
        length: The length of the rise.
        start: The factor at the first step.

    Returns:
        The schedule.

    >>> [linear(1000, length=0.5)(t) for t in (0, 250, 800)]
    [0.0, 0.5, 1.0]
    """
    _check_share("linear", "start", start)
    rise = in_steps(length, steps)
    return Schedule(lambda number, losses: start + (1 - start) * _rise(number, rise))


@register("schedule", title="cyclical annealing", references=("Fu2019",))
def cyclical(steps: int, *, cycles: int = 4, rise: float = 0.5) -> Schedule:
    """Rise linearly from 0 to 1 in every cycle and stay at 1 for the rest of it [Fu2019].

    factor(t) = min(1, tau / rise), tau = (t mod ceil(T / M)) / (T / M)

    Args:
        steps: The length T of the run.
        cycles: The number M of cycles.
        rise: The share of a cycle taken by the rise.

    Returns:
        The schedule.

    Raises:
        ConfigError: If a setting is out of range.

    >>> [cyclical(100, cycles=2)(t) for t in (0, 5, 25, 49, 50, 55)]
    [0.0, 0.2, 1.0, 1.0, 0.0, 0.2]
    """
    if cycles < 1 or not 0 < rise <= 1:
        raise ConfigError(f"expected cyclical.cycles from 1 and cyclical.rise above 0 up to 1, got {cycles} and {rise}")
    period = math.ceil(steps / cycles)
    return Schedule(lambda number, losses: min(1.0, number % period / (steps / cycles) / rise))


def cut_short(factor: Callable[[int], float], steps: int) -> float | None:
    """Return the last factor of a run that ends during the first rise of a schedule, well below 1.

    Args:
        factor: The factor at each step.
        steps: The length of the run.

    Returns:
        The factor at the last step, or None if the run is long enough or the schedule does not rise.

    >>> cut_short(constant(10, warm_up=20), 10), cut_short(constant(10, warm_up=5), 10)
    (0.5, None)
    """
    last = factor(steps - 1)
    looked = range(0, steps - 1, max(steps // 1000, 1))
    return last if last < 0.9 and len(looked) > 0 and all(factor(number) < last for number in looked) else None


def level(number: int, steps: int, *, ramp: Spec | None = None, length: Length = 0) -> float:
    """Return the factor of a weight at a step: from a schedule, or without one from a linear rise.

    Args:
        number: The step, from 0.
        steps: The length of the run.
        ramp: A schedule, by name or with its settings.
        length: The length of the rise without a schedule; 0 for none.

    Returns:
        The factor.

    Raises:
        ConfigError: If the schedule depends on losses, which a weight does not have.

    >>> level(250, 1000, length=0.5), level(250, 1000, ramp={"name": "cyclical", "cycles": 2}), level(250, 1000)
    (0.5, 1.0, 1.0)
    """
    if ramp is None:
        return _rise(number, in_steps(length, steps))
    return _ramp(ramp if isinstance(ramp, str) else json.dumps(dict(ramp)), steps)(number)


@functools.lru_cache(maxsize=64)
def _ramp(text: str, steps: int) -> Schedule:
    schedule: Schedule = build("schedule", json.loads(text) if text.startswith("{") else text, steps)
    if schedule.every:
        raise ConfigError("expected a ramp that depends only on the step, got plateau; use it for the learning rate")
    return schedule


def _rise(number: int, length: int) -> float:
    return min(1.0, number / length) if length else 1.0


def in_steps(length: Length, steps: int) -> int:
    """Return a length in steps: a whole number unchanged, a float as that share of the run.

    Args:
        length: A whole number of steps, or a float from 0 to 1.
        steps: The length of the run.

    Returns:
        The number of steps.

    Raises:
        ConfigError: If the length is negative, or a float above 1.

    >>> in_steps(500, 1000), in_steps(0.25, 1000), in_steps(1.0, 1000)
    (500, 250, 1000)
    """
    if isinstance(length, bool) or not length >= 0 or (isinstance(length, float) and length > 1):
        raise ConfigError(
            f"expected a length as a whole number of steps or a share of the run from 0.0 to 1.0, got {length!r}"
        )
    return round(length * steps) if isinstance(length, float) else length


def _with_warm_up(
    steps: int, warm_up: Length, factor: Callable[[int, Sequence[float]], float], *, every: int = 0
) -> Schedule:
    # The rate of the first step is already above 0: otherwise the step would have no effect.
    rise = in_steps(warm_up, steps)
    return Schedule(lambda number, losses: _rise(number + 1, rise) * factor(number, losses), every)


def _check_share(entry: str, name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ConfigError(f"expected {entry}.{name} from 0 to 1, got {value}")
