"""p(z|u): what the latent variables are before an image is seen.

Every entry is called with the number of latents and of auxiliary variables. A pruned prior loads into the same entry
with fewer latents, so what belongs to a variable is kept in the state, not in the settings.
"""

from polarised.models.priors.conditional import Conditional
from polarised.models.priors.densities import Anisotropic, StandardNormal, StudentT
from polarised.models.priors.mixtures import GaussianMixture, Sparse
from polarised.models.priors.prior import Prior as Prior

__all__ = ["Anisotropic", "Conditional", "GaussianMixture", "Sparse", "StandardNormal", "StudentT"]
