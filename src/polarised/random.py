"""Every random number of the library, as a pure function of (seed, purpose, step).

Batch t and noise t depend only on these three, so a run resumes exactly and a new consumer of
random numbers does not change the others.
"""

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import NDArray

__all__ = ["seed_for", "seeds_for", "stream", "streams"]

# The number of steps that are seeded at once.
_BLOCK = 64
_WORD = 2**32


def stream(seed: int, purpose: str, step: int = 0) -> np.random.Generator:
    """Return the independent random stream of one purpose at one step.

    Args:
        seed: The seed of the run.
        purpose: The purpose of the numbers.
        step: The step they belong to.

    Returns:
        A separate generator.

    >>> bool(stream(0, "data", 7).integers(100) == stream(0, "data", 7).integers(100))
    True
    """
    return np.random.Generator(np.random.SFC64(_sequence(seed, purpose, step)))


def seed_for(seed: int, purpose: str, step: int = 0) -> int:
    """Return a 63-bit integer to seed the generator of another library (torch, LightGBM) for one purpose.

    Args:
        seed: The seed of the run.
        purpose: The purpose of the numbers.
        step: The step they belong to.

    Returns:
        A whole number from 0 to 2^63 - 1.

    >>> seed_for(0, "noise", 1) != seed_for(0, "noise", 2)
    True
    """
    return int(_sequence(seed, purpose, step).generate_state(1, np.uint64)[0] >> np.uint64(1))


def streams(seed: int, purpose: str, steps: range) -> Iterator[np.random.Generator]:
    """Yield the `stream` of each step, seeding many of them at once.

    Args:
        seed: The seed of the run.
        purpose: The purpose of the numbers.
        steps: The steps.

    Yields:
        A generator for each step.

    >>> [int(each.integers(100)) for each in streams(0, "data", range(7, 9))]
    [33, 22]
    """
    for words in _states(seed, purpose, steps, 3):
        # The type stubs accept only one class; numpy accepts any with its interface.
        yield np.random.Generator(np.random.SFC64(_Words(words)))  # type: ignore[arg-type]


def seeds_for(seed: int, purpose: str, steps: range) -> Iterator[int]:
    """Yield the `seed_for` of each step, computing many of them at once.

    Args:
        seed: The seed of the run.
        purpose: The purpose of the numbers.
        steps: The steps.

    Yields:
        A whole number for each step.

    >>> list(seeds_for(0, "noise", range(1, 3))) == [seed_for(0, "noise", 1), seed_for(0, "noise", 2)]
    True
    """
    for words in _states(seed, purpose, steps, 1):
        yield int(words[0] >> np.uint64(1))


class _Words(ISeedSequence):
    """A seed sequence with known words."""

    def __init__(self, words: NDArray[np.uint64]) -> None:
        self._words = words

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[Any]:
        assert (n_words, np.dtype(dtype)) == (len(self._words), self._words.dtype)
        return self._words


def _states(seed: int, purpose: str, steps: range, count: int) -> Iterator[NDArray[np.uint64]]:
    """Yield ``_sequence(seed, purpose, step).generate_state(count, np.uint64)`` of every step.

    This is numpy's SeedSequence, whose values are part of its interface, for an array of steps.
    """
    for first in range(0, len(steps), _BLOCK):
        block = steps[first : first + _BLOCK]
        if max(block[0], block[-1]) >= _WORD:
            for step in block:
                words: NDArray[Any] = _sequence(seed, purpose, step).generate_state(count, np.uint64)
                yield words
            continue
        before = [seed >> shift & (_WORD - 1) for shift in range(0, max(seed.bit_length(), 1), 32)]
        entropy = [*before, zlib.crc32(purpose.encode()), np.array(block, dtype=np.uint32)]
        yield from _hashed(_mixed([np.asarray(word, dtype=np.uint32) for word in entropy]), count)


def _mixed(entropy: list[NDArray[np.uint32]]) -> list[NDArray[np.uint32]]:
    constant = 0x43B0D7E5

    def hashed(value: NDArray[np.uint32]) -> NDArray[np.uint32]:
        nonlocal constant
        value = np.bitwise_xor(value, np.uint32(constant))
        constant = constant * 0x931E8875 % _WORD
        value *= np.uint32(constant)
        value ^= value >> np.uint32(16)
        return value

    def mixed(first: NDArray[np.uint32], second: NDArray[np.uint32]) -> NDArray[np.uint32]:
        result: NDArray[np.uint32] = np.subtract(first * np.uint32(0xCA01F9DD), second * np.uint32(0x4973F715))
        result ^= result >> np.uint32(16)
        return result

    # Scalars would warn about the overflow, which is intended.
    words = [np.atleast_1d(word) for word in entropy]
    pool = [hashed(words[i] if i < len(words) else np.zeros(1, dtype=np.uint32)) for i in range(4)]
    for source in range(4):
        for target in range(4):
            if source != target:
                pool[target] = mixed(pool[target], hashed(pool[source]))
    for word in words[4:]:
        for target in range(4):
            pool[target] = mixed(pool[target], hashed(word))
    return pool


def _hashed(pool: list[NDArray[np.uint32]], count: int) -> NDArray[np.uint64]:
    constant, state = 0x8B51F9DD, []
    for place in range(2 * count):
        value = pool[place % 4] ^ np.uint32(constant)
        constant = constant * 0x58F38DED % _WORD
        value = value * np.uint32(constant)
        state.append((value ^ value >> np.uint32(16)).astype(np.uint64))
    low, high = np.stack(state[::2], axis=1), np.stack(state[1::2], axis=1)
    return low | high << np.uint64(32)


def _sequence(seed: int, purpose: str, step: int) -> np.random.SeedSequence:
    return np.random.SeedSequence((seed, zlib.crc32(purpose.encode()), step))
