"""Recovered sources up to order and scale."""

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from polarised.errors import DataError
from polarised.metrics.gaussian import correlation
from polarised.metrics.inputs import Floats, Integers, checked_codes

__all__ = ["MCC", "mcc"]


class MCC(NamedTuple):
    """The mean correlation coefficient, the variable assigned to each source, and |correlation| (sources, d)."""

    score: float
    assignment: Integers
    matrix: Floats


def mcc(codes: npt.ArrayLike, sources: npt.ArrayLike, *, method: Literal["pearson", "spearman"] = "pearson") -> MCC:
    """Return the mean |correlation| of true sources with the variables assigned to them one to one.

    MCC = max over assignments a of mean_k |corr(s_k, z_a(k))|.  [Khemakhem2020, sec. 5] With more sources than
    variables the mean is over the assigned ones, the index of the others is -1; a constant variable correlates 0.

    >>> s = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 5.0]])
    >>> mcc(-2 * s[:, ::-1], s).score.__round__(6)
    1.0
    """
    from scipy.optimize import linear_sum_assignment
    from scipy.stats import rankdata

    found, true = checked_codes(codes), checked_codes(sources, name="sources")
    if len(found) != len(true):
        raise DataError(f"codes and sources must have the same rows, got {len(found)} and {len(true)}")
    if method == "spearman":
        found, true = rankdata(found, axis=0), rankdata(true, axis=0)
    count = true.shape[1]
    matrix = np.abs(correlation(np.column_stack([true, found]))[:count, count:])
    rows, columns = linear_sum_assignment(matrix, maximize=True)
    assignment = np.full(count, -1, dtype=np.int64)
    assignment[rows] = columns
    return MCC(float(matrix[rows, columns].mean()), assignment, matrix)
