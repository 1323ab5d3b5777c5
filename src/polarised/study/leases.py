"""Who works on a run, where and how far: the lock of its folder, and a small file beside it that says so.

On one machine, and on file systems that share locks, the lock of the folder decides. Between machines that share none,
and at an address, the lease does: a run whose lease was renewed within `WINDOW` seconds is somebody's.
"""

import errno
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from polarised._io.files import replacing
from polarised._io.text import parse_json
from polarised.errors import ConfigError, PolarisedError
from polarised.study.storage import is_address, open_filesystem, read_text, remove, write_text

try:
    import fcntl
except ImportError:  # pragma: no cover (Windows: a run at work is then shown as waiting)
    fcntl = None  # type: ignore[assignment]

__all__ = ["HEARTBEAT", "LEASE", "LOCK", "WINDOW", "BusyError", "Lease", "held", "leased", "locked", "read_lease"]

LOCK = ".lock"
LEASE = ".lease.json"
HEARTBEAT = 10.0
WINDOW = 120.0
# How long a lease that looks old is watched before it is taken: clocks of two machines may disagree, or jump.
WATCH = 2.5 * HEARTBEAT
# Where a store cannot create a file only if there is none: how long two that were equally quick wait for each other.
SETTLING = 2.0


class BusyError(PolarisedError):
    """A run directory another process is working in."""


@contextmanager
def locked(directory: Path, *, patience: float = 0.5) -> Iterator[None]:
    """Hold a directory for this block alone; the system lets go with the process, however that ends.

    >>> import tempfile
    >>> with locked(Path(tempfile.mkdtemp())) as nothing:
    ...     print("mine")
    mine
    """
    # A look by `held` lasts no time at all, so a short wait tells it from a worker.
    lock = FileLock(directory / LOCK, timeout=patience, poll_interval=0.05, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout:
        raise BusyError(f"another process works in {directory}; wait for it or use another folder") from None
    except (NotImplementedError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK):
            raise
        raise ConfigError(
            f"the file system of {directory} has no locks, so that two commands could train the same run; use a folder "
            "on another one, or an address such as s3://bucket/study"
        ) from error
    try:
        yield
    finally:
        lock.release()


def held(directory: Path) -> bool:
    """Return whether a living process holds a directory.

    >>> import tempfile
    >>> held(Path(tempfile.mkdtemp()))
    False
    """
    path = directory / LOCK
    if fcntl is None or not path.exists():
        return False
    try:
        # For reading: the folder may be another user's, or on a mount that cannot be written.
        with path.open("rb") as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@dataclass(frozen=True)
class Lease:
    """A claim on a run: its owner, on which host, in which process, of which version, since when and how far."""

    owner: str
    host: str
    process: int
    version: str
    started: float
    heartbeat: float
    begun: int = 0
    step: int = 0

    def is_fresh(self, now: float | None = None) -> bool:
        """Return whether it was renewed within `WINDOW` seconds.

        Args:
            now: Seconds since 1970; this moment by default.

        Returns:
            True while somebody works on the run; a lease from far ahead of our clock says nothing and is none.
        """
        return abs((time.time() if now is None else now) - self.heartbeat) < WINDOW

    @property
    def pace(self) -> float:
        """Training steps a second since this owner began."""
        seconds = self.heartbeat - self.started
        return max(0, self.step - self.begun) / seconds if seconds > 0 else 0.0


def read_lease(root: str | Path, name: str) -> Lease | None:
    """Return the lease of a run at a folder or address, or None where there is none that can be read.

    Args:
        root: The folder or address of a study.
        name: The run's name.

    Returns:
        What its owner last wrote.
    """
    try:
        text = read_text(root, f"{name}/{LEASE}")
    except (PolarisedError, OSError):
        return None
    return None if text is None else _parsed(text)


def _parsed(text: str) -> Lease | None:
    try:
        known = parse_json(text, where="a lease")
        return Lease(
            owner=str(known["owner"])[:64],
            host=str(known["host"])[:256],
            process=int(known["process"]),
            version=str(known["version"])[:64],
            started=float(known["started"]),
            heartbeat=float(known["heartbeat"]),
            begun=int(known["begun"]),
            step=int(known["step"]),
        )
    except (PolarisedError, KeyError, TypeError, ValueError, OverflowError):
        return None


@contextmanager
def leased(
    root: str | Path, name: str, *, step: Callable[[], int], renewed: Callable[[], None] | None = None
) -> Iterator[None]:
    """Hold the lease of a run while the block runs, renewing it every `HEARTBEAT` seconds.

    Args:
        root: The folder or address of a study; a run's folder must be there.
        name: The run's name.
        step: Gives the training step that is saved.
        renewed: Called after every renewal, in the thread that renews.

    Raises:
        BusyError: Somebody else holds it.
    """
    from polarised._version import __version__

    now, begun = time.time(), step()
    mine = Lease(secrets.token_hex(8), socket.gethostname(), os.getpid(), __version__, now, now, begun, begun)
    _take(root, name, mine)
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(HEARTBEAT):
            # A store that cannot be reached for a while costs no run: the next renewal may succeed.
            with suppress(Exception):
                current = Lease(**{**asdict(mine), "heartbeat": time.time(), "step": step()})
                _write(root, name, current)
                if renewed is not None:
                    renewed()

    thread = threading.Thread(target=renew, name="lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        with suppress(Exception):
            remove(root, f"{name}/{LEASE}")


def _take(root: str | Path, name: str, mine: Lease) -> None:
    before = read_lease(root, name)
    # Of a process of this host the lock of its folder tells, and an ended one leaves its lease behind.
    ours = before is not None and before.host == mine.host and not is_address(root)
    if before is not None and not ours and (before.is_fresh(mine.started) or _is_renewed(root, name, before)):
        raise _busy(root, name, before)
    if not is_address(root):
        _write(root, name, mine)
        return
    system, base = open_filesystem(str(root))
    path = f"{base}/{name}/{LEASE}"
    if before is None:
        system.makedirs(f"{base}/{name}", exist_ok=True)
        with suppress(TypeError, NotImplementedError, ValueError):
            try:
                # Whoever comes first, where the store can tell.
                system.pipe_file(path, json.dumps(asdict(mine)).encode(), mode="create")
            except FileExistsError:
                raise _busy(root, name, read_lease(root, name)) from None
    if (found := read_lease(root, name)) is None or found.owner != mine.owner:
        _write(root, name, mine)
        time.sleep(SETTLING)
        found = read_lease(root, name)
    if found is None or found.owner != mine.owner:
        raise _busy(root, name, found)


def _is_renewed(root: str | Path, name: str, before: Lease) -> bool:
    """Return whether a lease changes while it is watched: its owner lives, whatever either clock says."""
    deadline = time.monotonic() + WATCH
    while (left := deadline - time.monotonic()) > 0:
        time.sleep(min(1.0, left))
        found = read_lease(root, name)
        if found != before:
            return found is not None
    return False


def _write(root: str | Path, name: str, lease: Lease) -> None:
    text = json.dumps(asdict(lease))
    if is_address(root):
        write_text(str(root), f"{name}/{LEASE}", text)
        return
    with replacing(Path(root) / name / LEASE) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _busy(root: str | Path, name: str, holder: Lease | None) -> BusyError:
    who = "somebody else" if holder is None else f"process {holder.process} of {holder.host}"
    return BusyError(f"{who} works on {name} at {root}; its lease ends {WINDOW:.0f} s after its last renewal")
