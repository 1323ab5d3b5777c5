"""Draw docs/figures/hero.png, the picture at the top of README, from a published model of other people.

git clone https://github.com/YannDubs/disentangling-vae
python docs/figures/hero.py disentangling-vae/results/btcvae_dsprites
"""

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Polygon

import polarised as po
from polarised.random import stream
from polarised.report.theme import TYPES

INK, PALE = "#1c2026", "#5b6470"


def correlations(axes: Axes, codes: np.ndarray, types: list[str], title: str, tone: str) -> None:
    """Draw a correlation matrix whose passive part is framed."""
    shown = np.corrcoef(codes, rowvar=False)
    colours = mpl.colormaps["PuOr"].with_extremes(bad="#d9dce1")
    axes.imshow(np.where(np.eye(len(types)) == 1, np.nan, shown), cmap=colours, vmin=-1, vmax=1)
    d, alive = len(types), types.count("active")
    for i in range(d):
        for j in range(d):
            if i != j and abs(shown[i, j]) >= 0.3:
                pale = "white" if abs(shown[i, j]) > 0.6 else INK
                text = f"{shown[i, j]:+.1f}".replace("-", "−")
                axes.text(j, i, text, ha="center", va="center", fontsize=8, color=pale)
    # Everything that involves a passive variable: the whole square without its active corner.
    low, edge, high = -0.5, alive - 0.5, d - 0.5
    corner = [(edge, low), (high, low), (high, high), (low, high), (low, edge), (edge, edge)]
    axes.add_patch(Polygon(corner, closed=True, fill=False, edgecolor=tone, linewidth=2.5, clip_on=False))
    axes.set_title(title, fontsize=12.5, color=INK, pad=10)
    axes.set_xticks(range(d), [TYPES[each].glyph for each in types])
    axes.set_yticks(range(d), [TYPES[each].glyph for each in types])
    for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
        for label, each in zip(labels, types, strict=True):
            label.set_color(TYPES[each].light)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def draw(encodings: po.Encodings) -> plt.Figure:
    """The picture: what each variable carries, then its correlations in the means and in a sample."""
    regime = po.classify(encodings)
    order = np.argsort(-regime.table()["kl"].to_numpy())
    types = [regime.types[each] for each in order]
    scores = po.compare(encodings, regime)
    total = {
        (row["representation"], row["variables"]): row["value"]
        for row in scores.iter_rows(named=True)
        if row["metric"] == "total_correlation"
    }
    mean = encodings.mean[:, order]
    noise = stream(0, "hero").standard_normal(mean.shape)
    sample = mean + noise * np.sqrt(encodings.variance[:, order])

    figure = plt.figure(figsize=(13.4, 5.4))
    bars = figure.add_axes((0.075, 0.06, 0.21, 0.74))
    left, right = (figure.add_axes((x, 0.06, 0.74 * 5.4 / 13.4, 0.74)) for x in (0.335, 0.655))
    figure.text(0.005, 0.965, "A published β-TCVAE of dSprites", fontsize=16, weight="bold", color=INK, va="top")
    kl = regime.table()["kl"].to_numpy()[order]
    bars.barh(range(len(types)), kl, color=[TYPES[each].light for each in types], height=0.72)
    bars.set_ylim(len(types) - 0.5, -0.5)
    bars.set_yticks(range(len(types)), [f"{each} {TYPES[each].glyph}" for each in types])
    for label, each in zip(bars.get_yticklabels(), types, strict=True):
        label.set_color(TYPES[each].light)
    for i, value in enumerate(kl):
        bars.text(value + 0.06, i, f"{value:.1f}" if value >= 0.05 else "0", va="center", fontsize=10, color=INK)
    bars.set_title(
        f"{types.count('passive')} of {len(types)} variables carry nothing\n(nats about the input)",
        fontsize=13,
        color=INK,
        pad=12,
    )
    bars.spines[:].set_visible(False)
    bars.tick_params(length=0, labelsize=10)
    bars.set_xticks([])
    bars.set_xlim(0, float(kl.max()) * 1.18)
    correlations(
        left,
        mean,
        types,
        f"means: look entangled\ntotal correlation {total['mean', 'full']:.1f} nats",
        "#c2185b",
    )
    correlations(
        right,
        sample,
        types,
        f"samples: independent\ntotal correlation {total['sampled', 'full']:.1f} nats",
        PALE,
    )
    bar = figure.colorbar(right.images[0], cax=figure.add_axes((0.968, 0.2, 0.01, 0.46)), ticks=[-1, 0, 1])
    bar.set_label("correlation", color=INK)
    bar.outline.set_visible(False)
    return figure


if __name__ == "__main__":
    model = sys.argv[1]
    figure = draw(po.adapters.from_disentangling_vae(model, po.data.dsprites(), examples=10_000))
    figure.savefig(Path(__file__).with_name("hero.png"), dpi=110, bbox_inches="tight", facecolor="white")
