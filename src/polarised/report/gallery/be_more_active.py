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
    """Draw figures 4 to 11 and 14 to 18; histograms and correlations are of a run that has all three types."""
    table = material.table
    chosen = _richest(material)
    encodings, regime = material.encodings(chosen), material.regime(chosen)
    yield "figure_4_5_histograms", histograms_by_type(encodings, regime)
    if "accuracy" in table["metric"]:
        yield "figure_6_downstream", downstream_by_subset(table)
    yield "figure_7_14_types", types_by_strength(table)
    for metric in METRICS:
        yield f"figure_8_15_17_{metric}", metric_over_passive(table, metric=metric)
        yield f"figure_9_10_18_{metric}", metric_by_subset(table, metric=metric)
    yield "figure_11_correlations", correlation_heatmap(encodings, regime)


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


def _richest(material: Material) -> Point:
    """Return the run whose rarest type is the least rare, so that each type can be shown."""
    counts = material.table.filter(polars.col("metric") == "count").group_by("run").agg(polars.col("value").min())
    rarest = dict(counts.select("run", "value").iter_rows())
    return max(material.done, key=lambda point: rarest.get(point.run.name, 0.0))
