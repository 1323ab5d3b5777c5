"""The looks of types and representations, on the page and on paper: a colour, always with a shape and a letter.

Blue, vermilion and grey are distinguishable with every common colour blindness and in greyscale, where their lightness
differs; nothing depends on colour alone.
"""

import base64
import io
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polarised import registry
from polarised.errors import DataError

__all__ = [
    "REPRESENTATIONS",
    "SERIES",
    "SUBSETS",
    "TYPES",
    "VERDICTS",
    "Look",
    "described",
    "metric_name",
    "page_looks",
    "png",
    "strength_name",
    "strip",
    "style_sheet",
]


@dataclass(frozen=True)
class Look:
    """One mark: colours on light and dark backgrounds, a letter, a text glyph, a matplotlib marker, dash and hatch.

    Args:
        light: Colour on a light background.
        dark: Colour on a dark background.
        letter: Its letter.
        glyph: A glyph for text.
        marker: The marker of matplotlib.
        dash: The line style of matplotlib.
        hatch: The hatch of matplotlib.
        hollow: Whether markers are empty.

    >>> TYPES["active"].letter, TYPES["passive"].letter
    ('A', 'P')
    """

    light: str
    dark: str
    letter: str
    glyph: str
    marker: str
    dash: str = "-"
    hatch: str = ""
    hollow: bool = False

    @property
    def face(self) -> str:
        """The colour inside a marker on white paper."""
        return "#ffffff" if self.hollow else self.light


TYPES = {
    "active": Look("#0b62a8", "#74b8ff", "A", "●", "o"),
    "mixed": Look("#b84f00", "#ffab5e", "M", "◆", "D", "--", "//"),
    "passive": Look("#646d7a", "#9fa9b8", "P", "○", "o", ":", "..", hollow=True),
}


# As in the papers: the sampled representation is solid with circles, the mean one dashed with crosses.
REPRESENTATIONS = {
    "mean": Look("#5a3d99", "#bda3ff", "μ", "×", "X", "--"),
    "sampled": Look("#007a66", "#45d0b3", "z", "●", "o", "-", "///"),
}


SUBSETS = {
    "full": "all variables",
    "alive": "without passive",
    "active": "active",
    "mixed": "mixed",
    "passive": "passive",
    "active_mixed": "active + mixed",
    "active_passive": "active + passive",
    "mixed_passive": "mixed + passive",
    "random": "random guess",
}


# For any number of methods, terms or variables, with markers and dashes to distinguish them in greyscale.
SERIES = (
    Look("#0072b2", "#5fb3ea", "a", "●", "o", "-"),
    Look("#d55e00", "#ff9351", "b", "■", "s", "--"),
    Look("#00805f", "#35c9a0", "c", "▲", "^", "-."),
    Look("#a8447f", "#ec9cca", "d", "◆", "D", ":"),
    Look("#8a6d00", "#e3c24a", "e", "▼", "v", "-"),
    Look("#2f7fa3", "#7fd0f0", "f", "✚", "P", "--"),
    Look("#3a3f47", "#d3d8e0", "g", "✕", "X", "-."),
)


def style_sheet(ground: str) -> str:
    """Return the CSS variables of every look on a ``"light"`` or ``"dark"`` background.

    Args:
        ground: "light" or "dark".

    Returns:
        Lines of CSS.

    >>> "--active: #0b62a8" in style_sheet("light")
    True
    """
    looks = {**TYPES, **REPRESENTATIONS, **{f"series-{i}": look for i, look in enumerate(SERIES)}}
    return "\n".join(f"  --{name}: {getattr(look, ground)};" for name, look in looks.items())


# The dashes of matplotlib in SVG.
_DASHES = {"-": "", "--": "6 3", ":": "2 3", "-.": "9 3 2 3"}
REPRESENTATION_TITLES = {"mean": "mean representation, μ", "sampled": "sampled representation, z ~ q(z|x)"}
VERDICTS = {"confirmed": "✓", "refuted": "✕", "undecided": "?", "not testable": "–"}


def page_looks() -> dict[str, Any]:
    """Return the looks of types, representations, series and verdicts for the scripts of a page.

    Returns:
        Letters, markers, dashes and titles by name, as plain JSON types.

    >>> page_looks()["types"]["mixed"]
    {'letter': 'M', 'marker': 'D', 'dash': '6 3'}
    """

    def mark(look: Look) -> dict[str, str]:
        return {"letter": look.letter, "marker": look.marker, "dash": _DASHES[look.dash]}

    titles = REPRESENTATION_TITLES
    return {
        "types": {name: mark(look) for name, look in TYPES.items()},
        "representations": {name: {**mark(look), "title": titles[name]} for name, look in REPRESENTATIONS.items()},
        "series": [mark(look) for look in SERIES],
        "verdicts": VERDICTS,
    }


def metric_name(metric: str, *, unit: bool = True) -> str:
    """Return the name of a metric for an axis or a heading.

    Args:
        metric: The name in tables.
        unit: Whether to add the unit.

    Returns:
        The title from its record.

    >>> metric_name("total_correlation"), metric_name("sap"), metric_name("exclusive_kl", unit=False)
    ('total correlation, nats', 'SAP', 'KL(q ‖ p)')
    """
    output = registry.output(metric)
    return output.label if unit else output.title


def described(metrics: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return titles, units and readings of metrics from their records, in the order of the catalogue.

    Args:
        metrics: Names of metrics, possibly repeated.

    Returns:
        Title, unit and reading by name.

    >>> list(described(["rate", "mig", "total_correlation", "rate"]))
    ['total_correlation', 'mig', 'rate']
    """
    known = [output.name for record in registry.records("metric") for output in record.outputs]
    asked = dict.fromkeys(metrics)
    names = [*(name for name in known if name in asked), *(name for name in asked if name not in known)]
    outputs = {name: registry.output(name) for name in names}
    return {name: {"title": of.title, "unit": of.unit, "reading": of.reading} for name, of in outputs.items()}


def strength_name(panel: str) -> str:
    """Return the label of the strength axis in a panel whose title begins with the method.

    Args:
        panel: The title of the panel.

    Returns:
        The name of its axis.

    >>> strength_name("beta-VAE: mean representation"), strength_name("annealed VAE")
    ('strength', 'capacity (larger is weaker)')
    """
    titled = [record for record in registry.records("objective") if panel.startswith(record.title)]
    longest = max(titled, key=lambda record: len(record.title), default=None)
    return "strength" if longest is None else str(longest.facts.get("strength_title", "strength"))


def strip(images: NDArray[Any]) -> str:
    """Return images (m, C, H, W) in [0, 1], side by side, as the data URI of one PNG.

    One or three channels are shown directly; otherwise only the first channel.

    Args:
        images: Images (m, channels, height, width).

    Returns:
        A data URI.

    Raises:
        DataError: If the shape is not that of images.

    >>> strip(np.zeros((3, 1, 2, 2)))[:22]
    'data:image/png;base64,'
    """
    if images.ndim != 4 or not images.size:
        raise DataError(f"expected images (m, channels, height, width), got shape {images.shape}")
    count, _, height, width = images.shape
    return _uri(np.moveaxis(images, 0, 2).reshape(images.shape[1], height, count * width))


def png(image: NDArray[Any]) -> bytes:
    """Return one image (C, H, W) in [0, 1] as the bytes of a PNG.

    Args:
        image: An image (channels, height, width).

    Returns:
        The bytes of the file.

    >>> png(np.zeros((1, 2, 2)))[1:4]
    b'PNG'
    """
    from PIL import Image

    channels = image if len(image) == 3 else image[:1]
    levels = np.round(np.clip(np.nan_to_num(channels), 0.0, 1.0) * 255.0).astype(np.uint8)
    pixels = np.moveaxis(levels, 0, -1) if len(levels) == 3 else levels[0]
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()


def _uri(image: NDArray[Any]) -> str:
    return "data:image/png;base64," + base64.b64encode(png(image)).decode("ascii")
