"""A running Ray cluster of another owner: it is found by its address, used, and left running."""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars
import pytest
from polars.testing import assert_frame_equal

from polarised.cluster import _route_messages, ray_cluster
from polarised.errors import ConfigError
from study.raylets import LOOPBACK, Node, listening, raylets
from study.workshop import until

pytest.importorskip("ray")
GENERATOR = np.random.default_rng(0)
STUDY = """
name: tiny
base:
  dataset: {name: dsprites, size: 32}
  model: {architecture: {name: mlp, widths: [8]}, latents: 3}
  objective: {name: BetaVAE}
  training: {steps: 200, batch_size: 8}
  evaluation: {examples: 60}
axes:
  strength: {objective.beta: [1, 4]}
scales:
  smoke: {base: {training: {steps: 10}}}
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def polarised(*arguments, folder, **environment):
    command = [sys.executable, "-c", "from polarised.cli import main; main()", *map(str, arguments)]
    settings = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", **environment}
    return subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def cluster():
    """The address of a cluster of two workers in a separate process, and what a driver needs to connect."""
    with raylets() as found:
        head = found.add(head=True, cpus=2)
        assert listening(found.processes()) <= LOOPBACK
        # Not that it listens on loopback alone: a driver finds out.
        yield found.address, {name: found.environment[name] for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN")}
        assert listening(found.processes()) <= LOOPBACK
        assert head.is_alive(), "the cluster was ended by somebody who only worked on it"


@pytest.fixture
def shards(tmp_path):
    for number, rows in enumerate((50, 700, 300)):
        mean = GENERATOR.normal(size=(rows, 3)) * [1.0, 0.02, 0.7]
        np.savez(tmp_path / f"{number}.npz", mean=mean, variance=np.tile([0.01, 1.0, 0.5], (rows, 1)))
    return sorted(tmp_path.glob("*.npz"))


@pytest.mark.slow
@pytest.mark.parametrize("elsewhere", [True, False])
def test_shards_diagnosed_on_two_workers_equal_the_single_pass(shards, tmp_path, cluster, elsewhere):
    address, token = cluster
    alone = polarised("diagnose", *shards, "--json", folder=tmp_path)
    more = ("--address", address) if elsewhere else ()
    options = ("--executor", "ray", *more, "--json")
    together = polarised("diagnose", *shards, *options, folder=tmp_path, **(token if elsewhere else {}))
    assert together.returncode == 0, together.stderr
    found, expected = json.loads(together.stdout), json.loads(alone.stdout)
    assert (found["active"], found["mixed"], found["passive"], found["inputs"]) == ([0], [2], [1], 1050)
    # Only the recorded command may differ.
    assert "--executor ray" in found["provenance"].pop("command")
    assert "--executor" not in expected["provenance"].pop("command")
    assert found == expected


@pytest.mark.slow
def test_a_study_on_a_remote_cluster_gives_the_table_of_this_machine(tmp_path, cluster):
    address, token = cluster
    (tmp_path / "tiny.yaml").write_text(STUDY)
    study = ("study", "tiny.yaml", "--scale", "smoke")
    tables = []
    # The folder is named as a user would, relative to where the driver is and the workers are not.
    for options in (("--executor", "ray", "--address", address), ("--jobs", "1")):
        out = Path(options[1])
        done = polarised(*study, *options, "--out", out, folder=tmp_path, **token)
        assert done.returncode == 0, done.stderr
        tables.append(polars.read_parquet(tmp_path / out / "results.parquet").sort(polars.all()))
    assert set(tables[0]["strength"]) == {1.0, 4.0}
    assert_frame_equal(*tables, check_exact=True)


@pytest.mark.slow
def test_a_cluster_that_refuses_the_connection_is_named(shards, tmp_path, cluster):
    address, token = cluster
    wrong = {**token, "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    refused = polarised("diagnose", *shards, "--executor", "ray", "--address", address, folder=tmp_path, **wrong)
    assert refused.returncode == 2
    assert f"error: expected a Ray cluster at {address}, but could not connect" in refused.stderr
    assert "RAY_AUTH_MODE=token" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_wrong_address_is_refused_at_once(shards, tmp_path):
    (tmp_path / "tiny.yaml").write_text(STUDY)
    nobody = ("--executor", "ray", "--address", f"127.0.0.1:{free_port()}")
    for command in (("diagnose", *shards), ("study", "tiny.yaml", "--scale", "smoke")):
        began = time.monotonic()
        refused = polarised(*command, *nobody, folder=tmp_path)
        assert time.monotonic() - began < 30
        assert refused.returncode == 2
        assert refused.stderr.startswith("error: expected a Ray cluster at 127.0.0.1:")
        assert "there is no answer" in refused.stderr
        assert refused.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code", "moment"),
    [(signal.SIGINT, 130, "import"), (signal.SIGINT, 130, "start"), (signal.SIGTERM, 143, "start")],
)
def test_a_signal_while_ray_starts_is_heard_within_two_seconds(tmp_path, number, code, moment):
    (tmp_path / "tiny.yaml").write_text(STUDY)
    mark, said = secrets.token_hex(8), tmp_path / "said.txt"
    command = ["study", "tiny.yaml", "--scale", "smoke", "--executor", "ray", "--out", "runs"]
    with said.open("w") as file:
        driver = subprocess.Popen(
            [sys.executable, "-c", "from polarised.cli import main; main()", *command],
            cwd=tmp_path,
            env={**os.environ, "MARK": mark, "RAY_USAGE_STATS_ENABLED": "0", "PYTHONUNBUFFERED": "1"},
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    started = Node(driver, mark)
    if moment == "import":
        until(lambda: "_raylet" in Path(f"/proc/{driver.pid}/maps").read_text())
    else:
        until(lambda: len(started.processes()) > 1)
    driver.send_signal(number)
    until(lambda: "stopping; Ray is still starting and is shut down first" in said.read_text(), seconds=2)
    assert driver.wait(timeout=120) == code, said.read_text()
    assert said.read_text().splitlines()[-1] == "stopped"
    for noise in ("Traceback", "***", "PC: @", "something went wrong"):
        assert noise not in said.read_text()
    # Nothing of the cluster is left.
    until(lambda: not [pid for pid in started.processes() if Path(f"/proc/{pid}/exe").exists()], seconds=60)


@pytest.mark.slow
def test_an_interrupt_is_heard_while_something_else_than_ray_answers(tmp_path):
    (tmp_path / "tiny.yaml").write_text(STUDY)
    said = tmp_path / "said.txt"
    with socket.create_server(("127.0.0.1", 0)) as other, said.open("w") as file:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        command = ["study", "tiny.yaml", "--scale", "smoke", "--executor", "ray", "--address", address]
        driver = subprocess.Popen(
            [sys.executable, "-c", "from polarised.cli import main; main()", *command],
            cwd=tmp_path,
            env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"},
            stdout=file,
            stderr=file,
        )
        # The first two only look whether anybody is there; the third is Ray, which would try for half a minute.
        talks = [other.accept()[0] for _ in range(2)]
        driver.send_signal(signal.SIGINT)
        until(lambda: "stopping; Ray is still starting" in said.read_text(), seconds=2)
        assert driver.wait(timeout=60) == 130, said.read_text()
        for talk in talks:
            talk.close()
    assert "Traceback" not in said.read_text()


def test_reports_of_a_cluster_do_not_mix_with_our_output(capsys, monkeypatch):
    worker = pytest.importorskip("ray._private.worker")
    monkeypatch.setattr(worker, "print_to_stdstream", worker.print_to_stdstream)
    _route_messages()
    worker.print_to_stdstream({"lines": ["a node is dead"], "pid": "raylet", "is_err": False}, ignore_prefix=False)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("address", ["nobody", "127.0.0.1", "127.0.0.1:port", "ray://", "[::1"])
def test_an_invalid_address_is_refused_before_ray_is_called(address):
    with pytest.raises(ConfigError, match="as host:port"), ray_cluster(address):
        pass
