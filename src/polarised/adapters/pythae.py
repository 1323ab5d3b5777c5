"""A pythae model → Encodings."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from polarised.adapters.callables import from_callable
from polarised.errors import DataError
from polarised.representations import Encodings

__all__ = ["from_pythae"]


def from_pythae(model: Any, images: ArrayLike, *, batch_size: int = 256, factors: ArrayLike | None = None) -> Encodings:
    """Encode images with a pythae VAE or a relative of it: its encoder's `embedding` and `log_covariance`.

    Models whose encoder has no Gaussian posterior (AE, RAE, WAE, VQ-VAE, S-VAE) are refused. Of models with a flow
    after the Gaussian (VAE_IAF, VAE_LinNF) the Gaussian is what is diagnosed.

    >>> from pythae.models import VAE, VAEConfig  # doctest: +SKIP
    >>> from_pythae(VAE(VAEConfig(input_dim=(1, 28, 28), latent_dim=16)), digits)  # doctest: +SKIP
    Encodings(1000 inputs, 16 latent variables, N(0, I))
    """
    import torch

    from polarised.models.networks import evaluating

    pixels = torch.as_tensor(np.asarray(images, dtype=np.float32))
    device = next(model.parameters()).device

    def encode(batch: torch.Tensor) -> tuple[Any, Any]:
        output = model.encoder(batch.to(device))
        if not {"embedding", "log_covariance"} <= set(output.keys()):
            raise DataError(
                f"expected a Gaussian posterior, the encoder of {type(model).__name__} returns "
                f"{', '.join(output.keys())}; only models with embedding and log_covariance have variables to type"
            )
        return output.embedding, output.log_covariance

    with evaluating(model):
        return from_callable(encode, torch.split(pixels, batch_size), second="log_variance", factors=factors)
