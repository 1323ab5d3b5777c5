"""What a search for the number of latents looks like: the one-shot count beside the models FONDUE trained."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from polarised.regime import Regime
from polarised.regime.dimensions import Fondue, OneShot
from polarised.report.drawing import band, clean, legend, panels, series
from polarised.report.theme import REPRESENTATIONS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["sizes"]


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
