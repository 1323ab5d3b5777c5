"""The address of a cluster is given by the user; an address in an untrusted folder is never used."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from polarised.cli import app
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
