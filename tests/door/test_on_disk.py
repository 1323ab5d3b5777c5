"""Files and folders, by path and on the command line."""

import json
import pickle
from pathlib import Path

import numpy as np
import polars
import pytest
import torch
from typer.testing import CliRunner

import polarised as po
from polarised.adapters.scvi import names_in_pickle
from polarised.adapters.targets import saved_by
from polarised.cli import app
from polarised.errors import DataError

GENERATOR = np.random.default_rng(0)
MEAN = GENERATOR.normal(size=(300, 3)) * [1.0, 1.0, 0.0]
VARIANCE = np.broadcast_to([0.01, 0.02, 1.0], MEAN.shape).copy()


def write(path: Path, kind: str) -> Path:
    columns = {f"mean_{j}": MEAN[:, j] for j in range(3)} | {f"var_{j}": VARIANCE[:, j] for j in range(3)}
    if kind == "csv":
        polars.DataFrame(columns).write_csv(path / "codes.csv")
    elif kind == "safetensors":
        from safetensors.numpy import save_file

        save_file({"mu": MEAN, "logvar": np.log(VARIANCE)}, path / "codes.safetensors")
    elif kind == "pt":
        torch.save({"mu": torch.tensor(MEAN), "std": torch.tensor(VARIANCE).sqrt()}, path / "codes.pt")
    elif kind == "h5ad":
        import h5py

        with h5py.File(path / "codes.h5ad", "w") as file:
            group = file.create_group("obsm")
            group["X_scVI_qzm"], group["X_scVI_qzv"] = MEAN, VARIANCE
            group["X_umap"] = np.zeros((300, 2))
    return path / f"codes.{kind}"


@pytest.mark.parametrize("kind", ["csv", "safetensors", "pt", "h5ad"])
def test_named_arrays_in_any_file(tmp_path, kind):
    diagnosis = po.diagnose(write(tmp_path, kind))
    assert (diagnosis.regime.active, diagnosis.regime.passive) == ([0, 1], [2])
    np.testing.assert_allclose(diagnosis.encodings.variance, VARIANCE, rtol=1e-9)
    said = CliRunner().invoke(app, ["diagnose", str(tmp_path / f"codes.{kind}"), "--json"])
    assert json.loads(said.output)["passive"] == [2]


def test_patterns_paths_and_lists(tmp_path):
    for i in range(3):
        np.savez(tmp_path / f"{i}.npz", mean=MEAN, variance=VARIANCE)
    pattern = str(tmp_path / "*.npz")
    assert po.diagnose(pattern).regime.inputs == 900
    assert po.diagnose([tmp_path / "0.npz", str(tmp_path / "1.npz")]).regime.inputs == 600
    with pytest.raises(DataError, match="nothing matches"):
        po.diagnose(str(tmp_path / "*.parquet"))


def test_the_error_for_weights_alone_explains_what_to_do(tmp_path):
    torch.save({"fc_mu.weight": torch.zeros(3, 3)}, tmp_path / "model.pt")
    with pytest.raises(DataError, match=r"only the weights model\.pt"):
        po.diagnose(tmp_path / "model.pt")


def test_the_names_in_a_pickle_are_read_without_running_it(tmp_path):
    class Mine:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "was_here",))

    torch.save(
        {"attr_dict": {"a": Mine()}, "model_state_dict": {}, "var_names": np.array(["a"])}, tmp_path / "model.pt"
    )
    assert ("pathlib", "Path") in names_in_pickle(tmp_path / "model.pt")
    assert saved_by(tmp_path) == "scvi"
    assert not (tmp_path / "was_here").exists()
    (tmp_path / "model.pt").write_bytes(pickle.dumps(Mine()))
    assert saved_by(tmp_path) is None
    assert not (tmp_path / "was_here").exists()


def test_without_torch_every_command_says_what_to_install(tmp_path):
    import subprocess
    import sys

    np.savez(tmp_path / "codes.npz", mean=MEAN, variance=VARIANCE)
    (tmp_path / "run").mkdir()
    po.Encodings(MEAN, variance=VARIANCE).save(tmp_path / "run" / "encodings.npz")
    (tmp_path / "run" / "config.yaml").write_text("seed: 0\n")
    (tmp_path / "run" / "model.safetensors").write_bytes(b"")
    (tmp_path / "config.yaml").write_text("{}\n")
    script = (
        "import sys\n"
        "class NoTorch:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'torch':\n"
        "            raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n"
        "sys.meta_path.insert(0, NoTorch())\n"
        "from polarised.cli import app\n"
        "app(sys.argv[1:])"
    )

    def run(*words):
        return subprocess.run(
            [sys.executable, "-c", script, *map(str, words)], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    commands = [
        ("demo", "--steps", "2"),
        ("train", "config.yaml"),
        ("prune", "run"),
        ("explore", "run", "--no-browse"),
        ("dimensions", "dsprites"),
    ]
    for words in commands:
        done = run(*words)
        assert done.returncode == 1, (words, done)
        assert "Traceback" not in done.stderr, done.stderr
        assert "pip install torch" in done.stderr, (words, done.stderr)
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    done = run("diagnose", "run", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["passive"] == [2]


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
def test_a_folder_of_diffusers_with_a_folder_of_pictures(tmp_path):
    diffusers = pytest.importorskip("diffusers")
    from PIL import Image

    model = diffusers.AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        block_out_channels=(8, 8),
        norm_num_groups=4,
        sample_size=32,
    )
    model.save_pretrained(tmp_path / "pipeline" / "vae")
    (tmp_path / "pipeline" / "model_index.json").write_text("{}")
    (tmp_path / "pictures").mkdir()
    for i in range(8):
        pixels = np.random.default_rng(i).integers(0, 256, size=(40, 40, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "pictures" / f"{i}.png")
    for folder in (tmp_path / "pipeline", tmp_path / "pipeline" / "vae"):
        said = CliRunner().invoke(app, ["diagnose", str(folder), "--data", str(tmp_path / "pictures"), "--json"])
        report = json.loads(said.output)
        assert (report["inputs"], len(report["variables"])) == (8, 4)
        assert report["provenance"]["kind"] == "diffusers"
        assert any("scaling_factor" in sentence for sentence in report["advice"])


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
def test_a_folder_of_pythae(tmp_path):
    models = pytest.importorskip("pythae.models")
    torch.manual_seed(0)
    model = models.BetaVAE(models.BetaVAEConfig(input_dim=(1, 8, 8), latent_dim=4, beta=2.0))
    model.save(str(tmp_path / "model"))
    assert saved_by(tmp_path / "model") == "pythae"
    np.savez(tmp_path / "images.npz", images=np.random.default_rng(0).uniform(size=(50, 1, 8, 8)).astype(np.float32))
    said = CliRunner().invoke(
        app, ["diagnose", str(tmp_path / "model"), "--data", str(tmp_path / "images.npz"), "--json"]
    )
    report = json.loads(said.output)
    assert report["inputs"] == 50
    own = po.diagnose(model, str(tmp_path / "images.npz"))
    assert report["variables"][0]["kl"] == pytest.approx(own.regime.statistics.kl[0])
    (tmp_path / "model" / "encoder.pkl").write_bytes(b"")
    with pytest.raises(DataError, match="its own"):
        po.diagnose(tmp_path / "model", str(tmp_path / "images.npz"))


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
def test_a_folder_of_scvi_tools_with_its_cells(tmp_path):
    scvi = pytest.importorskip("scvi")
    adata = scvi.data.synthetic_iid()
    scvi.model.SCVI.setup_anndata(adata, batch_key="batch")
    model = scvi.model.SCVI(adata, n_latent=4)
    model.train(max_epochs=1, accelerator="cpu", enable_progress_bar=False)
    model.save(str(tmp_path / "model"))
    adata.write_h5ad(tmp_path / "cells.h5ad")
    said = CliRunner().invoke(
        app, ["diagnose", str(tmp_path / "model"), "--data", str(tmp_path / "cells.h5ad"), "--json"]
    )
    report = json.loads(said.output)
    assert report["inputs"] == adata.n_obs
    own = po.diagnose(model)
    assert report["variables"][0]["kl"] == pytest.approx(own.regime.statistics.kl[0], rel=1e-4)
    with pytest.raises(DataError, match="expected the cells"):
        po.diagnose(tmp_path / "model")
    state = torch.load(tmp_path / "model" / "model.pt", weights_only=False)
    state["attr_dict"]["extra"] = Path("x")
    torch.save(state, tmp_path / "model" / "model.pt")
    with pytest.raises(DataError, match="it names pathlib"):
        po.diagnose(tmp_path / "model", tmp_path / "cells.h5ad")
