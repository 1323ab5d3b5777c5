"""Run directories → one tidy table: a row a number, the same columns whatever the study."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import polars

from polarised._io.files import replacing
from polarised.errors import DataError
from polarised.regime.classify import Rule
from polarised.study.grid import Point
from polarised.study.measures import dynamics_of
from polarised.study.runner import read_study
from polarised.study.stages import is_done
from polarised.study.storage import at_hand, is_address, naming_full_disk

if TYPE_CHECKING:
    pass

__all__ = [
    "COLUMNS",
    "collect",
    "results_of",
]

COLUMNS = ("run", "seed", "method", "strength", "dataset", "representation", "variables", "metric", "value")


TABLES = ("scores.parquet", "reconstruction.parquet", "settling.parquet", "downstream.parquet", "further.parquet")


LARGE = ("model.safetensors", "encodings.npz", "histograms.npz", "checkpoint.safetensors")


def collect(root: str | Path, *, rule: Rule | None = None) -> Path:
    """Write ``results.parquet`` in a study's folder from the runs that are done; return its path.

    Columns: run, seed, method, strength, dataset, representation, variables, metric, value, one for every further
    axis, and `variable` where runs were watched while they trained: the numbers of single variables. `rule` says by
    which rule variables have their types; by default the one the study names.
    """
    study = read_study(root)
    with at_hand(root, without=LARGE) as folder:
        table = results_of(study.points, folder, rule=rule or study.rule, named=root)
    if is_address(root):
        path = Path(f"results-{str(root).rstrip('/').rpartition('/')[2]}.parquet")
    else:
        path = Path(root) / "results.parquet"
    with naming_full_disk(path.parent), replacing(path) as temporary:
        table.write_parquet(temporary)
    return path


def results_of(
    points: Sequence[Point], root: str | Path, *, rule: Rule | None = "used", named: str | Path | None = None
) -> polars.DataFrame:
    """Return the tidy table of the runs that are done; `named` is what an error calls the folder.

    `rule` is the one by which variables have their types; None keeps both, with a column `rule`.
    """
    parts = []
    for point in points:
        if not is_done(point.run, root):
            continue
        directory = Path(root) / point.run.name
        # A bracket in the name of a folder is no pattern.
        paths = [directory / name for name in TABLES if (directory / name).exists()]
        tables = [polars.read_parquet(path, glob=False) for path in paths]
        table = polars.concat([*tables, *dynamics_of(directory)], how="diagonal")
        # Runs measured before there was the rule "used" were typed by the relative one.
        own = "relative" if rule == "used" and rule not in table["rule"].to_list() else rule
        mine = polars.col("rule").is_null() | (polars.col("rule") == (own or ""))
        labels = [polars.lit(_number(value)).alias(name) for name, value in point.labels.items()]
        kept = table if rule is None else table.filter(mine).drop("rule")
        parts.append(kept.with_columns(polars.lit(directory.name).alias("run"), *labels))
    if not parts:
        place = named or root
        raise DataError(f"expected finished runs in {place}, there is none yet; see polarised study status {place}")
    joined = polars.concat(parts, how="diagonal_relaxed")
    others = [name for name in joined.columns if name not in COLUMNS]
    return joined.select(*COLUMNS, *others).with_columns(polars.col("seed").cast(polars.Int64))


def _number(value: object) -> object:
    """Give one type to numbers, so that 1 and 2.5 stand in one column."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
