import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from polarised import Encodings
from polarised.cli import app
from polarised.models import build_vae, load_vae
from polarised.models.vae import save_vae
from polarised.regime.decoder import DecoderUse
from polarised.report.explore import open_exploration
from polarised.study import Run, execute

ROWS = 400
GENERATOR = np.random.default_rng(0)
ALIVE, FAINT = GENERATOR.standard_normal(ROWS), 0.02 * GENERATOR.standard_normal(ROWS)
DOUBTFUL = np.where(np.arange(ROWS) < 2, 4.2, 0.0)
MEAN = np.column_stack([ALIVE, FAINT, DOUBTFUL, GENERATOR.standard_normal(ROWS)])
VARIANCE = np.column_stack([np.full(ROWS, level) for level in (0.01, 1.0, 1.0, 0.4)])


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run with variable 0 active, 1 passive, 2 passive but close to the threshold, and 3 mixed."""
    config = {
        "dataset": {"name": "dsprites", "size": 32},
        "model": {"architecture": {"name": "mlp", "widths": [8]}, "latents": 4},
        "training": {"steps": 2, "batch_size": 8},
        "evaluation": {"examples": ROWS},
    }
    directory = execute(Run.from_config(config), tmp_path_factory.mktemp("runs"))
    found = Encodings.load(directory / "encodings.npz")
    stored = Encodings(MEAN, variance=VARIANCE, factors=found.factors, factor_names=found.factor_names)
    (directory / "encodings.npz").unlink()
    stored.save(directory / "encodings.npz")
    errors = np.full(4, 0.02)
    use = DecoderUse(np.array([80.0, 0.0, 0.19, 9.0]), errors, np.zeros(4), errors, np.full(4, 2000), 40.0)
    use.table().write_parquet(directory / "decoder_use.parquet")
    return directory


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def test_prune_uses_the_types_of_diagnose(finished, tmp_path):
    diagnosed = json.loads(run("diagnose", finished, "--json"))
    assert (diagnosed["active"], diagnosed["passive"]) == ([0], [1, 2])
    report = json.loads(run("prune", finished, "--out", tmp_path / "small.safetensors", "--examples", 50, "--json"))
    assert report["dropped"] == [1]
    assert report["passive_but_kept"] == [2]
    assert load_vae(tmp_path / "small.safetensors").latents == 3


def test_explore_shows_the_types_of_diagnose(finished):
    assert open_exploration(finished).regime.types == ("active", "passive", "passive", "mixed")


def test_prune_uses_the_given_rule_as_diagnose_does(finished, tmp_path):
    # The standard rule does not use the means, so variable 2 is not doubtful.
    options = ("--rule", "standard", "--out", tmp_path / "new" / "small.safetensors", "--examples", 50, "--json")
    assert json.loads(run("prune", finished, *options))["dropped"] == [1, 2]


def test_dropped_and_doubtful_variables_are_listed(finished, tmp_path):
    said = " ".join(run("prune", finished, "--out", tmp_path / "small.safetensors", "--examples", 50).split())
    assert "3 variables kept (0, 2, 3); 1 variable dropped (1)" in said
    assert "Passive, but kept because doubtful: 2" in said
    named = ("--keep", "0,1,2,3", "--examples", 50)
    said = run("prune", finished, "--out", tmp_path / "same.safetensors", *named)
    assert "none dropped" in said
    assert "the written model is unchanged" in said
    assert "kept because doubtful" not in said


def test_a_variable_that_is_noise_around_a_nonzero_mean_can_be_dropped(tmp_path):
    """The variable is passive by its noise share: its mean is 1.5 for every image, and the decoder relies on that."""
    images = np.random.default_rng(0).random((60, 1, 16, 16), dtype=np.float32)
    np.savez(tmp_path / "images.npz", images=images)
    config = {"architecture": {"name": "mlp", "widths": [8]}, "latents": 3}
    vae = build_vae(config, (1, 16, 16))
    with torch.no_grad():
        for head in (vae.encoder.mean_head, vae.encoder.log_variance_head):
            head.weight[1] = 0
        vae.encoder.mean_head.bias[1], vae.encoder.log_variance_head.bias[1] = 1.5, -6.0
        vae.encoder.log_variance_head.bias[[0, 2]] -= 9.0
        vae.encoder.mean_head.weight[[0, 2]] *= 5
        vae.decoder.input.weight[:, 1] += 5
    save_vae(vae, tmp_path / "model.safetensors", config=config, auxiliary_size=0)
    # The decoder is untrained and uses almost nothing, so the default rule would keep no variable.
    options = (
        "--rule",
        "relative",
        "--data",
        tmp_path / "images.npz",
        "--out",
        tmp_path / "small.safetensors",
        "--json",
    )
    report = json.loads(run("prune", tmp_path / "model.safetensors", *options))
    assert report["dropped"] == [1]
    before, after = report["distortion"]
    assert after == pytest.approx(before, abs=1e-3)
