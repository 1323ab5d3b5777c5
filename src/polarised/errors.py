"""Everything that can go wrong by a user's hand, each with a sentence of what to do about it.

A message has four parts: what was expected, what came, where, and what to do.
"""

__all__ = ["ConfigError", "DataError", "DownloadError", "PolarisedError", "TrainingError"]


LONGEST = 2000


class PolarisedError(Exception):
    """The root of the errors raised on purpose; the command line prints them without a traceback.

    Words of others may be in a message: it is shown as one line, without characters that move a cursor, and cut.
    """

    def __str__(self) -> str:
        text = " ".join(super().__str__().split())
        if not text.isprintable():
            text = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
        return text if len(text) <= LONGEST else f"{text[: LONGEST - 200]} ... {text[-190:]}"


class ConfigError(PolarisedError, ValueError):
    """A setting that does not exist or does not fit."""


class DataError(PolarisedError, ValueError):
    """An array or a file that is not what its caller says it is."""


class DownloadError(PolarisedError, OSError):
    """A dataset that is neither here nor to be had."""


class TrainingError(PolarisedError, RuntimeError):
    """A training run that diverged or cannot be continued."""
