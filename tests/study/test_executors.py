import os
import signal
from collections.abc import Iterator
from pathlib import Path

import polars

from polarised.study.conduct import conduct, run_states
from polarised.study.executors import Event, local
from polarised.study.grid import Study, load_study
from polarised.study.results import COLUMNS, collect, results_of
from study.workshop import notes, study_config, until, workers_of, write_study


def tiny_study(tmp_path: Path, **settings: object) -> Study:
    return load_study(write_study(tmp_path / "tiny.yaml", study_config(**settings)))  # type: ignore[arg-type]


def test_a_killed_worker_is_replaced_and_a_diverging_run_stops_nothing(tmp_path: Path) -> None:
    log = tmp_path / "notes"
    config = study_config(runs=2, steps=30, notes=str(log), sleep=0.02)
    config["axes"]["strength"]["objective.diverge_at"] = [1_000_000, 7]
    study = load_study(write_study(tmp_path / "tiny.yaml", config))
    root = tmp_path / "runs"
    events: list[Event] = []
    killed = False
    stream: Iterator[Event] = local(study.runs, str(root), jobs=1)
    for event in stream:
        events.append(event)
        if event.state == "started" and not killed:
            checkpoint = root / study.runs[0].name / "checkpoint.safetensors"
            until(checkpoint.exists)
            for pid in workers_of(os.getpid()):
                os.kill(pid, signal.SIGKILL)
            killed = True
    states = [(event.run.objective["tag"], event.state) for event in events]
    assert states == [(0, "started"), (0, "lost"), (1, "started"), (1, "failed"), (0, "started"), (0, "done")]
    assert "broken became nan at step 8" in events[3].reason
    assert not workers_of(os.getpid())
    # What a checkpoint held was not done again.
    steps = [step for tag, step in notes(log) if tag == 0]
    assert steps.count(0) == 1
    assert set(steps) == set(range(30))
    assert [state.state for state in run_states(study.points, root)] == ["done", "failed"]

    # The numbers are those of a run nobody disturbed.
    calm = tiny_study(tmp_path, runs=1, steps=30, notes="", sleep=0.0)
    list(conduct(calm, tmp_path / "calm", executor={"name": "local", "jobs": 1}))
    disturbed = results_of(study.points, root).drop("run")
    assert disturbed.equals(results_of(calm.points, tmp_path / "calm").drop("run"))


def test_retry_is_on_demand(tmp_path: Path) -> None:
    study = tiny_study(tmp_path, runs=1, steps=6, diverge_at=2)
    last = list(conduct(study, tmp_path / "runs", executor="local"))[-1]
    assert (last.done, last.failed) == (0, 1)
    again = list(conduct(study, tmp_path / "runs", executor="local"))
    assert len(again) == 1
    assert again[0].failed == 1
    retried = [p.latest.state for p in conduct(study, tmp_path / "runs", executor="local", retry=True) if p.latest]
    assert retried == ["started", "failed"]


def test_stopping_early_saves_what_is_running(tmp_path: Path) -> None:
    study = tiny_study(tmp_path, runs=1, steps=3000, sleep=0.01)
    root = tmp_path / "runs"
    stream = local(study.runs, str(root), jobs=1)
    next(stream)
    until((root / study.runs[0].name / "checkpoint.safetensors").exists)
    stream.close()  # type: ignore[attr-defined]
    assert not workers_of(os.getpid())
    (state,) = run_states(study.points, root)
    assert state.state == "waiting"
    assert state.step > 0


def test_table_is_tidy(tmp_path: Path) -> None:
    study = tiny_study(tmp_path, runs=2, steps=6)
    root = tmp_path / "runs"
    list(conduct(study, root, executor={"name": "local", "jobs": 1}))
    table = polars.read_parquet(collect(root))
    assert tuple(table.columns) == COLUMNS
    assert table["strength"].unique().sort().to_list() == [0.0, 1.0]
    key = ["run", "representation", "variables", "metric"]
    assert len(table.unique(key)) == len(table)
    counts = table.filter(polars.col("metric") == "count").group_by("run").agg(polars.col("value").sum())
    assert counts["value"].to_list() == [3.0, 3.0]
    assert {"reconstruction", "rate", "accuracy", "total_correlation"} <= set(table["metric"])
