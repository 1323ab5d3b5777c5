"""Pictures (png, jpg and what else Pillow reads) as arrays of bytes of one size."""

import io
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from polarised.data.readers import refusing

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["picture", "resized", "thumbnail"]

Filter = Literal["lanczos", "bilinear"]


def picture(
    content: bytes | Path, path: Path, *, size: int, channels: int, crop: int | None = None
) -> NDArray[np.uint8]:
    """Return a picture's central square, `crop` pixels wide if given, as bytes (channels, size, size)."""
    image = _opened(content, path, "L" if channels == 1 else "RGB")
    width, height = image.size
    side = min(width, height, crop or width)
    left, top = (width - side) // 2, (height - side) // 2
    fitted = image.crop((left, top, left + side, top + side))
    array = resized(np.asarray(fitted), size, filter="lanczos").reshape(size, size, channels)
    return np.ascontiguousarray(array.transpose(2, 0, 1))


def resized(image: NDArray[Any], size: int, *, filter: Filter) -> NDArray[Any]:
    """Return an image (H, W) or (H, W, 3) with both sides `size`; bytes stay bytes, int32 is rounded and not clipped.

    >>> resized(np.full((96, 96), 7, dtype=np.uint8), 64, filter="lanczos").shape
    (64, 64)
    """
    from PIL import Image

    if image.shape[:2] == (size, size):
        return image
    how = Image.Resampling.LANCZOS if filter == "lanczos" else Image.Resampling.BILINEAR
    return np.asarray(Image.fromarray(image).resize((size, size), how))


def thumbnail(path: Path, *, width: int, height: int) -> NDArray[np.float32]:
    """Return a picture in colour shrunk into width x height with its aspect kept, (3, H, W) in [0, 1]."""
    image = _opened(path, path, "RGB")
    image.thumbnail((width, height))
    return np.ascontiguousarray(np.asarray(image, dtype=np.float32).transpose(2, 0, 1)) / np.float32(255)


def _opened(content: bytes | Path, path: Path, mode: str) -> "Image.Image":
    from PIL import Image

    source = io.BytesIO(content) if isinstance(content, bytes) else content
    with refusing(path, "a picture"), warnings.catch_warnings():
        # A picture that claims far more pixels than it has bytes is refused, not decoded with a warning.
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(source) as image:
            return image.convert(mode)
