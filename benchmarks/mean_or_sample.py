"""Is the advice right? The recommendation compared with every other choice, on labelled models and unseen rows.

Each model is diagnosed on 3,000 images with their factors. Then logistic regression (standardised, C = 1) predicts
every factor from the mean or the sampled representation of all variables, of those that are not passive, of the active
ones, and of those that the advice recommends: trained on 3,000 other images, tested on 3,000 more. The advice is right
if the accuracy of its recommendation is within 0.01 of the best of these.

The advice was chosen after seeing the models of `OURS` and the published ones. `--fresh SEED` uses others instead,
whose seed, strengths, numbers of variables and backgrounds were not among them.

    python benchmarks/mean_or_sample.py [--models beta] [--steps 1500] [--cache folder] [--published folder]
    python benchmarks/mean_or_sample.py --fresh 7 [--cache folder]
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from polarised import Diagnosis, diagnose
from polarised.adapters import from_vae, open_target
from polarised.data import Dataset, dsprites
from polarised.metrics import logistic_regression
from polarised.models import VAE
from polarised.objectives import DIPVAE, RTCVAE, AnnealedVAE, BetaTCVAE, BetaVAE, Decomposition, FactorVAE
from polarised.objectives.step import Objective
from unused_variables import CRITIC, Model, bank, dataset_of, trained

# Trained here, a few of every objective; the other models have no factors, or are similar to these.
OURS = (
    "beta_1",
    "beta_4",
    "beta_8",
    "factor_10",
    "factor_100",
    "tc_4_mws",
    "tc_10_mss0",
    "dip_I",
    "dip_II",
    "annealed_10",
    "annealed_25",
    "rtc_4",
    "rtc_20",
    "anisotropic",
    "mmd",
)
ROWS, UNSEEN_SEED = 3_000, 4321
WITHIN = 0.01


def fresh(steps: int) -> dict[str, Model]:
    """Return models with settings that were not used when the advice was chosen."""
    found = {f"beta_{beta:g}": Model(BetaVAE(beta=beta)) for beta in (0.5, 2.0, 6.0, 12.0)}
    found |= {f"beta_{beta:g}_of_32": Model(BetaVAE(beta=beta), latents=32) for beta in (1.5, 5.0)}
    found |= {f"factor_{gamma:g}": Model(FactorVAE(gamma=gamma, **CRITIC)) for gamma in (4.0, 35.0)}
    found |= {f"tc_{beta:g}": Model(BetaTCVAE(beta=beta, estimator="mss1")) for beta in (2.0, 6.0)}
    found |= {
        f"dip_{kind}_{od:g}": Model(DIPVAE(variant=kind, lambda_od=od)) for kind, od in (("I", 2.0), ("II", 50.0))
    }
    for capacity in (4.0, 15.0, 35.0):
        objective = AnnealedVAE(c_max=capacity, iteration_threshold=steps // 2)
        found[f"annealed_{capacity:g}"] = Model(objective, learning_rate=1e-3)
    found |= {f"rtc_{beta:g}": Model(RTCVAE(beta=beta, **CRITIC)) for beta in (3.0, 12.0)}
    found["student_2"] = Model(BetaVAE(beta=2.0), prior={"name": "StudentT", "df": 8.0})
    found["sparse_3"] = Model(BetaVAE(beta=3.0), prior="Sparse")
    found["mmd_100"] = Model(Decomposition(alpha=100.0, beta=3.0))
    for data in ("coloured", "noisy"):
        found |= {f"{data}_{beta:g}": Model(BetaVAE(beta=beta), data=data) for beta in (1.0, 5.0)}
    return found


def models(
    steps: int, cache: Path | None, published: Path | None, seed: int | None = None
) -> Iterator[tuple[str, VAE, Dataset, Objective | None]]:
    """Yield the name, the model, its data and its objective, if known."""
    if seed is not None:
        for name, model in fresh(steps).items():
            vae = trained(f"fresh-{name}", model=model, seed=seed, steps=steps, cache=cache)
            yield name, vae, dataset_of(model), model.objective
        return
    for name in OURS:
        model = bank(steps)[name]
        yield name, trained(name, steps=steps, cache=cache), dataset_of(model), model.objective
    if published is not None:
        sprites = dsprites()
        for folder in sorted([*published.glob("disentanglement_lib/*/"), *published.glob("yanndubs/*dsprites*/")]):
            yield folder.name, open_target(folder).vae(), sprites, None


def accuracies(vae: VAE, dataset: Dataset, diagnosis: Diagnosis) -> dict[tuple[str, str], float]:
    """Return the accuracy on unseen rows of every representation of every set of variables."""
    unseen = from_vae(vae, dataset, examples=2 * ROWS, seed=UNSEEN_SEED)
    regime = diagnosis.regime
    sets = {
        "all": list(range(len(regime.types))),
        "alive": regime.alive,
        "active": regime.active,
        "advised": list(diagnosis.recommended.variables),
    }
    codes = {"mean": unseen.mean, "sampled": unseen.sample(seed=1)}
    found: dict[tuple[str, str], float] = {}
    known: dict[tuple[str, tuple[int, ...]], float] = {}
    # The images are in random order, so the first half is a random sample.
    for representation, name in ((r, s) for r in codes for s in sets if sets[s] and (r, s) != ("sampled", "advised")):
        key = representation, tuple(sets[name])
        if key not in known:
            known[key] = logistic_regression(
                codes[representation][:, sets[name]],
                unseen.factors,
                n_train=ROWS,
                protocol="modern",
                strengths=(1.0,),
            ).accuracy
        found[representation, name] = known[key]
    return found


def main() -> None:
    """Print, and write if requested, one row per model and the total."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="", help="only models whose names begin with this")
    parser.add_argument("--steps", type=int, default=1_500)
    parser.add_argument("--cache", type=Path, default=None, help="folder to keep trained models in")
    parser.add_argument("--published", type=Path, default=None, help="folder of published models")
    parser.add_argument("--fresh", type=int, default=None, help="a seed: models not used to choose the advice")
    parser.add_argument("--out", type=Path, default=None, help="file to write the table to")
    options = parser.parse_args()
    torch.set_num_threads(1)
    columns = [f"{r}, {s}" for r in ("mean", "sampled") for s in ("all", "alive", "active")]
    lines = [
        f"| model | active, mixed, passive | {' | '.join(columns)} | recommended | its accuracy | below the best |",
        "|---|---|" + "---|" * (len(columns) + 3),
    ]
    print(*lines, sep="\n", flush=True)
    right, count = 0, 0
    for name, vae, dataset, objective in models(options.steps, options.cache, options.published, options.fresh):
        if not name.startswith(options.models):
            continue
        diagnosis = diagnose(vae, dataset, objective=objective, examples=ROWS)
        found = accuracies(vae, dataset, diagnosis)
        advised = diagnosis.recommended
        own = found.get((advised.representation, "advised"), np.nan)
        behind = max(found.values()) - own
        right, count = right + (behind <= WITHIN), count + 1
        types = ", ".join(str(diagnosis.regime.types.count(kind)) for kind in ("active", "mixed", "passive"))
        cells = [
            f"{found[r, s]:.3f}" if (r, s) in found else "–"
            for r in ("mean", "sampled")
            for s in ("all", "alive", "active")
        ]
        recommended = f"{advised.representation} of {len(advised.variables)}"
        lines.append(f"| {name} | {types} | {' | '.join(cells)} | {recommended} | {own:.3f} | {behind:.3f} |")
        print(lines[-1], flush=True)
    lines += ["", f"Within {WITHIN} of the best: {right} of {count} models."]
    print(lines[-1])
    if options.out is not None:
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
