"""The VAE, with one forward pass for all papers."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from polarised import registry
from polarised._io.files import replacing
from polarised._io.limits import check_room
from polarised._io.text import parse_json
from polarised.errors import ConfigError, DataError, MissingFileError
from polarised.models.distributions import DiagonalGaussian, Prior
from polarised.models.likelihoods import Likelihood
from polarised.models.networks import Decoder, Encoder, seeded_weights

__all__ = ["VAE", "build_vae", "load_vae", "save_vae"]

# A real config has about two thousand characters; thousands of layers would take minutes to build.
LARGEST_HEADER = 1 << 14


class VAE(nn.Module):
    """Combine p(z|u), p(x|z) and q(z|x, u); a model without auxiliary variables ignores u [Kingma2014; Khemakhem2020].

    Args:
        encoder: Computes mean and log-variance of q(z|x, u).
        decoder: Computes the parameters of p(x|z).
        prior: p(z|u).
        likelihood: Interprets the outputs of the decoder.

    >>> import torch
    >>> vae = build_vae({"architecture": "mlp", "latents": 3}, shape=(1, 16, 16), seed=0)
    >>> tuple(vae.reconstruct(torch.zeros(2, 1, 16, 16)).shape)
    (2, 1, 16, 16)
    """

    def __init__(self, encoder: Encoder, decoder: Decoder, prior: Prior, likelihood: Likelihood) -> None:
        super().__init__()
        self.encoder, self.decoder, self.prior, self.likelihood = encoder, decoder, prior, likelihood

    @property
    def latents(self) -> int:
        """The number of latent variables."""
        return self.prior.latents

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one image."""
        return self.encoder.shape

    def posterior(self, x: Tensor, u: Tensor | None = None) -> DiagonalGaussian:
        """Return q(z|x, u) of a batch.

        Args:
            x: The images, (B, *shape).
            u: Their auxiliary variables, (B, k), if the model uses them.

        Returns:
            The posterior.
        """
        return DiagonalGaussian(*self.encoder(x, u))

    def decode(self, z: Tensor) -> Tensor:
        """Return the raw outputs of the decoder, which the likelihood interprets.

        Args:
            z: Codes, (B, d).

        Returns:
            The outputs.
        """
        outputs: Tensor = self.decoder(z)
        return outputs

    def reconstruct(self, x: Tensor, u: Tensor | None = None) -> Tensor:
        """Return E[x|z] at the mean of q(z|x, u).

        Args:
            x: The images, (B, *shape).
            u: Their auxiliary variables, (B, k), if the model uses them.

        Returns:
            The reconstructions, (B, *shape).
        """
        return self.generate(self.posterior(x, u).mean)

    def generate(self, z: Tensor) -> Tensor:
        """Return E[x|z], the image that the decoder generates from z.

        Args:
            z: Codes, (B, d).

        Returns:
            The images, (B, *shape).
        """
        return self.likelihood.mean(self.decode(z))


def build_vae(config: Mapping[str, Any], shape: tuple[int, ...], auxiliary_size: int = 0, seed: int = 0) -> VAE:
    """Build the VAE described by a config: architecture, latents, prior, likelihood; the seed determines the weights.

    The prior decides whether u is used: with an unconditional prior the encoder is built without u.

    Args:
        config: The architecture, the number of latents, the prior and the likelihood, as named in a config; omitted
            settings have the default of the library.
        shape: The shape of one image.
        auxiliary_size: The number of auxiliary variables of the data.
        seed: The seed of the weights.

    Returns:
        The VAE, untrained.

    Raises:
        ConfigError: If the config names something that does not exist or does not fit.

    >>> build_vae({"architecture": {"name": "mlp", "widths": [8]}}, shape=(5,)).latents
    10
    """
    latents = config.get("latents", 10)
    if type(latents) is not int or latents < 1:
        raise ConfigError(f"model.latents must be a whole number of at least 1, got {latents!r}; 10 is a common choice")
    with seeded_weights(seed):
        prior = registry.build("prior", config.get("prior", "StandardNormal"), latents, auxiliary_size)
        likelihood = registry.build("likelihood", config.get("likelihood", "Bernoulli"))
        encoder, decoder = registry.build(
            "architecture",
            config.get("architecture", "locatello_conv"),
            tuple(shape),
            latents,
            likelihood.outputs_per_value,
            auxiliary_size if prior.conditional else 0,
        )
    return VAE(encoder, decoder, prior, likelihood)


def save_vae(vae: VAE, path: str | Path, *, config: Mapping[str, Any], auxiliary_size: int = 0) -> Path:
    """Write the weights as safetensors, with the config of their network.

    Args:
        vae: The model.
        path: The file to write.
        config: The config with which `build_vae` builds its network.
        auxiliary_size: The number of auxiliary variables it was built for.

    Returns:
        The path of the file.

    >>> import tempfile
    >>> config = {"architecture": "mlp", "latents": 3}
    >>> vae = build_vae(config, shape=(1, 16, 16))
    >>> path = save_vae(vae, Path(tempfile.mkdtemp()) / "model.safetensors", config=config)
    >>> load_vae(path).latents
    3
    """
    path = Path(path)
    header = {"config": {**config, "latents": vae.latents}, "shape": vae.shape, "auxiliary_size": auxiliary_size}
    weights = {name: value.detach().cpu().contiguous() for name, value in vae.state_dict().items()}
    with replacing(path) as temporary:
        save_file(weights, temporary, metadata={"polarised": json.dumps(header)})
    return path


def _checked_header(text: str, path: Path) -> dict[str, Any]:
    """Return the description of the network in a model file, after checking its size and type."""
    try:
        header = parse_json(text, where=path) if len(text) <= LARGEST_HEADER else None
    except DataError as error:
        raise DataError(f"expected a model saved by polarised, its description in {path} is damaged") from error
    if not isinstance(header, dict) or not isinstance(header.get("config"), dict):
        raise DataError(f"expected a model saved by polarised, its description in {path} is missing or too long")
    shape, auxiliary = header.get("shape"), header.get("auxiliary_size")
    sizes = shape if isinstance(shape, list) else []
    if not 1 <= len(sizes) <= 4 or not all(type(size) is int and 1 <= size <= 1 << 20 for size in sizes):
        raise DataError(f"expected the shape of an image in {path}, got {shape!r}; the file is damaged")
    if type(auxiliary) is not int or not 0 <= auxiliary <= 1 << 20:
        raise DataError(f"expected the size of the auxiliary variables in {path}, got {auxiliary!r}; it is damaged")
    return header


def load_vae(path: str | Path) -> VAE:
    """Load a model written by `save_vae` for encoding; a model that names code is refused (`registry.refuse_code`).

    Args:
        path: The file.

    Returns:
        The model, in evaluation mode.

    Raises:
        DataError: If there is no such file, it is not a model of polarised, or it names code.
    """
    path = Path(path)
    if not path.exists():
        raise MissingFileError(f"expected a trained model, {path} does not exist; let its run finish first")
    check_room(path)
    try:
        with safe_open(path, framework="pt") as archive:
            header = _checked_header((archive.metadata() or {})["polarised"], path)
            registry.refuse_code(header, path)
            weights = {name: archive.get_tensor(name) for name in archive.keys()}  # noqa: SIM118
        network = header["config"], tuple(header["shape"]), header["auxiliary_size"]
        # The sizes in the header are not trusted: they are compared with the weights before anything is allocated.
        with torch.device("meta"):
            needed = sum(value.numel() for value in build_vae(*network).state_dict().values())
        if needed != sum(value.numel() for value in weights.values()):
            raise DataError(f"expected the weights of its network in {path}, its config needs {needed} numbers")
        vae = build_vae(*network)
        vae.load_state_dict(weights)
    except DataError:
        raise
    except Exception as error:
        raise DataError(f"expected a model saved by polarised, could not read {path}: {error}") from error
    return vae.eval()
