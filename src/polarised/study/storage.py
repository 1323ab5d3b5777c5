"""Storage of results: a folder, or an fsspec address such as ``s3://bucket/study``."""

import errno
import shutil
import tempfile
import traceback
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from polarised._io.addresses import copy_here, is_address, open_filesystem, reaching
from polarised._io.files import contained, replacing
from polarised._io.limits import check_ordinary
from polarised._io.text import read_small
from polarised.errors import DataError, PolarisedError

__all__ = [
    "DiskFullError",
    "at_hand",
    "fetch",
    "is_address",
    "listed",
    "naming_full_disk",
    "open_filesystem",
    "put",
    "read_text",
    "reason",
    "record_failure",
    "recording_failure",
    "remove",
    "write_text",
]

FAILED = "failed.txt"
LARGEST = 1 << 28
LARGEST_COPY = 1 << 32


class DiskFullError(PolarisedError, OSError):
    """The disk is full: no fault of the run, and the next run would fail as well."""


@contextmanager
def naming_full_disk(folder: Path) -> Iterator[None]:
    """Convert the errors of all libraries for a full disk into `DiskFullError`."""
    try:
        yield
    except DiskFullError:
        raise
    except Exception as error:
        # Not every library raises OSError, but all repeat the message of the system.
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) or "No space left" in str(error):
            raise DiskFullError(
                f"the disk of {folder} is full; free some space and run the same command again"
            ) from error
        raise


@contextmanager
def recording_failure(directory: Path) -> Iterator[None]:
    """Delete the failure of an earlier attempt; record that of this one."""
    (directory / FAILED).unlink(missing_ok=True)
    try:
        with naming_full_disk(directory.parent):
            yield
    except DiskFullError:
        raise
    except Exception as error:
        text = f"{type(error).__name__}: {error}\n"
        if not isinstance(error, PolarisedError):
            text += "\n" + traceback.format_exc()
        record_failure(directory, text)
        raise


def record_failure(directory: Path, text: str) -> None:
    """Record why a run failed; the first line is shown in overviews."""
    with replacing(directory / FAILED) as temporary:
        temporary.write_text(text, encoding="utf-8")


def reason(directory: Path) -> str | None:
    """Return the first line of the reason of a failure, or None if the run did not fail.

    >>> reason(Path("nowhere")) is None
    True
    """
    check_ordinary(directory / FAILED)
    try:
        with (directory / FAILED).open("rb") as file:
            return file.read(1 << 12).decode("utf-8", "replace").partition("\n")[0]
    except (FileNotFoundError, NotADirectoryError):
        return None


@contextmanager
def at_hand(root: str | Path, *, only: Collection[str] | None = None, without: Collection[str] = ()) -> Iterator[Path]:
    """Yield a local folder with the files of a place: the folder itself, or a temporary copy of an address.

    >>> with at_hand("runs/study") as folder:
    ...     print(folder)
    runs/study
    """
    if not is_address(root):
        yield Path(root)
        return
    with tempfile.TemporaryDirectory() as desk:
        fetch(str(root), Path(desk), only=only, without=without)
        yield Path(desk)


def listed(root: str | Path) -> set[str]:
    """Return the names at a place, including those of all runs that were started."""
    if not is_address(root):
        return {path.name for path in Path(root).iterdir()}
    system, base = open_filesystem(str(root))
    try:
        with reaching(root):
            return {path.rstrip("/").rpartition("/")[2] for path in system.ls(base, detail=False)}
    except FileNotFoundError:
        return set()


def fetch(
    root: str, folder: Path, name: str = "", *, only: Collection[str] | None = None, without: Collection[str] = ()
) -> None:
    """Copy the files of an address (or of one run) to a folder: files with some names, or all except some.

    If a name in the list of the address leads out of the folder, nothing is copied.
    """
    system, base = open_filesystem(root)
    with reaching(root):
        about = system.find(f"{base}/{name}".rstrip("/"), detail=True)
    found = [path for path in about if (only is None or Path(path).name in only) and Path(path).name not in without]
    sizes = {path: about[path].get("size") for path in found}
    room = _check_room(root, {path: int(size or 0) for path, size in sizes.items()}, folder)
    targets = [contained(folder, path.removeprefix(base).lstrip("/"), source=root) for path in found]
    for target in targets:
        target.parent.mkdir(parents=True, exist_ok=True)
    try:
        # For files of unknown size, the bytes are counted while they are copied.
        if found and None not in sizes.values():
            with reaching(root):
                system.get(found, [str(target) for target in targets])
            return
    except FileNotFoundError:
        # Leases and checkpoints may appear and disappear while others work there.
        pass
    for path, target in zip(found, targets, strict=True):
        with suppress(FileNotFoundError):
            copy_here(system, path, target, room=min(room, LARGEST_COPY), address=root)
            room -= target.stat().st_size


def _check_room(root: str, sizes: Mapping[str, int], folder: Path) -> int:
    """Refuse an address that would fill the disk; return the free space, since an archive may unpack to any size."""
    room = shutil.disk_usage(folder).free // 2
    largest = max(sizes, key=sizes.__getitem__, default="")
    if sizes and (sizes[largest] > LARGEST_COPY or sum(sizes.values()) > room):
        raise DataError(
            f"expected files of at most {LARGEST_COPY >> 30} GiB, and of {room >> 20:,} MiB together, at {root}, but "
            f"it lists {sum(sizes.values()) >> 20:,} MiB, of which {Path(largest).name} has {sizes[largest] >> 20:,}"
        )
    return room


def read_text(root: str | Path, name: str) -> str | None:
    """Return the text of a small file of a place, or None if there is none.

    >>> read_text("nowhere", "study.json") is None
    True
    """
    try:
        if not is_address(root):
            return read_small(Path(root) / name, largest=LARGEST)
        system, base = open_filesystem(str(root))
        with reaching(root):
            data = system.cat_file(f"{base}/{name}", end=LARGEST + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if len(data) > LARGEST:
        raise DataError(
            f"expected at most {LARGEST >> 20} MiB as {name} of {root}, but it is larger; check the address"
        )
    try:
        return str(data.decode())
    except UnicodeDecodeError as error:
        raise DataError(f"expected UTF-8 text as {name} of {root}, got other bytes at {error.start}") from error


def write_text(root: str, name: str, text: str) -> None:
    """Write a small file at an address."""
    system, base = open_filesystem(root)
    path = f"{base}/{name}"
    with reaching(root):
        system.makedirs(path.rpartition("/")[0], exist_ok=True)
        system.pipe_file(path, text.encode())


def put(root: str, path: Path, name: str) -> None:
    """Copy a file to an address under a name; atomically, if the store can rename."""
    system, base = open_filesystem(root)
    target = f"{base}/{name}"
    with reaching(root):
        system.makedirs(target.rpartition("/")[0], exist_ok=True)
        system.put_file(str(path), target)


def remove(root: str | Path, name: str) -> None:
    """Delete a small file of a place, if it exists."""
    if not is_address(root):
        (Path(root) / name).unlink(missing_ok=True)
        return
    system, base = open_filesystem(str(root))
    with suppress(FileNotFoundError):
        system.rm_file(f"{base}/{name}")
