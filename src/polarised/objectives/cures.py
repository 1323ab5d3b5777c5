"""Objectives against posterior collapse: a minimum rate, a target error, the optimal decoder variance.

Rate and distortion are defined as in `papers`.
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
    summary="the first nats of the rate of each group are free",
    symbol="λ",
    strength=("nats",),
    references=("Kingma2016",),
    example=({}, {"nats": 100.0}, {"group_size": 4}),
    neutral=({"nats": 0.0},),
)
@dataclass(frozen=True, kw_only=True)
class FreeBits(Objective):
    """Exempt the first `nats` of the rate of every group of variables from the loss.

    loss = distortion + sum_groups max(nats, E[KL of the group])  [Kingma2016, appendix C.8]

    The mean over the batch is taken before the maximum, as in the released code. The term "rate" is the actual rate;
    "free_bits" is what the minimum adds to it. Under a prior that does not factorise, all variables form one group.
    An unused variable rests nowhere: below the minimum, all posteriors have the same loss.

    Args:
        nats: The rate that is free, for each group.
        group_size: The number of consecutive variables that share a minimum: 1 keeps every variable alive, whether the
            data need it or not; the number of latents lets the variables divide one minimum among them.

    Raises:
        ConfigError: If `group_size` is below 1.

    >>> FreeBits(nats=0.25)
    FreeBits(nats=0.25, group_size=1)
    """

    nats: float = 0.5
    group_size: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.group_size < 1:
            raise ConfigError(f"FreeBits.group_size must be at least 1, got {self.group_size}; use 1 or more")

    def __call__(self, step: Step) -> dict[str, Tensor]:
        groups = torch.split(step.prior.kl(step.posterior, step.z).mean(0), self.group_size)
        missing = [(self.nats - group.sum()).clamp_min(0.0) for group in groups]
        return {"distortion": distortion(step), "rate": rate(step), "free_bits": torch.stack(missing).sum()}

    def rest_variance(self, prior: Prior, count: int = 1) -> Tensor | None:
        """Return the variance at rest of a variable that the decoder ignores: None, as the free rate fixes no value.

        Args:
            prior: p(z|u) of the inputs.
            count: The number of inputs.

        Returns:
            None, or the prior's variance (count, d) if `nats` is 0.
        """
        return None if self.nats > 0 else super().rest_variance(prior, count)

    def warnings(self, *, steps: int, dataset_size: int) -> list[str]:
        if self.nats:
            return []
        return ["nats = 0 leaves no part of the rate free: set another value or use ELBO."]


class Multiplier(nn.Module):
    """The state of GECO between steps: the multiplier, the moving average, and the last batch, not yet included.

    All are buffers, so that a checkpoint contains them. A step is included when the loss of the next one is computed,
    so the loss of a step is the same however often it is evaluated.

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
    summary="the smallest rate that keeps the error within a bound",
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

    The value of C is the moving average, its gradient that of the batch. In the paper nu C is unbounded; here C is
    divided by kappa^2 and clipped to [-1, 1] in the update of lambda, and lambda stays below `cap` if one is given: a
    target that cannot be reached would otherwise increase it without limit. At the optimum, 1 / (2 lambda) is the
    decoder variance equivalent to the constraint. An unused variable rests at the prior: only its rate remains, with
    weight 1.

    Args:
        kappa: The tolerated distance: kappa^2 is summed over the values of an image.
        alpha: The weight of the past in the moving average.
        nu: The rate at which the multiplier changes.
        start: The multiplier lambda before the first step.
        cap: The maximum of the multiplier; None for no maximum.
        constraint: The quantity held below kappa^2: the squared error, or -log p(x|z) in nats ("distortion"), for
            likelihoods that are not Gaussian.

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
            raise ConfigError(f"GECO.alpha must be below 1, got {self.alpha}; the paper uses 0.99")

    def __call__(self, step: Step) -> dict[str, Tensor]:
        memory = step.memory
        if not isinstance(memory, Multiplier):
            raise ConfigError(
                "expected GECO's memory in the step, got none; create it with objective.memory() and pass it to "
                "take_step"
            )
        error = distortion(step) if self.constraint == "distortion" else squared_error(step)
        self._include(memory, step.number)
        memory.latest.copy_(error.detach() - self.kappa**2)
        weight = memory.multiplier.clone()
        constraint = weight * (self._average(memory) - error.detach())
        return {"distortion": weight * error, "rate": rate(step), "constraint": constraint}

    def memory(self) -> Multiplier:
        return Multiplier(start=self.start if self.cap is None else min(self.start, self.cap))

    def _average(self, memory: Multiplier) -> Tensor:
        mixed = self.alpha * memory.average + (1 - self.alpha) * memory.latest
        return torch.where(memory.folded == 0, memory.latest, mixed)

    def _include(self, memory: Multiplier, number: int) -> None:
        """Include the previous step, once."""
        # Decided on the device: reading the values would make a GPU wait at every step.
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
    summary="the optimal variance of the decoder",
    strength=(),
    references=("Rybkin2021",),
    example=({}, {"warm_up": 10}),
)
@dataclass(frozen=True, kw_only=True)
class SigmaVAE(Objective):
    """Use one variance of the Gaussian decoder for all values and images: the optimum of each batch, or a learned one.

    loss = D/2 log(2 pi s) + E|x - E[x|z]|^2 / 2s + w rate, s = E|x - E[x|z]|^2 / D  [Rybkin2021, eq. 5]

    At that s the gradient is that of D/2 log s alone. An unused variable rests at the prior: only its rate remains.

    Args:
        sigma: Whether s is the optimum of each batch, or trained with the weights; in that case it is the variance of
            the likelihood {name: Gaussian, scale: shared}, and it adapts slowly if it starts far from its optimum.
        warm_up: Steps over which the weight w of the rate rises linearly from 0 to 1.
        floor: The minimum of s as a share of the mean variance of the batch: without it, data without noise would drive
            s to 0 and the bound to infinity.

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
                    "set {name: Gaussian, scale: shared} as the likelihood of the model"
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
            f"the weight of the rate reaches {reached:.3g} of 1 in this run: its warm-up takes {self.warm_up} steps, "
            f"the run {steps}."
        ]


def squared_error(step: Step) -> Tensor:
    """Return E|x - E[x|z]|^2, summed over the values of an image.

    Args:
        step: The step.

    Returns:
        The mean over the batch.
    """
    return ((step.x - step.likelihood.mean(step.outputs)) ** 2).flatten(1).sum(1).mean()
