"""The metrics of the literature on arrays: each returns a float, or a NamedTuple if there are several values.

Metrics: `redundancy` (what variables share), `gaps`, `prediction`, `interventions` (one variable for each factor?),
`downstream` (predicting factors). Each has a record with title, unit, reading, references and requirements.
`evaluation` combines them in tables, `estimators` estimates the total correlation from mini-batches, `streaming` is for
codes larger than memory, `uncertainty` for standard errors.
"""

from polarised.metrics import downstream as _downstream
from polarised.metrics import gaps as _gaps
from polarised.metrics import interventions as _interventions
from polarised.metrics import prediction as _prediction
from polarised.metrics import redundancy as _redundancy
from polarised.metrics._draws import represent_by_lookup
from polarised.metrics.covariance import (
    correlation,
    correlation_from_covariance,
    covariance,
    effective_rank_from_covariance,
    total_correlation_from_covariance,
    wasserstein_correlation_from_covariance,
)
from polarised.metrics.downstream import *
from polarised.metrics.evaluation import compare, evaluate, subsets
from polarised.metrics.gaps import *
from polarised.metrics.information import bin_codes, entropies, information_between
from polarised.metrics.interventions import *
from polarised.metrics.prediction import *
from polarised.metrics.redundancy import *
from polarised.metrics.uncertainty import Estimate, bootstrap

__all__ = [
    "Estimate",
    "bin_codes",
    "bootstrap",
    "compare",
    "correlation",
    "correlation_from_covariance",
    "covariance",
    "effective_rank_from_covariance",
    "entropies",
    "evaluate",
    "information_between",
    "represent_by_lookup",
    "subsets",
    "total_correlation_from_covariance",
    "wasserstein_correlation_from_covariance",
]
__all__ += _downstream.__all__
__all__ += _gaps.__all__
__all__ += _interventions.__all__
__all__ += _prediction.__all__
__all__ += _redundancy.__all__
