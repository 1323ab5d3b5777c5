"""Which latent variables of a VAE are alive? Diagnose, compare, prune, train, reproduce.

Five ideas, left to right; everything else is a function between two of them::

    data.Dataset -> models.VAE -> objectives -> Encodings -> Regime
    images,         encoder,      what a step   mean and      which variables are
    factors         decoder,      costs         variance of   active, mixed, passive,
                    prior                       q(z|x)        and why

Below `Encodings` there is no torch: diagnosis imports in a blink and runs where torch is not installed.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polarised import adapters, data, metrics, models, objectives, training
    from polarised.curing import Cure, cure
    from polarised.diagnosis import Diagnosis, diagnose
    from polarised.metrics.comparison import compare
    from polarised.regime import Encodings, Evidence, Regime, classify
    from polarised.regime.forecast import Forecast, forecast
    from polarised.regime.selection import ActiveVariables

__version__ = "0.1.0"

_HOMES = {
    "ActiveVariables": "polarised.regime.selection",
    "Cure": "polarised.curing",
    "Diagnosis": "polarised.diagnosis",
    "Encodings": "polarised.regime",
    "Evidence": "polarised.regime",
    "Forecast": "polarised.regime.forecast",
    "Regime": "polarised.regime",
    "classify": "polarised.regime",
    "compare": "polarised.metrics.comparison",
    "cure": "polarised.curing",
    "diagnose": "polarised.diagnosis",
    "forecast": "polarised.regime.forecast",
}
_MODULES = ("adapters", "data", "metrics", "models", "objectives", "training")

__all__ = [
    "ActiveVariables",
    "Cure",
    "Diagnosis",
    "Encodings",
    "Evidence",
    "Forecast",
    "Regime",
    "adapters",
    "classify",
    "compare",
    "cure",
    "data",
    "diagnose",
    "forecast",
    "metrics",
    "models",
    "objectives",
    "training",
]


def __getattr__(name: str) -> Any:
    # Names are loaded on first use (PEP 562), so that importing the package costs nothing.
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"polarised.{name}")
    raise AttributeError(f"module 'polarised' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
