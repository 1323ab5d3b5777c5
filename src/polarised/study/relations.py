"""Statements of the papers about several variables, measured on a trained model: critics, carriers of factors, modes,
the optimum of a posterior, the components of a mixture, and estimates from batches.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import polars
from numpy.typing import NDArray

from polarised.data.dataset import Dataset
from polarised.errors import DataError
from polarised.metrics import (
    beta_vae_score,
    correlation,
    dci,
    disintegration,
    mutual_information_matrix,
)
from polarised.random import seed_for, stream
from polarised.regime import Encodings, classify
from polarised.regime.encodings import log_densities
from polarised.registry import Output, register
from polarised.study.further import MeanCodes, Measured
from polarised.study.statements import SCHEMA, Row

if TYPE_CHECKING:
    from polarised.models import VAE

__all__ = [
    "component_mass",
    "critic_dependence",
    "disentanglement",
    "entropy_estimates",
    "factor_carriers",
    "posterior_optimum",
]

Array = NDArray[np.float64]
# A pair is uncorrelated below the first and dependent above the second, in nats [Cheng2021, figures 14 and 15].
UNCORRELATED, DEPENDENT = 0.1, 0.05


@register(
    "measure",
    title="dependence of all variables at once",
    outputs=(
        Output("critic_total_correlation", "total correlation by a critic", unit="nats"),
        Output("critic_training_excess", "total correlation by a critic, rows it learnt minus others", unit="nats"),
        Output("largest_pair_correlation", "largest correlation of a pair"),
        Output("uncorrelated_dependent_pairs", "pairs that are uncorrelated and dependent"),
    ),
    references=("Kim2018", "Cheng2021"),
)
def critic_dependence(
    vae: "VAE", dataset: Dataset, encodings: Encodings, seed: int, *, inputs: int = 2_000
) -> polars.DataFrame:
    """Measure total correlation by a critic on held-out data, and pairs that are dependent although uncorrelated.

    A pair is uncorrelated below |r| = 0.1 and dependent above 0.05 nats of mutual information, minus that of shuffled
    variables [Cheng2021, figures 14 and 15]. critic_training_excess is their estimate on the means they
    were trained on, minus that on held-out means.

    Args:
        vae: The trained model.
        dataset: The dataset it was trained on.
        encodings: The encodings of the run.
        seed: Random seed.
        inputs: The number of inputs.

    Returns:
        Rows of the tidy table.
    """
    from polarised.metrics.estimators import density_ratios

    rows: list[Row] = []
    for representation, codes in (("mean", encodings.mean), ("sampled", encodings.sample(seed=seed))):
        some = codes[:inputs].astype(np.float64)
        pairs = np.triu_indices(some.shape[1], 1)
        size = np.abs(correlation(some))[pairs]
        information = mutual_information_matrix(some, correction="permutation", seed=seed)[pairs]
        unseen, learnt = density_ratios(some, seed=seed)
        found = {
            "critic_total_correlation": unseen,
            "largest_pair_correlation": float(size.max(initial=0.0)),
            "uncorrelated_dependent_pairs": float(((size < UNCORRELATED) & (information > DEPENDENT)).sum()),
        }
        if representation == "mean":
            found["critic_training_excess"] = learnt - unseen
        rows += [(None, metric, representation, "full", value, None) for metric, value in found.items()]
    return polars.DataFrame(rows, schema=SCHEMA, orient="row")


@register(
    "measure",
    title="variables that carry a factor",
    outputs=(
        Output("largest_r2_gap", "largest gap of the two best R²"),
        Output("small_gaps_r2", "factors whose second carrier has half the R² of the first"),
        Output("small_gaps_nmi", "factors whose second carrier has half the information of the first"),
        Output("disintegrated_gap", "gap of the two best R², disintegrated factors"),
        Output("whole_gap", "gap of the two best R², factors with one carrier"),
        Output("dependent_carriers", "factors with two carriers that are uncorrelated and dependent"),
        Output("carrier_parts_excess", "share of a carrier's change in its best half of the values, above chance"),
        Output("modes", "modes of a mean"),
    ),
    needs=("factors",),
    references=("Cheng2021",),
)
def factor_carriers(
    vae: "VAE", dataset: Dataset, encodings: Encodings, seed: int, *, threshold: float = 0.1, inputs: int = 5_000
) -> polars.DataFrame:
    """Measure the variables that carry a factor: their gaps, their dependence, and the part of the factor each covers.

    A variable that is not passive carries a factor if its R^2 or normalised mutual information is at least `threshold`
    [Cheng2021, sections 6.3 and 6.4]. A gap is small if the second carrier has at least half the score of the first.
    A carrier changes by |E[z | v + 1] - E[z | v]|^2 from a value of its factor to the next; carrier_parts_excess is the
    share of that in the best contiguous half of the values, on a circle, minus that with changes in random
    order, averaged over the carriers of factors that have several. Modes are peaks of a kernel density that rise by a
    fifth of the highest.

    Args:
        vae: The trained model.
        dataset: The dataset it was trained on.
        encodings: The encodings of the run.
        seed: Random seed.
        threshold: Smallest R^2 or information of a variable that represents a factor.
        inputs: The largest number of inputs.

    Returns:
        Rows of the tidy table; modes have one row per alive variable.

    Raises:
        DataError: If the dataset has no factors.
    """
    if encodings.factors is None:
        raise DataError(f"factor_carriers needs a dataset with factors, but {dataset.name} has none; leave it out")
    codes, factors = encodings.mean[:inputs].astype(np.float64), encodings.factors[:inputs]
    used = classify(encodings, seed=seed).alive
    by_r2 = disintegration(codes, factors, measure="r2", threshold=threshold, used=used, seed=seed)
    by_nmi = disintegration(codes, factors, measure="nmi", threshold=threshold, used=used, seed=seed)
    found: dict[str, float] = {
        "largest_r2_gap": float(by_r2["gap"].max()),  # type: ignore[arg-type]
        "small_gaps_r2": float(_small_gaps(by_r2)),
        "small_gaps_nmi": float(_small_gaps(by_nmi)),
        "dependent_carriers": float(_dependent(codes, by_nmi["variables"].to_list(), seed)),
    }
    for name, disintegrated in (("disintegrated_gap", True), ("whole_gap", False)):
        own = by_r2.filter((polars.col("disintegrated") == disintegrated) & (polars.col("variables").list.len() > 0))
        if len(own):
            found[name] = float(own["gap"].mean())  # type: ignore[arg-type]
    several = [(j, k) for k, own in enumerate(by_nmi["variables"].to_list()) if len(own) > 1 for j in own]
    if several:
        parts = [_excess_in_half(codes[:, j], factors[:, k], stream(seed, "parts", j)) for j, k in several]
        found["carrier_parts_excess"] = float(np.mean(parts))
    rows: list[Row] = [(None, metric, "mean", "full", value, None) for metric, value in found.items()]
    rows += [(None, "modes", "mean", "used", float(count_modes(codes[:2000, j])), int(j)) for j in used]
    return polars.DataFrame(rows, schema=SCHEMA, orient="row")


def _small_gaps(table: polars.DataFrame) -> int:
    """Return how many factors have a second carrier at least half as good as the first."""
    return sum(len(scores) > 1 and scores[1] >= 0.5 * scores[0] for scores in table["scores"].to_list())


def _dependent(codes: Array, carriers: list[list[int]], seed: int) -> int:
    """Return how many factors have two carriers that are uncorrelated and dependent."""
    size = np.abs(correlation(codes))
    information = mutual_information_matrix(codes, correction="permutation", seed=seed)
    pairs = (size < UNCORRELATED) & (information > DEPENDENT)
    return sum(bool(np.triu(pairs[np.ix_(own, own)], 1).any()) for own in carriers)


def _excess_in_half(code: Array, factor: NDArray[np.integer], generator: np.random.Generator) -> float:
    """Return the share of a code's change over the values of a factor in the best half of them, minus chance."""
    values = np.unique(factor)
    levels = np.array([code[factor == value].mean() for value in values])
    change = (np.roll(levels, -1) - levels) ** 2
    if len(values) < 4 or not change.sum() > 0:
        return 0.0
    shuffled = [_best_half(generator.permutation(change)) for _ in range(50)]
    return _best_half(change) - float(np.mean(shuffled))


def _best_half(change: Array) -> float:
    half = len(change) // 2
    around = np.concatenate([change, change[: half - 1]])
    return float(np.convolve(around, np.ones(half), "valid").max() / change.sum())


def count_modes(values: Array, *, bins: int = 128) -> int:
    """Return the number of peaks in the distribution of some values; a peak rises by a fifth of the highest.

    Args:
        values: The values (n,).
        bins: Number of points at which the density is evaluated.

    Returns:
        The number of peaks; 1 if all values are equal.

    >>> one = np.random.default_rng(0).normal(size=1000)
    >>> count_modes(one), count_modes(np.concatenate([one, one + 8]))
    (1, 2)
    """
    from scipy.signal import find_peaks
    from scipy.stats import gaussian_kde

    if values.std() < 1e-12:
        return 1
    # Silverman's bandwidth assumes one Gaussian and hides modes; half of it does not.
    density = gaussian_kde(values, bw_method=lambda kernel: 0.5 * kernel.silverman_factor())
    margin = 0.1 * np.ptp(values)
    heights = density(np.linspace(values.min() - margin, values.max() + margin, bins))
    peaks, _ = find_peaks(np.concatenate([[0.0], heights, [0.0]]), prominence=0.2 * heights.max())
    return max(1, len(peaks))


@register(
    "measure",
    title="scores of disentanglement",
    outputs=(
        Output("dci_disentanglement", "DCI disentanglement"),
        Output("dci_completeness", "DCI completeness"),
        Output("beta_vae_score"),
    ),
    needs=("factors",),
    references=("Eastwood2018", "Higgins2017", "Locatello2019"),
)
def disentanglement(
    vae: "VAE",
    dataset: Dataset,
    encodings: Encodings,
    seed: int,
    *,
    inputs: int = 3_000,
    points: int = 1_000,
    test_points: int = 500,
) -> Measured:
    """Score the means by DCI and by the BetaVAE score [Eastwood2018; Higgins2017].

    Args:
        vae: The trained model.
        dataset: The dataset it was trained on.
        encodings: The encodings of the run.
        seed: Random seed.
        inputs: Number of inputs for training and testing DCI.
        points: Pairs of batches for training the classifier of the BetaVAE score.
        test_points: Pairs of batches for testing it.

    Returns:
        One row per number: metric, representation, variables, value.

    Raises:
        DataError: If the dataset has no factors.
    """
    if dataset.factor_space is None or encodings.factors is None:
        raise DataError(f"disentanglement needs a dataset with factors, but {dataset.name} has none; leave it out")
    trees = dci(encodings.mean[:inputs], encodings.factors[:inputs], seed=seed)
    beta_vae = beta_vae_score(
        MeanCodes(vae, dataset),
        dataset.factor_space.sizes,
        train_points=points,
        test_points=test_points,
        seed=seed,
    )
    return [
        ("dci_disentanglement", "mean", "full", trees.disentanglement),
        ("dci_completeness", "mean", "full", trees.completeness),
        ("beta_vae_score", "mean", "full", beta_vae.score),
    ]


@register(
    "measure",
    title="posterior variance beside its optimum",
    outputs=(
        Output(
            "optimum_log_ratio",
            "|log10| of posterior variance over its optimum",
            reading="Median over variables: 0 if the encoder's variance is optimal for its decoder.",
        ),
    ),
    references=("Bonheme2023iVAE",),
)
def posterior_optimum(vae: "VAE", dataset: Dataset, encodings: Encodings, seed: int, *, inputs: int = 64) -> Measured:
    """Compare the variance of q(z|x) with the optimal one for a decoder that is linear around the mean.

    The best diagonal variance is 1 / (1 / prior variance + I_jj), I the Fisher information of the decoder's outputs at
    the mean: J'J / gamma for a Gaussian, J' diag(p (1 - p)) J for a Bernoulli likelihood [Bonheme2023iVAE, eq. 11].

    Args:
        vae: The trained model.
        dataset: The dataset it was trained on.
        encodings: The encodings of the run.
        seed: Random seed.
        inputs: Inputs at whose means the decoder is differentiated.

    Returns:
        One row: the median over variables of the average |log10| of measured over optimal variance.

    Raises:
        DataError: If the likelihood is not supported.
    """
    import torch
    from torch.autograd import functional

    from polarised.models.likelihoods import Bernoulli, Gaussian

    likelihood = vae.likelihood
    one = isinstance(likelihood, Gaussian) and likelihood.scale in ("fixed", "shared")
    if not one and not isinstance(likelihood, Bernoulli):
        raise DataError(
            f"posterior_optimum needs a Bernoulli likelihood or a Gaussian one with a single variance, "
            f"got {type(likelihood).__name__}; leave it out"
        )
    count = min(inputs, len(encodings))
    z = torch.from_numpy(encodings.mean[:count].astype(np.float32))
    with torch.no_grad():
        outputs = vae.decode(z)
        if isinstance(likelihood, Bernoulli):
            chance = likelihood.mean(outputs)
            # d mean / d outputs is p (1 - p), so the information of the outputs is its square over p (1 - p).
            weight = likelihood.weight / (chance * (1 - chance)).clamp_min(1e-12)
        elif isinstance(likelihood, Gaussian):
            weight = (-likelihood.log_variance).exp().expand_as(outputs)
        information = []
        for j in range(z.shape[1]):
            direction = torch.zeros_like(z)
            direction[:, j] = 1.0
            slope = functional.jvp(lambda code: likelihood.mean(vae.decode(code)), z, direction)[1]  # type: ignore[no-untyped-call]
            information.append((weight * slope**2).flatten(1).sum(1))
    precision = torch.stack(information, dim=1).double().numpy()
    prior = np.broadcast_to(encodings.prior_variance, encodings.mean.shape)[:count].astype(np.float64)
    optimum = 1 / (1 / prior + precision)
    ratio = np.abs(np.log10(encodings.variance[:count].astype(np.float64) / optimum)).mean(axis=0)
    return [("optimum_log_ratio", None, "full", float(np.median(ratio)))]


@register(
    "measure",
    title="components of a mixture prior",
    outputs=(
        Output(
            "least_component_mass",
            "mass of the emptiest component",
            reading="The smallest share of codes that a component of the prior accounts for; its weight if all match.",
        ),
    ),
    references=("Mathieu2019",),
)
def component_mass(vae: "VAE", dataset: Dataset, encodings: Encodings, seed: int) -> Measured:
    """Measure the share of codes in the emptiest component of a Gaussian mixture [Mathieu2019, sec. 6.2].

    Args:
        vae: The trained model.
        dataset: The dataset it was trained on.
        encodings: The encodings of the run.
        seed: Random seed.

    Returns:
        One row.

    Raises:
        DataError: If the prior has no components.
    """
    from scipy.special import log_softmax

    from polarised.models.priors import GaussianMixture

    if not isinstance(vae.prior, GaussianMixture):
        raise DataError(f"component_mass needs a mixture prior, got {type(vae.prior).__name__}; leave it out")
    means = vae.prior.means.double().numpy()
    variances = np.repeat(np.asarray(vae.prior.variances)[:, None], means.shape[1], axis=1)
    codes = encodings.sample(seed=seed).astype(np.float64)
    belonging = np.exp(log_softmax(log_densities(codes, means, variances) + np.log(vae.prior.weights), axis=1))
    return [("least_component_mass", None, "full", float(belonging.mean(axis=0).min()))]


@register(
    "measure",
    title="entropy estimated from batches",
    outputs=(
        Output("second_term_share", "samples in which the batch adds less than the sample's own encoder"),
        Output("second_term_gradient", "gradient where the batch counts over where it does not"),
        Output("negative_estimate_share", "batches whose estimate of KL(q(z) ‖ p) is negative"),
    ),
    references=("Mathieu2019",),
)
def entropy_estimates(
    vae: "VAE", dataset: Dataset, encodings: Encodings, seed: int, *, batch_size: int = 64, batches: int = 8
) -> Measured:
    """Measure estimates of the entropy of q(z) from batches [Mathieu2019, appendix C, eq. 10b].

    q^(z_b) = q(z_b|x_b) / n + (n - 1) / (n (B - 1)) sum_{b' != b} q(z_b|x_b'), n the size of the data. For each sample:
    whether the second term is below the first, and the norm of the gradient of log q^(z_b) with respect to outputs of
    the encoders. For each batch: whether mean(log q^(z_b) - log p(z_b)) is negative, which a divergence never is.

    Args:
        vae: The trained model.
        dataset: The dataset it was trained on.
        encodings: The encodings of the run.
        seed: Random seed.
        batch_size: Inputs per batch.
        batches: The largest number of batches.

    Returns:
        One row per number; a ratio of gradients only if there are samples of both kinds.

    Raises:
        DataError: If the prior depends on u.
    """
    import torch

    if vae.prior.conditional:
        raise DataError("entropy_estimates needs one prior for all inputs, but this one depends on u; leave it out")
    n, size = len(dataset), min(batch_size, len(encodings) // 2)
    generator = torch.Generator().manual_seed(seed_for(seed, "entropy estimates"))
    below, norms, negative = [], [], []
    for start in range(0, min(batches * size, len(encodings) - size + 1), size):
        rows = slice(start, start + size)
        mean = torch.from_numpy(encodings.mean[rows].astype(np.float64)).requires_grad_()
        log_variance = torch.from_numpy(np.log(encodings.variance[rows].astype(np.float64))).requires_grad_()
        noise = torch.randn(mean.shape, generator=generator, dtype=torch.float64)
        z = mean + noise * (0.5 * log_variance).exp()
        scaled = (z[:, None] - mean) ** 2 / log_variance.exp()
        each = -0.5 * (scaled + log_variance + np.log(2 * np.pi)).sum(2)
        own = each.diagonal() - np.log(n)
        others = each.masked_fill(torch.eye(size, dtype=torch.bool), -torch.inf)
        rest = torch.logsumexp(others, dim=1) + np.log((n - 1) / (n * (size - 1)))
        estimate = torch.logaddexp(own, rest)
        below += (rest < own).tolist()
        for value in estimate:
            slopes = torch.autograd.grad(value, (mean, log_variance), retain_graph=True)
            norms.append(float(torch.cat([slope.flatten() for slope in slopes]).norm()))
        with torch.no_grad():
            log_prior = vae.prior.log_prob(z.float()).double()
        negative.append(float((estimate.detach() - log_prior).mean()) < 0)
    rows_found: Measured = [
        ("second_term_share", None, "full", float(np.mean(below))),
        ("negative_estimate_share", None, "full", float(np.mean(negative))),
    ]
    return [*rows_found, *_ratio_of_gradients(np.array(below), np.array(norms))]


def _ratio_of_gradients(below: NDArray[np.bool_], norms: Array) -> Iterator[tuple[str, str | None, str, float]]:
    if below.any() and not below.all():
        yield "second_term_gradient", None, "full", float(norms[~below].mean() / norms[below].mean())
