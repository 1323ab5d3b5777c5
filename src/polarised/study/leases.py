"""Ownership of a run: the lock of its folder, and small files that record the owner, its host and its progress.

On one machine, and on file systems with shared locks, the lock of the folder decides. Between machines without shared
locks, and at an address, these files decide:

- ``.term-N``: the run was owned for the N-th time. The process with the highest term is the owner. A term is taken by
  creating its file, which only one process can do, and is never overwritten; the highest is not deleted before the run
  is done, so that no number is used twice.
- ``.free-N``: the owner of that term has released it, and the next one may be taken at once.
- ``.lease.json``: the state of the owner, renewed every `HEARTBEAT` seconds. It only shows whether the owner is alive.

If an owner has not released its term, the next one is taken when its lease is older than `WINDOW` seconds *and* did not
change while it was watched for `WATCH` seconds of the local clock: clocks that disagree or jump only make others wait
longer. If several processes do this at once, one creates the file. An owner that was suspended meanwhile sees the
higher term at its next check, which it makes before every write to an address (`Tenure.check`): a run has one owner at
a time, except for one upload in progress, whose bytes are the same, since a run depends only on settings and code.

If a store cannot create a file exclusively, every process that wants a term writes a file with its own name, waits
`SETTLING` seconds and lists the files: the first by name wins. A process that took longer than half of that between
listing and writing withdraws, so that all writers see each other, if the store lists confirmed files by then.
"""

import _thread
import errno
import functools
import json
import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
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
    "Tenure",
    "claimed",
    "held",
    "leased",
    "locked",
    "read_lease",
    "release",
]

LOCK = ".lock"
LEASE = ".lease.json"
TERM, FREE = ".term-", ".free-"
# The name of the lease of a study's list of runs at an address.
LIST = ".list"
HEARTBEAT = 10.0
WINDOW = 120.0
# Seconds to watch a lease that looks expired before it is taken: clocks of two machines may disagree, or jump.
WATCH = 2.5 * HEARTBEAT
# Seconds that processes wait for each other if a store cannot create a file exclusively.
SETTLING = 2.0
# Packages that let their store create a file exclusively; fsspec itself checks first and writes later.
CONDITIONAL = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"}


class BusyError(PolarisedError):
    """A run directory in which another process is working."""


@contextmanager
def locked(directory: Path, *, patience: float = 0.5) -> Iterator[None]:
    """Lock a directory for this block; the system releases the lock with the process, however that ends.

    >>> import tempfile
    >>> with locked(Path(tempfile.mkdtemp())) as nothing:
    ...     print("mine")
    mine
    """
    # `held` takes the lock only for an instant, so a short wait distinguishes it from a worker.
    lock = FileLock(directory / LOCK, timeout=patience, poll_interval=0.05, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout:
        raise BusyError(f"another process is working in {directory}; wait for it or use another folder") from None
    except (NotImplementedError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK):
            raise
        raise ConfigError(
            f"the file system of {directory} has no locks, so two commands could train the same run; use a folder "
            "on another file system, or an address such as s3://bucket/study"
        ) from error
    try:
        yield
    finally:
        lock.release()


def held(directory: Path) -> bool:
    """Return whether a running process has locked a directory.

    >>> import tempfile
    >>> held(Path(tempfile.mkdtemp()))
    False
    """
    path = directory / LOCK
    # A pipe in its place would be waited for.
    if fcntl is None or not path.is_file():
        return False
    try:
        # Read-only, because the folder may belong to another user or be on a read-only mount.
        with path.open("rb") as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@dataclass(frozen=True)
class Lease:
    """The lease of a run: its owner, host, process, version, start and progress."""

    owner: str
    host: str
    process: int
    version: str
    started: float
    heartbeat: float
    begun: int = 0
    step: int = 0
    term: int = 0
    machine: str = ""

    def is_fresh(self, now: float | None = None) -> bool:
        """Return whether it was renewed within `WINDOW` seconds.

        Args:
            now: Seconds since 1970; default: now.

        Returns:
            True while a process works on the run; a lease from the far future of our clock is ignored.
        """
        return abs((time.time() if now is None else now) - self.heartbeat) < WINDOW

    @property
    def pace(self) -> float:
        """Training steps per second since this owner started."""
        seconds = self.heartbeat - self.started
        return max(0, self.step - self.begun) / seconds if seconds > 0 else 0.0


def read_lease(root: str | Path, name: str) -> Lease | None:
    """Return the lease of a run in a folder or at an address, or None if there is none that can be read.

    Args:
        root: The folder or address of a study.
        name: The run's name.

    Returns:
        The last lease written by its owner.
    """
    try:
        text = read_text(root, _beside(name, LEASE))
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
            term=int(known.get("term", 0)),
            machine=str(known.get("machine", ""))[:64],
        )
    except (PolarisedError, KeyError, TypeError, ValueError, OverflowError):
        return None


class Tenure:
    """The ownership of a run by this process.

    Args:
        root: The folder or address of a study.
        name: The run's name.
        lease: Its own lease, with the term.
    """

    def __init__(self, root: str | Path, name: str, lease: Lease) -> None:
        self._root, self._name, self._lease = root, name, lease
        self._over = False
        self.lost = False

    def check(self) -> None:
        """Check that this process still owns the run; call it before writing anything that others can see.

        Raises:
            BusyError: If another process took it over while this one was suspended or could not reach the store.
        """
        if not self.lost and _highest(_terms(self._root, self._name)) > self._lease.term:
            self.lost = True
        if self.lost:
            raise _busy(self._root, self._name, read_lease(self._root, self._name))

    def renew(self, step: int) -> None:
        """Renew the lease with the progress.

        Args:
            step: The saved training step.
        """
        lease = replace(self._lease, heartbeat=time.time(), step=step)
        _write(self._root, _beside(self._name, LEASE), json.dumps(asdict(lease)))

    def forget(self) -> None:
        """Delete the files of the lease, because the run is done."""
        self.check()
        self._over = True
        for file in _terms(self._root, self._name):
            remove(self._root, _beside(self._name, file))
        remove(self._root, _beside(self._name, LEASE))

    def leave(self) -> None:
        """Release the run, so that another process can take it at once."""
        if not self._over and not self.lost:
            self._over = True
            release(self._root, self._name, self._lease)


@contextmanager
def leased(
    root: str | Path, name: str, *, step: Callable[[], int], renewed: Callable[[], None] | None = None
) -> Iterator[Tenure]:
    """Hold the lease of a run during the block, renewing it every `HEARTBEAT` seconds.

    If the process was suspended for longer than `WINDOW` and another one took its run, the block is interrupted.

    Args:
        root: The folder or address of a study; the folder of a run must exist.
        name: The run's name.
        step: Returns the saved training step.
        renewed: Called after every renewal, in the thread that renews.

    Yields:
        The tenure, to be checked before every write to an address.

    Raises:
        BusyError: If another process holds it, or took it over while this one was suspended.
    """
    tenure = _take(root, name, _own(step()))
    ended = threading.Event()
    main = threading.current_thread() is threading.main_thread()

    def renew() -> None:
        while not ended.wait(HEARTBEAT):
            # A store that is unreachable for a while does not fail the run: the next renewal may succeed.
            with suppress(Exception):
                tenure.check()
                tenure.renew(step())
                if renewed is not None:
                    renewed()
            if tenure.lost:
                if main and not ended.is_set():
                    _interrupt()
                return

    thread = threading.Thread(target=renew, name="lease", daemon=True)
    thread.start()
    try:
        try:
            yield tenure
        finally:
            ended.set()
            thread.join()
    except KeyboardInterrupt:
        if tenure.lost:
            raise _busy(root, name, read_lease(root, name)) from None
        raise
    finally:
        tenure.leave()


def _interrupt() -> None:
    """Interrupt this process; training stops after the current step."""
    if callable(signal.getsignal(signal.SIGINT)):
        os.kill(os.getpid(), signal.SIGINT)
    else:
        # In the background of a script SIGINT is ignored; without a handler for this signal either, nothing happens.
        _thread.interrupt_main(signal.SIGTERM)


@contextmanager
def claimed(root: str, *, patience: float = 60.0) -> Iterator[Tenure]:
    """Lock an address for a short block, so that its list of runs can be read and written.

    Args:
        root: The address.
        patience: Seconds to wait for another owner.

    Yields:
        The tenure, to be checked before the list is written.

    Raises:
        BusyError: If others held it for all that time.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            tenure = _take(root, LIST, _own(0))
            break
        except BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
    try:
        yield tenure
    finally:
        tenure.leave()


def release(root: str | Path, name: str, lease: Lease) -> None:
    """End the term of an owner that is known to be gone, so that nobody waits until its lease expires.

    Args:
        root: The folder or address of a study.
        name: The run's name.
        lease: The owner's lease; a lease of another owner is not changed.
    """
    with suppress(Exception):
        if lease.term and _highest(_terms(root, name)) == lease.term:
            _write(root, _beside(name, f"{FREE}{lease.term}"), lease.owner)
        if (found := read_lease(root, name)) is not None and found.owner == lease.owner:
            remove(root, _beside(name, LEASE))


def _own(step: int) -> Lease:
    from polarised._version import __version__

    now = time.time()
    owner, host = secrets.token_hex(8), socket.gethostname()
    return Lease(owner, host, os.getpid(), __version__, now, now, step, step, machine=_machine())


@functools.cache
def _machine() -> str:
    """Return an identifier of this running system, whose processes share file locks; host names may repeat."""
    path = Path("/proc/sys/kernel/random/boot_id")
    return path.read_text(encoding="ascii").strip() if path.exists() else socket.gethostname()


def _beside(name: str, file: str) -> str:
    return f"{name}/{file}"


def _terms(root: str | Path, name: str) -> list[str]:
    """Return the names of the files that record the terms of a run and which of them were released."""
    try:
        if is_address(root):
            system, base = open_filesystem(str(root))
            found = [str(path).rstrip("/").rpartition("/")[2] for path in system.ls(f"{base}/{name}", detail=False)]
        else:
            found = [path.name for path in (Path(root) / name).iterdir()]
    except FileNotFoundError:
        return []
    return [file for file in found if file.startswith((TERM, FREE)) and _number(file)]


def _number(file: str) -> int:
    """Return the term in the name of a file; 0 if it is not one of our files."""
    number = file.split("-")[1]
    return int(number) if number.isascii() and number.isdigit() and len(number) < 10 else 0


def _highest(files: Collection[str]) -> int:
    return max((_number(file) for file in files if file.startswith(TERM)), default=0)


def _take(root: str | Path, name: str, mine: Lease) -> Tenure:
    """Become the owner of a run that has none."""
    files = _terms(root, name)
    last = _highest(files)
    if f"{FREE}{last}" not in files and _is_held(root, name, last, mine):
        raise _busy(root, name, read_lease(root, name))
    mine = replace(mine, term=last + 1, started=time.time(), heartbeat=time.time())
    taken = _create(root, name, mine)
    if taken is None:
        raise _busy(root, name, read_lease(root, name))
    files = _terms(root, name)
    if _highest(files) > mine.term:
        # The file of this term was deleted meanwhile, so the run was never ours.
        remove(root, _beside(name, taken))
        raise _busy(root, name, read_lease(root, name))
    tenure = Tenure(root, name, mine)
    tenure.renew(mine.step)
    for file in files:
        if _number(file) < mine.term:
            remove(root, _beside(name, file))
    return tenure


def _is_held(root: str | Path, name: str, last: int, mine: Lease) -> bool:
    """Return whether the owner of the last term is alive, by its lease; earlier versions wrote only the lease."""
    before = _lease_text(root, name)
    if not last and before is None:
        return False
    lease = None if before is None else _parsed(before)
    if lease is not None:
        # For processes on this machine the lock of the folder decides, and we hold it.
        if not is_address(root) and (lease.machine or lease.host) in (mine.machine, mine.host):
            return False
        if lease.term == last and lease.is_fresh(mine.started):
            return True
    deadline = time.monotonic() + WATCH
    while (left := deadline - time.monotonic()) > 0:
        time.sleep(min(1.0, WATCH / 10, left))
        files = _terms(root, name)
        if f"{FREE}{last}" in files:
            return False
        if _highest(files) != last or _lease_text(root, name) != before:
            return True
    return False


def _lease_text(root: str | Path, name: str) -> str | None:
    """Return the text of a lease, valid or not; None if it cannot be read."""
    try:
        return read_text(root, _beside(name, LEASE))
    except PolarisedError:
        return ""


def _create(root: str | Path, name: str, mine: Lease) -> str | None:
    """Take a term if nobody has it; return the name of its file."""
    file = f"{TERM}{mine.term}"
    path = _beside(name, file)
    if not creates_exclusively(str(root)):
        return _settle(root, name, mine)
    folder = _folder(root)
    try:
        if folder is not None:
            (folder / name).mkdir(parents=True, exist_ok=True)
            with (folder / path).open("x", encoding="utf-8") as opened:
                opened.write(mine.owner)
        else:
            system, base = open_filesystem(str(root))
            system.pipe_file(f"{base}/{path}", mine.owner.encode(), mode="create")
    except OSError as error:
        # A request that is repeated after it has succeeded finds its own file.
        found = read_text(root, path)
        if found is None and not isinstance(error, FileExistsError):
            raise
        return file if found == mine.owner else None
    return file


def _settle(root: str | Path, name: str, mine: Lease) -> str | None:
    """Take a term in a store without exclusive creation: write, wait, and check who else did."""
    looked = time.monotonic()
    if _highest(_terms(root, name)) >= mine.term:
        return None
    file = f"{TERM}{mine.term}-{mine.owner}"
    _write(root, _beside(name, file), mine.owner)
    if time.monotonic() - looked < SETTLING / 2:
        time.sleep(SETTLING)
        files = _terms(root, name)
        if _highest(files) == mine.term and file == min(each for each in files if _number(each) == mine.term):
            return file
    remove(root, _beside(name, file))
    return None


def _folder(root: str | Path) -> Path | None:
    """Return a place as a folder on this machine, or None for a store."""
    if not is_address(root):
        return Path(root)
    return Path(open_filesystem(str(root))[1]) if str(root).startswith(("file://", "local://")) else None


@functools.lru_cache(maxsize=16)
def creates_exclusively(root: str) -> bool:
    """Return whether files can be created exclusively at a place; each store is tested once per process.

    Args:
        root: The folder or address.

    Returns:
        True for folders, and for stores whose package supports it and that refuse an existing file.
    """
    if _folder(root) is not None:
        return True
    if root.partition("://")[0] not in CONDITIONAL:
        return False
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


def _write(root: str | Path, path: str, text: str) -> None:
    if is_address(root):
        write_text(str(root), path, text)
        return
    with replacing(Path(root) / path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _busy(root: str | Path, name: str, holder: Lease | None) -> BusyError:
    who = "another process" if holder is None else f"process {holder.process} of {holder.host}"
    what = "the list of runs" if name == LIST else name
    return BusyError(f"{who} is working on {what} at {root}; its lease expires {WINDOW:.0f} s after its last renewal")
