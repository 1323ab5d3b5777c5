"""One of our networks with somebody else's weights, layer after layer."""

import ast
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polarised._io.files import Folder
from polarised.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor

    from polarised.models import VAE

__all__ = ["dataset_named", "literal", "network_with", "read_config", "separate_heads"]

MOST_CHANNELS = 64


MOST_LATENTS = 4096


def network_with(
    weights: "Mapping[str, Tensor]",
    architecture: str,
    *,
    encoder: Sequence[str],
    decoder: Sequence[str],
    side: int,
    where: Path,
) -> "VAE":
    """Build an architecture for images of a side, and fill its layers with those named, in the order they are used.

    The last two of the encoder are the heads of mean and log-variance; they say how many latent variables there are.

    >>> network_with({}, "mlp", encoder=["e", "m", "v"], decoder=["d"], side=64, where=Path("a"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    polarised.errors.DataError: expected the networks of mlp in a, e and 3 more are missing; ...
    """
    from torch import nn

    from polarised.models import build_vae

    names = [*encoder, *decoder]
    missing = [name for name in names if f"{name}.weight" not in weights or f"{name}.bias" not in weights]
    if missing:
        others = f" and {len(missing) - 1} more are" if len(missing) > 1 else " is"
        raise DataError(
            f"expected the networks of {architecture} in {where}, {missing[0]}{others} missing; other networks are "
            "not read, encode with from_callable instead"
        )
    first, latents = weights[f"{encoder[0]}.weight"], weights[f"{encoder[-2]}.bias"].numel()
    channels = first.shape[1] if first.ndim == 4 else 0
    # Sizes are the file's word: a network is built only where they make sense.
    if not (1 <= channels <= MOST_CHANNELS and 1 <= latents <= MOST_LATENTS):
        raise DataError(
            f"expected 1 to {MOST_CHANNELS} channels and 1 to {MOST_LATENTS} latent variables, {where} has {channels} "
            f"and {latents}; is it another network?"
        )
    vae = build_vae({"architecture": architecture, "latents": latents}, (channels, side, side))
    halves = [*vae.encoder.modules(), *vae.decoder.modules()]
    layers = [module for module in halves if isinstance(module, nn.Linear | nn.Conv2d | nn.ConvTranspose2d)]
    for name, layer in zip(names, layers, strict=True):
        for kind, parameter in layer.named_parameters():
            _fill(parameter, weights[f"{name}.{kind}"], f"{name}.{kind} of {where}")
    return vae.eval()


def separate_heads(weights: "Mapping[str, Tensor]", head: str, mean: str, log_variance: str) -> "dict[str, Tensor]":
    """Return the weights with an interleaved head as two: output 2k is the mean of variable k, 2k + 1 its log-variance.

    >>> import torch
    >>> separate_heads({"head.bias": torch.arange(4)}, "head", "m", "v")["v.bias"]
    tensor([1, 3])
    """
    separate = dict(weights)
    for kind in ("weight", "bias"):
        both = weights.get(f"{head}.{kind}")
        if both is not None and both.ndim:
            separate |= {f"{mean}.{kind}": both[0::2], f"{log_variance}.{kind}": both[1::2]}
    return separate


def _fill(parameter: "Tensor", value: "Tensor", name: str) -> None:
    import torch

    if value.shape != parameter.shape or not value.is_floating_point():
        came = f"{tuple(value.shape)} of {value.dtype}"
        raise DataError(f"expected numbers of shape {tuple(parameter.shape)} as {name}, the file has {came}")
    if not value.isfinite().all():
        raise DataError(f"expected finite numbers as {name}, got NaN or infinity; did training diverge?")
    with torch.no_grad():
        parameter.copy_(value)


LARGEST_CONFIG = 1 << 20


LONGEST_LITERAL = 10_000


def read_config(folder: Folder, ends: Sequence[str]) -> dict[str, Any]:
    """Return the configuration in the first file that ends so."""
    name = folder.expect(*ends)
    content = folder.read(name, largest=LARGEST_CONFIG)
    try:
        config = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"expected JSON in {name} of {folder.path}, got {error}; get the file again") from error
    if not isinstance(config, dict):
        raise DataError(f"expected names and values in {name} of {folder.path}, got {type(config).__name__}")
    return config


def dataset_named(folder: Folder, ends: Sequence[str], key: str) -> str | None:
    """Return the dataset a model was trained on, where its configuration can be read and says so."""
    try:
        value = literal(read_config(folder, ends).get(key))
    except DataError:
        return None
    return value if isinstance(value, str) else None


def literal(value: Any) -> Any:
    """Return what a gin literal stands for; anything else is itself.

    >>> literal("'dsprites_full'"), literal("8.0"), literal("@vae()")
    ('dsprites_full', 8.0, '@vae()')
    """
    if not isinstance(value, str) or len(value) > LONGEST_LITERAL:
        return value
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return value
