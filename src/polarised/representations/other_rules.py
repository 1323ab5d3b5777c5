"""How others decide which latent variables count, side by side, so that one sees why two papers count differently."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polarised.representations.encodings import Encodings
from polarised.representations.regime import Regime

if TYPE_CHECKING:
    import polars

__all__ = ["counts_by_rule", "other_rules"]


def other_rules(regime: Regime, *, largest_mean: NDArray[Any] | None = None) -> "polars.DataFrame":
    """Return a row for each variable and a column for each rule: True where the rule counts the variable as used.

        relative, standard     active or mixed by ours and by [Bonheme2023BeMoreActive, section 4]
        active_unit            Var(E[z_j|x]) > 0.01  [Burda2016, section 4.3]
        kl                     E[KL_j] > 0.01 nats, the usual threshold on the rate of a variable
        factor_vae             standard deviation of the mean >= 0.05  [Kim2018, section 4]
        not_vanished           max |mean_j| >= 0.1, the default of DRVI's code (0.5 in its tutorials)  [Moinfar2024];
                               only with `largest_mean`, the largest |mean| of each variable

    >>> from polarised.representations import classify
    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> other_rules(classify(encodings))["active_unit"].to_list()
    [True, False]
    """
    import polars

    statistics = regime.statistics
    # Published code of the FactorVAE score divides by n - 1.
    deviation = np.sqrt(statistics.mean_variance * regime.rows / (regime.rows - 1))
    columns: dict[str, Any] = {"variable": np.arange(len(regime.types))}
    for rule in ("relative", "standard"):
        types = regime.types if regime.rule == rule else regime.at(regime.alpha, rule=rule).types
        columns[rule] = [kind != "passive" for kind in types]
    columns["active_unit"] = statistics.mean_variance > 0.01
    columns["kl"] = statistics.kl > 0.01
    columns["factor_vae"] = deviation >= 0.05
    if largest_mean is not None:
        columns["not_vanished"] = np.asarray(largest_mean) >= 0.1
    return polars.DataFrame(columns)


def counts_by_rule(regime: Regime, encodings: Encodings | None = None) -> dict[str, int]:
    """Return how many variables each rule counts as used.

    >>> from polarised.representations import classify
    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> counts_by_rule(classify(encodings), encodings)
    {'relative': 1, 'standard': 1, 'active_unit': 1, 'kl': 1, 'factor_vae': 1, 'not_vanished': 1}
    """
    largest = None if encodings is None else np.abs(encodings.mean).max(axis=0)
    table = other_rules(regime, largest_mean=largest).drop("variable")
    return {rule: int(table[rule].sum()) for rule in table.columns}
