"""The description of each dataset, whether it is ready to use, how to prepare it, and a picture of it."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polarised._io.files import replacing
from polarised.data.cache import Progress, Source, data_folder, find, obtain, reporting, verified_earlier
from polarised.data.dataset import Dataset, FactorSpace
from polarised.errors import DataError
from polarised.random import stream
from polarised.registry import Record, Spec, build, record, records

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Description", "contact_sheet", "describe", "prepare"]

INK, GREY, LINE = "#1b1f24", "#6a737d", "#d0d7de"
MOST_ROWS = 10
MOST_DIMENSIONS = 5
PICTURES = (".png", ".svg", ".pdf")


@dataclass(frozen=True)
class Description:
    """One entry of the catalogue of datasets, and its state on this machine.

    Args:
        name: Its name in a config.
        title: Its usual name.
        summary: Its contents in a few words.
        images: The number of images as published; 0 if your files decide.
        shape: The shape of one image; empty if your files decide.
        factors: The size of each factor by name.
        licence: The terms of its publisher.
        citation: The key of the work to cite.
        ready: Whether it can be used without a network.
        files: The names of its files.
        folder: The folder in which they are searched.
        pages: Where to get them.
        verified: Whether the files it was decoded from are the published ones: "as published", "same content" (only the
            compression differs) or "not verified"; empty before it is decoded, and if there are no files.
    """

    name: str
    title: str
    summary: str
    images: int
    shape: tuple[int, ...]
    factors: dict[str, int]
    licence: str
    citation: str
    ready: bool = False
    files: tuple[str, ...] = ()
    folder: str = ""
    pages: tuple[str, ...] = ()
    verified: str = ""


def describe() -> list[Description]:
    """Return the description of every dataset, without loading any.

    Returns:
        One description for each dataset, in the order of the catalogue.

    >>> [about.name for about in describe() if about.ready][:3]
    ['dsprites', 'color_dsprites', 'noisy_dsprites']
    """
    return [_described(each) for each in records("dataset")]


def prepare(dataset: Spec, *, progress: Progress | None = None, mirror: str | None = None) -> Dataset:
    """Download and decode a dataset, so that it can be used without a network.

    Args:
        dataset: Its name, or a mapping with its name and settings, as in a config.
        progress: Called with a description of the task, the amount done and the total.
        mirror: The address or path of a folder that contains the files.

    Returns:
        The dataset.

    Raises:
        ConfigError: If there is no such dataset, or a setting is invalid.
        DownloadError: If a file is missing and cannot be downloaded.

    >>> len(prepare({"name": "pinwheel", "points": 50}))
    200
    """
    known = record("dataset", dataset if isinstance(dataset, str) else str(dataset.get("name")))
    with reporting(progress):
        if not _ready(known):
            for source in _sources(known):
                obtain(source, mirror=mirror)
        made = build("dataset", dataset)
    assert isinstance(made, Dataset)
    return made


def _described(known: Record) -> Description:
    sources, facts = _sources(known), known.facts
    return Description(
        name=known.name,
        title=known.title,
        summary=known.summary,
        images=facts.get("images", 0),
        shape=facts.get("shape", ()),
        factors=dict(facts.get("factors", {})),
        licence=facts.get("licence", "not stated"),
        citation=next(iter(known.reference_keys), ""),
        ready=_ready(known),
        files=tuple(Path(source.file).name for source in sources),
        folder=", ".join(str(data_folder() / place) for place in sorted({Path(s.file).parent for s in sources})),
        pages=tuple(dict.fromkeys(source.page for source in sources if source.page)),
        verified=verified_earlier(known.name) if sources else "",
    )


def _sources(known: Record) -> tuple[Source, ...]:
    return tuple(known.facts.get("sources", ()))


def _ready(known: Record) -> bool:
    if "files" not in known.needs:
        return True
    folder = data_folder() / "decoded"
    if folder.is_dir() and any(path.name.partition("-")[0] == known.name for path in folder.glob("[!.]*")):
        return True
    sources = _sources(known)
    if by_hand := known.facts.get("by_hand"):
        place, _, pattern = by_hand.rpartition("/")
        unpacked = find(place)
        if unpacked is not None and any(unpacked.glob(pattern)):
            sources = sources[1:]
    return all(find(source.file) is not None for source in sources)


class _Row(NamedTuple):
    title: str
    detail: str
    images: NDArray[np.float32]
    captions: list[str]


def contact_sheet(dataset: Dataset, path: str | Path, *, columns: int = 10, seed: int = 0) -> Path:
    """Write a picture of a dataset: one row for each factor, over its values.

    A single factor, such as a label, has one row for each value. If not every combination of factors has an image,
    the other factors are arbitrary. Vectors are drawn as a scatter plot.

    Args:
        dataset: The dataset.
        path: The file to write: .png, .svg or .pdf.
        columns: The number of pictures in a row.
        seed: The seed of the random choices.

    Returns:
        The path of the file.

    Raises:
        DataError: If there is no column, or the file has another suffix.

    >>> import tempfile
    >>> from polarised.data import dsprites
    >>> contact_sheet(dsprites(), Path(tempfile.mkdtemp()) / "dsprites.png").name
    'dsprites.png'
    """
    if columns < 1:
        raise DataError(f"expected at least 1 column, got {columns}")
    path = Path(path)
    if path.suffix.lower() not in PICTURES:
        raise DataError(f"expected a file of {', '.join(PICTURES)}, got {path.name}; name it {path.stem}.png")
    figure = _scattered(dataset, seed) if len(dataset.shape) == 1 else _tiled(dataset, columns, seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=144, facecolor="white")
    return path


def _rows(dataset: Dataset, columns: int, seed: int) -> list[_Row]:
    space = dataset.factor_space
    if space is None:
        drawn = dataset.sample(columns * 5, seed)
        return [_Row("", "", drawn.images[i : i + columns], []) for i in range(0, len(drawn), columns)]
    if len(space.names) == 1:
        shown = [value for value in range(space.sizes[0]) if _exists(space, 0, value)][:MOST_ROWS]
        return [_examples(dataset, space, value, columns, seed) for value in shown]
    swept = range(min(len(space.names), MOST_ROWS))
    return [_values_row(dataset, space, factor, columns, seed) for factor in swept if space.sizes[factor] > 1]


def _examples(dataset: Dataset, space: FactorSpace, value: int, columns: int, seed: int) -> _Row:
    generator = stream(seed, "contact sheet", value)
    factors = np.full((columns, 1), value)
    images = dataset.draw(space.index(factors, generator), generator)
    return _Row(_value(space, 0, value), "", images, [])


def _values_row(dataset: Dataset, space: FactorSpace, factor: int, columns: int, seed: int) -> _Row:
    generator = stream(seed, "contact sheet", factor)
    size = space.sizes[factor]
    values = np.unique(np.linspace(0, size - 1, min(columns, size)).round().astype(int))
    middle = np.array([(step - 1) // 2 for step in space.sizes])
    factors = np.tile(middle, (len(values), 1))
    factors[:, factor] = values
    if space.table is not None:
        values = np.array([value for value in values if _exists(space, factor, int(value))])
        fixed = [space.sample(1, generator, fixed={space.names[factor]: int(value)})[0] for value in values]
        factors = np.array(fixed)
    images = dataset.draw(space.index(factors, generator), generator)
    captions = [_value(space, factor, int(value)) for value in values]
    return _Row(space.names[factor].replace("_", " "), f"{size} values", images, captions)


def _exists(space: FactorSpace, factor: int, value: int) -> bool:
    return space.table is None or bool((space.table[:, factor] == value).any())


def _value(space: FactorSpace, factor: int, value: int) -> str:
    if space.values is None:
        return str(value)
    of = space.values[factor][value]
    return f"{of:.2f}".rstrip("0").rstrip(".") if isinstance(of, float | np.floating) else str(of)


def _tiled(dataset: Dataset, columns: int, seed: int) -> "Figure":
    rows = _rows(dataset, columns, seed)
    captions = any(row.captions for row in rows)
    titles = any(row.title for row in rows)
    left, step = (2.2 if titles else 0.0), (1.34 if captions else 1.08)
    width, height = left + columns * 1.08, len(rows) * step
    figure, axes = _page(dataset, width, height)
    for number, row in enumerate(rows):
        top = number * step
        axes.text(0.0, top + 0.47, row.title, color=INK, fontsize=10, fontweight="bold", va="center")
        axes.text(0.0, top + 0.72, row.detail, color=GREY, fontsize=7.5, va="center")
        for column, image in enumerate(row.images):
            x = left + column * 1.08
            _tile(axes, image, x, top)
            if row.captions:
                axes.text(x + 0.5, top + 1.13, row.captions[column], color=GREY, fontsize=7.5, ha="center", va="center")
    return figure


def _tile(axes: "Axes", image: NDArray[np.float32], x: float, y: float) -> None:
    from matplotlib.patches import Rectangle

    pixels = np.clip(image, 0.0, 1.0).transpose(1, 2, 0)
    shown = np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels[..., :3]
    axes.imshow(shown, extent=(x, x + 1, y + 1, y), interpolation="nearest")
    axes.add_patch(Rectangle((x, y), 1, 1, fill=False, edgecolor=LINE, linewidth=0.6))


def _page(dataset: Dataset, width: float, height: float) -> "tuple[Figure, Axes]":
    """Return a page with the name and the facts at the top and axes in units of tiles below."""
    from matplotlib.figure import Figure

    inch, margin, head = 0.8, 0.35, 0.75
    size = (max(width * inch, 5.0) + 2 * margin, height * inch + head + 2 * margin)
    figure = Figure(figsize=size)
    left, top = margin / size[0], 1 - margin / size[1]
    figure.text(left, top, dataset.name, fontsize=17, color=INK, fontweight="bold", va="top")
    figure.text(left, top - 0.35 / size[1], _facts(dataset), fontsize=9, color=GREY, va="top")
    axes = figure.add_axes((left, margin / size[1], width * inch / size[0], height * inch / size[1]))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    return figure, axes


def _facts(dataset: Dataset) -> str:
    about = next((about for about in describe() if about.name == dataset.name), None)
    if len(dataset.shape) > 1:
        facts = [f"{len(dataset):,} images", " × ".join(str(side) for side in dataset.shape)]
    else:
        facts = [f"{len(dataset):,} points", f"{dataset.shape[0]} dimensions"]
    if dataset.factor_space is not None:
        count = len(dataset.factor_space.names)
        facts.append(f"{count} factor{'s' if count > 1 else ''}")
    if about is not None:
        facts += [about.licence, about.citation]
    return "   ·   ".join(facts)


def _scattered(dataset: Dataset, seed: int) -> "Figure":
    batch = dataset.sample(min(len(dataset), 3000), seed)
    shown = min(dataset.shape[0], MOST_DIMENSIONS)
    side = max(shown - 1, 1)
    tiles = 6.5 if side == 1 else 2.6 * side
    figure, page = _page(dataset, tiles, tiles)
    coloured: dict[str, Any] = {} if batch.factors is None else {"c": batch.factors[:, 0], "cmap": "turbo"}
    box = page.get_position()
    gap = 0.3 / figure.get_figwidth()
    for row in range(side):
        for column in range(row + 1):
            x, y = (column, row + 1) if shown > 1 else (0, 0)
            width, height = box.width / side, box.height / side
            corner = (box.x0 + column * width + gap, box.y0 + (side - 1 - row) * height + gap)
            axes = figure.add_axes((*corner, width - 1.5 * gap, height - 1.5 * gap))
            axes.scatter(batch.images[:, x], batch.images[:, y], s=7, linewidths=0, alpha=0.7, **coloured)
            if row == side - 1:
                axes.set_xlabel(f"x{x + 1}", color=INK, fontsize=9)
            if column == 0:
                axes.set_ylabel(f"x{y + 1}", color=INK, fontsize=9, labelpad=2)
            axes.tick_params(labelsize=6.5, colors=GREY, length=2)
            for spine in axes.spines.values():
                spine.set(color=LINE, linewidth=0.8)
    return figure
