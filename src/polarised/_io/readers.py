"""Readers for the file formats of datasets, which refuse any file that does not match its header exactly.

Nothing is unpickled or unpacked onto the disk, and memory grows with the bytes that are present, not with the sizes
that a header claims.
"""

import gzip
import io
import math
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from polarised._io.files import MOST_MEMBERS, contained, refusal, refusing
from polarised._io.limits import Budget, call_apart
from polarised.errors import DataError

__all__ = [
    "LARGEST_MEMBER",
    "LARGEST_ROW",
    "Rows",
    "idx",
    "mat_array",
    "norb_matrix",
    "npy_header",
    "npz_member",
    "npz_names",
    "read_npz",
    "read_whole",
    "tar_members",
    "zip_members",
]

CHUNK = 16 << 20
PIECE = 1 << 20
LARGEST_MEMBER = 64 << 20
LARGEST_HEADER_DIMENSION = 16
LARGEST_ROW = 1 << 26
LARGEST_NPY_HEADER = 10_000
LARGEST_TAR_HEADER = 1 << 20
MOST_ARRAYS = 1000
# Real numbers, booleans and strings: types that need no unpickling.
PLAIN_KINDS = "fiubU"
COMPRESSED_ELEMENT = 15


@dataclass(frozen=True)
class Rows:
    """An array in a file, read in chunks of rows or whole."""

    path: Path
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    in_rows: Callable[[int], Iterator[NDArray[Any]]]

    @property
    def size(self) -> int:
        """The bytes of the whole array."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def chunks(self) -> Iterator[NDArray[Any]]:
        """Chunks of rows of about 16 MiB."""
        return self.in_rows(max(1, CHUNK // max(1, math.prod(self.shape[1:]) * self.dtype.itemsize)))

    def whole(self, budget: Budget | None = None) -> NDArray[Any]:
        """Return all rows at once, charged to the file's budget before any is read."""
        (Budget.of(self.path) if budget is None else budget).hold(self.size)
        if not self.shape:
            return next(self.in_rows(1)).reshape(())
        parts = list(self.chunks)
        return np.concatenate(parts) if parts else np.zeros(self.shape, dtype=self.dtype)


def norb_matrix(path: Path) -> Rows:
    """Read a smallNORB file: int32 magic, int32 ndim, max(3, ndim) int32 sizes, then the data, little endian.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "cat.mat"
    >>> _ = file.write_bytes(struct.pack("<Ii3i2i", 0x1E3D4C54, 1, 2, 1, 1, 4, 0))
    >>> norb_matrix(file).whole()
    array([4, 0], dtype=int32)
    """
    kinds = {0x1E3D4C55: "u1", 0x1E3D4C54: "<i4", 0x1E3D4C51: "<f4", 0x1E3D4C53: "<f8"}

    def header(file: IO[bytes]) -> tuple[np.dtype[Any], tuple[int, ...]]:
        magic, dimensions = struct.unpack("<Ii", _exactly(file, 8))
        if magic not in kinds or not 1 <= dimensions <= LARGEST_HEADER_DIMENSION:
            raise ValueError(f"magic 0x{magic:08X} with {dimensions} dimensions")
        sizes = struct.unpack(f"<{max(3, dimensions)}i", _exactly(file, 4 * max(3, dimensions)))
        return np.dtype(kinds[magic]), sizes[:dimensions]

    return _array(path, "a smallNORB matrix", header)


def idx(path: Path) -> Rows:
    """Read an idx file (MNIST): two zero bytes, a type, the number of sizes, big-endian sizes, then bytes.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "labels-idx1-ubyte"
    >>> _ = file.write_bytes(struct.pack(">HBBI3B", 0, 8, 1, 3, 7, 2, 1))
    >>> idx(file).whole()
    array([7, 2, 1], dtype=uint8)
    """

    def header(file: IO[bytes]) -> tuple[np.dtype[Any], tuple[int, ...]]:
        zeros, kind, dimensions = struct.unpack(">HBB", _exactly(file, 4))
        if zeros != 0 or kind != 0x08 or not 1 <= dimensions <= LARGEST_HEADER_DIMENSION:
            raise ValueError(f"magic 0x{zeros:04X}{kind:02X}{dimensions:02X}")
        return np.dtype("u1"), struct.unpack(f">{dimensions}I", _exactly(file, 4 * dimensions))

    return _array(path, "an idx array of bytes", header)


def npy_header(file: IO[bytes], name: str, path: Path) -> tuple[np.dtype[Any], tuple[int, ...], bool]:
    """Read the header of an .npy stream: type, shape, and whether it is stored by columns (Fortran order).

    Args:
        file: The stream, at its beginning; afterwards at the first number.
        name: The array's name, for the error.
        path: The file it is in, for the error.

    Returns:
        The type (plain numbers or strings), a plausible shape, and the order.

    Raises:
        DataError: If it holds objects, or its shape is negative or huge although it holds nothing.
    """
    version = np.lib.format.read_magic(file)
    known = {(1, 0): ("<H", np.lib.format.read_array_header_1_0), (2, 0): ("<I", np.lib.format.read_array_header_2_0)}
    if version not in known:
        raise DataError(f"expected {name!r} of {path} in version 1 or 2 of .npy, got {version}; save it with numpy")
    form, read = known[version]
    length = _exactly(file, struct.calcsize(form))
    # NumPy reads as many bytes as the header claims to have, up to 4 GiB, before it checks the number.
    if (claimed := struct.unpack(form, length)[0]) > LARGEST_NPY_HEADER:
        raise DataError(
            f"expected a header of at most {LARGEST_NPY_HEADER} bytes, but {name!r} of {path} claims {claimed}"
        )
    shape, fortran, dtype = read(io.BytesIO(length + _exactly(file, claimed)))
    if dtype.hasobject or dtype.kind not in PLAIN_KINDS:
        raise DataError(
            f"expected plain numbers, but {name!r} of {path} holds {str(dtype)[:80]}, which would have to be unpickled "
            "and is refused; save plain arrays"
        )
    # An array without bytes may claim any size: (2**62, 0) would be iterated row by row.
    apparent = math.prod(max(1, size) for size in shape) * max(1, dtype.itemsize)
    empty = 0 in shape or dtype.itemsize == 0
    if len(shape) > LARGEST_HEADER_DIMENSION or min(shape, default=0) < 0 or (empty and apparent > PIECE):
        raise DataError(f"expected a plausible shape, but {name!r} of {path} has {str(shape)[:80]}: it is damaged")
    return dtype, tuple(int(size) for size in shape), fortran and len(shape) > 1


def npz_names(path: Path) -> tuple[str, ...]:
    """Return the names of the arrays in an .npz.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "a.npz"
    >>> np.savez(file, a=np.arange(3), b=np.arange(2))
    >>> npz_names(file)
    ('a', 'b')
    """
    with refusing(path, "an .npz of plain arrays"), zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    if len(names) > MOST_ARRAYS:
        raise DataError(
            f"expected at most {MOST_ARRAYS} arrays in {path}, but it has {len(names)}; is it the right file?"
        )
    return tuple(dict.fromkeys(name.removesuffix(".npy") for name in names if name.endswith(".npy")))


def npz_member(path: Path, name: str) -> Rows:
    """Read one array of an .npz; arrays of objects are refused, since they would have to be unpickled.

    An array in Fortran order cannot be streamed by rows: it is read at once, within the file's budget.

    Args:
        path: The .npz.
        name: The array's name in it.

    Returns:
        The array, of which only the header has been read.

    Raises:
        DataError: If it is missing, damaged, of objects, or larger than the file.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "a.npz"
    >>> np.savez(file, a=np.arange(3))
    >>> npz_member(file, "a").whole()
    array([0, 1, 2])
    """
    names = npz_names(path)
    if name not in names:
        there = ", ".join(names)[:300] or "nothing"
        raise DataError(f"expected the array {name!r} in {path}, which has {there}; name one of its arrays")
    by_columns = False

    def header(file: IO[bytes]) -> tuple[np.dtype[Any], tuple[int, ...]]:
        nonlocal by_columns
        dtype, shape, by_columns = npy_header(file, name, path)
        return dtype, shape[::-1] if by_columns else shape

    rows = _array(path, f"an .npz with the array {name!r}", header, member=f"{name}.npy", empty=True)
    if not by_columns:
        return rows

    def transposed(count: int) -> Iterator[NDArray[Any]]:
        array = rows.whole().transpose()
        for start in range(0, len(array), count):
            yield array[start : start + count]

    return Rows(path, rows.shape[::-1], rows.dtype, transposed)


def read_npz(path: Path, *, largest: int | None = None) -> dict[str, NDArray[Any]]:
    """Return all arrays of an .npz, within one budget.

    Args:
        path: The .npz.
        largest: The largest number of bytes of all arrays together, if known.

    Returns:
        The arrays by name.

    Raises:
        DataError: If it is damaged, of objects, or unpacks to more than its size on disk allows.
        FileNotFoundError: If it does not exist.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "a.npz"
    >>> np.savez(file, a=np.arange(3), b=np.ones((2, 2)))
    >>> sorted(read_npz(file))
    ['a', 'b']
    """
    budget = Budget.of(path)
    if largest is not None:
        budget.held = min(budget.held, largest)
    return {name: npz_member(path, name).whole(budget) for name in npz_names(path)}


def mat_array(content: bytes, name: str, path: Path, *, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return an array of bytes from a MATLAB file; its declared shape is checked before it is read."""
    kind = f"a MATLAB file with {name!r} of shape {shape} and bytes"
    return call_apart(Budget.of_size(path, len(content)), kind, _mat_array, content, name, path, shape, kind)


def _mat_array(content: bytes, name: str, path: Path, shape: tuple[int, ...], kind: str) -> NDArray[np.uint8]:
    from scipy.io import loadmat, whosmat

    def stream() -> Any:
        return io.BytesIO(content)

    with refusing(path, kind):
        _check_compressed_elements(content)
        declared = [(size, class_) for key, size, class_ in whosmat(stream()) if key == name]
        if declared != [(shape, "uint8")]:
            raise refusal(path, kind, str(declared))
        array = loadmat(stream(), variable_names=[name])[name]
        if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != np.uint8:
            raise refusal(path, kind, "another array")
    return array


def read_whole(path: Path) -> bytes:
    """Return the bytes of a file, which may be at most as large as a member of an archive.

    Args:
        path: The file.

    Returns:
        Its bytes.

    Raises:
        DataError: If it is larger, or not an ordinary file.
    """
    with refusing(path, f"a file of at most {LARGEST_MEMBER >> 20} MiB"), path.open("rb") as file:
        content = file.read(LARGEST_MEMBER + 1)
        if len(content) > LARGEST_MEMBER:
            raise ValueError("a larger one")
        return content


def tar_members(path: Path, suffix: str) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the ordinary files of a tar archive that end in `suffix`; nothing is unpacked."""
    budget = Budget.of(path)
    with refusing(path, "a tar archive"), _opened(path, None) as file:
        stream = _Pieces(file)
        with tarfile.open(fileobj=stream, mode="r:") as archive:  # type: ignore[call-overload]
            for number, member in enumerate(iter(archive.next, None)):
                budget.stream(member.size)
                stream.left = LARGEST_TAR_HEADER
                if number >= MOST_MEMBERS:
                    raise refusal(path, "a tar archive", f"more than {MOST_MEMBERS} files")
                if not member.isreg() or member.issparse() or not member.name.endswith(suffix):
                    continue
                contained(path, member.name, source=path)
                if member.size > LARGEST_MEMBER:
                    raise refusal(path, "a tar archive", f"{member.name} of {member.size} bytes")
                stream.left += member.size
                part = archive.extractfile(member)
                yield member.name, b"" if part is None else _exactly(part, member.size)


class _Pieces:
    """A stream that returns only a limited number of bytes, because names in a tar archive may claim any length."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.left = file, LARGEST_TAR_HEADER
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= self.left:
            raise ValueError(f"a header of more than {LARGEST_TAR_HEADER >> 10} KiB")
        self.left -= size
        return self.file.read(size)


def zip_members(path: Path, suffix: str) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the files of a zip archive that end in `suffix`, by name; nothing is unpacked."""
    budget = Budget.of(path)
    with refusing(path, "a zip archive"), zipfile.ZipFile(path) as archive:
        members = [member for member in archive.infolist() if member.filename.endswith(suffix)]
        for member in sorted(members, key=lambda member: member.filename):
            contained(path, member.filename, source=path)
            if member.file_size > LARGEST_MEMBER:
                raise refusal(path, "a zip archive", f"{member.filename} of {member.file_size} bytes")
            budget.stream(member.file_size)
            with archive.open(member) as file:
                content = _exactly(file, member.file_size)
                _at_end(file)
            yield member.filename, content


def _check_compressed_elements(content: bytes) -> None:
    """Check length and checksum of the compressed elements of a MATLAB 5 file, which SciPy does not."""
    order = {b"IM": "<", b"MI": ">"}.get(content[126:128])
    position = 128
    while order is not None and position < len(content):
        kind, size = struct.unpack_from(f"{order}II", content, position)
        packed = content[position + 8 : position + 8 + size]
        if len(packed) < size:
            raise EOFError(f"the file ends {size - len(packed)} bytes early")
        if kind == COMPRESSED_ELEMENT:
            engine = zlib.decompressobj()
            engine.decompress(packed, LARGEST_MEMBER)
            if not engine.eof:
                raise ValueError("an unterminated compressed element")
        else:
            size += -size % 8
        position += 8 + size


Header = Callable[[IO[bytes]], tuple[np.dtype[Any], tuple[int, ...]]]


def _array(path: Path, kind: str, header: Header, *, member: str | None = None, empty: bool = False) -> Rows:
    with refusing(path, kind), _opened(path, member) as file:
        dtype, shape = header(file)
        begins = file.tell()
        if not empty and (not shape or min(shape) < 1 or dtype.itemsize < 1):
            raise ValueError(f"an array of shape {shape}")
        _fits(path, member, begins + math.prod(shape) * dtype.itemsize)
        row = math.prod(shape[1:]) * dtype.itemsize
        if row > LARGEST_ROW:
            raise DataError(f"expected rows of at most {LARGEST_ROW >> 20} MiB in {path}, but its shape is {shape}")

    def in_rows(count: int) -> Iterator[NDArray[Any]]:
        budget = Budget.of(path)
        with refusing(path, kind), _opened(path, member) as file:
            _exactly(file, begins)
            if not shape:
                yield np.frombuffer(_exactly(file, dtype.itemsize), dtype=dtype)
                return
            for start in range(0, shape[0], count):
                rows = min(count, shape[0] - start)
                budget.stream(rows * row)
                yield np.frombuffer(_exactly(file, rows * row), dtype=dtype).reshape(rows, *shape[1:])
            _at_end(file)

    return Rows(path, tuple(shape), dtype, in_rows)


@contextmanager
def _opened(path: Path, member: str | None) -> Iterator[IO[bytes]]:
    """Open a file, the content of a .gz, or a member of a zip archive."""
    with ExitStack() as stack:
        if member is not None:
            archive = stack.enter_context(zipfile.ZipFile(path))
            yield stack.enter_context(archive.open(member))
            return
        raw = stack.enter_context(path.open("rb"))
        compressed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        yield cast(IO[bytes], stack.enter_context(gzip.GzipFile(fileobj=raw))) if compressed else raw


def _fits(path: Path, member: str | None, expected: int) -> None:
    """Refuse a file whose length does not match its header, if the length is known without reading."""
    if member is not None:
        with zipfile.ZipFile(path) as archive:
            length = archive.getinfo(member).file_size
    else:
        with path.open("rb") as file:
            if file.read(2) == b"\x1f\x8b":
                return
        length = path.stat().st_size
    if length != expected:
        raise ValueError(f"{length} bytes, although its header requires {expected}")


def _exactly(file: IO[bytes], count: int) -> bytes:
    """Read `count` bytes in pieces, so that a wrong header takes no more memory than the file has bytes."""
    pieces = []
    while count > 0:
        piece = file.read(min(count, PIECE))
        if not piece:
            raise EOFError(f"the file ends {count} bytes early")
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)


def _at_end(file: IO[bytes]) -> None:
    if file.read(1):
        raise ValueError("more bytes than its header requires")
