"""A study from the command line to the verdict: planned, done, looked at, collected, verified."""

import json
from pathlib import Path

import polars
import pytest
from typer.testing import CliRunner

from polarised.cli import app
from polarised.regime.classify import RULES
from polarised.study.claims import chosen_claims
from polarised.study.grid import load_study

SMALL = ["axes.seed=1", "training.steps=8", "training.batch_size=8", "evaluation.examples=60"]
FEW = ["axes.method={beta-VAE: {objective: {name: BetaVAE}, axes: {strength: {objective.beta: [1, 4]}}}}"]


def polarised(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, [*arguments])
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("study") / "runs"
    options = ("--scale", "smoke", "--jobs", "1", "--out", str(root))
    polarised("study", "be_more_active", *options, *SMALL, *FEW, "--quiet")
    return root


def test_one_command_leaves_a_table(folder: Path) -> None:
    table = polars.read_parquet(folder / "results.parquet")
    assert table["run"].n_unique() == 2
    assert table["method"].unique().to_list() == ["beta-VAE"]
    assert sorted(table["strength"].unique()) == [1.0, 4.0]


def test_the_same_command_again_has_nothing_to_do(folder: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("done.json")}
    said = polarised("study", "run", "be_more_active", "--scale", "smoke", "--out", str(folder), *SMALL, *FEW)
    assert "2 of 2 runs done, 0 failed" in said
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_status_counts_and_explains(folder: Path) -> None:
    assert "2 done · 0 running · 0 waiting · 0 failed of 2" in polarised("study", "status", str(folder))
    failing = next(folder.glob("*/done.json")).parent
    done = (failing / "done.json").read_text()
    try:
        (failing / "done.json").unlink()
        (failing / "failed.txt").write_text("TrainingError: training diverged\n")
        said = json.loads(polarised("study", "status", str(folder), "--json"))
        assert (said["done"], said["failed"]) == (1, 1)
        assert said["failures"] == {failing.name: "TrainingError: training diverged"}
        assert "study retry" in polarised("study", "status", str(folder))
    finally:
        (failing / "failed.txt").unlink()
        (failing / "done.json").write_text(done)


def test_verify_gives_a_verdict_for_each_claim(folder: Path) -> None:
    said = json.loads(polarised("study", "verify", str(folder), "--json"))
    claims = chosen_claims(load_study("be_more_active", scale="smoke").claims)
    assert {verdict["name"] for verdict in said["verdicts"]} == {claim.id for claim in claims}
    of_types = [verdict for verdict in said["verdicts"] if verdict["name"] == "BMA-F8c-z"]
    assert of_types
    assert all(set(verdict["rules"]) == set(RULES) for verdict in of_types)
    assert said["headline"] in polarised("study", "verify", str(folder))


def test_collect_by_the_other_rule(folder: Path) -> None:
    polarised("study", "collect", str(folder), "--rule", "relative")
    assert polars.read_parquet(folder / "results.parquet")["run"].n_unique() == 2


def test_plan_counts_and_estimates() -> None:
    said = json.loads(polarised("study", "plan", "be_more_active", "--scale", "smoke", *FEW, "--jobs", "4", "--json"))
    assert (said["runs"], said["steps"], said["workers"]) == (2, 600, 4)
    assert 0 < said["core_hours"] < 1
    # Two equal runs are no quicker with four workers than with two.
    assert said["days"] == pytest.approx(said["core_hours"] / 24 / 2)


def test_mistakes_are_one_sentence(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["study", "status", str(tmp_path)])
    assert result.exit_code == 2
    assert "has no study.json" in result.output
