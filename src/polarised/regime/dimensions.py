"""The number of latents needed: the dimension of the data, one over-sized run, or the search of FONDUE."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polarised.errors import ConfigError, DataError
from polarised.random import stream
from polarised.regime.classify import Regime
from polarised.regime.encodings import Encodings

__all__ = [
    "Fondue",
    "OneShot",
    "Visit",
    "fondue",
    "fondue_by_types",
    "intrinsic_dimension_mle",
    "intrinsic_dimension_twonn",
    "one_shot_count",
]

Array = NDArray[np.float64]


Estimator = Literal["mle", "twonn", "trace"]


def intrinsic_dimension_mle(
    points: ArrayLike, *, neighbours: int = 20, anchors: float = 0.8, repeats: int = 5, seed: int = 0
) -> float:
    """Estimate the dimension of the manifold of the points by maximum likelihood [Levina2005, eq. 9].

    d(x) = (1/(k-1) sum_j<k log(T_k(x) / T_j(x)))^-1 with T_j the distance to the j-th of k neighbours, averaged over a
    share `anchors` of the points, `repeats` times, as in [Bonheme2023FONDUE].

    >>> round(intrinsic_dimension_mle(np.random.default_rng(0).uniform(size=(1000, 3))))
    3
    """
    table = _points(points, neighbours + 2)
    if neighbours < 2 or not 0 < anchors <= 1 or repeats < 1:
        raise ConfigError(
            f"expected neighbours >= 2, anchors in (0, 1] and repeats >= 1, got {neighbours}, {anchors} and {repeats}"
        )
    distances = _distances(table, neighbours)
    logarithms = np.log(distances)
    gaps = (logarithms[:, -1:] - logarithms[:, :-1]).mean(axis=1)
    # Equal distances differ only by rounding.
    level = int((gaps < 1e-12).sum())
    if level:
        raise DataError(
            f"expected neighbours at different distances, all {neighbours} are equally far from {level} of the "
            f"{len(table)} points; use points that do not form a grid"
        )
    local = 1.0 / gaps
    generator = stream(seed, "anchors of the intrinsic dimension")
    count = max(1, int(anchors * len(table)))
    chosen = [generator.choice(len(table), count, replace=False) for _ in range(repeats)]
    return float(np.mean([local[rows].mean() for rows in chosen]))


def intrinsic_dimension_twonn(points: ArrayLike, *, discard: float = 0.1) -> float:
    """Estimate the dimension from the ratio of the distances to the two nearest neighbours [Facco2017, eq. 5].

    With m = T_2 / T_1 sorted and F = i/n: the slope through 0 of -log(1 - F) against log m, excluding the largest
    `discard` share of m.

    >>> round(intrinsic_dimension_twonn(np.random.default_rng(0).uniform(size=(1000, 3))))
    3
    """
    if not 0 <= discard < 1:
        raise ConfigError(f"expected discard in [0, 1), got {discard}; 0.1 is common")
    distances = _distances(_points(points, 4), 2)
    ratios = np.sort(np.log(distances[:, 1] / distances[:, 0]))
    kept = ratios[: max(2, int(len(ratios) * (1 - discard)))]
    kept = kept[: len(ratios) - 1]
    levels = -np.log1p(-np.arange(1, len(kept) + 1) / len(ratios))
    if not np.square(kept).sum() > 0:
        raise DataError(
            "expected neighbours at different distances, the two nearest are always equally far; use points off a grid"
        )
    return float((kept @ levels) / (kept @ kept))


class OneShot(NamedTuple):
    """The number of variables that over-sized runs keep: for each run, their median, and whether all agree."""

    latents: int
    each: tuple[int, ...]
    passive: tuple[int, ...]
    soft: tuple[float, ...]

    @property
    def stable(self) -> bool:
        """Whether every seed kept the same number."""
        return len(set(self.each)) == 1

    @property
    def large_enough(self) -> bool:
        """Whether every run had passive variables left; otherwise the count is only a lower bound."""
        return min(self.passive) > 0


def one_shot_count(regimes: Sequence[Regime]) -> OneShot:
    """Count the active and mixed variables of runs with more latents than needed, one run per seed.

    `soft` is sum_j (1 - E[r_j]), the same count without thresholds: d - sum_j E[variance_j] under N(0, I), since
    tr Cov(z) - tr Cov(mean) = sum_j E[variance_j].

    >>> from polarised.regime import classify
    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> one_shot_count([classify(encodings)]).latents
    1
    """
    if not regimes:
        raise DataError("expected the regime of at least one run, got none; pass one per seed")
    each = tuple(len(regime.alive) for regime in regimes)
    soft = tuple(float(np.clip(1 - regime.statistics.ratio_mean, 0, 1).sum()) for regime in regimes)
    return OneShot(
        latents=int(np.ceil(np.median(each))),
        each=each,
        passive=tuple(len(regime.passive) for regime in regimes),
        soft=soft,
    )


class Visit(NamedTuple):
    """One model of a FONDUE search: its size, the estimates for the sampled and the mean code, their difference."""

    latents: int
    sampled: float
    mean: float

    @property
    def difference(self) -> float:
        """The estimate for the sampled code minus that for the mean code."""
        return self.sampled - self.mean


class Fondue(NamedTuple):
    """The result of a FONDUE search, and every model it trained, in order."""

    latents: int
    visits: tuple[Visit, ...]


def fondue(
    encode: Callable[[int], Encodings],
    *,
    start: int,
    threshold: float = 1.0,
    estimator: Estimator | Callable[[NDArray[Any]], float] = "mle",
    largest: int = 1024,
    seed: int = 0,
) -> Fondue:
    """Search the largest number of latents whose sampled and mean codes still agree [Bonheme2023FONDUE, algorithm 1].

    `encode(p)` trains a new model with p latents for a short time and returns its encodings; it is called once for
    each p. Begin at `start`, the intrinsic dimension of the data. With d = E(sampled) - E(mean): while d <= threshold,
    double p, otherwise bisect the bracket, until it closes. E is the intrinsic dimension ("mle", "twonn") or the
    trace of the covariance ("trace", for which d = sum_j E[variance_j], a soft count of passive variables).

    >>> def encode(latents):
    ...     generator = np.random.default_rng(0)
    ...     variance = np.where(np.arange(latents) < 5, 0.01, 1.0) * np.ones((500, 1))
    ...     return Encodings(np.sqrt(1 - variance) * generator.normal(size=(500, latents)), variance=variance)
    >>> fondue(encode, start=3, estimator="trace", threshold=0.5).latents
    5
    """
    if start < 1 or start > largest:
        raise ConfigError(
            f"expected start between 1 and {largest}, got {start}; the intrinsic dimension of the data is common"
        )
    measure = _estimators(seed)[estimator] if isinstance(estimator, str) else estimator
    visits: dict[int, Visit] = {}
    lower, upper, latents = 0, largest + 1, start
    while latents != lower:
        if latents not in visits:
            encodings = encode(latents)
            visits[latents] = Visit(latents, measure(encodings.sample(seed=seed)), measure(encodings.mean))
        if visits[latents].difference <= threshold:
            lower, latents = latents, min(2 * latents, upper)
            if latents > largest:
                raise DataError(
                    f"expected passive variables before {latents} latents, got none up to {lower}; "
                    "train longer, lower the threshold, or raise largest"
                )
        else:
            upper, latents = latents, (lower + latents) // 2
        # Doubling may reach the end of the bracket, which is known to fail: use its middle instead.
        if latents == upper:
            latents = (lower + upper) // 2
    return Fondue(latents, tuple(visits.values()))


def fondue_by_types(encode: Callable[[int], Regime], *, start: int, largest: int = 1024) -> OneShot:
    """Double the latents until passive variables appear, then keep active and mixed: FONDUE's variant by types.

    >>> from polarised.regime import classify
    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> fondue_by_types(lambda latents: classify(encodings), start=2).latents
    1
    """
    latents = start
    while latents <= largest:
        count = one_shot_count([encode(latents)])
        if count.large_enough:
            return count
        latents *= 2
    raise DataError(f"expected passive variables, got none up to {latents // 2} latents; train longer")


def _estimators(seed: int) -> dict[str, Callable[[NDArray[Any]], float]]:
    return {
        "mle": lambda codes: intrinsic_dimension_mle(codes, neighbours=min(20, len(codes) - 2), seed=seed),
        "twonn": intrinsic_dimension_twonn,
        "trace": lambda codes: float(codes.var(axis=0, ddof=1, dtype=np.float64).sum()),
    }


def _points(points: ArrayLike, least: int) -> Array:
    table = np.asarray(points)
    table = table.reshape(len(table), -1).astype(np.float64) if table.ndim > 1 else table
    if table.ndim != 2 or len(table) < least or not np.isfinite(table).all():
        raise DataError(f"expected at least {least} finite points (n, dimensions), got an array of {np.shape(points)}")
    return table


def _distances(table: Array, neighbours: int) -> Array:
    from sklearn.neighbors import NearestNeighbors

    distances: Array = NearestNeighbors(n_neighbors=neighbours + 1).fit(table).kneighbors(table)[0][:, 1:]
    twins = int((distances[:, 0] == 0).sum())
    if twins:
        raise DataError(
            f"expected different points, {twins} of {len(table)} have a duplicate at distance 0, where the estimate is "
            "undefined; drop duplicates with np.unique(points, axis=0)"
        )
    return distances
