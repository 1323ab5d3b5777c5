"""Figures of "Be More Active!" and of its learning dynamics [Bonheme2023BeMoreActive]."""

import polars

from polarised.report.figures import (
    correlation_counts,
    correlation_heatmap,
    correlations_over_training,
    downstream_by_subset,
    histograms_by_type,
    kl_over_training,
    metric_by_subset,
    metric_over_passive,
    ratio_over_training,
    types_by_strength,
    types_over_training,
)
from polarised.report.gallery.material import Drawings, Material
from polarised.study.grid import Point

__all__ = ["be_more_active", "learning_dynamics"]

METRICS = ("total_correlation", "mutual_information", "effective_rank", "wasserstein_correlation")


def be_more_active(material: Material) -> Drawings:
    """Draw figures 4 to 11 and 14 to 18; histograms and correlations are of a run that has all three types.

    Of each dataset, where there are several.
    """
    for dataset, ending in material.datasets.items():
        chosen = _with_a_mixed_variable(material, dataset)
        encodings, regime = material.encodings(chosen), material.regime(chosen)
        table = material.table.filter(polars.col("dataset") == dataset)
        yield f"figure_4_5_histograms{ending}", histograms_by_type(encodings, regime)
        if "accuracy" in table["metric"]:
            yield f"figure_6_downstream{ending}", downstream_by_subset(table)
        yield f"figure_7_14_types{ending}", types_by_strength(table)
        for metric in METRICS:
            yield f"figure_8_15_17_{metric}{ending}", metric_over_passive(table, metric=metric)
            yield f"figure_9_10_18_{metric}{ending}", metric_by_subset(table, metric=metric)
        yield f"figure_11_correlations{ending}", correlation_heatmap(encodings, regime)


def learning_dynamics(material: Material) -> Drawings:
    """Draw figures 11 to 13, and types, KL and variance ratios over time, of the first run."""
    point = material.done[0]
    timeline = material.timeline(point)
    yield "figure_11_correlations", correlation_heatmap(material.encodings(point), material.regime(point))
    yield "figure_12_correlated_pairs", correlation_counts(timeline)
    yield "figure_13_correlations_over_training", correlations_over_training(timeline)
    yield "types_over_training", types_over_training(timeline)
    yield "kl_over_training", kl_over_training(timeline)
    yield "ratio_over_training", ratio_over_training(timeline)


def _with_a_mixed_variable(material: Material, dataset: str) -> Point:
    """Return the run with all three types whose mixed variable changes most from input to input; else the richest.

    It is of the first method that has one, as the paper's is of a beta-VAE: others correlate active variables too.
    """
    column = "standard_type" if material.study.rule == "standard" else "type"
    spreads: dict[str, dict[str, float]] = {}
    own = {point.run.name: point for point in material.done if point.labels["dataset"] == dataset}
    for name, point in own.items():
        types = polars.read_parquet(material.root / name / "regime.parquet", glob=False)
        if types[column].n_unique() == 3:
            spread = float(types.filter(polars.col(column) == "mixed")["ratio_variance"].to_numpy().max())
            spreads.setdefault(point.labels["method"], {})[name] = spread
    if not spreads:
        return material.richest(dataset=dataset)
    first = next(iter(spreads.values()))
    return own[max(first, key=lambda name: first[name])]
