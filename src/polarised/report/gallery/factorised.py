"""Figures of the study of factorised codes [Cheng2021]."""

import numpy as np
import polars

from polarised.metrics import disintegration, nmi_matrix, r2_matrix
from polarised.metrics.bias import total_correlation_bias_curve
from polarised.report.figures import (
    estimator_bias,
    factor_against_latent,
    factor_matrices,
    latent_pairs,
    latent_walks,
    latents_by_factor,
    reconstructions,
    samples,
    scores_against,
    total_correlation_by_strength,
)
from polarised.report.gallery.material import Drawings, Material, stem
from polarised.representations import Encodings
from polarised.study.grid import Point

__all__ = ["bias_table", "latents_of_factors", "rtc_vae", "split_and_whole"]

# The strengths of the paper's pair plots, figures 14 to 16.
SHOWN = {"FactorVAE": 50.0, "DIP-VAE-I": 20.0, "DIP-VAE-II": 20.0, "RTC-VAE": 20.0}


def rtc_vae(material: Material) -> Drawings:
    """Draw figures 2 to 16 of [Cheng2021] as far as the finished runs go, those of single models for each dataset."""
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
        spread = latents_of_factors(material, dataset)
        if not spread.is_empty():
            yield f"disintegration{ending}", latents_by_factor(spread)
        for method in [name for name in SHOWN if name in material.methods(dataset)]:
            point = material.point(method, SHOWN[method], dataset=dataset)
            yield from _of_model(material, point, f"{stem(method)}{ending}")


def _of_model(material: Material, point: Point, ending: str) -> Drawings:
    encodings, regime = material.encodings(point), material.regime(point)
    yield f"figure_14_16_pairs_{ending}", latent_pairs(encodings, regime)
    if encodings.factors is not None:
        yield f"figure_6_factors_{ending}", factor_against_latent(encodings, regime)
        for word, factor in split_and_whole(encodings).items():
            yield f"figure_7_{word}_factor_{ending}", latent_pairs(encodings, regime, factor=factor)
        r2, nmi = (of(encodings.mean, encodings.factors) for of in (r2_matrix, nmi_matrix))
        yield f"figure_8_9_matrices_{ending}", factor_matrices(r2, nmi, encodings.factor_names)
    shown = material.pictures(point)
    yield f"figure_12_reconstructions_{ending}", reconstructions(shown)
    yield f"figure_5_13_walks_{ending}", latent_walks(shown, regime)
    yield f"figure_13_samples_{ending}", samples(material.samples(point))


def split_and_whole(encodings: Encodings) -> dict[str, str]:
    """Return the factor that is spread over most independent latents, where one is, and the one that is least spread.

    Whole is the factor with the largest gap between its two best latents by R^2. [Cheng2021, figure 7]

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
    """Return how many latents tell of each factor (R^2 above 0.1) in every finished run: method, strength, factor."""
    rows = []
    for point in material.done:
        encodings = material.encodings(point)
        if encodings.factors is None or dataset not in (None, point.labels["dataset"]):
            continue
        spread = disintegration(encodings.mean, encodings.factors, factor_names=tuple(encodings.factor_names))
        labels = (str(point.labels["method"]), point.labels["strength"])
        rows += [(*labels, name, len(own)) for name, own in spread.select("factor", "variables").iter_rows()]
    schema = {"method": polars.String, "strength": polars.Float64, "factor": polars.String, "value": polars.Float64}
    return polars.DataFrame(rows, schema=schema, orient="row")


def bias_table(
    *, variables: tuple[int, ...] = (2, 4, 6, 10), batch_size: int = 500, batches: int = 4
) -> polars.DataFrame:
    """Return minibatch estimates of a known total correlation, see `metrics.bias`, a row an estimate.

    The printed MWS weight 1 / (N M) makes the estimate about (D - 1) log N too large, not too small as the paper's
    text says; with 1 / M it falls together with MSS0. The paper does not print D, M, N; these are ours.

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
