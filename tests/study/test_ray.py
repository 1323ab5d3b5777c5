"""Real Ray on this machine: a worker killed, a driver killed, results on an fsspec address."""

import os
import signal
from collections import Counter
from pathlib import Path

import polars
import pytest
from polars.testing import assert_frame_equal

from polarised.study.grid import load_study
from polarised.study.results import collect, results_of
from study.workshop import finish, notes, start, study_config, until, write_study

pytest.importorskip("ray")
pytestmark = pytest.mark.slow


def table(file: Path, root: Path) -> polars.DataFrame:
    return results_of(load_study(file).points, root).drop("run").sort(polars.all())


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> polars.DataFrame:
    folder = tmp_path_factory.mktemp("calm")
    file = write_study(folder / "tiny.yaml", study_config(runs=3, steps=60))
    finish(start(file, folder / "runs", "--executor", "ray"), file)
    return table(file, folder / "runs")


def pids(log: Path) -> set[int]:
    return {int(line.split()[2]) for line in log.read_text().splitlines()}


def test_a_killed_worker_is_retried(tmp_path: Path, calm: polars.DataFrame) -> None:
    log = tmp_path / "notes"
    file = write_study(tmp_path / "tiny.yaml", study_config(runs=3, steps=60, notes=str(log), sleep=0.05))
    root = tmp_path / "runs"
    process = start(file, root, "--executor", "ray")
    until(lambda: any(root.glob("*/checkpoint.safetensors")))
    os.kill(min(pids(log)), signal.SIGKILL)
    finish(process, file)
    assert_frame_equal(table(file, root), calm, check_exact=True)


def test_a_restarted_driver_repeats_no_finished_run(tmp_path: Path, calm: polars.DataFrame) -> None:
    log = tmp_path / "notes"
    file = write_study(tmp_path / "tiny.yaml", study_config(runs=3, steps=60, notes=str(log), sleep=0.05))
    root = tmp_path / "runs"
    process = start(file, root, "--executor", "ray")
    until(lambda: any(root.glob("*/done.json")))
    process.kill()
    process.wait()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids(log)), seconds=60)
    done = {path.parent.name: path.stat().st_mtime_ns for path in root.glob("*/done.json")}
    finish(start(file, root, "--executor", "ray"), file)
    assert {name: (root / name / "done.json").stat().st_mtime_ns for name in done} == done
    assert_frame_equal(table(file, root), calm, check_exact=True)
    assert {step for _, step in notes(log)} == set(range(60))
    assert max(Counter(notes(log)).values()) <= 2


def test_results_at_an_address(tmp_path: Path, calm: polars.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_study(tmp_path / "tiny.yaml", study_config(runs=3, steps=60))
    address = f"local://{tmp_path}/bucket"
    finish(start(file, address, "--executor", "ray"), file)
    names = {run.name for run in load_study(file).runs}
    assert {path.name for path in (tmp_path / "bucket").iterdir()} >= names
    monkeypatch.chdir(tmp_path)
    found = polars.read_parquet(collect(address)).drop("run").sort(polars.all())
    assert_frame_equal(found, calm, check_exact=True)
