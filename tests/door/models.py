"""Small models with planted variables: 0 and 1 carry the input, 2 and 3 are dead."""

import copy

import numpy as np
import torch
from torch import nn

LIVE, DEAD = [0, 1], [2, 3]
INPUTS = np.random.default_rng(0).normal(size=(600, 6)).astype(np.float32)
LABELS = (INPUTS[:, 0] > 0).astype(np.int64)
IMAGES = np.random.default_rng(1).uniform(size=(96, 3, 16, 16)).astype(np.float32)


class Flat(nn.Module):
    """A custom encoder with batch normalisation and dropout, and a decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.drop = nn.BatchNorm1d(6), nn.Dropout(0.5)
        self.fc_mu, self.fc_logvar, self.out = nn.Linear(6, 4), nn.Linear(6, 4), nn.Linear(4, 6)
        planted(self.fc_mu, self.fc_logvar)
        with torch.no_grad():
            self.out.weight.zero_()
            self.out.weight[0, 0] = self.out.weight[1, 1] = 1.0
            self.out.bias.zero_()

    def encode(self, x):
        h = self.drop(self.norm(x))
        return self.fc_mu(h), self.fc_logvar(h)

    def decode(self, z):
        return self.out(z)

    def forward(self, x):
        mu, logvar = self.encode(x)
        return self.decode(mu), mu, logvar


class Grid(nn.Module):
    """A convolutional encoder whose latents are feature maps (n, 4, 8, 8)."""

    def __init__(self) -> None:
        super().__init__()
        self.mean, self.logvar = nn.Conv2d(3, 4, 2, 2), nn.Conv2d(3, 4, 2, 2)
        planted(self.mean, self.logvar)
        with torch.no_grad():
            self.mean.weight[:2] *= 8
            self.mean.bias[:2] = -self.mean.weight[:2].sum((1, 2, 3)) / 2

    def forward(self, x):
        return {"mean": self.mean(x), "logvar": self.logvar(x)}


def planted(mean: nn.Module, log_variance: nn.Module) -> None:
    """Let the first two variables carry the input without noise, and the others only noise."""
    torch.manual_seed(0)
    with torch.no_grad():
        mean.weight.normal_()
        mean.weight[2:].zero_()
        mean.bias.zero_()
        log_variance.weight.zero_()
        log_variance.bias.copy_(torch.tensor([-6.0, -6.0, 0.0, 0.0]))
        if isinstance(mean, nn.Linear):
            mean.weight[:2] = torch.eye(6)[:2]


def state(network: nn.Module) -> tuple:
    """The state of a model that must not change."""
    return copy.deepcopy(
        (
            {name: value.clone() for name, value in network.state_dict().items()},
            [module.training for module in network.modules()],
            [p.requires_grad for p in network.parameters()],
            torch.get_rng_state(),
            np.random.get_state()[1],  # noqa: NPY002
        )
    )


def same_state(first: tuple, second: tuple) -> bool:
    return (
        all(torch.equal(first[0][name], second[0][name]) for name in first[0])
        and first[1:3] == second[1:3]
        and torch.equal(first[3], second[3])
        and bool((first[4] == second[4]).all())
    )
