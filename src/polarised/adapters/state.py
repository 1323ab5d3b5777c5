"""The weights of a foreign PyTorch VAE, cut to the variables that are kept."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from torch import Tensor, nn

from polarised.catalogue import nearest
from polarised.errors import DataError
from polarised.models.slicing import Layer, slice_layers

__all__ = ["prune_state"]


def prune_state(
    weights: Mapping[str, Tensor],
    keep: Sequence[int],
    *,
    mean_head: str,
    decoder_input: str,
    log_variance_head: str | None = None,
    layout: Literal["separate", "interleaved", "stacked"] = "separate",
    transposed: bool = False,
) -> dict[str, Tensor]:
    """Return a state dict without some latent variables, given the names of the layers around them.

    `transposed` says that a four-dimensional decoder weight belongs to a ConvTranspose2d. Dropped variables stand at 0,
    the mean of a standard normal prior. [Bonheme2023BeMoreActive, section 4]

    >>> import torch
    >>> weights = {"mu.weight": torch.ones(3, 4), "mu.bias": torch.ones(3), "lv.weight": torch.ones(3, 4)}
    >>> weights |= {"lv.bias": torch.ones(3), "dec.weight": torch.ones(5, 3), "dec.bias": torch.ones(5)}
    >>> smaller = prune_state(weights, [2], mean_head="mu", log_variance_head="lv", decoder_input="dec")
    >>> tuple(smaller["mu.weight"].shape), tuple(smaller["dec.weight"].shape)
    ((1, 4), (5, 1))
    """
    spread = None if log_variance_head is None else _layer(weights, log_variance_head)
    entry = _layer(weights, decoder_input, transposed=transposed)
    cut = slice_layers(_layer(weights, mean_head), spread, entry, keep, layout=layout)
    pruned = dict(weights)
    named = {mean_head: cut.mean_head, decoder_input: cut.decoder_input}
    if log_variance_head is not None:
        named[log_variance_head] = cut.log_variance_head
    for name, layer in named.items():
        pruned |= {f"{name}.{kind}": value.detach() for kind, value in layer.state_dict().items()}
    return pruned


def _layer(weights: Mapping[str, Tensor], name: str, *, transposed: bool = False) -> Layer:
    weight = weights.get(f"{name}.weight")
    if weight is None or weight.ndim not in (2, 4):
        layers = [key.removesuffix(".weight") for key in weights if key.endswith(".weight")]
        raise DataError(
            f"expected a linear or convolutional layer, there is no {name!r}{nearest(name, layers)}; "
            f"the file has {', '.join(layers)}"
        )
    bias = weights.get(f"{name}.bias")
    kernel: Any = tuple(weight.shape[2:])
    layer: Layer
    if weight.ndim == 2:
        layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    elif transposed:
        layer = nn.ConvTranspose2d(weight.shape[0], weight.shape[1], kernel, bias=bias is not None)
    else:
        layer = nn.Conv2d(weight.shape[1], weight.shape[0], kernel, bias=bias is not None)
    if bias is not None and layer.bias is not None and bias.shape != layer.bias.shape:
        kind = "Conv2d" if transposed else "ConvTranspose2d"
        raise DataError(
            f"expected {name}.bias of shape {tuple(layer.bias.shape)}, got {tuple(bias.shape)}: is the layer a {kind}? "
            "The flag transposed says so"
        )
    layer = layer.to(weight.dtype)
    layer.load_state_dict({"weight": weight} if bias is None else {"weight": weight, "bias": bias})
    return layer
