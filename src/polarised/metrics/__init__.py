"""The numbers of the literature on arrays: a float, or a NamedTuple where there are several.

Pages: `redundancy` (what variables share), `disentanglement` (one variable a factor?), `estimators` (total
correlation from mini-batches), `downstream` (predicting factors). `comparison` scores mean against sampled codes,
`streaming` codes larger than memory, `reading` says in a sentence how to read each number.
"""

from polarised.metrics.covariance import (
    correlation,
    correlation_of,
    covariance,
    effective_rank_of,
    total_correlation_of,
    wasserstein_correlation_of,
)
from polarised.metrics.downstream import (
    boosted_trees,
    downstream_by_subset,
    logistic_regression,
    random_guess,
    reduced_downstream,
)
from polarised.metrics.evaluation import evaluate, represent_by_lookup
from polarised.metrics.gaps import disintegration, mig, modularity, nmi_matrix, r2_matrix, sap
from polarised.metrics.information import bin_codes, entropies, information_between
from polarised.metrics.interventions import beta_vae_score, factor_vae_score, irs
from polarised.metrics.prediction import dci, dci_of, explicitness, infomec, mcc
from polarised.metrics.reading import READINGS
from polarised.metrics.redundancy import (
    effective_rank,
    hoyer,
    mutual_information,
    mutual_information_matrix,
    mutual_information_of,
    overlap,
    total_correlation,
    wasserstein_correlation,
)
from polarised.metrics.uncertainty import Estimate, bootstrap

__all__ = [
    "READINGS",
    "Estimate",
    "beta_vae_score",
    "bin_codes",
    "boosted_trees",
    "bootstrap",
    "correlation",
    "correlation_of",
    "covariance",
    "dci",
    "dci_of",
    "disintegration",
    "downstream_by_subset",
    "effective_rank",
    "effective_rank_of",
    "entropies",
    "evaluate",
    "explicitness",
    "factor_vae_score",
    "hoyer",
    "infomec",
    "information_between",
    "irs",
    "logistic_regression",
    "mcc",
    "mig",
    "modularity",
    "mutual_information",
    "mutual_information_matrix",
    "mutual_information_of",
    "nmi_matrix",
    "overlap",
    "r2_matrix",
    "random_guess",
    "reduced_downstream",
    "represent_by_lookup",
    "sap",
    "total_correlation",
    "total_correlation_of",
    "wasserstein_correlation",
    "wasserstein_correlation_of",
]
