"""Other people's trained models give the codes their own code gave."""

import json
import zipfile

import numpy as np
import pytest
import torch

from polarised import classify
from polarised.adapters import from_vae, load_disentanglement_lib, load_disentangling_vae, open_target
from polarised.data import dsprites

RUNS = ("annealed_vae_c5", "beta_vae_b16", "beta_vae_b4")
MODELS = (
    *(
        "VAE_dsprites",
        "betaB_dsprites",
        "betaH_dsprites",
        "btcvae_dsprites",
        "btcvae_dsprites_a-5",
        "btcvae_dsprites_a0",
    ),
    *(
        "btcvae_dsprites_a5",
        "factor_dsprites",
        "VAE_mnist",
        "betaB_mnist",
        "betaH_mnist",
        "btcvae_mnist",
        "factor_mnist",
    ),
)


@pytest.fixture(scope="module")
def published(reference):
    return np.load(reference / "models" / "yanndubs" / "verify.npz")


@pytest.mark.parametrize("name", RUNS)
def test_a_run_of_disentanglement_lib(reference, name):
    folder = reference / "models" / "disentanglement_lib" / name
    vae, stored = load_disentanglement_lib(folder), np.load(folder / "verify.npz")
    data = dsprites()
    encodings = from_vae(vae, data.images[data.factor_space.index(stored["factors"])])
    np.testing.assert_allclose(encodings.mean, stored["mean"], atol=1e-5, rtol=0)
    np.testing.assert_allclose(np.log(encodings.variance), stored["log_variance"], atol=1e-5, rtol=0)
    with torch.inference_mode():
        logits = vae.decode(torch.from_numpy(stored["latents"])).permute(0, 2, 3, 1).numpy()
    assert np.abs(logits - stored["logits"]).max() < 1e-6 * np.abs(stored["logits"]).max()


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_the_types_of_a_run_by_the_standard_rule(reference, name):
    folder = reference / "models" / "disentanglement_lib" / name
    types = json.loads((folder / "types.json").read_text())
    regime = classify(from_vae(load_disentanglement_lib(folder), dsprites()), rule="standard")
    assert list(regime.types) == types["types"]
    np.testing.assert_allclose(regime.statistics.variance_mean, types["mean_of_variance"], atol=0.01)


def test_the_zip_of_a_run_is_the_run(reference, tmp_path):
    folder = reference / "models" / "disentanglement_lib" / "beta_vae_b16"
    with zipfile.ZipFile(tmp_path / "250.zip", "w") as archive:
        for file in (folder / "model").rglob("*"):
            if file.is_file():
                archive.write(file, f"250/{file.relative_to(folder)}")
    target = open_target(tmp_path / "250.zip")
    assert (target.kind, target.dataset) == ("disentanglement_lib", "dsprites_full")
    assert target.data().name == "dsprites"
    first, second = target.vae().state_dict(), load_disentanglement_lib(folder).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in second)


def test_a_postprocessed_module_holds_the_same_weights(reference):
    folder = reference / "models" / "disentanglement_lib" / "beta_vae_b16"
    inner, outer = (load_disentanglement_lib(folder / part).state_dict() for part in ("model", "postprocessed/mean"))
    assert all(torch.equal(inner[name], outer[name]) for name in inner)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_disentangling_vae(reference, published, name):
    vae = load_disentangling_vae(reference / "models" / "yanndubs" / name)
    inputs = published["synthetic64" if vae.shape[1] == 64 else "synthetic32"]
    encodings = from_vae(vae, inputs)
    np.testing.assert_allclose(encodings.mean, published[f"{name}__synthetic_mu"], atol=1e-5, rtol=0)
    np.testing.assert_allclose(np.log(encodings.variance), published[f"{name}__synthetic_logvar"], atol=1e-5, rtol=0)
    with torch.inference_mode():
        drawn = vae.generate(torch.from_numpy(published["z"])).numpy()
    np.testing.assert_allclose(drawn, published[f"{name}__decoded_z"], atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", [name for name in MODELS if "dsprites" in name])
def test_real_images_give_the_stored_codes_and_losses(reference, published, name):
    images = np.unpackbits(published["dsprites100_packed"], axis=1).reshape(100, 1, 64, 64).astype(np.float32)
    vae = load_disentangling_vae(reference / "models" / "yanndubs" / name)
    encodings = from_vae(vae, images)
    np.testing.assert_allclose(encodings.mean, published[f"{name}__dsprites100_mu"], atol=1e-5, rtol=0)
    assert classify(encodings).statistics.kl.sum() == pytest.approx(
        float(published[f"{name}__dsprites100_kl"]), abs=1e-2
    )
    x = torch.from_numpy(images)
    with torch.inference_mode():
        loss = -vae.likelihood.log_prob(x, vae.decode(torch.from_numpy(encodings.mean))).mean().item()
    assert loss == pytest.approx(float(published[f"{name}__dsprites100_bce_of_mean"]), abs=1e-2)
