"""Matplotlib without its global state: plain figures in one house style, and how they reach the disk."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

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
    "panels",
    "save",
    "series",
    "trail",
]

Panels = list["Axes"]

INK, MUTED, FAINT = "#1c2026", "#4b525c", "#d9d6ce"
# Inches and points for a journal: a panel is legible when two of them fill a column pair of 6.75 inches.
TEXT, SMALL = 8.0, 7.0


def panels(
    count: int, *, columns: int = 3, width: float = 2.45, height: float = 2.0, share_y: bool = False
) -> "tuple[Figure, Panels]":
    """Return a figure with `count` clean panels in rows of at most `columns`.

    Args:
        count: How many panels.
        columns: Most panels in a row.
        width: Width of a panel in inches.
        height: Height of a panel in inches.
        share_y: Whether all panels have one upright scale.

    Returns:
        The figure and its panels, row by row.

    Raises:
        DataError: There is nothing to draw.

    >>> figure, axes = panels(4, columns=3, width=2.5)
    >>> len(axes), figure.get_size_inches().tolist()
    (4, [7.5, 4.0])
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if count < 1:
        raise DataError("expected something to draw, got nothing: is the table empty after its filters?")
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
    """Give one panel the house style: no box, faint lines behind, small text.

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
    """Draw the mean of repeated runs at each x and a band in which 95 % of the seeds lie.

    Where fewer than half of the `seeds` have a value (or half as many as elsewhere), their mean is a faint mark beside
    the line: runs of another kind would be compared with their neighbours.

    Args:
        axis: The panel to draw in.
        x: Where the values stand.
        values: The values of all seeds at each x.
        look: Colour, marker and dash.
        label: The name in the legend.
        seeds: How many seeds there are, if known.

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


def trail(
    axis: "Axes", across: Sequence[NDArray[Any]], up: Sequence[NDArray[Any]], look: Look, *, label: str | None = None
) -> list[tuple[float, float]]:
    """Draw means of repeated runs as a line through the plane; in band and thin bars lie 95 % of the seeds.

    The band is that of the upright values, a bar that of the others; where the line turns back, or is a point, a band
    would fold over itself, and bars stand both ways. Return the points.

    Args:
        axis: The panel to draw in.
        across: Values of all seeds at each point, across.
        up: Values of all seeds at each point, upwards.
        look: Colour, marker and dash.
        label: The name in the legend.

    Returns:
        The means (across, up) that the line joins.

    >>> _, (axis,) = panels(1)
    >>> trail(axis, [np.array([1.0, 3.0]), np.array([4.0])], [np.array([0.0, 2.0]), np.array([3.0])], SERIES[0])
    [(2.0, 1.0), (4.0, 3.0)]
    """
    kept = [(u, v) for u, v in zip(across, up, strict=True) if u.size and v.size]
    points = [(float(u.mean()), float(v.mean())) for u, v in kept]
    if points:
        x, y = (np.array(side) for side in zip(*points, strict=True))
        (left, right), (low, high) = (np.transpose([middle_range(v[i]) for v in kept]) for i in (0, 1))
        if len(x) > 1 and np.ptp(np.sign(np.diff(x))) == 0:
            axis.fill_between(x, low, high, color=look.light, alpha=0.17, linewidth=0)
        else:
            axis.vlines(x, low, high, color=look.light, lw=0.7)
        axis.hlines(y, left, right, color=look.light, lw=0.7)
        axis.plot(x, y, label=label, **_stroke(look))
    return points


def middle_range(values: NDArray[Any]) -> tuple[float, float]:
    """Return the range of the middle 95 % of repeated runs; it stays where runs can be, unlike an interval of a mean.

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
    """Return the look of the n-th of any number of series.

    Args:
        index: The place of the series.

    Returns:
        Its look; they repeat after seven.

    >>> series(0) == series(7)
    True
    """
    return SERIES[index % len(SERIES)]


def legend(figure: "Figure", axes: Panels, *, columns: int | None = None) -> None:
    """Put one legend for all panels under the figure, each name once.

    Args:
        figure: The figure.
        axes: Its panels.
        columns: Names in a row.
    """
    found: dict[str, Any] = {}
    for axis in [*axes, *(twin for twin in figure.axes if twin not in axes)]:
        handles, labels = axis.get_legend_handles_labels()
        for handle, label in zip(handles, labels, strict=True):
            found.setdefault(label, handle)
    # Types in their own order, in whatever order they were drawn.
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
    """Put a bar beside heat maps that says which colour is which number.

    Args:
        figure: The figure.
        image: The heat map.
        axes: The panels it belongs to.
        label: What the numbers are.
        ticks: Where to write numbers.
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
    """Write a figure as vectors and as a picture of 200 dots an inch; the same figure gives the same bytes.

    A `small` picture, for pages that have many, has 150 dots an inch and 256 colours.

    Args:
        figure: The figure.
        stem: Path without an ending; folders are made.
        formats: Which files to write.
        small: Whether the picture is one of many on a page.

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
