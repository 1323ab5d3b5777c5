"""How much the variables of a code share: scores that need no factors.

Each score takes codes; its ``..._from_covariance`` or ``..._from_matrix`` counterpart takes the covariance or the
information matrix, so that the scores of many subsets of variables cost one pass over the data. A constant variable
is independent of everything: it contributes nothing to any score. Exactly dependent variables have infinite total
correlation.
"""

from typing import Literal, overload

import numpy as np
import numpy.typing as npt

from polarised.errors import DataError
from polarised.metrics.covariance import (
    Floats,
    RankOf,
    checked_codes,
    covariance,
    effective_rank_from_covariance,
    total_correlation_bias,
    total_correlation_from_covariance,
    wasserstein_correlation_from_covariance,
)
from polarised.metrics.estimators import exact
from polarised.metrics.information import bin_codes, information_within, pointwise_information
from polarised.metrics.uncertainty import (
    Estimate,
    covariance_error,
    effective_rank_gradient,
    mean_error,
    total_correlation_gradient,
    wasserstein_gradient,
)
from polarised.random import stream
from polarised.registry import Output, register

__all__ = [
    "effective_rank",
    "hoyer",
    "index_information",
    "information_floor",
    "mutual_information",
    "mutual_information_from_matrix",
    "mutual_information_matrix",
    "total_correlation",
    "wasserstein_correlation",
]

InformationCorrection = Literal["none", "miller_madow", "permutation"]


def information_floor(inputs: int, *, bins: int = 20) -> float:
    """Return the mutual information estimated for independent variables: (bins - 1)^2 / 2n nats.

    Args:
        inputs: The number n of inputs.
        bins: The number of equal-width bins of each variable.

    Returns:
        The floor, in nats.

    >>> round(information_floor(10_000), 3)
    0.018
    """
    return (bins - 1) ** 2 / (2 * inputs)


@overload
def total_correlation(
    codes: npt.ArrayLike, *, correction: Literal["none", "gaussian"] = ..., errors: Literal[False] = ...
) -> float: ...
@overload
def total_correlation(
    codes: npt.ArrayLike, *, correction: Literal["none", "gaussian"] = ..., errors: Literal[True]
) -> Estimate: ...
@register(
    "metric",
    title="total correlation",
    unit="nats",
    reading="0 means the variables are uncorrelated; it grows without bound as they repeat each other "
    "(nats; 10 independent variables and 10,000 rows still show about 0.002).",
    references=("Locatello2019", "Bonheme2023BeMoreActive"),
)
def total_correlation(
    codes: npt.ArrayLike, *, correction: Literal["none", "gaussian"] = "none", errors: bool = False
) -> float | Estimate:
    """Return the Gaussian total correlation of the codes, 0 for uncorrelated variables.

    TC = (sum_j log C_jj - log det C) / 2.  [Locatello2019; Bonheme2023BeMoreActive, sec. 4]
    Ten independent variables and 10,000 rows still give about d (d - 1) / 4n = 0.002; ``correction="gaussian"``
    subtracts exactly this bias, so that the expectation is 0 (and values may be slightly negative); it needs n > d.

    Args:
        codes: Codes (n, d), one observation in each row.
        correction: "none", or "gaussian" to subtract the value of independent Gaussian variables.
        errors: Whether to return the standard error too.

    Returns:
        The total correlation in nats, with `errors` an `Estimate`; infinity if variables determine each other.

    Raises:
        DataError: If the codes are not finite numbers (n, d), or too few for the correction.

    >>> total_correlation([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    0.0
    """
    array = checked_codes(codes)
    matrix = covariance(array)
    value = total_correlation_from_covariance(matrix)
    if correction == "gaussian":
        varying = int((np.diag(matrix) > 0).sum())
        if len(array) <= varying:
            raise DataError(
                f"the correction needs more rows than varying variables, got {len(array)} rows and {varying}; "
                "encode more inputs"
            )
        value -= total_correlation_bias(varying, len(array))
    if not errors:
        return value
    known = np.isfinite(value)
    return Estimate(value, covariance_error(array, total_correlation_gradient(matrix)) if known else value)


@overload
def mutual_information(
    codes: npt.ArrayLike,
    *,
    bins: int = ...,
    correction: InformationCorrection = ...,
    errors: Literal[False] = ...,
    seed: int = ...,
) -> float: ...
@overload
def mutual_information(
    codes: npt.ArrayLike,
    *,
    bins: int = ...,
    correction: InformationCorrection = ...,
    errors: Literal[True],
    seed: int = ...,
) -> Estimate: ...
@register(
    "metric",
    title="mutual information",
    outputs=(
        Output(
            "mutual_information",
            unit="nats",
            reading="What two variables share on average, in nats; independent ones still show about 200/n, the floor "
            "of the 20 bins.",
        ),
        Output(
            "mutual_information_corrected",
            unit="nats",
            reading="Mutual information minus the floor of shuffled variables: zero means independent.",
            settings={"correction": "permutation"},
        ),
    ),
    references=("Locatello2019", "Bonheme2023BeMoreActive"),
    # Permutations are drawn by the index of a variable.
    tolerance=0.02,
)
def mutual_information(
    codes: npt.ArrayLike,
    *,
    bins: int = 20,
    correction: InformationCorrection = "none",
    errors: bool = False,
    seed: int = 0,
) -> float | Estimate:
    """Return the mutual information of two variables, averaged over all pairs, from equal-width bins.

    MI = sum_{i != j} I(b_i; b_j) / (d^2 - d), b the bin labels.  [Locatello2019; Bonheme2023BeMoreActive, sec. 4]
    The plug-in value of independent variables is about (bins - 1)^2 / 2n, not 0; see ``correction`` of
    :func:`mutual_information_matrix`. The error is for fixed bin edges.

    Args:
        codes: Codes (n, d), one observation in each row.
        bins: Number of equal-width bins of each variable.
        correction: "none", "miller_madow" or "permutation", see `mutual_information_matrix`.
        errors: Whether to return the standard error too.
        seed: Seed of the permutations.

    Returns:
        The average over pairs in nats, with `errors` an `Estimate`; 0 for a single variable.

    Raises:
        DataError: If the codes are not finite numbers (n, d).

    >>> round(mutual_information([[0.0, 1.0], [1.0, 0.0]], bins=2), 3)
    0.693
    """
    matrix = mutual_information_matrix(codes, bins=bins, correction=correction, seed=seed)
    value = mutual_information_from_matrix(matrix)
    if not errors:
        return value
    labels = bin_codes(codes, bins=bins)
    variables = labels.shape[1]
    if variables < 2:
        return Estimate(value, 0.0)
    influence = np.zeros(len(labels))
    for first in range(variables):
        for second in range(first):
            influence += pointwise_information(labels[:, first], labels[:, second])
    return Estimate(value, mean_error(influence / (variables * (variables - 1) / 2)))


def mutual_information_matrix(
    codes: npt.ArrayLike, *, bins: int = 20, correction: InformationCorrection = "none", seed: int = 0
) -> Floats:
    """Return the (d, d) mutual information of every pair of binned variables, with their entropies on the diagonal.

    I(b_i; b_j) = H(b_i) + H(b_j) - H(b_i, b_j) (plug-in). ``miller_madow`` adds (K - 1) / 2n to each entropy
    [Miller1955]; ``permutation`` subtracts the value after shuffling every variable (mean of 10 shuffles).

    Args:
        codes: Codes (n, d), one observation in each row.
        bins: Number of equal-width bins of each variable.
        correction: The correction of the bias: "none", "miller_madow" or "permutation".
        seed: Seed of the permutations.

    Returns:
        The matrix in nats.

    Raises:
        DataError: If the codes are not finite numbers (n, d).

    >>> mutual_information_matrix([[0.0, 1.0], [1.0, 1.0]], bins=2).round(3)
    array([[0.693, 0.   ],
           [0.   , 0.   ]])
    """
    labels = bin_codes(codes, bins=bins)
    if correction != "permutation":
        return information_within(labels, correction=correction)
    matrix = information_within(labels)
    floor = np.zeros_like(matrix)
    shuffles = 10
    for shuffle in range(shuffles):
        shuffled = stream(seed, "permutation floor", shuffle).permuted(labels, axis=0)
        floor += information_within(shuffled) / shuffles
    np.fill_diagonal(floor, 0.0)
    return matrix - floor


def mutual_information_from_matrix(matrix: npt.ArrayLike) -> float:
    """Return the average of an information matrix over ordered pairs of different variables; 0 for one variable.

    Args:
        matrix: The information (d, d) of every pair, as returned by `mutual_information_matrix`.

    Returns:
        The average in nats.

    Raises:
        DataError: If the matrix is not square.

    >>> mutual_information_from_matrix([[9.0, 1.0], [3.0, 9.0]])
    2.0
    """
    array = np.asarray(matrix, dtype=np.float64)
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise DataError(f"an information matrix must be square, got shape {array.shape}")
    pairs = len(array) * (len(array) - 1)
    return float((array.sum() - np.trace(array)) / pairs) if pairs else 0.0


@overload
def effective_rank(codes: npt.ArrayLike, *, of: RankOf = ..., errors: Literal[False] = ...) -> float: ...
@overload
def effective_rank(codes: npt.ArrayLike, *, of: RankOf = ..., errors: Literal[True]) -> Estimate: ...
@register(
    "metric",
    reading="How many directions the code uses: d if all vary equally, fewer as variance concentrates.",
    references=("Roy2007",),
)
def effective_rank(codes: npt.ArrayLike, *, of: RankOf = "covariance", errors: bool = False) -> float | Estimate:
    """Return how many directions the codes use, between 0 (constant) and d (equal variance in all directions).

    r = exp(-sum_k p_k log p_k).  [Roy2007] The authors' code takes p from the eigenvalues of the covariance (the
    default); the paper prints the singular values of the codes, for which p is proportional to standard deviations
    and r is larger; ``of="correlation"`` ignores the scale of the variables.

    Args:
        codes: Codes (n, d), one observation in each row.
        of: The source of the shares: "covariance", "codes" or "correlation".
        errors: Whether to return the standard error too.

    Returns:
        The effective rank, with `errors` an `Estimate`.

    Raises:
        DataError: If the codes are not finite numbers (n, d).

    >>> effective_rank([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    2.0
    """
    array = checked_codes(codes)
    matrix = covariance(array)
    value = effective_rank_from_covariance(matrix, of=of)
    if not errors:
        return value
    return Estimate(value, covariance_error(array, effective_rank_gradient(matrix, of=of)))


@overload
def wasserstein_correlation(codes: npt.ArrayLike, *, normalised: bool = ..., errors: Literal[False] = ...) -> float: ...
@overload
def wasserstein_correlation(codes: npt.ArrayLike, *, normalised: bool = ..., errors: Literal[True]) -> Estimate: ...
@register(
    "metric",
    title="Wasserstein correlation",
    outputs=(
        Output(
            "wasserstein_correlation",
            "Wasserstein correlation",
            reading="Squared distance from the code to the same without correlations, in squared units of the code; "
            "0 means uncorrelated, and variables of small variance have little effect.",
        ),
        Output(
            "wasserstein_correlation_normalised",
            "normalised Wasserstein correlation",
            reading="Wasserstein correlation as a share of the total variance, independent of units.",
            settings={"normalised": True},
        ),
    ),
    references=("Locatello2019",),
)
def wasserstein_correlation(
    codes: npt.ArrayLike, *, normalised: bool = False, errors: bool = False
) -> float | Estimate:
    """Return the squared Wasserstein distance between the Gaussian fit and the product of its marginals.

    W = 2 tr C - 2 tr (diag(C) C)^(1/2); normalised: W / tr C, independent of scale.  [Locatello2019]

    Args:
        codes: Codes (n, d), one observation in each row.
        normalised: Whether to divide by the total variance.
        errors: Whether to return the standard error too.

    Returns:
        The squared distance, with `errors` an `Estimate`.

    Raises:
        DataError: If the codes are not finite numbers (n, d).

    >>> wasserstein_correlation([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    0.0
    """
    array = checked_codes(codes)
    matrix = covariance(array)
    value = wasserstein_correlation_from_covariance(matrix, normalised=normalised)
    if not errors:
        return value
    gradient = wasserstein_gradient(matrix)
    trace = float(np.trace(matrix))
    if normalised and trace > 0:
        gradient = gradient / trace - value / trace * np.eye(len(matrix))
    return Estimate(value, covariance_error(array, gradient))


@overload
def hoyer(codes: npt.ArrayLike, *, normalised: bool = ..., errors: Literal[False] = ...) -> float: ...
@overload
def hoyer(codes: npt.ArrayLike, *, normalised: bool = ..., errors: Literal[True]) -> Estimate: ...
@register(
    "metric",
    title="sparsity (Hoyer)",
    reading="1 if every input uses a single variable, 0 if all are used equally (variables scaled to unit deviation).",
    references=("Hoyer2004", "Mathieu2019"),
)
def hoyer(codes: npt.ArrayLike, *, normalised: bool = True, errors: bool = False) -> float | Estimate:
    """Return the Hoyer sparsity of the codes: 1 if every code has one nonzero entry, 0 if all entries are equal.

    H(z) = (sqrt d - |z|_1 / |z|_2) / (sqrt d - 1), averaged over the rows.  [Hoyer2004; Mathieu2019, sec. 6.3]
    ``normalised`` first divides each variable by its unbiased standard deviation (no centring), as the authors'
    code does, so that a collapsed variable does not count as sparse. A constant variable is then excluded,
    a row of zeros counts 0, and a single variable has sparsity 0.

    Args:
        codes: Codes (n, d), one observation in each row.
        normalised: Whether to divide each variable by its standard deviation first.
        errors: Whether to return the standard error too.

    Returns:
        The sparsity between 0 and 1, with `errors` an `Estimate`.

    Raises:
        DataError: If the codes are not finite numbers (n, d).

    >>> hoyer([[0.0, 3.0], [2.0, 0.0]], normalised=False)
    1.0
    """
    array = checked_codes(codes)
    if normalised:
        varying = np.ptp(array, axis=0) > 0
        array = array[:, varying] / array[:, varying].std(axis=0, ddof=1)
    variables = array.shape[1]
    if variables < 2:
        return Estimate(0.0, 0.0) if errors else 0.0
    length = np.linalg.norm(array, axis=1)
    ratio = np.divide(np.abs(array).sum(axis=1), length, out=np.full(len(array), np.sqrt(variables)), where=length > 0)
    sparsity = (np.sqrt(variables) - ratio) / (np.sqrt(variables) - 1)
    return Estimate(float(sparsity.mean()), mean_error(sparsity)) if errors else float(sparsity.mean())


@overload
def index_information(
    mean: npt.ArrayLike, variance: npt.ArrayLike, *, rows: int = ..., errors: Literal[False] = ..., seed: int = ...
) -> float: ...
@overload
def index_information(
    mean: npt.ArrayLike, variance: npt.ArrayLike, *, rows: int = ..., errors: Literal[True], seed: int = ...
) -> Estimate: ...
@register(
    "metric",
    title="information about the input",
    unit="nats",
    reading="Information I(x; z) in nats: 0 if all posteriors overlap completely, at most log n if none do.",
    needs=("posterior",),
    references=("Mathieu2019",),
)
def index_information(
    mean: npt.ArrayLike, variance: npt.ArrayLike, *, rows: int = 1000, errors: bool = False, seed: int = 0
) -> float | Estimate:
    """Return I(x; z), the information of a code about its input: 0 if all posteriors overlap, log n if none do.

    I = mean_i ( log q(z_i | x_i) - log (1/n) sum_j q(z_i | x_j) ), one sample z_i for each of ``rows`` inputs against
    all n.  [Mathieu2019, sec. 3.1]

    Args:
        mean: Posterior means (n, d).
        variance: Posterior variances (n, d).
        rows: Number of inputs to sample.
        errors: Whether to return the standard error too.
        seed: Seed of the samples.

    Returns:
        The information in nats, with `errors` an `Estimate`.

    Raises:
        DataError: If the variance is not positive or differs in shape from the means.

    >>> index_information([[0.0], [0.0]], [[1.0], [1.0]])
    0.0
    """
    centres, variances = checked_codes(mean, name="mean"), checked_codes(variance, name="variance")
    if centres.shape != variances.shape or (variances <= 0).any():
        raise DataError(
            f"variance must be positive and have the shape {centres.shape} of the means, got {variances.shape} "
            f"with smallest {variances.min():g}; pass the variance, not its logarithm"
        )
    noise = stream(seed, "overlap").normal(size=centres.shape)
    samples = centres + np.sqrt(variances) * noise
    found = exact(samples, centres, variances, rows=rows, seed=seed)
    if not errors:
        return max(0.0, found.information)
    own = found.log_own - found.log_density
    return Estimate(max(0.0, found.information), mean_error(own))
