"""The numbers of the literature on arrays: a float, or a NamedTuple where there are several."""

from polarised.metrics.gaussian import (
    correlation,
    correlation_of,
    covariance,
    effective_rank_of,
    total_correlation_of,
    wasserstein_correlation_of,
)
from polarised.metrics.information import bin_codes, entropies, information_between
from polarised.metrics.redundancy import (
    effective_rank,
    hoyer,
    mutual_information,
    mutual_information_matrix,
    mutual_information_of,
    total_correlation,
    wasserstein_correlation,
)
from polarised.metrics.uncertainty import Estimate, bootstrap

__all__ = [
    "Estimate",
    "bin_codes",
    "bootstrap",
    "correlation",
    "correlation_of",
    "covariance",
    "effective_rank",
    "effective_rank_of",
    "entropies",
    "hoyer",
    "information_between",
    "mutual_information",
    "mutual_information_matrix",
    "mutual_information_of",
    "total_correlation",
    "total_correlation_of",
    "wasserstein_correlation",
    "wasserstein_correlation_of",
]
