"""Tables and encodings → Figure, one function for each figure of the papers; `polarised.report.save` writes them."""

from polarised.report.figures.decomposition import (
    aggregate_posterior_density,
    magnitude_by_class,
    plane_of_strengths,
    prior_density,
    reconstruction_against_score,
    sparsity_by_regularisation,
)
from polarised.report.figures.factors import (
    estimator_bias,
    factor_against_latent,
    factor_matrices,
    latent_pairs,
    latents_by_factor,
    scores_against,
)
from polarised.report.figures.over_strength import (
    downstream_by_subset,
    metric_by_subset,
    metric_over_passive,
    total_correlation_by_strength,
    types_by_strength,
)
from polarised.report.figures.over_training import (
    correlation_counts,
    correlations_over_training,
    kl_over_training,
    ratio_over_training,
    types_over_training,
)
from polarised.report.figures.pictures import latent_walks, reconstructions, samples
from polarised.report.figures.variables import (
    correlation_heatmap,
    histograms_by_type,
    overview,
    posterior_and_prior,
)

__all__ = [
    "aggregate_posterior_density",
    "correlation_counts",
    "correlation_heatmap",
    "correlations_over_training",
    "downstream_by_subset",
    "estimator_bias",
    "factor_against_latent",
    "factor_matrices",
    "histograms_by_type",
    "kl_over_training",
    "latent_pairs",
    "latent_walks",
    "latents_by_factor",
    "magnitude_by_class",
    "metric_by_subset",
    "metric_over_passive",
    "overview",
    "plane_of_strengths",
    "posterior_and_prior",
    "prior_density",
    "ratio_over_training",
    "reconstruction_against_score",
    "reconstructions",
    "samples",
    "scores_against",
    "sparsity_by_regularisation",
    "total_correlation_by_strength",
    "types_by_strength",
    "types_over_training",
]
