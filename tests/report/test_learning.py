"""Training on the page of a study: compact, and equal to the timeline."""

import base64
import json

import numpy as np
import polars
import pytest

from polarised.regime.timeline import Timeline, correlated_shares
from polarised.report.study_page import learning, study
from study.watched import TYPES, made_up


def pairs(run: dict[str, object]) -> np.ndarray:
    numbers = np.frombuffer(base64.b64decode(str(run["correlations"])), "<i2") / 1000
    return numbers.reshape(len(run["steps"]), -1)  # type: ignore[arg-type]


def test_the_stored_timeline_equals_the_recorded_one() -> None:
    timeline = made_up(moments=100)
    (run,) = learning({"a": timeline})["runs"]
    assert run["steps"] == timeline.steps
    rows, columns = np.tril_indices(8, -1)
    np.testing.assert_allclose(pairs(run), timeline.correlations[:, rows, columns], atol=5.01e-4)
    assert run["counts"] == timeline.correlated_pairs().tolist()
    assert run["final"] == "".join(kind[0] for kind in TYPES)
    whole = correlated_shares(timeline.correlations, TYPES)
    assert run["shares"]["whole"] == pytest.approx(whole, abs=1e-4)
    weights = np.array([period["shares"]["active–passive"] for period in run["periods"]])
    assert weights.mean() == pytest.approx(whole["active–passive"], abs=0.01)
    assert (run["periods"][0]["from"], run["periods"][-1]["to"]) == (timeline.steps[0], timeline.steps[-1])


def test_300_moments_of_ten_variables_are_kept_whole_in_a_few_kilobytes() -> None:
    timeline = made_up(moments=301, types=(*TYPES, "passive", "active"))
    found = learning({"a": timeline})
    assert found["runs"][0]["steps"] == timeline.steps
    assert len(json.dumps(found)) < 100_000


@pytest.mark.parametrize(("runs", "types"), [(200, TYPES), (1, TYPES * 25), (8, TYPES * 4)])
def test_many_runs_or_variables_stay_small_and_count_the_omitted_ones(runs: int, types: tuple[str, ...]) -> None:
    timeline = made_up(moments=301 if runs < 100 else 40, types=types)
    found = learning({str(i): timeline for i in range(runs)})
    assert len(json.dumps(found)) < 1_000_000
    assert len(found["runs"]) + found["left_out"] == runs
    assert (found["left_out"] > 0) == (runs == 200)
    for run in found["runs"]:
        assert run["moments"] == len(timeline)
        assert len(run["steps"]) >= 24
        assert len(run["counts"]) == len(types)
        assert {run["final"][j] for j in run["variables"]} == {"a", "m", "p"}
        assert (run["steps"][0], run["steps"][-1]) == (timeline.steps[0], timeline.steps[-1])


def test_a_run_with_one_snapshot_has_no_curves() -> None:
    timeline = Timeline()
    timeline.update(0, [[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    assert learning({"a": timeline})["runs"] == []
    assert learning({})["runs"] == []


def test_numbers_of_single_variables_are_no_measurement_of_a_run(table: polars.DataFrame) -> None:
    single = table.head(1).with_columns(polars.lit("correlated_share").alias("metric"), variable=polars.lit(3))
    found = study(polars.concat([table, single], how="diagonal"))
    assert "correlated_share" not in {measurement["metric"] for measurement in found["measurements"]}
