"""What the encoder says about one image: a distribution over the latent variables."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["DiagonalGaussian"]

LOG_TWO_PI = math.log(2 * math.pi)


@dataclass(frozen=True)
class DiagonalGaussian:
    """Hold q(z|x) = N(mean, diag(variance)) of a batch, shape (B, d) [Kingma2014, appendix C].

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
            generator: The source of the noise; torch's own if none.
            noise: The noise itself, where it is given.

        Returns:
            One sample for each row.

        >>> DiagonalGaussian(torch.ones(1, 2), torch.zeros(1, 2)).sample(noise=torch.ones(1, 2)).tolist()
        [[2.0, 2.0]]
        """
        if noise is None:
            # A generator draws where it lives, which need not be where the model is.
            source = self.mean.device if generator is None else generator.device
            noise = torch.randn(self.mean.shape, generator=generator, dtype=self.mean.dtype, device=source)
            noise = noise.to(self.mean.device)
        return torch.addcmul(self.mean, (self.log_variance / 2).exp(), noise)

    def log_prob(self, z: Tensor) -> Tensor:
        """Return the log-density of every variable.

        Args:
            z: Values of the variables; any shape that broadcasts will do.

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
            other: The distribution to compare with, of a shape that broadcasts.

        Returns:
            The KL of every variable in nats, (B, d).

        >>> narrow = DiagonalGaussian(torch.zeros(1, 1), torch.full((1, 1), -2.0))
        >>> round(narrow.kl(DiagonalGaussian(torch.zeros(1, 1), torch.zeros(1, 1))).item(), 4)
        0.5677
        """
        log_ratio = self.log_variance - other.log_variance
        shift = (self.mean - other.mean) ** 2 * (-other.log_variance).exp()
        return 0.5 * (log_ratio.exp() + shift - 1 - log_ratio)
