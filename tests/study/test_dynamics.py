"""The timeline of a run in the table and in the claims about learning."""

from pathlib import Path

import numpy as np
import polars
import pytest

from polarised.errors import DataError
from polarised.regime.classify import Rule
from polarised.study.claims import LEDGER, check_claims
from polarised.study.measures import OVER_TRAINING, dynamics_of, timeline_of
from polarised.study.results import COLUMNS
from study.watched import TYPES, made_up, made_up_run

RULES: tuple[Rule, ...] = ("standard", "relative")
CLAIMS = [LEDGER[name] for name in ("BMA-F12", "BMA-S5v")]


def table(folder: Path, *, seeds: int, turned: bool = False, types: tuple[str, ...] = TYPES) -> polars.DataFrame:
    parts = []
    for seed in range(seeds):
        directory = made_up_run(folder / str(seed), seed=seed, turned=turned, standard=types)
        own = polars.concat(dynamics_of(directory)).filter(polars.col("rule") == "standard").drop("rule")
        labels = {"run": str(seed), "seed": seed, "method": "beta-VAE", "strength": 8.0, "dataset": "dsprites"}
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


def test_types_are_those_of_the_trained_model_by_the_given_rule(tmp_path: Path) -> None:
    directory = made_up_run(tmp_path / "run")
    standard, relative = (timeline_of(directory, rule=rule) for rule in RULES)
    assert standard is not None
    assert standard.final_types == TYPES
    assert relative is not None
    assert set(relative.final_types) == {"mixed"}
    (tmp_path / "unwatched").mkdir()
    assert timeline_of(tmp_path / "unwatched") is None
    assert list(dynamics_of(tmp_path / "unwatched")) == []


@pytest.mark.parametrize(
    "column", [{}, {"type": [1] * len(TYPES)}, {"type": ["asleep"] * len(TYPES)}, {"type": [["mixed"]] * len(TYPES)}]
)
def test_a_table_without_types_is_refused(tmp_path: Path, column: dict[str, list[object]]) -> None:
    directory = made_up_run(tmp_path / "run")
    polars.DataFrame({"variable": range(len(TYPES)), **column}).write_parquet(directory / "regime.parquet")
    with pytest.raises(DataError, match=r"regime\.parquet"):
        timeline_of(directory)


def words(made: polars.DataFrame) -> set[str]:
    return {verdict.verdict for verdict in check_claims(made, CLAIMS).verdicts}


def test_claims_about_learning_hold_and_fail_on_what_was_seen(tmp_path: Path) -> None:
    assert words(table(tmp_path / "a", seeds=8)) == {"confirmed"}
    assert words(table(tmp_path / "b", seeds=8, turned=True)) == {"refuted"}
    assert words(table(tmp_path / "c", seeds=3)) == {"undecided"}


def test_models_without_passive_variables_confirm_nothing_about_them(tmp_path: Path) -> None:
    assert "confirmed" not in words(table(tmp_path, seeds=8, types=("active",) * 5))


def test_results_without_snapshots_decide_nothing() -> None:
    rows = [("a", 0, "beta-VAE", 8.0, "dsprites", None, "active", "count", 3.0)]
    assert words(polars.DataFrame(rows, schema=list(COLUMNS), orient="row")) == {"not testable"}
