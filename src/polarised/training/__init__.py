"""The only training loop, its checkpoints and what it records."""

from polarised.training.history import History
from polarised.training.loop import Hook, train
from polarised.training.memory import keep_freed_memory

__all__ = ["History", "Hook", "keep_freed_memory", "train"]
