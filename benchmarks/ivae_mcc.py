"""How well iVAE and VAE find the sources of nonlinear ICA: mean correlation coefficient on held-out data, many seeds.

Two sources, four mixtures, 40 segments of 1,000 points, a Gaussian decoder of variance 0.01, five latents; every
data seed draws new sources and a new mixing. The gap between the models depends on that draw, so only averages over
seeds mean anything.

    python benchmarks/ivae_mcc.py [--seeds 10] [--steps 5000] [--csv FILE]
"""

import argparse
import csv
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from polarised import classify
from polarised.adapters import from_vae
from polarised.data import Dataset, nonlinear_ica
from polarised.metrics import mcc
from polarised.models import build_vae
from polarised.objectives import ELBO
from polarised.training import train

MODELS = {"iVAE": {"name": "Conditional"}, "VAE": {"name": "StandardNormal"}}
LIKELIHOOD = {"name": "Gaussian", "variance": 0.01}


def rows_of(dataset: Dataset, rows: np.ndarray) -> Dataset:
    """Return the dataset of some rows."""
    return replace(
        dataset,
        length=len(rows),
        read=lambda i: dataset.read(rows[i]),
        auxiliary=lambda i: dataset.auxiliary(rows[i]),
        factor_space=None,
        sources=dataset.sources[rows],
    )


def measure(seed: int, model: str, steps: int) -> dict[str, object]:
    whole = nonlinear_ica(sources=2, observed=4, standardise=True, seed=seed)
    order = np.random.default_rng(seed).permutation(len(whole))
    training, held_out = rows_of(whole, order[: len(whole) * 9 // 10]), rows_of(whole, order[len(whole) * 9 // 10 :])
    config = {
        "architecture": {"name": "mlp", "widths": [50, 50], "activation": "leaky_relu"},
        "latents": 5,
        "prior": MODELS[model],
        "likelihood": LIKELIHOOD,
    }
    vae = build_vae(config, whole.shape, whole.auxiliary_size, seed)
    began = time.process_time()
    settings = {"steps": steps, "batch_size": 256, "learning_rate": 2e-3, "progress": False}
    train(vae, ELBO(), training, seed=seed, **settings)
    seconds = time.process_time() - began
    every = np.arange(len(held_out))
    encodings = from_vae(vae, held_out.images[:], u=held_out.auxiliary(every))
    regime = classify(encodings)
    kept = [*regime.active, *regime.mixed]
    return {
        "seed": seed,
        "model": model,
        "mcc_mean": mcc(encodings.mean, held_out.sources).score,
        "mcc_sampled": mcc(encodings.sample(seed=0), held_out.sources).score,
        "mcc_without_passive": mcc(encodings.mean[:, kept], held_out.sources).score,
        "active": len(regime.active),
        "mixed": len(regime.mixed),
        "passive": len(regime.passive),
        "cpu_seconds": round(seconds, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--csv", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for seed in range(1, arguments.seeds + 1):
        for model in MODELS:
            row = measure(seed, model, arguments.steps)
            rows.append(row)
            text = (
                f"{key} {value:.3f}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items()
            )
            print("  ".join(text), flush=True)
    scores = {model: np.array([row["mcc_mean"] for row in rows if row["model"] == model]) for model in MODELS}
    for model, values in scores.items():
        print(f"{model}: MCC {values.mean():.3f}, standard deviation over seeds {values.std(ddof=1):.3f}")
    gap = scores["iVAE"] - scores["VAE"]
    print(f"iVAE - VAE, paired: {gap.mean():+.3f} +- {gap.std(ddof=1) / np.sqrt(len(gap)):.3f} (standard error)")
    if arguments.csv:
        with arguments.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
