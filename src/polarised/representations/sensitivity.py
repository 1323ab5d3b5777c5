"""Would another alpha have said something else? The types over a grid of thresholds, on the same evidence."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from polarised.errors import ConfigError
from polarised.representations.regime import Regime

if TYPE_CHECKING:
    import polars

__all__ = ["ALPHAS", "sensitivity", "stable_range"]

ALPHAS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3)


def sensitivity(regime: Regime, *, alphas: Sequence[float] = ALPHAS) -> "polars.DataFrame":
    """Return a row for each variable with its type at each alpha: columns variable, and ``alpha 0.05`` and so on.

    >>> from polarised.representations import Encodings, classify
    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 0.8], [0.01, 0.8]])
    >>> sensitivity(classify(encodings), alphas=(0.1, 0.3)).rows()
    [(0, 'active', 'active'), (1, 'mixed', 'passive')]
    """
    import polars

    if not alphas:
        raise ConfigError("expected at least one alpha, got none; the papers use 0.1")
    columns = {f"alpha {alpha:g}": list(regime.at(alpha).types) for alpha in alphas}
    return polars.DataFrame({"variable": np.arange(len(regime.types)), **columns})


def stable_range(regime: Regime, *, alphas: Sequence[float] = ALPHAS) -> list[tuple[float, float]]:
    """Return, for each variable, the smallest and largest alpha of the grid around the regime's own with the same type.

    >>> from polarised.representations import Encodings, classify
    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 0.8], [0.01, 0.8]])
    >>> stable_range(classify(encodings), alphas=(0.05, 0.1, 0.3))
    [(0.05, 0.3), (0.05, 0.1)]
    """
    own = regime.alpha
    below = sorted((a for a in alphas if a < own), reverse=True)
    above = sorted(a for a in alphas if a > own)
    types = {alpha: regime.at(alpha).types for alpha in (*below, *above)}

    def reach(grid: Sequence[float], variable: int) -> float:
        last = own
        for alpha in grid:
            if types[alpha][variable] != regime.types[variable]:
                break
            last = alpha
        return last

    return [(reach(below, j), reach(above, j)) for j in range(len(regime.types))]
