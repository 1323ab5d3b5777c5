"""Figures of what a decoder shows: reconstructions, walks along latents, samples."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polarised.diagnosis import Pictures
from polarised.errors import DataError
from polarised.regime import Regime
from polarised.registry import register
from polarised.report.drawing import SMALL, clean, panels
from polarised.report.figures.variables import ranked
from polarised.report.theme import TYPES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["latent_walks", "reconstructions", "samples"]


@register("figure", title="reconstructions", references=("Cheng2021",), figures="12")
def reconstructions(pictures: Pictures, *, most: int = 10) -> "Figure":
    """Draw inputs above and their reconstructions below [Cheng2021, figure 12].

    Args:
        pictures: Images and their reconstructions.
        most: Most images to show.

    Returns:
        The figure; `polarised.report.save` writes it.

    Raises:
        DataError: These are no images.

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
    """Draw the decoder's image as each variable moves, active ones first [Cheng2021, figures 5 and 13].

    Args:
        pictures: Images decoded along each variable.
        regime: The types of the same variables.
        most: Most variables to show.

    Returns:
        The figure; `polarised.report.save` writes it.

    Raises:
        DataError: These are no images.

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
    """Draw images (m, C, H, W) in a grid, as decoded from draws of the prior [Cheng2021, figure 13].

    Args:
        images: Images (m, channels, height, width) in [0, 1].
        columns: Images beside each other.

    Returns:
        The figure; `polarised.report.save` writes it.

    Raises:
        DataError: These are no images.

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
