"""A published run of disentanglement_lib (a folder or its zip) → our VAE or Encodings, without TensorFlow."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from polarised._io.files import Folder
from polarised.adapters._published import network_with
from polarised.adapters._tensor_bundle import read_tensor_bundle
from polarised.adapters.native import from_vae
from polarised.data import Dataset
from polarised.models import VAE
from polarised.regime import Encodings

__all__ = ["as_torch", "from_disentanglement_lib", "load_disentanglement_lib"]

INDEX = "tfhub/variables/variables.index"


ENCODER = tuple(f"encoder/{x}" for x in ("e1", "e2", "e3", "e4", "e5", "means", "log_var"))


DECODER = tuple(f"decoder/{x}" for x in ("dense", "dense_1", *(f"conv2d_transpose{i}" for i in ("", "_1", "_2", "_3"))))


def from_disentanglement_lib(
    path: str | Path, data: Dataset | ArrayLike, *, examples: int = 10_000, seed: int = 0
) -> Encodings:
    """Encode images with a published model of disentanglement_lib [Locatello2019].

    Args:
        path: The folder, or its zip.
        data: A dataset or images to encode.
        examples: The most images to draw of a dataset.
        seed: Seed of the draw.

    Returns:
        The encodings.

    >>> from polarised.data import dsprites
    >>> from_disentanglement_lib("250.zip", dsprites())  # doctest: +SKIP
    Encodings(10,000 inputs × 10 variables, N(0, I), factors shape, scale, orientation, posX, posY)
    """
    return from_vae(load_disentanglement_lib(path), data, examples=examples, seed=seed)


def load_disentanglement_lib(path: str | Path) -> VAE:
    """Return a published model as our VAE with `locatello_conv`, decoder included [Locatello2019, table 1].

    Args:
        path: The folder, or its zip.

    Returns:
        The model with the published weights.

    >>> load_disentanglement_lib("250.zip").latents  # doctest: +SKIP
    10
    """
    folder = Folder(Path(path))
    # A run, its model folder, or the exported network in it.
    home = folder.expect(f"model/{INDEX}", INDEX, INDEX.removeprefix("tfhub/")).removesuffix("variables.index")
    variables = read_tensor_bundle(lambda name: folder.read(home + name))
    layers = {name.removeprefix("module/"): values for name, values in variables.items()}
    weights = as_torch(layers, image=(4, 4, 64), reading="encoder/e5", drawing="decoder/dense_1")
    return network_with(weights, "locatello_conv", encoder=ENCODER, decoder=DECODER, side=64, where=folder.path)


def as_torch(
    variables: Mapping[str, NDArray[Any]], *, image: tuple[int, int, int], reading: str, drawing: str
) -> dict[str, Tensor]:
    """Return ``layer/kernel`` and ``layer/bias`` of TensorFlow as ``layer.weight`` and ``layer.bias`` of torch.

    Convolutions (height, width, in, out) become (out, in, height, width), dense layers (in, out) become (out, in). The
    layer `reading` takes a flattened `image` (height, width, channels), the layer `drawing` makes one.

    >>> kernel = np.arange(12.0).reshape(4, 3)
    >>> as_torch({"a/kernel": kernel}, image=(2, 1, 2), reading="a", drawing="b")["a.weight"][0]
    tensor([0., 6., 3., 9.])
    """
    channels_first = np.arange(np.prod(image)).reshape(image).transpose(2, 0, 1).ravel()
    found = {}
    for name, values in variables.items():
        layer, _, kind = name.rpartition("/")
        weight = values.transpose(3, 2, 0, 1) if values.ndim == 4 else values.T
        # What has another size than the image is left as it is: whoever fills a network compares shapes.
        if layer == reading and kind == "kernel" and weight.shape[-1:] == channels_first.shape:
            weight = weight[..., channels_first]
        if layer == drawing and weight.shape[:1] == channels_first.shape:
            weight = weight[channels_first]
        found[f"{layer}.{'weight' if kind == 'kernel' else kind}"] = torch.from_numpy(
            np.array(weight, dtype=np.float32, order="C")
        )
    return found
