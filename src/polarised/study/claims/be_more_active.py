"""What "Be More Active!" says of passive variables, checked on results [Bonheme2023BeMoreActive, sections 4 and 6]."""

from typing import Literal

import numpy as np
import polars

from polarised.registry import register
from polarised.study.claims.numbers import by_method, by_seed, numbers_of, rank_correlation
from polarised.study.claims.verdict import CORRELATION, Verdict, above, undecided, within

__all__ = [
    "active_codes_agree",
    "effective_rank_of_mean_counts_alive",
    "effective_rank_of_sample_is_full",
    "gap_closes_without_passive",
    "gap_grows_with_passive",
    "passive_means_inform",
    "passive_samples_are_noise",
    "passive_variables_grow_with_strength",
    "total_correlation_of_sample_ignores_passive",
]

Metric = Literal["total_correlation", "mutual_information"]
WORDS = {"total_correlation": "total correlation", "mutual_information": "mutual information"}


@register("claim")
def passive_variables_grow_with_strength(
    table: polars.DataFrame, *, with_mixed: bool = False, except_for: tuple[str, ...] = (), margin: float = 1.0
) -> list[Verdict]:
    """More regularisation, more passive variables: the rank correlation of strength and count, a value a seed.

    `with_mixed` counts mixed variables too, as the paper's sentence does [section 4.3]. For the methods of
    `except_for` (annealed VAE, whose larger capacity is less regularisation) the paper finds a number that hardly
    changes [appendix B]: within `margin` variables between the smallest and the largest value of the setting.
    """
    name, counted = "passive_variables_grow_with_strength", _words_of(with_mixed)
    verdicts = []
    for method, rows in by_method(numbers_of(table, [("count", None, kind) for kind in _kinds(with_mixed)])):
        own = rows.with_columns(_count(with_mixed)).sort("strength")
        seeds = [part for _, part in own.group_by(["seed", "dataset"], maintain_order=True)]
        if method in except_for:
            statement = f"{method}: the number of {counted} variables hardly depends on the strength"
            changes = [part["counted"][-1] - part["counted"][0] for part in seeds if part["strength"].n_unique() > 1]
            numbers = f"{counted} variables at the largest minus at the smallest value"
            verdicts.append(within(name, statement, changes, margin, numbers))
            continue
        slopes = [rank_correlation(part["strength"].to_numpy(), part["counted"].to_numpy()) for part in seeds]
        statement = f"{method}: {counted} variables grow with the strength"
        numbers = f"rank correlation of strength and {counted} count"
        verdicts.append(above(name, statement, slopes, 0.0, numbers, limits=CORRELATION))
    return verdicts


@register("claim")
def gap_grows_with_passive(
    table: polars.DataFrame, *, metric: Metric = "total_correlation", with_mixed: bool = False
) -> list[Verdict]:
    """The more passive variables, the larger the score of the mean against that of the sample, method by method.

    `with_mixed` counts mixed variables too, as step (iii) of the paper's section 4 does.
    """
    counts = [("count", None, kind) for kind in _kinds(with_mixed)]
    wide = numbers_of(table, [(metric, "mean", "full"), (metric, "sampled", "full"), *counts])
    counted, verdicts = _words_of(with_mixed), []
    for method, rows in by_method(wide):
        own = rows.with_columns(_count(with_mixed), _gap(metric, "full").alias("gap"))
        values = [
            rank_correlation(part["counted"].to_numpy(), part["gap"].to_numpy())
            for _, part in own.group_by(["seed", "dataset"], maintain_order=True)
        ]
        statement = f"{method}: the gap in {WORDS[metric]} between mean and sample grows with {counted} variables"
        numbers = f"rank correlation of {counted} count and gap"
        verdicts.append(above("gap_grows_with_passive", statement, values, 0.0, numbers, limits=CORRELATION))
    return verdicts


@register("claim")
def gap_closes_without_passive(
    table: polars.DataFrame, *, metric: Metric = "total_correlation", share: float = 0.1
) -> list[Verdict]:
    """Without passive variables mean and sample score the same: what is left is less than a `share` of the gap.

    Models with passive variables and a gap above 0.05 nats count; those alive are the active and mixed ones.
    """
    verdicts = []
    gap, left = _gap(metric, "full"), _gap(metric, "alive")
    for method, rows in by_method(_with_passive(table, metric)):
        some = rows.filter(gap > 0.05)
        statement = f"{method}: without passive variables the gap in {WORDS[metric]} closes"
        claim = "gap_closes_without_passive"
        if some.is_empty():
            verdicts.append(undecided(claim, statement, "no model with passive variables has a gap"))
            continue
        closed = by_seed(some, 1 - left / gap)
        numbers = f"share of the gap that is gone (median {np.median(closed):.2f})"
        verdicts.append(above(claim, statement, closed, 1 - share, numbers))
    return verdicts


@register("claim")
def active_codes_agree(
    table: polars.DataFrame, *, metric: Metric = "total_correlation", margin: float = 0.05
) -> list[Verdict]:
    """Active variables alone are as correlated in the mean as in the sample: their gap is nil up to a margin (nats)."""
    wide = numbers_of(table, [(metric, "mean", "active"), (metric, "sampled", "active")])
    return [
        within(
            "active_codes_agree",
            f"{method}: active variables have the same {WORDS[metric]} in mean and sample",
            by_seed(rows, _gap(metric, "active")),
            margin,
            "gap of the active variables (nats)",
        )
        for method, rows in by_method(wide)
    ]


@register("claim")
def effective_rank_of_mean_counts_alive(table: polars.DataFrame, *, margin: float = 1.0) -> list[Verdict]:
    """The effective rank of the mean is about the number of variables that are not passive."""
    name = "effective_rank_of_mean_counts_alive"
    return _effective_rank(table, name, "mean", ("active", "mixed"), "variables alive", margin)


@register("claim")
def effective_rank_of_sample_is_full(table: polars.DataFrame, *, margin: float = 1.0) -> list[Verdict]:
    """The effective rank of the sample is about the number of all variables: passive ones have full variance there."""
    name = "effective_rank_of_sample_is_full"
    return _effective_rank(table, name, "sampled", ("active", "mixed", "passive"), "all variables", margin)


@register("claim")
def passive_samples_are_noise(table: polars.DataFrame, *, margin: float = 0.02) -> list[Verdict]:
    """Sampled passive variables predict the factors no better than guessing."""
    return _passive_accuracy(table, "sampled", margin)


@register("claim")
def passive_means_inform(table: polars.DataFrame, *, margin: float = 0.02) -> list[Verdict]:
    """Means of passive variables predict the factors better than guessing, by more than samples of noise may."""
    return _passive_accuracy(table, "mean", margin)


@register("claim")
def total_correlation_of_sample_ignores_passive(table: polars.DataFrame, *, margin: float = 0.05) -> list[Verdict]:
    """Passive variables do not change the total correlation of the sample (nats) [Bonheme2023BeMoreActive, th. 7]."""
    change = polars.col("total_correlation/sampled/full") - polars.col("total_correlation/sampled/alive")
    return [
        within(
            "total_correlation_of_sample_ignores_passive",
            f"{method}: passive variables do not change the total correlation of the sample",
            by_seed(rows, change),
            margin,
            "total correlation with minus without them (nats)",
        )
        for method, rows in by_method(_with_passive(table, "total_correlation"))
    ]


def _effective_rank(
    table: polars.DataFrame, name: str, representation: str, kinds: tuple[str, ...], counted: str, margin: float
) -> list[Verdict]:
    rank = ("effective_rank", representation, "full")
    wide = numbers_of(table, [rank, *(("count", None, kind) for kind in kinds)])
    excess = polars.col("/".join(rank)) - polars.sum_horizontal(f"count//{kind}" for kind in kinds)
    of = {"mean": "mean", "sampled": "sample"}[representation]
    return [
        within(
            name,
            f"{method}: the effective rank of the {of} is the number of {counted}",
            by_seed(rows, excess),
            margin,
            f"effective rank minus {counted}",
        )
        for method, rows in by_method(wide)
    ]


def _passive_accuracy(table: polars.DataFrame, representation: str, margin: float) -> list[Verdict]:
    wide = numbers_of(table, [("accuracy", representation, "passive"), ("accuracy", representation, "random")])
    own, chance = (polars.col(f"accuracy/{representation}/{name}") for name in ("passive", "random"))
    verdicts = []
    for method, rows in by_method(wide):
        gain = by_seed(rows, own - chance)
        numbers = "accuracy above guessing"
        if representation == "sampled":
            statement = f"{method}: sampled passive variables say nothing about the factors"
            verdicts.append(within("passive_samples_are_noise", statement, gain, margin, numbers))
        else:
            statement = f"{method}: means of passive variables say something about the factors"
            verdicts.append(above("passive_means_inform", statement, gain, margin, numbers))
    return verdicts


def _kinds(with_mixed: bool) -> tuple[str, ...]:
    return ("passive", "mixed") if with_mixed else ("passive",)


def _words_of(with_mixed: bool) -> str:
    return " and ".join(_kinds(with_mixed))


def _count(with_mixed: bool) -> polars.Expr:
    return polars.sum_horizontal(f"count//{kind}" for kind in _kinds(with_mixed)).alias("counted")


def _gap(metric: Metric, variables: str) -> polars.Expr:
    return polars.col(f"{metric}/mean/{variables}") - polars.col(f"{metric}/sampled/{variables}")


def _with_passive(table: polars.DataFrame, metric: Metric) -> polars.DataFrame:
    """Return the runs that have passive variables, with the scores of the whole code and of it without them."""
    parts = [(metric, of, variables) for variables in ("full", "alive") for of in ("mean", "sampled")]
    return numbers_of(table, [*parts, ("count", None, "passive")]).filter(polars.col("count//passive") > 0)
