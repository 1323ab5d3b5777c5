"""Named arrays in .npz, .npy, parquet, csv, safetensors and .h5ad files, read in chunks of rows, never as pickles."""

import re
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from math import prod
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polarised._io.readers import refusing
from polarised.errors import DataError

if TYPE_CHECKING:
    import polars

__all__ = ["ArrayFile", "HeldArrays", "open_arrays"]

Array = NDArray[Any]


PLAIN = "an .npz of plain arrays"


LARGEST_ROW = 1 << 26


LARGEST_WHOLE = 1 << 33


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
        """Yield several arrays side by side, `rows` leading rows at a time, up to `length`."""

    @property
    def factor_names(self) -> list[str] | None:
        """The names of the factors, where the file has them."""
        # Encodings without factors are saved with an empty list of names.
        if "factor_names" not in self.names or not self.rows("factor_names"):
            return None
        return [str(name) for name in self.whole("factor_names").ravel()]

    def rows(self, name: str) -> int:
        """Return the length of an array's first axis; a single number has one row."""
        return (*self.shape(name), 1)[0]

    def whole(self, name: str) -> Array:
        """Return all of a small array."""
        shape = self.shape(name)
        if not shape:
            return next(self.chunks([name], 1, 1))[name].reshape(())
        return np.concatenate([chunk[name] for chunk in self.chunks([name], 1 << 16, shape[0])])


def open_arrays(path: str | Path) -> ArrayFile:
    """Open a file of arrays by its ending: .npz, .npy (with its neighbours), .parquet; or a folder of .npy files.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "codes.npz"
    >>> np.savez(path, mean=np.zeros((5, 2)))
    >>> open_arrays(path).shape("mean")
    (5, 2)
    """
    path = Path(path)
    if not path.exists():
        raise DataError(f"expected a file of arrays, {path} does not exist; check the path")
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
    """Arrays in a zip, each read as a stream: memory never holds more than a chunk."""

    @cached_property
    def _members(self) -> dict[str, zipfile.ZipInfo]:
        with refusing(self.path, PLAIN), zipfile.ZipFile(self.path) as archive:
            return {i.filename.removesuffix(".npy"): i for i in archive.infolist() if i.filename.endswith(".npy")}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._members)

    def shape(self, name: str) -> tuple[int, ...]:
        member = self._members[name]
        with refusing(self.path, PLAIN), zipfile.ZipFile(self.path) as archive, archive.open(member) as stream:
            return self._header(stream, name)[0]

    def chunks(self, names: Sequence[str], rows: int, length: int) -> Iterator[dict[str, Array]]:
        with ExitStack() as stack:
            stack.enter_context(refusing(self.path, PLAIN))
            archive = stack.enter_context(zipfile.ZipFile(self.path))
            streams = {name: stack.enter_context(archive.open(self._members[name])) for name in names}
            headers = {name: self._header(stream, name) for name, stream in streams.items()}
            # What is stored by columns has no rows to stream and is read whole.
            whole = {name: self._transposed(streams[name], name, *headers[name]) for name in names if headers[name][2]}
            for start in range(0, length, rows):
                part = slice(start, min(start + rows, length))
                yield {
                    name: whole[name][part]
                    if name in whole
                    else self._rows(streams[name], name, headers[name][0], headers[name][1], part.stop - start)
                    for name in names
                }

    def _header(self, stream: IO[bytes], name: str) -> tuple[tuple[int, ...], np.dtype[Any], bool]:
        version = np.lib.format.read_magic(stream)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, fortran, dtype = read(stream)
        if dtype.hasobject or dtype.kind not in "fiubU":
            raise DataError(
                f"expected numbers, {name} of {self.path} holds {dtype}, which would have to be unpickled and is "
                "refused; save plain arrays"
            )
        size = prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or size > self._members[name].file_size:
            raise DataError(f"expected {size} bytes for shape {shape}, {name} of {self.path} is shorter: it is damaged")
        if prod(shape[1:]) * dtype.itemsize > LARGEST_ROW:
            raise DataError(f"expected rows of at most {LARGEST_ROW >> 20} MiB, {name} of {self.path} has {shape}")
        return shape, dtype, fortran and len(shape) > 1

    def _transposed(self, stream: IO[bytes], name: str, shape: tuple[int, ...], dtype: np.dtype[Any], _: bool) -> Array:
        if prod(shape) * dtype.itemsize > LARGEST_WHOLE:
            raise DataError(
                f"expected rows one after another in a file this large, {name} of {self.path} is stored by columns; "
                "save np.ascontiguousarray of it"
            )
        return self._rows(stream, name, shape[::-1], dtype, shape[-1]).transpose()

    def _rows(self, stream: IO[bytes], name: str, shape: tuple[int, ...], dtype: np.dtype[Any], rows: int) -> Array:
        size = rows * prod(shape[1:]) * dtype.itemsize
        data = stream.read(size)
        if len(data) != size:
            raise DataError(f"expected {size} more bytes, {name} of {self.path} ends before: it is damaged")
        return np.frombuffer(data, dtype=dtype).reshape((rows, *shape[1:]) if shape else ())


class Npy(ArrayFile):
    """Arrays in .npy files of one folder, mapped into memory; `x_mean.npy` looks for its `x_` neighbours."""

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

    def chunks(self, names: Sequence[str], rows: int, length: int) -> Iterator[dict[str, Array]]:
        mapped = {name: self._mapped(name) for name in names}
        for start in range(0, length, rows):
            yield {name: np.array(array[start : min(start + rows, length)]) for name, array in mapped.items()}

    def _mapped(self, name: str) -> Array:
        try:
            array: Array = np.load(self._files[name], mmap_mode="r", allow_pickle=False)
        except (ValueError, OSError, EOFError) as error:
            raise DataError(f"expected a plain array, could not read {self._files[name]}: {error}") from error
        return array


class Parquet(ArrayFile):
    """Columns ``mean_0 mean_1 ...`` or a list column ``mean``, and so for the others; factors are ``factor_*``."""

    @cached_property
    def _columns(self) -> dict[str, list[str]]:
        groups: dict[str, list[str]] = {}
        for column in self._schema:
            if column.startswith("factor_") and column != "factor_names":
                groups.setdefault("factors", []).append(column)
            else:
                groups.setdefault(re.sub(r"[_.]?\d+$", "", column) or column, []).append(column)
        return {name: sorted(columns, key=_number) for name, columns in groups.items()}

    @cached_property
    def _schema(self) -> "polars.Schema":
        schema: polars.Schema = self._guarded(lambda: self._scan.collect_schema())
        return schema

    @cached_property
    def _scan(self) -> "polars.LazyFrame":
        import polars

        scan: polars.LazyFrame = self._guarded(lambda: polars.scan_parquet(self.path, glob=False))
        return scan

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._columns)

    @property
    def factor_names(self) -> list[str] | None:
        columns = self._columns.get("factors")
        return [column.removeprefix("factor_") for column in columns] if columns else None

    def shape(self, name: str) -> tuple[int, ...]:
        import polars

        count: polars.DataFrame = self._guarded(lambda: self._scan.select(polars.len()).collect())
        first = next(self.chunks([name], 1, 1))[name]
        return (int(count.item()), *first.shape[1:])

    def chunks(self, names: Sequence[str], rows: int, length: int) -> Iterator[dict[str, Array]]:
        wanted = [column for name in names for column in self._columns[name]]
        for start in range(0, length, rows):
            count = min(rows, length - start)
            frame = self._guarded(lambda a=start, n=count: self._scan.slice(a, n).select(wanted).collect())
            yield {name: self._array(frame, name) for name in names}

    def _array(self, frame: "polars.DataFrame", name: str) -> Array:
        columns = self._columns[name]
        if len(columns) == 1 and frame.schema[columns[0]].is_nested():
            rows = frame[columns[0]].to_list()
            try:
                return np.array(rows, dtype=np.float64)
            except (TypeError, ValueError) as error:
                raise DataError(f"expected lists of one length, column {columns[0]} of {self.path}: {error}") from error
        if not all(frame.schema[column].is_numeric() for column in columns):
            raise DataError(f"expected numbers in the columns {', '.join(columns)} of {self.path}")
        return frame.select(columns).to_numpy()

    def _guarded(self, read: Any) -> Any:
        import polars

        try:
            return read()
        except (polars.exceptions.PolarsError, polars.exceptions.PanicException, OSError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise DataError(f"expected a parquet file, could not read {self.path}: {reason}") from error


class Csv(Parquet):
    """A table with a header, its columns named as those of parquet."""

    @cached_property
    def _scan(self) -> "polars.LazyFrame":
        import polars

        scan: polars.LazyFrame = self._guarded(lambda: polars.scan_csv(self.path, glob=False))
        return scan


class HeldArrays(ArrayFile):
    """Arrays that are in memory already."""

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
        from safetensors import SafetensorError, safe_open

        try:
            return safe_open(self.path, framework="np")
        except (SafetensorError, OSError) as error:
            raise DataError(f"expected named tensors, could not read {self.path}: {error}") from error

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._open.keys())

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._open.get_slice(name).get_shape())

    def chunks(self, names: Sequence[str], rows: int, length: int) -> Iterator[dict[str, Array]]:
        parts = {name: self._open.get_slice(name) for name in names}
        for start in range(0, length, rows):
            end = min(start + rows, length)
            yield {name: np.asarray(part[start:end] if part.get_shape() else part[()]) for name, part in parts.items()}


class AnnotatedData(ArrayFile):
    """The moments of q(z|x) that scvi-tools keeps in ``obsm`` of an .h5ad: ``..._qzm`` and ``..._qzv``, or by name."""

    @cached_property
    def _members(self) -> dict[str, Any]:
        import h5py

        try:
            file = h5py.File(self.path, "r")
            held = file.get("obsm", {})
            arrays = {str(name): held[name] for name in held if isinstance(held[name], h5py.Dataset)}
        except (OSError, KeyError, RuntimeError) as error:
            raise DataError(f"expected an .h5ad, could not read {self.path}: {error}") from error
        return {_latent_name(name): array for name, array in arrays.items()}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._members)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._members[name].shape)

    def chunks(self, names: Sequence[str], rows: int, length: int) -> Iterator[dict[str, Array]]:
        for start in range(0, length, rows):
            yield {name: np.asarray(self._members[name][start : min(start + rows, length)]) for name in names}


def _latent_name(name: str) -> str:
    """Return a name of ``obsm`` without what scverse writes around it: X_scVI_qzm is qz_m."""
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
