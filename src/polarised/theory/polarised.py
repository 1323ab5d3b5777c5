"""The statements of the papers on VAEs in a polarised regime, measured for each variable.

Two papers make the same statements: one for VAEs under N(0, I) [Bonheme2023BeMoreActive], one for identifiable VAEs
whose prior depends on u [Bonheme2023iVAE]. Here everything is relative to the prior, which covers both. Distributions
are compared by the Kolmogorov-Smirnov distance sup |F - G| and the Wasserstein-1 distance, the integral of |F - G|, in
standard deviations. q(z_j) is the mixture of the posteriors and known exactly, so no samples are drawn.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from polarised.errors import DataError
from polarised.regime import Encodings
from polarised.regime.evidence import count_ratios, two_states
from polarised.theory.correlation import gaussian_total_correlation

if TYPE_CHECKING:
    import polars

__all__ = [
    "Distances",
    "MeanStatement",
    "VarianceStatement",
    "correlation_gap",
    "mean_statement",
    "mixture_distance",
    "sample_distances",
    "statements",
    "states_of_inputs",
    "types_of_states",
    "variance_statement",
]

Array = NDArray[np.float64]
States = NDArray[np.int64]

ACTIVE, NEITHER, PASSIVE = 0, 1, 2
# The number of points at which distribution functions are compared, and of inputs behind them.
_POINTS, _INPUTS = 400, 2_000


class MeanStatement(NamedTuple):
    """The distance of the mean of each variable from the prior mean, and its variance, in prior scales; arrays (d,).

    Args:
        offset: |E[mean - prior mean]| in standard deviations of the prior.
        variance: Var(mean) divided by the prior's variance.
        prior_variance: The variance of the prior mean, divided by the prior variance; 0 if it is fixed.
    """

    offset: Array
    variance: Array
    prior_variance: Array


class VarianceStatement(NamedTuple):
    """E[r] and Var[r] of each variable over inputs, r the posterior over the prior variance; arrays (d,).

    Args:
        level: E[r].
        spread: Var[r].
    """

    level: Array
    spread: Array


class Distances(NamedTuple):
    """Distances of q(z_j) to three distributions; each (d,), Wasserstein ones in standard deviations.

    `noise`: N(0, 1), the distribution of eps_j; `prior`: p(z_j), averaged over u; `mean`: that of mean_j over inputs.

    Args:
        noise_ks: The largest gap between the distribution functions of z_j and of N(0, 1).
        noise_wasserstein: The Wasserstein-1 distance of z_j to N(0, 1).
        prior_ks: The largest gap to the prior.
        prior_wasserstein: The Wasserstein-1 distance to the prior.
        mean_ks: The largest gap to the distribution of the mean.
        mean_wasserstein: The Wasserstein-1 distance to the distribution of the mean.
    """

    noise_ks: Array
    noise_wasserstein: Array
    prior_ks: Array
    prior_wasserstein: Array
    mean_ks: Array
    mean_wasserstein: Array


def states_of_inputs(encodings: Encodings, *, alpha: float = 0.1) -> States:
    """Return whether each variable is active (0), passive (2) or neither (1) for each input, (n, d).

    passive: |r - 1| <= alpha and (mean - prior mean)^2 / prior variance <= alpha, so that z = eps; active: r <= alpha,
    so that z = mean  [Bonheme2023BeMoreActive, definition 1; Bonheme2023iVAE, proposition 1].

    Args:
        encodings: Mean and variance of q(z|x) with the prior.
        alpha: The threshold.

    Returns:
        The states, (n, d).

    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.5, 0.98]])
    >>> states_of_inputs(encodings).tolist()
    [[0, 2], [1, 2]]
    """
    ratios, shifts = _relative(encodings)
    passive = (np.abs(ratios - 1) <= alpha) & (shifts <= alpha)
    return np.where(ratios <= alpha, ACTIVE, np.where(passive, PASSIVE, NEITHER))


def types_of_states(states: States, *, tolerance: float = 0.02) -> tuple[str, ...]:
    """Return the type of each variable from its states over inputs: active, passive, mixed, or neither.

    active (passive): in this state for all inputs; mixed: active for some and passive for the others
    [Bonheme2023BeMoreActive, definition 2]. A variable that is weak for all
    inputs is neither: the definition does not cover it, while the rule of section 4 calls it mixed.

    Args:
        states: The states, (n, d), as returned by `states_of_inputs`.
        tolerance: The share of inputs that may be in another state.

    Returns:
        One type for each variable.

    >>> types_of_states(np.array([[0, 2, 0, 1], [0, 2, 2, 1]]))
    ('active', 'passive', 'mixed', 'neither')
    """
    shares = np.stack([(states == kind).mean(axis=0) for kind in (ACTIVE, NEITHER, PASSIVE)])
    most = 1 - tolerance
    kinds = [
        "active" if a >= most else "passive" if p >= most else "mixed" if n <= tolerance else "neither"
        for a, n, p in shares.T
    ]
    return tuple(kinds)


def mean_statement(encodings: Encodings) -> MeanStatement:
    """Return offset and variance of each mean, which are close to those of the prior mean for a passive variable.

    offset = |E[mean - prior mean]| / sqrt(E[prior variance]), variance = Var(mean) / E[prior variance], and the same
    for the prior mean, 0 if it is fixed. Passive: offset near 0, equal variances; active: a larger
    variance [Bonheme2023BeMoreActive, proposition 3; Bonheme2023iVAE, proposition 2].

    Args:
        encodings: Mean and variance of q(z|x) with the prior.

    Returns:
        The values for each variable.

    >>> encodings = Encodings([[1.0, 0.0], [-1.0, 0.0]], variance=[[0.02, 1.0], [0.02, 1.0]])
    >>> mean_statement(encodings).variance.tolist()
    [1.0, 0.0]
    """
    scale = _prior_variance(encodings).mean(axis=0)
    prior_mean = np.broadcast_to(encodings.prior_mean, encodings.mean.shape).astype(np.float64)
    offset = np.abs((encodings.mean - prior_mean).mean(axis=0)) / np.sqrt(scale)
    variances = encodings.mean.astype(np.float64).var(axis=0)
    return MeanStatement(offset, variances / scale, prior_mean.var(axis=0) / scale)


def variance_statement(encodings: Encodings) -> VarianceStatement:
    """Return E[r] and Var[r]: near 1 and 0 for passive, 0 and 0 for active, Var[r] larger for mixed variables.

    [Bonheme2023BeMoreActive, proposition 4; Bonheme2023iVAE, proposition 3]

    Args:
        encodings: Mean and variance of q(z|x) with the prior.

    Returns:
        The values for each variable.

    >>> variance_statement(Encodings([[1.0], [-1.0]], variance=[[0.5], [0.5]])).level.tolist()
    [0.5]
    """
    ratios, _ = _relative(encodings)
    return VarianceStatement(ratios.mean(axis=0), ratios.var(axis=0))


def sample_distances(encodings: Encodings) -> Distances:
    """Return the distances of the distribution of z_j from noise, from the prior and from mean_j.

    Passive: p(z_j) = p(eps_j), or p(z_j|u) for an identifiable VAE; active: p(z_j) = p(mean_j)
    [Bonheme2023BeMoreActive, theorem 5 (i), (ii); Bonheme2023iVAE, theorem 2].

    Args:
        encodings: Mean and variance of q(z|x) with the prior.

    Returns:
        The distances of each variable.

    >>> rng = np.random.default_rng(0)
    >>> mean = np.column_stack([rng.normal(size=900), np.zeros(900)])
    >>> found = sample_distances(Encodings(mean, variance=np.tile([0.001, 1.0], (900, 1))))
    >>> bool(found.mean_wasserstein[0] < 0.05 < found.mean_wasserstein[1]), bool(found.noise_ks[1] < 0.01)
    (True, True)
    """
    columns = [_distances(*_column(encodings, j)) for j in range(encodings.latents)]
    return Distances(*(np.array(values) for values in zip(*columns, strict=True)))


def mixture_distance(encodings: Encodings, variable: int) -> tuple[float, float]:
    """Return c and the Wasserstein-1 distance of z_j from c p(prior) + (1 - c) p(mean_j of the inputs where it is on).

    c is the share of inputs for which the variable is off, by Otsu's split of log r  [Bonheme2023BeMoreActive,
    theorem 5 (iii); Bonheme2023iVAE, theorem 2 (iii)].

    Args:
        encodings: Mean and variance of q(z|x) with the prior.
        variable: The index of the variable.

    Returns:
        The share c, and the distance in standard deviations of z_j.

    Raises:
        DataError: If the variable is on for all inputs, or for none.

    >>> rng = np.random.default_rng(0)
    >>> on = np.arange(900) % 3 == 0
    >>> mean, variance = np.where(on, rng.normal(size=900), 0.0), np.where(on, 0.001, 1.0)
    >>> c, distance = mixture_distance(Encodings(mean[:, None], variance=variance[:, None]), 0)
    >>> round(c, 2), distance < 0.05
    (0.67, True)
    """
    mean, variance, prior_mean, prior_variance = _column(encodings, variable)
    ratio = variance / prior_variance
    found = two_states(count_ratios(ratio[:, None]))
    c = float(1 - found.on[0])
    limit = np.sqrt(found.ratio_on[0] * found.ratio_off[0])
    on = ratio < limit
    if not 0 < on.mean() < 1:
        raise DataError(f"expected a variable that is on for some inputs and off for others, {variable} is not")
    points = _points(mean, variance)
    aggregate = _mixture(points, mean, variance)
    active = np.searchsorted(np.sort(mean[on]), points, side="right") / on.sum()
    gap = np.abs(aggregate - (c * _mixture(points, prior_mean, prior_variance) + (1 - c) * active))
    return c, float(np.trapezoid(gap, points) / np.sqrt(mean.var() + variance.mean()))


def correlation_gap(encodings: Encodings, variables: Sequence[int]) -> float:
    """Return |TC(mean) - TC(z)| of some variables, for Gaussians, in nats; 0 for fewer than two.

    Discrepancies between mean and sample can come only from variables that are not active [Bonheme2023BeMoreActive,
    corollary 6]: over active ones the gap is near 0. Equal marginals do not guarantee this: noise of share a shrinks
    every correlation by 1 - a, which matters for nearly dependent means.

    Args:
        encodings: Mean and variance of q(z|x) with the prior.
        variables: The indices of the variables.

    Returns:
        The gap in nats.

    >>> rng = np.random.default_rng(0)
    >>> mean = rng.normal(size=(900, 2))
    >>> correlation_gap(Encodings(mean, variance=np.full((900, 2), 0.01)), [0, 1]) < 0.01
    True
    """
    chosen = list(variables)
    if len(chosen) < 2:
        return 0.0
    covariance = np.cov(encodings.mean[:, chosen].astype(np.float64).T)
    noise = np.diag(encodings.variance[:, chosen].astype(np.float64).mean(axis=0))
    return abs(gaussian_total_correlation(covariance) - gaussian_total_correlation(covariance + noise))


def statements(encodings: Encodings, *, alpha: float = 0.1) -> "polars.DataFrame":
    """Return a row for each variable with the quantities of the definitions, propositions and theorems.

    Args:
        encodings: Mean and variance of q(z|x) with the prior.
        alpha: The threshold.

    Returns:
        The table.

    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> statements(encodings).columns[:4]
    ['variable', 'active_inputs', 'passive_inputs', 'mean_offset']
    """
    import polars

    states, mean = states_of_inputs(encodings, alpha=alpha), mean_statement(encodings)
    variance, distances = variance_statement(encodings), sample_distances(encodings)
    return polars.DataFrame(
        {
            "variable": np.arange(encodings.latents),
            "active_inputs": (states == ACTIVE).mean(axis=0),
            "passive_inputs": (states == PASSIVE).mean(axis=0),
            "mean_offset": mean.offset,
            "mean_variance": mean.variance,
            "variance_level": variance.level,
            "variance_spread": variance.spread,
            **distances._asdict(),
        }
    )


def _relative(encodings: Encodings) -> tuple[Array, Array]:
    scale = _prior_variance(encodings)
    shifts = np.square(encodings.mean - np.broadcast_to(encodings.prior_mean, encodings.mean.shape)) / scale
    return encodings.variance / scale, shifts


def _prior_variance(encodings: Encodings) -> Array:
    return np.broadcast_to(encodings.prior_variance, encodings.mean.shape).astype(np.float64)


def _column(encodings: Encodings, variable: int) -> tuple[Array, Array, Array, Array]:
    """Mean, variance and prior of one variable on a limited number of evenly spaced inputs."""
    step = max(len(encodings) // _INPUTS, 1)
    prior_mean, prior_variance = (
        np.broadcast_to(part, encodings.mean.shape) for part in (encodings.prior_mean, encodings.prior_variance)
    )
    tables = (encodings.mean, encodings.variance, prior_mean, prior_variance)
    mean, variance, centre, scale = (table[::step, variable].astype(np.float64) for table in tables)
    return mean, variance, centre, scale


def _points(mean: Array, variance: Array) -> Array:
    """Points that cover q(z_j), denser where it has more mass."""
    deviation = np.sqrt(variance)
    low, high = (mean - 5 * deviation).min(), (mean + 5 * deviation).max()
    width = max(high - low, 1e-12)
    dense = np.quantile(mean, np.linspace(0, 1, _POINTS // 2))
    return np.unique(np.concatenate([np.linspace(low - 0.01 * width, high + 0.01 * width, _POINTS // 2), dense]))


def _mixture(points: Array, mean: Array, variance: Array) -> Array:
    """The distribution function of the mixture of N(mean_i, variance_i) at some points."""
    if (mean == mean[0]).all() and (variance == variance[0]).all():
        # A prior that is the same for every input is a single component, evaluated once.
        mean, variance = mean[:1], variance[:1]
    deviation = np.sqrt(np.maximum(variance, 1e-300))
    values: Array = ndtr((points[:, None] - mean) / deviation).mean(axis=1)
    return values


def _distances(mean: Array, variance: Array, prior_mean: Array, prior_variance: Array) -> tuple[float, ...]:
    own = _points(mean, variance)
    wide = np.unique(np.concatenate([own, _points(prior_mean, prior_variance), np.linspace(-6, 6, _POINTS // 2)]))
    sample = _mixture(wide, mean, variance)
    prior = _mixture(wide, prior_mean, prior_variance)
    found: list[float] = []
    for other, scale in ((ndtr(wide), 1.0), (prior, np.sqrt(prior_mean.var() + prior_variance.mean()))):
        gap = np.abs(sample - other)
        found += [float(gap.max()), float(np.trapezoid(gap, wide) / scale)]
    # Its own points are among the wide ones.
    aggregate, ordered = sample[np.searchsorted(wide, own)], np.sort(mean)
    # A step function: its jump counts on both sides.
    sides = [np.searchsorted(ordered, own, side=side) / len(ordered) for side in ("left", "right")]
    gaps = [np.abs(aggregate - side) for side in sides]
    spread = np.sqrt(mean.var() + variance.mean())
    wasserstein = np.trapezoid(gaps[1], own) / spread if spread > 0 else 0.0
    return (*found, float(np.maximum(*gaps).max()), float(wasserstein))
