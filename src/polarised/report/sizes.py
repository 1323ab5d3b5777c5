"""How many latents: the curve of a forecast, and the one-shot count beside the models FONDUE trained."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from polarised.regime import Regime
from polarised.regime.dimensions import Fondue, OneShot
from polarised.regime.forecast import Forecast
from polarised.report.drawing import band, clean, legend, panels, series
from polarised.report.theme import REPRESENTATIONS, TYPES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["alive_curve", "sizes"]


def sizes(regimes: Sequence[Regime], count: OneShot, search: Fondue | None = None, *, seed: int = 0) -> "Figure":
    """Draw the KL of each variable of the over-sized runs, largest first, and what FONDUE measured at each size.

    The dashed line is the number found; `seed` is that of the first run, for its name [Bonheme2023FONDUE].

    >>> from polarised.regime import Encodings, classify
    >>> from polarised.regime.dimensions import one_shot_count
    >>> regime = classify(Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]]))
    >>> len(sizes([regime], one_shot_count([regime])).axes)
    1
    """
    from matplotlib.ticker import MaxNLocator

    figure, axes = panels(1 if search is None else 2, width=3.3, height=2.6)
    for i, regime in enumerate(regimes):
        costs = np.sort(regime.statistics.kl)[::-1]
        label = f"seed {seed + i}"
        band(
            axes[0],
            np.arange(1.0, len(costs) + 1).tolist(),
            [costs[[j]] for j in range(len(costs))],
            series(i),
            label=label,
        )
    axes[0].axvline(count.latents + 0.5, color="0.4", linestyle="--", linewidth=0.9)
    axes[0].set(xlabel="latent variables, by KL", ylabel="KL (nats)", title=f"One shot: {count.latents} are alive")
    if search is not None:
        visits = sorted(search.visits)
        tried = [float(visit.latents) for visit in visits]
        for name, look in REPRESENTATIONS.items():
            band(axes[1], tried, [np.array([getattr(visit, name)]) for visit in visits], look, label=name)
        axes[1].axvline(search.latents, color="0.4", linestyle="--", linewidth=0.9)
        axes[1].set(xlabel="latents", ylabel="estimate on the codes", title=f"FONDUE: {search.latents}")
    for axis in axes:
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        clean(axis)
    legend(figure, axes)
    return figure


def alive_curve(forecast: Forecast) -> "Figure":
    """Draw how many variables a linear model keeps at each beta, and where the setting of the forecast is.

    Args:
        forecast: The forecast, at the setting to mark.

    Returns:
        The figure: variables alive and active over beta, which is logarithmic.

    >>> from polarised import forecast
    >>> from polarised.data import linear_gaussian
    >>> len(alive_curve(forecast(linear_gaussian(), variance=0.3, latents=8)).axes)
    1
    """
    from matplotlib.ticker import MaxNLocator

    figure, axes = panels(1, width=4.6, height=2.8)
    (axis,) = axes
    curve = forecast.curve
    for name, kind, counts in (("active or mixed", "mixed", curve.alive), ("active", "active", curve.active)):
        look = TYPES[kind]
        axis.step(curve.beta, counts, where="mid", color=look.light, linestyle=look.dash, linewidth=1.6, label=name)
    axis.axvline(forecast.beta, color="0.4", linestyle="--", linewidth=0.9)
    axis.annotate(
        f"beta {forecast.beta:g}: {forecast.alive} alive",
        (forecast.beta, forecast.latents),
        xytext=(4, -2),
        textcoords="offset points",
        va="top",
        fontsize=8,
    )
    variance = "" if forecast.variance is None else f", decoder variance {forecast.variance:.3g}"
    axis.set(
        xscale="log",
        xlabel=f"beta{variance}",
        ylabel="variables of a linear model",
        title=f"Forecast for {forecast.latents} latents",
    )
    axis.yaxis.set_major_locator(MaxNLocator(integer=True))
    clean(axis)
    legend(figure, axes)
    return figure
