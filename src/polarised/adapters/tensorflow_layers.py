"""Layers of TensorFlow as torch has them: kernels turned round, and flattened images with the channel slowest."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["as_torch"]


def as_torch(
    variables: Mapping[str, NDArray[Any]], *, image: tuple[int, int, int], reading: str, drawing: str
) -> dict[str, Tensor]:
    """Return ``layer/kernel`` and ``layer/bias`` of TensorFlow as ``layer.weight`` and ``layer.bias`` of torch.

    Convolutions (height, width, in, out) become (out, in, height, width), dense layers (in, out) become (out, in). The
    layer `reading` takes a flattened `image` (height, width, channels), the layer `drawing` makes one.

    >>> kernel = np.arange(12.0).reshape(4, 3)
    >>> as_torch({"a/kernel": kernel}, image=(2, 1, 2), reading="a", drawing="b")["a.weight"][0]
    tensor([0., 6., 3., 9.])
    """
    channels_first = np.arange(np.prod(image)).reshape(image).transpose(2, 0, 1).ravel()
    found = {}
    for name, values in variables.items():
        layer, _, kind = name.rpartition("/")
        weight = values.transpose(3, 2, 0, 1) if values.ndim == 4 else values.T
        # What has another size than the image is left as it is: whoever fills a network compares shapes.
        if layer == reading and kind == "kernel" and weight.shape[-1:] == channels_first.shape:
            weight = weight[..., channels_first]
        if layer == drawing and weight.shape[:1] == channels_first.shape:
            weight = weight[channels_first]
        found[f"{layer}.{'weight' if kind == 'kernel' else kind}"] = torch.from_numpy(
            np.array(weight, dtype=np.float32, order="C")
        )
    return found
