import json
import sys

import pytest
import torch
from safetensors.torch import save_file

from polarised import registry
from polarised.errors import DataError
from polarised.models import build_vae, load_vae, save_vae

SMALL = {"architecture": {"name": "mlp", "widths": [4]}, "latents": 3}
PRIORS = [name for name in registry.names("prior") if name[0].isupper()]


@pytest.mark.parametrize("architecture", registry.names("architecture"))
def test_every_network_survives_saving(tmp_path, architecture):
    config = {"architecture": architecture, "latents": 3}
    vae = build_vae(config, (1, 32, 32), seed=2).eval()
    found = load_vae(save_vae(vae, tmp_path / "model.safetensors", config=config))
    images = torch.rand(2, 1, 32, 32)
    assert torch.equal(found.posterior(images).mean, vae.posterior(images).mean)


@pytest.mark.parametrize("prior", PRIORS)
def test_every_prior_survives_saving(tmp_path, prior):
    config = {**SMALL, "prior": prior}
    vae = build_vae(config, (1, 16, 16), 2, seed=2)
    found = load_vae(save_vae(vae, tmp_path / "model.safetensors", config=config, auxiliary_size=2))
    # NaN stands for scales that are not yet taken from data.
    torch.testing.assert_close(found.state_dict(), vae.state_dict(), rtol=0, atol=0, equal_nan=True)


def handed_over(path, *, shape=(1, 16, 16), auxiliary_size=0, **config):
    header = {"config": {**SMALL, **config}, "shape": shape, "auxiliary_size": auxiliary_size}
    save_file(build_vae(SMALL, (1, 16, 16)).state_dict(), path, metadata={"polarised": json.dumps(header)})
    return path


@pytest.mark.parametrize("part", ["architecture", "prior", "likelihood"])
@pytest.mark.parametrize("name", ["hostile:run", "hostile:run:run", {"name": "hostile:run"}])
def test_code_a_model_names_is_neither_imported_nor_run(tmp_path, monkeypatch, part, name):
    (tmp_path / "hostile.py").write_text("raise SystemExit('code of the file was run')")
    monkeypatch.syspath_prepend(tmp_path)
    path = handed_over(tmp_path / "model.safetensors", **{part: name})
    with pytest.raises(DataError, match=r"names hostile:run.*POLARISED_TRUST=hostile"):
        load_vae(path)
    assert "hostile" not in sys.modules


def test_code_that_is_trusted_or_in_use_is_run(tmp_path, monkeypatch):
    (tmp_path / "my_lab.py").write_text("from polarised.models.likelihoods import Bernoulli as Own, Bernoulli as Other")
    monkeypatch.syspath_prepend(tmp_path)
    own = handed_over(tmp_path / "own.safetensors", likelihood="my_lab:Own")
    other = handed_over(tmp_path / "other.safetensors", likelihood="my_lab:Other")
    monkeypatch.setenv("POLARISED_TRUST", "somebody, my_lab")
    assert load_vae(own).latents == 3
    monkeypatch.delenv("POLARISED_TRUST")
    assert load_vae(own).latents == 3
    with pytest.raises(DataError, match="my_lab:Other"):
        load_vae(other)


@pytest.mark.parametrize(
    "change",
    [
        {"latents": 10**9},
        {"latents": 10**30},
        {"latents": "3"},
        {"architecture": {"name": "mlp", "widths": [10**6, 10**6]}},
        {"architecture": "locatello_conv"},
        {"shape": (1, 10**6, 10**6)},
        {"shape": 3},
        {"shape": ("a",)},
        {"auxiliary_size": "many", "prior": "Conditional"},
        {"prior": []},
    ],
)
def test_a_config_with_wrong_sizes_allocates_nothing(tmp_path, change):
    with pytest.raises(DataError, match="expected"):
        load_vae(handed_over(tmp_path / "model.safetensors", **change))


@pytest.mark.parametrize("header", [None, {}, {"polarised": "{"}, {"polarised": "[]"}, {"polarised": "[" * 10**5}])
def test_a_file_with_other_contents_is_refused(tmp_path, header):
    save_file({"a": torch.zeros(3)}, tmp_path / "model.safetensors", metadata=header)
    with pytest.raises(DataError, match="saved by polarised"):
        load_vae(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").write_bytes((1 << 60).to_bytes(8, "little") + b"{}")
    with pytest.raises(DataError, match="saved by polarised"):
        load_vae(tmp_path / "model.safetensors")
