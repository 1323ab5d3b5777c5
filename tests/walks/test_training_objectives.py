"""Every objective with its paper's network, trained from the command line, killed with SIGKILL and resumed exactly."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars
import pytest
import yaml

from polarised import registry

SPRITES, COLOURED = "dsprites", "color_dsprites"
SMALL_CRITIC = {"critic_width": 64}
LEARNED = {"name": "Gaussian", "scale": "learned"}
WALKS = {
    "elbo": {"dataset": SPRITES, "objective": "ELBO"},
    "beta": {"dataset": SPRITES, "objective": {"name": "BetaVAE", "beta": 4.0, "warm_up": 20}},
    "annealed": {
        "dataset": SPRITES,
        "model": {"architecture": "burgess_conv"},
        "objective": {"name": "AnnealedVAE", "c_max": 5.0, "iteration_threshold": 30},
    },
    "factor": {"dataset": SPRITES, "objective": {"name": "FactorVAE", **SMALL_CRITIC}},
    "beta_tc": {"dataset": SPRITES, "objective": {"name": "BetaTCVAE", "estimator": "mss1"}},
    "free_bits": {"dataset": SPRITES, "objective": {"name": "FreeBits", "group_size": 5}},
    "geco": {"dataset": SPRITES, "objective": {"name": "GECO", "kappa": 5.0, "cap": 2.0}},
    "sigma": {"dataset": SPRITES, "objective": {"name": "SigmaVAE", "warm_up": 20}},
    "dip_i": {
        "dataset": COLOURED,
        "model": {"architecture": "rtc_conv"},
        "objective": {"name": "DIPVAE", "variant": "I"},
    },
    "dip_ii": {"dataset": SPRITES, "objective": {"name": "DIPVAE", "variant": "II"}},
    "rtc": {
        "dataset": SPRITES,
        "model": {"architecture": "rtc_conv"},
        "objective": {"name": "RTCVAE", **SMALL_CRITIC},
    },
    "ivae_images": {
        "dataset": SPRITES,
        "auxiliary": [],
        "model": {"architecture": "ivae_conv", "latents": 30, "prior": "Conditional"},
        "objective": "IVAE",
    },
    "ivae_sources": {
        "dataset": {"name": "nonlinear_ica", "points": 100},
        "model": {
            "architecture": {"name": "mlp", "widths": [50, 50], "activation": "xtanh"},
            "latents": 5,
            "prior": "Conditional",
            "likelihood": {"name": "Gaussian", "variance": 0.1},
        },
        "objective": {"name": "IVAE", "a": 100.0, "c": 0.0, "d": 10.0},
    },
    "decomposition_shapes": {
        "dataset": SPRITES,
        "model": {"architecture": "shapes_conv", "prior": {"name": "Anisotropic", "learned": True}},
        "objective": {"name": "Decomposition", "alpha": 10.0},
    },
    "decomposition_student": {
        "dataset": SPRITES,
        "model": {"architecture": "shapes_conv", "prior": {"name": "StudentT", "df": 5.0}},
        "objective": {"name": "BetaVAE", "beta": 1.0},
    },
    "decomposition_clusters": {
        "dataset": "pinwheel",
        "model": {"architecture": "pinwheel_mlp", "latents": 2, "prior": "GaussianMixture", "likelihood": LEARNED},
        "objective": {"name": "Decomposition", "alpha": 1.0, "divergence": "inclusive_kl"},
    },
    "decomposition_sparse": {
        "dataset": COLOURED,
        "model": {"architecture": "dcgan", "prior": "Sparse", "likelihood": "Laplace"},
        "objective": {"name": "Decomposition", "alpha": 100.0},
    },
    "decomposition_fashion": {
        "dataset": {"name": "dsprites", "size": 32},
        "model": {"architecture": "fashion_conv", "prior": "Sparse", "likelihood": "Laplace"},
        "objective": {"name": "Decomposition", "alpha": 100.0, "compatibility": "released-code"},
    },
}
TRAINING = {"steps": 60, "batch_size": 8, "learning_rate": 0.001, "checkpoint_every": 10, "log_every": 5}
COMMON = {"training": TRAINING, "evaluation": {"examples": 100}}


def start(folder: Path, config: dict) -> subprocess.Popen:
    folder.mkdir(exist_ok=True)
    (folder / "run.yaml").write_text(yaml.safe_dump(config | COMMON))
    command = [sys.executable, "-m", "polarised", "train", "run.yaml", "--out", "runs", "--quiet"]
    return subprocess.Popen(command, cwd=folder, env=os.environ | {"OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE)


def finish(folder: Path, config: dict) -> Path:
    process = start(folder, config)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors.decode()
    (directory,) = (folder / "runs").iterdir()
    return directory


def name_of(spec):
    return spec if isinstance(spec, str) else spec["name"]


def test_every_objective_and_network_has_a_walk():
    objectives = {name_of(walk["objective"]) for walk in WALKS.values()}
    networks = {name_of(walk.get("model", {}).get("architecture", "locatello_conv")) for walk in WALKS.values()}
    assert objectives == set(registry.names("objective"))
    assert networks == set(registry.names("architecture"))


@pytest.mark.slow
@pytest.mark.parametrize("name", WALKS)
def test_trained_killed_and_resumed(tmp_path, name):
    config = WALKS[name]
    whole = finish(tmp_path / "whole", config)

    process = start(tmp_path / "killed", config)
    while process.poll() is None and not list((tmp_path / "killed").glob("runs/*/checkpoint.safetensors")):
        time.sleep(0.005)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    resumed = finish(tmp_path / "killed", config)

    digests = [hashlib.sha256((run / "model.safetensors").read_bytes()).hexdigest() for run in (whole, resumed)]
    assert digests[0] == digests[1]
    history = polars.read_parquet(whole / "history.parquet")
    assert history.equals(polars.read_parquet(resumed / "history.parquet"))
    assert np.isfinite(history.to_numpy()).all()
    assert (whole / "done.json").exists()
