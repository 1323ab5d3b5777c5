"""Who works on a run, where and how far: the lock of its folder, and small files beside it that say so.

On one machine, and on file systems that share locks, the lock of the folder decides. Between machines that share none,
and at an address, these files do:

- ``.term-N``: somebody owned the run for the N-th time. Whoever has the highest term is the owner. A term is taken by
  creating its file, which only one can do, and is never overwritten; the highest is never deleted before the run is
  done, so that no number is given twice.
- ``.free-N``: the owner of that term has left, and the next may be taken at once.
- ``.lease.json``: what the owner last said of itself, every `HEARTBEAT` seconds. It only tells whether the owner lives.

The next term of an owner that has not left is taken when its lease is older than `WINDOW` seconds *and* did not change
while it was watched for `WATCH` seconds of one's own clock: clocks that disagree or jump make others wait longer, never
less. Of several who do so at once, one creates the file. An owner that slept through this sees the higher term when it
next looks, which it does before everything it puts at an address (`Tenure.check`): a run has one owner at a time up to
a single upload that was under way, whose bytes are the same, since a run is a function of its settings and the code.

Where a store cannot create a file only if there is none, everybody who wants a term writes one with its own name, waits
`SETTLING` seconds and looks: the first by name has it. Whoever took longer than half of that from its look to its
write withdraws, so that all who write see each other, provided that the store shows what it has confirmed by then.
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
# Where the claim on a study's list of runs lies at an address.
LIST = ".list"
HEARTBEAT = 10.0
WINDOW = 120.0
# How long a lease that looks old is watched before it is taken: clocks of two machines may disagree, or jump.
WATCH = 2.5 * HEARTBEAT
# Where a store cannot create a file only if there is none: how long those who want it wait for each other.
SETTLING = 2.0
# Packages that ask their store to create a file only if there is none; fsspec itself looks first, and writes then.
CONDITIONAL = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"}


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
    term: int = 0
    machine: str = ""

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
    """One's own time as the owner of a run.

    Args:
        root: The folder or address of a study.
        name: The run's name.
        lease: What is said of oneself, with the term.
    """

    def __init__(self, root: str | Path, name: str, lease: Lease) -> None:
        self._root, self._name, self._lease = root, name, lease
        self._over = False
        self.lost = False

    def check(self) -> None:
        """Look whether the run is still ours; to be called before anything is put where others see it.

        Raises:
            BusyError: Somebody took it over while this process slept or did not reach the store.
        """
        if not self.lost and _highest(_terms(self._root, self._name)) > self._lease.term:
            self.lost = True
        if self.lost:
            raise _busy(self._root, self._name, read_lease(self._root, self._name))

    def renew(self, step: int) -> None:
        """Say that we live and how far we are.

        Args:
            step: The training step that is saved.
        """
        lease = replace(self._lease, heartbeat=time.time(), step=step)
        _write(self._root, _beside(self._name, LEASE), json.dumps(asdict(lease)))

    def forget(self) -> None:
        """Leave no trace: the run is done, and whoever comes later sees that."""
        self.check()
        self._over = True
        for file in _terms(self._root, self._name):
            remove(self._root, _beside(self._name, file))
        remove(self._root, _beside(self._name, LEASE))

    def leave(self) -> None:
        """Let the next one have the run at once."""
        if not self._over and not self.lost:
            self._over = True
            release(self._root, self._name, self._lease)


@contextmanager
def leased(
    root: str | Path, name: str, *, step: Callable[[], int], renewed: Callable[[], None] | None = None
) -> Iterator[Tenure]:
    """Hold the lease of a run while the block runs, renewing it every `HEARTBEAT` seconds.

    A process that slept for longer than `WINDOW` may find that another has taken its run: the block is interrupted.

    Args:
        root: The folder or address of a study; a run's folder must be there.
        name: The run's name.
        step: Gives the training step that is saved.
        renewed: Called after every renewal, in the thread that renews.

    Yields:
        The tenure, to be checked before anything is put at an address.

    Raises:
        BusyError: Somebody else holds it, or took it over while this process slept.
    """
    tenure = _take(root, name, _own(step()))
    ended = threading.Event()
    main = threading.current_thread() is threading.main_thread()

    def renew() -> None:
        while not ended.wait(HEARTBEAT):
            # A store that cannot be reached for a while costs no run: the next renewal may succeed.
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
    """Ask this process to end what it does, as training understands it: after its step."""
    if callable(signal.getsignal(signal.SIGINT)):
        os.kill(os.getpid(), signal.SIGINT)
    else:
        # In the background of a script Ctrl-C is ignored; where nobody listens to this one either, nothing happens.
        _thread.interrupt_main(signal.SIGTERM)


@contextmanager
def claimed(root: str, *, patience: float = 60.0) -> Iterator[Tenure]:
    """Hold an address for a short block, as a lock of a folder would, so that its list can be read and written.

    Args:
        root: The address.
        patience: Seconds to wait for others who hold it.

    Yields:
        The tenure, to be checked before the list is written.

    Raises:
        BusyError: Others held it for all that time.
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
    """End the term of an owner who is known to be gone, so that nobody waits for its lease to run out.

    Args:
        root: The folder or address of a study.
        name: The run's name.
        lease: The owner's lease; that of anybody else is left alone.
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
    """Return what tells this running system from others, also of its name: all processes on it share locks of files."""
    path = Path("/proc/sys/kernel/random/boot_id")
    return path.read_text(encoding="ascii").strip() if path.exists() else socket.gethostname()


def _beside(name: str, file: str) -> str:
    return f"{name}/{file}"


def _terms(root: str | Path, name: str) -> list[str]:
    """Return the names of the files that say which terms of a run there were, and which have ended."""
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
    """Return the term a file is about, 0 for a name that is none of ours."""
    number = file.split("-")[1]
    return int(number) if number.isascii() and number.isdigit() and len(number) < 10 else 0


def _highest(files: Collection[str]) -> int:
    return max((_number(file) for file in files if file.startswith(TERM)), default=0)


def _take(root: str | Path, name: str, mine: Lease) -> Tenure:
    """Become the owner of a run that is nobody's."""
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
        # The number of a term whose file was cleared away meanwhile: it was ours for no moment.
        remove(root, _beside(name, taken))
        raise _busy(root, name, read_lease(root, name))
    tenure = Tenure(root, name, mine)
    tenure.renew(mine.step)
    for file in files:
        if _number(file) < mine.term:
            remove(root, _beside(name, file))
    return tenure


def _is_held(root: str | Path, name: str, last: int, mine: Lease) -> bool:
    """Return whether the owner of the last term lives, as far as its lease tells; earlier versions wrote that alone."""
    before = _said(root, name)
    if not last and before is None:
        return False
    lease = None if before is None else _parsed(before)
    if lease is not None:
        # Of processes of this machine the lock of the folder tells, which is ours by now.
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
        if _highest(files) != last or _said(root, name) != before:
            return True
    return False


def _said(root: str | Path, name: str) -> str | None:
    """Return what stands in a lease, whatever it is; nothing where it cannot be read at all."""
    try:
        return read_text(root, _beside(name, LEASE))
    except PolarisedError:
        return ""


def _create(root: str | Path, name: str, mine: Lease) -> str | None:
    """Take a term if nobody has; return the name of its file."""
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
        # A request that was sent again after it had succeeded meets its own file.
        found = read_text(root, path)
        if found is None and not isinstance(error, FileExistsError):
            raise
        return file if found == mine.owner else None
    return file


def _settle(root: str | Path, name: str, mine: Lease) -> str | None:
    """Take a term where a store overwrites: write, wait, and see who else did."""
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
    """Return the folder of this machine that a place is, or None for a store."""
    if not is_address(root):
        return Path(root)
    return Path(open_filesystem(str(root))[1]) if str(root).startswith(("file://", "local://")) else None


@functools.lru_cache(maxsize=16)
def creates_exclusively(root: str) -> bool:
    """Return whether of two who create the same file at a place only one succeeds: a store is tried once in a process.

    Args:
        root: The folder or address.

    Returns:
        True for folders, and for stores that are known to be asked for it and that refuse what is there.
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
    who = "somebody else" if holder is None else f"process {holder.process} of {holder.host}"
    what = "the list of runs" if name == LIST else name
    return BusyError(f"{who} works on {what} at {root}; its lease ends {WINDOW:.0f} s after its last renewal")
