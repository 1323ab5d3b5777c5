"""What is said of identifiable VAEs: types under a learned prior [Bonheme2023iVAE], sources found [Khemakhem2020]."""

import numpy as np
import polars

from polarised.registry import register
from polarised.study.claims.numbers import against, by_seed, curves, numbers_of, values_of, words
from polarised.study.claims.verdict import Verdict, above, within

__all__ = [
    "both_kinds_of_variables",
    "few_mixed_variables",
    "finds_sources_better",
    "learned_mean_drives_variables",
    "learned_prior_is_calibrated",
    "passive_priors_are_narrow",
    "passive_variables_do_not_matter_for_sources",
    "standard_rule_mistypes",
]

TYPES = ("active", "mixed", "passive")


@register("claim")
def both_kinds_of_variables(table: polars.DataFrame, *, methods: tuple[str, ...]) -> list[Verdict]:
    """An iVAE is polarised too: it has active and passive variables, told relative to its own prior."""
    verdicts = []
    for method in methods:
        rarer = polars.min_horizontal("active", "passive")
        counts = _counts(table, method)
        numbers = "share of models that have both"
        if len(counts):
            numbers += f" ({np.mean(by_seed(counts, rarer)):.3g} of the rarer kind on average)"
        both = by_seed(counts, (rarer > 0).cast(polars.Float64))
        statement = f"{method}: there are active and passive variables"
        verdicts.append(above("both_kinds_of_variables", statement, both, 0.5, numbers))
    return verdicts


@register("claim")
def few_mixed_variables(table: polars.DataFrame, *, methods: tuple[str, ...], share: float = 0.1) -> list[Verdict]:
    """Hardly any variable of an iVAE is mixed: less than a `share` of all; the paper saw none on dSprites."""
    verdicts = []
    for method in methods:
        mixed = polars.col("mixed") / polars.max_horizontal(polars.sum_horizontal(TYPES), 1.0)
        statement = f"{method}: fewer than {share:.0%} of the variables are mixed"
        numbers = f"{share:g} minus the share of mixed variables"
        verdicts.append(
            above("few_mixed_variables", statement, by_seed(_counts(table, method), share - mixed), 0.0, numbers)
        )
    return verdicts


@register("claim")
def passive_priors_are_narrow(table: polars.DataFrame, *, methods: tuple[str, ...]) -> list[Verdict]:
    """The learned prior variance of passive variables is below that of active ones, often close to zero."""
    verdicts = []
    for method in methods:
        rows = numbers_of(
            table.filter(polars.col("method") == method),
            [("prior_variance", None, "active"), ("prior_variance", None, "passive")],
        )
        ratio = by_seed(rows, (polars.col("prior_variance//active") / polars.col("prior_variance//passive")).log10())
        statement = f"{method}: passive variables have a narrower prior than active ones"
        numbers = "log10 of the ratio of prior variances, active to passive"
        verdicts.append(above("passive_priors_are_narrow", statement, ratio, 0.0, numbers))
    return verdicts


@register("claim")
def standard_rule_mistypes(table: polars.DataFrame, *, methods: tuple[str, ...]) -> list[Verdict]:
    """A rule that expects N(0, I) gives variables of an iVAE another type than the rule relative to the prior."""
    verdicts = []
    for method in methods:
        found = curves(table, method, "retyped")
        shares = [np.mean([count > 0 for count in curve.values()]) for curve in found.values()]
        numbers = "share of models where it does"
        if found:
            numbers += f" ({np.mean(values_of(table, method, 'retyped')):.3g} variables on average)"
        statement = f"{method}: the rule for N(0, I) gives some variables another type"
        verdicts.append(above("standard_rule_mistypes", statement, shares, 0.5, numbers))
    return verdicts


@register("claim")
def learned_prior_is_calibrated(
    table: polars.DataFrame, *, methods: tuple[str, ...], margin: float = 0.1
) -> list[Verdict]:
    """A learned prior variance has settled where E[r] + E[s] = 1 for every variable."""
    return [
        within(
            "learned_prior_is_calibrated",
            f"{method}: the learned prior variance is calibrated",
            values_of(table, method, "miscalibration"),
            margin,
            "mean |E[r] + E[s] - 1|",
        )
        for method in methods
    ]


@register("claim")
def learned_mean_drives_variables(table: polars.DataFrame, *, learned: str, zero: str) -> list[Verdict]:
    """With a learned prior mean the prior itself drives variables that then look passive; with a zero mean none."""
    claim = "learned_mean_drives_variables"
    with_mean, without = (values_of(table, method, "prior_driven") for method in (learned, zero))
    return [
        above(claim, f"{learned}: the prior drives some variables", with_mean, 0.5, "prior-driven variables"),
        within(claim, f"{zero}: the prior drives no variable", without, 0.5, "prior-driven variables"),
    ]


@register("claim")
def finds_sources_better(
    table: polars.DataFrame, *, method: str, than: tuple[str, ...], metric: str = "mcc"
) -> list[Verdict]:
    """Knowing u finds the sources better: the difference in MCC of the means, on the same data seed by seed."""
    own = curves(table, method, metric, representation="mean")
    verdicts = []
    for other in than:
        theirs = curves(table, other, metric, representation="mean")
        gains = [np.mean(list(own[key].values())) - np.mean(list(theirs[key].values())) for key in own if key in theirs]
        statement = f"{method} finds the sources better than {other}"
        numbers = f"difference in {words(metric)}{against(_values(own), _values(theirs))}"
        verdicts.append(above("finds_sources_better", statement, gains, 0.0, numbers))
    return verdicts


@register("claim")
def passive_variables_do_not_matter_for_sources(
    table: polars.DataFrame, *, method: str, margin: float = 0.02
) -> list[Verdict]:
    """Dropping the passive variables leaves the MCC as it is."""
    rows = numbers_of(
        table.filter(polars.col("method") == method), [("mcc", "mean", "full"), ("mcc", "mean", "active_mixed")]
    )
    change = by_seed(rows, polars.col("mcc/mean/full") - polars.col("mcc/mean/active_mixed"))
    statement = f"{method}: without its passive variables the sources are found as well"
    claim = "passive_variables_do_not_matter_for_sources"
    return [within(claim, statement, change, margin, "MCC with minus without passive variables")]


def _values(found: dict[tuple[str, int], dict[float, float]]) -> list[float]:
    return [value for curve in found.values() for value in curve.values()]


def _counts(table: polars.DataFrame, method: str) -> polars.DataFrame:
    rows = numbers_of(table.filter(polars.col("method") == method), [("count_relative", None, kind) for kind in TYPES])
    return rows.rename({f"count_relative//{kind}": kind for kind in TYPES})
