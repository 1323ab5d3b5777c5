"""Models of other libraries are pruned like ours, verified with their own encoder and decoder."""

import json

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import polarised as po
from polarised.cli import app
from polarised.errors import ConfigError, DataError
from polarised.pruning import pruning_report

from .models import IMAGES, INPUTS, LIVE, Flat, Grid, same_state, state


class Stacked(nn.Module):
    """One layer returns mean and log-variance, and the size is stored in an attribute."""

    def __init__(self, latents=5):
        super().__init__()
        self.latent_dim = latents
        self.encoder = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2 * latents))
        self.decoder = nn.Sequential(nn.Linear(latents, 16), nn.Tanh(), nn.Linear(16, 6))

    def encode(self, x):
        both = self.encoder(x)
        return both[:, : self.latent_dim], both[:, self.latent_dim :]

    def decode(self, z):
        return self.decoder(z)


class Narrow(Stacked):
    """The code passes a normalisation before the decoder's layers."""

    def __init__(self):
        super().__init__()
        self.decoder = nn.Sequential(nn.LayerNorm(5), nn.Linear(5, 6))


class Skipping(Stacked):
    """The decoder reads the code beside its layers."""

    def decode(self, z):
        return self.decoder(z) + z.exp().sum(1, keepdim=True)


class Discriminated(Stacked):
    def __init__(self):
        super().__init__()
        self.discriminator = nn.Linear(5, 2)


def of(kind):
    torch.manual_seed(3)
    return kind()


def test_dropping_dead_variables_of_a_plain_module_changes_nothing():
    model = Flat().train()
    before = state(model)
    smaller = po.prune(model, keep=LIVE, data=INPUTS)
    report = pruning_report(model, smaller, INPUTS, keep=LIVE)
    assert same_state(before, state(model))
    assert [p.shape[0] for p in (smaller.fc_mu.weight, smaller.fc_logvar.weight)] == [2, 2]
    assert smaller.out.in_features == 2
    assert smaller.training
    assert (report.images, report.dropped) == (600, (2, 3))
    assert report.parameters == (
        sum(p.numel() for p in model.parameters()),
        sum(p.numel() for p in smaller.parameters()),
    )
    assert report.parameters[1] == report.parameters[0] - 2 * 7 * 2 - 2 * 6
    assert report.encodings < 1e-6
    assert report.outputs < 1e-6
    assert report.distortion_change == pytest.approx(0, abs=1e-6)
    assert report.sampled_distortion[1] == pytest.approx(report.sampled_distortion[0], abs=1e-5)
    assert "likelihood" in report.assumed
    assert report.assumed in str(report)


def test_the_report_has_the_numbers_of_the_models_themselves():
    model, keep = of(Stacked).eval(), [4, 1]
    constants = np.array([0.3, 0.0, -1.0, 0.5, 0.0])
    told = {"scale_kind": "log_variance", "constants": constants}
    smaller = po.prune(model, keep, data=INPUTS, **told)
    assert smaller.latent_dim == 2
    report = pruning_report(model, smaller, INPUTS, keep=keep, batch_size=600, **told)
    x = torch.from_numpy(INPUTS)
    with torch.no_grad():
        (mean, log_variance), (kept, _) = model.encode(x), smaller.encode(x)
        resting = torch.tensor(constants, dtype=torch.float32).repeat(len(x), 1)
        resting[:, keep] = mean[:, keep]
        torch.testing.assert_close(kept, mean[:, keep])
        torch.testing.assert_close(smaller.decode(kept), model.decode(resting))
        errors = [(x - made).square().sum(1).mean().item() for made in (model.decode(mean), smaller.decode(kept))]
        kl = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance)
    assert errors[1] / errors[0] == pytest.approx(report.distortion[1] / report.distortion[0], rel=1e-5)
    assert report.distortion[1] > report.distortion[0]
    assert report.rate == pytest.approx((kl.sum(1).mean().item(), kl[:, keep].sum(1).mean().item()), rel=1e-5)
    assert report.outputs < 1e-5
    untold = pruning_report(model, smaller, INPUTS, keep=keep, scale_kind="log_variance")
    assert untold.outputs > 1e-2
    with pytest.raises(DataError, match="pass the same `keep`"):
        pruning_report(model, smaller, INPUTS, keep=[1], scale_kind="log_variance")


def test_functions_of_the_model_say_how_it_encodes_and_decodes():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = of(Stacked)

    model = Odd()
    told = {
        "encode": lambda module, x: dict(zip(("mean", "logvar"), module.inner.encode(x), strict=True)),
        "decode": lambda module, z: module.inner.decode(z),
    }
    smaller = po.prune(model, [0, 2], data=INPUTS, **told)
    assert pruning_report(model, smaller, INPUTS, keep=[0, 2], **told).outputs < 1e-5
    assert smaller.inner.decoder[0].in_features == 2


@pytest.mark.parametrize(
    ("kind", "words"),
    [(Narrow, "a LayerNorm takes it"), (Skipping, "gives others"), (Discriminated, "discriminator may take it")],
)
def test_modules_that_cannot_be_cut_are_refused_with_the_reason(kind, words):
    model = of(kind)
    with pytest.raises(ConfigError, match=words):
        po.prune(model, [0, 1], data=INPUTS, scale_kind="log_variance")
    assert model.latent_dim == 5


def test_functions_and_models_without_a_decoder_are_refused():
    upsampled = lambda module, z: nn.functional.interpolate(z[:, :3], scale_factor=2)  # noqa: E731
    with pytest.raises(ConfigError, match="none takes it unchanged"):
        po.prune(Grid(), [0], data=IMAGES, decode=upsampled)
    with pytest.raises(ConfigError, match="pass decode="):
        po.prune(Grid(), [0], data=IMAGES)
    with pytest.raises(ConfigError, match="torch module"):
        po.prune(lambda x: (x, x), [0], data=INPUTS)


class Channels(nn.Module):
    """Latents that are feature maps, (n, 4, 8, 8), and a decoder that pads them with zeros or does not."""

    def __init__(self, padding):
        super().__init__()
        self.down = nn.Conv2d(3, 8, 2, 2)
        self.up = nn.Sequential(
            nn.Conv2d(4, 6, 3, padding=padding), nn.Tanh(), nn.Upsample((16, 16)), nn.Conv2d(6, 3, 1)
        )

    def encode(self, x):
        mean, logvar = self.down(x).chunk(2, dim=1)
        return {"mean": mean, "logvar": logvar}

    def decode(self, z):
        return self.up(z)


def test_channels_of_feature_maps_are_cut_where_no_padding_would_show():
    torch.manual_seed(0)
    model, keep = Channels(padding=1).eval(), [3, 1]
    smaller = po.prune(model, keep, data=IMAGES)
    report = pruning_report(model, smaller, IMAGES, keep=keep, batch_size=96)
    x = torch.from_numpy(IMAGES)
    with torch.no_grad():
        mean, kept = (each.encode(x)["mean"] for each in (model, smaller))
        torch.testing.assert_close(kept, mean[:, keep])
        held = mean.clone()
        held[:, [0, 2]] = 0
        torch.testing.assert_close(smaller.decode(kept), model.decode(held))
        errors = [(x - made).square().sum().item() for made in (model.decode(mean), smaller.decode(kept))]
    assert errors[1] / errors[0] == pytest.approx(report.distortion[1] / report.distortion[0], rel=1e-5)
    assert report.images == 96
    with pytest.raises(ConfigError, match="cannot become a bias"):
        po.prune(model, keep, data=IMAGES, constants=np.full(4, 0.5))
    open_edged = Channels(padding=0).eval()
    smaller = po.prune(open_edged, keep, data=IMAGES, constants=np.full(4, 0.5))
    assert pruning_report(open_edged, smaller, IMAGES, keep=keep, constants=np.full(4, 0.5)).outputs < 1e-5


def test_preferred_constants_are_ignored_without_a_bias():
    from polarised._cutting import Asking, cut_model

    torch.manual_seed(0)
    for padding, held in ((1, 0.0), (0, 0.5)):
        cut = cut_model(Channels(padding), [1], IMAGES, preferred=np.full(4, 0.5), asking=Asking())
        assert set(cut.constants) == {held}


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["VAE", "BetaTCVAE", "VAMP"])
def test_pythae(name, tmp_path):
    models = pytest.importorskip("pythae.models")
    torch.manual_seed(0)
    model = getattr(models, name)(getattr(models, f"{name}Config")(input_dim=(1, 8, 8), latent_dim=5))
    with torch.no_grad():
        for head in (model.encoder.embedding, model.encoder.log_var):
            head.weight[[1, 4]], head.bias[[1, 4]] = 0, 0
        model.decoder.layers[0][0].weight[:, [1, 4]] = 0
    images = np.random.default_rng(0).random((300, 1, 8, 8), dtype=np.float32)
    before = state(model)
    smaller = po.prune(model, [0, 2, 3], data=images)
    report = pruning_report(model, smaller, images, keep=[0, 2, 3])
    assert same_state(before, state(model))
    assert (report.images, report.dropped) == (300, (1, 4))
    assert report.encodings < 1e-5
    assert report.outputs < 1e-5
    assert report.distortion_change == pytest.approx(0, abs=1e-3)
    smaller.save(str(tmp_path / "model"))
    found = po.diagnose(tmp_path / "model", images)
    assert len(found.regime.types) == 3


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
def test_lightning():
    lightning = pytest.importorskip("lightning.pytorch")

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.save_hyperparameters({"latent_dim": 4})
            self.vae = Flat()

        def training_step(self, batch, _):
            return self.vae(batch)[0].square().mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=1e-6)

    module = Module()
    loader = torch.utils.data.DataLoader(torch.from_numpy(INPUTS), batch_size=100)
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    trainer = lightning.Trainer(max_steps=2, accelerator="cpu", **quiet)
    trainer.fit(module, loader)
    smaller = po.prune(module, LIVE, data=loader)
    report = pruning_report(module, smaller, loader, keep=LIVE)
    assert module.trainer is trainer
    assert smaller.hparams["latent_dim"] == 2
    assert module.hparams["latent_dim"] == 4
    assert (report.images, report.dropped) == (600, (2, 3))
    assert max(report.encodings, report.outputs) < 1e-5


def shaken(model):
    """Give every bias a value, without which a wrong merge would not show, and the layer before the decoder a rank."""
    torch.manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter.add_(0.2 * torch.randn_like(parameter))
            elif name.startswith("post_quant_conv"):
                parameter.copy_(torch.eye(len(parameter)).view(parameter.shape) + 0.1 * torch.randn_like(parameter))
    return model


def autoencoder(name):
    diffusers = pytest.importorskip("diffusers")
    torch.manual_seed(0)
    blocks = {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}
    kl = {**blocks, "block_out_channels": (8, 8), "latent_channels": 4, "norm_num_groups": 4}
    video = {"down_block_types": ("CogVideoXDownBlock3D",) * 2, "up_block_types": ("CogVideoXUpBlock3D",) * 2}
    made = {
        "AutoencoderKL": lambda: diffusers.AutoencoderKL(
            **kl, latents_mean=[0.1, 0.2, 0.3, 0.4], latents_std=[1, 2, 3, 4]
        ),
        "AutoencoderKL without quant_conv": lambda: diffusers.AutoencoderKL(
            **kl, use_quant_conv=False, use_post_quant_conv=False
        ),
        "AsymmetricAutoencoderKL": lambda: diffusers.AsymmetricAutoencoderKL(
            down_block_out_channels=(8,), up_block_out_channels=(8,), norm_num_groups=4
        ),
        "AutoencoderKLTemporalDecoder": lambda: diffusers.AutoencoderKLTemporalDecoder(
            block_out_channels=(32,), down_block_types=("DownEncoderBlock2D",)
        ),
        "AutoencoderKLCogVideoX": lambda: diffusers.AutoencoderKLCogVideoX(
            **video,
            block_out_channels=(8, 8),
            latent_channels=4,
            layers_per_block=1,
            norm_num_groups=2,
            temporal_compression_ratio=2,
        ),
        "AutoencoderKLWan": lambda: diffusers.AutoencoderKLWan(
            base_dim=3, z_dim=16, dim_mult=[1, 1, 1, 1], num_res_blocks=1, temperal_downsample=[False, True, True]
        ),
    }
    return shaken(made[name]())


PICTURES = np.random.default_rng(1).uniform(-1, 1, size=(12, 3, 16, 16)).astype(np.float32)
VIDEOS = np.random.default_rng(1).uniform(-1, 1, size=(3, 3, 5, 16, 16)).astype(np.float32)
AUTOENCODERS = {
    "AutoencoderKL": PICTURES,
    "AutoencoderKL without quant_conv": PICTURES,
    "AsymmetricAutoencoderKL": PICTURES,
    "AutoencoderKLTemporalDecoder": PICTURES,
    "AutoencoderKLCogVideoX": VIDEOS,
    "AutoencoderKLWan": VIDEOS,
}


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", AUTOENCODERS)
def test_diffusers(name, tmp_path):
    from polarised.adapters.diffusers import channels_held

    model, data, keep = autoencoder(name).eval(), AUTOENCODERS[name], [3, 1]
    before = state(model)
    smaller = po.prune(model, keep, data=data)
    report = pruning_report(model, smaller, data, keep=keep)
    assert same_state(before, state(model))
    assert report.images == len(data)
    assert max(report.encodings, report.outputs) < 2e-5
    # Saved, loaded and run by diffusers itself, compared with the larger model at the constants.
    smaller.save_pretrained(tmp_path / "smaller")
    loaded = type(model).from_pretrained(tmp_path / "smaller").eval()
    frames = {"num_frames": 1} if "Temporal" in name else {}
    x, held = torch.from_numpy(data[:2]), torch.from_numpy(channels_held(model, keep)).float()
    with torch.no_grad():
        larger, cut = (each.encode(x).latent_dist for each in (model, loaded))
        torch.testing.assert_close(cut.mean, larger.mean[:, keep], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(cut.logvar, larger.logvar[:, keep], atol=1e-5, rtol=1e-4)
        resting = held.view(1, -1, *[1] * (larger.mean.ndim - 2)).expand(larger.mean.shape).clone()
        resting[:, keep] = larger.mean[:, keep]
        torch.testing.assert_close(
            loaded.decode(cut.mean, **frames).sample, model.decode(resting, **frames).sample, atol=1e-4, rtol=1e-3
        )
    if name == "AutoencoderKL":
        assert held[[0, 2]].abs().min() > 1e-3
        assert held[keep].tolist() == [0, 0]
        assert (loaded.config.latents_mean, loaded.config.latents_std) == ([0.4, 0.2], [4, 2])


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
def test_diffusers_where_no_config_describes_the_smaller_one():
    from polarised._cutting import Asking, compare_models, cut_model

    model, keep = autoencoder("AutoencoderKL").eval(), [3, 1, 0]
    with torch.no_grad():
        model.post_quant_conv.weight[:, 2] = 0
    for constants in (None, np.ones(4)):
        cut = cut_model(model, keep, PICTURES, constants=constants, asking=Asking())
        told = {"keep": keep, "constants": constants}
        report = pruning_report(model, cut.model, PICTURES, **told)
        assert max(report.encodings, report.outputs) < 2e-5
        assert "cannot load this model from a folder" in report.assumed
        assert (cut.model.config.latent_channels, cut.model.post_quant_conv.in_channels) == (3, 3)
        assert cut.model.config.latents_std == [4, 2, 1]
        # The closest model that diffusers can load: the decoder's first layer is equal except at the border.
        nearest = compare_models(model, cut.loadable, PICTURES, keep=keep, constants=cut.constants, asking=Asking())
        assert nearest["encodings"] < 2e-5
        assert nearest["outputs"] > 1e-4
        z = torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(0))
        z[:, 2] = float(cut.constants[2])
        with torch.no_grad():
            whole, near = (
                each.decoder.conv_in(each.post_quant_conv(codes))
                for each, codes in ((model, z), (cut.loadable, z[:, keep]))
            )
        torch.testing.assert_close(near[..., 1:-1, 1:-1], whole[..., 1:-1, 1:-1], atol=1e-5, rtol=1e-4)
        assert (near - whole).abs().max() > 1e-3


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
def test_diffusers_in_half_precision_and_every_order():
    model = autoencoder("AutoencoderKL")
    for keep in ([2, 0, 3, 1], [0, 1, 2, 3]):
        smaller = po.prune(model, keep, data=PICTURES)
        assert pruning_report(model, smaller, PICTURES, keep=keep).outputs < 2e-5
    half = autoencoder("AutoencoderKL").to(torch.bfloat16)
    smaller = po.prune(half, [0, 2], data=PICTURES)
    assert (smaller.dtype, half.dtype) == (torch.bfloat16, torch.bfloat16)
    blocks = {"down_block_types": ("DownEncoderBlock2D",), "up_block_types": ("UpDecoderBlock2D",)}
    settings = {"block_out_channels": (8,), "latent_channels": 4, "norm_num_groups": 4}
    other = pytest.importorskip("diffusers").AutoencoderKLFlux2(**blocks, **settings)
    with pytest.raises(ConfigError, match=r"AutoencoderKLFlux2 has bn.running_mean too"):
        po.prune(other, [0], data=PICTURES)


SCVI = {
    "SCVI": {},
    "SCVI of two layers": {"n_layers": 2, "gene_likelihood": "nb", "dispersion": "gene-cell"},
    "SCVI with embedded batches": {"batch_representation": "embedding", "encode_covariates": True},
    "SCANVI": {},
    "LinearSCVI": {},
    "LinearSCVI without batch norm": {"use_batch_norm": False},
}


def trained_on_cells(name, **more):
    """A model of scvi-tools whose latent dimensions 1 and 3 are dead, and its cells."""
    scvi = pytest.importorskip("scvi")
    scvi.settings.seed = 0
    cells, kind = scvi.data.synthetic_iid(), name.split()[0]
    cells.obs["size"] = np.linspace(-1, 1, cells.n_obs)
    setup = {"continuous_covariate_keys": ["size"]} if kind == "SCVI" else {}
    if kind == "SCANVI":
        setup = {"labels_key": "labels", "unlabeled_category": "label_0"}
    getattr(scvi.model, kind).setup_anndata(cells, batch_key="batch", **setup)
    model = getattr(scvi.model, kind)(cells, n_latent=5, **SCVI[name], **more)
    model.train(max_epochs=2, accelerator="cpu", enable_progress_bar=False)
    with torch.no_grad():
        for head in (model.module.z_encoder.mean_encoder, model.module.z_encoder.var_encoder):
            head.weight[[1, 3]], head.bias[[1, 3]] = 0, 0
        for key, weight in model.module.named_parameters():
            if key.startswith(("decoder.", "classifier.")) and key.endswith("Layer 0.0.weight"):
                weight[:, [1, 3]] = 0
    return model, cells


def expression(model, codes):
    """Return the output of scvi-tools for codes of its first cells, without its own noise."""
    (tensors,) = list(model._make_data_loader(adata=model.adata, indices=np.arange(50), batch_size=50))
    with torch.no_grad():
        inferred = model.module.inference(**model.module._get_inference_input(tensors))
        inferred["z"] = torch.from_numpy(codes[:50])
        made = model.module.generative(**model.module._get_generative_input(tensors, inferred))
    return made["px"].get_normalized("scale").numpy()


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SCVI)
def test_scvi(name, tmp_path):
    model, cells = trained_on_cells(name)
    keep = [4, 0, 2]
    model.module.eval()
    before = state(model.module)
    smaller = po.prune(model, keep)
    report = pruning_report(model, smaller, None, keep=keep)
    assert same_state(before, state(model.module))
    assert (report.images, report.dropped) == (cells.n_obs, (1, 3))
    assert max(report.encodings, report.outputs) < 2e-5
    assert report.distortion_change == pytest.approx(0, abs=1e-2)
    # Saved, loaded and run by scvi-tools itself.
    smaller.save(str(tmp_path / "smaller"))
    loaded = type(model).load(str(tmp_path / "smaller"), adata=cells)
    assert loaded.is_trained
    assert loaded.history_.keys() == model.history_.keys()
    latent = model.get_latent_representation()
    np.testing.assert_allclose(loaded.get_latent_representation(), latent[:, keep], atol=1e-5)
    # The dead dimensions carry nothing, so that not even a constant differs.
    np.testing.assert_allclose(expression(loaded, latent[:, keep]), expression(model, latent), rtol=1e-3, atol=1e-7)
    if name == "SCANVI":
        np.testing.assert_allclose(loaded.predict(soft=True), model.predict(soft=True), atol=1e-5)
    if name.startswith("LinearSCVI"):
        np.testing.assert_allclose(loaded.get_loadings(), model.get_loadings().iloc[:, keep], atol=1e-6)


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
def test_scvi_holds_what_is_dropped_at_constants():
    constants = np.array([0.0, 0.4, 0.0, -0.7, 0.0])
    for name in ("SCVI", "LinearSCVI"):
        model, _ = trained_on_cells(name)
        with torch.no_grad():
            for key, weight in model.module.named_parameters():
                if key.startswith("decoder.") and key.endswith("Layer 0.0.weight"):
                    weight[:, 1] = weight[:, 0]
        smaller = po.prune(model, [0, 2], constants=constants)
        held, elsewhere = (
            pruning_report(model, smaller, None, keep=[0, 2], constants=each).outputs for each in (constants, None)
        )
        assert held < 2e-5
        assert elsewhere > 10 * held
    bare, _ = trained_on_cells("LinearSCVI without batch norm")
    with torch.no_grad():
        bare.module.decoder.factor_regressor.fc_layers[0][0].weight[:, 1] = 1
    with pytest.raises(ConfigError, match="has no bias for other values"):
        po.prune(bare, [0, 2], constants=constants)
    softmax, _ = trained_on_cells("SCVI", latent_distribution="ln")
    assert softmax.module.latent_distribution == "ln"
    with pytest.raises(ConfigError, match="where they sum to one"):
        po.prune(softmax, [0])


def pruned(*arguments):
    result = CliRunner().invoke(app, ["prune", *map(str, arguments), "--json"])
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout)


def contents(folder):
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
def test_a_folder_of_pythae_at_the_command_line(tmp_path, monkeypatch):
    models = pytest.importorskip("pythae.models")
    torch.manual_seed(0)
    model = models.BetaVAE(models.BetaVAEConfig(input_dim=(1, 8, 8), latent_dim=5)).eval()
    with torch.no_grad():
        for head in (model.encoder.embedding, model.encoder.log_var):
            head.weight[[1, 4]], head.bias[[1, 4]] = 0, 0
        model.encoder.embedding.weight[[0, 2, 3]] *= 40
        model.encoder.log_var.bias[[0, 2, 3]] = -6
        model.decoder.layers[0][0].weight[:, [1, 4]] = 0
        model.decoder.layers[0][0].weight[:, [0, 2, 3]] *= 40
    model.save(str(tmp_path / "model"))
    images = np.random.default_rng(0).random((300, 1, 8, 8), dtype=np.float32)
    np.savez(tmp_path / "images.npz", images=images)
    before = contents(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    said = pruned(tmp_path / "model", "--data", tmp_path / "images.npz", "--rule", "relative")
    assert (said["dropped"], said["images"], said["model"]) == ([1, 4], 300, "pruned")
    assert max(said["encodings"], said["outputs"]) < 1e-5
    assert contents(tmp_path / "model") == before
    loaded = models.AutoModel.load_from_folder(str(tmp_path / "pruned")).eval()
    assert type(loaded) is type(model)
    x = torch.from_numpy(images)
    with torch.no_grad():
        mean = model.encoder(x).embedding
        torch.testing.assert_close(loaded.encoder(x).embedding, mean[:, [0, 2, 3]])
        made = [each.decoder(each.encoder(x).embedding).reconstruction for each in (loaded, model)]
        torch.testing.assert_close(*made, atol=1e-5, rtol=1e-4)
    again = CliRunner().invoke(app, ["prune", "model", "--data", "images.npz"])
    assert again.exit_code == 2
    assert "new folder, pruned is there" in " ".join(again.output.split())


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
def test_a_folder_of_diffusers_at_the_command_line(tmp_path):
    from PIL import Image

    model = autoencoder("AutoencoderKL").eval()
    with torch.no_grad():
        model.quant_conv.weight[[2, 6]], model.quant_conv.bias[[2, 6]] = 0, 0
    model.save_pretrained(tmp_path / "vae")
    (tmp_path / "pictures").mkdir()
    for i in range(12):
        pixels = np.random.default_rng(i).integers(0, 256, size=(16, 16, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "pictures" / f"{i}.png")
    before = contents(tmp_path / "vae")
    options = ("--data", tmp_path / "pictures", "--pixel-range", "-1,1", "--out", tmp_path / "smaller")
    said = pruned(tmp_path / "vae", *options, "--keep", "0,1,3")
    assert (said["dropped"], said["images"]) == ([2], 12)
    assert max(said["encodings"], said["outputs"]) < 2e-5
    assert any("diffusion model" in each for each in said["remarks"])
    assert not any("border" in each for each in said["remarks"])
    assert contents(tmp_path / "vae") == before
    loaded = type(model).from_pretrained(tmp_path / "smaller").eval()
    assert loaded.config.latent_channels == 3
    with torch.no_grad():
        x = torch.from_numpy(PICTURES)
        torch.testing.assert_close(
            loaded.encode(x).latent_dist.mean, model.encode(x).latent_dist.mean[:, [0, 1, 3]], atol=1e-5, rtol=1e-4
        )
    with torch.no_grad():
        model.post_quant_conv.weight[:, 2] = 0
    model.save_pretrained(tmp_path / "other")
    said = pruned(tmp_path / "other", *options[:-1], tmp_path / "nearest", "--keep", "0,1,3")
    assert any("border" in each for each in said["remarks"])
    assert said["encodings"] < 2e-5 < said["outputs"]
    assert type(model).from_pretrained(tmp_path / "nearest").config.latent_channels == 3


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("cells_inside", [True, False])
def test_a_folder_of_scvi_at_the_command_line(cells_inside, tmp_path):
    model, cells = trained_on_cells("SCVI")
    model.save(str(tmp_path / "model"), save_anndata=cells_inside)
    data = ()
    if not cells_inside:
        cells.write_h5ad(tmp_path / "cells.h5ad")
        data = ("--data", tmp_path / "cells.h5ad")
    before = contents(tmp_path / "model")
    said = pruned(tmp_path / "model", *data, "--out", tmp_path / "smaller", "--keep", "0,2,4")
    assert (said["dropped"], said["images"]) == ([1, 3], cells.n_obs)
    assert max(said["encodings"], said["outputs"]) < 2e-5
    assert contents(tmp_path / "model") == before
    assert (tmp_path / "smaller" / "adata.h5ad").is_file() == cells_inside
    loaded = type(model).load(str(tmp_path / "smaller"), adata=None if cells_inside else cells)
    np.testing.assert_allclose(
        loaded.get_latent_representation(), model.get_latent_representation()[:, [0, 2, 4]], atol=1e-5
    )
    found = po.diagnose(tmp_path / "smaller", None if cells_inside else cells)
    assert len(found.regime.types) == 3
