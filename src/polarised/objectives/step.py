"""The data of one training step, and the interface of an objective."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Literal

import torch
from torch import Tensor, nn

from polarised.errors import ConfigError
from polarised.models._dense_pass import DensePass
from polarised.models.distributions import DiagonalGaussian, Prior
from polarised.models.likelihoods import Likelihood
from polarised.models.vae import VAE

__all__ = ["Objective", "Precision", "Step", "take_step"]

Precision = Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class Step:
    """One forward pass: the batch, its posterior, one sample z from it, and the output of the decoder for z.

    `prior` is already p(z|u). `generator` provides every further random draw of the objective, which is therefore
    a pure function of (seed, step number). `steps` is the length of the run, to which shares refer;
    `memory` is the state of the objective between steps, if it has one.

    Args:
        x: The images, (B, *shape).
        u: Their auxiliary variables, (B, k), or None.
        posterior: q(z|x, u).
        z: One sample of it for each image, (B, d).
        outputs: The output of the decoder for z.
        prior: p(z|u) of this batch.
        likelihood: The likelihood that interprets the outputs.
        number: The number of the step, from 0.
        dataset_size: The number of images in the dataset.
        steps: The length of the run.
        generator: The source of every further random draw of the objective.
        critic: The network that the objective trains with the VAE, if it has one.
        memory: The state of the objective between steps, if it has one.
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
    steps: int = 0
    generator: torch.Generator | None = None
    critic: nn.Module | None = None
    memory: nn.Module | None = None


def take_step(
    vae: VAE,
    x: Tensor,
    u: Tensor | None = None,
    *,
    number: int = 0,
    dataset_size: int,
    steps: int = 0,
    generator: torch.Generator | None = None,
    critic: nn.Module | None = None,
    memory: nn.Module | None = None,
    noise: Tensor | None = None,
    precision: Precision = "float32",
    plan: DensePass | None = None,
) -> Step:
    """Run encoder, sampler and decoder once: the forward pass shared by all objectives.

    Args:
        vae: The model.
        x: The images, (B, *shape).
        u: Their auxiliary variables, (B, k), or None.
        number: The number of the step, from 0.
        dataset_size: The number of images in the dataset.
        steps: The length of the run.
        generator: The source of random numbers; the default one of torch if None.
        critic: The network that the objective trains with the VAE, if it has one.
        memory: The state of the objective between steps, if it has one.
        noise: The noise of the sample; drawn if None.
        precision: "bfloat16" runs the layers of the two networks in it; weights, posterior, sample and all terms of the
            loss keep their precision.
        plan: The pass of a model with dense networks, in single precision and without u, for objectives that do not
            differentiate inside a step: after the backward pass of the terms, its `backward` adds the gradients of the
            weights.

    Returns:
        The step.

    >>> from polarised.models import build_vae
    >>> vae = build_vae({"architecture": "mlp", "latents": 3}, shape=(1, 16, 16))
    >>> tuple(take_step(vae, torch.zeros(2, 1, 16, 16), dataset_size=2).z.shape)
    (2, 3)
    """
    if plan is not None:
        posterior, z, outputs = plan.run(x, generator, noise)
    elif precision == "float32":
        posterior = vae.posterior(x, u)
        z = posterior.sample(generator, noise)
        outputs = vae.decode(z)
    else:
        layers = torch.autocast(x.device.type, torch.bfloat16)
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
        steps=steps,
        generator=generator,
        critic=critic,
        memory=memory,
    )


class Objective(ABC):
    """The extension point: a frozen dataclass with a paper's symbols as fields that returns the loss of a step.

    A call returns named scalar terms in nats, summed over pixels and latents and averaged over images; the loss is
    their sum, and the log has a column for each. An objective with a critic also has the fields
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
        """Return the network that this objective trains with the VAE, if it needs one.

        Args:
            latents: The number of latent variables.

        Returns:
            The network, or None.
        """
        return None

    def memory(self) -> nn.Module | None:
        """Return the state of this objective between steps, as buffers of a module that a checkpoint saves.

        Returns:
            The module, or None.
        """
        return None

    def rest_variance(self, prior: Prior, count: int = 1) -> Tensor | None:
        """Return the posterior variance at which a variable rests that the decoder ignores.

        The loss of such a variable is only its rate and the terms that the objective adds. Without such terms
        it rests at the Gaussian nearest to the prior, argmin_s KL(N(m, s) || p). None if the loss does not determine
        the variance.

        Args:
            prior: p(z|u) of the inputs.
            count: The number of inputs.

        Returns:
            The variances, (count, d), or None if the loss does not determine them.
        """
        return prior.rest_variance(count)

    def warnings(self, *, steps: int, dataset_size: int) -> list[str]:
        """Return one sentence for every setting that has no effect, or not its full effect, in this run.

        Args:
            steps: The length of the run.
            dataset_size: The number of images in the dataset.

        Returns:
            One sentence for each such setting.
        """
        return []
