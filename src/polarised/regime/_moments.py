"""Moments of a table by blocks of rows, in one pass, and histograms of log r.

Rows are assigned to a fixed number of blocks in turn. A table is read in pieces that fit into the processor's cache and
are converted to float64 once, so a pass over a file costs a small multiple of reading it. The logarithms of r =
variance / prior variance are counted in fine bins, which add up over chunks, files and machines; splitting the
distribution of a variable's r over inputs in two shows for how many inputs it is on.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "BLOCKS",
    "LOG_RATIOS",
    "ONE",
    "TWO",
    "BlockedMoments",
    "TwoStates",
    "blocked_moments",
    "count_ratios",
    "rows_per_block",
    "scaled_to_correlation",
    "share_below",
    "two_states",
]

Array = NDArray[np.float64]
Counts = NDArray[np.int64]


BLOCKS = 64


# Numbers in a piece: 4 MB as float64. With smaller pieces the overhead of calls would exceed the gain from the cache.
_PIECE = 2**19


# Variances multiplied before one logarithm is taken; if a product is out of range, all logarithms are taken singly.
_FACTORS = 32


# Beyond this mean^2 / variance, sums of squares would lose more than three of the sixteen digits of float64.
_FAR = 1e3


_HEAD = 1024


# Columns multiplied at once, the width of the matrix routine; rows in a run; variables from which one product is fast.
_COLUMNS, _RUN, _FEW = 8, 400, 32


class BlockedMoments(NamedTuple):
    """Rows, mean, sum of squares around it and mean logarithm of each block (blocks, d), and the smallest value.

    `centre` is the mean of all rows and `products` (d, d) are the sums of products around it, empty if not requested.
    """

    counts: Array
    means: Array
    squares: Array
    logarithms: Array
    lowest: float
    centre: Array
    products: Array


def scaled_to_correlation(products: Array) -> Array:
    """Return the correlations of a covariance, or of sums of products: R_ij = C_ij / sqrt(C_ii C_jj).

    A constant variable has correlation 0 with every variable, including itself.

    >>> scaled_to_correlation(np.array([[4.0, 1.0], [1.0, 1.0]]))
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    scale = np.sqrt(np.diag(products))
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    result: Array = np.clip(products * inverse[:, None] * inverse, -1.0, 1.0)
    return result


def rows_per_block(rows: int) -> Array:
    """Return the number of rows in each block."""
    counts = np.full(BLOCKS, rows // BLOCKS, dtype=np.float64)
    counts[: rows % BLOCKS] += 1
    return counts


def blocked_moments(
    values: NDArray[Any],
    *,
    logarithms: bool = False,
    products: bool = False,
    shifted: bool | None = None,
    repeats: int = 1,
) -> BlockedMoments:
    """Return the moments of each block of the rows of a table (n, d), of any float type, in float64.

    If the mean is far from zero, sums are taken relative to the first row, which keeps precision and makes the moments
    of a constant exact. `shifted` sets this in advance; otherwise the first rows decide, and the result is checked.
    Each group of `repeats` consecutive rows is one input and belongs to one block.
    """
    if repeats > 1:
        by_row = blocked_moments(values, logarithms=logarithms, products=products, shifted=shifted)
        return _by_input(values, repeats, by_row, logarithms=logarithms)
    rows, latents = values.shape
    shift = _is_far(values[:_HEAD].astype(np.float64)) if shifted is None else shifted
    origin = values[0].astype(np.float64) if shift else np.zeros(latents)
    far = np.tile(origin, BLOCKS)
    sums, squares, logs = (np.zeros(BLOCKS * latents) for _ in range(3))
    crossed, lowest = np.zeros((latents, latents) if products else (0, 0)), np.inf
    rounds = max(_PIECE // (BLOCKS * latents) // _FACTORS, 1) * _FACTORS
    # One workspace for all pieces: new ones would double the time through page faults.
    space, ones = np.empty((min(rounds * BLOCKS, rows), latents)), np.ones(rounds)
    for start in range(0, rows, rounds * BLOCKS):
        part = values[start : start + rounds * BLOCKS]
        piece, whole = space[: len(part)], len(part) // BLOCKS * BLOCKS
        np.copyto(piece, part)
        if logarithms:
            lowest = min(lowest, float(part.min()))
        # A row of these tables has one row of every block, long enough to be summed at memory speed.
        tables = [piece[:whole].reshape(-1, BLOCKS * latents), piece[whole:].reshape(1, -1)]
        for table, width in ((table, table.shape[1]) for table in tables if table.size):
            if logarithms:
                logs[:width] += _summed_logarithms(table)
            if shift:
                table -= far[:width]
            sums[:width] += ones[: len(table)] @ table
        if products:
            _add_products(piece, crossed)
        np.square(piece, out=piece)
        for table, width in ((table, table.shape[1]) for table in tables if table.size):
            squares[:width] += ones[: len(table)] @ table
    counts = rows_per_block(rows)
    held = np.maximum(counts, 1.0)[:, None]
    totals, squared, logged = (x.reshape(BLOCKS, latents) for x in (sums, squares, logs))
    total, overall = totals.sum(axis=0), squared.sum(axis=0)
    spread = overall - np.square(total) / rows
    if not shift and shifted is None and (overall > _FAR * 4 * spread).any():
        return blocked_moments(values, logarithms=logarithms, products=products, shifted=True)
    return BlockedMoments(
        counts,
        np.where(counts[:, None] > 0, origin + totals / held, 0.0),
        np.maximum(squared - np.square(totals) / held, 0.0),
        logged / held,
        lowest,
        origin + total / rows,
        _about_mean(crossed, total, spread, rows) if products else np.zeros((0, 0)),
    )


def _by_input(values: NDArray[Any], repeats: int, by_row: BlockedMoments, *, logarithms: bool) -> BlockedMoments:
    """Return the moments with blocks of whole inputs; the statistics over all rows are unchanged."""
    inputs = values.reshape(-1, repeats, values.shape[1])
    means, squares, logs = (np.zeros_like(by_row.means) for _ in range(3))
    origin = values[0].astype(np.float64)
    for block in range(min(BLOCKS, len(inputs))):
        rows = inputs[block::BLOCKS].reshape(-1, values.shape[1]).astype(np.float64)
        if logarithms:
            with np.errstate(divide="ignore", invalid="ignore"):
                logs[block] = np.log(rows).mean(axis=0)
        rows -= origin
        means[block] = rows.mean(axis=0)
        squares[block] = np.square(rows - means[block]).sum(axis=0)
        means[block] += origin
    counts = repeats * rows_per_block(len(inputs))
    return by_row._replace(counts=counts, means=means, squares=squares, logarithms=logs)


def _is_far(head: Array) -> bool:
    return bool((np.square(head.mean(axis=0)) > _FAR * head.var(axis=0)).any())


def _summed_logarithms(table: Array) -> Array:
    rows = len(table) // _FACTORS * _FACTORS
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        products = np.multiply.reduce(table[:rows].reshape(-1, _FACTORS, table.shape[1]), axis=1)
        if rows and not (products.min() > 1e-290 and products.max() < 1e290):
            return np.asarray(np.log(table).sum(axis=0))
        return np.asarray(np.log(products).sum(axis=0) + np.log(table[rows:]).sum(axis=0))


def _add_products(piece: Array, crossed: Array) -> None:
    """Add the sums of products of column i with column j < i; other entries of `crossed` are not used.

    A few columns at a time are multiplied with all that follow: as the sides differ, NumPy does not use its symmetric
    routine, which is slower for few variables. Runs of rows, summed afterwards, stay in the innermost cache.
    """
    latents = piece.shape[1]
    if latents > _FEW:
        crossed += piece.T @ piece
        return
    whole = len(piece) // _RUN * _RUN
    for rows in (piece[:whole].reshape(-1, _RUN, latents), piece[None, whole:]):
        for first in range(0, latents - 1, _COLUMNS):
            columns = slice(first, min(first + _COLUMNS, latents - 1))
            after = first if latents - first > _COLUMNS else first + 1
            crossed[after:, columns] += np.matmul(rows[:, :, after:].transpose(0, 2, 1), rows[:, :, columns]).sum(
                axis=0
            )


def _about_mean(crossed: Array, total: Array, spread: Array, rows: int) -> Array:
    lower = np.tril(crossed - np.outer(total, total) / rows, -1)
    about: Array = lower + lower.T + np.diag(np.maximum(spread, 0.0))
    return about


# The upper bits of a single-precision number are its exponent and the first bits of its fraction: 8 bins per octave.
_SHIFT, _PER_OCTAVE = 20, 8
_LOWEST, _HIGHEST = -32, 16
_OFFSET = (127 + _LOWEST) * _PER_OCTAVE
# Rows counted at once: few enough to stay in the processor's cache.
_COUNTED_AT_ONCE = 1 << 13
_BINS = (_HIGHEST - _LOWEST) * _PER_OCTAVE
_EDGES = np.concatenate([2.0**octave * (1 + np.arange(_PER_OCTAVE) / 8) for octave in range(_LOWEST, _HIGHEST)])
# The logarithm of r at the centre of each bin.
LOG_RATIOS: Array = np.log(_EDGES * (1 + 0.5 / (8 + np.tile(np.arange(_PER_OCTAVE), _HIGHEST - _LOWEST))))
_WIDTH = np.log(2) / _PER_OCTAVE

# Otsu's separation: 2/pi for a Gaussian, 3/4 for a uniform distribution, 1 for two points.
TWO, ONE = 0.85, 0.75


class TwoStates(NamedTuple):
    """The best split of each variable's log r into an on and an off state; arrays (d,).

    `separation` is the share of the variance of log r that lies between the two states, `on` the share of inputs in the
    lower state with its standard error, `ratio_on` and `ratio_off` are the geometric means of r in each state.
    """

    separation: Array
    on: Array
    on_error: Array
    ratio_on: Array
    ratio_off: Array


def count_ratios(ratios: NDArray[Any]) -> Counts:
    """Return the number of ratios (n, d) in each bin, (bins, d); values out of range are counted in the outermost bins.

    >>> counts = count_ratios(np.array([[1.0], [1.0], [0.01]]))
    >>> counts.sum(axis=0), np.exp(LOG_RATIOS[counts[:, 0] > 0]).round(3)
    (array([3]), array([0.01 , 1.062]))
    """
    latents = ratios.shape[1]
    # One call counts all variables: an offset separates the columns.
    offsets = np.arange(latents) * _BINS - _OFFSET
    counts = np.zeros(latents * _BINS, dtype=np.int64)
    for start in range(0, len(ratios), _COUNTED_AT_ONCE):
        bits = np.ascontiguousarray(ratios[start : start + _COUNTED_AT_ONCE], dtype=np.float32).view(np.int32) >> _SHIFT
        np.clip(bits, _OFFSET, _OFFSET + _BINS - 1, out=bits)
        counts += np.bincount((bits + offsets).ravel(), minlength=latents * _BINS)
    return counts.reshape(latents, _BINS).T


def share_below(counts: Counts, ratio: Array | float) -> Array:
    """Return the share (d,) of inputs whose r is below a ratio, a number or (d,), to the nearest bin.

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
    standard error is sqrt(c (1 - c) / n); if a fixed r < 1/2 gives a different share, the difference is added.

    Args:
        counts: The number of inputs in each bin of log r, as returned by `count_ratios`, (bins, d).

    Returns:
        The split of each variable; a variable with the same r for all inputs has separation 0.

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
    # All empty bins between two states are equally good: the middle one is a stable choice.
    best, last = between.argmax(axis=0), len(between) - 1 - between[::-1].argmax(axis=0)
    split = (best + last) // 2
    column = np.arange(counts.shape[1])
    on, low = lower[split, column], sums[split, column]
    # Bins have a width: without it, values in two neighbouring bins would look like two points.
    separation = between[split, column] / (variance + _WIDTH**2 / 12)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio_on, ratio_off = np.exp(low / on), np.exp((mean - low) / (1 - on))
    halves = share_below(counts, 0.5)
    straddles = (ratio_on < 0.5) & (ratio_off > 0.5)
    error = np.sqrt(on * (1 - on) / total) + np.where(straddles, np.abs(on - halves), 0.0)
    return TwoStates(np.where(variance > 0, separation, 0.0), on, error, ratio_on, ratio_off)
