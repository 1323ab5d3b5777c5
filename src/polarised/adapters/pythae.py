"""A pythae model → Encodings."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from polarised.adapters.callables import from_callable
from polarised.errors import DataError
from polarised.regime import Encodings
from polarised.regime.encodings import as_array

__all__ = ["from_pythae"]


def from_pythae(
    model: Any,
    images: ArrayLike,
    *,
    batch_size: int = 256,
    factors: ArrayLike | None = None,
    certain: bool = False,
) -> Encodings:
    """Encode images with a pythae VAE or a relative of it: its encoder's `embedding` and `log_covariance`.

    Models whose encoder has no Gaussian posterior (AE, RAE, WAE, VQ-VAE, S-VAE) are refused. Of models with a flow
    after the Gaussian (VAE_IAF, VAE_LinNF) the Gaussian is what is diagnosed. The prior of VAMP, the mean of the
    posteriors of its pseudo-inputs, enters by its mean and variance [Tomczak2018]. `certain` is that of
    `from_callable`.

    >>> from pythae.models import VAE, VAEConfig  # doctest: +SKIP
    >>> from_pythae(VAE(VAEConfig(input_dim=(1, 28, 28), latent_dim=16)), digits)  # doctest: +SKIP
    Encodings(1000 inputs, 16 latent variables, N(0, I))
    """
    import torch

    from polarised.models.networks import evaluating

    pixels = torch.as_tensor(as_array(images).astype(np.float32))
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
        prior_mean, prior_variance = _pseudo_prior(model) if hasattr(model, "pseudo_inputs") else (0.0, 1.0)
        return from_callable(
            encode,
            torch.split(pixels, batch_size),
            second="log_variance",
            certain=certain,
            prior_mean=prior_mean,
            prior_variance=prior_variance,
            factors=factors,
        )


def _pseudo_prior(model: Any) -> tuple[ArrayLike, ArrayLike]:
    """Return mean and variance of the mixture of posteriors that is the prior of a VAMP."""
    import torch

    with torch.no_grad():
        drawn = model.pseudo_inputs(model.idle_input.to(next(model.parameters()).device))
        output = model.encoder(drawn.reshape(-1, *model.model_config.input_dim))
    mean, log_variance = (as_array(part).astype(np.float64) for part in (output.embedding, output.log_covariance))
    return mean.mean(axis=0), np.exp(log_variance).mean(axis=0) + mean.var(axis=0)
