"""When a run counts as settled: the rule of `Settling` against one that asks every look to agree with the last.

Runs of `be_more_active` at scale laptop are trained at their constant rate, without a decay, and looked at every 200
steps on the 500 images that `Settling` takes. Their seed is not one of the study. For each rule and tolerance:
the first step at which it holds. Beside it how far the KL of an active variable wanders over the last third.

    python benchmarks/settling.py [--steps 8000] [--seed 100] [--methods NAME ...]
"""

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from polarised.regime.timeline import Timeline
from polarised.study.grid import load_study
from polarised.study.stages import build_parts, dataset_of
from polarised.training import has_settled, train
from polarised.training.history import Snapshots

STRENGTHS = {"beta-VAE": 4.0, "FactorVAE": 20.0, "beta-TCVAE": 6.0, "DIP-VAE-II": 5.0, "annealed VAE": 25.0}
TOLERANCES = ((0.02, 0.01), (0.03, 0.03), (0.1, 0.1))
LEAST, EVERY = 4000, 200


def every_look_agrees(
    steps: Sequence[int], types: Sequence[Sequence[Any]], kl: NDArray[np.float64], *, nats: float, share: float
) -> bool:
    """Return whether no look of the last third is further from the last one than the tolerance."""
    recent = [i for i, step in enumerate(steps) if 3 * step >= 2 * steps[-1]]
    near = np.abs(kl[recent] - kl[-1]) <= np.maximum(nats, share * kl[-1])
    return len(recent) >= 4 and len({tuple(types[i]) for i in recent}) == 1 and bool(near.all())


def first_step(rule: Callable[..., bool], timeline: Timeline, *, nats: float, share: float) -> str:
    """Return the first step from the least on at which a rule holds."""
    kl = timeline.state()["kl"]
    for done, step in enumerate(timeline.steps, start=1):
        known = timeline.steps[:done], timeline.types[:done], kl[:done]
        if step >= LEAST and rule(*known, nats=nats, share=share):
            return f"{step:,}"
    return "never"


def main() -> None:
    """Train and print one line for each method."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--methods", nargs="+", choices=STRENGTHS, default=list(STRENGTHS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    study = load_study("be_more_active", scale="laptop", settings=[f"axes.seed=[{options.seed}]"])
    columns = [f"{name}, {share:.0%}" for name in ("every look", "halves") for _, share in TOLERANCES]
    print(f"| method | wanders by | {' | '.join(columns)} | CPU s |\n|{'---|' * (len(columns) + 3)}")
    for method in options.methods:
        (point,) = [
            p for p in study.points if p.labels["method"] == method and p.labels["strength"] == STRENGTHS[method]
        ]
        run, began = point.run, time.process_time()
        dataset = dataset_of(run)
        vae, objective = build_parts(dataset, model=run.model, objective=run.objective, seed=run.seed)
        looks = Snapshots(dataset, every=EVERY, examples=500, ask_decoder=False, seed=run.seed)
        looks.timeline.warn = False
        rate = run.training.learning_rate
        train(
            vae,
            objective,
            dataset,
            steps=options.steps,
            learning_rate=rate,
            seed=run.seed,
            hooks=[looks],
            progress=False,
        )
        kl = looks.timeline.state()["kl"]
        last = kl[[3 * step >= 2 * options.steps for step in looks.timeline.steps]]
        used = last.mean(axis=0) > 0.5
        wander = np.ptp(last[:, used], axis=0) / last[:, used].mean(axis=0)
        found = [
            first_step(rule, looks.timeline, nats=nats, share=share)
            for rule in (every_look_agrees, has_settled)
            for nats, share in TOLERANCES
        ]
        span = f"{wander.min():.0%} to {wander.max():.0%}"
        print(
            f"| {method}, {STRENGTHS[method]:g} | {span} | {' | '.join(found)} | {time.process_time() - began:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
