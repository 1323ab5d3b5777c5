"""What is said of factorised codes: a low total correlation of the sample may hide that of the mean [Cheng2021]."""

import numpy as np
import polars

from polarised.registry import register
from polarised.study.claims.numbers import by_seed, curves, numbers_of, rank_correlation, values_of
from polarised.study.claims.verdict import CORRELATION, Verdict, above, within

__all__ = [
    "less_correlated_means",
    "mean_is_as_factorised_as_sample",
    "mean_is_more_correlated_than_sample",
    "reconstruction_suffers",
    "total_correlation_does_not_predict_sap",
    "uncorrelated_yet_dependent",
]

TC = "total_correlation"
EXCESS = "largest_excess_information"


@register("claim")
def mean_is_as_factorised_as_sample(table: polars.DataFrame, *, method: str, margin: float = 0.1) -> list[Verdict]:
    """The total correlation of the mean is that of the sample, up to a margin in nats."""
    statement = f"{method}: mean and sample have the same total correlation"
    claim = "mean_is_as_factorised_as_sample"
    return [within(claim, statement, _gaps(table, method), margin, "total correlation of mean minus sample (nats)")]


@register("claim")
def mean_is_more_correlated_than_sample(table: polars.DataFrame, *, method: str, margin: float = 0.1) -> list[Verdict]:
    """The total correlation of the mean exceeds that of the sample by more than a margin in nats."""
    statement = f"{method}: the mean has a higher total correlation than the sample"
    claim = "mean_is_more_correlated_than_sample"
    return [above(claim, statement, _gaps(table, method), margin, "total correlation of mean minus sample (nats)")]


@register("claim")
def less_correlated_means(table: polars.DataFrame, *, method: str, than: str) -> list[Verdict]:
    """At the same strengths the means are less correlated than those of another method, seed by seed."""
    own, theirs = (curves(table, name, TC, representation="mean") for name in (method, than))
    drops = []
    for key, curve in own.items():
        shared = [strength for strength in curve if strength in theirs.get(key, {})]
        if shared:
            drops.append(np.mean([theirs[key][strength] - curve[strength] for strength in shared]))
    statement = f"{method} has a lower total correlation of the mean than {than}"
    return [above("less_correlated_means", statement, drops, 0.0, "drop in total correlation of the mean (nats)")]


@register("claim")
def uncorrelated_yet_dependent(
    table: polars.DataFrame, *, methods: tuple[str, ...], low: float = 0.1, dependent: float = 0.05
) -> list[Verdict]:
    """Means of low Gaussian total correlation still depend on each other in pairs, by mutual information (nats).

    Of each pair only what its correlation does not explain counts: mutual information, less what shuffled variables
    give, less the -log(1 - r^2) / 2 of Gaussian variables; of each model its largest pair. The evidence names the same
    number of the other methods: a dependence all of them have is none of these alone.
    """
    claim, verdicts = "uncorrelated_yet_dependent", []
    for method in methods:
        gaussian = values_of(table, method, TC, representation="mean")
        low_numbers = f"{low:g} minus total correlation of the mean (nats)"
        pair_numbers = f"information beyond correlation of the largest pair (nats{_beside(table, methods)})"
        verdicts += [
            above(claim, f"{method}: the means are uncorrelated", low - gaussian, 0.0, low_numbers),
            above(
                claim,
                f"{method}: some pairs of means depend on each other",
                values_of(table, method, EXCESS, representation="mean"),
                dependent,
                pair_numbers,
            ),
        ]
    return verdicts


@register("claim")
def reconstruction_suffers(table: polars.DataFrame, *, method: str, beyond: float) -> list[Verdict]:
    """Strengths beyond a value reconstruct worse than those up to it, seed by seed."""
    found = curves(table, method, "reconstruction", representation="mean")
    rises = [
        np.mean([v for s, v in curve.items() if s > beyond]) - np.mean([v for s, v in curve.items() if s <= beyond])
        for curve in found.values()
        if min(curve) <= beyond < max(curve)
    ]
    statement = f"{method}: strengths beyond {beyond:g} hurt the reconstruction"
    return [above("reconstruction_suffers", statement, rises, 0.0, "rise of the reconstruction loss (nats)")]


@register("claim")
def total_correlation_does_not_predict_sap(table: polars.DataFrame, *, margin: float = 0.3) -> list[Verdict]:
    """Over all models of a seed, total correlation of the mean and SAP have no rank correlation to speak of."""
    rows = numbers_of(table, [(TC, "mean", "full"), ("sap", "mean", "full")])
    found = [
        rank_correlation(own[f"{TC}/mean/full"].to_numpy(), own["sap/mean/full"].to_numpy())
        for _, own in rows.sort("run").group_by(["dataset", "seed"], maintain_order=True)
    ]
    statement = "total correlation of the mean does not predict SAP"
    claim = "total_correlation_does_not_predict_sap"
    return [within(claim, statement, found, margin, "rank correlation over the models of a seed", limits=CORRELATION)]


def _gaps(table: polars.DataFrame, method: str) -> np.ndarray:
    own = table.filter(polars.col("method") == method)
    rows = numbers_of(own, [(TC, "mean", "full"), (TC, "sampled", "full")])
    return by_seed(rows, polars.col(f"{TC}/mean/full") - polars.col(f"{TC}/sampled/full"))


def _beside(table: polars.DataFrame, methods: tuple[str, ...]) -> str:
    """Return the averages of the methods a claim is not about, in words."""
    others = {
        name: values_of(table, name, EXCESS, representation="mean")
        for name in table["method"].unique(maintain_order=True)
        if name not in methods
    }
    return "".join(f", {name} {values.mean():.3g}" for name, values in others.items() if len(values))
