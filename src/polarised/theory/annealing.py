"""A beta-VAE as a VAE with a flattened or sharpened prior, more entropy, and another scale of the latent space."""

import copy
import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polarised.errors import ConfigError
from polarised.models.vae import VAE

__all__ = [
    "annealed_gaussian",
    "entropy_regularised_elbo",
    "gaussian_entropy",
    "gaussian_kl",
    "rescaled",
    "rescaling_constant",
]

Array = NDArray[np.float64]


def gaussian_kl(mean: Array, covariance: Array, prior_covariance: Array) -> float:
    """Return KL(N(mean, covariance) || N(0, prior_covariance)), full covariances.

    KL = (tr(P^-1 S) + m' P^-1 m - d + log|P| - log|S|) / 2

    Args:
        mean: The mean m, (d,).
        covariance: The covariance S, (d, d).
        prior_covariance: The covariance P of the prior, (d, d).

    Returns:
        The divergence in nats.

    >>> gaussian_kl(np.ones(2), np.eye(2), np.eye(2))
    1.0
    """
    inverse = np.linalg.inv(prior_covariance)
    log_ratio = np.linalg.slogdet(prior_covariance)[1] - np.linalg.slogdet(covariance)[1]
    return float(0.5 * (np.trace(inverse @ covariance) + mean @ inverse @ mean - len(mean) + log_ratio))


def gaussian_entropy(covariance: Array) -> float:
    """Return H[N(m, S)] = (d (1 + log 2 pi) + log|S|) / 2.

    Args:
        covariance: The covariance S, (d, d).

    Returns:
        The entropy in nats.

    >>> round(gaussian_entropy(np.eye(1)), 4)
    1.4189
    """
    size = len(covariance)
    return float(0.5 * (size * (1 + math.log(2 * math.pi)) + np.linalg.slogdet(covariance)[1]))


def annealed_gaussian(prior_covariance: Array, beta: float) -> tuple[Array, float]:
    """Return the covariance of f = p^beta / F and log F, for p = N(0, S) [Mathieu2019, theorem 1].

    f = N(0, S / beta), log F = (1 - beta)/2 (d log 2 pi + log|S|) - d/2 log beta, and
    distortion + beta KL(q || p) = distortion + KL(q || f) - (beta - 1) H[q] - log F.

    Args:
        prior_covariance: The covariance S, (d, d).
        beta: The weight of the rate.

    Returns:
        The covariance of f, and log F.

    >>> covariance, log_normaliser = annealed_gaussian(np.eye(2), 1.0)
    >>> log_normaliser
    0.0
    """
    size, log_determinant = len(prior_covariance), np.linalg.slogdet(prior_covariance)[1]
    log_normaliser = 0.5 * (1 - beta) * (size * math.log(2 * math.pi) + log_determinant) - 0.5 * size * math.log(beta)
    return prior_covariance / beta, float(log_normaliser)


def rescaled(vae: VAE, beta: float) -> VAE:
    """Return the same VAE with its latent space scaled by sqrt(beta) [Mathieu2019, corollary 1].

    mean' = sqrt(beta) mean, S' = beta S, decoder'(z) = decoder(z / sqrt(beta)). Under the standard normal prior,
    L_beta of the given VAE equals, for each image, L_1 of this one + (beta - 1)/2 log|S'| + `rescaling_constant`.

    Args:
        vae: The model, which is not changed.
        beta: The weight of the rate.

    Returns:
        A new model.

    Raises:
        ConfigError: If beta is not positive, or the encoder's second head is not the log-variance.

    >>> from polarised.models import build_vae
    >>> vae = build_vae({"architecture": "mlp", "latents": 2}, shape=(3,))
    >>> x = torch.rand(4, 3)
    >>> bool(torch.allclose(rescaled(vae, 4.0).posterior(x).mean, 2 * vae.posterior(x).mean))
    True
    """
    if vae.encoder.scale != "exponential" or not beta > 0:
        raise ConfigError(
            f"expected a positive beta and an encoder whose second head is the log-variance, got beta {beta} and "
            f"{vae.encoder.scale!r}; build the VAE with another architecture, for example mlp"
        )
    stretched, root = copy.deepcopy(vae), math.sqrt(beta)
    mean_head, log_variance_head = stretched.encoder.mean_head, stretched.encoder.log_variance_head
    with torch.no_grad():
        mean_head.weight.mul_(root)
        if mean_head.bias is not None:
            mean_head.bias.mul_(root)
        if log_variance_head.bias is not None:
            log_variance_head.bias.add_(math.log(beta))
        stretched.decoder.input.weight.div_(root)
    return stretched


def rescaling_constant(latents: int, beta: float) -> float:
    """Return c = d (beta - 1)/2 (1 + log(2 pi / beta)) + log F of corollary 1, for the standard normal prior.

    Args:
        latents: The number d of latent variables.
        beta: The weight of the rate.

    Returns:
        The constant c in nats.

    >>> rescaling_constant(10, 1.0)
    0.0
    """
    log_normaliser = annealed_gaussian(np.eye(latents), beta)[1]
    return latents * (beta - 1) / 2 * (1 + math.log(2 * math.pi / beta)) + log_normaliser


def entropy_regularised_elbo(vae: VAE, x: Tensor, *, beta: float, noise: Tensor) -> Tensor:
    """Return L_1 + (beta - 1)/2 log|S| of every image, shape (B,) [Mathieu2019, eq. 5].

    The stationary points of L_beta are those of this bound, scaled by sqrt(beta) [Mathieu2019, corollary 2].

    Args:
        vae: The model.
        x: The images, (B, *shape).
        beta: The weight of the rate.
        noise: The noise of the samples, (B, d).

    Returns:
        The bound of every image in nats, (B,).

    >>> from polarised.models import build_vae
    >>> vae = build_vae({"architecture": "mlp", "latents": 2}, shape=(3,))
    >>> tuple(entropy_regularised_elbo(vae, torch.rand(4, 3), beta=4.0, noise=torch.zeros(4, 2)).shape)
    (4,)
    """
    posterior = vae.posterior(x)
    z = posterior.sample(noise=noise)
    elbo = vae.likelihood.log_prob(x, vae.decode(z)) - vae.prior.kl(posterior, z).sum(1)
    return elbo + (beta - 1) / 2 * posterior.log_variance.sum(1)
