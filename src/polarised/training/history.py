"""The records of a training run: terms averaged over windows of steps, snapshots of the regime, and checkpoints.

A checkpoint is the complete state of a run in one file, written atomically, from which the run resumes exactly.
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
from polarised.errors import ConfigError, DivergedError, TrainingError
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

    `seconds` is the duration of training, including the time before an interruption. `settled_step` is the step at
    which the run settled; it is None if the run did not settle or had no `settling`.

    Args:
        steps: The last step of each window.
        terms: The mean of every named term over each window, in nats.
        seconds: The duration of training.
        settled_step: The step at which the run settled; None if it did not settle or had no `settling`.
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
    """Record the terms of every step as means over windows; raise an error at the first value that is not finite."""

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
        """The duration of training so far, without the pauses between interrupted calls."""
        return self._earlier + time.monotonic() - self._began

    def take(self, step: int, names: Sequence[str], terms: Tensor) -> None:
        """Record the terms of one step, one value per name."""
        if not self.names:
            self.names = list(names)
        elif self.names != list(names):
            raise TrainingError(
                f"expected the terms {', '.join(self.names)} as before, got {', '.join(names)}; delete the checkpoint "
                "to start afresh"
            )
        # The terms stay on the device until the window is complete, so that a GPU does not wait at every step.
        self._open.append(terms)
        self._last = step
        if step % self.every == 0:
            self.flush()
            self.means.append(self._values.mean(axis=0))
            self.steps.append(step)
            self.latest = dict(zip(self.names, self.means[-1].tolist(), strict=True))
            self._values = self._values[:0]

    def flush(self) -> None:
        """Copy the recorded terms from the device to memory and check that they are finite."""
        if not self._open:
            return
        fresh = torch.stack(self._open).double().cpu().numpy()
        self._open.clear()
        if not np.isfinite(fresh).all():
            row, column = (int(axis[0]) for axis in np.nonzero(~np.isfinite(fresh)))
            raise DivergedError(
                f"training diverged: {self.names[column]} became {fresh[row, column]} at step "
                f"{self._last - len(fresh) + row + 1}; lower the learning rate or the strength of the penalty"
            )
        self._values = np.concatenate([self._values.reshape(-1, fresh.shape[1]), fresh])

    def state(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the arrays to save in a checkpoint, including the unfinished window."""
        width = len(self.names)
        return {
            "history.names": np.frombuffer("\n".join(self.names).encode(), dtype=np.uint8).copy(),
            "history.steps": np.array(self.steps, dtype=np.int64),
            "history.means": np.array(self.means, dtype=np.float64).reshape(-1, width),
            "history.window": self._values.reshape(-1, width),
            "history.seconds": np.array([self.seconds]),
        }

    def restore(self, arrays: Mapping[str, np.ndarray[Any, Any]], step: int) -> None:
        """Restore the records as they were at `step`.

        Raises:
            ValueError: If the arrays are inconsistent.
        """
        names = bytes(arrays["history.names"]).decode().split("\n")
        steps, means, window = (arrays[f"history.{part}"] for part in ("steps", "means", "window"))
        fits = means.shape == (len(steps), len(names)) and window.shape == (len(window), len(names))
        if not fits or steps.dtype.kind != "i" or {means.dtype.kind, window.dtype.kind} != {"f"}:
            raise ValueError("the arrays of its history are inconsistent")
        self._last, self.names, self.steps = step, names, steps.tolist()
        self.means, self._values = list(means), window
        self._earlier, self._began = float(arrays.get("history.seconds", np.zeros(1))[0]), time.monotonic()

    def history(self, settled_step: int | None = None) -> History:
        """Return the means so far, with those of the unfinished window last."""
        means, steps = list(self.means), list(self.steps)
        if len(self._values):
            means.append(self._values.mean(axis=0))
            steps.append(self._last)
        table = np.array(means, dtype=np.float64).reshape(-1, len(self.names))
        terms = {name: table[:, i] for i, name in enumerate(self.names)}
        return History(np.array(steps, dtype=np.int64), terms, self.seconds, settled_step)


class Snapshots:
    """A hook of `train` that records types, KL and correlations of the variables on fixed inputs every `every` steps.

    The inputs are one evaluation draw of the dataset. A snapshot takes a few kilobytes; with ``keep="encodings"`` the
    means and variances are stored too. The types are decided as in a diagnosis, including the decoder's use of the
    variables, measured on a few hundred of the same inputs; a snapshot then costs as much as decoding these inputs once
    per variable. [Bonheme2023BeMoreActive, section 5]

    Args:
        dataset: The training data.
        every: Number of steps between snapshots.
        examples: Number of inputs to encode.
        alpha: The threshold of the types.
        rule: The rule of the types.
        keep: Whether to store statistics or the encodings themselves.
        objective: The training objective, which defines where an unused variable rests.
        ask_decoder: Whether to measure the use by the decoder; otherwise only the posterior decides the types.
        batch_size: Number of inputs encoded at a time.
        seed: Seed of the draw of the inputs.

    Raises:
        ConfigError: If `every` is below 1, or `examples` is below 2.

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
        # The other rules use only the posterior.
        self.ask_decoder = ask_decoder and rule == "used"
        self.timeline = Timeline(alpha=alpha, rule=rule, keep=keep)
        self._batch = dataset.sample(min(examples, len(dataset)), seed)

    def __call__(self, step: int, vae: VAE) -> None:
        """Record the model after `step` updates."""
        encodings = from_vae(vae, self._batch, batch_size=self.batch_size, objective=self.objective)
        use = None
        if self.ask_decoder:
            use = decoder_use(vae, self._batch, examples=FEW, most=min(USUAL, len(self._batch)), redraw=False)
        self.timeline.take(step, encodings, decoder=use)

    def state(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the arrays to save in a checkpoint."""
        return self.timeline.state()

    def restore(self, state: dict[str, np.ndarray[Any, Any]]) -> None:
        """Restore a saved state."""
        self.timeline.restore(state)

    def save(self, path: str | Path) -> Path:
        """Write the timeline to an .npz that `polarised.regime.timeline.load_timeline` reads back."""
        return self.timeline.save(path)


@dataclass(frozen=True)
class Checkpoint:
    """A saved run: the number of completed steps, the identity of the run, and named arrays of its other parts."""

    step: int
    identity: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray[Any, Any]]


def save_checkpoint(
    directory: Path, checkpoint: Checkpoint, modules: Mapping[str, nn.Module], optimiser: torch.optim.Optimizer
) -> Path:
    """Write weights, optimiser state and `checkpoint` to ``checkpoint.safetensors`` in `directory`.

    Weights that are not finite are refused, and an earlier checkpoint is left unchanged.
    """
    tensors = {f"modules.{name}": value for name, value in _weights(modules)}
    for name, value in tensors.items():
        if value.is_floating_point() and not torch.isfinite(value).all():
            raise DivergedError(
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
    """Restore a saved run into `modules` and `optimiser`, bit for bit; return None if there is no checkpoint.

    `identity` describes the expected run; a checkpoint of another run is refused.
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
            raise ValueError("its checksum does not match its contents")
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
    """Return the error for a checkpoint from which training cannot resume."""
    reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
    return TrainingError(
        f"expected a checkpoint of polarised, could not read {path}: {reason}; delete it to start afresh"
    )


def _checked_header(text: str) -> dict[str, Any]:
    header = json.loads(text)
    if not isinstance(header, dict) or type(header.get("step")) is not int or not 0 <= header["step"] < 2**63:
        raise ValueError("its header does not give the step")
    if not isinstance(header.get("identity"), dict):
        raise ValueError("its header does not describe the run")
    return header


def _checksum(step: int, arrays: Mapping[str, np.ndarray[Any, Any]]) -> int:
    """Return a checksum that changes if a bit flips, an array is lost or the step is different."""
    total = step & 0xFFFFFFFF
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total = zlib.crc32(f"{name} {array.dtype.str} {arrays[name].shape}".encode(), total)
        total = zlib.crc32(array.reshape(-1).view(np.uint8).data, total)
    return total


def _check_tensors(
    tensors: Mapping[str, Tensor], modules: Mapping[str, nn.Module], optimiser: torch.optim.Optimizer
) -> None:
    """Refuse weights and states of another model before any of them is loaded."""
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
            raise ValueError(f"{name} is not part of this model")
        if (value.shape, value.dtype) != (expected[name].shape, expected[name].dtype):
            wanted = f"{tuple(expected[name].shape)} of {expected[name].dtype}"
            raise ValueError(f"{name} is {tuple(value.shape)} of {value.dtype}, but this model has {wanted}")


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
                # Use the memory layout of the parameter, so that the fused update takes the same code path as before.
                optimiser.state[parameter][key] = torch.empty_like(parameter).copy_(value)
