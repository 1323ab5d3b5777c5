"""An autoencoder of diffusers (AutoencoderKL and its relatives for video) → Encodings."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from polarised._io.limits import rehearse
from polarised.adapters.batches import Range, batches_of
from polarised.adapters.callables import Reading, encode_batches, gathered
from polarised.adapters.models import Model, tensors_for
from polarised.adapters.published import config_at
from polarised.errors import DataError
from polarised.regime import Encodings, Regime
from polarised.regime.advice import listed
from polarised.regime.encodings import Axis
from polarised.registry import register

__all__ = ["from_diffusers", "load_diffusers", "model_of_diffusers"]

# Why a relative without a Gaussian posterior has no types.
WITHOUT = {
    "VQModel": "its codes are entries of a codebook, not Gaussians",
    "AutoencoderTiny": "it was distilled to give the mean alone",
    "AutoencoderDC": "it is an autoencoder without a posterior",
    "ConsistencyDecoderVAE": "",
    "AutoencoderRAE": "it is an autoencoder without a posterior",
}
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


@register("adapter", name="diffusers", summary="an autoencoder of diffusers, or its pipeline", libraries=("diffusers",))
def model_of_diffusers(model: Any) -> Model:
    """Return what is known of an autoencoder of diffusers, or of the one in a pipeline.

    Args:
        model: The autoencoder or the pipeline.

    Returns:
        How to encode with it, and what its library tells about the latents.

    Raises:
        DataError: If it has no Gaussian posterior.
    """
    autoencoder = getattr(model, "vae", None) or getattr(model, "movq", None) or model
    name = type(autoencoder).__name__
    if WITHOUT.get(name) or not hasattr(autoencoder, "encode"):
        reason = WITHOUT.get(name) or "it has no encoder"
        raise DataError(f"expected an autoencoder with a Gaussian posterior, got {name}: {reason}")
    config = getattr(autoencoder, "config", {})
    size = config.get("sample_size") if hasattr(config, "get") else None

    def decode(codes: Any) -> Any:
        return autoencoder.decode(codes).sample

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
