"""Linear support vector classification by a single variable: exact Newton steps on sorted prefix sums.

With one variable the rows inside the margin are those on one side of a threshold, so every sum a Newton step needs
is a difference of prefix sums, found by binary search for all classes at once.
"""

import numpy as np

from polarised.metrics._inputs import Floats, Integers

__all__ = ["balanced_hinge_accuracy"]

_STEPS = 100


def balanced_hinge_accuracy(
    train: Floats, train_labels: Integers, test: Floats, test_labels: Integers, *, strength: float = 0.01
) -> float:
    """Return the test accuracy of one-vs-rest squared-hinge classifiers of one variable, classes balanced.

    min (w^2 + b^2) / 2 + C sum_i c_i max(0, 1 - y_i (w x_i + b))^2, c_i = n / (K n_k) for the class's own rows and 1
    for the rest (both weighted when K = 2), as liblinear does.  [Kumar2018; Locatello2019]

    >>> x = np.linspace(-1.0, 1.0, 30)
    >>> balanced_hinge_accuracy(x, (x > 0).astype(int), x, (x > 0).astype(int))
    1.0
    """
    classes, labels = np.unique(train_labels, return_inverse=True)
    if len(classes) == 1:
        return float(np.mean(test_labels == classes[0]))
    counts = np.bincount(labels)
    balance = len(labels) / (len(classes) * counts)
    if len(classes) == 2:
        weights = _fit(train, labels, np.array([1]), balance[1:] * strength, balance[:1] * strength)
        chosen = (weights[0, 0] * test + weights[0, 1] > 0).astype(np.int64)
    else:
        every = np.arange(len(classes))
        weights = _fit(train, labels, every, balance * strength, np.full(len(classes), strength))
        chosen = (np.outer(test, weights[:, 0]) + weights[:, 1]).argmax(axis=1)
    return float(np.mean(classes[chosen] == test_labels))


def _fit(values: Floats, labels: Integers, positive: Integers, gain: Floats, loss: Floats) -> Floats:
    """Return (w, b) of each class in ``positive`` against all rows of other classes, weighted gain and loss."""
    sums = _PrefixSums(values, labels)
    lines = np.zeros((len(positive), 2))
    value = _objective(lines, sums, positive, gain, loss)[0]
    for _ in range(_STEPS):
        _, gradient, hessian = _objective(lines, sums, positive, gain, loss)
        step = -np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        unsettled = np.abs(gradient).max(axis=1) > 1e-9 * (1 + gain + loss) * len(values)
        if not unsettled.any():
            break
        step[~unsettled] = 0.0
        for _ in range(20):
            trial = _objective(lines + step, sums, positive, gain, loss)[0]
            worse = unsettled & (trial > value)
            if not worse.any():
                break
            step[worse] /= 2
        lines, value = lines + step, trial
    return lines


def _objective(
    lines: Floats, sums: "_PrefixSums", positive: Integers, gain: Floats, loss: Floats
) -> tuple[Floats, Floats, Floats]:
    w, b = lines[:, 0], lines[:, 1]
    own = sums.inside(positive, w, b, sign=1.0)[0] * gain
    members, every = sums.inside(positive, w, b, sign=-1.0)
    other = (every - members) * loss
    both = own + other
    count, first, second = both
    target = own - other
    value = (
        0.5 * (w**2 + b**2)
        + count
        - 2 * (w * target[1] + b * target[0])
        + w**2 * second
        + 2 * w * b * first
        + b**2 * count
    )
    gradient = np.stack(
        [w - 2 * (target[1] - w * second - b * first), b - 2 * (target[0] - w * first - b * count)], axis=1
    )
    hessian = np.empty((len(w), 2, 2))
    hessian[:, 0, 0], hessian[:, 1, 1] = 1 + 2 * second, 1 + 2 * count
    hessian[:, 0, 1] = hessian[:, 1, 0] = 2 * first
    return value, gradient, hessian


class _PrefixSums:
    """Sums of 1, x and x^2 below any threshold, over all rows and over each class."""

    def __init__(self, values: Floats, labels: Integers) -> None:
        order = np.argsort(values, kind="stable")
        self.sorted, self.rows = values[order], len(values)
        ranked = labels[order]
        by_class = np.argsort(ranked, kind="stable")
        self.keys = ranked[by_class] * (self.rows + 1) + by_class
        self.all = _running(self.sorted)
        self.own = _running(self.sorted[by_class])
        self.starts = np.concatenate([[0], np.cumsum(np.bincount(labels))])

    def inside(self, classes: Integers, w: Floats, b: Floats, *, sign: float) -> tuple[Floats, Floats]:
        """Return the sums (3, K) over rows with sign (w x + b) < 1, of each class and of all rows."""
        slope, room = sign * w, 1.0 - sign * b
        flat = slope == 0
        with np.errstate(over="ignore"):
            threshold = room / np.where(flat, 1.0, slope)
        rank = np.searchsorted(self.sorted, threshold)
        # A level line has every row inside or none.
        rank = np.where(flat, np.where(room > 0, self.rows, 0), rank)
        place = np.searchsorted(self.keys, classes * (self.rows + 1) + rank)
        start, end = self.starts[classes], self.starts[classes + 1]
        own, every = self.own[:, place] - self.own[:, start], self.all[:, rank]
        above = slope < 0
        own = np.where(above, self.own[:, end] - self.own[:, place], own)
        every = np.where(above, self.all[:, [-1]] - every, every)
        return own, every


def _running(values: Floats) -> Floats:
    result = np.zeros((3, len(values) + 1))
    np.cumsum(np.ones_like(values), out=result[0, 1:])
    np.cumsum(values, out=result[1, 1:])
    np.cumsum(values * values, out=result[2, 1:])
    return result
