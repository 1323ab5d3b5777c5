"""Additional measures that a run can request in `evaluation.further`, and how they are added to its tables."""

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars
from numpy.typing import NDArray

from polarised import registry
from polarised.data.dataset import Batch, Dataset
from polarised.errors import DataError
from polarised.metrics import (
    correlation,
    disintegration,
    factor_vae_score,
    hoyer,
    linear_r2,
    mcc,
    mig,
    mutual_information_matrix,
    random_rotation,
    sap,
)
from polarised.metrics.evaluation import prior_scale
from polarised.random import seed_for
from polarised.regime import Encodings, classify
from polarised.regime.encodings import log_densities
from polarised.registry import Output, register
from polarised.study.config import Run
from polarised.study.measures import SCORES

if TYPE_CHECKING:
    from polarised.models import VAE
    from polarised.regime.decoder import DecoderUse

__all__ = [
    "MeanCodes",
    "Measured",
    "axis_alignment",
    "encoder_overlap",
    "factor_information",
    "further_scores",
    "pairwise_dependence",
    "prior_match",
    "prior_relation",
    "representations",
    "source_recovery",
    "sparsity",
]

Measured = list[tuple[str, str | None, str, float]]


def further_scores(
    run: Run, vae: "VAE", dataset: Dataset, encodings: Encodings, decoder: "DecoderUse | None" = None
) -> polars.DataFrame:
    """Return the measures requested in `evaluation.further`, one row per number, with the columns of the other tables.

    Args:
        run: The run, whose `evaluation.further` names the measures.
        vae: The trained model.
        dataset: The dataset it was trained on.
        encodings: The encodings of the run.
        decoder: The measured use of the decoder, for measures that take it as fifth argument.

    Returns:
        One row per number: rule, metric, representation, variables, value.

    Raises:
        DataError: If a measure needs data that the dataset does not have.
    """
    tables = [polars.DataFrame(schema=SCORES)]
    for spec in run.evaluation.further:
        call = registry.record("measure", spec if isinstance(spec, str) else spec["name"]).call
        supplied = inspect.signature(call).parameters.keys() - registry.settings(call).keys()
        known = (decoder,) if "decoder" in supplied else ()
        found = registry.build("measure", spec, vae, dataset, encodings, run.seed, *known)
        # A measure that distinguishes variables or rules returns a table with these columns.
        rows = found if isinstance(found, polars.DataFrame) else [(None, *row) for row in found]
        tables.append(rows if isinstance(rows, polars.DataFrame) else polars.DataFrame(rows, SCORES, orient="row"))
    return polars.concat(tables, how="diagonal")


def representations(encodings: Encodings, seed: int) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the mean and the sampled codes with their names.

    Args:
        encodings: The encodings of the model.
        seed: Seed of the samples.

    Yields:
        The name of each representation with its codes.
    """
    yield "mean", encodings.mean
    yield "sampled", encodings.sample(seed=seed)


BLOCK = 500


@register(
    "measure",
    title="width and overlap of encoders",
    outputs=(
        Output(
            "encoder_entropy",
            unit="nats",
            reading="Entropy of q(z|x), averaged over inputs: the wider the encoders, the larger.",
        ),
        Output(
            "encoder_std",
            "encoder standard deviation",
            reading="Standard deviation of q(z_j|x), averaged over inputs and variables.",
        ),
        Output("index_information"),
        Output(
            "overlap",
            "overlap of encoders",
            reading="0 if no two posteriors overlap, 1 if all are the same: 1 - information about the input / log n.",
        ),
    ),
    references=("Mathieu2019",),
)
def encoder_overlap(vae: "VAE", dataset: Dataset, encodings: Encodings, seed: int, *, inputs: int = 1000) -> Measured:
    """Measure how wide encoders are and how much they overlap [Mathieu2019, section 3.1].

    encoder_entropy = E[H(q(z|x))] in nats; index_information = E[log q(z|x) - log mean_k q(z|x_k)] over `inputs`
    inputs: log n if no two encoders overlap, 0 if all are the same; overlap = 1 - index_information / log n.

    Args:
        vae: The trained model.
        dataset: The dataset it was trained on.
        encodings: The encodings of the run.
        seed: Random seed.
        inputs: The number of inputs to compare with each other.

    Returns:
        One row per number: metric, representation, variables, value.
    """
    variance = encodings.variance.astype(np.float64)
    entropy = 0.5 * (np.log(2 * np.pi * np.e * variance)).sum(axis=1).mean()
    count = min(inputs, len(encodings))
    mean, variance = encodings.mean[:count].astype(np.float64), variance[:count]
    log_each = log_densities(encodings.sample(seed=seed)[:count].astype(np.float64), mean, variance)
    information = float((np.diag(log_each) - _log_mean(log_each)).mean())
    return [
        ("encoder_entropy", None, "full", float(entropy)),
        ("encoder_std", None, "full", float(np.sqrt(encodings.variance).mean())),
        ("index_information", None, "full", information),
        ("overlap", None, "full", 1 - information / float(np.log(count)) if count > 1 else 1.0),
    ]


@register(
    "measure",
    title="distance of the aggregate posterior from the prior",
    outputs=(
        Output(
            "mmd",
            "MMD",
            reading="Maximum mean discrepancy of codes and samples of the prior: 0 if both have the same distribution.",
        ),
        Output("inclusive_kl", "KL(p ‖ q)", unit="nats", reading="Large where the codes miss a part of the prior."),
        Output("exclusive_kl", "KL(q ‖ p)", unit="nats", reading="Large where codes lie outside the prior."),
    ),
    references=("Mathieu2019",),
)
def prior_match(
    vae: "VAE",
    dataset: Dataset,
    encodings: Encodings,
    seed: int,
    *,
    draws: int = 2000,
    per_variable: bool = False,
    divergences: bool = False,
) -> Measured:
    """Measure the distance of the aggregate posterior from the prior: MMD, and both KL divergences if requested.

    MMD is the mean over blocks of 500 samples, see `objectives.terms.mmd`. inclusive_kl = KL(p(z) || q(z)), large where
    q misses a part of p, and exclusive_kl = KL(q(z) || p(z)) take q(z) as the mixture of up to 2,000 encoders, which
    is exact for small data and meaningless in many dimensions [Mathieu2019, appendix B].

    Args:
        vae: The trained model.
        dataset: The dataset it was trained on.
        encodings: The encodings of the run.
        seed: Random seed.
        draws: The number of samples of the prior.
        per_variable: Whether the MMD is computed for each variable and averaged.
        divergences: Whether to measure both divergences.

    Returns:
        One row per number: metric, representation, variables, value.

    Raises:
        DataError: If the prior depends on u.
    """
    import torch

    from polarised.objectives.terms import mmd

    if vae.prior.conditional:
        raise DataError("prior_match needs one prior for all inputs, but this one depends on u; leave it out")
    generator = torch.Generator().manual_seed(seed_for(seed, "prior match"))
    codes = torch.from_numpy(encodings.sample(seed=seed).astype(np.float32))
    with torch.inference_mode():
        drawn = vae.prior.sample(min(draws, len(codes)), generator)
        blocks = [slice(start, start + BLOCK) for start in range(0, len(drawn), BLOCK)]
        values = [float(mmd(drawn[b], codes[b], per_variable=per_variable)) for b in blocks if len(drawn[b]) > 1]
        rows: Measured = [("mmd", None, "full", float(np.mean(values)))]
        if divergences:
            mean, variance = (array[:2000].astype(np.float64) for array in (encodings.mean, encodings.variance))
            for metric, sign, z in (("inclusive_kl", 1, drawn), ("exclusive_kl", -1, codes[:2000])):
                log_prior = vae.prior.log_prob(z).double().numpy()
                log_aggregate = _log_mean(log_densities(z.double().numpy(), mean, variance))
                rows.append((metric, None, "full", sign * float((log_prior - log_aggregate).mean())))
    return rows


def _log_mean(log_each: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.special import logsumexp

    return np.asarray(logsumexp(log_each, axis=1) - np.log(log_each.shape[1]))


@register(
    "measure",
    title="dependence of pairs beyond correlation",
    outputs=(
        Output(
            "pair_information",
            "mutual information of pairs",
            unit="nats",
            reading="Mutual information of two variables on average, minus that of shuffled variables.",
        ),
        Output(
            "largest_pair_information",
            "largest mutual information of a pair",
            unit="nats",
            reading="Mutual information of the pair that shares most, minus that of shuffled variables.",
        ),
        Output(
            "excess_information",
            "information beyond correlation",
            unit="nats",
            reading="Information that two variables share beyond that of Gaussian variables with the same correlation.",
        ),
        Output(
            "largest_excess_information",
            "largest information beyond correlation",
            unit="nats",
            reading="Information beyond correlation of the pair in which it is largest.",
        ),
    ),
    references=("Cheng2021",),
)
def pairwise_dependence(vae: "VAE", dataset: Dataset, encodings: Encodings, seed: int, *, bins: int = 20) -> Measured:
    """Measure dependence of pairs that correlation, and so the Gaussian total correlation, cannot detect [Cheng2021].

    pair_information is the mutual information of two variables in nats, minus that of shuffled variables;
    excess_information is that minus the -log(1 - r^2) / 2 of Gaussian variables with correlation r. Averages over
    pairs, and the largest pair.

    Args:
        vae: The trained model.
        dataset: The dataset it was trained on.
        encodings: The encodings of the run.
        seed: Random seed.
        bins: Number of equal-width bins of each variable.

    Returns:
        One row per number: metric, representation, variables, value.
    """
    rows: Measured = []
    for representation, codes in representations(encodings, seed):
        information = mutual_information_matrix(codes, bins=bins, correction="permutation", seed=seed)
        squared = np.minimum(correlation(codes) ** 2, 1 - 1e-12)
        excess = information + 0.5 * np.log1p(-squared)
        pairs = np.triu_indices(len(information), 1)
        for metric, matrix in (("pair_information", information), ("excess_information", excess)):
            values = matrix[pairs] if len(pairs[0]) else np.zeros(1)
            rows.append((metric, representation, "full", float(values.mean())))
            rows.append((f"largest_{metric}", representation, "full", float(values.max())))
    return rows


@register(
    "measure",
    title="sparsity of the means",
    outputs=(
        Output("hoyer"),
        Output(
            "hoyer_unscaled",
            "sparsity (Hoyer), unscaled",
            reading="Sparsity without scaling the variables: one that has collapsed counts as sparse.",
        ),
    ),
    references=("Hoyer2004", "Mathieu2019"),
)
def sparsity(vae: "VAE", dataset: Dataset, encodings: Encodings, seed: int) -> Measured:
    """Measure the Hoyer sparsity of the means, with variables scaled to unit deviation and unscaled [Mathieu2019].

    Without the scaling, a collapsed variable counts as sparse.

    Args:
        vae: The trained model.
        dataset: The dataset it was trained on.
        encodings: The encodings of the run.
        seed: Random seed.

    Returns:
        One row per number: metric, representation, variables, value.
    """
    return [
        ("hoyer", "mean", "full", hoyer(encodings.mean)),
        ("hoyer_unscaled", "mean", "full", hoyer(encodings.mean, normalised=False)),
    ]


CHUNK = 4096


@register(
    "measure",
    title="alignment of variables with factors",
    outputs=(
        Output("factor_vae_score"),
        Output(
            "factor_vae_score_transported",
            "FactorVAE score of transported codes",
            reading="FactorVAE score after mapping the codes of a Student-t prior to a normal distribution.",
        ),
    ),
    needs=("factors",),
    references=("Kim2018", "Mathieu2019"),
)
def axis_alignment(
    vae: "VAE",
    dataset: Dataset,
    encodings: Encodings,
    seed: int,
    *,
    votes: int = 10_000,
    test_votes: int = 5_000,
    batch_size: int = 64,
    threshold: float = 0.05,
    pruned_by: Literal["prior", "reference"] = "prior",
) -> Measured:
    """Score how well single variables represent single factors [Kim2018, section 4], on means and transported means.

    factor_vae_score uses the means directly; factor_vae_score_transported first maps the codes of a Student-t
    prior to a normal one, z -> Phi^-1(F_t(z)), since heavy tails mislead variances [Mathieu2019, section 6.1]. Under
    other priors the two are the same. Every image is encoded once. Variables whose means vary by less than `threshold`
    of the prior's standard deviation do not vote; `pruned_by="reference"` uses the threshold unscaled, as the
    reference code does, which favours priors with a large scale.

    Args:
        vae: The trained model.
        dataset: The dataset it was trained on.
        encodings: The encodings of the run.
        seed: Random seed.
        votes: Votes for training the rule.
        test_votes: Votes for testing it.
        batch_size: Images per batch.
        threshold: Share of the scale below which a variable does not vote.
        pruned_by: The scale of the threshold: "prior" or "reference", see above.

    Returns:
        One row per number: metric, representation, variables, value.

    Raises:
        DataError: If the dataset has no factors.
    """
    if dataset.factor_space is None:
        raise DataError(f"axis_alignment needs a dataset with factors, but {dataset.name} has none; leave it out")
    codes = MeanCodes(vae, dataset)
    settings: dict[str, Any] = {
        "train_votes": votes,
        "test_votes": test_votes,
        "batch_size": batch_size,
        "variance_rows": min(10_000, len(dataset)),
        "threshold": threshold,
        "seed": seed,
    }
    scale = prior_scale(encodings) if pruned_by == "prior" else 1.0
    sizes = dataset.factor_space.sizes
    plain = factor_vae_score(codes, sizes, scale=scale, **settings).score
    moved = plain
    degrees, width = getattr(vae.prior, "df", None), getattr(vae.prior, "scale", 1.0)
    if degrees is not None:
        # Transported codes are compared with a standard normal, whatever their original scale.
        moved = factor_vae_score(
            lambda rows: transported(codes(rows) / width, degrees), sizes, scale=1.0, **settings
        ).score
    return [
        ("factor_vae_score", "mean", "full", plain),
        ("factor_vae_score_transported", "mean", "full", moved),
    ]


@register(
    "measure",
    title="what single variables know of factors",
    outputs=(
        Output("sap"),
        Output("mig"),
        Output(
            "disintegrated_r2",
            "disintegrated factors, by R²",
            reading="How many factors are spread over several independent variables, each with enough R².",
        ),
        Output(
            "disintegrated_nmi",
            "disintegrated factors, by NMI",
            reading="How many factors are spread over several independent variables, each with enough information.",
        ),
    ),
    needs=("factors",),
    references=("Kumar2018", "Chen2018", "Cheng2021"),
)
def factor_information(
    vae: "VAE",
    dataset: Dataset,
    encodings: Encodings,
    seed: int,
    *,
    threshold: float = 0.1,
    kind: Literal["discrete", "continuous"] = "continuous",
) -> Measured:
    """Score what single variables tell about single factors: SAP, MIG, disintegration [Kumar2018; Chen2018; Cheng2021].

    A factor is disintegrated if several mutually independent variables that are not passive each have R^2 (or
    normalised mutual information) above `threshold` with it [Cheng2021, section 6.3].

    Args:
        vae: The trained model.
        dataset: The dataset it was trained on.
        encodings: The encodings of the run.
        seed: Random seed.
        threshold: Smallest R^2 or information of a variable that represents a factor.
        kind: The predictor of SAP.

    Returns:
        One row per number: metric, representation, variables, value.

    Raises:
        DataError: If the dataset has no factors.
    """
    if encodings.factors is None:
        raise DataError(f"factor_information needs a dataset with factors, but {dataset.name} has none; leave it out")
    rows: Measured = []
    for representation, codes in representations(encodings, seed):
        rows.append(("sap", representation, "full", sap(codes, encodings.factors, kind=kind).score))
        rows.append(("mig", representation, "full", mig(codes, encodings.factors)))
    used = classify(encodings, seed=seed).alive
    for measure in ("r2", "nmi"):
        found = disintegration(encodings.mean, encodings.factors, measure=measure, threshold=threshold, used=used)
        rows.append((f"disintegrated_{measure}", "mean", "full", float(found["disintegrated"].sum())))
    return rows


@register(
    "measure",
    title="recovery of true sources",
    outputs=(
        Output("mcc"),
        Output(
            "mcc_spearman",
            "MCC by rank correlation",
            reading="Mean |rank correlation| of sources with their variables: 1 recovers all up to a monotone map.",
        ),
        Output(
            "linear_r2",
            "R² of a linear map",
            reading="Share of the sources that a linear map of the codes explains; with a low MCC, the axes are lost.",
        ),
        Output(
            "random_rotation",
            "MCC of a random rotation",
            reading="The MCC of randomly rotated true sources: that of a model which finds everything but the axes.",
        ),
    ),
    needs=("sources",),
    references=("Khemakhem2020",),
)
def source_recovery(vae: "VAE", dataset: Dataset, encodings: Encodings, seed: int) -> Measured:
    """Score how well the true sources are recovered up to order and scale, MCC by Pearson and Spearman correlation.

    On the mean, the sample, and the mean without passive variables [Khemakhem2020, section 5]. In addition, the
    share of the sources that a linear map of the codes explains, and the MCC of a random rotation of the sources.

    Args:
        vae: The trained model.
        dataset: The dataset it was trained on.
        encodings: The encodings of the run.
        seed: Random seed.

    Returns:
        One row per number: metric, representation, variables, value.

    Raises:
        DataError: If the dataset has no known sources.
    """
    if dataset.sources is None:
        raise DataError(
            f"source_recovery needs a dataset with known sources, but {dataset.name} has none; leave it out"
        )
    true = dataset.sources[dataset.sample(len(encodings), seed).indices]
    rows: Measured = []
    for representation, codes in representations(encodings, seed):
        rows.append(("mcc", representation, "full", mcc(codes, true).score))
        rows.append(("mcc_spearman", representation, "full", mcc(codes, true, method="spearman").score))
        rows.append(("linear_r2", representation, "full", linear_r2(codes, true)))
    regime = classify(encodings, seed=seed)
    if alive := sorted([*regime.active, *regime.mixed]):
        rows.append(("mcc", "mean", "active_mixed", mcc(encodings.mean[:, alive], true).score))
    return [*rows, ("random_rotation", None, "full", random_rotation(true, seed=seed))]


def transported(codes: NDArray[Any], degrees: float) -> NDArray[np.float64]:
    """Map codes of a Student-t distribution to a normal one by their distribution functions, accurate in the tails.

    Args:
        codes: Codes (n, d).
        degrees: Degrees of freedom of the Student-t distribution.

    Returns:
        The mapped codes.

    >>> transported(np.array([[0.0, 1e6]]), 3.0).round(1)
    array([[0. , 8.7]])
    """
    from scipy.stats import norm, t

    values = np.asarray(codes, dtype=np.float64)
    return np.sign(values) * norm.isf(t.sf(np.abs(values), degrees))


class MeanCodes:
    """The mean code of any combination of factors; an image is encoded when it is first needed.

    Args:
        vae: The trained model.
        dataset: A dataset with an image for every combination of factors.
    """

    def __init__(self, vae: "VAE", dataset: Dataset) -> None:
        self.vae, self.dataset = vae, dataset
        self.codes = np.zeros((len(dataset), vae.latents), dtype=np.float32)
        self.known = np.zeros(len(dataset), dtype=bool)

    def __call__(self, factors: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the codes (m, d) of combinations (m, F)."""
        from polarised.adapters import from_vae

        assert self.dataset.factor_space is not None
        indices = self.dataset.factor_space.index(factors)
        missing = np.unique(indices[~self.known[indices]])
        for start in range(0, len(missing), CHUNK):
            some = missing[start : start + CHUNK]
            u = None if self.dataset.auxiliary is None else self.dataset.auxiliary(some)
            self.codes[some] = from_vae(self.vae, Batch(self.dataset.images[some], None, u, some)).mean
        self.known[missing] = True
        return self.codes[indices]


KINDS = ("active", "mixed", "passive", "prior_driven")


@register(
    "measure",
    title="variables beside their own prior",
    outputs=(
        Output(
            "count_relative",
            "variables, relative rule",
            reading="Number of variables of each type by the relative rule.",
        ),
        Output(
            "count_standard",
            "variables, standard rule",
            reading="Number of variables of each type by the standard rule.",
        ),
        Output(
            "retyped",
            "variables retyped by the standard rule",
            reading="Number of variables with different types by the standard and the relative rule.",
        ),
        Output(
            "prior_driven",
            "prior-driven variables",
            reading="Number of variables that follow a prior which itself depends on the input.",
        ),
        Output(
            "miscalibration",
            reading="Mean over variables of |E[r] + E[shift] - 1|: 0 if the prior variance is learned well.",
        ),
        Output("prior_variance", reading="Median over the variables of a type of the prior variance."),
        Output("posterior_variance", reading="Median over the variables of a type of the posterior variance."),
        Output(
            "permuting",
            "cost of permuting a variable",
            unit="nats",
            reading="Loss of reconstruction if a variable is shuffled over inputs.",
        ),
        Output(
            "redrawing",
            "cost of redrawing a variable",
            unit="nats",
            reading="Loss of reconstruction if a variable is drawn from its prior.",
        ),
    ),
    references=("Bonheme2023iVAE",),
)
def prior_relation(
    vae: "VAE", dataset: Dataset, encodings: Encodings, seed: int, *, alpha: float = 0.1, decoder_examples: int = 300
) -> Measured:
    """Compare each variable with its own prior [Bonheme2023iVAE].

    count_relative and count_standard are the types by both rules; retyped counts the variables on which they differ;
    prior_driven those that seem passive but follow u. miscalibration = mean_j |E[r_j] + E[s_j] - 1|, 0 when the prior
    variance is learned well. prior_variance and posterior_variance are medians over variables of a type; permuting and
    redrawing are the cost of replacing such a variable for the decoder, in nats (`decoder_examples` 0: not measured).

    Args:
        vae: The trained model.
        dataset: The dataset it was trained on.
        encodings: The encodings of the run.
        seed: Random seed.
        alpha: Threshold of the types.
        decoder_examples: Inputs on which the decoder is measured; 0: not measured.

    Returns:
        One row per number: metric, representation, variables, value.
    """
    relative = classify(encodings, rule="relative", alpha=alpha, seed=seed)
    standard = relative.at(alpha, rule="standard")
    rows: Measured = []
    for kind in KINDS[:3]:
        rows.append(("count_relative", None, kind, float(len(getattr(relative, kind)))))
        rows.append(("count_standard", None, kind, float(len(getattr(standard, kind)))))
    retyped = sum(a != b for a, b in zip(relative.types, standard.types, strict=True))
    statistics = relative.statistics
    rows += [
        ("retyped", None, "full", float(retyped)),
        ("prior_driven", None, "full", float(len(relative.prior_driven))),
        ("miscalibration", None, "full", float(np.abs(statistics.calibration - 1).mean())),
    ]
    shape = encodings.mean.shape
    variances = {
        "prior_variance": np.broadcast_to(encodings.prior_variance, shape).mean(axis=0),
        "posterior_variance": encodings.variance.mean(axis=0),
    }
    costs = _decoder_costs(vae, dataset, decoder_examples, seed)
    for kind in KINDS:
        if variables := list(getattr(relative, kind)):
            rows += [(name, None, kind, float(np.median(of[variables]))) for name, of in variances.items()]
            rows += [(name, None, kind, float(np.mean(of[variables]))) for name, of in costs.items()]
    return rows


def _decoder_costs(vae: "VAE", dataset: Dataset, examples: int, seed: int) -> dict[str, NDArray[np.float64]]:
    from polarised.models.encoding import decoder_use

    if not examples:
        return {}
    use = decoder_use(vae, dataset, examples=examples, most=examples, seed=seed)
    return {"permuting": use.permuted, "redrawing": use.redrawn}
