import json
import re

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from polarised.cli import app
from polarised.models import build_vae
from polarised.models.vae import load_vae, save_vae

GENERATOR = np.random.default_rng(0)
MEAN = np.column_stack([GENERATOR.normal(size=800), 0.02 * GENERATOR.normal(size=800), GENERATOR.normal(size=800)])
VARIANCE = np.column_stack([np.full(800, 0.01), np.ones(800), np.full(800, 0.4)])


@pytest.fixture(autouse=True)
def _in_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def codes(tmp_path):
    np.savez(tmp_path / "codes.npz", mean=MEAN, variance=VARIANCE)
    return tmp_path / "codes.npz"


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def test_a_file_of_arrays_is_diagnosed_in_words_and_tables(codes):
    output = run("diagnose", codes, "--details").output
    assert (codes.parent / "codes.html").read_text().startswith("<!doctype html>")
    assert "1 of 3 latent variables is active, 1 mixed, 1 passive." in output
    assert "Active variables by the rules of other papers" in output
    assert "Certainty of the types" in output
    assert "Traceback" not in output


def test_positions_of_convolutional_latents_are_not_taken_for_inputs(tmp_path):
    np.savez(tmp_path / "grid.npz", mean=GENERATOR.normal(size=(50, 3, 2, 2)), variance=np.full((50, 3, 2, 2), 0.01))
    assert "--axis -1" in run("diagnose", tmp_path / "grid.npz", code=1).stderr
    said = run("diagnose", tmp_path / "grid.npz", "--axis", "1", "--no-page").output
    assert "50 inputs × 3 variables (4 positions each)" in " ".join(said.split())
    assert json.loads(run("diagnose", tmp_path / "grid.npz", "--axis", "1", "--json").output)["inputs"] == 50


def test_numbers_unknown_from_one_input_are_dashes(tmp_path):
    np.savez(tmp_path / "one.npz", mean=GENERATOR.normal(size=(1, 2, 8, 8)), variance=np.full((1, 2, 8, 8), 0.01))
    said = run("diagnose", tmp_path / "one.npz", "--axis", "1", "--details", "--no-page").output
    assert "nan" not in said
    assert "–" in said


def test_json_prints_one_object(codes):
    report = json.loads(run("diagnose", codes, "--json").output)
    assert (report["active"], report["mixed"], report["passive"]) == ([0], [2], [1])
    assert report["inputs"] == 800
    assert {row["variable"] for row in report["other_rules"]} == {0, 1, 2}
    assert "alpha 0.05" in report["sensitivity"][0]


def test_quiet_prints_nothing_and_several_files_are_one_model(codes, tmp_path):
    assert run("diagnose", codes, "--quiet").output == ""
    np.savez(tmp_path / "more.npz", mean=MEAN, variance=VARIANCE)
    assert json.loads(run("diagnose", codes, tmp_path / "more.npz", "--json").output)["inputs"] == 1600


def test_a_page_is_written(codes, tmp_path):
    run("diagnose", codes, "--html", tmp_path / "page.html", "--quiet")
    assert "<html" in (tmp_path / "page.html").read_text(encoding="utf-8")[:500].lower()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("diagnose", "nowhere"), 2),
        (("prune", "nowhere"), 2),
        (("dimensions", "nowhere"), 2),
        (("prune", "x", "--mean-head", "a"), 2),
        (("prune", "vae.pt"), 2),
        (("prune", "vae.safetensors", "--out", "small.pt"), 2),
        (("cite", "."), 2),
    ],
)
def test_every_error_is_one_sentence(arguments, code):
    result = run(*arguments, code=code)
    assert result.stderr.startswith(("error: expected", "error: there is no dataset"))
    assert "Traceback" not in result.output


def test_wrong_use_has_its_own_exit_code():
    run("diagnose", code=2)
    run("diagnose", "x", "--rule", "guess", code=2)


@pytest.fixture
def model(tmp_path):
    config = {"architecture": {"name": "mlp", "widths": [16]}, "latents": 4}
    vae = build_vae(config, (1, 64, 64))
    with torch.no_grad():
        vae.encoder.log_variance_head.bias[:2] = -5.0
    return save_vae(vae, tmp_path / "model.safetensors", config=config)


def test_a_model_is_diagnosed_on_named_data(model):
    report = json.loads(run("diagnose", model, "--data", "dsprites", "--examples", 200, "--json").output)
    assert report["inputs"] == 200
    assert len(report["decoder_use"]) == 4
    assert "--data" in run("diagnose", model, code=1).stderr


def test_a_model_is_pruned_and_the_comparison_printed(model, tmp_path):
    out = tmp_path / "small.safetensors"
    options = ("--out", out, "--keep", "0,1", "--data", "dsprites", "--examples", 200)
    report = json.loads(run("prune", model, *options, "--json").output)
    assert load_vae(out).latents == 2
    assert report["dropped"] == [2, 3]
    assert report["encodings"] < 1e-5
    assert report["parameters"][1] < report["parameters"][0]
    assert len(report["accuracy"]) == 2
    assert "Before and after" in run("prune", model, *options).output


def test_foreign_weights_are_pruned_by_the_names_of_their_layers(tmp_path):
    weights = {"mu": torch.nn.Linear(6, 3), "lv": torch.nn.Linear(6, 3), "dec": torch.nn.Linear(3, 6)}
    torch.save(torch.nn.ModuleDict(weights).state_dict(), tmp_path / "vae.pt")
    layers = ("--mean-head", "mu", "--log-variance-head", "lv", "--decoder-input", "dec")
    out = tmp_path / "small.safetensors"
    report = json.loads(run("prune", tmp_path / "vae.pt", *layers, "--keep", "2", "--out", out, "--json").output)
    assert report["parameters"] == [21 + 21 + 24, 7 + 7 + 12]
    for keep in ("2,x", ""):
        assert "such as 0,3,5" in run("prune", tmp_path / "vae.pt", *layers, "--keep", keep, code=2).stderr


def test_the_number_of_latents_is_estimated_and_plotted(tmp_path):
    np.savez(tmp_path / "images.npz", images=GENERATOR.uniform(size=(300, 1, 16, 16)).astype(np.float32))
    options = ("--architecture", "mlp", "--steps", 20, "--examples", 300, "--latents", 3, "--seeds", 2)
    result = run(
        "dimensions", tmp_path / "images.npz", *options, "--no-fondue", "--json", "--plot", tmp_path / "sizes.png"
    )
    report = json.loads(result.output)
    assert len(report["one_shot"]["each"]) == 2
    assert report["fondue"] is None
    assert (tmp_path / "sizes.png").stat().st_size > 5000
    refused = run("dimensions", "dsprites", "--plot", "sizes.xls", code=2).stderr
    assert "expected a .png, .svg or .pdf file for --plot" in refused


def test_help_shows_an_example():
    for command in ("diagnose", "prune", "dimensions"):
        assert "Example" in run(command, "--help").output


def published(reference):
    signs = ("yanndubs/*/model.pt", "disentanglement_lib/*/types.json")
    return [file.parent for sign in signs for file in sorted((reference / "models").glob(sign))]


@pytest.mark.slow
def test_published_models_are_diagnosed_from_their_folders_alone(reference):
    folders = [folder for folder in published(reference) if "mnist" not in folder.name]
    assert len(folders) == 11
    for folder in folders:
        said = run("diagnose", folder, "--examples", 500, "--no-page").output
        assert f"{folder.name}, 500 inputs" in said
        assert re.search(r"\d of 10 latent variables (is|are) active", said)
        assert "KL, nats" in said
        assert "• Use the means of" in said
        assert "What the decoder loses" in said


def test_a_model_without_its_data_accepts_other_images(reference, tmp_path, monkeypatch):
    monkeypatch.setenv("POLARISED_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("polarised.data.cache._retrieve", _no_network)
    folder = reference / "models" / "yanndubs" / "VAE_mnist"
    refused = run("diagnose", folder, code=1)
    assert refused.stderr.startswith("error: expected the dataset mnist, on which VAE_mnist was trained, in ")
    assert refused.stderr.count("\n") == 1
    np.savez(tmp_path / "digits.npz", images=GENERATOR.uniform(size=(50, 1, 32, 32)).astype(np.float32))
    report = json.loads(run("diagnose", folder, "--data", tmp_path / "digits.npz", "--json").output)
    assert report["inputs"] == 50


def _no_network(*_):
    raise OSError("no network")


def test_code_named_by_an_untrusted_run_is_not_run(codes, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    folder.mkdir()
    (tmp_path / "hostile.py").write_text("raise SystemExit('code of the run was run')")
    monkeypatch.syspath_prepend(tmp_path)
    (folder / "encodings.npz").write_bytes(codes.read_bytes())
    for config in (
        "dataset: hostile:run",
        "model: {prior: {name: hostile:run}}",
        "evaluation: {further: [hostile:run]}",
    ):
        (folder / "config.yaml").write_text(config)
        assert "names hostile:run, which would be imported and run" in run("diagnose", folder, code=1).stderr
    (folder / "config.yaml").write_text("[" * 10_000)
    said = run("diagnose", folder, code=2).stderr
    assert said.startswith("error: expected the settings of a run")
    assert "expected at most 64 levels" in said
