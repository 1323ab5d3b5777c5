import pytest
import torch
from torch import distributions

from polarised.models import DiagonalGaussian


@pytest.fixture
def pair():
    generator = torch.Generator().manual_seed(0)
    return [DiagonalGaussian(*torch.randn(2, 5, 3, generator=generator, dtype=torch.float64)) for _ in range(2)]


def reference(gaussian):
    return distributions.Normal(gaussian.mean, gaussian.variance.sqrt())


def test_agrees_with_torch(pair):
    q, p = pair
    z = q.sample(torch.Generator().manual_seed(1))
    torch.testing.assert_close(q.log_prob(z), reference(q).log_prob(z))
    torch.testing.assert_close(q.entropy(), reference(q).entropy())
    torch.testing.assert_close(q.kl(p), distributions.kl_divergence(reference(q), reference(p)))


def test_sample_is_reparameterised_and_seeded(pair):
    q = DiagonalGaussian(pair[0].mean.requires_grad_(), pair[0].log_variance)
    first, second = (q.sample(torch.Generator().manual_seed(1)) for _ in range(2))
    assert torch.equal(first, second)
    (gradient,) = torch.autograd.grad(first.sum(), q.mean)
    assert torch.equal(gradient, torch.ones_like(gradient))


def test_sample_has_the_moments(pair):
    q = DiagonalGaussian(pair[0].mean[:1].expand(100_000, -1), pair[0].log_variance[:1].expand(100_000, -1))
    z = q.sample(torch.Generator().manual_seed(1))
    torch.testing.assert_close(z.mean(0), q.mean[0], atol=0.03, rtol=0)
    torch.testing.assert_close(z.var(0), q.variance[0], atol=0.02, rtol=0.02)


def test_tiny_variances_stay_finite():
    q = DiagonalGaussian(torch.zeros(1, 1), torch.full((1, 1), -60.0))
    p = DiagonalGaussian(torch.zeros(1, 1), torch.full((1, 1), -58.0))
    assert q.kl(p).item() == pytest.approx(0.5 * (torch.tensor(-2.0).exp().item() - 1 + 2))
