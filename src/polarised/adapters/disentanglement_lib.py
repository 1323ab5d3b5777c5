"""A published run of disentanglement_lib (a folder or its zip) → our VAE or Encodings, without TensorFlow."""

from pathlib import Path

from numpy.typing import ArrayLike

from polarised.adapters.archives import Folder
from polarised.adapters.foreign_networks import network_with
from polarised.adapters.native import from_vae
from polarised.adapters.tensor_bundle import read_tensor_bundle
from polarised.adapters.tensorflow_layers import as_torch
from polarised.data import Dataset
from polarised.models import VAE
from polarised.representations import Encodings

__all__ = ["from_disentanglement_lib", "load_disentanglement_lib"]

INDEX = "tfhub/variables/variables.index"
ENCODER = tuple(f"encoder/{x}" for x in ("e1", "e2", "e3", "e4", "e5", "means", "log_var"))
DECODER = tuple(f"decoder/{x}" for x in ("dense", "dense_1", *(f"conv2d_transpose{i}" for i in ("", "_1", "_2", "_3"))))


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
    # A run, its model folder, or the exported network in it.
    home = folder.expect(f"model/{INDEX}", INDEX, INDEX.removeprefix("tfhub/")).removesuffix("variables.index")
    variables = read_tensor_bundle(lambda name: folder.read(home + name))
    layers = {name.removeprefix("module/"): values for name, values in variables.items()}
    weights = as_torch(layers, image=(4, 4, 64), reading="encoder/e5", drawing="decoder/dense_1")
    return network_with(weights, "locatello_conv", encoder=ENCODER, decoder=DECODER, side=64, where=folder.path)
