"""Addresses that fsspec understands, such as ``s3://bucket/codes``: opened, listed, and read one file at a time."""

import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from polarised.errors import ConfigError, DataError

__all__ = ["brought", "files_at", "is_address", "open_filesystem"]


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
    except (ImportError, ValueError) as error:
        hint = "; pip install s3fs" if address.startswith("s3://") and isinstance(error, ImportError) else ""
        raise ConfigError(f"expected an address fsspec can open, got {address}: {error}{hint}") from error
    return system, base.rstrip("/")


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
    except (OSError, ValueError) as error:
        raise DataError(f"expected to read {address}, could not: {' '.join(str(error).split())[:300]}") from error
    if not found:
        raise DataError(f"expected at least one file of encodings, nothing fits {address}; check the address")
    protocol = address.partition("://")[0]
    return [f"{protocol}://{path}" for path in sorted(found)]


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
            system.get_file(base, str(copy))
        except (OSError, ValueError) as error:
            raise DataError(f"expected to read {address}, could not: {' '.join(str(error).split())[:300]}") from error
        yield copy
