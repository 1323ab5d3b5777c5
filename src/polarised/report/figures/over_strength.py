"""Figures against the strength of regularisation, a panel for each method, and against the number of latents."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from polarised.errors import DataError
from polarised.regime import Regime
from polarised.regime.dimensions import Fondue, OneShot
from polarised.regime.forecast import Forecast
from polarised.registry import register
from polarised.report.drawing import GREY, INK, SMALL, TEXT, band, clean, legend, panels, series
from polarised.report.theme import REPRESENTATIONS, SUBSETS, TYPES, metric_name, strength_name

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure

__all__ = [
    "alive_curve",
    "downstream_by_subset",
    "metric_by_subset",
    "metric_over_passive",
    "sizes",
    "total_correlation_by_strength",
    "types_by_strength",
]

Rule = Literal["used", "relative", "standard"]


Values = list[NDArray[np.float64]]


@register("figure", title="types against strength", references=("Bonheme2023BeMoreActive",), figures="7 and 14")
def types_by_strength(table: "polars.DataFrame", *, rule: Rule = "standard") -> "Figure":
    """Stack the mean numbers of active, mixed and passive variables against strength.

    [Bonheme2023BeMoreActive, figures 7 and 14]

    Args:
        table: The tidy table of a study: run, seed, method, strength, dataset, metric, representation, variables,
            value.
        rule: The rule of the types: "used", "relative" or "standard".

    Returns:
        The figure; `polarised.report.save` writes it.

    Raises:
        DataError: If the table lacks columns or has no rows to draw.

    >>> len(types_by_strength(_example()).axes)
    1
    """
    groups = by_method(chosen(table, "count", rule=rule))
    figure, axes = panels(len(groups), share_y=True)
    for axis, (name, frame) in zip(axes, groups.items(), strict=True):
        strengths = strengths_of(frame)
        base = np.zeros(len(strengths))
        for kind, values in _mean_counts(frame, strengths).items():
            look = TYPES[kind]
            bars = axis.bar(
                range(len(strengths)),
                values,
                0.72,
                base,
                color=look.light,
                hatch=look.hatch,
                edgecolor="white",
                linewidth=0.5,
                label=kind,
            )
            for bar, value in zip(bars, values, strict=True):
                if value > 0.9:
                    middle = bar.get_y() + value / 2
                    axis.text(
                        bar.get_x() + 0.36,
                        middle,
                        look.letter,
                        ha="center",
                        va="center",
                        fontsize=SMALL - 1,
                        color="white",
                        fontweight="bold",
                        bbox={"boxstyle": "round,pad=0.12", "fc": look.light, "ec": "none"},
                    )
            base += values
        strength_axis(axis, strengths, name)
    axes[0].set_ylabel("number of variables")
    legend(figure, axes)
    return figure


@register(
    "figure", title="a metric over passive variables", references=("Bonheme2023BeMoreActive",), figures="8 and 15 to 17"
)
def metric_over_passive(
    table: "polars.DataFrame", *, metric: str = "total_correlation", rule: Rule = "standard"
) -> "Figure":
    """Draw a metric of both representations over bars of the mean number of passive variables.

    [Bonheme2023BeMoreActive, figures 8 and 15 to 17]

    Args:
        table: The tidy table of a study: run, seed, method, strength, dataset, metric, representation, variables,
            value.
        metric: The metric of the lines.
        rule: The rule of the types: "used", "relative" or "standard".

    Returns:
        The figure; `polarised.report.save` writes it.

    Raises:
        DataError: If the table lacks columns or has no rows to draw.

    >>> len(metric_over_passive(_example()).axes)
    2
    """
    from matplotlib.ticker import MaxNLocator

    scores = by_method(chosen(table, metric, variables="full", rule=rule))
    types = by_method(chosen(table, "count", rule=rule))
    # All variables are the scale of every panel, so that their bars can be compared.
    sums = [np.sum([*_mean_counts(frame, strengths_of(frame)).values()], axis=0) for frame in types.values()]
    figure, axes = panels(len(scores))
    for axis, (name, frame) in zip(axes, scores.items(), strict=True):
        strengths = strengths_of(frame)
        _two_lines(axis, frame, strengths)
        bars = axis.twinx()
        passive = _mean_counts(types.get(name, frame.clear()), strengths)["passive"]
        look = TYPES["passive"]
        bars.bar(
            range(len(strengths)),
            passive,
            0.62,
            color="#dfe1e4",
            hatch=look.hatch,
            edgecolor="white",
            label="passive variables (right)",
        )
        # Draw the lines in front of the bars of the other axis.
        axis.set_zorder(bars.get_zorder() + 1)
        axis.patch.set_visible(False)
        bars.spines["top"].set_visible(False)
        bars.tick_params(labelsize=SMALL, length=2.5, width=0.7, labelcolor=INK)
        bars.set_ylim(0, max(1.0, *np.concatenate(sums)))
        bars.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10], integer=True))
        strength_axis(axis, strengths, name)
    name_upright(axes[0], metric)
    legend(figure, axes)
    return figure


@register(
    "figure", title="a metric by subset of variables", references=("Bonheme2023BeMoreActive",), figures="9, 10 and 18"
)
def metric_by_subset(
    table: "polars.DataFrame",
    *,
    metric: str = "total_correlation",
    subsets: tuple[str, ...] = ("full", "alive", "active"),
    rule: Rule = "standard",
) -> "Figure":
    """Draw a metric of both representations on all variables, without the passive ones, and on the active ones.

    One row per method; without passive variables the gap closes. A subset on which no run was scored has no column.
    [Bonheme2023BeMoreActive, figures 9, 10 and 18]

    Args:
        table: The tidy table of a study: run, seed, method, strength, dataset, metric, representation, variables,
            value.
        metric: The metric to draw.
        subsets: The subsets, one column each.
        rule: The rule of the types: "used", "relative" or "standard".

    Returns:
        The figure; `polarised.report.save` writes it.

    Raises:
        DataError: If the table lacks columns or has no rows to draw.

    >>> len(metric_by_subset(_example(), subsets=("full",)).axes)
    1
    """
    frame = chosen(table, metric, rule=rule)
    groups, scored = by_method(frame), frame["variables"].unique().to_list()
    subsets = tuple(name for name in subsets if name in scored)
    figure, axes = panels(len(groups) * len(subsets), columns=max(len(subsets), 1), height=1.9)
    for row, (name, frame) in enumerate(groups.items()):
        strengths = strengths_of(frame)
        own = axes[row * len(subsets) : (row + 1) * len(subsets)]
        for axis, variables in zip(own, subsets, strict=True):
            _two_lines(axis, frame, strengths, variables=variables)
            strength_axis(axis, strengths, f"{name}: {SUBSETS.get(variables, variables)}")
        top = max(axis.get_ylim()[1] for axis in own)
        low = min([0.0, *(axis.get_ylim()[0] for axis in own)])
        for axis in own:
            axis.set_ylim(low - 0.03 * (top - low), top)
        name_upright(own[0], metric)
    legend(figure, axes)
    return figure


@register("figure", title="prediction of factors by subset", references=("Bonheme2023BeMoreActive",), figures="6")
def downstream_by_subset(
    table: "polars.DataFrame", *, metric: str = "accuracy", method: str | None = None, rule: Rule = "standard"
) -> "Figure":
    """Draw the accuracy of predicting factors from subsets of variables, a panel for each method and subset.

    Each panel has mean, sample and random guessing; the means of all variables are grey behind a subset.
    [Bonheme2023BeMoreActive, figure 6]

    Args:
        table: The tidy table of a study: run, seed, method, strength, dataset, metric, representation, variables,
            value.
        metric: The accuracy to draw, such as that of one factor.
        method: The method to draw; default: all.
        rule: The rule of the types: "used", "relative" or "standard".

    Returns:
        The figure; `polarised.report.save` writes it.

    Raises:
        DataError: If the table lacks columns or has no rows to draw.

    >>> len(downstream_by_subset(_example(metric="accuracy")).axes)
    1
    """
    import polars

    table = table if method is None else table.filter(polars.col("method") == method)
    frame = chosen(table, metric, rule=rule)
    groups, scored = by_method(frame), frame["variables"].unique().to_list()
    # Every run has scores without passive variables; "active, mixed" exists only in runs that have both types.
    skipped = {"random", "active_mixed"} if "alive" in scored else {"random"}
    subsets = [name for name in SUBSETS if name in scored and name not in skipped]
    figure, axes = panels(
        len(groups) * len(subsets), columns=len(subsets), width=max(1.15, 4.6 / len(subsets)), height=1.35, share_y=True
    )
    for row, (name, own) in enumerate(groups.items()):
        strengths = strengths_of(own)
        guess = [v.mean() if v.size else np.nan for v in repeated(own, strengths, variables="random")]
        whole = [
            v.mean() if v.size else np.nan for v in repeated(own, strengths, variables="full", representation="mean")
        ]
        for axis, variables in zip(axes[row * len(subsets) :], subsets, strict=False):
            axis.plot(range(len(strengths)), guess, color=INK, linewidth=0.8, linestyle=":", label="random guess")
            if variables != "full":
                axis.plot(range(len(strengths)), whole, color=GREY, linewidth=1.0, label="mean, all variables")
            _two_lines(axis, own, strengths, variables=variables)
            strength_axis(axis, strengths, name)
            axis.set_title(SUBSETS[variables] if row == 0 else "", fontsize=TEXT)
            axis.tick_params(axis="x", labelsize=SMALL - 1.5)
            # The label of the axis is written once, below the middle of its row.
            axis.set_xlabel(strength_name(name) if variables == subsets[len(subsets) // 2] else "", fontsize=SMALL)
        axes[row * len(subsets)].set_ylabel(f"{name}\n{metric_name(metric)}")
    # The axis is shared and a limit cannot grow once it is set, so it is set after the last row.
    axes[0].set_ylim(0, None)
    legend(figure, axes)
    return figure


@register("figure", title="total correlation against strength", references=("Cheng2021",), figures="3 and 4")
def total_correlation_by_strength(table: "polars.DataFrame", *, metric: str = "total_correlation") -> "Figure":
    """Draw total correlation of mean and sample for each method, and of the means of all methods in one panel.

    The two curves of FactorVAE diverge, those of RTC-VAE do not. [Cheng2021, figures 3 and 4]

    Args:
        table: The tidy table of a study: run, seed, method, strength, dataset, metric, representation, variables,
            value.
        metric: Another metric, drawn in the same way.

    Returns:
        The figure; `polarised.report.save` writes it.

    Raises:
        DataError: If the table lacks columns or has no rows to draw.

    >>> len(total_correlation_by_strength(_example()).axes)
    2
    """
    groups = by_method(chosen(table, metric, variables="full"))
    figure, axes = panels(len(groups) + 1)
    for axis, (name, frame) in zip(axes, groups.items(), strict=False):
        strengths = strengths_of(frame)
        _two_lines(axis, frame, strengths)
        strength_axis(axis, strengths, name)
    everything = sorted({s for frame in groups.values() for s in strengths_of(frame)}, key=order_of)
    for i, (name, frame) in enumerate(groups.items()):
        # Methods have different grids: a line connects the strengths of its own method.
        own = strengths_of(frame)
        values = repeated(frame, own, representation="mean")
        band(axes[-1], [everything.index(s) for s in own], values, series(i), label=f"mean, {name}")
    strength_axis(axes[-1], everything, "all methods: mean")
    name_upright(axes[0], metric)
    legend(figure, axes, columns=3)
    return figure


@register("figure", title="search for the number of latents", references=("Bonheme2023FONDUE",))
def sizes(regimes: Sequence[Regime], count: OneShot, search: Fondue | None = None, *, seed: int = 0) -> "Figure":
    """Draw the KL of each variable of the over-sized runs, largest first, and the estimates of FONDUE at each size.

    The dashed line is the number found. [Bonheme2023FONDUE]

    Args:
        regimes: The types of the variables of each over-sized run.
        count: The number of alive variables in them.
        search: The result of FONDUE, if it was run.
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


@register("figure", title="forecast of used variables", references=("Tipping1999", "Lucas2019"))
def alive_curve(forecast: Forecast) -> "Figure":
    """Draw how many variables a linear model keeps at each beta, and mark the setting of the forecast.

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


def chosen(
    table: "polars.DataFrame", metric: str, *, variables: str | None = None, rule: str | None = None
) -> "polars.DataFrame":
    """Return the rows of one metric, for some variables and one rule (rows without a rule are always included).

    Args:
        table: The tidy table of a study: run, seed, method, strength, dataset, metric, representation, variables,
            value.
        metric: The metric.
        variables: The subset of variables; default: all.
        rule: The rule of the types; default: any.

    Returns:
        The rows.

    Raises:
        DataError: If the table lacks columns or has no rows to draw.
    """
    import polars

    needed = {"method", "strength", "metric", "representation", "variables", "value"}
    if missing := sorted(needed - set(table.columns)):
        raise DataError(
            f"expected a tidy table, but {', '.join(missing)} missing; create it with polarised study collect"
        )
    frame = table.filter(polars.col("metric") == metric)
    if frame.is_empty():
        raise DataError(f"expected rows of {metric!r}, but the table has {', '.join(table['metric'].unique().sort())}")
    if variables is not None:
        frame = frame.filter(polars.col("variables") == variables)
    if rule is not None and "rule" in frame.columns:
        rules = ", ".join(frame["rule"].drop_nulls().unique().sort())
        frame = frame.filter(polars.col("rule").is_null() | (polars.col("rule") == rule))
        if frame.is_empty() and rules:
            raise DataError(
                f"expected rows of {metric!r} by the rule {rule!r}, but the table has only {rules}; choose another rule"
            )
    return frame


def by_method(frame: "polars.DataFrame") -> "dict[str, polars.DataFrame]":
    """Return the rows of each method, and of each dataset if there are several.

    Args:
        frame: Rows of a tidy table.

    Returns:
        The rows by the name of the method.
    """
    several = "dataset" in frame.columns and frame["dataset"].n_unique() > 1
    keys = ["method", "dataset"] if several else ["method"]
    parts = frame.partition_by(keys, as_dict=True, maintain_order=True)
    return {", ".join(str(part) for part in key): own for key, own in parts.items()}


def strengths_of(frame: "polars.DataFrame") -> list[Any]:
    """Return the strengths in order.

    Args:
        frame: Rows of a tidy table.

    Returns:
        The strengths, smallest first.
    """
    return sorted(frame["strength"].unique().to_list(), key=order_of)


def repeated(frame: "polars.DataFrame", strengths: list[Any], **where: str) -> Values:
    """Return the values of all seeds at each strength.

    Args:
        frame: Rows of a tidy table.
        strengths: The strengths.
        **where: Values that columns must have.

    Returns:
        An array of values for each strength, empty if there are none.
    """
    import polars

    for column, value in where.items():
        frame = frame.filter(polars.col(column) == value)
    parts = {key[0]: own["value"].drop_nulls() for key, own in frame.partition_by("strength", as_dict=True).items()}
    return [np.array(parts.get(strength, ()), dtype=np.float64) for strength in strengths]


def _mean_counts(frame: "polars.DataFrame", strengths: list[Any]) -> dict[str, NDArray[np.float64]]:
    """Return the mean number of variables of each type at each strength, 0 where there is none."""
    return {
        kind: np.array([v.mean() if v.size else 0.0 for v in repeated(frame, strengths, variables=kind)])
        for kind in TYPES
    }


def paired(
    upright: "polars.DataFrame", across: "polars.DataFrame"
) -> tuple[dict[str, list[tuple[NDArray[Any], NDArray[Any]]]], dict[str, list[Any]]]:
    """Return two measurements of the same runs by method, as a pair of arrays per strength, and the strengths.

    Args:
        upright: Rows of one metric.
        across: Rows of the other metric, of the same runs.

    Returns:
        The x and y values at each strength of each method that has both, and its strengths.
    """
    both = upright.join(
        across.select("run", across="value").unique("run"), on="run", how="inner", maintain_order="left"
    )
    pairs, strengths = {}, {}
    for name, frame in by_method(both).items():
        strengths[name] = strengths_of(frame)
        aside = repeated(frame.with_columns(value="across"), strengths[name])
        pairs[name] = list(zip(aside, repeated(frame, strengths[name]), strict=True))
    return pairs, strengths


def seeds_of(frame: "polars.DataFrame") -> int:
    """Return the number of seeds in a table; 0 if it has no such column.

    Args:
        frame: Rows of a tidy table.

    Returns:
        The number of seeds.
    """
    return frame["seed"].n_unique() if "seed" in frame.columns else 0


def order_of(strength: Any) -> tuple[int, float, str]:
    """Return a sort key for strengths: numbers before names, runs without a strength last.

    Args:
        strength: A number, a name or None.

    Returns:
        A key for sorting.
    """
    return (0, float(strength), "") if isinstance(strength, int | float) else (1, 0.0, str(strength))


def shown_strength(strength: Any) -> str:
    """Format a strength for an axis.

    Args:
        strength: A number, a name or None.

    Returns:
        A short text.

    >>> shown_strength(4.0), shown_strength(None)
    ('4', '–')
    """
    return "–" if strength is None else f"{strength:g}" if isinstance(strength, int | float) else str(strength)


def _two_lines(axis: Any, frame: "polars.DataFrame", strengths: list[Any], **where: str) -> None:
    # The dashed mean is drawn last: where the two agree, both stay visible.
    for representation, look in reversed(REPRESENTATIONS.items()):
        values = repeated(frame, strengths, representation=representation, **where)
        label = f"{representation} representation"
        band(axis, range(len(strengths)), values, look, label=label, seeds=seeds_of(frame))


def name_upright(axis: Any, metric: str) -> None:
    """Label the y axis with a metric, wrapped to fit a panel.

    Args:
        axis: The panel.
        metric: The metric.
    """
    axis.set_ylabel(textwrap.fill(metric_name(metric), 26))


def strength_axis(axis: Any, strengths: list[Any], title: str) -> None:
    """Set an axis with equally spaced strengths and the title of a panel.

    Args:
        axis: The panel.
        strengths: The strengths, in order.
        title: The title of the panel.
    """
    axis.set_xticks(range(len(strengths)), [shown_strength(strength) for strength in strengths])
    axis.set_xlim(-0.6, len(strengths) - 0.4)
    axis.set_xlabel(strength_name(title), fontsize=TEXT)
    axis.set_title(title, fontsize=TEXT)


def _example(metric: str = "total_correlation") -> "polars.DataFrame":
    import polars

    measured = [(metric, r, "full", 1.0) for r in REPRESENTATIONS] + [("count", None, kind, 2.0) for kind in TYPES]
    names = ["metric", "representation", "variables", "value"]
    return polars.DataFrame(measured, schema=names, orient="row").with_columns(
        method=polars.lit("BetaVAE"), strength=polars.lit(1.0), seed=polars.lit(0), dataset=polars.lit("dsprites")
    )
