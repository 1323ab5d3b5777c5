"""Named arrays in .npz, .npy, parquet, csv, safetensors and .h5ad files, read in chunks of rows, never unpickled."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polarised._io.files import refusing
from polarised._io.limits import Budget
from polarised._io.readers import LARGEST_ROW, Rows, npy_header, npz_member, npz_names
from polarised._io.tables import hdf5_array, hdf5_names, read_csv, table_about, table_slice
from polarised.errors import DataError, MissingFileError

if TYPE_CHECKING:
    import polars

__all__ = ["ArrayFile", "HeldArrays", "open_arrays"]

Array = NDArray[Any]
LARGEST_NAMES = 1 << 20
LARGEST_WHOLE = 1 << 33
LARGEST_CHUNK = 1 << 28


class ArrayFile(ABC):
    """Named arrays whose first axis is the inputs."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The names of the arrays."""

    @abstractmethod
    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of an array without reading it."""

    @abstractmethod
    def chunks(self, names: Sequence[str], rows: int, length: int) -> Iterator[dict[str, Array]]:
        """Yield several arrays together, `rows` leading rows at a time, up to `length`."""

    @property
    def factor_names(self) -> list[str] | None:
        """The names of the factors, if the file has them."""
        # Encodings without factors are saved with an empty list of names.
        if "factor_names" not in self.names or not self.rows("factor_names"):
            return None
        return [str(name) for name in self.whole("factor_names", largest=LARGEST_NAMES).ravel()]

    def rows(self, name: str) -> int:
        """Return the length of an array's first axis; a scalar has one row."""
        return (*self.shape(name), 1)[0]

    def size(self, name: str) -> int:
        """Return the bytes of an array without reading it, assuming eight bytes per number if the type is unknown."""
        return 8 * prod(self.shape(name))

    def whole(self, name: str, *, largest: int | None = None) -> Array:
        """Return a whole array; it is charged to the file's budget and may have at most `largest` bytes."""
        self._check_size(name, largest)
        self.budget.hold(self.size(name))
        rows = self.rows(name)
        return next(self.chunks([name], max(1, rows), max(1, rows)))[name]

    @cached_property
    def budget(self) -> Budget:
        """The budget for all arrays of the file that are held in memory at once."""
        return Budget.of(self.path)

    def _check_size(self, name: str, largest: int | None) -> None:
        if largest is not None and (size := self.size(name)) > largest:
            raise DataError(
                f"expected at most {largest >> 10} KiB as {name} of {self.path}, but it has {size >> 10} KiB; is it "
                "something else?"
            )


def open_arrays(path: str | Path) -> ArrayFile:
    """Open a file of arrays by its suffix: .npz, .npy (with related files), .parquet; or a folder of .npy files.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "codes.npz"
    >>> np.savez(path, mean=np.zeros((5, 2)))
    >>> open_arrays(path).shape("mean")
    (5, 2)
    """
    path = Path(path)
    if not path.exists():
        raise MissingFileError(f"expected a file of arrays, but {path} does not exist; check the path")
    kinds: dict[str, type[ArrayFile]] = {
        ".npz": Npz,
        ".npy": Npy,
        ".parquet": Parquet,
        ".pq": Parquet,
        ".csv": Csv,
        ".safetensors": Tensors,
        ".h5ad": AnnotatedData,
    }
    kind = Npy if path.is_dir() else kinds.get(path.suffix.lower())
    if kind is None:
        raise DataError(f"expected one of {', '.join(kinds)}, got {path.name}; save your arrays with numpy.savez")
    return kind(path)


class Npz(ArrayFile):
    """Arrays in a zip archive, each read as a stream: memory never holds more than a chunk."""

    @cached_property
    def _members(self) -> dict[str, Rows]:
        return {}

    @cached_property
    def names(self) -> tuple[str, ...]:
        return npz_names(self.path)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._member(name).shape

    def size(self, name: str) -> int:
        return self._member(name).size

    def chunks(self, names: Sequence[str], rows: int, length: int) -> Iterator[dict[str, Array]]:
        streams = {name: self._member(name).in_rows(rows) for name in names}
        for start in range(0, length, rows):
            count = min(rows, length - start)
            parts = {name: next(stream, None) for name, stream in streams.items()}
            short = next((name for name, part in parts.items() if part is None or len(part) < count), None)
            if short is not None:
                raise DataError(f"expected {length} rows of {short} in {self.path}, but it ends early: it is damaged")
            yield {name: part[:count] for name, part in parts.items() if part is not None}

    def whole(self, name: str, *, largest: int | None = None) -> Array:
        self._check_size(name, largest)
        return self._member(name).whole(self.budget)

    def _member(self, name: str) -> Rows:
        if name not in self._members:
            self._members[name] = npz_member(self.path, name)
        return self._members[name]


class Npy(ArrayFile):
    """Arrays in .npy files of one folder, mapped into memory; `x_mean.npy` includes the other `x_*.npy` files."""

    @cached_property
    def _files(self) -> dict[str, Path]:
        folder = self.path if self.path.is_dir() else self.path.parent
        stem = "" if self.path.is_dir() else self.path.stem
        prefix = re.sub(r"(z_)?(mean|means|mu|loc)$", "", stem) if stem else ""
        found = (file for file in sorted(folder.glob(f"{_literal(prefix)}*.npy")) if file.is_file())
        return {file.stem.removeprefix(prefix): file for file in found}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._files)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._mapped(name).shape)

    def size(self, name: str) -> int:
        return int(self._mapped(name).nbytes)

    def chunks(self, names: Sequence[str], rows: int, length: int) -> Iterator[dict[str, Array]]:
        mapped = {name: self._mapped(name) for name in names}
        # A sparse file can be huge although it takes no space on disk; reading it would take days.
        for name, array in mapped.items():
            Budget.of(self._files[name]).stream(array.nbytes)
        for start in range(0, length, rows):
            yield {name: np.array(array[start : min(start + rows, length)]) for name, array in mapped.items()}

    def whole(self, name: str, *, largest: int | None = None) -> Array:
        self._check_size(name, largest)
        self.budget.hold(self.size(name))
        return np.array(self._mapped(name))

    def _mapped(self, name: str) -> Array:
        path = self._files[name]
        with refusing(path, "a plain array (.npy)"), path.open("rb") as file:
            dtype, shape, by_columns = npy_header(file, name, path)
            begins = file.tell()
            size = prod(shape) * dtype.itemsize
            if begins + size != path.stat().st_size:
                raise DataError(
                    f"expected {size} bytes for shape {shape} in {path}, but there are {path.stat().st_size - begins}: "
                    "it is damaged"
                )
            if prod(shape[1:]) * dtype.itemsize > LARGEST_ROW:
                raise DataError(f"expected rows of at most {LARGEST_ROW >> 20} MiB, but {path} has {shape}")
            # An empty array cannot be mapped.
            if not size:
                return np.zeros(shape, dtype=dtype)
            mapped: Array = np.memmap(
                path, dtype=dtype, mode="r", offset=begins, shape=shape, order="F" if by_columns else "C"
            )
            return mapped


class Parquet(ArrayFile):
    """Columns ``mean_0 mean_1 ...`` or a list column ``mean``; the same for other arrays; factors are ``factor_*``."""

    @cached_property
    def _columns(self) -> dict[str, list[str]]:
        groups: dict[str, list[str]] = {}
        for column in self._about[0]:
            if column.startswith("factor_") and column != "factor_names":
                groups.setdefault("factors", []).append(column)
            else:
                groups.setdefault(re.sub(r"[_.]?\d+$", "", column) or column, []).append(column)
        return {name: sorted(columns, key=_number) for name, columns in groups.items()}

    @cached_property
    def _about(self) -> "tuple[polars.Schema, int]":
        return table_about(self.path)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._columns)

    @property
    def factor_names(self) -> list[str] | None:
        columns = self._columns.get("factors")
        return [column.removeprefix("factor_") for column in columns] if columns else None

    def shape(self, name: str) -> tuple[int, ...]:
        first = next(self.chunks([name], 1, min(1, self._about[1])), {}).get(name)
        return (self._about[1], *(() if first is None else first.shape[1:]))

    def chunks(self, names: Sequence[str], rows: int, length: int) -> Iterator[dict[str, Array]]:
        wanted = [column for name in names for column in self._columns[name]]
        for start in range(0, length, rows):
            count = min(rows, length - start)
            self.budget.stream(8 * count * len(wanted))
            frame = table_slice(self.path, start, count, wanted)
            yield {name: self._array(frame, name) for name in names}

    def whole(self, name: str, *, largest: int | None = None) -> Array:
        self._check_size(name, largest)
        return next(self.chunks([name], max(1, self._about[1]), max(1, self._about[1])))[name]

    def _array(self, frame: "polars.DataFrame", name: str) -> Array:
        columns = self._columns[name]
        if len(columns) == 1 and frame.schema[columns[0]].is_nested():
            with refusing(self.path, f"lists of numbers of one length in the column {columns[0][:300]}"):
                return _from_lists(frame[columns[0]])
        if not all(frame.schema[column].is_numeric() for column in columns):
            raise DataError(f"expected numbers in the columns {', '.join(columns)[:300]} of {self.path}")
        with refusing(self.path, f"numbers in the columns {', '.join(columns)[:300]}"):
            array = frame.select(columns).to_numpy()
        # Integer columns with empty cells, and some other number types, are returned as objects.
        if array.dtype.kind not in "fiub":
            named = ", ".join(columns)[:300]
            raise DataError(f"expected a number in every row of {named} of {self.path}, but some have none")
        return array


class Csv(Parquet):
    """A table with a header and the same column names as parquet."""

    @cached_property
    def _frame(self) -> "polars.DataFrame":
        # A number takes at least two characters in the file, and at most eight bytes in memory.
        self.budget.hold(8 * self.path.stat().st_size)
        return read_csv(self.path)

    @cached_property
    def _about(self) -> "tuple[polars.Schema, int]":
        return self._frame.schema, self._frame.height

    def chunks(self, names: Sequence[str], rows: int, length: int) -> Iterator[dict[str, Array]]:
        for start in range(0, length, rows):
            part = self._frame.slice(start, min(rows, length - start))
            yield {name: self._array(part, name) for name in names}


class HeldArrays(ArrayFile):
    """Arrays that are already in memory."""

    def __init__(self, path: Path, arrays: Mapping[str, Array]) -> None:
        super().__init__(path)
        self.arrays = arrays

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.arrays)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.arrays[name].shape)

    def chunks(self, names: Sequence[str], rows: int, length: int) -> Iterator[dict[str, Array]]:
        for start in range(0, length, rows):
            part = slice(start, min(start + rows, length))
            yield {name: self.arrays[name][part] if self.arrays[name].ndim else self.arrays[name] for name in names}


class Tensors(ArrayFile):
    """Named tensors in a safetensors file, read row by row."""

    @cached_property
    def _open(self) -> Any:
        from safetensors import safe_open

        with refusing(self.path, "named tensors (safetensors)"):
            return safe_open(self.path, framework="np")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._open.keys())

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._open.get_slice(name).get_shape())

    def chunks(self, names: Sequence[str], rows: int, length: int) -> Iterator[dict[str, Array]]:
        parts = {name: self._open.get_slice(name) for name in names}
        Budget.of(self.path).stream(sum(self.size(name) for name in names))
        for start in range(0, length, rows):
            end = min(start + rows, length)
            yield {name: self._part(part, name, start, end) for name, part in parts.items()}

    def _part(self, part: Any, name: str, start: int, end: int) -> Array:
        # Half-precision types that NumPy lacks can raise any error here.
        with refusing(self.path, f"plain numbers as {name!r}"):
            return np.asarray(part[start:end] if part.get_shape() else part[()])


class AnnotatedData(ArrayFile):
    """The moments of q(z|x) that scvi-tools stores in ``obsm`` of an .h5ad: ``..._qzm`` and ``..._qzv``, or by name."""

    @cached_property
    def _members(self) -> dict[str, Rows]:
        return {_latent_name(name): hdf5_array(self.path, f"obsm/{name}") for name in hdf5_names(self.path, "obsm")}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._members)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._members[name].shape

    def chunks(self, names: Sequence[str], rows: int, length: int) -> Iterator[dict[str, Array]]:
        streams = [self._members[name].in_rows(rows) for name in names]
        for start, *parts in zip(range(0, length, rows), *streams, strict=False):
            yield {name: part[: length - start] for name, part in zip(names, parts, strict=True)}


def _from_lists(column: "polars.Series") -> Array:
    """Return a column of (nested) lists of equal length as an array; packed booleans take 64 times the space in it."""
    import polars

    shape = [len(column)]
    while column.dtype.is_nested():
        if not isinstance(column.dtype, polars.List | polars.Array):
            raise ValueError(f"a column of {str(column.dtype)[:80]}")
        lists = column.cast(polars.List(column.dtype.inner)) if isinstance(column.dtype, polars.Array) else column
        lengths = lists.list.len().unique()
        if len(lengths) != 1 or not lengths[0]:
            raise ValueError("lists of different lengths, or empty lists")
        shape.append(int(lengths[0]))
        if 8 * prod(shape[1:]) > LARGEST_ROW or 8 * prod(shape) > LARGEST_CHUNK:
            raise ValueError(f"{8 * prod(shape) >> 20} MiB in {shape[0]} rows")
        column = lists.explode()
    if not (column.dtype.is_numeric() or column.dtype == polars.Boolean) or column.null_count():
        raise ValueError(f"a list of {str(column.dtype)[:80]}, or empty cells")
    return column.cast(polars.Float64).to_numpy().reshape(shape)


def _latent_name(name: str) -> str:
    """Return a name of ``obsm`` without the affixes of scverse: X_scVI_qzm becomes qz_m."""
    bare = name.removeprefix("X_")
    found = re.search(r"(?:^|_)qz_?([mv])$", bare)
    if found:
        return f"qz_{found[1]}"
    found = re.search(r"(?:^|_)(mean|mu|variance|var|logvar|log_var|log_variance|std|scale)$", bare)
    return found[1] if found else name


def _number(column: str) -> tuple[int, str]:
    found = re.search(r"\d+$", column)
    return (int(found.group()) if found and not column.startswith("factor_") else 0, column)


def _literal(text: str) -> str:
    return re.sub(r"([\[*?])", r"[\1]", text)
