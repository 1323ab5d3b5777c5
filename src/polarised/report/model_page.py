"""What the page of one model holds, as plain JSON: types by every rule, histograms, scores, correlations, pictures."""

import math
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polarised._io import plain
from polarised.metrics import correlation
from polarised.metrics.redundancy import information_floor
from polarised.regime._rules import picture
from polarised.regime.classify import RULES
from polarised.report.theme import strip

if TYPE_CHECKING:
    import polars

    from polarised.diagnosis import Diagnosis, Pictures
    from polarised.regime import Encodings, Regime
    from polarised.regime.classify import Rule

__all__ = ["model", "shown_correlations", "table"]

BINS = 32
# What a page can show at a glance and carry in its three megabytes; the tables below always hold every variable.
MOST_VARIABLES = 64
MOST_STEPS = 600
MOST_PAIRS = 12
MOST_PIXELS = 1_500_000
# The slider of the page, in steps of alpha from the first.
ALPHA: dict[str, Any] = {"step": 0.005, "places": 99}


def model(diagnosis: "Diagnosis") -> dict[str, Any]:
    """Return what the page shows of one model.

    Args:
        diagnosis: The diagnosis of the model.

    Returns:
        What the scripts of the page read, as plain JSON types.

    >>> from polarised import diagnose, Encodings
    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> model(diagnose(encodings))["alpha"]
    0.1
    """
    encodings, regime = diagnosis.encodings, diagnosis.regime
    sampled = encodings.sample(seed=0)
    # The most informative variables, in the order of their index.
    by_rate = np.argsort(-np.nan_to_num(regime.statistics.kl, posinf=sys.float_info.max), kind="stable")
    shown = sorted(int(j) for j in by_rate[:MOST_VARIABLES])
    return {
        "name": diagnosis.name,
        "headline": diagnosis.headline,
        "advice": list(diagnosis.advice),
        "rows": regime.rows,
        "inputs": regime.inputs,
        "alpha": regime.alpha,
        "rule": regime.rule,
        "rules": [_rule(regime, rule) for rule in RULES],
        "learned_prior": not encodings.has_standard_prior,
        "variables": _variables(regime),
        "histograms": _histograms(encodings, sampled),
        "scores": table(diagnosis.scores),
        "information_floor": information_floor(len(encodings)),
        "correlations": {
            "variables": shown,
            "mean": _correlations(encodings.mean[:, shown]),
            "sampled": _correlations(sampled[:, shown]),
        },
        "pictures": _pictures(diagnosis.pictures, by_rate),
        "decoder_use": None if diagnosis.decoder_use is None else table(diagnosis.decoder_use),
        "history": None if diagnosis.history is None else table(_thinned(diagnosis.history)),
        "forecast": None if diagnosis.forecast is None else table(diagnosis.forecast),
        "dynamics": None if diagnosis.snapshots is None else _dynamics(diagnosis.snapshots),
        "other_rules": None if diagnosis.other_rules is None else table(diagnosis.other_rules),
        "downstream": None if diagnosis.downstream is None else table(diagnosis.downstream),
        "provenance": plain(diagnosis.provenance),
    }


def table(frame: "polars.DataFrame") -> dict[str, Any]:
    """Return a frame as its column names and rows.

    Args:
        frame: The table.

    Returns:
        Plain JSON types, numbers with seven digits.

    >>> import polars
    >>> table(polars.DataFrame({"step": [1], "loss": [float("nan")]}))
    {'columns': ['step', 'loss'], 'rows': [[1, 'nan']]}
    """
    return {"columns": frame.columns, "rows": [[_rounded(plain(cell)) for cell in row] for row in frame.iter_rows()]}


def _rounded(value: Any) -> Any:
    return float(f"{value:.7g}") if isinstance(value, float) else value


def _variables(regime: "Regime") -> dict[str, Any]:
    frame = regime.table()
    return {"columns": frame.columns, "rows": [plain(list(row)) for row in frame.iter_rows()]}


def _rule(regime: "Regime", rule: "Rule") -> dict[str, Any]:
    """Return how a rule types the variables at every place of the slider, and how the page shows it.

    ``types`` has an entry for each place where some type changes: its number and the initials from there on.
    """
    shown = picture(rule, use_shift=regime.use_shift, decoder=regime.decoder is not None)
    statistics = regime.statistics
    if rule == "standard":
        level, spread = statistics.variance_mean, statistics.variance_variance
    else:
        rest = 1.0 if regime.rest_ratio is None or rule == "relative" else np.nan_to_num(regime.rest_ratio, nan=1.0)
        level, spread = statistics.ratio_mean / rest, statistics.ratio_variance / np.square(rest)
    changes: list[tuple[int, str]] = []
    for place in range(ALPHA["places"]):
        initials = _initials(regime.types_at(round((place + 1) * ALPHA["step"], 3), rule=rule))
        if not changes or changes[-1][1] != initials:
            changes.append((place, initials))
    return {
        "name": rule,
        **asdict(shown),
        "levels": plain(level),
        "spreads": plain(spread),
        "made": _initials(regime.types_at(regime.alpha, rule=rule)),
        "types": changes,
    }


def _initials(types: Sequence[str]) -> str:
    return "".join(kind[0] for kind in types)


def _histograms(encodings: "Encodings", sampled: NDArray[Any]) -> list[dict[str, Any]]:
    """Counts of mean and sample over one range, so that they compare by eye, and of the variance from zero."""
    histograms = []
    for j in range(encodings.latents):
        mean, sample, variance = encodings.mean[:, j], sampled[:, j], encodings.variance[:, j]
        low, high = float(min(mean.min(), sample.min())), float(max(mean.max(), sample.max()))
        # Where values differ by less than their last digits, or no number is wide enough, one bar shows them.
        if not 1e-9 * max(1.0, abs(low), abs(high)) < high - low < np.inf:
            wide = min(2 * max(abs(low), abs(high)), 8e307)
            low, high = (low - 0.5, high + 0.5) if wide < 1e9 else (-wide, wide)
        top = max(float(variance.max()), float(np.max(encodings.prior_variance[..., j])), 1e-12)
        histograms.append(
            {
                "low": low,
                "high": high,
                "top": top,
                "mean": np.histogram(mean, BINS, (low, high))[0].tolist(),
                "sampled": np.histogram(sample, BINS, (low, high))[0].tolist(),
                "variance": np.histogram(variance, BINS, (0.0, min(top * 1.0001, 8e307)))[0].tolist(),
            }
        )
    return histograms


def _correlations(codes: NDArray[Any]) -> list[list[float | None]]:
    return [[None if math.isnan(value) else round(value, 4) for value in row] for row in shown_correlations(codes)]


def _pictures(pictures: "Pictures | None", by_rate: NDArray[Any]) -> dict[str, Any] | None:
    if pictures is None or pictures.originals.ndim != 4:
        return None
    originals, reconstructions = pictures.originals[:MOST_PAIRS], pictures.reconstructions[:MOST_PAIRS]
    frame = int(np.prod(pictures.traversals.shape[1:]))
    affordable = max(8, MOST_PIXELS // max(frame, 1))
    variables = sorted(int(j) for j in by_rate[: min(affordable, MOST_VARIABLES)])
    return {
        "height": int(originals.shape[-2]),
        "width": int(originals.shape[-1]),
        "pairs": len(originals),
        "originals": strip(originals),
        "reconstructions": strip(reconstructions),
        "values": [round(float(value), 4) for value in pictures.values],
        "traversals": {str(j): strip(pictures.traversals[j]) for j in variables},
        # How much the picture moves along each variable: the mean spread of a pixel over the walk.
        "movement": [round(float(walk.std(axis=0).mean()), 6) for walk in pictures.traversals],
    }


def _thinned(frame: "polars.DataFrame") -> "polars.DataFrame":
    if len(frame) <= MOST_STEPS:
        return frame
    rows = np.unique(np.linspace(0, len(frame) - 1, MOST_STEPS).round().astype(int))
    thinned: polars.DataFrame = frame[rows.tolist()]
    return thinned


def _dynamics(snapshots: "polars.DataFrame") -> dict[str, Any]:
    """Return steps, a string of type initials for each, and the information of each variable."""
    frame = snapshots.sort("step", "variable")
    steps = frame["step"].unique().sort().to_list()
    if len(steps) > MOST_STEPS:
        steps = [steps[i] for i in np.unique(np.linspace(0, len(steps) - 1, MOST_STEPS).round().astype(int))]
    parts = {key[0]: part for key, part in frame.partition_by("step", as_dict=True).items()}
    return {
        "steps": [int(step) for step in steps],
        "types": [_initials(parts[step]["type"].to_list()) for step in steps],
        "kl": [[_rounded(plain(value)) for value in parts[step]["kl"]] for step in steps],
    }


def shown_correlations(codes: NDArray[Any]) -> NDArray[np.float64]:
    """Return the correlations (d, d) as a matrix shows them: unknown (NaN) where a variable never changes.

    Args:
        codes: Codes (n, d).

    Returns:
        The correlations.

    >>> shown_correlations(np.array([[0.0, 5.0], [1.0, 5.0]]))
    array([[ 1., nan],
           [nan, nan]])
    """
    constant = np.ptp(codes, axis=0) == 0
    matrix = correlation(codes)
    matrix[constant] = np.nan
    matrix[:, constant] = np.nan
    return matrix
