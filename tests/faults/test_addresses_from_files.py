"""The address of a cluster is given by the user; an address in an untrusted folder is never used."""

import json
import socket
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from polarised._io.addresses import files_at
from polarised.cli import app
from polarised.errors import DataError
from polarised.study.grid import Study, load_study
from polarised.study.runner import conduct, enrol, read_executor

HOSTILE = "ray://hostile.example:10001"


@pytest.fixture
def study() -> Study:
    return load_study("be_more_active", scale="smoke", settings=["axes.seed=1"])


@pytest.fixture
def dialled(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The addresses of attempted connections; no connection is made."""
    called: list[str | None] = []

    @contextmanager
    def cluster(address: str | None = None) -> Iterator[Any]:
        called.append(address)
        raise RuntimeError("no cluster in this test")
        yield

    monkeypatch.setattr("polarised.study.executors.ray_cluster", cluster)
    return called


def handed_over(study: Study, folder: Path) -> Path:
    enrol(study, folder, executor={"name": "ray"})
    known = json.loads((folder / "study.json").read_text())
    known["executor"] = {"name": "ray", "address": HOSTILE, "num_cpus": 2.0}
    (folder / "study.json").write_text(json.dumps(known))
    return folder


def test_retry_starts_a_local_cluster_and_reports_it(tmp_path: Path, study: Study, dialled: list[str | None]) -> None:
    folder = handed_over(study, tmp_path / "theirs")
    assert read_executor(folder) == {"name": "ray", "num_cpus": 2.0}
    said = CliRunner().invoke(app, ["study", "retry", str(folder), "--quiet"])
    assert dialled == [None]
    assert "never read from a folder; to use another cluster, give its --address again" in said.stderr


def test_retry_uses_the_address_given_by_the_user(tmp_path: Path, study: Study, dialled: list[str | None]) -> None:
    folder = handed_over(study, tmp_path / "theirs")
    said = CliRunner().invoke(app, ["study", "retry", str(folder), "--quiet", "--address", "mine.example:6379"])
    assert dialled == ["mine.example:6379"]
    assert "never read" not in said.stderr


def test_an_address_is_not_recorded(tmp_path: Path, study: Study, dialled: list[str | None]) -> None:
    executor = {"name": "ray", "address": "mine.example:6379", "num_cpus": 2.0}
    with pytest.raises(RuntimeError, match="no cluster"):
        list(conduct(study, tmp_path / "mine", executor=executor))
    assert dialled == ["mine.example:6379"]
    assert "mine.example" not in (tmp_path / "mine" / "study.json").read_text()
    assert read_executor(tmp_path / "mine") == {"name": "ray", "num_cpus": 2.0}


@pytest.mark.parametrize("listed", [False, True])
def test_retry_fetches_no_models_from_an_address_in_the_folder(tmp_path: Path, study: Study, listed: bool) -> None:
    folder = handed_over(study, tmp_path / "theirs")
    known = json.loads((folder / "study.json").read_text())
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}/model.zip"
        (tmp_path / "list.txt").write_text(f"{address}\n")
        known["models"] = str(tmp_path / "list.txt") if listed else address
        (folder / "study.json").write_text(json.dumps(known))
        said = CliRunner().invoke(app, ["study", "retry", str(folder), "--executor", "local", "--quiet"])
        server.settimeout(0.1)
        with pytest.raises(TimeoutError):
            server.accept()
    assert said.exit_code == 2
    assert f"names '{address}' and an address is never taken from a folder" in said.stderr
    assert "give their list or address with --models" in said.stderr


def test_retry_takes_models_that_the_user_names_again(tmp_path: Path, study: Study) -> None:
    folder = handed_over(study, tmp_path / "theirs")
    trained_here = CliRunner().invoke(app, ["study", "retry", str(folder), "--models", "x.zip", "--executor", "local"])
    assert trained_here.exit_code == 2
    assert "are trained here" in trained_here.stderr
    known = json.loads((folder / "study.json").read_text())
    known["models"] = "https://hostile.example/model.zip"
    (folder / "study.json").write_text(json.dumps(known))
    again = CliRunner().invoke(app, ["study", "retry", str(folder), "--models", "x.zip", "--executor", "local"])
    assert "x.zip does not exist" in again.stderr


def test_names_in_an_archive_are_no_addresses(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}/codes.npz"
        with zipfile.ZipFile(tmp_path / "codes.zip", "w") as archive:
            archive.writestr(f"codes::{address}", b"")
        with pytest.raises(DataError, match="expected names of files"):
            files_at(f"zip://**::{tmp_path / 'codes.zip'}", endings=(".npz",))
