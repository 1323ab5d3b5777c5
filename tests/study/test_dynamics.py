"""What was seen of a run while it trained, in the table and in the claims about learning."""

from pathlib import Path

import numpy as np
import polars
import pytest
from polarised.study.claims.verdict import Verdict
from polarised.study.verify import check_claims

from polarised.regime.classify import Rule
from polarised.study.grid import load_study
from polarised.study.measures import OVER_TRAINING, dynamics_of, timeline_of
from polarised.study.results import COLUMNS
from study.watched import TYPES, made_up, made_up_run

RULES: tuple[Rule, ...] = ("standard", "relative")
CLAIMS = load_study("learning_dynamics", scale="smoke").claims


def table(folder: Path, *, seeds: int, turned: bool = False, types: tuple[str, ...] = TYPES) -> polars.DataFrame:
    parts = []
    for seed in range(seeds):
        directory = made_up_run(folder / str(seed), seed=seed, turned=turned, standard=types)
        own = polars.concat(dynamics_of(directory)).filter(polars.col("rule") == "standard").drop("rule")
        labels = {"run": str(seed), "seed": seed, "method": "BetaVAE", "strength": 8.0, "dataset": "dsprites"}
        parts.append(own.with_columns(*(polars.lit(value).alias(name) for name, value in labels.items())))
    joined: polars.DataFrame = polars.concat(parts).select(*COLUMNS, "variable")
    return joined


def test_the_numbers_of_a_variable(tmp_path: Path) -> None:
    directory, timeline = made_up_run(tmp_path / "run"), made_up()
    found = polars.concat(dynamics_of(directory))
    assert set(found["metric"]) == {output.name for output in OVER_TRAINING}
    first = found.filter(variable=0, rule="standard")
    values = dict(first.select("metric", "value").iter_rows())
    assert set(first["variables"]) == {"active"}
    others, active = [1, 2, 3, 4, 5, 6, 7], [2, 5, 7]
    own = timeline.correlations[:, 0]
    assert values["correlated_share"] == pytest.approx(timeline.correlated_pairs()[0] / (60 * 7))
    assert values["correlated_share_with_active"] == (np.abs(own[:, active]) > 0.2).mean()
    assert values["late_correlated_share_with_active"] == (np.abs(own[30:, active]) > 0.2).mean()
    assert values["correlation_with_passive"] == pytest.approx(np.abs(own[:, [1, 4, 6]]).mean())
    assert values["correlation_spread"] == pytest.approx(own[:, others].std(axis=0).mean())
    assert values["strongest_correlation"] == pytest.approx(np.abs(own[-1, others]).max())
    assert values["strongest_correlation_with_alive"] == pytest.approx(np.abs(own[-1, [2, 3, 5, 7]]).max())


def test_types_are_those_of_the_trained_model_by_the_rule_asked_for(tmp_path: Path) -> None:
    directory = made_up_run(tmp_path / "run")
    standard, relative = (timeline_of(directory, rule=rule) for rule in RULES)
    assert standard is not None
    assert standard.final_types == TYPES
    assert relative is not None
    assert set(relative.final_types) == {"mixed"}
    (tmp_path / "unwatched").mkdir()
    assert timeline_of(tmp_path / "unwatched") is None
    assert list(dynamics_of(tmp_path / "unwatched")) == []


def words(verdicts: list[Verdict]) -> dict[str, str]:
    return {verdict.name: verdict.verdict for verdict in verdicts}


@pytest.mark.parametrize("seeds", [1, 2, 5])
def test_every_claim_about_learning_can_hold_and_fail(tmp_path: Path, seeds: int) -> None:
    holds = check_claims(table(tmp_path / "a", seeds=seeds), CLAIMS)
    fails = check_claims(table(tmp_path / "b", seeds=seeds, turned=True), CLAIMS)
    assert len(holds) == len(fails) == len(CLAIMS)
    assert set(words(holds).values()) == {"confirmed"}, [str(verdict) for verdict in holds]
    assert set(words(fails).values()) == {"not confirmed"}, [str(verdict) for verdict in fails]
    unit = f"over {seeds} models" if seeds >= 3 else f"variables of {seeds} model"
    assert all(unit in verdict.evidence for verdict in holds + fails)


def test_a_model_without_passive_variables_decides_nothing_about_them(tmp_path: Path) -> None:
    verdicts = check_claims(table(tmp_path, seeds=1, types=("active",) * 5), CLAIMS)
    found = words(verdicts)
    assert found.pop("active_means_stay_uncorrelated") == "confirmed"
    assert set(found.values()) == {"undecided"}
    assert [verdict.evidence for verdict in verdicts if "nan" in verdict.evidence] == []
    assert all("no model has a value" in verdict.evidence for verdict in verdicts if verdict.verdict == "undecided")


def test_results_without_snapshots_decide_nothing() -> None:
    rows = [("a", 0, "BetaVAE", 8.0, "dsprites", None, "active", "count", 3.0)]
    found = check_claims(polars.DataFrame(rows, schema=list(COLUMNS), orient="row"), CLAIMS)
    assert set(words(found).values()) == {"undecided"}
