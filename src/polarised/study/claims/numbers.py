"""The numbers a claim hangs on, out of the tidy table."""

from collections.abc import Iterator, Sequence

import numpy as np
import polars

from polarised import registry

__all__ = [
    "against",
    "by_method",
    "by_seed",
    "curves",
    "numbers_of",
    "rank_correlation",
    "values_of",
    "whole_seeds",
    "words",
]


def words(metric: str) -> str:
    """Return how a sentence names a metric.

    >>> words("mmd"), words("encoder_entropy")
    ('MMD', 'encoder entropy')
    """
    return registry.output(metric).title


def against(*groups: Sequence[float]) -> str:
    """Return the averages of groups of numbers in brackets, for the end of a phrase; nothing where a group is empty.

    >>> against([1.0, 2.0], [0.5]), against([1.0], [])
    (' (1.5 against 0.5)', '')
    """
    if not all(len(group) for group in groups):
        return ""
    return f" ({' against '.join(f'{np.mean(group):.3g}' for group in groups)})"


def whole_seeds(table: polars.DataFrame) -> polars.DataFrame:
    """Leave out a method's seeds that lack runs other seeds of it have: half of a grid is no value beside whole ones.

    Where no seed of a method is whole, as in a handful of models of other people, all stay.

    >>> rows = {"method": "VAE", "dataset": "a", "seed": [0, 0, 1], "strength": [1.0, 2.0, 1.0]}
    >>> whole_seeds(polars.DataFrame(rows))["seed"].to_list()
    [0, 0]
    """
    of_number = {"run", "representation", "variables", "variable", "metric", "value"}
    points = table.select(name for name in table.columns if name not in of_number).unique()
    seed = ["method", "dataset", "seed"]
    wanted = points.drop("seed").unique().group_by("method", "dataset").len("wanted")
    seeds = points.group_by(seed).len("had").join(wanted, on=["method", "dataset"])
    whole = polars.col("had") == polars.col("wanted")
    kept = seeds.filter(whole | ~whole.any().over("method", "dataset"))
    return table.join(kept, on=seed, how="semi", maintain_order="left")


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


def by_seed(rows: polars.DataFrame, values: polars.Expr) -> np.ndarray:
    """Return the average of an effect over the models of each dataset and seed.

    Models of one seed begin with the same weights and see the same images, so its strengths are no independent values.

    >>> rows = polars.DataFrame({"dataset": ["a", "a", "a"], "seed": [0, 0, 1], "gap": [1.0, 2.0, 5.0]})
    >>> by_seed(rows, polars.col("gap")).tolist()
    [1.5, 5.0]
    """
    effects = rows.select("dataset", "seed", values.alias("effect")).filter(polars.col("effect").is_finite())
    averages = effects.group_by("dataset", "seed").agg(polars.col("effect").mean())
    return averages.sort("dataset", "seed")["effect"].to_numpy()


def rank_correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Return Spearman's rank correlation; 0 where one of the two never changes, NaN for fewer than three points."""
    from scipy.stats import rankdata

    if len(first) < 3:
        return float("nan")
    ranks = np.stack([rankdata(first), rankdata(second)])
    if np.ptp(ranks[0]) == 0 or np.ptp(ranks[1]) == 0:
        return 0.0
    return float(np.corrcoef(ranks)[0, 1])


def curves(
    table: polars.DataFrame, method: str, metric: str, *, representation: str | None = None, variables: str = "full"
) -> dict[tuple[str, int], dict[float, float]]:
    """Return a metric of one method against its strength, a curve for each dataset and seed; no strength counts as 0.

    >>> row = {"run": "a", "seed": 0, "method": "VAE", "strength": 2.0, "dataset": "pinwheel", "metric": "mmd"}
    >>> row |= {"representation": None, "variables": "full", "value": 0.5}
    >>> curves(polars.DataFrame([row]), "VAE", "mmd")
    {('pinwheel', 0): {2.0: 0.5}}
    """
    rows = numbers_of(table.filter(polars.col("method") == method), [(metric, representation, variables)])
    found: dict[tuple[str, int], dict[float, float]] = {}
    name = f"{metric}/{representation or ''}/{variables}"
    for dataset, seed, strength, value in rows.select("dataset", "seed", "strength", name).iter_rows():
        found.setdefault((str(dataset), int(seed)), {})[float(strength or 0.0)] = float(value)
    return {key: dict(sorted(curve.items())) for key, curve in sorted(found.items())}


def values_of(
    table: polars.DataFrame, method: str, metric: str, *, representation: str | None = None, variables: str = "full"
) -> np.ndarray:
    """Return a metric of one method, averaged over the strengths of each dataset and seed."""
    found = curves(table, method, metric, representation=representation, variables=variables)
    return np.array([np.mean(list(curve.values())) for curve in found.values()])
