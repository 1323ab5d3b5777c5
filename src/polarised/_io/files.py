"""File access: names confined to a folder, private folders, atomic writes, and archives read by name."""

import os
import re
import secrets
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, islice
from pathlib import Path, PurePosixPath, PureWindowsPath

from polarised._io.limits import OF_WEIGHTS, Budget, available_memory, check_ordinary, check_room
from polarised.errors import DataError, MissingFileError, PolarisedError

__all__ = ["Folder", "contained", "expanded", "new_folder", "private_folder", "refusal", "refusing", "replacing"]

LARGEST_FILE = 1 << 28
MOST_MEMBERS = 100_000


def contained(folder: str | Path, name: str, *, source: str | Path) -> Path:
    """Return the path of `name`, an untrusted name, below `folder`; a name that leads out of the folder is refused.

    A name may contain folders. Absolute names, names with ``..``, drives, backslashes or control characters, and names
    that symbolic links lead out of the folder are refused, on every operating system.

    Args:
        folder: The folder that must not be left.
        name: A relative name with forward slashes, from a file, an archive, an address or a header.
        source: Where the name was read, for the error.

    Returns:
        The joined path below `folder` (links inside the folder are not resolved).

    Raises:
        DataError: If the name is empty or leads out of the folder.

    >>> contained("runs", "vae/done.json", source="a list").as_posix()
    'runs/vae/done.json'
    >>> contained("runs", "../evil.txt", source="evil.zip")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    polarised.errors.DataError: expected names of files inside the folder in evil.zip, got '../evil.txt'; ...
    """
    parts = PurePosixPath(name).parts
    # A Windows drive in a name would override the folder before it.
    drive = PureWindowsPath(name).drive
    wrong = not parts or ".." in parts or name.startswith("/") or "\\" in name or drive or not name.isprintable()
    path = Path(folder, *parts)
    if wrong or _leads_out(folder, parts):
        shown = name if len(name) <= 80 else f"{name[:77]}..."
        raise DataError(
            f"expected names of files inside the folder in {source}, got {shown!r}; nothing was read, "
            "get it again from someone you trust"
        )
    return path


def expanded(path: str | Path) -> Path:
    """Return a path with ``~`` replaced by the home folder; one of a user that does not exist stays as it is.

    Args:
        path: A path that somebody wrote.

    Returns:
        The path.

    >>> expanded("~no such user/codes.npz").as_posix()
    '~no such user/codes.npz'
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def _leads_out(folder: str | Path, parts: tuple[str, ...]) -> bool:
    """Return whether links lead out of the folder; without ``..`` nothing else can."""
    places = accumulate(parts, Path.joinpath, initial=Path(folder))
    links = [place for place in islice(places, 1, None) if place.is_symlink()]
    return any(not link.resolve().is_relative_to(Path(folder).resolve()) for link in links)


def private_folder(name: str) -> Path:
    """Return a folder for intermediate files that only this user can read and write; it is created if necessary.

    It is in the temporary folder of the machine, inside a folder of the user. A folder or link created by another
    user is refused, because files of that user would be mistaken for ours.

    Args:
        name: The folder's name, without slashes.

    Returns:
        The folder, with permissions 0700.

    Raises:
        DataError: If it belongs to another user, is a link or not a folder.
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
            f"expected your own folder at {folder}, but it is a link or another kind of file; delete it, or set "
            "TMPDIR to a folder of your own"
        )
    if user is None:
        return
    if about.st_uid != user:
        raise DataError(
            f"expected your own folder at {folder}, but it belongs to another user (number {about.st_uid}), whose "
            "files are not trusted; set TMPDIR to a folder of your own"
        )
    if stat.S_IMODE(about.st_mode) & 0o077:
        # Other users could write there, so its files may be theirs.
        raise DataError(
            f"expected the folder {folder} closed to other users (permissions 700), but it has "
            f"{stat.S_IMODE(about.st_mode):03o}; delete it, or set TMPDIR to a folder of your own"
        )


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path next to `path` to write to; rename it to `path` if the block succeeds.

    A reader sees the old or the new file, never an incomplete one; if the block fails, the old one stays. Errors name
    `path`.

    >>> import tempfile, pathlib
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "a.txt"
    >>> with replacing(target) as temporary:
    ...     _ = temporary.write_text("whole")
    >>> target.read_text()
    'whole'
    """
    path = Path(path)
    # Never longer than the name itself, which may have the maximum length.
    temporary = path.with_name(f".{path.stem[:50]}.{secrets.token_hex(4)}.tmp{path.suffix[:16]}")
    try:
        # Creating an empty file first tests whether the path is writable, and sets the permissions: some libraries
        # write files that only the owner can read.
        temporary.touch()
        permissions = temporary.stat().st_mode
        yield temporary
        temporary.chmod(permissions)
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(path)
    except PolarisedError:
        # The error already names the file.
        raise
    except Exception as error:
        if (number := _of_system(error, temporary)) is None:
            raise
        raise OSError(number, os.strerror(number), str(path)) from error
    finally:
        # On a read-only mount even removing a missing file fails.
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def new_folder(path: str | Path) -> Iterator[Path]:
    """Yield a temporary folder next to `path` to write into; rename it to `path` if the block succeeds.

    Raises:
        DataError: If a file of that name or a non-empty folder exists.

    >>> import tempfile, pathlib
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "model"
    >>> with new_folder(target) as temporary:
    ...     _ = (temporary / "a.txt").write_text("whole")
    >>> [file.name for file in target.iterdir()]
    ['a.txt']
    """
    path = Path(path)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise DataError(
            f"expected a folder that does not exist yet or is empty, but {path} exists and is not empty; choose another"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    temporary.mkdir()
    try:
        yield temporary
        temporary.replace(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _of_system(error: Exception, temporary: Path) -> int | None:
    """Return the errno of a failed write, which libraries written in Rust only mention in the message."""
    if isinstance(error, OSError):
        return error.errno if error.filename in (None, str(temporary)) else None
    found = re.search(r"\(os error (\d+)\)", str(error))
    return int(found[1]) if found else None


@contextmanager
def refusing(path: Path, kind: str) -> Iterator[None]:
    """Convert any error of a parser on a damaged file into one error with the file's name and the remedy.

    A path that is not an ordinary file is refused before it is opened.
    """
    check_ordinary(path)
    try:
        yield
    except PolarisedError:
        raise
    except (FileNotFoundError, PermissionError):
        # Not a problem of the file's content; the error of the system names the file.
        raise
    # Third-party parsers raise almost any error on damaged bytes.
    except Exception as error:
        reason = " ".join(str(error).split())[:300]
        raise refusal(path, kind, f"{type(error).__name__}: {reason}") from error


def refusal(path: Path, kind: str, came: str) -> DataError:
    """Return the error for a file with unexpected content."""
    return DataError(f"expected {kind} in {path}, got {came}; delete the file and get it again")


def _begins_as_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


@dataclass(frozen=True)
class Folder:
    """The files in a directory or a zip archive; each is read at once and may have at most `LARGEST_FILE` bytes.

    >>> import tempfile, pathlib
    >>> home = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (home / "specs.json").write_text("{}")
    >>> Folder(home).read("specs.json")
    b'{}'
    """

    path: Path

    @cached_property
    def budget(self) -> Budget:
        """The budget for all its files together; weights and settings are hardly compressible."""
        budget = Budget.of(self.path, multiple=OF_WEIGHTS)
        if self.path.is_dir():
            budget.held = available_memory() // 2
        return budget

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))
        if not self.path.exists():
            raise MissingFileError(
                f"expected a model folder or its zip, but {self.path} does not exist; check the path"
            )
        # Reading a pipe or a device could block forever.
        if not self.path.is_dir() and not (self.path.is_file() and zipfile.is_zipfile(self.path)):
            if self.path.is_file() and _begins_as_zip(self.path):
                raise DataError(f"expected a whole zip archive, but {self.path} has no end; get it again")
            raise DataError(f"expected a folder or a zip archive, but {self.path} is another kind of file")

    @cached_property
    def files(self) -> tuple[str, ...]:
        """Every file, as a path relative to the folder with forward slashes."""
        if self.path.is_dir():
            found = (file for file in self.path.rglob("*") if file.is_file())
            names = [file.relative_to(self.path).as_posix() for file in islice(found, MOST_MEMBERS + 1)]
        else:
            with refusing(self.path, "a zip archive"), zipfile.ZipFile(self.path) as archive:
                names = [member.filename for member in archive.infolist() if not member.is_dir()]
                for name in names[:MOST_MEMBERS]:
                    # Nothing is unpacked, but such names indicate an attack, and they appear as paths in errors.
                    contained(self.path, name, source=self.path)
        if len(names) > MOST_MEMBERS:
            raise DataError(
                f"expected at most {MOST_MEMBERS} files in {self.path}, but it has more; give one model's folder"
            )
        return tuple(sorted(names))

    def ending(self, end: str) -> str | None:
        """Return the shortest path that ends in these parts, or None; several such paths are an error."""
        parts = PurePosixPath(end).parts
        found = [name for name in self.files if PurePosixPath(name).parts[-len(parts) :] == parts]
        depth = min((name.count("/") for name in found), default=0)
        shortest = [name for name in found if name.count("/") == depth]
        if len(shortest) > 1:
            homes = ", ".join(name.removesuffix(end).rstrip("/") for name in shortest[:3])
            raise DataError(
                f"expected one model in {self.path}, but it has {len(shortest)} ({homes} ...); give the folder of one "
                "of them"
            )
        return shortest[0] if shortest else None

    def expect(self, *ends: str) -> str:
        """Return the shortest path with the first of these ends that exists; if none exists, that is an error."""
        for end in ends:
            if (name := self.ending(end)) is not None:
                return name
        raise DataError(f"expected {ends[0]} in {self.path}, but it is missing; give the folder (or zip) of one model")

    def read(self, name: str, *, largest: int | None = None) -> bytes:
        """Return the bytes of one of `files`, which may be no larger than `largest` (by default `LARGEST_FILE`)."""
        limit = LARGEST_FILE if largest is None else largest
        if name not in self.files:
            raise DataError(f"expected {name} in {self.path}, but it is missing; check that the download is complete")
        if self.path.is_dir():
            with refusing(self.path, f"the file {name}"), (self.path / name).open("rb") as file:
                check_room(self.path / name)
                data = file.read(limit + 1)
        else:
            # The size that a zip claims may be false, so the unpacked bytes are counted.
            with (
                refusing(self.path, "a zip archive"),
                zipfile.ZipFile(self.path) as archive,
                archive.open(name) as member,
            ):
                data = member.read(min(limit, self.budget.held) + 1)
        self.budget.hold(len(data))
        if len(data) > limit:
            raise DataError(f"expected at most {limit >> 20} MiB, but {name} in {self.path.name} is larger")
        return data
