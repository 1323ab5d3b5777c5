"""One of our networks with somebody else's weights, layer after layer."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from polarised.errors import DataError
from polarised.models import VAE, build_vae

__all__ = ["network_with", "separate_heads"]

MOST_CHANNELS = 64
MOST_LATENTS = 4096


def network_with(
    weights: Mapping[str, Tensor],
    architecture: str,
    *,
    encoder: Sequence[str],
    decoder: Sequence[str],
    side: int,
    where: Path,
) -> VAE:
    """Build an architecture for images of a side, and fill its layers with those named, in the order they are used.

    The last two of the encoder are the heads of mean and log-variance; they say how many latent variables there are.

    >>> network_with({}, "mlp", encoder=["e", "m", "v"], decoder=["d"], side=64, where=Path("a"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    polarised.errors.DataError: expected the networks of mlp in a, e and 3 more are missing; ...
    """
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


def separate_heads(weights: Mapping[str, Tensor], head: str, mean: str, log_variance: str) -> dict[str, Tensor]:
    """Return the weights with an interleaved head as two: output 2k is the mean of variable k, 2k + 1 its log-variance.

    >>> separate_heads({"head.bias": torch.arange(4)}, "head", "m", "v")["v.bias"]
    tensor([1, 3])
    """
    separate = dict(weights)
    for kind in ("weight", "bias"):
        both = weights.get(f"{head}.{kind}")
        if both is not None and both.ndim:
            separate |= {f"{mean}.{kind}": both[0::2], f"{log_variance}.{kind}": both[1::2]}
    return separate


def _fill(parameter: Tensor, value: Tensor, name: str) -> None:
    if value.shape != parameter.shape or not value.is_floating_point():
        came = f"{tuple(value.shape)} of {value.dtype}"
        raise DataError(f"expected numbers of shape {tuple(parameter.shape)} as {name}, the file has {came}")
    if not value.isfinite().all():
        raise DataError(f"expected finite numbers as {name}, got NaN or infinity; did training diverge?")
    with torch.no_grad():
        parameter.copy_(value)
