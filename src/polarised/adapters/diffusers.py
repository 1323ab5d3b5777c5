"""An AutoencoderKL of diffusers (Stable Diffusion and its kin) → Encodings."""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from polarised.adapters.callables import from_callable
from polarised.regime import Encodings
from polarised.regime.encodings import as_array

__all__ = ["from_diffusers"]


def from_diffusers(
    model: Any,
    images: ArrayLike,
    *,
    batch_size: int = 8,
    positions: Literal["observations", "variables"] = "observations",
    certain: bool = False,
) -> Encodings:
    """Encode images with an AutoencoderKL: latents (n, channels, height, width), read from `latent_dist`.

    A channel is a variable and each position of an image an observation of it; ``positions="variables"`` makes every
    position a variable of its own. Images are given as the model was trained, as a rule in [-1, 1]. `certain` is that
    of `from_callable`.

    >>> from diffusers import AutoencoderKL  # doctest: +SKIP
    >>> from_diffusers(AutoencoderKL.from_pretrained("stabilityai/sd-vae-ft-mse"), images)  # doctest: +SKIP
    Encodings(4096 inputs, 4 latent variables, N(0, I))
    """
    import torch

    from polarised.models.networks import evaluating

    pixels = torch.as_tensor(as_array(images).astype(np.float32))
    parameter = next(model.parameters())

    def encode(batch: torch.Tensor) -> tuple[Any, Any]:
        posterior = model.encode(batch.to(parameter)).latent_dist
        return posterior.mean, posterior.logvar

    with evaluating(model):
        return from_callable(
            encode, torch.split(pixels, batch_size), second="log_variance", certain=certain, positions=positions
        )
