"""Studies that are killed, started twice or out of disk space: nothing is lost or done twice."""

import signal
import subprocess
from collections import Counter
from pathlib import Path

import polars
import pytest
from polars.testing import assert_frame_equal

from polarised.study.grid import load_study
from polarised.study.results import results_of
from polarised.study.runner import run_states
from study.workshop import finish, notes, start, study_config, until, workers_of, write_study

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> polars.DataFrame:
    """The table of a study without interruptions."""
    folder = tmp_path_factory.mktemp("calm")
    file = write_study(folder / "tiny.yaml", study_config(runs=4, steps=60))
    finish(start(file, folder / "runs", "--jobs", "2"), file)
    return table(file, folder / "runs")


def table(file: Path, root: Path) -> polars.DataFrame:
    return results_of(load_study(file).points, root).drop("run").sort(polars.all())


def test_parent_killed_then_started_again(tmp_path: Path, calm: polars.DataFrame) -> None:
    log = tmp_path / "notes"
    file = write_study(tmp_path / "tiny.yaml", study_config(runs=4, steps=60, notes=str(log), sleep=0.02))
    root = tmp_path / "runs"
    first = start(file, root, "--jobs", "2")
    until(lambda: any(root.glob("*/checkpoint.safetensors")))
    orphans = workers_of(first.pid)
    assert orphans
    first.kill()
    first.wait()
    # No clean-up is needed: the workers end when their parent is gone.
    until(lambda: not any(Path(f"/proc/{pid}/stat").exists() for pid in orphans), seconds=20)
    finish(start(file, root, "--jobs", "2"), file)
    assert_frame_equal(table(file, root), calm, check_exact=True)
    repeated = Counter(notes(log))
    assert set(repeated) == {(tag, step) for tag in range(4) for step in range(60)}
    # At most the steps between the last checkpoint (every 5 steps) and the kill, for the two running runs.
    assert sum(count - 1 for count in repeated.values()) <= 2 * 6


def test_two_studies_on_one_folder_share_the_work(tmp_path: Path, calm: polars.DataFrame) -> None:
    log = tmp_path / "notes"
    file = write_study(tmp_path / "tiny.yaml", study_config(runs=4, steps=60, notes=str(log), sleep=0.02))
    both = [start(file, tmp_path / "runs", "--jobs", "2") for _ in range(2)]
    for process in both:
        finish(process, file)
    assert_frame_equal(table(file, tmp_path / "runs"), calm, check_exact=True)
    assert max(Counter(notes(log)).values()) == 1


def test_an_interrupt_saves_checkpoints_and_is_reported(tmp_path: Path, calm: polars.DataFrame) -> None:
    file = write_study(tmp_path / "tiny.yaml", study_config(runs=4, steps=60, sleep=0.02))
    root = tmp_path / "runs"
    process = start(file, root, "--jobs", "2")
    until(lambda: any(root.glob("*/checkpoint.safetensors")))
    process.send_signal(signal.SIGINT)
    finish(process, file, code=130)
    finish(start(file, root, "--jobs", "2"), file)
    assert_frame_equal(table(file, root), calm, check_exact=True)


def test_a_full_disk_stops_the_study_and_spoils_nothing(tmp_path: Path, calm: polars.DataFrame) -> None:
    root = tmp_path / "small"
    root.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=260k", "tmpfs", str(root)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small tmpfs needs root")
    try:
        file = write_study(tmp_path / "tiny.yaml", study_config(runs=4, steps=60))
        words = finish(start(file, root, "--jobs", "2"), file, code=1)
        assert "is full; free some space" in words
        states = {state.state for state in run_states(load_study(file).points, root)}
        assert states <= {"done", "waiting"}
        subprocess.run(["mount", "-o", "remount,size=64m", str(root)], check=True)
        finish(start(file, root, "--jobs", "2"), file)
        assert_frame_equal(table(file, root), calm, check_exact=True)
    finally:
        subprocess.run(["umount", str(root)], check=False)
