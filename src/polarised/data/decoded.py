"""Pictures decoded once into a memory-mapped array that all processes share."""

import json
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polarised.data.download import Source, data_folder, find, obtain, report_progress
from polarised.errors import DataError

__all__ = ["Decoded", "Pictures", "as_unit_interval", "decoded", "name_of"]

A_DAY = 86_400


@dataclass(frozen=True)
class Pictures:
    """What a decoder makes of the files: rows of pictures in order, and their factors where each has its own."""

    shape: tuple[int, ...]
    dtype: type[np.generic]
    chunks: Iterable[NDArray[Any]]
    factors: NDArray[Any] | None = None
    values: dict[str, list[Any]] = field(default_factory=dict)


class Decoded(NamedTuple):
    """Pictures (n, C, H, W) as a memory-mapped array, their factors (n, F) and the names or values of the factors."""

    images: NDArray[Any]
    factors: NDArray[Any] | None
    values: dict[str, list[Any]]


def decoded(
    key: str, sources: Sequence[Source], decode: Callable[[list[Path]], Pictures], *, places: Sequence[Path] = ()
) -> Decoded:
    """Return the decoded pictures of some files: from the earlier decoding, or decoded now from `places` or `sources`.

    The folder `decoded/key` appears whole or not at all. It is made again when the files change, and serves without
    them when they are gone.
    """
    folder = data_folder() / "decoded" / key
    here: list[Path | None] = list(places) or [find(source.file) for source in sources]
    present = [path for path in here if path is not None]
    fingerprint = _fingerprint(present) if len(present) == len(here) else None
    earlier = _earlier(folder, fingerprint)
    if earlier is not None:
        return earlier
    files = present if fingerprint is not None else [obtain(source) for source in sources]
    _write(folder, decode(files), _fingerprint(files), key)
    written = _earlier(folder, None)
    if written is None:
        raise DataError(f"expected the decoded pictures in {folder}, which cannot be read; delete the folder")
    return written


def as_unit_interval(images: NDArray[Any]) -> Callable[[NDArray[np.int64]], NDArray[np.float32]]:
    """Return the reader of an array of bytes (any integers) as float32 of which 255 is 1."""

    def read(indices: NDArray[np.int64]) -> NDArray[np.float32]:
        return images[indices].astype(np.float32) / np.float32(255)

    return read


def name_of(path: Path) -> str:
    """Return a short name for the decoded pictures of a user's own path.

    >>> name_of(Path("/pictures/cats"))
    'cats-d2e19b2e'
    """
    return f"{path.stem}-{zlib.crc32(str(path.resolve()).encode()):08x}"


def _earlier(folder: Path, fingerprint: list[list[Any]] | None) -> Decoded | None:
    try:
        about = json.loads((folder / "about.json").read_text())
        if fingerprint is not None and about["files"] != fingerprint:
            return None
        images = np.load(folder / "images.npy", mmap_mode="r", allow_pickle=False)
        factors = folder / "factors.npy"
        table = np.load(factors, allow_pickle=False) if factors.exists() else None
    except (OSError, ValueError, KeyError, EOFError):
        return None
    return Decoded(images, table, about["values"])


def _write(folder: Path, pictures: Pictures, fingerprint: list[list[Any]], key: str) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    _sweep(folder)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        _write_rows(temporary / "images.npy", pictures, key)
        if pictures.factors is not None:
            np.save(temporary / "factors.npy", pictures.factors, allow_pickle=False)
        (temporary / "about.json").write_text(json.dumps({"files": fingerprint, "values": pictures.values}))
        temporary.chmod(0o755)
        _put(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _put(temporary: Path, folder: Path) -> None:
    """Give the finished folder its name, in place of an outdated one; another process may have been quicker."""
    with suppress(OSError):
        folder.replace(temporary / "outdated")
    try:
        temporary.replace(folder)
    except OSError:
        if not folder.exists():
            raise
    shutil.rmtree(folder / "outdated", ignore_errors=True)


def _write_rows(path: Path, pictures: Pictures, key: str) -> None:
    done, total = 0, pictures.shape[0]
    with path.open("wb") as file:
        about = {"descr": np.dtype(pictures.dtype).str, "fortran_order": False, "shape": pictures.shape}
        np.lib.format.write_array_header_2_0(file, about)
        for chunk in pictures.chunks:
            if chunk.shape[1:] != pictures.shape[1:] or chunk.dtype != pictures.dtype:
                raise DataError(f"expected pictures of shape {pictures.shape[1:]} for {key}, got {chunk.shape[1:]}")
            file.write(np.ascontiguousarray(chunk).data)
            done += len(chunk)
            report_progress(f"decoding {key}", done, total)
    if done != total:
        raise DataError(f"expected {total} pictures for {key}, got {done}; get the files again")


def _fingerprint(paths: Sequence[Path]) -> list[list[Any]]:
    stats = [(path.name, path.stat()) for path in paths]
    return [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats]


def _sweep(folder: Path) -> None:
    """Remove what decodings that were killed more than a day ago have left."""
    for leftover in folder.parent.glob(f".{folder.name}.*"):
        if time.time() - leftover.stat().st_mtime > A_DAY:
            shutil.rmtree(leftover, ignore_errors=True)
