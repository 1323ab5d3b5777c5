"""Addresses that fsspec understands, such as ``s3://bucket/codes``: opened, listed, and read one file at a time."""

import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from polarised.errors import ConfigError, DataError, PolarisedError

__all__ = ["brought", "copy_here", "files_at", "is_address", "open_filesystem", "reaching"]


def is_address(place: str | Path) -> bool:
    """Return whether a place is an address rather than a path of this machine.

    Args:
        place: A path or an address.

    Returns:
        True for what has a protocol.

    >>> is_address("s3://bucket/study"), is_address("runs/study")
    (True, False)
    """
    return "://" in str(place)


def open_filesystem(address: str) -> tuple[Any, str]:
    """Return the file system of an address and the path on it.

    Args:
        address: An address such as ``s3://bucket/study``.

    Returns:
        The file system of fsspec, which lists anew every time, and the path.

    Raises:
        ConfigError: If fsspec or the package of the protocol is not installed, or the protocol is none.
    """
    try:
        import fsspec
    except ImportError as error:
        raise ConfigError(f"{address} needs fsspec: pip install fsspec (s3fs for S3), or give a folder") from error
    try:
        # Others write there at the same time: what was listed a moment ago is not what is there.
        system, base = fsspec.core.url_to_fs(address, use_listings_cache=False)
    except OSError:
        raise
    # Archives among addresses are opened here, and may be damaged in any way.
    except Exception as error:
        hint = "; pip install s3fs" if address.startswith("s3://") and isinstance(error, ImportError) else ""
        raise ConfigError(f"expected an address fsspec can open, got {address}: {_words(error)}{hint}") from error
    return system, base.rstrip("/")


@contextmanager
def reaching(address: str | Path) -> Iterator[None]:
    """Turn whatever a store or a damaged archive makes fsspec raise into one sentence; what is not there is let be.

    Args:
        address: What is read or written.

    Yields:
        Nothing.

    Raises:
        DataError: The store raised what is no error of the system.
    """
    try:
        yield
    except (PolarisedError, OSError):
        raise
    except Exception as error:
        raise DataError(f"expected to read or write {address}, could not: {_words(error)}") from error


def copy_here(system: Any, path: str, target: Path, *, room: int, address: str) -> None:
    """Copy a file of a store, and no more bytes of it than there is room for, whatever size the store says it has.

    Args:
        system: The file system of fsspec.
        path: The file on it.
        target: Where the copy goes.
        room: How many bytes it may have.
        address: What an error calls it.

    Raises:
        DataError: It has more.
        OSError: It is not there or cannot be read.
    """
    from fsspec.callbacks import Callback

    class Room(Callback):  # type: ignore[misc]
        def relative_update(self, inc: int = 1) -> None:
            super().relative_update(inc)
            if self.value > room:
                raise DataError(f"expected at most {room >> 20:,} MiB at {address}, it has more; free some disk first")

    with reaching(address):
        system.get_file(path, str(target), callback=Room())


def _words(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


def files_at(address: str, *, endings: Collection[str]) -> list[str]:
    """Return the addresses of the files that an address names: itself, what fits its pattern, or what its folder holds.

    Args:
        address: The address of a file or folder, or a pattern (``*``, ``?``, ``[``).
        endings: The endings of files to take from a folder.

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
        raise DataError(f"expected to read {address}, could not: {_words(error)}") from error
    if not found:
        raise DataError(f"expected at least one file of encodings, nothing fits {address}; check the address")
    first, chain, archive = address.partition("::")
    return [f"{first.partition('://')[0]}://{path}{chain}{archive}" for path in sorted(found)]


@contextmanager
def brought(address: str) -> Iterator[Path]:
    """Give a copy of a file on this machine for as long as the block runs; a path is given as it is.

    Args:
        address: The address of a file, or a path.

    Yields:
        Where it lies.

    Raises:
        DataError: If it cannot be read.
    """
    if not is_address(address):
        yield Path(address)
        return
    system, base = open_filesystem(address)
    with tempfile.TemporaryDirectory() as folder:
        # Its name is the store's word; only the ending says how it is read.
        copy = Path(folder) / f"file{PurePosixPath(base).suffix[:16]}"
        try:
            copy_here(system, base, copy, room=shutil.disk_usage(folder).free // 2, address=address)
        except OSError as error:
            raise DataError(f"expected to read {address}, could not: {_words(error)}") from error
        yield copy
