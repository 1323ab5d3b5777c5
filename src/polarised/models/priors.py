"""p(z|u): what the latent variables are before an image is seen. A page: `__all__` is the catalogue of priors.

Every entry is called with the number of latents and of auxiliary variables.
"""

from abc import ABC, abstractmethod
from typing import Self

import torch
from torch import Tensor, nn

from polarised.models.posteriors import DiagonalGaussian

__all__ = ["StandardNormal"]


class Prior(nn.Module, ABC):
    """The plug point: a distribution over the latent variables.

    `factorised`: p(z) is a product over variables; `exchangeable`: permuting variables leaves p(z) unchanged;
    `conditional`: p depends on u.
    """

    factorised: bool = True
    exchangeable: bool = True
    conditional: bool = False

    def __init__(self, latents: int) -> None:
        super().__init__()
        self.latents = latents

    @abstractmethod
    def log_prob(self, z: Tensor) -> Tensor:
        """Return log p(z), shape (B,)."""

    @abstractmethod
    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw n codes, shape (n, d)."""

    @abstractmethod
    def moments(self, n: int) -> tuple[Tensor, Tensor]:
        """Return mean and variance, each (n, d), of the Gaussian a posterior that ignores its input settles on.

        It is argmin_q KL(q || p) over Gaussians q: for a Gaussian prior the prior itself.
        """

    @abstractmethod
    def kept(self, keep: list[int]) -> "Prior":
        """Return the prior of the variables in `keep` alone."""

    def kl(self, posterior: DiagonalGaussian, z: Tensor) -> Tensor:
        """Return KL(q(z|x) || p), shape (B, d) where p is factorised, else (B, 1).

        Without a closed form it is log q(z|x) - log p(z) at the step's own sample z.
        """
        return (posterior.log_prob(z).sum(1) - self.log_prob(z))[:, None]

    def given(self, u: Tensor | None) -> Self:
        """Return p(z|u); an unconditional prior is its own."""
        return self


class StandardNormal(Prior):
    """Place p(z) = N(0, I) on the codes [Kingma2014, section 2.3].

    >>> prior = StandardNormal(2, 0)
    >>> prior.kl(DiagonalGaussian(torch.ones(1, 2), torch.zeros(1, 2)), torch.zeros(1, 2)).tolist()
    [[0.5, 0.5]]
    """

    def __init__(self, latents: int, auxiliary_size: int = 0) -> None:
        super().__init__(latents)

    def log_prob(self, z: Tensor) -> Tensor:  # noqa: D102
        return DiagonalGaussian(torch.zeros_like(z), torch.zeros_like(z)).log_prob(z).sum(1)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:  # noqa: D102
        return torch.randn(n, self.latents, generator=generator)

    def kl(self, posterior: DiagonalGaussian, z: Tensor) -> Tensor:  # noqa: D102
        return 0.5 * (posterior.mean**2 + posterior.variance - 1 - posterior.log_variance)

    def moments(self, n: int) -> tuple[Tensor, Tensor]:  # noqa: D102
        return torch.zeros(n, self.latents), torch.ones(n, self.latents)

    def kept(self, keep: list[int]) -> "StandardNormal":  # noqa: D102
        return StandardNormal(len(keep))
