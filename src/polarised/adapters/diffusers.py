"""An autoencoder of diffusers (AutoencoderKL and its relatives for video) → Encodings."""

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

# Why a relative without a Gaussian posterior has no types.
WITHOUT = {
    "VQModel": "its codes are entries of a codebook, not Gaussians",
    "AutoencoderTiny": "it was distilled to give the mean alone",
    "AutoencoderDC": "it is an autoencoder without a posterior",
    "ConsistencyDecoderVAE": "",
    "AutoencoderRAE": "it is an autoencoder without a posterior",
}
# What a config calls the number of latent channels, and what it lists for each of them.
SIZES, LISTS = ("latent_channels", "z_dim"), ("latents_mean", "latents_std")
# Below this share of the prior's width a posterior is nearly a point.
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
        images: Images (n, channels, height, width), or videos, as the model was trained: as a rule in [-1, 1].
        batch_size: Images encoded at once.
        axis: The variable's axis; default: 1, a channel is a variable and each position an observation of it;
            (1, 2, 3) makes every position a variable of its own.
        trust_scale: Take the variances as they are, however they look.
        pixel_range: The range of pixels the model was trained on, where it has to be said.

    Returns:
        The encodings.

    Raises:
        DataError: If the model has no Gaussian posterior, or the images do not fit.

    >>> from diffusers import AutoencoderKL  # doctest: +SKIP
    >>> from_diffusers(AutoencoderKL.from_pretrained("stabilityai/sd-vae-ft-mse"), images)  # doctest: +SKIP
    Encodings(16 inputs × 4 variables (4,096 positions each), N(0, I))
    """
    reading = Reading(trust_scale=trust_scale, axis=axis, pixel_range=pixel_range)
    return gathered(encode_batches(model_of_diffusers(model), batches_of(images, batch_size=batch_size), reading))


@register("adapter", name="diffusers", summary="a diffusers autoencoder or pipeline", libraries=("diffusers",))
def model_of_diffusers(model: Any) -> Model:
    """Return what is known of an autoencoder of diffusers, or of the one in a pipeline.

    Args:
        model: The autoencoder or the pipeline.

    Returns:
        How to encode with it, and what its library tells about the latents.

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

    # A decoder of videos that takes pictures has to be told that each is a video of its own.
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
    """Return an autoencoder of the same class with some of the channels, as its config describes it.

    Around the latents are 1 × 1 layers q (2c → 2c) and p (c → c), outside of them convolutions that pad with zeros. q
    is merged into the encoder's last layer, W_p into the decoder's layers. Of the bias b + W_p z, z the constants of
    dropped channels, what the columns of W_p of the kept ones span shifts the kept channels; only the rest becomes a
    bias behind the padding, which differs at the border of the picture.

    Args:
        model: The autoencoder, or a pipeline that has one.
        keep: The channels to keep, in the order they are to have.
        constants: What each channel is held at where it is dropped, (c,).

    Returns:
        The smaller autoencoder, in evaluation mode and single precision.

    Raises:
        ConfigError: If its config does not tell the number of channels, or its layers do not follow from it.
    """
    import torch

    from polarised.models.slicing import checked_keep

    whole, layers = _autoencoder(model), _layers_of_code(model)
    chosen, name = checked_keep(keep, layers.channels), type(whole).__name__
    kept, rows = len(chosen), [*chosen, *(layers.channels + j for j in chosen)]
    held = torch.as_tensor(np.array(constants), dtype=torch.float64)
    held[chosen] = 0
    enter, level = layers.enter[:, chosen], layers.bias + layers.enter @ held
    shift = torch.linalg.lstsq(enter, level[:, None]).solution[:, 0] if layers.post else torch.zeros(kept).double()
    rest = level - enter @ shift
    lists = {key: [value[j] for j in chosen] for key in LISTS if (value := whole.config.get(key))}
    smaller = _of_size(whole, {layers.size: kept, **lists})
    # What knows the number of channels is seen by another number of them.
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
            raise ConfigError(f"expected only layers around the latents to know their number, {name} has {key} too")
    smaller.load_state_dict({key: value.to(likes[key]) for key, value in new.items()})
    for key, number in vars(whole).items():
        # Whether it works in tiles or slices is no part of the config.
        if type(number) in (bool, int, float) and key.startswith(("use_", "tile_")):
            setattr(smaller, key, number)
    return smaller.eval()


def channels_held(model: Any, keep: Iterable[int], preferred: ArrayLike = 0.0) -> NDArray[np.float64]:
    """Return what dropped channels are best held at: (c,), 0 for those that are kept.

    W_p z + b = W_p (z + t) with t = W_p⁻¹ b, so that a channel at -t leaves no bias before the padding behind. That is
    taken where it is within one standard deviation of the prior of what is preferred, else the nearest such value.

    Args:
        model: The autoencoder, or a pipeline that has one.
        keep: The channels that are kept.
        preferred: What dropped channels would be held at otherwise.

    Returns:
        The values.
    """
    import torch

    layers = _layers_of_code(model)
    near = np.broadcast_to(np.asarray(preferred, dtype=np.float64), (layers.channels,))
    vanishing = -torch.linalg.lstsq(layers.enter, layers.bias[:, None], driver="gelsd").solution[:, 0].numpy()
    held: NDArray[np.float64] = np.clip(vanishing, near - 1, near + 1) if layers.post else np.zeros(layers.channels)
    held[list(keep)] = 0
    return held


def say_channels(model: Any, whole: Any, keep: list[int]) -> None:
    """Let the config of an autoencoder that was cut in memory say its channels, and what it lists for each."""
    size = _layers_of_code(whole).size
    lists = {key: [value[j] for j in keep] for key in LISTS if (value := whole.config.get(key))}
    model.register_to_config(**{size: len(keep), **lists})


def is_loadable(model: Any) -> bool:
    """Whether its config describes an autoencoder: the layer before the decoder keeps the number of channels."""
    layer = getattr(_autoencoder(model), "post_quant_conv", None)
    weight = None if layer is None else next(layer.parameters())
    return weight is None or weight.shape[0] == weight.shape[1]


class _LayersOfCode(NamedTuple):
    """The 1 × 1 layers around c channels: moments = read · h + offset, decoder's input = enter · z + bias."""

    size: str
    channels: int
    weights: "dict[str, Tensor]"
    read: "Tensor"
    offset: "Tensor"
    enter: "Tensor"
    bias: "Tensor"
    post: bool


def _layers_of_code(model: Any) -> _LayersOfCode:
    import torch

    whole = _autoencoder(model)
    name, config = type(whole).__name__, whole.config
    size = next((key for key in SIZES if isinstance(config.get(key), int)), None)
    if size is None:
        raise ConfigError(f"expected the number of latent channels in the config of {name}, it has none: cannot be cut")
    count = config[size]
    weights = {key: value.detach().double().cpu() for key, value in whole.state_dict().items()}
    none = torch.zeros(2 * count, dtype=torch.float64)
    read, offset = _one_by_one(weights, "quant_conv", torch.eye(2 * count, dtype=torch.float64), none)
    enter, bias = _one_by_one(weights, "post_quant_conv", torch.eye(count, dtype=torch.float64), none[:count])
    if read.shape != (2 * count, 2 * count) or enter.shape != (count, count):
        raise ConfigError(f"expected layers of {count} channels around the latents of {name}, they have others")
    post = any(key.startswith("post_quant_conv.") for key in weights)
    return _LayersOfCode(size, count, weights, read, offset, enter, bias, post)


def _of_size(model: Any, changed: dict[str, Any]) -> Any:
    found = {key: value for key, value in model.config.items() if not key.startswith("_")}
    return type(model).from_config({**found, **{key: value for key, value in changed.items() if key in found}})


def _one_by_one(old: "dict[str, Tensor]", name: str, weight: "Tensor", bias: "Tensor") -> "tuple[Tensor, Tensor]":
    """Return weight and bias of a 1 × 1 convolution as a matrix and a vector, or those given where there is none."""
    parts = {key.rpartition(".")[2]: value for key, value in old.items() if key.startswith(f"{name}.")}
    return (parts["weight"].flatten(1), parts.get("bias", bias)) if parts else (weight, bias)


def remarks(regime: Regime, config: Any) -> tuple[str, ...]:
    """Return what users of latent diffusion ask next: normalisation, dead channels, and what types can say here."""
    statistics = regime.statistics
    deviations = np.sqrt(statistics.mean_variance + statistics.variance_mean)
    whole = float(np.sqrt(np.mean(deviations**2 + (statistics.mean_mean - statistics.mean_mean.mean()) ** 2)))
    said = []
    if len(regime.types) <= 64:
        numbers = [", ".join(f"{value:.4g}" for value in values) for values in (statistics.mean_mean, deviations)]
        said.append(f"On these inputs latents_mean = [{numbers[0]}] and latents_std = [{numbers[1]}].")
    own = config.get("scaling_factor") if hasattr(config, "get") else None
    beside = f" (the config has {own:.5g})" if isinstance(own, int | float) else ""
    said.append(f"A scaling_factor of {1 / max(whole, 1e-12):.5g} brings the latents to unit variance{beside}.")
    if regime.passive:
        channels = "channel" if len(regime.passive) == 1 else "channels"
        said.append(f"Dead {channels}: {listed(regime.passive)}; a diffusion model trained on them learns noise.")
    alive = statistics.ratio_mean[regime.alive] if regime.alive else np.ones(1)
    if float(np.median(alive)) < POINT:
        said.append(
            "The posterior is nearly a point (its variance is less than a thousandth of the prior's), as where the KL "
            "weighs little: types then say only which channels are dead; rank the others by what the decoder loses."
        )
    return tuple(said)


def load_diffusers(folder: Path) -> Any:
    """Return the autoencoder that diffusers saved in a folder, or in that of a pipeline; weights are safetensors only.

    Raises:
        DataError: If it is no autoencoder, or has no safetensors.
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
    """Return the folder of the autoencoder, which may lie in that of a pipeline."""
    if not (folder / "model_index.json").is_file():
        return folder
    return next((folder / name for name in ("vae", "movq") if (folder / name).is_dir()), folder)


def _load(place: Path) -> Any:
    import diffusers

    name = str(config_at(place / "config.json").get("_class_name", ""))
    if not (name.startswith("Autoencoder") or name == "VQModel") or not hasattr(diffusers, name):
        raise DataError(f"expected an autoencoder of diffusers in {place}, its config.json names {name or 'no class'}")
    if not any(place.glob("*.safetensors")):
        raise DataError(f"expected weights as safetensors in {place}, there are none; other files could run code")
    return getattr(diffusers, name).from_pretrained(str(place), local_files_only=True, use_safetensors=True)
