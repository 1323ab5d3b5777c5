"""The figures of each study, drawn from its folder. A page: `__all__` holds an entry named after each study.

An entry is called with the `Material` of a study and yields (file name, Figure); `publish` writes them down.
"""

from polarised.report.gallery.be_more_active import be_more_active, learning_dynamics
from polarised.report.gallery.decomposition import (
    decomposition_alignment,
    decomposition_clustering,
    decomposition_sparsity,
)
from polarised.report.gallery.factorised import rtc_vae
from polarised.report.gallery.identifiable import nonlinear_ica, polarised_ivae
from polarised.report.gallery.strengths import any_study

__all__ = [
    "any_study",
    "be_more_active",
    "decomposition_alignment",
    "decomposition_clustering",
    "decomposition_sparsity",
    "learning_dynamics",
    "nonlinear_ica",
    "polarised_ivae",
    "rtc_vae",
]
