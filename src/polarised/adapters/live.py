"""One code to its image and one image to its code, in NumPy, while somebody moves a slider."""

import threading

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from polarised.errors import DataError
from polarised.models import VAE

__all__ = ["Live"]


class Live:
    """A VAE that answers with arrays, one question at a time whatever the number of threads that ask.

    >>> from polarised.models import build_vae
    >>> live = Live(build_vae({"architecture": {"name": "mlp", "widths": [8]}, "latents": 3}, shape=(1, 16, 16)))
    >>> live.decode([0.0, 1.0, 2.0]).shape
    (1, 16, 16)
    """

    def __init__(self, vae: VAE) -> None:
        self.vae = vae.eval()
        self.home = next((p.device for p in vae.parameters()), torch.device("cpu"))
        self._turn = threading.Lock()

    @property
    def latents(self) -> int:
        """The number of latent variables."""
        return self.vae.latents

    def decode(self, code: ArrayLike) -> NDArray[np.float32]:
        """Return the image E[x|z] in [0, 1]."""
        z = np.asarray(code, dtype=np.float32)
        if z.shape != (self.latents,) or not np.isfinite(z).all():
            raise DataError(f"expected {self.latents} finite numbers, got shape {z.shape}")
        with self._turn, torch.inference_mode():
            image = self.vae.generate(torch.from_numpy(z)[None].to(self.home))[0]
        drawn: NDArray[np.float32] = image.clamp(0, 1).cpu().numpy()
        return drawn

    def encode(
        self, image: NDArray[np.float32], u: NDArray[np.float32] | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return mean and variance of q(z|x, u)."""
        with self._turn, torch.inference_mode():
            x = torch.from_numpy(np.ascontiguousarray(image))[None].to(self.home)
            auxiliary = None if u is None else torch.from_numpy(np.ascontiguousarray(u))[None].to(self.home)
            posterior = self.vae.posterior(x, auxiliary)
            return posterior.mean[0].cpu().numpy(), posterior.variance[0].cpu().numpy()
