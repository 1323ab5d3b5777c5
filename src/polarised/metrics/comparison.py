"""Mean or sample? The same numbers for both representations, whole and by type of variable."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polarised.errors import DataError
from polarised.metrics.covariance import covariance, effective_rank_of, total_correlation_of, wasserstein_correlation_of
from polarised.metrics.redundancy import mutual_information_matrix, mutual_information_of
from polarised.regime.classify import Regime
from polarised.regime.encodings import Encodings, checked_encodings

if TYPE_CHECKING:
    import polars

__all__ = ["compare", "subsets", "without_passive_by_standard"]

Array = NDArray[np.float64]


def subsets(regime: Regime) -> dict[str, list[int]]:
    """Return the sets of variables the paper scores: full, each type, and the pairs of types that both exist.

    Variables of a pair keep the order of its name [Bonheme2023BeMoreActive, section 4].
    """
    kinds = {"active": regime.active, "mixed": regime.mixed, "passive": regime.passive}
    pairs = [("active", "mixed"), ("active", "passive"), ("mixed", "passive")]
    both = {f"{a}_{b}": kinds[a] + kinds[b] for a, b in pairs if kinds[a] and kinds[b]}
    return {"full": list(range(len(regime.types))), **kinds, **both}


def compare(
    encodings: Encodings,
    regime: Regime,
    *,
    without_passive: bool = False,
    covariances: Mapping[str, Array] | None = None,
    seed: int = 0,
) -> "polars.DataFrame":
    """Score the mean and the sampled representation, whole and on every subset of types, with the same four numbers.

    Columns: metric (total_correlation, mutual_information, effective_rank, wasserstein_correlation), representation
    (mean, sampled), variables (full, active, mixed, passive, active_mixed, active_passive, mixed_passive), value. The
    covariance and the bins are those of the whole code, so a subset is scored on the very numbers that make up the
    whole [Bonheme2023BeMoreActive, section 4]; a subset of fewer than two variables has no redundancy and no row.

    `without_passive` adds the subset ``alive`` to the paper's seven. It has a row for every model: one variable or none
    shares nothing, so total correlation, mutual information and Wasserstein correlation are 0 there.

    `covariances` are those of "mean" and "sampled" over more inputs than the encodings hold, where they are known; only
    mutual information is then that of the encodings.

    >>> from polarised.regime import classify
    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> compare(encodings, classify(encodings)).columns
    ['metric', 'representation', 'variables', 'value']
    """
    import polars

    encodings = checked_encodings(encodings)
    if len(regime.types) != encodings.latents:
        raise DataError(
            f"expected a regime of the same {encodings.latents} variables, got one of {len(regime.types)}; "
            "classify the encodings you compare"
        )
    rows: list[tuple[str, str, str, float]] = []
    scored_of = {name: of for name, of in subsets(regime).items() if len(of) > 1}
    if without_passive:
        scored_of["alive"] = regime.alive
    for representation, codes in (("mean", encodings.mean), ("sampled", encodings.sample(seed=seed))):
        matrix = covariance(codes) if covariances is None else covariances[representation]
        information = mutual_information_matrix(codes)
        for variables, indices in scored_of.items():
            block = np.ix_(indices, indices)
            scored = _scores(matrix[block], information[block]) if len(indices) > 1 else _alone(len(indices))
            rows += [(metric, representation, variables, value) for metric, value in scored.items()]
    schema: dict[str, Any] = {
        "metric": polars.String,
        "representation": polars.String,
        "variables": polars.String,
        "value": polars.Float64,
    }
    return polars.DataFrame(rows, schema=schema, orient="row")


def without_passive_by_standard(encodings: Encodings, regime: Regime) -> tuple[float, float] | None:
    """Return the total correlation of mean and sample without what the *standard* rule calls passive, in nats.

    Cov(z) = Cov(mean) + diag(E[variance]), so nothing is drawn. None where the rules drop the same variables, or
    fewer than two are left.

    >>> from polarised.regime import classify
    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> without_passive_by_standard(encodings, classify(encodings)) is None
    True
    """
    standard = regime.types_at(regime.alpha, rule="standard")
    kept = [j for j, kind in enumerate(standard) if kind != "passive"]
    if kept == regime.alive or len(kept) < 2:
        return None
    block = np.ix_(kept, kept)
    mean = covariance(encodings.mean)
    sampled = mean + np.diag(encodings.variance.mean(axis=0, dtype=np.float64))
    return total_correlation_of(mean[block]), total_correlation_of(sampled[block])


def _scores(matrix: Array, information: Array) -> dict[str, float]:
    of_covariance: dict[str, Callable[[Array], float]] = {
        "effective_rank": effective_rank_of,
        "total_correlation": total_correlation_of,
        "wasserstein_correlation": wasserstein_correlation_of,
    }
    scores = {name: score(matrix) for name, score in of_covariance.items()}
    return scores | {"mutual_information": mutual_information_of(information)}


def _alone(variables: int) -> dict[str, float]:
    """Return the scores of one variable, or of none."""
    nil = {"total_correlation": 0.0, "wasserstein_correlation": 0.0, "mutual_information": 0.0}
    return {"effective_rank": float(variables), **nil}
