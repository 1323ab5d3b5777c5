"""How a worker executes one run, in a folder shared by all nodes or at an address.

Errors are returned as text, never raised: an executor only counts and reports them. The output of a run
goes to its ``log.txt``, whose last lines are saved with a failure.
"""

import hashlib
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from polarised._io.files import contained, private_folder
from polarised._io.limits import check_ordinary
from polarised.cluster import code_here
from polarised.errors import PolarisedError
from polarised.study.config import Run
from polarised.study.leases import BusyError, Tenure, held, leased
from polarised.study.stages import checkpoint_step, execute, is_done, parse_done
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

if TYPE_CHECKING:
    from polarised.study.trained import Archive

__all__ = ["LOG", "Outcome", "State", "give_up", "last_lines", "look_around", "showing", "work", "work_at"]

LOG = "log.txt"
LINES = 20

State = Literal["started", "done", "failed", "busy", "lost", "full", "unfit", "waiting"]


class Outcome(NamedTuple):
    """The outcome of a run in a worker.

    Args:
        state: The final state.
        reason: Why it failed, if it did.
        seconds: The duration, if it is done.
        steps: The number of training steps, if it is done and they are known, otherwise 0.
    """

    state: State
    reason: str = ""
    seconds: float = 0.0
    steps: int = 0


def work(config: dict[str, Any], root: str, command: str) -> Outcome:
    """Execute one run in a worker; errors are returned as text, never raised."""
    began = time.monotonic()
    try:
        task = _task(config)
    except Exception as error:
        return Outcome("failed", f"{type(error).__name__}: {error}", time.monotonic() - began)
    with _stoppable():
        return _do(task, root, command)


def _task(config: dict[str, Any]) -> "Run | Archive":
    if "archive" not in config:
        return Run.from_config(config)
    # Imported here, because it depends on other modules of the study.
    from polarised.study.trained import Archive

    return Archive.from_config(config)


def _do(task: "Run | Archive", root: str, command: str) -> Outcome:
    import torch

    torch.set_num_threads(max(1, int(os.environ.get("OMP_NUM_THREADS", "1"))))
    began = time.monotonic()
    try:
        # Only runs without a failure are submitted, so another command has executed this one meanwhile.
        if not isinstance(task, Run):
            from polarised.study.trained import measure_archive

            measure_archive(task, root)
        elif (failure := read_text(root, f"{task.name}/{FAILED}")) is not None:
            return Outcome("failed", failure.partition("\n")[0])
        else:
            work_at(task, root, command)
        return Outcome("done", "", time.monotonic() - began, _steps_of(task.name, root))
    except KeyboardInterrupt:
        return Outcome("lost", "its worker was asked to stop; its progress is saved")
    except BusyError as error:
        return Outcome("busy", str(error))
    except DiskFullError as error:
        return Outcome("full", str(error))
    except Exception as error:
        return Outcome("failed", f"{type(error).__name__}: {error}", time.monotonic() - began)


def _steps_of(name: str, root: str) -> int:
    """Return the number of training steps that a finished run took; 0 if it is not known."""
    try:
        done = parse_done(read_text(root, f"{name}/done.json") or "")
    except (PolarisedError, OSError):
        # The run is done, whether or not its place can be reached again.
        return 0
    return done.steps if done else 0


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let a signal end a run at once while it is measured; during training, a checkpoint is saved first."""
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


@contextmanager
def showing(root: str) -> Iterator[str]:
    """Write a small file next to the results for the block, so that nodes can be asked whether they see it.

    Args:
        root: The folder or address of a study.

    Yields:
        Its name.
    """
    token = f".seen-{secrets.token_hex(8)}"
    if is_address(root):
        write_text(root, token, "")
    else:
        Path(root).mkdir(parents=True, exist_ok=True)
        (Path(root) / token).touch()
    try:
        yield token
    finally:
        with suppress(Exception):
            remove(root, token)


def look_around(root: str, token: str, device: str) -> dict[str, str]:
    """Return the code of this machine, and a problem if it does not see the results or lacks the device.

    Args:
        root: The folder or address of a study.
        token: A file written there by the caller (`showing`).
        device: The device for training.

    Returns:
        The versions and digest of `code_here`, and ``problem`` if there is one.
    """
    found = dict(code_here())
    try:
        seen = read_text(root, token) is not None and (is_address(root) or os.access(root, os.W_OK))
        if not seen:
            found["problem"] = f"it does not see {root} as this machine does; use a shared folder or an address"
    except Exception as error:
        found["problem"] = f"it cannot read {root}: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
    if device == "cuda" and "problem" not in found:
        import torch

        if not torch.cuda.is_available():
            found["problem"] = f"its GPUs cannot be used by torch {torch.__version__}"
    return found


def give_up(run: Run, root: str, reason: str) -> Outcome:
    """Record the failure of a run whose worker cannot do so itself, with the last lines of its log."""
    words = f"TrainingError: {reason}\n"
    if lines := last_lines(root, run.name):
        words += f"\nThe last lines of its log:\n{lines}\n"
    if is_address(root):
        write_text(root, f"{run.name}/{FAILED}", words)
    else:
        directory = Path(root) / run.name
        directory.mkdir(parents=True, exist_ok=True)
        record_failure(directory, words)
    return Outcome("failed", reason)


def last_lines(root: str, name: str, count: int = LINES) -> str:
    """Return the last lines of a run's log.

    Args:
        root: The folder or address of a study.
        name: The run's name.
        count: The largest number of lines.

    Returns:
        The lines; empty if there is no log or it cannot be read.
    """
    with suppress(Exception):
        return "\n".join((read_text(root, f"{name}/{LOG}") or "").splitlines()[-count:])
    return ""


@contextmanager
def _logged(run: Run, directory: Path, at: str) -> Iterator[None]:
    """Redirect the output of this process, including native code, to the log of a run; also log how the run ended."""
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        # Of a folder that came from elsewhere: a link would have us write into a file outside, a pipe wait for ever.
        log = contained(directory, LOG, source=directory)
        check_ordinary(log)
        file = stack.enter_context(log.open("a", encoding="utf-8", buffering=1))

        def note(words: str) -> None:
            file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {words}\n")

        # Warnings are also redirected: each worker would repeat them on the screen for every run.
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("default")
        warnings.showwarning = lambda message, category, *_, **__: note(f"{category.__name__}: {message}")
        if threading.current_thread() is threading.main_thread():
            stack.enter_context(_output_to(file.fileno()))
        step = checkpoint_step(directory)
        note(
            f"begun at step {step} of {run.training.steps} by process {os.getpid()} of {socket.gethostname()} for {at}"
        )
        try:
            yield
        except BaseException as error:
            note(f"ended by {type(error).__name__}: {error}")
            failed_by_run = isinstance(error, Exception) and not isinstance(error, (BusyError, DiskFullError))
            if failed_by_run and (directory / FAILED).exists():
                reason = (directory / FAILED).read_text(encoding="utf-8", errors="replace")
                lines = last_lines(str(directory.parent), directory.name)
                record_failure(directory, f"{reason.rstrip()}\n\nThe last lines of its log:\n{lines}\n")
            raise
        note("done")


@contextmanager
def _output_to(target: int) -> Iterator[None]:
    """Redirect standard output and error of this process, including native libraries, to another file."""
    kept = [(number, os.dup(number)) for number in (1, 2)]
    try:
        for number, _ in kept:
            os.dup2(target, number)
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        for number, before in kept:
            os.dup2(before, number)
            os.close(before)


def work_at(run: Run, root: str, command: str) -> None:
    """Execute a run in its directory in `root`; at an address, a finished run is copied there, ``done.json`` last.

    Until then it is in a private folder of this user, named after the address, so that a second attempt resumes it. For
    a failed run, the reason is copied.
    """
    if not is_address(root):
        if not is_done(run, root):
            # A second process must not write to the log of the first.
            if held(Path(root) / run.name):
                raise BusyError(f"another process is working on {run.name} at {root}")
            with _logged(run, Path(root) / run.name, root):
                execute(run, root, command=command)
        return
    desk = private_folder(hashlib.sha256(root.encode()).hexdigest()[:12])
    kept = [desk / run.name / name for name in ("checkpoint.safetensors", LOG)]
    uploaded: dict[Path, int] = {}

    def upload() -> None:
        # Checkpoints are copied as they are written, so that another node can resume if this one is lost.
        for path in kept:
            if path.exists() and (written := path.stat().st_mtime_ns) != uploaded.get(path):
                tenure.check()
                put(root, path, f"{run.name}/{path.name}")
                uploaded[path] = written

    with leased(root, run.name, step=lambda: checkpoint_step(desk / run.name), renewed=upload) as tenure:
        if read_text(root, f"{run.name}/{FAILED}") is not None:
            raise BusyError(f"another process worked on {run.name} at {root} meanwhile, and it failed")
        try:
            _work_in_private_folder(run, root, desk, command, tenure)
        except KeyboardInterrupt:
            upload()
            raise
        tenure.forget()


def _work_in_private_folder(run: Run, root: str, desk: Path, command: str, tenure: Tenure) -> None:
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
        with _logged(run, desk / run.name, root):
            directory = execute(run, desk, command=command)
    except Exception:
        for name in (LOG, FAILED):
            if (desk / run.name / name).exists():
                tenure.check()
                put(root, desk / run.name / name, f"{run.name}/{name}")
        raise
    files = sorted((path for path in directory.iterdir() if path.name[0] != "."), key=lambda p: p.name == "done.json")
    system.makedirs(target, exist_ok=True)
    for path in files:
        tenure.check()
        put(root, path, f"{run.name}/{path.name}")
    remove(root, f"{run.name}/checkpoint.safetensors")
    shutil.rmtree(directory)


def _take_over(run: Run, root: str, desk: Path) -> None:
    """Download the checkpoint of a run that another node started, if it is further than our own."""
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
