"""Where the files of datasets lie, and how they get there when there is a network.

One folder holds them: `POLARISED_DATA` if set, else `polarised` in the user's cache. Files that disentanglement_lib has
already fetched (`DISENTANGLEMENT_LIB_DATA`) are found as well; both use its names of folders and files.
"""

import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polarised.errors import DownloadError

__all__ = ["Progress", "Source", "data_folder", "find", "missing", "obtain", "report_progress", "reporting"]

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much is done and how much there is (0 where not known)."""

CHUNK = 1 << 20
SECONDS_WITHOUT_A_BYTE = 30


@dataclass(frozen=True)
class Source:
    """A file of a dataset: its place below the data folder, where it can be had, and its digest where published."""

    file: str
    urls: tuple[str, ...] = ()
    page: str = ""
    sha256: str | None = None
    md5: str | None = None

    @property
    def digest(self) -> str | None:
        """The strongest published digest as pooch writes it, ``algorithm:value``."""
        return f"sha256:{self.sha256}" if self.sha256 else f"md5:{self.md5}" if self.md5 else None


def data_folder() -> Path:
    """Return the folder of all datasets: `POLARISED_DATA`, else `polarised` in the user's cache.

    >>> data_folder().is_absolute()
    True
    """
    if chosen := os.environ.get("POLARISED_DATA"):
        return Path(chosen).expanduser().absolute()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache").absolute() / "polarised"


def find(file: str) -> Path | None:
    """Return where a file or folder of a dataset is, if it is anywhere; `name.gz` serves for `name` and the reverse.

    >>> find("no such dataset/no such file") is None
    True
    """
    other = file.removesuffix(".gz") if file.endswith(".gz") else file + ".gz"
    elsewhere = os.environ.get("DISENTANGLEMENT_LIB_DATA")
    folders = [data_folder(), *([Path(elsewhere).expanduser().absolute()] if elsewhere else [])]
    return next((folder / name for folder in folders for name in (file, other) if (folder / name).exists()), None)


def obtain(source: Source, *, mirror: str | None = None) -> Path:
    """Return the path of a file, downloading it if it is not here; an interrupted download goes on where it stopped.

    `mirror` is the address or path of a folder that holds the file, asked before the published addresses.
    """
    if (here := find(source.file)) is not None:
        return here
    target = data_folder() / source.file
    if mirror and "://" not in mirror:
        mirror = Path(mirror).expanduser().absolute().as_uri()
    urls = ([f"{mirror.rstrip('/')}/{target.name}"] if mirror else []) + list(source.urls)
    from http.client import HTTPException

    refusals = []
    for url in urls:
        try:
            return _retrieved(url, target, source.digest)
        except (OSError, HTTPException, ValueError) as error:
            refusals.append(f"{url}: {_in_one_line(error)}")
    raise missing(source, "; ".join(refusals))


def missing(source: Source, reason: str = "") -> DownloadError:
    """Return the error that says which file is needed, where to get it and where to put it.

    >>> raise missing(Source("scream/scream.jpg", page="its page"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    polarised.errors.DownloadError: expected the file scream.jpg, which is not on this machine; get it from ...
    """
    place = data_folder() / source.file
    tried = f" and could not be downloaded ({reason})" if reason else ""
    return DownloadError(
        f"expected the file {place.name}, which is not on this machine{tried}; get it from "
        f"{source.page or 'its publisher'} and put it into {place.parent}, or set POLARISED_DATA to a folder that has "
        f"{source.file}"
    )


_listener: ContextVar[Progress | None] = ContextVar("listener", default=None)


@contextmanager
def reporting(progress: Progress | None) -> Iterator[None]:
    """Tell `progress` of downloads and decoding within the block; without it the library works in silence."""
    token = _listener.set(progress)
    try:
        yield
    finally:
        _listener.reset(token)


def report_progress(doing: str, done: int, total: int) -> None:
    """Tell whoever listens how far the work is."""
    if (listener := _listener.get()) is not None:
        listener(doing, done, total)


def _retrieved(url: str, target: Path, digest: str | None) -> Path:
    import pooch

    pooch.get_logger().setLevel("WARNING")
    target.parent.mkdir(parents=True, exist_ok=True)
    pooch.retrieve(url, digest, fname=target.name, path=target.parent, downloader=_download)
    return target


def _download(url: str, output_file: str | os.PathLike[str], pooch: Any) -> None:
    """Fetch `url` into a partial file that survives interruption, then move it to `output_file`; called by pooch."""
    import urllib.error
    import urllib.request

    output = Path(output_file)
    name = url.rpartition("/")[2]
    partial = output.parent / f".{name}.{zlib.crc32(url.encode()):08x}.part"
    have = partial.stat().st_size if partial.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "polarised", "Accept-Encoding": "identity"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        answer = urllib.request.urlopen(request, timeout=SECONDS_WITHOUT_A_BYTE)
    except urllib.error.HTTPError as error:
        if error.code != 416:
            raise
        # The partial file is as long as the whole or longer: it cannot be continued.
        error.close()
        partial.unlink()
        answer = urllib.request.urlopen(url, timeout=SECONDS_WITHOUT_A_BYTE)
    with answer:
        have = have if getattr(answer, "status", None) == 206 else 0
        total = have + int(answer.headers.get("Content-Length") or 0)
        with partial.open("ab" if have else "wb") as file:
            while block := answer.read(CHUNK):
                file.write(block)
                have += len(block)
                report_progress(f"downloading {name}", have, total)
    if have < total:
        raise ConnectionError(f"the connection ended after {have} of {total} bytes; try again to continue")
    shutil.move(partial, output)


def _in_one_line(error: Exception) -> str:
    return re.sub(r"\s+", " ", str(error)).strip() or type(error).__name__
