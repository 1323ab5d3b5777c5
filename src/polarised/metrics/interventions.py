"""Scores of codes with one factor held fixed while the others vary."""

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from polarised.errors import ConfigError, DataError
from polarised.metrics._logistic import linear_classifier
from polarised.metrics.covariance import Floats, Integers, checked_pair
from polarised.metrics.information import bin_codes
from polarised.random import stream
from polarised.registry import register

__all__ = ["IRS", "BetaVAEScore", "FactorVAEScore", "Represent", "beta_vae_score", "factor_vae_score", "irs"]

Represent = Callable[[Integers], npt.ArrayLike]


# Votes drawn together: enough to amortise the calls, few enough that their codes stay in the cache.
_BLOCK = 512


# Combinations drawn as one number: short integers are fast, and this far below 2^16 few draws are rejected.
_DIGITS = 2**12


class FactorVAEScore(NamedTuple):
    """Accuracy on test votes and on training votes, the vote tables (F, kept) and the kept variables.

    Args:
        score: Accuracy on test votes.
        train: Accuracy on the votes that determine the rule.
        votes: Test votes (F, kept).
        train_votes: Votes that determine the rule (F, kept).
        kept: Variables that may vote.
    """

    score: float
    train: float
    votes: Integers
    train_votes: Integers
    kept: Integers


class BetaVAEScore(NamedTuple):
    """Accuracy on test points and on the training points.

    Args:
        score: On test points.
        train: On the training points.
    """

    score: float
    train: float


class IRS(NamedTuple):
    """Interventional robustness, the score and factor of each kept variable, and the matrix (kept, F).

    Args:
        score: The weighted mean.
        scores: The score of each kept variable.
        parents: The factor of each kept variable.
        matrix: The scores (kept, F).
        kept: Variables that are not constant.
    """

    score: float
    scores: Floats
    parents: Integers
    matrix: Floats
    kept: Integers


@register(
    "metric",
    title="FactorVAE score",
    reading="How often the least varying variable identifies the factor held fixed: 1 always, 1/F by chance.",
    needs=("factors", "drawing"),
    references=("Kim2018", "Locatello2019"),
    example={"train_votes": 300, "test_votes": 200},
)
def factor_vae_score(
    represent: Represent,
    factor_sizes: Sequence[int],
    *,
    batch_size: int = 64,
    train_votes: int = 10_000,
    test_votes: int = 5_000,
    variance_rows: int = 10_000,
    threshold: float = 0.05,
    scale: npt.ArrayLike | None = None,
    seed: int = 0,
    reference_stream: bool = False,
) -> FactorVAEScore:
    """Return the FactorVAE score: how well the least varying variable identifies the factor that was held fixed.

    Vote: draw a factor k and a batch that shares its value; argmin_j var_batch(z_j) / var(z_j) over variables whose
    standard deviation reaches ``threshold`` times ``scale_j``. Score: accuracy of the majority rule.
    [Kim2018, sec. 4; Locatello2019] ``scale`` is the prior standard deviation of each variable, so that rescaling
    a variable with its prior changes nothing; without it only constant variables are excluded. The reference
    uses ``scale=1``, which excludes variables that are small because their prior is. ``represent`` maps factor indices
    (m, F) to codes (m, d). ``reference_stream`` draws in the order of disentanglement_lib from RandomState(seed).
    If no variable is kept, the score is 0.

    Args:
        represent: Maps factor indices (m, F) to codes (m, d).
        factor_sizes: The number of values of each factor.
        batch_size: Number of images in a batch.
        train_votes: Number of votes that determine the rule.
        test_votes: Number of votes that test it.
        variance_rows: Number of codes from which the variance of each variable is computed.
        threshold: Share of `scale` below which a variable does not vote.
        scale: Standard deviation of the prior, a number or one for each variable.
        seed: Seed of the random draws.
        reference_stream: Whether to draw in the order of disentanglement_lib.

    Returns:
        The score with its vote tables.

    Raises:
        ConfigError: If the sizes, the batch or the scale are invalid.
        DataError: If `represent` does not return finite codes (m, d).

    >>> factor_vae_score(lambda f: f + 0.0, (3, 4), train_votes=50, test_votes=50).score
    1.0
    >>> small = factor_vae_score(lambda f: 0.01 * f, (3, 4), scale=0.01, train_votes=50, test_votes=50)
    >>> small.score, factor_vae_score(lambda f: 0.01 * f, (3, 4), scale=1.0, train_votes=50, test_votes=50).score
    (1.0, 0.0)
    """
    draw = _Draw(represent, factor_sizes, batch_size, seed, reference_stream)
    variance = draw.codes(draw.rows(variance_rows)).var(axis=0, ddof=1)
    kept = np.flatnonzero((np.sqrt(variance) >= threshold * _scales(scale, len(variance))) & (variance > 0))
    factors = len(draw.sizes)
    if not kept.size:
        empty = np.zeros((factors, 0), dtype=np.int64)
        return FactorVAEScore(0.0, 0.0, empty, empty, kept)
    tables = []
    for votes in (train_votes, test_votes):
        table = np.zeros(factors * len(kept), dtype=np.int64)
        for fixed, (batch,) in draw.batches(votes, pairs=1):
            batch = batch - _batch_mean(batch)
            ratio = _batch_mean(np.square(batch, out=batch))[:, kept] / variance[kept]
            table += np.bincount(fixed * len(kept) + ratio.argmin(axis=1), minlength=len(table))
        tables.append(table.reshape(factors, -1))
    rule = tables[0].argmax(axis=0)
    train, test = (float(table[rule, np.arange(len(kept))].sum() / table.sum()) for table in tables)
    return FactorVAEScore(test, train, tables[1], tables[0], kept)


@register(
    "metric",
    title="BetaVAE score",
    reading="How often a linear classifier identifies the factor two batches share: 1 always, 1/F by chance.",
    needs=("factors", "drawing"),
    references=("Higgins2017", "Locatello2019"),
    example={"train_points": 300, "test_points": 200},
)
def beta_vae_score(
    represent: Represent,
    factor_sizes: Sequence[int],
    *,
    batch_size: int = 64,
    train_points: int = 10_000,
    test_points: int = 5_000,
    protocol: Literal["reference", "modern"] = "reference",
    seed: int = 0,
    reference_stream: bool = False,
) -> BetaVAEScore:
    """Return the BetaVAE score: how well a linear classifier identifies the factor that two batches share.

    Point: draw a factor k and two batches that agree on it pair by pair; x = mean |z - z'|, label k.
    [Higgins2017, sec. 3; Locatello2019] ``reference`` classifies one-vs-rest with a shrunk intercept
    (scikit-learn 0.21), ``modern`` multinomially; for the rest see :func:`factor_vae_score`.

    Args:
        represent: Maps factor indices (m, F) to codes (m, d).
        factor_sizes: The number of values of each factor.
        batch_size: Number of images in a batch.
        train_points: Number of points that train the classifier.
        test_points: Number of points that test it.
        protocol: "reference" or "modern", see above.
        seed: Seed of the random draws.
        reference_stream: Whether to draw in the order of disentanglement_lib.

    Returns:
        The accuracy on test and on training points.

    Raises:
        ConfigError: If the sizes or the batch are invalid.
        DataError: If `represent` does not return finite codes (m, d).

    >>> beta_vae_score(lambda f: f + 0.0, (3, 4), train_points=60, test_points=50).score
    1.0
    """
    draw = _Draw(represent, factor_sizes, batch_size, seed, reference_stream)
    sets = []
    for points in (train_points, test_points):
        x, y = [], []
        for fixed, (first, second) in draw.batches(points, pairs=2):
            gap = first - second
            x.append(_batch_mean(np.abs(gap, out=gap)))
            y.append(fixed)
        sets.append((np.concatenate(x), np.concatenate(y)))
        if protocol == "reference":
            sets[-1] = (sets[-1][0].astype(np.float64), sets[-1][1])
            draw.spend_one()
    (train, labels), (test, asked) = sets
    model = linear_classifier(
        train,
        labels,
        multiclass="one_vs_rest" if protocol == "reference" else "multinomial",
        shrink_intercept=protocol == "reference",
    )
    return BetaVAEScore(float(np.mean(model.predict(test) == asked)), float(np.mean(model.predict(train) == labels)))


@register(
    "metric",
    title="IRS",
    reading="1 if each variable stays constant while its factor is held fixed and the others change.",
    needs=("factors",),
    references=("Suter2019", "Locatello2019"),
)
def irs(codes: npt.ArrayLike, factors: npt.ArrayLike, *, quantile: float = 0.99, bins: int = 20) -> IRS:
    """Return the interventional robustness score: whether a variable stays constant while its factor is held fixed.

    IRS_ik = 1 - mean_b Q( |z_i - mean_b z_i| : f_k in bin b ) / max |z_i - mean z_i|, Q the 0.99 quantile; the score of
    a variable is that of its best factor, and the mean is weighted by the largest deviation.  [Suter2019;
    Locatello2019] Constant variables are excluded; if all are, the score is 0.

    Args:
        codes: Codes (n, d), one observation in each row.
        factors: Classes (n, F) of the same rows, whole numbers; a single factor may be (n,).
        quantile: The quantile Q of the deviations.
        bins: Number of bins of each factor.

    Returns:
        The score, with those of the single variables.

    Raises:
        DataError: If codes or factors are not finite, or have different numbers of rows.
        ConfigError: If the quantile is not in (0, 1].

    >>> irs([[0.0], [0.0], [1.0], [1.0]], [0, 0, 1, 1]).score
    1.0
    """
    array, labels = checked_pair(codes, factors)
    if not 0 < quantile <= 1:
        raise ConfigError(f"quantile must be in (0, 1], got {quantile}")
    kept = np.flatnonzero(np.ptp(array, axis=0) > 0)
    array = array[:, kept]
    if not kept.size:
        nothing = np.zeros(0)
        return IRS(0.0, nothing, nothing.astype(np.int64), np.zeros((0, labels.shape[1])), kept)
    largest = np.abs(array - array.mean(axis=0)).max(axis=0)
    matrix = np.zeros((len(kept), labels.shape[1]))
    for factor, column in enumerate(bin_codes(labels, bins=bins).T):
        values = np.unique(column)
        for value in values:
            inside = array[column == value]
            deviation = np.abs(inside - inside.mean(axis=0))
            matrix[:, factor] += np.quantile(deviation, quantile, axis=0) / len(values)
    matrix = 1 - matrix / largest[:, None]
    scores = matrix.max(axis=1)
    return IRS(float((scores * largest).sum() / largest.sum()), scores, matrix.argmax(axis=1), matrix, kept)


class _Draw:
    """Batches of codes with one factor held fixed, from our stream or in the order of the reference code."""

    def __init__(
        self, represent: Represent, sizes: Sequence[int], batch_size: int, seed: int, reference_stream: bool
    ) -> None:
        self.sizes = np.asarray(sizes, dtype=np.int64)
        if self.sizes.ndim != 1 or not self.sizes.size or (self.sizes < 1).any():
            raise ConfigError(f"factor_sizes must be the number of values of each factor, got {sizes!r}")
        if batch_size < 2:
            raise ConfigError(f"batch_size must be at least 2 to have a variance, got {batch_size}")
        self.represent, self.batch_size = represent, batch_size
        self.reference = np.random.RandomState(seed) if reference_stream else None
        self.generator = stream(seed, "votes")
        self.numbers: list[list[int]] = [[0]]
        for factor in range(1, len(self.sizes)):
            together = [*self.numbers[-1], factor]
            if prod(self.sizes[together].tolist()) <= _DIGITS:
                self.numbers[-1] = together
            else:
                self.numbers.append([factor])

    def rows(self, count: int) -> Integers:
        """Return (count, F) independent factor indices."""
        if self.reference is not None:
            return np.stack([self.reference.randint(size, size=count) for size in self.sizes], axis=1)
        return self._columns((count,)).T

    def codes(self, factors: Integers) -> npt.NDArray[np.floating]:
        """Return the codes of factor indices (m, F), refusing what is not (m, d)."""
        codes = np.asarray(self.represent(factors))
        if codes.ndim != 2 or len(codes) != len(factors):
            raise DataError(
                f"represent must map factors {factors.shape} to codes ({len(factors)}, d), got {codes.shape}"
            )
        if codes.dtype.kind != "f":
            codes = codes.astype(np.float64)
        # A finite sum of squares has only finite terms; an overflow is resolved by the slower check.
        flat = codes.reshape(-1)
        if not np.isfinite(np.dot(flat, flat)) and not np.isfinite(codes).all():
            raise DataError("represent must return finite codes, got NaN or infinity; check the output of the encoder")
        return codes

    def batches(self, count: int, *, pairs: int) -> Iterator[tuple[Integers, list[npt.NDArray[np.floating]]]]:
        """Yield fixed factors (b,) and ``pairs`` arrays of codes (batch_size, b, d) that agree on them."""
        for start in range(0, count, _BLOCK):
            size = min(_BLOCK, count - start)
            fixed, groups = self._block(size, pairs)
            flat = [group.reshape(len(self.sizes), -1).T for group in groups]
            yield fixed, [self.codes(group).reshape(self.batch_size, size, -1) for group in flat]

    def spend_one(self) -> None:
        """Advance the reference stream by the draw that liblinear made."""
        if self.reference is not None:
            self.reference.randint(np.iinfo("i").max)

    def _block(self, size: int, pairs: int) -> tuple[Integers, list[Integers]]:
        """Return fixed factors (b,) and ``pairs`` arrays of factor indices (F, batch_size, b)."""
        if self.reference is not None:
            return self._reference_block(self.reference, size, pairs)
        fixed = np.sort(self.generator.integers(len(self.sizes), size=size))
        groups = [self._columns((self.batch_size, size)) for _ in range(pairs)]
        # Sorted votes of one factor are a slice, which is written many times faster than scattered columns.
        ends = np.searchsorted(fixed, np.arange(len(self.sizes) + 1))
        for factor, votes in enumerate(map(slice, ends[:-1], ends[1:])):
            shared = groups[0][factor, :, votes]
            groups[-1][factor, :, votes] = shared[0].copy() if pairs == 1 else shared
        return fixed, groups

    def _reference_block(
        self, reference: np.random.RandomState, size: int, pairs: int
    ) -> tuple[Integers, list[Integers]]:
        fixed = np.empty(size, dtype=np.int64)
        groups = [np.empty((len(self.sizes), self.batch_size, size), dtype=np.int64) for _ in range(pairs)]
        for vote in range(size):
            fixed[vote] = reference.randint(len(self.sizes))
            for group in groups:
                group[:, :, vote] = self.rows(self.batch_size).T
            shared = groups[0][fixed[vote], :, vote]
            groups[-1][fixed[vote], :, vote] = shared[0] if pairs == 1 else shared
        return fixed, groups

    def _columns(self, shape: tuple[int, ...]) -> Integers:
        """Return (F, *shape) independent factor indices, drawn as digits of as few random numbers as possible."""
        result = np.empty((len(self.sizes), *shape), dtype=np.int64)
        for factors in self.numbers:
            values = self.sizes[factors].tolist()
            kind = np.uint16 if prod(values) <= 2**16 else np.uint64
            rest = self.generator.integers(prod(values), size=shape, dtype=kind)
            for factor, size in zip(factors[:0:-1], values[:0:-1], strict=True):
                # Division by one number is fast, computing the remainder too is not.
                quotient = rest // kind(size)
                rest -= quotient * kind(size)
                result[factor], rest = rest, quotient
            result[factors[0]] = rest
        return result


def _scales(scale: npt.ArrayLike | None, variables: int) -> Floats:
    values = np.asarray(0.0 if scale is None else scale, dtype=np.float64)
    if values.shape not in ((), (1,), (variables,)) or not np.isfinite(values).all() or (values < 0).any():
        raise ConfigError(
            f"scale must be the prior's standard deviation, a number or one for each of {variables} variables, "
            f"got {scale!r}"
        )
    return np.broadcast_to(values, (variables,))


def _batch_mean(batch: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Return the mean (b, d) over the first axis of (batch_size, b, d), as one product with a row of weights."""
    weights = np.full(len(batch), 1 / len(batch), dtype=batch.dtype)
    return np.asarray((weights @ batch.reshape(len(batch), -1)).reshape(batch.shape[1:]))
