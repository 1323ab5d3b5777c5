"""State dicts in files of PyTorch: weights come out, nothing is run, and memory follows the bytes that are there."""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

from polarised.errors import DataError
from polarised.files import replacing

__all__ = ["read_state", "state_in", "write_state"]


def read_state(path: str | Path) -> dict[str, Tensor]:
    """Read a state dict from .safetensors, .pt or .pth; a file that would have to run code is refused."""
    path = Path(path)
    if path.suffix != ".safetensors":
        if not path.is_file():
            raise DataError(f"expected a file of weights, {path} is none; check the path")
        with path.open("rb") as file:
            return state_in(file, path)
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except Exception as error:
        raise _refusal(path, error) from error


def state_in(file: IO[bytes], where: Path) -> dict[str, Tensor]:
    """Return the state dict in an open .pt file, alone or under the key ``state_dict``.

    >>> file = io.BytesIO()
    >>> torch.save({"mu.bias": torch.zeros(3)}, file)
    >>> list(state_in(file, Path("model.pt")))
    ['mu.bias']
    """
    weights: Any
    try:
        _refuse_bombs(file, where)
        file.seek(0)
        weights = torch.load(file, weights_only=True, map_location="cpu")
    except DataError:
        raise
    except Exception as error:
        raise _refusal(where, error) from error
    weights = weights.get("state_dict", weights) if isinstance(weights, dict) else weights
    if not isinstance(weights, dict) or not all(isinstance(value, Tensor) for value in weights.values()):
        raise DataError(f"expected a state dict of tensors in {where}, got {type(weights).__name__}; save state_dict()")
    for name, value in weights.items():
        # A tensor may name any size over one stored number (stride 0), or have no numbers at all (sparse, meta).
        dense = value.layout == torch.strided and value.device.type == "cpu"
        if not dense or value.numel() * value.element_size() > value.untyped_storage().nbytes():
            raise DataError(
                f"expected every number of {name} in {where}, the shape {tuple(value.shape)} has more than are stored"
            )
    return {str(name): value for name, value in weights.items()}


def write_state(weights: Mapping[str, Tensor], path: str | Path) -> Path:
    """Write a state dict as safetensors."""
    from safetensors.torch import save_file

    path = Path(path)
    with replacing(path) as temporary:
        save_file({name: value.contiguous() for name, value in weights.items()}, temporary)
    return path


def _refuse_bombs(file: IO[bytes], where: Path) -> None:
    """Torch stores weights as they are, so a file of them never unpacks to more than itself."""
    size = file.seek(0, io.SEEK_END)
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
        if unpacked > size:
            raise DataError(f"expected at most the {size} bytes of {where}, it would unpack to {unpacked}; refused")


def _refusal(where: Path, error: Exception) -> DataError:
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    # Torch advises here to read it without that care after all, which would run whatever it holds.
    if "weights_only" in str(error):
        objects = "Unsupported" in str(error)
        reason = "it holds objects that would have to be run; save state_dict() alone" if objects else "it is damaged"
    return DataError(f"expected plain weights in {where}, refused to read it: {reason}")
