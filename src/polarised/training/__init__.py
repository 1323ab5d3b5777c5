"""The only training loop, its checkpoints, its pace and what it records."""

from polarised.training.history import History
from polarised.training.loop import Hook, keep_freed_memory, train
from polarised.training.pace import Settling, has_settled

__all__ = ["History", "Hook", "Settling", "has_settled", "keep_freed_memory", "train"]
