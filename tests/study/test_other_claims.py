"""Claims of the other papers on tables whose verdict is known."""

from collections.abc import Callable
from typing import Any

import polars
import pytest
from polarised.study.verify import check_claims

from polarised.study.grid import load_study, study_names

Value = Callable[[float, int], float]
STUDIES = [name for name in study_names() if name != "be_more_active"]


def rows(
    method: str, metric: str, value: Value, *, of: str | None = None, variables: str = "full", **more: Any
) -> list[Any]:
    """Return a row for each of four strengths and four seeds."""
    labels = {"method": method, "dataset": "made", "metric": metric, "representation": of, "variables": variables}
    return [
        {**labels, "run": f"{method}{s}-{seed}", "seed": seed, "strength": s, "value": value(s, seed)}
        for s in (0.0, 1.0, 2.0, 20.0)
        for seed in range(4)
    ]


def verdicts(table: list[Any], *claims: Any) -> list[str]:
    return [verdict.verdict for verdict in check_claims(polars.DataFrame(table), claims)]


def named(claim: Any) -> set[str]:
    """Return the methods a claim speaks of."""
    keys = ("method", "methods", "than", "learned", "zero", "sparse", "dense", "heavier")
    given = [claim[key] for key in keys if key in claim] if isinstance(claim, dict) else []
    return {name for many in given for name in (many if isinstance(many, list) else [many])}


def both(method: str, mean: Value, sampled: Value) -> list[Any]:
    metric = "total_correlation"
    return [*rows(method, metric, mean, of="mean"), *rows(method, metric, sampled, of="sampled")]


def test_closed_and_open_gaps_are_told_apart() -> None:
    table = both("open", lambda s, i: 2.0 + 0.1 * i, lambda s, i: 0.1) + both(
        "closed", lambda s, i: 0.2 + 0.01 * i, lambda s, i: 0.2
    )
    for claim, expected in (
        ("mean_is_as_factorised_as_sample", ["confirmed", "not confirmed"]),
        ("mean_is_more_correlated_than_sample", ["not confirmed", "confirmed"]),
    ):
        assert [*verdicts(table, *({"name": claim, "method": m} for m in ("closed", "open")))] == expected
    assert verdicts(table, {"name": "less_correlated_means", "method": "closed", "than": "open"}) == ["confirmed"]


def test_uncorrelated_yet_dependent_needs_both() -> None:
    claim = {"name": "uncorrelated_yet_dependent", "methods": ["DIP"]}
    table = both("DIP", lambda s, i: 0.01, lambda s, i: 0.01)
    table += rows("DIP", "largest_excess_information", lambda s, i: 0.3 + 0.01 * i, of="mean")
    table += rows("RTC", "largest_excess_information", lambda s, i: 0.02, of="mean")
    assert verdicts(table, claim) == ["confirmed", "confirmed"]
    assert "RTC 0.02" in check_claims(polars.DataFrame(table), [claim])[1].evidence


def test_information_that_correlation_explains_is_no_dependence_beyond_it() -> None:
    claim = {"name": "uncorrelated_yet_dependent", "methods": ["linear"]}
    table = both("linear", lambda s, i: 0.01, lambda s, i: 0.01)
    table += rows("linear", "largest_pair_information", lambda s, i: 0.3 + 0.01 * i, of="mean")
    table += rows("linear", "largest_excess_information", lambda s, i: 0.001 * i, of="mean")
    assert verdicts(table, claim) == ["confirmed", "not confirmed"]


def test_models_of_one_seed_are_one_value() -> None:
    # Gaps of all strengths of a seed agree: sixteen models are four values, and their interval is that of four.
    table = both("open", lambda s, i: 0.1 + 0.1 * i, lambda s, i: 0.0)
    (verdict,) = check_claims(
        polars.DataFrame(table), [{"name": "mean_is_more_correlated_than_sample", "method": "open"}]
    )
    assert "0.25 [0.0446, 0.455] over 4 seeds" in verdict.evidence
    twice = both("a", lambda s, i: 1.0, lambda s, i: 0.0) + both("b", lambda s, i: 2.0 + 0.1 * i, lambda s, i: 0.0)
    (verdict,) = check_claims(polars.DataFrame(twice), [{"name": "less_correlated_means", "method": "a", "than": "b"}])
    assert "over 4 seeds" in verdict.evidence


def test_strength_that_helps_reconstruction_does_not_hurt_it() -> None:
    table = rows("RTC", "reconstruction", lambda s, i: 10 - 0.1 * s + 0.01 * i, of="mean")
    assert verdicts(table, {"name": "reconstruction_suffers", "method": "RTC", "beyond": 10}) == ["not confirmed"]


@pytest.mark.parametrize(("slope", "word"), [(0.0, "confirmed"), (0.02, "not confirmed")])
def test_alignment_by_strength(slope: float, word: str) -> None:
    table = rows("isotropic", "factor_vae_score", lambda s, i: 0.5 + slope * s + 0.001 * i, of="mean")
    assert verdicts(table, {"name": "strength_does_not_align", "method": "isotropic"}) == [word]


def test_a_prior_is_compared_at_the_same_reconstruction() -> None:
    # The second prior scores higher at each strength only because it reconstructs worse there.
    table = rows("a", "factor_vae_score", lambda s, i: 0.1 * s, of="mean")
    table += rows("a", "reconstruction", lambda s, i: s, of="mean")
    table += rows("b", "factor_vae_score", lambda s, i: 0.1 * (s + 1) - 0.05, of="mean")
    table += rows("b", "reconstruction", lambda s, i: s + 1, of="mean")
    assert verdicts(table, {"name": "aligns_better", "methods": ["b"], "than": "a"}) == ["not confirmed"]


def test_matching_collapse_and_mismatch() -> None:
    table = rows("alpha", "mmd", lambda s, i: 1 / (1 + s)) + rows("alpha", "index_information", lambda s, i: 3.0)
    table += rows("beta", "exclusive_kl", lambda s, i: abs(s - 1)) + rows("beta", "overlap", lambda s, i: s)
    assert (
        verdicts(
            table,
            {"name": "strength_matches_prior", "method": "alpha"},
            {"name": "match_without_collapse", "method": "alpha"},
            {"name": "too_much_mismatches", "method": "beta"},
            {"name": "strength_widens_encoders", "methods": ["beta"], "metric": "overlap"},
        )
        == ["confirmed"] * 4
    )


def test_matching_is_compared_at_the_same_beta() -> None:
    # At beta 2 any alpha is closer than none; at beta 20 none is.
    table = rows("beta", "mmd", lambda s, i: 1.0 if s == 2 else 0.1 + 0.01 * i)
    table += rows("held", "mmd", lambda s, i: 0.5 + 0.01 * i)
    claims = [{"name": "matching_helps", "method": "held", "line": "beta", "at": at} for at in (2.0, 20.0, 7.0)]
    assert verdicts(table, *claims) == ["confirmed", "not confirmed", "undecided"]


def test_sparsity_from_the_prior_and_from_matching() -> None:
    table = rows("sparse", "hoyer", lambda s, i: 0.3 + 0.2 * (s > 0), of="mean")
    table += rows("dense", "hoyer", lambda s, i: 0.3, of="mean")
    table += rows("sparse", "reconstruction", lambda s, i: 100.0 + s, of="mean")
    table += rows("heavy", "reconstruction", lambda s, i: 110.0 + s, of="mean")
    assert verdicts(
        table,
        {"name": "sparse_prior_makes_sparse_codes", "sparse": "sparse", "dense": "dense"},
        {"name": "sparsity_needs_matching", "method": "sparse"},
        {"name": "matching_costs_less_than_rate", "method": "sparse", "heavier": "heavy"},
    ) == ["confirmed", "confirmed", "not confirmed"]


def test_sources_are_compared_on_the_same_data() -> None:
    # Seeds differ far more than methods do; only the paired comparison sees the gain.
    table = rows("iVAE", "mcc", lambda s, i: 0.2 * i + 0.05, of="mean") + rows(
        "VAE", "mcc", lambda s, i: 0.2 * i, of="mean"
    )
    assert verdicts(table, {"name": "finds_sources_better", "method": "iVAE", "than": ["VAE"]}) == ["confirmed"]


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize("scale", ["smoke", "small", "paper"])
def test_every_study_has_its_scales_and_claims_about_methods_it_has(name: str, scale: str) -> None:
    study = load_study(name, scale=scale, settings=["axes.seed=1"])
    methods = {point.labels["method"] for point in study.points}
    empty = polars.DataFrame(rows("none", "none", lambda s, i: 0.0))
    found = check_claims(empty, study.claims)
    assert found
    assert {verdict.verdict for verdict in found} == {"undecided"}
    assert [verdict.evidence for verdict in found if "nan" in verdict.evidence or "the the" in verdict.evidence] == []
    for claim in study.claims:
        assert named(claim) <= methods


@pytest.mark.parametrize(
    ("name", "metric", "variables"),
    [("both_kinds_of_variables", "count_relative", "passive"), ("standard_rule_mistypes", "retyped", "full")],
)
def test_what_there_is_in_every_model_is_there_however_the_numbers_differ(
    name: str, metric: str, variables: str
) -> None:
    def table(counts: list[float]) -> polars.DataFrame:
        found = rows("iVAE", metric, lambda s, i: counts[i], variables=variables)
        for kind in ("active", "mixed"):
            found += rows("iVAE", "count_relative", lambda s, i: 9.0, variables=kind)
        return polars.DataFrame(found)

    claim = {"name": name, "methods": ["iVAE"]}
    (verdict,) = check_claims(table([1.0, 2.0, 7.0, 20.0]), [claim])
    assert verdict.verdict == "confirmed"
    # Of 9 active ones and 20 passive ones the active are the rarer.
    assert f"({4.75 if name == 'both_kinds_of_variables' else 7.5:g} " in verdict.evidence
    (verdict,) = check_claims(table([0.0, 7.0, 0.0, 7.0]), [claim])
    assert verdict.verdict == "undecided"
    (verdict,) = check_claims(table([0.0] * 4), [claim])
    assert verdict.verdict == "not confirmed"
