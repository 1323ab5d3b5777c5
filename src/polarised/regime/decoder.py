"""What a decoder shows of the variables, as plain arrays that need no torch."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Pictures"]

Images = NDArray[np.float32]


class Pictures(NamedTuple):
    """Images and what a decoder makes of them, all (..., channels, height, width) in [0, 1].

    Row j of `traversals` moves variable j over `values` and leaves the others at the code of the first original.
    """

    originals: Images
    reconstructions: Images
    traversals: Images
    values: NDArray[np.floating]
