"""Every random number of the library, as a pure function of (seed, purpose, step).

Batch t and noise t depend on nothing but these three, so a run resumes exactly and a new consumer of
random numbers never shifts the others.
"""

import zlib

import numpy as np

__all__ = ["seed_for", "stream"]


def stream(seed: int, purpose: str, step: int = 0) -> np.random.Generator:
    """Return the independent random stream of one purpose at one step.

    Args:
        seed: The seed of the run.
        purpose: What the numbers are for.
        step: The step they belong to.

    Returns:
        A generator of its own.

    >>> bool(stream(0, "data", 7).integers(100) == stream(0, "data", 7).integers(100))
    True
    """
    return np.random.Generator(np.random.SFC64(_sequence(seed, purpose, step)))


def seed_for(seed: int, purpose: str, step: int = 0) -> int:
    """Return a 63-bit integer that seeds another library's generator (torch, LightGBM) for one purpose.

    Args:
        seed: The seed of the run.
        purpose: What the numbers are for.
        step: The step they belong to.

    Returns:
        A whole number from 0 to 2^63 - 1.

    >>> seed_for(0, "noise", 1) != seed_for(0, "noise", 2)
    True
    """
    return int(_sequence(seed, purpose, step).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _sequence(seed: int, purpose: str, step: int) -> np.random.SeedSequence:
    return np.random.SeedSequence((seed, zlib.crc32(purpose.encode()), step))
