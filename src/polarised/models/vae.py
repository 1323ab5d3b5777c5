"""The VAE: one forward pass for every paper."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from polarised import catalogue
from polarised.errors import ConfigError
from polarised.models.likelihoods import Likelihood
from polarised.models.networks import Decoder, Encoder, seeded_weights
from polarised.models.posteriors import DiagonalGaussian
from polarised.models.priors import Prior

__all__ = ["VAE", "build_vae"]

PAGES = "polarised.models."


class VAE(nn.Module):
    """Join p(z|u), p(x|z) and q(z|x, u); a model without auxiliary variables ignores u [Kingma2014; Khemakhem2020].

    >>> import torch
    >>> vae = build_vae({"architecture": "mlp", "latents": 3}, shape=(1, 16, 16), seed=0)
    >>> tuple(vae.reconstruct(torch.zeros(2, 1, 16, 16)).shape)
    (2, 1, 16, 16)
    """

    def __init__(self, encoder: Encoder, decoder: Decoder, prior: Prior, likelihood: Likelihood) -> None:
        super().__init__()
        self.encoder, self.decoder, self.prior, self.likelihood = encoder, decoder, prior, likelihood

    @property
    def latents(self) -> int:
        """The number of latent variables."""
        return self.prior.latents

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one image."""
        return self.encoder.shape

    def posterior(self, x: Tensor, u: Tensor | None = None) -> DiagonalGaussian:
        """Return q(z|x, u) of a batch."""
        return DiagonalGaussian(*self.encoder(x, u))

    def decode(self, z: Tensor) -> Tensor:
        """Return the decoder's raw outputs, to be read by the likelihood."""
        outputs: Tensor = self.decoder(z)
        return outputs

    def reconstruct(self, x: Tensor, u: Tensor | None = None) -> Tensor:
        """Return E[x|z] at the mean of q(z|x, u)."""
        return self.generate(self.posterior(x, u).mean)

    def generate(self, z: Tensor) -> Tensor:
        """Return E[x|z], the image the decoder draws for z."""
        return self.likelihood.mean(self.decode(z))


def build_vae(config: Mapping[str, Any], shape: tuple[int, ...], auxiliary_size: int = 0, seed: int = 0) -> VAE:
    """Build the VAE a config names: architecture, latents, prior, likelihood; weights drawn from the seed.

    The prior decides whether u is used: under an unconditional one the encoder is built without it.

    >>> build_vae({"architecture": {"name": "mlp", "widths": [8]}}, shape=(5,)).latents
    10
    """
    latents = config.get("latents", 10)
    if type(latents) is not int or latents < 1:
        raise ConfigError(f"model.latents must be a whole number of at least 1, got {latents!r}; 10 is customary")
    with seeded_weights(seed):
        prior = catalogue.build(PAGES + "priors", config.get("prior", "StandardNormal"), latents, auxiliary_size)
        likelihood = catalogue.build(PAGES + "likelihoods", config.get("likelihood", "Bernoulli"))
        encoder, decoder = catalogue.build(
            PAGES + "architectures",
            config.get("architecture", "locatello_conv"),
            tuple(shape),
            latents,
            likelihood.outputs_per_value,
            auxiliary_size if prior.conditional else 0,
        )
    return VAE(encoder, decoder, prior, likelihood)
