"""Why a variable is of its type, in a few words: where it rests, how much of it is noise, what the decoder does."""

from typing import TYPE_CHECKING

import numpy as np

from polarised.regime.states import ONE, TWO

if TYPE_CHECKING:
    from polarised.regime.classify import Regime

__all__ = ["how_mixed", "reasons"]

# A mean off the prior's by this much for all inputs (in prior variances) was paid for and tells none apart.
PARKED = 1.0
# Shares of inputs between which a state is called rare; beyond, Otsu's split finds it.
RAREST, RARE = 0.01, 0.1


def reasons(regime: "Regime") -> tuple[str, ...]:
    """Return the type of each variable with what makes it so.

    >>> from polarised.regime import Encodings, classify
    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> reasons(classify(encodings))
    ('active: 3 % noise', 'passive: posterior = prior')
    """
    said = []
    for j, kind in enumerate(regime.types):
        words = {"passive": _passive, "active": _active, "mixed": how_mixed}[kind](regime, j)
        said.append(f"{kind}: {words}{_decoder(regime, j)}{_doubt(regime, j)}")
    return tuple(said)


def _passive(regime: "Regime", j: int) -> str:
    statistics, alpha = regime.statistics, regime.alpha
    level, shift, noise = statistics.ratio_mean[j], statistics.shift[j], statistics.noise_share[j]
    if abs(level - 1) <= alpha and statistics.ratio_variance[j] <= alpha and shift <= alpha:
        return "posterior = prior"
    rest = 1.0 if regime.rest_ratio is None else float(regime.rest_ratio[j])
    if np.isfinite(rest) and abs(rest - 1) > alpha and 0.8 <= level / rest <= 1.6:
        return f"rests at this objective's own variance {_short(statistics.variance_mean[j])}"
    if _offset(regime, j) > PARKED and abs(level - 1) <= 0.25:
        return _parked(shift)
    if noise >= 0.9:
        return f"{_percent(noise)} noise"
    if regime.decoder is not None and regime.rule == "used":
        return f"the decoder does not read it ({_percent(noise)} noise)"
    if abs(level - 1) <= alpha:
        return f"as wide as the prior, {_percent(noise)} noise"
    return f"as wide as an unused variable, {_percent(noise)} noise"


def _active(regime: "Regime", j: int) -> str:
    return f"{_percent(regime.statistics.noise_share[j])} noise"


def how_mixed(regime: "Regime", j: int) -> str:
    """Return in what way a used variable is not active: on for some inputs, weak for all, or off the prior's mean."""
    statistics, states = regime.statistics, regime.evidence.two_states()
    rest = 1.0 if regime.rest_ratio is None else float(np.nan_to_num(regime.rest_ratio[j], nan=1.0))
    if j in regime.prior_driven:
        return "follows the prior, which knows the input"
    on = f"{100 * states.on[j]:.0f} ± {max(100 * states.on_error[j], 0.5):.0f} %"
    apart = states.ratio_off[j] >= 2 * states.ratio_on[j]
    if states.separation[j] >= TWO and apart and RAREST < states.on[j] < 1 - RAREST:
        if states.ratio_off[j] >= 0.75 * rest:
            return f"on for {on} of the inputs"
        return f"strong for {on} of the inputs, weak for the rest"
    rare = float(regime.evidence.share_below(0.2 * rest)[j])
    level = statistics.ratio_mean[j]
    if RAREST <= rare <= RARE and level >= 0.8 * rest:
        return f"on for few inputs ({100 * rare:.0f} %)"
    if _offset(regime, j) > PARKED and abs(level - 1) <= 0.25:
        return f"weak for all; {_parked(statistics.shift[j])}"
    if level >= 1 - regime.alpha:
        return f"no narrower than the prior, yet {_percent(1 - statistics.noise_share[j])} of it is not noise"
    if states.separation[j] >= ONE and apart:
        return f"weak for all, perhaps stronger for {on} of the inputs"
    return "weak for all"


def _offset(regime: "Regime", j: int) -> float:
    """How far the mean is off the prior's for all inputs alike: E[s] less what varies, in prior variances."""
    statistics = regime.statistics
    prior = statistics.variance_mean[j] / max(statistics.ratio_mean[j], 1e-30)
    return float(statistics.shift[j] - statistics.mean_variance[j] / max(prior, 1e-30))


def _parked(shift: float) -> str:
    return f"capacity spent on its mean: σ² ≈ prior, E[μ²] = {_short(shift)}"


def _decoder(regime: "Regime", j: int) -> str:
    if regime.decoder is None:
        return ""
    use = regime.decoder
    rise, error = float(use.permuted[j]), float(use.permuted_error[j])
    said = f", decoder loses {_nats(rise)} ± {max(error, 0.01):.{_places(rise)}f} nats"
    if regime.types[j] == "passive" and use.redrawn[j] - 2 * use.redrawn_error[j] > use.threshold >= rise:
        constant = regime.statistics.noise_share[j] >= 0.9
        said += " (constant, but not at the prior)" if constant else " (not at the prior)"
    return said


def _doubt(regime: "Regime", j: int) -> str:
    if j not in regime.doubtful:
        return ""
    if regime.decoder is not None:
        return f"; doubtful, {regime.decoder.threshold:.2g} nats decide"
    if regime.types[j] == "passive":
        return "; doubtful, its mean moves: the decoder would tell"
    return "; doubtful, unused variables can look so: the decoder would tell"


def _places(rise: float) -> int:
    return 0 if abs(rise) >= 10 else 1 if abs(rise) >= 1 else 2


def _nats(rise: float) -> str:
    # No minus zero: a rise below its rounding is none.
    return f"{rise:.{_places(rise)}f}".replace("-0.00", "0.00")


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if 0.005 <= share <= 0.995 or share in (0.0, 1.0) else f"{100 * share:.1f} %"


def _short(value: float) -> str:
    return f"{value:.2g}" if abs(value) < 100 else f"{value:.0f}"
