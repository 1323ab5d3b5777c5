"""How wrong the mini-batch estimators are, as tables: the bias curves of two papers on codes whose truth is known."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from polarised.errors import ConfigError
from polarised.metrics.estimators import (
    decompose,
    eq10b,
    eq10b_weights,
    exact,
    mss0_weights,
    mss1_weights,
    mws_weights,
)
from polarised.metrics.gaussian import total_correlation_of
from polarised.metrics.inputs import Floats
from polarised.randomness import stream

if TYPE_CHECKING:
    import polars as pl

__all__ = ["entropy_bias", "equicorrelated", "total_correlation_bias_curve"]


def equicorrelated(variables: int, determinant: float) -> Floats:
    """Return the correlation matrix with one common correlation and the given determinant.

    det = (1 - r)^(D-1) (1 + (D-1) r), solved for r in [0, 1).

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
    """Return the total correlation by every weighting beside the truth, for Gaussian means of growing correlation.

    mean ~ N(0, S), S equicorrelated, z = mean + noise * e, so z ~ N(0, S + noise^2 I) exactly.  [Cheng2021, fig. 2]
    Columns: variables, determinant, truth, mws, mss0, mss1, eq10b.

    >>> total_correlation_bias_curve(variables=[2], determinants=[1.0], batch_size=20, batches=1).columns
    ['variables', 'determinant', 'truth', 'mws', 'mss0', 'mss1', 'eq10b']
    """
    import polars as pl

    rows = []
    kinds = (mws_weights, mss0_weights, mss1_weights, eq10b_weights)
    weightings = [weights(batch_size, dataset_size) for weights in kinds]
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
            truth = total_correlation_of(matrix + noise**2 * np.eye(count))
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
    """Return the estimated entropy of the aggregate posterior by batch size, between its truth and its limit.

    H^ = -mean log q^(z), q^ as in eq. 10b; small batches give about log n + H[q(z|x)], so the estimate of KL(q(z) || p)
    acts like the rate minus log n.  [Mathieu2019, app. C] Means ~ N(0, I); the exact entropy is over ``rows`` samples.
    Columns: variables, batch_size, entropy, estimate, limit.

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
