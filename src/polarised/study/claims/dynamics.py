"""What "Be More Active!" says of passive variables while a model learns [Bonheme2023BeMoreActive, section 5].

The paper watches one model. With three models or more each gives one effect; with fewer, each variable of the type a
claim is about gives one. Those of one model are not independent, so such a verdict is about that model.
"""

from collections.abc import Iterator

import numpy as np
import polars

from polarised.registry import register
from polarised.study.claims.numbers import against, by_method
from polarised.study.claims.verdict import MINIMUM, Verdict, above

__all__ = [
    "active_means_correlate_with_passive",
    "active_means_stay_uncorrelated",
    "passive_correlations_vary",
    "passive_means_correlate_more_often",
    "passive_means_have_strong_partners",
]


@register("claim")
def passive_means_correlate_more_often(table: polars.DataFrame) -> list[Verdict]:
    """Over training, |correlation| of a passive mean with the others exceeds 0.2 more often than that of an active one.

    share_j = #{(t, k), k != j: |C_t[j, k]| > 0.2} / #{(t, k)}  [Bonheme2023BeMoreActive, figure 12]
    """
    return [
        _compared(
            "passive_means_correlate_more_often",
            f"{method}: over training passive means are more often correlated than active ones",
            models,
            ("passive", "correlated_share"),
            ("active", "correlated_share"),
            "share of correlated pairs",
        )
        for method, models in _watched(table)
    ]


@register("claim")
def active_means_stay_uncorrelated(table: polars.DataFrame, *, share: float = 0.1) -> list[Verdict]:
    """Correlations among active means remain very low: above 0.2 in less than a `share` of pairs and moments."""
    verdicts = []
    for method, models in _watched(table):
        found = [_values(rows, "active", "correlated_share_with_active") for rows in models]
        late = [_values(rows, "active", "late_correlated_share_with_active") for rows in models]
        values, unit = _units(found)
        measured = f"{share:g} minus the share of correlated pairs{against(_means(found))}"
        if _means(late):
            measured += f", in the second half of training{against(_means(late))},"
        statement = f"{method}: over training active means remain uncorrelated with each other"
        verdicts.append(above("active_means_stay_uncorrelated", statement, share - values, 0.0, measured, unit=unit))
    return verdicts


@register("claim")
def passive_correlations_vary(table: polars.DataFrame) -> list[Verdict]:
    """Correlations of passive means vary over training more than those among active ones: their standard deviation."""
    return [
        _compared(
            "passive_correlations_vary",
            f"{method}: correlations of passive means vary more over training than those among active ones",
            models,
            ("passive", "correlation_spread"),
            ("active", "correlation_spread_with_active"),
            "standard deviation over training",
        )
        for method, models in _watched(table)
    ]


@register("claim")
def active_means_correlate_with_passive(table: polars.DataFrame) -> list[Verdict]:
    """Over training an active mean is more correlated with the passive ones than with the other active ones.

    [Bonheme2023BeMoreActive, figure 13]
    """
    verdicts = []
    for method, models in _watched(table):
        pairs = [
            (_values(rows, "active", "correlation_with_passive"), _values(rows, "active", "correlation_with_active"))
            for rows in models
        ]
        pairs = [(passive, active) for passive, active in pairs if len(passive) and len(passive) == len(active)]
        values, unit = _units([passive - active for passive, active in pairs])
        averages = (_means([pair[side] for pair in pairs]) for side in (0, 1))
        statement = f"{method}: over training active means correlate with passive ones more than with each other"
        measured = f"average size of the correlation beyond{against(*averages)}"
        verdicts.append(above("active_means_correlate_with_passive", statement, values, 0.0, measured, unit=unit))
    return verdicts


@register("claim")
def passive_means_have_strong_partners(table: polars.DataFrame) -> list[Verdict]:
    """At the end a passive mean correlates with some variable more strongly than the others do among themselves.

    [Bonheme2023BeMoreActive, figure 11]
    """
    return [
        _compared(
            "passive_means_have_strong_partners",
            f"{method}: trained, passive means correlate with some other more strongly than the rest among themselves",
            models,
            ("passive", "strongest_correlation"),
            ("active mixed", "strongest_correlation_with_alive"),
            "size of the strongest correlation",
        )
        for method, models in _watched(table)
    ]


def _compared(
    name: str,
    claim: str,
    models: list[polars.DataFrame],
    these: tuple[str, str],
    those: tuple[str, str],
    measured: str,
) -> Verdict:
    """Compare a number of the variables of one type with the average of another in the same model."""
    pairs = [(_values(rows, *these), _values(rows, *those)) for rows in models]
    pairs = [(own, other) for own, other in pairs if len(own) and len(other)]
    values, unit = _units([own - other.mean() for own, other in pairs])
    averages = (_means([pair[side] for pair in pairs]) for side in (0, 1))
    return above(name, claim, values, 0.0, f"{measured} beyond{against(*averages)}", unit=unit)


def _watched(table: polars.DataFrame) -> Iterator[tuple[str, list[polars.DataFrame]]]:
    """Yield the models of each method, a table of their variables each."""
    if "variable" in table.columns:
        for method, rows in by_method(table.filter(polars.col("variable").is_not_null())):
            yield method, [own for _, own in rows.group_by(["run"], maintain_order=True)]


def _values(rows: polars.DataFrame, kinds: str, metric: str) -> np.ndarray:
    mine = polars.col("variables").is_in(kinds.split()) & (polars.col("metric") == metric)
    return rows.filter(mine).sort("variable")["value"].to_numpy()


def _units(effects: list[np.ndarray]) -> tuple[np.ndarray, str]:
    """Return the effect of each model, or with few models of each variable, and what there is one of."""
    effects = [own for own in effects if len(own)]
    if len(effects) >= MINIMUM:
        return np.array(_means(effects)), "model"
    if not effects:
        return np.empty(0), "model"
    return np.concatenate(effects), f"variable of {len(effects)} model{'' if len(effects) == 1 else 's'}"


def _means(effects: list[np.ndarray]) -> list[float]:
    return [float(own.mean()) for own in effects if len(own)]
