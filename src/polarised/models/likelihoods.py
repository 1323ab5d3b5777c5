"""p(x|z): the interpretation of the decoder's outputs.

Every entry is built from its settings alone. `outputs_per_value` is the number of decoder outputs for each value
of x, `log_prob` sums over everything but the batch, `mean` turns outputs into images.
"""

# ruff: noqa: D102 (the abstract class documents the methods)
import math
from abc import ABC, abstractmethod
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy, softplus

from polarised.errors import ConfigError
from polarised.models._fused import sum_cross_entropy
from polarised.models.distributions import LOG_TWO_PI
from polarised.registry import register

__all__ = ["Bernoulli", "ContinuousBernoulli", "Gaussian", "Laplace"]

CLIP = 1e-6


class Likelihood(nn.Module, ABC):
    """The extension point for likelihoods: the distribution of an image given the decoder's outputs."""

    outputs_per_value: int = 1
    # How many times `log_prob` counts every value: trained with 2, half of it is the value in nats.
    weight: float = 1.0

    @abstractmethod
    def log_prob(self, x: Tensor, outputs: Tensor) -> Tensor:
        """Return log p(x|z) of every image in nats.

        Args:
            x: The images, (B, *shape).
            outputs: The outputs of the decoder for them.

        Returns:
            One value per image, shape (B,).
        """

    @abstractmethod
    def mean(self, outputs: Tensor) -> Tensor:
        """Return E[x|z], the image to show.

        Args:
            outputs: The outputs of the decoder.

        Returns:
            The images, (B, *shape).
        """

    def floor(self, x: Tensor, outputs: Tensor) -> Tensor:
        """Return -log p(x|z) of every image for a decoder whose mean is x itself, with the variance of `outputs`.

        Only the excess over this value can be reduced by a better mean; the normaliser of a density or the entropy of
        grey values cannot. 0 unless the likelihood overrides it.

        Args:
            x: The images, (B, *shape).
            outputs: The outputs of the decoder for them.

        Returns:
            One value per image, shape (B,).
        """
        return torch.zeros(len(x), dtype=x.dtype, device=x.device)

    def check(self, x: Tensor) -> list[str]:
        """Return the problems of the data under this likelihood.

        Args:
            x: The images.

        Returns:
            One sentence per problem.
        """
        return []


@register(
    "likelihood",
    summary="cross-entropy of values in [0, 1]",
    support=(0.0, 1.0),
    density=False,
    references=("Kingma2014",),
    example=({}, {"activation": "tanh"}, {"subtract_entropy": True}),
)
class Bernoulli(Likelihood):
    """Evaluate values in [0, 1] by the cross-entropy with p = sigmoid(output).

    log p(x|z) = sum x log p + (1 - x) log(1 - p)  [Kingma2014, eq. 11]

    Real-valued x uses the same cross-entropy, as in all studies of disentanglement [Locatello2019]; it is then not a
    density, unlike `ContinuousBernoulli`.

    Args:
        activation: How p is computed from the output; "tanh" uses (1 + tanh(output)) / 2 clipped at 1e-6, an option of
            disentanglement_lib that is off in its study.
        subtract_entropy: Subtract the entropy of the image itself, which no decoder can reduce; another such option.
        weight: How many times every value counts: with 4, an image whose pixels are means of 2x2 pixels has the same
            weight relative to the rate as the full one.

    Raises:
        ConfigError: If the weight is not positive.

    >>> round(Bernoulli().log_prob(torch.ones(1, 1, 1, 1), torch.zeros(1, 1, 1, 1)).item(), 4)
    -0.6931
    """

    def __init__(
        self,
        *,
        activation: Literal["sigmoid", "tanh"] = "sigmoid",
        subtract_entropy: bool = False,
        weight: float = 1.0,
    ) -> None:
        super().__init__()
        if not weight > 0:
            raise ConfigError(f"Bernoulli.weight must be positive, got {weight}; 1.0 counts every value once")
        self.activation, self.subtract_entropy, self.weight = activation, subtract_entropy, weight

    def log_prob(self, x: Tensor, outputs: Tensor) -> Tensor:
        if self.activation == "tanh":
            values = -self.weight * _per_image(binary_cross_entropy(self.mean(outputs), x, reduction="none"))
        else:
            values = sum_cross_entropy(outputs, x, -self.weight)
        if self.subtract_entropy:
            p = x.clamp(CLIP, 1 - CLIP)
            values = values + self.weight * _per_image(binary_cross_entropy(p, p, reduction="none"))
        return values

    def floor(self, x: Tensor, outputs: Tensor) -> Tensor:
        if self.subtract_entropy:
            return super().floor(x, outputs)
        return -self.weight * _per_image(torch.xlogy(x, x) + torch.xlogy(1 - x, 1 - x))

    def mean(self, outputs: Tensor) -> Tensor:
        return _squashed(outputs, self.activation)

    def check(self, x: Tensor) -> list[str]:
        return _outside_unit_interval(x, type(self).__name__)


@register(
    "likelihood",
    title="continuous Bernoulli",
    summary="cross-entropy normalised to a density on [0, 1]",
    support=(0.0, 1.0),
    density=True,
    references=("LoaizaGanem2019",),
)
class ContinuousBernoulli(Likelihood):
    """Evaluate values in [0, 1] by the Bernoulli cross-entropy plus its log normaliser [LoaizaGanem2019, eq. 6].

    log p(x|z) = sum x log p + (1 - x) log(1 - p) + log C(p), C(p) = 2 artanh(1 - 2p) / (1 - 2p), C(1/2) = 2.

    >>> round(ContinuousBernoulli().log_prob(torch.ones(1, 1), torch.zeros(1, 1)).item(), 4)
    0.0
    """

    def log_prob(self, x: Tensor, outputs: Tensor) -> Tensor:
        values: Tensor = self._distribution(outputs).log_prob(x)  # type: ignore[no-untyped-call]
        return _per_image(values)

    def floor(self, x: Tensor, outputs: Tensor) -> Tensor:
        return -self.log_prob(x, torch.logit(x, CLIP))

    def mean(self, outputs: Tensor) -> Tensor:
        mean: Tensor = self._distribution(outputs).mean
        return mean

    def check(self, x: Tensor) -> list[str]:
        return _outside_unit_interval(x, type(self).__name__)

    def _distribution(self, outputs: Tensor) -> torch.distributions.ContinuousBernoulli:
        return torch.distributions.ContinuousBernoulli(logits=outputs, validate_args=False)


@register(
    "likelihood",
    summary="squared error, with a fixed or learned variance",
    density=True,
    references=("Kingma2014",),
    references_by_setting={"shared": ("Dai2018",), "per-image": ("Rybkin2021",), "learned": ("Mathieu2019",)},
    example=(
        {},
        {"variance": 0.1, "activation": "sigmoid"},
        {"scale": "shared", "variance": 0.3},
        {"scale": "per-image"},
        {"scale": "learned"},
    ),
)
class Gaussian(Likelihood):
    """Evaluate x by log N(x; mean, variance), with the decoder's output as the mean [Kingma2014, eq. 12].

    log p(x|z) = -sum ((x - mean)^2 / variance + log(2 pi variance)) / 2

    Args:
        variance: The variance, or its initial value if trained.
        scale: The source of the variance: "fixed" is the setting `variance`; "shared" is one trained number
            [Dai2018, eq. 3]; "per-image" is the mean squared error of the image, the optimum of one number per image
            [Rybkin2021, eq. 5]; "learned" is a second decoder output for every value, std = softplus(output) + 1e-6
            [Mathieu2019, table 1b].
        activation: "sigmoid" and "tanh" map the mean to [0, 1]; "sigmoid" with variance 1/2 is the squared error of
            disentanglement_lib up to a constant.

    Raises:
        ConfigError: If the variance is not positive.

    >>> round(Gaussian(variance=1.0).log_prob(torch.zeros(1, 2), torch.zeros(1, 2)).item(), 4)
    -1.8379
    """

    def __init__(
        self,
        *,
        variance: float = 1.0,
        scale: Literal["fixed", "shared", "per-image", "learned"] = "fixed",
        activation: Literal["identity", "sigmoid", "tanh"] = "identity",
    ) -> None:
        super().__init__()
        if not variance > 0:
            raise ConfigError(f"Gaussian.variance must be positive, got {variance}; 1.0 is the squared error")
        self.scale, self.activation = scale, activation
        self.outputs_per_value = 2 if scale == "learned" else 1
        log_variance = torch.tensor(math.log(variance))
        if scale == "shared":
            self.log_variance: Tensor = nn.Parameter(log_variance)
        else:
            self.register_buffer("log_variance", log_variance, persistent=False)

    def log_prob(self, x: Tensor, outputs: Tensor) -> Tensor:
        squared = (x - self.mean(outputs)) ** 2
        if self.scale == "per-image":
            log_variance = squared.flatten(1).mean(1).clamp_min(1e-12).log()
            return -0.5 * squared[0].numel() * (1 + log_variance + LOG_TWO_PI)
        log_variance = self.log_variance
        if self.scale == "learned":
            log_variance = 2 * (softplus(outputs.chunk(2, dim=1)[1]) + 1e-6).log()
        values = squared * (-log_variance).exp() + log_variance + LOG_TWO_PI
        return -0.5 * _per_image(values)

    def floor(self, x: Tensor, outputs: Tensor) -> Tensor:
        squared = (x - self.mean(outputs)) ** 2
        if self.scale == "per-image":
            return -self.log_prob(x, outputs) - 0.5 * squared[0].numel()
        log_variance = self.log_variance.expand_as(squared)
        if self.scale == "learned":
            log_variance = 2 * (softplus(outputs.chunk(2, dim=1)[1]) + 1e-6).log()
        return 0.5 * _per_image(log_variance + LOG_TWO_PI)

    def mean(self, outputs: Tensor) -> Tensor:
        return _squashed(outputs.chunk(self.outputs_per_value, dim=1)[0], self.activation)


@register(
    "likelihood",
    summary="absolute error, with a fixed scale",
    density=True,
    references=("Mathieu2019",),
)
class Laplace(Likelihood):
    """Evaluate x by log p(x|z) = sum -|x - output| / b - log 2b with a fixed scale b.

    The released code of the decomposition paper uses b = 0.1 on Fashion-MNIST [Mathieu2019].

    Args:
        scale: The scale b.

    Raises:
        ConfigError: If the scale is not positive.

    >>> round(Laplace(scale=0.5).log_prob(torch.zeros(1, 2), torch.ones(1, 2)).item(), 4)
    -4.0
    """

    def __init__(self, *, scale: float = 0.1) -> None:
        super().__init__()
        if not scale > 0:
            raise ConfigError(f"Laplace.scale must be positive, got {scale}; 0.1 suits images in [0, 1]")
        self.scale = scale

    def log_prob(self, x: Tensor, outputs: Tensor) -> Tensor:
        values = (x - outputs).abs() / self.scale + math.log(2 * self.scale)
        return -_per_image(values)

    def floor(self, x: Tensor, outputs: Tensor) -> Tensor:
        return _per_image(torch.full_like(x, math.log(2 * self.scale)))

    def mean(self, outputs: Tensor) -> Tensor:
        return outputs


def _per_image(values: Tensor) -> Tensor:
    return values.sum(dim=tuple(range(1, values.ndim)))


def _squashed(outputs: Tensor, activation: str) -> Tensor:
    if activation == "identity":
        return outputs
    return outputs.sigmoid() if activation == "sigmoid" else (outputs.tanh() / 2 + 0.5).clamp(CLIP, 1 - CLIP)


def _outside_unit_interval(x: Tensor, name: str) -> list[str]:
    low, high = x.min().item(), x.max().item()
    if low >= 0 and high <= 1:
        return []
    return [
        f"the images span [{low:.3g}, {high:.3g}] but {name} is a likelihood on [0, 1] and unbounded below outside "
        "it: rescale the images or use the Gaussian likelihood."
    ]
