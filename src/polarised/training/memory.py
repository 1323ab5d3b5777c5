"""Keep the memory of a training step instead of handing it back to the system at every step.

Activations of a convolutional VAE lie above the size from which glibc maps fresh pages for each allocation, so every
step maps, faults in and unmaps them anew: a third of the time on a CPU (benchmarks/training.py measures it).
"""

import ctypes
import sys

__all__ = ["keep_freed_memory"]

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


def keep_freed_memory() -> bool:
    """Raise glibc's thresholds for the rest of this process; return whether that was possible.

    Only for processes of our own (the command line, workers of a study), never on import: it changes the whole
    process for good. Both thresholds belong together: the trim threshold alone fixes the other at its small default.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, 2**30)) and bool(mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))
