import zipfile

import numpy as np
import pytest
import torch

from adapters.test_archives import archive_of
from adapters.test_tensor_bundle import bundle
from polarised.adapters import from_disentanglement_lib, load_disentanglement_lib, open_target
from polarised.errors import DataError

SHAPES = {
    "encoder/e1": (4, 4, 1, 32),
    "encoder/e2": (4, 4, 32, 32),
    "encoder/e3": (2, 2, 32, 64),
    "encoder/e4": (2, 2, 64, 64),
    "encoder/e5": (1024, 256),
    "encoder/means": (256, 2),
    "encoder/log_var": (256, 2),
    "decoder/dense": (2, 256),
    "decoder/dense_1": (256, 1024),
    "decoder/conv2d_transpose": (4, 4, 64, 64),
    "decoder/conv2d_transpose_1": (4, 4, 32, 64),
    "decoder/conv2d_transpose_2": (4, 4, 32, 32),
    "decoder/conv2d_transpose_3": (4, 4, 1, 32),
}
INDEX = "9/model/tfhub/variables/"


def variables():
    found = {}
    for layer, shape in SHAPES.items():
        size = shape[2] if "transpose" in layer else shape[-1]
        found |= {f"{layer}/kernel": np.full(shape, 0.01), f"{layer}/bias": np.zeros(size)}
    return found


def published(tmp_path, arrays):
    return archive_of(tmp_path / "9.zip", **{INDEX + name: data for name, data in bundle(arrays).items()})


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    # Checksums have their own tests and take a second per model.
    monkeypatch.setattr("polarised.adapters._tensor_bundle._masked_crc", lambda data: len(data))
    monkeypatch.setattr("adapters.test_tensor_bundle._masked_crc", lambda data: len(data))


def test_a_run_becomes_our_network(tmp_path):
    vae = load_disentanglement_lib(published(tmp_path, variables()))
    assert (vae.latents, vae.shape) == (2, (1, 64, 64))
    assert torch.equal(vae.decoder.input.weight, torch.full((256, 2), 0.01))
    assert len(from_disentanglement_lib(tmp_path / "9.zip", np.zeros((3, 1, 64, 64)))) == 3


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("encoder/e1/kernel", np.zeros((4, 4)), "1 to 64 channels"),
        ("encoder/e1/kernel", np.zeros((1, 1, 100, 32)), "1 to 64 channels"),
        ("encoder/e5/kernel", np.zeros((1000, 256)), "of shape"),
        ("encoder/means/bias", np.zeros(5000), "1 to 4096 latent"),
        ("encoder/means/bias", np.zeros(3), "of shape"),
        ("decoder/dense_1/bias", np.zeros(7), "of shape"),
        ("decoder/dense_1/bias", np.full(1024, np.nan), "check whether training diverged"),
        ("decoder/dense/kernel", np.zeros(()), "of shape"),
        ("decoder/dense/kernel", None, "decoder/dense is missing"),
    ],
)
def test_weights_of_another_network_are_refused(tmp_path, name, value, message):
    arrays = variables() | {name: value}
    path = published(tmp_path, {key: array for key, array in arrays.items() if array is not None})
    with pytest.raises(DataError, match=message):
        load_disentanglement_lib(path)


def test_a_zip_with_names_outside_is_refused_and_never_unpacked(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    path = inside / "250.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../../escaped.txt", "out")
        archive.writestr("/absolute.txt", "out")
        archive.writestr("250/model/tfhub/variables/variables.index", b"noise" * 20)
    with pytest.raises(DataError, match=r"inside the folder.*escaped\.txt"):
        load_disentanglement_lib(path)
    with pytest.raises(DataError, match="inside the folder"):
        open_target(path)
    assert sorted(file.name for file in tmp_path.rglob("*") if file.is_file()) == ["250.zip"]


def test_a_zip_bomb_stops_at_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("polarised._io.files.LARGEST_FILE", 1 << 16)
    path = archive_of(tmp_path / "1.zip", **{"1/model/tfhub/variables/variables.index": bytes(1 << 20)})
    assert path.stat().st_size < 5000
    with pytest.raises(DataError, match="is larger"):
        load_disentanglement_lib(path)


def test_the_exported_network_itself_is_opened_too(tmp_path):
    with zipfile.ZipFile(published(tmp_path, variables())) as archive:
        archive.extractall(tmp_path / "out")
    whole = load_disentanglement_lib(tmp_path / "out" / "9")
    for place in ("9/model", "9/model/tfhub"):
        inner = load_disentanglement_lib(tmp_path / "out" / place)
        assert all(torch.equal(a, b) for a, b in zip(inner.parameters(), whole.parameters(), strict=True))
        assert open_target(tmp_path / "out" / place).kind == "disentanglement_lib"
        assert open_target(tmp_path / "out" / place).vae().latents == whole.latents
