"""One process a run directory, however many studies look at it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from polarised.errors import PolarisedError

try:
    import fcntl
except ImportError:  # pragma: no cover (Windows has no flock: two studies on one folder may then repeat work)
    fcntl = None  # type: ignore[assignment]

__all__ = ["BusyError", "held", "locked"]

FILE = ".lock"


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
    if fcntl is None:
        yield
        return
    with (directory / FILE).open("a") as handle:
        deadline = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                # A look by `held` lasts no time at all, so a short wait tells it from a worker.
                if time.monotonic() > deadline:
                    raise BusyError(
                        f"another process works in {directory}; wait for it or use another folder"
                    ) from None
                time.sleep(0.05)
        yield


def held(directory: Path) -> bool:
    """Return whether a living process holds a directory.

    >>> import tempfile
    >>> held(Path(tempfile.mkdtemp()))
    False
    """
    path = directory / FILE
    if fcntl is None or not path.exists():
        return False
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
