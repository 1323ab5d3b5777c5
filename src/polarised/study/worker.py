"""What a worker does with one run, wherever it is: at a folder every node sees, or at an address.

What goes wrong comes back as words, never as an exception: an executor only counts and tells.
"""

import hashlib
import os
import shutil
import signal
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from polarised._io.files import private_folder
from polarised.study.config import Run
from polarised.study.leases import BusyError, leased
from polarised.study.stages import checkpoint_step, execute, is_done
from polarised.study.storage import (
    FAILED,
    DiskFullError,
    fetch,
    is_address,
    open_filesystem,
    put,
    read_text,
    record_failure,
    remove,
    write_text,
)

__all__ = ["Outcome", "State", "give_up", "work", "work_at"]

State = Literal["started", "done", "failed", "busy", "lost", "full"]


class Outcome(NamedTuple):
    """What a worker says of a run.

    Args:
        state: How it ended.
        reason: Why it failed, where it did.
        seconds: How long it took, where it is done.
    """

    state: State
    reason: str = ""
    seconds: float = 0.0


def work(config: dict[str, Any], root: str, command: str) -> Outcome:
    """Do one run in a worker; what goes wrong comes back as words, never as an exception."""
    with _stoppable():
        return _do(config, root, command)


def _do(config: dict[str, Any], root: str, command: str) -> Outcome:
    import torch

    torch.set_num_threads(max(1, int(os.environ.get("OMP_NUM_THREADS", "1"))))
    began = time.monotonic()
    with warnings.catch_warnings():
        # Each worker would repeat what the objective says about the same setting of every run.
        warnings.simplefilter("ignore")
        try:
            if "archive" in config:
                # Imported here: it builds on what this module has.
                from polarised.study.trained import Archive, measure_archive

                measure_archive(Archive.from_config(config), root)
                return Outcome("done", "", time.monotonic() - began)
            run = Run.from_config(config)
            # Left over are only runs that had not failed, so another command at the same place did this one meanwhile.
            if (told := read_text(root, f"{run.name}/{FAILED}")) is not None:
                return Outcome("failed", told.partition("\n")[0])
            work_at(run, root, command)
        except KeyboardInterrupt:
            return Outcome("lost", "its worker was asked to stop; what it had done is kept")
        except BusyError as error:
            return Outcome("busy", str(error))
        except DiskFullError as error:
            return Outcome("full", str(error))
        except Exception as error:
            return Outcome("failed", f"{type(error).__name__}: {error}", time.monotonic() - began)
    return Outcome("done", "", time.monotonic() - began)


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let a signal end a run at once while it is measured; while it trains, training itself listens and saves first."""
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1") if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def give_up(run: Run, root: str, reason: str) -> Outcome:
    """Write down that a run failed whose worker cannot do it itself."""
    words = f"TrainingError: {reason}\n"
    if is_address(root):
        write_text(root, f"{run.name}/{FAILED}", words)
    else:
        directory = Path(root) / run.name
        directory.mkdir(parents=True, exist_ok=True)
        record_failure(directory, words)
    return Outcome("failed", reason)


def work_at(run: Run, root: str, command: str) -> None:
    """Do a run and leave its directory at `root`; at an address, a finished run is copied there, ``done.json`` last.

    Until then it lives in a folder of this user alone, named after the address, so that a second attempt continues. Of
    a failed one the reason is copied.
    """
    if not is_address(root):
        if not is_done(run, root):
            execute(run, root, command=command)
        return
    desk = private_folder(hashlib.sha256(root.encode()).hexdigest()[:12])
    checkpoint = desk / run.name / "checkpoint.safetensors"
    uploaded = 0

    def upload() -> None:
        # As it is written, so that another node goes on where this one was lost.
        nonlocal uploaded
        if checkpoint.exists() and (written := checkpoint.stat().st_mtime_ns) != uploaded:
            put(root, checkpoint, f"{run.name}/{checkpoint.name}")
            uploaded = written

    with leased(root, run.name, step=lambda: checkpoint_step(checkpoint.parent), renewed=upload):
        try:
            _work_on_desk(run, root, desk, command)
        except KeyboardInterrupt:
            upload()
            raise


def _work_on_desk(run: Run, root: str, desk: Path, command: str) -> None:
    system, base = open_filesystem(root)
    target = f"{base}/{run.name}"
    if system.exists(f"{target}/done.json"):
        desk_run = desk / run.name
        desk_run.mkdir(parents=True, exist_ok=True)
        system.get(f"{target}/done.json", str(desk_run / "done.json"))
        done = is_done(run, desk)
        shutil.rmtree(desk_run)
        if done:
            return
        fetch(root, desk, run.name)
    else:
        _take_over(run, root, desk)
    try:
        directory = execute(run, desk, command=command)
    except Exception:
        if (desk / run.name / FAILED).exists():
            write_text(root, f"{run.name}/{FAILED}", (desk / run.name / FAILED).read_text(encoding="utf-8"))
        raise
    files = sorted((path for path in directory.iterdir() if path.name[0] != "."), key=lambda p: p.name == "done.json")
    system.makedirs(target, exist_ok=True)
    for path in files:
        put(root, path, f"{run.name}/{path.name}")
    for name in (FAILED, "checkpoint.safetensors"):
        remove(root, f"{run.name}/{name}")
    shutil.rmtree(directory)


def _take_over(run: Run, root: str, desk: Path) -> None:
    """Bring the checkpoint of a run that another node began, where it is further than our own."""
    system, base = open_filesystem(root)
    if not system.exists(f"{base}/{run.name}/checkpoint.safetensors"):
        return
    with tempfile.TemporaryDirectory() as other:
        fetch(root, Path(other), run.name, only=("checkpoint.safetensors",))
        theirs, own = Path(other) / run.name, desk / run.name
        if checkpoint_step(theirs) > checkpoint_step(own):
            own.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(theirs / "checkpoint.safetensors", own / ".taken.tmp.safetensors")
            (own / ".taken.tmp.safetensors").replace(own / "checkpoint.safetensors")
