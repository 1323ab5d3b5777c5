"""From q(z|x) of any VAE to the type of every latent variable. NumPy only."""

from polarised.representations.encodings import Encodings
from polarised.representations.evidence import Evidence
from polarised.representations.regime import Regime, classify

__all__ = ["Encodings", "Evidence", "Regime", "classify"]
