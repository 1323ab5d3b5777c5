"""A folder of files, or a zip of one, read by name into memory: nothing is ever unpacked to disk."""

import zipfile
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path, PurePosixPath

from polarised._io.budget import OF_WEIGHTS, Budget, available_memory
from polarised._io.files import contained
from polarised._io.readers import refusing
from polarised.errors import DataError

__all__ = ["Folder"]

LARGEST_FILE = 1 << 28


MOST_MEMBERS = 100_000


@dataclass(frozen=True)
class Folder:
    """The files under a directory or inside a zip archive, each read whole and never beyond `LARGEST_FILE` bytes.

    >>> import tempfile, pathlib
    >>> home = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (home / "specs.json").write_text("{}")
    >>> Folder(home).read("specs.json")
    b'{}'
    """

    path: Path

    @cached_property
    def budget(self) -> Budget:
        """What all its files may take together: weights and settings hardly shrink in a zip."""
        budget = Budget.of(self.path, multiple=OF_WEIGHTS)
        if self.path.is_dir():
            budget.held = available_memory() // 2
        return budget

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))
        if not self.path.exists():
            raise DataError(f"expected a model folder or its zip, {self.path} does not exist; check the path")
        # A pipe or a device would be waited for without end.
        if not self.path.is_dir() and not (self.path.is_file() and zipfile.is_zipfile(self.path)):
            raise DataError(f"expected a folder or a zip archive, {self.path} is another kind of file")

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
                    # Nothing is unpacked; but who writes such names means harm, and they appear in errors as paths.
                    contained(self.path, name, source=self.path)
        if len(names) > MOST_MEMBERS:
            raise DataError(
                f"expected at most {MOST_MEMBERS} files in {self.path}, it has more; give one model's folder"
            )
        return tuple(sorted(names))

    def ending(self, end: str) -> str | None:
        """Return the one shortest path that ends in these parts, or nothing; several are a question."""
        parts = PurePosixPath(end).parts
        found = [name for name in self.files if PurePosixPath(name).parts[-len(parts) :] == parts]
        depth = min((name.count("/") for name in found), default=0)
        shortest = [name for name in found if name.count("/") == depth]
        if len(shortest) > 1:
            homes = ", ".join(name.removesuffix(end).rstrip("/") for name in shortest[:3])
            raise DataError(f"expected one model in {self.path}, it has {len(shortest)} ({homes} ...): which one?")
        return shortest[0] if shortest else None

    def expect(self, *ends: str) -> str:
        """Return the one shortest path with the first of these ends that there is; none is an error."""
        for end in ends:
            if (name := self.ending(end)) is not None:
                return name
        raise DataError(f"expected {ends[0]} in {self.path}, it is not there; give the folder (or zip) of one model")

    def read(self, name: str, *, largest: int | None = None) -> bytes:
        """Return the bytes of one of `files`, which may be no larger than `largest` (by default `LARGEST_FILE`)."""
        limit = LARGEST_FILE if largest is None else largest
        if name not in self.files:
            raise DataError(f"expected {name} in {self.path}, it is not there; is the download complete?")
        if self.path.is_dir():
            with refusing(self.path, f"the file {name}"), (self.path / name).open("rb") as file:
                data = file.read(limit + 1)
        else:
            # The size a zip announces may be a lie: what counts is how much comes out.
            with (
                refusing(self.path, "a zip archive"),
                zipfile.ZipFile(self.path) as archive,
                archive.open(name) as member,
            ):
                data = member.read(min(limit, self.budget.held) + 1)
        self.budget.hold(len(data))
        if len(data) > limit:
            raise DataError(f"expected at most {limit >> 20} MiB, {name} in {self.path.name} is larger")
        return data
