"""Error handling of the command line: one sentence on standard error, with --json also an object on standard output.

| exit code | when |
|---|---|
| 0 | success |
| 1 | failure: damaged data, a full disk, a failed run |
| 2 | wrong use: an option, a setting, a file or a folder that does not exist |
| 128 + n | terminated by signal n, such as 130 for Ctrl-C and 143 for SIGTERM |
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

# How to install the packages that only some commands or targets need.
EXTRAS = {
    "torch": "pip install torch",
    "ray": "pip install ray fsspec",
    "lightning": "pip install lightning",
    **{name: f"pip install {name}" for name in ("diffusers", "pythae", "anndata", "pandas")},
    "scvi": "pip install scvi-tools",
}


class Stopped(KeyboardInterrupt):
    """A signal (SIGTERM, SIGUSR1) asked this process to stop: as Ctrl-C, but with its own exit code."""

    def __init__(self, number: int) -> None:
        super().__init__("")
        self.signal = number


class Commands(TyperGroup):
    """Commands whose warnings and errors are one sentence on standard error, never a traceback."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Store whether --json was given, so that errors in the other arguments are also printed as JSON."""
        ctx.meta["json"] = "--json" in args
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; exit with the code of its error."""
        before, warnings.showwarning = warnings.showwarning, _warn
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, BrokenPipeError):
            # A reader that closes the pipe early is not an error; `printing` exits without a message.
            raise
        except KeyboardInterrupt as interrupt:
            typer.secho(printable(str(interrupt) or "stopped"), fg=typer.colors.YELLOW, err=True)
            ctx.exit(_code_of(interrupt))
        except Exception as error:
            # Without arguments, a command shows its help.
            if type(error).__name__ == "NoArgsIsHelpError":
                raise
            sentence, code = sentence_of(error), _code_of(error)
            if ctx.meta["json"]:
                details = {"kind": type(error).__name__, "message": sentence, "exit_code": code}
                with suppress(OSError):
                    typer.echo(json.dumps({"error": details}, indent=2))
            _print_error(sentence)
            ctx.exit(code)
        finally:
            warnings.showwarning = before


def _print_error(sentence: str) -> None:
    """Print an error on standard error, if that can be written."""
    with suppress(OSError):
        typer.secho(f"error: {sentence}", fg=typer.colors.RED, err=True)


def _warn(message: Warning | str, *_where: Any, **_more: Any) -> None:
    """Print the text of a warning, without the line of code that issued it."""
    typer.secho(f"warning: {printable(str(message))}", fg=typer.colors.YELLOW, err=True)


def _code_of(error: BaseException) -> int:
    """Return the exit code of an error; one that the user can correct on the command line is wrong use."""
    if isinstance(error, KeyboardInterrupt):
        return 128 + int(getattr(error, "signal", signal.SIGINT))
    if isinstance(error, ConfigError | FileNotFoundError):
        return WRONG_USE
    return int(getattr(error, "exit_code", FAILED))


@contextmanager
def listening() -> Iterator[None]:
    """Treat SIGTERM and SIGUSR1, sent by queues and containers, like Ctrl-C, so that checkpoints are saved."""
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGUSR1") if hasattr(signal, name)]
    before = {number: signal.signal(number, _stop) for number in numbers}
    try:
        yield
    except KeyboardInterrupt as interrupt:
        # The signal came before or after a command, so there is nothing to save.
        sys.exit(_code_of(interrupt))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    raise Stopped(number)


@contextmanager
def printing() -> Iterator[None]:
    """Flush the output at the end and report if it cannot be written; also report errors outside of commands.

    Raises:
        SystemExit: With code 1 if standard output cannot be written, else with the code of the block.
    """
    ended = SystemExit(0)
    for stream in (sys.stdout, sys.stderr):
        # The encoding of a terminal may lack some characters of our tables; print a question mark instead of failing.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        yield
    except SystemExit as error:
        ended = error
    except Exception as error:
        _print_error(sentence_of(error))
        ended = SystemExit(_code_of(error))
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError as error:
            # Otherwise the interpreter flushes the buffer again at exit and prints a traceback.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            if stream is sys.stdout and not isinstance(error, BrokenPipeError):
                _print_error(f"could not write to standard output: {error.strerror}")
            ended = SystemExit(FAILED)
    raise ended


def sentence_of(error: Exception) -> str:
    """Return an error as one sentence; an unexpected error is also written to a file for a bug report.

    Args:
        error: The error.

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
        return f"the requested device is not available ({_line(error)}); use the device cpu"
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        return f"this needs {error.name}, which is not installed: {EXTRAS[error.name]}"
    # Errors of the command-line parser.
    if hasattr(error, "format_message"):
        return _of_use(error)
    details = _write_report(error)
    where = "" if details is None else f"; please report it with the file {details}"
    return f"unexpected error: {type(error).__name__}: {_line(error)}{where}"


def _of_use(error: Any) -> str:
    words, command = " ".join(str(error.format_message()).split()).rstrip("."), getattr(error, "ctx", None)
    place = "" if command is None else f"; see {command.command_path} --help"
    return printable(f"{words[:LONGEST]}{place}")


def _of_system(error: OSError) -> str:
    # A limit on file sizes (ulimit) is reported as EFBIG.
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        place = "" if error.filename is None else f" of {error.filename}"
        return f"the disk{place} is full; free some space and run the same command again"
    if error.filename is None:
        return _line(error)
    if error.errno == errno.ENOENT:
        return f"expected {error.filename}, which does not exist; check the path"
    if error.errno == errno.EROFS:
        return f"could not write {error.filename}: its file system is read-only; write to another folder"
    return f"could not write or read {error.filename}: {error.strerror or _line(error)}"


def _line(error: Exception) -> str:
    words = " ".join(str(error).split()) or type(error).__name__
    return printable(words if len(words) <= LONGEST else f"{words[:LONGEST]} ...")


def _write_report(error: Exception) -> Path | None:
    """Write the traceback and the versions to a private folder of the user; return None if that fails."""
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
