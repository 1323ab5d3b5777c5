"""p(x|z) p(z) and q(z|x): networks, priors, likelihoods, and the VAE that combines them."""

from polarised.models.distributions import DiagonalGaussian
from polarised.models.slicing import slice_layers
from polarised.models.vae import VAE, build_vae, load_vae, save_vae

__all__ = ["VAE", "DiagonalGaussian", "build_vae", "load_vae", "save_vae", "slice_layers"]
