"""A trained model in one file that says itself what it is: weights and the config that builds the network."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from polarised import catalogue
from polarised.errors import DataError
from polarised.files import replacing
from polarised.models.vae import VAE, build_vae

__all__ = ["load_vae", "save_vae"]


def save_vae(vae: VAE, path: str | Path, *, config: Mapping[str, Any], auxiliary_size: int = 0) -> Path:
    """Write the weights, with the `config` of `build_vae` that makes their network, as safetensors.

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


def load_vae(path: str | Path) -> VAE:
    """Read back a model written by `save_vae`, ready to encode; code it names is refused (`catalogue.refuse_code`)."""
    path = Path(path)
    if not path.exists():
        raise DataError(f"expected a trained model, {path} does not exist; let its run finish first")
    try:
        with safe_open(path, framework="pt") as archive:
            header = json.loads((archive.metadata() or {})["polarised"])
            catalogue.refuse_code(header, path)
            weights = {name: archive.get_tensor(name) for name in archive.keys()}  # noqa: SIM118
        network = header["config"], tuple(header["shape"]), header["auxiliary_size"]
        # Sizes are the file's word: they are held against its weights before anything is allocated.
        with torch.device("meta"):
            asked = sum(value.numel() for value in build_vae(*network).state_dict().values())
        if asked != sum(value.numel() for value in weights.values()):
            raise DataError(f"expected the weights of its network in {path}, its config asks for {asked} numbers")
        vae = build_vae(*network)
        vae.load_state_dict(weights)
    except DataError:
        raise
    except Exception as error:
        raise DataError(f"expected a model saved by polarised, could not read {path}: {error}") from error
    return vae.eval()
