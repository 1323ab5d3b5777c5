import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars
import pytest

from polarised.errors import TrainingError
from polarised.models import load_vae, vae
from polarised.regime import Encodings
from polarised.study import Run, execute, load_run, measures, stages
from polarised.study.config import Evaluation
from polarised.study.grid import load_study
from polarised.study.leases import BusyError, held, locked
from polarised.study.stages import dataset_of, is_done
from polarised.study.storage import DiskFullError, reason, recording_failure
from study.workshop import notes, study_config


def tiny(**objective: object) -> Run:
    return Run.from_config(study_config(**objective)["base"])  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return execute(
        replace(tiny(), snapshots=replace(tiny().snapshots, every=4, examples=50)), tmp_path_factory.mktemp("r")
    )


def test_every_stage_writes_its_file(finished: Path) -> None:
    names = {path.name for path in finished.iterdir()}
    expected = "config.yaml model.safetensors history.parquet training_time.json snapshots.npz encodings.npz"
    expected += " reconstruction.parquet regime.parquet histograms.npz scores.parquet downstream.parquet done.json"
    assert set(expected.split()) <= names
    assert "checkpoint.safetensors" not in names
    done = json.loads((finished / "done.json").read_text())
    parts = done["training_seconds"], done["evaluation_seconds"]
    assert min(parts) > 0
    assert done["seconds"] >= sum(parts) - 0.1
    made = (finished / "config.yaml").read_text()
    assert "command:" in made
    assert "torch:" in made


def test_scores_have_both_rules_and_the_whole_code_once(finished: Path) -> None:
    scores = polars.read_parquet(finished / "scores.parquet")
    whole = scores.filter(polars.col("variables") == "full")
    assert whole["rule"].null_count() == len(whole)
    assert len(whole.unique(["metric", "representation"])) == len(whole)
    counts = scores.filter(polars.col("metric") == "count").group_by("rule").agg(polars.col("value").sum())
    assert dict(counts.iter_rows()) == {"used": 3.0, "relative": 3.0, "standard": 3.0}


def test_downstream_has_a_random_baseline(finished: Path) -> None:
    table = polars.read_parquet(finished / "downstream.parquet")
    random = table.filter((polars.col("variables") == "random") & (polars.col("metric") == "accuracy_shape"))
    assert random["value"].to_list() == [1 / 3, 1 / 3]


def test_accuracy_is_that_on_the_unseen_inputs() -> None:
    known = np.random.default_rng(0).choice([-1.0, 1.0], size=(120, 1))
    labels = (known > 0).astype(np.int64)
    seen, other = (Encodings(sign * known, variance=np.full((120, 1), 0.01), factors=labels) for sign in (1, -1))
    run = replace(tiny(), evaluation=Evaluation(downstream=True, downstream_strengths=(1.0,)))

    def accuracy(first: Encodings, unseen: Encodings | None = None) -> set[float]:
        table = measures.downstream(run, first, measures.regimes(run, first), unseen)
        table = table.filter(polars.col("variables") == "full")
        return set(table.filter(polars.col("metric") == "accuracy")["value"])

    assert accuracy(seen) == accuracy(seen, seen) == {1.0}
    assert accuracy(seen, other) == {0.0}


def test_the_published_protocol_tests_on_a_separate_sample(tmp_path: Path) -> None:
    paper, laptop = (load_study("be_more_active", scale=scale).runs[0].evaluation for scale in ("paper", "laptop"))
    assert (paper.examples, paper.downstream_test, laptop.downstream_test) == (10_000, 5_000, 0)
    run = replace(tiny(), evaluation=replace(tiny().evaluation, downstream_test=30))
    assert run.name == tiny().name
    directory = execute(run, tmp_path)
    unseen = measures.encode_unseen(run, load_vae(directory / "model.safetensors"), dataset_of(run))
    assert len(unseen) == 30
    seen = Encodings.load(directory / "encodings.npz")
    regimes = measures.regimes(run, seen)
    expected = measures.downstream(run, seen, regimes, unseen)
    assert polars.read_parquet(directory / "downstream.parquet").equals(expected)
    assert not expected.equals(measures.downstream(run, seen, regimes))


def test_histograms_count_every_example(finished: Path) -> None:
    with np.load(finished / "histograms.npz", allow_pickle=False) as archive:
        assert archive["counts"].shape == (3, 3, 20)
        assert (archive["counts"].sum(axis=2) == 60).all()
        assert archive["edges"].shape == (3, 3, 21)


def test_a_finished_run_is_not_changed_again(finished: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished.iterdir() if path.name != ".lock"}
    execute(load_run(finished), finished.parent)
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_measuring_opens_model_and_dataset_at_most_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tiny()
    directory = execute(run, tmp_path)
    (directory / "reconstruction.parquet").unlink()
    (directory / "decoder_use.parquet").unlink()
    opened = []
    for module, name in ((vae, "load_vae"), (stages, "dataset_of")):
        own = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, own=own, name=name: opened.append(name) or own(*a))
    stages.measure(run, directory)
    assert sorted(opened) == ["dataset_of", "load_vae"]
    opened.clear()
    stages.measure(run, directory)
    assert not opened


def test_another_evaluation_measures_again_without_training(tmp_path: Path) -> None:
    log = tmp_path / "notes"
    run = tiny(notes=str(log))
    directory = execute(run, tmp_path)
    taken = notes(log)
    other = replace(run, evaluation=replace(run.evaluation, examples=40))
    assert other.name == run.name
    assert not is_done(other, tmp_path)
    execute(other, tmp_path)
    assert is_done(other, tmp_path)
    assert notes(log) == taken
    assert load_run(directory).evaluation.examples == 40


def test_a_kill_while_old_measurements_are_deleted_leaves_the_run_unfinished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tiny()
    execute(run, tmp_path)
    other = replace(run, evaluation=replace(run.evaluation, examples=40))
    unlink, cleared = Path.unlink, 0

    def killed_after_two(path: Path, missing_ok: bool = False) -> None:
        nonlocal cleared
        if path.suffix in (".json", ".npz", ".parquet", ".yaml"):
            cleared += 1
            if cleared == 3:
                raise KeyboardInterrupt
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", killed_after_two)
    with pytest.raises(KeyboardInterrupt):
        execute(other, tmp_path)
    monkeypatch.undo()
    assert not is_done(run, tmp_path)
    assert not is_done(other, tmp_path)
    directory = execute(other, tmp_path)
    assert is_done(other, tmp_path)
    assert len(Encodings.load(directory / "encodings.npz")) == 40


def test_run_time_excludes_pauses_and_survives_a_new_measurement(tmp_path: Path) -> None:
    run = tiny(sleep=0.02)
    directory = tmp_path / run.name
    directory.mkdir()
    execute(run, tmp_path)
    done = json.loads((directory / "done.json").read_text())
    assert 12 * 0.02 <= done["training_seconds"] < done["seconds"]
    os.utime(directory / "config.yaml", (0, 0))
    execute(replace(run, evaluation=replace(run.evaluation, examples=40)), tmp_path)
    again = json.loads((directory / "done.json").read_text())
    assert again["training_seconds"] == done["training_seconds"]
    assert again["seconds"] < 3600


def test_a_full_disk_while_creating_a_run_directory_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(DiskFullError, match="is full; free some space"):
        execute(tiny(), tmp_path)


def test_the_name_is_the_same_with_explicit_defaults() -> None:
    short = Run.from_config({"objective": {"name": "BetaVAE", "beta": 8}})
    assert Run.from_config(short.to_config()).name == short.name
    assert replace(short, evaluation=Evaluation(examples=7)).name == short.name
    assert replace(short, training=replace(short.training, device="cuda", log_every=7)).name == short.name
    assert replace(short, seed=1).name != short.name
    assert Run.from_config({"objective": {"name": "BetaVAE", "beta": 6}}).name != short.name


def test_divergence_is_recorded_and_deleted_on_success(tmp_path: Path) -> None:
    run = tiny(diverge_at=7)
    with pytest.raises(TrainingError, match="broken became nan at step 8"):
        execute(run, tmp_path)
    assert "DivergedError: training diverged" in str(reason(tmp_path / run.name))
    assert not is_done(run, tmp_path)


def test_a_busy_directory_is_not_changed(tmp_path: Path) -> None:
    run = tiny()
    (tmp_path / run.name).mkdir()
    with locked(tmp_path / run.name):
        assert held(tmp_path / run.name)
        with pytest.raises(BusyError, match="another process"):
            execute(run, tmp_path)
    assert not held(tmp_path / run.name)
    assert reason(tmp_path / run.name) is None


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), RuntimeError("No space left on device")])
def test_a_full_disk_is_no_failure_of_the_run(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(DiskFullError, match="free some space"), recording_failure(tmp_path):
        raise error
    assert reason(tmp_path) is None


def test_an_unexpected_error_keeps_its_traceback(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), recording_failure(tmp_path):
        json.dumps(1 / 0)
    assert reason(tmp_path) == "ZeroDivisionError: division by zero"
    assert "Traceback" in (tmp_path / "failed.txt").read_text()
