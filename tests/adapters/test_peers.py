"""Adapters with the real third-party libraries."""

import numpy as np
import pytest
import torch

from polarised import classify
from polarised.adapters import from_diffusers, from_pythae, from_scvi
from polarised.errors import DataError

pytestmark = pytest.mark.peers
IMAGES = np.random.default_rng(0).uniform(size=(12, 1, 28, 28)).astype(np.float32)


@pytest.mark.parametrize(
    "name", ["VAE", "BetaVAE", "BetaTCVAE", "FactorVAE", "DisentangledBetaVAE", "IWAE", "VAMP", "INFOVAE_MMD"]
)
def test_a_pythae_vae_or_a_variant(name):
    models = pytest.importorskip("pythae.models")
    torch.manual_seed(0)
    config = {"INFOVAE_MMD": "INFOVAE_MMD_Config"}.get(name, f"{name}Config")
    model = getattr(models, name)(getattr(models, config)(input_dim=(1, 28, 28), latent_dim=5))
    model.train()
    encodings = from_pythae(model, IMAGES, batch_size=5, factors=np.arange(12) % 3)
    model.eval()
    with torch.no_grad():
        output = model.encoder(torch.from_numpy(IMAGES))
    np.testing.assert_allclose(encodings.mean, output.embedding, atol=1e-6)
    np.testing.assert_allclose(encodings.variance, output.log_covariance.exp(), rtol=1e-5)
    assert encodings.factors.shape == (12, 1)


def test_the_prior_of_vamp_is_used():
    models = pytest.importorskip("pythae.models")
    torch.manual_seed(0)
    model = models.VAMP(models.VAMPConfig(input_dim=(1, 28, 28), latent_dim=3, number_components=4))
    encodings = from_pythae(model, IMAGES)
    with torch.no_grad():
        output = model.encoder(model.pseudo_inputs(torch.eye(4)).reshape(4, 1, 28, 28))
    parts = torch.distributions.Normal(output.embedding.double(), (output.log_covariance.double() / 2).exp())
    draws = parts.sample((200_000,)).flatten(0, 1)
    np.testing.assert_allclose(encodings.prior_mean, draws.mean(0), atol=0.01)
    np.testing.assert_allclose(encodings.prior_variance, draws.var(0), rtol=0.01)


def test_tensors_with_a_gradient_and_certainty_are_taken_by_pythae():
    models = pytest.importorskip("pythae.models")
    torch.manual_seed(0)
    model = models.VAE(models.VAEConfig(input_dim=(1, 28, 28), latent_dim=3))
    with torch.no_grad():
        model.encoder.log_var.bias += 5.0
    images = torch.tensor(IMAGES, dtype=torch.bfloat16, requires_grad=True)
    with pytest.raises(DataError, match="never below zero"):
        from_pythae(model, images)
    assert len(from_pythae(model, images, trust_scale=True)) == 12


@pytest.mark.parametrize("name", ["AE", "WAE_MMD", "SVAE"])
def test_pythae_models_without_a_gaussian_posterior_are_refused(name):
    models = pytest.importorskip("pythae.models")
    model = getattr(models, name)(
        getattr(models, f"{name}_Config" if "_" in name else f"{name}Config")(input_dim=(1, 28, 28), latent_dim=5)
    )
    with pytest.raises(DataError, match="Gaussian posterior"):
        from_pythae(model, IMAGES)


def test_a_pythae_model_is_left_in_its_mode():
    models = pytest.importorskip("pythae.models")
    model = models.VAE(models.VAEConfig(input_dim=(1, 28, 28), latent_dim=2))
    model.train()
    from_pythae(model, IMAGES)
    assert model.training


@pytest.fixture(scope="module")
def autoencoder():
    diffusers = pytest.importorskip("diffusers")
    torch.manual_seed(0)
    return diffusers.AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        block_out_channels=(8, 8),
        latent_channels=4,
        norm_num_groups=4,
    )


def test_a_diffusers_autoencoder_has_channels_as_variables(autoencoder):
    images = np.random.default_rng(1).uniform(-1, 1, size=(5, 3, 16, 16)).astype(np.float32)
    encodings = from_diffusers(autoencoder, images, batch_size=2)
    assert encodings.mean.shape == (5 * 8 * 8, 4)
    with torch.no_grad():
        posterior = autoencoder.eval().encode(torch.from_numpy(images)).latent_dist
    np.testing.assert_allclose(encodings.mean[:64], posterior.mean[0].flatten(1).T, atol=1e-5)
    np.testing.assert_allclose(encodings.variance[:64], posterior.var[0].flatten(1).T, rtol=1e-4)
    assert from_diffusers(autoencoder, images, axis=(1, 2, 3)).mean.shape == (5, 4 * 8 * 8)
    assert len(classify(encodings).types) == 4
    assert classify(encodings).inputs == 5
    halves = torch.tensor(images, dtype=torch.bfloat16, requires_grad=True)
    np.testing.assert_allclose(from_diffusers(autoencoder, halves, trust_scale=True).mean, encodings.mean, atol=0.1)


@pytest.mark.filterwarnings("ignore")
def test_a_scvi_model_gives_variances():
    scvi = pytest.importorskip("scvi")
    adata = scvi.data.synthetic_iid()
    scvi.model.SCVI.setup_anndata(adata, batch_key="batch")
    model = scvi.model.SCVI(adata, n_latent=6)
    model.train(max_epochs=2, accelerator="cpu", enable_progress_bar=False)
    encodings = from_scvi(model, factor="labels")
    assert encodings.latents == 6
    assert encodings.factor_names == ("labels",)
    model.module.eval()
    found = []
    for tensors in model._make_data_loader(adata):
        inputs = model.module._get_inference_input(tensors)
        with torch.no_grad():
            found.append(model.module.inference(**inputs)["qz"].scale ** 2)
    np.testing.assert_allclose(encodings.variance, torch.cat(found), rtol=1e-4)
    with pytest.raises(DataError, match="column of adata"):
        from_scvi(model, factor="colour")


def test_anything_else_is_no_scvi_model():
    with pytest.raises(DataError, match="get_latent_representation"):
        from_scvi(object())
