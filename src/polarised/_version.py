"""The version of the package, in the one place it is written."""

__version__ = "0.2.0.dev0"
