"""Does each variable stand for one factor? The supervised scores of the literature.

Each entry takes codes (n, d) and factor classes (n, F), except the two scores that draw by factor
(:func:`factor_vae_score`, :func:`beta_vae_score`), which take ``represent`` and ``factor_sizes``.
"""

from polarised.metrics.disentanglement.gaps import disintegration, mig, modularity, nmi_matrix, r2_matrix, sap
from polarised.metrics.disentanglement.interventions import beta_vae_score, factor_vae_score, irs
from polarised.metrics.disentanglement.prediction import dci, explicitness, infomec
from polarised.metrics.disentanglement.sources import mcc

__all__ = [
    "beta_vae_score",
    "dci",
    "disintegration",
    "explicitness",
    "factor_vae_score",
    "infomec",
    "irs",
    "mcc",
    "mig",
    "modularity",
    "nmi_matrix",
    "r2_matrix",
    "sap",
]
