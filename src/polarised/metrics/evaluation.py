"""Tables of scores for one set of encodings: all metrics of the catalogue, or mean and sample by type.

The records of the metrics define their requirements, their values and how to read them, so a newly registered metric
appears in these tables without further changes.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from polarised import registry
from polarised._io.limits import available_memory
from polarised.errors import ConfigError, DataError
from polarised.metrics._draws import Represent, represent_by_lookup
from polarised.metrics.covariance import (
    Floats,
    covariance,
    effective_rank_from_covariance,
    total_correlation_from_covariance,
    wasserstein_correlation_from_covariance,
)
from polarised.metrics.redundancy import mutual_information_from_matrix, mutual_information_matrix
from polarised.regime.classify import Regime
from polarised.regime.encodings import Encodings, checked_encodings
from polarised.registry import Output, Record

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "beyond_doubt",
    "compare",
    "evaluate",
    "prior_scale",
    "score",
    "subsets",
    "without_passive_by_standard",
]

Representation = Literal["mean", "sampled"]
Lookup = tuple[Represent, Sequence[int]]


def evaluate(
    encodings: Encodings,
    *,
    metrics: str | Sequence[str] = "all",
    representation: Representation | Sequence[Representation] = ("mean", "sampled"),
    draw: Callable[[Representation], Lookup] | None = None,
    seed: int = 0,
) -> "pl.DataFrame":
    """Return a table of scores: metric, representation, value, and a sentence on how to read it.

    "all" selects the metrics that these encodings allow: those that need factors only if there are factors, those that
    hold a factor fixed only if every combination of factors was encoded, and those of the posterior only if no variance
    is zero. Metrics that are trained use the first two thirds of the rows for training.

    Args:
        encodings: The encodings to score.
        metrics: Names of metrics of the catalogue, ``module:name`` of your own, or "all".
        representation: The codes to score.
        draw: Returns, for a representation, the codes of any combination of factors and the number of values of each
            factor, in the format of `factor_vae_score`; by default they are looked up in the encodings.
        seed: Seed of the samples and of the metrics that draw.

    Returns:
        One row for each value; the representation of scores of the posterior itself is ``posterior``.

    Raises:
        ConfigError: If there is no such metric or representation.
        DataError: If a named metric needs something that these encodings do not have, or there are more variables or
            classes of factors than can be scored.

    >>> encodings = Encodings([[0.0, 1.0], [1.0, 0.0], [0.5, 0.1]], variance=[[0.1, 0.1]] * 3)
    >>> evaluate(encodings, metrics="effective_rank", representation="mean").columns
    ['metric', 'representation', 'value', 'reading']
    """
    import polars as pl

    everything = isinstance(metrics, str) and metrics == "all"
    chosen = _chosen(metrics)
    if not everything:
        _check_needs(chosen, encodings, draw is not None)
    _check_work(chosen, encodings)
    kinds = (representation,) if isinstance(representation, str) else tuple(representation)
    known = {"seed": seed, "scale": prior_scale(encodings)}
    found: list[tuple[str, str, float, str]] = []
    for kind in kinds:
        codes = _codes(encodings, kind, seed)
        for entry in chosen:
            if not entry.needs:
                found += _rows(entry, kind, codes, **known)
            elif entry.needs == ("factors",) and encodings.factors is not None:
                found += _rows(entry, kind, codes, encodings.factors, **known)
        drawing = [entry for entry in chosen if "drawing" in entry.needs]
        looked_up = _lookup(codes, encodings, kind, draw, everything=everything) if drawing else None
        if looked_up is not None:
            for entry in drawing:
                found += _rows(entry, kind, *looked_up, **known)
    for entry in chosen:
        if "posterior" in entry.needs and not (everything and (encodings.variance == 0).any()):
            found += _rows(entry, "posterior", encodings.mean, encodings.variance, **known)
    schema: dict[str, Any] = {
        "metric": pl.String,
        "representation": pl.String,
        "value": pl.Float64,
        "reading": pl.String,
    }
    return pl.DataFrame(found, schema=schema, orient="row")


def score(entry: Record, *supplied: Any, **known: Any) -> dict[str, float]:
    """Return all values of a metric.

    Args:
        entry: The record of the metric.
        *supplied: The arguments of the metric: codes, codes and factors, `represent` and the sizes of the factors,
            or means and variances, depending on its needs.
        **known: Settings that are passed if the metric has them, such as a seed.

    Returns:
        The value of each of its outputs, by name.

    >>> record = registry.record("metric", "effective_rank")
    >>> score(record, [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    {'effective_rank': 2.0}
    """
    accepted = registry.settings(entry.call)
    results: dict[str, Any] = {}
    values: dict[str, float] = {}
    for output in _outputs(entry):
        # Several values of one result are computed once.
        key = repr(output.settings)
        if key not in results:
            given = {name: value for name, value in known.items() if name in accepted}
            results[key] = entry.call(*supplied, **{**given, **output.settings})
        values[output.name] = float(_part(results[key], output.part))
    return values


def prior_scale(encodings: Encodings) -> Floats:
    """Return the prior standard deviation of each variable, averaged over inputs if it depends on them.

    Args:
        encodings: The encodings of the model.

    Returns:
        The standard deviations (d,).

    >>> prior_scale(Encodings([[0.0], [1.0]], variance=[[1.0], [1.0]], prior_variance=4.0))
    array([2.])
    """
    variances = np.asarray(encodings.prior_variance, dtype=np.float64)
    return np.sqrt(variances.mean(axis=0) if variances.ndim == 2 else variances)


def subsets(regime: Regime) -> dict[str, list[int]]:
    """Return the sets of variables that the paper scores: full, each type, and the pairs of types that both occur.

    The variables of a pair are in the order of its name [Bonheme2023BeMoreActive, section 4].

    Args:
        regime: The types of the variables.

    Returns:
        The indices of each set by name.

    >>> from polarised.regime import classify
    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> subsets(classify(encodings))["active_passive"]
    [0, 1]
    """
    kinds = {"active": regime.active, "mixed": regime.mixed, "passive": regime.passive}
    pairs = [("active", "mixed"), ("active", "passive"), ("mixed", "passive")]
    both = {f"{a}_{b}": kinds[a] + kinds[b] for a, b in pairs if kinds[a] and kinds[b]}
    return {"full": list(range(len(regime.types))), **kinds, **both}


MOST_BINNED = 256


def compare(
    encodings: Encodings,
    regime: Regime,
    *,
    without_passive: bool = False,
    covariances: "Mapping[str, npt.NDArray[Any]] | None" = None,
    seed: int = 0,
) -> "pl.DataFrame":
    """Score the mean and the sampled representation with four metrics, for all variables and for every subset of types.

    Columns: metric (total_correlation, mutual_information, effective_rank, wasserstein_correlation), representation
    (mean, sampled), variables (full, active, mixed, passive, active_mixed, active_passive, mixed_passive), value. The
    covariance and the bins are those of the whole code, so the scores of subsets and of the whole use the same numbers
    [Bonheme2023BeMoreActive, section 4]; a subset of fewer than two variables has no redundancy and no row. With more
    than 256 variables, the mutual information is that of 256 evenly spaced ones.

    Args:
        encodings: The encodings of the model.
        regime: The types of the same variables.
        without_passive: Whether to add the subset ``alive`` to the seven of the paper. It has a row for every model: a
            single variable, or none, shares nothing, so its total correlation, mutual information and Wasserstein
            correlation are 0.
        covariances: The covariances of "mean" and "sampled" over more inputs than the encodings contain, if known;
            then only the mutual information is computed from the encodings.
        seed: Seed of the sampled representation.

    Returns:
        One row for each value.

    Raises:
        DataError: If the regime has another number of variables.

    >>> from polarised.regime import classify
    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> compare(encodings, classify(encodings)).columns
    ['metric', 'representation', 'variables', 'value']
    """
    import polars as pl

    encodings = checked_encodings(encodings)
    if len(regime.types) != encodings.latents:
        raise DataError(
            f"expected a regime of the same {encodings.latents} variables, got one of {len(regime.types)}; "
            "classify the encodings that you compare"
        )
    rows: list[tuple[str, str, str, float]] = []
    # The cost of binned information is quadratic in the variables, and the score is an average over pairs.
    binned = np.unique(np.linspace(0, encodings.latents - 1, min(encodings.latents, MOST_BINNED)).astype(np.int64))
    scored_of = {name: of for name, of in subsets(regime).items() if len(of) > 1}
    if without_passive:
        scored_of["alive"] = regime.alive
    for representation, codes in (("mean", encodings.mean), ("sampled", encodings.sample(seed=seed))):
        matrix = covariance(codes) if covariances is None else covariances[representation]
        information = mutual_information_matrix(codes[:, binned])
        # If a type is missing, two names denote one set: its eigenvalues, most of the work, are computed once.
        known: dict[frozenset[int], dict[str, float]] = {}
        for variables, indices in scored_of.items():
            if (scored := known.get(frozenset(indices))) is None:
                block, own = np.ix_(indices, indices), np.flatnonzero(np.isin(binned, indices))
                shared = information[np.ix_(own, own)]
                scored = _redundancy(matrix[block], shared) if len(indices) > 1 else _without_redundancy(len(indices))
                if len(indices) > 1 and len(own) < 2:
                    del scored["mutual_information"]
                known[frozenset(indices)] = scored
            rows += [(metric, representation, variables, value) for metric, value in scored.items()]
    schema: dict[str, Any] = {
        "metric": pl.String,
        "representation": pl.String,
        "variables": pl.String,
        "value": pl.Float64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def without_passive_by_standard(encodings: Encodings, regime: Regime) -> tuple[float, float] | None:
    """Return the total correlation of mean and sample without the variables passive by the *standard* rule, in nats.

    Cov(z) = Cov(mean) + diag(E[variance]), so no samples are drawn.

    Args:
        encodings: The encodings of the model.
        regime: The types of the same variables.

    Returns:
        The total correlation of mean and sample; None if both rules drop the same variables, or fewer than two are
        left.

    >>> from polarised.regime import classify
    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> without_passive_by_standard(encodings, classify(encodings)) is None
    True
    """
    standard = regime.types_at(regime.alpha, rule="standard")
    kept = [j for j, kind in enumerate(standard) if kind != "passive"]
    return None if kept == regime.alive else _correlations_of(encodings, kept)


def beyond_doubt(encodings: Encodings, regime: Regime) -> tuple[float, float] | None:
    """Return the total correlation of mean and sample of the dependable variables, in nats.

    Args:
        encodings: The encodings of the model.
        regime: The types of the same variables.

    Returns:
        The total correlation of mean and sample; None if no variable is doubtful, or fewer than two are left.

    >>> from polarised.regime import classify
    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> beyond_doubt(encodings, classify(encodings)) is None
    True
    """
    return None if regime.dependable == regime.alive else _correlations_of(encodings, regime.dependable)


def _correlations_of(encodings: Encodings, variables: Sequence[int]) -> tuple[float, float] | None:
    if len(variables) < 2:
        return None
    kept = encodings.keep(variables)
    mean = covariance(kept.mean)
    sampled = mean + np.diag(kept.variance.mean(axis=0, dtype=np.float64))
    return total_correlation_from_covariance(mean), total_correlation_from_covariance(sampled)


FROM_COVARIANCE: Mapping[str, Callable[[Floats], float]] = {
    "effective_rank": effective_rank_from_covariance,
    "total_correlation": total_correlation_from_covariance,
    "wasserstein_correlation": wasserstein_correlation_from_covariance,
}


def _redundancy(matrix: Floats, information: Floats) -> dict[str, float]:
    scores = {name: of_covariance(matrix) for name, of_covariance in FROM_COVARIANCE.items()}
    return scores | {"mutual_information": mutual_information_from_matrix(information)}


def _without_redundancy(variables: int) -> dict[str, float]:
    """Return the scores of a single variable, or of none."""
    nothing = {"total_correlation": 0.0, "wasserstein_correlation": 0.0, "mutual_information": 0.0}
    return {"effective_rank": float(variables), **nothing}


def _chosen(metrics: str | Sequence[str]) -> tuple[Record, ...]:
    """Return the requested records, those with the fewest needs first, which is the order of the table."""
    names = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    found = registry.records("metric") if names == ("all",) else [registry.record("metric", name) for name in names]
    return tuple(sorted(found, key=lambda entry: len(entry.needs)))


def _check_needs(chosen: Sequence[Record], encodings: Encodings, drawn: bool) -> None:
    needing = [entry.name for entry in chosen if "factors" in entry.needs and not (drawn and "drawing" in entry.needs)]
    if needing and encodings.factors is None:
        need = "needs" if len(needing) == 1 else "need"
        raise DataError(f"{', '.join(needing)} {need} factors, these encodings have none; encode labelled images")


# The maximum cost of one score, about half an hour on one core: pairs of variables times inputs; classes times cells.
_MOST_COMPARED = 200_000_000_000
_MOST_LEARNT = 1_000_000_000
# Exact trees for a binary factor cost as much as histogram trees for twenty classes; the minimal cost of a class.
_CLASSES_OF_BINARY, _CELLS_OF_CLASS = 20, 200_000


def _check_work(chosen: Sequence[Record], encodings: Encodings) -> None:
    """Refuse more variables or classes than can be scored: a small file may have very many of both."""
    rows, variables = encodings.mean.shape
    memory = available_memory() // 2
    # Several scores compare every pair of variables, over all inputs and by eigenvalues.
    most = min(math.isqrt(memory // 32), math.isqrt(_MOST_COMPARED // rows), round(_MOST_COMPARED ** (1 / 3)))
    if variables > most:
        raise DataError(
            f"expected at most {most:,} variables to compare with each other over {rows:,} inputs in the available "
            f"time and memory, got {variables:,}; score some of them, or fewer inputs"
        )
    if encodings.factors is None or not any("factors" in entry.needs for entry in chosen):
        return
    counts = [max(len(np.unique(column)), _CLASSES_OF_BINARY) for column in encodings.factors.T]
    # A classifier inverts a matrix of all pairs of variables for each class.
    cells = max(rows * variables, variables**3 // 144, _CELLS_OF_CLASS)
    most = min(_MOST_LEARNT // cells, memory // (32 * variables**2))
    if sum(counts) > most:
        raise DataError(
            f"expected factors of at most {most:,} classes in total (each counts at least {_CLASSES_OF_BINARY}) to "
            f"score {variables:,} variables of {rows:,} inputs, got {sum(counts):,} classes of {len(counts):,} "
            "factors; keep fewer factors, variables or inputs, or name metrics that need no factors"
        )


def _codes(encodings: Encodings, kind: str, seed: int) -> npt.NDArray[Any]:
    if kind == "mean":
        return encodings.mean
    if kind == "sampled":
        return encodings.sample(seed=seed)
    raise ConfigError(f"representation must be 'mean' or 'sampled', got {kind!r}")


def _lookup(
    codes: npt.NDArray[Any],
    encodings: Encodings,
    kind: Representation,
    draw: Callable[[Representation], Lookup] | None,
    *,
    everything: bool,
) -> Lookup | None:
    if draw is not None:
        return draw(kind)
    if encodings.factors is None:
        return None
    try:
        return represent_by_lookup(codes, encodings.factors)
    except DataError:
        if everything:
            return None
        raise


def _rows(entry: Record, kind: str, *supplied: Any, **known: Any) -> Iterator[tuple[str, str, float, str]]:
    values = score(entry, *supplied, **known)
    for output in _outputs(entry):
        yield output.name, kind, values[output.name], output.reading


def _outputs(entry: Record) -> tuple[Output, ...]:
    """Return the outputs of a metric; an unregistered function has one, with its own name."""
    return entry.outputs or (Output(entry.title, reading=entry.summary),)


def _part(result: Any, name: str) -> Any:
    if name:
        return getattr(result, name)
    return result[0] if isinstance(result, tuple) else result
