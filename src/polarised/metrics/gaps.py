"""One variable for each factor? Scores from the matrix of the information of every variable about every factor."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from polarised.errors import ConfigError
from polarised.metrics.covariance import Floats, Integers, checked_pair, checked_split
from polarised.metrics.information import bin_codes, entropies, information_between, information_within
from polarised.random import stream
from polarised.registry import register

if TYPE_CHECKING:
    import polars as pl

__all__ = ["SAP", "disintegration", "mig", "modularity", "nmi_matrix", "r2_matrix", "sap"]

_SHUFFLES = 20
_NEWTON_STEPS = 100


class SAP(NamedTuple):
    """The separated attribute predictability and the (d, F) matrix behind it.

    Args:
        score: The mean gap over factors.
        matrix: The predictability (d, F) of each factor by each variable.
    """

    score: float
    matrix: Floats


@register(
    "metric",
    title="MIG",
    reading="How far the best variable of each factor is ahead of the second, as a share of the factor's entropy: "
    "1 is one variable for each factor, 0 is a tie.",
    needs=("factors",),
    references=("Chen2018", "Locatello2019"),
)
def mig(codes: npt.ArrayLike, factors: npt.ArrayLike, *, bins: int = 20) -> float:
    """Return the mutual information gap: how far the best variable of each factor is ahead of the second.

    MIG = mean_k ( I(b_i; f_k) - I(b_j; f_k) ) / H(f_k), i the best and j the second best variable.
    [Chen2018, eq. 6; Locatello2019] A factor with a single value is excluded; for a single variable the second is 0.

    Args:
        codes: Codes (n, d), one observation in each row.
        factors: Classes (n, F) of the same rows, whole numbers; a single factor may be (n,).
        bins: Number of equal-width bins of each variable.

    Returns:
        The mean gap over factors, between 0 and 1.

    Raises:
        DataError: If codes or factors are not finite, or have different numbers of rows.

    >>> mig([[0.0, 0.0], [1.0, 0.0]], [0, 1])
    1.0
    """
    matrix = nmi_matrix(codes, factors, bins=bins)
    _, labels = checked_pair(codes, factors)
    varying = np.ptp(labels, axis=0) > 0
    return float(_gaps(matrix)[varying].mean()) if varying.any() else 0.0


def nmi_matrix(codes: npt.ArrayLike, factors: npt.ArrayLike, *, bins: int = 20) -> Floats:
    """Return the (d, F) share of each factor's entropy that each binned variable explains.

    NMI_ik = I(b_i; f_k) / H(f_k), 0 for a factor with a single value.  [Cheng2021, fig. 8]

    Args:
        codes: Codes (n, d), one observation in each row.
        factors: Classes (n, F) of the same rows, whole numbers; a single factor may be (n,).
        bins: Number of equal-width bins of each variable.

    Returns:
        The shares (d, F).

    Raises:
        DataError: If codes or factors are not finite, or have different numbers of rows.

    >>> nmi_matrix([[0.0, 0.0], [1.0, 0.0]], [0, 1])
    array([[1.],
           [0.]])
    """
    _, labels = checked_pair(codes, factors)
    entropy = entropies(labels)
    information = information_between(bin_codes(codes, bins=bins), labels)
    return np.divide(information, entropy, out=np.zeros_like(information), where=entropy > 0)


def r2_matrix(codes: npt.ArrayLike, factors: npt.ArrayLike) -> Floats:
    """Return the (d, F) squared Pearson correlation of each variable with each factor's index.

    R2_ik = cov(z_i, f_k)^2 / (var z_i var f_k), 0 if one of them is (nearly) constant.
    [Kumar2018; Cheng2021, sec. 6]

    Args:
        codes: Codes (n, d), one observation in each row.
        factors: Classes (n, F) of the same rows, whole numbers; a single factor may be (n,).

    Returns:
        The squared correlations (d, F).

    Raises:
        DataError: If codes or factors are not finite, or have different numbers of rows.

    >>> r2_matrix([[0.0, 0.0], [1.0, 0.0]], [0, 1])
    array([[1.],
           [0.]])
    """
    array, labels = checked_pair(codes, factors)
    left, right = array - array.mean(axis=0), labels - labels.mean(axis=0)
    rows = len(array) - 1
    covariance = left.T @ right / rows
    variance, factor_variance = (left**2).sum(axis=0) / rows, (right**2).sum(axis=0) / rows
    product = np.outer(variance, factor_variance)
    # Constant up to rounding, for any unit: the 1e-12 of the reference would drop a variable of a small scale.
    constant = np.sqrt(variance) <= 1e-7 * np.abs(array).max(axis=0)
    known = ~constant[:, None] & (factor_variance > 0)
    return np.asarray(np.divide(covariance**2, product, out=np.zeros_like(covariance), where=known))


@register(
    "metric",
    title="SAP",
    reading="How far the best single predictor of each factor is ahead of the second, in accuracy: 0 is a tie.",
    needs=("factors",),
    references=("Kumar2018", "Locatello2019"),
)
def sap(
    codes: npt.ArrayLike,
    factors: npt.ArrayLike,
    *,
    kind: Literal["discrete", "continuous"] = "discrete",
    n_train: int | None = None,
) -> SAP:
    """Return the separated attribute predictability: the gap between the two best predictors of each factor.

    SAP = mean_k ( S_ik - S_jk ), i best and j second for factor k.  [Kumar2018; Locatello2019] Discrete: S is the test
    accuracy of a balanced linear support vector classifier (C = 0.01) on one variable; continuous: the squared
    correlation on the training rows.

    Args:
        codes: Codes (n, d), one observation in each row.
        factors: Classes (n, F) of the same rows, whole numbers; a single factor may be (n,).
        kind: "discrete" classifies, "continuous" correlates with the index of the factor.
        n_train: Number of leading rows used for training; two thirds by default.

    Returns:
        The score with its matrix.

    Raises:
        DataError: If codes or factors are not finite, or have different numbers of rows.
        ConfigError: If `n_train` leaves too few rows for training or testing.

    >>> z = np.linspace(-1.0, 1.0, 90)[:, None] * [1.0, 0.0]
    >>> sap(z[::-1], (z[::-1, 0] > 0).astype(int), kind="continuous", n_train=80).score > 0.5
    True
    """
    array, labels = checked_pair(codes, factors)
    split = checked_split(len(array), n_train)
    if kind == "continuous":
        matrix = r2_matrix(array[:split], labels[:split])
    else:
        matrix = np.empty((array.shape[1], labels.shape[1]))
        for variable in range(array.shape[1]):
            train, test = array[:split, variable], array[split:, variable]
            for factor in range(labels.shape[1]):
                known, asked = labels[:split, factor], labels[split:, factor]
                matrix[variable, factor] = _balanced_hinge_accuracy(train, known, test, asked)
    return SAP(float(_gaps(matrix).mean()), matrix)


@register(
    "metric",
    reading="1 if every variable depends on one factor only; random codes score high too, so read it with MIG.",
    needs=("factors",),
    references=("Ridgeway2018", "Locatello2019"),
)
def modularity(codes: npt.ArrayLike, factors: npt.ArrayLike, *, bins: int = 20) -> float:
    """Return how exclusively each variable depends on one factor: 1 for one factor each.

    mean_i 1 - (sum_k M_ik^2 - max_k M_ik^2) / ((F - 1) max_k M_ik^2), M the mutual information; an uninformative
    variable counts 0.  [Ridgeway2018; Locatello2019] With a single factor, every informative variable counts 1.

    Args:
        codes: Codes (n, d), one observation in each row.
        factors: Classes (n, F) of the same rows, whole numbers; a single factor may be (n,).
        bins: Number of equal-width bins of each variable.

    Returns:
        The mean over variables, between 0 and 1.

    Raises:
        DataError: If codes or factors are not finite, or have different numbers of rows.

    >>> modularity([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [[0, 0], [1, 0], [0, 1], [1, 1]])
    1.0
    """
    _, labels = checked_pair(codes, factors)
    squares = information_between(bin_codes(codes, bins=bins), labels) ** 2
    best = squares.max(axis=1)
    rivals = (squares.sum(axis=1) - best) / max(squares.shape[1] - 1, 1)
    share = np.divide(rivals, best, out=np.ones_like(best), where=best > 0)
    return float((1.0 - share).mean())


def disintegration(
    codes: npt.ArrayLike,
    factors: npt.ArrayLike,
    *,
    factor_names: tuple[str, ...] | None = None,
    measure: Literal["r2", "nmi"] = "r2",
    threshold: float = 0.1,
    independence: float = 0.1,
    used: Sequence[int] | None = None,
    seed: int = 0,
) -> "pl.DataFrame":
    """Return a table of the factors that are spread over several mutually independent variables.

    One row for each factor: the variables whose R2 (or NMI) with it exceeds ``threshold``, best first, their scores,
    the gap between the two best, their largest subset that is pairwise independent, the largest dependence within
    it, and whether the factor is disintegrated, that is, whether this subset has at least two. [Cheng2021, sec. 6.3]
    Dependence is sqrt(1 - exp(-2 I)), |correlation| if both are Gaussian, with I their mutual information in 20 bins
    minus its value for shuffled rows; a pair is independent if this is at most ``independence`` or I is within the
    range of shuffled rows. So cos and sin of one angle are not a disintegration, although they are uncorrelated.
    ``used`` are the variables that may carry a factor, all by default; ``seed`` shuffles.

    Args:
        codes: Codes (n, d), one observation in each row.
        factors: Classes (n, F) of the same rows, whole numbers; a single factor may be (n,).
        factor_names: Names of the factors; numbered by default.
        measure: The measure between variable and factor: "r2" or "nmi".
        threshold: The value above which a variable carries the factor.
        independence: Largest dependence of a pair that counts as independent.
        used: Indices of the variables that may carry a factor.
        seed: Seed of the shuffles.

    Returns:
        One row for each factor.

    Raises:
        DataError: If codes or factors are not finite, or have different numbers of rows.
        ConfigError: If the names or the indices are invalid.

    >>> z = np.random.default_rng(0).normal(size=(500, 2))
    >>> split = (z.sum(axis=1) > 0).astype(int)
    >>> disintegration(z, split)["disintegrated"].to_list()
    [True]
    """
    import polars as pl

    array, labels = checked_pair(codes, factors)
    allowed = np.arange(array.shape[1]) if used is None else np.unique(np.asarray(used, dtype=np.int64))
    if allowed.size and not (allowed[0] >= 0 and allowed[-1] < array.shape[1]):
        raise ConfigError(f"used must be indices of the {array.shape[1]} variables, got {list(used or ())}")
    matrix = r2_matrix(array, labels) if measure == "r2" else nmi_matrix(array, labels)
    matrix = np.where(np.isin(np.arange(len(matrix)), allowed)[:, None], matrix, 0.0)
    names = factor_names or tuple(f"factor {index}" for index in range(labels.shape[1]))
    if len(names) != labels.shape[1]:
        raise ConfigError(f"factor_names must name {labels.shape[1]} factors, got {len(names)}")
    dependence = _dependence(array, np.flatnonzero((matrix > threshold).any(axis=1)), seed)
    rows = []
    for name, scores, gap in zip(names, matrix.T, _gaps(matrix), strict=True):
        order = np.argsort(-scores, kind="stable")
        carriers = [int(variable) for variable in order[scores[order] > threshold]]
        apart = _largest_independent(carriers, dependence <= independence)
        rows.append(
            {
                "factor": name,
                "variables": carriers,
                "scores": [float(score) for score in scores[carriers]],
                "gap": float(gap),
                "independent": apart,
                "largest_dependence": float(np.triu(dependence[np.ix_(apart, apart)], 1).max(initial=0.0)),
                "disintegrated": len(apart) > 1,
            }
        )
    lists = {"variables": pl.List(pl.Int64), "scores": pl.List(pl.Float64), "independent": pl.List(pl.Int64)}
    return pl.DataFrame(rows, schema_overrides=lists)


def _dependence(array: Floats, variables: Integers, seed: int) -> Floats:
    """Return (d, d) sqrt(1 - exp(-2 I)) among some variables, 0 if I is within the range of shuffled rows."""
    result = np.zeros((array.shape[1], array.shape[1]))
    if variables.size < 2:
        return result
    labels = bin_codes(array[:, variables])
    generator = stream(seed, "shuffled rows of codes")
    chance = np.stack([information_within(generator.permuted(labels, axis=0)) for _ in range(_SHUFFLES)])
    floor, deviation = chance.mean(axis=0), chance.std(axis=0)
    information = information_within(labels)
    excess = np.where(information > floor + 3 * deviation, information - floor, 0.0)
    np.fill_diagonal(excess, 0.0)
    result[np.ix_(variables, variables)] = np.sqrt(-np.expm1(-2 * np.maximum(excess, 0.0)))
    return result


def _largest_independent(carriers: list[int], independent: npt.NDArray[np.bool_]) -> list[int]:
    """Return the largest pairwise independent subset of carriers; of equal ones, that with the best carriers first."""
    best: list[int] = []

    def extend(chosen: list[int], left: list[int]) -> None:
        nonlocal best
        if len(chosen) > len(best):
            best = chosen
        for place, variable in enumerate(left):
            if len(chosen) + len(left) - place <= len(best):
                return
            extend([*chosen, variable], [other for other in left[place + 1 :] if independent[variable, other]])

    extend([], carriers)
    return best


def _gaps(matrix: Floats) -> Floats:
    ordered = np.sort(matrix, axis=0)
    second = ordered[-2] if len(matrix) > 1 else 0.0
    return np.asarray(ordered[-1] - second)


def _balanced_hinge_accuracy(
    train: Floats, train_labels: Integers, test: Floats, test_labels: Integers, *, strength: float = 0.01
) -> float:
    """Return the test accuracy of one-vs-rest squared-hinge classifiers on one variable, with balanced classes.

    min (w^2 + b^2) / 2 + C sum_i c_i max(0, 1 - y_i (w x_i + b))^2, c_i = n / (K n_k) for the class's own rows and 1
    for the rest (both weighted if K = 2), as in liblinear.  [Kumar2018; Locatello2019] With one variable the rows
    inside the margin are those on one side of a threshold: every sum in a Newton step is a difference of prefix
    sums, found by binary search for all classes at once.

    >>> x = np.linspace(-1.0, 1.0, 30)
    >>> _balanced_hinge_accuracy(x, (x > 0).astype(int), x, (x > 0).astype(int))
    1.0
    """
    classes, labels = np.unique(train_labels, return_inverse=True)
    if len(classes) == 1:
        return float(np.mean(test_labels == classes[0]))
    counts = np.bincount(labels)
    balance = len(labels) / (len(classes) * counts)
    if len(classes) == 2:
        weights = _fit_lines(train, labels, np.array([1]), balance[1:] * strength, balance[:1] * strength)
        chosen = (weights[0, 0] * test + weights[0, 1] > 0).astype(np.int64)
    else:
        every = np.arange(len(classes))
        weights = _fit_lines(train, labels, every, balance * strength, np.full(len(classes), strength))
        chosen = (np.outer(test, weights[:, 0]) + weights[:, 1]).argmax(axis=1)
    return float(np.mean(classes[chosen] == test_labels))


def _fit_lines(values: Floats, labels: Integers, positive: Integers, gain: Floats, loss: Floats) -> Floats:
    """Return (w, b) of each class in ``positive`` against all rows of other classes, with weights gain and loss."""
    sums = _PrefixSums(values, labels)
    lines = np.zeros((len(positive), 2))
    value = _hinge_loss(lines, sums, positive, gain, loss)[0]
    for _ in range(_NEWTON_STEPS):
        _, gradient, hessian = _hinge_loss(lines, sums, positive, gain, loss)
        step = -np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        unsettled = np.abs(gradient).max(axis=1) > 1e-9 * (1 + gain + loss) * len(values)
        if not unsettled.any():
            break
        step[~unsettled] = 0.0
        for _ in range(20):
            trial = _hinge_loss(lines + step, sums, positive, gain, loss)[0]
            worse = unsettled & (trial > value)
            if not worse.any():
                break
            step[worse] /= 2
        lines, value = lines + step, trial
    return lines


def _hinge_loss(
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
        # For a horizontal line all rows or none are inside.
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
