"""What a run may measure beyond the scores of every run. A page: `__all__` is what `evaluation.further` may name.

An entry is called with the trained VAE, its dataset, the encodings of the evaluation images and the run's seed, and
returns rows (metric, representation or None, variables, value) for the tidy table.
"""

from polarised.study.further.aggregate import encoder_overlap, prior_match
from polarised.study.further.dependence import pairwise_dependence, sparsity
from polarised.study.further.factors import axis_alignment, factor_information, source_recovery
from polarised.study.further.learned_prior import prior_relation

__all__ = [
    "axis_alignment",
    "encoder_overlap",
    "factor_information",
    "pairwise_dependence",
    "prior_match",
    "prior_relation",
    "source_recovery",
    "sparsity",
]
