"""Output and exit codes of the study commands, on folders written by hand or runs of a few steps."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from polarised.cli import app
from polarised.study.claims import Verdict, Verification
from polarised.study.grid import Study, load_study
from polarised.study.runner import enrol
from polarised.study.storage import record_failure
from study.workshop import study_config, write_study


def said_by(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["study", *map(str, arguments)], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return load_study(write_study(tmp_path / "tiny.yaml", study_config(runs=2)))


def test_status_prints_reasons_verbatim(tmp_path: Path, study: Study) -> None:
    root = tmp_path / "runs [1]"
    enrol(study, root)
    directory = root / study.runs[0].name
    directory.mkdir()
    record_failure(directory, "OSError: cannot open [/data/x]\n")
    said = said_by("status", root)
    assert f"failed {directory.name}: OSError: cannot open [/data/x]\n" in said
    assert f"polarised study retry '{root}'\n" in said


def test_verify_prints_claims_verbatim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = Verdict("calibrated", "E[r] + E[s] is 1", "undecided", "mean |E[r] + E[s] - 1| is 0.3", "own", "iVAE")
    monkeypatch.setattr("polarised.study.verify", lambda *_, **__: Verification((verdict,)))
    summary = said_by("verify", tmp_path)
    assert summary.startswith("0 confirmed, 0 refuted, 1 undecided, 0 not testable\n")
    assert "iVAE" in summary
    assert verdict.evidence not in summary
    said = said_by("verify", tmp_path, "--all")
    assert f"calibrated holds in 0 of 1: “{verdict.claim}”\n    undecided iVAE: {verdict.evidence}\n" in said
    found = json.loads(said_by("verify", tmp_path, "--json"))
    assert list(found)[:3] == ["schema", "headline", "summary"]
    assert found["verdicts"][0]["evidence"] == verdict.evidence


def test_verify_shows_a_column_of_papers_only_for_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Verdict("calibrated", "a claim", "undecided", "a reason", "own", "iVAE")
    monkeypatch.setattr("polarised.study.verify", lambda *_, **__: Verification((own, replace(own, method=""))))
    one = said_by("verify", tmp_path)
    assert ["method", "confirmed"] in [line.split()[:2] for line in one.splitlines()]
    assert "other" in one
    other = replace(own, paper="Cheng2021")
    monkeypatch.setattr("polarised.study.verify", lambda *_, **__: Verification((own, other)))
    assert ["paper", "method"] in [line.split()[:2] for line in said_by("verify", tmp_path).splitlines()]


HERE = ("--executor", "study.test_runner:here")


@pytest.fixture
def failing(tmp_path: Path) -> Path:
    """A study with one run that succeeds and one that fails."""
    config = study_config(runs=2, steps=8, notes=str(tmp_path / "notes"))
    config["axes"]["strength"]["objective.diverge_at"] = [1_000_000, 3]
    return write_study(tmp_path / "failing.yaml", config)


def test_failed_runs_exit_with_1_but_the_others_are_in_the_table(tmp_path: Path, failing: Path) -> None:
    said = said_by("run", failing, "--out", tmp_path / "runs [1]", *HERE, code=1)
    assert "1 of 2 runs done, 1 failed" in said
    assert "1 run failed; see polarised study status" in said
    assert (tmp_path / "runs [1]" / "results.parquet").exists()
    arguments = ["study", "run", str(failing), "--out", str(tmp_path / "runs [1]"), *HERE, "--json"]
    again = json.loads(CliRunner().invoke(app, arguments).stdout)
    assert (again["failed"], again["page"]) == (1, None)
    assert (tmp_path / "runs [1]" / "report.html").exists()


def test_retry_uses_the_executor_of_the_study(tmp_path: Path, failing: Path) -> None:
    said_by("run", failing, "--out", tmp_path / "runs", *HERE, "--quiet", code=1)
    before = (tmp_path / "notes").read_text().splitlines()
    said_by("retry", tmp_path / "runs", "--quiet", code=1)
    steps = (tmp_path / "notes").read_text().splitlines()[len(before) :]
    # In this process, and only the failed run.
    assert {tuple(line.split()[::2]) for line in steps} == {("1", str(os.getpid()))}


def test_every_command_accepts_an_address(tmp_path: Path, failing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    address = f"file://{tmp_path}/bucket"
    assert f"see polarised study status {address}" in said_by("run", failing, "--out", address, *HERE, code=1)
    assert "1 done · 0 running · 0 waiting · 1 failed of 2" in said_by("status", address)
    said_by("retry", address, "--quiet", code=1)
    said_by("collect", address)
    said_by("verify", address)
    published: list[list[str]] = []

    def publish(folder: Path, out: Path, **_: object) -> Path:
        published.append(sorted(path.name for path in folder.iterdir()))
        return out / "README.md"

    monkeypatch.setattr("polarised.report.publish.publish", publish)
    said_by("publish", address, "--out", tmp_path / "page")
    assert published == [sorted(path.name for path in (tmp_path / "bucket").iterdir())]
    assert "study.json" in published[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nosuch"], "expected a study file or one of"),
        (["{folder}"], "is a folder; name a YAML file"),
        (["{file}", "training.steps=-1"], "training.steps of at least 1"),
        (["{file}", "--executor", "rayy"], "did you mean 'ray'"),
        (["{file}", "--gpus", "1"], "together with --executor ray"),
        (["plan", "{file}", "--scale", "huge"], "no scale 'huge'"),
    ],
)
def test_wrong_use_exits_with_code_2_and_writes_nothing(
    tmp_path: Path, failing: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    filled = [one.format(folder=tmp_path / "folder", file=failing) for one in arguments]
    assert words in said_by(*filled, code=2)
    assert not (tmp_path / "runs").exists()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    assert "nowhere does not exist" in said_by("verify", tmp_path / "nowhere", code=2)
    assert "nowhere does not exist" in said_by("status", tmp_path / "nowhere", code=2)


@pytest.mark.parametrize(
    ("command", "words"), [("train", "is a folder; name a YAML file"), ("cite", "a run has a config.yaml")]
)
def test_a_folder_instead_of_a_config_is_wrong_use(tmp_path: Path, command: str, words: str) -> None:
    result = CliRunner().invoke(app, [command, str(tmp_path)])
    assert result.exit_code == 2
    assert words in result.stderr


def test_the_help_names_every_study() -> None:
    from polarised.cli.study import Name
    from polarised.study.grid import study_names

    help_of_name = Name.__metadata__[0].help
    assert all(name in help_of_name for name in study_names())


def test_the_first_line_names_the_study_and_its_folder(tmp_path: Path) -> None:
    config = study_config(runs=2, steps=2) | {"scales": {"smoke": {}}, "default_scale": "smoke"}
    said = said_by(write_study(tmp_path / "tiny.yaml", config), *HERE, "--out", tmp_path / "runs")
    assert said.splitlines()[0].startswith("tiny, scale smoke: 2 runs into ")
