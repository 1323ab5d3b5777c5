import json
import pickle
import zipfile

import numpy as np
import pytest
import torch

from polarised.adapters import load_disentanglement_lib, load_disentangling_vae, open_target
from polarised.adapters.archives import Folder
from polarised.adapters.targets import images_named
from polarised.errors import ConfigError, DataError
from polarised.models import build_vae
from polarised.models.storage import save_vae


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was run",))


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
def test_anything_else_is_refused_in_words(tmp_path, content):
    path = tmp_path / "x"
    if content == "empty":
        path.mkdir()
    elif content == "text":
        path.write_text("hello")
    with pytest.raises(DataError, match="expected"):
        open_target(path)


def test_several_models_are_a_question(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.pt").write_bytes(b"")
    with pytest.raises(DataError, match="which one"):
        open_target(tmp_path)


def test_the_data_of_a_model_without_a_name_is_asked_for(tmp_path):
    (tmp_path / "model.pt").write_bytes(b"")
    (tmp_path / "specs.json").write_text(json.dumps({"dataset": "chairs"}))
    target = open_target(tmp_path)
    assert (target.kind, target.dataset) == ("disentangling-vae", "chairs")
    with pytest.raises(DataError, match=r"names 'chairs'.*--data"):
        target.data()
    with pytest.raises(ConfigError, match="did you mean 'dsprites'"):
        images_named("dsprite")


@pytest.mark.parametrize("specs", ["[]", "{", '{"dataset": 3}'])
def test_damaged_specs_name_no_data(tmp_path, specs):
    (tmp_path / "model.pt").write_bytes(b"")
    (tmp_path / "specs.json").write_text(specs)
    assert open_target(tmp_path).dataset is None


def test_a_pickled_model_is_refused_and_never_run(tmp_path):
    (tmp_path / "model.pt").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(DataError, match="refused to read"):
        load_disentangling_vae(tmp_path)
    torch.save({"encoder": Bomb()}, tmp_path / "model.pt")
    with pytest.raises(DataError, match="refused to read"):
        load_disentangling_vae(tmp_path)


def test_weights_of_another_network_are_refused(tmp_path):
    torch.save({"encoder.conv1.weight": torch.zeros(32, 1, 4, 4)}, tmp_path / "model.pt")
    with pytest.raises(DataError, match=r"encoder\.conv1|is missing"):
        load_disentangling_vae(tmp_path)
    torch.save([1, 2], tmp_path / "model.pt")
    with pytest.raises(DataError, match="state dict"):
        load_disentangling_vae(tmp_path)


def archive_of(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_a_zip_is_read_and_never_unpacked(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    path = inside / "250.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../../escaped.txt", "out")
        archive.writestr("/absolute.txt", "out")
        archive.writestr("250/model/tfhub/variables/variables.index", b"noise" * 20)
    with pytest.raises(DataError, match="magic number"):
        load_disentanglement_lib(path)
    assert open_target(path).kind == "disentanglement_lib"
    assert sorted(file.name for file in tmp_path.rglob("*") if file.is_file()) == ["250.zip"]


def test_a_zip_bomb_stops_at_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("polarised.adapters.archives.LARGEST_FILE", 1 << 16)
    path = archive_of(tmp_path / "1.zip", **{"1/model/tfhub/variables/variables.index": bytes(1 << 20)})
    assert path.stat().st_size < 5000
    with pytest.raises(DataError, match="is larger"):
        load_disentanglement_lib(path)


def test_a_zip_that_lies_about_its_members_is_refused(tmp_path):
    path = archive_of(tmp_path / "1.zip", **{"model.pt": b"x" * 100})
    data = bytearray(path.read_bytes())
    place = data.find(b"model.pt") + len("model.pt")
    data[place : place + 4] = b"\xff\xff\xff\xff"
    path.write_bytes(bytes(data))
    with pytest.raises(DataError):
        Folder(path).read("model.pt")


@pytest.mark.parametrize("cut", [0.3, 0.6, 0.9])
def test_a_zip_whose_middle_is_missing_is_refused(tmp_path, cut):
    path = archive_of(tmp_path / "1.zip", **{f"{i}/model.pt": np.random.default_rng(i).bytes(300) for i in range(5)})
    data = path.read_bytes()
    path.write_bytes(data[: int(cut * len(data)) - 50] + data[int(cut * len(data)) :])
    with pytest.raises(DataError):
        _ = [Folder(path).read(name) for name in Folder(path).files]


def test_too_many_members_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("polarised.adapters.archives.MOST_MEMBERS", 3)
    path = archive_of(tmp_path / "1.zip", **{f"{i}.txt": "x" for i in range(5)})
    with pytest.raises(DataError, match="at most 3 files"):
        Folder(path).ending("model.pt")


def test_a_folder_reads_only_what_is_in_it(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "secret").write_text("x")
    with pytest.raises(DataError, match="is not there"):
        Folder(tmp_path / "folder").read("../secret")
    (tmp_path / "folder" / "no.zip").write_text("not a zip")
    with pytest.raises(DataError, match="another kind"):
        Folder(tmp_path / "folder" / "no.zip")
