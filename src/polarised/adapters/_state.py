"""The weights of a foreign PyTorch VAE, cut to the variables that are kept."""

import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Literal

import torch
from torch import Tensor, nn

from polarised._io.files import replacing
from polarised.errors import DataError, MissingFileError
from polarised.models.slicing import Layer, slice_layers
from polarised.registry import nearest

__all__ = ["prune_state", "read_state", "state_in", "weights_in", "write_state"]


def prune_state(
    weights: Mapping[str, Tensor],
    keep: Sequence[int],
    *,
    mean_head: str,
    decoder_input: str,
    log_variance_head: str | None = None,
    layout: Literal["separate", "interleaved", "stacked"] = "separate",
    transposed: bool = False,
) -> dict[str, Tensor]:
    """Return a state dict without some latent variables, given the names of the layers around them.

    `transposed` says that a four-dimensional decoder weight belongs to a ConvTranspose2d. Dropped variables stand at 0,
    the mean of a standard normal prior. [Bonheme2023BeMoreActive, section 4]

    >>> import torch
    >>> weights = {"mu.weight": torch.ones(3, 4), "mu.bias": torch.ones(3), "lv.weight": torch.ones(3, 4)}
    >>> weights |= {"lv.bias": torch.ones(3), "dec.weight": torch.ones(5, 3), "dec.bias": torch.ones(5)}
    >>> smaller = prune_state(weights, [2], mean_head="mu", log_variance_head="lv", decoder_input="dec")
    >>> tuple(smaller["mu.weight"].shape), tuple(smaller["dec.weight"].shape)
    ((1, 4), (5, 1))
    """
    spread = None if log_variance_head is None else _layer(weights, log_variance_head)
    entry = _layer(weights, decoder_input, transposed=transposed)
    cut = slice_layers(_layer(weights, mean_head), spread, entry, keep, layout=layout)
    pruned = dict(weights)
    named = {mean_head: cut.mean_head, decoder_input: cut.decoder_input}
    if log_variance_head is not None:
        named[log_variance_head] = cut.log_variance_head
    for name, layer in named.items():
        pruned |= {f"{name}.{kind}": value.detach() for kind, value in layer.state_dict().items()}
    return pruned


def _layer(weights: Mapping[str, Tensor], name: str, *, transposed: bool = False) -> Layer:
    weight = weights.get(f"{name}.weight")
    if weight is None or weight.ndim not in (2, 4):
        layers = [key.removesuffix(".weight") for key in weights if key.endswith(".weight")]
        raise DataError(
            f"expected a linear or convolutional layer, there is no {name!r}{nearest(name, layers)}; "
            f"the file has {', '.join(layers)}"
        )
    bias = weights.get(f"{name}.bias")
    kernel: Any = tuple(weight.shape[2:])
    layer: Layer
    if weight.ndim == 2:
        layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    elif transposed:
        layer = nn.ConvTranspose2d(weight.shape[0], weight.shape[1], kernel, bias=bias is not None)
    else:
        layer = nn.Conv2d(weight.shape[1], weight.shape[0], kernel, bias=bias is not None)
    if bias is not None and layer.bias is not None and bias.shape != layer.bias.shape:
        kind = "Conv2d" if transposed else "ConvTranspose2d"
        raise DataError(
            f"expected {name}.bias of shape {tuple(layer.bias.shape)}, got {tuple(bias.shape)}: is the layer a {kind}? "
            "The flag transposed says so"
        )
    layer = layer.to(weight.dtype)
    layer.load_state_dict({"weight": weight} if bias is None else {"weight": weight, "bias": bias})
    return layer


def read_state(path: str | Path) -> dict[str, Tensor]:
    """Read a state dict from .safetensors, .pt or .pth; a file that would have to run code is refused."""
    path = Path(path)
    if path.suffix != ".safetensors":
        if not path.is_file():
            raise MissingFileError(f"expected a file of weights, {path} is none; check the path")
        with path.open("rb") as file:
            return state_in(file, path)
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except Exception as error:
        raise _refusal(path, error) from error


def weights_in(path: Path, key: str) -> dict[str, Tensor]:
    """Return the state dict that a .pt file holds under a key; a file that would have to run code is refused."""
    with path.open("rb") as file:
        return state_in(file, path, key=key)


def state_in(file: IO[bytes], where: Path, *, key: str = "state_dict") -> dict[str, Tensor]:
    """Return the state dict in an open .pt file, alone or under a key.

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
    weights = weights.get(key, weights) if isinstance(weights, dict) else weights
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
