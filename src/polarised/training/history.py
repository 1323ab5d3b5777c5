"""What training recorded: the mean of every named term over windows of steps."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polarised.errors import TrainingError

if TYPE_CHECKING:
    import polars

__all__ = ["History", "Records"]


@dataclass(frozen=True, eq=False)
class History:
    """The loss and its terms (nats, mean over a window of steps); `steps` holds the last step of each window.

    `seconds` is how long training took, the time before it was stopped and taken up again included. `settled_step` is
    the step at which a run that waits for that had settled, None if it did not, or did not wait.

    Args:
        steps: The last step of each window.
        terms: The mean of every named term over each window, in nats.
        seconds: How long training took.
        settled_step: When the run had settled; None if it did not, or did not wait.
    """

    steps: NDArray[np.int64]
    terms: Mapping[str, NDArray[np.float64]]
    seconds: float = 0.0
    settled_step: int | None = None

    @property
    def loss(self) -> NDArray[np.float64]:
        """The sum of the terms."""
        return np.sum(list(self.terms.values()), axis=0) if self.terms else np.zeros(0)

    def table(self) -> "polars.DataFrame":
        """Return a row for each window: step, loss, a column for each term."""
        import polars

        columns: dict[str, Any] = {"step": self.steps, "loss": self.loss, **self.terms}
        return polars.DataFrame(columns)


class Records:
    """Terms of every step, reduced to means over windows; stops at the first number that is not finite."""

    def __init__(self, every: int) -> None:
        self.every = every
        self.names: list[str] = []
        self.steps: list[int] = []
        self.means: list[np.ndarray[Any, Any]] = []
        self.latest: dict[str, float] = {}
        self._open: list[Tensor] = []
        self._values: np.ndarray[Any, Any] = np.zeros((0, 0))
        self._last = 0
        self._earlier, self._began = 0.0, time.monotonic()

    @property
    def seconds(self) -> float:
        """How long training has taken so far, without the pauses between two attempts."""
        return self._earlier + time.monotonic() - self._began

    def take(self, step: int, names: Sequence[str], terms: Tensor) -> None:
        """Note the terms of one step, one number a name."""
        if not self.names:
            self.names = list(names)
        # Kept on the device until the window closes, so that a GPU is not made to wait at every step.
        self._open.append(terms)
        self._last = step
        if step % self.every == 0:
            self.flush()
            self.means.append(self._values.mean(axis=0))
            self.steps.append(step)
            self.latest = dict(zip(self.names, self.means[-1].tolist(), strict=True))
            self._values = self._values[:0]

    def flush(self) -> None:
        """Bring what lies on the device into memory and look at it."""
        if not self._open:
            return
        fresh = torch.stack(self._open).double().cpu().numpy()
        self._open.clear()
        if not np.isfinite(fresh).all():
            row, column = (int(axis[0]) for axis in np.nonzero(~np.isfinite(fresh)))
            raise TrainingError(
                f"training diverged: {self.names[column]} became {fresh[row, column]} at step "
                f"{self._last - len(fresh) + row + 1}; lower the learning rate or the strength of the penalty"
            )
        self._values = np.concatenate([self._values.reshape(-1, fresh.shape[1]), fresh])

    def state(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return what a checkpoint must carry, the open window included."""
        width = len(self.names)
        return {
            "history.names": np.frombuffer("\n".join(self.names).encode(), dtype=np.uint8).copy(),
            "history.steps": np.array(self.steps, dtype=np.int64),
            "history.means": np.array(self.means, dtype=np.float64).reshape(-1, width),
            "history.window": self._values.reshape(-1, width),
            "history.seconds": np.array([self.seconds]),
        }

    def restore(self, arrays: Mapping[str, np.ndarray[Any, Any]], step: int) -> None:
        """Go back to the records as they were at `step`."""
        self._last = step
        self.names = bytes(arrays["history.names"]).decode().split("\n")
        self.steps = arrays["history.steps"].tolist()
        self.means = list(arrays["history.means"])
        self._values = arrays["history.window"]
        self._earlier, self._began = float(arrays.get("history.seconds", np.zeros(1))[0]), time.monotonic()

    def history(self, settled_step: int | None = None) -> History:
        """Return the means so far, those of the open window last."""
        means, steps = list(self.means), list(self.steps)
        if len(self._values):
            means.append(self._values.mean(axis=0))
            steps.append(self._last)
        table = np.array(means, dtype=np.float64).reshape(-1, len(self.names))
        terms = {name: table[:, i] for i, name in enumerate(self.names)}
        return History(np.array(steps, dtype=np.int64), terms, self.seconds, settled_step)
