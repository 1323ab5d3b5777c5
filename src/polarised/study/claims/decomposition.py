"""What is said of decomposition: beta moves overlap, the prior and alpha give the code its structure [Mathieu2019]."""

import numpy as np
import polars

from polarised.registry import register
from polarised.study.claims.numbers import against, curves, rank_correlation, words
from polarised.study.claims.verdict import CORRELATION, Verdict, above

__all__ = [
    "aligns_better",
    "heavy_tails_align",
    "match_without_collapse",
    "matching_costs_less_than_rate",
    "matching_helps",
    "sparse_prior_makes_sparse_codes",
    "sparsity_needs_matching",
    "strength_does_not_align",
    "strength_matches_prior",
    "strength_widens_encoders",
    "too_much_mismatches",
]

SCORE = "factor_vae_score"


@register("claim")
def strength_widens_encoders(
    table: polars.DataFrame, *, methods: tuple[str, ...], metric: str = "encoder_entropy"
) -> list[Verdict]:
    """The stronger the rate, the wider the encoders: the rank correlation of strength and entropy, a value a seed."""
    verdicts = []
    for method in methods:
        found = [_trend(curve) for curve in curves(table, method, metric).values()]
        statement = f"{method}: {words(metric)} grows with the strength"
        numbers = "rank correlation with the strength"
        verdicts.append(above("strength_widens_encoders", statement, found, 0.0, numbers, limits=CORRELATION))
    return verdicts


@register("claim")
def strength_does_not_align(
    table: polars.DataFrame, *, method: str, metric: str = SCORE, margin: float = 0.05
) -> list[Verdict]:
    """Beyond a strength of 1 the disentanglement score gains nothing: less than a margin on average, seed by seed."""
    gains = [
        float(np.mean([value for strength, value in curve.items() if strength > 1]) - curve[1.0])
        for curve in curves(table, method, metric, representation="mean").values()
        if 1.0 in curve and max(curve) > 1
    ]
    statement = f"{method}: more strength than 1 does not raise the score"
    numbers = f"{margin:g} minus the gain{against(gains)}"
    return [above("strength_does_not_align", statement, margin - np.array(gains), 0.0, numbers)]


@register("claim")
def aligns_better(
    table: polars.DataFrame, *, methods: tuple[str, ...], than: str, metric: str = SCORE
) -> list[Verdict]:
    """At the same reconstruction another prior scores higher; the other curve is read off between its strengths."""
    usual, verdicts = _by_reconstruction(table, than, metric), []
    for method in methods:
        gains = []
        for key, (loss, score) in _by_reconstruction(table, method, metric).items():
            if key in usual:
                gains.append(float(np.mean(score - np.interp(loss, *usual[key]))))
        statement = f"{method} scores higher than {than} at the same reconstruction"
        verdicts.append(above("aligns_better", statement, gains, 0.0, f"gain in {words(metric)}"))
    return verdicts


@register("claim")
def heavy_tails_align(table: polars.DataFrame, *, method: str, than: str, metric: str = SCORE) -> list[Verdict]:
    """A product of Student-t priors scores higher than the Gaussian at a strength of 1, seed by seed."""
    usual = curves(table, than, metric, representation="mean")
    gains = [
        np.mean(list(curve.values())) - usual[key][1.0]
        for key, curve in curves(table, method, metric, representation="mean").items()
        if 1.0 in usual.get(key, {})
    ]
    statement = f"{method} scores higher than {than} by {words(metric)}"
    return [above("heavy_tails_align", statement, gains, 0.0, f"gain in {words(metric)}")]


@register("claim")
def too_much_mismatches(
    table: polars.DataFrame, *, method: str, metric: str = "exclusive_kl", usual: float = 1.0
) -> list[Verdict]:
    """The largest strength is further from the prior than the usual one, seed by seed."""
    found = [
        curve[max(curve)] - curve[usual]
        for curve in curves(table, method, metric).values()
        if usual in curve and max(curve) > usual
    ]
    claim = f"{method}: too large a strength drives q(z) away from the prior ({words(metric)})"
    return [above("too_much_mismatches", claim, found, 0.0, f"rise from strength {usual:g} to the largest")]


@register("claim")
def strength_matches_prior(table: polars.DataFrame, *, method: str, metric: str = "mmd") -> list[Verdict]:
    """The larger the strength, the closer q(z) is to the prior: minus the rank correlation, a value a seed."""
    found = [-_trend(curve) for curve in curves(table, method, metric).values()]
    statement = f"{method}: more strength brings q(z) closer to the prior ({words(metric)})"
    numbers = "minus the rank correlation with the strength"
    return [above("strength_matches_prior", statement, found, 0.0, numbers, limits=CORRELATION)]


@register("claim")
def matching_helps(table: polars.DataFrame, *, method: str, line: str, at: float, metric: str = "mmd") -> list[Verdict]:
    """With an alpha above 0 q(z) is closer to the prior than with none, at the same beta: seed by seed.

    `method` varies alpha while beta is held; `line` is the method that varies beta without alpha, `at` that beta. The
    effect is the distance without alpha less the average of those with it.
    """
    without = curves(table, line, metric)
    found = [
        without[seed][at] - np.mean([distance for strength, distance in curve.items() if strength > 0])
        for seed, curve in curves(table, method, metric).items()
        if at in without.get(seed, {}) and max(curve) > 0
    ]
    statement = f"{method}: q(z) is closer to the prior than with no alpha ({words(metric)})"
    return [above("matching_helps", statement, found, 0.0, f"drop of {words(metric)}")]


@register("claim")
def match_without_collapse(table: polars.DataFrame, *, method: str, clusters: int = 4) -> list[Verdict]:
    """At the largest strength a code still tells more inputs apart than there are clusters: I(x; z) > log clusters."""
    found = [curve[max(curve)] for curve in curves(table, method, "index_information").values()]
    statement = f"{method}: the largest strength does not collapse the codes to clusters"
    numbers = "information of a code about its input (nats)"
    return [above("match_without_collapse", statement, found, float(np.log(clusters)), numbers)]


@register("claim")
def sparse_prior_makes_sparse_codes(table: polars.DataFrame, *, sparse: str, dense: str) -> list[Verdict]:
    """At the same strength above 0 the sparse prior gives a higher Hoyer sparsity than the Gaussian one."""
    own, theirs = (curves(table, name, "hoyer", representation="mean") for name in (sparse, dense))
    gains = [
        np.mean([value - theirs[key][strength] for strength, value in curve.items() if strength > 0])
        for key, curve in own.items()
        if set(curve) <= set(theirs.get(key, {}))
    ]
    statement = f"{sparse} gives sparser codes than {dense}"
    return [above("sparse_prior_makes_sparse_codes", statement, gains, 0.0, "gain in Hoyer sparsity")]


@register("claim")
def sparsity_needs_matching(table: polars.DataFrame, *, method: str) -> list[Verdict]:
    """Under the sparse prior codes are sparser with alpha above 0 than without, seed by seed."""
    gains = [
        np.mean([value for strength, value in curve.items() if strength > 0]) - curve[0.0]
        for curve in curves(table, method, "hoyer", representation="mean").values()
        if 0.0 in curve
    ]
    statement = f"{method}: alpha above 0 makes codes sparser"
    return [above("sparsity_needs_matching", statement, gains, 0.0, "gain in Hoyer sparsity over alpha 0")]


@register("claim")
def matching_costs_less_than_rate(table: polars.DataFrame, *, method: str, heavier: str) -> list[Verdict]:
    """The largest alpha costs less reconstruction than the larger beta at alpha 0, seed by seed."""
    own, theirs = (curves(table, name, "reconstruction", representation="mean") for name in (method, heavier))
    found = [
        (theirs[key][0.0] - curve[0.0]) - (curve[max(curve)] - curve[0.0])
        for key, curve in own.items()
        if 0.0 in curve and 0.0 in theirs.get(key, {})
    ]
    statement = f"{method}: the largest alpha costs less reconstruction than {heavier}"
    return [above("matching_costs_less_than_rate", statement, found, 0.0, "cost of beta minus cost of alpha (nats)")]


def _trend(curve: dict[float, float]) -> float:
    return rank_correlation(np.array(list(curve)), np.array(list(curve.values())))


def _by_reconstruction(
    table: polars.DataFrame, method: str, metric: str
) -> dict[tuple[str, int], tuple[np.ndarray, np.ndarray]]:
    """Return (reconstruction, score) of every seed, in the order of reconstruction."""
    scores = curves(table, method, metric, representation="mean")
    losses = curves(table, method, "reconstruction", representation="mean")
    found = {}
    for key, curve in scores.items():
        loss = np.array([losses[key][strength] for strength in curve])
        order = np.argsort(loss)
        found[key] = loss[order], np.array(list(curve.values()))[order]
    return found
