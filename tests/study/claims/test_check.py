"""From a table to verdicts: what is a unit, what is left out, and how words come together."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from scipy.stats import norm

from polarised import registry
from polarised.errors import ConfigError, DataError
from polarised.study.claims import LEDGER, PAPERS, Claim, Law, Statistic, Verification, check_claims, chosen_claims
from polarised.study.claims.check import whole_seeds
from polarised.study.claims.claim import ledger_of
from polarised.study.claims.decisions import above, below, within
from polarised.study.claims.expressions import STRENGTH, at, number, rank, rise
from polarised.study.claims.verify import ledger_page, published_under, published_verdicts, verify
from polarised.study.grid import Study, load_study, study_claims, study_names
from polarised.study.planning import decidable
from polarised.study.results import COLUMNS

STRENGTHS = (1.0, 2.0, 4.0, 6.0)
ROOT = Path(__file__).parents[3]
EFFECT = number("effect")
CLAIM = Claim(
    id="X-1",
    paper="own",
    place="here",
    quotation=("the effect is positive",),
    scope="made",
    statistics=(Statistic("effect", EFFECT, above(0.0), "a direction"),),
)
OTHER = replace(CLAIM, id="X-2", statistics=(Statistic("effect", EFFECT, below(0.0), "a direction"),))


def table(
    value: Any, *, seeds: int = 10, method: str = "beta-VAE", dataset: str = "made", **more: Any
) -> polars.DataFrame:
    """Return one number for each strength and seed, with a little noise."""
    generator = np.random.default_rng(0)
    noise = iter(0.01 * generator.normal(size=1000))
    rows = [
        (f"{method}-{dataset}-{s}-{seed}", seed, method, s, dataset, None, "full", "effect", v + next(noise))
        for seed in range(seeds)
        for s in STRENGTHS
        if (v := value(s, seed)) is not None
    ]
    made = polars.DataFrame(rows, schema=list(COLUMNS), orient="row")
    return made.with_columns(*(polars.lit(own).alias(name) for name, own in more.items()))


def words(made: polars.DataFrame, *claims: Claim) -> list[str]:
    return [verdict.verdict for verdict in check_claims(made, claims or [CLAIM]).verdicts]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_loss_rises_by_a_share_of_its_size_also_where_it_is_a_negative_one(sign: float) -> None:
    costs = replace(CLAIM, statistics=(Statistic("cost", rise(EFFECT, at(EFFECT, 1.0)), above(0.05), "a twentieth"),))
    costs = replace(costs, statistics=(replace(costs.statistics[0], strengths=above(1.0)),))
    assert words(table(lambda s, _: sign * 1000.0 + (100.0 if s > 1 else 0.0)), costs) == ["confirmed"]
    assert words(table(lambda s, _: sign * 1000.0 - (100.0 if s > 1 else 0.0)), costs) == ["refuted"]


def test_the_only_strength_is_not_the_weakest() -> None:
    weakest = replace(CLAIM, statistics=(Statistic("effect", at(EFFECT, "least"), above(0.0), "any"),))
    several = table(lambda s, _: 5.0)
    assert words(several, weakest) == ["confirmed"]
    assert words(several.filter(strength=STRENGTHS[0]), weakest) == ["not testable"]


def test_the_only_strength_is_not_compared_with_itself() -> None:
    alone = table(lambda s, _: 5.0).filter(strength=STRENGTHS[0])
    same = Statistic("rise", EFFECT - at(EFFECT, STRENGTHS[0]), above(0.5), "any")
    assert words(alone, replace(CLAIM, statistics=(same,))) == ["not testable"]
    beyond = Statistic("effect", EFFECT, above(0.0), "any", strengths=above(STRENGTHS[0]))
    assert words(alone, replace(CLAIM, statistics=(beyond,))) == ["not testable"]
    assert words(table(lambda s, _: 5.0), replace(CLAIM, statistics=(beyond,))) == ["confirmed"]


@pytest.mark.parametrize(
    ("effect", "strengths", "needed"),
    [
        (at(EFFECT, "least"), (1.0,), "at least two strengths"),
        (EFFECT - at(EFFECT, "least"), (1.0,), "at least two strengths"),
        (EFFECT - at(EFFECT, 4.0), (1.0,), "at least two strengths, one of them 4"),
        (EFFECT - at(EFFECT, 4.0), (1.0, 2.0), "strength 4"),
        (rank(STRENGTH, EFFECT), (1.0, 2.0), "at least three strengths"),
        (EFFECT - at(number("other"), "least"), (1.0,), "effect//full, other//full"),
    ],
)
def test_a_claim_without_a_value_names_what_it_needs(effect: Any, strengths: tuple[float, ...], needed: str) -> None:
    claim = replace(CLAIM, statistics=(Statistic("effect", effect, above(0.0), "any"),))
    few = table(lambda s, _: s).filter(polars.col("strength").is_in(strengths))
    (verdict,) = check_claims(few, [claim]).verdicts
    assert (verdict.verdict, verdict.evidence) == (
        "not testable",
        f"these results give it no value: it needs {needed}",
    )


def test_every_strength_counts_and_the_worst_is_named() -> None:
    (verdict,) = check_claims(table(lambda s, _: 5.0 if s < 6 else -1.0), [CLAIM]).verdicts
    assert (verdict.verdict, verdict.strength) == ("refuted", 6.0)
    assert "at strength 6" in verdict.evidence
    assert "the worst of 4 looks" in verdict.evidence


def test_errors_that_cancel_over_strengths_are_no_equivalence() -> None:
    """An effective rank wrong by +2.5 at half of the strengths and by -2.5 at the others."""
    claim = replace(CLAIM, statistics=(Statistic("rank minus count", EFFECT, within(1.0), "one variable"),))
    assert words(table(lambda s, _: 2.5 if s in (1.0, 4.0) else -2.5), claim) == ["refuted"]
    assert words(table(lambda s, _: 0.3), claim) == ["confirmed"]


def test_datasets_are_verdicts_of_their_own() -> None:
    parts = [table(lambda s, _: 1.0, dataset=name) for name in "ab"] + [table(lambda s, _: -1.0, dataset="c")]
    found = check_claims(polars.concat(parts), [CLAIM])
    assert [(v.dataset, v.verdict) for v in found.verdicts] == [
        ("a", "confirmed"),
        ("b", "confirmed"),
        ("c", "refuted"),
    ]
    assert found.holds == {"X-1": (2, 3)}


def test_further_axes_are_not_pooled_either() -> None:
    parts = [table(lambda s, _: 1.0, batch=64), table(lambda s, _: -1.0, batch=500)]
    found = check_claims(polars.concat(parts), [CLAIM])
    assert [(v.dataset, v.verdict) for v in found.verdicts] == [
        ("made, batch 64", "confirmed"),
        ("made, batch 500", "refuted"),
    ]


def test_three_equal_values_decide_nothing() -> None:
    made = table(lambda s, _: 1.0, seeds=3).with_columns(value=polars.lit(1.0))
    (verdict,) = check_claims(made, [CLAIM]).verdicts
    assert verdict.verdict == "undecided"
    assert (verdict.low, verdict.high) == (pytest.approx(0.29, abs=0.01), 1.0)
    assert "6 seeds are the fewest that decide" in verdict.evidence


def test_seeds_kept_for_choosing_presets_are_not_looked_at() -> None:
    made = table(lambda s, seed: 1.0 if seed < 8 else -50.0)
    moved = made.with_columns(
        seed=polars.when(polars.col("seed") >= 8).then(polars.col("seed") + 992).otherwise("seed")
    )
    assert words(made) != ["confirmed"]
    (verdict,) = check_claims(moved, [CLAIM]).verdicts
    assert (verdict.verdict, verdict.seeds) == ("confirmed", 8)


def test_a_seed_without_all_its_strengths_is_no_value_unless_none_has_all() -> None:
    begun = table(lambda s, seed: 1.0 if seed < 7 or s < 6 else None)
    assert check_claims(begun, [CLAIM]).verdicts[0].seeds == 7
    one_each = table(lambda s, seed: 1.0 if STRENGTHS[seed % 4] == s else None, seeds=8)
    assert whole_seeds(one_each).height == one_each.height


@pytest.mark.parametrize(("other", "expected"), [(1.0, "confirmed"), (-1.0, "undecided")])
def test_types_are_told_by_both_rules(other: float, expected: str) -> None:
    claim = replace(
        CLAIM, statistics=(Statistic("effect", number("effect", None, "active"), above(0.0), "a direction"),)
    )
    parts = [table(lambda s, _: 1.0, rule="standard"), table(lambda s, _: other, rule="relative")]
    made = polars.concat(parts).with_columns(variables=polars.lit("active"))
    (verdict,) = check_claims(made, [claim]).verdicts
    assert verdict.verdict == expected
    assert dict(verdict.rules) == {"standard": "confirmed", "relative": "confirmed" if other > 0 else "refuted"}
    if other < 0:
        assert "confirmed by the standard rule, refuted by the relative rule" in verdict.evidence


def test_a_paper_is_decided_by_its_own_rule_and_the_library_s() -> None:
    """The rule for N(0, I) has no say under a learned prior, nor the relative one where the decoder was asked."""
    active = Statistic("effect", number("effect", None, "active"), above(0.0), "a direction")
    effects = {"standard": -1.0, "relative": 1.0, "used": 1.0}
    parts = [table(lambda s, _, own=own: own, rule=rule) for rule, own in effects.items()]
    made = polars.concat(parts).with_columns(variables=polars.lit("active"))
    found = {
        paper: check_claims(made, [replace(CLAIM, paper=paper, statistics=(active,))]).verdicts[0]
        for paper in ("be_more_active", "polarised_ivae")
    }
    assert found["polarised_ivae"].verdict == "confirmed"
    assert found["be_more_active"].verdict == "undecided"
    assert dict(found["polarised_ivae"].rules)["standard"] == "refuted"


def settled(made: polars.DataFrame, expression: polars.Expr) -> polars.DataFrame:
    runs = made.with_columns(metric=polars.lit("settled"), value=expression.cast(polars.Float64))
    return polars.concat([made, runs])


def test_a_word_that_changes_without_unsettled_runs_is_undecided() -> None:
    made = table(lambda s, seed: 1.0 if seed < 8 else 0.9, seeds=16)
    steady = settled(made, polars.col("seed") < 8)
    assert words(steady) == ["confirmed"]
    hung = table(lambda s, seed: 5.0 if seed < 8 else -1.0, seeds=16)
    assert words(hung) == ["confirmed"]
    (verdict,) = check_claims(settled(hung, polars.col("seed") >= 8), [CLAIM]).verdicts
    assert verdict.verdict == "undecided"
    assert "confirmed with all runs, refuted without those that did not settle" in verdict.evidence


def test_holm_is_over_the_claims_of_a_paper_for_one_method_and_dataset() -> None:
    spread = norm.ppf((np.arange(12) + 0.5) / 12)
    made = table(lambda s, seed: None if s > 1 else 0.75 + spread[seed], seeds=12)
    alone = check_claims(made, [CLAIM]).verdicts[0]
    assert alone.verdict == "confirmed"
    assert alone.survives
    many = [replace(CLAIM, id=f"X-{k}") for k in range(20)]
    crowd = check_claims(made, many).verdicts
    assert {v.verdict for v in crowd} == {"confirmed"}
    assert {v.survives for v in crowd} == {False}
    elsewhere = [replace(own, paper=paper) for own, paper in zip(many[:4], PAPERS, strict=False)]
    assert {v.survives for v in check_claims(made, elsewhere).verdicts} == {True}


def test_an_undecided_verdict_neither_stands_nor_falls() -> None:
    (verdict,) = check_claims(table(lambda s, seed: (-1.0) ** seed), [CLAIM]).verdicts
    assert (verdict.verdict, verdict.survives) == ("undecided", None)


def test_what_no_run_has_is_not_testable_and_half_of_it_confirms_nothing() -> None:
    missing = Statistic("another", number("absent"), above(0.0), "a direction")
    (verdict,) = check_claims(table(lambda s, _: 1.0), [replace(CLAIM, statistics=(missing,))]).verdicts
    assert verdict.verdict == "not testable"
    assert "absent//full" in verdict.evidence
    both = replace(CLAIM, statistics=(*CLAIM.statistics, missing))
    (verdict,) = check_claims(table(lambda s, _: 1.0), [both]).verdicts
    assert verdict.verdict == "undecided"
    assert "no run has: another" in verdict.evidence
    assert words(table(lambda s, _: -1.0), both) == ["refuted"]


def test_laws_and_untestable_entries_are_in_the_summary() -> None:
    law = replace(CLAIM, id="X-law", statistics=(), law=Law("tests/x.py::test", "it holds", "refuted"))
    no = replace(CLAIM, id="X-no", statistics=(), untestable="a drawing")
    found = check_claims(table(lambda s, _: 1.0), [CLAIM, law, no])
    assert found.headline.startswith("1 confirmed, 0 refuted, 0 undecided, 1 not testable; of the laws on arrays")
    rows = {(row["paper"], row["method"]): row for row in found.summary}
    assert rows["own", "laws on arrays"]["refuted"] == 1
    assert rows["own", "beta-VAE"]["confirmed"] == 1
    assert rows["own", ""]["not testable"] == 1
    assert json.loads(json.dumps(found.to_dict()))["summary"] == [dict(row) for row in found.summary]


@pytest.mark.parametrize(("second", "expected"), [(1.0, "confirmed"), (-1.0, "refuted"), (None, "not testable")])
def test_a_summary_holds_where_all_it_sums_up_does(second: float | None, expected: str) -> None:
    also = replace(CLAIM, id="X-3", statistics=(Statistic("more", number("more"), above(0.0), "a direction"),))
    both = replace(CLAIM, id="X-sum", statistics=(), follows=("X-1", "X-3") if second else ("X-3",))
    made = table(lambda s, _: 1.0)
    if second is not None:
        made = polars.concat([made, made.with_columns(metric=polars.lit("more"), value=polars.col("value") * second)])
    found = check_claims(made, [CLAIM, also, both])
    assert [v.verdict for v in found.verdicts if v.name == "X-sum"] == [expected]


def test_one_cloud_of_all_methods_stands_beside_each() -> None:
    claim = replace(
        CLAIM, together=True, statistics=(Statistic("trend", rank(STRENGTH, EFFECT), above(0.0), "sign", "sign"),)
    )
    made = polars.concat([table(lambda s, _: s, method=name) for name in ("one", "two")])
    found = check_claims(made, [claim]).verdicts
    assert [v.method for v in found] == ["all methods", "one", "two"]


def test_other_code_is_named_and_what_is_none_of_it_refused() -> None:
    assert chosen_claims(["study.claims.test_check:CLAIM", "RTC-F3L"]) == (CLAIM, LEDGER["RTC-F3L"])
    with pytest.raises(ConfigError, match="there is no claim 'RTC-F3'"):
        chosen_claims(["RTC-F3"])
    with pytest.raises(ConfigError, match="expected the id of a claim"):
        chosen_claims([{"name": "active_codes_agree"}])
    with pytest.raises(ConfigError, match="to be a Claim"):
        chosen_claims(["study.claims.test_check:STRENGTHS"])


def test_the_ledger_is_in_the_catalogue() -> None:
    assert set(LEDGER) <= set(registry.names("claim"))
    assert registry.record("claim", "DD-F4R").references == ("Mathieu2019",)
    assert isinstance(registry.build("claim", "RTC-F3R", table(lambda s, _: 1.0)), Verification)


def test_entries_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(ConfigError, match="statistics, a law"):
        replace(CLAIM, statistics=())
    with pytest.raises(ConfigError, match="the reason why"):
        replace(CLAIM, untestable="because")
    with pytest.raises(ConfigError, match="occurs twice"):
        ledger_of([CLAIM, CLAIM])
    with pytest.raises(ConfigError, match="follows from"):
        ledger_of([replace(CLAIM, follows=("X-9",))])
    with pytest.raises(ConfigError, match="one of the papers"):
        replace(CLAIM, paper="another")


@pytest.mark.parametrize(
    ("along", "followed", "told"), [("still", "effect", "not testable"), ("effect", "still", "refuted")]
)
def test_nothing_is_ranked_along_a_number_that_never_changes(along: str, followed: str, told: str) -> None:
    # What stays while the other moves does not follow it; along what stays nothing was tried.
    made = table(lambda s, _: s)
    still = made.with_columns(polars.lit("still").alias("metric"), polars.lit(3.0).alias("value"))
    trend = Statistic("trend", rank(number(along), number(followed)), above(0.0), "a direction", "sign")
    assert words(polars.concat([made, still]), replace(CLAIM, statistics=(trend,))) == [told]


def labels_of_runs(study: Study) -> list[Mapping[str, Any]]:
    return [point.labels for point in study.points]


@pytest.mark.parametrize("name", study_names())
def test_every_study_names_claims_that_its_methods_are_said_of(name: str) -> None:
    claims = chosen_claims(study_claims(name))
    assert claims
    powers = decidable(claims, labels_of_runs(load_study(name, scale="smoke")))
    assert powers
    assert all(power.effect is None for power in powers if power.seeds < 6)


def test_power_counts_the_seeds_that_are_planned_and_evaluated() -> None:
    study = load_study("be_more_active", scale="laptop", settings=["axes.seed=50"])
    powers = {(one.claim, one.kind): one for one in decidable(chosen_claims(study.claims), labels_of_runs(study))}
    assert powers["BMA-A1", "mean"].seeds == 50
    assert powers["BMA-A1", "mean"].effect == pytest.approx(0.4, abs=0.02)
    assert "7" in powers["BMA-F7a, F7b", "sign"].words
    kept = load_study("be_more_active", scale="laptop", settings=["axes.seed=[1000,1001,1002,1003,1004,1005]"])
    assert decidable(chosen_claims(kept.claims), labels_of_runs(kept)) == ()


def test_published_verdicts_are_read_and_a_broken_file_is_said_so(tmp_path: Path) -> None:
    assert published_verdicts(tmp_path) is None
    found = check_claims(table(lambda s, _: 1.0), [CLAIM, OTHER])
    (tmp_path / "verdict.json").write_text(json.dumps(found.to_dict()))
    assert published_verdicts(tmp_path) == found
    (tmp_path / "verdict.json").write_text("[1]")
    with pytest.raises(DataError, match="expected the verdicts of a study"):
        published_verdicts(tmp_path)


def test_the_page_of_a_published_folder_opens_with_its_verdicts(tmp_path: Path) -> None:
    from polarised.report import write

    made = table(lambda s, _: 1.0).with_columns(metric=polars.lit("count"), variables=polars.lit("active"))
    made.write_parquet(tmp_path / "results.parquet")
    found = check_claims(table(lambda s, _: 1.0), [CLAIM, OTHER])
    (tmp_path / "verdict.json").write_text(json.dumps(found.to_dict()))
    page = write([tmp_path]).read_text(encoding="utf-8")
    assert all(own.evidence.split(" over ")[0] in page for own in found.verdicts)
    told = json.loads(page.split('type="application/json" id="data">')[1].split("</script>")[0])["verdicts"]
    assert [(own["name"], own["method"], own["dataset"]) for own in told if own["name"] == "X-2"] == [
        ("X-2", "beta-VAE", "made")
    ]


def test_a_table_needs_to_know_whose_claims(tmp_path: Path) -> None:
    table(lambda s, _: 1.0).write_parquet(tmp_path / "results.parquet")
    with pytest.raises(DataError, match="expected to know the study of"):
        verify(tmp_path / "results.parquet")
    assert verify(tmp_path / "results.parquet", study="rtc_vae").verdicts
    table(lambda s, _: 1.0).drop("seed").write_parquet(tmp_path / "results.parquet")
    with pytest.raises(DataError, match="expected a column seed"):
        verify(tmp_path / "results.parquet", study="rtc_vae")


def test_the_ledger_in_the_documentation_is_current() -> None:
    """Written by `write_ledger`."""
    written = (ROOT / "docs" / "ledger.md").read_text(encoding="utf-8")
    assert written == ledger_page(published_under(ROOT / "docs" / "results"))
    for name in LEDGER:
        assert f"### {name}\n" in written
