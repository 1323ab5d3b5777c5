"""The effect of a claim as a readable expression of the numbers of a run, evaluated for all seeds at once.

``TC("mean", "full") - TC("sampled", "full")`` is a value for every strength and seed; ``rank(STRENGTH, count)`` or
``at(score, "most")`` has one value per seed. If an effect has strengths, it is tested at each of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars
from numpy.typing import NDArray

from polarised.errors import DataError

__all__ = [
    "STRENGTH",
    "Array",
    "Expression",
    "Grid",
    "Number",
    "Table",
    "at",
    "deviation",
    "given",
    "largest",
    "log10",
    "method_of",
    "number",
    "rank",
    "read_off",
    "rise",
    "size",
    "slope",
    "smallest",
    "total",
]

Array = NDArray[np.float64]
Reduction = Literal["mean", "max", "min", "sum"]
Place = float | Literal["least", "most", "previous", "first", "mean", "best"]


@dataclass(frozen=True)
class Grid:
    """The runs of one method on one dataset: `points` (strengths) by `seeds`, and access to other methods.

    `values` returns the array (points, seeds) of a number, NaN if no run has it; `other` the grid of another method on
    the same dataset with these seeds.
    """

    points: tuple[float, ...]
    seeds: tuple[int, ...]
    values: Callable[["Number"], Array]
    other: Callable[[str], "Grid | None"]

    def empty(self) -> Array:
        """Return an array without any value."""
        return np.full((len(self.points), len(self.seeds)), np.nan)


class Expression(ABC):
    """An expression with a value for each strength and seed of a grid, or one per seed."""

    @abstractmethod
    def evaluate(self, grid: Grid) -> Array:
        """Return an array (points, seeds), or (1, seeds) if the strengths were combined."""

    @abstractmethod
    def parts(self) -> tuple["Expression", ...]:
        """Return its parts."""

    def numbers(self) -> tuple["Number", ...]:
        """Return every number it needs, once."""
        own = (self,) if isinstance(self, Number) else ()
        return tuple(dict.fromkeys([*own, *(name for part in self.parts() for name in part.numbers())]))

    def varies(self) -> bool:
        """Return whether it has a value for each strength."""
        return any(part.varies() for part in self.parts())

    def named(self) -> set[float]:
        """Return the strengths of this method that it names."""
        return {strength for part in self.parts() for strength in part.named()}

    def fewest(self) -> int:
        """Return the fewest strengths with which it has a value; one compared with a named strength needs both."""
        return max(2 if self.varies() and self.named() else 1, *(part.fewest() for part in self.parts()), 1)

    def __add__(self, other: "Expression | float") -> "Expression":
        return _Operation("+", (self, _expression(other)))

    def __sub__(self, other: "Expression | float") -> "Expression":
        return _Operation("-", (self, _expression(other)))

    def __rsub__(self, other: float) -> "Expression":
        return _Operation("-", (_expression(other), self))

    def __mul__(self, other: "Expression | float") -> "Expression":
        return _Operation("*", (self, _expression(other)))

    __rmul__ = __mul__
    __radd__ = __add__

    def __truediv__(self, other: "Expression | float") -> "Expression":
        return _Operation("/", (self, _expression(other)))


@dataclass(frozen=True)
class Number(Expression):
    """A number of the tidy table; `of` aggregates the rows of single variables, if there is one for each."""

    metric: str
    representation: str | None = None
    variables: str = "full"
    of: Reduction = "mean"

    @property
    def key(self) -> str:
        """The number as ``metric/representation/variables``."""
        return f"{self.metric}/{self.representation or ''}/{self.variables}"

    def evaluate(self, grid: Grid) -> Array:
        """Look the number up."""
        return grid.values(self)

    def varies(self) -> bool:
        """Return True."""
        return True

    def parts(self) -> tuple[Expression, ...]:
        """Return nothing: a number has no parts."""
        return ()


def number(metric: str, representation: str | None = None, variables: str = "full", of: Reduction = "mean") -> Number:
    """Return a number of the tidy table by its names.

    >>> number("total_correlation", "mean").key
    'total_correlation/mean/full'
    """
    return Number(metric, representation, variables, of)


@dataclass(frozen=True)
class _Constant(Expression):
    value: float

    def evaluate(self, grid: Grid) -> Array:
        return np.full((1, len(grid.seeds)), self.value)

    def parts(self) -> tuple[Expression, ...]:
        return ()


@dataclass(frozen=True)
class _Strength(Expression):
    def evaluate(self, grid: Grid) -> Array:
        return np.repeat(np.array(grid.points, dtype=np.float64)[:, None], len(grid.seeds), axis=1)

    def varies(self) -> bool:
        return True

    def parts(self) -> tuple[Expression, ...]:
        return ()


STRENGTH = _Strength()
FUNCTIONS: Mapping[str, Callable[..., Array]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "abs": np.abs,
    "log10": np.log10,
    "min": np.fmin,
    "max": np.fmax,
    "total": lambda first, second: np.where(
        np.isfinite(first) | np.isfinite(second), np.nan_to_num(first) + np.nan_to_num(second), np.nan
    ),
    "deviation": lambda values: _squared_deviation(values),
    "given": lambda condition, value: np.where(condition > 0, value, np.nan),
}


@dataclass(frozen=True)
class _Operation(Expression):
    name: str
    operands: tuple[Expression, ...]

    def evaluate(self, grid: Grid) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            found = FUNCTIONS[self.name](*(operand.evaluate(grid) for operand in self.operands))
        return np.where(np.isfinite(found), found, np.nan)

    def parts(self) -> tuple[Expression, ...]:
        return self.operands


@dataclass(frozen=True)
class _At(Expression):
    expression: Expression
    place: Place

    def evaluate(self, grid: Grid) -> Array:
        found = self.expression.evaluate(grid)
        if isinstance(self.place, int | float):
            chosen = [k for k, point in enumerate(grid.points) if np.isclose(point, self.place)]
            return found[chosen[:1]] if chosen else np.full((1, found.shape[1]), np.nan)
        if self.place == "previous":
            return np.concatenate([np.full((1, found.shape[1]), np.nan), found[:-1]])
        if self.place == "mean":
            return _mean(found, axis=0) if len(grid.points) > 1 else np.full(found.shape, np.nan)
        if self.place == "best":
            return _best_of_others(found)
        if self.place == "least" and len(grid.points) < 2:
            # The only strength is not the weakest of several, which is what the claims are about.
            return np.full((1, found.shape[1]), np.nan)
        # "first" is the smallest strength above zero.
        order = {"least": 0, "most": -1, "first": next((k for k, point in enumerate(grid.points) if point > 0), 0)}
        return found[[order[self.place]]]

    def varies(self) -> bool:
        return self.place == "previous"

    def named(self) -> set[float]:
        own = {float(self.place)} if isinstance(self.place, int | float) else set()
        return own | self.expression.named()

    def fewest(self) -> int:
        return max(2 if self.place in ("least", "previous", "mean") else 1, self.expression.fewest())

    def parts(self) -> tuple[Expression, ...]:
        return (self.expression,)


@dataclass(frozen=True)
class _Of(Expression):
    method: str
    expression: Expression

    def evaluate(self, grid: Grid) -> Array:
        other = grid.other(self.method)
        if other is None:
            return np.full((1, len(grid.seeds)), np.nan)
        found = self.expression.evaluate(other)
        if found.shape[0] == 1:
            return found
        rows = {point: k for k, point in enumerate(other.points)}
        aligned = grid.empty()
        for k, point in enumerate(grid.points):
            if point in rows:
                aligned[k] = found[rows[point]]
        return aligned

    def named(self) -> set[float]:
        return set()

    def parts(self) -> tuple[Expression, ...]:
        return (self.expression,)


@dataclass(frozen=True)
class _Trend(Expression):
    first: Expression
    second: Expression
    kind: Literal["rank", "slope"]

    def evaluate(self, grid: Grid) -> Array:
        first, second = (np.broadcast_to(e.evaluate(grid), grid.empty().shape) for e in (self.first, self.second))
        relate = _rank_correlation if self.kind == "rank" else _least_squares
        return np.array([[relate(first[:, k], second[:, k]) for k in range(first.shape[1])]])

    def varies(self) -> bool:
        return False

    def fewest(self) -> int:
        return 3 if self.kind == "rank" else 2

    def parts(self) -> tuple[Expression, ...]:
        return (self.first, self.second)


@dataclass(frozen=True)
class _ReadOff(Expression):
    method: str
    score: Expression
    along: Expression

    def evaluate(self, grid: Grid) -> Array:
        found, here, other = grid.empty(), self.along.evaluate(grid), grid.other(self.method)
        if other is None:
            return found
        score, along = self.score.evaluate(other), self.along.evaluate(other)
        for seed in range(found.shape[1]):
            known = np.isfinite(score[:, seed]) & np.isfinite(along[:, seed])
            if known.sum() < 2:
                continue
            order = np.argsort(along[known, seed])
            x, y = along[known, seed][order], score[known, seed][order]
            # Outside the range of the other curve there is nothing to compare with.
            found[:, seed] = np.interp(here[:, seed], x, y, left=np.nan, right=np.nan)
        return found

    def parts(self) -> tuple[Expression, ...]:
        return (self.score, self.along)


def at(expression: Expression, place: Place) -> Expression:
    """Return an expression at one strength: a value, or "least", "most", "first" (above 0), "previous", "mean", "best".

    "best" is the strength with the highest average over the *other* seeds, so the choice does not use the tested seed.
    """
    return _At(expression, place)


def method_of(method: str, expression: Expression) -> Expression:
    """Return an expression of another method, for the same dataset, seed and strength."""
    return _Of(method, expression)


def given(condition: Expression, expression: Expression) -> Expression:
    """Return an expression of the runs in which a condition is above 0; the others have no value."""
    return _Operation("given", (condition, expression))


def rank(first: Expression, second: Expression) -> Expression:
    """Return Spearman's rank correlation of two expressions over the strengths of a seed."""
    return _Trend(first, second, "rank")


def slope(first: Expression, second: Expression) -> Expression:
    """Return the least-squares slope of the second expression in the first over the strengths of a seed."""
    return _Trend(first, second, "slope")


def read_off(method: str, score: Expression, along: Expression) -> Expression:
    """Return another method's score at the value of `along` of this run; NaN outside the range of its curve."""
    return _ReadOff(method, score, along)


def size(expression: Expression) -> Expression:
    """Return the absolute value of an expression."""
    return _Operation("abs", (expression,))


def rise(loss: Expression, reference: Expression) -> Expression:
    """Return the relative excess of a loss over a reference; the loss of a density may be negative."""
    return (loss - reference) / size(reference)


def log10(expression: Expression) -> Expression:
    """Return the decimal logarithm of an expression."""
    return _Operation("log10", (expression,))


def smallest(first: Expression, second: Expression) -> Expression:
    """Return the smaller of two expressions; if one has no value, the other."""
    return _Operation("min", (first, second))


def largest(first: Expression, second: Expression) -> Expression:
    """Return the larger of two expressions; if one has no value, the other."""
    return _Operation("max", (first, second))


def total(first: Expression, second: Expression) -> Expression:
    """Return the sum of two expressions, of which one may have no value."""
    return _Operation("total", (first, second))


def deviation(expression: Expression) -> Expression:
    """Return the squared deviation of each seed from the average of the others, whose mean is the variance.

    (n - 1) / n (x_i - mean of the others)^2.
    """
    return _Operation("deviation", (expression,))


def _expression(value: "Expression | float") -> Expression:
    return value if isinstance(value, Expression) else _Constant(float(value))


def _mean(values: Array, axis: int) -> Array:
    known = np.isfinite(values)
    count = known.sum(axis=axis, keepdims=True)
    sums = np.where(known, values, 0.0).sum(axis=axis, keepdims=True)
    means: Array = np.divide(sums, count, out=np.full(count.shape, np.nan), where=count > 0)
    return means


def _squared_deviation(values: Array) -> Array:
    known = np.isfinite(values)
    count = known.sum(axis=1, keepdims=True)
    sums = np.where(known, values, 0.0).sum(axis=1, keepdims=True)
    others = np.divide(sums - values, count - 1, out=np.full(values.shape, np.nan), where=count > 1)
    return np.asarray((count - 1) / np.maximum(count, 1) * (values - others) ** 2)


def _best_of_others(found: Array) -> Array:
    best = np.full((1, found.shape[1]), np.nan)
    for seed in range(found.shape[1]):
        others = _mean(np.delete(found, seed, axis=1), axis=1)[:, 0]
        if np.isfinite(others).any():
            best[0, seed] = found[int(np.nanargmax(others)), seed]
    return best


def _rank_correlation(first: Array, second: Array) -> float:
    """Return Spearman's rank correlation; 0 if only the second is constant, NaN if the first is.

    A constant second number does not follow the first; with a constant first number there is nothing to follow. Also
    NaN for fewer than three points.
    """
    from scipy.stats import rankdata

    known = np.isfinite(first) & np.isfinite(second)
    if known.sum() < 3 or np.ptp(first[known]) == 0:
        return float("nan")
    one, other = (rankdata(values[known]) - (known.sum() + 1) / 2 for values in (first, second))
    length = np.sqrt((one @ one) * (other @ other))
    return float(one @ other / length) if length > 0 else 0.0


def _least_squares(first: Array, second: Array) -> float:
    known = np.isfinite(first) & np.isfinite(second)
    if known.sum() < 2 or np.ptp(first[known]) == 0:
        return float("nan")
    centred = first[known] - first[known].mean()
    return float(centred @ second[known] / (centred @ centred))


class Table:
    """A study's tidy table as grids: one per method and dataset, and one of all methods of a dataset together."""

    def __init__(self, table: polars.DataFrame) -> None:
        known = {"run", "seed", "method", "strength", "dataset", "representation", "variables", "metric", "value"}
        # The label of the axis `compatibility` is already part of that of the dataset.
        known |= {"variable", "rule", "compatibility"}
        axes = [c for c in table.columns if c not in known and table[c].n_unique() > 1]
        place = polars.concat_str(
            "dataset", *(polars.concat_str(polars.lit(f", {axis} "), polars.col(axis)) for axis in axes)
        )
        key = polars.concat_str("metric", polars.col("representation").fill_null(""), "variables", separator="/")
        rows = table.select(
            "seed", "method", "value", place.alias("place"), key.alias("key"), polars.col("strength").fill_null(0.0)
        )
        self._grids: dict[tuple[str, str, tuple[int, ...]], Grid] = {}
        self._parts = {
            (str(method), str(where)): own
            for (method, where), own in rows.group_by(["method", "place"], maintain_order=True)
        }

    @property
    def places(self) -> list[tuple[str, str]]:
        """All pairs (method, dataset), in the order of the table."""
        return list(self._parts)

    def grid(self, method: str, dataset: str, seeds: Sequence[int] | None = None) -> Grid | None:
        """Return the grid of one method on one dataset, optionally of some `seeds`."""
        own = self._parts.get((method, dataset))
        if own is None:
            return None
        chosen = tuple(sorted(own["seed"].unique().to_list())) if seeds is None else tuple(seeds)
        key = (method, dataset, chosen)
        if key not in self._grids:
            try:
                points = tuple(float(value) for value in own["strength"].unique().sort())
            except (TypeError, ValueError) as error:
                raise DataError(f"expected numbers as the strength of {method} on {dataset}, but {error}") from error
            found = _Lookup(own, points, chosen)
            self._grids[key] = Grid(points, chosen, found, lambda name: self.grid(name, dataset, chosen))
        return self._grids[key]

    def together(self, dataset: str) -> Grid | None:
        """Return the grid of all methods on a dataset, whose points are the pairs of method and strength."""
        grids = [self.grid(method, place) for method, place in self._parts if place == dataset]
        found = [grid for grid in grids if grid is not None]
        if len(found) < 2:
            return None
        seeds = tuple(sorted(set.intersection(*(set(grid.seeds) for grid in found))))
        own = [grid for method, place in self._parts if place == dataset and (grid := self.grid(method, place, seeds))]
        points = tuple(float(k) for k in range(sum(len(grid.points) for grid in own)))
        return Grid(
            points,
            seeds,
            lambda name: np.concatenate([grid.values(name) for grid in own]),
            lambda name: None,
        )


class _Lookup:
    """Numbers of a part of the table as arrays (points, seeds), each created once."""

    def __init__(self, rows: polars.DataFrame, points: Sequence[float], seeds: Sequence[int]) -> None:
        self.rows = {str(key): own for (key,), own in rows.group_by(["key"])}
        self.points = {point: k for k, point in enumerate(points)}
        self.seeds = {seed: k for k, seed in enumerate(seeds)}
        self.known: dict[Number, Array] = {}

    def __call__(self, name: Number) -> Array:
        if name not in self.known:
            found = np.full((len(self.points), len(self.seeds)), np.nan)
            rows = self.rows.get(name.key)
            if rows is not None:
                joined: Any = getattr(polars.col("value"), name.of)()
                for strength, seed, value in rows.group_by("strength", "seed").agg(joined).iter_rows():
                    if seed in self.seeds and value is not None:
                        found[self.points[strength], self.seeds[seed]] = value
            self.known[name] = found
        return self.known[name]
