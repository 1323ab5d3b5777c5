import re
from pathlib import Path

import numpy as np
import polars
import pytest
from polarised.study.claims.verdict import Verdict, above, mean_interval, within
from polarised.study.verify import check_claims, verify

from polarised.errors import DataError
from polarised.study.grid import load_study
from polarised.study.results import COLUMNS

STRENGTHS = (1.0, 2.0, 4.0, 6.0, 8.0, 16.0)


def table(*, seeds: int = 8, reproduces: bool = True) -> polars.DataFrame:
    """Results of one method as the paper has them, or with every finding turned round."""
    generator = np.random.default_rng(0)
    rows = []
    for seed in range(seeds):
        for k, strength in enumerate(STRENGTHS):
            passive = float(1 + k if reproduces else 6 - k)
            run = (f"{strength}-{seed}", seed, "beta-VAE", strength, "dsprites")
            gap = 0.5 * passive + generator.normal(0, 0.05) if reproduces else 0.5 * (7 - passive)
            left = 0.001 if reproduces else 0.9 * gap
            informs = 0.1 if reproduces else 0.0
            numbers = {
                ("count", None, "active"): 9 - passive,
                ("count", None, "mixed"): 1.0,
                ("count", None, "passive"): passive,
                ("accuracy", "mean", "passive"): 0.1 + informs,
                ("accuracy", "sampled", "passive"): 0.1 + (0.1 - informs),
                ("accuracy", "mean", "random"): 0.1,
                ("accuracy", "sampled", "random"): 0.1,
                ("effective_rank", "mean", "full"): 10 - passive if reproduces else 2.0,
                ("effective_rank", "sampled", "full"): 9.9 if reproduces else 3.0,
            }
            for metric in ("total_correlation", "mutual_information"):
                numbers |= {
                    (metric, "mean", "full"): 0.1 + gap,
                    (metric, "sampled", "full"): 0.1,
                    (metric, "mean", "alive"): 0.1 + left,
                    (metric, "sampled", "alive"): 0.1 if reproduces else -0.4,
                    (metric, "mean", "active"): 0.05 + left,
                    (metric, "sampled", "active"): 0.05,
                }
            rows += [(*run, of, variables, metric, value) for (metric, of, variables), value in numbers.items()]
    return polars.DataFrame(rows, schema=list(COLUMNS), orient="row")


def words(verdicts: list[Verdict]) -> set[str]:
    return {verdict.verdict for verdict in verdicts}


def claims() -> tuple[object, ...]:
    return load_study("be_more_active", scale="smoke").claims


def test_every_claim_is_confirmed_where_it_holds() -> None:
    verdicts = check_claims(table(), claims())
    assert [v.claim for v in verdicts if v.verdict != "confirmed"] == []
    assert len(verdicts) == len(claims())


def test_every_claim_is_refused_where_it_does_not_hold() -> None:
    assert words(check_claims(table(reproduces=False), claims())) == {"not confirmed"}


def test_strengths_of_two_seeds_are_not_twelve_seeds() -> None:
    verdicts = check_claims(table(seeds=2), claims())
    assert words(verdicts) == {"undecided"}
    assert all("in 2 seeds, 3 are needed" in verdict.evidence for verdict in verdicts)


def test_an_interval_is_over_seeds_and_not_over_models() -> None:
    generator = np.random.default_rng(1)
    own = polars.DataFrame({"seed": range(8), "shift": generator.normal(0, 0.1, 8)})
    shifted = (
        table()
        .join(own, on="seed")
        .with_columns(
            value=polars.when((polars.col("variables") == "active") & (polars.col("representation") == "mean"))
            .then(polars.col("value") + polars.col("shift"))
            .otherwise("value")
        )
    )
    (verdict,) = check_claims(shifted, ["active_codes_agree"])
    expected = mean_interval(own["shift"].to_numpy() + 0.001)
    assert "over 8 seeds" in verdict.evidence
    assert f"[{expected.low:.3g}, {expected.high:.3g}]" in verdict.evidence


def test_runs_without_mixed_variables_count_too() -> None:
    made = table().with_columns(
        value=polars.when((polars.col("metric") == "count") & (polars.col("variables") == "mixed"))
        .then(0.0)
        .otherwise("value")
    )
    closing = [claim for claim in claims() if isinstance(claim, dict) and claim["name"] == "gap_closes_without_passive"]
    verdicts = check_claims(made, closing)
    assert words(verdicts) == {"confirmed"}
    assert all("over 8 seeds" in verdict.evidence for verdict in verdicts)


@pytest.mark.parametrize("seeds", [1, 2, 3])
def test_sentences_are_plain(seeds: int) -> None:
    for verdict in check_claims(table(seeds=seeds), claims()):
        assert "nan" not in verdict.evidence
        assert "the the" not in verdict.evidence
        assert re.search(r"\b1 seeds|\b[023] seed\b", verdict.evidence) is None


def test_the_exception_is_a_claim_of_its_own() -> None:
    claim = {"name": "passive_variables_grow_with_strength", "except_for": ["beta-VAE"]}
    assert words(check_claims(table(), [claim])) == {"not confirmed"}
    assert words(check_claims(table(reproduces=False), [claim])) == {"not confirmed"}
    passive = (polars.col("metric") == "count") & (polars.col("variables") == "passive")
    constant = table().with_columns(value=polars.when(passive).then(4.0).otherwise("value"))
    assert words(check_claims(constant, [claim])) == {"confirmed"}
    assert words(check_claims(constant.filter(polars.col("strength") == 1.0), [claim])) == {"undecided"}


def test_mixed_variables_are_counted_with_the_passive_ones_on_request() -> None:
    """Variables that turn from active to mixed instead of passive: only the paper's own count sees them."""
    count, kind = polars.col("metric") == "count", polars.col("variables")
    passive = polars.when(count & (kind == "passive")).then(2.0)
    mixed = passive.when(count & (kind == "mixed")).then(polars.col("strength").rank("dense").cast(polars.Float64))
    made = table().with_columns(value=mixed.otherwise("value"))
    for name in ("passive_variables_grow_with_strength", "gap_grows_with_passive"):
        (alone,), (together,) = (check_claims(made, [{"name": name, "with_mixed": w}]) for w in (False, True))
        assert alone.verdict == "not confirmed"
        assert together.verdict == "confirmed"
        assert "passive and mixed" in together.claim


def test_a_seed_without_all_its_strengths_is_no_value() -> None:
    begun = table(seeds=4).filter((polars.col("seed") < 3) | (polars.col("strength") < 6.0))
    for verdict in check_claims(begun, claims()):
        assert "over 3 seeds" in verdict.evidence


def test_seeds_of_which_none_is_whole_all_count() -> None:
    one_each = table(seeds=6).filter(polars.col("seed") == polars.col("strength").rank("dense") - 1)
    (verdict,) = check_claims(one_each, ["active_codes_agree"])
    assert "over 6 seeds" in verdict.evidence


def test_an_interval_holds_the_truth_as_often_as_it_says() -> None:
    generator = np.random.default_rng(2)
    for count in (3, 5, 20):
        found = [mean_interval(generator.normal(1.0, 2.0, count)) for _ in range(2000)]
        assert abs(np.mean([one.low < 1.0 < one.high for one in found]) - 0.95) < 0.02


def test_an_interval_that_straddles_the_threshold_is_undecided() -> None:
    assert above("n", "c", [-1.0, 1.0, 0.5, -0.5], 0.0, "effect").verdict == "undecided"
    assert within("n", "c", [0.0, 0.2, 0.0, 0.2], 0.1, "effect").verdict == "undecided"
    assert within("n", "c", [0.0, float("nan")], 0.1, "effect").verdict == "undecided"


def test_verify_reads_a_table_and_names_what_lacks(tmp_path: Path) -> None:
    file = tmp_path / "results.parquet"
    table().write_parquet(file)
    assert words(verify(file, study="be_more_active")) == {"confirmed"}
    table().drop("seed").write_parquet(file)
    with pytest.raises(DataError, match="lacks seed"):
        verify(file, study="be_more_active")
    with pytest.raises(DataError, match=r"name the study: --study"):
        verify(file)


def test_an_interval_ends_where_no_mean_can_be() -> None:
    assert "[-0.383, 1]" in above("n", "c", [1.0, 0.9, 0.2], -1.0, "correlation", limits=(-1.0, 1.0)).evidence
    assert str(mean_interval([1e-17, -1e-17, 0.0])) == "0 [0, 0]"
