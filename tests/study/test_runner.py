"""A study's list of runs and its count of steps; runs are executed in this process, or simulated."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars
import pytest

from polarised.errors import ConfigError, DataError
from polarised.study import worker
from polarised.study.claims.verify import verify
from polarised.study.config import Run
from polarised.study.executors import Event
from polarised.study.grid import Study, load_study
from polarised.study.results import collect
from polarised.study.runner import conduct, enrol, read_executor, read_study, run_states
from polarised.study.worker import work
from study.workshop import notes, study_config, write_study

HERE = "study.test_runner:here"
PRETENDED = "study.test_runner:pretended"


def here(runs: Sequence[Run], root: str, command: str = "") -> Iterator[Event]:
    """An executor that runs in this process."""
    for run in runs:
        yield Event("started", run)
        outcome = work(run.to_config(), root, command)
        yield Event(outcome.state, run, outcome.reason, outcome.seconds)


def pretended(runs: Sequence[Run], root: str, command: str = "", *, other: str = "") -> Iterator[Event]:
    """An executor that does nothing: the second run fails, and another study is started in between."""
    if other:
        enrol(load_study(other), root)
    for i, run in enumerate(runs):
        yield Event("started", run)
        yield Event("failed", run, "broken") if i == 1 else Event("done", run, seconds=2.0)


def study_of(folder: Path, name: str, **settings: object) -> Study:
    return load_study(write_study(folder / name, study_config(**settings)))  # type: ignore[arg-type]


def names_in(root: Path | str) -> set[str]:
    return {run.name for run in read_study(root).runs}


def test_a_changed_study_drops_runs_that_never_started(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    before = study_of(tmp_path, "before.yaml", runs=4, steps=12)
    enrol(before, root)
    for run in before.runs[::2]:
        (root / run.name).mkdir()
    after = study_of(tmp_path, "after.yaml", runs=2, steps=13)
    enrol(after, root)
    # Begun before were strengths 0 and 2; of 0 there is one now with 13 steps, and the two are not averaged.
    assert names_in(root) == {before.runs[2].name, *(run.name for run in after.runs)}
    enrol(before, root)
    assert names_in(root) == {run.name for run in before.runs}


def test_a_folder_holds_one_study_at_one_scale(tmp_path: Path) -> None:
    config = study_config(runs=1) | {"scales": {"small": {}, "large": {"base": {"training": {"steps": 99}}}}}
    file, root = write_study(tmp_path / "tiny.yaml", config), tmp_path / "runs"
    enrol(load_study(file, scale="small"), root)
    before = (root / "study.json").read_text()
    with pytest.raises(ConfigError, match=r"of tiny, scale large, but it holds tiny, scale small; give another --out"):
        enrol(load_study(file, scale="large"), root)
    assert (root / "study.json").read_text() == before


def test_a_run_that_another_command_saw_fail_is_not_done_again(tmp_path: Path) -> None:
    log = tmp_path / "notes"
    study = study_of(tmp_path, "tiny.yaml", runs=2, steps=3, notes=str(log))
    stream = conduct(study, tmp_path / "runs", executor=HERE)
    next(stream)
    directory = tmp_path / "runs" / study.runs[1].name
    directory.mkdir()
    (directory / "failed.txt").write_text("TrainingError: training diverged\n")
    last = list(stream)[-1]
    assert (last.done, last.failed) == (1, 1)
    assert {tag for tag, _ in notes(log)} == {0}
    assert list(conduct(study, tmp_path / "runs", executor=HERE, retry=True))[-1].done == 1
    assert {tag for tag, _ in notes(log)} == {0, 1}


def test_another_command_on_the_same_folder_loses_no_runs(tmp_path: Path) -> None:
    study = study_of(tmp_path, "mine.yaml", runs=3, steps=12)
    theirs = study_of(tmp_path, "theirs.yaml", runs=1, steps=99)
    executor = {"name": PRETENDED, "other": str(tmp_path / "theirs.yaml")}
    stream = conduct(study, tmp_path / "runs", executor=executor)
    next(stream)
    started = next(stream)
    assert started.latest is not None
    assert names_in(tmp_path / "runs") == {run.name for run in theirs.runs}
    # Our finished runs are listed at once, not only at the end.
    for progress in stream:
        assert progress.latest is not None
        if progress.latest.state == "done":
            assert progress.latest.run.name in names_in(tmp_path / "runs")
    assert names_in(tmp_path / "runs") == {run.name for run in study.runs}


@pytest.mark.parametrize("error", [DataError, ConnectionError])
def test_a_run_is_done_even_if_its_steps_cannot_be_read(
    tmp_path: Path, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(root: str, name: str) -> str | None:
        if name.endswith("done.json"):
            raise error("the store does not answer")
        return None

    monkeypatch.setattr(worker, "read_text", unreachable)
    (run,) = study_of(tmp_path, "tiny.yaml", runs=1, steps=12).runs
    assert work(run.to_config(), str(tmp_path), "")[::3] == ("done", 0)


def test_steps_of_a_failed_run_are_no_longer_wanted(tmp_path: Path) -> None:
    study = study_of(tmp_path, "tiny.yaml", runs=2, steps=12)
    stream = conduct(study, tmp_path / "runs", executor=PRETENDED)
    assert next(stream).steps_wanted == 24
    last = list(stream)[-1]
    assert (last.done, last.failed, last.running) == (1, 1, {})
    assert last.steps_taken() == last.steps_wanted == 12


def test_a_wrong_executor_is_named_before_anything_is_written(tmp_path: Path) -> None:
    study = study_of(tmp_path, "tiny.yaml", runs=1)
    for executor in ("locla", {"name": "local", "num_gpus": 1}):
        with pytest.raises(ConfigError, match=r"did you mean 'local'|its settings are: jobs"):
            next(conduct(study, tmp_path / "runs", executor=executor))
    assert not (tmp_path / "runs").exists()


def test_the_executor_is_remembered(tmp_path: Path) -> None:
    study = study_of(tmp_path, "tiny.yaml", runs=1)
    chosen = {"name": PRETENDED, "other": ""}
    list(conduct(study, tmp_path / "runs", executor=chosen))
    assert read_executor(tmp_path / "runs") == chosen


def test_the_runtime_environment_is_never_read_from_a_folder(tmp_path: Path) -> None:
    study = load_study(write_study(tmp_path / "tiny.yaml", study_config(runs=1)))
    enrol(study, tmp_path, executor={"name": "ray", "runtime_env": {"pip": ["mine"]}, "memory": 2.0})
    text = (tmp_path / "study.json").read_text()
    assert "mine" not in text
    record = json.loads(text)
    record["executor"]["runtime_env"] = {"pip": ["somebody-elses"]}
    (tmp_path / "study.json").write_text(json.dumps(record))
    assert read_executor(tmp_path) == {"name": "ray", "memory": 2.0}


def test_a_study_works_at_an_address_as_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    log, address = tmp_path / "notes", f"file://{tmp_path}/bucket"
    config = study_config(runs=2, steps=12, notes=str(log))
    config["axes"]["strength"]["objective.diverge_at"] = [1_000_000, 7]
    study = load_study(write_study(tmp_path / "tiny.yaml", config))
    last = list(conduct(study, address, executor=HERE))[-1]
    assert (last.done, last.failed) == (1, 1)
    good, bad = (tmp_path / "bucket" / run.name for run in study.runs)
    assert (good / "done.json").exists()
    assert {path.name for path in bad.iterdir()} == {"failed.txt", "log.txt", ".term-1", ".free-1"}
    assert "The last lines of its log:" in (bad / "failed.txt").read_text()
    assert "begun at step 0 of 12 by process" in (bad / "failed.txt").read_text()
    states = list(run_states(read_study(address).points, address))
    assert [state.state for state in states] == ["done", "failed"]
    assert "broken became nan at step 8" in states[1].reason
    # A failed run is repeated only on request, and finished runs are skipped.
    taken = notes(log)
    (again,) = conduct(study, address, executor=HERE)
    assert (again.earlier, again.failed) == (1, 1)
    assert notes(log) == taken
    retried = [p.latest.state for p in conduct(study, address, executor=HERE, retry=True) if p.latest]
    assert retried == ["started", "failed"]
    # Runs started by other calls stay in the list and in the table.
    more = study_of(tmp_path, "more.yaml", runs=1, steps=3)
    assert list(conduct(more, address, executor=HERE))[-1].done == 1
    # One of them is what `more` now has with other settings.
    assert names_in(address) == {study.runs[1].name, more.runs[0].name}
    assert polars.read_parquet(collect(address))["run"].n_unique() == 1
    assert not (tmp_path / "file:").exists()


def test_a_run_that_finally_succeeds_is_not_marked_as_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    study, address = study_of(tmp_path, "tiny.yaml", runs=1, steps=3), f"file://{tmp_path}/bucket"
    directory = tmp_path / "bucket" / study.runs[0].name
    directory.mkdir(parents=True)
    (directory / "failed.txt").write_text("OSError: no network\n")
    (waiting,) = conduct(study, address, executor=HERE)
    assert waiting.failed == 1
    assert list(conduct(study, address, executor=HERE, retry=True))[-1].done == 1
    assert not (directory / "failed.txt").exists()


def test_a_folder_without_a_study_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere does not exist"):
        verify(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"runs does not exist; start one"):
        read_study(tmp_path / "runs")
    with pytest.raises(DataError, match=r"bucket has no study.json"):
        read_study(f"file://{tmp_path}/bucket")
    with pytest.raises(ConfigError, match="an address that fsspec can open"):
        read_study("nosuch://bucket/study")
    (tmp_path / "table.parquet").write_text("words")
    (tmp_path / "study.json").write_text(json.dumps([1]))
    with pytest.raises(DataError, match="it has none"):
        read_study(tmp_path)
    with pytest.raises(DataError, match="could not read"):
        verify(tmp_path / "table.parquet", study="be_more_active")
    with pytest.raises(ConfigError, match="is a folder; name a YAML file"):
        load_study(tmp_path)


@pytest.mark.parametrize("place", ["run", "claim", "executor"])
def test_an_untrusted_list_of_runs_cannot_name_code(tmp_path: Path, place: str) -> None:
    enrol(study_of(tmp_path, "mine.yaml", runs=1, steps=12), tmp_path)
    known = json.loads((tmp_path / "study.json").read_text())
    if place == "run":
        next(iter(known["runs"].values()))["config"]["objective"] = "hostile:run"
    elif place == "claim":
        known["claims"] = [{"name": "hostile:run"}]
    else:
        known["executor"] = {"name": "hostile:run"}
    (tmp_path / "study.json").write_text(json.dumps(known))
    with pytest.raises(DataError, match=r"names hostile:run.*POLARISED_TRUST=hostile"):
        (read_executor if place == "executor" else read_study)(tmp_path)
