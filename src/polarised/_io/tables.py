"""Parquet, csv and HDF5 files, whose parsers have no limits: read in a separate process, whole or in slices of rows."""

import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polarised._io.files import refusal
from polarised._io.limits import FLOOR, MULTIPLE, Budget, available_memory, call_apart
from polarised._io.readers import Rows
from polarised.errors import DataError, MissingFileError

if TYPE_CHECKING:
    import polars

__all__ = [
    "hdf5_array",
    "hdf5_names",
    "prepare",
    "read_csv",
    "read_stacked",
    "read_table",
    "read_tables",
    "table_about",
    "table_slice",
]

KIND = "a parquet file"
HDF5 = "an HDF5 file"
LARGEST_CHUNK = 1 << 26
LONGEST_LINE = 1 << 20
# gzip, shuffle, fletcher32 and lzf, which are built into the library.
FILTERS = {1, 2, 3, 32000}


def read_table(path: str | Path, *, columns: Mapping[str, str] | None = None) -> "polars.DataFrame":
    """Return a parquet file as a table.

    Args:
        path: The file.
        columns: Required columns and their content: ``text``, ``number`` or ``plain`` (either); others are ignored.

    Returns:
        The whole table.

    Raises:
        DataError: If it is damaged, larger than its size on disk allows, or has other columns.

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
        columns: The required columns of each file.

    Returns:
        A table for each file.

    Raises:
        DataError: If one of them is damaged, too large or has other columns.
    """
    if not paths:
        return []
    for path in paths:
        if not Path(path).is_file():
            raise MissingFileError(f"expected {KIND}, but {path} does not exist or is not a file; check the path")
    budgets = [Budget.of(path) for path in paths]
    together = Budget(
        paths[0],
        held=max(budget.held for budget in budgets),
        read=0,
        seconds=max(budget.seconds for budget in budgets) + 0.1 * len(paths),
    )
    held = [budget.held for budget in budgets]
    return call_apart(together, KIND, _read, [str(path) for path in paths], dict(columns or {}), held)


def read_csv(path: str | Path) -> "polars.DataFrame":
    """Return a csv file with a header as a table.

    Columns are separated by commas, semicolons or tabs, whichever the header has; NA is an empty cell.

    Args:
        path: The file.

    Returns:
        The whole table.

    Raises:
        DataError: If it is not a csv file, or takes more memory than its size on disk allows.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "codes.csv"
    >>> _ = path.write_text("mean_0,variance_0\\n1.5,0.1\\n")
    >>> read_csv(path).columns
    ['mean_0', 'variance_0']
    """
    table: polars.DataFrame = call_apart(Budget.of(path), "a csv file with a header", _csv, str(path))
    return table


def read_stacked(paths: Sequence[str | Path], *, columns: Mapping[str, str]) -> "polars.DataFrame":
    """Return many parquet files as one table, with a column `file` that gives their number in the list.

    Args:
        paths: The files.
        columns: Required columns and their content, as in `read_table`; other columns may be missing in some files.

    Returns:
        The rows of all files, in order.

    Raises:
        DataError: If one of them is damaged, too large or has other columns; the error names it.
    """
    budgets = [Budget.of(path) for path in paths]
    together = Budget(
        paths[0],
        held=sum(budget.held - FLOOR for budget in budgets) + FLOOR,
        read=0,
        seconds=max(budget.seconds for budget in budgets) + 0.1 * len(paths),
    )
    together.held = min(together.held, available_memory() // 2)
    held = [min(budget.held, together.held) for budget in budgets]
    texts = [str(path) for path in paths]
    stacked: polars.DataFrame = call_apart(together, KIND, _stack, texts, dict(columns), held, together.held)
    return stacked


def table_about(path: str | Path) -> "tuple[polars.Schema, int]":
    """Return the columns of a parquet file with their types, and its number of rows.

    Args:
        path: The file.

    Returns:
        The schema and the number of rows.

    Raises:
        DataError: If it is damaged.
    """
    about: tuple[polars.Schema, int] = call_apart(Budget.of(path), KIND, _about, str(path))
    return about


def table_slice(path: str | Path, start: int, count: int, columns: Collection[str]) -> "polars.DataFrame":
    """Return some rows of some columns of a parquet file.

    Args:
        path: The file.
        start: The first row.
        count: The number of rows.
        columns: The columns.

    Returns:
        The slice.

    Raises:
        DataError: If it is damaged, or the slice takes more memory than its size on disk allows.
    """
    rows: polars.DataFrame = call_apart(Budget.of(path), KIND, _slice, str(path), start, count, list(columns))
    return rows


def hdf5_array(path: Path, name: str) -> Rows:
    """Read an array of an HDF5 file in chunks of rows; links, external files and unallocated data are refused.

    Args:
        path: The file.
        name: The array's name in the file, including its groups.

    Returns:
        The array, of which only the description has been read.

    Raises:
        DataError: If it is damaged, a link or a reference, or claims far more than the file holds.
    """
    shape, dtype = call_apart(Budget.of(path), HDF5, _array_about, str(path), name)

    def in_rows(count: int) -> Iterator[NDArray[Any]]:
        budget = Budget.of(path)
        for start in range(0, shape[0], count):
            stop = min(start + count, shape[0])
            budget.stream((stop - start) * prod(shape[1:]) * np.dtype(dtype).itemsize)
            yield call_apart(budget, HDF5, _array_rows, str(path), name, start, stop)

    return Rows(path, shape, np.dtype(dtype), in_rows)


def hdf5_names(path: Path, group: str) -> tuple[str, ...]:
    """Return the names of the arrays in a group of an HDF5 file.

    Args:
        path: The file.
        group: The group's name at the root of the file.

    Returns:
        The names; none if there is no such group.

    Raises:
        DataError: If the file is damaged.
    """
    names: tuple[str, ...] = call_apart(Budget.of(path), HDF5, _array_names, str(path), group)
    return names


def prepare() -> None:
    """Let the library start its threads before memory is limited: they map far more than they use."""
    import polars

    file = io.BytesIO()
    polars.DataFrame({"a": [1.0]}).write_parquet(file)
    file.seek(0)
    polars.read_parquet(file)
    file.seek(0)
    polars.scan_parquet(file).select(polars.len()).collect()


def _read(paths: list[str], columns: dict[str, str], held: list[int]) -> Any:
    import polars

    tables = []
    for path, most in zip(paths, held, strict=True):
        try:
            # A bracket in the name of a folder is not a pattern.
            table = polars.read_parquet(path, glob=False, hive_partitioning=False)
        except polars.exceptions.PanicException as error:
            raise _damaged(path, error) from error
        except Exception as error:
            raise _damaged(path, error) from error
        _check(table, columns, path)
        if (length := _length_of_texts(table)) > most:
            raise DataError(
                f"expected strings of at most {most >> 20:,} MiB in {path}, but they have {length >> 20:,} MiB; the "
                "file is damaged or another one"
            )
        tables.append(table)
    return tables


def _csv(path: str) -> Any:
    import polars

    with Path(path).open("rb") as file:
        header, first = file.readline(LONGEST_LINE), file.readline(LONGEST_LINE)
    separator = next((mark for mark in ",;\t" if mark.encode() in header), ",")
    # Semicolons separate columns where the comma is the decimal mark, as write.csv2 of R does.
    comma = separator == ";" and b"," in first
    return polars.read_csv(path, glob=False, separator=separator, decimal_comma=comma, null_values="NA")


def _stack(paths: list[str], columns: dict[str, str], held: list[int], together: int) -> Any:
    import polars

    kinds: dict[str, Any] = {"text": polars.String, "number": polars.Float64}
    schema = {name: kinds[kind] for name, kind in columns.items()}
    numbers = polars.DataFrame({"path": paths, "file": range(len(paths))}, schema_overrides={"file": polars.Int64})
    try:
        # All at once if they have the same columns, as the files of one study do.
        scan = polars.scan_parquet(paths, glob=False, hive_partitioning=False, schema=schema, include_file_paths="path")
        stacked = scan.collect().join(numbers, on="path", how="left", maintain_order="left").drop("path")
        if _length_of_texts(stacked) <= together:
            return stacked
    except (polars.exceptions.PolarsError, polars.exceptions.PanicException, OSError):
        pass
    tables = _read(paths, columns, held)
    if (length := sum(_length_of_texts(table) for table in tables)) > together:
        raise DataError(
            f"expected strings of at most {together >> 20:,} MiB in {paths[0]} and {len(paths) - 1} more files, they "
            f"have {length >> 20:,} MiB; the files are damaged or the wrong ones"
        )
    cast = [polars.col(name).cast(kind) for name, kind in schema.items()]
    numbered = [table.with_columns(*cast, file=polars.lit(number)) for number, table in enumerate(tables)]
    return polars.concat(numbered, how="diagonal_relaxed")


def _length_of_texts(table: Any) -> int:
    """Return the bytes of all strings, including those in lists; a table stores a repeated string only once."""
    return sum(_length_in(column) for column in table.get_columns())


def _length_in(column: Any) -> int:
    import polars

    kind = column.dtype
    if isinstance(kind, polars.List | polars.Array):
        return _length_in(column.explode())
    if isinstance(kind, polars.Struct):
        return sum(_length_in(field) for field in column.struct.unnest().get_columns())
    if kind == polars.Binary:
        return int(column.bin.size().cast(polars.Int64).sum())
    if kind in (polars.Categorical, polars.Enum):
        column = column.cast(polars.String)
    return int(column.str.len_bytes().cast(polars.Int64).sum()) if column.dtype == polars.String else 0


def _check(table: Any, columns: dict[str, str], path: str) -> None:
    import polars

    for name, kind in columns.items():
        if name not in table.columns:
            raise DataError(
                f"expected a column {name} in {path}, but it has {', '.join(table.columns)[:300] or 'none'}"
            )
        found = table.schema[name]
        fits = {
            "text": found in (polars.String, polars.Null, polars.Categorical),
            "number": found.is_numeric() or found in (polars.Null, polars.Boolean),
            "plain": not found.is_nested(),
        }[kind]
        if not fits:
            raise DataError(f"expected {kind}s as {name} in {path}, got {found}; the file is damaged or the wrong one")


def _about(path: str) -> Any:
    import polars

    scan = polars.scan_parquet(path, glob=False, hive_partitioning=False)
    return scan.collect_schema(), int(scan.select(polars.len()).collect().item())


def _slice(path: str, start: int, count: int, columns: list[str]) -> Any:
    import polars

    scan = polars.scan_parquet(path, glob=False, hive_partitioning=False)
    schema = scan.collect_schema()
    # Only arrays are read: strings, which a file may share among any number of rows, are not decoded.
    for name in columns:
        kind = schema[name]
        inner: Any = kind
        while isinstance(inner, polars.List | polars.Array):
            inner = inner.inner
        if not (inner.is_numeric() or inner in (polars.Boolean, polars.Null)):
            numbers = "lists of numbers of one length" if kind.is_nested() else "numbers"
            raise DataError(f"expected {numbers} in the column {name[:300]} of {path}, got {str(kind)[:80]}")
    return scan.slice(start, count).select(columns).collect()


def _damaged(path: str, error: BaseException) -> DataError:
    reason = " ".join(str(error).split())[:300] or type(error).__name__
    return DataError(f"expected {KIND}, but could not read {path}: {reason}; delete the file and get it again")


def _array_names(path: str, group: str) -> tuple[str, ...]:
    import h5py

    with h5py.File(path, "r") as file:
        if not isinstance(file.get(group, getlink=True), h5py.HardLink) or not isinstance(file[group], h5py.Group):
            return ()
        inside = file[group]
        own = (name for name in inside if isinstance(inside.get(name, getlink=True), h5py.HardLink))
        return tuple(str(name) for name in own if isinstance(inside[name], h5py.Dataset))


def _array_about(path: str, name: str) -> tuple[tuple[int, ...], str]:
    import h5py

    with h5py.File(path, "r") as file:
        array = _own_array(file, name, Path(path))
        return tuple(int(size) for size in array.shape), array.dtype.str


def _array_rows(path: str, name: str, start: int, stop: int) -> NDArray[Any]:
    import h5py

    with h5py.File(path, "r") as file:
        return np.asarray(_own_array(file, name, Path(path))[start:stop])


def _own_array(file: Any, name: str, path: Path) -> Any:
    """Return an array that is stored in the file itself: HDF5 can refer to any other file of the machine."""
    import h5py

    if not isinstance(file.get(name, getlink=True), h5py.HardLink) or not isinstance(file[name], h5py.Dataset):
        raise refusal(path, f"the array {name!r}", "none, or a link")
    array = file[name]
    if array.is_virtual or array.external:
        raise refusal(path, f"the array {name!r}", "a reference to other files")
    if not array.shape or min(array.shape) < 1 or array.dtype.kind not in "fiub":
        raise refusal(path, f"numbers as {name!r}", f"{str(array.dtype)[:80]} of shape {array.shape}")
    # Other filters are plug-ins, which means code that HDF5 would load.
    made = array.id.get_create_plist()
    if foreign := [code for i in range(made.get_nfilters()) if (code := made.get_filter(i)[0]) not in FILTERS]:
        raise refusal(path, f"{name!r} plain or packed by gzip or lzf", f"packed by the filter {foreign[0]}")
    stored = int(array.id.get_storage_size())
    if array.chunks is not None and prod(array.chunks) * array.dtype.itemsize > LARGEST_CHUNK:
        raise refusal(path, f"chunks of at most {LARGEST_CHUNK >> 20} MiB in {name!r}", f"{array.chunks}")
    if array.size * array.dtype.itemsize > MULTIPLE * stored:
        raise refusal(path, f"every number of {name!r}", f"{stored} bytes for the shape {array.shape}")
    return array
