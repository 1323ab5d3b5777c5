"""The figures of each paper, from the folder of its study: one gallery per study, and one for any other study."""

from typing import TYPE_CHECKING, Literal

import numpy as np
import polars

from polarised._io.tables import read_table
from polarised.metrics import disintegration, nmi_matrix, r2_matrix
from polarised.metrics.estimators import total_correlation_bias_curve
from polarised.regime import Encodings
from polarised.registry import register
from polarised.report.drawing import INK, MUTED, SMALL, legend, panels, series
from polarised.report.figures import (
    aggregate_posterior_density,
    correlation_counts,
    correlation_heatmap,
    correlations_over_training,
    downstream_by_subset,
    estimator_bias,
    factor_against_latent,
    factor_matrices,
    histograms_by_type,
    kl_over_training,
    latent_pairs,
    latent_walks,
    latents_by_factor,
    magnitude_by_class,
    metric_by_subset,
    metric_over_passive,
    overview,
    plane_of_strengths,
    posterior_and_prior,
    prior_density,
    ratio_over_training,
    reconstruction_against_score,
    reconstructions,
    samples,
    scores_against,
    sparsity_by_regularisation,
    total_correlation_by_strength,
    types_by_strength,
    types_over_training,
)
from polarised.report.figures.variables import Parts
from polarised.report.material import Drawings, Material, stem
from polarised.study.grid import Point
from polarised.study.measures import plane_density, type_column

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "alpha_and_beta",
    "any_study",
    "be_more_active",
    "bias_table",
    "decomposition_alignment",
    "decomposition_clustering",
    "decomposition_sparsity",
    "latents_of_factors",
    "learning_dynamics",
    "nonlinear_ica",
    "of_one_model",
    "polarised_ivae",
    "rtc_vae",
    "scores_by_method",
    "split_and_whole",
]


@register("gallery", title="figures of any study", references=("Bonheme2023BeMoreActive",))
def any_study(material: Material) -> Drawings:
    """Draw types and redundancy of both representations against strength [Bonheme2023BeMoreActive].

    Args:
        material: The folder of the study.

    Yields:
        The name of each figure with the figure.
    """
    yield "types", types_by_strength(material.table)
    yield "total_correlation_over_passive", metric_over_passive(material.table)
    yield "total_correlation", total_correlation_by_strength(material.table)


METRICS = ("total_correlation", "mutual_information", "effective_rank", "wasserstein_correlation")


@register("gallery", title="Be more active", references=("Bonheme2023BeMoreActive",))
def be_more_active(material: Material) -> Drawings:
    """Draw figures 4 to 11 and 14 to 18; histograms and correlations are of a run that has all three types.

    If there are several datasets, each gets its own figures.

    Args:
        material: The folder of the study.

    Yields:
        The name of each figure with the figure.
    """
    for dataset, ending in material.datasets.items():
        table = material.table.filter(polars.col("dataset") == dataset)
        if material.methods_at_hand(dataset):
            chosen = _with_a_mixed_variable(material, dataset)
            encodings, regime = material.encodings(chosen), material.regime(chosen)
            yield f"figure_4_5_histograms{ending}", of_one_model(chosen, histograms_by_type(encodings, regime))
            yield f"figure_11_correlations{ending}", of_one_model(chosen, correlation_heatmap(encodings, regime))
        if "accuracy" in table["metric"]:
            yield f"figure_6_downstream{ending}", downstream_by_subset(table)
        yield f"figure_7_14_types{ending}", types_by_strength(table)
        for metric in METRICS:
            yield f"figure_8_15_17_{metric}{ending}", metric_over_passive(table, metric=metric)
            yield f"figure_9_10_18_{metric}{ending}", metric_by_subset(table, metric=metric)


@register("gallery", title="learning dynamics", references=("Bonheme2023BeMoreActive",))
def learning_dynamics(material: Material) -> Drawings:
    """Draw figures 11 to 13, and types, KL and variance ratios over time, of the first run.

    Args:
        material: The folder of the study.

    Yields:
        The name of each figure with the figure.
    """
    if not material.done:
        return
    point = material.done[0]
    timeline = material.timeline(point)
    yield (
        "figure_11_correlations",
        of_one_model(point, correlation_heatmap(material.encodings(point), material.regime(point))),
    )
    yield "figure_12_correlated_pairs", of_one_model(point, correlation_counts(timeline))
    yield "figure_13_correlations_over_training", of_one_model(point, correlations_over_training(timeline))
    yield "types_over_training", of_one_model(point, types_over_training(timeline))
    yield "kl_over_training", of_one_model(point, kl_over_training(timeline))
    yield "ratio_over_training", of_one_model(point, ratio_over_training(timeline))


def of_one_model(point: Point, figure: "Figure") -> "Figure":
    """Label a figure with its model: method, strength and seed.

    Args:
        point: The run of the model.
        figure: The figure, which is changed.

    Returns:
        The same figure.

    >>> from types import SimpleNamespace
    >>> drawn, _ = panels(1)
    >>> model = SimpleNamespace(labels={"method": "beta-VAE", "strength": 8.0, "seed": 3})
    >>> of_one_model(model, drawn).get_supxlabel()
    'beta-VAE, strength 8, seed 3'
    """
    strength = point.labels.get("strength")
    words = [str(point.labels["method"]), "" if strength is None else f"strength {strength:g}"]
    caption = ", ".join(filter(None, [*words, f"seed {point.labels['seed']}"]))
    if figure.legends:
        # A label of the figure would be drawn across a legend below the panels.
        figure.legends[0].set_title(caption)
        figure.legends[0].get_title().set(fontsize=SMALL, color=MUTED)
    else:
        figure.supxlabel(caption, fontsize=SMALL, color=MUTED)
    return figure


def _with_a_mixed_variable(material: Material, dataset: str) -> Point:
    """Return the run with all three types whose mixed variable varies most between inputs, else `Material.richest`.

    The first method with such a run is used, as the paper uses a beta-VAE: others also correlate active variables.
    """
    changes: dict[str, dict[str, float]] = {}
    own = {point.run.name: point for point in material.done if point.labels["dataset"] == dataset}
    for name, point in own.items():
        types = read_table(material.root / name / "regime.parquet", columns={"ratio_variance": "number"})
        column = type_column(types, material.study.rule)
        if types[column].n_unique() == 3:
            change = float(types.filter(polars.col(column) == "mixed")["ratio_variance"].to_numpy().max())
            changes.setdefault(point.labels["method"], {})[name] = change
    if not changes:
        return material.richest(dataset=dataset)
    first = next(iter(changes.values()))
    return own[max(first, key=lambda name: first[name])]


@register("gallery", title="decomposition: alignment with axes", references=("Mathieu2019",))
def decomposition_alignment(material: Material) -> Drawings:
    """Draw figure 2, with original and transported Student-t codes, the effect of beta on encoders, and figure 5.

    Args:
        material: The folder of the study.

    Yields:
        The name of each figure with the figure.
    """
    gaussian = polars.col("method") != "Student-t"
    usual = polars.col("method").eq("isotropic") & polars.col("strength").eq(1.0)
    top = material.table.filter(gaussian)
    yield "figure_2_top", reconstruction_against_score(top, symbols=dict.fromkeys(material.methods(), "β"))
    tailed, symbols = material.table.filter(~gaussian | usual), {"isotropic": "β", "Student-t": "ν"}
    for score, ending in (("factor_vae_score", ""), ("factor_vae_score_transported", "_transported")):
        yield f"figure_2_bottom{ending}", reconstruction_against_score(tailed, score=score, symbols=symbols)
    yield "overlap", scores_against(top, y="encoder_entropy", x=("reconstruction", "factor_vae_score"))
    shapes = {f"ν = {df:g}": plane_density({"name": "StudentT", "df": df}) for df in (3.0, 5.0, 100.0)}
    yield "figure_5_student_t", prior_density(shapes)


@register("gallery", title="decomposition: clustering", references=("Mathieu2019",))
def decomposition_clustering(material: Material) -> Drawings:
    """Draw figure 3 (the aggregate posterior over beta and over alpha), both together, and the prior of figure 6.

    Args:
        material: The folder of the study.

    Yields:
        The name of each figure with the figure.
    """
    for dataset, ending in material.datasets.items():
        known = material.methods_at_hand(dataset)
        for method, symbol in ((name, symbol) for name, symbol in (("beta", "β"), ("alpha", "α")) if name in known):
            codes = {
                f"{symbol} = {strength:g}": material.encodings(material.point(method, strength, dataset=dataset))
                for strength in material.strengths(method, dataset=dataset)
            }
            yield f"figure_3_{method}{ending}", aggregate_posterior_density(codes, columns=len(codes), top=1.0)
        table = material.table.filter(polars.col("dataset") == dataset)
        plane = alpha_and_beta(table)
        metrics = ("overlap", "mmd", "exclusive_kl", "inclusive_kl")
        yield f"alpha_beta{ending}", plane_of_strengths(plane, metrics=metrics)
        lines = table.filter(polars.col("method").is_in(["alpha", "beta"]))
        yield f"overlap{ending}", scores_against(lines, y="overlap", x=("mmd", "exclusive_kl"))
    yield "figure_6_prior", prior_density({"prior": plane_density("GaussianMixture", extent=2.0)}, extent=2.0)


def alpha_and_beta(table: polars.DataFrame) -> polars.DataFrame:
    """Return the results as a plane: method "beta" has alpha 0, "alpha" beta 0, "alpha, beta 3" over alpha beta 3.

    Strengths that only one of the two lines has are left out.

    Args:
        table: The results of the study.

    Returns:
        The results with columns alpha and beta.

    >>> rows = {"method": ["beta", "alpha", "alpha, beta 3"], "strength": [3.0, 20.0, 20.0]}
    >>> alpha_and_beta(polars.DataFrame(rows)).rows()
    [(0.0, 3.0), (20.0, 0.0), (20.0, 3.0)]
    """
    line = polars.col("method") == "beta"
    held = polars.col("method").str.extract("^alpha, beta (.+)$").cast(polars.Float64).fill_null(0.0)
    placed = table.with_columns(
        alpha=polars.when(line).then(0.0).otherwise(polars.col("strength")),
        beta=polars.when(line).then(polars.col("strength")).otherwise(held),
    )
    inner = placed.filter(polars.col("method").str.starts_with("alpha, beta"))
    if not inner.is_empty():
        placed = placed.filter(*(polars.col(name).is_in([0.0, *inner[name].unique()]) for name in ("alpha", "beta")))
    return placed.drop("method", "strength")


@register("gallery", title="decomposition: sparsity", references=("Mathieu2019",))
def decomposition_sparsity(material: Material) -> Drawings:
    """Draw figure 4 (sparsity, reconstruction, mismatch over alpha), and the use of each variable by class.

    Args:
        material: The folder of the study.

    Yields:
        The name of each figure with the figure.
    """
    yield "figure_4", sparsity_by_regularisation(material.table)
    for dataset, ending in material.datasets.items():
        for method in material.methods_at_hand(dataset):
            strengths = material.strengths(method, dataset=dataset)
            for strength in (strengths[0], strengths[-1]):
                point = material.point(method, strength, dataset=dataset)
                encodings = material.encodings(point)
                if encodings.factors is None:
                    continue
                classes = material.class_names(point, encodings.factor_names[0])
                yield (
                    f"magnitude_{stem(method)}_alpha_{strength:g}{ending}",
                    of_one_model(point, magnitude_by_class(encodings, class_names=classes)),
                )


# The strengths of the paper's pair plots, figures 14 to 16.
SHOWN = {"FactorVAE": 50.0, "DIP-VAE-I": 20.0, "DIP-VAE-II": 20.0, "RTC-VAE": 20.0}


@register("gallery", title="RTC-VAE", references=("Cheng2021",))
def rtc_vae(material: Material) -> Drawings:
    """Draw figures 2 to 16 of [Cheng2021] as far as the finished runs allow, those of single models for each dataset.

    Args:
        material: The folder of the study.

    Yields:
        The name of each figure with the figure.
    """
    bias = bias_table()
    yield "figure_2_estimators", estimator_bias(bias.filter(polars.col("estimator") != "MWS, 1/(NM)"))
    yield "figure_2_with_literal_mws", estimator_bias(bias)
    yield "figure_3_4_total_correlation", total_correlation_by_strength(material.table)
    for metric in ("pair_information", "excess_information"):
        yield metric, total_correlation_by_strength(material.table, metric=metric)
    for dataset, ending in material.datasets.items():
        table = material.table.filter(polars.col("dataset") == dataset)
        yield f"figure_10_11_sap{ending}", scores_against(table, y="sap", x=("reconstruction", "total_correlation"))
        yield (
            f"figure_10_11_total_correlation{ending}",
            scores_against(table, y="total_correlation", x=("reconstruction",)),
        )
        counts = latents_of_factors(material, dataset)
        if not counts.is_empty():
            yield f"disintegration{ending}", latents_by_factor(counts)
        for method in [name for name in SHOWN if name in material.methods_at_hand(dataset)]:
            point = material.point(method, SHOWN[method], dataset=dataset)
            yield from _of_model(material, point, f"{stem(method)}{ending}")


def _of_model(material: Material, point: Point, ending: str) -> Drawings:
    encodings, regime = material.encodings(point), material.regime(point)
    yield f"figure_14_16_pairs_{ending}", of_one_model(point, latent_pairs(encodings, regime))
    if encodings.factors is not None:
        yield f"figure_6_factors_{ending}", of_one_model(point, factor_against_latent(encodings, regime))
        for word, factor in split_and_whole(encodings).items():
            yield (
                f"figure_7_{word}_factor_{ending}",
                of_one_model(point, latent_pairs(encodings, regime, factor=factor)),
            )
        r2, nmi = (of(encodings.mean, encodings.factors) for of in (r2_matrix, nmi_matrix))
        yield f"figure_8_9_matrices_{ending}", of_one_model(point, factor_matrices(r2, nmi, encodings.factor_names))
    shown = material.pictures(point)
    yield f"figure_12_reconstructions_{ending}", of_one_model(point, reconstructions(shown))
    yield f"figure_5_13_walks_{ending}", of_one_model(point, latent_walks(shown, regime))
    yield f"figure_13_samples_{ending}", of_one_model(point, samples(material.samples(point)))


def split_and_whole(encodings: Encodings) -> dict[str, str]:
    """Return the factor spread over most independent latents, if there is one, and the least spread one.

    The least spread factor has the largest gap between its two best latents by R^2. [Cheng2021, figure 7]

    Args:
        encodings: Encodings with factors.

    Returns:
        The names of both factors, if they exist.

    >>> mean = np.random.default_rng(0).normal(size=(500, 3))
    >>> factors = np.stack([mean[:, :2].sum(axis=1) > 0, mean[:, 2] > 0], axis=1).astype(int)
    >>> split_and_whole(Encodings(mean, variance=np.ones((500, 3)), factors=factors, factor_names=["hue", "size"]))
    {'disintegrated': 'hue', 'whole': 'size'}
    """
    if encodings.factors is None:
        return {}
    table = disintegration(encodings.mean, encodings.factors, factor_names=tuple(encodings.factor_names))
    split = table.filter("disintegrated").sort(polars.col("variables").list.len(), "gap", descending=[True, False])
    best = table.filter(~polars.col("disintegrated")).sort("gap", descending=True)
    found = {"disintegrated": split["factor"].head(1).to_list(), "whole": best["factor"].head(1).to_list()}
    return {word: str(names[0]) for word, names in found.items() if names}


def latents_of_factors(material: Material, dataset: str | None = None) -> polars.DataFrame:
    """Return how many latents predict each factor (R^2 above 0.1) in every finished run: method, strength, factor.

    Args:
        material: The folder of the study.
        dataset: The dataset; default: all.

    Returns:
        One row for each run and factor: method, strength, factor, value.
    """
    rows = []
    for point in material.done:
        encodings = material.encodings(point)
        if encodings.factors is None or dataset not in (None, point.labels["dataset"]):
            continue
        table = disintegration(encodings.mean, encodings.factors, factor_names=tuple(encodings.factor_names))
        labels = (str(point.labels["method"]), point.labels["strength"])
        rows += [(*labels, name, len(own)) for name, own in table.select("factor", "variables").iter_rows()]
    schema = {"method": polars.String, "strength": polars.Float64, "factor": polars.String, "value": polars.Float64}
    return polars.DataFrame(rows, schema=schema, orient="row")


def bias_table(
    *, variables: tuple[int, ...] = (2, 4, 6, 10), batch_size: int = 500, batches: int = 4
) -> polars.DataFrame:
    """Return minibatch estimates of a known total correlation, see `metrics.estimators`, one row for each estimate.

    The printed MWS weight 1 / (N M) makes the estimate about (D - 1) log N too large, not too small as the paper's
    text says; with 1 / M it coincides with MSS0. The paper does not give D, M and N; these values are ours.

    Args:
        variables: Numbers of variables.
        batch_size: Rows of a batch.
        batches: Batches to average over.

    Returns:
        The table that `estimator_bias` draws.

    >>> table = bias_table(variables=(2,), batch_size=20, batches=1)
    >>> table.columns, table["estimator"].n_unique()
    (['dimension', 'determinant', 'estimator', 'value'], 5)
    """
    size, determinants = 50_000, (0.01, 0.1, 0.25, 0.5, 0.75, 1.0)
    curve = total_correlation_bias_curve(
        variables=variables, determinants=determinants, batch_size=batch_size, dataset_size=size, batches=batches
    )
    literal = polars.col("mws")
    named = curve.select(
        polars.col("variables").alias("dimension"),
        "determinant",
        "truth",
        (literal - (polars.col("variables") - 1) * np.log(size)).alias("MWS, 1/M"),
        polars.col("mss0").alias("MSS0"),
        polars.col("mss1").alias("MSS1"),
        literal.alias("MWS, 1/(NM)"),
    )
    return named.unpivot(index=["dimension", "determinant"], variable_name="estimator", value_name="value")


Kind = Literal["active", "passive"]


# The numbers of the figures in the paper.
FIGURES: dict[int, tuple[Kind, Parts]] = {
    1: ("passive", "parameters"),
    2: ("active", "parameters"),
    3: ("active", "samples"),
    4: ("passive", "samples"),
}


@register("gallery", title="polarised regime of iVAE", references=("Bonheme2023iVAE",))
def polarised_ivae(material: Material) -> Drawings:
    """Draw figures 1 to 4, a passive and an active variable with their priors [Bonheme2023iVAE], and types.

    The model is the iVAE with most variables of the rarer of the two types.

    Args:
        material: The folder of the study.

    Yields:
        The name of each figure with the figure.
    """
    if "iVAE" in material.methods_at_hand():
        point = material.richest("iVAE", kinds=("active", "passive"))
        encodings, regime = material.encodings(point), material.regime(point)
        for number, (kind, of) in FIGURES.items():
            if getattr(regime, kind):
                drawn = posterior_and_prior(encodings, regime, kind=kind, of=of)
                yield f"figure_{number}_{kind}_{of}", of_one_model(point, drawn)
    for method in material.methods_at_hand():
        own = material.richest(method, kinds=("active", "passive"))
        yield f"overview_{stem(method)}", of_one_model(own, overview(material.encodings(own), material.regime(own)))
    for rule in ("relative", "standard"):
        yield f"types_{rule}", scores_by_method(material.table, metric=f"count_{rule}", label=f"variables, {rule} rule")


@register("gallery", title="nonlinear ICA", references=("Khemakhem2020",))
def nonlinear_ica(material: Material) -> Drawings:
    """Draw the mean correlation coefficient of each method over seeds, and the types of an iVAE [Khemakhem2020].

    Args:
        material: The folder of the study.

    Yields:
        The name of each figure with the figure.
    """
    rotated = ("random_rotation", "random rotation of the true sources")
    yield "mcc", scores_by_method(material.table, metric="mcc", label="MCC", baseline=rotated)
    yield "mcc_spearman", scores_by_method(material.table, metric="mcc_spearman", label="MCC, Spearman")
    if "iVAE" not in material.methods_at_hand():
        return
    point = material.point("iVAE")
    yield "ivae_overview", of_one_model(point, overview(material.encodings(point), material.regime(point)))


def scores_by_method(
    table: polars.DataFrame, *, metric: str, label: str, baseline: tuple[str, str] | None = None
) -> "Figure":
    """Draw the score of every seed, one column per method, with its mean as a line, and one row per dataset.

    Args:
        table: The tidy table of a study: run, seed, method, strength, dataset, metric, representation, variables,
            value.
        metric: The metric.
        label: The label of the axis.
        baseline: A metric whose mean is drawn as a line across all methods, and its label.

    Returns:
        The figure; `polarised.report.save` writes it.

    >>> row = {"method": "iVAE", "metric": "mcc", "representation": "mean", "variables": "full", "value": 0.8}
    >>> len(scores_by_method(polars.DataFrame([row]), metric="mcc", label="MCC").axes)
    1
    """
    whole = table if "dataset" in table.columns else table.with_columns(polars.lit("").alias("dataset"))
    own = whole.filter(polars.col("metric") == metric)
    parts = own.select("representation", "variables").unique(maintain_order=True).rows()
    datasets = own["dataset"].unique(maintain_order=True).to_list()
    methods = own["method"].unique(maintain_order=True).to_list()
    shown = [(dataset, *part) for dataset in datasets for part in parts]
    figure, axes = panels(len(shown), columns=min(len(parts), 3), width=2.6, height=2.1, share_y=True)
    for axis, (dataset, representation, variables) in zip(axes, shown, strict=True):
        here = polars.col("dataset") == dataset
        mine = own.filter(
            here, polars.col("representation").eq_missing(representation), polars.col("variables") == variables
        )
        for i, method in enumerate(methods):
            values = mine.filter(polars.col("method") == method)["value"].to_numpy()
            if values.size:
                look = series(i)
                aside = np.linspace(-0.18, 0.18, values.size) if values.size > 1 else np.zeros(1)
                axis.plot(i + aside, values, look.marker, color=look.light, markersize=3.5, alpha=0.8)
                axis.hlines(values.mean(), i - 0.3, i + 0.3, color=INK, linewidth=1.4)
        if baseline is not None:
            floor = whole.filter(here, polars.col("metric") == baseline[0])["value"]
            if len(floor):
                axis.axhline(
                    float(floor.to_numpy().mean()), color=MUTED, linestyle="--", linewidth=1, label=baseline[1]
                )
        axis.set_xticks(range(len(methods)), methods, rotation=20, ha="right", rotation_mode="anchor", fontsize=SMALL)
        words = [str(word) for word in (representation, "" if variables == "full" else variables) if word]
        title = ", ".join([*([str(dataset)] if len(datasets) > 1 else []), *words])
        axis.set_title(title.replace("active_mixed", "without passive"), fontsize=SMALL)
    for axis in axes[:: min(len(parts), 3)]:
        axis.set_ylabel(label)
    legend(figure, axes)
    return figure
