"""Figures of training over time, from a Timeline: which variables are correlated or become passive, and when."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from polarised.errors import DataError
from polarised.regime.timeline import Timeline, correlated_shares
from polarised.registry import register
from polarised.report.drawing import INK, SMALL, TEXT, legend, panels, series
from polarised.report.theme import TYPES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "correlation_counts",
    "correlations_over_training",
    "kl_over_training",
    "ratio_over_training",
    "types_over_training",
]


@register("figure", title="correlated variables over training", references=("Bonheme2023BeMoreActive",), figures="12")
def correlation_counts(timeline: Timeline, *, threshold: float = 0.2, since: float = 0.5) -> "Figure":
    """Draw how often the mean of each variable correlates with another one, and the share by pair of types.

    Left: pairs and moments with |correlation| > threshold for each variable, with its type in the trained model. Right:
    the share of moments after the fraction `since` of training, by the types of both: at the start, everything is
    correlated, and a variable's own count includes its partners. [Bonheme2023BeMoreActive, figure 12]

    Args:
        timeline: The timeline of a training run.
        threshold: Smallest |correlation| of a correlated pair.
        since: Fraction of training after which the shares on the right begin.

    Returns:
        The figure; `polarised.report.save` writes it.

    Raises:
        DataError: If the timeline has fewer than two moments.

    >>> len(correlation_counts(_example()).axes)
    2
    """
    steps = _steps(timeline)
    types, correlations = timeline.final_types, timeline.correlations
    figure, (left, right) = panels(2, columns=2, width=3.3, height=2.2)
    for j, count in enumerate(timeline.correlated_pairs(threshold=threshold)):
        look = TYPES[types[j]]
        left.bar(j, count, 0.72, color=look.light, hatch=look.hatch, edgecolor="white", label=types[j])
        left.text(j, count, look.letter, ha="center", va="bottom", fontsize=SMALL, color=look.light)
    left.set_xticks(range(len(types)))
    left.set_xlabel("variable")
    left.set_ylabel(f"times |correlation| > {threshold:g}")
    left.margins(y=0.12)
    late = correlations[np.asarray(steps) >= steps[0] + since * (steps[-1] - steps[0])]
    rates = correlated_shares(late, types, threshold=threshold)
    for i, rate in enumerate(rates.values()):
        right.barh(i, rate, 0.62, color=series(i).light)
        right.text(rate + 0.01, i, f"{rate:.2f}", va="center", fontsize=SMALL, color=INK)
    right.set_yticks(range(len(rates)), list(rates))
    right.invert_yaxis()
    right.set_xlim(0, 1)
    right.grid(False)
    right.set_xlabel("share of pairs and moments, last part of training")
    legend(figure, [left])
    return figure


@register("figure", title="correlations over training", references=("Bonheme2023BeMoreActive",), figures="13")
def correlations_over_training(timeline: Timeline, *, variable: int | None = None) -> "Figure":
    """Draw the correlation of the mean of one variable with every other one over training.

    One panel per type of partner; the default is the active variable with the most information at the end.
    [Bonheme2023BeMoreActive, figure 13]

    Args:
        timeline: The timeline of a training run.
        variable: The variable to show.

    Returns:
        The figure; `polarised.report.save` writes it.

    Raises:
        DataError: If the timeline has fewer than two moments, or there is no such variable.

    >>> len(correlations_over_training(_example()).axes)
    2
    """
    steps, types = _steps(timeline), timeline.final_types
    chosen = _strongest(timeline) if variable is None else variable
    if not 0 <= chosen < len(types):
        raise DataError(f"expected a variable from 0 to {len(types) - 1}, got {variable}")
    partners = {kind: [j for j, own in enumerate(types) if own == kind and j != chosen] for kind in TYPES}
    partners = {kind: own for kind, own in partners.items() if own}
    figure, axes = panels(len(partners), width=2.75, height=2.3, share_y=True)
    for axis, (kind, own) in zip(axes, partners.items(), strict=True):
        values = timeline.correlations[:, chosen, own]
        look = TYPES[kind]
        axis.plot(steps, values, color=look.light, linewidth=0.8)
        axis.set_ylim(-1, 1)
        _name_ends(axis, steps[-1], dict(zip(own, values[-1], strict=True)), types)
        axis.set_title(f"{look.glyph} with {kind} variables", fontsize=TEXT, color=look.light)
        axis.set_xlabel("step")
    axes[0].set_ylabel(f"correlation with variable {chosen} ({types[chosen]})")
    return figure


@register("figure", title="types over training", references=("Bonheme2023BeMoreActive",))
def types_over_training(timeline: Timeline) -> "Figure":
    """Draw the type of every variable over training, and the number of variables of each type.

    Args:
        timeline: The timeline of a training run.

    Returns:
        The figure; `polarised.report.save` writes it.

    Raises:
        DataError: If the timeline has fewer than two moments.

    >>> len(types_over_training(_example()).axes)
    2
    """
    steps, types, final = _steps(timeline), timeline.types, timeline.final_types
    figure, (lanes, counts) = panels(2, columns=2, width=3.5, height=2.3)
    order = sorted(range(len(final)), key=lambda j: (list(TYPES).index(final[j]), j))
    for row, j in enumerate(order):
        for kind, look in TYPES.items():
            spans = _spans(steps, [moment[j] == kind for moment in types])
            lanes.broken_barh(
                spans,
                (row - 0.42, 0.84),
                facecolor=look.light,
                edgecolor="white",
                hatch=look.hatch,
                linewidth=0.3,
                label=kind if spans else None,
            )
    lanes.set_yticks(range(len(order)), [f"{TYPES[final[j]].letter} {j}" for j in order])
    lanes.invert_yaxis()
    lanes.grid(False)
    lanes.set_xlim(steps[0], steps[-1])
    lanes.set_xlabel("step")
    lanes.set_ylabel("variable, final type")
    for kind, look in TYPES.items():
        own = [moment.count(kind) for moment in types]
        counts.plot(
            steps,
            own,
            color=look.light,
            linestyle=look.dash,
            marker=look.marker,
            linewidth=1.4,
            markersize=4,
            markerfacecolor=look.face,
            markevery=max(1, len(steps) // 8),
            label=kind,
        )
    counts.set_xlabel("step")
    counts.set_ylabel("number of variables")
    counts.set_ylim(-0.3, None)
    legend(figure, [lanes, counts])
    return figure


@register("figure", title="KL over training", references=("Bonheme2023BeMoreActive",))
def kl_over_training(timeline: Timeline, *, scale: Literal["linear", "log"] = "linear") -> "Figure":
    """Draw KL(q(z_j|x) || p(z_j)) of every variable over training, by final type.

    Args:
        timeline: The timeline of a training run.
        scale: Scale of the y axis.

    Returns:
        The figure; `polarised.report.save` writes it.

    Raises:
        DataError: If the timeline has fewer than two moments.

    >>> len(kl_over_training(_example()).axes)
    1
    """
    figure, (axis,) = panels(1, width=4.6, height=2.5)
    _per_variable(axis, timeline, "kl")
    axis.set_yscale("symlog" if scale == "log" else "linear", **({"linthresh": 1e-3} if scale == "log" else {}))
    axis.set_ylabel("KL to the prior, nats")
    legend(figure, [axis])
    return figure


@register("figure", title="variance ratio over training", references=("Bonheme2023BeMoreActive",))
def ratio_over_training(timeline: Timeline, *, alpha: float = 0.1) -> "Figure":
    """Draw E[posterior variance / prior variance] of every variable over training, with the thresholds of alpha.

    Args:
        timeline: The timeline of a training run.
        alpha: Threshold of the types, drawn as bands.

    Returns:
        The figure; `polarised.report.save` writes it.

    Raises:
        DataError: If the timeline has fewer than two moments.

    >>> len(ratio_over_training(_example()).axes)
    1
    """
    figure, (axis,) = panels(1, width=4.6, height=2.5)
    for low, high, kind in ((0.0, alpha, "active"), (1 - alpha, 1 + alpha, "passive")):
        axis.axhspan(low, high, color=TYPES[kind].light, alpha=0.1, linewidth=0)
    _per_variable(axis, timeline, "ratio_mean")
    axis.set_ylabel("posterior / prior variance")
    axis.set_ylim(0, None)
    legend(figure, [axis])
    return figure


def _per_variable(axis: "Axes", timeline: Timeline, name: str) -> None:
    steps, types, values = _steps(timeline), timeline.final_types, timeline.state()[name]
    for j, kind in enumerate(types):
        look = TYPES[kind]
        axis.plot(steps, values[:, j], color=look.light, linestyle=look.dash, linewidth=1.2, label=kind)
    axis.set_xlabel("step", fontsize=TEXT)
    axis.autoscale_view()
    _name_ends(axis, steps[-1], dict(enumerate(values[-1])), types)


def _name_ends(axis: "Axes", step: int, ends: dict[int, float], types: Sequence[str]) -> None:
    """Label the variables at the right ends of their lines; overlapping labels are merged."""
    low, high = axis.get_ylim()
    groups: list[list[int]] = []
    for j in sorted(ends, key=lambda j: ends[j]):
        near = groups and ends[j] - ends[groups[-1][-1]] < 0.045 * (high - low)
        if near and types[groups[-1][-1]] == types[j]:
            groups[-1].append(j)
        else:
            groups.append([j])
    floor = low
    for group in groups:
        # A label of another type just below moves this one up.
        at = max(float(np.mean([ends[j] for j in group])), floor)
        floor = at + 0.055 * (high - low)
        axis.annotate(
            ", ".join(map(str, sorted(group))),
            (step, at),
            xytext=(3, 0),
            textcoords="offset points",
            fontsize=SMALL - 1,
            va="center",
            color=TYPES[types[group[0]]].light,
            annotation_clip=False,
        )


def _spans(steps: list[int], inside: list[bool]) -> list[tuple[float, float]]:
    """Return (start, length) of every interval that is inside."""
    spans, start = [], None
    for i, here in enumerate(inside):
        if here and start is None:
            start = steps[i]
        if start is not None and (not here or i == len(steps) - 1):
            spans.append((float(start), float(steps[i] - start)))
            start = None
    return spans


def _strongest(timeline: Timeline) -> int:
    types, rates = timeline.final_types, timeline.state()["kl"][-1]
    return max(range(len(types)), key=lambda j: (types[j] == "active", float(rates[j])))


def _steps(timeline: Timeline) -> list[int]:
    if len(timeline) < 2:
        raise DataError(f"expected at least two moments of training, got {len(timeline)}; train with snapshots")
    return timeline.steps


def _example() -> Timeline:
    timeline, generator = Timeline(warn=False), np.random.default_rng(0)
    scale: Any = np.array([1.0, 0.01, 0.5])
    for step in (0, 10, 20):
        mean = generator.standard_normal((50, 3)) * scale
        timeline.update(step, mean, variance=np.tile([[0.02, 0.99, 0.5]], (50, 1)))
    return timeline
