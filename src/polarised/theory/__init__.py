"""The theorems of the papers as functions, so that documentation can compute them and tests can hold them.

`polarised`: the propositions and theorems on the polarised regime, measured on each variable. `annealing`: what beta
does to a VAE. `correlation`: what passive variables and noise do to the correlation of a code, what minibatch estimates
of q(z) get wrong, and when a variance is worth its information.
"""

from polarised.theory.annealing import (
    annealed_gaussian,
    entropy_regularised_elbo,
    gaussian_entropy,
    gaussian_kl,
    rescaled,
    rescaling_constant,
)
from polarised.theory.correlation import (
    averaged_mutual_information,
    entropy_estimate,
    gaussian_total_correlation,
    hidden_correlation,
    no_overlap_entropy,
    no_overlap_total_correlation,
    noisy_total_correlation_limit,
    optimal_posterior_covariance,
    variance_ratio,
    with_passive,
)
from polarised.theory.polarised import (
    correlation_gap,
    mean_statement,
    mixture_distance,
    sample_distances,
    statements,
    states_of_inputs,
    types_of_states,
    variance_statement,
)

__all__ = [
    "annealed_gaussian",
    "averaged_mutual_information",
    "correlation_gap",
    "entropy_estimate",
    "entropy_regularised_elbo",
    "gaussian_entropy",
    "gaussian_kl",
    "gaussian_total_correlation",
    "hidden_correlation",
    "mean_statement",
    "mixture_distance",
    "no_overlap_entropy",
    "no_overlap_total_correlation",
    "noisy_total_correlation_limit",
    "optimal_posterior_covariance",
    "rescaled",
    "rescaling_constant",
    "sample_distances",
    "statements",
    "states_of_inputs",
    "types_of_states",
    "variance_ratio",
    "variance_statement",
    "with_passive",
]
