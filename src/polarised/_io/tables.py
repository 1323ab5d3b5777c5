"""Parquet files: small tables of runs, and large ones in slices; read apart, since their parser has no bounds."""

import io
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polarised._io.apart import call_apart
from polarised._io.budget import FLOOR, Budget, available_memory
from polarised.errors import DataError

if TYPE_CHECKING:
    import polars

__all__ = ["prepare", "read_csv", "read_stacked", "read_table", "read_tables", "table_about", "table_slice"]

KIND = "a parquet file"


def read_table(path: str | Path, *, columns: Mapping[str, str] | None = None) -> "polars.DataFrame":
    """Return a parquet file as a table.

    Args:
        path: The file.
        columns: Columns it must have and what they hold: ``text``, ``number`` or ``plain`` (either); others are let be.

    Returns:
        The whole table.

    Raises:
        DataError: It is damaged, larger than its size on disk allows, or of other columns.

    >>> import polars, tempfile
    >>> path = Path(tempfile.mkdtemp()) / "scores.parquet"
    >>> polars.DataFrame({"metric": ["mig"], "value": [0.5]}).write_parquet(path)
    >>> read_table(path, columns={"value": "number"}).height
    1
    """
    return read_tables([path], columns=columns)[0]


def read_tables(paths: Sequence[str | Path], *, columns: Mapping[str, str] | None = None) -> "list[polars.DataFrame]":
    """Return several parquet files as tables, in their order; see `read_table`.

    Args:
        paths: The files.
        columns: What each of them must have.

    Returns:
        A table for each file.

    Raises:
        DataError: One of them is damaged, too large or of other columns.
    """
    if not paths:
        return []
    for path in paths:
        if not Path(path).is_file():
            raise DataError(f"expected {KIND}, {path} is not there or no file; check the path")
    budgets = [Budget.of(path) for path in paths]
    together = Budget(
        paths[0],
        held=max(budget.held for budget in budgets),
        read=0,
        seconds=max(budget.seconds for budget in budgets) + 0.1 * len(paths),
    )
    return call_apart(together, KIND, _read, [str(path) for path in paths], dict(columns or {}))


def read_csv(path: str | Path) -> "polars.DataFrame":
    """Return a csv file with a header as a table.

    Args:
        path: The file.

    Returns:
        The whole table.

    Raises:
        DataError: It is no csv file, or takes more memory than its size on disk allows.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "codes.csv"
    >>> _ = path.write_text("mean_0,variance_0\\n1.5,0.1\\n")
    >>> read_csv(path).columns
    ['mean_0', 'variance_0']
    """
    table: polars.DataFrame = call_apart(Budget.of(path), "a csv file with a header", _csv, str(path))
    return table


def read_stacked(paths: Sequence[str | Path], *, columns: Mapping[str, str]) -> "polars.DataFrame":
    """Return many parquet files as one table, with a column `file` of their numbers in the list.

    Args:
        paths: The files.
        columns: Columns each must have and what they hold, as in `read_table`; others are filled up with nothing.

    Returns:
        Their rows, file after file.

    Raises:
        DataError: One of them is damaged, too large or of other columns; it is named.
    """
    budgets = [Budget.of(path) for path in paths]
    together = Budget(
        paths[0],
        held=sum(budget.held - FLOOR for budget in budgets) + FLOOR,
        read=0,
        seconds=max(budget.seconds for budget in budgets) + 0.1 * len(paths),
    )
    together.held = min(together.held, available_memory() // 2)
    stacked: polars.DataFrame = call_apart(together, KIND, _stack, [str(path) for path in paths], dict(columns))
    return stacked


def table_about(path: str | Path) -> "tuple[polars.Schema, int]":
    """Return the columns of a parquet file with their types, and its number of rows.

    Args:
        path: The file.

    Returns:
        The schema and the count.

    Raises:
        DataError: It is damaged.
    """
    about: tuple[polars.Schema, int] = call_apart(Budget.of(path), KIND, _about, str(path))
    return about


def table_slice(path: str | Path, start: int, count: int, columns: Collection[str]) -> "polars.DataFrame":
    """Return some rows of some columns of a parquet file.

    Args:
        path: The file.
        start: The first row.
        count: How many rows.
        columns: Which columns.

    Returns:
        The slice.

    Raises:
        DataError: It is damaged, or the slice takes more memory than its size on disk allows.
    """
    rows: polars.DataFrame = call_apart(Budget.of(path), KIND, _slice, str(path), start, count, list(columns))
    return rows


def prepare() -> None:
    """Let the library start its threads before memory is limited: they map far more than they use."""
    import polars

    file = io.BytesIO()
    polars.DataFrame({"a": [1.0]}).write_parquet(file)
    file.seek(0)
    polars.read_parquet(file)
    file.seek(0)
    polars.scan_parquet(file).select(polars.len()).collect()


def _read(paths: list[str], columns: dict[str, str]) -> Any:
    import polars

    tables = []
    for path in paths:
        try:
            # A bracket in the name of a folder is no pattern.
            table = polars.read_parquet(path, glob=False, hive_partitioning=False)
        except polars.exceptions.PanicException as error:
            raise _damaged(path, error) from error
        except Exception as error:
            raise _damaged(path, error) from error
        _check(table, columns, path)
        tables.append(table)
    return tables


def _csv(path: str) -> Any:
    import polars

    return polars.read_csv(path, glob=False)


def _stack(paths: list[str], columns: dict[str, str]) -> Any:
    import polars

    kinds: dict[str, Any] = {"text": polars.String, "number": polars.Float64}
    schema = {name: kinds[kind] for name, kind in columns.items()}
    numbers = polars.DataFrame({"path": paths, "file": range(len(paths))}, schema_overrides={"file": polars.Int64})
    try:
        # All at once where they are alike, as the files of one study are.
        scan = polars.scan_parquet(paths, glob=False, hive_partitioning=False, schema=schema, include_file_paths="path")
        return scan.collect().join(numbers, on="path", how="left", maintain_order="left").drop("path")
    except (polars.exceptions.PolarsError, polars.exceptions.PanicException, OSError):
        tables = _read(paths, columns)
    cast = [polars.col(name).cast(kind) for name, kind in schema.items()]
    numbered = [table.with_columns(*cast, file=polars.lit(number)) for number, table in enumerate(tables)]
    return polars.concat(numbered, how="diagonal_relaxed")


def _check(table: Any, columns: dict[str, str], path: str) -> None:
    import polars

    for name, kind in columns.items():
        if name not in table.columns:
            raise DataError(f"expected a column {name} in {path}, it has {', '.join(table.columns)[:300] or 'none'}")
        found = table.schema[name]
        fits = {
            "text": found in (polars.String, polars.Null, polars.Categorical),
            "number": found.is_numeric() or found in (polars.Null, polars.Boolean),
            "plain": not found.is_nested(),
        }[kind]
        if not fits:
            raise DataError(f"expected {kind}s as {name} in {path}, got {found}; the file is damaged or another one")


def _about(path: str) -> Any:
    import polars

    scan = polars.scan_parquet(path, glob=False, hive_partitioning=False)
    return scan.collect_schema(), int(scan.select(polars.len()).collect().item())


def _slice(path: str, start: int, count: int, columns: list[str]) -> Any:
    import polars

    scan = polars.scan_parquet(path, glob=False, hive_partitioning=False)
    return scan.slice(start, count).select(columns).collect()


def _damaged(path: str, error: BaseException) -> DataError:
    reason = " ".join(str(error).split())[:300] or type(error).__name__
    return DataError(f"expected {KIND}, could not read {path}: {reason}; delete the file and get it again")
