"""Binning, entropies and mutual information of whole matrices of variables at once, in nats."""

from typing import Literal

import numpy as np
import numpy.typing as npt

from polarised.errors import ConfigError
from polarised.metrics.covariance import Floats, Integers, checked_codes

__all__ = [
    "Correction",
    "bin_codes",
    "bin_edges",
    "entropies",
    "information_between",
    "information_of_counts",
    "information_within",
    "joint_counts",
    "pointwise_information",
]

Correction = Literal["none", "miller_madow"]


def bin_edges(lowest: npt.ArrayLike, highest: npt.ArrayLike, *, bins: int = 20) -> Floats:
    """Return the (d, bins + 1) edges of equal-width bins between the lowest and highest value of each variable.

    edge_jb = lowest_j + b (highest_j - lowest_j) / bins; a constant is widened by 1/2 on both sides.
    Edges of single-precision codes are rounded to it, as numpy's histogram does.  [Locatello2019, discretised metrics]

    Args:
        lowest: Lowest value (d,) of each variable.
        highest: Highest value (d,) of each variable.
        bins: Number of equal-width bins of each variable.

    Returns:
        The edges (d, bins + 1).

    Raises:
        ConfigError: If there is less than one bin.

    >>> bin_edges([0.0], [1.0], bins=4)
    array([[0.  , 0.25, 0.5 , 0.75, 1.  ]])
    """
    if bins < 1:
        raise ConfigError(f"bins must be at least 1, got {bins}; the literature uses 20")
    kind = np.asarray(lowest).dtype
    low = np.atleast_1d(np.asarray(lowest, dtype=np.float64))
    high = np.atleast_1d(np.asarray(highest, dtype=np.float64))
    half = np.where(low == high, 0.5, 0.0)
    edges = np.linspace(low - half, high + half, bins + 1, axis=-1)
    return edges.astype(kind).astype(np.float64) if kind.kind == "f" else edges


def bin_codes(codes: npt.ArrayLike, *, bins: int = 20, edges: Floats | None = None) -> Integers:
    """Return the bin label 0..bins-1 of every code, with equal-width bins over the range of each variable.

    label = #{b >= 1 : edge_b <= z}, at most bins - 1; a constant variable has one label and therefore no entropy.
    [Locatello2019, discretised metrics]

    Args:
        codes: Codes (n, d), one observation in each row.
        bins: Number of equal-width bins of each variable.
        edges: Edges (d, bins + 1) to use instead of those of `bins` over the range of the codes.

    Returns:
        The labels (n, d).

    Raises:
        DataError: If the codes are not finite numbers (n, d).
        ConfigError: If there is less than one bin.

    >>> bin_codes([[0.0], [0.49], [0.5], [1.0]], bins=2).ravel()
    array([0, 0, 1, 1])
    """
    array = checked_codes(codes) if edges is None else np.asarray(codes, dtype=np.float64)
    values = np.ascontiguousarray(array.T)
    if edges is None:
        kind = np.asarray(codes).dtype
        edges = bin_edges(values.min(axis=1).astype(kind), values.max(axis=1).astype(kind), bins=bins)
    variables, bins = edges.shape[0], edges.shape[1] - 1
    width = edges[:, -1:] - edges[:, :1]
    if not np.isfinite(width).all():
        columns = [np.searchsorted(row[1:-1], value, side="right") for row, value in zip(edges, values, strict=True)]
        return np.stack(columns, axis=1)
    labels = ((values - edges[:, :1]) * (bins / width)).astype(np.int64)
    np.clip(labels, 0, bins - 1, out=labels)
    # The arithmetic may be one bin off at an edge: the edges themselves decide, and the outermost bins are open.
    lower, upper = edges[:, :-1].copy(), edges[:, 1:].copy()
    lower[:, 0], upper[:, -1] = -np.inf, np.inf
    labels += bins * np.arange(variables)[:, None]
    shift = (values >= upper.ravel()[labels]).astype(np.int64) - (values < lower.ravel()[labels])
    labels += shift - bins * np.arange(variables)[:, None]
    return np.ascontiguousarray(labels.T)


def joint_counts(first: Integers, second: Integers, *, sizes: tuple[int, int] | None = None) -> Integers:
    """Return the contingency table (d, k, F, m) of every column of one label matrix with every column of another.

    ``sizes`` sets (k, m), so that tables of chunks can be added.

    Args:
        first: Labels (n, d).
        second: Labels (n, F) of the same rows.
        sizes: Numbers of labels (k, m) to count; by default those that occur.

    Returns:
        The counts (d, k, F, m).

    >>> joint_counts(np.array([[0], [1], [1]]), np.array([[0], [0], [1]]))[0, :, 0]
    array([[1, 0],
           [1, 1]])
    """
    if sizes is None:
        first, second = _compact(first), _compact(second)
        sizes = int(first.max(initial=0)) + 1, int(second.max(initial=0)) + 1
    rows, classes = sizes
    columns = second.shape[1]
    offset = second + classes * np.arange(columns)
    size = rows * columns * classes
    counts = np.empty((first.shape[1], size), dtype=np.int64)
    for variable in range(first.shape[1]):
        cells = first[:, variable, None] * (columns * classes) + offset
        counts[variable] = np.bincount(cells.ravel(), minlength=size)
    return counts.reshape(first.shape[1], rows, columns, classes)


def information_of_counts(counts: Integers, *, correction: Correction = "none") -> Floats:
    """Return the mutual information (d, F) of contingency tables (d, k, F, m).

    I = H(a) + H(b) - H(a, b), H = -sum p log p; Miller-Madow adds (K - 1) / 2n to each entropy,
    K its occupied cells [Miller1955].

    Args:
        counts: Contingency tables (d, k, F, m).
        correction: "none", or "miller_madow" for the bias of the entropies.

    Returns:
        The information (d, F) in nats.

    >>> information_of_counts(np.array([[[[2, 0]], [[0, 2]]]])).round(3)
    array([[0.693]])
    """
    total = counts.sum(axis=(1, 3))
    parts = (counts.sum(axis=3), counts.sum(axis=1), counts)
    # Entropies in counts: n H = n log n - sum c log c, so tables stay integers until the logarithm.
    sums = [_count_log(part) for part in parts]
    joint, left, right = sums[2].sum(axis=(1, 3)), sums[0].sum(axis=1), sums[1].sum(axis=-1)
    information = (joint - left - right) / total + np.log(total)
    if correction == "miller_madow":
        cells = [(part > 0) for part in parts]
        occupied = cells[0].sum(axis=1) + cells[1].sum(axis=-1) - cells[2].sum(axis=(1, 3))
        return np.asarray(information + (occupied - 1) / (2 * total))
    return np.asarray(np.maximum(information, 0.0))


def information_between(first: Integers, second: Integers, *, correction: Correction = "none") -> Floats:
    """Return the plug-in mutual information (d, F) of every pair of label columns.

    I(a; b) = sum_ab p(a, b) log( p(a, b) / (p(a) p(b)) ).  [Locatello2019, discretised metrics]

    Args:
        first: Labels (n, d).
        second: Labels (n, F) of the same rows.
        correction: "none", or "miller_madow" for the bias of the entropies.

    Returns:
        The information (d, F) in nats.

    >>> information_between(np.array([[0], [1]]), np.array([[0, 5], [1, 5]])).round(3)
    array([[0.693, 0.   ]])
    """
    return information_of_counts(joint_counts(first, second), correction=correction)


def information_within(labels: Integers, *, correction: Correction = "none") -> Floats:
    """Return the (d, d) mutual information of all pairs of columns of one label matrix, entropies on the diagonal.

    Args:
        labels: Labels (n, d).
        correction: "none", or "miller_madow" for the bias of the entropies.

    Returns:
        The information (d, d) in nats.

    >>> information_within(np.array([[0, 0], [1, 0]])).round(3)
    array([[0.693, 0.   ],
           [0.   , 0.   ]])
    """
    columns = np.ascontiguousarray(_compact(labels).T)
    variables, size = len(columns), int(columns.max(initial=0)) + 1
    result = np.zeros((variables, variables))
    for first in range(variables):
        # By symmetry each pair is counted once, the diagonal with the pairs to its right.
        others = np.arange(variables - first)
        cells = columns[first] * size + (columns[first:] + size * size * others[:, None])
        counts = np.bincount(cells.ravel(), minlength=size * size * len(others)).reshape(len(others), size, size)
        row = information_of_counts(counts.transpose(1, 0, 2)[None], correction=correction)[0]
        result[first, first:] = result[first:, first] = row
    return result


def entropies(labels: Integers) -> Floats:
    """Return the plug-in entropy of every label column, -sum p log p.

    Args:
        labels: Labels (n, d).

    Returns:
        The entropies (d,) in nats.

    >>> entropies(np.array([[0, 7], [1, 7]])).round(3)
    array([0.693, 0.   ])
    """
    compact = _compact(labels)
    result = np.empty(labels.shape[1])
    for column in range(labels.shape[1]):
        share = np.bincount(compact[:, column]) / len(labels)
        share = share[share > 0]
        result[column] = -(share * np.log(share)).sum()
    return np.maximum(result, 0.0)


def pointwise_information(first: Integers, second: Integers) -> Floats:
    """Return log( p(a, b) / (p(a) p(b)) ) of every row for one pair of label columns; its mean is the plug-in MI.

    Args:
        first: Labels (n,).
        second: Labels (n,) of the same rows.

    Returns:
        The information (n,) of each row in nats.

    >>> pointwise_information(np.array([0, 1]), np.array([0, 1])).round(3)
    array([0.693, 0.693])
    """
    counts = joint_counts(first[:, None], second[:, None])[0, :, 0]
    one, two = _compact(first[:, None])[:, 0], _compact(second[:, None])[:, 0]
    ratio = counts[one, two] * len(first) / (counts.sum(axis=1)[one] * counts.sum(axis=0)[two])
    return np.asarray(np.log(ratio))


def _count_log(counts: Integers) -> Floats:
    values = counts.astype(np.float64)
    return values * np.log(np.maximum(values, 1.0))


def _compact(labels: Integers) -> Integers:
    """Renumber columns with negative or widely spaced labels, so that tables stay as small as their data."""
    if labels.size == 0 or (labels.min() >= 0 and labels.max() < max(1024, len(labels))):
        return labels
    return np.column_stack([np.unique(column, return_inverse=True)[1] for column in labels.T]).astype(np.int64)
