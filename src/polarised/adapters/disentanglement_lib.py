"""A published run of disentanglement_lib (a folder or its zip) → our VAE or Encodings, without TensorFlow."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from polarised.adapters.archives import Folder
from polarised.adapters.native import from_vae
from polarised.adapters.tensor_bundle import read_tensor_bundle
from polarised.data import Dataset
from polarised.errors import DataError
from polarised.models import VAE, build_vae
from polarised.representations import Encodings

__all__ = ["dataset_of", "from_disentanglement_lib", "load_disentanglement_lib"]

INDEX = "tfhub/variables/variables.index"
ENCODER = ("e1", "e2", "e3", "e4", "e5", "means", "log_var")
DECODER = ("dense", "dense_1", "conv2d_transpose", *(f"conv2d_transpose_{i}" for i in (1, 2, 3)))


def from_disentanglement_lib(
    path: str | Path, data: Dataset | ArrayLike, *, examples: int = 10_000, seed: int = 0
) -> Encodings:
    """Encode images with a published model of disentanglement_lib [Locatello2019].

    >>> from polarised.data import dsprites
    >>> from_disentanglement_lib("250.zip", dsprites())  # doctest: +SKIP
    Encodings(10000 inputs, 10 latent variables, N(0, I), factors shape, scale, orientation, posX, posY)
    """
    return from_vae(load_disentanglement_lib(path), data, examples=examples, seed=seed)


def load_disentanglement_lib(path: str | Path) -> VAE:
    """Return a published model as our VAE with `locatello_conv`, decoder included [Locatello2019, table 1].

    >>> load_disentanglement_lib("250.zip").latents  # doctest: +SKIP
    10
    """
    folder = Folder(Path(path))
    index = folder.ending(f"model/{INDEX}") or folder.ending(INDEX)
    if index is None:
        raise DataError(
            f"expected a run of disentanglement_lib with model/{INDEX}, {folder.path} has none; "
            "give the run directory (or its zip) as published"
        )
    variables = read_tensor_bundle(lambda name: folder.read(index.removesuffix("variables.index") + name))
    weights = {name.removeprefix("module/"): array for name, array in variables.items()}
    expected = [f"{part}/{layer}" for part, layers in (("encoder", ENCODER), ("decoder", DECODER)) for layer in layers]
    missing = [name for name in expected if f"{name}/kernel" not in weights or f"{name}/bias" not in weights]
    if missing:
        raise DataError(
            f"expected the convolutional networks of the study in {folder.path}, {missing[0]} and {len(missing) - 1} "
            "more are missing; fully connected ones are not read"
        )
    channels, latents = weights["encoder/e1/kernel"].shape[2], weights["encoder/means/bias"].size
    vae = build_vae({"architecture": "locatello_conv", "latents": latents}, (channels, 64, 64))
    for half, layers in ((vae.encoder, ENCODER), (vae.decoder, DECODER)):
        modules = [m for m in half.modules() if isinstance(m, nn.Linear | nn.Conv2d | nn.ConvTranspose2d)]
        part = "encoder" if half is vae.encoder else "decoder"
        for module, layer in zip(modules, layers, strict=True):
            kernel, bias = weights[f"{part}/{layer}/kernel"], weights[f"{part}/{layer}/bias"]
            _fill(module, *_as_torch(layer, kernel, bias), f"{part}/{layer}")
    return vae.eval()


def dataset_of(folder: Folder) -> str | None:
    """Return the name of the dataset a run was trained on, as its own configuration has it."""
    name = folder.ending("model/results/json/train_config.json")
    try:
        config = json.loads(folder.read(name)) if name is not None else {}
    except ValueError:
        return None
    value = config.get("dataset.name") if isinstance(config, dict) else None
    return value.strip("'\"") if isinstance(value, str) else None


def _as_torch(layer: str, kernel: NDArray[Any], bias: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Turn TensorFlow's layouts into torch's: kernels (H, W, in, out), flattened images with the channel fastest."""
    if kernel.ndim == 4:
        return kernel.transpose(3, 2, 0, 1), bias
    if layer == "e5":
        return kernel.reshape(4, 4, 64, -1).transpose(3, 2, 0, 1).reshape(kernel.shape[1], -1), bias
    if layer == "dense_1":
        columns = kernel.reshape(-1, 4, 4, 64).transpose(3, 1, 2, 0).reshape(-1, kernel.shape[0])
        return columns, bias.reshape(4, 4, 64).transpose(2, 0, 1).ravel()
    return kernel.T, bias


def _fill(module: nn.Module, weight: NDArray[Any], bias: NDArray[Any], where: str) -> None:
    for name, value in (("weight", weight), ("bias", bias)):
        parameter = getattr(module, name)
        if parameter.shape != value.shape:
            raise DataError(f"expected {where} {name} of shape {tuple(parameter.shape)}, the file has {value.shape}")
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(np.array(value, dtype=np.float32, order="C")))
