"""The best linear VAE, in closed form: what the polarised regime must be where theory is complete."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polarised.errors import ConfigError

__all__ = ["LinearOptimum", "optimal_noise_variance", "probabilistic_pca"]


class LinearOptimum(NamedTuple):
    """The optimum of a linear VAE, per latent variable (first three, strongest first) and as a whole."""

    variance: NDArray[np.float64]
    """Variance of q(z|x), which is its ratio to the standard normal prior: 1 where the variable is passive."""
    mean_variance: NDArray[np.float64]
    """Variance of the mean of q(z|x) over the data: 1 - variance."""
    kl: NDArray[np.float64]
    """Mean KL(q(z|x) || p(z)) in nats."""
    elbo: float
    """E log p(x|z) - beta KL, in nats, averaged over the data."""
    decoder_scale: NDArray[np.float64]
    """Length of the decoder's column of each variable."""


def probabilistic_pca(
    variances: Sequence[float] | NDArray[np.float64], *, latents: int, noise_variance: float, beta: float = 1.0
) -> LinearOptimum:
    """Return the optimum of a linear beta-VAE on data whose covariance has the eigenvalues `variances`.

    With p(x|z) = N(W z + m, s I), s = `noise_variance`, and b = beta s: variable j is alive iff lambda_j > b; then
    |w_j|^2 = lambda_j - b and Var q(z_j|x) = b / lambda_j; otherwise w_j = 0 and q(z_j|x) = N(0, 1)
    [Tipping1999, eq. 7], [Lucas2019, section 4]. Beta scales the noise: error / s + beta KL = beta (error / b + KL).

    >>> probabilistic_pca([8.0, 2.0, 0.5], latents=3, noise_variance=1.0).variance
    array([0.125, 0.5  , 1.   ])
    """
    spectrum = np.sort(np.asarray(variances, dtype=np.float64))[::-1]
    if not spectrum.size or spectrum[-1] < 0 or latents < 1 or noise_variance <= 0 or beta <= 0:
        raise ConfigError(
            "expected variances of 0 or more, at least one latent, positive noise_variance and beta, "
            f"got {list(variances)}, {latents}, {noise_variance}, {beta}"
        )
    kept = np.zeros(latents)
    kept[: min(latents, spectrum.size)] = spectrum[:latents]
    noise = beta * noise_variance
    ratio = noise / np.maximum(kept, noise)
    kl = -0.5 * np.log(ratio)
    # An alive direction leaves squared error b: b (1 - ratio) by the spread of z, b ratio by the shrinkage of its mean.
    error = spectrum.sum() - np.maximum(kept - noise, 0.0).sum()
    fit = -0.5 * (spectrum.size * np.log(2.0 * np.pi * noise_variance) + error / noise_variance)
    return LinearOptimum(
        variance=ratio,
        mean_variance=1.0 - ratio,
        kl=kl,
        elbo=float(fit - beta * kl.sum()),
        decoder_scale=np.sqrt(np.maximum(kept - noise, 0.0)),
    )


def optimal_noise_variance(
    variances: Sequence[float] | NDArray[np.float64], *, latents: int, beta: float = 1.0, floor: float = 1e-3
) -> float:
    """Return the noise variance s at which a linear beta-VAE has the largest ELBO.

    s = sum_{j > k} lambda_j / (D - beta k), k = #{j <= latents: lambda_j > beta s}; at beta = 1 the mean of the
    discarded eigenvalues [Tipping1999, eq. 8]. Where nothing is discarded s has no minimum above 0: `floor` is the
    smallest share of the mean variance that is returned.

    >>> optimal_noise_variance([8.0, 2.0, 0.5, 0.3], latents=2)
    0.4
    """
    spectrum = np.sort(np.asarray(variances, dtype=np.float64))[::-1]
    if not spectrum.size or spectrum[-1] < 0 or not spectrum[0] > 0 or latents < 1 or not beta > 0 or not floor > 0:
        raise ConfigError(
            "expected variances of 0 or more, at least one latent, positive beta and floor, "
            f"got {list(variances)}, {latents}, {beta}, {floor}"
        )
    size, least = spectrum.size, floor * float(spectrum.mean())
    most = min(latents, size)
    discarded = np.append(np.cumsum(spectrum[::-1])[::-1], 0.0)
    for kept in range(most, -1, -1):
        if beta * kept >= size:
            continue
        noise = float(discarded[kept]) / (size - beta * kept)
        enough = kept == 0 or spectrum[kept - 1] > beta * noise
        if enough and (kept == most or spectrum[kept] <= beta * noise):
            return max(noise, least)
    return least
