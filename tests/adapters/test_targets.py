import json
import os

import numpy as np
import pytest

from polarised.adapters import open_target
from polarised.adapters.targets import images_named, open_run
from polarised.errors import ConfigError, DataError, DownloadError
from polarised.models import build_vae
from polarised.models.vae import save_vae


def test_a_file_of_arrays_and_a_folder_of_npy(tmp_path):
    np.savez(tmp_path / "codes.npz", mean=np.zeros((2, 1)))
    assert open_target(tmp_path / "codes.npz").kind == "arrays"
    np.save(tmp_path / "mean.npy", np.zeros((2, 1)))
    assert open_target(tmp_path).kind == "arrays"
    with pytest.raises(DataError, match="only arrays"):
        open_target(tmp_path).vae()


def test_a_model_of_ours(tmp_path):
    config = {"architecture": {"name": "mlp", "widths": [8]}, "latents": 3}
    save_vae(build_vae(config, (1, 16, 16)), tmp_path / "model.safetensors", config=config)
    target = open_target(tmp_path / "model.safetensors")
    assert (target.kind, target.name, target.vae().latents) == ("model", "model", 3)
    assert target.config()[0]["latents"] == 3
    (tmp_path / "config.yaml").write_text("seed: 0")
    assert open_target(tmp_path).kind == "run"
    assert open_target(tmp_path).vae().shape == (1, 16, 16)


@pytest.mark.parametrize("content", [None, "empty", "text"])
def test_any_other_target_is_refused_with_a_message(tmp_path, content):
    path = tmp_path / "x"
    if content == "empty":
        path.mkdir()
    elif content == "text":
        path.write_text("hello")
    with pytest.raises(DataError, match="expected"):
        open_target(path)


def test_the_error_says_what_to_do_instead(tmp_path):
    (tmp_path / "model.pt").write_bytes(b"")
    with pytest.raises(DataError, match="give the folder that contains"):
        open_target(tmp_path / "model.pt")
    for name in ("first", "second"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "config.yaml").write_text("seed: 0")
    with pytest.raises(DataError, match=r"holds 2; give one of them, such as .*first"):
        open_target(tmp_path / "runs")


def test_several_models_are_refused(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.pt").write_bytes(b"")
    with pytest.raises(DataError, match="give the folder of one of them"):
        open_target(tmp_path)


def test_a_model_without_the_name_of_its_data_needs_data(tmp_path):
    (tmp_path / "model.pt").write_bytes(b"")
    (tmp_path / "specs.json").write_text(json.dumps({"dataset": "chairs"}))
    target = open_target(tmp_path)
    assert (target.kind, target.dataset) == ("disentangling-vae", "chairs")
    with pytest.raises(DataError, match=r"names 'chairs'.*data="):
        target.data()
    with pytest.raises(ConfigError, match="did you mean 'dsprites'"):
        images_named("dsprite")


@pytest.mark.parametrize("specs", ["[]", "{", '{"dataset": 3}'])
def test_damaged_specs_name_no_data(tmp_path, specs):
    (tmp_path / "model.pt").write_bytes(b"")
    (tmp_path / "specs.json").write_text(specs)
    assert open_target(tmp_path).dataset is None


def test_missing_data_of_a_model_are_named(tmp_path, monkeypatch):
    """The sentence names the dataset, its folder, how to get it, and what can be given instead."""
    monkeypatch.setenv("POLARISED_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("polarised.data.cache._retrieve", _no_network)
    model = tmp_path / "VAE_mnist"
    model.mkdir()
    (model / "model.pt").write_bytes(b"")
    (model / "specs.json").write_text(json.dumps({"dataset": "mnist"}))
    with pytest.raises(DownloadError) as refusal:
        open_target(model).data()
    said = str(refusal.value)
    place = tmp_path / "data" / "mnist"
    expected = f"expected the dataset mnist, on which VAE_mnist was trained, in {place}, but it is missing"
    assert said.startswith(expected)
    assert "`polarised datasets prepare mnist`" in said
    assert "data='file.npz'" in said


def _no_network(*_):
    raise OSError("no network")


def test_the_inner_folder_of_a_run_names_its_data_too(tmp_path):
    for file in ("tfhub/variables/variables.index", "results/json/train_config.json"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(json.dumps({"dataset.name": "'dsprites_full'"}))
    assert open_target(tmp_path).dataset == "dsprites_full"


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "codes.npz")
    with pytest.raises(DataError, match="expected"):
        open_target(tmp_path / "codes.npz")


def test_a_folder_of_images_is_not_taken_for_a_damaged_model(tmp_path):
    (tmp_path / "cats").mkdir()
    (tmp_path / "cats" / "1.PNG").touch()
    with pytest.raises(DataError, match=r"got the images of .*this folder as data="):
        open_target(tmp_path)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("model: locatello_conv", "model as a mapping"),
        ("evaluation: 3", "evaluation as a mapping"),
        ("evaluation: {further: mig}", "a list of measures"),
        ("evaluation: {alpha: small}", "a number as alpha"),
        ("seed: -1", "a seed of at least 0"),
    ],
)
def test_settings_of_a_run_with_the_wrong_form_are_refused(settings, words, tmp_path):
    (tmp_path / "config.yaml").write_text(settings, encoding="utf-8")
    with pytest.raises(ConfigError, match=words):
        open_run(tmp_path)


def test_empty_settings_of_a_run_are_cited_like_missing_ones(tmp_path):
    (tmp_path / "config.yaml").write_text("objective: BetaVAE\nmodel:\nevaluation: {further: }\n", encoding="utf-8")
    assert "Higgins2017" in open_run(tmp_path).citation()
