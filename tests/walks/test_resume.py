"""A run killed at any moment and started again ends with the weights of one that was never killed."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

CONFIG = """
dataset: {name: dsprites, size: 32}
model: {architecture: {name: mlp, widths: [32]}, latents: 4}
objective: {name: BetaVAE, beta: 2.0}
training: {steps: 600, batch_size: 16, learning_rate: 0.001, checkpoint_every: 20, log_every: 7}
snapshots: {every: 100, examples: 50}
evaluation: {examples: 200}
"""


def start(folder: Path) -> subprocess.Popen:
    (folder / "run.yaml").write_text(CONFIG)
    command = [sys.executable, "-m", "polarised", "train", "run.yaml", "--out", "runs", "--quiet"]
    return subprocess.Popen(command, cwd=folder, env=os.environ | {"OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE)


def finish(folder: Path) -> Path:
    process = start(folder)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors.decode()
    (directory,) = (folder / "runs").iterdir()
    return directory


def digests(directory: Path) -> dict[str, str]:
    names = ("model.safetensors", "history.parquet", "encodings.npz", "scores.parquet")
    return {name: hashlib.sha256((directory / name).read_bytes()).hexdigest() for name in names}


def wait_for_checkpoint(process: subprocess.Popen, folder: Path) -> None:
    while process.poll() is None and not list(folder.glob("runs/*/checkpoint.safetensors")):
        time.sleep(0.01)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return digests(finish(tmp_path_factory.mktemp("undisturbed")))


@pytest.mark.parametrize("delays", [(0.0, 0.35), (0.15, 0.5)])
def test_killed_and_started_again(tmp_path, undisturbed, delays):
    killed = 0
    for delay in delays:
        process = start(tmp_path)
        wait_for_checkpoint(process, tmp_path)
        time.sleep(delay)
        process.kill()
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
    assert killed >= 1
    directory = finish(tmp_path)
    assert digests(directory) == undisturbed
    assert not [path.name for path in directory.iterdir() if ".tmp" in path.name and path.suffix == ".safetensors"]


def test_interrupted_by_the_user_it_saves_and_says_how_to_go_on(tmp_path, undisturbed):
    process = start(tmp_path)
    wait_for_checkpoint(process, tmp_path)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "run the same command to resume" in errors.decode()
    assert "Traceback" not in errors.decode()
    assert digests(finish(tmp_path)) == undisturbed
