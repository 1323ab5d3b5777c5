"""Figures of the studies of identifiable VAEs."""

from typing import TYPE_CHECKING, Literal

import numpy as np
import polars

from polarised.report.drawing import INK, SMALL, panels, series
from polarised.report.figures import overview, posterior_and_prior
from polarised.report.figures.variables import Parts
from polarised.report.gallery.material import Drawings, Material, stem

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["nonlinear_ica", "polarised_ivae", "scores_by_method"]

Kind = Literal["active", "passive"]
# As the paper numbers them.
FIGURES: dict[int, tuple[Kind, Parts]] = {
    1: ("passive", "parameters"),
    2: ("active", "parameters"),
    3: ("active", "samples"),
    4: ("passive", "samples"),
}


def polarised_ivae(material: Material) -> Drawings:
    """Draw figures 1 to 4, a passive and an active variable beside their priors [Bonheme2023iVAE], and types.

    The model is the iVAE with most variables of the rarer of both types.
    """
    point = material.richest("iVAE", kinds=("active", "passive"))
    encodings, regime = material.encodings(point), material.regime(point)
    for number, (kind, of) in FIGURES.items():
        if getattr(regime, kind):
            yield f"figure_{number}_{kind}_{of}", posterior_and_prior(encodings, regime, kind=kind, of=of)
    for method in material.methods():
        own = material.richest(method, kinds=("active", "passive"))
        yield f"overview_{stem(method)}", overview(material.encodings(own), material.regime(own))
    for rule in ("relative", "standard"):
        yield f"types_{rule}", scores_by_method(material.table, metric=f"count_{rule}", label=f"variables, {rule} rule")


def nonlinear_ica(material: Material) -> Drawings:
    """Draw the mean correlation coefficient of each method over seeds, and the types of an iVAE [Khemakhem2020]."""
    yield "mcc", scores_by_method(material.table, metric="mcc", label="MCC")
    yield "mcc_spearman", scores_by_method(material.table, metric="mcc_spearman", label="MCC, Spearman")
    point = material.point("iVAE")
    yield "ivae_overview", overview(material.encodings(point), material.regime(point))


def scores_by_method(table: polars.DataFrame, *, metric: str, label: str) -> "Figure":
    """Draw a score of every seed in a row for each method, the average as a line; a panel a representation or type.

    >>> row = {"method": "iVAE", "metric": "mcc", "representation": "mean", "variables": "full", "value": 0.8}
    >>> len(scores_by_method(polars.DataFrame([row]), metric="mcc", label="MCC").axes)
    1
    """
    own = table.filter(polars.col("metric") == metric)
    parts = own.select("representation", "variables").unique(maintain_order=True).rows()
    methods = own["method"].unique(maintain_order=True).to_list()
    figure, axes = panels(len(parts), columns=3, width=2.6, height=2.1, share_y=True)
    for axis, (representation, variables) in zip(axes, parts, strict=True):
        mine = own.filter(polars.col("representation").eq_missing(representation), polars.col("variables") == variables)
        for i, method in enumerate(methods):
            values = mine.filter(polars.col("method") == method)["value"].to_numpy()
            if values.size:
                look = series(i)
                spread = np.linspace(-0.18, 0.18, values.size) if values.size > 1 else np.zeros(1)
                axis.plot(i + spread, values, look.marker, color=look.light, markersize=3.5, alpha=0.8)
                axis.hlines(values.mean(), i - 0.3, i + 0.3, color=INK, linewidth=1.4)
        axis.set_xticks(range(len(methods)), methods, rotation=20, ha="right", rotation_mode="anchor", fontsize=SMALL)
        words = [str(word) for word in (representation, "" if variables == "full" else variables) if word]
        axis.set_title(", ".join(words).replace("active_mixed", "without passive"), fontsize=SMALL)
    axes[0].set_ylabel(label)
    return figure
