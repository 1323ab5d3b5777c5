"""A study's tidy table as plain JSON, one row per run, compact enough for 1,500 models."""

import base64
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from polarised._io import plain
from polarised._io.files import contained
from polarised._io.tables import read_table
from polarised._io.text import read_small
from polarised.errors import DataError
from polarised.regime.timeline import THRESHOLD, Timeline, correlated_shares, pairs_by_type
from polarised.report.theme import VERDICTS, described, strength_name

if TYPE_CHECKING:
    import polars

__all__ = ["IDENTITY", "MEASUREMENT", "learning", "read_folder", "study"]

PAGE = "report.html"
MEASURED = "These models were measured, not trained here; their archives describe the training."

IDENTITY = ("run", "seed", "method", "strength", "dataset")
MEASUREMENT = ("metric", "representation", "variables")
MOST_CELLS = 400_000


def study(
    table: "polars.DataFrame",
    *,
    verdicts: Sequence[Mapping[str, Any]] = (),
    links: Mapping[str, str] | None = None,
    title: str = "",
    timelines: "Mapping[str, Timeline] | None" = None,
    provenance: str = "",
) -> dict[str, Any]:
    """Return the data of the page of a study; numbers of single variables are only in its charts over training.

    Args:
        table: The tidy table of the study.
        verdicts: Verdicts on its claims.
        links: The page of each run, relative to this one.
        title: The title of the page.
        timelines: The timeline of each run's training.
        provenance: Where the runs come from, in a sentence.

    Returns:
        The data for the scripts of the page, as plain JSON types.

    Raises:
        DataError: If the table lacks columns or rows, or a verdict is unknown.

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
            f"but {', '.join(missing)} missing; create it with polarised study collect"
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
        # The page shows one rule; the table on disk has both.
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
        "provenance": provenance,
        "runs": [
            {**plain(run), "link": _safe((links or {}).get(str(run["run"])))} for run in runs.iter_rows(named=True)
        ],
        "metrics": described(measurements["metric"]),
        "strengths": {str(method): strength_name(str(method)) for method in runs["method"].unique(maintain_order=True)},
        "measurements": [dict(zip(keys, plain(key), strict=True)) for key in columns],
        "values": values,
        "headline": _headline(verdicts),
        "verdicts": [_verdict(verdict) for verdict in verdicts],
        "learning": learning({name: own for name, own in (timelines or {}).items() if name in rows}),
    }


def _verdict(record: Mapping[str, Any]) -> dict[str, str]:
    if record.get("verdict") not in VERDICTS:
        raise DataError(f"expected a verdict of {', '.join(VERDICTS)}, got {record.get('verdict')!r}")
    return {name: str(record.get(name) or "") for name in ("name", "claim", "method", "dataset", "verdict", "evidence")}


def _headline(verdicts: Sequence[Mapping[str, Any]]) -> str:
    """Return the verdicts in one sentence, in the words of the screen."""
    from polarised.study.claims.check import LAWS, Verdict, Verification

    known = [_verdict(record) for record in verdicts]
    if not known:
        return ""
    decided = [Verdict("", "", cast("Any", v["verdict"]), "", method=v["method"]) for v in known]
    found = Verification(tuple(decided))
    claims = sum(v["method"] != LAWS for v in known)
    return f"Of {claims:,} claim{'' if claims == 1 else 's'}: {found.headline}."


def _safe(link: str | None) -> str | None:
    """Return a relative link unchanged; one with a scheme could run a script and is omitted."""
    return None if link is None or ":" in link.split("/")[0] else link


def _short(value: float | None) -> Any:
    return None if value is None or math.isnan(value) else plain(float(f"{value:.4g}"))


# A run of 300 moments and ten variables is complete; more runs or variables share the same space.
MOST_NUMBERS = 120_000
MOST_VARIABLES = 32
FEWEST_MOMENTS, MOST_MOMENTS = 24, 301
PERIODS = 12


def learning(timelines: Mapping[str, Timeline]) -> dict[str, Any]:
    """Return, for each run, its final types, and types, KL, variance ratio and correlations at moments of training.

    Counts and shares of |correlation| > 0.2 include every moment; curves over time are thinned evenly, and runs
    beyond the capacity of a page are left out. Correlations are thousandths, 16-bit little-endian in base64, one moment
    after the other, for the pairs (1, 0), (2, 0), (2, 1), ... of the shown variables.

    Args:
        timelines: The timeline of each run's training.

    Returns:
        The data for the scripts of the page, as plain JSON types.

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
    """Return the number of values per moment of a run on the page."""
    variables = min(MOST_VARIABLES, len(timeline.final_types))
    return variables * (variables - 1) // 2 + 3 * variables


def _shown(rates: NDArray[Any]) -> list[int]:
    """Return the variables to show: all, or as many as fit, spread from the most to the least informative."""
    order = np.argsort(-np.nan_to_num(rates), kind="stable")
    return sorted(int(j) for j in order[_evenly(len(order), MOST_VARIABLES)])


def _evenly(count: int, most: int) -> list[int]:
    return sorted(set(np.linspace(0, count - 1, min(count, most)).round().astype(int).tolist()))


def _numbers(values: NDArray[Any]) -> Any:
    return plain([[float(f"{value:.3g}") for value in row] for row in values.tolist()])


def _rounded(shares: Mapping[str, float]) -> dict[str, float]:
    return {kind: round(share, 4) for kind, share in shares.items()}


def read_folder(path: Path, page: Path) -> tuple["polars.DataFrame", dict[str, Any]]:
    """Return the table of a study's folder, or of its ``results.parquet``, and the other content of its page.

    Args:
        path: The folder, or its ``results.parquet``.
        page: The path of the page, for relative links to the pages of runs.

    Returns:
        The table, and the keywords of `write_report`: title, verdicts, links, timelines, provenance.
    """
    from polarised.study.claims.verify import published_verdicts, verify
    from polarised.study.measures import timeline_of
    from polarised.study.results import collect
    from polarised.study.runner import read_models, read_study

    folder = path if path.is_dir() else path.parent
    known = read_study(folder) if (folder / "study.json").is_file() else None
    results = collect(folder) if path.is_dir() and known else folder / "results.parquet"
    table = read_table(results)
    found = verify(folder if path.is_dir() else path) if known else published_verdicts(folder)
    verdicts = [own.to_dict() for own in (found.verdicts if found else ())]
    runs = {str(run): contained(folder, str(run), source=results) for run in table["run"].unique(maintain_order=True)}
    links = {
        run: Path(os.path.relpath(directory / PAGE, page.parent)).as_posix()
        for run, directory in runs.items()
        if (directory / PAGE).is_file()
    }
    rule = "used" if known is None else known.rule
    seen = {run: timeline_of(directory, rule=rule) for run, directory in runs.items()}
    timelines = {run: timeline for run, timeline in seen.items() if timeline is not None}
    measured = known is not None and read_models(folder) is not None
    about = {
        "title": _title(folder) if known is None else known.title,
        "verdicts": verdicts,
        "links": links,
        "timelines": timelines,
        "provenance": MEASURED if measured else "",
    }
    return table, about


def _title(folder: Path) -> str:
    """Return the title of a published folder: the heading of its README, else its name."""
    readme = folder / "README.md"
    first = read_small(readme).partition("\n")[0] if readme.is_file() else ""
    return first.removeprefix("# ").strip() if first.startswith("# ") else folder.resolve().name
