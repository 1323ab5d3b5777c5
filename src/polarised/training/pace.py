"""The learning rate of a run at every step, and the decision when the run has settled and may end."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from polarised.data.dataset import Dataset
from polarised.errors import ConfigError
from polarised.models.vae import VAE
from polarised.objectives.schedules import Length, Schedule, in_steps
from polarised.training.history import Snapshots

__all__ = ["Pace", "Settling", "check_settling", "has_settled", "never_settles"]

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class Settling:
    """Train at a constant rate until the variables have settled, then decay the rate to 0.

    The constant phase takes s steps, at least `least`; the rate then decays along half a cosine over `decay` * s steps.
    Together they take at most the steps of the run: s <= steps / (1 + decay). `has_settled` is the criterion.

    Args:
        least: The minimum length of the constant phase, as a number of steps or a share of the run.
        every: The interval between evaluations, as a number of steps or a share of the run.
        decay: The length of the decay as a share of the constant phase.
        nats: The tolerated drift of each KL, in nats.
        share: The tolerated drift of each KL, as a share of its value; the larger of the two tolerances applies.
        examples: The size of the evaluation batch, which is drawn once.

    >>> Settling(least=1000).most(10_000)
    8000
    """

    least: Length = 0.2
    every: Length = 0.01
    decay: float = 0.25
    nats: float = 0.02
    share: float = 0.01
    examples: int = 500

    def __post_init__(self) -> None:
        """Refuse settings that are out of range."""
        if not (self.decay >= 0 and self.nats >= 0 and self.share >= 0 and self.examples >= 2):
            raise ConfigError(
                "expected settling with decay, nats and share of at least 0 and 2 examples or more, got "
                f"{self.decay}, {self.nats}, {self.share} and {self.examples}"
            )

    def most(self, steps: int) -> int:
        """Return the maximum length of the constant phase of a run.

        Args:
            steps: The maximum number of steps of the run.

        Returns:
            The largest s such that s and its decay fit into the run.
        """
        most = int(steps / (1 + self.decay))
        # Rounding up the decay may exceed the run by one step.
        return most if most + self.fall(most) <= steps else most - 1

    def fewest(self, steps: int) -> int:
        """Return the length of a run that settles as early as it may.

        Args:
            steps: The maximum number of steps of the run.

        Returns:
            The shortest constant phase and its decay, in steps. The phase ends with an evaluation, at the earliest with
            the ninth, which is the first that has four in the last third.

        >>> Settling(least=1000).fewest(10_000)
        1250
        """
        every = max(in_steps(self.every, steps), 1)
        phase = every * max(9, math.ceil(in_steps(self.least, steps) / every))
        phase = min(phase, self.most(steps))
        return phase + self.fall(phase)

    def fall(self, phase: int) -> int:
        """Return the length of the decay after a constant phase.

        Args:
            phase: The number of steps of the constant phase.

        Returns:
            The number of steps over which the rate decays.
        """
        return round(self.decay * phase)


def has_settled(
    steps: Sequence[int], types: Sequence[Sequence[Any]], kl: ArrayLike, *, nats: float = 0.02, share: float = 0.01
) -> bool:
    """Return whether no type has changed and no KL has drifted over the last third of the steps so far.

    Among the evaluations from two thirds of the last step on, let a_j and b_j be the mean KL of variable j over the
    earlier and the later half; the run has settled if |a_j - b_j| <= max(nats, share b_j) for every j. With fewer than
    four evaluations the run has not settled.

    Means are compared, not single evaluations: at a constant rate the noise of the optimiser keeps moving the KL of a
    used variable by 3 to 8 %, so evaluations never agree to 1 % (`benchmarks/settling.py`).

    Args:
        steps: The steps of the evaluations, in order.
        types: The types of the variables at each of them.
        kl: The KL of the variables at each of them, (evaluations, d), in nats.
        nats: The tolerated drift of each KL, in nats.
        share: The tolerated drift of each KL, as a share of its value.

    Returns:
        Whether the run has settled at the last step.

    >>> looks, types = [300, 400, 450, 500, 550], 5 * [("active",)]
    >>> has_settled(looks, types, [[1.0], [2.0], [2.1], [2.1], [2.2]])
    False
    >>> has_settled(looks, types, [[1.0], [2.0], [2.1], [2.1], [2.0]])
    True
    """
    recent = [i for i, step in enumerate(steps) if 3 * step >= 2 * steps[-1]]
    if len(recent) < 4:
        return False
    table, half = np.asarray(kl, dtype=np.float64)[recent], len(recent) // 2
    before, after = table[:half].mean(axis=0), table[half:].mean(axis=0)
    still = np.abs(before - after) <= np.maximum(nats, share * after)
    return len({tuple(types[i]) for i in recent}) == 1 and bool(still.all())


def check_settling(settling: Settling, schedule: Mapping[str, Any], steps: int) -> None:
    """Refuse a `settling` that does not fit into its run.

    Args:
        settling: The criterion for the end of the run.
        schedule: Its learning rate schedule, as a complete spec.
        steps: The maximum number of steps of the run.

    Raises:
        ConfigError: If the schedule has its own decay, or the shortest phase and its decay are longer than the run.

    >>> check_settling(Settling(), {"name": "constant"}, 1000)
    """
    if schedule["name"] != "constant":
        raise ConfigError(
            f"expected the schedule constant with settling, which has its own decay, got {schedule['name']}; "
            "omit one of them"
        )
    least, most = in_steps(settling.least, steps), settling.most(steps)
    if not 1 <= least <= most:
        raise ConfigError(
            f"expected settling.least from 1 to {most}, so that phase and decay fit into {steps} steps, got "
            f"{settling.least}; raise steps or lower it"
        )


def never_settles(settling: Settling | None, steps: int) -> list[str]:
    """Return a sentence if a run cannot settle because it is evaluated too rarely.

    Args:
        settling: The criterion for the end of the run, or None.
        steps: The maximum number of steps of the run.

    Returns:
        No sentence or one.

    >>> never_settles(Settling(least=10, every=50), 500)
    ['this run cannot settle: its last third has fewer than four evaluations; lower settling.every from 50 to 44.']
    """
    if settling is None:
        return []
    every, most = max(in_steps(settling.every, steps), 1), settling.most(steps)
    # The last third of 9 intervals begins at the sixth and has four evaluations.
    if most >= 9 * every:
        return []
    remedy = f"lower settling.every from {every} to {most // 9}" if most >= 9 else "raise steps"
    return [f"this run cannot settle: its last third has fewer than four evaluations; {remedy}."]


class Pace:
    """The learning rate at every step of a run and its last step; both are exact after resuming."""

    def __init__(
        self, schedule: Schedule, settling: Settling | None, dataset: Dataset, *, steps: int, seed: int
    ) -> None:
        self._schedule, self._settling, self._steps = schedule, settling, steps
        self._losses: list[float] = []
        self._open: Tensor | None = None
        self._phase = steps if settling is None else settling.most(steps)
        self.settled_step: int | None = None
        self._looks: Snapshots | None = None
        if settling is not None:
            self._least = in_steps(settling.least, steps)
            every = max(in_steps(settling.every, steps), 1)
            size = settling.examples
            self._looks = Snapshots(dataset, every=every, examples=size, ask_decoder=False, seed=seed)
            self._looks.timeline.warn = False

    @property
    def end(self) -> int:
        """The number of steps of the run, as far as known."""
        return self._phase + (self._settling.fall(self._phase) if self._settling is not None else 0)

    def factor(self, number: int) -> float:
        """Return the factor of the learning rate at a step, counted from 0."""
        if number < self._phase:
            return self._schedule(number, self._losses)
        return (1 + math.cos(math.pi * (number - self._phase) / (self.end - self._phase))) / 2

    def take(self, done: int, terms: Tensor, vae: VAE) -> None:
        """Record the terms of a completed step, whose sum is its loss, and evaluate the model when it is due."""
        if self._schedule.every:
            # Summed on the device: the loop waits for a GPU only once per window.
            loss = terms.sum().double()
            self._open = loss if self._open is None else self._open + loss
            if done % self._schedule.every == 0:
                self._losses.append(float(self._open) / self._schedule.every)
                self._open = None
        waiting = self.settled_step is None and done <= self._phase
        if self._looks is not None and self._settling is not None and waiting and done % self._looks.every == 0:
            self._looks(done, vae)
            looks, rule = self._looks.timeline, self._settling
            kl = looks.state()["kl"]
            if done >= self._least and has_settled(looks.steps, looks.types, kl, nats=rule.nats, share=rule.share):
                self.settled_step = self._phase = done

    def state(self) -> Arrays:
        """Return the arrays to save in a checkpoint."""
        state: Arrays = {"losses": np.array(self._losses, dtype=np.float64)}
        if self._open is not None:
            state["open"] = self._open.cpu().numpy()
        if self._looks is not None:
            state |= {f"looks.{name}": value for name, value in self._looks.state().items()}
            state["settled"] = np.array(self.settled_step or 0)
        return state

    def restore(self, state: Arrays, device: str) -> None:
        """Restore a saved state."""
        losses = state.get("losses", np.zeros(0))
        if losses.ndim != 1 or losses.dtype.kind != "f":
            raise ValueError("the losses of its schedule are not a row of numbers")
        self._losses = losses.tolist()
        self._open = torch.from_numpy(state["open"]).reshape(()).to(device) if "open" in state else None
        if self._looks is not None:
            self._looks.restore({k.removeprefix("looks."): v for k, v in state.items() if k.startswith("looks.")})
            settled = int(state["settled"].item())
            if not 0 <= settled <= self._phase:
                raise ValueError(f"it settled at step {settled} of {self._phase}")
            if settled:
                self.settled_step = self._phase = settled
