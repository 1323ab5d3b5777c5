"""Who works on a run, where and how far: the lock of its folder, and a small file beside it that says so.

On one machine, and on file systems that share locks, the lock of the folder decides. Between machines that share none,
and at an address, the lease does: a run whose lease was renewed within `WINDOW` seconds is somebody's. Leases are taken
by creating a file that must not be there yet; where a store cannot do that, both write and look again after `SETTLING`.
"""

import errno
import functools
import json
import os
import secrets
import signal
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

__all__ = [
    "HEARTBEAT",
    "LEASE",
    "LOCK",
    "WINDOW",
    "BusyError",
    "Lease",
    "claimed",
    "held",
    "leased",
    "locked",
    "read_lease",
    "release",
]

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
        text = read_text(root, _path(name))
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

    A process that slept for longer than `WINDOW` may find that another has taken its run: the block is interrupted.

    Args:
        root: The folder or address of a study; a run's folder must be there.
        name: The run's name.
        step: Gives the training step that is saved.
        renewed: Called after every renewal, in the thread that renews.

    Raises:
        BusyError: Somebody else holds it, or took it over while this process slept.
    """
    mine = _own(step())
    _take(root, name, mine)
    ended, taken = threading.Event(), threading.Event()
    main = threading.current_thread() is threading.main_thread()

    def renew() -> None:
        while not ended.wait(HEARTBEAT):
            # A store that cannot be reached for a while costs no run: the next renewal may succeed.
            with suppress(Exception):
                if (found := read_lease(root, name)) is not None and found.owner != mine.owner:
                    taken.set()
                    if main:
                        # What training listens to: it ends after its step.
                        os.kill(os.getpid(), signal.SIGINT)
                    return
                _write(root, name, Lease(**{**asdict(mine), "heartbeat": time.time(), "step": step()}))
                if renewed is not None:
                    renewed()

    thread = threading.Thread(target=renew, name="lease", daemon=True)
    thread.start()
    try:
        yield
    except KeyboardInterrupt:
        if taken.is_set():
            raise _busy(root, name, read_lease(root, name)) from None
        raise
    finally:
        ended.set()
        thread.join()
        release(root, name, mine.owner)


@contextmanager
def claimed(root: str, *, patience: float = 60.0) -> Iterator[None]:
    """Hold an address for a short block, as a lock of a folder would, so that its list can be read and written.

    Args:
        root: The address.
        patience: Seconds to wait for others who hold it.

    Raises:
        BusyError: Others held it for all that time.
    """
    mine, deadline = _own(0), time.monotonic() + patience
    while True:
        try:
            _take(root, "", mine)
            break
        except BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
            mine = Lease(**{**asdict(mine), "started": time.time(), "heartbeat": time.time()})
    try:
        yield
    finally:
        release(root, "", mine.owner)


def release(root: str | Path, name: str, owner: str) -> None:
    """Remove the lease of an owner who is known to be gone, so that nobody waits for it to run out.

    Args:
        root: The folder or address of a study.
        name: The run's name.
        owner: Whose lease it is; anybody else's is left alone.
    """
    with suppress(Exception):
        if (found := read_lease(root, name)) is not None and found.owner == owner:
            remove(root, _path(name))


def _own(step: int) -> Lease:
    from polarised._version import __version__

    now = time.time()
    return Lease(secrets.token_hex(8), socket.gethostname(), os.getpid(), __version__, now, now, step, step)


def _path(name: str) -> str:
    return _beside(name, LEASE)


def _beside(name: str, file: str) -> str:
    """Return where a file of a run lies, or, without a run, of the study itself."""
    return f"{name}/{file}" if name else file


def _take(root: str | Path, name: str, mine: Lease) -> None:
    before = read_lease(root, name)
    # Of a process of this host the lock of its folder tells, and an ended one leaves its lease behind.
    ours = before is not None and before.host == mine.host and not is_address(root)
    if before is not None and not ours and (before.is_fresh(mine.started) or _is_renewed(root, name, before)):
        raise _busy(root, name, before)
    if ours:
        _write(root, name, mine)
        return
    if before is None:
        # What cannot be read is nobody's; it would stand in the way of the first.
        if read_text(root, _path(name)) is not None:
            remove(root, _path(name))
        if not _create(root, _path(name), mine):
            raise _busy(root, name, read_lease(root, name))
        return
    _take_over(root, name, before, mine)


def _take_over(root: str | Path, name: str, before: Lease, mine: Lease) -> None:
    """Replace a lease that ran out: of several who see it, the first to create a file named after it."""
    will = _beside(name, f".after-{_letters(before.owner)}.json")
    if not _create(root, will, mine):
        # One who died in this very moment must not stand in the way for ever.
        text = read_text(root, will)
        if text is None or (other := _parsed(text)) is None or not other.is_fresh(mine.started):
            remove(root, will)
        raise _busy(root, name, read_lease(root, name))
    try:
        found = read_lease(root, name)
        if found is None or found.owner != before.owner:
            raise _busy(root, name, found)
        _write(root, name, mine)
    finally:
        remove(root, will)


def _letters(owner: str) -> str:
    """Return an owner as part of a file's name: it is whatever a file said."""
    return "".join(letter for letter in owner if letter.isascii() and letter.isalnum())[:32]


def _create(root: str | Path, path: str, lease: Lease) -> bool:
    """Write a lease where there is none yet; return whether it is ours."""
    text = json.dumps(asdict(lease))
    if not is_address(root):
        whole = Path(root) / path
        draft = whole.with_name(f".{lease.owner}.tmp")
        draft.write_text(text, encoding="utf-8")
        try:
            # Whole at once, and only if there is none: also where locks are not shared.
            os.link(draft, whole)
        except FileExistsError:
            return False
        except OSError:
            # No hard links there: the name is taken first and filled at once.
            try:
                with whole.open("x", encoding="utf-8") as file:
                    file.write(text)
            except FileExistsError:
                return False
        finally:
            draft.unlink(missing_ok=True)
        return True
    if creates_exclusively(str(root)):
        system, base = open_filesystem(str(root))
        system.makedirs(f"{base}/{path}".rpartition("/")[0], exist_ok=True)
        try:
            system.pipe_file(f"{base}/{path}", text.encode(), mode="create")
        except FileExistsError:
            return False
        return True
    if read_text(root, path) is not None:
        return False
    write_text(str(root), path, text)
    time.sleep(SETTLING)
    found = read_text(root, path)
    return found is not None and (theirs := _parsed(found)) is not None and theirs.owner == lease.owner


@functools.lru_cache(maxsize=16)
def creates_exclusively(root: str) -> bool:
    """Return whether the store of an address refuses to create what is there: tried out once in a process.

    Args:
        root: The address.

    Returns:
        True where of two who create the same file only one succeeds.
    """
    system, base = open_filesystem(root)
    path = f"{base}/.trial-{secrets.token_hex(8)}"
    system.makedirs(base, exist_ok=True)
    try:
        system.pipe_file(path, b"1", mode="create")
        try:
            system.pipe_file(path, b"2", mode="create")
        except FileExistsError:
            return True
        return False
    except (TypeError, NotImplementedError, ValueError):
        return False
    finally:
        with suppress(Exception):
            system.rm_file(path)


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
        write_text(str(root), _path(name), text)
        return
    with replacing(Path(root) / name / LEASE) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _busy(root: str | Path, name: str, holder: Lease | None) -> BusyError:
    who = "somebody else" if holder is None else f"process {holder.process} of {holder.host}"
    return BusyError(
        f"{who} works on {name or 'the list of runs'} at {root}; its lease ends {WINDOW:.0f} s after its last renewal"
    )
