"""Run directories → one tidy table: one row per number, with the same columns for every study."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import polars

from polarised._io.files import replacing
from polarised._io.tables import read_stacked
from polarised.errors import DataError
from polarised.regime.classify import Rule
from polarised.study.grid import Point
from polarised.study.measures import SCORE_COLUMNS, dynamics_of
from polarised.study.runner import read_study
from polarised.study.stages import read_done
from polarised.study.storage import at_hand, is_address, naming_full_disk

__all__ = [
    "COLUMNS",
    "KINDS",
    "collect",
    "results_of",
]

# The columns of every table of results and their content; the strength of some methods is a string.
KINDS = {
    "run": "text",
    "seed": "number",
    "method": "text",
    "strength": "plain",
    "dataset": "text",
    "representation": "text",
    "variables": "text",
    "metric": "text",
    "value": "number",
}


COLUMNS = tuple(KINDS)


TABLES = ("scores.parquet", "reconstruction.parquet", "settling.parquet", "downstream.parquet", "further.parquet")


# Number of runs whose tables are in memory at a time.
AT_ONCE = 1000


LARGE = ("model.safetensors", "encodings.npz", "histograms.npz", "checkpoint.safetensors")


def collect(root: str | Path, *, rule: Rule | None = None, mixed: bool = False) -> Path:
    """Write ``results.parquet`` in a study's folder from the finished runs; return its path.

    Columns: run, seed, method, strength, dataset, representation, variables, metric, value, one for every other
    axis, and `variable` for the numbers of single variables in runs with snapshots. `rule` is the rule of the types
    of the variables; by default that of the study. Runs made by different code are refused
    unless `mixed`.

    Args:
        root: The folder or address of a study.
        rule: The rule of the types; default: that of the study.
        mixed: Whether runs made by different code may be in one table.

    Returns:
        The path of the table.
    """
    study = read_study(root)
    with at_hand(root, without=LARGE) as folder:
        table = results_of(study.points, folder, rule=rule or study.rule, named=root, mixed=mixed)
    if is_address(root):
        path = Path(f"results-{str(root).rstrip('/').rpartition('/')[2]}.parquet")
    else:
        path = Path(root) / "results.parquet"
    with naming_full_disk(path.parent), replacing(path) as temporary:
        table.write_parquet(temporary)
    return path


def results_of(
    points: Sequence[Point],
    root: str | Path,
    *,
    rule: Rule | None = "used",
    named: str | Path | None = None,
    mixed: bool = False,
) -> polars.DataFrame:
    """Return the tidy table of the finished runs; `named` is the name of the folder in errors.

    `rule` is the rule of the types; None keeps all, with a column `rule`. Runs made by different
    code are refused unless `mixed`: differences of the code would be attributed to the methods.
    """
    found = [(point, read_done(Path(root) / point.run.name)) for point in points]
    done = [point for point, about in found if about is not None and about.evaluation == point.run.evaluation]
    codes = Counter(about.code for _, about in found if about is not None and about.code)
    if len(codes) > 1 and not mixed:
        counts = ", ".join(f"{count} by {code}" for code, count in codes.most_common(5))
        raise DataError(
            f"expected runs of one version of the code in {named or root}, got {counts}; repeat them with one version, "
            "or allow a mixed table with mixed=True"
        )
    if not done:
        place = named or root
        raise DataError(
            f"expected finished runs in {place}, but there are none yet; see polarised study status {place}"
        )
    parts = [_scores_of(done[start : start + AT_ONCE], Path(root), rule) for start in range(0, len(done), AT_ONCE)]
    joined = polars.concat(parts, how="diagonal_relaxed").join(
        _labels(done), on="run", how="left", maintain_order="left"
    )
    others = [name for name in joined.columns if name not in COLUMNS]
    return joined.select(*COLUMNS, *others).with_columns(polars.col("seed").cast(polars.Int64))


def _scores_of(points: Sequence[Point], root: Path, rule: Rule | None) -> polars.DataFrame:
    """Return the scores of some runs by a rule, with a column `run`."""
    files = [
        (number, root / point.run.name / name)
        for number, point in enumerate(points)
        for name in TABLES
        if (root / point.run.name / name).exists()
    ]
    runs = polars.Series("number", [number for number, _ in files], dtype=polars.Int64)
    tables = []
    if files:
        stacked = read_stacked([path for _, path in files], columns=SCORE_COLUMNS)
        tables.append(stacked.with_columns(number=runs.gather(stacked["file"])).drop("file"))
    for number, point in enumerate(points):
        tables += [table.with_columns(number=polars.lit(number)) for table in dynamics_of(root / point.run.name)]
    together = polars.concat(tables, how="diagonal_relaxed").sort("number", maintain_order=True)
    names = polars.Series("run", [point.run.name for point in points])
    together = together.with_columns(run=names.gather(together["number"])).drop("number")
    if rule is None:
        return together
    own = polars.lit(rule)
    if rule == "used":
        # Runs measured before the rule "used" existed have types by the relative rule.
        known = (polars.col("rule") == rule).any().over("run")
        own = polars.when(known).then(polars.lit(rule)).otherwise(polars.lit("relative"))
    return together.filter(polars.col("rule").is_null() | (polars.col("rule") == own)).drop("rule")


def _labels(points: Sequence[Point]) -> polars.DataFrame:
    """Return one row of labels per run; a label that is not always a number is a string."""
    keys = dict.fromkeys(key for point in points for key in point.labels)
    columns: dict[str, list[object]] = {"run": [point.run.name for point in points]}
    for key in keys:
        values = [_number(point.labels.get(key)) for point in points]
        alike = len({type(value) for value in values if value is not None}) <= 1
        columns[key] = values if alike else [None if value is None else str(value) for value in values]
    return polars.DataFrame(columns)


def _number(value: object) -> object:
    """Convert numbers to one type, so that 1 and 2.5 can be in one column."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
