"""How the command line fails: one sentence on standard error, with --json also one object on standard output.

| exit code | when |
|---|---|
| 0 | it was done |
| 1 | it failed: damaged data, a full disk, a run that failed |
| 2 | wrong use: an option, a setting, a file or a folder that does not exist |
| 128 + n | signal n asked it to end, such as 130 for Ctrl-C and 143 for SIGTERM |
"""

import errno
import io
import json
import os
import platform
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from polarised.cli.screen import as_flags
from polarised.errors import ConfigError, PolarisedError, printable

__all__ = ["Commands", "Stopped", "listening", "printing", "sentence_of"]

LONGEST = 500
FAILED, WRONG_USE = 1, 2

# How to get what some commands or targets need and the package itself does not.
EXTRAS = {
    "torch": "pip install torch",
    "ray": "pip install ray fsspec",
    "lightning": "pip install lightning",
    **{name: f"pip install {name}" for name in ("diffusers", "pythae", "anndata", "pandas")},
    "scvi": "pip install scvi-tools",
}


class Stopped(KeyboardInterrupt):
    """The system asked this process to end (SIGTERM, SIGUSR1): what Ctrl-C does, with its own exit code."""

    def __init__(self, number: int) -> None:
        super().__init__("")
        self.signal = number


class Commands(TyperGroup):
    """Commands whose warnings and errors are one sentence on standard error, never a traceback."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Remember whether a machine is listening: what is wrong with the rest of the line is told to it too."""
        ctx.meta["json"] = "--json" in args
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Do the command; end with the exit code that its error has."""
        before, warnings.showwarning = warnings.showwarning, _warn
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, BrokenPipeError):
            # Whoever reads what we print may have seen enough: the frame around the commands ends without a word.
            raise
        except KeyboardInterrupt as interrupt:
            typer.secho(printable(str(interrupt) or "stopped"), fg=typer.colors.YELLOW, err=True)
            ctx.exit(_code_of(interrupt))
        except Exception as error:
            # Called without anything, a command shows its help.
            if type(error).__name__ == "NoArgsIsHelpError":
                raise
            sentence, code = sentence_of(error), _code_of(error)
            if ctx.meta["json"]:
                told = {"kind": type(error).__name__, "message": sentence, "exit_code": code}
                with suppress(OSError):
                    typer.echo(json.dumps({"error": told}, indent=2))
            _say(sentence)
            ctx.exit(code)
        finally:
            warnings.showwarning = before


def _say(sentence: str) -> None:
    """Tell people what went wrong, if there is anywhere to tell it."""
    with suppress(OSError):
        typer.secho(f"error: {sentence}", fg=typer.colors.RED, err=True)


def _warn(message: Warning | str, *_where: Any, **_more: Any) -> None:
    """Show a warning to people: the sentence, not the line of our code that gave it."""
    typer.secho(f"warning: {printable(str(message))}", fg=typer.colors.YELLOW, err=True)


def _code_of(error: BaseException) -> int:
    """Return the exit code of what was raised: what the user can set right on the command line is wrong use."""
    if isinstance(error, KeyboardInterrupt):
        return 128 + int(getattr(error, "signal", signal.SIGINT))
    if isinstance(error, ConfigError | FileNotFoundError):
        return WRONG_USE
    return int(getattr(error, "exit_code", FAILED))


@contextmanager
def listening() -> Iterator[None]:
    """End like Ctrl-C when a queue or a container asks for it, so that checkpoints are saved first."""
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGUSR1") if hasattr(signal, name)]
    before = {number: signal.signal(number, _stop) for number in numbers}
    try:
        yield
    except KeyboardInterrupt as interrupt:
        # Before or after a command, where nothing is there to be saved.
        sys.exit(_code_of(interrupt))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    raise Stopped(number)


@contextmanager
def printing() -> Iterator[None]:
    """Write out what was printed while it can still be said that there was no room for it; the last net of all.

    Raises:
        SystemExit: With 1 where standard output cannot be written, else as the block ended.
    """
    ended = SystemExit(0)
    for stream in (sys.stdout, sys.stderr):
        # A terminal or a pipe may know fewer characters than our tables have: a question mark is better than none.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        yield
    except SystemExit as error:
        ended = error
    except Exception as error:
        _say(sentence_of(error))
        ended = SystemExit(_code_of(error))
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError as error:
            # What is left in the buffer must not be tried again, with a traceback, when the interpreter ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            if stream is sys.stdout and not isinstance(error, BrokenPipeError):
                _say(f"could not print: {error.strerror}")
            ended = SystemExit(FAILED)
    raise ended


def sentence_of(error: Exception) -> str:
    """Return what happened in one sentence; what is not of a known kind is written down for a report.

    Args:
        error: What was raised.

    Returns:
        The sentence.

    >>> sentence_of(MemoryError())
    'there is not enough memory for this; use fewer inputs, a smaller model, or a larger machine'
    """
    if isinstance(error, PolarisedError):
        return as_flags(str(error))
    if isinstance(error, OSError):
        return printable(_of_system(error))
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error) or "out of memory" in str(error):
        return "there is not enough memory for this; use fewer inputs, a smaller model, or a larger machine"
    if isinstance(error, (RuntimeError, AssertionError)) and ("CUDA" in str(error) or "MPS" in str(error)):
        return f"the device that was asked for cannot be used here ({_line(error)}); use the device cpu"
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        return f"this needs {error.name}, which is not installed: {EXTRAS[error.name]}"
    # What the parser of the command line itself found wrong.
    if hasattr(error, "format_message"):
        return _of_use(error)
    kept = _write_report(error)
    where = "" if kept is None else f"; what happened is written down in {kept}, please report it"
    return f"something went wrong that should not: {type(error).__name__}: {_line(error)}{where}"


def _of_use(error: Any) -> str:
    words, command = " ".join(str(error.format_message()).split()).rstrip("."), getattr(error, "ctx", None)
    place = "" if command is None else f"; see {command.command_path} --help"
    return printable(f"{words[:LONGEST]}{place}")


def _of_system(error: OSError) -> str:
    # A limit on the size of files (ulimit) is told as a large file.
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        place = "" if error.filename is None else f" of {error.filename}"
        return f"the disk{place} is full; free some space and start the same command again"
    if error.filename is None:
        return _line(error)
    if error.errno == errno.ENOENT:
        return f"expected {error.filename}, which does not exist; check the path"
    if error.errno == errno.EROFS:
        return f"could not write {error.filename}: its file system is read-only; write elsewhere"
    return f"could not write or read {error.filename}: {error.strerror or _line(error)}"


def _line(error: Exception) -> str:
    words = " ".join(str(error).split()) or type(error).__name__
    return printable(words if len(words) <= LONGEST else f"{words[:LONGEST]} ...")


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
