"""Objectives against posterior collapse: a floor for the rate, a target for the error, the best decoder variance.

Rate and distortion are those of `papers`.
"""

# ruff: noqa: D102 (the abstract class documents the methods)

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from polarised.errors import ConfigError
from polarised.models.distributions import LOG_TWO_PI, Prior
from polarised.models.likelihoods import Gaussian
from polarised.objectives.schedules import level
from polarised.objectives.step import Objective, Step
from polarised.objectives.terms import distortion, rate
from polarised.registry import register

__all__ = ["GECO", "FreeBits", "Multiplier", "SigmaVAE"]


@register(
    "objective",
    title="free bits",
    summary="the first nats of every group's rate are free",
    symbol="λ",
    strength=("nats",),
    references=("Kingma2016",),
    example=({}, {"nats": 100.0}, {"group_size": 4}),
    neutral=({"nats": 0.0},),
)
@dataclass(frozen=True, kw_only=True)
class FreeBits(Objective):
    """Leave the first `nats` of the rate of every group of variables free of charge.

    loss = distortion + sum_groups max(nats, E[KL of the group])  [Kingma2016, appendix C.8]

    The mean over the batch is taken before the maximum, as in the released code. The term "rate" is the true one;
    "free_bits" is what the floor adds to it. Under a prior that is not factorised all variables are one group.
    An unused variable rests nowhere: within its allowance every posterior costs the same.

    Args:
        nats: What is free of charge, for each group.
        group_size: How many variables, in their order, share an allowance: 1 keeps every variable alive whatever the
            data need, the number of latents lets them divide it.

    Raises:
        ConfigError: If a group has no variable.

    >>> FreeBits(nats=0.25)
    FreeBits(nats=0.25, group_size=1)
    """

    nats: float = 0.5
    group_size: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.group_size < 1:
            raise ConfigError(f"FreeBits.group_size must be at least 1, got {self.group_size}; 1 is a floor for each")

    def __call__(self, step: Step) -> dict[str, Tensor]:
        groups = torch.split(step.prior.kl(step.posterior, step.z).mean(0), self.group_size)
        missing = [(self.nats - group.sum()).clamp_min(0.0) for group in groups]
        return {"distortion": distortion(step), "rate": rate(step), "free_bits": torch.stack(missing).sum()}

    def rest_variance(self, prior: Prior, count: int = 1) -> Tensor | None:
        """Return where a variable rests that the decoder ignores: nowhere, as nothing holds it within its allowance.

        Args:
            prior: p(z|u) of the inputs.
            count: How many inputs.

        Returns:
            None, or the prior's variance (count, d) where nothing is free.
        """
        return None if self.nats > 0 else super().rest_variance(prior, count)

    def warnings(self, *, steps: int, dataset_size: int) -> list[str]:
        if self.nats:
            return []
        return ["nats = 0 leaves no part of the rate free: set another value or use ELBO."]


class Multiplier(nn.Module):
    """What GECO remembers from step to step: the multiplier, the moving average, and the batch not yet in them.

    All are buffers, so that a checkpoint carries them. A step is folded in when the next one is priced, which makes
    the price of a step the same however often it is asked for.

    Args:
        start: The multiplier before the first step.
    """

    multiplier: Tensor
    average: Tensor
    latest: Tensor
    number: Tensor
    folded: Tensor

    def __init__(self, *, start: float) -> None:
        super().__init__()
        for name, value in (("multiplier", start), ("average", 0.0), ("latest", 0.0), ("number", -1), ("folded", 0)):
            self.register_buffer(name, torch.tensor(value))


@register(
    "objective",
    title="GECO",
    summary="the least rate that keeps the error within a bound",
    symbol="κ",
    strength=("kappa",),
    references=("Rezende2018",),
    example=({}, {"cap": 0.5}, {"constraint": "distortion"}),
)
@dataclass(frozen=True, kw_only=True)
class GECO(Objective):
    """Minimise the rate under the constraint that the error is at most kappa^2.

    loss = rate + lambda C, C = E|x - E[x|z]|^2 - kappa^2  [Rezende2018, algorithm 1]
    C_average <- alpha C_average + (1 - alpha) C,  lambda <- lambda exp(nu C_average / kappa^2)

    The value of C is the moving average, its gradient that of the batch. The paper leaves nu C unbounded; here C is
    divided by kappa^2 and held in [-1, 1] in the update of lambda, and lambda stays below `cap` where one is given: a
    target out of reach would drive it up for ever, and the rate with it. At the optimum 1 / (2 lambda) is the decoder
    variance the constraint amounts to. An unused variable rests at the prior: its rate alone is left, weighed by 1.

    Args:
        kappa: The distance that is allowed: kappa^2 is summed over the values of an image.
        alpha: The weight of the past in the moving average.
        nu: How fast the multiplier follows.
        start: The multiplier lambda before the first step.
        cap: The largest multiplier, if there shall be one.
        constraint: What is held below kappa^2: the squared error, or -log p(x|z) in nats ("distortion"), for
            likelihoods other than Gaussian.

    Raises:
        ConfigError: If kappa, start or cap is not positive, or alpha is not below 1.

    >>> GECO(kappa=2.0, cap=10.0).alpha
    0.99
    """

    kappa: float = 1.0
    alpha: float = 0.99
    nu: float = 0.01
    start: float = 1.0
    cap: float | None = None
    constraint: Literal["squared_error", "distortion"] = "squared_error"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("kappa", "start", "cap"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"GECO.{name} must be positive, got {value}")
        if not self.alpha < 1:
            raise ConfigError(f"GECO.alpha must be below 1, got {self.alpha}; 0.99 is the paper's")

    def __call__(self, step: Step) -> dict[str, Tensor]:
        memory = step.memory
        if not isinstance(memory, Multiplier):
            raise ConfigError(
                "expected GECO's memory in the step, got none; build it with objective.memory() and pass it to "
                "take_step"
            )
        error = distortion(step) if self.constraint == "distortion" else squared_error(step)
        self._fold(memory, step.number)
        memory.latest.copy_(error.detach() - self.kappa**2)
        weight = memory.multiplier.clone()
        constraint = weight * (self._average(memory) - error.detach())
        return {"distortion": weight * error, "rate": rate(step), "constraint": constraint}

    def memory(self) -> Multiplier:
        return Multiplier(start=self.start if self.cap is None else min(self.start, self.cap))

    def _average(self, memory: Multiplier) -> Tensor:
        mixed = self.alpha * memory.average + (1 - self.alpha) * memory.latest
        return torch.where(memory.folded == 0, memory.latest, mixed)

    def _fold(self, memory: Multiplier, number: int) -> None:
        """Take in the step before this one, once."""
        # Decided where the numbers lie: reading them would make a GPU wait at every step.
        new = (memory.number >= 0) & (memory.number != number)
        memory.average.copy_(torch.where(new, self._average(memory), memory.average))
        memory.folded += new
        grown = memory.multiplier * (self.nu * (memory.average / self.kappa**2).clamp(-1.0, 1.0)).exp()
        grown = grown if self.cap is None else grown.clamp_max(self.cap)
        memory.multiplier.copy_(torch.where(new, grown, memory.multiplier))
        memory.number.fill_(number)


@register(
    "objective",
    title="sigma-VAE",
    summary="the decoder's variance at its best",
    strength=(),
    references=("Rybkin2021",),
    example=({}, {"warm_up": 10}),
)
@dataclass(frozen=True, kw_only=True)
class SigmaVAE(Objective):
    """Give the Gaussian decoder one variance for all values and images: the best for each batch, or a learned one.

    loss = D/2 log(2 pi s) + E|x - E[x|z]|^2 / 2s + w rate, s = E|x - E[x|z]|^2 / D  [Rybkin2021, eq. 5]

    At that s the gradient is that of D/2 log s alone. An unused variable rests at the prior: its rate alone is left.

    Args:
        sigma: Whether s is the best for each batch, or trained beside the weights; then it is that of the likelihood
            {name: Gaussian, scale: shared}, and it follows a learning rate that is slow where it starts far from its
            optimum.
        warm_up: Steps over which the weight w of the rate rises linearly from 0 to 1.
        floor: The smallest share of the batch's mean variance that s may be: data without noise would draw it to 0 and
            the bound to infinity.

    >>> SigmaVAE(warm_up=1000)
    SigmaVAE(sigma='optimal', warm_up=1000, floor=0.001)
    """

    sigma: Literal["optimal", "learned"] = "optimal"
    warm_up: int = 0
    floor: float = 1e-3

    def __call__(self, step: Step) -> dict[str, Tensor]:
        weight = level(step.number, step.steps, length=self.warm_up)
        return {"distortion": self._distortion(step), "rate": weight * rate(step)}

    def _distortion(self, step: Step) -> Tensor:
        if self.sigma == "learned":
            if not (isinstance(step.likelihood, Gaussian) and step.likelihood.scale == "shared"):
                raise ConfigError(
                    'SigmaVAE with sigma="learned" needs a likelihood with one trained variance; '
                    "set {name: Gaussian, scale: shared} as the model's likelihood"
                )
            return distortion(step)
        error, size = squared_error(step), step.x[0].numel()
        of_data = step.x.flatten(1).var(0, unbiased=False).mean()
        variance = torch.maximum((error / size).detach(), self.floor * of_data).clamp_min(1e-12)
        return 0.5 * (size * (LOG_TWO_PI + variance.log()) + error / variance)

    def warnings(self, *, steps: int, dataset_size: int) -> list[str]:
        if steps >= self.warm_up:
            return []
        reached = level(steps, steps, length=self.warm_up)
        return [
            f"the weight of the rate reaches {reached:.3g} of 1 in this run: its schedule takes {self.warm_up} steps, "
            f"the run {steps}."
        ]


def squared_error(step: Step) -> Tensor:
    """Return E|x - E[x|z]|^2, summed over values.

    Args:
        step: The step.

    Returns:
        The mean over the batch.
    """
    return ((step.x - step.likelihood.mean(step.outputs)) ** 2).flatten(1).sum(1).mean()
