import json

import numpy as np
import pytest
import yaml
from PIL import Image
from typer.testing import CliRunner

from polarised.cli import app


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


def test_forecast_of_a_dataset_by_name():
    printed = run("forecast", "linear_gaussian", "--variance", 0.3, "--latents", 8).stdout
    assert "◀ here" in printed
    assert "would keep 4 of 8" in printed


def test_forecast_of_a_folder_says_how_its_images_are_read(tmp_path):
    for number, grey in enumerate(np.random.default_rng(0).integers(0, 255, size=(20, 8, 8), dtype=np.uint8)):
        Image.fromarray(grey).save(tmp_path / f"{number}.png")
    printed = run("forecast", tmp_path).stdout
    assert "20 inputs of 3 × 64 × 64" in printed
    assert "set --reduction mean if yours does" in " ".join(printed.split())


def test_forecast_of_an_archive_as_json_with_the_curve(tmp_path):
    np.savez(tmp_path / "mine.npz", images=np.random.default_rng(0).uniform(size=(200, 8, 8)).astype(np.float32))
    plot = tmp_path / "curve.svg"
    printed = run("forecast", tmp_path / "mine.npz", "--reduction", "mean", "--plot", plot, "--json").stdout
    found = json.loads(printed)
    assert found["threshold"] == 32.0
    assert found["case"] == "collapse"
    assert found["passive"] == 10
    assert plot.read_text().startswith("<?xml")


def test_forecast_of_a_run_by_its_config(tmp_path):
    config = {
        "dataset": "linear_gaussian",
        "model": {"architecture": {"name": "mlp", "widths": [8]}, "latents": 4, "likelihood": "Gaussian"},
        "objective": {"name": "BetaVAE", "beta": 9.0},
        "training": {"steps": 2},
        "evaluation": {"examples": 60},
    }
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    assert json.loads(run("forecast", tmp_path / "run.yaml", "--json").stdout)["threshold"] == 9.0
    assert json.loads(run("forecast", tmp_path / "run.yaml", "--beta", 2, "--json").stdout)["threshold"] == 2.0
    narrow = json.loads(run("forecast", tmp_path / "run.yaml", "--beta", 0.5, "--alpha", 0.01, "--json").stdout)
    wide = json.loads(run("forecast", tmp_path / "run.yaml", "--beta", 0.5, "--alpha", 0.4, "--json").stdout)
    assert narrow["active"] < wide["active"]
    assert "expected no --reduction" in run("forecast", tmp_path / "run.yaml", "--reduction", "mean", code=2).stderr
    printed = run("train", tmp_path / "run.yaml", "--out", tmp_path / "runs").stdout
    assert "Forecast at beta 9, decoder variance 1: will collapse" in printed
    assert "Forecast" not in run("train", tmp_path / "run.yaml", "--out", tmp_path / "runs").stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("linear_gaussian", "--beta", 0), "positive beta"),
        (("linear_gaussian", "--reduction", "mean", "--variance", 1), "whose loss has none"),
        (("nowhere",), "no dataset"),
        (("linear_gaussian", "--plot", "curve.xls"), ".png, .svg or .pdf"),
    ],
)
def test_wrong_use_is_one_sentence(options, words):
    result = run("forecast", *options, code=2)
    assert words in result.stderr
    assert "Traceback" not in result.output


def test_dimensions_is_also_an_option_of_forecast(tmp_path):
    np.savez(tmp_path / "mine.npz", images=np.random.default_rng(0).uniform(size=(200, 8, 8)).astype(np.float32))
    options = ("--latents", 4, "--steps", 2, "--architecture", "mlp", "--json")
    found = json.loads(run("forecast", tmp_path / "mine.npz", "--dimensions", *options).stdout)
    assert found["one_shot"]["trained_with"] == 4
