"""Which latent variables of a VAE are used? Diagnose, compare, prune, train, reproduce.

Five ideas, left to right; everything else is a function between two of them::

    data.Dataset -> models.VAE -> objectives -> Encodings -> Regime
    images,         encoder,      what a step   mean and      which variables are
    factors         decoder,      costs         variance of   active, mixed, passive,
                    prior                       q(z|x)        and why

Look: `diagnose`, `classify`, `Evidence`, `compare`, `evaluate`, `Timeline`. Act: `train`, `prune`, `ActiveVariables`.
Study: `study`, `report`, `data`, `theory`, `demo`. Every name is loaded on first use: importing the package is quick, and
torch is needed only where a network runs.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polarised import adapters, data, metrics, models, objectives, registry, report, study, theory, training
    from polarised.annotation import annotate
    from polarised.demonstration import Demonstration, demo
    from polarised.diagnosis import Diagnosis, diagnose
    from polarised.errors import ConfigError, DataError, DownloadError, PolarisedError
    from polarised.metrics.comparison import compare
    from polarised.metrics.evaluation import evaluate
    from polarised.models.vae import VAE, build_vae, load_vae, save_vae
    from polarised.pruning import PruningReport, prune
    from polarised.regime import Encodings, Evidence, Regime, classify
    from polarised.regime.selection import ActiveVariables
    from polarised.regime.timeline import Timeline
    from polarised.registry import register
    from polarised.training.loop import train

__version__ = "0.1.0"

_HOMES = {
    "ActiveVariables": "regime.selection",
    "ConfigError": "errors",
    "DataError": "errors",
    "Demonstration": "demonstration",
    "Diagnosis": "diagnosis",
    "DownloadError": "errors",
    "Encodings": "regime",
    "Evidence": "regime",
    "PolarisedError": "errors",
    "PruningReport": "pruning",
    "Regime": "regime",
    "Timeline": "regime.timeline",
    "VAE": "models.vae",
    "annotate": "annotation",
    "build_vae": "models.vae",
    "classify": "regime",
    "compare": "metrics.comparison",
    "demo": "demonstration",
    "diagnose": "diagnosis",
    "evaluate": "metrics.evaluation",
    "load_vae": "models.vae",
    "prune": "pruning",
    "register": "registry",
    "save_vae": "models.vae",
    "train": "training.loop",
}
_MODULES = (
    "adapters",
    "data",
    "metrics",
    "models",
    "objectives",
    "registry",
    "report",
    "study",
    "theory",
    "training",
)

__all__ = [
    "VAE",
    "ActiveVariables",
    "ConfigError",
    "DataError",
    "Demonstration",
    "Diagnosis",
    "DownloadError",
    "Encodings",
    "Evidence",
    "PolarisedError",
    "PruningReport",
    "Regime",
    "Timeline",
    "adapters",
    "annotate",
    "build_vae",
    "classify",
    "compare",
    "data",
    "demo",
    "diagnose",
    "evaluate",
    "load_vae",
    "metrics",
    "models",
    "objectives",
    "prune",
    "register",
    "registry",
    "report",
    "save_vae",
    "study",
    "theory",
    "train",
    "training",
]


def __getattr__(name: str) -> Any:
    # Names are loaded on first use (PEP 562), so that importing the package costs nothing.
    if name in _HOMES:
        return getattr(importlib.import_module(f"polarised.{_HOMES[name]}"), name)
    if name in _MODULES:
        return importlib.import_module(f"polarised.{name}")
    raise AttributeError(f"module 'polarised' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
