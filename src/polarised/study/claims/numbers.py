"""The numbers a claim hangs on, out of the tidy table."""

from collections.abc import Iterator, Sequence

import numpy as np
import polars

__all__ = ["by_method", "numbers_of", "rank_correlation"]


def numbers_of(table: polars.DataFrame, wanted: Sequence[tuple[str, str | None, str]]) -> polars.DataFrame:
    """Return a row a run with a column ``metric/representation/variables`` for each wanted number; runs with all."""
    key = polars.concat_str(
        polars.col("metric"), polars.col("representation").fill_null(""), polars.col("variables"), separator="/"
    )
    names = [f"{metric}/{representation or ''}/{variables}" for metric, representation, variables in wanted]
    chosen = table.with_columns(key.alias("number")).filter(polars.col("number").is_in(names))
    wide = chosen.pivot("number", index=["run", "seed", "method", "strength", "dataset"], values="value")
    lacking = [polars.lit(None, polars.Float64).alias(name) for name in names if name not in wide.columns]
    return wide.with_columns(*lacking).drop_nulls(names)


def by_method(rows: polars.DataFrame) -> Iterator[tuple[str, polars.DataFrame]]:
    """Yield the rows of each method."""
    for (method,), own in rows.sort("run").group_by(["method"], maintain_order=True):
        yield str(method), own


def rank_correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Return Spearman's rank correlation; 0 where one of the two never changes, NaN for fewer than three points."""
    from scipy.stats import rankdata

    if len(first) < 3:
        return float("nan")
    ranks = np.stack([rankdata(first), rankdata(second)])
    if np.ptp(ranks[0]) == 0 or np.ptp(ranks[1]) == 0:
        return 0.0
    return float(np.corrcoef(ranks)[0, 1])
