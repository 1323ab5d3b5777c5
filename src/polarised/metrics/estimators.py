"""Total correlation of the aggregate posterior from mini-batches, by all published weightings, and their bias.

With l_ijd = log q(z_id | x_j) and weights W: log q(z_i) = logsumexp_j (log W_ij + sum_d l_ijd) and
log q(z_id) = logsumexp_j (log W_ij + l_ijd). For any W, information + total correlation + dimension-wise KL is
the sampled rate. No weighting is unbiased for the logarithm: see :mod:`polarised.metrics.estimators`.
"""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from polarised.errors import ConfigError, DataError
from polarised.metrics.covariance import Floats, Integers, checked_codes, total_correlation_from_covariance
from polarised.random import seed_for, stream
from polarised.regime.encodings import Estimator, importance_weights, log_densities_by_variable
from polarised.registry import register

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "density_ratio",
    "entropy_bias",
    "eq10b",
    "equicorrelated",
    "exact",
    "mss0",
    "mss1",
    "mws",
    "total_correlation_bias_curve",
]

# Size of one block of pairwise log densities: about 64 MB.
_BLOCK = 8_000_000


class RateEstimate(NamedTuple):
    """The three parts of the rate, averaged over rows, and the log densities (n,) behind them.

    ``log_density`` is log q(z), ``log_product`` sum_d log q(z_d), ``log_own`` log q(z | x).

    Args:
        total_correlation: Total correlation in nats.
        information: Information about the input in nats.
        dimension_wise_kl: KL of each variable to the prior, summed, in nats.
        log_density: log q(z) of each row.
        log_product: sum_d log q(z_d) of each row.
        log_own: log q(z | x) of each row.
    """

    total_correlation: float
    information: float
    dimension_wise_kl: float
    log_density: Floats
    log_product: Floats
    log_own: Floats


@register(
    "estimator",
    title="minibatch-weighted sampling",
    needs=("posterior",),
    references=("Chen2018",),
    example={"dataset_size": 240},
)
def mws(z: npt.ArrayLike, mean: npt.ArrayLike, variance: npt.ArrayLike, *, dataset_size: int) -> RateEstimate:
    """Return the parts of the rate by minibatch-weighted sampling.

    W_ij = 1 / (N B).  [Chen2018, app. C.1] Its total correlation is too large by about (D - 1) log N.

    Args:
        z: Samples (n, d) of the posteriors.
        mean: Posterior means (n, d).
        variance: Posterior variances (n, d).
        dataset_size: Number of inputs from which the batch was drawn.

    Returns:
        The three parts in nats, with the log densities behind them.

    Raises:
        DataError: If the arrays differ in shape, or a variance is not positive.
        ConfigError: If the dataset is smaller than the batch.

    >>> round(mws([[0.0], [1.0]], [[0.0], [1.0]], [[1.0], [1.0]], dataset_size=10).total_correlation, 6)
    0.0
    """
    rows = _checked(z, mean, variance, dataset_size)
    return decompose(*rows, [importance_weights(len(rows[0]), dataset_size, estimator="mws")])[0]


@register(
    "estimator",
    title="minibatch-stratified sampling, as released",
    needs=("posterior",),
    references=("Chen2018", "Cheng2021"),
    example={"dataset_size": 240},
)
def mss0(z: npt.ArrayLike, mean: npt.ArrayLike, variance: npt.ArrayLike, *, dataset_size: int) -> RateEstimate:
    """Return the parts of the rate by minibatch-stratified sampling as released, with its misplaced weights.

    W = 1/M, column 0 = 1/N, column 1 = s, entry (M-1, 0) = s, M = B - 1, s = (N - M) / (N M): the stride is one too
    short and runs down columns instead of diagonals.  [Chen2018, app. C.2 (released code); Cheng2021, sec. 5 and
    appendix]

    Args:
        z: Samples (n, d) of the posteriors.
        mean: Posterior means (n, d).
        variance: Posterior variances (n, d).
        dataset_size: Number of inputs from which the batch was drawn.

    Returns:
        The three parts in nats, with the log densities behind them.

    Raises:
        DataError: If the arrays differ in shape, or a variance is not positive.
        ConfigError: If the dataset is smaller than the batch.

    >>> round(mss0([[0.0], [1.0]], [[0.0], [1.0]], [[1.0], [1.0]], dataset_size=10).total_correlation, 6)
    0.0
    """
    rows = _checked(z, mean, variance, dataset_size)
    return decompose(*rows, [importance_weights(len(rows[0]), dataset_size, estimator="mss0")])[0]


@register(
    "estimator",
    title="minibatch-stratified sampling",
    needs=("posterior",),
    references=("Chen2018", "Cheng2021"),
    example={"dataset_size": 240},
)
def mss1(z: npt.ArrayLike, mean: npt.ArrayLike, variance: npt.ArrayLike, *, dataset_size: int) -> RateEstimate:
    """Return the parts of the rate by minibatch-stratified sampling as intended.

    W = 1/M, W_ii = 1/N, W_i,i+1 = s (cyclic), M = B - 1, s = (N - M) / (N M): unbiased for q(z).
    [Cheng2021, sec. 5 and appendix]

    Args:
        z: Samples (n, d) of the posteriors.
        mean: Posterior means (n, d).
        variance: Posterior variances (n, d).
        dataset_size: Number of inputs from which the batch was drawn.

    Returns:
        The three parts in nats, with the log densities behind them.

    Raises:
        DataError: If the arrays differ in shape, or a variance is not positive.
        ConfigError: If the dataset is smaller than the batch.

    >>> round(mss1([[0.0], [1.0]], [[0.0], [1.0]], [[1.0], [1.0]], dataset_size=10).total_correlation, 6)
    0.0
    """
    rows = _checked(z, mean, variance, dataset_size)
    return decompose(*rows, [importance_weights(len(rows[0]), dataset_size, estimator="mss1")])[0]


@register(
    "estimator",
    title="even weights (equation 10b)",
    needs=("posterior",),
    references=("Mathieu2019",),
    example={"dataset_size": 240},
)
def eq10b(z: npt.ArrayLike, mean: npt.ArrayLike, variance: npt.ArrayLike, *, dataset_size: int) -> RateEstimate:
    """Return the parts of the rate with the equally weighted unbiased estimate of q(z).

    W_ii = 1/N, W_ij = (N - 1) / (N (B - 1)).  [Mathieu2019, eq. 10b]

    Args:
        z: Samples (n, d) of the posteriors.
        mean: Posterior means (n, d).
        variance: Posterior variances (n, d).
        dataset_size: Number of inputs from which the batch was drawn.

    Returns:
        The three parts in nats, with the log densities behind them.

    Raises:
        DataError: If the arrays differ in shape, or a variance is not positive.
        ConfigError: If the dataset is smaller than the batch.

    >>> round(eq10b([[0.0], [1.0]], [[0.0], [1.0]], [[1.0], [1.0]], dataset_size=10).total_correlation, 6)
    0.0
    """
    rows = _checked(z, mean, variance, dataset_size)
    return decompose(*rows, [importance_weights(len(rows[0]), dataset_size, estimator="eq10b")])[0]


@register(
    "estimator",
    title="whole aggregate posterior",
    needs=("posterior",),
    references=("Chen2018",),
)
def exact(
    z: npt.ArrayLike, mean: npt.ArrayLike, variance: npt.ArrayLike, *, rows: int | None = None, seed: int = 0
) -> RateEstimate:
    """Return the parts of the rate with the whole aggregate posterior (1/n) sum_j q(z | x_j), unweighted and unbiased.

    ``z`` are the samples of the same n inputs; for large sets, ``rows`` sets how many of them to draw and evaluate: the
    cost is rows x n x d.  [Chen2018, app. B]

    Args:
        z: Samples (n, d) of the posteriors.
        mean: Posterior means (n, d).
        variance: Posterior variances (n, d).
        rows: Number of samples to evaluate; all by default.
        seed: Seed of their choice.

    Returns:
        The three parts in nats, with the log densities behind them.

    Raises:
        DataError: If the arrays differ in shape, or a variance is not positive.
        ConfigError: If `rows` is below 1.

    >>> round(exact([[0.0], [1.0]], [[0.0], [1.0]], [[1.0], [1.0]]).total_correlation, 6)
    0.0
    """
    samples, centres, variances = _checked(z, mean, variance, None)
    chosen = np.arange(len(samples))
    if rows is not None and rows < len(samples):
        if rows < 1:
            raise ConfigError(f"rows must be at least 1, got {rows}")
        chosen = np.sort(stream(seed, "aggregate posterior").choice(len(samples), size=rows, replace=False))
    even = np.full((1, len(samples)), 1 / len(samples))
    return decompose(samples, centres, variances, [even], chosen)[0]


@register(
    "estimator",
    title="density ratio of a critic",
    references=("Kim2018",),
)
def density_ratio(
    z: npt.ArrayLike,
    *,
    hidden: tuple[int, ...] = (100, 100),
    iterations: int = 200,
    held_out: bool = True,
    seed: int = 0,
) -> float:
    """Return the total correlation of samples from a classifier that separates them from shuffled samples.

    TC = E_z[ log D(z) / (1 - D(z)) ], D the probability that z is real rather than shuffled in each variable over rows.
    [Kim2018, eq. 3] The critic, a small network, is trained on one half of the rows and evaluated on the other, and
    vice versa, so that it is never evaluated on its training rows. Dependence that it does not learn is missing, and
    overfitting counts against it: expect a value below the truth, or below 0 for few rows.

    Args:
        z: Samples (n, d).
        hidden: Widths of the critic's hidden layers.
        iterations: Maximum number of passes over the rows.
        held_out: Whether each critic is evaluated on unseen rows; otherwise on its training rows.
        seed: Seed of the shuffles and the critic.

    Returns:
        The estimate in nats; 0 for a single variable.

    Raises:
        DataError: If there are fewer than 20 rows.

    >>> z = np.random.default_rng(0).normal(size=(1000, 2))
    >>> z[:, 1] = 0.95 * z[:, 0] + 0.3 * z[:, 1]
    >>> density_ratio(z, hidden=(30,)) > 0.5
    True
    """
    unseen, learnt = density_ratios(z, hidden=hidden, iterations=iterations, seed=seed)
    return unseen if held_out else learnt


def density_ratios(
    z: npt.ArrayLike, *, hidden: tuple[int, ...] = (100, 100), iterations: int = 200, seed: int = 0
) -> tuple[float, float]:
    """Return `density_ratio` on unseen rows and on training rows, from the same critics.

    Args:
        z: Samples (n, d).
        hidden: Widths of the critics' hidden layers.
        iterations: Maximum number of passes over the rows.
        seed: Seed of the shuffles and the critics.

    Returns:
        The estimate with ``held_out=True``, and that with ``held_out=False``.

    Raises:
        DataError: If there are fewer than 20 rows.

    >>> z = np.random.default_rng(0).normal(size=(60, 2))
    >>> density_ratios(z, hidden=(3,)) == (density_ratio(z, hidden=(3,)), density_ratio(z, hidden=(3,), held_out=False))
    True
    """
    array = checked_codes(z, name="z")
    if array.shape[1] < 2:
        return 0.0, 0.0
    if len(array) < 20:
        raise DataError(f"expected at least 20 rows to train a critic, got {len(array)}; pass more")
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    scale = array.std(axis=0)
    array = (array - array.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    halves = np.array_split(array[stream(seed, "halves").permutation(len(array))], 2)
    ratios: tuple[list[Floats], list[Floats]] = ([], [])
    for turn, (learnt, read) in enumerate([(halves[0], halves[1]), (halves[1], halves[0])]):
        # With several shuffles per row the critic learns more of the product distribution.
        shuffled = [stream(seed, "shuffle", 4 * turn + k).permuted(learnt, axis=0) for k in range(4)]
        critic = MLPClassifier(
            hidden,
            alpha=1e-3,
            early_stopping=True,
            max_iter=iterations,
            random_state=seed_for(seed, "critic", turn) % 2**32,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            critic.fit(np.concatenate([*[learnt] * 4, *shuffled]), np.repeat([1, 0], 4 * len(learnt)))
        for found, rows in zip(ratios, (read, learnt), strict=True):
            chance = np.clip(critic.predict_proba(rows)[:, 1], 1e-9, 1 - 1e-9)
            found.append(np.log(chance / (1 - chance)))
    unseen, seen = (float(np.concatenate(found).mean()) for found in ratios)
    return unseen, seen


def _checked(
    z: npt.ArrayLike, mean: npt.ArrayLike, variance: npt.ArrayLike, dataset_size: int | None
) -> tuple[Floats, Floats, Floats]:
    samples = checked_codes(z, name="z")
    centres, variances = checked_codes(mean, name="mean"), checked_codes(variance, name="variance")
    if not samples.shape == centres.shape == variances.shape:
        raise DataError(
            f"z, mean and variance must have one shape (n, d), got {samples.shape}, {centres.shape}, {variances.shape}"
        )
    if (variances <= 0).any():
        raise DataError("variance must be positive, got entries <= 0; pass the variance, not its logarithm")
    if dataset_size is not None and dataset_size < len(samples):
        raise ConfigError(f"dataset_size must be at least the {len(samples)} rows of the batch, got {dataset_size}")
    return samples, centres, variances


def decompose(
    samples: Floats, centres: Floats, variances: Floats, weightings: list[Floats], chosen: Integers | None = None
) -> list[RateEstimate]:
    """Return the parts of the rate under several weightings at the cost of one: they share the exponentials.

    Args:
        samples: Samples (n, d).
        centres: Posterior means (n, d).
        variances: Posterior variances (n, d).
        weightings: Weights (n, n), or (1, n) if all rows have the same.
        chosen: Rows to evaluate; all by default.

    Returns:
        One result for each weighting.

    >>> rows = np.zeros((2, 1)), np.zeros((2, 1)), np.ones((2, 1))
    >>> decompose(*rows, [importance_weights(2, 2, estimator="mss1")])[0].total_correlation
    0.0
    """
    chosen = np.arange(len(samples)) if chosen is None else chosen
    logs = np.empty((len(weightings), 2, len(chosen)))
    block = max(1, _BLOCK // samples.size)
    for start in range(0, len(chosen), block):
        part = slice(start, start + block)
        pairs = log_densities_by_variable(samples[chosen[part]], centres, variances)
        joint, joint_top = _scaled_exponential(pairs.sum(axis=2))
        single, single_top = _scaled_exponential(pairs)
        for index, weights in enumerate(weightings):
            rows = weights if len(weights) == 1 else weights[chosen[part]]
            logs[index, 0, part] = np.log((rows * joint).sum(axis=1)) + joint_top[:, 0]
            summed = np.matmul(np.broadcast_to(rows, joint.shape)[:, None, :], single)[:, 0]
            logs[index, 1, part] = (np.log(summed) + single_top[:, 0]).sum(axis=1)
    own = samples[chosen], centres[chosen], variances[chosen]
    return [_parts(*own, joint, product) for joint, product in logs]


def _scaled_exponential(logs: Floats) -> tuple[Floats, Floats]:
    top = logs.max(axis=1, keepdims=True)
    return np.exp(logs - top), top


def _parts(samples: Floats, centres: Floats, variances: Floats, joint: Floats, product: Floats) -> RateEstimate:
    own = -0.5 * ((samples - centres) ** 2 / variances + np.log(2 * np.pi * variances)).sum(axis=1)
    prior = -0.5 * (samples**2 + np.log(2 * np.pi)).sum(axis=1)
    return RateEstimate(
        total_correlation=float((joint - product).mean()) if samples.shape[1] > 1 else 0.0,
        information=float((own - joint).mean()),
        dimension_wise_kl=float((product - prior).mean()),
        log_density=joint,
        log_product=product,
        log_own=own,
    )


def equicorrelated(variables: int, determinant: float) -> Floats:
    """Return the correlation matrix with one common correlation and the given determinant.

    det = (1 - r)^(D-1) (1 + (D-1) r), solved for r in [0, 1).

    Args:
        variables: Number of variables.
        determinant: The determinant, in (0, 1].

    Returns:
        The matrix (d, d).

    Raises:
        ConfigError: If the determinant is not in (0, 1].

    >>> round(float(np.linalg.det(equicorrelated(4, 0.25))), 6)
    0.25
    """
    if not 0 < determinant <= 1:
        raise ConfigError(f"determinant must be in (0, 1], got {determinant}")
    from scipy.optimize import brentq

    def excess(r: float) -> float:
        return (variables - 1) * float(np.log1p(-r)) + float(np.log1p((variables - 1) * r)) - float(np.log(determinant))

    share = 0.0 if determinant == 1 or variables == 1 else float(brentq(excess, 0.0, 1 - 1e-12))
    return np.full((variables, variables), share) + (1 - share) * np.eye(variables)


def total_correlation_bias_curve(
    *,
    variables: Sequence[int] = (2, 4, 6, 10),
    determinants: Sequence[float] = (0.001, 0.1, 0.25, 0.5, 0.75, 1.0),
    batch_size: int = 500,
    dataset_size: int = 50_000,
    batches: int = 4,
    noise: float = 0.1,
    seed: int = 0,
) -> "pl.DataFrame":
    """Return the total correlation by every weighting, with the truth, for Gaussian means of increasing correlation.

    mean ~ N(0, S), S equicorrelated, z = mean + noise * e, so z ~ N(0, S + noise^2 I) exactly.  [Cheng2021, fig. 2]
    Columns: variables, determinant, truth, mws, mss0, mss1, eq10b.

    Args:
        variables: Numbers of variables.
        determinants: Determinants of the correlation matrix.
        batch_size: Number of rows in a batch.
        dataset_size: Number of inputs from which the batches are drawn.
        batches: Number of batches to average over.
        noise: Standard deviation of the posteriors.
        seed: Seed of the random draws.

    Returns:
        One row for each number of variables and determinant.

    >>> total_correlation_bias_curve(variables=[2], determinants=[1.0], batch_size=20, batches=1).columns
    ['variables', 'determinant', 'truth', 'mws', 'mss0', 'mss1', 'eq10b']
    """
    import polars as pl

    rows = []
    kinds: tuple[Estimator, ...] = ("mws", "mss0", "mss1", "eq10b")
    weightings = [importance_weights(batch_size, dataset_size, estimator=kind) for kind in kinds]
    for count in variables:
        for step, determinant in enumerate(determinants):
            matrix = equicorrelated(count, determinant)
            root = np.linalg.cholesky(matrix + 1e-14 * np.eye(count))
            totals = np.zeros(4)
            for batch in range(batches):
                generator = stream(seed, f"bias {count}", step * batches + batch)
                mean = generator.normal(size=(batch_size, count)) @ root.T
                z = mean + noise * generator.normal(size=mean.shape)
                variance = np.full_like(mean, noise**2)
                totals += [part.total_correlation for part in decompose(z, mean, variance, weightings)]
            truth = total_correlation_from_covariance(matrix + noise**2 * np.eye(count))
            rows.append((count, float(determinant), truth, *(totals / batches).tolist()))
    names = ["variables", "determinant", "truth", "mws", "mss0", "mss1", "eq10b"]
    return pl.DataFrame(rows, schema=names, orient="row")


def entropy_bias(
    *,
    variables: Sequence[int] = (2, 5, 10),
    batch_sizes: Sequence[int] = (16, 64, 256, 1024),
    dataset_size: int = 20_000,
    deviation: float = 0.3,
    rows: int = 500,
    seed: int = 0,
) -> "pl.DataFrame":
    """Return the estimated entropy of the aggregate posterior by batch size, with the truth and its limit.

    H^ = -mean log q^(z), q^ as in eq. 10b; small batches give about log n + H[q(z|x)], so the estimate of KL(q(z) || p)
    behaves like the rate minus log n.  [Mathieu2019, app. C] Means ~ N(0, I); the exact entropy uses ``rows`` samples.
    Columns: variables, batch_size, entropy, estimate, limit.

    Args:
        variables: Numbers of variables.
        batch_sizes: Numbers of rows in a batch.
        dataset_size: Number of posteriors.
        deviation: Standard deviation of the posteriors.
        rows: Number of samples for the exact entropy.
        seed: Seed of the random draws.

    Returns:
        One row for each number of variables and batch size.

    >>> entropy_bias(variables=[2], batch_sizes=[16], dataset_size=200, rows=50).columns
    ['variables', 'batch_size', 'entropy', 'estimate', 'limit']
    """
    import polars as pl

    table = []
    for count in variables:
        generator = stream(seed, f"entropy {count}")
        mean = generator.normal(size=(dataset_size, count))
        z = mean + deviation * generator.normal(size=mean.shape)
        variance = np.full_like(mean, deviation**2)
        entropy = -float(exact(z, mean, variance, rows=rows, seed=seed).log_density.mean())
        limit = float(np.log(dataset_size)) + 0.5 * count * float(np.log(2 * np.pi * np.e * deviation**2))
        for size in batch_sizes:
            repeats = max(1, 2048 // size)
            found = []
            for _ in range(repeats):
                chosen = generator.choice(dataset_size, size=size, replace=False)
                part = eq10b(z[chosen], mean[chosen], variance[chosen], dataset_size=dataset_size)
                found.append(-part.log_density.mean())
            table.append((count, size, entropy, float(np.mean(found)), limit))
    return pl.DataFrame(table, schema=["variables", "batch_size", "entropy", "estimate", "limit"], orient="row")
