"""What the commands about studies say, on folders written by hand: nothing is trained here."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from polarised.cli import app
from polarised.study.claims.verdict import Verdict
from polarised.study.conduct import enrol
from polarised.study.failures import record_failure
from polarised.study.grid import Study, load_study
from study.workshop import study_config, write_study


def said_by(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["study", *map(str, arguments)], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return load_study(write_study(tmp_path / "tiny.yaml", study_config(runs=2)))


def test_status_shows_reasons_as_they_are(tmp_path: Path, study: Study) -> None:
    root = tmp_path / "runs [1]"
    enrol(study, root)
    directory = root / study.runs[0].name
    directory.mkdir()
    record_failure(directory, "OSError: cannot open [/data/x]\n")
    said = said_by("status", root)
    assert f"failed {directory.name}: OSError: cannot open [/data/x]\n" in said
    assert f"polarised study retry {root}" in said.replace("\n", "")


def test_verify_shows_claims_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = Verdict("calibrated", "E[r] + E[s] is 1", "undecided", None, "mean |E[r] + E[s] - 1| is 0.3")
    monkeypatch.setattr("polarised.study.verify.verify", lambda *_, **__: [verdict])
    assert said_by("verify", tmp_path) == f"undecided: {verdict.claim}\n    {verdict.evidence}\n"
