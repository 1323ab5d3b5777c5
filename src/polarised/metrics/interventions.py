"""Scores of codes with one factor held fixed while the others vary."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from polarised.errors import ConfigError
from polarised.metrics._draws import Draws, Represent
from polarised.metrics._logistic import linear_classifier
from polarised.metrics.covariance import Floats, Integers, checked_pair
from polarised.metrics.information import bin_codes
from polarised.registry import register

__all__ = ["IRS", "BetaVAEScore", "FactorVAEScore", "Represent", "beta_vae_score", "factor_vae_score", "irs"]


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
        ConfigError: If the sizes, the batch, a number of codes or votes, or the scale is invalid.
        DataError: If `represent` does not return finite codes (m, d).

    >>> factor_vae_score(lambda f: f + 0.0, (3, 4), train_votes=50, test_votes=50).score
    1.0
    >>> small = factor_vae_score(lambda f: 0.01 * f, (3, 4), scale=0.01, train_votes=50, test_votes=50)
    >>> small.score, factor_vae_score(lambda f: 0.01 * f, (3, 4), scale=1.0, train_votes=50, test_votes=50).score
    (1.0, 0.0)
    """
    if variance_rows < 2:
        raise ConfigError(f"variance_rows must be at least 2 to have a variance, got {variance_rows}")
    draw = Draws(represent, factor_sizes, batch_size=batch_size, seed=seed, reference_stream=reference_stream)
    codes = draw.codes(variance_rows)
    variance = codes.var(axis=0, ddof=1)
    # The mean of equal codes is rounded, so the variance of a constant need not be exactly 0.
    varies = (variance > 0) & (np.ptp(codes, axis=0) > 0)
    kept = np.flatnonzero((np.sqrt(variance) >= threshold * _scales(scale, len(variance))) & varies)
    factors = len(draw.sizes)
    if not kept.size:
        empty = np.zeros((factors, 0), dtype=np.int64)
        return FactorVAEScore(0.0, 0.0, empty, empty, kept)
    tables = []
    for votes in (train_votes, test_votes):
        fixed, local = draw.votes(votes, 1, _batch_variance)
        least = (local[:, kept] / variance[kept]).argmin(axis=1)
        table = np.bincount(fixed * len(kept) + least, minlength=factors * len(kept))
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
        ConfigError: If the sizes, the batch or a number of points is invalid.
        DataError: If `represent` does not return finite codes (m, d).

    >>> beta_vae_score(lambda f: f + 0.0, (3, 4), train_points=60, test_points=50).score
    1.0
    """
    draw = Draws(represent, factor_sizes, batch_size=batch_size, seed=seed, reference_stream=reference_stream)
    sets: list[tuple[Any, Integers]] = []
    for points in (train_points, test_points):
        fixed, gaps = draw.votes(points, 2, _batch_gap)
        if protocol == "reference":
            gaps = gaps.astype(np.float64)
            draw.spend_one()
        sets.append((gaps, fixed))
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


def _scales(scale: npt.ArrayLike | None, variables: int) -> Floats:
    values = np.asarray(0.0 if scale is None else scale, dtype=np.float64)
    if values.shape not in ((), (1,), (variables,)) or not np.isfinite(values).all() or (values < 0).any():
        raise ConfigError(
            f"scale must be the prior's standard deviation, a number or one for each of {variables} variables, "
            f"got {scale!r}"
        )
    return np.broadcast_to(values, (variables,))


def _batch_variance(batch: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Return the variance (b, d) over the first axis of (batch_size, b, d), with divisor batch_size."""
    centred = batch - _batch_mean(batch)
    return _batch_mean(np.square(centred, out=centred))


def _batch_gap(first: npt.NDArray[np.floating], second: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Return the mean distance (b, d) over the first axis of two arrays (batch_size, b, d)."""
    gap = first - second
    return _batch_mean(np.abs(gap, out=gap))


def _batch_mean(batch: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Return the mean (b, d) over the first axis of (batch_size, b, d), as one product with a row of weights."""
    weights = np.full(len(batch), 1 / len(batch), dtype=batch.dtype)
    return np.asarray((weights @ batch.reshape(len(batch), -1)).reshape(batch.shape[1:]))
