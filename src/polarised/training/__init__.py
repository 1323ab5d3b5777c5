"""The training loop, its checkpoints, learning rate schedule and history."""

from polarised.training.history import History
from polarised.training.loop import Hook, keep_freed_memory, train
from polarised.training.pace import Settling, has_settled

__all__ = ["History", "Hook", "Settling", "has_settled", "keep_freed_memory", "train"]
