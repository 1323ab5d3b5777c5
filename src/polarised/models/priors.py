"""p(z|u): the distribution of the latent variables before an image is observed.

Every entry is called with the number of latents and of auxiliary variables. A pruned prior loads into the same entry
with fewer latents, so the parameters of a variable are part of the state, not of the settings.
"""

# ruff: noqa: D102 (the abstract class documents the methods)

import functools
import math
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from polarised.errors import ConfigError, DataError
from polarised.models._fused import Dense, kl_from_standard
from polarised.models.distributions import (
    LOG_TWO_PI,
    Compatibility,
    DiagonalGaussian,
    Prior,
    device_of,
    nearest_gaussian_variance,
    normal,
    uniform,
)
from polarised.models.networks import dense, glorot
from polarised.registry import register

__all__ = ["Anisotropic", "Conditional", "GaussianMixture", "Sparse", "StandardNormal", "StudentT"]


@register(
    "prior",
    title="standard normal",
    summary="independent variables of mean 0 and variance 1",
    references=("Kingma2014",),
)
class StandardNormal(Prior):
    """The prior p(z) = N(0, I) [Kingma2014, section 2.3].

    Args:
        latents: The number of variables.
        auxiliary_size: The number of auxiliary variables, which this prior ignores.

    >>> prior = StandardNormal(2)
    >>> prior.kl(DiagonalGaussian(torch.ones(1, 2), torch.zeros(1, 2)), torch.zeros(1, 2)).tolist()
    [[0.5, 0.5]]
    """

    gaussian = True

    def __init__(self, latents: int, auxiliary_size: int = 0) -> None:
        super().__init__(latents)

    def log_density(self, z: Tensor) -> Tensor:
        return -0.5 * (z**2 + LOG_TWO_PI)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        return normal(n, self.latents, generator)

    def kl(self, posterior: DiagonalGaussian, z: Tensor) -> Tensor:
        return kl_from_standard(posterior.mean, posterior.log_variance)

    def moments(self, n: int) -> tuple[Tensor, Tensor]:
        return torch.zeros(n, self.latents), torch.ones(n, self.latents)

    def kept(self, keep: list[int]) -> "StandardNormal":
        return StandardNormal(len(keep))


@register(
    "prior",
    summary="independent Gaussians of unequal variances",
    references=("Mathieu2019",),
    example=({"variances": (2.0, 0.7, 0.3)}, {"variances": (2.0, 0.7, 0.3), "learned": True}),
)
class Anisotropic(Prior):
    """The prior p(z) = prod_j N(0, s_j), s = v d softmax(l): the variances sum to v d [Mathieu2019, section 6.1].

    Args:
        latents: The number of variables.
        auxiliary_size: The number of auxiliary variables, which this prior ignores.
        variances: The variances s; without them `fit` sets l to the log of the squared largest singular values of the
            flattened, uncentred images.
        learned: Whether l is trained; the softmax keeps the sum of the variances.
        scale: The mean variance v if `fit` sets them.
        compatibility: "released-code" uses the smallest of the 20 largest singular values instead: the truncated
            decomposition of scipy, used there, sorts them in ascending order.

    Raises:
        ConfigError: If there is not one positive variance per latent, or the scale is not positive.

    >>> Anisotropic(2, variances=(3.0, 1.0)).moments(1)[1].tolist()
    [[3.0, 1.0]]
    """

    gaussian = True
    exchangeable = False

    def __init__(
        self,
        latents: int,
        auxiliary_size: int = 0,
        *,
        variances: tuple[float, ...] | None = None,
        learned: bool = False,
        scale: float = 1.0,
        compatibility: Compatibility = "none",
    ) -> None:
        super().__init__(latents)
        if variances is not None and (len(variances) != latents or min(variances) <= 0):
            raise ConfigError(
                f"Anisotropic.variances needs {latents} positive numbers, one for each latent, got {variances}"
            )
        if not scale > 0:
            raise ConfigError(f"Anisotropic.scale must be positive, got {scale}; 1 makes the mean variance 1")
        self.compatibility = compatibility
        self._scaled = False
        log_weight = torch.tensor(variances or [math.nan] * latents).log()
        mean_variance = scale if variances is None else sum(variances) / latents
        self.register_buffer("mean_variance", torch.tensor(float(mean_variance)))
        self.mean_variance: Tensor
        if learned:
            self.log_weight: Tensor = nn.Parameter(log_weight)
        else:
            self.register_buffer("log_weight", log_weight)

    @property
    def awaits_data(self) -> bool:
        # Evaluated at every training step: once the scales are set, they are not checked again.
        if not self._scaled:
            self._scaled = bool(torch.isfinite(self.log_weight).all())
        return not self._scaled

    @property
    def log_variance(self) -> Tensor:
        """The log-variance of every variable, shape (1, d)."""
        if self.awaits_data:
            raise DataError(
                "expected the scales of the prior Anisotropic, which are taken from data, to be set, got none; "
                "call prior.fit(images) before training, or set its variances"
            )
        return (self.log_weight.log_softmax(0) + (self.latents * self.mean_variance).log())[None]

    def log_density(self, z: Tensor) -> Tensor:
        return DiagonalGaussian(torch.zeros_like(z), self.log_variance).log_prob(z)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        deviation = (self.log_variance / 2).exp()
        return normal(n, self.latents, generator, deviation) * deviation

    def kl(self, posterior: DiagonalGaussian, z: Tensor) -> Tensor:
        return posterior.kl(DiagonalGaussian(torch.zeros_like(self.log_variance), self.log_variance))

    def moments(self, n: int) -> tuple[Tensor, Tensor]:
        variance = self.log_variance.exp().expand(n, -1)
        return torch.zeros_like(variance), variance

    def kept(self, keep: list[int]) -> "Anisotropic":
        variances = self.log_variance.exp()[0, keep].tolist()
        learned = isinstance(self.log_weight, nn.Parameter)
        return Anisotropic(len(keep), variances=tuple(variances), learned=learned, compatibility=self.compatibility)

    @torch.no_grad()
    def fit(self, images: Tensor) -> None:
        if not self.awaits_data:
            return
        rows = images.flatten(1)
        if min(rows.shape) < self.latents:
            raise DataError(
                f"expected at least {self.latents} images and {self.latents} pixels for as many singular values, "
                f"got {tuple(rows.shape)}; give more images or fewer latents"
            )
        singular = _singular_values(rows, max(self.latents, 20))
        if self.compatibility == "released-code":
            singular = singular.flip(0)
        self.log_weight.copy_((singular[: self.latents] ** 2).clamp_min(1e-12).log())


@register(
    "prior",
    title="Student-t",
    summary="independent variables with heavy tails",
    references=("Mathieu2019",),
    example=({}, {"df": 3.0}),
)
class StudentT(Prior):
    """The prior p(z) = prod_j t_df(z_j / scale) / scale: heavy tails break the rotation [Mathieu2019, section 6.1].

    Args:
        latents: The number of variables.
        auxiliary_size: The number of auxiliary variables, which this prior ignores.
        df: The degrees of freedom: the fewer, the heavier the tails.
        scale: The scale of every variable.

    Raises:
        ConfigError: If the degrees of freedom or the scale are not positive.

    >>> round(StudentT(1, df=1.0).log_prob(torch.zeros(1, 1)).exp().item() * math.pi, 4)
    1.0
    >>> round(StudentT(1, df=1.0, scale=2.0).log_prob(torch.zeros(1, 1)).exp().item() * math.pi, 4)
    0.5
    """

    def __init__(self, latents: int, auxiliary_size: int = 0, *, df: float = 9.0, scale: float = 1.0) -> None:
        super().__init__(latents)
        if not (df > 0 and scale > 0):
            raise ConfigError(
                f"StudentT needs positive df and scale, got df {df} and scale {scale}; the released code uses 9 and 1"
            )
        self.df, self.scale = df, scale

    def log_density(self, z: Tensor) -> Tensor:
        df = self.df
        constant = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - 0.5 * math.log(df * math.pi) - math.log(self.scale)
        return constant - (df + 1) / 2 * torch.log1p((z / self.scale) ** 2 / df)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw codes by Bailey's polar formula, z = sqrt(df (a^(-2/df) - 1)) cos(2 pi b), a and b uniform.

        Args:
            n: The number of codes.
            generator: The source of random numbers; torch's default generator if None.

        Returns:
            The codes, (n, d).
        """
        a, b = 1 - uniform(n, self.latents, generator), uniform(n, self.latents, generator)
        return self.scale * (self.df * torch.expm1(-2 / self.df * a.log())).sqrt() * torch.cos(2 * math.pi * b)

    def moments(self, n: int) -> tuple[Tensor, Tensor]:
        # The search runs at scale 1, where its grid is fine enough, for every scale.
        variance = self.scale**2 * nearest_gaussian_variance(StudentT(1, df=self.df).log_density)
        return torch.zeros(n, self.latents), torch.full((n, self.latents), variance)

    def deviation(self, n: int) -> Tensor:
        # With df <= 2 the variance is infinite.
        if self.df <= 2:
            return super().deviation(n)
        return torch.full((n, self.latents), self.scale * math.sqrt(self.df / (self.df - 2)))

    def kept(self, keep: list[int]) -> "StudentT":
        return StudentT(len(keep), df=self.df, scale=self.scale)


def _singular_values(rows: Tensor, count: int) -> Tensor:
    matrix = rows.double().cpu().numpy()
    if count >= min(matrix.shape) // 4:
        return torch.from_numpy(np.linalg.svd(matrix, compute_uv=False)[:count])
    from scipy.sparse.linalg import svds

    values = svds(matrix, k=count, v0=np.ones(min(matrix.shape)), return_singular_vectors=False)
    return torch.from_numpy(np.sort(values)[::-1].copy())


@register(
    "prior",
    summary="every variable mostly near 0, rarely far from it",
    references=("Mathieu2019",),
    example=({}, {"gamma": 0.0}),
)
class Sparse(Prior):
    """The prior p(z) = prod_j (1 - gamma) N(0, 1) + gamma N(0, width^2): mostly off [Mathieu2019, appendix B].

    Args:
        latents: The number of variables.
        auxiliary_size: The number of auxiliary variables, which this prior ignores.
        gamma: The share of the narrow part: how rarely a variable is used.
        width: The standard deviation of the narrow part, 0.05 as in the paper's appendix and code (its main text says
            variance).

    Raises:
        ConfigError: If gamma is not in [0, 1], or the width is not positive.

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
    summary="a mixture of equal Gaussians",
    references=("Mathieu2019",),
    example=({}, {"compatibility": "released-code"}),
)
class GaussianMixture(Prior):
    """The prior p(z) = sum_c weight_c N(z; mean_c, variance_c I) [Mathieu2019, eq. 9].

    Args:
        latents: The number of variables.
        auxiliary_size: The number of auxiliary variables, which this prior ignores.
        means: The means; by default the cross of the pinwheel: (0, -1), (0, 1), (1, 0), (-1, 0) in the first two
            variables.
        variance: The variance of each Gaussian in every direction: one number, or one for each component.
        weights: The weight of each component, divided by their sum; equal by default.
        compatibility: "released-code" counts log p(z) once for each latent in the KL, as that code does.

    Raises:
        ConfigError: If the variance is not positive, or a mean does not have one number per latent.

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
        """Return mean and variance of the mixture itself: its nearest Gaussian would be one of its components.

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
        # One Gaussian cannot match several components: it rests on the heaviest, or the narrowest if several are.
        heaviest = max(zip(self.weights, (-variance for variance in self.variances), strict=True))
        return torch.full((n, self.latents), -heaviest[1]).to(self.means)

    def kept(self, keep: list[int]) -> "GaussianMixture":
        means = tuple(tuple(row) for row in self.means[:, keep].tolist())
        return GaussianMixture(
            len(keep), means=means, variance=self.variances, weights=self.weights, compatibility=self.compatibility
        )


@functools.lru_cache(maxsize=64)
def _constant(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the parameters of a prior as a tensor, copied to a device once instead of at every step."""
    # Created outside inference mode even if the first call is inside it: training cannot use an inference tensor.
    with torch.inference_mode(False):
        return torch.tensor(values, dtype=dtype, device=device)


@register(
    "prior",
    title="conditional normal",
    summary="a Gaussian whose variance, and mean if learned, depends on u",
    needs=("u",),
    references=("Khemakhem2020",),
    example=({}, {"mean": "learned"}),
)
class Conditional(Prior):
    """The prior of the iVAE, p(z|u) = N(mean(u), diag(variance(u))) [Khemakhem2020, eq. 7].

    With a learned mean, passive variables depend on u, and Theorem 7 of [Bonheme2023BeMoreActive] does not hold for
    them.

    Args:
        latents: The number of variables.
        auxiliary_size: The number of auxiliary variables u.
        widths: Units of the hidden layers (leaky ReLU, slope 0.1) of the network that returns the log-variance.
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
            return Dense(*hidden, nn.Linear(widths[-1], latents))

        self.log_variance_network = network()
        self.mean_network = network() if mean == "learned" else None
        glorot(self)

    def given(self, u: Tensor | None) -> "Prior":
        if u is None or u.ndim != 2 or u.shape[1] != self.auxiliary_size:
            received = "none" if u is None else f"an array of shape {tuple(u.shape)}"
            raise DataError(
                f"expected auxiliary variables u of shape (batch, {self.auxiliary_size}) for the prior Conditional, "
                f"got {received}; pass the u of the batch"
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
    """A conditional prior for a given u: one Gaussian for each image of the batch."""

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
                f"expected {len(self.distribution.mean)} draws, one for each row of u, got a request for {n}; "
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
