"""What each dataset is, whether it is ready to use, and how to make it so."""

from dataclasses import dataclass, replace
from pathlib import Path

from polarised.data import published, sprites
from polarised.data.cache import Progress, data_folder, find, obtain, reporting
from polarised.data.dataset import Dataset
from polarised.registry import Spec, build, entry

__all__ = ["Description", "describe", "prepare"]

SOURCES = {**sprites.SOURCES, **published.SOURCES, **published.DIGIT_SOURCES}


SPRITES = {"shape": 3, "scale": 6, "orientation": 40, "posX": 32, "posY": 32}


MADE_HERE = "made here"


DECIDED_BY_YOU = "yours"


@dataclass(frozen=True)
class Description:
    """One line of the catalogue of datasets; `images` 0 and an empty shape mean that your files decide."""

    name: str
    title: str
    images: int
    shape: tuple[int, ...]
    factors: dict[str, int]
    licence: str
    citation: str
    ready: bool = False
    files: tuple[str, ...] = ()
    folder: str = ""
    pages: tuple[str, ...] = ()


_ABOUT = (
    Description("dsprites", "square, ellipse or heart", 737_280, (1, 64, 64), SPRITES, "Apache-2.0", "Matthey2017"),
    Description(
        "color_dsprites", "sprites of any colour", 737_280, (3, 64, 64), SPRITES, "Apache-2.0", "Locatello2019"
    ),
    Description("noisy_dsprites", "sprites on noise", 737_280, (3, 64, 64), SPRITES, "Apache-2.0", "Locatello2019"),
    Description(
        "scream_dsprites",
        "sprites cut out of The Scream",
        737_280,
        (3, 64, 64),
        SPRITES,
        "Apache-2.0, painting in the public domain",
        "Locatello2019",
    ),
    Description(
        "smallnorb",
        "toys from all sides",
        48_600,
        (1, 64, 64),
        {"category": 5, "elevation": 9, "azimuth": 18, "lighting": 6},
        "research only",
        "LeCun2004",
    ),
    Description(
        "cars3d",
        "cars from all sides",
        17_568,
        (3, 64, 64),
        {"elevation": 4, "azimuth": 24, "object": 183},
        "not stated",
        "Reed2015",
    ),
    Description(
        "shapes3d",
        "a solid in a room",
        480_000,
        (3, 64, 64),
        {"floor_hue": 10, "wall_hue": 10, "object_hue": 10, "scale": 8, "shape": 4, "orientation": 15},
        "Apache-2.0",
        "Burgess2018Shapes",
    ),
    Description(
        "celeba", "faces", 202_599, (3, 64, 64), {"40 attributes": 2}, "non-commercial research only", "Liu2015"
    ),
    Description("mnist", "handwritten digits", 60_000, (1, 32, 32), {"label": 10}, "CC BY-SA 3.0", "LeCun1998"),
    Description("fashion_mnist", "pieces of clothing", 60_000, (1, 32, 32), {"label": 10}, "MIT", "Xiao2017"),
    Description("pinwheel", "arms of a pinwheel", 400, (2,), {"arm": 4}, MADE_HERE, "Mathieu2019"),
    Description("nonlinear_ica", "mixed sources", 40_000, (5,), {"segment": 40}, MADE_HERE, "Khemakhem2020"),
    Description(
        "two_populations",
        "squares or bars",
        12_288,
        (1, 32, 32),
        {"population": 2, "scale": 6, "posX": 32, "posY": 32, "height": 32},
        MADE_HERE,
        "Bonheme2023BeMoreActive",
    ),
    Description("linear_gaussian", "the best VAE is known", 4000, (8,), {}, MADE_HERE, "Tipping1999"),
    Description("from_folder", "your pictures", 0, (), {}, DECIDED_BY_YOU, ""),
    Description("from_npz", "your arrays", 0, (), {}, DECIDED_BY_YOU, ""),
)


def describe() -> list[Description]:
    """Return what is known of every dataset, without loading any.

    >>> [about.name for about in describe() if about.ready][:3]
    ['dsprites', 'color_dsprites', 'noisy_dsprites']
    """
    return [_located(about) for about in _ABOUT]


def prepare(dataset: Spec, *, progress: Progress | None = None, mirror: str | None = None) -> Dataset:
    """Download and decode a dataset, by name or with settings as in a config, so that it is ready without a network.

    `progress` is told how far it is; `mirror` is the address of a folder that has the files.

    >>> len(prepare({"name": "pinwheel", "points": 50}))
    200
    """
    name = dataset if isinstance(dataset, str) else str(dataset.get("name"))
    entry("dataset", name)
    with reporting(progress):
        if ":" not in name and not _ready(name):
            for source in SOURCES[name]:
                obtain(source, mirror=mirror)
        made = build("dataset", dataset)
    assert isinstance(made, Dataset)
    return made


def _located(about: Description) -> Description:
    sources = SOURCES.get(about.name, ())
    places = {Path(source.file).parent for source in sources}
    return replace(
        about,
        ready=_ready(about.name),
        files=tuple(Path(source.file).name for source in sources),
        folder=", ".join(str(data_folder() / place) for place in sorted(places)),
        pages=tuple(dict.fromkeys(source.page for source in sources if source.page)),
    )


def _ready(name: str) -> bool:
    sources = () if name == "dsprites" else SOURCES.get(name, ())
    folder = data_folder() / "decoded"
    decoded = any(path.name.partition("-")[0] == name for path in folder.glob("[!.]*")) if folder.is_dir() else False
    by_hand = {"cars3d": "cars", "celeba": "celeba/img_align_celeba"}.get(name)
    unpacked = find(by_hand) if by_hand else None
    if unpacked is not None and any(unpacked.glob("*.mat" if name == "cars3d" else "*.jpg")):
        sources = sources[1:]
    return decoded or all(find(source.file) is not None for source in sources)
