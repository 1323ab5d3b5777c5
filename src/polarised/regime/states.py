"""For how many inputs a variable is on: the distribution of its variance ratio over inputs, split in two.

The logarithms of r = variance / prior variance are counted in fine bins, which add up over chunks, files and machines.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["LOG_RATIOS", "TwoStates", "count_ratios", "share_below", "two_states"]

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

# The upper bits of a single-precision number are its exponent and the first bits of its fraction: eight bins an octave.
_SHIFT, _PER_OCTAVE = 20, 8
_LOWEST, _HIGHEST = -32, 16
_OFFSET = (127 + _LOWEST) * _PER_OCTAVE
# Rows counted at once: few enough to stay in the processor's cache.
_PIECE = 1 << 13
_BINS = (_HIGHEST - _LOWEST) * _PER_OCTAVE
_EDGES = np.concatenate([2.0**octave * (1 + np.arange(_PER_OCTAVE) / 8) for octave in range(_LOWEST, _HIGHEST)])
# The logarithm of r in the middle of each bin.
LOG_RATIOS: Array = np.log(_EDGES * (1 + 0.5 / (8 + np.tile(np.arange(_PER_OCTAVE), _HIGHEST - _LOWEST))))
_WIDTH = np.log(2) / _PER_OCTAVE

# Otsu's separation: 2/pi for a Gaussian, 3/4 for a uniform spread, 1 for two points.
TWO, ONE = 0.85, 0.75


class TwoStates(NamedTuple):
    """The best split of each variable's log r into an on and an off state; arrays (d,).

    `separation` is the share of the variance of log r that lies between the two, `on` the share of inputs in the lower
    state with its standard error, `ratio_on` and `ratio_off` are the geometric means of r in either.
    """

    separation: Array
    on: Array
    on_error: Array
    ratio_on: Array
    ratio_off: Array


def count_ratios(ratios: NDArray[Any]) -> Counts:
    """Return how many of the ratios (n, d) fall into each bin, (bins, d); what lies outside goes to the outermost.

    >>> counts = count_ratios(np.array([[1.0], [1.0], [0.01]]))
    >>> counts.sum(axis=0), np.exp(LOG_RATIOS[counts[:, 0] > 0]).round(3)
    (array([3]), array([0.01 , 1.062]))
    """
    latents = ratios.shape[1]
    # One count for all variables: a column is told by its offset.
    offsets = np.arange(latents) * _BINS - _OFFSET
    counts = np.zeros(latents * _BINS, dtype=np.int64)
    for start in range(0, len(ratios), _PIECE):
        bits = np.ascontiguousarray(ratios[start : start + _PIECE], dtype=np.float32).view(np.int32) >> _SHIFT
        np.clip(bits, _OFFSET, _OFFSET + _BINS - 1, out=bits)
        counts += np.bincount((bits + offsets).ravel(), minlength=latents * _BINS)
    return counts.reshape(latents, _BINS).T


def share_below(counts: Counts, ratio: Array | float) -> Array:
    """Return the share (d,) of inputs whose r lies below a ratio, a number or (d,), to the nearest bin.

    >>> share_below(count_ratios(np.array([[1.0], [1.0], [0.01], [0.01]])), 0.5)
    array([0.5])
    """
    below = LOG_RATIOS[:, None] < np.log(np.broadcast_to(ratio, (counts.shape[1],)))
    total = np.maximum(counts.sum(axis=0), 1)
    return np.asarray((counts * below).sum(axis=0) / total)


def two_states(counts: Counts) -> TwoStates:
    """Split the distribution of log r of each variable where the variance between the two parts is largest.

    separation = w_on w_off (m_on - m_off)^2 / Var[log r], w the shares and m the means of log r  [Otsu1979]. The share
    of the on state is 1 - c of p(z_j) = c p(eps_j) + (1 - c) p(mean_j) [Bonheme2023BeMoreActive, theorem 5 (iii)]; its
    standard error is sqrt(c (1 - c) / n), and where a fixed r < 1/2 would give another share, their distance is added.

    Args:
        counts: How many inputs fall into each bin of log r, as `count_ratios` returns it, (bins, d).

    Returns:
        The split of each variable; a variable whose r is the same for all has separation 0.

    >>> found = two_states(count_ratios(np.array([[0.01]] * 30 + [[1.0]] * 70)))
    >>> round(float(found.on[0]), 2), bool(found.separation[0] > 0.95)
    (0.3, True)
    """
    total = np.maximum(counts.sum(axis=0), 1).astype(np.float64)
    lower = counts.cumsum(axis=0)[:-1] / total
    sums = (counts * LOG_RATIOS[:, None]).cumsum(axis=0) / total
    mean = sums[-1]
    variance = (counts * np.square(LOG_RATIOS[:, None] - mean)).sum(axis=0) / total
    with np.errstate(divide="ignore", invalid="ignore"):
        between = np.nan_to_num(np.square(sums[:-1] - lower * mean) / (lower * (1 - lower)), posinf=0.0)
    # Empty bins between two states are all as good: the middle one is a stable choice.
    best, last = between.argmax(axis=0), len(between) - 1 - between[::-1].argmax(axis=0)
    split = (best + last) // 2
    column = np.arange(counts.shape[1])
    on, low = lower[split, column], sums[split, column]
    # Bins have a width: without it, all numbers in two neighbouring bins would pass for two points.
    separation = between[split, column] / (variance + _WIDTH**2 / 12)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio_on, ratio_off = np.exp(low / on), np.exp((mean - low) / (1 - on))
    halves = share_below(counts, 0.5)
    straddles = (ratio_on < 0.5) & (ratio_off > 0.5)
    error = np.sqrt(on * (1 - on) / total) + np.where(straddles, np.abs(on - halves), 0.0)
    return TwoStates(np.where(variance > 0, separation, 0.0), on, error, ratio_on, ratio_off)
