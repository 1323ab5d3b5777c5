"""JSON results follow their schema: the output of every command, and every ``to_dict``."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from polarised import Encodings, diagnose, schemas
from polarised.cli import app
from polarised.errors import ConfigError, DataError
from study.workshop import study_config, write_study

CONFIG = {
    "dataset": {"name": "dsprites", "size": 32},
    "model": {"architecture": {"name": "mlp", "widths": [8]}, "latents": 3},
    "training": {"steps": 3, "batch_size": 8},
    "evaluation": {"examples": 100},
}


def answer(*arguments: object, code: int = 0) -> dict[str, Any]:
    """The JSON output of a command."""
    result = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    assert result.exit_code == code, (result.output, result.exception)
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with arrays, data and the weights of a foreign network."""
    from safetensors.numpy import save_file

    place = tmp_path_factory.mktemp("answers")
    draw = np.random.default_rng(0)
    factors = draw.integers(0, 3, size=(300, 2))
    np.savez(
        place / "codes.npz",
        mean=draw.normal(size=(300, 4)),
        variance=draw.uniform(0.01, 0.02, (300, 4)),
        factors=factors,
    )
    np.savez(place / "data.npz", images=draw.random((200, 1, 6, 6), dtype=np.float32))
    heads = {"mu": (3, 6), "lv": (3, 6), "dec": (5, 3)}
    layers = {name: np.ones(shape, dtype=np.float32) for name, shape in heads.items()}
    named = {f"{name}.weight": weight for name, weight in layers.items()}
    save_file(named | {f"{name}.bias": weight[:, 0].copy() for name, weight in layers.items()}, place / "w.safetensors")
    return place


def test_results_on_arrays_and_data_follow_their_schema(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    layers = ("--mean-head", "mu", "--log-variance-head", "lv", "--decoder-input", "dec", "--keep", "0,2")
    asked = {
        "diagnosis": ("diagnose", "codes.npz"),
        "evaluation": ("evaluate", "codes.npz", "--metrics", "mig"),
        "report": ("report", "codes.npz"),
        "forecast": ("forecast", "data.npz", "--latents", 3),
        "pruned_weights": ("prune", "w.safetensors", *layers, "--out", "small.safetensors"),
        "datasets": ("datasets", "list"),
        "dataset": ("datasets", "prepare", "two_populations"),
        "citations": ("cite", "be_more_active"),
    }
    found = {name: answer(*arguments) for name, arguments in asked.items()}
    assert [schemas.validate(result) for result in found.values()] == list(found)
    assert schemas.validate(answer("datasets", "show", "two_populations", "-o", "sheet.png")) == "dataset"


def test_results_on_a_run_follow_their_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config.yaml").write_text(json.dumps(CONFIG))
    trained = answer("train", "config.yaml", "--out", "runs")
    assert schemas.validate(trained) == "diagnosis"
    run = trained["directory"]
    assert schemas.validate(answer("diagnose", run)) == "diagnosis"
    kept = ("--keep", "0,1", "--examples", 50, "--out", "small.safetensors")
    assert schemas.validate(answer("prune", run, *kept)) == "pruning"


def test_results_on_a_study_follow_their_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    study = write_study(tmp_path / "tiny.yaml", study_config(runs=1, steps=4))
    asked = {
        "outcome": ("study", "run", study, "--out", "runs", "--executor", "study.test_runner:here"),
        "status": ("study", "status", "runs"),
        "results": ("study", "collect", "runs"),
        "verification": ("study", "verify", "runs"),
        "doctor": ("study", "doctor", "runs"),
    }
    found = {name: answer(*arguments) for name, arguments in asked.items()}
    assert [schemas.validate(result) for result in found.values()] == list(found)


@pytest.mark.slow
def test_slow_results_follow_their_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = answer("demo", "--steps", 30, "--out", "runs")
    assert schemas.validate(shown) == "demonstration"
    sized = ("--steps", 5, "--seeds", 2, "--latents", 3, "--examples", 200)
    assert schemas.validate(answer("dimensions", "dsprites", *sized)) == "dimensions"
    assert schemas.validate(answer("study", "plan", "rtc_vae", "--scale", "small")) == "plan"


def test_groups_and_numbers_that_json_lacks_follow_their_schema() -> None:
    mean = np.random.default_rng(0).normal(size=(50, 2))
    found = diagnose(Encodings(np.column_stack([mean, mean[:, :1]]), variance=np.full((50, 3), 1e-300))).to_dict()
    assert "inf" in {row["value"] for row in found["scores"]}
    assert schemas.validate(json.loads(json.dumps(found, allow_nan=False))) == "diagnosis"
    grouped = diagnose(
        lambda x: {"first": (x, np.full_like(x, -4.0)), "second": (x[:, :1], np.full((len(x), 1), -4.0))},
        mean,
        scale_kind="log_variance",
    )
    assert [group["name"] for group in grouped.to_dict()["groups"]] == ["first", "second"]
    assert schemas.validate(grouped.to_dict()) == "diagnosis"


def test_results_that_violate_their_schema_are_refused() -> None:
    right = schemas.stamp("results", {"results": "a"})
    with pytest.raises(DataError, match="at further: Extra inputs"):
        schemas.validate({**right, "further": 1})
    with pytest.raises(DataError, match="at results: Input should be a valid string"):
        schemas.validate({**right, "results": 3})
    with pytest.raises(DataError, match="names its schema"):
        schemas.validate({**right, "schema": "polarised.results/2"})
    with pytest.raises(DataError, match="got none"):
        schemas.validate({"results": "a"})
    with pytest.raises(ConfigError, match="name of a schema"):
        schemas.json_schema("nothing")
