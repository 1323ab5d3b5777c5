"""Parsers of others that cannot be bounded from inside, run in a process of their own with limits.

A damaged parquet or HDF5 file can make its library allocate without end, hang or crash. It does so in a child process
whose memory and time are limited; what remains here is one sentence. The child is kept, so that thousands of small
files cost one start.
"""

import atexit
import contextlib
import io
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from polarised._io.budget import Budget
from polarised.errors import DataError

__all__ = ["call_apart", "serve"]

P = ParamSpec("P")
T = TypeVar("T")

_HEADER = struct.Struct("<Q")
# What tables and arrays are made of when they come back from the child; of `_TYPES` any class.
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
_CODE = "from polarised._io.apart import serve; serve()"


def call_apart(budget: Budget, kind: str, function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Return what a function of a module gives, called in the child process.

    Args:
        budget: The bytes and seconds the call may take beyond what the child has taken already.
        kind: What the input should be, for the error.
        function: A function that can be imported by its name.
        *args: Its arguments, plain data.
        **options: Its keyword arguments, plain data.

    Returns:
        Its result.

    Raises:
        DataError: The function raised, ran over its limits or ended its process.
    """
    with _TURN:
        child = _child()
        try:
            told, result = child.ask((function, args, options, budget.held), budget.seconds)
        except TimeoutError:
            child.end()
            raise _refusal(budget, kind, f"it takes longer than {budget.seconds:.0f} s to read") from None
        except (EOFError, OSError, pickle.UnpicklingError):
            child.end()
            raise _refusal(budget, kind, f"reading it ends in a crash or takes over {budget.held >> 20} MiB") from None
        except BaseException:
            # An answer half read would be taken for that of the next question.
            child.end()
            raise
    if told == "done":
        answer: T = result
        return answer
    if told == "refused":
        raise DataError(result)
    raise _refusal(budget, kind, result)


def _refusal(budget: Budget, kind: str, came: str) -> DataError:
    return DataError(f"expected {kind} in {budget.where}, {came}; delete the file and get it again")


class _Answer(pickle.Unpickler):
    """An answer of the child, which may hold tables, arrays and plain data and can name nothing else.

    The child has parsed a stranger's file: should that have taken it over, its answers must not reach further.
    """

    def find_class(self, module: str, name: str) -> Any:
        """Return what an answer names, where it is one of the kinds that answers have."""
        found = super().find_class(module, name) if (module, name) in _KINDS or module in _TYPES else None
        if found is None or (module in _TYPES and not (isinstance(found, type) and found.__module__ == module)):
            raise pickle.UnpicklingError(f"an answer cannot hold {module}.{name}")
        return found


class _Child:
    """A process that answers questions one after another until its input ends."""

    def __init__(self) -> None:
        # The current folder may be a stranger's: it is no place to import from.
        places = [place for place in sys.path if place]
        # Every thread maps room of its own, which counts towards the limit though it is hardly used.
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
    """Return the child of this process; one of before a fork, or one that died, is left."""
    if _KEPT and (_KEPT[0].owner != os.getpid() or not _KEPT[0].alive):
        left = _KEPT.pop()
        if left.owner == os.getpid():
            left.end()
    if not _KEPT:
        _KEPT.append(_Child())
    return _KEPT[0]


def _forget() -> None:
    """Let the child end with this process, without a warning about it."""
    while _KEPT:
        child = _KEPT.pop()
        if child.owner == os.getpid():
            child.end()


atexit.register(_forget)


def serve() -> None:
    """Answer questions from standard input until it ends; the other side of `call_apart`."""
    # Ctrl-C is for the process that asks; whoever waits there ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    # What a library prints must not come between the answers.
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    questions, prepared = sys.stdin.buffer, set[str]()
    while len(header := questions.read(_HEADER.size)) == _HEADER.size:
        function, args, options, held = pickle.loads(questions.read(_HEADER.unpack(header)[0]))
        module = function.__module__
        try:
            if module not in prepared:
                prepared.add(module)
                getattr(sys.modules[module], "prepare", _nothing)()
            with _limited(held):
                answer = "done", function(*args, **options)
            data = pickle.dumps(answer, protocol=5)
        except DataError as error:
            data = pickle.dumps(("refused", str(error)))
        except MemoryError:
            data = pickle.dumps(("failed", f"reading it takes over {held >> 20} MiB"))
        # Parsers of others raise nearly anything on damaged bytes, panics of Rust (no Exception) included.
        except BaseException as error:
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            data = pickle.dumps(("failed", f"could not read it: {reason}"))
        answers.write(_HEADER.pack(len(data)) + data)
        answers.flush()


def _nothing() -> None:
    """Prepare nothing."""


@contextlib.contextmanager
def _limited(held: int) -> Any:
    """Let the block map at most so many bytes more than are mapped now, where the system can hold it to that."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (ImportError, OSError, ValueError):
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_AS)
    # Threads of a library map room for their stacks and arenas when they first work.
    limit = pages * os.sysconf("SC_PAGE_SIZE") + held + (1 << 29)
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
