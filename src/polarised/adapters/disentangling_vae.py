"""A model of YannDubs/disentangling-vae (`model.pt` beside `specs.json`) → our VAE or Encodings."""

import io
from pathlib import Path

from numpy.typing import ArrayLike

from polarised._io.files import Folder
from polarised.adapters._published import network_with, separate_heads
from polarised.adapters._state import state_in
from polarised.adapters.native import from_vae
from polarised.data import Dataset
from polarised.models import VAE
from polarised.regime import Encodings

__all__ = ["from_disentangling_vae", "load_disentangling_vae"]

# Layers that end in _64 are those of images of 64 pixels; of 32 there is one halving less.
ENCODER = tuple(f"encoder.{x}" for x in ("conv1", "conv2", "conv3", "conv_64", "lin1", "lin2", "mean", "log_variance"))
DECODER = tuple(f"decoder.{x}" for x in ("lin1", "lin2", "lin3", "convT_64", "convT1", "convT2", "convT3"))


def from_disentangling_vae(
    path: str | Path, data: Dataset | ArrayLike, *, examples: int = 10_000, seed: int = 0
) -> Encodings:
    """Encode images with a model of disentangling-vae [Burgess2018].

    Args:
        path: The folder, or its zip.
        data: A dataset or images to encode.
        examples: The most images to draw of a dataset.
        seed: Seed of the draw.

    Returns:
        The encodings.

    >>> from polarised.data import dsprites
    >>> from_disentangling_vae("results/betaH_dsprites", dsprites())  # doctest: +SKIP
    Encodings(10,000 inputs × 10 variables, N(0, I), factors shape, scale, orientation, posX, posY)
    """
    return from_vae(load_disentangling_vae(path), data, examples=examples, seed=seed)


def load_disentangling_vae(path: str | Path) -> VAE:
    """Return a model of disentangling-vae as our VAE with `burgess_conv`, decoder included [Burgess2018].

    Args:
        path: The folder with `model.pt` and `specs.json`.

    Returns:
        The model with the published weights.

    >>> load_disentangling_vae("results/betaH_dsprites").latents  # doctest: +SKIP
    10
    """
    folder = Folder(Path(path))
    file = folder.expect("model.pt")
    state = state_in(io.BytesIO(folder.read(file)), folder.path / file)
    weights = separate_heads(state, "encoder.mu_logvar_gen", *ENCODER[-2:])
    side = 64 if "encoder.conv_64.weight" in weights else 32
    encoder, decoder = ([x for x in half if side == 64 or not x.endswith("_64")] for half in (ENCODER, DECODER))
    return network_with(weights, "burgess_conv", encoder=encoder, decoder=decoder, side=side, where=folder.path / file)
