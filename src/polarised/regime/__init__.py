"""From q(z|x) of any VAE to the type of every latent variable. NumPy only."""

from polarised.regime.classify import Regime, classify
from polarised.regime.encodings import Encodings
from polarised.regime.evidence import Evidence

__all__ = ["Encodings", "Evidence", "Regime", "classify"]
