"""What each dataset is, whether it is ready to use, and how to make it so."""

from dataclasses import dataclass
from pathlib import Path

from polarised.data.cache import Progress, Source, data_folder, find, obtain, reporting
from polarised.data.dataset import Dataset
from polarised.registry import Record, Spec, build, record, records

__all__ = ["Description", "describe", "prepare"]


@dataclass(frozen=True)
class Description:
    """One line of the catalogue of datasets, and how it stands on this machine.

    Args:
        name: What a config calls it.
        title: Its name as people write it.
        summary: What it shows, in a few words.
        images: The number of images as published; 0 where your files decide.
        shape: The shape of one image; empty where your files decide.
        factors: The size of each factor by its name.
        licence: The terms of its publisher.
        citation: The key of the work to cite.
        ready: Whether it can be used without a network.
        files: The names of the files it is read from.
        folder: Where they are looked for.
        pages: Where they can be had.
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


def describe() -> list[Description]:
    """Return what is known of every dataset, without loading any.

    Returns:
        One description for each dataset, in the order of the catalogue.

    >>> [about.name for about in describe() if about.ready][:3]
    ['dsprites', 'color_dsprites', 'noisy_dsprites']
    """
    return [_described(each) for each in records("dataset")]


def prepare(dataset: Spec, *, progress: Progress | None = None, mirror: str | None = None) -> Dataset:
    """Download and decode a dataset, so that it is ready without a network.

    Args:
        dataset: Its name, or a mapping with its name and settings, as in a config.
        progress: Called with what is being done, how much is done and how much there is.
        mirror: The address or path of a folder that has the files.

    Returns:
        The dataset.

    Raises:
        ConfigError: If there is no such dataset, or a setting does not fit.
        DownloadError: If a file is not on this machine and cannot be downloaded.

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
