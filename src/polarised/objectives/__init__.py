"""The training objectives, ordered by paper."""

from polarised.objectives.cures import GECO, FreeBits, SigmaVAE
from polarised.objectives.papers import *  # noqa: F403
from polarised.objectives.papers import __all__ as papers
from polarised.objectives.step import Objective, Step, take_step

__all__ = [*papers, "GECO", "FreeBits", "Objective", "SigmaVAE", "Step", "take_step"]
