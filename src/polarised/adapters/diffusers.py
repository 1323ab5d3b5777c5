"""An autoencoder of diffusers (AutoencoderKL and its video variants) → Encodings."""

from collections.abc import Iterable
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polarised._io.limits import rehearse
from polarised.adapters.batches import Range, batches_of
from polarised.adapters.callables import Reading, encode_batches, gathered
from polarised.adapters.models import Model, tensors_for
from polarised.adapters.published import config_at
from polarised.errors import ConfigError, DataError
from polarised.regime import Encodings, Regime
from polarised.regime.advice import listed
from polarised.regime.encodings import Axis
from polarised.registry import register

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "channels_held",
    "cut_diffusers",
    "from_diffusers",
    "is_loadable",
    "load_diffusers",
    "model_of_diffusers",
    "say_channels",
]

# Why autoencoders without a Gaussian posterior have no types.
WITHOUT = {
    "VQModel": "its codes are entries of a codebook, not Gaussians",
    "AutoencoderTiny": "it was distilled to return only the mean",
    "AutoencoderDC": "it is an autoencoder without a posterior",
    "ConsistencyDecoderVAE": "",
    "AutoencoderRAE": "it is an autoencoder without a posterior",
}
# The keys of a config for the number of latent channels, and for lists with one value per channel.
SIZES, LISTS = ("latent_channels", "z_dim"), ("latents_mean", "latents_std")
# Below this share of the prior's width, a posterior is nearly a point.
POINT = 1e-3


def from_diffusers(
    model: Any,
    images: ArrayLike,
    *,
    batch_size: int = 8,
    axis: Axis = None,
    trust_scale: bool = False,
    pixel_range: Range | None = None,
) -> Encodings:
    """Encode images with an autoencoder of diffusers: latents (n, channels, ...), read from `latent_dist`.

    Args:
        model: The autoencoder, or a pipeline that has one.
        images: Images (n, channels, height, width), or videos, in the range of training, usually [-1, 1].
        batch_size: Images per batch.
        axis: The axis of the latent variables; default: 1, so a channel is a variable and each position an observation;
            (1, 2, 3) makes every position a separate variable.
        trust_scale: Skip the check whether the variances are plausible.
        pixel_range: The pixel range the model was trained on, if it is not known.

    Returns:
        The encodings.

    Raises:
        DataError: If the model has no Gaussian posterior, or the images have a wrong shape.

    >>> from diffusers import AutoencoderKL  # doctest: +SKIP
    >>> from_diffusers(AutoencoderKL.from_pretrained("stabilityai/sd-vae-ft-mse"), images)  # doctest: +SKIP
    Encodings(16 inputs × 4 variables (4,096 positions each), N(0, I))
    """
    reading = Reading(trust_scale=trust_scale, axis=axis, pixel_range=pixel_range)
    return gathered(encode_batches(model_of_diffusers(model), batches_of(images, batch_size=batch_size), reading))


@register("adapter", name="diffusers", summary="a diffusers autoencoder or pipeline", libraries=("diffusers",))
def model_of_diffusers(model: Any) -> Model:
    """Return what is known about an autoencoder of diffusers, or of the one in a pipeline.

    Args:
        model: The autoencoder or the pipeline.

    Returns:
        How to encode with it, and what its library defines about the latents.

    Raises:
        DataError: If it has no Gaussian posterior.
    """
    autoencoder = _autoencoder(model)
    name = type(autoencoder).__name__
    if WITHOUT.get(name) or not hasattr(autoencoder, "encode"):
        reason = WITHOUT.get(name) or "it has no encoder"
        raise DataError(f"expected an autoencoder with a Gaussian posterior, got {name}: {reason}")
    config = getattr(autoencoder, "config", {})
    size = config.get("sample_size") if hasattr(config, "get") else None

    # A video decoder that takes images must be told that each of them is a video.
    frames = {"num_frames": 1} if "num_frames" in signature(autoencoder.decode).parameters else {}

    def decode(codes: Any) -> Any:
        return autoencoder.decode(codes, **frames).sample

    def remark(regime: Regime) -> tuple[str, ...]:
        return remarks(regime, config)

    return Model(
        (autoencoder.encode,),
        (autoencoder,),
        name=name,
        scale_kind="log_variance",
        axis=1,
        convert=tensors_for(autoencoder),
        decode=decode,
        pixel_range=(-1, 1),
        image_size=int(size) if isinstance(size, int) else None,
        remarks=remark,
        kind="diffusers",
    )


def _autoencoder(model: Any) -> Any:
    return getattr(model, "vae", None) or getattr(model, "movq", None) or model


def cut_diffusers(model: Any, keep: Iterable[int], constants: ArrayLike) -> Any:
    """Return an autoencoder of the same class with fewer latent channels, consistent with its config.

    Around the latents are 1 × 1 layers q (2c → 2c) and p (c → c), and outside of them convolutions with zero padding. q
    is merged into the encoder's last layer, W_p into the decoder's layers. In b + W_p z, z are the constants of
    the dropped channels. Its part in the span of the kept columns of W_p shifts the kept channels; only the rest is a
    bias after the padding, which differs at the border of the image.

    Args:
        model: The autoencoder, or a pipeline that has one.
        keep: The channels to keep, in their new order.
        constants: The value of each channel if it is dropped, (c,).

    Returns:
        The smaller autoencoder, in evaluation mode and single precision.

    Raises:
        ConfigError: If its config lacks the number of channels, or its layers are not determined by it.
    """
    import torch

    from polarised.models.slicing import checked_keep

    whole, layers = _autoencoder(model), _latent_layers(model)
    chosen, name = checked_keep(keep, layers.channels), type(whole).__name__
    kept, rows = len(chosen), [*chosen, *(layers.channels + j for j in chosen)]
    held = torch.as_tensor(np.array(constants), dtype=torch.float64)
    held[chosen] = 0
    enter, level = layers.enter[:, chosen], layers.bias + layers.enter @ held
    shift = torch.linalg.lstsq(enter, level[:, None]).solution[:, 0] if layers.post else torch.zeros(kept).double()
    rest = level - enter @ shift
    lists = {key: [value[j] for j in chosen] for key in LISTS if (value := whole.config.get(key))}
    smaller = _of_size(whole, {layers.size: kept, **lists})
    # Weights that depend on the number of channels are found by changing that number.
    with torch.device("meta"):
        other = _of_size(whole, {layers.size: layers.channels + 1, **dict.fromkeys(LISTS)}).state_dict()
    new, likes = dict(layers.weights), smaller.state_dict()
    for key, value in layers.weights.items():
        home = key.partition(".")[0]
        if home in ("quant_conv", "post_quant_conv"):
            moved = shift if home == "post_quant_conv" else torch.zeros(2 * kept)
            new[key] = torch.eye(len(likes[key])).reshape(likes[key].shape) if value.ndim > 1 else moved
        elif home == "encoder" and len(value) == 2 * layers.channels and value.shape != other[key].shape:
            new[key] = torch.tensordot(layers.read[rows], value, dims=1) + (
                layers.offset[rows] if value.ndim == 1 else 0
            )
        elif home == "decoder" and value.ndim > 1 and value.shape != other[key].shape:
            new[key] = torch.tensordot(value, enter, dims=([1], [0])).movedim(-1, 1)
            bias = f"{key.removesuffix('weight')}bias"
            new[bias] = layers.weights[bias] + value.flatten(2).sum(2) @ rest
        if new[key].shape != likes[key].shape:
            raise ConfigError(
                f"expected only the layers around the latents to depend on their number, but {key} of {name} does too"
            )
    smaller.load_state_dict({key: value.to(likes[key]) for key, value in new.items()})
    for key, number in vars(whole).items():
        # Tiling and slicing are not part of the config.
        if type(number) in (bool, int, float) and key.startswith(("use_", "tile_")):
            setattr(smaller, key, number)
    return smaller.eval()


def channels_held(model: Any, keep: Iterable[int], preferred: ArrayLike = 0.0) -> NDArray[np.float64]:
    """Return the best constants for dropped channels: (c,), 0 for those that are kept.

    W_p z + b = W_p (z + t) with t = W_p⁻¹ b, so a channel at -t leaves no bias before the padding that follows. -t is
    used if it is within one prior standard deviation of the preferred one, else the nearest value that is.

    Args:
        model: The autoencoder, or a pipeline that has one.
        keep: The channels to keep.
        preferred: The preferred values of dropped channels.

    Returns:
        The values.
    """
    import torch

    layers = _latent_layers(model)
    near = np.broadcast_to(np.asarray(preferred, dtype=np.float64), (layers.channels,))
    vanishing = -torch.linalg.lstsq(layers.enter, layers.bias[:, None], driver="gelsd").solution[:, 0].numpy()
    held: NDArray[np.float64] = np.clip(vanishing, near - 1, near + 1) if layers.post else np.zeros(layers.channels)
    held[list(keep)] = 0
    return held


def say_channels(model: Any, whole: Any, keep: list[int]) -> None:
    """Update the config of an autoencoder cut in memory: the number of channels and the lists with one value each."""
    size = _latent_layers(whole).size
    lists = {key: [value[j] for j in keep] for key in LISTS if (value := whole.config.get(key))}
    model.register_to_config(**{size: len(keep), **lists})


def is_loadable(model: Any) -> bool:
    """Return whether the config describes the model: the layer before the decoder keeps the number of channels."""
    layer = getattr(_autoencoder(model), "post_quant_conv", None)
    weight = None if layer is None else next(layer.parameters())
    return weight is None or weight.shape[0] == weight.shape[1]


class _LatentLayers(NamedTuple):
    """The 1 × 1 layers around c channels: moments = read · h + offset, decoder's input = enter · z + bias."""

    size: str
    channels: int
    weights: "dict[str, Tensor]"
    read: "Tensor"
    offset: "Tensor"
    enter: "Tensor"
    bias: "Tensor"
    post: bool


def _latent_layers(model: Any) -> _LatentLayers:
    import torch

    whole = _autoencoder(model)
    name, config = type(whole).__name__, whole.config
    size = next((key for key in SIZES if isinstance(config.get(key), int)), None)
    if size is None:
        raise ConfigError(
            f"expected the number of latent channels in the config of {name}, but it has none, so the model cannot be "
            "cut"
        )
    count = config[size]
    weights = {key: value.detach().double().cpu() for key, value in whole.state_dict().items()}
    none = torch.zeros(2 * count, dtype=torch.float64)
    read, offset = _one_by_one(weights, "quant_conv", torch.eye(2 * count, dtype=torch.float64), none)
    enter, bias = _one_by_one(weights, "post_quant_conv", torch.eye(count, dtype=torch.float64), none[:count])
    if read.shape != (2 * count, 2 * count) or enter.shape != (count, count):
        raise ConfigError(
            f"expected layers of {count} channels around the latents of {name}, but they have other sizes"
        )
    post = any(key.startswith("post_quant_conv.") for key in weights)
    return _LatentLayers(size, count, weights, read, offset, enter, bias, post)


def _of_size(model: Any, changed: dict[str, Any]) -> Any:
    found = {key: value for key, value in model.config.items() if not key.startswith("_")}
    return type(model).from_config({**found, **{key: value for key, value in changed.items() if key in found}})


def _one_by_one(old: "dict[str, Tensor]", name: str, weight: "Tensor", bias: "Tensor") -> "tuple[Tensor, Tensor]":
    """Return weight and bias of a 1 × 1 convolution as a matrix and a vector, or the given ones if it is missing."""
    parts = {key.rpartition(".")[2]: value for key, value in old.items() if key.startswith(f"{name}.")}
    return (parts["weight"].flatten(1), parts.get("bias", bias)) if parts else (weight, bias)


def remarks(regime: Regime, config: Any) -> tuple[str, ...]:
    """Return advice for latent diffusion: normalisation, dead channels, and the limits of the types."""
    statistics = regime.statistics
    deviations = np.sqrt(statistics.mean_variance + statistics.variance_mean)
    whole = float(np.sqrt(np.mean(deviations**2 + (statistics.mean_mean - statistics.mean_mean.mean()) ** 2)))
    sentences = []
    if len(regime.types) <= 64:
        numbers = [", ".join(f"{value:.4g}" for value in values) for values in (statistics.mean_mean, deviations)]
        sentences.append(f"On these inputs latents_mean = [{numbers[0]}] and latents_std = [{numbers[1]}].")
    own = config.get("scaling_factor") if hasattr(config, "get") else None
    beside = f" (the config has {own:.5g})" if isinstance(own, int | float) else ""
    sentences.append(f"A scaling_factor of {1 / max(whole, 1e-12):.5g} brings the latents to unit variance{beside}.")
    if regime.passive:
        channels = "channel" if len(regime.passive) == 1 else "channels"
        sentences.append(f"Dead {channels}: {listed(regime.passive)}; a diffusion model trained on them learns noise.")
    alive = statistics.ratio_mean[regime.alive] if regime.alive else np.ones(1)
    if float(np.median(alive)) < POINT:
        sentences.append(
            "The posterior is nearly a point (its variance is less than a thousandth of the prior's), as with a KL of "
            "low weight: types then only show which channels are dead; rank the others by what the decoder loses."
        )
    return tuple(sentences)


def load_diffusers(folder: Path) -> Any:
    """Load the autoencoder that diffusers saved in a folder or a pipeline's folder; weights must be safetensors.

    Raises:
        DataError: If it is not an autoencoder, or has no safetensors.
    """
    prepare()
    rehearse("an autoencoder of diffusers", _try, _place_of(folder))
    return _load(_place_of(folder))


def prepare() -> None:
    """Import the library before memory is limited."""
    import diffusers

    _ = diffusers.AutoencoderKL


def _try(place: str) -> None:
    _load(Path(place))


def _place_of(folder: Path) -> Path:
    """Return the folder of the autoencoder, which may be inside that of a pipeline."""
    if not (folder / "model_index.json").is_file():
        return folder
    return next((folder / name for name in ("vae", "movq") if (folder / name).is_dir()), folder)


def _load(place: Path) -> Any:
    import diffusers

    name = str(config_at(place / "config.json").get("_class_name", ""))
    if not (name.startswith("Autoencoder") or name == "VQModel") or not hasattr(diffusers, name):
        raise DataError(
            f"expected an autoencoder of diffusers in {place}, but its config.json names {name or 'no class'}"
        )
    if not any(place.glob("*.safetensors")):
        raise DataError(f"expected weights as safetensors in {place}, but there are none; other files could run code")
    return getattr(diffusers, name).from_pretrained(str(place), local_files_only=True, use_safetensors=True)
