"""Priors that are mixtures: of two widths in every variable, or of places in the space of codes."""

# ruff: noqa: D102 (the abstract class documents the methods)
import functools
import math

import torch
from torch import Tensor

from polarised.errors import ConfigError
from polarised.models.posteriors import LOG_TWO_PI, DiagonalGaussian
from polarised.models.priors.prior import (
    Compatibility,
    Prior,
    device_of,
    nearest_gaussian_variance,
    normal,
    uniform,
)
from polarised.registry import register

__all__ = ["GaussianMixture", "Sparse"]


@register("prior")
class Sparse(Prior):
    """Place p(z) = prod_j (1 - gamma) N(0, 1) + gamma N(0, width^2): mostly off, seldom on [Mathieu2019, appendix B].

    `width` is a standard deviation, 0.05 as in the paper's appendix and code (its main text says variance).

    >>> spike, slab = Sparse(1, gamma=1.0), Sparse(1, gamma=0.0)
    >>> round((spike.log_prob(torch.zeros(1, 1)) - slab.log_prob(torch.zeros(1, 1))).exp().item(), 3)
    20.0
    """

    def __init__(self, latents: int, auxiliary_size: int = 0, *, gamma: float = 0.8, width: float = 0.05) -> None:
        super().__init__(latents)
        if not (0 <= gamma <= 1 and width > 0):
            raise ConfigError(f"Sparse needs gamma in [0, 1] and a positive width, got gamma {gamma} and width {width}")
        self.gamma, self.width = gamma, width

    def log_density(self, z: Tensor) -> Tensor:
        log_weights, widths = _slabs(self.gamma, self.width, z.dtype, z.device)
        parts = -0.5 * ((z[..., None] / widths) ** 2 + LOG_TWO_PI) - widths.log()
        return torch.logsumexp(parts + log_weights, dim=-1)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        off = uniform(n, self.latents, generator) < self.gamma
        return normal(n, self.latents, generator) * torch.where(off, self.width, 1.0)

    def moments(self, n: int) -> tuple[Tensor, Tensor]:
        variance = nearest_gaussian_variance(self.log_density)
        return torch.zeros(n, self.latents), torch.full((n, self.latents), variance)

    def deviation(self, n: int) -> Tensor:
        return torch.full((n, self.latents), math.sqrt(1 - self.gamma + self.gamma * self.width**2))

    def kept(self, keep: list[int]) -> "Sparse":
        return Sparse(len(keep), gamma=self.gamma, width=self.width)


@register("prior")
class GaussianMixture(Prior):
    """Place p(z) = mean_c N(z; mean_c, variance I) on the codes [Mathieu2019, eq. 9].

    By default the pinwheel's cross: means (0, -1), (0, 1), (1, 0), (-1, 0) in the first two variables, variance
    0.03. `compatibility="released-code"` counts log p(z) once for each latent in the KL, as that code does.

    >>> round(GaussianMixture(2).log_prob(torch.tensor([[0.0, 1.0]])).item(), 3)
    0.282
    """

    factorised = False
    exchangeable = False

    def __init__(
        self,
        latents: int,
        auxiliary_size: int = 0,
        *,
        means: tuple[tuple[float, ...], ...] | None = None,
        variance: float = 0.03,
        compatibility: Compatibility = "none",
    ) -> None:
        super().__init__(latents)
        if not variance > 0 or (means is not None and {len(mean) for mean in means} != {latents}):
            raise ConfigError(
                f"GaussianMixture needs a positive variance and means of {latents} numbers each, one a latent, "
                f"got variance {variance} and means {means}"
            )
        self.variance, self.compatibility = variance, compatibility
        cross = torch.zeros(4, max(latents, 2))
        cross[:, :2] = torch.tensor([[0.0, -1.0], [0.0, 1.0], [1.0, 0.0], [-1.0, 0.0]])
        self.register_buffer("means", cross[:, :latents] if means is None else torch.tensor(means, dtype=cross.dtype))
        self.means: Tensor

    def log_density(self, z: Tensor) -> Tensor:
        squared = ((z[:, None] - self.means) ** 2).sum(2)
        each = -0.5 * (squared / self.variance + self.latents * math.log(2 * math.pi * self.variance))
        return torch.logsumexp(each, dim=1, keepdim=True) - math.log(len(self.means))

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        source = device_of(generator, self.means)
        chosen = torch.randint(len(self.means), (n,), generator=generator, device=source).to(self.means.device)
        return self.means[chosen] + math.sqrt(self.variance) * normal(n, self.latents, generator, self.means)

    def kl(self, posterior: DiagonalGaussian, z: Tensor) -> Tensor:
        count = self.latents if self.compatibility == "released-code" else 1
        return posterior.log_prob(z).sum(1, keepdim=True) - count * self.log_density(z)

    def moments(self, n: int) -> tuple[Tensor, Tensor]:
        """Return mean and variance of the mixture itself: its nearest Gaussian would be any one of the components."""
        variance = self.means.var(0, unbiased=False) + self.variance
        return self.means.mean(0).expand(n, -1), variance.expand(n, -1)

    def kept(self, keep: list[int]) -> "GaussianMixture":
        means = tuple(tuple(row) for row in self.means[:, keep].tolist())
        return GaussianMixture(len(keep), means=means, variance=self.variance, compatibility=self.compatibility)


@functools.lru_cache(maxsize=16)
def _slabs(gamma: float, width: float, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the log-weights and widths of slab and spike, brought to a device once and not at every step."""
    # Ordinary tensors wherever the first call comes from: those of inference mode could not be trained with.
    with torch.inference_mode(False):
        weights = torch.tensor([1 - gamma, gamma], dtype=dtype, device=device)
        return weights.log(), torch.tensor([1.0, width], dtype=dtype, device=device)
