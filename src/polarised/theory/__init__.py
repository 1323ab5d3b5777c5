"""The theorems of the papers as functions, so that documentation can compute them and tests can verify them.

`polarised`: the propositions and theorems on the polarised regime, measured for each variable. `annealing`: the effect
of beta on a VAE. `correlation`: the effect of passive variables and noise on the correlation of a code, the bias of
minibatch estimates of q(z), and the optimal variance of a posterior.
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
