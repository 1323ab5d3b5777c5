"""Where results live: a folder, or an address such as ``s3://bucket/study`` that fsspec understands."""

import hashlib
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from polarised.errors import ConfigError
from polarised.study.config import Run
from polarised.study.failures import FILE as FAILED
from polarised.study.run import execute, is_done

__all__ = ["at_hand", "fetch", "is_address", "listed", "read_text", "remove", "work_at", "write_text"]


def is_address(root: str | Path) -> bool:
    """Return whether a place is an address rather than a folder.

    >>> is_address("s3://bucket/study"), is_address("runs/study")
    (True, False)
    """
    return "://" in str(root)


def work_at(run: Run, root: str, command: str) -> None:
    """Do a run and leave its directory at `root`; at an address, a finished run is copied there, ``done.json`` last.

    Until then it lives in a folder of this machine named after the address, so that a second attempt continues. Of a
    failed one the reason is copied.
    """
    if not is_address(root):
        if not is_done(run, root):
            execute(run, root, command=command)
        return
    system, base = _filesystem(root)
    target = f"{base}/{run.name}"
    desk = Path(tempfile.gettempdir()) / f"polarised-{hashlib.sha256(root.encode()).hexdigest()[:12]}"
    if system.exists(f"{target}/done.json"):
        desk_run = desk / run.name
        desk_run.mkdir(parents=True, exist_ok=True)
        system.get(f"{target}/done.json", str(desk_run / "done.json"))
        done = is_done(run, desk)
        shutil.rmtree(desk_run)
        if done:
            return
        fetch(root, desk, run.name)
    try:
        directory = execute(run, desk, command=command)
    except Exception:
        if (desk / run.name / FAILED).exists():
            write_text(root, f"{run.name}/{FAILED}", (desk / run.name / FAILED).read_text(encoding="utf-8"))
        raise
    files = sorted((path for path in directory.iterdir() if path.name[0] != "."), key=lambda p: p.name == "done.json")
    system.makedirs(target, exist_ok=True)
    for path in files:
        system.put(str(path), f"{target}/{path.name}")
    remove(root, f"{run.name}/{FAILED}")
    shutil.rmtree(directory)


@contextmanager
def at_hand(root: str | Path, *, only: Collection[str] | None = None, without: Collection[str] = ()) -> Iterator[Path]:
    """Give a folder of this machine with the files of a place: itself, or for this block a copy of an address.

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
    """Return the names of what lies at a place: the runs of which anything was done among them."""
    if not is_address(root):
        return {path.name for path in Path(root).iterdir()}
    system, base = _filesystem(str(root))
    try:
        return {path.rstrip("/").rpartition("/")[2] for path in system.ls(base, detail=False)}
    except FileNotFoundError:
        return set()


def fetch(
    root: str, folder: Path, name: str = "", *, only: Collection[str] | None = None, without: Collection[str] = ()
) -> None:
    """Copy what lies at an address (or one run of it) into a folder: files of some names, or all but some."""
    system, base = _filesystem(root)
    found = [
        path
        for path in system.find(f"{base}/{name}".rstrip("/"))
        if (only is None or Path(path).name in only) and Path(path).name not in without
    ]
    targets = [folder / path.removeprefix(base).lstrip("/") for path in found]
    for target in targets:
        target.parent.mkdir(parents=True, exist_ok=True)
    if found:
        system.get(found, [str(target) for target in targets])


def read_text(root: str | Path, name: str) -> str | None:
    """Return a small file of a place, or None where there is none.

    >>> read_text("nowhere", "study.json") is None
    True
    """
    try:
        if not is_address(root):
            return (Path(root) / name).read_text(encoding="utf-8")
        system, base = _filesystem(str(root))
        return str(system.cat_file(f"{base}/{name}").decode())
    except (FileNotFoundError, NotADirectoryError):
        return None


def write_text(root: str, name: str, text: str) -> None:
    """Write a small file at an address."""
    system, base = _filesystem(root)
    path = f"{base}/{name}"
    system.makedirs(path.rpartition("/")[0], exist_ok=True)
    system.pipe_file(path, text.encode())


def remove(root: str | Path, name: str) -> None:
    """Delete a small file of a place, if it is there."""
    if not is_address(root):
        (Path(root) / name).unlink(missing_ok=True)
        return
    system, base = _filesystem(str(root))
    if system.exists(f"{base}/{name}"):
        system.rm(f"{base}/{name}")


def _filesystem(root: str) -> tuple[Any, str]:
    try:
        import fsspec
    except ImportError as error:
        raise ConfigError(f"results at {root} need fsspec: pip install 'polarised[ray]', or give a folder") from error
    try:
        system, base = fsspec.core.url_to_fs(root)
    except (ImportError, ValueError) as error:
        raise ConfigError(f"expected an address fsspec can open, got {root}: {error}") from error
    return system, base.rstrip("/")
