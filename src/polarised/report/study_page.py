"""A study's tidy table as plain JSON, a row for each run, compact enough for 1,500 models."""

import base64
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polarised._io import plain
from polarised.errors import DataError
from polarised.regime.timeline import THRESHOLD, Timeline, correlated_shares, pairs_by_type
from polarised.report.theme import described, strength_name

if TYPE_CHECKING:
    import polars

    from polarised.regime.timeline import Timeline

__all__ = ["IDENTITY", "MEASUREMENT", "learning", "study"]

IDENTITY = ("run", "seed", "method", "strength", "dataset")


MEASUREMENT = ("metric", "representation", "variables")


VERDICTS = ("confirmed", "refuted", "undecided", "not testable")


MOST_CELLS = 400_000


def study(
    table: "polars.DataFrame",
    *,
    verdicts: Sequence[Mapping[str, Any]] = (),
    links: Mapping[str, str] | None = None,
    title: str = "",
    timelines: "Mapping[str, Timeline] | None" = None,
) -> dict[str, Any]:
    """Return what the page shows of a study; numbers of single variables are in its charts over training only.

    Args:
        table: The tidy table of the study.
        verdicts: Verdicts on its claims.
        links: The page of each run, relative to this one.
        title: The title of the page.
        timelines: What was seen of each run while it trained.

    Returns:
        What the scripts of the page read, as plain JSON types.

    Raises:
        DataError: The table lacks columns or rows, or a verdict is none.

    >>> import polars
    >>> row = {"run": "a", "seed": 0, "method": "BetaVAE", "strength": 1.0, "dataset": "dsprites", "metric": "mig"}
    >>> row |= {"representation": "mean", "variables": "full", "value": 0.25}
    >>> study(polars.DataFrame([row]))["values"]
    [[0.25]]
    """
    import polars

    missing = [name for name in (*IDENTITY, *MEASUREMENT, "value") if name not in table.columns]
    if missing:
        raise DataError(
            f"expected a tidy table with {', '.join((*IDENTITY, *MEASUREMENT, 'value'))}, "
            f"{', '.join(missing)} missing; make it with polarised study collect"
        )
    if "variable" in table.columns:
        table = table.filter(polars.col("variable").is_null())
    if table.is_empty():
        raise DataError("expected at least one measured run, got an empty table; run the study first")
    if "rule" not in table.columns:
        table = table.with_columns(rule=polars.lit(None, dtype=polars.String))
    keys = ["rule", *MEASUREMENT]
    measurements = table.select(keys).unique(maintain_order=True)
    runs = table.select(IDENTITY).unique(maintain_order=True, subset="run")
    if len(measurements) * len(runs) > MOST_CELLS:
        # One rule is enough to look at; the table on disk has both.
        first = measurements["rule"].drop_nulls().unique().sort().head(1).to_list()
        table = table.filter(polars.col("rule").is_null() | polars.col("rule").is_in(first))
        measurements = table.select(keys).unique(maintain_order=True)
    columns = {key: i for i, key in enumerate(measurements.iter_rows())}
    rows = {run: i for i, run in enumerate(runs["run"])}
    values: list[list[Any]] = [[None] * len(columns) for _ in rows]
    for run, value, *key in table.select("run", "value", *keys).iter_rows():
        values[rows[run]][columns[tuple(key)]] = _short(value)
    return {
        "title": title,
        "runs": [
            {**plain(run), "link": _safe((links or {}).get(str(run["run"])))} for run in runs.iter_rows(named=True)
        ],
        "metrics": described(measurements["metric"]),
        "strengths": {str(method): strength_name(str(method)) for method in runs["method"].unique(maintain_order=True)},
        "measurements": [dict(zip(keys, plain(key), strict=True)) for key in columns],
        "values": values,
        "verdicts": [_verdict(verdict) for verdict in verdicts],
        "learning": learning({name: own for name, own in (timelines or {}).items() if name in rows}),
    }


def _verdict(record: Mapping[str, Any]) -> dict[str, str]:
    if record.get("verdict") not in VERDICTS:
        raise DataError(f"expected a verdict of {', '.join(VERDICTS)}, got {record.get('verdict')!r}")
    return {name: str(record.get(name, "")) for name in ("claim", "verdict", "evidence")}


def _safe(link: str | None) -> str | None:
    """Return a relative link as it is; one with a scheme could run a script, and is left out."""
    return None if link is None or ":" in link.split("/")[0] else link


def _short(value: float | None) -> Any:
    return None if value is None or math.isnan(value) else plain(float(f"{value:.4g}"))


# A run of 300 moments and ten variables is kept whole; more runs or variables share the same room.
MOST_NUMBERS = 120_000


MOST_VARIABLES = 32


FEWEST_MOMENTS, MOST_MOMENTS = 24, 301


PERIODS = 12


def learning(timelines: Mapping[str, Timeline]) -> dict[str, Any]:
    """Return, for each run, its final types, and types, KL, variance ratio and correlations at moments of training.

    Counts and shares of |correlation| > 0.2 are of every moment; what is drawn over time is thinned evenly, and runs
    beyond what a page can hold are left out. Correlations are thousandths, 16-bit little-endian in base64, a moment
    after the other, the pairs (1, 0), (2, 0), (2, 1), ... of the variables shown.

    Args:
        timelines: What was seen of each run while it trained.

    Returns:
        What the scripts of the page read, as plain JSON types.

    >>> timeline = Timeline()
    >>> for step in (0, 10):
    ...     timeline.update(step, [[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> learning({"a": timeline})["runs"][0]["final"]
    'ap'
    """
    watched = {name: timeline for name, timeline in timelines.items() if len(timeline) > 1}
    costs = [_cost(timeline) for timeline in watched.values()]
    affordable = int(np.searchsorted(np.cumsum(costs) * FEWEST_MOMENTS, MOST_NUMBERS, side="right"))
    kept = dict(list(watched.items())[: max(1, affordable)])
    room = MOST_NUMBERS // max(1, sum(costs[: len(kept)]))
    moments = min(MOST_MOMENTS, max(FEWEST_MOMENTS, room))
    return {
        "threshold": THRESHOLD,
        "left_out": len(watched) - len(kept),
        "runs": [_run(name, timeline, moments) for name, timeline in kept.items()],
    }


def _run(name: str, timeline: Timeline, moments: int) -> dict[str, Any]:
    types, steps, correlations = timeline.final_types, np.array(timeline.steps), timeline.correlations
    rates = timeline.state()
    shown = _shown(rates["kl"][-1])
    at = _evenly(len(steps), moments)
    rows, columns = (np.array(side, dtype=int) for side in np.tril_indices(len(shown), -1))
    pairs = correlations[np.ix_(at, shown, shown)][:, rows, columns]
    periods = [part for part in np.array_split(np.arange(len(steps)), min(PERIODS, len(steps))) if len(part)]
    shares = [correlated_shares(correlations[part], types) for part in periods]
    return {
        "run": name,
        "variables": shown,
        "final": "".join(kind[0] for kind in types),
        "moments": len(steps),
        "counts": timeline.correlated_pairs(threshold=THRESHOLD).tolist(),
        "pairs": {kind: len(own) for kind, (own, _) in pairs_by_type(types).items()},
        "shares": {
            "whole": _rounded(correlated_shares(correlations, types)),
            "second half": _rounded(correlated_shares(correlations[len(steps) // 2 :], types)),
        },
        "periods": [
            {"from": int(steps[part[0]]), "to": int(steps[part[-1]]), "shares": _rounded(share)}
            for part, share in zip(periods, shares, strict=True)
        ],
        "steps": steps[at].tolist(),
        "types": ["".join(timeline.types[t][j][0] for j in shown) for t in at],
        "kl": _numbers(rates["kl"][np.ix_(at, shown)]),
        "ratio": _numbers(rates["ratio_mean"][np.ix_(at, shown)]),
        "correlations": base64.b64encode(np.rint(pairs * 1000).astype("<i2").tobytes()).decode("ascii"),
    }


def _cost(timeline: Timeline) -> int:
    """Return how many numbers a moment of a run takes on the page."""
    variables = min(MOST_VARIABLES, len(timeline.final_types))
    return variables * (variables - 1) // 2 + 3 * variables


def _shown(rates: NDArray[Any]) -> list[int]:
    """Return the variables to show: all, or as many as there is room for from the most informative to the least."""
    order = np.argsort(-np.nan_to_num(rates), kind="stable")
    return sorted(int(j) for j in order[_evenly(len(order), MOST_VARIABLES)])


def _evenly(count: int, most: int) -> list[int]:
    return sorted(set(np.linspace(0, count - 1, min(count, most)).round().astype(int).tolist()))


def _numbers(values: NDArray[Any]) -> Any:
    return plain([[float(f"{value:.3g}") for value in row] for row in values.tolist()])


def _rounded(shares: Mapping[str, float]) -> dict[str, float]:
    return {kind: round(share, 4) for kind, share in shares.items()}
