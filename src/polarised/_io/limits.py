"""Limits for untrusted input: a budget of bytes and seconds, and a separate process with limits for parsers.

| budget | limit |
|---|---|
| bytes held in memory | 64 MiB + `MULTIPLE` times the size on disk, at most half of the memory that is free |
| bytes read as a stream | 1 GiB + 200 times the size on disk |
| seconds | 60 + 1 for every MiB on disk |

The limits apply to everything that one file, archive or folder unpacks to, so that all its parts count together.
Third-party parsers of parquet, csv and HDF5 cannot be limited from inside: on a damaged file they may allocate without
bound, hang or crash. They run in a child process with limited memory and time, and a failure becomes one sentence. The
child is reused, so that thousands of small files cost one start.
"""

import atexit
import contextlib
import io
import os
import pickle
import select
import signal
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar

from polarised.errors import DataError

__all__ = [
    "Budget",
    "available_memory",
    "call_apart",
    "check_ordinary",
    "check_room",
    "rehearse",
    "serve",
    "size_on_disk",
]

P = ParamSpec("P")
T = TypeVar("T")


FLOOR = 64 << 20
STREAM_FLOOR = 1 << 30
SECONDS = 60.0
# Images with few colours compress a hundredfold in a zip; weights hardly at all.
MULTIPLE = 200
OF_WEIGHTS = 20


class Budget:
    """The remaining budget of one input; it is charged before anything is unpacked.

    >>> budget = Budget("codes.npz", held=10, read=10, seconds=60.0)
    >>> budget.hold(8)
    >>> budget.hold(8)
    Traceback (most recent call last):
    ...
    polarised.errors.DataError: expected codes.npz to unpack to at most 10 bytes, but it asks for 16 bytes; refused
    """

    def __init__(self, where: str | Path, *, held: int, read: int, seconds: float) -> None:
        self.where = where
        self.held, self.read, self.seconds = held, read, seconds
        self._began = time.monotonic()
        self._held = self._read = 0

    @classmethod
    def of(cls, path: str | Path, *, multiple: int = MULTIPLE) -> Self:
        """Return the budget of a file or folder.

        Args:
            path: The input on disk.
            multiple: The largest ratio of unpacked size to size on disk.

        Returns:
            A new budget, whose time starts now.

        Raises:
            DataError: If it is a pipe, a socket or a device.
        """
        check_ordinary(path)
        return cls.of_size(path, size_on_disk(path), multiple=multiple)

    @classmethod
    def of_size(cls, where: str | Path, size: int, *, multiple: int = MULTIPLE) -> Self:
        """Return the budget of an input of some bytes, such as a member of an archive.

        Args:
            where: What an error calls it.
            size: Its bytes.
            multiple: How many times its size it may unpack to.

        Returns:
            A fresh budget, whose time begins now.
        """
        return cls(
            where,
            held=min(FLOOR + multiple * size, available_memory() // 2),
            read=STREAM_FLOOR + MULTIPLE * size,
            seconds=SECONDS + size / (1 << 20),
        )

    def hold(self, count: int) -> None:
        """Charge bytes that stay in memory.

        Args:
            count: How many bytes are about to be unpacked.

        Raises:
            DataError: If the budget is exceeded or the time is up.
        """
        self._held += count
        if self._held > self.held:
            raise DataError(
                f"expected {self.where} to unpack to at most {_amount(self.held)}, but it asks for "
                f"{_amount(self._held)}; refused"
            )
        self.stream(0)

    def stream(self, count: int) -> None:
        """Charge bytes that are read and not kept.

        Args:
            count: How many bytes are about to be read.

        Raises:
            DataError: If the budget is exceeded or the time is up.
        """
        self._read += count
        if self._read > self.read:
            raise DataError(
                f"expected at most {_amount(self.read)} in {self.where}, but it unpacks to more: far more than a file "
                "of its size holds; refused"
            )
        if time.monotonic() - self._began > self.seconds:
            raise DataError(
                f"expected to read {self.where} within {self.seconds:.0f} s, but it takes longer; check whether it is "
                "damaged or the disk is very slow"
            )


def check_ordinary(path: str | Path) -> None:
    """Refuse a pipe, a socket or a device, which could block forever; a missing file is not an error here.

    Args:
        path: The path about to be opened.

    Raises:
        DataError: If it is neither a file nor a folder.
    """
    try:
        kind = os.stat(path).st_mode  # noqa: PTH116
    except (OSError, ValueError):
        return
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
        raise DataError(f"expected a file, but {path} is a pipe, a socket or a device; check the path")


def check_room(path: str | Path) -> None:
    """Refuse a file of weights that is about to be held in memory, if its budget is smaller than the file.

    Args:
        path: The file; a missing one is ignored.

    Raises:
        DataError: If it is larger than half of the free memory, mostly holes, or not an ordinary file.
    """
    budget = Budget.of(path, multiple=OF_WEIGHTS)
    with contextlib.suppress(OSError):
        budget.hold(Path(path).stat().st_size)


def size_on_disk(path: str | Path) -> int:
    """Return the bytes on disk of a file, or of all files directly in a folder; 0 if it does not exist.

    The holes of a sparse file take no space, so its length alone says nothing about its size on disk.

    >>> size_on_disk("nowhere")
    0
    """
    try:
        if not Path(path).is_dir():
            return _stored(Path(path).stat())
        with os.scandir(path) as entries:
            return sum(_size(entry) for entry in entries)
    except OSError:
        return 0


def _size(entry: "os.DirEntry[str]") -> int:
    """Return the bytes of a file in a folder; the files of a model may be links into a cache."""
    try:
        return _stored(entry.stat())
    except OSError:
        return 0


def _stored(about: os.stat_result) -> int:
    blocks = getattr(about, "st_blocks", None)
    return about.st_size if blocks is None else min(about.st_size, 512 * blocks)


def available_memory() -> int:
    """Return the bytes of memory that can be used safely, considering the machine and its container.

    >>> available_memory() > 0
    True
    """
    return max(min(_of_machine(), _of_container()), 256 << 20)


def _of_machine() -> int:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    except (OSError, ValueError, IndexError):
        pass
    try:
        return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")) // 2
    except (AttributeError, ValueError, OSError):
        return 4 << 30


def _of_container() -> int:
    """Return the memory left by the control group of this process, or a huge number if there is none."""
    for limit, usage in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        try:
            return int(Path(limit).read_text()) - int(Path(usage).read_text())
        except (OSError, ValueError):
            continue
    return 1 << 62


def _amount(count: int) -> str:
    """Format a number of bytes.

    >>> _amount(10), _amount(3 << 20)
    ('10 bytes', '3 MiB')
    """
    return f"{count} bytes" if count < 1 << 20 else f"{count >> 20:,} MiB"


_HEADER = struct.Struct("<Q")
# The classes of which tables and arrays in the answers of the child consist; any class of the modules in `_TYPES`.
_KINDS = {
    *(("numpy", name) for name in ("dtype", "ndarray")),
    *((f"numpy.{core}.multiarray", name) for core in ("core", "_core") for name in ("_reconstruct", "scalar")),
    *((f"numpy.{core}.numeric", "_frombuffer") for core in ("core", "_core")),
    ("polars.dataframe.frame", "DataFrame"),
    ("polars.series.series", "Series"),
    ("polars.schema", "Schema"),
    ("collections", "OrderedDict"),
}
_TYPES = ("polars.datatypes.classes",)
_CODE = "from polarised._io.limits import serve; serve()"


def call_apart(budget: Budget, kind: str, function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Call a function of a module in the child process and return its result.

    Args:
        budget: The bytes and seconds that the call may use in addition to what the child uses already.
        kind: The expected kind of input, for the error.
        function: A function that can be imported by its name.
        *args: Its arguments, plain data.
        **options: Its keyword arguments, plain data.

    Returns:
        Its result.

    Raises:
        DataError: If the function raised an error, exceeded its limits or ended its process.
    """
    with _TURN:
        child = _child()
        try:
            status, result = child.ask((function, args, options, budget.held, _here()), budget.seconds)
        except TimeoutError:
            child.end()
            raise _refusal(budget, kind, f"but reading it takes longer than {budget.seconds:.0f} s") from None
        except (EOFError, OSError, pickle.UnpicklingError):
            child.end()
            raise _refusal(budget, kind, f"but reading it crashes or takes more than {budget.held >> 20} MiB") from None
        except BaseException:
            # A partly read answer would be mistaken for the answer to the next question.
            child.end()
            raise
    if status == "done":
        answer: T = result
        return answer
    if status == "refused":
        raise DataError(result)
    raise _refusal(budget, kind, result)


def rehearse(kind: str, function: Callable[..., None], *paths: Path) -> None:
    """Open files with a third-party library in the child process first, and refuse them if that exceeds the limits.

    Sizes in untrusted files cannot be relied on: a short config can describe a network larger than any memory.

    Args:
        kind: The expected kind of input, for the error.
        function: A function that can be imported by its name; it is called with the paths as strings.
        *paths: The files and folders.

    Raises:
        DataError: If the function raised an error, exceeded its limits or ended its process.
    """
    size = sum(size_on_disk(path) for path in paths)
    held = min(STREAM_FLOOR + OF_WEIGHTS * size, available_memory() // 2)
    budget = Budget(paths[0], held=held, read=0, seconds=2 * SECONDS + size / (1 << 20))
    call_apart(budget, kind, function, *(str(path) for path in paths))


def _here() -> str:
    """Return the current folder, to which relative paths refer; the child may have been started elsewhere."""
    try:
        return str(Path.cwd())
    except OSError:
        return ""


def _refusal(budget: Budget, kind: str, came: str) -> DataError:
    return DataError(f"expected {kind} in {budget.where}, {came}; delete the file and get it again")


class _Answer(pickle.Unpickler):
    """Unpickle an answer of the child, which may contain only tables, arrays and plain data.

    The child parses untrusted files; even if one of them takes control of it, its answers must do no harm.
    """

    def find_class(self, module: str, name: str) -> Any:
        """Return a class named in an answer, if it is one of the allowed ones."""
        found = super().find_class(module, name) if (module, name) in _KINDS or module in _TYPES else None
        if found is None or (module in _TYPES and not (isinstance(found, type) and found.__module__ == module)):
            raise pickle.UnpicklingError(f"an answer cannot hold {module}.{name}")
        return found


class _Child:
    """A process that answers questions one after another until its input ends."""

    def __init__(self) -> None:
        # The current folder may contain untrusted files, so nothing is imported from it.
        places = [place for place in sys.path if place]
        # Every thread maps memory that counts towards the limit although it is hardly used.
        few = {"POLARS_MAX_THREADS": "2", "MALLOC_ARENA_MAX": "2"}
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places), **few}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _CODE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        self.owner = os.getpid()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, question: Any, seconds: float) -> Any:
        deadline = time.monotonic() + seconds
        data = pickle.dumps(question, protocol=5)
        assert self._process.stdin is not None
        self._process.stdin.write(_HEADER.pack(len(data)) + data)
        self._process.stdin.flush()
        (size,) = _HEADER.unpack(self._read(_HEADER.size, deadline))
        return _Answer(io.BytesIO(self._read(size, deadline))).load()

    def _read(self, count: int, deadline: float) -> bytes:
        assert self._process.stdout is not None
        handle, pieces = self._process.stdout.fileno(), bytearray()
        while len(pieces) < count:
            ready, _, _ = select.select([handle], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError
            piece = os.read(handle, min(count - len(pieces), 1 << 20))
            if not piece:
                raise EOFError
            pieces += piece
        return bytes(pieces)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


_TURN = threading.Lock()
_KEPT: list[_Child] = []


def _child() -> _Child:
    """Return the child of this process; one from before a fork, or one that died, is replaced."""
    if _KEPT and (_KEPT[0].owner != os.getpid() or not _KEPT[0].alive):
        left = _KEPT.pop()
        if left.owner == os.getpid():
            left.end()
    if not _KEPT:
        _KEPT.append(_Child())
    return _KEPT[0]


def _forget() -> None:
    """Let the child end with this process, without a warning."""
    while _KEPT:
        child = _KEPT.pop()
        if child.owner == os.getpid():
            child.end()


atexit.register(_forget)


def serve() -> None:
    """Answer questions from standard input until it ends; the child's side of `call_apart`."""
    # Ctrl-C is handled by the parent process, which ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    # Output of a library must not mix with the answers.
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    questions, prepared = sys.stdin.buffer, set[str]()
    while len(header := questions.read(_HEADER.size)) == _HEADER.size:
        function, args, options, held, folder = pickle.loads(questions.read(_HEADER.unpack(header)[0]))
        module = function.__module__
        try:
            if folder:
                os.chdir(folder)
            if module not in prepared:
                prepared.add(module)
                getattr(sys.modules[module], "prepare", _nothing)()
            with _limited(held):
                answer = "done", function(*args, **options)
            data = pickle.dumps(answer, protocol=5)
        except DataError as error:
            data = pickle.dumps(("refused", str(error)))
        except MemoryError:
            data = pickle.dumps(("failed", f"but reading it takes more than {held >> 20} MiB"))
        # Third-party parsers raise almost any error on damaged bytes, including Rust panics, which are not Exceptions.
        except BaseException as error:
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            data = pickle.dumps(("failed", f"but it could not be read: {reason}"))
        answers.write(_HEADER.pack(len(data)) + data)
        answers.flush()


def _nothing() -> None:
    """Prepare nothing."""


@contextlib.contextmanager
def _limited(held: int) -> Any:
    """Limit the memory mapped in the block to `held` bytes more than now, where the system supports that."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (ImportError, OSError, ValueError):
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_AS)
    # Threads of a library map memory for their stacks and arenas when they first run.
    limit = pages * os.sysconf("SC_PAGE_SIZE") + held + (1 << 29)
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
