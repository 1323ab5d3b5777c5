"""What is drawn from a prior: its density over the plane, and the images a decoder makes of its codes."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polarised import catalogue
from polarised.randomness import seed_for

if TYPE_CHECKING:
    from polarised.models import VAE

__all__ = ["images_of_prior", "plane_density"]


def plane_density(prior: Any, *, extent: float = 3.0, resolution: int = 200) -> NDArray[np.float64]:
    """Return the density of a prior of the catalogue over the square of two latents, rows the second coordinate.

    >>> plane_density("GaussianMixture", resolution=3).shape
    (3, 3)
    """
    import torch

    side = torch.linspace(-extent, extent, resolution, dtype=torch.float64)
    second, first = torch.meshgrid(side, side, indexing="ij")
    built = catalogue.build("polarised.models.priors", prior, 2, 0)
    with torch.inference_mode():
        log_density = built.log_prob(torch.stack([first.ravel(), second.ravel()], dim=1))
    values: NDArray[np.float64] = log_density.exp().reshape(resolution, resolution).numpy()
    return values


def images_of_prior(vae: "VAE", *, count: int = 16, seed: int = 0) -> NDArray[np.float32]:
    """Return images decoded from draws of an unconditional prior, (count, C, H, W) in [0, 1].

    >>> from polarised.models import build_vae
    >>> vae = build_vae({"architecture": {"name": "mlp", "widths": [8]}, "latents": 3}, shape=(1, 16, 16))
    >>> images_of_prior(vae, count=4).shape
    (4, 1, 16, 16)
    """
    import torch

    generator = torch.Generator().manual_seed(seed_for(seed, "images of the prior"))
    with torch.inference_mode():
        images: NDArray[np.float32] = vae.generate(vae.prior.sample(count, generator)).clamp(0, 1).numpy()
    return images
