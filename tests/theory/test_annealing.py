"""Theorems 1 and 2 and corollaries 1 and 2 of the decomposition paper, to float64 accuracy."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from polarised.errors import ConfigError
from polarised.models import build_vae
from polarised.models.priors import StudentT
from polarised.theory import (
    annealed_gaussian,
    entropy_regularised_elbo,
    gaussian_entropy,
    gaussian_kl,
    rescaled,
    rescaling_constant,
)

BETAS = [0.3, 1.0, 4.0, 20.0]


def covariance(size, seed):
    root = np.random.default_rng(seed).normal(size=(size, size))
    return root @ root.T + 0.3 * np.eye(size)


@pytest.fixture(scope="module")
def model():
    vae = build_vae({"architecture": {"name": "mlp", "widths": [7]}, "latents": 3}, (5,), seed=0).double()
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(50, 5, dtype=torch.float64, generator=generator)
    noise = torch.randn(50, 3, dtype=torch.float64, generator=generator)
    return vae, x, noise


def beta_elbo(vae, x, noise, beta):
    posterior = vae.posterior(x)
    z = posterior.sample(noise=noise)
    return vae.likelihood.log_prob(x, vae.decode(z)) - beta * vae.prior.kl(posterior, z).sum(1)


@pytest.mark.parametrize("beta", BETAS)
def test_theorem_1(beta):
    """beta KL(q || p) = KL(q || f) - (beta - 1) H[q] - log F with full covariances; the reconstruction is in both."""
    mean, own, prior = np.array([0.3, -1.2, 0.8]), covariance(3, 1), covariance(3, 2)
    annealed, log_normaliser = annealed_gaussian(prior, beta)
    right = gaussian_kl(mean, own, annealed) - (beta - 1) * gaussian_entropy(own) - log_normaliser
    assert beta * gaussian_kl(mean, own, prior) == pytest.approx(right, abs=1e-13, rel=1e-13)


@pytest.mark.parametrize("beta", [0.3, 4.0])
def test_normaliser_against_quadrature(beta):
    density = stats.norm(0, 1.7).pdf
    integral = integrate.quad(lambda z: density(z) ** beta, -60, 60, epsabs=1e-13, epsrel=1e-13)[0]
    assert annealed_gaussian(np.array([[1.7**2]]), beta)[1] == pytest.approx(math.log(integral), abs=1e-9)


@pytest.mark.parametrize("beta", BETAS)
def test_corollary_1(model, beta):
    vae, x, noise = model
    stretched = rescaled(vae, beta)
    log_determinant = stretched.posterior(x).log_variance.sum(1)
    constant = rescaling_constant(3, beta)
    right = beta_elbo(stretched, x, noise, 1.0) + (beta - 1) / 2 * log_determinant + constant
    torch.testing.assert_close(beta_elbo(vae, x, noise, beta), right, rtol=1e-12, atol=1e-12)
    regularised = entropy_regularised_elbo(stretched, x, beta=beta, noise=noise) + constant
    torch.testing.assert_close(right, regularised, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("beta", BETAS)
def test_corollary_2(model, beta):
    """The gradient of L_beta is that of the entropy-regularised bound at the scaled networks, times the scale."""
    vae, x, noise = model
    stretched = rescaled(vae, beta)
    names = [name for name, _ in vae.named_parameters()]
    ours = torch.autograd.grad(beta_elbo(vae, x, noise, beta).sum(), list(vae.parameters()))
    value = entropy_regularised_elbo(stretched, x, beta=beta, noise=noise).sum()
    theirs = torch.autograd.grad(value, list(stretched.parameters()))
    factor = {"encoder.mean_head.weight": math.sqrt(beta), "encoder.mean_head.bias": math.sqrt(beta)}
    factor["decoder.input.weight"] = 1 / math.sqrt(beta)
    for name, left, right in zip(names, ours, theirs, strict=True):
        torch.testing.assert_close(left, factor.get(name, 1.0) * right, rtol=1e-10, atol=1e-11)


def rotation(size):
    return np.linalg.qr(np.random.default_rng(3).normal(size=(size, size)))[0]


def test_theorem_2():
    """With a full covariance and an isotropic prior, rotating the code changes nothing."""
    mean, own, turn = np.array([0.3, -1.2, 0.8]), covariance(3, 1), rotation(3)
    prior = 1.3 * np.eye(3)
    turned = turn @ mean, turn @ own @ turn.T
    assert gaussian_kl(*turned, prior) == pytest.approx(gaussian_kl(mean, own, prior), abs=1e-13)
    decoder = np.random.default_rng(4).normal(size=(5, 3))
    z = np.random.default_rng(5).normal(size=3)
    np.testing.assert_allclose(decoder @ (turn.T @ (turn @ z)), decoder @ z, atol=1e-14)


def test_theorem_2_fails_for_an_anisotropic_prior():
    mean, own, turn = np.array([0.3, -1.2, 0.8]), covariance(3, 1), rotation(3)
    prior = np.diag([2.5, 0.4, 0.1])
    assert abs(gaussian_kl(turn @ mean, turn @ own @ turn.T, prior) - gaussian_kl(mean, own, prior)) > 0.1


def test_theorem_2_fails_for_a_diagonal_encoder():
    mean, own, turn = np.array([0.3, -1.2, 0.8]), np.diag([0.05, 0.5, 1.5]), rotation(3)
    turned = np.diag(np.diag(turn @ own @ turn.T))
    assert abs(gaussian_kl(turn @ mean, turned, np.eye(3)) - gaussian_kl(mean, own, np.eye(3))) > 0.1


def test_theorem_2_fails_for_a_student_t_prior():
    turn = torch.from_numpy(rotation(3))
    z = torch.randn(20_000, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    z = z * torch.tensor([2.0, 0.3, 0.1]) + torch.tensor([1.0, -2.0, 0.5])
    prior = StudentT(3, df=3.0)
    difference = (prior.log_prob(z @ turn.T) - prior.log_prob(z)).mean()
    assert difference.abs() > 0.1


def test_gaussian_kl_against_torch():
    mean, own, prior = np.array([0.3, -1.2, 0.8]), covariance(3, 1), covariance(3, 2)
    q = torch.distributions.MultivariateNormal(torch.from_numpy(mean), torch.from_numpy(own))
    p = torch.distributions.MultivariateNormal(torch.zeros(3, dtype=torch.float64), torch.from_numpy(prior))
    assert gaussian_kl(mean, own, prior) == pytest.approx(torch.distributions.kl_divergence(q, p).item())
    assert gaussian_entropy(own) == pytest.approx(q.entropy().item())


def test_rescaling_does_not_change_the_given_model_and_refuses_other_encoders():
    vae = build_vae({"architecture": {"name": "pinwheel_mlp"}, "latents": 2}, (2,))
    with pytest.raises(ConfigError, match="log-variance"):
        rescaled(vae, 2.0)
    plain = build_vae({"architecture": "mlp", "latents": 2}, (2,))
    before = plain.encoder.mean_head.weight.clone()
    with pytest.raises(ConfigError, match="beta"):
        rescaled(plain, 0.0)
    rescaled(plain, 9.0)
    assert torch.equal(plain.encoder.mean_head.weight, before)
