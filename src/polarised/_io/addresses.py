"""Addresses that fsspec understands, such as ``s3://bucket/codes``: open, list and copy files."""

import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from polarised.errors import ConfigError, DataError, PolarisedError

__all__ = ["brought", "copy_here", "files_at", "is_address", "open_filesystem", "reaching"]


def is_address(place: str | Path) -> bool:
    """Return whether a place is an address and not a path on this machine.

    Args:
        place: A path or an address.

    Returns:
        True if it has a protocol.

    >>> is_address("s3://bucket/study"), is_address("runs/study")
    (True, False)
    """
    return "://" in str(place)


def open_filesystem(address: str) -> tuple[Any, str]:
    """Return the file system of an address and the path on it.

    Args:
        address: An address such as ``s3://bucket/study``.

    Returns:
        The fsspec file system, with caching of listings disabled, and the path.

    Raises:
        ConfigError: If fsspec or the package of the protocol is not installed, or the protocol is unknown.
    """
    try:
        import fsspec
    except ImportError as error:
        raise ConfigError(f"{address} needs fsspec: pip install fsspec (s3fs for S3), or give a folder") from error
    try:
        # Other processes write there at the same time, so listings must not be cached.
        system, base = fsspec.core.url_to_fs(address, use_listings_cache=False)
    except OSError:
        raise
    # fsspec also opens archives in addresses, which may be damaged in any way.
    except Exception as error:
        hint = "; pip install s3fs" if address.startswith("s3://") and isinstance(error, ImportError) else ""
        raise ConfigError(f"expected an address that fsspec can open, got {address}: {_words(error)}{hint}") from error
    return system, base.rstrip("/")


@contextmanager
def reaching(address: str | Path) -> Iterator[None]:
    """Convert any error that a store or a damaged archive makes fsspec raise; a missing file stays FileNotFoundError.

    Args:
        address: The address that is read or written.

    Yields:
        Nothing.

    Raises:
        DataError: The store raised an error that is not an OSError.
    """
    try:
        yield
    except (PolarisedError, OSError):
        raise
    except Exception as error:
        raise DataError(f"could not read or write {address}: {_words(error)}") from error


def copy_here(system: Any, path: str, target: Path, *, room: int, address: str) -> None:
    """Copy a file from a store, but at most `room` bytes, whatever size the store reports.

    Args:
        system: The file system of fsspec.
        path: The file on it.
        target: The path of the copy.
        room: The largest number of bytes.
        address: The name of the file in errors.

    Raises:
        DataError: If it is larger.
        OSError: If it does not exist or cannot be read.
    """
    from fsspec.callbacks import Callback

    class Room(Callback):  # type: ignore[misc]
        def relative_update(self, inc: int = 1) -> None:
            super().relative_update(inc)
            if self.value > room:
                raise DataError(
                    f"expected at most {room >> 20:,} MiB at {address}, but the file is larger; free some disk space "
                    "first"
                )

    with reaching(address):
        system.get_file(path, str(target), callback=Room())


def _words(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


def files_at(address: str, *, endings: Collection[str]) -> list[str]:
    """Return the addresses of the files that an address denotes: itself, the matches of a pattern, or a folder's files.

    Args:
        address: The address of a file or folder, or a pattern (``*``, ``?``, ``[``).
        endings: The suffixes of the files to list in a folder.

    Returns:
        The addresses, sorted.

    Raises:
        DataError: If there is none, or the store cannot be reached.
    """
    system, base = open_filesystem(address)
    try:
        if any(sign in base for sign in "*?["):
            found = [path for path in system.glob(base) if not path.endswith("/")]
        elif system.isfile(base):
            found = [base]
        else:
            found = [path for path in system.find(base, maxdepth=1) if PurePosixPath(path).suffix.lower() in endings]
    except FileNotFoundError:
        found = []
    except Exception as error:
        raise DataError(f"could not read {address}: {_words(error)}") from error
    if not found:
        raise DataError(f"expected at least one file of encodings, but nothing matches {address}; check the address")
    # Two colons begin another address: names in a store would choose what this machine connects to.
    if chained := next((path for path in found if "::" in path or "://" in path), None):
        raise DataError(f"expected names of files at {address}, got {chained[:80]!r}, which is read as an address")
    first, chain, archive = address.partition("::")
    return [f"{first.partition('://')[0]}://{path}{chain}{archive}" for path in sorted(found)]


@contextmanager
def brought(address: str) -> Iterator[Path]:
    """Yield a local copy of a file, which is deleted after the block; a path is yielded unchanged.

    Args:
        address: The address of a file, or a path.

    Yields:
        The path of the copy.

    Raises:
        DataError: If it cannot be read.
    """
    if not is_address(address):
        yield Path(address)
        return
    system, base = open_filesystem(address)
    with tempfile.TemporaryDirectory() as folder:
        # The name of the file is untrusted; only the suffix is used, because it determines the reader.
        copy = Path(folder) / f"file{PurePosixPath(base).suffix[:16]}"
        try:
            copy_here(system, base, copy, room=shutil.disk_usage(folder).free // 2, address=address)
        except OSError as error:
            raise DataError(f"could not read {address}: {_words(error)}") from error
        yield copy
