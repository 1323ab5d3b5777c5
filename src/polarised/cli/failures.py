"""What the command line says when something fails that no function foresaw: one sentence, and where to look."""

import errno
import os
import platform
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

__all__ = ["Stopped", "listening", "sentence_of"]

LONGEST = 500


class Stopped(KeyboardInterrupt):
    """The system asked this process to end (SIGTERM, SIGUSR1): what Ctrl-C does, with its own exit code."""

    def __init__(self, number: int) -> None:
        super().__init__("")
        self.signal = number


@contextmanager
def listening() -> Iterator[None]:
    """End like Ctrl-C when a queue or a container asks for it, so that checkpoints are saved first."""
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGUSR1") if hasattr(signal, name)]
    before = {number: signal.signal(number, _stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    raise Stopped(number)


def sentence_of(error: Exception) -> str:
    """Return what happened in one sentence; what is not of a known kind is written down for a report.

    Args:
        error: What was raised.

    Returns:
        The sentence.

    >>> sentence_of(MemoryError())
    'there is not enough memory for this; use fewer inputs, a smaller model, or a larger machine'
    """
    if isinstance(error, OSError):
        return _of_system(error)
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error) or "out of memory" in str(error):
        return "there is not enough memory for this; use fewer inputs, a smaller model, or a larger machine"
    if isinstance(error, (RuntimeError, AssertionError)) and ("CUDA" in str(error) or "MPS" in str(error)):
        return f"the device that was asked for cannot be used here ({_line(error)}); use the device cpu"
    if isinstance(error, ModuleNotFoundError):
        return f"the package {error.name} is needed for this and not installed; pip install it, or 'polarised[train]'"
    kept = _write_report(error)
    where = "" if kept is None else f"; what happened is written down in {kept}, please report it"
    return f"something went wrong that should not: {type(error).__name__}: {_line(error)}{where}"


def _of_system(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        place = "" if error.filename is None else f" of {error.filename}"
        return f"the disk{place} is full; free some space and start the same command again"
    if error.filename is None:
        return _line(error)
    if error.errno == errno.EROFS:
        return f"could not write {error.filename}: its file system is read-only; give another folder with --out"
    return f"could not write or read {error.filename}: {error.strerror or _line(error)}"


def _line(error: Exception) -> str:
    words = " ".join(str(error).split()) or type(error).__name__
    return words if len(words) <= LONGEST else f"{words[:LONGEST]} ..."


def _write_report(error: Exception) -> Path | None:
    """Write what a developer needs into a folder of this user alone; None where that is not possible."""
    from polarised._io.files import private_folder
    from polarised._version import __version__

    words = [
        f"polarised {__version__}, Python {platform.python_version()}, {platform.platform()}",
        f"command: {sys.argv}",
        "".join(traceback.format_exception(error)),
    ]
    with suppress(Exception):
        path = private_folder("reports") / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
        path.write_text("\n".join(words), encoding="utf-8", errors="replace")
        return path
    return None
