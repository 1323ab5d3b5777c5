"""Figures of one model: histograms by type, posterior against prior, correlations, traversals, reconstructions."""

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from polarised.diagnosis import Pictures
from polarised.errors import DataError
from polarised.regime import Encodings, Regime
from polarised.registry import register
from polarised.report.drawing import MUTED, SMALL, TEXT, clean, colour_bar, diverging, legend, panels
from polarised.report.model_page import shown_correlations
from polarised.report.theme import REPRESENTATIONS, TYPES, Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "correlation_heatmap",
    "histograms_by_type",
    "latent_walks",
    "overview",
    "posterior_and_prior",
    "reconstructions",
    "samples",
]

MOST_NUMBERS = 12
LARGEST_MARK = 4.5
CORRELATIONS = (-1.0, -0.5, 0.0, 0.5, 1.0)
Parts = Literal["parameters", "samples"]


@register("figure", title="histograms by type", references=("Bonheme2023BeMoreActive",), figures="4 and 5")
def histograms_by_type(encodings: Encodings, regime: Regime, *, bins: int = 20, seed: int = 0) -> "Figure":
    """Draw a passive, a mixed and an active variable, means above and samples below.

    A passive one has a spike of means and normal samples, an active one is alike in both, a mixed one has a spike in
    a wide shape. The clearest variable of each type is shown. [Bonheme2023BeMoreActive, figures 4 and 5]

    Args:
        encodings: The encodings of the model.
        regime: The types of the same variables.
        bins: Bins of a histogram.
        seed: Seed of the samples.

    Returns:
        The figure; `polarised.report.save` writes it.

    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> from polarised import classify
    >>> len(histograms_by_type(encodings, classify(encodings)).axes)
    4
    """
    kinds = [kind for kind in ("passive", "mixed", "active") if getattr(regime, kind)]
    chosen = {kind: clearest(regime, kind) for kind in kinds}
    sampled = encodings.sample(seed=seed)
    figure, axes = panels(2 * len(kinds), columns=len(kinds), width=2.3, height=1.75)
    for row, (representation, codes) in enumerate((("mean", encodings.mean), ("sampled", sampled))):
        for column, (kind, j) in enumerate(chosen.items()):
            axis = axes[row * len(kinds) + column]
            low, high = _range(encodings.mean[:, j], sampled[:, j])
            _histogram(axis, codes[:, j], bins, (low, high), REPRESENTATIONS[representation].light)
            if row == 0:
                axis.set_title(f"{TYPES[kind].glyph} {kind}, variable {j}", fontsize=TEXT, color=TYPES[kind].light)
            if column == 0:
                axis.set_ylabel(f"{representation} representation\ninputs")
    return figure


@register("figure", title="posterior beside prior", references=("Bonheme2023iVAE",), figures="1 to 4")
def posterior_and_prior(
    encodings: Encodings,
    regime: Regime,
    *,
    kind: Literal["active", "mixed", "passive"] = "passive",
    of: Parts = "parameters",
    bins: int = 40,
    seed: int = 0,
) -> "Figure":
    """Draw the clearest variable of a type together with its prior, as an iVAE learns it for each input.

    "parameters": the mean μ, the variance σ² and the prior's variance σ†², both variances on the same scale. "samples":
    z, the prior's z† and μ of an active variable, or z and z† of another, on one scale. A passive variable follows its
    prior, an active one has a small variance and samples that are its means. [Bonheme2023iVAE, figures 1 to 4]

    Args:
        encodings: The encodings of the model.
        regime: The types of the same variables.
        kind: The type to show.
        of: "parameters" or "samples", see above.
        bins: Bins of a histogram.
        seed: Seed of the samples.

    Returns:
        The figure; `polarised.report.save` writes it.

    Raises:
        DataError: If there is no variable of that type.

    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> from polarised import classify
    >>> len(posterior_and_prior(encodings, classify(encodings), kind="passive", of="samples").axes)
    2
    """
    j, shape = clearest(regime, kind), encodings.mean.shape
    prior_variance = np.broadcast_to(encodings.prior_variance, shape)
    prior = Encodings(encodings.prior_mean + np.zeros(shape), variance=prior_variance)
    if of == "parameters":
        shown = {
            "posterior mean μ": encodings.mean,
            "posterior variance σ²": encodings.variance,
            "prior variance σ†²": prior_variance,
        }
        together = list(shown)[1:]
    else:
        # Another stream than the posterior's noise, or both histograms would be equal.
        shown = {"sample z": encodings.sample(seed=seed), "sample of the prior z†": prior.sample(seed=seed + 1)}
        shown |= {"posterior mean μ": encodings.mean} if kind == "active" else {}
        together = list(shown)
    figure, axes = panels(len(shown), columns=3, width=2.35, height=2.0)
    limits = _range(*(shown[name][:, j] for name in together))
    for axis, (name, values) in zip(axes, shown.items(), strict=True):
        colour = MUTED if "prior" in name else TYPES[kind].light
        _histogram(axis, values[:, j], bins, limits if name in together else None, colour)
        axis.set_xlabel(name)
        axis.locator_params(axis="x", nbins=4)
    axes[0].set_ylabel("inputs")
    figure.suptitle(f"{TYPES[kind].glyph} {kind}, variable {j}", fontsize=TEXT, color=TYPES[kind].light)
    return figure


@register("figure", title="correlations of variables", references=("Bonheme2023BeMoreActive",), figures="11")
def correlation_heatmap(
    encodings: Encodings, regime: Regime, *, representation: Literal["mean", "sampled"] = "mean", seed: int = 0
) -> "Figure":
    """Draw the correlation of every pair of variables, types marked on both axes [Bonheme2023BeMoreActive, figure 11].

    Args:
        encodings: The encodings of the model.
        regime: The types of the same variables.
        representation: The representation.
        seed: Seed of the samples.

    Returns:
        The figure; `polarised.report.save` writes it.

    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> from polarised import classify
    >>> len(correlation_heatmap(encodings, classify(encodings)).axes)
    2
    """
    codes = encodings.mean if representation == "mean" else encodings.sample(seed=seed)
    figure, (axis,) = panels(1, width=3.6, height=3.0)
    image = heatmap(axis, codes, regime)
    axis.set_title(f"{representation} representation", fontsize=TEXT, pad=16)
    colour_bar(figure, image, [axis], "correlation", ticks=CORRELATIONS)
    for kind, look in TYPES.items():
        if getattr(regime, kind):
            axis.plot([], [], linestyle="none", label=kind, **_marker(look))
    legend(figure, [axis])
    return figure


@register("figure", title="a model at a glance", references=("Bonheme2023BeMoreActive",))
def overview(encodings: Encodings, regime: Regime, *, seed: int = 0) -> "Figure":
    """Draw an overview of a model: information of each variable with its type, and both correlation matrices.

    Args:
        encodings: The encodings of the model.
        regime: The types of the same variables.
        seed: Seed of the samples.

    Returns:
        The figure; `polarised.report.save` writes it.

    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> from polarised import classify
    >>> len(overview(encodings, classify(encodings)).axes)
    4
    """
    figure, axes = panels(3, columns=3, width=3.1, height=2.75)
    order = ranked(regime)
    for place, j in enumerate(order):
        look = TYPES[regime.types[j]]
        axes[0].bar(place, regime.statistics.kl[j], 0.66, color=look.light, hatch=look.hatch, edgecolor="white")
        _mark(axes[0], look, (place, -0.04), axes[0].get_xaxis_transform(), len(order))
    axes[0].set_xticks(*_numbers(order))
    axes[0].tick_params(axis="x", length=0, pad=12)
    axes[0].set_title("information of each variable (KL, nats)", fontsize=TEXT, pad=16)
    for kind, look in TYPES.items():
        axes[0].plot([], [], linestyle="none", label=f"{regime.types.count(kind)} {kind}", **_marker(look))
    legend(figure, axes[:1])
    for axis, (name, codes) in zip(
        axes[1:], (("mean", encodings.mean), ("sampled", encodings.sample(seed=seed))), strict=True
    ):
        image = heatmap(axis, codes, regime)
        axis.set_title(f"correlations, {name} representation", fontsize=TEXT, pad=16)
    colour_bar(figure, image, axes[1:], "correlation", ticks=CORRELATIONS)
    return figure


def ranked(regime: Regime) -> list[int]:
    """Return the variables ordered by type (active, mixed, passive), then by decreasing information.

    Args:
        regime: The types of the same variables.

    Returns:
        The indices of the variables.
    """
    kinds = list(TYPES)
    return sorted(range(len(regime.types)), key=lambda j: (kinds.index(regime.types[j]), -regime.statistics.kl[j]))


def clearest(regime: Regime, kind: str) -> int:
    """Return the variable of a type that shows it best.

    The least noisy active one, the noisiest passive one, or the mixed one whose variance ratio varies most between
    inputs; relative to the possible spread, a nearly passive variable with a ratio near 1 would be chosen.

    Args:
        regime: The types of the same variables.
        kind: One of active, mixed, passive.

    Returns:
        Its index.

    Raises:
        DataError: If there is no variable of that type.
    """
    variables: list[int] = getattr(regime, kind)
    if not variables:
        raise DataError(f"expected a {kind} variable to draw, but the model has none among its {len(regime.types)}")
    statistics = regime.statistics
    spread, noise = statistics.ratio_variance, statistics.noise_share
    score = {"active": -noise, "mixed": spread, "passive": noise}[kind]
    return max(variables, key=lambda j: float(score[j]))


def heatmap(axis: "Axes", codes: NDArray[Any], regime: Regime) -> Any:
    """Draw one correlation matrix, ordered by type, with the marks of the types on both axes.

    Args:
        axis: The panel to draw in.
        codes: Codes (n, d).
        regime: The types of the same variables.

    Returns:
        The image, for a colour bar.
    """
    order = ranked(regime)
    correlations = shown_correlations(codes[:, order])
    clean(axis, grid="none")
    axis.set_facecolor("#e9e7e1")
    image = axis.imshow(correlations, cmap=diverging(), vmin=-1, vmax=1, interpolation="nearest")
    for spine in axis.spines.values():
        spine.set_visible(False)
    axis.set_xticks(*_numbers(order))
    axis.set_yticks(*_numbers(order))
    axis.tick_params(length=0, pad=12)
    for place, j in enumerate(order):
        _mark(axis, TYPES[regime.types[j]], (place, -0.04), axis.get_xaxis_transform(), len(order))
        _mark(axis, TYPES[regime.types[j]], (-0.04, place), axis.get_yaxis_transform(), len(order))
    axis.set_xlim(-0.5, len(order) - 0.5)
    axis.set_ylim(len(order) - 0.5, -0.5)
    return image


def _numbers(order: list[int]) -> tuple[range, list[str]]:
    """Return the positions and the numbers of the variables to label: only as many as fit."""
    places = range(0, len(order), math.ceil(len(order) / MOST_NUMBERS))
    return places, [str(order[place]) for place in places]


def _marker(look: Look, size: float = LARGEST_MARK) -> dict[str, Any]:
    return {"marker": look.marker, "markersize": size, "markerfacecolor": look.face, "markeredgecolor": look.light}


def _mark(axis: "Axes", look: Look, at: tuple[float, float], transform: Any, among: int) -> None:
    """Draw the mark of a type next to an axis; its size decreases with the number of variables."""
    size = LARGEST_MARK * min(1.0, MOST_NUMBERS / among)
    axis.plot(*at, transform=transform, clip_on=False, **_marker(look, size), markeredgewidth=min(1.0, size / 4))


def _histogram(
    axis: "Axes",
    values: NDArray[Any],
    bins: int,
    limits: tuple[float, float] | None,
    colour: str,
    label: str | None = None,
    opacity: float = 1.0,
) -> None:
    limits = limits or _range(values, values)
    axis.hist(values, bins, range=limits, color=colour, edgecolor="white", linewidth=0.4, label=label, alpha=opacity)


def _range(*columns: NDArray[Any]) -> tuple[float, float]:
    low, high = min(float(c.min()) for c in columns), max(float(c.max()) for c in columns)
    return (low, high) if high - low > 1e-9 * max(1.0, abs(high)) else (low - 0.5, high + 0.5)


@register("figure", title="reconstructions", references=("Cheng2021",), figures="12")
def reconstructions(pictures: Pictures, *, most: int = 10) -> "Figure":
    """Draw inputs above and their reconstructions below [Cheng2021, figure 12].

    Args:
        pictures: Images and their reconstructions.
        most: Largest number of images to show.

    Returns:
        The figure; `polarised.report.save` writes it.

    Raises:
        DataError: If the shape is not that of images.

    >>> images = np.zeros((3, 1, 4, 4), np.float32)
    >>> len(reconstructions(Pictures(images, images, images[:, None], np.zeros(1))).axes)
    2
    """
    count = min(most, len(pictures.originals))
    figure, axes = panels(2, columns=1, width=0.56 * count + 0.7, height=0.6)
    for axis, name, images in zip(
        axes, ("input", "decoded"), (pictures.originals, pictures.reconstructions), strict=True
    ):
        _row(axis, images[:count])
        axis.set_ylabel(name, fontsize=SMALL, rotation=0, ha="right", va="center")
    return figure


@register("figure", title="latent walks", references=("Cheng2021",), figures="5 and 13")
def latent_walks(pictures: Pictures, regime: Regime, *, most: int = 10) -> "Figure":
    """Draw decoded images along each variable, active ones first [Cheng2021, figures 5 and 13].

    Args:
        pictures: Images decoded along each variable.
        regime: The types of the same variables.
        most: Largest number of variables to show.

    Returns:
        The figure; `polarised.report.save` writes it.

    Raises:
        DataError: If the shape is not that of images.

    >>> from polarised import Encodings, classify
    >>> regime = classify(Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]]))
    >>> images = np.zeros((2, 3, 1, 4, 4), np.float32)
    >>> len(latent_walks(Pictures(images[0], images[0], images, np.arange(3.0)), regime).axes)
    2
    """
    shown = ranked(regime)[:most]
    steps = len(pictures.values)
    figure, axes = panels(len(shown), columns=1, width=0.5 * steps + 0.8, height=0.55)
    for axis, j in zip(axes, shown, strict=True):
        look = TYPES[regime.types[j]]
        _row(axis, pictures.traversals[j])
        axis.set_ylabel(
            f"{look.glyph} {j} {regime.types[j]}", fontsize=SMALL, rotation=0, ha="right", va="center", color=look.light
        )
    return figure


@register("figure", title="samples of the prior", references=("Cheng2021",), figures="13")
def samples(images: NDArray[Any], *, columns: int = 8) -> "Figure":
    """Draw images (m, C, H, W) in a grid, decoded from samples of the prior [Cheng2021, figure 13].

    Args:
        images: Images (m, channels, height, width) in [0, 1].
        columns: Images per row.

    Returns:
        The figure; `polarised.report.save` writes it.

    Raises:
        DataError: If the shape is not that of images.

    >>> len(samples(np.zeros((5, 1, 4, 4)), columns=4).axes)
    2
    """
    across = min(columns, len(images))
    rows = [images[start : start + across] for start in range(0, len(images), across)]
    figure, axes = panels(len(rows), columns=1, width=0.62 * across, height=0.64)
    for axis, row in zip(axes, rows, strict=True):
        blank = np.ones((across - len(row), *images.shape[1:]), dtype=images.dtype)
        _row(axis, np.concatenate([row, blank]))
    return figure


def _row(axis: "Axes", images: NDArray[Any]) -> None:
    if images.ndim != 4:
        raise DataError(f"expected images (m, channels, height, width), got shape {images.shape}")
    channels = 3 if images.shape[1] == 3 else 1
    gap = max(1, images.shape[-1] // 24)
    padded = np.pad(np.clip(images[:, :channels], 0, 1), ((0, 0), (0, 0), (0, 0), (0, gap)), constant_values=1.0)
    strip = np.concatenate([np.moveaxis(image, 0, -1) for image in padded], axis=1)[:, :-gap]
    clean(axis, grid="none")
    axis.imshow(strip if channels == 3 else strip[..., 0], cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axis.set_xticks([])
    axis.set_yticks([])
    for spine in axis.spines.values():
        spine.set_visible(False)
