"""Distributions over the latent variables: the posterior q(z|x) and the interface of a prior p(z|u)."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor, nn

from polarised.models._fused import sample_gaussian

__all__ = ["DiagonalGaussian", "Prior"]

LOG_TWO_PI = math.log(2 * math.pi)


@dataclass(frozen=True)
class DiagonalGaussian:
    """The posterior q(z|x) = N(mean, diag(variance)) of a batch, shape (B, d) [Kingma2014, appendix C].

    Args:
        mean: The means, (B, d).
        log_variance: The log-variances, (B, d).

    >>> q = DiagonalGaussian(torch.zeros(2, 3), torch.zeros(2, 3))
    >>> q.kl(q).sum().item()
    0.0
    """

    mean: Tensor
    log_variance: Tensor

    @property
    def variance(self) -> Tensor:
        """The variance of every variable, exp(log_variance)."""
        return self.log_variance.exp()

    def sample(self, generator: torch.Generator | None = None, noise: Tensor | None = None) -> Tensor:
        """Draw z = mean + exp(log_variance / 2) noise, differentiable in both [Kingma2014, eq. 4].

        Args:
            generator: The source of the noise; torch's default generator if None.
            noise: The noise itself; drawn if None.

        Returns:
            One sample for each row.

        >>> DiagonalGaussian(torch.ones(1, 2), torch.zeros(1, 2)).sample(noise=torch.ones(1, 2)).tolist()
        [[2.0, 2.0]]
        """
        if noise is None:
            # A generator draws on its own device, which may differ from that of the model.
            source = self.mean.device if generator is None else generator.device
            noise = torch.randn(self.mean.shape, generator=generator, dtype=self.mean.dtype, device=source)
            noise = noise.to(self.mean.device)
        return sample_gaussian(self.mean, self.log_variance, noise)

    def log_prob(self, z: Tensor) -> Tensor:
        """Return the log-density of every variable.

        Args:
            z: Values of the variables, of a broadcastable shape.

        Returns:
            log q(z_j|x) of every variable, (B, d).
        """
        return -0.5 * ((z - self.mean) ** 2 * (-self.log_variance).exp() + self.log_variance + LOG_TWO_PI)

    def entropy(self) -> Tensor:
        """Return the entropy of every variable, (1 + log 2 pi + log_variance) / 2.

        Returns:
            The entropy of every variable in nats, (B, d).
        """
        return 0.5 * (1 + LOG_TWO_PI + self.log_variance)

    def kl(self, other: "DiagonalGaussian") -> Tensor:
        """Return KL(self || other) of every variable.

        KL_j = (s/t + (m - n)^2/t - 1 + log t - log s) / 2 with means m, n and variances s, t
        [Bonheme2023iVAE, eq. 4; Kingma2014, appendix B].

        Args:
            other: The distribution to compare with, of a broadcastable shape.

        Returns:
            The KL of every variable in nats, (B, d).

        >>> narrow = DiagonalGaussian(torch.zeros(1, 1), torch.full((1, 1), -2.0))
        >>> round(narrow.kl(DiagonalGaussian(torch.zeros(1, 1), torch.zeros(1, 1))).item(), 4)
        0.5677
        """
        log_ratio = self.log_variance - other.log_variance
        shift = (self.mean - other.mean) ** 2 * (-other.log_variance).exp()
        return 0.5 * (log_ratio.exp() + shift - 1 - log_ratio)


Compatibility = Literal["none", "released-code"]

# Grid for integrals over a Gaussian posterior, in standard deviations: fine enough for `Sparse`.
_NODES = torch.linspace(-6, 6, 241)


class Prior(nn.Module, ABC):
    """The extension point for priors: a distribution over the latent variables.

    `factorised`: p(z) is a product over variables; `exchangeable`: p(z) is invariant under permutations of the
    variables; `conditional`: p depends on u; `gaussian`: every p(z_j|u) is a Gaussian, whose moments `moments` returns.

    Args:
        latents: The number of variables d.
    """

    gaussian: bool = False
    factorised: bool = True
    exchangeable: bool = True
    conditional: bool = False

    def __init__(self, latents: int) -> None:
        super().__init__()
        self.latents = latents

    @property
    def awaits_data(self) -> bool:
        """Whether `fit` must be called before training."""
        return False

    @abstractmethod
    def log_density(self, z: Tensor) -> Tensor:
        """Return the log-density of every variable, or of the whole code if the prior is not factorised.

        Args:
            z: Codes, (B, d).

        Returns:
            log p(z_j), shape (B, d), or log p(z), shape (B, 1).
        """

    @abstractmethod
    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw codes, differentiable in the parameters of the prior.

        Args:
            n: The number of codes.
            generator: The source of random numbers; torch's default generator if None.

        Returns:
            The codes, (n, d).
        """

    @abstractmethod
    def moments(self, n: int) -> tuple[Tensor, Tensor]:
        """Return mean and variance of the Gaussian to which the posterior of a passive variable converges.

        This is argmin_q KL(q || p) over Gaussians q: for a Gaussian prior, the prior itself.

        Args:
            n: The number of rows.

        Returns:
            Mean and variance, each (n, d).
        """

    def rest_variance(self, n: int) -> Tensor:
        """Return the variance at which the rate alone holds a variable: that of `moments` by default.

        Args:
            n: The number of rows.

        Returns:
            The variance of every variable, (n, d).
        """
        return self.moments(n)[1]

    def deviation(self, n: int) -> Tensor:
        """Return the standard deviation of every variable; if it does not exist, that of `moments`.

        Args:
            n: The number of rows.

        Returns:
            The standard deviations, (n, d).
        """
        return self.moments(n)[1].sqrt()

    @abstractmethod
    def kept(self, keep: list[int]) -> "Prior":
        """Return the marginal prior of some variables.

        Args:
            keep: The variables, in their new order.

        Returns:
            A prior of these variables only.
        """

    def log_prob(self, z: Tensor) -> Tensor:
        """Return the log-density of whole codes.

        Args:
            z: Codes, (B, d).

        Returns:
            log p(z), shape (B,).
        """
        return self.log_density(z).sum(1)

    def kl(self, posterior: DiagonalGaussian, z: Tensor) -> Tensor:
        """Return KL(q(z|x) || p) of every image.

        Without a closed form this is log q(z|x) - log p(z) at the sample z of the step, one per image.

        Args:
            posterior: q(z|x) of a batch.
            z: One sample of it for each image, (B, d).

        Returns:
            The KL of every variable, (B, d), or of the whole code, (B, 1), if the prior is not factorised.
        """
        log_q = posterior.log_prob(z)
        return (log_q if self.factorised else log_q.sum(1, keepdim=True)) - self.log_density(z)

    def marginal_kl(self, posterior: DiagonalGaussian) -> Tensor:
        """Return KL(q(z_j|x) || p(z_j)) of every variable separately, by quadrature.

        If the prior is factorised, they sum to the KL.

        Args:
            posterior: q(z|x) of a batch.

        Returns:
            The KL of every variable, (B, d).
        """
        nodes = _NODES.to(posterior.mean)
        places = posterior.sample(noise=nodes[:, None, None]).flatten(0, 1)
        if self.factorised:
            log_density = self.log_density(places)
        else:
            alone = [self.kept([j]).to(places.device) for j in range(self.latents)]
            log_density = torch.cat([p.log_density(places[:, [j]]) for j, p in enumerate(alone)], dim=1)
        weight = torch.softmax(-(nodes**2) / 2, 0)
        expected = torch.einsum("k,kbd->bd", weight, log_density.reshape(len(nodes), -1, self.latents))
        return -posterior.entropy() - expected

    def given(self, u: Tensor | None) -> "Prior":
        """Return p(z|u); an unconditional prior returns itself.

        Args:
            u: The auxiliary variables of a batch, (B, k), or None.

        Returns:
            The prior of that batch.
        """
        return self

    def fit(self, images: Tensor) -> None:
        """Set the parameters that the prior takes from the data before training; most priors have none.

        Args:
            images: A sample of the data, (n, *shape).
        """


def device_of(generator: torch.Generator | None, home: Tensor | None = None) -> torch.device:
    """Return the device on which a generator draws.

    Args:
        generator: The generator, or None.
        home: A tensor whose device is used if there is no generator.

    Returns:
        The device of the generator, else that of `home`, else the CPU.
    """
    if generator is not None:
        return generator.device
    return torch.device("cpu") if home is None else home.device


def normal(n: int, latents: int, generator: torch.Generator | None, home: Tensor | None = None) -> Tensor:
    """Draw N(0, 1) numbers on the device of the generator and copy them to the device of `home`.

    Args:
        n: The number of rows.
        latents: The number of columns.
        generator: The source of random numbers; torch's default generator if None.
        home: A tensor on the device of the result.

    Returns:
        The draws, (n, latents).
    """
    draws = torch.randn(n, latents, generator=generator, device=device_of(generator, home))
    return draws if home is None else draws.to(home.device)


def uniform(n: int, latents: int, generator: torch.Generator | None) -> Tensor:
    """Draw uniform numbers in [0, 1) on the device of the generator.

    Args:
        n: The number of rows.
        latents: The number of columns.
        generator: The source of random numbers; torch's default generator if None.

    Returns:
        The draws, (n, latents).
    """
    return torch.rand(n, latents, generator=generator, device=device_of(generator))


def nearest_gaussian_variance(
    log_density: Callable[[Tensor], Tensor], *, inclusive: tuple[float, float] | None = None
) -> float:
    """Return argmin_s KL(N(0, s) || p) for a symmetric density of one variable, by quadrature.

    Args:
        log_density: Function from values (n, 1) to the log-density of each, (n, 1).
        inclusive: (a, v) with v the variance of p, to minimise KL(N(0, s) || p) + a KL(p || N(0, s)) instead.

    Returns:
        The variance s of the nearest Gaussian.

    >>> round(nearest_gaussian_variance(lambda z: -(z**2) / 8), 4)
    4.0
    """
    noise = torch.linspace(-8, 8, 4001, dtype=torch.float64)
    weight = torch.softmax(-(noise**2) / 2, 0)

    def divergence(log_std: float) -> float:
        own = -log_std - (weight * log_density(noise[:, None] * math.exp(log_std))[:, 0]).sum().item()
        if inclusive is None:
            return own
        share, variance = inclusive
        return own + share * (0.5 * variance * math.exp(-2 * log_std) + log_std)

    grid = np.linspace(math.log(1e-3), math.log(1e2), 101)
    best = int(np.argmin([divergence(log_std) for log_std in grid]))
    bounds = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    return math.exp(2 * float(minimize_scalar(divergence, bounds=bounds, method="bounded").x))
