"""Logistic regression for few variables and many classes: Newton's method on all classes at once.

A code has about ten variables, so the Hessian is small and a few Newton steps replace a hundred gradient
steps. Cross-validation goes through the penalties once on all rows; each fold then starts from the solution of all
rows, with its Hessian, and needs two or three gradients. Objective: mean log-loss + |w|^2 / (2 C n).
"""

from functools import cached_property
from typing import Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from scipy.linalg.lapack import dpotrf, dpotrs

from polarised._threads import one_blas_thread
from polarised.metrics.covariance import Floats, Integers

__all__ = ["LinearClassifier", "Multiclass", "cross_validated_classifier", "linear_classifier"]

Array = npt.NDArray[np.floating]


Multiclass = Literal["one_vs_rest", "multinomial"]


# Largest entry of the mean gradient at which a fit ends. scikit-learn stops at 1e-4; its old version, with one class
# against the rest, used the sum over rows: there a single row can decide the strength.
_TOLERANCES: dict[Multiclass, float] = {"one_vs_rest": 1e-6, "multinomial": 4e-5}


# Rows processed together, so that the scores of forty classes fit into the second-level cache.
_BLOCK = 2048


# Number of parameters from which a Cholesky factor is several times faster to compute than an inverse.
_MANY = 64


# The largest score whose exponential, times any number of classes, is finite in single precision.
_HIGH = 75


# The stride of the rows that initialise a fit, and the rows of the rarest class from which this is worthwhile.
_FEW, _PLENTY = 16, 800


# Maximum size of the cached products of columns, for every fold: about 256 MiB each.
_MOST_PRODUCTS = 1 << 27


_STEPS = 50


_HALVINGS = 12


class LinearClassifier(NamedTuple):
    """Weights (K, d) and intercepts (K,) of the classes in ``classes``; the largest score wins."""

    classes: Integers
    weights: Floats
    intercepts: Floats

    def scores(self, codes: npt.ArrayLike) -> Floats:
        """Return the score (n, K) of every class: log-odds of one against the rest, or multinomial logits."""
        return np.asarray(np.asarray(codes, dtype=np.float64) @ self.weights.T + self.intercepts)

    @one_blas_thread()
    def predict(self, codes: npt.ArrayLike) -> Integers:
        """Return the class with the largest score."""
        return np.asarray(self.classes[self.scores(codes).argmax(axis=1)])


@one_blas_thread()
def linear_classifier(
    codes: Floats, labels: Integers, *, multiclass: Multiclass, strength: float = 1.0, shrink_intercept: bool = False
) -> LinearClassifier:
    """Return the logistic regression of classes on codes with penalty |w|^2 / (2 C n), C the strength.

    ``shrink_intercept`` penalises the intercept too, as liblinear does.

    >>> codes, labels = np.array([[0.0], [0.1], [0.9], [1.0]]), np.array([0, 0, 5, 5])
    >>> model = linear_classifier(codes, labels, multiclass="multinomial")
    >>> model.predict([[0.2], [0.8]])
    array([0, 5])
    """
    classes, compact = np.unique(labels, return_inverse=True)
    design, centre = _design(codes, centred=not shrink_intercept)
    rows = Rows(design, compact, len(classes))
    kind, penalty = _kind(multiclass, len(classes)), _penalty(codes.shape[1], shrink_intercept)
    problem = kind(rows, penalty / (strength * len(codes)))
    start = problem.start()
    if np.bincount(compact).min() >= _PLENTY:
        # Most of the progress is the same with a fraction of the rows, at little cost.
        few = Rows(rows.design[::_FEW], compact[::_FEW], len(classes))
        start = minimise(kind(few, penalty / (strength * len(codes))), start, tolerance=1e-3)[0]
    return _classifier(classes, minimise(problem, start)[0], centre)


@one_blas_thread()
def cross_validated_classifier(
    codes: Floats, labels: Integers, *, multiclass: Multiclass, strengths: npt.ArrayLike, folds: int = 5
) -> LinearClassifier:
    """Return the logistic regression whose strength has the best mean accuracy over contiguous folds.

    One-vs-rest selects a strength for each class by its binary accuracy, multinomial one for all; the first of several
    best wins, as in scikit-learn's LogisticRegressionCV with KFold.

    >>> rows = np.linspace(-1, 1, 40)[:, None]
    >>> order = np.random.default_rng(0).permutation(40)
    >>> model = cross_validated_classifier(
    ...     rows[order], (rows[order, 0] > 0).astype(int), multiclass="one_vs_rest", strengths=[0.01, 100.0]
    ... )
    >>> model.predict([[-0.5], [0.5]])
    array([0, 1])
    """
    classes, compact = np.unique(labels, return_inverse=True)
    design, centre = _design(codes, centred=True)
    kind, penalty = _kind(multiclass, len(classes)), _penalty(codes.shape[1], shrink_intercept=False)
    whole = Rows(design, compact, len(classes))
    parts = [_fold(whole, held) for held in np.array_split(np.arange(len(codes)), folds) if len(held)]
    best, accuracy = np.zeros((0, 0)), np.full(0, -np.inf)
    weights, tolerance = kind(whole, penalty).start(), _TOLERANCES[multiclass]
    before = weights
    for strength in np.asarray(strengths, dtype=np.float64):
        problem = kind(whole, penalty / (strength * len(codes)))
        # Strengths are equally spaced in their logarithm: extrapolate from the last step.
        start, before = weights + 0.8 * (weights - before), weights
        weights, hessians = minimise(problem, start, tolerance=tolerance)
        problems = [kind(rest, penalty / (strength * len(rest.design))) for rest, _ in parts]
        guides = _inverses(hessians + np.diag(problems[0].ridge - problem.ridge))
        correct = np.zeros(len(weights))
        for fold, (_, held) in zip(problems, parts, strict=True):
            found = minimise(fold, weights, guides, tolerance=tolerance)[0]
            correct += kind(held, penalty).accuracy(found) / len(parts)
        if not best.size:
            best, accuracy = weights.copy(), correct
        better = correct > accuracy
        best[better], accuracy[better] = weights[better], correct[better]
    return _classifier(classes, best, centre)


def _design(codes: Floats, *, centred: bool) -> tuple[Array, Floats]:
    """Return the codes with a column of ones, and what was taken off each column.

    Centring does not change the solution with an unpenalised intercept, and it makes single precision safe.
    """
    centre = codes.mean(axis=0) if centred else np.zeros(codes.shape[1])
    design = np.column_stack([codes - centre, np.ones(len(codes))])
    return design.astype(np.float32 if centred else codes.dtype), centre


def _classifier(classes: Integers, weights: Floats, centre: Floats) -> LinearClassifier:
    found = _by_class(weights, len(classes))
    return LinearClassifier(classes, found[:, :-1], found[:, -1] - found[:, :-1] @ centre)


class Rows:
    """A design matrix with a last column of ones, class labels 0..K-1, and the products of its columns."""

    def __init__(self, design: Array, labels: Integers, classes: int) -> None:
        self.design, self.labels, self.classes = design, labels, classes

    @cached_property
    def class_sums(self) -> Floats:
        """The (K, p) sums of the rows of each class: all that the gradient needs of the labels."""
        columns = [np.bincount(self.labels, weights=column, minlength=self.classes) for column in self.design.T]
        return np.stack(columns, axis=1)

    @cached_property
    def reach(self) -> Array:
        """The largest magnitude (p,) of each column, which bounds every score."""
        return np.asarray(np.abs(self.design).max(axis=0))

    @cached_property
    def products(self) -> Array:
        """The (n, p (p + 1) / 2) products of design columns, from which every Hessian is one matrix product."""
        first, second = np.triu_indices(self.design.shape[1])
        return np.asarray(self.design[:, first] * self.design[:, second])

    def weighted_squares(self, weights: Array) -> Floats:
        """Return mean w_k x x' for each column k of weights (n, g), as (g, p, p)."""
        if len(self.design) * self.design.shape[1] ** 2 > _MOST_PRODUCTS:
            # One class at a time: for hundreds of variables the products do not fit into memory.
            squares = [(self.design * column[:, None]).T @ self.design for column in weights.T]
            return np.stack(squares).astype(np.float64) / len(self.design)
        packed = (weights.T @ self.products).astype(np.float64) / len(self.design)
        size = self.design.shape[1]
        first, second = np.triu_indices(size)
        result = np.empty((weights.shape[1], size, size))
        result[:, first, second] = packed
        result[:, second, first] = packed
        return result


class Problem(Protocol):
    """Independent convex problems ("groups") over the same rows, defined by their derivatives."""

    ridge: Floats

    def __init__(self, rows: Rows, ridge: Floats) -> None: ...

    def start(self) -> Floats:
        """Return weights (groups, parameters) that predict the class frequencies."""

    def derivatives(self, weights: Floats, groups: Integers) -> tuple[Floats, Array]:
        """Return the gradient of some groups, and their probabilities or a multiple of these for each row."""

    def hessian(self, probabilities: Array, groups: Integers) -> Floats:
        """Return the Hessians of some groups."""

    def accuracy(self, weights: Floats) -> Floats:
        """Return the accuracy of every group on these rows."""


class OneVsRest:
    """K binary problems, a group each: class k against all others."""

    def __init__(self, rows: Rows, ridge: Floats) -> None:
        self.rows, self.ridge = rows, ridge

    def start(self) -> Floats:
        """Return zero weights with each class's log-odds as intercept."""
        share = (np.bincount(self.rows.labels, minlength=self.rows.classes) + 0.5) / (len(self.rows.labels) + 1)
        weights = np.zeros((self.rows.classes, self.rows.design.shape[1]))
        weights[:, -1] = np.log(share / (1 - share))
        return weights

    def derivatives(self, weights: Floats, groups: Integers) -> tuple[Floats, Array]:
        """Return mean (p - y) x + ridge w, and 2 p = 1 + tanh(x w / 2), which is faster to compute than p."""
        design = self.rows.design
        doubled = design @ (0.5 * weights.T).astype(design.dtype)
        np.tanh(doubled, out=doubled)
        doubled += 1
        gradient = (0.5 * (doubled.T @ design) - self.rows.class_sums[groups]) / len(design)
        return gradient + weights * self.ridge, doubled

    def hessian(self, probabilities: Array, groups: Integers) -> Floats:
        """Return mean p (1 - p) x x' + ridge."""
        result = self.rows.weighted_squares(0.25 * probabilities * (2 - probabilities))
        size = result.shape[1]
        result[:, np.arange(size), np.arange(size)] += self.ridge + 1e-12
        return result

    def accuracy(self, weights: Floats) -> Floats:
        """Return how often the sign of each class's score is correct."""
        positive = self.rows.design @ weights.T.astype(self.rows.design.dtype) > 0
        truth = self.rows.labels[:, None] == np.arange(self.rows.classes)
        return np.asarray((positive == truth).mean(axis=0))


class Binomial(OneVsRest):
    """One group: the log-odds of the second of two classes, as scikit-learn fits two classes "multinomially".

    A softmax over two vectors w, -w would penalise 2 |w|^2 for log-odds of 2 w: half the penalty of this.
    """

    def start(self) -> Floats:
        """Return zero weights with the second class's log-odds as intercept."""
        return super().start()[1:]

    def derivatives(self, weights: Floats, groups: Integers) -> tuple[Floats, Array]:
        """Return mean (p - y) x + ridge w, and 2 p, of the second class."""
        return super().derivatives(weights, groups + 1)

    def accuracy(self, weights: Floats) -> Floats:
        """Return how often the sign of the score is correct."""
        positive = self.rows.design @ weights[0].astype(self.rows.design.dtype) > 0
        return np.asarray([(positive == (self.rows.labels == 1)).mean()])


class Multinomial:
    """One group: the softmax over K classes; the weights have shape (1, K p)."""

    def __init__(self, rows: Rows, ridge: Floats) -> None:
        self.rows = rows
        self.ridge = np.tile(ridge, rows.classes)

    def start(self) -> Floats:
        """Return zero weights with the log frequency of each class as intercept."""
        weights = np.zeros((self.rows.classes, self.rows.design.shape[1]))
        frequency = np.log(np.bincount(self.rows.labels, minlength=self.rows.classes) + 0.5)
        weights[:, -1] = frequency - frequency.mean()
        return weights.reshape(1, -1)

    def derivatives(self, weights: Floats, groups: Integers) -> tuple[Floats, Array]:
        """Return mean (p - y) x + ridge w with p = softmax(x w), and exp(x w), a multiple of p for each row."""
        design = self.rows.design
        matrix = weights.reshape(self.rows.classes, -1)
        # Scores that average to zero over classes have a maximum above zero: no relevant value underflows.
        matrix = (matrix - matrix.mean(axis=0)).T.astype(design.dtype)
        risky = (self.rows.reach @ np.abs(matrix)).max() > _HIGH
        odds = np.empty((len(design), self.rows.classes), dtype=design.dtype)
        ones = np.ones(self.rows.classes, dtype=design.dtype)
        sums = np.zeros((self.rows.classes, design.shape[1]))
        for start in range(0, len(design), _BLOCK):
            part, scores = design[start : start + _BLOCK], odds[start : start + _BLOCK]
            np.matmul(part, matrix, out=scores)
            # Subtracting the largest score is needed only against overflow, and costs as much as all the rest.
            if risky and scores.max() > _HIGH:
                scores -= scores.max(axis=1, keepdims=True)
            np.exp(scores, out=scores)
            # p'x = odds'(x / sum of odds): divide the few variables instead of the many classes.
            sums += scores.T @ (part / (scores @ ones)[:, None])
        gradient = (sums - self.rows.class_sums) / len(design)
        # A common shift of all classes has no effect: the remainder is rounding.
        gradient -= gradient.mean(axis=0)
        return gradient.reshape(1, -1) + weights * self.ridge, odds

    def hessian(self, probabilities: Array, groups: Integers) -> Floats:
        """Return mean (diag(p) - p p') (x) x x' + ridge."""
        design, classes = self.rows.design, self.rows.classes
        size = classes * design.shape[1]
        # Used only for steps whose gradient is exact: with many classes every second or third row is enough.
        every_nth = max(1, min(len(design) * size // 200_000, len(design) // (8 * size)))
        design, odds = design[::every_nth], probabilities[::every_nth]
        result, own = np.zeros((size, size)), np.zeros((size, design.shape[1]))
        for start in range(0, len(design), _BLOCK):
            part, chance = design[start : start + _BLOCK], odds[start : start + _BLOCK]
            chance = chance / chance.sum(axis=1, keepdims=True)
            weighted = chance[:, :, None] * part[:, None, :]
            flat = weighted.reshape(len(part), size)
            result -= flat.T @ flat
            # p (1 - p) directly: p - p^2 would be rounding where a class is certain.
            weighted *= (1 - chance)[:, :, None]
            own += flat.T @ part
        every = np.arange(classes)
        blocks = result.reshape(classes, -1, classes, design.shape[1])
        blocks[every, :, every, :] = own.reshape(classes, -1, design.shape[1])
        result /= len(design)
        # A common shift of all classes has no effect and is never needed: add curvature to make the system solvable.
        column = np.arange(design.shape[1])
        blocks[:, column, :, column] += result.trace() / size / classes
        result[np.arange(size), np.arange(size)] += self.ridge + 1e-9
        return result[None]

    def accuracy(self, weights: Floats) -> Floats:
        """Return how often the largest score is that of the true class."""
        matrix = weights.reshape(self.rows.classes, -1).astype(self.rows.design.dtype)
        return np.asarray([((self.rows.design @ matrix.T).argmax(axis=1) == self.rows.labels).mean()])


def _kind(multiclass: Multiclass, classes: int) -> type[OneVsRest] | type[Multinomial]:
    if multiclass == "one_vs_rest":
        return OneVsRest
    return Binomial if classes == 2 else Multinomial


def _by_class(weights: Floats, classes: int) -> Floats:
    """Return weights (K, p) whose largest score wins; log-odds of two classes are split between them."""
    if weights.size and classes == 2 and len(weights) == 1:
        return np.concatenate([-0.5 * weights, 0.5 * weights])
    return weights.reshape(classes, -1)


def minimise(
    problem: Problem, start: Floats, guides: Floats | None = None, *, tolerance: float = 1e-5
) -> tuple[Floats, Floats]:
    """Return the minimum of each group by Newton steps, and the last Hessians computed.

    A Hessian (in the form of :func:`_inverses`) is reused as long as its step halves the gradient; if the step s of a
    new Hessian overshoots (the slope along s changes sign without shrinking), the step is halved.
    """
    weights = start.copy()
    groups = np.arange(len(weights))
    wanted = np.full(len(weights), guides is None)
    hessians = np.zeros((*weights.shape, weights.shape[1]))
    guides = hessians.copy() if guides is None else guides.copy()
    gradient, probabilities = problem.derivatives(weights, groups)
    for _ in range(_STEPS):
        unsettled = (np.abs(gradient).max(axis=1) > tolerance) | wanted[groups]
        if not unsettled.any():
            break
        if not unsettled.all():
            groups, gradient, probabilities = groups[unsettled], gradient[unsettled], probabilities[:, unsettled]
        fresh = wanted[groups]
        if fresh.any():
            part = probabilities if fresh.all() else probabilities[:, fresh]
            hessians[groups[fresh]] = problem.hessian(part, groups[fresh])
            guides[groups[fresh]] = _inverses(hessians[groups[fresh]])
        step = -_newton_steps(guides if len(groups) == len(guides) else guides[groups], gradient)
        size, slope = np.abs(gradient).max(axis=1), np.abs((gradient * step).sum(axis=1))
        for _ in range(_HALVINGS):
            gradient, probabilities = problem.derivatives(weights[groups] + step, groups)
            halved = np.abs(gradient).max(axis=1) < np.maximum(0.5 * size, tolerance)
            overshot = fresh & ~halved & ((gradient * step).sum(axis=1) > 0.5 * slope)
            if not overshot.any():
                break
            step[overshot] /= 2
            slope[overshot] /= 2
        refused = ~halved & (~fresh | overshot)
        step[refused] = 0.0
        weights[groups] += step
        wanted[groups] = ~halved
        # If a new Hessian cannot improve a group, it has converged as far as rounding allows.
        going = ~(refused & fresh)
        again = groups[refused & ~fresh]
        if len(again):
            gradient[refused & ~fresh], old = problem.derivatives(weights[again], again)
            probabilities = old if len(again) == len(groups) else _with_columns(probabilities, refused & ~fresh, old)
        if not going.any():
            break
        if not going.all():
            groups, gradient, probabilities = groups[going], gradient[going], probabilities[:, going]
    return weights, hessians


def _inverses(hessians: Floats) -> Floats:
    """Return what maps gradients to steps: inverses of small Hessians, Cholesky factors of large ones."""
    if hessians.shape[1] < _MANY:
        return np.asarray(np.linalg.inv(hessians), dtype=np.float64)
    factors = np.empty_like(hessians)
    for index, hessian in enumerate(hessians):
        # A Hessian that is indefinite by rounding is damped: shorter steps, the same minimum.
        for damping in (0.0, 1e-7, 1e-5, 1e-3, 1.0):
            factors[index], failed = dpotrf(hessian + damping * hessian.trace() * np.eye(len(hessian)), lower=True)
            if not failed:
                break
    return factors


def _newton_steps(guides: Floats, gradient: Floats) -> Floats:
    """Return the inverse Hessian times the gradient of each group."""
    if guides.shape[1] < _MANY:
        return np.asarray((guides @ gradient[:, :, None])[:, :, 0])
    return np.stack([dpotrs(factor.T, row)[0] for factor, row in zip(guides, gradient, strict=True)])


def _fold(whole: Rows, held: Integers) -> tuple[Rows, Rows]:
    rest = np.delete(np.arange(len(whole.design)), held)
    return (
        Rows(whole.design[rest], whole.labels[rest], whole.classes),
        Rows(whole.design[held], whole.labels[held], whole.classes),
    )


def _with_columns(array: Array, columns: npt.NDArray[np.bool_], values: Array) -> Array:
    array[:, columns] = values
    return array


def _penalty(variables: int, shrink_intercept: bool) -> Floats:
    return np.append(np.ones(variables), float(shrink_intercept))
