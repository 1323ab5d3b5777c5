"""p(x|z) p(z) and q(z|x): networks, priors, likelihoods, and the VAE that joins them."""

from polarised.models.posteriors import DiagonalGaussian
from polarised.models.vae import VAE, build_vae

__all__ = ["VAE", "DiagonalGaussian", "build_vae"]
