"""Laws of every prior of the catalogue, with three latents and two auxiliary variables."""

import math

import pytest
import torch

from polarised import registry
from polarised.errors import ConfigError, DataError
from polarised.models.distributions import DiagonalGaussian
from polarised.models.networks import seeded_weights
from polarised.models.priors import GaussianMixture
from polarised.pruning import pruned_config

PAGE = "prior"
SPECS = [spec for record in registry.records(PAGE) for spec in record.examples()]
# Counted once for each latent, as the released code does, log p(z) is no KL.
RIGHT = [spec for spec in SPECS if "released-code" not in str(spec)]


def label(spec):
    return "-".join(str(value) for value in spec.values()) if isinstance(spec, dict) else spec


def build(spec, *, n):
    """Return the prior of three latents for the same u in each of n rows."""
    with seeded_weights(0):
        prior = registry.build(PAGE, spec, 3, 2)
    return prior.given(torch.tensor([[0.3, 0.9]]).expand(n, -1)) if prior.conditional else prior


def posterior(n, *, seed=0):
    generator = torch.Generator().manual_seed(seed)
    mean, log_variance = torch.randn(1, 3, generator=generator), torch.randn(1, 3, generator=generator)
    return DiagonalGaussian(mean.expand(n, -1), log_variance.expand(n, -1))


@pytest.mark.parametrize("spec", SPECS, ids=label)
def test_shapes(spec):
    prior = build(spec, n=7)
    q = posterior(7)
    z = q.sample(torch.Generator().manual_seed(1))
    assert prior.log_prob(z).shape == (7,)
    assert prior.sample(7, torch.Generator().manual_seed(1)).shape == (7, 3)
    assert prior.kl(q, z).shape == (7, 3 if prior.factorised else 1)
    assert prior.log_density(z).shape == (7, 3 if prior.factorised else 1)
    assert all(moment.shape == (7, 3) for moment in prior.moments(7))
    assert prior.given(None) is prior


@pytest.mark.parametrize("spec", SPECS, ids=label)
def test_density_is_that_of_the_sample(spec):
    """The share of samples in a box is the integral of the density over it."""
    n = 400_000
    prior = build(spec, n=n)
    z = prior.sample(n, torch.Generator().manual_seed(0)).detach()
    centre, width = z[:50].mean(0), 0.4
    box = ((z - centre).abs() < width).all(1).double().mean()
    grid = torch.linspace(-width, width, 41, dtype=torch.float64)
    points = torch.cartesian_prod(grid, grid, grid) + centre
    prior = build(spec, n=len(points))
    edge = torch.ones(41, dtype=torch.float64)
    edge[[0, -1]] = 0.5
    weight = torch.cartesian_prod(edge, edge, edge).prod(1) * (2 * width / 40) ** 3
    mass = (prior.log_prob(points).exp() * weight).sum()
    assert box > 0.001
    assert abs(mass.item() - box.item()) < 4 * math.sqrt(box * (1 - box) / n) + 2e-3 * box


@pytest.mark.parametrize("spec", RIGHT, ids=label)
def test_kl_is_the_mean_log_ratio(spec):
    n = 200_000
    prior, q = build(spec, n=n), posterior(n)
    z = q.sample(torch.Generator().manual_seed(0))
    ratio = (q.log_prob(z).sum(1) - prior.log_prob(z)).detach()
    expected = ratio.mean().item()
    assert prior.kl(q, z).sum(1).mean().item() == pytest.approx(expected, abs=5 * ratio.std().item() / math.sqrt(n))


@pytest.mark.parametrize("spec", RIGHT, ids=label)
def test_kl_is_never_negative_on_average(spec):
    for seed in range(5):
        n = 20_000
        prior, q = build(spec, n=n), posterior(n, seed=seed)
        values = prior.kl(q, q.sample(torch.Generator().manual_seed(seed))).sum(1)
        assert values.mean() > -4 * values.std() / math.sqrt(n)


@pytest.mark.parametrize("spec", SPECS, ids=label)
def test_moments_are_where_a_passive_posterior_settles(spec):
    """No Gaussian near the moments has a smaller KL; a mixture of places has its own mean and variance instead."""
    prior = build(spec, n=1)
    if not prior.factorised:
        draws = prior.sample(100_000, torch.Generator().manual_seed(0))
        mean, variance = prior.moments(1)
        torch.testing.assert_close(draws.mean(0), mean[0], atol=0.02, rtol=0)
        torch.testing.assert_close(draws.var(0), variance[0], atol=0.02, rtol=0)
        return
    noise = torch.linspace(-8, 8, 8001, dtype=torch.float64)[:, None].expand(-1, 3)
    weight = torch.softmax(-(noise[:, :1] ** 2) / 2, 0)
    wide = build(spec, n=8001)

    def divergence(shift, log_scale):
        mean, variance = (moment.double() for moment in prior.moments(1))
        q = DiagonalGaussian((mean + shift).expand(8001, -1), (variance.log() + log_scale).expand(8001, -1))
        z = q.sample(noise=noise)
        return (weight * (q.log_prob(z) - wide.log_density(z))).sum(0)

    best = divergence(0.0, 0.0)
    for shift, log_scale in [(0.02, 0.0), (-0.02, 0.0), (0.0, 0.05), (0.0, -0.05)]:
        assert (divergence(shift, log_scale) > best).all()


@pytest.mark.parametrize("spec", SPECS, ids=label)
def test_kept_is_the_marginal(spec):
    """p(z_keep) of the kept prior is the integral of p(z) over the others."""
    prior = registry.build(PAGE, spec, 3, 2)
    kept = prior.kept([2, 0])
    assert kept.latents == 2
    u = torch.tensor([[0.3, 0.9]])
    axis = torch.linspace(-60, 60, 30001, dtype=torch.float64)
    z = torch.stack([torch.full_like(axis, 0.4), axis, torch.full_like(axis, -0.7)], 1)
    if prior.conditional:
        kept, prior = kept.given(u), prior.given(u.expand(len(z), -1))
    integral = (prior.log_prob(z).exp() * (axis[1] - axis[0])).sum()
    assert kept.log_prob(torch.tensor([[-0.7, 0.4]]).double()).exp().item() == pytest.approx(integral.item(), rel=1e-3)


@pytest.mark.parametrize("spec", SPECS, ids=label)
def test_kept_state_loads_into_the_same_entry(spec):
    config = pruned_config({"latents": 3, "prior": spec}, [2, 0])
    smaller = registry.build(PAGE, config["prior"], 2, 2)
    kept = registry.build(PAGE, spec, 3, 2).kept([2, 0])
    smaller.load_state_dict(kept.state_dict())
    z, u = torch.randn(4, 2, generator=torch.Generator().manual_seed(0)), torch.rand(4, 2)
    torch.testing.assert_close(smaller.given(u).log_prob(z), kept.given(u).log_prob(z))


@pytest.mark.parametrize("spec", SPECS, ids=label)
def test_exchangeable_priors_are_invariant_to_permutations(spec):
    prior = build(spec, n=5)
    z = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    same = torch.allclose(prior.log_prob(z), prior.log_prob(z[:, [1, 2, 0]]))
    assert same == prior.exchangeable


@pytest.mark.parametrize("spec", SPECS, ids=label)
def test_gradients_are_finite_at_the_edge(spec):
    prior = build(spec, n=3)
    z = torch.tensor([[0.0, 0.0, 0.0], [30.0, -30.0, 1e-8], [1.0, 2.0, 3.0]], requires_grad=True)
    (gradient,) = torch.autograd.grad(prior.log_prob(z).sum(), z)
    assert torch.isfinite(gradient).all()


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("StudentT", {"df": 0.0}),
        ("Sparse", {"gamma": 1.5}),
        ("Sparse", {"width": 0.0}),
        ("GaussianMixture", {"variance": -1.0}),
        ("GaussianMixture", {"means": [[0.0, 1.0]]}),
        ("Anisotropic", {"variances": [1.0]}),
        ("Anisotropic", {"scale": 0.0}),
        ("Anisotropic", {"variances": [1.0, 0.0, 1.0]}),
        ("Conditional", {"widths": []}),
    ],
)
def test_wrong_settings_are_refused(name, settings):
    with pytest.raises(ConfigError, match=name):
        registry.build(PAGE, {"name": name, **settings}, 3, 2)


def test_conditional_needs_u():
    with pytest.raises(ConfigError, match="auxiliary"):
        registry.build(PAGE, "Conditional", 3, 0)
    prior = registry.build(PAGE, "Conditional", 3, 2)
    for ask in (
        lambda: prior.log_prob(torch.zeros(1, 3)),
        lambda: prior.sample(2),
        lambda: prior.moments(2),
        lambda: prior.given(torch.zeros(2, 5)),
    ):
        with pytest.raises(DataError, match="u"):
            ask()
    with pytest.raises(DataError, match="draws"):
        prior.given(torch.zeros(2, 2)).sample(3)


def test_anisotropic_takes_its_scales_from_the_data():
    generator = torch.Generator().manual_seed(0)
    scales = torch.linspace(3, 0.1, 30)
    images = torch.randn(500, 30, generator=generator) * scales
    prior = registry.build(PAGE, "Anisotropic", 3, 0)
    assert prior.awaits_data
    with pytest.raises(DataError, match="fit"):
        prior.log_prob(torch.zeros(1, 3))
    prior.fit(images)
    squared = torch.linalg.svdvals(images)[:3] ** 2
    torch.testing.assert_close(prior.moments(1)[1][0], 3 * squared / squared.sum())
    before = prior.moments(1)[1].clone()
    prior.fit(images * 2)
    assert torch.equal(prior.moments(1)[1], before)

    released = registry.build(PAGE, {"name": "Anisotropic", "compatibility": "released-code"}, 3, 0)
    released.fit(images)
    squared = torch.linalg.svdvals(images)[:20].flip(0)[:3] ** 2
    torch.testing.assert_close(released.moments(1)[1][0], 3 * squared / squared.sum())

    with pytest.raises(DataError, match="singular values"):
        registry.build(PAGE, "Anisotropic", 3, 0).fit(images[:2])


def test_large_images_use_the_truncated_decomposition():
    images = torch.rand(300, 1, 20, 20, generator=torch.Generator().manual_seed(0))
    prior = registry.build(PAGE, "Anisotropic", 4, 0)
    prior.fit(images)
    squared = torch.linalg.svdvals(images.flatten(1).double())[:4] ** 2
    torch.testing.assert_close(prior.moments(1)[1][0].double(), 4 * squared / squared.sum(), rtol=1e-5, atol=0)


def test_learned_scales_keep_their_sum():
    prior = registry.build(PAGE, {"name": "Anisotropic", "variances": [2.0, 0.7, 0.3], "learned": True}, 3, 0)
    optimiser = torch.optim.SGD(prior.parameters(), lr=1.0)
    (-prior.log_prob(torch.tensor([[3.0, 0.0, 0.0]])).sum()).backward()
    optimiser.step()
    variance = prior.moments(1)[1][0]
    assert variance[0] > 2.0
    assert variance.sum().item() == pytest.approx(3.0, rel=1e-5)


@pytest.mark.parametrize("spec", RIGHT, ids=label)
def test_kl_of_a_variable_alone_is_the_mean_log_ratio(spec):
    """Summed over variables it is the KL, and for a prior that does not factorise that of each marginal."""
    n = 200_000
    prior, q = build(spec, n=241), posterior(1)
    found = prior.marginal_kl(q)[0].detach()
    wide = posterior(n)
    z = wide.sample(torch.Generator().manual_seed(0))
    for j in range(3):
        alone = build(spec, n=n).kept([j])
        ratio = (wide.log_prob(z)[:, j] - alone.log_prob(z[:, [j]])).detach()
        assert found[j].item() == pytest.approx(ratio.mean().item(), abs=5 * ratio.std().item() / math.sqrt(n) + 1e-4)


@pytest.mark.parametrize("spec", SPECS, ids=label)
def test_gaussian_priors_have_gaussian_densities(spec):
    """Of a Gaussian the log-density follows from mean and variance."""
    prior, z = build(spec, n=5), torch.linspace(-3, 3, 15).reshape(5, 3)
    mean, variance = prior.moments(5)
    density = DiagonalGaussian(mean, variance.log()).log_prob(z).sum(1)
    same = torch.allclose(prior.log_prob(z), density, atol=1e-4)
    assert same == (prior.gaussian or spec == {"name": "Sparse", "gamma": 0.0})


@pytest.mark.parametrize("spec", SPECS, ids=label)
def test_deviation_is_that_of_the_draws(spec):
    prior = build(spec, n=200_000)
    draws = prior.sample(200_000, torch.Generator().manual_seed(0)).detach()
    rtol = 0.15 if spec == {"name": "StudentT", "df": 3.0} else 0.01
    torch.testing.assert_close(prior.deviation(200_000)[0].detach(), draws.std(0), rtol=rtol, atol=0)


def test_without_a_variance_the_deviation_is_that_of_the_moments():
    prior = registry.build(PAGE, {"name": "StudentT", "df": 1.5}, 3, 0)
    torch.testing.assert_close(prior.deviation(2), prior.moments(2)[1].sqrt())


@pytest.mark.parametrize("generator", [None, torch.Generator()])
@pytest.mark.parametrize("name", ["Anisotropic", "GaussianMixture", "Conditional"])
def test_samples_are_on_the_device_of_the_prior(name, generator, monkeypatch):
    """The device "meta" holds no numbers and cannot be mixed with other devices, like a GPU."""
    randn = torch.randn

    def strict(*shape, generator, device, **others):
        assert generator is None or generator.device == device, "as on a graphics card"
        return randn(*shape, generator=generator, device=device, **others)

    monkeypatch.setattr(torch, "randn", strict)
    spec = {"name": name, "variances": [2.0, 0.7, 0.3]} if name == "Anisotropic" else name
    prior = registry.build(PAGE, spec, 3, 2).to("meta")
    # Tensors on "meta" have no values to check.
    monkeypatch.setattr(type(prior), "awaits_data", False)
    draws = prior.given(torch.zeros(4, 2, device="meta")).sample(4, generator)
    assert (draws.device.type, draws.shape) == ("meta", (4, 3))


def test_whole_numbers_are_accepted_as_means():
    prior = GaussianMixture(3, means=((0, 1, 2), (3, 4, 5)))
    assert prior.means.dtype == torch.float32
    assert torch.isfinite(prior.moments(1)[1]).all()
