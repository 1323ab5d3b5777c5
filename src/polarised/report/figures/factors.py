"""Figures of factorised representations: estimators' bias, pairs of latents, latents against factors, trade-offs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polarised.errors import DataError
from polarised.regime import Encodings, Regime
from polarised.registry import register
from polarised.report.drawing import (
    FAINT,
    INK,
    MUTED,
    SMALL,
    TEXT,
    band,
    clean,
    legend,
    name_points,
    panels,
    same_limits,
    series,
    trail,
)
from polarised.report.figures.over_strength import (
    by_method,
    chosen,
    name_upright,
    paired,
    repeated,
    seeds_of,
    shown_strength,
    strength_axis,
    strengths_of,
)
from polarised.report.theme import TYPES, metric_name

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure

__all__ = [
    "estimator_bias",
    "factor_against_latent",
    "factor_matrices",
    "latent_pairs",
    "latents_by_factor",
    "scores_against",
]


@register("figure", title="bias of estimators", references=("Cheng2021",), figures="2")
def estimator_bias(table: "polars.DataFrame", *, top: float | None = None) -> "Figure":
    """Draw estimates of total correlation against the determinant of the code's correlation.

    A panel for each number of variables. Columns: dimension, determinant, estimator, value; rows of the estimator
    "truth" are the true TC. Estimates by minibatch weighting are right for two or three dimensions and grow with every
    further one, independent of the truth; MWS with the printed 1 / (N M) is far above them all. [Cheng2021, figure 2]

    Args:
        table: Estimates with the columns above.
        top: Upper end of the y axis.

    Returns:
        The figure; `polarised.report.save` writes it.

    Raises:
        DataError: If a column is missing.

    >>> import polars
    >>> rows = {"dimension": [2, 2], "determinant": [0.5, 1.0], "estimator": ["truth"] * 2, "value": [0.3, 0.0]}
    >>> len(estimator_bias(polars.DataFrame(rows)).axes)
    1
    """
    if missing := sorted({"dimension", "determinant", "estimator", "value"} - set(table.columns)):
        raise DataError(f"expected columns dimension, determinant, estimator, value; {', '.join(missing)} missing")
    dimensions = table["dimension"].unique().sort().to_list()
    names = table["estimator"].unique(maintain_order=True).to_list()
    figure, axes = panels(len(dimensions), columns=4, width=2.1, height=2.1)
    for axis, dimension in zip(axes, dimensions, strict=True):
        own = table.filter(table["dimension"] == dimension)
        for i, name in enumerate(names):
            line = own.filter(own["estimator"] == name).group_by("determinant").agg(value=_mean()).sort("determinant")
            look = series(i)
            truth = name == "truth"
            axis.plot(
                line["determinant"],
                line["value"],
                color=INK if truth else look.light,
                marker=look.marker,
                linestyle="-" if truth else look.dash,
                linewidth=2.0 if truth else 1.2,
                markersize=3.5,
                label=name,
            )
        axis.set_title(f"D = {dimension}", fontsize=TEXT)
        axis.set_xlabel("determinant")
        axis.set_ylim(None, top)
    axes[0].set_ylabel("total correlation, nats")
    legend(figure, axes, columns=len(names))
    return figure


@register("figure", title="pairs of latents", references=("Cheng2021",), figures="5 to 7 and 14 to 16")
def latent_pairs(
    encodings: Encodings, regime: Regime, *, factor: str | None = None, most: int = 5, points: int = 2000
) -> "Figure":
    """Draw the means of every pair of the most informative latents, coloured by a factor if one is given.

    A factorised code fills boxes; one that is only uncorrelated shows curves. [Cheng2021, figures 5 to 7, 14 to 16]

    Args:
        encodings: The encodings of the model.
        regime: The types of the same variables.
        factor: The factor that colours the points.
        most: Largest number of latents to show.
        points: Largest number of inputs to show.

    Returns:
        The figure; `polarised.report.save` writes it.

    Raises:
        DataError: If the encodings have no such factors.

    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> from polarised import classify
    >>> len(latent_pairs(encodings, classify(encodings)).axes)
    4
    """
    order = [int(j) for j in np.argsort(-regime.statistics.kl, kind="stable")[:most]]
    rows = np.unique(np.linspace(0, len(encodings) - 1, min(points, len(encodings))).astype(int))
    values = encodings.mean[rows]
    colours: Any = TYPES["active"].light if factor is None else _factor(encodings, factor)[rows]
    d = len(order)
    figure, axes = panels(d * d, columns=d, width=1.35, height=1.3)
    for place, axis in enumerate(axes):
        i, k = divmod(place, d)
        clean(axis, grid="none")
        axis.set_xticks([])
        axis.set_yticks([])
        if i == k:
            look = TYPES[regime.types[order[i]]]
            axis.hist(values[:, order[i]], 30, color=look.light)
            axis.set_title(f"{look.glyph} {order[i]} {regime.types[order[i]]}", fontsize=SMALL, color=look.light)
        else:
            axis.scatter(
                values[:, order[k]],
                values[:, order[i]],
                s=2.2,
                c=colours,
                cmap=None if factor is None else "viridis",
                linewidths=0,
                alpha=0.55,
                rasterized=True,
            )
        if k == 0:
            axis.set_ylabel(f"z{order[i]}", fontsize=SMALL)
        if i == d - 1:
            axis.set_xlabel(f"z{order[k]}", fontsize=SMALL)
    if factor is not None:
        figure.suptitle(f"means, coloured by {factor}", fontsize=TEXT, color=INK)
    return figure


@register("figure", title="factors against latents", references=("Cheng2021",), figures="6")
def factor_against_latent(encodings: Encodings, regime: Regime, *, most: int = 6, points: int = 2000) -> "Figure":
    """Draw each factor's value against the most informative latents: rows factors, columns latents.

    A factor followed by several independent columns is disintegrated. [Cheng2021, fig. 6]

    Args:
        encodings: The encodings of the model.
        regime: The types of the same variables.
        most: Largest number of latents to show.
        points: Largest number of inputs to show.

    Returns:
        The figure; `polarised.report.save` writes it.

    Raises:
        DataError: If the encodings have no such factors.

    >>> encodings = Encodings([[0.3], [-1.1]], variance=[[0.02], [0.01]], factors=[[0], [1]], factor_names=["size"])
    >>> from polarised import classify
    >>> len(factor_against_latent(encodings, classify(encodings)).axes)
    1
    """
    if encodings.factors is None:
        raise DataError("expected encodings with known factors, but these have none; give factors= to Encodings")
    order = [int(j) for j in np.argsort(-regime.statistics.kl, kind="stable")[:most]]
    rows = np.unique(np.linspace(0, len(encodings) - 1, min(points, len(encodings))).astype(int))
    count = len(encodings.factor_names)
    figure, axes = panels(count * len(order), columns=len(order), width=1.3, height=1.15)
    for place, axis in enumerate(axes):
        i, k = divmod(place, len(order))
        values, factor = encodings.mean[rows, order[k]], encodings.factors[rows, i]
        # Spread each class horizontally, reproducibly, so that its points do not hide each other.
        aside = 0.7 * (np.arange(len(rows)) * 0.618034 % 1 - 0.5)
        clean(axis, grid="none")
        axis.scatter(
            factor + aside,
            values,
            s=2.5,
            c=TYPES[regime.types[order[k]]].light,
            linewidths=0,
            alpha=0.35,
            rasterized=True,
        )
        levels = np.unique(factor)
        axis.plot(levels, [values[factor == level].mean() for level in levels], color=INK, linewidth=1.1)
        axis.set_xticks([])
        axis.set_yticks([])
        if i == 0:
            axis.set_title(f"z{order[k]} {TYPES[regime.types[order[k]]].letter}", fontsize=SMALL)
        if k == 0:
            axis.set_ylabel(encodings.factor_names[i], fontsize=SMALL)
    return figure


@register("figure", title="what latents know of factors", references=("Cheng2021",), figures="8 and 9")
def factor_matrices(r2: NDArray[Any], nmi: NDArray[Any], factor_names: Sequence[str]) -> "Figure":
    """Draw how well each latent alone explains each factor: R^2 and normalised mutual information, (d, factors).

    [Cheng2021, figures 8 and 9]

    Args:
        r2: R^2 (d, factors), as `metrics.r2_matrix` makes it.
        nmi: Normalised mutual information (d, factors), as `metrics.nmi_matrix` makes it.
        factor_names: Names of the factors.

    Returns:
        The figure; `polarised.report.save` writes it.

    Raises:
        DataError: If the shapes of matrices and names do not match.

    >>> len(factor_matrices(np.eye(2), np.eye(2), ["shape", "scale"]).axes)
    2
    """
    matrices = {"R²": np.asarray(r2, dtype=float), "normalised mutual information": np.asarray(nmi, dtype=float)}
    latents, factors = matrices["R²"].shape
    if len(factor_names) != factors or matrices["normalised mutual information"].shape != (latents, factors):
        raise DataError(
            f"expected two matrices (latents, {len(factor_names)} factors), "
            f"got {[m.shape for m in matrices.values()]}; rows are latents, columns factors"
        )
    figure, axes = panels(2, columns=2, width=max(2.6, 0.5 * factors + 1.0), height=max(2.2, 0.24 * latents + 0.9))
    for axis, (name, matrix) in zip(axes, matrices.items(), strict=True):
        clean(axis, grid="none")
        axis.imshow(matrix, cmap="Purples", vmin=0, vmax=1, aspect="auto")
        for j in range(latents):
            for k in range(factors):
                colour = "white" if matrix[j, k] > 0.55 else INK
                axis.text(k, j, f"{matrix[j, k]:.2f}", ha="center", va="center", fontsize=SMALL - 1, color=colour)
        axis.set_xticks(range(factors), list(factor_names), rotation=30, ha="right", rotation_mode="anchor")
        axis.set_yticks(range(latents))
        axis.tick_params(length=0)
        axis.set_title(name, fontsize=TEXT)
    axes[0].set_ylabel("latent variable")
    return figure


@register("figure", title="scores against each other", references=("Cheng2021",), figures="10 and 11")
def scores_against(
    table: "polars.DataFrame",
    *,
    y: str = "sap",
    x: tuple[str, ...] = ("reconstruction", "total_correlation"),
    representation: str = "mean",
) -> "Figure":
    """Draw one score against others, then against strength, with a row of panels for each and a column per method.

    Dots are single runs; a line connects the means at increasing strengths and is labelled at both ends; other methods
    are grey behind it. Against strength, bands contain 95 % of the seeds. [Cheng2021, figures 10 and 11]

    Args:
        table: The tidy table of a study: run, seed, method, strength, dataset, metric, representation, variables,
            value.
        y: The metric of the y axis.
        x: The metrics of the x axes, one row of panels each.
        representation: The representation that is scored.

    Returns:
        The figure; `polarised.report.save` writes it.

    Raises:
        DataError: If the table lacks columns or has no rows to draw.

    >>> import polars
    >>> run = {"run": "a", "method": "RTCVAE", "strength": 1.0, "representation": "mean", "variables": "full"}
    >>> rows = [run | {"metric": "sap", "value": 0.1}, run | {"metric": "reconstruction", "value": 20.0}]
    >>> len(scores_against(polars.DataFrame(rows), x=("reconstruction",)).axes)
    2
    """
    upright = _of(table, y, representation)
    methods = by_method(upright)
    looks = {name: series(i) for i, name in enumerate(methods)}
    count, graded = len(methods), any(s is not None for frame in methods.values() for s in strengths_of(frame))
    figure, axes = panels(count * (len(x) + graded), columns=count, width=max(1.7, 6.8 / max(count, 3)), height=1.75)
    marks = []
    for row, metric in enumerate(x):
        runs, strengths = paired(upright, _of(table, metric, representation))
        own = dict(zip(methods, axes[row * count : (row + 1) * count], strict=True))
        for name, axis in own.items():
            axis.set_xlabel(metric_name(metric))
            axis.grid(True, axis="both", color=FAINT, linewidth=0.6)
            if name in runs:
                points = trail(axis, runs[name], looks[name], behind=[runs[k] for k in runs if k != name])
                first_and_last = dict(zip(strengths[name], points, strict=True))
                texts = [(first_and_last[s], shown_strength(s)) for s in strengths[name][:: max(1, len(points) - 1)]]
                marks.append((axis, [(at, text, looks[name].light) for at, text in texts], points))
        same_limits([own[name] for name in runs])
    for axis, (name, frame) in zip(axes[len(x) * count :], methods.items(), strict=False):
        own_strengths = strengths_of(frame)
        band(axis, range(len(own_strengths)), repeated(frame, own_strengths), looks[name], seeds=seeds_of(frame))
        strength_axis(axis, own_strengths, name)
        axis.set_title("")
    lows, highs = zip(*(axis.get_ylim() for axis in axes), strict=True)
    for axis in axes:
        axis.set_ylim(min(lows), max(highs))
    for axis, named, points in marks:
        name_points(axis, named, points)
    for axis, name in zip(axes, methods, strict=False):
        axis.set_title(name, fontsize=TEXT, color=looks[name].light)
    for axis in axes[::count]:
        name_upright(axis, y)
    figure.supxlabel(
        "numbers: first and last strength; small marks: single runs; grey: the other methods",
        fontsize=SMALL,
        color=MUTED,
    )
    return figure


@register("figure", title="latents of each factor", references=("Cheng2021",))
def latents_by_factor(table: "polars.DataFrame", *, threshold: float = 0.1) -> "Figure":
    """Draw over how many latents each factor is spread against strength, one panel per method, with bands over seeds.

    Columns: method, strength, factor, value. One latent per factor is ideal; a factor with several independent latents
    is disintegrated. `threshold` is used in the label. [Cheng2021, section 6.3]

    Args:
        table: Counts with the columns above.
        threshold: R^2 above which a latent was counted.

    Returns:
        The figure; `polarised.report.save` writes it.

    >>> import polars
    >>> rows = {"method": ["RTC-VAE"], "strength": [2.0], "factor": ["shape"], "value": [1]}
    >>> len(latents_by_factor(polars.DataFrame(rows)).axes)
    1
    """
    groups = by_method(table)
    factors = table["factor"].unique(maintain_order=True).to_list()
    figure, axes = panels(len(groups), columns=4, width=2.1, height=2.0, share_y=True)
    for axis, (name, frame) in zip(axes, groups.items(), strict=True):
        strengths = strengths_of(frame)
        for i, factor in enumerate(factors):
            band(axis, range(len(strengths)), repeated(frame, strengths, factor=factor), series(i), label=factor)
        axis.axhline(1, color=MUTED, linewidth=0.8, linestyle=":")
        strength_axis(axis, strengths, name)
    axes[0].set_ylabel(f"latents with R² > {threshold:g}")
    axes[0].set_ylim(-0.3, None)
    legend(figure, axes, columns=len(factors))
    return figure


def _of(table: "polars.DataFrame", metric: str, representation: str) -> "polars.DataFrame":
    frame = chosen(table, metric, variables="full")
    return frame.filter((frame["representation"] == representation) | frame["representation"].is_null())


def _factor(encodings: Encodings, name: str) -> NDArray[Any]:
    if encodings.factors is None or name not in encodings.factor_names:
        raise DataError(f"expected a factor of {', '.join(encodings.factor_names) or 'none known'}, got {name!r}")
    return encodings.factors[:, encodings.factor_names.index(name)]


def _mean() -> "polars.Expr":
    import polars

    return polars.col("value").mean()
