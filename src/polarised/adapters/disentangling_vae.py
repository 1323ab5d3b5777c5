"""A model of YannDubs/disentangling-vae (`model.pt` beside `specs.json`) → our VAE or Encodings."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import nn

from polarised.adapters.archives import LARGEST_FILE, Folder
from polarised.adapters.native import from_vae
from polarised.data import Dataset
from polarised.errors import DataError
from polarised.models import VAE, build_vae
from polarised.representations import Encodings

__all__ = ["dataset_of", "from_disentangling_vae", "load_disentangling_vae"]

ENCODER = ("conv1", "conv2", "conv3", "conv_64", "lin1", "lin2")
DECODER = ("lin1", "lin2", "lin3", "convT_64", "convT1", "convT2", "convT3")


def from_disentangling_vae(
    path: str | Path, data: Dataset | ArrayLike, *, examples: int = 10_000, seed: int = 0
) -> Encodings:
    """Encode images with a model of disentangling-vae [Burgess2018].

    >>> from polarised.data import dsprites
    >>> from_disentangling_vae("results/betaH_dsprites", dsprites())  # doctest: +SKIP
    Encodings(10000 inputs, 10 latent variables, N(0, I), factors shape, scale, orientation, posX, posY)
    """
    return from_vae(load_disentangling_vae(path), data, examples=examples, seed=seed)


def load_disentangling_vae(path: str | Path) -> VAE:
    """Return a model of disentangling-vae as our VAE with `burgess_conv`, decoder included [Burgess2018].

    >>> load_disentangling_vae("results/betaH_dsprites").latents  # doctest: +SKIP
    10
    """
    folder = Folder(Path(path))
    weights = _state(folder)
    head = "encoder.mu_logvar_gen"
    side = 64 if "encoder.conv_64.weight" in weights else 32
    wanted = [f"encoder.{x}" for x in ENCODER] + [f"decoder.{x}" for x in DECODER] + [head]
    missing = [name for name in wanted if f"{name}.weight" not in weights and not (side == 32 and name.endswith("_64"))]
    if missing:
        raise DataError(f"expected the Burgess networks in {folder.path}, {missing[0]} is missing; others are not read")
    channels, latents = weights["encoder.conv1.weight"].shape[1], weights[f"{head}.bias"].numel() // 2
    vae = build_vae({"architecture": "burgess_conv", "latents": latents}, (channels, side, side))
    for name, half, layers in (("encoder", vae.encoder, ENCODER), ("decoder", vae.decoder, DECODER)):
        modules = [m for m in half.modules() if isinstance(m, nn.Linear | nn.Conv2d | nn.ConvTranspose2d)]
        kept = [layer for layer in layers if side == 64 or not layer.endswith("_64")]
        for module, layer in zip(modules, kept, strict=False):
            for kind in ("weight", "bias"):
                _fill(module, kind, weights, f"{name}.{layer}.{kind}")
    # The published head is interleaved: output 2k is the mean of variable k, 2k + 1 its log-variance.
    for kind in ("weight", "bias"):
        both = weights[f"{head}.{kind}"]
        _fill(vae.encoder.mean_head, kind, {"mean": both[0::2]}, "mean")
        _fill(vae.encoder.log_variance_head, kind, {"log-variance": both[1::2]}, "log-variance")
    return vae.eval()


def dataset_of(folder: Folder) -> str | None:
    """Return the name of the dataset a model was trained on, as its specs.json has it."""
    try:
        specs = json.loads(folder.read(folder.ending("specs.json") or "specs.json"))
    except (ValueError, DataError):
        return None
    value = specs.get("dataset") if isinstance(specs, dict) else None
    return value if isinstance(value, str) else None


def _state(folder: Folder) -> dict[str, torch.Tensor]:
    name = folder.ending("model.pt")
    if name is None:
        raise DataError(f"expected model.pt in {folder.path}, it is not there; give the folder of one model")
    content = io.BytesIO(folder.read(name))
    if zipfile.is_zipfile(content):
        # Newer torch files are zips themselves, and what they unpack to is bounded too.
        with zipfile.ZipFile(content) as archive:
            if sum(member.file_size for member in archive.infolist()) > LARGEST_FILE:
                raise DataError(f"expected weights of at most {LARGEST_FILE >> 20} MiB, {folder.path / name} has more")
    content.seek(0)
    try:
        state = torch.load(content, weights_only=True, map_location="cpu")
    except Exception as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"expected plain weights in {folder.path / name}, refused to read it: {reason}") from error
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise DataError(f"expected a state dict of tensors in {folder.path / name}, got {type(state).__name__}")
    return state


def _fill(module: nn.Module, kind: str, weights: dict[str, Any], name: str) -> None:
    parameter = getattr(module, kind)
    if name not in weights or weights[name].shape != parameter.shape:
        came = tuple(weights[name].shape) if name in weights else "nothing"
        raise DataError(f"expected {name} of shape {tuple(parameter.shape)}, the file has {came}")
    with torch.no_grad():
        parameter.copy_(weights[name])
