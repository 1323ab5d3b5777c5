"""The optimal encoder of a linear decoder, and the ratio that separates active from passive."""

import numpy as np
import pytest
import torch

from polarised.theory import optimal_posterior_covariance, variance_ratio


@pytest.mark.parametrize("beta", [1.0, 4.0])
def test_covariance_is_a_minimum(beta):
    """The gradient of E|J(z - m)|^2 / (2 gamma) + beta KL over a full covariance vanishes there."""
    generator = np.random.default_rng(0)
    jacobian, gamma = generator.normal(size=(6, 3)), 0.2
    prior = np.diag([0.5, 1.0, 4.0])
    best = optimal_posterior_covariance(jacobian, prior_covariance=prior, decoder_variance=gamma, beta=beta)
    covariance = torch.tensor(best, requires_grad=True)
    precision, gram = torch.tensor(np.linalg.inv(prior)), torch.tensor(jacobian.T @ jacobian)
    loss = torch.trace(gram @ covariance) / (2 * gamma)
    loss = loss + beta / 2 * (torch.trace(precision @ covariance) - torch.logdet(covariance))
    (gradient,) = torch.autograd.grad(loss, covariance)
    np.testing.assert_allclose(gradient.numpy(), 0, atol=1e-10)


def test_ratio_is_the_diagonal_case():
    jacobian = np.diag([0.0, 1.0, 30.0])
    prior = np.diag([0.003, 1.0, 9.0])
    covariance = optimal_posterior_covariance(jacobian, prior_covariance=prior, decoder_variance=0.5, beta=2.0)
    ratio = variance_ratio(np.diag(jacobian) ** 2, prior_variance=np.diag(prior), decoder_variance=0.5, beta=2.0)
    np.testing.assert_allclose(ratio, np.diag(covariance) / np.diag(prior))
    assert ratio[0] == 1
    assert ratio[2] < 0.01


def test_the_ratio_is_invariant_to_the_scale_of_a_variable():
    """z -> c z with its prior: the slope decreases by c, the variances increase by c^2, the ratio is unchanged."""
    c = 7.0
    assert variance_ratio(2.0, prior_variance=0.4) == pytest.approx(
        variance_ratio(2.0 / c**2, prior_variance=0.4 * c**2)
    )


def test_more_beta_more_passive():
    ratios = [float(variance_ratio(5.0, beta=beta)) for beta in (0.5, 1.0, 4.0, 16.0)]
    assert ratios == sorted(ratios)
