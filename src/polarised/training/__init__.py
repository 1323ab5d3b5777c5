"""The only training loop, its checkpoints and what it records."""

from polarised.training.history import History
from polarised.training.loop import Hook, keep_freed_memory, train

__all__ = ["History", "Hook", "keep_freed_memory", "train"]
