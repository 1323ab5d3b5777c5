"""How well iVAE and VAE recover the sources of nonlinear ICA: mean correlation coefficient on held-out data.

Every data seed draws new sources (40 segments of 1,000 points) and a new mixing; the gap between the models depends on
that draw, so only averages over seeds are meaningful. Settings:

    light    2 sources, 4 standardised mixtures, 5 latents, decoder variance 0.01, plain ELBO
    weighted 5 sources, 5 mixtures, 5 latents, decoder variance 0.1, the released weights: iVAE a=100, b=1, c=0, d=10,
             VAE a=1000, b=c=d=1 (there with a learning rate that falls and two separate encoder networks)

    python benchmarks/ivae_mcc.py [--setting light] [--seeds 10] [--steps 5000] [--csv FILE]
"""

import argparse
import csv
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from polarised import classify
from polarised.adapters import from_vae
from polarised.data import Dataset, nonlinear_ica
from polarised.metrics import mcc
from polarised.models import build_vae
from polarised.objectives import ELBO, IVAE, Objective
from polarised.training import train

PRIORS = {"iVAE": "Conditional", "VAE": "StandardNormal"}


@dataclass(frozen=True)
class Setting:
    """Data, network and objectives of one comparison."""

    data: dict[str, object]
    network: dict[str, object]
    decoder_variance: float
    objectives: dict[str, Objective]
    batch_size: int
    learning_rate: float


SETTINGS = {
    "light": Setting(
        data={"sources": 2, "observed": 4, "standardise": True},
        network={"name": "mlp", "widths": [50, 50], "activation": "leaky_relu"},
        decoder_variance=0.01,
        objectives={"iVAE": ELBO(), "VAE": ELBO()},
        batch_size=256,
        learning_rate=2e-3,
    ),
    "weighted": Setting(
        data={"sources": 5},
        network={"name": "mlp", "widths": [100, 100], "activation": "xtanh"},
        decoder_variance=0.1,
        objectives={"iVAE": IVAE(a=100.0, b=1.0, c=0.0, d=10.0), "VAE": IVAE(a=1000.0)},
        batch_size=64,
        learning_rate=1e-3,
    ),
}


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


def measure(setting: Setting, seed: int, model: str, steps: int) -> dict[str, object]:
    whole = nonlinear_ica(**setting.data, seed=seed)
    order = np.random.default_rng(seed).permutation(len(whole))
    training, held_out = rows_of(whole, order[: len(whole) * 9 // 10]), rows_of(whole, order[len(whole) * 9 // 10 :])
    config = {
        "architecture": setting.network,
        "latents": 5,
        "prior": PRIORS[model],
        "likelihood": {"name": "Gaussian", "variance": setting.decoder_variance},
    }
    vae = build_vae(config, whole.shape, whole.auxiliary_size, seed)
    began = time.process_time()
    train(
        vae,
        setting.objectives[model],
        training,
        steps=steps,
        batch_size=setting.batch_size,
        learning_rate=setting.learning_rate,
        seed=seed,
        progress=False,
    )
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
        "mcc_without_passive": mcc(encodings.mean[:, kept], held_out.sources).score if kept else 0.0,
        "active": len(regime.active),
        "mixed": len(regime.mixed),
        "passive": len(regime.passive),
        "cpu_seconds": round(seconds, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setting", choices=SETTINGS, default="light")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--csv", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for seed in range(1, arguments.seeds + 1):
        for model in PRIORS:
            row = measure(SETTINGS[arguments.setting], seed, model, arguments.steps)
            rows.append(row)
            text = (
                f"{key} {value:.3f}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items()
            )
            print("  ".join(text), flush=True)
    scores = {model: np.array([row["mcc_mean"] for row in rows if row["model"] == model]) for model in PRIORS}
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
