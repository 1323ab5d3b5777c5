"""`polarised explore` at the command line with saved models, tested over its own address."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from polarised.adapters.targets import open_target
from polarised.cli import app
from polarised.errors import DataError
from polarised.models import build_vae, save_vae

from .models import IMAGES


def explored(target: Path, data: Path | None, ask, *options: str):
    """Start the command, call `ask` with its page, interrupt it, and return the result of `ask`."""
    command = [sys.executable, "-W", "ignore", "-m", "polarised", "explore", str(target)]
    command += [] if data is None else ["--data", str(data)]
    with subprocess.Popen(
        [*command, "--json", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ},
    ) as process:
        try:
            said = ""
            while not said.rstrip().endswith("}") and (line := process.stdout.readline()):
                said += line
            assert said, process.stderr.read()
            return ask(json.loads(said)["address"])
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=60)
            finally:
                process.kill()


def of_input(address: str, number: int):
    return json.loads(urlopen(f"{address}inputs/{number}", timeout=60).read())


def drawn(address: str, code):
    body = json.dumps({"z": list(map(float, code))}).encode()
    return urlopen(Request(f"{address}decode", data=body), timeout=60).read()


def test_our_model_file_with_images_of_the_user(tmp_path):
    config = {"architecture": {"name": "mlp", "widths": [16]}, "latents": 3}
    vae = build_vae(config, shape=(1, 32, 32), seed=0)
    save_vae(vae, tmp_path / "model.safetensors", config=config)
    images = np.random.default_rng(0).random((20, 1, 32, 32), dtype=np.float32)
    np.savez(tmp_path / "images.npz", images=images)

    def ask(address):
        code = of_input(address, 3)["mean"]
        return code, drawn(address, code)[:8]

    code, picture = explored(tmp_path / "model.safetensors", tmp_path / "images.npz", ask)
    assert len(code) == 3
    assert picture == b"\x89PNG\r\n\x1a\n"


def test_a_folder_of_scvi_without_cells_is_refused_with_one_sentence(tmp_path):
    pytest.importorskip("scvi")
    torch.save({"attr_dict": {}, "model_state_dict": {}}, tmp_path / "model.pt")
    result = CliRunner().invoke(app, ["explore", str(tmp_path)])
    assert result.exit_code == 1
    assert "expected the cells of the model" in " ".join(result.output.split())
    with pytest.raises(DataError, match="holds one of scvi: load it"):
        open_target(tmp_path).vae()


def test_channels_are_moved_at_all_positions_around_the_input_that_was_encoded():
    from polarised.report.explore import explore_model

    class Channels(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.down, self.up = torch.nn.Conv2d(3, 8, 2, 2), torch.nn.ConvTranspose2d(4, 3, 2, 2)

        def encode(self, x):
            mean, logvar = self.down(x).chunk(2, dim=1)
            return {"mean": mean, "logvar": logvar - 3}

        def decode(self, z):
            return torch.sigmoid(self.up(z))

    network, images = Channels(), IMAGES[:20].copy()
    images.flat[:2] = 0.0, 1.0
    made = explore_model(network, images)
    with torch.no_grad():
        mean = network.encode(torch.from_numpy(images))["mean"]
    np.testing.assert_allclose(made.points, mean.mean((2, 3)), atol=1e-5)
    assert "64 positions" in made.page()
    code = np.array(json.loads(made.encoded("7"))["mean"])
    moved = mean[7:8].clone()
    moved[:, 2] += 1.5
    with torch.no_grad():
        for shift, latents in ((np.zeros(4), mean[7:8]), (np.array([0, 0, 1.5, 0]), moved)):
            np.testing.assert_allclose(made.live.decode(code + shift), network.decode(latents)[0], atol=1e-5)
    with pytest.raises(DataError, match="4 finite numbers"):
        made.live.decode([0.0])


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
def test_a_folder_of_pythae(tmp_path):
    models = pytest.importorskip("pythae.models")
    torch.manual_seed(0)
    model = models.VAE(models.VAEConfig(input_dim=(1, 8, 8), latent_dim=4)).eval()
    model.save(str(tmp_path / "model"))
    images = np.random.default_rng(0).uniform(size=(30, 1, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "images.npz", images=images)

    def ask(address):
        found = [of_input(address, i) for i in range(30)]
        return [each["mean"] for each in found], drawn(address, found[0]["mean"])[:8]

    codes, picture = explored(tmp_path / "model", tmp_path / "images.npz", ask)
    with torch.no_grad():
        mean = model.encoder(torch.from_numpy(images)).embedding.numpy()
    np.testing.assert_allclose(sorted(codes), sorted(mean.tolist()), atol=1e-4)
    assert picture == b"\x89PNG\r\n\x1a\n"


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
def test_a_folder_of_diffusers_with_a_folder_of_pictures(tmp_path):
    diffusers = pytest.importorskip("diffusers")
    from PIL import Image

    torch.manual_seed(0)
    model = diffusers.AutoencoderKL(block_out_channels=(8,), norm_num_groups=4, sample_size=32)
    model.save_pretrained(tmp_path / "vae")
    (tmp_path / "pictures").mkdir()
    for i in range(8):
        pixels = np.random.default_rng(i).integers(0, 256, size=(32, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "pictures" / f"{i}.png")

    def ask(address):
        code = np.array(of_input(address, 5)["mean"])
        return len(code), drawn(address, code), drawn(address, code + np.array([3.0, 0, 0, 0]))

    size, before, after = explored(tmp_path / "vae", tmp_path / "pictures", ask)
    assert size == 4
    assert before.startswith(b"\x89PNG")
    assert before != after


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """A model of scvi-tools whose dimension 2 the decoder does not read, saved with its cells."""
    scvi = pytest.importorskip("scvi")
    scvi.settings.seed = 0
    adata = scvi.data.synthetic_iid()
    scvi.model.SCVI.setup_anndata(adata, batch_key="batch")
    model = scvi.model.SCVI(adata, n_latent=3)
    model.train(max_epochs=3, accelerator="cpu", enable_progress_bar=False)
    with torch.no_grad():
        model.module.decoder.px_decoder.fc_layers[0][0].weight[:, 2] = 0
    folder = tmp_path_factory.mktemp("cells") / "model"
    model.save(str(folder), save_anndata=True)
    return model, adata, folder


def expression(model, adata, cell, code):
    """The decoder's shares of a cell with a given code, by scvi-tools itself."""
    (tensors,) = list(model._make_data_loader(adata=adata, indices=[cell], batch_size=1))
    with torch.no_grad():
        inferred = model.module.inference(**model.module._get_inference_input(tensors))
        inferred["z"] = torch.tensor([code], dtype=torch.float32)
        made = model.module.generative(**model.module._get_generative_input(tensors, inferred))["px"]
    return 1e4 * made.scale[0].numpy()


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
def test_cells_are_shown_by_the_genes_that_change(cells):
    from polarised.report.explore import explore_model

    model, adata, _ = cells
    made = explore_model(model, None, inputs=50)
    assert made.points.shape == (50, 3)
    row = int(made.live.rows[7])
    told = json.loads(made.encoded("7"))
    np.testing.assert_allclose(told["mean"], model.get_latent_representation()[row], atol=1e-5)
    assert told["about"].startswith(adata.obs_names[row])
    assert f"batch {adata.obs['batch'].iloc[row]}" in told["about"]

    def genes(code):
        return json.loads(made.decoded(json.dumps({"z": list(map(float, code)), "input": 7}).encode()))

    still = genes(told["mean"])
    before = expression(model, adata, row, told["mean"])
    assert still["moved"] is False
    assert [gene["gene"] for gene in still["genes"]] == [str(adata.var_names[j]) for j in np.argsort(-before)[:20]]
    moved = np.add(told["mean"], [3.0, 0, 0])
    after = expression(model, adata, row, moved)
    change = np.log2((after + 1) / (before + 1))
    found = genes(moved)
    assert found["moved"] is True
    order = np.argsort(change)
    named = {gene["gene"] for gene in found["genes"]}
    assert named == {str(adata.var_names[j]) for j in (*order[:10], *order[-10:])}
    assert [gene["change"] for gene in found["genes"]] == sorted((g["change"] for g in found["genes"]), reverse=True)
    first = list(adata.var_names).index(found["genes"][0]["gene"])
    np.testing.assert_allclose(found["genes"][0]["change"], change[first], rtol=1e-2)
    np.testing.assert_allclose(found["genes"][0]["after"], after[first], rtol=1e-2)
    assert genes(np.add(told["mean"], [0, 0, 3.0]))["moved"] is False
    for wrong in (b'{"z": [0, 0, 0], "input": 50}', b'{"z": [0, 0, 0], "input": "x"}', b'{"z": [0], "input": 1}'):
        with pytest.raises(DataError):
            made.decoded(wrong)


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
def test_a_folder_of_scvi(cells):
    _, adata, folder = cells
    before = {file.name: file.read_bytes() for file in folder.iterdir()}

    def ask(address):
        code = of_input(address, 5)["mean"]
        return code, json.loads(drawn(address, np.array(code) + 2))

    code, told = explored(folder, None, ask)
    assert len(code) == 3
    assert {gene["gene"] for gene in told["genes"]} <= set(adata.var_names)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
def test_sliders_show_genes_in_a_browser(cells):
    import threading

    from polarised.report.explore import ExploreServer, explore_model
    from report.browser import open_browser
    from walks.test_explore import until, wait_for_drawing

    with open_browser() as visit, ExploreServer(explore_model(cells[0], None, inputs=40)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            with visit(server.address, own=(server.address,)) as page:
                wait_for_drawing(page, 1)
                assert page.locator("#decoded tbody tr").count() == 20
                assert "expresses most" in page.locator("#genes-note").text_content()
                page.locator('#dials input[data-variable="0"]').focus()
                page.keyboard.press("End")
                wait_for_drawing(page, 2)
                until(page, "document.querySelector('#genes-note').textContent.includes('rises and falls most')")
                first = page.locator("#decoded tbody tr").first
                assert "→" in first.text_content()
                assert first.locator("rect.rise, rect.fall").count() == 1
                assert page.locator("#about").text_content()
        finally:
            server.shutdown()
            thread.join()
