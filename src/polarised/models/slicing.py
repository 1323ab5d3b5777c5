"""The layers around the latent variables of any VAE, reduced to the kept variables."""

import copy
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from polarised.errors import ConfigError

__all__ = ["Layer", "SlicedLayers", "UnfitConstantsError", "checked_keep", "slice_layers"]

Convolution = nn.Conv1d | nn.Conv2d | nn.Conv3d
Transposed = nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d
Layer = nn.Linear | Convolution | Transposed


class UnfitConstantsError(ConfigError):
    """The dropped variables cannot be held at these constants, because no bias of the layers can replace them."""


class SlicedLayers(NamedTuple):
    """New layers around the kept variables.

    Args:
        mean_head: The layer that returns the means of the kept variables.
        log_variance_head: The layer that returns their log-variances; the same object if one layer returned both.
        decoder_input: The first layer of the decoder, with the kept variables as inputs.
    """

    mean_head: Any
    log_variance_head: Any
    decoder_input: Any


def slice_layers(
    mean_head: Layer,
    log_variance_head: Layer | None,
    decoder_input: Layer,
    keep: Sequence[int],
    *,
    constants: Tensor | Sequence[float] | None = None,
    layout: Literal["separate", "interleaved", "stacked"] = "separate",
) -> SlicedLayers:
    """Return copies of the three layers around the latents of a VAE, reduced to `keep`.

    Args:
        mean_head: The layer that returns the means, and in some layouts also the log-variances.
        log_variance_head: The layer that returns the log-variances; None if `mean_head` does.
        decoder_input: The first layer of the decoder.
        keep: The variables to keep, in their new order.
        constants: The value that replaces each dropped variable in the decoder, (d,); 0 by default.
        layout: The source of the log-variances: a separate layer ("separate"), or the outputs of `mean_head` as pairs
            (mean, log-variance) for each variable ("interleaved"), or all means before all log-variances
            ("stacked").

    Returns:
        New layers; the given ones are not changed.

    Raises:
        ConfigError: If the layers cannot be sliced, or their sizes do not match.

    >>> layers = slice_layers(nn.Linear(8, 6), None, nn.Linear(3, 8), [2], layout="interleaved")
    >>> layers.mean_head.out_features, layers.decoder_input.in_features
    (2, 1)
    """
    if (log_variance_head is None) == (layout == "separate"):
        raise ConfigError(
            f"expected a log-variance head with layout 'separate' and none otherwise, got {log_variance_head!r} "
            f"with layout {layout!r}; use 'interleaved' or 'stacked' if one layer returns both"
        )
    for layer in (mean_head, decoder_input, *([] if log_variance_head is None else [log_variance_head])):
        if not isinstance(layer, Layer) or getattr(layer, "groups", 1) != 1:
            raise ConfigError(
                f"pruning slices Linear, convolutional and transposed layers without groups, got {layer!r}; "
                "pass the layers whose outputs are the latents and whose inputs are the latents"
            )
    latents = _size(mean_head, "out") // (1 if layout == "separate" else 2)
    chosen = checked_keep(keep, latents)
    if _size(decoder_input, "in") != latents:
        raise ConfigError(
            f"expected the decoder's first layer to take {latents} latents, as the encoder returns, got "
            f"{_size(decoder_input, 'in')}; pass the layer that takes z"
        )
    rows = {
        "separate": chosen,
        "interleaved": [row for j in chosen for row in (2 * j, 2 * j + 1)],
        "stacked": [*chosen, *[latents + j for j in chosen]],
    }[layout]
    head = _with_outputs(mean_head, rows)
    second_head = head if log_variance_head is None else _with_outputs(log_variance_head, rows)
    return SlicedLayers(head, second_head, _with_inputs(decoder_input, chosen, constants))


def checked_keep(keep: Iterable[int], latents: int) -> list[int]:
    """Return the variables to keep as a list.

    Args:
        keep: The variables.
        latents: The total number of variables.

    Returns:
        The variables.

    Raises:
        ConfigError: If there is none, or one is named twice or does not exist.
    """
    chosen = [int(j) for j in keep]
    if not chosen or len(set(chosen)) != len(chosen) or not all(0 <= j < latents for j in chosen):
        raise ConfigError(
            f"expected `keep` to name at least one variable of 0 to {latents - 1}, each once, got {chosen}; "
            "regime.alive is the usual choice"
        )
    return chosen


def _size(layer: Layer, side: Literal["in", "out"]) -> int:
    return int(getattr(layer, f"{side}_features" if isinstance(layer, nn.Linear) else f"{side}_channels"))


def _with_outputs(layer: Layer, rows: list[int]) -> Layer:
    sliced = copy.deepcopy(layer)
    axis = 1 if isinstance(layer, Transposed) else 0
    sliced.weight = nn.Parameter(layer.weight.detach().index_select(axis, _index(rows, layer)))
    if layer.bias is not None:
        sliced.bias = nn.Parameter(layer.bias.detach()[rows])
    setattr(sliced, "out_features" if isinstance(layer, nn.Linear) else "out_channels", len(rows))
    return sliced


def _with_inputs(layer: Layer, keep: list[int], constants: Tensor | Sequence[float] | None) -> Layer:
    sliced = copy.deepcopy(layer)
    axis = 0 if isinstance(layer, Transposed) else 1
    weight = layer.weight.detach()
    sliced.weight = nn.Parameter(weight.index_select(axis, _index(keep, layer)))
    setattr(sliced, "in_features" if isinstance(layer, nn.Linear) else "in_channels", len(keep))
    constant = torch.zeros(weight.shape[axis]) if constants is None else torch.as_tensor(constants)
    if constant.shape != (weight.shape[axis],):
        raise ConfigError(
            f"expected {weight.shape[axis]} constants, one for each variable, got shape {tuple(constant.shape)}"
        )
    constant = constant.to(weight, copy=True)
    constant[keep] = 0
    if constant.any():
        if not isinstance(layer, nn.Linear) and not _translation_invariant(layer):
            raise UnfitConstantsError(
                f"a constant other than 0 cannot become a bias of {layer!r}, whose effect depends on the position; "
                "keep the variables that do not rest at 0"
            )
        kernels = weight if isinstance(layer, nn.Linear) else weight.flatten(2).sum(2)
        added = kernels @ constant if axis == 1 else constant @ kernels
        sliced.bias = nn.Parameter(added if layer.bias is None else layer.bias.detach() + added)
    return sliced


def _translation_invariant(layer: Convolution | Transposed) -> bool:
    if isinstance(layer, Transposed):
        return set(layer.kernel_size) == {1} and set(layer.stride) == {1}
    return layer.padding_mode != "zeros" or not any(p != 0 for p in layer.padding)


def _index(rows: list[int], layer: Layer) -> Tensor:
    return torch.tensor(rows, device=layer.weight.device)
