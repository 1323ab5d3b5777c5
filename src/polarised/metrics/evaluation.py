"""Every number for one set of encodings, in one table, each with a sentence on how to read it."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from polarised.errors import ConfigError, DataError
from polarised.metrics._inputs import Integers
from polarised.metrics.downstream import logistic_regression, random_guess
from polarised.metrics.gaps import mig, modularity, sap
from polarised.metrics.interventions import Represent, beta_vae_score, factor_vae_score, irs
from polarised.metrics.prediction import dci, explicitness, infomec, mcc
from polarised.metrics.reading import reading
from polarised.metrics.redundancy import (
    effective_rank,
    hoyer,
    mutual_information,
    overlap,
    total_correlation,
    wasserstein_correlation,
)
from polarised.regime.encodings import Encodings
from polarised.registry import nearest

if TYPE_CHECKING:
    import polars as pl

__all__ = ["METRICS", "evaluate", "prior_scale", "represent_by_lookup"]

Representation = Literal["mean", "sampled"]
Scores = dict[str, float]

UNSUPERVISED: dict[str, Callable[[npt.NDArray[Any]], Scores]] = {
    "total_correlation": lambda z: {"total_correlation": total_correlation(z)},
    "mutual_information": lambda z: {
        "mutual_information": mutual_information(z),
        "mutual_information_corrected": mutual_information(z, correction="permutation"),
    },
    "effective_rank": lambda z: {"effective_rank": effective_rank(z)},
    "wasserstein_correlation": lambda z: {
        "wasserstein_correlation": wasserstein_correlation(z),
        "wasserstein_correlation_normalised": wasserstein_correlation(z, normalised=True),
    },
    "hoyer": lambda z: {"hoyer": hoyer(z)},
}

SUPERVISED: dict[str, Callable[[npt.NDArray[Any], Integers, int], Scores]] = {
    "mig": lambda z, f, seed: {"mig": mig(z, f)},
    "sap": lambda z, f, seed: {"sap": sap(z, f).score},
    "dci": lambda z, f, seed: _named("dci", dci(z, f), ("disentanglement", "completeness", "informativeness")),
    "modularity": lambda z, f, seed: {"modularity": modularity(z, f)},
    "explicitness": lambda z, f, seed: {"explicitness": explicitness(z, f).score},
    "irs": lambda z, f, seed: {"irs": irs(z, f).score},
    "infomec": lambda z, f, seed: _named(
        "infomec", infomec(z, f, seed=seed), ("modularity", "explicitness", "compactness")
    ),
    "mcc": lambda z, f, seed: {"mcc": mcc(z, f).score},
    "downstream": lambda z, f, seed: {
        "downstream_accuracy": logistic_regression(z, f).accuracy,
        "random_accuracy": random_guess(z, f, seed=seed).accuracy,
    },
}

BY_DRAWING: dict[str, Callable[[Represent, Sequence[int], npt.ArrayLike, int], Scores]] = {
    "factor_vae_score": lambda represent, sizes, scale, seed: {
        "factor_vae_score": factor_vae_score(represent, sizes, scale=scale, seed=seed).score
    },
    "beta_vae_score": lambda represent, sizes, scale, seed: {
        "beta_vae_score": beta_vae_score(represent, sizes, seed=seed).score
    },
}

METRICS: tuple[str, ...] = (*UNSUPERVISED, "overlap", *SUPERVISED, *BY_DRAWING)


def evaluate(
    encodings: Encodings,
    *,
    metrics: str | Sequence[str] = "all",
    representation: Representation | Sequence[Representation] = ("mean", "sampled"),
    seed: int = 0,
) -> "pl.DataFrame":
    """Return a table of scores: metric, representation, value, and a sentence on how to read it.

    ``metrics`` names some of :data:`METRICS`, or all that can be had: scores that need factors only where the
    encodings have them, scores that draw by factor only where every combination of factors was encoded, overlap only
    where no variance is zero. The first two thirds of the rows train what must be trained.

    >>> encodings = Encodings([[0.0, 1.0], [1.0, 0.0], [0.5, 0.1]], variance=[[0.1, 0.1]] * 3)
    >>> evaluate(encodings, metrics="effective_rank", representation="mean").columns
    ['metric', 'representation', 'value', 'reading']
    """
    import polars as pl

    chosen = _chosen(metrics)
    everything = isinstance(metrics, str) and metrics == "all"
    factors = encodings.factors
    needing = [name for name in chosen if name in SUPERVISED or name in BY_DRAWING]
    if needing and factors is None and not everything:
        need = "needs" if len(needing) == 1 else "need"
        raise DataError(f"{', '.join(needing)} {need} factors, and these encodings have none; encode labelled images")
    kinds = (representation,) if isinstance(representation, str) else tuple(representation)
    rows: list[tuple[str, str, float]] = []
    for kind in kinds:
        codes = _codes(encodings, kind, seed)
        rows += [(name, kind, value) for name, value in _without_factors(chosen, codes)]
        if factors is not None:
            scored = _with_factors(chosen, codes, factors, prior_scale(encodings), seed, everything)
            rows += [(name, kind, value) for name, value in scored]
    if "overlap" in chosen and not (everything and (encodings.variance == 0).any()):
        rows.append(("overlap", "posterior", overlap(encodings.mean, encodings.variance, seed=seed)))
    schema: dict[str, Any] = {"metric": pl.String, "representation": pl.String, "value": pl.Float64}
    table = pl.DataFrame(rows, schema=schema, orient="row")
    return table.with_columns(pl.Series("reading", [reading(name) for name, _, _ in rows], dtype=pl.String))


def represent_by_lookup(codes: npt.ArrayLike, factors: npt.ArrayLike) -> tuple[Represent, tuple[int, ...]]:
    """Return ``represent`` and ``factor_sizes`` of a dataset whose every combination of factors was encoded.

    >>> represent, sizes = represent_by_lookup([[0.5], [0.7]], [[1], [0]])
    >>> represent(np.array([[0], [1]])).ravel().tolist(), sizes
    ([0.7, 0.5], (2,))
    """
    table, labels = np.asarray(codes), np.asarray(factors, dtype=np.int64)
    if labels.ndim != 2 or len(labels) != len(table) or (labels < 0).any():
        raise DataError(f"factors must be indices (n, F) of the {len(table)} codes, got shape {labels.shape}")
    sizes = tuple(int(size) for size in labels.max(axis=0) + 1)
    combinations = math.prod(sizes)
    # Before anything of that size is made: of many factors it is beyond any memory.
    if combinations > len(labels):
        raise _incomplete(combinations, len(np.unique(labels, axis=0)))
    bases = np.append(np.cumprod(np.array(sizes[:0:-1], dtype=np.int64))[::-1], 1)
    place = np.full(combinations, -1, dtype=np.int64)
    place[labels @ bases] = np.arange(len(labels))
    if (place < 0).any():
        raise _incomplete(combinations, int((place >= 0).sum()))

    def represent(rows: Integers) -> npt.NDArray[Any]:
        return np.asarray(table.take(place[rows @ bases], axis=0))

    return represent, sizes


def prior_scale(encodings: Encodings) -> npt.NDArray[np.float64]:
    """Return the prior's standard deviation of each variable, over inputs where it depends on them.

    >>> prior_scale(Encodings([[0.0], [1.0]], variance=[[1.0], [1.0]], prior_variance=4.0))
    array([2.])
    """
    variances = np.asarray(encodings.prior_variance, dtype=np.float64)
    return np.sqrt(variances.mean(axis=0) if variances.ndim == 2 else variances)


def _incomplete(combinations: int, encoded: int) -> DataError:
    return DataError(
        f"a look-up needs all {combinations} combinations of factors encoded, got {encoded}; "
        "encode the whole dataset, or pass your own represent function"
    )


def _chosen(metrics: str | Sequence[str]) -> tuple[str, ...]:
    names = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    if names == ("all",):
        return METRICS
    for name in names:
        if name not in METRICS:
            raise ConfigError(f"no metric {name!r}{nearest(name, METRICS)}; there are {', '.join(METRICS)}, or all")
    return names


def _codes(encodings: Encodings, kind: str, seed: int) -> npt.NDArray[Any]:
    if kind == "mean":
        return encodings.mean
    if kind == "sampled":
        return encodings.sample(seed=seed)
    raise ConfigError(f"representation must be 'mean' or 'sampled', got {kind!r}")


def _without_factors(chosen: Sequence[str], codes: npt.NDArray[Any]) -> Iterator[tuple[str, float]]:
    for name in chosen:
        if name in UNSUPERVISED:
            yield from UNSUPERVISED[name](codes).items()


def _with_factors(
    chosen: Sequence[str],
    codes: npt.NDArray[Any],
    factors: Integers,
    scale: npt.NDArray[np.float64],
    seed: int,
    everything: bool,
) -> Iterator[tuple[str, float]]:
    for name in chosen:
        if name in SUPERVISED:
            yield from SUPERVISED[name](codes, factors, seed).items()
    drawing = [name for name in chosen if name in BY_DRAWING]
    if not drawing:
        return
    try:
        represent, sizes = represent_by_lookup(codes, factors)
    except DataError:
        if everything:
            return
        raise
    for name in drawing:
        yield from BY_DRAWING[name](represent, sizes, scale, seed).items()


def _named(prefix: str, result: Any, fields: Sequence[str]) -> Scores:
    return {f"{prefix}_{field}": float(getattr(result, field)) for field in fields}
