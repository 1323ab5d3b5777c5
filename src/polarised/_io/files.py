"""Files at the rim: names from outside that stay inside a folder, folders of ours alone, and writes that are whole."""

import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import accumulate, islice
from pathlib import Path, PurePosixPath, PureWindowsPath

from polarised.errors import DataError

__all__ = ["contained", "private_folder", "replacing"]


def contained(folder: str | Path, name: str, *, source: str | Path) -> Path:
    """Return where `name`, read from outside, lies below `folder`; whatever would lead out of it is refused.

    A name may have folders in it. Absolute names, names with ``..``, drives or backslashes, names with characters no
    terminal should see, and names that symbolic links of the folder lead elsewhere are refused on every system alike.

    Args:
        folder: The folder that nothing may leave.
        name: A relative name with forward slashes, from a file, an archive, an address or a header.
        source: Where the name was read, for the error.

    Returns:
        The path below `folder`, as it is joined (links inside the folder are not replaced).

    Raises:
        DataError: The name leads out of the folder, or is none.

    >>> contained("runs", "vae/done.json", source="a list").as_posix()
    'runs/vae/done.json'
    >>> contained("runs", "../evil.txt", source="evil.zip")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    polarised.errors.DataError: expected names of files inside the folder in evil.zip, got '../evil.txt'; ...
    """
    parts = PurePosixPath(name).parts
    # A drive of Windows would be opened in place of a file whatever folder stands before it.
    drive = PureWindowsPath(name).drive
    wrong = not parts or ".." in parts or name.startswith("/") or "\\" in name or drive or not name.isprintable()
    path = Path(folder, *parts)
    if wrong or _leads_out(folder, parts):
        shown = name if len(name) <= 80 else f"{name[:77]}..."
        raise DataError(
            f"expected names of files inside the folder in {source}, got {shown!r}; nothing of it was taken over, "
            "get it again from someone you trust"
        )
    return path


def _leads_out(folder: str | Path, parts: tuple[str, ...]) -> bool:
    """Return whether links lead from the folder to elsewhere; without ``..`` nothing else can."""
    places = accumulate(parts, Path.joinpath, initial=Path(folder))
    links = [place for place in islice(places, 1, None) if place.is_symlink()]
    return any(not link.resolve().is_relative_to(Path(folder).resolve()) for link in links)


def private_folder(name: str) -> Path:
    """Return a folder for intermediate files that this user alone can read and write, made if it is not there.

    It lies in the temporary folder of the machine, under a folder of the user. What another user has put in its
    place is refused, also a link: files of somebody else would be taken for ours.

    Args:
        name: The folder's name, without folders in it.

    Returns:
        The folder, with permissions 0700.

    Raises:
        DataError: It belongs to somebody else, is a link or no folder.
    """
    user = os.getuid() if hasattr(os, "getuid") else None
    home = Path(tempfile.gettempdir()) / f"polarised-{'user' if user is None else user}"
    for folder in (home, contained(home, name, source="the name of a temporary folder")):
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        _check_own(folder, user)
    return folder


def _check_own(folder: Path, user: int | None) -> None:
    about = folder.lstat()
    if stat.S_ISLNK(about.st_mode) or not stat.S_ISDIR(about.st_mode):
        raise DataError(
            f"expected a folder of yours at {folder}, it is a link or another kind of file; delete it, or set TMPDIR "
            "to a folder of your own"
        )
    if user is None:
        return
    if about.st_uid != user:
        raise DataError(
            f"expected a folder of yours at {folder}, it belongs to another user (number {about.st_uid}), whose files "
            "are not trusted; set TMPDIR to a folder of your own"
        )
    if stat.S_IMODE(about.st_mode) & 0o077:
        # Others could write there, so what lies in it may be theirs.
        raise DataError(
            f"expected the folder {folder} closed to other users (permissions 700), it has "
            f"{stat.S_IMODE(about.st_mode):03o}; delete it, or set TMPDIR to a folder of your own"
        )


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Give a temporary name beside `path` to write to; rename it to `path` when the block succeeds.

    A reader sees the old file or the new one, never a part; a failed block leaves the old one. Errors name `path`.

    >>> import tempfile, pathlib
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "a.txt"
    >>> with replacing(target) as temporary:
    ...     _ = temporary.write_text("whole")
    >>> target.read_text()
    'whole'
    """
    path = Path(path)
    temporary = path.with_name(f".{path.stem}.{secrets.token_hex(4)}.tmp{path.suffix}")
    try:
        # An empty file tells early whether one can be written there, and with which permissions: some libraries write
        # files that nobody else may read.
        temporary.touch()
        permissions = temporary.stat().st_mode
        yield temporary
        temporary.chmod(permissions)
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(path)
    except OSError as error:
        if error.filename == str(temporary):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    finally:
        with suppress(FileNotFoundError, NotADirectoryError):
            temporary.unlink()
