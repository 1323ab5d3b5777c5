"""The cost of `train` for a small network, compared with the shortest equivalent loop, objective by objective.

The network is the MLP of the laptop studies (1024-128-128-10, batch 64) on 32x32 sprites. The shortest loop has its
images in memory and is written by hand: one head for mean and log-variance, no terms, no records, no checks.
CPU time of one thread in short interleaved rounds; the 10th percentile of the rounds is compared, since other load on
the machine only adds time.

    python benchmarks/loop.py [--rounds 60] [--steps 48] [--only BetaVAE FactorVAE] [--parts]
"""

import argparse
import math
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from polarised.data import dsprites
from polarised.models import build_vae
from polarised.models._dense_pass import plan_pass
from polarised.objectives import (
    DIPVAE,
    ELBO,
    GECO,
    IVAE,
    RTCVAE,
    AnnealedVAE,
    BetaTCVAE,
    BetaVAE,
    Decomposition,
    FactorVAE,
    FreeBits,
    Objective,
    SigmaVAE,
    take_step,
)
from polarised.random import seed_for
from polarised.training import keep_freed_memory, train
from polarised.training.loop import _Adam

PIXELS, WIDTH, LATENTS, BATCH, POOL = 1024, 128, 10, 64, 20_000
GOAL = 0.9
DATA = dsprites(size=32)
MODEL = {"architecture": {"name": "mlp", "widths": [WIDTH, WIDTH]}, "latents": LATENTS}
Run = Callable[[int], float]


class Clock:
    """A hook that measures the CPU time between the first and the last step, without the setup."""

    every = 10**9

    def __init__(self) -> None:
        self.times: list[float] = []

    def __call__(self, step: int, vae: nn.Module) -> None:
        """Read the clock."""
        self.times.append(time.process_time())

    def state(self) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore nothing."""

    @property
    def seconds(self) -> float:
        """The CPU time of the steps."""
        return self.times[-1] - self.times[0]


class Bare(nn.Module):
    """The same network with one head."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(PIXELS, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2 * LATENTS)
        )
        self.decoder = nn.Sequential(
            nn.Linear(LATENTS, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, PIXELS)
        )


def divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    return 0.5 * (log_variance.exp() + mean * mean - 1 - log_variance).sum(1).mean()


def parts(mean: Tensor, log_variance: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """log q(z) and sum log q(z_j) by minibatch weights, up to constants."""
    each = -0.5 * ((z[:, None] - mean) ** 2 * (-log_variance).exp() + log_variance)
    return each.sum(2).logsumexp(1), each.logsumexp(1).sum(1)


def correlation(mean: Tensor, log_variance: Tensor, z: Tensor) -> Tensor:
    whole, product = parts(mean, log_variance, z)
    return (whole - product).mean()


def covariance(mean: Tensor) -> Tensor:
    centred = mean - mean.mean(0)
    return centred.T @ centred / BATCH


def missing(mean: Tensor, log_variance: Tensor) -> Tensor:
    """What every variable lacks of half a nat."""
    each = 0.5 * (log_variance.exp() + mean * mean - 1 - log_variance).mean(0)
    return (0.5 - each).clamp_min(0).sum()


def dip(mean: Tensor, log_variance: Tensor, variant: str) -> Tensor:
    if variant == "I":
        c = covariance(mean)
        return 10 * c.square().sum() + (100 * (c.diagonal() - 1).square() - 10 * c.diagonal().square()).sum()
    c = covariance(mean) + torch.diag(log_variance.exp().mean(0))
    return 10 * (c - torch.eye(LATENTS)).square().sum()


def discrepancy(z: Tensor, draws: Tensor) -> Tensor:
    both = torch.cat([draws, z])
    squared = torch.cdist(both, both).square()
    kernel = sum(
        (2 * LATENTS * s / (2 * LATENTS * s + squared) for s in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)), torch.zeros(())
    )
    inside = (kernel.sum() - 2 * kernel[:BATCH, BATCH:].sum() - 6 * 2 * BATCH) / (BATCH * (BATCH - 1))
    return inside - 2 * kernel[:BATCH, BATCH:].mean()


PENALTIES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "ELBO": lambda m, v, z: divergence(m, v),
    "BetaVAE": lambda m, v, z: 4 * divergence(m, v),
    "AnnealedVAE": lambda m, v, z: 1000 * (divergence(m, v) - 5).abs(),
    "BetaTCVAE": lambda m, v, z: divergence(m, v) + 5 * correlation(m, v, z),
    "DIPVAE-I": lambda m, v, z: divergence(m, v) + dip(m, v, "I"),
    "DIPVAE-II": lambda m, v, z: divergence(m, v) + dip(m, v, "II"),
    "Decomposition": lambda m, v, z: divergence(m, v) + 10 * discrepancy(z, torch.randn_like(z)),
    "FreeBits": lambda m, v, z: divergence(m, v) + missing(m, v),
    "GECO": lambda m, v, z: divergence(m, v),
    "SigmaVAE": lambda m, v, z: divergence(m, v),
}
OURS: dict[str, Objective] = {
    "ELBO": ELBO(),
    "BetaVAE": BetaVAE(),
    "AnnealedVAE": AnnealedVAE(iteration_threshold=5),
    "BetaTCVAE": BetaTCVAE(),
    "DIPVAE-I": DIPVAE(variant="I"),
    "DIPVAE-II": DIPVAE(),
    "Decomposition": Decomposition(alpha=10.0, divergence="mmd"),
    "FactorVAE": FactorVAE(critic_layers=3, critic_width=128),
    "RTCVAE": RTCVAE(critic_layers=3, critic_width=128),
    "IVAE": IVAE(c=0.0, d=10.0),
    "FreeBits": FreeBits(),
    "GECO": GECO(kappa=5.0, cap=10.0),
    "SigmaVAE": SigmaVAE(),
}
GAUSSIAN = ("GECO", "SigmaVAE")


class Constraint:
    """The squared error times a multiplier that grows while the error is above 25."""

    def __init__(self) -> None:
        self.multiplier = 1.0
        self.average: float | None = None

    def __call__(self, x: Tensor, outputs: Tensor) -> Tensor:
        """Return the squared error of a batch times the multiplier, which it raises or lowers."""
        error = squared_error(x, outputs)
        beyond = error.item() - 25
        self.average = beyond if self.average is None else 0.99 * self.average + 0.01 * beyond
        self.multiplier = min(10.0, self.multiplier * math.exp(0.01 * min(1.0, max(-1.0, self.average / 25))))
        return self.multiplier * error


def squared_error(x: Tensor, outputs: Tensor) -> Tensor:
    return (x - outputs).square().sum(1).mean()


def optimal_variance(x: Tensor, outputs: Tensor) -> Tensor:
    error = squared_error(x, outputs)
    variance = torch.maximum((error / PIXELS).detach(), 1e-3 * x.var(0, unbiased=False).mean())
    return 0.5 * (PIXELS * (math.log(2 * math.pi) + variance.log()) + error / variance)


def cross_entropy_of_pixels(x: Tensor, outputs: Tensor) -> Tensor:
    return binary_cross_entropy_with_logits(outputs, x, reduction="none").sum(1).mean()


def distortion_of(name: str) -> Callable[[Tensor, Tensor], Tensor]:
    if name == "GECO":
        return Constraint()
    return optimal_variance if name == "SigmaVAE" else cross_entropy_of_pixels


def shortest(name: str, pool: Tensor, factors: Tensor) -> Run:
    network, generator, distortion = Bare(), torch.Generator(), distortion_of(name)
    critic = prior = None
    if name in ("FactorVAE", "RTCVAE"):
        widths = [LATENTS, WIDTH, WIDTH, WIDTH]
        layers = [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.LeakyReLU(0.2))]
        critic = nn.Sequential(*layers, nn.Linear(WIDTH, 2))
    if name == "IVAE":
        network.encoder[0] = nn.Linear(PIXELS + factors.shape[1], WIDTH)
        prior = build_vae({**MODEL, "prior": "Conditional"}, DATA.shape, factors.shape[1]).prior
    modules = [module for module in (network, critic, prior) if module is not None]
    parameters = [parameter for module in modules for parameter in module.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=1.5e-3, fused=True)

    def penalty(mean: Tensor, log_variance: Tensor, z: Tensor, u: Tensor) -> Tensor:
        if critic is not None:
            for parameter in critic.parameters():
                parameter.requires_grad_(False)
            fooled = critic(z)
            for parameter in critic.parameters():
                parameter.requires_grad_(True)
            order = torch.rand(z.shape, generator=generator).argsort(0)
            logits = critic(torch.cat([z.detach(), z.detach().gather(0, order)]))
            own = cross_entropy(logits, torch.arange(2).repeat_interleave(BATCH))
            noise = 10 * log_variance.exp().sum(1).mean() if name == "RTCVAE" else 0.0
            return divergence(mean, log_variance) + 10 * (fooled[:, 0] - fooled[:, 1]).mean() + own + noise
        if prior is not None:
            given = prior.given(u)
            kl = given.kl(type_of(mean, log_variance), z).sum(1).mean()
            whole, product = parts(mean, log_variance, z)
            return kl - (whole - product).mean() + 9 * (product - given.log_prob(z)).mean()
        return PENALTIES[name](mean, log_variance, z)

    def run(steps: int) -> float:
        start = time.process_time()
        for _ in range(steps):
            rows = torch.randint(0, POOL, (BATCH,), generator=generator)
            x, u = pool[rows], factors[rows]
            hidden = network.encoder(x if prior is None else torch.cat([x, u], 1))
            mean, log_variance = hidden.chunk(2, -1)
            z = mean + torch.randn(BATCH, LATENTS, generator=generator) * (0.5 * log_variance).exp()
            outputs = network.decoder(z)
            loss = distortion(x, outputs) + penalty(mean, log_variance, z, u)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
        return time.process_time() - start

    return run


def type_of(mean: Tensor, log_variance: Tensor) -> Any:
    from polarised.models.vae import DiagonalGaussian

    return DiagonalGaussian(mean, log_variance)


def ours(name: str, **settings: Any) -> Run:
    data = DATA.with_auxiliary() if name == "IVAE" else DATA
    config = {**MODEL, "prior": "Conditional" if name == "IVAE" else "StandardNormal"}
    config |= {"likelihood": "Gaussian"} if name in GAUSSIAN else {}

    def run(steps: int) -> float:
        vae, clock = build_vae(config, data.shape, data.auxiliary_size), Clock()
        train(vae, OURS[name], data, steps=steps, learning_rate=1.5e-3, progress=False, hooks=[clock], **settings)
        return clock.seconds

    return run


def quick(times: list[float]) -> float:
    return sorted(times)[len(times) // 10]


def measure(runs: dict[str, Run], rounds: int, steps: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run(10)
    for _ in range(rounds):
        for name, run in runs.items():
            times[name].append(1000 * run(steps) / steps)
    return times


def print_parts() -> None:
    """Print the time of the parts of one step of the beta-VAE, each measured separately."""
    vae = build_vae(MODEL, DATA.shape)
    plan, optimiser = plan_pass(vae), _Adam([{"params": list(vae.parameters())}], fused=True)
    generator = torch.Generator()
    x = torch.from_numpy(DATA.batch(0, BATCH, 0).images)
    drawn = DATA.batches(range(10**6), BATCH, 0)

    def forward() -> list[Tensor]:
        step = take_step(vae, x, dataset_size=len(DATA), generator=generator, plan=plan)
        return list(BetaVAE()(step).values())

    def backward() -> None:
        optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(forward())
        plan.backward()

    backward()
    each: dict[str, Callable[[], object]] = {
        "a batch, drawn with others": lambda: next(drawn),
        "a batch, drawn alone": lambda: DATA.batch(0, BATCH, 0),
        "seed of the noise": lambda: generator.manual_seed(seed_for(0, "noise", 1)),
        "forward and terms": forward,
        "forward, terms, backward": backward,
        "Adam": optimiser.update,
    }
    timed = measure({name: repeated(call) for name, call in each.items()}, rounds=20, steps=64)
    for name, times in timed.items():
        print(f"{name:28s} {1000 * quick(times):7.0f} us")


def repeated(call: Callable[[], object]) -> Run:
    def run(steps: int) -> float:
        start = time.process_time()
        for _ in range(steps):
            call()
        return time.process_time() - start

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--only", nargs="+", default=list(OURS))
    parser.add_argument("--parts", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    if options.parts:
        print_parts()
        return
    batch = DATA.batch(0, POOL, 0)
    pool = torch.from_numpy(batch.images).flatten(1)
    factors = torch.from_numpy(batch.factors / [2, 5, 39, 31, 31]).float()
    runs: dict[str, Run] = {}
    for name in options.only:
        runs |= {f"{name} shortest": shortest(name, pool, factors), f"{name} train": ours(name)}
    times = measure(runs, options.rounds, options.steps)
    heading = f"{options.rounds} rounds of {options.steps} steps, ms per step"
    print(f"{heading:36s}  shortest   train   ratio   median of ratios   (goal {GOAL})")
    missed = []
    for name in options.only:
        bare, own = times[f"{name} shortest"], times[f"{name} train"]
        ratio = quick(bare) / quick(own)
        middle = statistics.median(a / b for a, b in zip(bare, own, strict=True))
        missed += [name] if ratio < GOAL else []
        print(f"{name:36s} {quick(bare):9.2f} {quick(own):7.2f} {ratio:7.2f} {middle:18.2f}")
    if missed:
        raise SystemExit(f"short of the goal: {', '.join(missed)}")


if __name__ == "__main__":
    main()
