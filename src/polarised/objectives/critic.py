"""The density-ratio trick: a critic that tells codes from shuffled codes, and the two terms it gives.

One loss trains both sides: `density_ratio` holds the critic still and `critic_loss` the codes, so each gradient goes
its own way and the sum of the terms needs a single backward.
"""

from itertools import chain, pairwise

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import log_softmax

from polarised.errors import ConfigError
from polarised.models.networks import glorot
from polarised.objectives.step import Step

__all__ = ["critic_loss", "critic_network", "density_ratio", "shuffled"]


def critic_network(latents: int, *, layers: int, width: int) -> nn.Module:
    """Return the classifier of codes (logit 0) and shuffled codes (logit 1), leaky ReLU of slope 0.2 [Kim2018].

    >>> sum(p.numel() for p in critic_network(10, layers=6, width=1000).parameters())
    5018002
    """
    widths = [latents, *[width] * layers]
    hidden = chain.from_iterable((nn.Linear(a, b), nn.LeakyReLU(0.2, inplace=True)) for a, b in pairwise(widths))
    critic = nn.Sequential(*hidden, nn.Linear(widths[-1], 2))
    glorot(critic)
    return critic


def shuffled(z: Tensor, generator: torch.Generator | None) -> Tensor:
    """Shuffle every variable over the batch on its own: a sample of prod_j q(z_j) [Kim2018, algorithm 1].

    >>> z = torch.arange(6.0).reshape(3, 2)
    >>> shuffled(z, torch.Generator().manual_seed(0)).sort(0).values.equal(z)
    True
    """
    order = torch.rand(z.shape, generator=generator, device=z.device).argsort(0)
    return z.gather(0, order)


def density_ratio(step: Step) -> Tensor:
    """Return E[log D(z) / (1 - D(z))], the critic's estimate of the total correlation [Kim2018, eq. 3].

    The critic's weights are constants here: the gradient goes to the encoder alone.
    """
    critic = _of(step)
    frozen = {name: weight.detach() for name, weight in critic.named_parameters()}
    logits: Tensor = functional_call(critic, frozen, (step.z,))
    return (logits[:, 0] - logits[:, 1]).mean()


def critic_loss(step: Step, *, clip: float = 0.0) -> Tensor:
    """Return the critic's cross-entropy between codes (class 0) and shuffled codes (class 1) [Kim2018, algorithm 2].

    The codes are constants here: the gradient goes to the critic alone. `clip` keeps its probabilities in
    [clip, 1 - clip], beyond which they have no gradient.
    """
    z = step.z.detach()
    log_p: Tensor = log_softmax(_of(step)(torch.cat([z, shuffled(z, step.generator)])), dim=1)
    if clip:
        log_p = log_p.exp().clamp(clip, 1 - clip).log()
    return -0.5 * (log_p[: len(z), 0].mean() + log_p[len(z) :, 1].mean())


def _of(step: Step) -> nn.Module:
    if step.critic is None:
        raise ConfigError(
            "expected a critic in the step, got none; build it with objective.critic(latents) and pass it to take_step"
        )
    return step.critic
