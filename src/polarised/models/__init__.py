"""p(x|z) p(z) and q(z|x): networks, priors, likelihoods, and the VAE that joins them."""

from polarised.models.posteriors import DiagonalGaussian
from polarised.models.pruning import PruningReport, prune, pruned_config, pruning_report
from polarised.models.slicing import slice_layers
from polarised.models.storage import load_vae, save_vae
from polarised.models.vae import VAE, build_vae

__all__ = [
    "VAE",
    "DiagonalGaussian",
    "PruningReport",
    "build_vae",
    "load_vae",
    "prune",
    "pruned_config",
    "pruning_report",
    "save_vae",
    "slice_layers",
]
