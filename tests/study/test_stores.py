"""A local S3 store: two drivers with separate scratch folders, one that is lost, and stored encodings."""

import json
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from polars.testing import assert_frame_equal

from faults.test_owners import fight
from polarised.study import leases
from polarised.study.grid import load_study
from polarised.study.leases import BusyError, Lease, claimed, creates_exclusively, leased, read_lease
from polarised.study.results import collect, results_of
from polarised.study.runner import read_study, run_states
from polarised.study.stages import execute
from polarised.study.storage import fetch, open_filesystem, write_text
from study.workshop import finish, notes, start, study_config, until, write_study
from test_shards import PEAK

pytest.importorskip("s3fs")
pytest.importorskip("moto")
pytestmark = pytest.mark.peers


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    """The address of a bucket on a server of this machine."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    given = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        # The objective of the tests is code that a study's list names.
        "POLARISED_TRUST": "study",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in given.items():
            patch.setenv(name, value)
        try:
            until(lambda: _answers(port), seconds=60)
            open_filesystem("s3://bucket")[0].mkdir("bucket")
            yield "s3://bucket"
        finally:
            server.kill()
            server.wait()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def scratch(tmp_path: Path, name: str) -> dict[str, str]:
    """Environment variables for a separate scratch folder, as on another machine."""
    (tmp_path / name).mkdir()
    return {"TMPDIR": str(tmp_path / name)}


def weights(root: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in sorted(root.glob("*/model.safetensors"))}


def assert_as_one_machine(address: str, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that weights and table are exactly those of the same runs on one machine."""
    for run in load_study(file).runs:
        execute(run, tmp_path / "alone")
    (tmp_path / "fetched").mkdir()
    fetch(address, tmp_path / "fetched")
    assert weights(tmp_path / "fetched") == weights(tmp_path / "alone")
    monkeypatch.chdir(tmp_path)
    expected = results_of(load_study(file).points, tmp_path / "alone", rule=read_study(address).rule)
    found = polars.read_parquet(collect(address))
    assert_frame_equal(found.sort(polars.all()), expected.sort(polars.all()), check_exact=True)


def test_two_drivers_with_separate_scratch_folders_share_a_study(
    tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, address = tmp_path / "notes", f"{store}/two"
    file = write_study(tmp_path / "tiny.yaml", study_config(runs=6, steps=20, notes=str(log), sleep=0.02))
    drivers = [start(file, address, "--jobs", "1", **scratch(tmp_path, name)) for name in ("one", "two")]
    for driver in drivers:
        finish(driver, file)
    # Every step of every run was done once.
    assert Counter(notes(log)) == Counter((tag, step) for tag in range(6) for step in range(20))
    assert [state.state for state in run_states(read_study(address).points, address)] == ["done"] * 6
    pids = {line.split()[2] for line in log.read_text().splitlines()}
    assert len(pids) == 2
    assert_as_one_machine(address, file, tmp_path, monkeypatch)
    left = {path.rpartition("/")[2] for path in open_filesystem(address)[0].find("bucket/two")}
    assert not left & {".lease.json", "checkpoint.safetensors", "failed.txt"}
    assert "log.txt" in left


def test_drivers_with_parts_of_a_study_keep_each_others_runs(tmp_path: Path, store: str) -> None:
    address = f"{store}/parts"
    config = study_config(runs=2, steps=6)
    config["axes"]["seed"] = 1
    files = []
    for number in range(2):
        config["axes"]["strength"]["objective.tag"] = [2 * number, 2 * number + 1]
        files.append(write_study(tmp_path / f"part{number}.yaml", config))
    drivers = [
        start(file, address, "--jobs", "1", **scratch(tmp_path, name))
        for file, name in zip(files, ("one", "two"), strict=True)
    ]
    for driver, file in zip(drivers, files, strict=True):
        finish(driver, file)
    tags = sorted(point.run.objective["tag"] for point in read_study(address).points)
    assert tags == [0, 1, 2, 3]


@pytest.mark.slow
def test_another_driver_resumes_the_runs_of_a_lost_one(
    tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, address = tmp_path / "notes", f"{store}/lost"
    file = write_study(tmp_path / "tiny.yaml", study_config(runs=1, steps=400, notes=str(log), sleep=0.05))
    (run,) = load_study(file).runs
    first = start(file, address, "--jobs", "1", **scratch(tmp_path, "one"))
    system, base = open_filesystem(address)
    until(lambda: system.exists(f"{base}/{run.name}/checkpoint.safetensors"), seconds=120)
    (state,) = run_states(read_study(address).points, address)
    assert (state.state, state.host) == ("running", socket.gethostname())
    assert state.pace > 0
    first.kill()
    first.wait()
    before = [step for _, step in notes(log)]
    # The second has no access to the scratch folder of the first, only to the store.
    finish(start(file, address, "--jobs", "1", **scratch(tmp_path, "two")), file)
    after = [step for _, step in notes(log)][len(before) :]
    assert after[0] > 0
    assert set(before) | set(after) == set(range(400))
    assert_as_one_machine(address, file, tmp_path, monkeypatch)


def test_only_one_of_many_processes_gets_a_run(tmp_path: Path, store: str) -> None:
    address = f"{store}/race"
    assert creates_exclusively(address)
    code = (
        "import sys, time\n"
        "from polarised.study.leases import BusyError, leased\n"
        "try:\n"
        "    with leased(sys.argv[1], sys.argv[2], step=lambda: 0):\n"
        "        print('mine', flush=True)\n"
        "        time.sleep(20)\n"
        "except BusyError:\n"
        "    print('busy', flush=True)\n"
    )
    old = Lease("f" * 16, "gone", 1, "0", 0.0, 0.0)
    write_text(address, "dead/.lease.json", json.dumps(old.__dict__))
    write_text(address, "dead/.term-7", old.owner)
    for name in ("new", "dead"):
        command = [sys.executable, "-c", code, address, name]
        several = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        said = sorted(one.communicate(timeout=120)[0].strip() for one in several)
        assert said == ["busy", "busy", "mine"]
        assert read_lease(address, name) is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_nobody_has_a_run_beside_another(tmp_path: Path, store: str, seed: int) -> None:
    fight(tmp_path, f"{store}/fight{seed}", seconds=25.0, processes=5, seed=seed, turns=5)


def test_a_store_without_exclusive_creation_is_detected(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import s3fs

    whole = s3fs.S3FileSystem._pipe_file

    async def heedless(self: Any, path: str, value: bytes, **_: Any) -> None:
        await whole(self, path, value)

    monkeypatch.setattr(s3fs.S3FileSystem, "_pipe_file", heedless)
    s3fs.S3FileSystem.clear_instance_cache()
    monkeypatch.setattr(leases, "SETTLING", 0.2)
    address = f"{store}/heedless"
    assert not creates_exclusively(address)
    with leased(address, "run", step=lambda: 0), pytest.raises(BusyError), leased(address, "run", step=lambda: 0):
        pass
    with claimed(address), pytest.raises(BusyError), claimed(address, patience=0.5):
        pass
    creates_exclusively.cache_clear()
    s3fs.S3FileSystem.clear_instance_cache()


def test_a_process_suspended_beyond_its_lease_stops(
    tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "HEARTBEAT", 0.2)
    address = f"{store}/slept"
    other = Lease("0" * 16, "elsewhere", 7, "0", time.time(), time.time())

    def sleep_too_long() -> None:
        with leased(address, "run", step=lambda: 0):
            write_text(address, "run/.term-2", other.owner)
            write_text(address, "run/.lease.json", json.dumps(other.__dict__))
            time.sleep(30)

    with pytest.raises(BusyError, match="process 7 of elsewhere"):
        sleep_too_long()
    found = read_lease(address, "run")
    assert found is not None
    assert found.owner == other.owner


def test_encodings_in_a_bucket_are_diagnosed_like_a_folder(tmp_path: Path, store: str) -> None:
    generator = np.random.default_rng(0)
    system, _ = open_filesystem(store)
    for number, rows in enumerate((50, 700, 300)):
        mean = generator.normal(size=(rows, 3)) * [1.0, 0.02, 0.7]
        np.savez(tmp_path / f"{number}.npz", mean=mean, variance=np.tile([0.01, 1.0, 0.5], (rows, 1)))
        system.put_file(str(tmp_path / f"{number}.npz"), f"bucket/codes/{number}.npz")
    told = []
    for target in (f"{store}/codes/*.npz", str(tmp_path / "*.npz"), f"{store}/codes"):
        code = "from polarised.cli import main; main()"
        command = [sys.executable, "-c", code, "diagnose", target, "--json"]
        done = subprocess.run(command, cwd=tmp_path, env={**os.environ}, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        found.pop("provenance")
        told.append(found)
    assert (told[0]["active"], told[0]["mixed"], told[0]["passive"], told[0]["inputs"]) == ([0], [2], [1], 1050)
    assert told[0] == told[1] == told[2]


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_files_in_a_bucket(tmp_path: Path, store: str) -> None:
    generator, (system, _) = np.random.default_rng(0), open_filesystem(store)
    path, peaks = tmp_path / "codes.npz", {}
    np.savez(path, mean=generator.normal(size=(5_000, 32)), variance=np.full((5_000, 32), 0.01))
    for count in (3, 50):
        for number in range(count):
            system.put_file(str(path), f"bucket/many{count}/{number:02}.npz")
        command = [sys.executable, "-c", PEAK, f"{store}/many{count}/*.npz"]
        inputs, peak = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        assert int(inputs) == 5_000 * count
        peaks[count] = float(peak)
    # The other files are 120 MB.
    assert peaks[50] - peaks[3] < 30, peaks
