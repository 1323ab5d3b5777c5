"""A running Ray cluster of another owner: it is found by its address, used, and left running."""

import json
import os
import secrets
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars
import pytest
from polars.testing import assert_frame_equal

from polarised.cluster import ray_cluster
from polarised.errors import ConfigError
from study.raylets import LOOPBACK, listening, raylets

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


@pytest.mark.parametrize("address", ["nobody", "127.0.0.1", "127.0.0.1:port", "ray://", "[::1"])
def test_an_invalid_address_is_refused_before_ray_is_called(address):
    with pytest.raises(ConfigError, match="as host:port"), ray_cluster(address):
        pass
