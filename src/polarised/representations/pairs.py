"""Pairs of variables by their types, and how often the means of a pair are correlated over training."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["THRESHOLD", "correlated_shares", "pairs_by_type"]

# What [Bonheme2023BeMoreActive, figure 12] counts as correlated.
THRESHOLD = 0.2
KINDS = (("active", "active"), ("active", "passive"), ("passive", "passive"), ("mixed", None))


def pairs_by_type(types: Sequence[str]) -> dict[str, tuple[list[int], list[int]]]:
    """Return, for each kind of pair that occurs, the variables on either side; a mixed one makes a pair mixed.

    >>> pairs_by_type(["active", "passive", "active"])
    {'active–active': ([2], [0]), 'active–passive': ([1, 2], [0, 1])}
    """
    found: dict[str, tuple[list[int], list[int]]] = {}
    for first, second in KINDS:
        cells = [
            (j, k)
            for j in range(len(types))
            for k in range(j)
            if ({types[j], types[k]} == {first, second} if second else first in (types[j], types[k]))
        ]
        if cells:
            found[f"{first}–{second or 'any'}"] = ([j for j, _ in cells], [k for _, k in cells])
    return found


def correlated_shares(
    correlations: NDArray[Any], types: Sequence[str], *, threshold: float = THRESHOLD
) -> dict[str, float]:
    """Return the share of pairs and moments with |correlation| > threshold, by the types of both variables.

    `correlations` are (moments, d, d). A variable's own count mixes in its partners, for correlation is symmetric;
    this split does not. [Bonheme2023BeMoreActive, figure 12]

    >>> correlated_shares(np.array([[[1.0, 0.5], [0.5, 1.0]], [[1.0, 0.1], [0.1, 1.0]]]), ["active", "passive"])
    {'active–passive': 0.5}
    """
    return {
        kind: float((np.abs(correlations[:, rows, columns]) > threshold).mean())
        for kind, (rows, columns) in pairs_by_type(types).items()
    }
