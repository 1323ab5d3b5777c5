"""Runs and studies: from a config to results, resumable at every level."""

from polarised.study.config import Run
from polarised.study.run import execute, load_run

__all__ = ["Run", "execute", "load_run"]
