"""Gradient-boosted trees on histograms: all classes of a stage grow together, level by level.

The trees are those of scikit-learn's GradientBoostingClassifier (depth 3, squared-error splits, Newton leaves), but
the candidate thresholds are the quantiles of each variable. The histograms of a stage are one product of a sparse
row-to-bin matrix with the residuals of all classes, and right children are the difference of parent and left child.
"""

from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from polarised.metrics.covariance import Floats, Integers

__all__ = ["Boosted", "Trees", "boosted_trees_fit"]

Trees = Literal["auto", "histogram", "exact"]
Mask = npt.NDArray[np.bool_]


Shorts = npt.NDArray[np.int16]


Singles = npt.NDArray[np.float32]


_BINS = (127, 1023)
# Below this number of rows single rows decide a split, and every threshold is a candidate.
_FEW_ROWS = 1000
# Below this many numbers per bin numpy's cumsum is faster than adding row by row.
_NARROW = 150
# The largest step of a leaf; a thousand of them are finite in single precision.
_STEEPEST = 1e30


class Boosted(NamedTuple):
    """Predicted classes of the train and test rows, and the share of each variable in the reduction of error."""

    train: Integers
    test: Integers
    importance: Floats


def boosted_trees_fit(
    codes: Floats,
    labels: Integers,
    test: Floats,
    *,
    trees: Trees = "auto",
    stages: int = 100,
    learning_rate: float = 0.1,
    depth: int = 3,
    seed: int = 0,
) -> Boosted:
    """Return the predictions and variable importances of boosted trees for one factor.

    Stage m adds learning_rate * tree_m fitted to the residuals y - p of each class [Friedman2001]; importance is
    the total decrease of squared error by each variable's splits, summing to 1 (all 0 if nothing splits).
    ``trees="exact"`` runs scikit-learn's classifier, which tries every threshold and is many times slower. "auto" does
    so for two classes and for fewer than 1,000 rows, where exact trees are affordable and histograms changed a score of
    DCI by up to 0.018 (200 training rows), and uses histograms otherwise, which changed none by more than 0.008.

    With rare classes every score is uncertain: with 16 rows of each of 183 classes a variable of pure noise had an
    importance of 0.10 by exact trees and of 0.06 to 0.16 by histograms.

    >>> x = np.linspace(0.0, 1.0, 50)[:, None] * [1.0, 0.0]
    >>> result = boosted_trees_fit(x, (x[:, 0] > 0.5).astype(int), x)
    >>> result.importance
    array([1., 0.])
    """
    classes, compact = np.unique(labels, return_inverse=True)
    if len(classes) == 1:
        return Boosted(np.full(len(codes), classes[0]), np.full(len(test), classes[0]), np.zeros(codes.shape[1]))
    # A canonical order of variables, so that ties between them do not depend on their order.
    order = np.arange(codes.shape[1]) if trees == "exact" else _canonical_order(codes)
    importance = np.zeros(codes.shape[1])
    if trees == "exact" or (trees == "auto" and (len(classes) == 2 or len(codes) < _FEW_ROWS)):
        from sklearn.ensemble import GradientBoostingClassifier

        model = GradientBoostingClassifier(
            n_estimators=stages, learning_rate=learning_rate, max_depth=depth, random_state=seed
        ).fit(codes[:, order], labels)
        importance[order] = model.feature_importances_
        known, asked = (np.asarray(model.predict(rows[:, order])) for rows in (codes, test))
        return Boosted(known, asked, importance)
    booster = _Booster(codes[:, order], compact, len(classes), test[:, order], depth)
    for _ in range(stages):
        booster.stage(learning_rate)
    importance[order] = booster.importance / (booster.importance.sum() or 1.0)
    return Boosted(classes[booster.predict(booster.scores)], classes[booster.predict(booster.test_scores)], importance)


def _canonical_order(codes: Floats) -> Integers:
    """Return an order of the variables that depends neither on their positions nor on their units."""
    centred = codes - codes.mean(axis=0)
    scale = centred.std(axis=0)
    standard = centred / np.where(scale > 0, scale, 1.0)
    return np.lexsort(((standard**4).mean(axis=0), (standard**3).mean(axis=0)))


class _Booster:
    """The state of boosting: scores of all rows, and the row-to-bin matrix shared by all classes."""

    def __init__(self, codes: Floats, labels: Integers, classes: int, test: Floats, depth: int) -> None:
        self.rows, self.variables = codes.shape
        self.classes, self.depth = classes, depth
        # With few rows, finer bins are affordable and necessary: the trees depend on single rows.
        most = int(np.clip(5_000_000_000 // self.rows**2, *_BINS))
        thresholds = [_thresholds(column, most) for column in codes.T]
        self.width = max(len(row) for row in thresholds) + 1
        self.bins = _bins(codes, thresholds)
        self.test_bins = _bins(test, thresholds)
        # Bins are the first axis, so that running sums over them add whole rows.
        cells = (self.bins.astype(np.int32) * self.variables + np.arange(self.variables)).astype(np.int32)
        pointer = np.arange(self.rows + 1, dtype=np.int32) * self.variables
        one = np.ones(cells.size, dtype=np.float32)
        shape = (self.rows, self.variables * self.width)
        self.histogram = csr_array((one, cells.ravel(), pointer), shape=shape).T.tocsr()
        share = np.bincount(labels, minlength=classes) / self.rows
        # Two classes need one column of trees, for the log-odds of the second.
        start = np.log(share[1:] / share[:1]) if classes == 2 else np.log(share)
        self.columns = len(start)
        self.scores = np.tile(start.astype(np.float32), (self.rows, 1))
        self.test_scores = np.tile(start.astype(np.float32), (len(test), 1))
        target = labels[:, None] == (np.array([1]) if classes == 2 else np.arange(classes))
        self.target = target.astype(np.float32)
        self.importance = np.zeros(self.variables)
        everything = self._sums(np.ones((self.rows, 1), dtype=np.float32))
        # Workspace for `_best_split`: allocating it again would cost more than filling it.
        self.work = tuple(np.empty((self.width, self.variables, self.columns), dtype=np.float32) for _ in range(3))
        self.counts = _accumulated(np.repeat(everything, self.columns, axis=2))

    def predict(self, scores: Singles) -> Integers:
        """Return the index of the winning class of every row."""
        if self.classes == 2:
            return (scores[:, 0] > 0).astype(np.int64)
        return np.asarray(scores.argmax(axis=1))

    def stage(self, learning_rate: float) -> None:
        """Grow one tree for every class on its residuals and add it to the scores."""
        chance = self._probabilities()
        residual = self.target - chance
        every = np.ones((self.rows, self.columns), dtype=bool)
        nodes = [_Node(every, self._sums(residual), self.counts)]
        leaf = np.zeros((self.rows, self.columns), dtype=np.int16)
        test_leaf = np.zeros((len(self.test_bins), self.columns), dtype=np.int16)
        for level in range(self.depth):
            splits = [self._best_split(node) for node in nodes]
            test_leaf = 2 * test_leaf + _right_of_split(self.test_bins, test_leaf, splits)
            leaf *= 2
            children = []
            for node, (variable, threshold) in zip(nodes, splits, strict=True):
                right = self.bins.take(variable, axis=1) > threshold
                right &= node.mask
                leaf += right
                if level + 1 < self.depth:
                    children += self._children(residual, node, node.mask & ~right, right)
            nodes = children
        self._add_leaves(residual, chance, leaf, test_leaf, learning_rate)

    def _probabilities(self) -> Singles:
        if self.classes == 2:
            return np.asarray(1 / (1 + np.exp(-self.scores)))
        chance = np.exp(self.scores - self.scores.max(axis=1, keepdims=True))
        chance /= chance.sum(axis=1, keepdims=True)
        return np.asarray(chance)

    def _sums(self, values: Singles) -> Singles:
        """Return the histogram (bins, variables, columns) of values (rows, columns)."""
        return np.asarray((self.histogram @ values).reshape(self.width, self.variables, -1))

    def _children(self, residual: Singles, node: "_Node", left: Mask, right: Mask) -> list["_Node"]:
        # Integers are exact: the running counts of the right child are those of the parent minus those of the left.
        sums, counts = self._sums(residual * left), _accumulated(self._sums(left.astype(np.float32)))
        return [_Node(left, sums, counts), _Node(right, node.sums - sums, node.counts - counts)]

    def _best_split(self, node: "_Node") -> tuple[Integers, Shorts]:
        """Return variable and last left bin of the split with the largest reduction of squared error, for each column.

        The error decreases by L^2 / n_L + R^2 / n_R - (L + R)^2 / n, with L and R the sums of residuals on the two
        sides.
        """
        left, right, rest = self.work
        np.copyto(left, node.sums)
        left, count = _accumulated(left), node.counts
        total, number = left[-1, 0].copy(), np.maximum(count[-1, 0], np.float32(1))
        np.subtract(total, left, out=right)
        np.square(left, out=left)
        left /= np.maximum(count, 1, out=rest)
        np.square(right, out=right)
        np.subtract(number, count, out=rest)
        right /= np.maximum(rest, 1, out=rest)
        left += right
        # The best bin of every variable, then the best variable; the first wins ties.
        bins = left.argmax(axis=0)
        highest = np.take_along_axis(left, bins[None], axis=0)[0]
        variable = highest.argmax(axis=0)
        columns = np.arange(self.columns)
        before = total**2 / number
        gain, threshold = highest[variable, columns] - before, bins[variable, columns]
        # The gain of a pure node is rounding: do not split it, by sending every row left.
        split = gain > 1e-5 * before + 1e-9
        np.add.at(self.importance, variable[split], gain[split])
        return np.where(split, variable, 0), np.where(split, threshold, self.width).astype(np.int16)

    def _add_leaves(
        self, residual: Singles, chance: Singles, leaf: Shorts, test_leaf: Shorts, learning_rate: float
    ) -> None:
        leaves = 2**self.depth
        offset = leaves * np.arange(self.columns)
        place = (leaf + offset).ravel()
        size = leaves * self.columns
        top = np.bincount(place, weights=residual.ravel(), minlength=size)
        chance *= 1 - chance
        bottom = np.bincount(place, weights=chance.ravel(), minlength=size)
        factor = 1.0 if self.classes == 2 else (self.classes - 1) / self.classes
        value = np.divide(factor * top, bottom, out=np.zeros_like(top), where=np.abs(bottom) > 1e-150)
        # A leaf of certain rows has almost no curvature: a bound far beyond any decision keeps its step finite.
        value = np.clip(learning_rate * value, -_STEEPEST, _STEEPEST).astype(np.float32)
        self.scores += value[place].reshape(self.scores.shape)
        self.test_scores += value[test_leaf + offset]


class _Node(NamedTuple):
    """The same node in the trees of all columns: its rows, the histogram of residuals and cumulative row counts."""

    mask: Mask
    sums: Singles
    counts: Singles


def _accumulated(histogram: Singles) -> Singles:
    """Replace a histogram (bins, variables, columns) by its cumulative sums over the bins, in place."""
    rows = histogram.reshape(len(histogram), -1)
    if rows.shape[1] < _NARROW:
        return np.cumsum(histogram, axis=0, out=histogram)
    # Bin by bin: cumsum of numpy, which adds in the same order, takes several times as long for wide arrays.
    for before, row in pairwise(rows):
        row += before
    return histogram


def _thresholds(values: Floats, most: int) -> Floats:
    """Return the midpoints between neighbouring values, or quantiles if there are more than ``most``."""
    unique = np.unique(values)
    middle = (unique[1:] + unique[:-1]) / 2
    if len(middle) < most:
        return middle
    quantiles = np.quantile(values, np.linspace(0, 1, most + 1)[1:-1], method="midpoint")
    return np.unique(quantiles)


def _bins(codes: Floats, thresholds: list[Floats]) -> Shorts:
    return np.column_stack([np.searchsorted(t, c) for t, c in zip(thresholds, codes.T, strict=True)]).astype(np.int16)


def _right_of_split(bins: Shorts, leaf: Shorts, splits: list[tuple[Integers, Shorts]]) -> Mask:
    """Return whether rows are right of the split of their node, for every column."""
    result = np.zeros(leaf.shape, dtype=bool)
    for index, (variable, threshold) in enumerate(splits):
        result |= (leaf == index) & (bins.take(variable, axis=1) > threshold)
    return result
