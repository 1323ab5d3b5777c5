"""Every line of the table of calls in the docs works on a model of its kind."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import polarised as po
from adapters.test_disentangling_vae import published
from polarised.data import dsprites
from polarised.models import build_vae

from .models import DEAD, INPUTS, LABELS, LIVE, Flat

os.environ.setdefault("KERAS_BACKEND", "jax")
PAGE = Path(__file__).parents[2] / "docs" / "howto" / "diagnose_your_model.md"
PEERS = ("Keras", "pythae", "diffusers", "scvi-tools")
UNTRAINED = ("pythae", "diffusers", "a folder", "a `VAE`")
LATENTS = np.array([-6.0, -6.0, 0.0, 0.0], dtype=np.float32)


def lines(title: str = "what to call") -> dict[str, list[str]]:
    """Return the lines of code in each row of a table, by the kind of model."""
    text = PAGE.read_text(encoding="utf-8")
    rows = text.partition(f"| your model | {title} |")[2].partition("\n\n")[0].splitlines()[2:]
    cells = [row.strip("| ").split(" | ", maxsplit=1) for row in rows]
    return {model: re.findall(r"`((?:po\.|explore_model)[^`]*)`", typed) for model, typed in cells}


def planted(x):
    """Two variables that carry the input, two that are noise."""
    return x[:, :4] * (LATENTS < 0), np.broadcast_to(LATENTS, (len(x), 4))


def torch_network(_):
    data = TensorDataset(torch.from_numpy(INPUTS), torch.from_numpy(LABELS))
    return {"model": Flat(), "loader": DataLoader(data, batch_size=100)}


def function(_):
    return {"encode": planted, "batches": [INPUTS[:300], INPUTS[300:]]}


def groups(_):
    return {"encode": lambda x: {"top": _named(x), "bottom": _named(x)}, "images": INPUTS}


def _named(x):
    mean, logvar = planted(x)
    return {"mean": mean, "logvar": logvar}


def sequences(_):
    codes = np.random.default_rng(0).normal(size=(300, 8, 4)).astype(np.float32)
    mask = np.arange(8) < np.arange(300)[:, None] % 7 + 2

    def encode(rows):
        return {"mean": codes[rows] * (LATENTS < 0), "logvar": np.broadcast_to(LATENTS, codes[rows].shape)}

    return {"encode": encode, "batches": [{"x": np.arange(300), "attention_mask": mask}]}


def shards(folder):
    (folder / "shards").mkdir()
    mean, logvar = planted(INPUTS)
    for i in range(2):
        np.savez(folder / "shards" / f"{i}.npz", mean=mean[i::2], logvar=logvar[i::2])
    return {}


def own_vae(_):
    dataset = dsprites(size=32)
    return {"vae": _with_dead(build_vae({"architecture": "mlp", "latents": 4}, dataset.shape)), "dataset": dataset}


def saved(folder):
    vae = _with_dead(build_vae({"architecture": "burgess_conv", "latents": 4}, (1, 32, 32), seed=1))
    torch.save(published(vae), folder / "model.pt")
    (folder / "specs.json").write_text("{}")
    return {"folder": folder, "images": np.random.default_rng(0).random((200, 1, 32, 32), dtype=np.float32)}


def _with_dead(vae):
    with torch.no_grad():
        vae.encoder.mean_head.weight[:2] *= 200
        vae.encoder.mean_head.weight[2:] = 0
        vae.encoder.log_variance_head.weight[:] = 0
        vae.encoder.log_variance_head.bias[:] = torch.from_numpy(LATENTS)
        vae.decoder.input.weight[:, 2:] = 0
    return vae.eval()


def keras_model(_):
    keras = pytest.importorskip("keras")
    inputs = keras.Input((6,))
    parts = [keras.layers.Dense(4, name=name)(inputs) for name in ("z_mean", "z_log_var")]
    encoder = keras.Model(inputs, parts, name="encoder")
    kernel = np.zeros((6, 4), np.float32)
    kernel[0, 0] = kernel[1, 1] = 1
    encoder.get_layer("z_mean").set_weights([kernel, np.zeros(4, np.float32)])
    encoder.get_layer("z_log_var").set_weights([0 * kernel, LATENTS])
    return {"encoder": encoder, "images": INPUTS}


def pythae_model(_):
    models = pytest.importorskip("pythae.models")
    model = models.VAE(models.VAEConfig(input_dim=(1, 8, 8), latent_dim=4))
    with torch.no_grad():
        for head, bias in ((model.encoder.embedding, np.zeros(4)), (model.encoder.log_var, LATENTS)):
            head.bias[:] = torch.from_numpy(bias)
            head.weight[2:] = 0
        model.encoder.embedding.weight[:2] *= 40
        model.encoder.log_var.weight[:] = 0
        first = next(layer for layer in model.decoder.modules() if isinstance(layer, torch.nn.Linear))
        first.weight[:, 2:] = 0
    return {"model": model, "images": np.random.default_rng(0).random((200, 1, 8, 8), dtype=np.float32)}


def diffusers_model(_):
    diffusers = pytest.importorskip("diffusers")
    torch.manual_seed(0)
    blocks = {"down_block_types": ("DownEncoderBlock2D",), "up_block_types": ("UpDecoderBlock2D",)}
    model = diffusers.AutoencoderKL(**blocks, block_out_channels=(8,), latent_channels=4, norm_num_groups=4)
    with torch.no_grad():
        model.quant_conv.weight[2:] = 0
        model.quant_conv.bias[:] = torch.cat([torch.zeros(4), torch.from_numpy(LATENTS)])
        model.quant_conv.weight[:2] *= 5
        model.post_quant_conv.weight[:, 2:] = 0
    images = np.random.default_rng(1).uniform(-1, 1, size=(40, 3, 8, 8)).astype(np.float32)
    return {"model": model, "images": images}


def scvi_model(_):
    scvi = pytest.importorskip("scvi")
    adata = scvi.data.synthetic_iid()
    adata.obs["cell_type"] = adata.obs["labels"]
    scvi.model.SCVI.setup_anndata(adata)
    model = scvi.model.SCVI(adata, n_latent=4)
    model.train(max_epochs=1, accelerator="cpu", enable_progress_bar=False)
    return {"model": model, "adata": adata}


MADE = {
    "any PyTorch": torch_network,
    "any function": function,
    "Keras": keras_model,
    "pythae": pythae_model,
    "diffusers": diffusers_model,
    "scvi-tools": scvi_model,
    "a folder": saved,
    "several groups": groups,
    "padded sequences": sequences,
    "arrays in files": shards,
    "a `VAE`": own_vae,
}


def test_every_row_of_the_table_has_a_model_here():
    assert [next((key for key in MADE if row.startswith(key)), row) for row in lines()] == list(MADE)
    assert all(lines().values())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [pytest.param(k, marks=pytest.mark.peers) if k in PEERS else k for k in MADE])
def test_every_line_of_the_table_runs(kind, tmp_path, monkeypatch):
    typed = next(code for row, code in lines().items() if row.startswith(kind))
    names = MADE[kind](tmp_path)
    monkeypatch.chdir(tmp_path)
    for line in typed:
        diagnosis = eval(line, {"po": po, **names})
        regime = diagnosis.regime
        if kind == "scvi-tools":
            assert len(regime.types) == 4
        elif "axis=(1, 2, 3)" in line:
            assert len(regime.types) == 4 * 64
        elif kind == "several groups":
            assert diagnosis.groups == {"top": (0, 1, 2, 3), "bottom": (4, 5, 6, 7)}
            assert (regime.alive, regime.passive) == ([0, 1, 4, 5], [2, 3, 6, 7])
        else:
            # An untrained decoder does not use the live variables, so only the posterior is checked.
            posterior = regime.at(0.1, rule="relative") if kind in UNTRAINED else regime
            assert (posterior.alive, posterior.passive) == (LIVE, DEAD), line
            assert set(DEAD) <= set(regime.passive), line


SMALLER = "how to prune it, and how to explore it"
CUT = ("any PyTorch", "pythae", "diffusers", "scvi-tools", "a `VAE`")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [pytest.param(k, marks=pytest.mark.peers) if k in PEERS else k for k in CUT])
def test_every_line_that_makes_a_model_smaller_runs(kind, tmp_path):
    from polarised.report.explore import Exploration, explore_model

    assert [next((key for key in CUT if row.startswith(key)), row) for row in lines(SMALLER)] == list(CUT)
    names = MADE[kind](tmp_path)
    typed = next(code for row, code in lines(SMALLER).items() if row.startswith(kind))
    smaller, *shown = [
        eval(line, {"po": po, "explore_model": explore_model, "keep": [0, 1], **names}) for line in typed
    ]
    model = names.get("model", names.get("vae"))
    assert type(smaller) is type(model)
    before, after = (sum(p.numel() for p in getattr(each, "module", each).parameters()) for each in (model, smaller))
    assert after < before
    for each in shown:
        assert isinstance(each, Exploration)
        assert each.live.latents == 4
