"""Which latent variables of a VAE are used? Diagnose, compare, prune, train, reproduce.

The library has five main concepts; everything else is a function between two of them::

    data.Dataset -> models.VAE -> objectives -> Encodings -> Regime
    images,         encoder,      the loss of   mean and      which variables are
    factors         decoder,      a training    variance of   active, mixed, passive,
                    prior         step          q(z|x)        and why

- Look: `diagnose`, `forecast`, `classify`, `Evidence`, `compare`, `evaluate`, `Timeline`.
- Act: `train`, `cure`, `prune`, `ActiveVariables`.
- Study: `study`, `report`, `data`, `theory`, `demo`.

Names are loaded on first use: importing the package is fast, and torch is needed only to run a network.
"""

import importlib
from typing import TYPE_CHECKING, Any

from polarised._version import __version__ as __version__

if TYPE_CHECKING:
    from polarised import adapters, data, metrics, models, objectives, registry, report, study, theory, training
    from polarised.curing import Cure, cure
    from polarised.demonstration import Demonstration, demo
    from polarised.diagnosis import Diagnosis, annotate, diagnose
    from polarised.errors import ConfigError, DataError, DownloadError, MissingFileError, PolarisedError
    from polarised.metrics.evaluation import compare, evaluate
    from polarised.models.vae import VAE, build_vae, load_vae, save_vae
    from polarised.pruning import PruningReport, prune
    from polarised.regime import Encodings, Evidence, Regime, classify
    from polarised.regime.forecast import Forecast, forecast
    from polarised.regime.selection import ActiveVariables
    from polarised.regime.timeline import Timeline
    from polarised.registry import register
    from polarised.training.loop import train

_HOMES = {
    "ActiveVariables": "regime.selection",
    "ConfigError": "errors",
    "Cure": "curing",
    "DataError": "errors",
    "Demonstration": "demonstration",
    "Diagnosis": "diagnosis",
    "DownloadError": "errors",
    "Encodings": "regime",
    "Evidence": "regime",
    "Forecast": "regime.forecast",
    "MissingFileError": "errors",
    "PolarisedError": "errors",
    "PruningReport": "pruning",
    "Regime": "regime",
    "Timeline": "regime.timeline",
    "VAE": "models.vae",
    "annotate": "diagnosis",
    "build_vae": "models.vae",
    "classify": "regime",
    "compare": "metrics.evaluation",
    "cure": "curing",
    "demo": "demonstration",
    "diagnose": "diagnosis",
    "evaluate": "metrics.evaluation",
    "forecast": "regime.forecast",
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
    "Cure",
    "DataError",
    "Demonstration",
    "Diagnosis",
    "DownloadError",
    "Encodings",
    "Evidence",
    "Forecast",
    "MissingFileError",
    "PolarisedError",
    "PruningReport",
    "Regime",
    "Timeline",
    "adapters",
    "annotate",
    "build_vae",
    "classify",
    "compare",
    "cure",
    "data",
    "demo",
    "diagnose",
    "evaluate",
    "forecast",
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
    # Names are loaded on first use (PEP 562), so that importing the package is fast.
    if name in _HOMES:
        return getattr(importlib.import_module(f"polarised.{_HOMES[name]}"), name)
    if name in _MODULES:
        return importlib.import_module(f"polarised.{name}")
    raise AttributeError(f"module 'polarised' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
