"""Runs and studies: from a config to results, resumable at every level.

``polarised.study.run("be_more_active", scale="laptop")`` runs a whole study; `stages` runs one model, stage by stage.
"""

from polarised.study.claims.verify import verify
from polarised.study.config import Run
from polarised.study.grid import study_names, study_scales
from polarised.study.results import collect
from polarised.study.stages import execute, load_run
from polarised.study.workflow import StudyOutcome, StudyStatus, plan, retry, run, status, train

__all__ = [
    "Run",
    "StudyOutcome",
    "StudyStatus",
    "collect",
    "execute",
    "load_run",
    "plan",
    "retry",
    "run",
    "status",
    "study_names",
    "study_scales",
    "train",
    "verify",
]
