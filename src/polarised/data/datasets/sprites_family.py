"""dSprites and its three harder relatives, drawn as they are asked for."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from polarised.data import sprites
from polarised.data.dataset import Dataset

__all__ = ["dsprites"]


def dsprites(*, size: Literal[64, 32] = 64) -> Dataset:
    """Return dSprites: 737,280 binary images of a square, an ellipse or a heart [Matthey2017].

    The images are drawn, not read; `size` 32 takes the mean of every 2x2 pixels.

    >>> dataset = dsprites()
    >>> dataset.shape, len(dataset), dataset.factor_space.names
    ((1, 64, 64), 737280, ('shape', 'scale', 'orientation', 'posX', 'posY'))
    """
    read = _drawn if size == 64 else _halved
    return Dataset("dsprites", (1, size, size), len(sprites.SPACE), read, factor_space=sprites.SPACE)


def _drawn(indices: NDArray[np.int64]) -> NDArray[np.float32]:
    return sprites.draw(indices, dtype=np.float32)


def _halved(indices: NDArray[np.int64]) -> NDArray[np.float32]:
    images = sprites.draw(indices).reshape(-1, 1, 32, 2, 64)
    pairs = images[..., 0, :] + images[..., 1, :]
    halved: NDArray[np.float32] = (pairs[..., ::2] + pairs[..., 1::2]) * np.float32(0.25)
    return halved
