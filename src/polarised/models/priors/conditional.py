"""The prior of the iVAE, which knows the auxiliary variables u."""

# ruff: noqa: D102 (the abstract class documents the methods)
from typing import Literal

import torch
from torch import Tensor, nn

from polarised.errors import ConfigError, DataError
from polarised.models.networks import dense, glorot
from polarised.models.posteriors import DiagonalGaussian
from polarised.models.priors.prior import Prior
from polarised.registry import register

__all__ = ["Conditional"]


@register(
    "prior",
    title="conditional normal",
    summary="a Gaussian whose variance, and mean if learned, depends on u",
    needs=("u",),
    references=("Khemakhem2020",),
    example=({}, {"mean": "learned"}),
)
class Conditional(Prior):
    """Place p(z|u) = N(mean(u), diag(variance(u))) on the codes: the prior of the iVAE [Khemakhem2020, eq. 7].

    With a learned mean passive variables move with u, and Theorem 7 of [Bonheme2023BeMoreActive] does not hold for
    them.

    Args:
        latents: The number of variables.
        auxiliary_size: The number of auxiliary variables u.
        widths: Units of the hidden layers (leaky ReLU, slope 0.1) of the network that gives the log-variance.
        mean: "zero", or "learned" by a second network of the same widths.

    Raises:
        ConfigError: If there are no auxiliary variables, or no hidden layer.

    >>> prior = Conditional(30, 5)
    >>> sum(p.numel() for p in prior.parameters())
    6930
    >>> tuple(prior.given(torch.zeros(8, 5)).sample(8).shape)
    (8, 30)
    """

    gaussian = True
    exchangeable = False
    conditional = True

    def __init__(
        self,
        latents: int,
        auxiliary_size: int = 0,
        *,
        widths: tuple[int, ...] = (50, 50, 50),
        mean: Literal["zero", "learned"] = "zero",
    ) -> None:
        super().__init__(latents)
        if not auxiliary_size or not widths:
            raise ConfigError(
                f"the prior Conditional needs auxiliary variables u and a hidden layer, got {auxiliary_size} "
                f"of them and widths {widths}; use a dataset with u (Dataset.with_auxiliary) or StandardNormal"
            )
        self.auxiliary_size, self.widths, self.mean = auxiliary_size, tuple(widths), mean

        def network() -> nn.Sequential:
            hidden = dense(auxiliary_size, *widths, activation="leaky_relu")
            return nn.Sequential(*hidden, nn.Linear(widths[-1], latents))

        self.log_variance_network = network()
        self.mean_network = network() if mean == "learned" else None
        glorot(self)

    def given(self, u: Tensor | None) -> "Prior":
        if u is None or u.ndim != 2 or u.shape[1] != self.auxiliary_size:
            came = "none" if u is None else f"an array of shape {tuple(u.shape)}"
            raise DataError(
                f"expected auxiliary variables u of shape (batch, {self.auxiliary_size}) for the prior Conditional, "
                f"got {came}; pass the u of the batch"
            )
        log_variance = self.log_variance_network(u)
        mean = torch.zeros_like(log_variance) if self.mean_network is None else self.mean_network(u)
        return _Given(DiagonalGaussian(mean, log_variance))

    def log_density(self, z: Tensor) -> Tensor:
        return self.given(None).log_density(z)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        return self.given(None).sample(n, generator)

    def moments(self, n: int) -> tuple[Tensor, Tensor]:
        return self.given(None).moments(n)

    def kept(self, keep: list[int]) -> "Conditional":
        with torch.random.fork_rng(devices=[]):
            smaller = Conditional(len(keep), self.auxiliary_size, widths=self.widths, mean=self.mean)
        state = self.state_dict()
        last = f".{2 * len(self.widths)}."
        smaller.load_state_dict({name: value[keep] if last in name else value for name, value in state.items()})
        return smaller


class _Given(Prior):
    """A conditional prior whose u is known: one Gaussian for each image of the batch."""

    gaussian = True
    exchangeable = False

    def __init__(self, distribution: DiagonalGaussian) -> None:
        super().__init__(distribution.mean.shape[1])
        self.distribution = distribution

    def log_density(self, z: Tensor) -> Tensor:
        return self.distribution.log_prob(z)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        if n != len(self.distribution.mean):
            raise DataError(
                f"expected {len(self.distribution.mean)} draws, one for each row of u, but {n} were asked for; "
                "repeat the rows of u instead"
            )
        return self.distribution.sample(generator)

    def kl(self, posterior: DiagonalGaussian, z: Tensor) -> Tensor:
        return posterior.kl(self.distribution)

    def moments(self, n: int) -> tuple[Tensor, Tensor]:
        return self.distribution.mean, self.distribution.variance

    def kept(self, keep: list[int]) -> "_Given":
        mean, log_variance = self.distribution.mean, self.distribution.log_variance
        return _Given(DiagonalGaussian(mean[:, keep], log_variance[:, keep]))
