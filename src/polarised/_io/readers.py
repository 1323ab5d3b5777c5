"""Readers of the files datasets come in, which refuse what is not exactly what its header says.

Nothing is unpickled, nothing is unpacked onto the disk, and memory follows the bytes that are there, not the
sizes that a header claims.
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

from polarised._io.files import contained
from polarised.errors import DataError

__all__ = ["Rows", "idx", "mat_array", "norb_matrix", "npz_member", "refusing", "tar_members", "zip_members"]

CHUNK = 16 << 20


PIECE = 1 << 20


LARGEST_MEMBER = 64 << 20


LARGEST_HEADER_DIMENSION = 16


COMPRESSED_ELEMENT = 15


@dataclass(frozen=True)
class Rows:
    """An array in a file, read in chunks of rows or whole."""

    path: Path
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: Iterator[NDArray[Any]]

    def whole(self) -> NDArray[Any]:
        """Return all rows at once."""
        return np.concatenate(list(self.chunks))


@contextmanager
def refusing(path: Path, kind: str) -> Iterator[None]:
    """Turn whatever a damaged file makes a parser raise into one error with the file's name and the remedy."""
    try:
        yield
    except DataError:
        raise
    # Parsers of other libraries raise nearly anything on damaged bytes.
    except Exception as error:
        raise refusal(path, kind, f"{type(error).__name__}: {error}") from error


def refusal(path: Path, kind: str, came: str) -> DataError:
    """Return the error for a file that is not what it should be."""
    return DataError(f"expected {kind} in {path}, got {came}; delete the file and get it again")


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


def npz_member(path: Path, name: str) -> Rows:
    """Read one array of an .npz; arrays of objects are refused, since they would have to be unpickled.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "a.npz"
    >>> np.savez(file, a=np.arange(3))
    >>> npz_member(file, "a").whole()
    array([0, 1, 2])
    """
    kind = f"an .npz with the array {name!r}"

    def header(file: IO[bytes]) -> tuple[np.dtype[Any], tuple[int, ...]]:
        version = np.lib.format.read_magic(file)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, fortran, dtype = read(file)
        if dtype.hasobject:
            raise DataError(f"expected plain numbers as {name!r} in {path}, got pickled objects; save it as numbers")
        if fortran and len(shape) > 1:
            raise DataError(f"expected {name!r} of {path} in C order, got Fortran order; save a copy in C order")
        return dtype, shape

    with refusing(path, kind), zipfile.ZipFile(path) as archive:
        names = [member.removesuffix(".npy") for member in archive.namelist()]
        if name not in names:
            there = ", ".join(names) or "nothing"
            raise DataError(f"expected the array {name!r} in {path}, which has {there}; name one of its arrays")
    return _array(path, kind, header, member=f"{name}.npy")


def mat_array(content: bytes, name: str, path: Path, *, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return an array of bytes from a MATLAB file, whose declared shape is looked at before it is read."""
    from scipy.io import loadmat, whosmat

    kind = f"a MATLAB file with {name!r} of shape {shape} and bytes"

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


def tar_members(path: Path, suffix: str) -> Iterator[tuple[str, bytes]]:
    """Give name and content of the ordinary files of a tar archive that end in `suffix`; nothing is unpacked."""
    with refusing(path, "a tar archive"), tarfile.open(path) as archive:
        for member in archive:
            if not member.isreg() or not member.name.endswith(suffix):
                continue
            contained(path, member.name, source=path)
            if member.size > LARGEST_MEMBER:
                raise refusal(path, "a tar archive", f"{member.name} of {member.size} bytes")
            file = archive.extractfile(member)
            yield member.name, b"" if file is None else _exactly(file, member.size)


def zip_members(path: Path, suffix: str) -> Iterator[tuple[str, bytes]]:
    """Give name and content of the files of a zip archive that end in `suffix`, by name; nothing is unpacked."""
    with refusing(path, "a zip archive"), zipfile.ZipFile(path) as archive:
        members = [member for member in archive.infolist() if member.filename.endswith(suffix)]
        for member in sorted(members, key=lambda member: member.filename):
            contained(path, member.filename, source=path)
            if member.file_size > LARGEST_MEMBER:
                raise refusal(path, "a zip archive", f"{member.filename} of {member.file_size} bytes")
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
                raise ValueError("a compressed element without an end")
        else:
            size += -size % 8
        position += 8 + size


Header = Callable[[IO[bytes]], tuple[np.dtype[Any], tuple[int, ...]]]


def _array(path: Path, kind: str, header: Header, *, member: str | None = None) -> Rows:
    with refusing(path, kind), _opened(path, member) as file:
        dtype, shape = header(file)
        begins = file.tell()
        if not shape or min(shape) < 1 or dtype.itemsize < 1:
            raise ValueError(f"an array of shape {shape}")
        _fits(path, member, begins + math.prod(shape) * dtype.itemsize)

    def chunks() -> Iterator[NDArray[Any]]:
        with refusing(path, kind), _opened(path, member) as file:
            _exactly(file, begins)
            row = math.prod(shape[1:]) * dtype.itemsize
            step = max(1, CHUNK // row)
            for start in range(0, shape[0], step):
                rows = min(step, shape[0] - start)
                yield np.frombuffer(_exactly(file, rows * row), dtype=dtype).reshape(rows, *shape[1:])
            _at_end(file)

    return Rows(path, tuple(shape), dtype, chunks())


@contextmanager
def _opened(path: Path, member: str | None) -> Iterator[IO[bytes]]:
    """Open a file, what is in a .gz, or a member of a zip archive."""
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
    """Refuse early a file whose length is not what its header asks for, where the length is known without reading."""
    if member is not None:
        with zipfile.ZipFile(path) as archive:
            length = archive.getinfo(member).file_size
    else:
        with path.open("rb") as file:
            if file.read(2) == b"\x1f\x8b":
                return
        length = path.stat().st_size
    if length != expected:
        raise ValueError(f"{length} bytes where its header asks for {expected}")


def _exactly(file: IO[bytes], count: int) -> bytes:
    """Read `count` bytes piece by piece, so that a lying header costs no more memory than there are bytes."""
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
        raise ValueError("more bytes than its header asks for")
