"""Bias of the minibatch estimates: appendix C of the decomposition paper, appendix 1 of RTC-VAE."""

import itertools
import math

import numpy as np
import pytest
import torch

from polarised.models.distributions import DiagonalGaussian
from polarised.models.priors import StandardNormal
from polarised.objectives.step import Step
from polarised.objectives.terms import rate_parts
from polarised.theory import entropy_estimate, gaussian_entropy, no_overlap_entropy, no_overlap_total_correlation


def normal(z, mean, std):
    return math.exp(-0.5 * ((z - mean) / std) ** 2) / (std * math.sqrt(2 * math.pi))


def test_density_is_unbiased_and_its_logarithm_is_low():
    """By enumeration of every batch: E[q^] = q, E[log q^] = log q - Var / (2 q^2) to leading order."""
    means, std, batch = np.linspace(-1, 1, 7), 1.5, 6
    z, own, n = 0.2, 3, 7
    others = [i for i in range(n) if i != own]
    estimates = np.array(
        [
            normal(z, means[own], std) / n + (n - 1) / (n * (batch - 1)) * sum(normal(z, means[i], std) for i in chosen)
            for chosen in itertools.combinations(others, batch - 1)
        ]
    )
    truth = np.mean([normal(z, mean, std) for mean in means])
    assert estimates.mean() == pytest.approx(truth, rel=1e-12)
    bias = np.log(estimates).mean() - math.log(truth)
    assert bias < 0
    assert bias == pytest.approx(-estimates.var() / (2 * truth**2), rel=0.05)


def test_entropy_estimate_is_the_formula():
    mean, z = np.array([[0.0], [1.0], [3.0]]), np.array([[0.1], [0.8], [2.5]])
    expected = -np.mean(
        [
            math.log(
                normal(z[b, 0], mean[b, 0], 0.5) / 20
                + 19 / (20 * 2) * sum(normal(z[b, 0], mean[c, 0], 0.5) for c in range(3) if c != b)
            )
            for b in range(3)
        ]
    )
    assert entropy_estimate(z, mean, 0.5, dataset_size=20) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("latents", "expected"),
    [(2, [3.92, 3.17, 2.95]), (5, [9.99, 9.08, 8.16]), (10, [12.07, 12.03, 12.01])],
)
def test_small_batches_see_no_overlap(latents, expected):
    """n = 20,000 means ~ N(0, I), encoder std 0.3, batches of 16, 64, 256: the table of the sheet, within its error."""
    n, std = 20_000, 0.3
    generator = np.random.default_rng(0)
    limit = no_overlap_entropy(dataset_size=n, conditional_entropy=gaussian_entropy(std**2 * np.eye(latents)))
    previous = math.inf
    for batch, value in zip((16, 64, 256), expected, strict=True):
        draws = []
        for _ in range(40 if batch < 256 else 8):
            mean = generator.normal(size=(batch, latents))
            z = mean + std * generator.normal(size=mean.shape)
            draws.append(entropy_estimate(z, mean, std, dataset_size=n))
        error = np.std(draws) / math.sqrt(len(draws))
        assert np.mean(draws) == pytest.approx(value, abs=4 * error + 0.1)
        assert np.mean(draws) < min(previous, limit) + 4 * error
        previous = np.mean(draws)


@pytest.mark.parametrize("estimator", ["mws", "mss0", "mss1", "eq10b"])
def test_high_dimensional_total_correlation_is_overestimated(estimator):
    """Independent means, so the truth is 0; the estimate equals the prediction for encoders without overlap."""
    latents, std, batch, n = 10, 0.1, 500, 50_000
    generator = torch.Generator().manual_seed(0)
    values = []
    for _ in range(2):
        mean = torch.randn(batch, latents, generator=generator, dtype=torch.float64)
        posterior = DiagonalGaussian(mean, torch.full_like(mean, 2 * math.log(std)))
        z = posterior.sample(generator)
        step = Step(z, None, posterior, z, z, StandardNormal(latents), None, 0, n)
        values.append(rate_parts(step, estimator=estimator).total_correlation.item())
    predicted = no_overlap_total_correlation(latents, std, batch=batch, dataset_size=n, estimator=estimator)
    assert np.mean(values) == pytest.approx(predicted, abs=0.5)
    assert predicted > 12
