"""The rest of an unused variable: minimising the loss without a decoder ends where the objective says."""

import pytest
import torch

from polarised import registry
from polarised.models.distributions import DiagonalGaussian
from polarised.models.likelihoods import Gaussian
from polarised.models.priors import Anisotropic, GaussianMixture, Sparse, StandardNormal, StudentT
from polarised.objectives import (
    DIPVAE,
    ELBO,
    IVAE,
    RTCVAE,
    AnnealedVAE,
    BetaTCVAE,
    BetaVAE,
    Decomposition,
    FactorVAE,
    Step,
)


def rested(objective, prior, *, start=0.3, steps=600, batch=64, critic=None):
    """Minimise the objective over the mean and log-variance of two variables that no decoder uses."""
    mean = torch.full((2,), 0.2, requires_grad=True)
    log_variance = torch.full((2,), start, requires_grad=True)
    optimiser = torch.optim.Adam([mean, log_variance], lr=0.05)
    generator = torch.Generator().manual_seed(0)
    x = torch.zeros(batch, 1)
    for number in range(steps):
        posterior = DiagonalGaussian(mean.expand(batch, 2), log_variance.expand(batch, 2))
        z = posterior.sample(generator)
        step = Step(
            x=x,
            u=None,
            posterior=posterior,
            z=z,
            outputs=x,
            prior=prior,
            likelihood=Gaussian(),
            number=number,
            dataset_size=1000,
            generator=generator,
            critic=critic,
        )
        optimiser.zero_grad()
        sum(objective(step).values()).backward()
        optimiser.step()
        for group in optimiser.param_groups:
            group["lr"] = 0.05 * (1 - number / steps)
    return log_variance.detach().exp()


@pytest.mark.parametrize(
    "objective",
    [
        ELBO(),
        BetaVAE(beta=4.0),
        DIPVAE(variant="II", lambda_od=5.0),
        BetaTCVAE(beta=8.0),
        BetaTCVAE(beta=8.0, estimator="mss1"),
        IVAE(),
        Decomposition(alpha=10.0, divergence="inclusive_kl"),
        Decomposition(alpha=0.0, beta=3.0),
    ],
    ids=repr,
)
def test_an_unused_variable_rests_at_the_prior(objective):
    prior = StandardNormal(2)
    torch.testing.assert_close(objective.rest_variance(prior), torch.ones(1, 2))
    torch.testing.assert_close(rested(objective, prior), torch.ones(2), rtol=0.05, atol=0.0)


@pytest.mark.parametrize("variances", [(1.0, 1.0), (3.0, 0.2)])
def test_a_penalty_on_the_variance_changes_the_rest(variances):
    objective, prior = RTCVAE(beta=1.0, eta=2.0), Anisotropic(2, variances=variances)
    critic = torch.nn.Linear(2, 2)
    with torch.no_grad():
        critic.weight.zero_(), critic.bias.zero_()
    rest = objective.rest_variance(prior)[0]
    torch.testing.assert_close(rest, 1 / (1 / torch.tensor(variances) + 4), rtol=1e-5, atol=0.0)
    torch.testing.assert_close(rested(objective, prior, critic=critic), rest, rtol=0.05, atol=0.0)


@pytest.mark.parametrize("record", registry.records("objective"), ids=lambda record: record.name)
def test_every_objective_documents_the_rest(record):
    assert "An unused variable rests" in " ".join((record.call.__doc__ or "").split())


def test_with_a_critic_that_sees_no_dependence_only_the_rate_acts():
    objective, prior, critic = FactorVAE(gamma=100.0), StandardNormal(2), torch.nn.Linear(2, 2)
    with torch.no_grad():
        critic.weight.zero_(), critic.bias.zero_()
    torch.testing.assert_close(objective.rest_variance(prior), torch.ones(1, 2))
    torch.testing.assert_close(rested(objective, prior, critic=critic), torch.ones(2), rtol=0.05, atol=0.0)


def test_a_capacity_defines_no_rest():
    assert AnnealedVAE(c_max=5.0).rest_variance(StandardNormal(2)) is None


def test_under_heavy_tails_it_rests_between_the_nearest_gaussian_and_the_prior_variance():
    prior = StudentT(1, df=9.0)
    found = [
        Decomposition(alpha=a, divergence="inclusive_kl").rest_variance(prior).item() for a in (0.0, 1.0, 10.0, 100.0)
    ]
    assert found == pytest.approx([1.209, 1.252, 1.278, 1.284], abs=2e-3)
    assert BetaVAE().rest_variance(StudentT(1, df=9.0, scale=3.0)).item() == pytest.approx(9 * found[0], rel=1e-4)


def test_under_the_sparse_prior_it_rests_in_the_spike():
    assert ELBO().rest_variance(Sparse(1)).item() == pytest.approx(0.0028, abs=2e-4)
    both = Decomposition(alpha=10.0, divergence="inclusive_kl").rest_variance(Sparse(1)).item()
    assert both == pytest.approx(0.202, abs=0.02)


def test_under_a_mixture_it_rests_on_one_component():
    prior = GaussianMixture(2)
    torch.testing.assert_close(ELBO().rest_variance(prior), torch.full((1, 2), 0.03))
    torch.testing.assert_close(rested(ELBO(), prior, start=-2.0), torch.full((2,), 0.03), rtol=0.1, atol=0.0)
    spread = Decomposition(alpha=10.0, divergence="inclusive_kl").rest_variance(prior)
    torch.testing.assert_close(spread, torch.full((1, 2), 0.53))
