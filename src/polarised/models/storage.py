"""A trained model in one file that says itself what it is: weights and the config that builds the network."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file

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
    """Read back a model written by `save_vae`, ready to encode; nothing in the file is ever executed."""
    path = Path(path)
    if not path.exists():
        raise DataError(f"expected a trained model, {path} does not exist; let its run finish first")
    try:
        with safe_open(path, framework="pt") as archive:
            header = json.loads((archive.metadata() or {})["polarised"])
            weights = {name: archive.get_tensor(name) for name in archive.keys()}  # noqa: SIM118
        vae = build_vae(header["config"], tuple(header["shape"]), header["auxiliary_size"])
        vae.load_state_dict(weights)
    except DataError:
        raise
    except Exception as error:
        raise DataError(f"expected a model saved by polarised, could not read {path}: {error}") from error
    return vae.eval()
