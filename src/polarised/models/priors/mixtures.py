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


@register(
    "prior",
    summary="every variable mostly near 0, seldom far from it",
    references=("Mathieu2019",),
    example=({}, {"gamma": 0.0}),
)
class Sparse(Prior):
    """Place p(z) = prod_j (1 - gamma) N(0, 1) + gamma N(0, width^2): mostly off, seldom on [Mathieu2019, appendix B].

    Args:
        latents: The number of variables.
        auxiliary_size: The number of auxiliary variables, which this prior ignores.
        gamma: The share of the narrow part: how seldom a variable is used.
        width: The standard deviation of the narrow part, 0.05 as in the paper's appendix and code (its main text says
            variance).

    Raises:
        ConfigError: If gamma is no share, or the width not positive.

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
        log_weights = _constant((1 - self.gamma, self.gamma), z.dtype, z.device).log()
        widths = _constant((1.0, self.width), z.dtype, z.device)
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


@register(
    "prior",
    title="Gaussian mixture",
    summary="equal Gaussians at several places",
    references=("Mathieu2019",),
    example=({}, {"compatibility": "released-code"}),
)
class GaussianMixture(Prior):
    """Place p(z) = sum_c weight_c N(z; mean_c, variance_c I) on the codes [Mathieu2019, eq. 9].

    Args:
        latents: The number of variables.
        auxiliary_size: The number of auxiliary variables, which this prior ignores.
        means: The places; by default the pinwheel's cross: (0, -1), (0, 1), (1, 0), (-1, 0) in the first two variables.
        variance: The variance of each Gaussian in every direction: one number, or one for each component.
        weights: The weight of each component, divided by their sum; equal if none.
        compatibility: "released-code" counts log p(z) once for each latent in the KL, as that code does.

    Raises:
        ConfigError: If the variance is not positive, or a mean has not one number a latent.

    >>> round(GaussianMixture(2).log_prob(torch.tensor([[0.0, 1.0]])).item(), 3)
    0.282
    >>> unequal = GaussianMixture(1, means=((-1.0,), (3.0,)), weights=(3.0, 1.0), variance=(0.5, 2.0))
    >>> [round(moment.item(), 3) for moment in unequal.moments(1)]
    [0.0, 3.875]
    """

    factorised = False
    exchangeable = False

    def __init__(
        self,
        latents: int,
        auxiliary_size: int = 0,
        *,
        means: tuple[tuple[float, ...], ...] | None = None,
        variance: float | tuple[float, ...] = 0.03,
        weights: tuple[float, ...] | None = None,
        compatibility: Compatibility = "none",
    ) -> None:
        super().__init__(latents)
        cross = torch.zeros(4, max(latents, 2))
        cross[:, :2] = torch.tensor([[0.0, -1.0], [0.0, 1.0], [1.0, 0.0], [-1.0, 0.0]])
        count = len(cross) if means is None else len(means)
        variances = (float(variance),) * count if isinstance(variance, int | float) else tuple(variance)
        shares = (1.0,) * count if weights is None else tuple(weights)
        sizes = {latents} if means is None else {len(mean) for mean in means}
        if sizes != {latents} or {len(variances), len(shares)} != {count} or not min(*variances, *shares) > 0:
            raise ConfigError(
                f"GaussianMixture needs means of {latents} numbers, one for each latent, and a positive variance and "
                f"weight for each of them, got variance {variance}, weights {weights} and means {means}"
            )
        self.variances, self.compatibility = variances, compatibility
        self.weights = tuple(share / sum(shares) for share in shares)
        self.register_buffer("means", cross[:, :latents] if means is None else torch.tensor(means, dtype=cross.dtype))
        self.means: Tensor

    def log_density(self, z: Tensor) -> Tensor:
        variances, weights = (_constant(part, z.dtype, z.device) for part in (self.variances, self.weights))
        squared = ((z[:, None] - self.means) ** 2).sum(2)
        each = -0.5 * (squared / variances + self.latents * torch.log(2 * math.pi * variances))
        return torch.logsumexp(each + weights.log(), dim=1, keepdim=True)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        source = device_of(generator, self.means)
        if len(set(self.weights)) == 1:
            chosen = torch.randint(len(self.means), (n,), generator=generator, device=source)
        else:
            weights = _constant(self.weights, self.means.dtype, source)
            chosen = torch.multinomial(weights, n, replacement=True, generator=generator)
        variances = _constant(self.variances, self.means.dtype, self.means.device)
        deviations = variances[chosen.to(self.means.device), None].sqrt()
        places = self.means[chosen.to(self.means.device)]
        return places + deviations * normal(n, self.latents, generator, self.means)

    def kl(self, posterior: DiagonalGaussian, z: Tensor) -> Tensor:
        count = self.latents if self.compatibility == "released-code" else 1
        return posterior.log_prob(z).sum(1, keepdim=True) - count * self.log_density(z)

    def moments(self, n: int) -> tuple[Tensor, Tensor]:
        """Return mean and variance of the mixture itself: its nearest Gaussian would be any one of the components.

        Args:
            n: The number of rows.

        Returns:
            Mean and variance, each (n, d).
        """
        weights, variances = (torch.tensor(part).to(self.means)[:, None] for part in (self.weights, self.variances))
        mean = (weights * self.means).sum(0)
        variance = (weights * (variances + (self.means - mean) ** 2)).sum(0)
        return mean.expand(n, -1), variance.expand(n, -1)

    def rest_variance(self, n: int) -> Tensor:
        # One Gaussian cannot match several places: it settles on the heaviest component, the narrowest of equal ones.
        heaviest = max(zip(self.weights, (-variance for variance in self.variances), strict=True))
        return torch.full((n, self.latents), -heaviest[1]).to(self.means)

    def kept(self, keep: list[int]) -> "GaussianMixture":
        means = tuple(tuple(row) for row in self.means[:, keep].tolist())
        return GaussianMixture(
            len(keep), means=means, variance=self.variances, weights=self.weights, compatibility=self.compatibility
        )


@functools.lru_cache(maxsize=64)
def _constant(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return numbers of a prior as a tensor, brought to a device once and not at every step."""
    # An ordinary tensor wherever the first call comes from: one of inference mode could not be trained with.
    with torch.inference_mode(False):
        return torch.tensor(values, dtype=dtype, device=device)
