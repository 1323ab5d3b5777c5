"""Figures of one model's variables: histograms by type, posterior against prior, correlations, how many it needs."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from polarised.errors import DataError
from polarised.regime import Encodings, Regime
from polarised.regime.dimensions import Fondue, OneShot
from polarised.regime.forecast import Forecast
from polarised.registry import register
from polarised.report.drawing import (
    MUTED,
    SMALL,
    TEXT,
    band,
    clean,
    colour_bar,
    diverging,
    legend,
    panels,
    series,
    shown_correlations,
)
from polarised.report.theme import REPRESENTATIONS, TYPES, Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["alive_curve", "correlation_heatmap", "histograms_by_type", "overview", "posterior_and_prior", "sizes"]

MOST_NUMBERS = 16
LARGEST_MARK = 4.5
CORRELATIONS = (-1.0, -0.5, 0.0, 0.5, 1.0)
Parts = Literal["parameters", "samples"]


@register("figure", title="histograms by type", references=("Bonheme2023BeMoreActive",), figures="4 and 5")
def histograms_by_type(encodings: Encodings, regime: Regime, *, bins: int = 20, seed: int = 0) -> "Figure":
    """Draw a passive, a mixed and an active variable, means above and samples below.

    A passive one is a spike of means and a normal of samples, an active one alike in both, a mixed one a spike within
    a wide shape. Of each type the clearest is shown. [Bonheme2023BeMoreActive, figures 4 and 5]

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
    """Draw the clearest variable of a type beside its own prior, as an iVAE learns it for each input.

    "parameters": the mean μ, the variance σ and the prior's variance σ†, the two variances on one scale. "samples": of
    an active variable z, the prior's z† and μ, of another z and z†, on one scale. A passive variable follows its prior,
    an active one has a small variance and samples that are its means. [Bonheme2023iVAE, figures 1 to 4]

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
        DataError: There is no variable of that type.

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
            "posterior variance σ": encodings.variance,
            "prior variance σ†": prior_variance,
        }
        together = list(shown)[1:]
    else:
        # Another stream than the posterior's noise, or the two would be one picture.
        shown = {"sample z": encodings.sample(seed=seed), "sample of the prior z†": prior.sample(seed=seed + 1)}
        shown |= {"posterior mean μ": encodings.mean} if kind == "active" else {}
        together = list(shown)
    figure, axes = panels(len(shown), columns=3, width=2.35, height=2.0)
    limits = _range(*(shown[name][:, j] for name in together))
    for axis, (name, values) in zip(axes, shown.items(), strict=True):
        colour = MUTED if "prior" in name else TYPES[kind].light
        _histogram(axis, values[:, j], bins, limits if name in together else None, colour)
        axis.set_xlabel(name)
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
        representation: Whose correlations.
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
    """Draw a model at a glance: information of each variable with its type, and both correlation matrices.

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
    axes[0].legend(frameon=False, fontsize=SMALL, loc="upper right")
    for axis, (name, codes) in zip(
        axes[1:], (("mean", encodings.mean), ("sampled", encodings.sample(seed=seed))), strict=True
    ):
        image = heatmap(axis, codes, regime)
        axis.set_title(f"correlations, {name} representation", fontsize=TEXT, pad=16)
    colour_bar(figure, image, axes[1:], "correlation", ticks=CORRELATIONS)
    return figure


@register("figure", title="search for the number of latents", references=("Bonheme2023FONDUE",))
def sizes(regimes: Sequence[Regime], count: OneShot, search: Fondue | None = None, *, seed: int = 0) -> "Figure":
    """Draw the KL of each variable of the over-sized runs, largest first, and what FONDUE measured at each size.

    The dashed line is the number found. [Bonheme2023FONDUE]

    Args:
        regimes: The types of the variables of each over-sized run.
        count: How many variables are alive in them.
        search: What FONDUE measured, if it ran.
        seed: Seed of the first run, for its name.

    Returns:
        The figure; `polarised.report.save` writes it.

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


def ranked(regime: Regime) -> list[int]:
    """Return the variables active first, then mixed, then passive, the most informative of each first.

    Args:
        regime: The types of the same variables.

    Returns:
        The indices of the variables.
    """
    kinds = list(TYPES)
    return sorted(range(len(regime.types)), key=lambda j: (kinds.index(regime.types[j]), -regime.statistics.kl[j]))


def clearest(regime: Regime, kind: str) -> int:
    """Return the variable of a type that shows it best.

    The least noisy active one, the noisiest passive one, and the mixed one whose ratio of variances changes most from
    input to input: relative to its possible spread, a ratio near 1 would win that is all but passive.

    Args:
        regime: The types of the same variables.
        kind: One of active, mixed, passive.

    Returns:
        Its index.

    Raises:
        DataError: There is no variable of that type.
    """
    variables: list[int] = getattr(regime, kind)
    if not variables:
        raise DataError(f"expected a {kind} variable to draw, the model has none of its {len(regime.types)}")
    statistics = regime.statistics
    spread, noise = statistics.ratio_variance, statistics.noise_share
    score = {"active": -noise, "mixed": spread, "passive": noise}[kind]
    return max(variables, key=lambda j: float(score[j]))


def heatmap(axis: "Axes", codes: NDArray[Any], regime: Regime) -> Any:
    """Draw one correlation matrix, ordered by type, with the types' marks on both axes.

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
    """Return at which places to write the number of a variable, and which: no more than fit beside each other."""
    places = range(0, len(order), math.ceil(len(order) / MOST_NUMBERS))
    return places, [str(order[place]) for place in places]


def _marker(look: Look, size: float = LARGEST_MARK) -> dict[str, Any]:
    return {"marker": look.marker, "markersize": size, "markerfacecolor": look.face, "markeredgecolor": look.light}


def _mark(axis: "Axes", look: Look, at: tuple[float, float], transform: Any, among: int) -> None:
    """Mark a type beside an axis, the smaller the more variables stand there."""
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


@register("figure", title="forecast of used variables", references=("Tipping1999", "Lucas2019"))
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
