"""Real models of other libraries with planted dead variables: they are found, and the model is not changed."""

import os

import numpy as np
import pytest

import polarised as po
from polarised.errors import DataError

from .models import DEAD, INPUTS, LIVE, same_state, state

os.environ.setdefault("KERAS_BACKEND", "jax")
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]
IMAGES = np.random.default_rng(0).uniform(size=(200, 1, 8, 8)).astype(np.float32)
LABELS = np.arange(200) % 2


def found(diagnosis):
    return diagnosis.regime.alive, diagnosis.regime.passive


@pytest.mark.parametrize("name", ["VAE", "BetaVAE", "FactorVAE", "INFOVAE_MMD", "VAMP"])
def test_pythae(name):
    torch = pytest.importorskip("torch")
    models = pytest.importorskip("pythae.models")
    torch.manual_seed(0)
    config = getattr(models, {"INFOVAE_MMD": "INFOVAE_MMD_Config"}.get(name, f"{name}Config"))
    model = getattr(models, name)(config(input_dim=(1, 8, 8), latent_dim=4)).train()
    heads = model.encoder.embedding, model.encoder.log_var
    with torch.no_grad():
        heads[0].weight[2:] = 0
        heads[0].bias[:] = 0
        heads[0].weight[:2] *= 40
        heads[1].weight[:] = 0
        heads[1].bias[:] = torch.tensor([-6.0, -6.0, 0.0, 0.0])
        first = next(layer for layer in model.decoder.modules() if isinstance(layer, torch.nn.Linear))
        first.weight[:, 2:] = 0
    before = state(model)
    diagnosis = po.diagnose(model, IMAGES, rule="relative" if name == "VAMP" else "used")
    assert same_state(before, state(model))
    if name != "VAMP":
        assert diagnosis.regime.passive[-2:] == DEAD
        assert diagnosis.decoder_use["permuted"][2:].abs().max() < 1e-6
        assert diagnosis.decoder_use["permuted"][:2].abs().min() > 1e-3
    assert diagnosis.pictures.traversals.shape == (4, 9, 1, 8, 8)
    assert diagnosis.provenance["kind"] == "pythae"


@pytest.fixture(scope="module")
def autoencoder():
    torch = pytest.importorskip("torch")
    diffusers = pytest.importorskip("diffusers")
    torch.manual_seed(0)
    model = diffusers.AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        block_out_channels=(8, 8),
        latent_channels=4,
        norm_num_groups=4,
        use_quant_conv=True,
    )
    kill_channels(torch, model.quant_conv)
    return model


def kill_channels(torch, convolution):
    with torch.no_grad():
        convolution.weight[2:4] = 0
        convolution.bias[:] = torch.tensor([0.0, 0, 0, 0, -6, -6, 0, 0])
        convolution.weight[4:] = 0
        convolution.weight[:2] *= 5


def test_diffusers(autoencoder, tmp_path):
    images = np.random.default_rng(1).uniform(-1, 1, size=(24, 3, 16, 16)).astype(np.float32)
    autoencoder.train()
    before = state(autoencoder)
    diagnosis = po.diagnose(autoencoder, images)
    assert same_state(before, state(autoencoder))
    assert set(DEAD) <= set(diagnosis.regime.passive)
    assert diagnosis.regime.inputs == 24
    assert "64 positions each), axis 1" in diagnosis.reading
    said = " ".join(diagnosis.advice)
    assert "latents_std" in said
    assert "scaling_factor" in said
    assert "(the config has 0.18215)" in said
    unit = (images + 1) / 2
    with pytest.raises(DataError, match=r"pixel_range=\(-1, 1\)"):
        po.diagnose(autoencoder, unit)
    np.testing.assert_allclose(
        po.diagnose(autoencoder, unit, pixel_range=(-1, 1)).encodings.mean, diagnosis.encodings.mean, atol=1e-4
    )

    class StableDiffusion:
        __module__ = "diffusers.pipelines.mine"
        vae = autoencoder

    assert po.diagnose(StableDiffusion(), images).regime.types == diagnosis.regime.types


def test_diffusers_for_video():
    torch = pytest.importorskip("torch")
    diffusers = pytest.importorskip("diffusers")
    torch.manual_seed(0)
    model = diffusers.AutoencoderKLCogVideoX(
        in_channels=3,
        out_channels=3,
        down_block_types=("CogVideoXDownBlock3D",) * 2,
        up_block_types=("CogVideoXUpBlock3D",) * 2,
        block_out_channels=(8, 8),
        latent_channels=4,
        layers_per_block=1,
        norm_num_groups=2,
        temporal_compression_ratio=2,
    )
    videos = np.random.default_rng(1).uniform(-1, 1, size=(6, 3, 5, 16, 16)).astype(np.float32)
    diagnosis = po.diagnose(model, videos, batch_size=2)
    assert (len(diagnosis.regime.types), diagnosis.regime.inputs) == (4, 6)
    assert diagnosis.regime.rows > 6 * 64


@pytest.mark.parametrize(("name", "reason"), [("VQModel", "codebook"), ("AutoencoderTiny", "the mean alone")])
def test_diffusers_without_a_posterior_say_why_not(name, reason):
    diffusers = pytest.importorskip("diffusers")
    with pytest.raises(DataError, match=reason):
        po.diagnose(getattr(diffusers, name)(), IMAGES)


@pytest.fixture(scope="module")
def cells():
    scvi = pytest.importorskip("scvi")
    return scvi.data.synthetic_iid()


@pytest.mark.parametrize("name", ["SCVI", "SCANVI", "LinearSCVI"])
def test_scvi(cells, name):
    scvi = pytest.importorskip("scvi")
    torch = pytest.importorskip("torch")
    adata = cells.copy()
    setup = {"SCANVI": {"labels_key": "labels", "unlabeled_category": "label_0"}}.get(name, {})
    getattr(scvi.model, name).setup_anndata(adata, batch_key="batch", **setup)
    model = getattr(scvi.model, name)(adata, n_latent=5)
    model.train(max_epochs=2, accelerator="cpu", enable_progress_bar=False)
    with torch.no_grad():
        model.module.z_encoder.mean_encoder.weight[3:] = 0
        model.module.z_encoder.mean_encoder.bias[3:] = 0
        model.module.z_encoder.var_encoder.weight[3:] = 0
        model.module.z_encoder.var_encoder.bias[3:] = 0
        first = next(layer for layer in model.module.decoder.modules() if isinstance(layer, torch.nn.Linear))
        first.weight[:, 3:5] = 0
    model.module.train()
    before = state(model.module)
    diagnosis = po.diagnose(model, factors="labels")
    assert same_state(before, state(model.module))
    assert {3, 4} <= set(diagnosis.regime.passive)
    assert diagnosis.decoder_use["permuted"][3:].abs().max() < 1e-3
    assert diagnosis.encodings.factor_names == ("labels",)
    if diagnosis.regime.alive:
        assert diagnosis.advice[0].startswith("Keep ")
        assert any("raises gene_" in said for said in diagnosis.advice)
    po.annotate(adata, model)
    assert list(adata.var_names) == list(cells.var_names)
    assert adata.obsm["X_polarised"].shape[0] == adata.n_obs
    assert adata.uns["polarised"]["variables"]["type"][3] == "passive"
    kept = adata.uns["polarised"]["kept"]
    assert adata.obsm["X_polarised"].shape[1] == len(kept)


def test_the_advice_names_the_genes_that_change_along_a_dimension(cells):
    scvi = pytest.importorskip("scvi")
    generator = np.random.default_rng(0)
    level = np.full((400, cells.n_vars), 3.0)
    hidden = generator.normal(size=(400, 1))
    level[:, :3] *= np.exp(1.5 * hidden)
    level[:, 3:6] *= np.exp(-1.5 * hidden)
    adata = cells.copy()
    adata.X = generator.poisson(level).astype(np.float32)
    scvi.settings.seed = 0
    scvi.model.SCVI.setup_anndata(adata)
    model = scvi.model.SCVI(adata, n_latent=2, gene_likelihood="nb")
    model.train(max_epochs=80, accelerator="cpu", enable_progress_bar=False)
    diagnosis = po.diagnose(model)
    assert diagnosis.advice[0].startswith("Keep ")
    (said,) = [each for each in diagnosis.advice if each.startswith("Genes that change most")]
    first = said.partition(": ")[2].partition(";")[0]
    sides = [set(part.split(", ")) for part in first.rstrip(".").partition("raises ")[2].split(" and lowers ")]
    planted = [{str(name) for name in adata.var_names[part]} for part in (slice(0, 3), slice(3, 6))]
    assert sides in (planted, planted[::-1])


def test_lightning():
    lightning = pytest.importorskip("lightning.pytorch")
    from .models import Flat

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.vae = Flat()

        def training_step(self, batch, _):
            return self.vae(batch)[0].sum()

    module = Module().train()
    before = state(module)
    diagnosis = po.diagnose(module, INPUTS)
    assert same_state(before, state(module))
    assert found(diagnosis) == (LIVE, DEAD)
    assert diagnosis.provenance["kind"] == "lightning"


def test_keras():
    keras = pytest.importorskip("keras")
    inputs = keras.Input((6,))
    hidden = keras.layers.Dropout(0.5)(keras.layers.BatchNormalization()(inputs))
    mean, log_variance = (keras.layers.Dense(4, name=name)(hidden) for name in ("z_mean", "z_log_var"))

    class Sampling(keras.layers.Layer):
        def __init__(self, **more):
            super().__init__(**more)
            self.seed_generator = keras.random.SeedGenerator(0)

        def call(self, parts):
            noise = keras.random.normal(keras.ops.shape(parts[0]), seed=self.seed_generator)
            return parts[0] + keras.ops.exp(0.5 * parts[1]) * noise

    encoder = keras.Model(inputs, [mean, log_variance, Sampling(name="z")([mean, log_variance])], name="encoder")
    kernel = np.zeros((6, 4), np.float32)
    kernel[0, 0] = kernel[1, 1] = 1
    encoder.get_layer("z_mean").set_weights([kernel, np.zeros(4, np.float32)])
    encoder.get_layer("z_log_var").set_weights([np.zeros((6, 4), np.float32), np.array([-6, -6, 0, 0], np.float32)])
    before = [np.array(variable) for variable in encoder.variables]
    diagnosis = po.diagnose(encoder, INPUTS)
    assert all((np.array(now) == then).all() for now, then in zip(encoder.variables, before, strict=True))
    assert found(diagnosis) == (LIVE, DEAD)
    assert "the name z_log_var" in diagnosis.reading


def test_keras_feature_maps_have_their_channels_last():
    keras = pytest.importorskip("keras")
    inputs = keras.Input((16, 16, 3))
    mean, log_variance = (keras.layers.Conv2D(4, 2, 2, name=name)(inputs) for name in ("z_mean", "z_log_var"))
    encoder = keras.Model(inputs, [mean, log_variance])
    kernel = np.random.default_rng(0).normal(size=(2, 2, 3, 4)).astype(np.float32) * [3, 3, 0, 0]
    encoder.get_layer("z_mean").set_weights([kernel, -kernel.sum((0, 1, 2)) / 2])
    encoder.get_layer("z_log_var").set_weights([0 * kernel, np.array([-6, -6, 0, 0], np.float32)])
    images = np.random.default_rng(1).uniform(size=(64, 16, 16, 3)).astype(np.float32)
    diagnosis = po.diagnose(encoder, images)
    assert found(diagnosis) == (LIVE, DEAD)
    assert diagnosis.regime.inputs == 64


def test_jax_functions():
    jax = pytest.importorskip("jax")

    @jax.jit
    def encode(x):
        mu = x[:, :4] * jax.numpy.array([1.0, 1.0, 0.0, 0.0])
        logvar = jax.numpy.broadcast_to(jax.numpy.array([-6.0, -6.0, 0.0, 0.0]), mu.shape).astype("bfloat16")
        return mu, logvar

    assert found(po.diagnose(encode, INPUTS)) == (LIVE, DEAD)
    assert found(po.diagnose(encode, jax.numpy.asarray(INPUTS))) == (LIVE, DEAD)


def test_flax():
    pytest.importorskip("jax")
    nnx = pytest.importorskip("flax.nnx")

    class Encoder(nnx.Module):
        def __init__(self, rngs):
            self.norm, self.drop = nnx.BatchNorm(6, rngs=rngs), nnx.Dropout(0.5, rngs=rngs)
            self.head = nnx.Linear(6, 4, rngs=rngs)
            kernel = np.zeros((6, 4), np.float32)
            kernel[0, 0] = kernel[1, 1] = 1
            self.head.kernel.value = kernel

        def encode(self, x):
            mean = self.head(self.drop(self.norm(x)))
            log_var = 0 * mean + np.array([-6.0, -6.0, 0.0, 0.0])
            return mean, log_var

    model = Encoder(nnx.Rngs(0))
    model.train()
    before = [np.asarray(leaf) for leaf in leaves(nnx, model)]
    diagnosis = po.diagnose(model, INPUTS)
    assert all((now == then).all() for now, then in zip(map(np.asarray, leaves(nnx, model)), before, strict=True))
    assert model.drop.deterministic is False
    assert found(diagnosis) == (LIVE, DEAD)


def leaves(nnx, model):
    import jax

    return [
        jax.random.key_data(x) if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key) else x
        for x in jax.tree.leaves(nnx.state(model))
    ]


def test_flax_linen():
    linen = pytest.importorskip("flax.linen")
    jax = pytest.importorskip("jax")

    class Encoder(linen.Module):
        @linen.compact
        def __call__(self, x):
            mean = linen.Dense(4, use_bias=False)(x)
            logvar = 0 * mean + jax.numpy.array([-6.0, -6.0, 0.0, 0.0])
            return mean, logvar

    kernel = np.zeros((6, 4), np.float32)
    kernel[0, 0] = kernel[1, 1] = 1
    bound = Encoder().bind({"params": {"Dense_0": {"kernel": kernel}}})
    assert found(po.diagnose(bound, INPUTS)) == (LIVE, DEAD)


def test_pyro_style_guides_return_distributions():
    torch = pytest.importorskip("torch")
    pyro = pytest.importorskip("pyro.distributions")
    scale = torch.tensor([0.05, 0.05, 1.0, 1.0])

    def guide(x):
        x = torch.as_tensor(x)
        return pyro.Normal(x[:, :4] * (scale < 1), scale.expand(len(x), 4)).to_event(1)

    assert found(po.diagnose(guide, INPUTS)) == (LIVE, DEAD)
