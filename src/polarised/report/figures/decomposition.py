"""Figures of decomposition: axis alignment against reconstruction, aggregate posteriors, sparsity, priors."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polarised.errors import DataError
from polarised.regime import Encodings
from polarised.registry import register
from polarised.report.drawing import (
    INK,
    MUTED,
    SMALL,
    TEXT,
    band,
    clean,
    colour_bar,
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
    shown_strength,
    strengths_of,
)
from polarised.report.theme import Look, metric_name

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure

__all__ = [
    "aggregate_posterior_density",
    "magnitude_by_class",
    "plane_of_strengths",
    "prior_density",
    "reconstruction_against_score",
    "sparsity_by_regularisation",
]


@register("figure", title="reconstruction against a score", references=("Mathieu2019",), figures="2")
def reconstruction_against_score(
    table: "polars.DataFrame", *, score: str = "factor_vae_score", symbols: Mapping[str, str] | None = None
) -> "Figure":
    """Draw reconstruction against a disentanglement score: a panel for each prior, a point for each strength.

    Dots are single runs, the line connects their means, and the other priors are grey behind it; a prior with only one
    strength is in every panel. `symbols` are the symbols of the methods' strengths at the points, such as ν.
    [Mathieu2019, figure 2]

    Args:
        table: The tidy table of a study: run, seed, method, strength, dataset, metric, representation, variables,
            value.
        score: The metric of the y axis.
        symbols: The symbol of each method's strength.

    Returns:
        The figure; `polarised.report.save` writes it.

    Raises:
        DataError: If the table lacks columns or has no rows to draw.

    >>> import polars
    >>> run = {"run": "a", "method": "isotropic", "strength": 1.0, "representation": "mean", "variables": "full"}
    >>> rows = [run | {"metric": "factor_vae_score", "value": 0.6}, run | {"metric": "reconstruction", "value": 20.0}]
    >>> figure = reconstruction_against_score(polars.DataFrame(rows), symbols={"isotropic": "β"})
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['β 1']
    """
    upright = _means(chosen(table, score, variables="full"))
    runs, strengths = paired(upright, _means(chosen(table, "reconstruction", variables="full")))
    symbol = {name: (symbols or {}).get(str(frame["method"][0]), "") for name, frame in by_method(upright).items()}
    named = {name: [f"{symbol[name]} {shown_strength(s)}".strip() for s in own] for name, own in strengths.items()}
    several = [name for name, own in runs.items() if len(own) > 1] or list(runs)
    single = [name for name in runs if name not in several]
    width = 2.5 if len(several) > 1 else 4.0
    figure, axes = panels(len(several), columns=3, width=width, height=2.3 if len(several) > 1 else 2.8)
    points = {}
    for axis, name in zip(axes, several, strict=True):
        look = series(list(runs).index(name))
        others = [runs[other] for other in several if other != name]
        points[name] = trail(axis, runs[name], look, behind=others)
        for other in single:
            points[other] = trail(axis, runs[other], Look(MUTED, MUTED, "", "■", "s"))
        axis.set_title(name, fontsize=TEXT, color=look.light)
        axis.set_xlabel("reconstruction loss, nats")
    same_limits(axes)
    for axis, name in zip(axes, several, strict=True):
        colours = {name: series(list(runs).index(name)).light, **dict.fromkeys(single, MUTED)}
        marks = [(at, text, colours[of]) for of in colours for at, text in zip(points[of], named[of], strict=True)]
        name_points(axis, marks, points[name])
    name_upright(axes[0], score)
    grey = "; grey: the other priors" if len(several) > 1 else ""
    also = "".join(f"; dark grey: {name}" for name in single)
    figure.supxlabel(f"small marks: single runs{grey}{also}", fontsize=SMALL, color=MUTED)
    return figure


@register("figure", title="density of the aggregate posterior", references=("Mathieu2019",), figures="3")
def aggregate_posterior_density(
    encodings: Mapping[str, Encodings],
    *,
    extent: float = 2.0,
    resolution: int = 200,
    columns: int = 5,
    top: float | None = None,
) -> "Figure":
    """Draw the density of q(z) = E_x[N(mean, variance)] of two-dimensional codes, a panel for each model.

    `top` is the density of the brightest colour, 1 in the authors' code; by default, each panel has its own.
    [Mathieu2019, figure 3]

    Args:
        encodings: Encodings with two variables, by the title of their panel.
        extent: Half the side length of the square shown.
        resolution: Points along a side.
        columns: Panels per row.
        top: The density of the brightest colour.

    Returns:
        The figure; `polarised.report.save` writes it.

    Raises:
        DataError: If the codes do not have two variables.

    >>> code = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> len(aggregate_posterior_density({"beta 1": code}, resolution=20).axes)
    1
    """
    figure, axes = panels(len(encodings), columns=columns, width=1.65, height=1.8)
    grid = np.linspace(-extent, extent, resolution)
    for axis, (name, own) in zip(axes, encodings.items(), strict=True):
        if own.latents != 2:
            raise DataError(f"expected codes with two variables, but {name!r} has {own.latents}")
        _plane(axis, _mixture(grid, own.mean, own.variance), extent, name, top)
    return figure


@register("figure", title="density of priors", references=("Mathieu2019",), figures="5 and 6")
def prior_density(priors: Mapping[str, NDArray[Any]], *, extent: float = 3.0) -> "Figure":
    """Draw two-dimensional densities given on a square grid from -extent to extent [Mathieu2019, figures 5 and 6].

    Args:
        priors: Densities (m, m) by the title of their panel.
        extent: Half the side length of the square shown.

    Returns:
        The figure; `polarised.report.save` writes it.

    Raises:
        DataError: If a density is not on a square grid.

    >>> len(prior_density({"nu = 3": np.ones((4, 4))}).axes)
    1
    """
    figure, axes = panels(len(priors), columns=4, width=1.9, height=2.0)
    for axis, (name, density) in zip(axes, priors.items(), strict=True):
        values = np.asarray(density, dtype=float)
        if values.ndim != 2:
            raise DataError(f"expected the density of {name!r} on a square grid, got shape {values.shape}")
        _plane(axis, values, extent, name)
    return figure


@register("figure", title="sparsity against alpha", references=("Mathieu2019",), figures="4")
def sparsity_by_regularisation(
    table: "polars.DataFrame", *, metrics: tuple[str, ...] = ("hoyer", "reconstruction", "mmd")
) -> "Figure":
    """Draw sparsity, reconstruction and the mismatch to the prior against alpha, a curve for each setting.

    Bands contain 95 % of the seeds. [Mathieu2019, figure 4]

    Args:
        table: The tidy table of a study: run, seed, method, strength, dataset, metric, representation, variables,
            value.
        metrics: The metrics, one panel each.

    Returns:
        The figure; `polarised.report.save` writes it.

    Raises:
        DataError: If the table lacks columns or has no rows to draw.

    >>> import polars
    >>> run = {"method": "gamma 0.8", "strength": 1.0, "representation": "mean", "variables": "full", "value": 0.6}
    >>> len(sparsity_by_regularisation(polars.DataFrame([run | {"metric": "hoyer"}]), metrics=("hoyer",)).axes)
    1
    """
    figure, axes = panels(len(metrics), columns=3)
    for axis, metric in zip(axes, metrics, strict=True):
        for i, (name, frame) in enumerate(by_method(_means(chosen(table, metric))).items()):
            strengths = strengths_of(frame)
            band(axis, [float(s) for s in strengths], repeated(frame, strengths), series(i), label=name)
        axis.set_xlabel("α")
        axis.set_title(metric_name(metric), fontsize=TEXT)
        axis.set_xscale("symlog", linthresh=1.0)
    legend(figure, axes)
    return figure


@register("figure", title="magnitude by class", references=("Mathieu2019",), figures="4")
def magnitude_by_class(
    encodings: Encodings, *, factor: str | None = None, class_names: Sequence[str] | None = None
) -> "Figure":
    """Draw the mean magnitude E[|mean_j|] of every latent for each class [Mathieu2019, figure 4].

    `class_names` are the names of the classes 0, 1, ...

    Args:
        encodings: The encodings of the model.
        factor: The factor whose classes are shown; default: the first.
        class_names: Names of the classes.

    Returns:
        The figure; `polarised.report.save` writes it.

    Raises:
        DataError: If the encodings have no such factors.

    >>> code = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=np.ones((2, 2)), factors=[0, 1], factor_names=["class"])
    >>> len(magnitude_by_class(code, class_names=["cat", "dog"]).axes)
    2
    """
    if encodings.factors is None:
        raise DataError("expected encodings with known classes, but these have none; give factors= to Encodings")
    name = encodings.factor_names[0] if factor is None else factor
    if name not in encodings.factor_names:
        raise DataError(f"expected a factor of {', '.join(encodings.factor_names)}, got {factor!r}")
    classes = encodings.factors[:, encodings.factor_names.index(name)]
    levels = np.unique(classes)
    if class_names is not None and len(class_names) <= levels[-1]:
        raise DataError(f"expected a name for each of the classes 0 to {levels[-1]}, got {len(class_names)} names")
    magnitudes = np.stack([np.abs(encodings.mean[classes == level]).mean(axis=0) for level in levels])
    width, height = max(3.4, 0.12 * encodings.latents + 1.6), max(1.6, 0.22 * len(levels) + 0.8)
    figure, (axis,) = panels(1, width=width, height=height)
    clean(axis, grid="none")
    image = axis.imshow(magnitudes, cmap="Purples", aspect="auto", vmin=0)
    axis.set_yticks(range(len(levels)), [str(k) if class_names is None else str(class_names[k]) for k in levels])
    axis.set_xlabel("latent variable")
    axis.locator_params(axis="x", integer=True)
    axis.set_ylabel(name)
    colour_bar(figure, image, axis, "mean |μ|")
    return figure


@register("figure", title="metrics over two strengths", references=("Mathieu2019",))
def plane_of_strengths(
    table: "polars.DataFrame", *, metrics: tuple[str, ...], across: str = "beta", up: str = "alpha"
) -> "Figure":
    """Draw metrics over two strengths as heat maps, with the mean over seeds in every cell.

    Columns: the two strengths, metric, value. Colours show ranks, so that one extreme cell does not hide the rest.
    [Mathieu2019, section 6.2]

    Args:
        table: Results with the columns above.
        metrics: The metrics, one panel each.
        across: Column of the strength on the x axis.
        up: Column of the strength on the y axis.

    Returns:
        The figure; `polarised.report.save` writes it.

    >>> import polars
    >>> rows = {"beta": [0.0, 1.0], "alpha": [1.0, 1.0], "metric": ["mmd"] * 2, "value": [0.3, 0.1]}
    >>> len(plane_of_strengths(polars.DataFrame(rows), metrics=("mmd",)).axes)
    1
    """
    import polars

    wide, high = (sorted(table[name].unique().to_list()) for name in (across, up))
    symbols = {"alpha": "α", "beta": "β"}
    figure, axes = panels(len(metrics), columns=2, width=max(2.6, 0.5 * len(wide) + 0.6), height=0.3 * len(high) + 0.8)
    for axis, metric in zip(axes, metrics, strict=True):
        means = table.filter(polars.col("metric") == metric).group_by(across, up).agg(polars.col("value").mean())
        cells = np.full((len(high), len(wide)), np.nan)
        for u, v, value in means.select(across, up, "value").iter_rows():
            cells[high.index(v), wide.index(u)] = value
        known = np.sort(cells[np.isfinite(cells)])
        ranks = np.where(np.isfinite(cells), np.searchsorted(known, cells) / max(len(known) - 1, 1), np.nan)
        clean(axis, grid="none")
        axis.set_facecolor("#e9e7e1")
        axis.imshow(ranks, cmap="Purples", vmin=-0.15, vmax=1.15, aspect="auto", origin="lower")
        for (i, k), value in np.ndenumerate(cells):
            text = f"{value:.2g}" if abs(value) < 100 else f"{value:.0f}"
            colour = "white" if ranks[i, k] > 0.55 else INK
            if np.isfinite(value):
                axis.text(k, i, text, ha="center", va="center", fontsize=SMALL - 1, color=colour)
        axis.set_xticks(range(len(wide)), [f"{value:g}" for value in wide])
        axis.set_yticks(range(len(high)), [f"{value:g}" for value in high])
        axis.tick_params(length=0)
        axis.set_xlabel(symbols.get(across, across))
        axis.set_ylabel(symbols.get(up, up))
        axis.set_title(metric_name(metric), fontsize=TEXT)
    return figure


def _plane(axis: Any, density: NDArray[np.float64], extent: float, name: str, top: float | None = None) -> None:
    clean(axis, grid="none")
    square = (-extent, extent, -extent, extent)
    axis.imshow(density, origin="lower", extent=square, cmap="magma", vmin=0, vmax=top, interpolation="bilinear")
    axis.set_xticks([-extent, 0, extent])
    axis.set_yticks([-extent, 0, extent])
    axis.set_title(name, fontsize=SMALL, color=INK)


def _mixture(grid: NDArray[np.float64], mean: NDArray[Any], variance: NDArray[Any]) -> NDArray[np.float64]:
    """Return the density of an equal mixture of diagonal Gaussians on grid x grid, rows the second coordinate."""
    sides = []
    for k in range(2):
        gap = grid[:, None] - mean[None, :, k].astype(np.float64)
        width = np.maximum(variance[None, :, k].astype(np.float64), 1e-12)
        sides.append(np.exp(-0.5 * np.square(gap) / width) / np.sqrt(2 * np.pi * width))
    density: NDArray[np.float64] = sides[1] @ sides[0].T / len(mean)
    return density


def _means(frame: "polars.DataFrame") -> "polars.DataFrame":
    """Remove the sampled representation if a measurement has both."""
    import polars

    return frame.filter(polars.col("representation").is_null() | (polars.col("representation") != "sampled"))
