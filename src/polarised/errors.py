"""The errors that the library raises deliberately, each with a sentence on what to do.

A message has four parts: what was expected, what was given, where, and what to do.
"""

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

__all__ = [
    "ConfigError",
    "DataError",
    "DivergedError",
    "DownloadError",
    "MissingFileError",
    "PolarisedError",
    "TrainingError",
    "printable",
    "suggesting_keywords",
]

Given = ParamSpec("Given")
Returned = TypeVar("Returned")


LONGEST = 2000


def printable(text: str) -> str:
    """Return untrusted text, such as a file name, without characters that move a cursor or colour a terminal.

    Args:
        text: Any text.

    Returns:
        The text with a replacement character for each unprintable one; line ends are kept.

    >>> printable("a\\x1b[2Jb")
    'a\ufffd[2Jb'
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter == "\n" else "\N{REPLACEMENT CHARACTER}" for letter in text)


class PolarisedError(Exception):
    """The base class of the errors raised deliberately; the command line prints them without a traceback.

    A message may contain untrusted text: it is shown as one line, without control characters, and shortened.
    """

    def __str__(self) -> str:
        text = printable(" ".join(super().__str__().split()))
        return text if len(text) <= LONGEST else f"{text[: LONGEST - 200]} ... {text[-190:]}"


class ConfigError(PolarisedError, ValueError):
    """A setting that does not exist or is invalid."""


class DataError(PolarisedError, ValueError):
    """An array or a file that does not have the expected contents."""


class MissingFileError(DataError, FileNotFoundError):
    """A named file or folder that does not exist."""


class DownloadError(PolarisedError, OSError):
    """A file of a dataset that is missing and cannot be downloaded."""


class TrainingError(PolarisedError, RuntimeError):
    """A training run that diverged or cannot be resumed."""


class DivergedError(TrainingError):
    """A training run with a loss or weights that are no longer finite."""


def suggesting_keywords(function: Callable[Given, Returned]) -> Callable[Given, Returned]:
    """Make a function suggest the nearest keyword for a misspelt one.

    Args:
        function: The function.

    Returns:
        The function, which raises `ConfigError` for a keyword it does not have.

    >>> @suggesting_keywords
    ... def add(a, *, other=0):
    ...     return a + other
    >>> add(1, ohter=2)
    Traceback (most recent call last):
    ...
    polarised.errors.ConfigError: expected a keyword of add, got ohter (did you mean other?)
    """
    offered = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def checked(*arguments: Given.args, **keywords: Given.kwargs) -> Returned:
        for name in keywords:
            if name not in offered:
                near = difflib.get_close_matches(name, offered, n=1)
                hint = f" (did you mean {near[0]}?)" if near else f"; it takes {', '.join(offered)}"
                raise ConfigError(f"expected a keyword of {function.__name__}, got {name}{hint}")
        return function(*arguments, **keywords)

    return checked
