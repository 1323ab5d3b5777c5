"""The errors raised on purpose, each with a sentence of what to do about it.

A message has four parts: what was expected, what came, where, and what to do.
"""

__all__ = ["ConfigError", "DataError", "DownloadError", "PolarisedError", "TrainingError"]


class PolarisedError(Exception):
    """The root of the errors raised on purpose; the command line prints them without a traceback."""


class ConfigError(PolarisedError, ValueError):
    """A setting that does not exist or does not fit."""


class DataError(PolarisedError, ValueError):
    """An array or a file that is not what it was said to be."""


class DownloadError(PolarisedError, OSError):
    """A file of a dataset that is not on this machine and cannot be downloaded."""


class TrainingError(PolarisedError, RuntimeError):
    """A training run that diverged or cannot be continued."""
