"""Check every file of a study's folder, and repair what can be recomputed."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from polarised._io.readers import read_npz
from polarised._io.tables import read_table
from polarised._io.text import parse_json, read_small
from polarised.errors import ConfigError, MissingFileError, PolarisedError
from polarised.study.leases import BusyError, held
from polarised.study.measures import SCORE_COLUMNS
from polarised.study.runner import FILE, read_study
from polarised.study.stages import MEASURED, TIME, digest_of, execute, load_run, read_done
from polarised.study.storage import is_address

__all__ = ["Finding", "examine_folder"]

Remedy = Literal["measured again", "trained again", "listed again", "removed", "by hand"]
ASIDE = ".damaged"
LEFTOVERS = (".*.tmp*", ".tmp*")


@dataclass(frozen=True)
class Finding:
    """A damaged file: its run, the problem, the remedy, and whether it was repaired."""

    run: str
    file: str
    wrong: str
    remedy: Remedy
    repaired: bool = False

    @property
    def sentence(self) -> str:
        """The finding as a sentence."""
        place = f"{self.run}/{self.file}" if self.run else self.file
        words = {
            "measured again": "it can be measured again from the model",
            "trained again": "the same study command trains this run again",
            "listed again": "the same study command writes it again",
            "removed": "it was left behind by a killed process",
            "by hand": "it cannot be repaired automatically",
        }
        return f"{place}: {self.wrong}; {'repaired: ' if self.repaired else ''}{words[self.remedy]}"


def examine_folder(root: str | Path, *, repair: bool = False) -> Iterator[Finding]:
    """Check every file of a study's folder and yield the damaged ones.

    The size and SHA-256 of the files of a finished run are in ``done.json``; files of a run of version one of the
    program, which did not record them, are read instead. With `repair`, a damaged file is renamed with the suffix
    ``.damaged``; measurements of the trained model are repeated at once, everything else is left to the
    command of the study. Runs in use by another process are skipped.

    Args:
        root: The folder of a study.
        repair: Whether to repair what can be repaired.

    Yields:
        A finding for each damaged file.

    Raises:
        ConfigError: If `root` is an address; only local files can be checked.
        DataError: If there is no such folder.

    >>> import tempfile
    >>> home = Path(tempfile.mkdtemp())
    >>> [finding.file for finding in examine_folder(home)]
    ['study.json']
    """
    if is_address(root):
        raise ConfigError(f"expected a folder on this machine, got {root}; copy it here first")
    root = Path(root)
    if not root.is_dir():
        raise MissingFileError(f"expected the folder of a study, but {root} is not one; check the path")
    yield from _study_file(root, repair)
    for directory in sorted(path for path in root.iterdir() if path.is_dir()):
        if directory.is_symlink():
            yield Finding("", directory.name, "it is a link, which is neither followed nor checked", "by hand")
        elif any((directory / name).exists() for name in ("config.yaml", "done.json", "model.safetensors")):
            yield from _run(directory, repair)


def _study_file(root: Path, repair: bool) -> Iterator[Finding]:
    try:
        read_study(root)
    except (PolarisedError, OSError) as error:
        if repair and (root / FILE).exists():
            _move_aside(root / FILE)
        yield Finding("", FILE, str(error), "listed again", repair)


def _run(directory: Path, repair: bool) -> Iterator[Finding]:
    if held(directory):
        return
    name = directory.name
    for leftover in (path for pattern in LEFTOVERS for path in directory.glob(pattern)):
        if repair:
            leftover.unlink(missing_ok=True)
        yield Finding(name, leftover.name, "it is incomplete", "removed", repair)
    try:
        run = load_run(directory)
    except (PolarisedError, OSError) as error:
        if repair and (directory / "config.yaml").exists():
            for file in ("config.yaml", "done.json"):
                _move_aside(directory / file)
        yield Finding(name, "config.yaml", str(error), "trained again", repair)
        return
    if run.name != name:
        yield Finding(name, "config.yaml", f"it belongs to the run {run.name}", "by hand")
        return
    wrong = dict(_damaged(directory))
    if not wrong:
        return
    trained_again = set(wrong) - {*MEASURED, TIME}
    repaired = repair and _repair(directory, set(wrong), bool(trained_again))
    for file, words in wrong.items():
        yield Finding(name, file, words, "trained again" if trained_again else "measured again", repaired)


def _repair(directory: Path, wrong: set[str], train: bool) -> bool:
    """Move damaged files aside; if the model is intact, measure again what depends on it."""
    # In this order, a kill in between leaves a run that is marked as not done.
    for file in ("done.json", *sorted(wrong - {"done.json"})):
        if file in wrong:
            _move_aside(directory / file)
        else:
            (directory / file).unlink(missing_ok=True)
    if train:
        for file in MEASURED:
            (directory / file).unlink(missing_ok=True)
        return True
    try:
        execute(load_run(directory), directory.parent)
    except BusyError:
        return False
    return True


def _move_aside(path: Path) -> None:
    if path.exists():
        path.replace(path.with_name(path.name + ASIDE))


def _damaged(directory: Path) -> Iterator[tuple[str, str]]:
    """Yield the damaged files of a run, with the problem."""
    done = read_done(directory)
    if done is None and (directory / "done.json").exists():
        yield "done.json", "it cannot be read"
    if done is None or not done.files:
        yield from _unreadable(directory)
        return
    for name, (size, digest) in done.files.items():
        path = directory / name
        if Path(name).name != name or not path.is_file():
            yield name, "it is missing"
        elif path.stat().st_size != size:
            yield name, f"it has {path.stat().st_size:,} bytes instead of {size:,}"
        elif digest_of(path) != digest:
            yield name, "its digest differs from that of the finished run"


def _unreadable(directory: Path) -> Iterator[tuple[str, str]]:
    """Yield the unreadable files of a run without digests."""
    for path in sorted(directory.iterdir()):
        try:
            if path.name in ("scores.parquet", "reconstruction.parquet", "downstream.parquet", "further.parquet"):
                read_table(path, columns=SCORE_COLUMNS)
            elif path.suffix == ".parquet":
                read_table(path)
            elif path.suffix == ".npz":
                read_npz(path)
            elif path.suffix == ".json" and path.name != "done.json":
                parse_json(read_small(path), where=path)
            elif path.name == "model.safetensors":
                from polarised.models.vae import load_vae

                load_vae(path)
        except (PolarisedError, OSError) as error:
            yield path.name, str(error)
