"""Save everything a training run is, in one file that appears whole or not at all, and take it up again exactly."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.numpy import save_file
from torch import Tensor, nn

from polarised._io.files import replacing
from polarised.errors import TrainingError

__all__ = ["Checkpoint", "load", "save"]

FILE = "checkpoint.safetensors"


@dataclass(frozen=True)
class Checkpoint:
    """What was running when it was saved: the step reached, which run it was, and arrays of others by name."""

    step: int
    identity: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray[Any, Any]]


def save(
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
    header = {"step": checkpoint.step, "identity": checkpoint.identity}
    path = directory / FILE
    with replacing(path) as temporary:
        save_file(arrays, temporary, metadata={"polarised": json.dumps(header)})
    return path


def load(
    directory: Path,
    identity: Mapping[str, Any],
    modules: Mapping[str, nn.Module],
    optimiser: torch.optim.Optimizer,
) -> Checkpoint | None:
    """Put a saved run back into `modules` and `optimiser`, bit for bit; None where there is no checkpoint.

    `identity` says which run is asked for; a checkpoint of another one is refused.
    """
    path = directory / FILE
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as archive:
            header = json.loads(archive.metadata()["polarised"])
            tensors = {name: archive.get_tensor(name) for name in archive.keys()}  # noqa: SIM118
    except Exception as error:
        raise TrainingError(
            f"expected a checkpoint of polarised, could not read {path}: {error}; delete it to start afresh"
        ) from error
    differing = [key for key in identity if header["identity"].get(key) != identity[key]]
    if differing:
        raise TrainingError(
            f"expected a checkpoint of the same run in {path}, it differs in {', '.join(differing)}; "
            "use another directory, or delete it to start afresh"
        )
    with torch.no_grad():
        for name, value in _weights(modules):
            value.copy_(tensors[f"modules.{name}"])
    _restore_states(tensors, modules, optimiser)
    arrays = {
        name.removeprefix("arrays."): value.numpy() for name, value in tensors.items() if name.startswith("arrays.")
    }
    return Checkpoint(header["step"], header["identity"], arrays)


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
