"""`polarised explore` at the command line with what people have on disk, asked over its own address."""

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


def explored(target: Path, data: Path, ask, *options: str):
    """Start the command, ask its page, interrupt it, and return what `ask` gave."""
    command = [sys.executable, "-W", "ignore", "-m", "polarised", "explore", str(target), "--data", str(data)]
    with subprocess.Popen(
        [*command, "--json", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ},
        # A job in the background of a shell hands on that it hears no interrupt.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
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


def test_a_model_file_of_ours_with_pictures_of_ones_own(tmp_path):
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


def test_a_folder_of_cells_is_refused_in_a_sentence(tmp_path):
    torch.save({"attr_dict": {}, "model_state_dict": {}}, tmp_path / "model.pt")
    result = CliRunner().invoke(app, ["explore", str(tmp_path)])
    assert result.exit_code == 1
    assert "one of cells" in " ".join(result.output.split())
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
