"""A model and its data under treatment: any module as a VAE of ours, with fresh weights, and what its codes tell."""

import copy
from collections.abc import Callable, Iterable
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from polarised.data.dataset import Dataset
from polarised.errors import ConfigError, DataError
from polarised.models.likelihoods import Bernoulli, Gaussian, Likelihood
from polarised.models.priors import StandardNormal
from polarised.models.vae import VAE
from polarised.random import stream

__all__ = [
    "Images",
    "Scale",
    "as_vae",
    "copy_decoder",
    "principal_cross_entropy",
    "read_inputs",
    "split_inputs",
    "tell_factors",
    "unwrapped",
    "with_fresh_weights",
]

Scale = Literal["log_variance", "variance", "log_std", "std"]
Images = NDArray[np.float32]


def tell_factors(
    codes: NDArray[np.float64], factors: NDArray[Any], seen: NDArray[np.float64], truth: NDArray[Any]
) -> float:
    """Return how well 15 neighbours among codes tell factors of other codes: accuracy or R², averaged over factors.

    A factor of more than 10 values is a quantity and scored by R², any other a label; a factor that never changes is
    left out.
    """
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

    width = np.maximum(codes.std(axis=0), 1e-12)
    found = []
    for column, other in zip(factors.reshape(len(factors), -1).T, truth.reshape(len(truth), -1).T, strict=True):
        values = np.unique(column)
        if len(values) < 2:
            continue
        kind = KNeighborsRegressor if len(values) > 10 else KNeighborsClassifier
        told = kind(min(15, len(codes))).fit(codes / width, column).predict(seen / width)
        if len(values) > 10:
            spread = float(((other - other.mean()) ** 2).mean())
            found.append(1 - float(((other - told) ** 2).mean()) / max(spread, 1e-12))
        else:
            found.append(float((told == other).mean()))
    return float(np.mean(found)) if found else 0.0


class _Encode(nn.Module):
    """The encoder of a module of others, as one of ours."""

    def __init__(self, module: nn.Module, second: Scale, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.module, self.second, self.shape = module, second, shape

    def forward(self, x: Tensor, u: Tensor | None = None) -> tuple[Tensor, Tensor]:
        mean, spread = self.module.encode(x)[:2]  # type: ignore[operator]
        mean, spread = mean.flatten(1), spread.flatten(1)
        if self.second == "log_variance":
            return mean, spread
        if self.second == "log_std":
            return mean, 2 * spread
        return mean, (1 if self.second == "variance" else 2) * spread.clamp_min(1e-12).log()


class _Decode(nn.Module):
    """The decoder of a module of others, as one of ours: the mean, or logits."""

    def __init__(self, module: nn.Module, shape: tuple[int, ...], latents: tuple[int, ...], *, logits: bool) -> None:
        super().__init__()
        self.module, self.shape, self.latents, self.logits = module, shape, latents, logits

    def forward(self, z: Tensor) -> Tensor:
        outputs: Tensor = self.module.decode(z.reshape(len(z), *self.latents))  # type: ignore[operator]
        outputs = outputs.reshape(len(z), *self.shape)
        return outputs if self.logits else outputs.clamp(1e-6, 1 - 1e-6).logit()


def as_vae(model: nn.Module, images: Images, likelihood: str, second: Scale, variance: float | None) -> VAE:
    """Return a copy of the model as a VAE of ours, whatever it was; refuse what has no encoder or decoder."""
    if isinstance(model, VAE):
        own = copy.deepcopy(model)
        if not isinstance(own.prior, StandardNormal):
            raise ConfigError(
                "expected a model under the standard normal prior; the cures were measured under no other"
            )
        if not isinstance(own.likelihood, Bernoulli | Gaussian) or own.likelihood.outputs_per_value != 1:
            raise ConfigError(
                "expected a Bernoulli likelihood or a Gaussian one of one variance; the cures know no other"
            )
        if own.shape != images.shape[1:]:
            raise DataError(f"expected inputs of shape {own.shape}, as the model has, got {images.shape[1:]}")
        return own.eval()
    for name in ("encode", "decode"):
        if not callable(getattr(model, name, None)):
            raise DataError(
                f"expected a module with encode(x) and decode(z), {type(model).__name__} has no {name}; a model "
                "without it cannot be cured, wrap it in one that has both"
            )
    if likelihood not in ("gaussian", "bernoulli"):
        raise ConfigError(f"expected likelihood as gaussian or bernoulli, got {likelihood!r}")
    own_module = copy.deepcopy(model).eval()
    shape = images.shape[1:]
    probe = torch.from_numpy(images[: min(len(images), 64)])
    try:
        with torch.no_grad():
            mean, spread = own_module.encode(probe)[:2]  # type: ignore[operator]
            outputs = own_module.decode(mean)  # type: ignore[operator]
    except Exception as error:
        raise DataError(
            f"expected encode(x) to return (mean, {second}) and decode(mean) to return x for inputs of shape {shape}, "
            f"got an error: {error}"
        ) from error
    if mean.shape != spread.shape or outputs.numel() != probe.numel():
        raise DataError(
            f"expected mean and {second} of one shape and an output for every value of x, got {tuple(mean.shape)}, "
            f"{tuple(spread.shape)} and {tuple(outputs.shape)} for inputs {tuple(probe.shape)}"
        )
    inside = bool(torch.isfinite(outputs).all() and outputs.min() >= 0 and outputs.max() <= 1)
    logits = likelihood == "gaussian" or not inside
    encoder = _Encode(own_module, second, shape)
    decoder = _Decode(own_module, shape, tuple(mean.shape[1:]), logits=logits)
    chosen: Likelihood = Bernoulli() if likelihood == "bernoulli" else Gaussian(variance=variance or 1.0)
    return VAE(encoder, decoder, StandardNormal(mean[0].numel()), chosen).eval()  # type: ignore[arg-type]


def unwrapped(vae: VAE) -> nn.Module:
    return vae.encoder.module if isinstance(vae.encoder, _Encode) else vae


def with_fresh_weights(vae: VAE, make: Callable[[int], nn.Module] | None, second: Scale, seed: int) -> VAE:
    """Return the same network with new weights: those of `make`, or each layer's own way to begin."""
    new = copy.deepcopy(vae)
    if make is not None:
        made = make(seed)
        if isinstance(made, VAE):
            return VAE(made.encoder, made.decoder, new.prior, new.likelihood)
        unwrapped(new).load_state_dict(made.state_dict())
        return new
    reset: set[int] = set()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed % 2**63)
        for module in new.modules():
            if callable(again := getattr(module, "reset_parameters", None)):
                again()
                reset |= {id(parameter) for parameter in module.parameters(recurse=False)}
    left = [name for name, parameter in new.named_parameters() if id(parameter) not in reset]
    if left:
        raise ConfigError(
            f"expected layers that can reset their own weights, {left[0]} has no such layer; "
            "give fresh=, a function that makes the module anew from a seed"
        )
    return new


def copy_decoder(source: VAE, target: VAE) -> None:
    """Put the decoder's weights of one model into another: those that what it decodes depends on."""
    z = torch.zeros(2, source.latents).normal_(generator=torch.Generator().manual_seed(0))
    probe = copy.deepcopy(source)
    if isinstance(probe.encoder, _Encode):
        # Some modules hand things from encode to decode.
        probe.encoder(torch.zeros(2, *source.shape))
    probe.zero_grad()
    torch.autograd.backward(probe.decode(z).sum())
    used = {name for name, parameter in probe.named_parameters() if parameter.grad is not None}
    weights = dict(source.named_parameters())
    with torch.no_grad():
        for name, parameter in target.named_parameters():
            if name in used:
                parameter.copy_(weights[name])


def read_inputs(
    data: Any, factors: NDArray[Any] | None, seed: int, most: int = 20_000
) -> tuple[Images, NDArray[Any] | None]:
    """Return at most 20,000 inputs as one array, with their factors where there are any."""
    if isinstance(data, Dataset):
        drawn = data.sample(min(most, len(data)), seed)
        sources = None if data.sources is None else np.asarray(data.sources)[drawn.indices]
        known: NDArray[Any] | None = sources if sources is not None else drawn.factors
        images: NDArray[Any] = drawn.images
    else:
        if not hasattr(data, "shape") and isinstance(data, Iterable):
            batches = []
            for batch in data:
                batches.append(np.asarray(batch[0] if isinstance(batch, list | tuple) else batch))
                if sum(len(each) for each in batches) >= most:
                    break
            images = np.concatenate(batches)[:most] if batches else np.empty((0, 1))
        else:
            images = np.asarray(data)[:most]
        known = None if factors is None else np.asarray(factors)[: len(images)]
    if images.dtype.kind not in "fiub" or images.ndim < 2 or len(images) < 60:
        raise DataError(
            f"expected at least 60 inputs as numbers of shape (n, ...), got {images.dtype} of shape {images.shape}"
        )
    images = images.astype(np.float32) / (255.0 if images.dtype == np.uint8 else 1.0)
    if not np.isfinite(images).all():
        raise DataError("expected finite numbers in the data, got NaN or infinite values; clean them first")
    if known is not None and len(known) != len(images):
        raise DataError(f"expected factors of {len(images)} inputs, got {len(known)}")
    return np.ascontiguousarray(images, dtype=np.float32), known


def split_inputs(count: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return 70% of the inputs to train on, 15% to choose by and 15% to prove it on."""
    order = stream(seed, "split of a cure").permutation(count)
    first, second = int(0.7 * count), int(0.85 * count)
    return order[:first], order[first:second], order[second:]


def principal_cross_entropy(images: Images, latents: int) -> float:
    """Return the cross-entropy of the images with their reconstruction from as many principal components, clipped."""
    rows = images[:2000].reshape(min(len(images), 2000), -1).astype(np.float64)
    mean = rows.mean(axis=0)
    basis = np.linalg.svd(rows - mean, full_matrices=False)[2][:latents]
    p = (mean + (rows - mean) @ basis.T @ basis).clip(0.01, 0.99)
    return float(-(rows * np.log(p) + (1 - rows) * np.log(1 - p)).sum(axis=1).mean())
