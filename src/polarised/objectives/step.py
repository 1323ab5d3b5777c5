"""Everything one training step knows, and what an objective is."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Literal

import torch
from torch import Tensor, nn

from polarised.errors import ConfigError
from polarised.models.likelihoods import Likelihood
from polarised.models.posteriors import DiagonalGaussian
from polarised.models.priors import Prior
from polarised.models.vae import VAE

__all__ = ["Objective", "Precision", "Step", "take_step"]

Precision = Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class Step:
    """Hold one forward pass: the batch, its posterior, one sample z of it, and what the decoder makes of z.

    `prior` is p(z|u) already; `generator` serves every further draw of the objective, which so is
    a pure function of (seed, step number).
    """

    x: Tensor
    u: Tensor | None
    posterior: DiagonalGaussian
    z: Tensor
    outputs: Tensor
    prior: Prior
    likelihood: Likelihood
    number: int
    dataset_size: int
    generator: torch.Generator | None = None
    critic: nn.Module | None = None


def take_step(
    vae: VAE,
    x: Tensor,
    u: Tensor | None = None,
    *,
    number: int = 0,
    dataset_size: int,
    generator: torch.Generator | None = None,
    critic: nn.Module | None = None,
    noise: Tensor | None = None,
    precision: Precision = "float32",
) -> Step:
    """Run encoder, sampler and decoder once: the one forward pass of every objective.

    With `precision` "bfloat16" the layers of the two networks multiply in it; weights, posterior, sample and every
    term of the loss stay as they are.

    >>> from polarised.models import build_vae
    >>> vae = build_vae({"architecture": "mlp", "latents": 3}, shape=(1, 16, 16))
    >>> tuple(take_step(vae, torch.zeros(2, 1, 16, 16), dataset_size=2).z.shape)
    (2, 3)
    """
    layers = torch.autocast(x.device.type, torch.bfloat16, enabled=precision == "bfloat16")
    with layers:
        posterior = vae.posterior(x, u)
    posterior = DiagonalGaussian(posterior.mean.to(x.dtype), posterior.log_variance.to(x.dtype))
    z = posterior.sample(generator, noise)
    with layers:
        outputs = vae.decode(z).to(x.dtype)
    return Step(
        x=x,
        u=u,
        posterior=posterior,
        z=z,
        outputs=outputs,
        prior=vae.prior.given(u),
        likelihood=vae.likelihood,
        number=number,
        dataset_size=dataset_size,
        generator=generator,
        critic=critic,
    )


class Objective(ABC):
    """The plug point: a frozen dataclass whose fields are a paper's symbols and whose call prices a step.

    The call returns named scalar terms in nats, summed over pixels and latents and averaged over images; the loss
    is their sum, and the log has a column for each. An objective with a critic also has the fields
    `critic_learning_rate` and `critic_betas`.
    """

    def __post_init__(self) -> None:
        for setting in fields(self):  # type: ignore[arg-type]
            value, signed = getattr(self, setting.name), setting.metadata.get("may_be_negative", False)
            if isinstance(value, int | float) and not (math.isfinite(value) and (value >= 0 or signed)):
                wanted = "finite" if signed else "finite and not negative"
                raise ConfigError(f"{type(self).__name__}.{setting.name} must be {wanted}, got {value}")

    @abstractmethod
    def __call__(self, step: Step) -> dict[str, Tensor]:
        """Return the named terms of the loss."""

    def critic(self, latents: int) -> nn.Module | None:
        """Return the network this objective trains beside the VAE, if it needs one."""
        return None

    def rest_variance(self, prior: Prior, count: int = 1) -> Tensor | None:
        """Return the posterior variance at which a variable rests that the decoder ignores, (count, d).

        `prior` is p(z|u) of `count` inputs. Of such a variable only the rate is left, and what the objective adds to
        it: unless that moves it, it rests on the Gaussian nearest to the prior, argmin_s KL(N(m, s) || p). None where
        nothing holds it.
        """
        return prior.moments(count)[1]

    def warnings(self, *, steps: int, dataset_size: int) -> list[str]:
        """Return one sentence for every setting that cannot do in this run what it promises."""
        return []
