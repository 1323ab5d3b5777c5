"""Adapters: any VAE → Encodings, the boundary between torch and NumPy.

``from_*`` returns `Encodings`; ``load_*`` returns our own `VAE` with published weights, including the decoder.
No adapter imports its library, or torch, before it is used. The Lightning callback, which must subclass Lightning's
own class, is `polarised.adapters.lightning.RegimeCallback`.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polarised.adapters.arrays import from_arrays
    from polarised.adapters.callables import from_callable
    from polarised.adapters.diffusers import from_diffusers
    from polarised.adapters.published import (
        from_disentanglement_lib,
        from_disentangling_vae,
        load_disentanglement_lib,
        load_disentangling_vae,
    )
    from polarised.adapters.pythae import from_pythae
    from polarised.adapters.scvi import from_scvi
    from polarised.adapters.targets import Target, open_target
    from polarised.models.encoding import decoder_use, from_vae, pictures

_HOMES = {
    "Target": "adapters.targets",
    "decoder_use": "models.encoding",
    "from_arrays": "adapters.arrays",
    "from_callable": "adapters.callables",
    "from_diffusers": "adapters.diffusers",
    "from_disentanglement_lib": "adapters.published",
    "from_disentangling_vae": "adapters.published",
    "from_pythae": "adapters.pythae",
    "from_scvi": "adapters.scvi",
    "from_vae": "models.encoding",
    "load_disentanglement_lib": "adapters.published",
    "load_disentangling_vae": "adapters.published",
    "open_target": "adapters.targets",
    "pictures": "models.encoding",
}

__all__ = [
    "Target",
    "decoder_use",
    "from_arrays",
    "from_callable",
    "from_diffusers",
    "from_disentanglement_lib",
    "from_disentangling_vae",
    "from_pythae",
    "from_scvi",
    "from_vae",
    "load_disentanglement_lib",
    "load_disentangling_vae",
    "open_target",
    "pictures",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"polarised.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'polarised.adapters' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
