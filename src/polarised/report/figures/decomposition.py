"""Figures of decomposition: axis alignment against reconstruction, aggregate posteriors, sparsity, priors."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polarised.errors import DataError
from polarised.report.drawing import INK, SMALL, TEXT, band, clean, interval, legend, panels, series
from polarised.report.figures.strengths import METRICS, by_method, chosen, repeated, strengths_of
from polarised.representations import Encodings

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure

__all__ = [
    "aggregate_posterior_density",
    "magnitude_by_class",
    "prior_density",
    "reconstruction_against_score",
    "sparsity_by_regularisation",
]


def reconstruction_against_score(table: "polars.DataFrame", *, score: str = "factor_vae_score") -> "Figure":
    """Draw reconstruction against a disentanglement score, a curve a prior, a point a strength with its 95 % cross.

    [Mathieu2019, figure 2]

    >>> import polars
    >>> run = {"method": "isotropic", "strength": 1.0, "representation": "mean", "variables": "full"}
    >>> rows = [run | {"metric": "factor_vae_score", "value": 0.6}, run | {"metric": "reconstruction", "value": 20.0}]
    >>> len(reconstruction_against_score(polars.DataFrame(rows)).axes)
    1
    """

    figure, (axis,) = panels(1, width=4.4, height=3.0)
    across = by_method(_means(chosen(table, "reconstruction", variables="full")))
    for i, (name, frame) in enumerate(by_method(_means(chosen(table, score, variables="full"))).items()):
        if name not in across:
            continue
        strengths = strengths_of(frame)
        look = series(i)
        points = []
        for strength, u, v in zip(
            strengths, repeated(across[name], strengths), repeated(frame, strengths), strict=True
        ):
            if u.size and v.size:
                half = interval(u), interval(v)
                points.append((u.mean(), v.mean()))
                axis.errorbar(*points[-1], xerr=half[0], yerr=half[1], color=look.light, linewidth=0.8, alpha=0.5)
                axis.annotate(
                    f"{strength:g}" if isinstance(strength, int | float) else str(strength),
                    points[-1],
                    xytext=(4, 4),
                    textcoords="offset points",
                    fontsize=SMALL - 1,
                    color=look.light,
                )
        if points:
            axis.plot(
                *zip(*points, strict=True),
                color=look.light,
                linestyle=look.dash,
                marker=look.marker,
                markersize=4.5,
                label=name,
            )
    axis.set_xlabel("reconstruction loss, nats")
    axis.set_ylabel(METRICS.get(score, score.replace("_", " ")))
    legend(figure, [axis])
    return figure


def aggregate_posterior_density(
    encodings: Mapping[str, Encodings],
    *,
    extent: float = 2.0,
    resolution: int = 200,
    columns: int = 5,
    top: float | None = None,
) -> "Figure":
    """Draw the density of q(z) = E_x[N(mean, variance)] of two-dimensional codes, a panel a model.

    `top` is the density that is drawn brightest, 1 in the authors' code; without it each panel has its own.
    [Mathieu2019, figure 3]

    >>> code = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> len(aggregate_posterior_density({"beta 1": code}, resolution=20).axes)
    1
    """
    figure, axes = panels(len(encodings), columns=columns, width=1.65, height=1.8)
    grid = np.linspace(-extent, extent, resolution)
    for axis, (name, own) in zip(axes, encodings.items(), strict=True):
        if own.latents != 2:
            raise DataError(f"expected codes of two variables to draw as a plane, {name!r} has {own.latents}")
        _plane(axis, _mixture(grid, own.mean, own.variance), extent, name, top)
    return figure


def prior_density(priors: Mapping[str, NDArray[Any]], *, extent: float = 3.0) -> "Figure":
    """Draw two-dimensional densities given on a square grid from -extent to extent [Mathieu2019, figures 5 and 6].

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


def sparsity_by_regularisation(
    table: "polars.DataFrame", *, metrics: tuple[str, ...] = ("hoyer", "reconstruction", "mmd")
) -> "Figure":
    """Draw sparsity, reconstruction and the mismatch to the prior against alpha, a curve a setting, bands over seeds.

    [Mathieu2019, figure 4]

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
        axis.set_title(METRICS.get(metric, metric.replace("_", " ")), fontsize=TEXT)
        axis.set_xscale("symlog", linthresh=1.0)
    legend(figure, axes)
    return figure


def magnitude_by_class(encodings: Encodings, *, factor: str | None = None) -> "Figure":
    """Draw the mean magnitude E[|mean_j|] of every latent for each class: who is used by whom [Mathieu2019, figure 4].

    >>> code = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=np.ones((2, 2)), factors=[0, 1], factor_names=["class"])
    >>> len(magnitude_by_class(code).axes)
    2
    """
    if encodings.factors is None:
        raise DataError("expected encodings with known classes, these have none; give factors= to Encodings")
    name = encodings.factor_names[0] if factor is None else factor
    if name not in encodings.factor_names:
        raise DataError(f"expected a factor of {', '.join(encodings.factor_names)}, got {factor!r}")
    classes = encodings.factors[:, encodings.factor_names.index(name)]
    levels = np.unique(classes)
    magnitudes = np.stack([np.abs(encodings.mean[classes == level]).mean(axis=0) for level in levels])
    width, height = max(3.0, 0.12 * encodings.latents + 1.2), max(1.6, 0.22 * len(levels) + 0.8)
    figure, (axis,) = panels(1, width=width, height=height)
    clean(axis, grid="none")
    image = axis.imshow(magnitudes, cmap="Purples", aspect="auto", vmin=0)
    axis.set_yticks(range(len(levels)), [str(level) for level in levels])
    axis.set_xlabel("latent variable")
    axis.set_ylabel(name)
    bar = figure.colorbar(image, ax=axis, shrink=0.8, aspect=20, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=SMALL, length=0)
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
        spread = np.maximum(variance[None, :, k].astype(np.float64), 1e-12)
        sides.append(np.exp(-0.5 * np.square(gap) / spread) / np.sqrt(2 * np.pi * spread))
    density: NDArray[np.float64] = sides[1] @ sides[0].T / len(mean)
    return density


def _means(frame: "polars.DataFrame") -> "polars.DataFrame":
    """Leave out the sampled representation where a measurement has both."""
    import polars

    return frame.filter(polars.col("representation").is_null() | (polars.col("representation") != "sampled"))
