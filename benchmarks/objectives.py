"""The cost of a training step with each objective, relative to the beta-VAE, at batch 64 on locatello_conv.

CPU time of one thread, in interleaved rounds, to reduce the effect of other load; the median ratio is printed.

    python benchmarks/objectives.py [--rounds 8] [--steps 4]
"""

import argparse
import statistics
import time

import torch

from polarised import registry
from polarised.models import VAE, build_vae
from polarised.objectives import Objective, take_step
from polarised.training import keep_freed_memory

PAGE = "objective"
CRITICS = ("FactorVAE", "RTCVAE")
LIMIT = 1.10


def stepper(spec: dict[str, object]):
    objective: Objective = registry.build(PAGE, spec)
    prior = "Conditional" if spec["name"] == "IVAE" else "StandardNormal"
    config = {"architecture": "locatello_conv", "latents": 10, "prior": prior}
    vae: VAE = build_vae(config, (1, 64, 64), 5).to(memory_format=torch.channels_last)
    critic = objective.critic(10)
    parameters = [*vae.parameters(), *(critic.parameters() if critic else ())]
    optimiser = torch.optim.Adam(parameters, lr=1e-4, fused=True)
    x = torch.rand(64, 1, 64, 64).round().to(memory_format=torch.channels_last)
    u = torch.rand(64, 5)
    generator = torch.Generator().manual_seed(0)

    def run(steps: int) -> float:
        start = time.process_time()
        for number in range(steps):
            step = take_step(vae, x, u, number=number, dataset_size=737_280, generator=generator, critic=critic)
            terms = objective(step)
            optimiser.zero_grad(set_to_none=True)
            torch.stack(list(terms.values())).sum().backward()
            optimiser.step()
        return (time.process_time() - start) / steps

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=4)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    specs = [{"name": "BetaVAE"}, *({"name": n} for n in registry.names(PAGE) if n not in ("BetaVAE", "IVAE"))]
    specs += [{"name": "Decomposition", "divergence": "inclusive_kl"}, {"name": "IVAE"}]
    specs += [{"name": "IVAE", "a": 100.0, "c": 0.0, "d": 10.0}]
    runs = [stepper(spec) for spec in specs]
    for run in runs:
        run(2)
    times = [[run(arguments.steps) for run in runs] for _ in range(arguments.rounds)]
    print(f"beta-VAE: {1000 * statistics.median(row[0] for row in times):.1f} ms per step on one thread")
    missed = []
    for column, spec in enumerate(specs):
        ratio = statistics.median(row[column] / row[0] for row in times)
        limited = spec["name"] not in CRITICS
        missed += [spec["name"]] if limited and ratio > LIMIT else []
        print(f"{ratio:6.3f}  {registry.build(PAGE, spec)!r}{f'   (limit {LIMIT:.2f})' if limited else ''}")
    if missed:
        raise SystemExit(f"beyond the limit: {', '.join(missed)}")


if __name__ == "__main__":
    main()
