import itertools
import math
from typing import get_args

import pytest
import torch
from torch import nn

from polarised.errors import ConfigError, DataError
from polarised.models import build_vae
from polarised.models.distributions import DiagonalGaussian
from polarised.objectives import FactorVAE, take_step, terms
from polarised.objectives.terms import (
    SCALES,
    covariance_penalty,
    critic_terms,
    mmd,
    posterior_covariance,
    rate,
    rate_parts,
    shuffled,
)
from polarised.regime.encodings import Estimator, importance_weights


def step(**others):
    vae = build_vae({"architecture": "mlp", "latents": 3}, (1, 4, 4), seed=2)
    x = torch.rand(16, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    return take_step(vae, x, dataset_size=500, generator=torch.Generator().manual_seed(1), **others)


@pytest.mark.parametrize("estimator", ["mws", "mss0", "mss1", "eq10b", "disentanglement_lib"])
def test_parts_sum_to_the_sampled_rate(estimator):
    taken = step()
    sampled = taken.posterior.log_prob(taken.z).sum(1) - taken.prior.log_prob(taken.z)
    torch.testing.assert_close(sum(rate_parts(taken, estimator=estimator)), sampled.mean(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("estimator", "unbiased"), [("mss1", True), ("eq10b", True), ("mws", False), ("mss0", False)])
def test_bias_of_the_weights_by_enumeration(estimator, unbiased):
    """Over all ordered batches of 3 out of 6 with the first row as the sample's own, E[sum_k W q_k] = mean q or not."""
    density = torch.rand(6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    row = 2
    weights = torch.from_numpy(importance_weights(3, 6, estimator=estimator)[row])
    own, totals = 0, []
    for others in itertools.permutations(range(1, 6), 2):
        batch = list(others)
        batch.insert(row, own)
        totals.append((weights * density[batch]).sum())
    estimate = torch.stack(totals).mean()
    truth = density.mean()
    assert bool(torch.isclose(estimate, truth, rtol=1e-12)) == unbiased


def test_constants_do_not_change_the_gradient():
    gradients = []
    for estimator in ("mws", "disentanglement_lib"):
        taken = step()
        leaf = taken.posterior.mean
        gradients.append(torch.autograd.grad(rate_parts(taken, estimator=estimator).total_correlation, leaf)[0])
    torch.testing.assert_close(*gradients)


def test_weights_multiply_the_parts_and_their_gradients_and_zero_leaves_a_part_out():
    weights = (0.0, 3.0, -2.0)
    taken = step()
    for weight, found, part in zip(weights, rate_parts(taken, weights=weights), rate_parts(taken), strict=True):
        torch.testing.assert_close(found, weight * part)
        assert found.requires_grad == (weight != 0)
        if weight:
            mine, right = (torch.autograd.grad(value, taken.z, retain_graph=True)[0] for value in (found, part))
            torch.testing.assert_close(mine, weight * right)


def test_one_variable_has_no_total_correlation():
    vae = build_vae({"architecture": "mlp", "latents": 1}, (1, 4, 4))
    taken = take_step(vae, torch.rand(8, 1, 4, 4), dataset_size=100)
    assert rate_parts(taken).total_correlation.item() == pytest.approx(0, abs=1e-6)


def test_batch_larger_than_the_data_stays_finite():
    vae = build_vae({"architecture": "mlp", "latents": 2}, (1, 4, 4))
    taken = take_step(vae, torch.rand(8, 1, 4, 4), dataset_size=3)
    for estimator in ("mws", "mss0", "mss1", "eq10b"):
        assert all(torch.isfinite(part) for part in rate_parts(taken, estimator=estimator))


def test_shuffling_keeps_each_variable_and_breaks_the_pairs():
    z = torch.arange(200.0).reshape(100, 2)
    permuted = shuffled(z, torch.Generator().manual_seed(0))
    assert torch.equal(permuted.sort(0).values, z)
    assert not torch.equal(permuted[:, 0] + 1, permuted[:, 1])


def test_density_ratio_of_the_best_critic_is_the_total_correlation():
    """Two normals of correlation 0.6: E[log D/(1-D)] = -log(1 - 0.36)/2; the printed ratio without log is 1.5625."""
    rho, n = 0.6, 400_000
    noise = torch.randn(n, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    z = torch.stack([noise[:, 0], rho * noise[:, 0] + math.sqrt(1 - rho**2) * noise[:, 1]], 1)

    class Best(torch.nn.Module):
        def forward(self, z):
            joint = torch.distributions.MultivariateNormal(
                torch.zeros(2, dtype=z.dtype), torch.tensor([[1, rho], [rho, 1]], dtype=z.dtype)
            )
            product = torch.distributions.Normal(0.0, 1.0)
            return torch.stack([joint.log_prob(z), product.log_prob(z).sum(1)], 1)

    taken = step(critic=Best())
    object.__setattr__(taken, "z", z)
    value = critic_terms(taken)[0].item()
    assert value == pytest.approx(-0.5 * math.log(1 - rho**2), abs=3e-3)
    logits = Best()(z)
    printed = (logits[:, 0] - logits[:, 1]).exp().mean().item()
    assert printed == pytest.approx(1 / (1 - rho**2), rel=0.02)


@pytest.mark.parametrize("clip", [0.0, 0.45])
def test_terms_of_the_critic_are_the_printed_formulas_with_their_gradients(clip):
    """log D - log(1 - D) of the codes, and -(log D of codes + log(1 - D) of shuffled codes) / 2 over the batch."""
    critic = FactorVAE(critic_layers=1, critic_width=8).critic(3)
    taken = step(critic=critic)
    seeded = torch.Generator().manual_seed(5)
    object.__setattr__(taken, "generator", seeded)
    others = shuffled(taken.z.detach(), torch.Generator().manual_seed(5))
    correlation, loss = critic_terms(taken, clip=clip)
    plain = nn.Sequential(*critic)
    real, false = (torch.softmax(plain(codes), 1) for codes in (taken.z, others))
    right = (real[:, 0].log() - real[:, 1].log()).mean()
    if clip:
        real, false = real.clamp(clip, 1 - clip), false.clamp(clip, 1 - clip)
    own = -(real[:, 0].log().mean() + false[:, 1].log().mean()) / 2
    torch.testing.assert_close((correlation, loss), (right, own))
    mine, expected = (torch.autograd.grad(value, taken.z, retain_graph=True)[0] for value in (correlation, right))
    torch.testing.assert_close(mine, expected)
    weights = list(critic.parameters())
    found, wanted = (torch.autograd.grad(value, weights, allow_unused=True) for value in (loss, own))
    torch.testing.assert_close(found, wanted)


def test_covariance_penalty_and_its_gradient_are_those_of_the_sums():
    values = torch.randn(4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()
    off_diagonal = sum(values[i, j] ** 2 for i in range(4) for j in range(4) if i != j)
    right = 2 * off_diagonal + 7 * sum((values[i, i] - 1) ** 2 for i in range(4))
    found = covariance_penalty(values, lambda_od=2.0, lambda_d=7.0)
    torch.testing.assert_close(found, right)
    torch.testing.assert_close(torch.autograd.grad(found, values), torch.autograd.grad(right, values))


def test_a_missing_critic_is_refused():
    with pytest.raises(ConfigError, match="critic"):
        FactorVAE()(step())


def test_covariance_of_the_sample_is_that_of_many_draws():
    generator = torch.Generator().manual_seed(0)
    q = DiagonalGaussian(torch.randn(20, 3, generator=generator), torch.randn(20, 3, generator=generator))
    draws = torch.cat([q.sample(generator) for _ in range(20_000)])
    torch.testing.assert_close(torch.cov(draws.T), posterior_covariance(q, of="sample"), atol=0.03, rtol=0.02)


def test_mmd_of_the_joint_detects_a_difference_with_equal_marginals():
    """Two samples with the same marginals, one correlated: the kernel per variable cannot tell them apart."""
    generator = torch.Generator().manual_seed(0)
    independent = torch.randn(400, 2, generator=generator)
    line = torch.randn(400, 1, generator=generator).expand(-1, 2)
    other = torch.randn(400, 2, generator=generator)
    assert mmd(line, independent) > 20 * mmd(other, independent).abs()
    assert mmd(line, independent, per_variable=True).abs() < 0.05


def test_mmd_is_unbiased():
    samples = torch.randn(400, 2, 10, 2, generator=torch.Generator().manual_seed(0))
    values = torch.stack([mmd(first, second) for first, second in samples])
    assert values.mean().abs() < 4 * values.std() / 20


def test_rate_is_the_mean_over_images():
    taken = step()
    q = taken.posterior
    expected = 0.5 * (q.mean**2 + q.variance - 1 - q.log_variance).sum(1).mean()
    torch.testing.assert_close(rate(taken), expected)


@pytest.mark.parametrize("per_variable", [False, True])
def test_mmd_in_parts_equals_mmd_at_once(per_variable, monkeypatch):
    """Value and gradient agree to the last bit, while only a few rows of kernels are in memory."""
    generator, found = torch.Generator().manual_seed(0), []
    samples = torch.randn(2, 12, 5, generator=generator)
    held, largest = [], []
    divide = torch.Tensor.__truediv__
    monkeypatch.setattr(torch.Tensor, "__truediv__", lambda a, b: held.append(b.numel()) or divide(a, b))
    for at_once in (2**20, 300):
        held.clear()
        monkeypatch.setattr("polarised.objectives.terms._AT_ONCE", at_once)
        first = samples[0].clone().requires_grad_()
        value = mmd(first, samples[1], per_variable=per_variable)
        found.append((value.detach(), torch.autograd.grad(value, first)[0]))
        largest.append(max(held))
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
    # The kernels of the joint are computed one width at a time.
    assert largest[0] == 24 * 24 * (5 * len(SCALES) if per_variable else 1)
    assert largest[1] <= 300 * (len(SCALES) if per_variable else 1)


@pytest.mark.parametrize("distance", ["squared", "printed"])
@pytest.mark.parametrize("sizes", [(64, 64, 10), (17, 9, 4), (5, 40, 1)])
def test_mmd_and_its_gradient_equal_the_plain_formula_bit_for_bit(sizes, distance):
    n, m, d = sizes
    generator = torch.Generator().manual_seed(n)
    samples = [torch.randn(count, d, generator=generator).requires_grad_() for count in (n, m)]
    both = torch.cat(samples)
    squared = ((both[:, None] - both[None]) ** 2).sum(2, keepdim=True)
    if distance == "printed":
        squared = squared.clamp_min(torch.finfo(squared.dtype).tiny).sqrt()
    widths = torch.tensor(SCALES) * 2 * d
    kernel = (widths / (widths + squared[..., None])).sum((2, 3))
    weights = torch.full((n + m, n + m), 1 / (n * (n - 1)))
    weights[n:, n:] = 1 / (m * (m - 1))
    weights[:n, n:] = weights[n:, :n] = -1 / (n * m)
    plain = (kernel * weights.fill_diagonal_(0)).sum()
    ours = mmd(*samples, distance=distance)
    assert torch.equal(ours, plain)
    for own, other in zip(*(torch.autograd.grad(value, samples) for value in (ours, plain)), strict=True):
        assert torch.equal(own, other)


def test_mmd_of_samples_of_unequal_size_is_the_plain_double_sum():
    generator = torch.Generator().manual_seed(0)
    first, second = torch.randn(7, 2, generator=generator).double(), 1 + torch.randn(4, 2, generator=generator).double()

    def kernel(a, b, power):
        gap = (a - b).norm() ** power
        return sum(2 * 2 * s / (2 * 2 * s + gap) for s in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0))

    for distance, power in (("squared", 2), ("printed", 1)):
        own = sum(kernel(a, b, power) for i, a in enumerate(first) for k, b in enumerate(first) if i != k) / (7 * 6)
        others = sum(kernel(a, b, power) for i, a in enumerate(second) for k, b in enumerate(second) if i != k) / 12
        across = sum(kernel(a, b, power) for a in first for b in second) / 28
        torch.testing.assert_close(mmd(first, second, distance=distance), own + others - 2 * across)


def test_printed_mmd_has_a_gradient_and_invalid_samples_are_refused():
    first = torch.randn(5, 3, generator=torch.Generator().manual_seed(1)).requires_grad_()
    mmd(first, torch.zeros(5, 3), distance="printed").backward()
    assert torch.isfinite(first.grad).all()
    for shape in ((1, 3), (4, 2)):
        with pytest.raises(DataError, match="at least two rows"):
            mmd(torch.zeros(5, 3), torch.zeros(shape))


@pytest.mark.parametrize("estimator", get_args(Estimator))
def test_densities_have_the_values_and_gradients_of_the_formula(estimator):
    generator = torch.Generator().manual_seed(0)
    codes = [torch.randn(6, 3, dtype=torch.float64, generator=generator).requires_grad_() for _ in range(3)]
    weights = torch.from_numpy(importance_weights(6, 40, estimator=estimator)).log()
    for mine, right in zip(terms._Densities.apply(*codes, weights), terms._densities(*codes, weights), strict=True):
        torch.testing.assert_close(mine, right)
    single = [values.detach().float().requires_grad_() for values in codes]
    assert "Densities" in type(terms._Densities.apply(*single, weights.float())[0].grad_fn).__name__

    def densities(*codes):
        return terms._Densities.apply(*codes, weights)

    assert torch.autograd.gradcheck(densities, codes)
    assert torch.autograd.gradgradcheck(densities, codes)
