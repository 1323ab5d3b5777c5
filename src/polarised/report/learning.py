"""What the page of a study shows of training: moments of each run, small enough for a file that is sent around."""

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polarised.report.contents import plain
from polarised.representations.pairs import THRESHOLD, correlated_shares, pairs_by_type
from polarised.representations.timeline import Timeline

__all__ = ["learning"]

# A run of 300 moments and ten variables is kept whole; more runs or variables share the same room.
MOST_NUMBERS = 120_000
MOST_VARIABLES = 32
FEWEST_MOMENTS, MOST_MOMENTS = 24, 301
PERIODS = 12


def learning(timelines: Mapping[str, Timeline]) -> dict[str, Any]:
    """Return, for each run, its final types, and types, KL, variance ratio and correlations at moments of training.

    Counts and shares of |correlation| > 0.2 are of every moment; what is drawn over time is thinned evenly, and runs
    beyond what a page can hold are left out. Correlations are thousandths, 16-bit little-endian in base64, a moment
    after the other, the pairs (1, 0), (2, 0), (2, 1), ... of the variables shown.

    >>> timeline = Timeline()
    >>> for step in (0, 10):
    ...     timeline.update(step, [[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> learning({"a": timeline})["runs"][0]["final"]
    'ap'
    """
    watched = {name: timeline for name, timeline in timelines.items() if len(timeline) > 1}
    costs = [_cost(timeline) for timeline in watched.values()]
    affordable = int(np.searchsorted(np.cumsum(costs) * FEWEST_MOMENTS, MOST_NUMBERS, side="right"))
    kept = dict(list(watched.items())[: max(1, affordable)])
    room = MOST_NUMBERS // max(1, sum(costs[: len(kept)]))
    moments = min(MOST_MOMENTS, max(FEWEST_MOMENTS, room))
    return {
        "threshold": THRESHOLD,
        "left_out": len(watched) - len(kept),
        "runs": [_run(name, timeline, moments) for name, timeline in kept.items()],
    }


def _run(name: str, timeline: Timeline, moments: int) -> dict[str, Any]:
    types, steps, correlations = timeline.final_types, np.array(timeline.steps), timeline.correlations
    rates = timeline.state()
    shown = _shown(rates["kl"][-1])
    at = _evenly(len(steps), moments)
    rows, columns = (np.array(side, dtype=int) for side in np.tril_indices(len(shown), -1))
    pairs = correlations[np.ix_(at, shown, shown)][:, rows, columns]
    periods = [part for part in np.array_split(np.arange(len(steps)), min(PERIODS, len(steps))) if len(part)]
    shares = [correlated_shares(correlations[part], types) for part in periods]
    return {
        "run": name,
        "variables": shown,
        "final": "".join(kind[0] for kind in types),
        "moments": len(steps),
        "counts": timeline.correlated_pairs(threshold=THRESHOLD).tolist(),
        "pairs": {kind: len(own) for kind, (own, _) in pairs_by_type(types).items()},
        "shares": {
            "whole": _rounded(correlated_shares(correlations, types)),
            "second half": _rounded(correlated_shares(correlations[len(steps) // 2 :], types)),
        },
        "periods": [
            {"from": int(steps[part[0]]), "to": int(steps[part[-1]]), "shares": _rounded(share)}
            for part, share in zip(periods, shares, strict=True)
        ],
        "steps": steps[at].tolist(),
        "types": ["".join(timeline.types[t][j][0] for j in shown) for t in at],
        "kl": _numbers(rates["kl"][np.ix_(at, shown)]),
        "ratio": _numbers(rates["ratio_mean"][np.ix_(at, shown)]),
        "correlations": base64.b64encode(np.rint(pairs * 1000).astype("<i2").tobytes()).decode("ascii"),
    }


def _cost(timeline: Timeline) -> int:
    """Return how many numbers a moment of a run takes on the page."""
    variables = min(MOST_VARIABLES, len(timeline.final_types))
    return variables * (variables - 1) // 2 + 3 * variables


def _shown(rates: NDArray[Any]) -> list[int]:
    """Return the variables to show: all, or as many as there is room for from the most informative to the least."""
    order = np.argsort(-np.nan_to_num(rates), kind="stable")
    return sorted(int(j) for j in order[_evenly(len(order), MOST_VARIABLES)])


def _evenly(count: int, most: int) -> list[int]:
    return sorted(set(np.linspace(0, count - 1, min(count, most)).round().astype(int).tolist()))


def _numbers(values: NDArray[Any]) -> list[list[float | None]]:
    return [[None if value is None else float(f"{value:.3g}") for value in plain(row)] for row in values]


def _rounded(shares: Mapping[str, float]) -> dict[str, float]:
    return {kind: round(share, 4) for kind, share in shares.items()}
