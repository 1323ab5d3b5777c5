"""Where results live: a folder, or an address such as ``s3://bucket/study`` that fsspec understands."""

import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

from polarised.errors import ConfigError
from polarised.study.config import Run
from polarised.study.run import execute, is_done

__all__ = ["fetch", "is_address", "work_at", "write_text"]


def is_address(root: str | Path) -> bool:
    """Return whether a place is an address rather than a folder.

    >>> is_address("s3://bucket/study"), is_address("runs/study")
    (True, False)
    """
    return "://" in str(root)


def work_at(run: Run, root: str, command: str) -> None:
    """Do a run and leave its directory at `root`; at an address, a finished run is copied there, ``done.json`` last.

    Until then it lives in a folder of this machine named after the address, so that a second attempt continues.
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
    directory = execute(run, desk, command=command)
    files = sorted((path for path in directory.iterdir() if path.name[0] != "."), key=lambda p: p.name == "done.json")
    system.makedirs(target, exist_ok=True)
    for path in files:
        system.put(str(path), f"{target}/{path.name}")
    shutil.rmtree(directory)


def fetch(root: str, folder: Path, name: str = "", *, without: tuple[str, ...] = ()) -> None:
    """Copy what lies at an address (or one run of it) into a folder, except files of some names."""
    system, base = _filesystem(root)
    for path in system.find(f"{base}/{name}".rstrip("/")):
        relative = path.removeprefix(base).lstrip("/")
        if Path(relative).name not in without:
            target = folder / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            system.get(path, str(target))


def write_text(root: str, name: str, text: str) -> None:
    """Write a small file at an address."""
    system, base = _filesystem(root)
    system.makedirs(base, exist_ok=True)
    system.pipe_file(f"{base}/{name}", text.encode())


def _filesystem(root: str) -> tuple[Any, str]:
    try:
        import fsspec
    except ImportError as error:
        raise ConfigError(f"results at {root} need fsspec: pip install 'polarised[ray]', or give a folder") from error
    system, base = fsspec.core.url_to_fs(root)
    return system, base.rstrip("/")
