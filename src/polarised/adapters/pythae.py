"""A pythae model → Encodings."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from polarised._io.limits import rehearse
from polarised.adapters.batches import Range, batches_of
from polarised.adapters.callables import Reading, encode_batches, gathered
from polarised.adapters.models import Model, tensors_for
from polarised.adapters.published import config_at, weights_in
from polarised.errors import DataError
from polarised.regime import Encodings
from polarised.regime.encodings import as_array
from polarised.registry import register

__all__ = ["from_pythae", "load_pythae", "model_of_pythae"]


def from_pythae(
    model: Any,
    images: ArrayLike,
    *,
    batch_size: int = 256,
    factors: ArrayLike | None = None,
    trust_scale: bool = False,
    pixel_range: Range | None = None,
) -> Encodings:
    """Encode images with a pythae VAE or one of its variants: its encoder's `embedding` and `log_covariance`.

    Models whose encoder has no Gaussian posterior (AE, RAE, WAE, VQ-VAE, S-VAE) are refused. For models with a flow
    after the Gaussian (VAE_IAF, VAE_LinNF), the Gaussian is diagnosed. The prior of VAMP, the mean of the
    posteriors of its pseudo-inputs, is represented by its mean and variance [Tomczak2018].

    Args:
        model: The model.
        images: The images.
        batch_size: Images per batch.
        factors: Known factors of each image.
        trust_scale: Skip the check whether the variances are plausible.
        pixel_range: The pixel range the model was trained on, if it is not known.

    Returns:
        The encodings.

    Raises:
        DataError: If the model has no Gaussian posterior, or the images have a wrong shape.

    >>> from pythae.models import VAE, VAEConfig  # doctest: +SKIP
    >>> from_pythae(VAE(VAEConfig(input_dim=(1, 28, 28), latent_dim=16)), digits)  # doctest: +SKIP
    Encodings(1,000 inputs × 16 variables, N(0, I))
    """
    given = None if factors is None else np.asarray(factors)
    reading = Reading(trust_scale=trust_scale, factors=given, pixel_range=pixel_range)
    return gathered(encode_batches(model_of_pythae(model), batches_of(images, batch_size=batch_size), reading))


@register("adapter", name="pythae", summary="a pythae VAE or one of its variants", libraries=("pythae",))
def model_of_pythae(model: Any) -> Model:
    """Return what is known about a pythae model.

    Args:
        model: The model.

    Returns:
        How to encode with it, and what its library defines about the latents.
    """

    def encode(batch: Any) -> Any:
        output = model.encoder(batch)
        if not {"embedding", "log_covariance"} <= set(output.keys()):
            raise DataError(
                f"expected a Gaussian posterior, but the encoder of {type(model).__name__} returns "
                f"{', '.join(output.keys())}; only models with embedding and log_covariance can be diagnosed"
            )
        return output.embedding, output.log_covariance

    def decode(codes: Any) -> Any:
        return model.decoder(codes).reconstruction

    return Model(
        (encode,),
        (model,),
        name=getattr(model, "model_name", type(model).__name__),
        scale_kind="log_variance",
        prior=(lambda _: _pseudo_prior(model)) if hasattr(model, "pseudo_inputs") else None,
        convert=tensors_for(model),
        decode=decode if hasattr(model, "decoder") else None,
        kind="pythae",
    )


def _pseudo_prior(model: Any) -> tuple[ArrayLike, ArrayLike]:
    """Return mean and variance of the prior of a VAMP, a mixture of posteriors."""
    import torch

    with torch.no_grad():
        drawn = model.pseudo_inputs(model.idle_input.to(next(model.parameters()).device))
        output = model.encoder(drawn.reshape(-1, *model.model_config.input_dim))
    mean, log_variance = (as_array(part).astype(np.float64) for part in (output.embedding, output.log_covariance))
    return mean.mean(axis=0), np.exp(log_variance).mean(axis=0) + mean.var(axis=0)


def load_pythae(folder: Path) -> Any:
    """Load the model that pythae saved in a folder; encoders saved as code are refused.

    Raises:
        DataError: If it contains code, or weights that do not match its config.
    """
    prepare()
    rehearse("a model of pythae", _try, folder)
    return _load(folder)


def prepare() -> None:
    """Import the library before memory is limited."""
    import pythae.models  # noqa: F401


def _try(folder: str) -> None:
    _load(Path(folder))


def _load(folder: Path) -> Any:
    from pythae import models

    code = [file.name for file in folder.glob("*.pkl")]
    config = dict(config_at(folder / "model_config.json"))
    if code or not config.get("uses_default_encoder", True) or not config.get("uses_default_decoder", True):
        raise DataError(
            f"expected a model with pythae's own networks in {folder}, but it has its own "
            f"({', '.join(code) or 'encoder'}) whose code would have to be run; load it yourself and give the "
            "model to polarised.diagnose"
        )
    kind = str(config.pop("name", ""))
    name = kind.removesuffix("Config").removesuffix("_")
    if not hasattr(models, kind) or not hasattr(models, name):
        raise DataError(f"expected the config of a pythae model in {folder}, but it names {kind or 'none'}")
    config["input_dim"] = tuple(config.get("input_dim") or ())
    try:
        model = getattr(models, name)(getattr(models, kind)(**config))
        model.load_state_dict(weights_in(folder / "model.pt", "model_state_dict"))
    except DataError:
        raise
    except Exception as error:
        raise DataError(
            f"expected weights that match the config in {folder}, but they cannot be loaded: {error}"
        ) from error
    return model.eval()
