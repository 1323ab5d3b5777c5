"""Matplotlib without its global state: figures in one house style, and how they are saved."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from polarised._io.files import replacing
from polarised.data.own import open_picture
from polarised.errors import DataError
from polarised.report.theme import SERIES, TYPES, Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "Panels",
    "band",
    "clean",
    "colour_bar",
    "diverging",
    "legend",
    "middle_range",
    "name_points",
    "panels",
    "same_limits",
    "save",
    "series",
    "trail",
]

Panels = list["Axes"]
# The runs at each point of a line: their x values and their y values.
Trail = Sequence[tuple[NDArray[Any], NDArray[Any]]]

INK, MUTED, GREY, FAINT = "#1c2026", "#4b525c", "#c6cad0", "#d9d6ce"
# Inches and points for a journal: a panel is legible if two panels fill a page of 6.75 inches.
TEXT, SMALL = 8.0, 7.0


def panels(
    count: int, *, columns: int = 3, width: float = 2.45, height: float = 2.0, share_y: bool = False
) -> "tuple[Figure, Panels]":
    """Return a figure with `count` clean panels in rows of at most `columns`.

    Args:
        count: The number of panels.
        columns: The largest number of panels in a row.
        width: Width of a panel in inches.
        height: Height of a panel in inches.
        share_y: Whether all panels share the y axis.

    Returns:
        The figure and its panels, row by row.

    Raises:
        DataError: If there is nothing to draw.

    >>> figure, axes = panels(4, columns=3, width=2.5)
    >>> len(axes), figure.get_size_inches().tolist()
    (4, [7.5, 4.0])
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if count < 1:
        raise DataError("expected something to draw, got nothing; check whether the table is empty after filtering")
    across = min(columns, count)
    down = -(-count // across)
    figure = Figure(figsize=(width * across, height * down), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    grid = figure.subplots(down, across, squeeze=False, sharey=share_y).ravel()
    for spare in grid[count:]:
        spare.remove()
    axes = list(grid[:count])
    for axis in axes:
        clean(axis)
    return figure, axes


def clean(axis: "Axes", *, grid: Literal["x", "y", "both", "none"] = "y") -> None:
    """Apply the house style to a panel: no box, a faint grid, small text.

    Args:
        axis: The panel.
        grid: Which grid lines to draw.
    """
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axis.spines[side].set_color(MUTED)
        axis.spines[side].set_linewidth(0.7)
    axis.tick_params(labelsize=SMALL, color=MUTED, labelcolor=INK, width=0.7, length=2.5)
    axis.set_axisbelow(True)
    axis.grid(False)
    if grid != "none":
        axis.grid(True, axis=grid, color=FAINT, linewidth=0.6)
    for text in (axis.xaxis.label, axis.yaxis.label, axis.title):
        text.set_fontsize(TEXT)
        text.set_color(INK)


def band(
    axis: "Axes",
    x: Sequence[float],
    values: Sequence[NDArray[Any]],
    look: Look,
    *,
    label: str | None = None,
    seeds: int = 0,
) -> None:
    """Draw the mean of repeated runs at each x, and a band that contains 95 % of the seeds.

    If fewer than half of the `seeds` have a value (or half as many as elsewhere), their mean is a faint mark next to
    the line, because different sets of runs would be compared otherwise.

    Args:
        axis: The panel to draw in.
        x: The x values.
        values: The values of all seeds at each x.
        look: Colour, marker and dash.
        label: The name in the legend.
        seeds: The number of seeds, if known.

    >>> _, (axis,) = panels(1)
    >>> band(axis, [0, 1], [np.array([1.0, 2.0]), np.array([3.0])], SERIES[0])
    >>> len(axis.lines)
    1
    """
    finite = [v[np.isfinite(v)] for v in (np.asarray(v, dtype=float) for v in values)]
    most = max([seeds, *(v.size for v in finite)])
    if not any(v.size for v in finite):
        return
    at, nothing = np.asarray(x, dtype=float), np.array([np.nan])
    many = [v if 2 * v.size >= most else nothing for v in finite]
    few = [v if 0 < 2 * v.size < most else nothing for v in finite]
    low, high = np.transpose([middle_range(v) for v in many])
    axis.fill_between(at, low, high, color=look.light, alpha=0.17, linewidth=0)
    axis.plot(at, [v.mean() for v in many], label=label, **_stroke(look))
    if any(v is not nothing for v in few):
        axis.plot(at, [v.mean() for v in few], **_stroke(look) | {"linestyle": "none", "alpha": 0.4})


def trail(axis: "Axes", runs: Trail, look: Look, *, behind: Sequence[Trail] = ()) -> list[tuple[float, float]]:
    """Draw the means of repeated runs as a line, single runs as dots, and other lines in grey behind it.

    Args:
        axis: The panel to draw in.
        runs: The runs at each point of the line.
        look: Colour, marker and dash.
        behind: The runs of other lines.

    Returns:
        The means (x, y) along the line.

    >>> _, (axis,) = panels(1)
    >>> runs = [(np.array([1.0, 3.0]), np.array([0.0, 2.0])), (np.array([4.0]), np.array([3.0]))]
    >>> trail(axis, runs, SERIES[0])
    [(2.0, 1.0), (4.0, 3.0)]
    """
    for other in behind:
        axis.plot(*zip(*_means(other), strict=True), color=GREY, linewidth=0.9, zorder=1)
    for u, v in runs:
        axis.scatter(u, v, s=9, color=look.light, alpha=0.4, linewidths=0, marker=look.marker, zorder=2)
    points = _means(runs)
    axis.plot(*zip(*points, strict=True), zorder=3, **_stroke(look))
    return points


def _means(runs: Trail) -> list[tuple[float, float]]:
    return [(float(u.mean()), float(v.mean())) for u, v in runs]


def same_limits(axes: Panels) -> None:
    """Set common limits that fit the content of all panels.

    Args:
        axes: The panels.
    """
    for get, put in (("get_xlim", "set_xlim"), ("get_ylim", "set_ylim")):
        lows, highs = zip(*(getattr(axis, get)() for axis in axes), strict=True)
        for axis in axes:
            getattr(axis, put)(min(lows), max(highs))


def name_points(
    axis: "Axes", marks: Sequence[tuple[tuple[float, float], str, str]], line: Sequence[tuple[float, float]]
) -> None:
    """Label points, each inside the frame, on the side that is farthest from the line and from other labels.

    Args:
        axis: The panel, whose limits are final.
        marks: The position, the label and the colour of each point.
        line: The vertices of the line to avoid.

    >>> _, (axis,) = panels(1)
    >>> name_points(axis, [((0.0, 0.0), "low", INK), ((1.0, 1.0), "high", INK)], [(0.0, 0.0), (1.0, 1.0)])
    >>> [text.get_text() for text in axis.texts]
    ['low', 'high']
    """
    from matplotlib.patheffects import withStroke

    figure, spec = cast("Figure", axis.get_figure(root=True)), axis.get_subplotspec()
    cells = (1, 1) if spec is None else (spec.get_gridspec().ncols, spec.get_gridspec().nrows)
    # In points: a panel takes about four fifths of its cell.
    size = figure.get_size_inches() * 72 * 0.8 / cells
    low, high = np.transpose([axis.get_xlim(), axis.get_ylim()])
    corners = [(np.array(at) - low) / (high - low) * size for at in line]
    steps = np.linspace(0.0, 1.0, 25)[:, None]
    near = np.concatenate([a + steps * (b - a) for a, b in zip(corners, corners[1:] or corners, strict=False)])
    cross = np.array([(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1)])
    for at, name, colour in marks:
        here, half = (np.array(at) - low) / (high - low) * size, np.array([0.29 * len(name), 0.5]) * SMALL
        scored = []
        for angle in np.arange(0.25, 2.25, 0.25) * np.pi:
            box = here + np.array([np.cos(angle), np.sin(angle)]) * (half + 4) + cross * half
            # The white edge of a label that touches the frame would cover the axis.
            outside = np.maximum(0, np.maximum(2 - box, box - size)).max()
            gap = np.sqrt(np.square(box[:, None] - near).sum(axis=-1)).min()
            scored.append((float(gap - 10 * outside), float(angle)))
        angle = max(scored)[1]
        middle = here + np.array([np.cos(angle), np.sin(angle)]) * (half + 4)
        near = np.concatenate([near, middle + cross * half])
        axis.annotate(
            name,
            at,
            xytext=tuple(middle - here),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=SMALL - 0.5,
            color=colour,
            path_effects=[withStroke(linewidth=2, foreground="white")],
            zorder=5,
        )


def middle_range(values: NDArray[Any]) -> tuple[float, float]:
    """Return the range of the middle 95 % of repeated runs; unlike an interval of a mean, it stays within the data.

    Args:
        values: Values of repeated runs.

    Returns:
        The lower and the upper end.

    >>> middle_range(np.array([1.0, 2.0, 3.0]))
    (1.05, 2.95)
    """
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


def _stroke(look: Look) -> dict[str, Any]:
    return {
        "color": look.light,
        "linestyle": look.dash,
        "marker": look.marker,
        "markersize": 4,
        "linewidth": 1.4,
        "markerfacecolor": look.face,
        "markeredgecolor": look.light if look.hollow else "white",
        "markeredgewidth": 1.0 if look.hollow else 0.4,
    }


def series(index: int) -> Look:
    """Return the look of the n-th series.

    Args:
        index: The index of the series.

    Returns:
        Its look; they repeat after seven.

    >>> series(0) == series(7)
    True
    """
    return SERIES[index % len(SERIES)]


def legend(figure: "Figure", axes: Panels, *, columns: int | None = None) -> None:
    """Add one legend for all panels below the figure, with each name once.

    Args:
        figure: The figure.
        axes: Its panels.
        columns: Names per row.
    """
    found: dict[str, Any] = {}
    for axis in [*axes, *(twin for twin in figure.axes if twin not in axes)]:
        handles, labels = axis.get_legend_handles_labels()
        for handle, label in zip(handles, labels, strict=True):
            found.setdefault(label, handle)
    # Types in their usual order, independent of the order of drawing.
    found = dict(sorted(found.items(), key=lambda item: list(TYPES).index(item[0]) if item[0] in TYPES else len(TYPES)))
    if found:
        figure.legend(
            list(found.values()),
            list(found),
            loc="outside lower center",
            ncols=columns or min(len(found), 4),
            frameon=False,
            fontsize=SMALL,
            labelcolor=INK,
            handlelength=2.6,
        )


def colour_bar(
    figure: "Figure", image: Any, axes: "Axes | Panels", label: str, *, ticks: Sequence[float] | None = None
) -> None:
    """Add a colour bar to heat maps.

    Args:
        figure: The figure.
        image: The heat map.
        axes: The panels it belongs to.
        label: The label of the colour bar.
        ticks: The positions of the numbers.
    """
    bar = figure.colorbar(image, ax=axes, shrink=0.78, pad=0.02, aspect=22, ticks=ticks)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=SMALL, length=0, labelcolor=INK)
    bar.set_label(label, fontsize=SMALL, color=INK)


def diverging() -> Any:
    """Return the colour map of correlations: orange below zero, white, violet above (safe for colour blindness).

    Returns:
        A colour map of matplotlib.
    """
    from matplotlib.colors import LinearSegmentedColormap

    colours = ["#7f3b08", "#b35806", "#f1a340", "#fee0b6", "#ffffff", "#d8daeb", "#998ec3", "#542788", "#2d004b"]
    return LinearSegmentedColormap.from_list("orange_white_violet", colours)


def save(
    figure: "Figure",
    stem: str | Path,
    *,
    formats: Sequence[Literal["svg", "pdf", "png"]] = ("svg", "pdf", "png"),
    small: bool = False,
) -> tuple[Path, ...]:
    """Save a figure as vector graphics and as an image of 200 dpi; the same figure gives the same bytes.

    A `small` image, for pages with many of them, has 150 dpi and 256 colours.

    Args:
        figure: The figure.
        stem: Path without a suffix; folders are created.
        formats: The formats to write.
        small: Whether the image is one of many on a page.

    Returns:
        The files written.

    >>> import tempfile
    >>> [path.name for path in save(panels(1)[0], Path(tempfile.mkdtemp()) / "empty", formats=["png"])]
    ['empty.png']
    """
    import matplotlib
    from PIL import Image

    stem = Path(stem)
    stem.parent.mkdir(parents=True, exist_ok=True)
    dateless = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}
    written = []
    for kind in formats:
        path = stem.with_name(f"{stem.name}.{kind}")
        with matplotlib.rc_context({"svg.hashsalt": "polarised", "pdf.fonttype": 42}), replacing(path) as temporary:
            figure.savefig(temporary, format=kind, dpi=150 if small else 200, metadata=dateless[kind])
            if small and kind == "png":
                drawn = open_picture(temporary, path, mode="RGB")
                few = drawn.quantize(256, dither=Image.Dither.NONE)
                few.save(temporary, format="png", optimize=True)
        written.append(path)
    return tuple(written)
