"""A study's tidy table as plain JSON: a row a run, a column a measurement, compact enough for 1,500 models."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from polarised.errors import DataError
from polarised.report.contents import plain
from polarised.report.learning import learning

if TYPE_CHECKING:
    import polars

    from polarised.representations.timeline import Timeline

__all__ = ["IDENTITY", "MEASUREMENT", "study"]

IDENTITY = ("run", "seed", "method", "strength", "dataset")
MEASUREMENT = ("metric", "representation", "variables")
VERDICTS = ("confirmed", "not confirmed", "undecided")
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
    values: list[list[float | None]] = [[None] * len(columns) for _ in rows]
    for run, value, *key in table.select("run", "value", *keys).iter_rows():
        values[rows[run]][columns[tuple(key)]] = _short(value)
    return {
        "title": title,
        "runs": [
            {**plain(run), "link": _safe((links or {}).get(str(run["run"])))} for run in runs.iter_rows(named=True)
        ],
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


def _short(value: float | None) -> float | None:
    if value is None or math.isnan(value):
        return None
    short: float = plain(float(f"{value:.4g}"))
    return short
