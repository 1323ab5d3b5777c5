"""Priors that are a product of one density a variable."""

# ruff: noqa: D102 (the abstract class documents the methods)

import math

import numpy as np
import torch
from torch import Tensor, nn

from polarised.errors import ConfigError, DataError
from polarised.models.posteriors import LOG_TWO_PI, DiagonalGaussian
from polarised.models.priors.prior import Compatibility, Prior, nearest_gaussian_variance, normal, uniform
from polarised.registry import register

__all__ = ["Anisotropic", "StandardNormal", "StudentT"]


@register(
    "prior",
    title="standard normal",
    summary="independent variables of mean 0 and variance 1",
    references=("Kingma2014",),
)
class StandardNormal(Prior):
    """Place p(z) = N(0, I) on the codes [Kingma2014, section 2.3].

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
        return 0.5 * (posterior.mean**2 + posterior.variance - 1 - posterior.log_variance)

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
    """Place p(z) = prod_j N(0, s_j), s = v d softmax(l), so that the variances sum to v d [Mathieu2019, section 6.1].

    Args:
        latents: The number of variables.
        auxiliary_size: The number of auxiliary variables, which this prior ignores.
        variances: The variances s; without them `fit` takes l = log of the squared largest singular values of the
            flattened, uncentred images.
        learned: Whether l is trained; the softmax holds the variances to the same sum.
        scale: The mean variance v where `fit` sets them.
        compatibility: "released-code" takes the smallest of the 20 largest singular values instead: scipy's truncated
            decomposition, used there, sorts them upwards.

    Raises:
        ConfigError: If there is not one positive variance a latent, or the scale is not positive.

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
        # Asked at every step of a training: once they are there, the scales are not looked at again.
        if not self._scaled:
            self._scaled = bool(torch.isfinite(self.log_weight).all())
        return not self._scaled

    @property
    def log_variance(self) -> Tensor:
        """The log-variance of every variable, shape (1, d)."""
        if self.awaits_data:
            raise DataError(
                "expected the scales of the prior Anisotropic to be set, but they are taken from data and none came; "
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
    """Place p(z) = prod_j t_df(z_j / scale) / scale: heavy tails break the rotation [Mathieu2019, section 6.1].

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
                f"StudentT needs positive df and scale, got df {df} and scale {scale}; 9 and 1 are the released example"
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
            generator: The source of the draws; torch's own if none.

        Returns:
            The codes, (n, d).
        """
        a, b = 1 - uniform(n, self.latents, generator), uniform(n, self.latents, generator)
        return self.scale * (self.df * torch.expm1(-2 / self.df * a.log())).sqrt() * torch.cos(2 * math.pi * b)

    def moments(self, n: int) -> tuple[Tensor, Tensor]:
        # The search is made at scale 1, where its grid is fine enough whatever the scale.
        variance = self.scale**2 * nearest_gaussian_variance(StudentT(1, df=self.df).log_density)
        return torch.zeros(n, self.latents), torch.full((n, self.latents), variance)

    def deviation(self, n: int) -> Tensor:
        # Tails of df <= 2 are too heavy for a variance.
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
