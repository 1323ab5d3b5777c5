"""Are the types right? Trained models of every objective, compared with ablations of their decoders.

Each model is a fully connected VAE on 32x32 sprites (or on two populations). The ablations are independent of those
of the library: on 6,000 images not used by the diagnosis, every variable is exchanged between inputs, or set to one
value for all of them, and is used if that costs more than max(0.1 nats, 0.5% of the distortion above its floor) by two
standard errors, unused if less. The first uses the definition of the rule on other images, the second another one.

    python benchmarks/unused_variables.py [--models rtc] [--seeds 1 2] [--steps 3000] [--cache folder]
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from polarised import Encodings, Regime, classify
from polarised.adapters import decoder_use, from_vae
from polarised.data import Dataset, color_dsprites, dsprites, noisy_dsprites, two_populations
from polarised.models import VAE, build_vae, load_vae
from polarised.models.vae import save_vae
from polarised.objectives import (
    DIPVAE,
    ELBO,
    RTCVAE,
    AnnealedVAE,
    BetaTCVAE,
    BetaVAE,
    Decomposition,
    FactorVAE,
)
from polarised.objectives.step import Objective
from polarised.theory import gaussian_total_correlation
from polarised.training import train

CRITIC = {"critic_width": 200}
ESTIMATORS = ("mws", "mss0", "mss1", "eq10b", "disentanglement_lib")
# Images of the ablation, from a separate sample.
UNSEEN, UNSEEN_SEED = 6_000, 987


@dataclass(frozen=True)
class Model:
    """What one model of the bank is trained with."""

    objective: Objective
    data: str = "sprites"
    prior: Any = "StandardNormal"
    learning_rate: float = 1.5e-3
    schedule: Any = "constant"
    latents: int = 10


def bank(steps: int) -> dict[str, Model]:
    """Return the models by name."""
    models = {f"rtc_{beta:g}": Model(RTCVAE(beta=beta, **CRITIC)) for beta in (2.0, 4.0, 10.0, 20.0)}
    # At a constant rate, decoders keep using remnants of unused variables; at a decreasing rate they stop using them.
    for beta in (2.0, 10.0):
        models[f"rtc_{beta:g}_falling"] = Model(RTCVAE(beta=beta, **CRITIC), schedule={"name": "cosine", "hold": 0.5})
    models |= {f"factor_{gamma:g}": Model(FactorVAE(gamma=gamma, **CRITIC)) for gamma in (10.0, 100.0)}
    for beta in (4.0, 10.0):
        models |= {f"tc_{beta:g}_{name}": Model(BetaTCVAE(beta=beta, estimator=name)) for name in ESTIMATORS}
    models |= {f"dip_{kind}": Model(DIPVAE(variant=kind, lambda_od=10.0)) for kind in ("I", "II")}
    for capacity in (10.0, 25.0, 50.0):
        objective = AnnealedVAE(c_max=capacity, iteration_threshold=steps // 2)
        models[f"annealed_{capacity:g}"] = Model(objective, learning_rate=1e-3)
    models["ivae"] = Model(ELBO(), data="shapes", prior="Conditional")
    models |= {f"beta_{beta:g}": Model(BetaVAE(beta=beta)) for beta in (1.0, 4.0, 8.0)}
    models |= {f"populations_{beta:g}": Model(BetaVAE(beta=beta), data="populations") for beta in (6.0, 12.0)}
    models["student"] = Model(BetaVAE(beta=4.0), prior={"name": "StudentT", "df": 5.0})
    models["sparse"] = Model(BetaVAE(beta=2.0), prior="Sparse")
    models["anisotropic"] = Model(BetaVAE(beta=4.0), prior={"name": "Anisotropic", "learned": True})
    models["inclusive_kl"] = Model(Decomposition(alpha=10.0, beta=2.0, divergence="inclusive_kl"))
    models["mmd"] = Model(Decomposition(alpha=500.0, beta=2.0))
    return models


def dataset_of(model: Model) -> Dataset:
    """Return what a model is trained on."""
    if model.data == "populations":
        return two_populations()
    if model.data in ("coloured", "noisy"):
        return color_dsprites() if model.data == "coloured" else noisy_dsprites()
    sprites = dsprites(size=32)
    return sprites.with_auxiliary(factors=["shape"]) if model.data == "shapes" else sprites


def trained(
    name: str, *, model: Model | None = None, seed: int = 1, steps: int = 3_000, cache: Path | None = None
) -> VAE:
    """Train a model, by its name in the bank unless it is given, or read it from the cache."""
    model = bank(steps)[name] if model is None else model
    path = None if cache is None else cache / f"{name}-{steps}-{seed}.safetensors"
    if path is not None and path.exists():
        return load_vae(path)
    widths = [160, 96] if seed % 2 == 0 else [128, 128]
    config = {
        "architecture": {"name": "mlp", "widths": widths},
        "latents": model.latents,
        "prior": model.prior,
        "likelihood": {"name": "Bernoulli", "weight": 2.0},
    }
    dataset = dataset_of(model)
    vae = build_vae(config, dataset.shape, dataset.auxiliary_size, seed)
    settings = {"learning_rate": model.learning_rate, "schedule": model.schedule, "seed": seed}
    train(vae, model.objective, dataset, steps=steps, progress=False, **settings)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_vae(vae, path, config=config, auxiliary_size=dataset.auxiliary_size)
    return vae.eval()


@torch.inference_mode()
def ablation(vae: VAE, dataset: Dataset, *, held: bool = False) -> NDArray[np.int64]:
    """Return 1 for used, 0 for unused, -1 where the ablation itself is in doubt, (d,); by exchanging, or by holding."""
    generator = torch.Generator().manual_seed(UNSEEN_SEED)
    batch = dataset.sample(UNSEEN, UNSEEN_SEED)
    x, u = torch.from_numpy(batch.images), None if batch.u is None else torch.from_numpy(batch.u)
    posterior = vae.posterior(x, u)
    z = posterior.mean + posterior.variance.sqrt() * torch.randn(posterior.mean.shape, generator=generator)

    def losses(codes: torch.Tensor) -> torch.Tensor:
        pairs = zip(x.split(500), codes.split(500), strict=True)
        return torch.cat([-vae.likelihood.log_prob(images, vae.decode(part)) for images, part in pairs]).double()

    own = losses(z)
    entropy = 2.0 * (torch.special.entr(x.double()) + torch.special.entr(1 - x.double())).flatten(1).sum(1)
    threshold = max(0.1, 0.005 * (own - entropy).mean().item())
    found = []
    for j in range(vae.latents):
        changed = z.clone()
        other = z[:, j].roll(1 + 7 * j, 0)[torch.randperm(len(z), generator=generator)]
        changed[:, j] = z[:, j].mean() if held else other
        rise = losses(changed) - own
        level, error = rise.mean().item(), rise.std().item() / len(rise) ** 0.5
        found.append(1 if level - 2 * error > threshold else 0 if level + 2 * error < threshold else -1)
    return np.array(found)


def regimes(name: str, vae: VAE, *, steps: int = 3_000) -> tuple[Encodings, dict[str, Regime]]:
    """Return the encodings and the types: with the decoder, without it, and by the two other rules."""
    model = bank(steps)[name]
    dataset = dataset_of(model)
    encodings = from_vae(vae, dataset, examples=4_000, objective=model.objective)
    first = classify(encodings, decoder=decoder_use(vae, dataset))
    others = {rule: first.at(0.1, rule=rule) for rule in ("relative", "standard")}
    return encodings, {"used": first, "encoder alone": classify(encodings), **others}


def agreement(regime: Regime, truth: NDArray[np.int64]) -> tuple[int, int, int]:
    """Return how many variables are right, wrong and doubtful (by the types or by the ablation itself)."""
    said = np.array([kind != "passive" for kind in regime.types]).astype(int)
    doubtful = np.isin(np.arange(len(said)), regime.doubtful) | (truth < 0)
    right = (said == truth) & ~doubtful
    return int(right.sum()), int((~right & ~doubtful).sum()), int(doubtful.sum())


def correlations(encodings: Encodings, regime: Regime) -> Iterator[tuple[float, float]]:
    """Yield the total correlation of mean and sample: of all variables, and of those that are used beyond doubt."""
    mean = np.cov(encodings.mean.astype(np.float64), rowvar=False)
    sample = mean + np.diag(encodings.variance.mean(axis=0, dtype=np.float64))
    for chosen in (range(encodings.latents), regime.dependable):
        yield tuple(gaussian_total_correlation(part[np.ix_(chosen, chosen)]) for part in (mean, sample))


def main() -> None:
    """Print a row for each model and the sums."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="", help="only models whose names begin with this")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--steps", type=int, default=3_000)
    parser.add_argument("--cache", type=Path, default=None, help="folder for trained models")
    options = parser.parse_args()
    torch.set_num_threads(1)
    sums: dict[str, NDArray[np.int64]] = {}
    print("model | types | right/wrong/doubtful by each | total correlation, all | used")
    for name in (name for name in bank(options.steps) if name.startswith(options.models)):
        for seed in options.seeds:
            vae = trained(name, seed=seed, steps=options.steps, cache=options.cache)
            dataset = dataset_of(bank(options.steps)[name])
            truth, held = ablation(vae, dataset), ablation(vae, dataset, held=True)
            encodings, found = regimes(name, vae, steps=options.steps)
            counts = {rule: agreement(regime, truth) for rule, regime in found.items()}
            counts["used, against held variables"] = agreement(found["used"], held)
            for rule, count in counts.items():
                sums[rule] = sums.get(rule, 0) + np.array(count)
            words = ", ".join(f"{rule} {'/'.join(map(str, count))}" for rule, count in counts.items())
            pairs = " | ".join(f"{mean:.3f} / {sample:.3f}" for mean, sample in correlations(encodings, found["used"]))
            types = [found["used"].types.count(kind) for kind in ("active", "mixed", "passive")]
            print(f"{name} seed {seed} | {types} | {words} | {pairs}", flush=True)
    for rule, count in sums.items():
        print(f"{rule}: {count[0]} right, {count[1]} wrong, {count[2]} doubtful of {count.sum()}")


if __name__ == "__main__":
    main()
