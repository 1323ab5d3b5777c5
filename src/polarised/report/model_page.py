"""The data of the page of one model, as plain JSON: types by every rule, histograms, scores, correlations, images."""

import base64
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

__all__ = ["model", "packed", "shown_correlations", "table"]

BINS = 32
# Up to this many variables are shown with all digits; of more, columns are packed and some are left out.
MOST_WHOLE = 256
# What a page can show at a glance; the table always holds every variable.
MOST_HISTOGRAMS, MOST_VARIABLES, MOST_LANES, MOST_STEPS, MOST_PAIRS = 256, 64, 64, 600, 12
MOST_PIXELS = 1_500_000
# The slider of the page, in steps of alpha from the first.
ALPHA: dict[str, Any] = {"step": 0.005, "places": 99}
LETTERS = np.array(["a", "m", "p"])


def model(diagnosis: "Diagnosis") -> dict[str, Any]:
    """Return the data of the page of one model.

    Args:
        diagnosis: The diagnosis of the model.

    Returns:
        The data for the scripts of the page, as plain JSON types.

    >>> from polarised import diagnose, Encodings
    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> model(diagnose(encodings))["alpha"]
    0.1
    """
    encodings, regime = diagnosis.encodings, diagnosis.regime
    sampled = encodings.sample(seed=0)
    # The most informative variables, ordered by index.
    by_rate = np.argsort(-np.nan_to_num(regime.statistics.kl, posinf=sys.float_info.max), kind="stable")
    shown = sorted(int(j) for j in by_rate[:MOST_VARIABLES])
    return {
        "name": diagnosis.name,
        "headline": diagnosis.headline,
        "advice": list(diagnosis.advice),
        "reading": diagnosis.reading,
        "rows": regime.rows,
        "inputs": regime.inputs,
        "kept": len(encodings),
        "alpha": regime.alpha,
        "rule": regime.rule,
        "rules": [_rule(regime, rule) for rule in RULES],
        "learned_prior": not encodings.has_standard_prior,
        "variables": _whole(regime.table()) if len(regime.types) <= MOST_WHOLE else packed(regime.table()),
        "groups": [{"name": name, "first": min(of), "last": max(of)} for name, of in diagnosis.groups.items() if of],
        "histograms": _histograms(encodings, sampled, _chosen_evenly(by_rate, MOST_HISTOGRAMS)),
        "scores": table(diagnosis.scores),
        "information_floor": information_floor(len(encodings)),
        "correlations": {
            "variables": shown,
            "mean": _correlations(encodings.mean[:, shown]),
            "sampled": _correlations(sampled[:, shown]),
        },
        "pictures": _pictures(diagnosis.pictures, by_rate),
        "decoder_use": _table_of(diagnosis.decoder_use),
        "history": None if diagnosis.history is None else table(_thinned(diagnosis.history)),
        "forecast": _table_of(diagnosis.forecast),
        "dynamics": None if diagnosis.snapshots is None else _dynamics(diagnosis.snapshots, by_rate),
        "other_rules": _table_of(diagnosis.other_rules),
        "downstream": _table_of(diagnosis.downstream),
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


def packed(frame: "polars.DataFrame") -> dict[str, Any]:
    """Return a large frame in a tenth of the space: numbers as 32-bit floats, strings as indices into a list.

    Args:
        frame: The table: numbers, texts and flags.

    Returns:
        The columns, the number of rows, and each column in base64 (little-endian), strings with their list.

    >>> import polars
    >>> packed(polars.DataFrame({"kl": [1.0, 2.0], "type": ["active", "active"]}))["packed"]["type"]["words"]
    ['active']
    """
    import polars

    columns: dict[str, Any] = {}
    for name in frame.columns:
        values = frame[name]
        if values.dtype.is_numeric():
            columns[name] = {"numbers": _base64(values.cast(float).fill_null(math.nan).to_numpy(), "<f4")}
        else:
            words = values.cast(str).unique(maintain_order=True).to_list()
            place = {word: i for i, word in enumerate(words)}
            index = np.array([place[word] for word in values.cast(str)])
            columns[name] = {"words": words, "index": _base64(index, "<u2" if len(words) < 65_536 else "<u4")}
            columns[name]["flags"] = values.dtype == polars.Boolean
    return {"columns": frame.columns, "count": len(frame), "packed": columns}


def _base64(values: NDArray[Any], kind: str) -> str:
    with np.errstate(over="ignore"):
        return base64.b64encode(values.astype(kind).tobytes()).decode("ascii")


def _whole(frame: "polars.DataFrame") -> dict[str, Any]:
    return {"columns": frame.columns, "rows": [plain(list(row)) for row in frame.iter_rows()]}


def _table_of(frame: "polars.DataFrame | None") -> dict[str, Any] | None:
    return None if frame is None else table(frame) if len(frame) <= MOST_STEPS else packed(frame)


def _rule(regime: "Regime", rule: "Rule") -> dict[str, Any]:
    """Return the types by a rule at every position of the slider, and how the page shows them.

    ``start`` has the initials at the first position; ``changes`` lists the variables whose type changes at a position.
    """
    shown = picture(rule, use_shift=regime.use_shift, decoder=regime.decoder is not None)
    statistics = regime.statistics
    if rule == "standard":
        level, spread = statistics.variance_mean, statistics.variance_variance
    else:
        rest = 1.0 if regime.rest_ratio is None or rule == "relative" else np.nan_to_num(regime.rest_ratio, nan=1.0)
        level, spread = statistics.ratio_mean / rest, statistics.ratio_variance / np.square(rest)
    alphas = [round((place + 1) * ALPHA["step"], 3) for place in range(ALPHA["places"])]
    start: NDArray[Any] | None = None
    changes: list[tuple[int, str, list[int]]] = []
    for place, types in enumerate(regime.types_along(alphas, rule=rule)):
        if start is None:
            start = before = types
        for kind, letter in enumerate(LETTERS):
            other = np.flatnonzero((types == kind) & (before != kind))
            if other.size:
                changes.append((place, str(letter), other.tolist()))
        before = types
    (made,) = regime.types_along([regime.alpha], rule=rule)
    few = len(regime.types) <= MOST_WHOLE
    return {
        "name": rule,
        **asdict(shown),
        "levels": plain(level) if few else {"numbers": _base64(level, "<f4")},
        "spreads": plain(spread) if few else {"numbers": _base64(spread, "<f4")},
        "made": "".join(LETTERS[made]),
        "start": "" if start is None else "".join(LETTERS[start]),
        "changes": changes,
    }


def _chosen_evenly(by_rate: NDArray[Any], most: int) -> list[int]:
    """Return all variables, or if there are very many, mostly the most informative ones and a sample of the others."""
    if len(by_rate) <= most:
        return sorted(by_rate.tolist())
    evenly = np.linspace(0, len(by_rate) - 1, most // 4).round().astype(int)
    return sorted({*by_rate[: most - len(evenly)].tolist(), *by_rate[evenly].tolist()})


def _histograms(encodings: "Encodings", sampled: NDArray[Any], variables: Sequence[int]) -> list[dict[str, Any]]:
    """Return histograms of mean and sample over the same range, so that they can be compared, and of the variance."""
    histograms = []
    for j in variables:
        # In single precision, bins may be narrower than the last digit.
        own = (encodings.mean[:, j], sampled[:, j], encodings.variance[:, j])
        mean, sample, variance = (values.astype(np.float64) for values in own)
        low, high = float(min(mean.min(), sample.min())), float(max(mean.max(), sample.max()))
        # If values differ by less than their last digit, or the range overflows, one bar shows them.
        if not 1e-9 * max(1.0, abs(low), abs(high)) < high - low < np.inf:
            wide = min(2 * max(abs(low), abs(high)), 8e307)
            low, high = (low - 0.5, high + 0.5) if wide < 1e9 else (-wide, wide)
        top = max(float(variance.max()), float(np.max(encodings.prior_variance[..., j])), 1e-12)
        histograms.append(
            {
                "variable": j,
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
        # How much the image changes along each variable: the mean standard deviation of a pixel over the traversal.
        "movement": [round(float(walk.std(axis=0).mean()), 6) for walk in pictures.traversals],
    }


def _thinned(frame: "polars.DataFrame") -> "polars.DataFrame":
    if len(frame) <= MOST_STEPS:
        return frame
    rows = np.unique(np.linspace(0, len(frame) - 1, MOST_STEPS).round().astype(int))
    thinned: polars.DataFrame = frame[rows.tolist()]
    return thinned


def _dynamics(snapshots: "polars.DataFrame", by_rate: NDArray[Any]) -> dict[str, Any]:
    """Return the steps, a string of type initials for each, and the information of each shown variable."""
    import polars

    shown = _chosen_evenly(by_rate, MOST_LANES)
    frame = snapshots.filter(polars.col("variable").is_in(shown)).sort("step", "variable")
    steps = frame["step"].unique().sort().to_list()
    if len(steps) > MOST_STEPS:
        steps = [steps[i] for i in np.unique(np.linspace(0, len(steps) - 1, MOST_STEPS).round().astype(int))]
    parts = {key[0]: part for key, part in frame.partition_by("step", as_dict=True).items()}
    return {
        "variables": shown,
        "steps": [int(step) for step in steps],
        "types": ["".join(kind[0] for kind in parts[step]["type"]) for step in steps],
        "kl": [[_rounded(plain(value)) for value in parts[step]["kl"]] for step in steps],
    }


def shown_correlations(codes: NDArray[Any]) -> NDArray[np.float64]:
    """Return the correlations (d, d); unknown (NaN) for a variable that never changes.

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
