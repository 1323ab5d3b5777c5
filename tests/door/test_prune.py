"""Models of others are cut as ours are, and the proof is that of their own encoder and decoder."""

import numpy as np
import pytest
import torch
from torch import nn

import polarised as po
from polarised.errors import ConfigError, DataError
from polarised.pruning import pruning_report

from .models import IMAGES, INPUTS, LIVE, Flat, Grid, same_state, state


class Stacked(nn.Module):
    """One layer gives mean and log-variance, and the size is kept in an attribute."""

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


def test_dropping_dead_variables_of_a_plain_module_costs_nothing():
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


def test_the_proof_is_in_the_numbers_of_the_models_themselves():
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
    with pytest.raises(DataError, match="is `keep` its own"):
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
def test_what_cannot_be_cut_is_refused_with_the_reason(kind, words):
    model = of(kind)
    with pytest.raises(ConfigError, match=words):
        po.prune(model, [0, 1], data=INPUTS, scale_kind="log_variance")
    assert model.latent_dim == 5


def test_positions_functions_and_models_without_a_decoder_are_refused():
    told = {"decode": lambda module, z: z}
    with pytest.raises(ConfigError, match="positions"):
        po.prune(Grid(), [0], data=IMAGES, **told)
    with pytest.raises(ConfigError, match="give decode="):
        po.prune(Grid(), [0], data=IMAGES)
    with pytest.raises(ConfigError, match="torch module"):
        po.prune(lambda x: (x, x), [0], data=INPUTS)


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


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
def test_diffusers_and_scvi_say_why_not():
    diffusers = pytest.importorskip("diffusers")
    scvi = pytest.importorskip("scvi")
    with pytest.raises(ConfigError, match="of diffusers cannot: the channels"):
        po.prune(diffusers.AutoencoderKL(), [0], data=IMAGES)
    with pytest.raises(ConfigError, match="of scvi cannot: its decoder reads"):
        po.prune(scvi.module.VAE(n_input=5), [0], data=INPUTS)
