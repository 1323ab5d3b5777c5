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
