"""What a run says about learning: how correlated the mean of each variable was over training, in tidy rows."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars
from numpy.typing import NDArray

from polarised.representations.pairs import THRESHOLD
from polarised.representations.regime import Rule
from polarised.representations.timeline import Timeline, load_timeline
from polarised.study.measures import RULES, SCORES

__all__ = ["NUMBERS", "dynamics_of", "timeline_of"]

# Of each variable, over its partners and the moments of training; "with" names the type of the partners.
NUMBERS = (
    "correlated_share",
    "correlated_share_with_active",
    "late_correlated_share_with_active",
    "correlation_with_active",
    "correlation_with_passive",
    "correlation_spread",
    "correlation_spread_with_active",
    "strongest_correlation",
    "strongest_correlation_with_alive",
)


def timeline_of(directory: str | Path, *, rule: Rule = "relative") -> Timeline | None:
    """Return what was seen of a run's variables while it trained, with the types of the trained model by a rule."""
    directory = Path(directory)
    if not (directory / "snapshots.npz").exists():
        return None
    column = "type" if rule == "relative" else "standard_type"
    types = polars.read_parquet(directory / "regime.parquet", glob=False).sort("variable")[column].to_list()
    return load_timeline(directory / "snapshots.npz", final_types=types)


def dynamics_of(directory: str | Path) -> Iterator[polars.DataFrame]:
    """Yield the `NUMBERS` of each variable of a run by either rule; nothing of a run that was not watched.

    correlated_share is how often |correlation| > 0.2, correlation its average size, spread its standard deviation
    over the moments, late the second half of training, strongest the largest at the end.
    """
    for rule in RULES:
        timeline = timeline_of(directory, rule=rule)
        if timeline is not None and len(timeline) > 1:
            types = timeline.final_types
            rows = [
                (rule, metric, "mean", types[j], float(value), j)
                for metric, values in _numbers(timeline).items()
                for j, value in enumerate(values)
                if np.isfinite(value)
            ]
            yield polars.DataFrame(rows, schema={**SCORES, "variable": polars.Int64}, orient="row")


def _numbers(timeline: Timeline) -> dict[str, NDArray[Any]]:
    correlations, types = timeline.correlations, np.array(timeline.final_types)
    size, often = np.abs(correlations), np.abs(correlations) > THRESHOLD
    late = len(size) // 2
    others = ~np.eye(len(types), dtype=bool)
    active, passive, alive = (others & kind for kind in (types == "active", types == "passive", types != "passive"))
    spread = correlations.std(axis=0)
    found = (
        _over(often.mean(axis=0), others),
        _over(often.mean(axis=0), active),
        _over(often[late:].mean(axis=0), active),
        _over(size.mean(axis=0), active),
        _over(size.mean(axis=0), passive),
        _over(spread, others),
        _over(spread, active),
        np.where(others, size[-1], -np.inf).max(axis=1),
        np.where(alive, size[-1], -np.inf).max(axis=1),
    )
    return dict(zip(NUMBERS, found, strict=True))


def _over(values: NDArray[Any], partners: NDArray[np.bool_]) -> NDArray[Any]:
    """Average over the partners of each variable; NaN where it has none."""
    counts = partners.sum(axis=1)
    sums: NDArray[Any] = np.where(partners, values, 0.0).sum(axis=1)
    means: NDArray[Any] = np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)
    return means
