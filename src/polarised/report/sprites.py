"""Images packed side by side into one PNG, and the PNG into the page's own text."""

import base64
import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polarised.errors import DataError

__all__ = ["png", "strip"]


def strip(images: NDArray[Any]) -> str:
    """Return images (m, C, H, W) in [0, 1], side by side, as the data URI of one PNG.

    One or three channels are shown as they are; of any other number, the first.

    >>> strip(np.zeros((3, 1, 2, 2)))[:22]
    'data:image/png;base64,'
    """
    if images.ndim != 4 or not images.size:
        raise DataError(f"expected images (m, channels, height, width), got shape {images.shape}")
    count, _, height, width = images.shape
    return _uri(np.moveaxis(images, 0, 2).reshape(images.shape[1], height, count * width))


def png(image: NDArray[Any]) -> bytes:
    """Return one image (C, H, W) in [0, 1] as the bytes of a PNG.

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
