"""What training writes down: its terms over windows of steps, snapshots of the regime, and checkpoints.

A checkpoint is everything a run is, in one file that appears whole or not at all, to be taken up again exactly.
"""

import json
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save_file
from torch import Tensor, nn

from polarised._io.files import replacing
from polarised._io.limits import check_room
from polarised.data.dataset import Dataset
from polarised.errors import ConfigError, TrainingError
from polarised.models.encoding import decoder_use, from_vae
from polarised.models.vae import VAE
from polarised.objectives.step import Objective
from polarised.regime.classify import Rule
from polarised.regime.decoder import FEW, USUAL
from polarised.regime.timeline import Timeline

if TYPE_CHECKING:
    import polars

__all__ = ["Checkpoint", "History", "Records", "Snapshots", "load_checkpoint", "save_checkpoint"]

CHECKPOINT = "checkpoint.safetensors"


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
        elif self.names != list(names):
            raise TrainingError(
                f"expected the terms {', '.join(self.names)} as before, got {', '.join(names)}; delete the checkpoint "
                "to start afresh"
            )
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
        """Go back to the records as they were at `step`.

        Raises:
            ValueError: The arrays do not belong together.
        """
        names = bytes(arrays["history.names"]).decode().split("\n")
        steps, means, window = (arrays[f"history.{part}"] for part in ("steps", "means", "window"))
        fits = means.shape == (len(steps), len(names)) and window.shape == (len(window), len(names))
        if not fits or steps.dtype.kind != "i" or {means.dtype.kind, window.dtype.kind} != {"f"}:
            raise ValueError("the arrays of its history do not fit together")
        self._last, self.names, self.steps = step, names, steps.tolist()
        self.means, self._values = list(means), window
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


class Snapshots:
    """A hook of `train`: every `every` steps the types, KL and correlations of the variables on fixed inputs.

    The inputs are one evaluation draw of the dataset. A moment costs a few kilobytes; with ``keep="encodings"`` the
    means and variances are kept too. The types are decided as those of a diagnosis are, with what the decoder makes of
    the variables on some hundred of the same inputs; a moment then costs as much as decoding them once for every
    variable. [Bonheme2023BeMoreActive, section 5]

    Args:
        dataset: What is trained on.
        every: Steps from one look to the next.
        examples: How many inputs to look at.
        alpha: The threshold of the types.
        rule: The rule of the types.
        keep: Whether to keep statistics or the encodings themselves.
        objective: What is trained with: it says where an unused variable rests.
        ask_decoder: Whether the decoder says what is used; without it the posterior alone does.
        batch_size: Inputs encoded at a time.
        seed: Of the draw of the inputs.

    Raises:
        ConfigError: If `every` is below 1, or fewer than two inputs are to be looked at.

    >>> from polarised.data import dsprites
    >>> from polarised.models import build_vae
    >>> snapshots = Snapshots(dsprites(size=32), every=100, examples=50)
    >>> snapshots(0, build_vae({"architecture": "mlp", "latents": 3}, shape=(1, 32, 32)))
    >>> snapshots.timeline.steps
    [0]
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        every: int = 1000,
        examples: int = 1000,
        alpha: float = 0.1,
        rule: Rule = "used",
        keep: Literal["statistics", "encodings"] = "statistics",
        objective: Objective | None = None,
        ask_decoder: bool = True,
        batch_size: int = 256,
        seed: int = 0,
    ) -> None:
        if every < 1 or examples < 2:
            raise ConfigError(f"expected every of at least 1 step and 2 examples or more, got {every} and {examples}")
        self.every, self.batch_size, self.objective = every, batch_size, objective
        # The other rules look at the posterior alone.
        self.ask_decoder = ask_decoder and rule == "used"
        self.timeline = Timeline(alpha=alpha, rule=rule, keep=keep)
        self._batch = dataset.sample(min(examples, len(dataset)), seed)

    def __call__(self, step: int, vae: VAE) -> None:
        """Look at the model after `step` updates."""
        encodings = from_vae(vae, self._batch, batch_size=self.batch_size, objective=self.objective)
        use = None
        if self.ask_decoder:
            use = decoder_use(vae, self._batch, examples=FEW, most=min(USUAL, len(self._batch)), redraw=False)
        self.timeline.take(step, encodings, decoder=use)

    def state(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return what a checkpoint must carry."""
        return self.timeline.state()

    def restore(self, state: dict[str, np.ndarray[Any, Any]]) -> None:
        """Go back to a saved state."""
        self.timeline.restore(state)

    def save(self, path: str | Path) -> Path:
        """Write the timeline to an .npz that `polarised.regime.timeline.load_timeline` reads back."""
        return self.timeline.save(path)


@dataclass(frozen=True)
class Checkpoint:
    """What was running when it was saved: the step reached, which run it was, and arrays of others by name."""

    step: int
    identity: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray[Any, Any]]


def save_checkpoint(
    directory: Path, checkpoint: Checkpoint, modules: Mapping[str, nn.Module], optimiser: torch.optim.Optimizer
) -> Path:
    """Write weights, optimiser state and `checkpoint` to ``checkpoint.safetensors`` in `directory`.

    Weights that are not finite are refused, and an earlier checkpoint stays as it is.
    """
    tensors = {f"modules.{name}": value for name, value in _weights(modules)}
    for name, value in tensors.items():
        if value.is_floating_point() and not torch.isfinite(value).all():
            raise TrainingError(
                f"expected finite weights at step {checkpoint.step}, {name.removeprefix('modules.')} is not; "
                "lower the learning rate and start again"
            )
    tensors |= {f"optimiser.{name}": value for name, value in _states(modules, optimiser)}
    arrays = {name: value.detach().cpu().contiguous().numpy() for name, value in tensors.items()}
    arrays |= {f"arrays.{name}": np.ascontiguousarray(value) for name, value in checkpoint.arrays.items()}
    header = {"step": checkpoint.step, "identity": checkpoint.identity, "checksum": _checksum(checkpoint.step, arrays)}
    path = directory / CHECKPOINT
    with replacing(path) as temporary:
        save_file(arrays, temporary, metadata={"polarised": json.dumps(header)})
    return path


def load_checkpoint(
    directory: Path,
    identity: Mapping[str, Any],
    modules: Mapping[str, nn.Module],
    optimiser: torch.optim.Optimizer,
) -> Checkpoint | None:
    """Put a saved run back into `modules` and `optimiser`, bit for bit; None where there is no checkpoint.

    `identity` says which run is asked for; a checkpoint of another one is refused.
    """
    path = directory / CHECKPOINT
    if not path.exists():
        return None
    check_room(path)
    try:
        with safe_open(path, framework="pt") as archive:
            header = _checked_header((archive.metadata() or {}).get("polarised", "null"))
            tensors = {name: archive.get_tensor(name) for name in archive.keys()}  # noqa: SIM118
        saved = {name: value.numpy() for name, value in tensors.items()}
        # Checkpoints of earlier versions have no checksum.
        if header.get("checksum") not in (None, _checksum(header["step"], saved)):
            raise ValueError("its checksum is that of other contents")
    except Exception as error:
        raise damaged(path, error) from error
    differing = [key for key in identity if header["identity"].get(key) != identity[key]]
    if differing:
        raise TrainingError(
            f"expected a checkpoint of the same run in {path}, it differs in {', '.join(differing)}; "
            "use another directory, or delete it to start afresh"
        )
    try:
        _check_tensors(tensors, modules, optimiser)
    except ValueError as error:
        raise damaged(path, error) from error
    with torch.no_grad():
        for name, value in _weights(modules):
            value.copy_(tensors[f"modules.{name}"])
    _restore_states(tensors, modules, optimiser)
    arrays = {name.removeprefix("arrays."): value for name, value in saved.items() if name.startswith("arrays.")}
    return Checkpoint(header["step"], header["identity"], arrays)


def damaged(path: Path, error: Exception) -> TrainingError:
    """Return the error of a checkpoint that cannot be gone on from."""
    reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
    return TrainingError(
        f"expected a checkpoint of polarised, could not read {path}: {reason}; delete it to start afresh"
    )


def _checked_header(text: str) -> dict[str, Any]:
    header = json.loads(text)
    if not isinstance(header, dict) or type(header.get("step")) is not int or header["step"] < 0:
        raise ValueError("its header does not say which step it is of")
    if not isinstance(header.get("identity"), dict):
        raise ValueError("its header does not say which run it is of")
    return header


def _checksum(step: int, arrays: Mapping[str, np.ndarray[Any, Any]]) -> int:
    """Return a number that no single flipped bit, lost array or other step leaves as it is."""
    total = step & 0xFFFFFFFF
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total = zlib.crc32(f"{name} {array.dtype.str} {arrays[name].shape}".encode(), total)
        total = zlib.crc32(array.reshape(-1).view(np.uint8).data, total)
    return total


def _check_tensors(
    tensors: Mapping[str, Tensor], modules: Mapping[str, nn.Module], optimiser: torch.optim.Optimizer
) -> None:
    """Refuse weights and states of another model before any of them is put to use."""
    expected = {f"modules.{name}": value for name, value in _weights(modules)}
    if missing := expected.keys() - tensors.keys():
        raise ValueError(f"{min(missing)} is missing")
    count = torch.zeros(())
    kept = ("step", "exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if optimiser.defaults.get("amsgrad") else []))
    for name, parameter in _parameters(modules):
        states = {f"optimiser.{name}/{key}": count if key == "step" else parameter for key in kept}
        if present := states.keys() & tensors.keys():
            if missing := states.keys() - present:
                raise ValueError(f"{min(missing)} is missing")
            expected |= states
    for name, value in tensors.items():
        if name.startswith("arrays."):
            continue
        if name not in expected:
            raise ValueError(f"{name} is no part of this model")
        if (value.shape, value.dtype) != (expected[name].shape, expected[name].dtype):
            wanted = f"{tuple(expected[name].shape)} of {expected[name].dtype}"
            raise ValueError(f"{name} is {tuple(value.shape)} of {value.dtype}, that of this model {wanted}")


def _weights(modules: Mapping[str, nn.Module]) -> Iterator[tuple[str, Tensor]]:
    for prefix, module in modules.items():
        for name, value in module.state_dict().items():
            yield f"{prefix}.{name}", value


def _parameters(modules: Mapping[str, nn.Module]) -> Iterator[tuple[str, nn.Parameter]]:
    for prefix, module in modules.items():
        for name, parameter in module.named_parameters():
            yield f"{prefix}.{name}", parameter


def _states(modules: Mapping[str, nn.Module], optimiser: torch.optim.Optimizer) -> Iterator[tuple[str, Tensor]]:
    for name, parameter in _parameters(modules):
        for key, value in optimiser.state.get(parameter, {}).items():
            yield f"{name}/{key}", value


def _restore_states(
    tensors: Mapping[str, Tensor], modules: Mapping[str, nn.Module], optimiser: torch.optim.Optimizer
) -> None:
    saved: dict[str, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        if name.startswith("optimiser."):
            owner, _, key = name.removeprefix("optimiser.").rpartition("/")
            saved.setdefault(owner, {})[key] = value
    for name, parameter in _parameters(modules):
        for key, value in saved.get(name, {}).items():
            if key == "step":
                optimiser.state[parameter][key] = value
            else:
                # The memory layout of the parameter, so that the fused update takes the same path as before.
                optimiser.state[parameter][key] = torch.empty_like(parameter).copy_(value)
