"""Claims of the papers, each a function of a tidy table. A page: `__all__` is the catalogue a study's YAML names."""

from polarised.study.claims.be_more_active import (
    active_codes_agree,
    effective_rank_of_mean_counts_alive,
    effective_rank_of_sample_is_full,
    gap_closes_without_passive,
    gap_grows_with_passive,
    passive_means_inform,
    passive_samples_are_noise,
    passive_variables_grow_with_strength,
    total_correlation_of_sample_ignores_passive,
)

__all__ = [
    "active_codes_agree",
    "effective_rank_of_mean_counts_alive",
    "effective_rank_of_sample_is_full",
    "gap_closes_without_passive",
    "gap_grows_with_passive",
    "passive_means_inform",
    "passive_samples_are_noise",
    "passive_variables_grow_with_strength",
    "total_correlation_of_sample_ignores_passive",
]
