import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from polarised import registry
from polarised.cli import app
from polarised.models import build_vae
from polarised.models.vae import save_vae

GENERATOR = np.random.default_rng(0)
MEAN = GENERATOR.normal(size=(300, 3))


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "80"})
    assert code or result.exit_code == 0, (result.output, result.exception)
    return result


@pytest.fixture
def codes(tmp_path):
    np.savez(tmp_path / "codes.npz", mu=MEAN, logvar=np.full((300, 3), -4.0), factors=(MEAN[:, :2] > 0).astype(int))
    return tmp_path / "codes.npz"


def test_arrays_may_have_all_names_that_diagnose_accepts(codes):
    report = json.loads(run("evaluate", codes, "--metrics", "mig,total_correlation", "--json").output)
    found = {(row["metric"], row["representation"]): row["value"] for row in report["scores"]}
    assert found["mig", "mean"] > 0.3
    assert found["total_correlation", "sampled"] < 0.1


def test_scores_and_their_explanations_fit_a_narrow_terminal(codes):
    lines = run("evaluate", codes, "--metrics", "total_correlation,mutual_information").output.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.split()[:1] == ["mutual_information_corrected"] and len(line.split()) == 3 for line in lines)
    assert "How to read them" in lines
    assert "…" not in "".join(lines)


def test_a_model_is_scored_on_its_data(tmp_path):
    config = {"architecture": {"name": "mlp", "widths": [8]}, "latents": 2}
    model = save_vae(build_vae(config, (1, 64, 64)), tmp_path / "model.safetensors", config=config)
    options = ("--data", "dsprites", "--examples", 50, "--metrics", "effective_rank", "--json")
    assert len(json.loads(run("evaluate", model, *options).output)["scores"]) == 2


def test_scores_that_hold_a_factor_fixed_draw_the_images_of_a_model(tmp_path, monkeypatch):
    few = {"train_votes": 20, "test_votes": 20, "variance_rows": 100, "batch_size": 8}
    entry = registry.record("metric", "factor_vae_score")
    quick = replace(entry, outputs=(replace(entry.outputs[0], settings=few),))
    monkeypatch.setitem(registry._records["metric"], "factor_vae_score", quick)
    config = {"architecture": {"name": "mlp", "widths": [8]}, "latents": 2}
    model = save_vae(build_vae(config, (1, 64, 64)), tmp_path / "model.safetensors", config=config)
    options = ("--data", "dsprites", "--examples", 50, "--metrics", "effective_rank,factor_vae_score", "--json")
    scores = json.loads(run("evaluate", model, *options).output)["scores"]
    assert [row["metric"] for row in scores] == ["effective_rank", "factor_vae_score"] * 2
    assert all(0 <= row["value"] <= 1 for row in scores[1::2])
    assert scores[1]["reading"]


def test_the_error_for_a_missing_target_is_one_sentence(tmp_path):
    assert run("evaluate", tmp_path / "nowhere.npz", code=1).stderr.startswith("error: expected a run directory")


def test_metrics_that_need_factors_are_named_where_there_are_none(codes, tmp_path):
    np.savez(tmp_path / "bare.npz", mean=MEAN, variance=np.full((300, 3), 0.02))
    said = " ".join(run("evaluate", tmp_path / "bare.npz").output.split())
    assert "because these encodings have no factors: mig, sap" in said
    assert "Not computed" not in run("evaluate", tmp_path / "bare.npz", "--metrics", "total_correlation").output
