"""Files of a run that are pipes are refused and never block."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from faults.hardship import prepared
from polarised.cli import app
from polarised.errors import DataError
from polarised.study.stages import load_run
from polarised.study.storage import reason
from polarised.study.worker import LOG, _logged


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared(tmp_path_factory.mktemp("sound"))


@pytest.fixture(autouse=True)
def _bell() -> Iterator[None]:
    # End the whole process if a library blocks, so that the test suite does not hang.
    before = signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(240)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("name", ["model.safetensors", "encodings.npz", "regime.parquet", "config.yaml", "done.json"])
def test_a_pipe_in_a_run_does_not_block(name: str, run: Path, tmp_path: Path) -> None:
    study = tmp_path / "study"
    shutil.copytree(run.parent, study)
    own = study / run.name
    (own / name).unlink()
    os.mkfifo(own / name)
    runner = CliRunner()
    out = str(tmp_path / "small.safetensors")
    for command in (
        ["diagnose", str(own), "--no-page"],
        ["prune", str(own), "--keep", "0", "--examples", "20", "--out", out],
        ["study", "status", str(study)],
        ["study", "doctor", str(study)],
    ):
        ended = runner.invoke(app, command)
        assert "should not" not in ended.stderr, (command, ended.stderr)
        assert ended.exit_code in (0, 1, 2), command
        assert ended.stderr.count("error: ") == (1 if ended.stderr else 0), ended.stderr


@pytest.mark.parametrize("name", ["a.npz", "a.npy", "a.parquet", "a.csv", "a.safetensors", "a.h5ad"])
def test_a_pipe_is_not_waited_for(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    ended = CliRunner().invoke(app, ["diagnose", str(tmp_path / name)])
    assert ended.exit_code == 1
    assert "another kind of file" in ended.stderr


@pytest.mark.parametrize("name", ["failed.txt", "checkpoint.safetensors", ".lock", ".lease.json", "scores.parquet"])
def test_a_pipe_in_a_run_that_is_not_done_is_not_waited_for(name: str, run: Path, tmp_path: Path) -> None:
    study = tmp_path / "study"
    shutil.copytree(run.parent, study)
    own = study / run.name
    (own / "done.json").unlink()
    (own / name).unlink(missing_ok=True)
    os.mkfifo(own / name)
    for command in ("status", "collect", "doctor"):
        ended = CliRunner().invoke(app, ["study", command, str(study)])
        assert "should not" not in ended.stderr, (command, ended.stderr)
        assert ended.exit_code in (0, 1, 2), command
    assert reason(own) is None if name != "failed.txt" else True


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_the_log_of_a_run_is_written_into_its_folder_alone(kind: str, run: Path, tmp_path: Path) -> None:
    own, outside = tmp_path / "own", tmp_path / "outside.txt"
    own.mkdir()
    outside.write_text("precious")
    (own / LOG).symlink_to(outside) if kind == "link" else os.mkfifo(own / LOG)
    with pytest.raises(DataError, match=r"inside the folder|is a pipe"), _logged(load_run(run), own, "a test"):
        pass
    assert outside.read_text() == "precious"
