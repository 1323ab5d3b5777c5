"""Workers that are killed, stopped or out of memory: a run resumes at its checkpoint, and the cause is named."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from polarised.study.grid import load_study
from polarised.study.stages import checkpoint_step, is_done
from study.workshop import finish, notes, start, study_config, until, workers_of, write_study

TESTS = Path(__file__).parents[1]
GROUP = Path("/sys/fs/cgroup/memory")


def campaign(root: Path, kills: int, seed: int) -> None:
    path = os.pathsep.join([str(TESTS), str(TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "faults.campaign", str(root), str(kills), str(seed)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=3000)
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert sum(told["struck"].values()) == kills
    assert told["struck"].get("training", 0) >= kills // 4, told
    # Weights, snapshots, histories, encodings and scores alike; and no temporary file is left.
    assert told["differing"] == {}, told


def test_a_run_killed_during_training_gives_the_same_result(tmp_path: Path) -> None:
    campaign(tmp_path, 8, seed=1)


@pytest.mark.slow
def test_a_hundred_kills_during_training_lose_nothing(tmp_path: Path) -> None:
    campaign(tmp_path, 100, seed=2)


@pytest.mark.slow
def test_a_worker_that_gets_a_signal_saves_first(tmp_path: Path) -> None:
    log = tmp_path / "notes.txt"
    file = write_study(tmp_path / "tiny.yaml", study_config(runs=1, steps=300, notes=str(log), sleep=0.02))
    job = start(file, tmp_path / "study", "--jobs", "1")
    until(lambda: log.exists() and len(notes(log)) > 20)
    (worker,) = workers_of(job.pid)
    os.kill(worker, signal.SIGTERM)
    said = finish(job, file)
    steps = [step for _, step in notes(log)]
    # It saved at the current step, so no step was done twice.
    assert steps == list(range(300)), said
    assert "Traceback" not in said


@pytest.mark.slow
def test_a_worker_that_ran_out_of_memory_is_named_as_such(tmp_path: Path) -> None:
    cell = GROUP / f"polarised-test-{os.getpid()}"
    try:
        cell.mkdir()
    except OSError:
        pytest.skip("limiting the memory of a process needs a control group of ours")
    log = tmp_path / "notes.txt"
    try:
        (cell / "memory.limit_in_bytes").write_text(str(1 << 20))
        file = write_study(tmp_path / "tiny.yaml", study_config(runs=1, steps=400, notes=str(log), sleep=0.02))
        job = start(file, tmp_path / "study", "--jobs", "1", "--attempts", "1")
        until(lambda: log.exists() and len(notes(log)) > 12)
        (worker,) = workers_of(job.pid)
        (cell / "tasks").write_text(str(worker))
        (cell / "cgroup.procs").write_text(str(worker))
        said = finish(job, file, code=1)
        assert "memory runs out" in said
        (failed,) = (tmp_path / "study").glob("*/failed.txt")
        assert "killed, as happens when memory runs out" in failed.read_text()
        assert "Traceback" not in said
    finally:
        until(lambda: not (cell / "cgroup.procs").read_text())
        cell.rmdir()
    # Its checkpoint is kept, and with enough memory it finishes.
    assert checkpoint_step(failed.parent) >= 10
    code = "from polarised.cli import main; main()"
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", code, "study", "retry", str(tmp_path / "study"), "--jobs", "1", "--quiet"]
    subprocess.run(
        command, check=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path, "POLARISED_TRUST": "study"}
    )
    assert all(is_done(run, tmp_path / "study") for run in load_study(file).runs)
    steps = [step for _, step in notes(log)]
    assert set(steps) == set(range(400))
    assert len(steps) <= 400 + 6
