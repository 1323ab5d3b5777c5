"""Laws of every objective of the catalogue."""

import itertools

import pytest
import torch
from torch import nn

from polarised import registry
from polarised.models import build_vae
from polarised.models._dense_pass import plan_pass
from polarised.models.distributions import DiagonalGaussian
from polarised.models.networks import seeded_weights
from polarised.objectives import ELBO, AnnealedVAE
from polarised.objectives import take_step as forward
from polarised.objectives.terms import posterior_covariance

PAGE = "objective"
NAMES = registry.names(PAGE)
SPECS = [spec for record in registry.records(PAGE) for spec in record.examples()]
PRIORS = ["StandardNormal", {"name": "StudentT", "df": 5.0}, "Sparse", "GaussianMixture", "Conditional"]


def label(spec):
    return "-".join(str(value) for value in spec.values()) if isinstance(spec, dict) else spec


def setting(spec, *, prior="StandardNormal", latents=4, number=3):
    """Return an objective, a small VAE, its critic and a function for the loss of a fixed batch with fixed noise."""
    objective = registry.build(PAGE, spec)
    config = {"architecture": {"name": "mlp", "widths": [16]}, "latents": latents, "prior": prior}
    vae = build_vae(config, (1, 4, 4), auxiliary_size=2, seed=1)
    with seeded_weights(1, "critic"):
        critic = objective.critic(latents)
    memory = objective.memory()
    generator = torch.Generator().manual_seed(2)
    x = torch.rand(32, 1, 4, 4, generator=generator)
    u = torch.rand(32, 2, generator=generator)

    def price(vae=vae, x=x):
        own = torch.Generator().manual_seed(3)
        taken = forward(vae, x, u, number=number, dataset_size=1000, generator=own, critic=critic, memory=memory)
        return objective(taken)

    return objective, vae, critic, price


def total(terms):
    return torch.stack(list(terms.values())).sum()


@pytest.mark.parametrize("prior", PRIORS, ids=label)
@pytest.mark.parametrize("spec", SPECS, ids=label)
def test_terms_are_finite_scalars_with_finite_gradients(spec, prior):
    _, vae, critic, price = setting(spec, prior=prior)
    terms = price()
    assert next(iter(terms)) == "distortion"
    assert all(value.ndim == 0 and torch.isfinite(value) for value in terms.values())
    total(terms).backward()
    parameters = [*vae.parameters(), *(critic.parameters() if critic else [])]
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in parameters)
    assert any(p.grad.abs().sum() > 0 for p in vae.encoder.parameters())


@pytest.mark.parametrize("spec", SPECS, ids=label)
def test_the_pass_without_a_graph_gives_the_same_terms_and_gradients(spec):
    """Fails for an objective that differentiates inside a step; such a one must not be trained this way."""
    found = []
    for planned in (False, True):
        objective, vae, critic, _ = setting(spec)
        plan = plan_pass(vae) if planned else None
        assert (plan is not None) is planned
        x = torch.rand(32, 1, 4, 4, generator=torch.Generator().manual_seed(2))
        own = torch.Generator().manual_seed(3)
        given = {"critic": critic, "memory": objective.memory(), "generator": own, "plan": plan}
        terms = objective(forward(vae, x, number=3, dataset_size=1000, **given))
        total(terms).backward()
        if plan is not None:
            plan.backward()
        parameters = [*vae.parameters(), *(critic.parameters() if critic else [])]
        found.append([*terms.values(), *(parameter.grad for parameter in parameters)])
    for modules, direct in zip(*found, strict=True):
        torch.testing.assert_close(direct, modules, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("spec", SPECS, ids=label)
def test_every_part_gets_only_its_own_gradient(spec):
    """The terms of the VAE have no gradient for the critic, and the critic's term has none for the VAE."""
    _, vae, critic, price = setting(spec)
    terms = price()
    if critic is None:
        assert "critic" not in terms
        return
    own = terms.pop("critic")
    weights, others = list(critic.parameters()), list(vae.parameters())
    # Both share nodes of the graph: gradients that do not concern a part are None, or exactly 0.
    for term, parts in ((own, others), (total(terms), weights)):
        foreign = torch.autograd.grad(term, parts, retain_graph=True, allow_unused=True)
        assert not any(gradient.any() for gradient in foreign if gradient is not None)
    assert all(g.abs().sum() > 0 for g in torch.autograd.grad(own, weights, retain_graph=True))
    assert torch.autograd.grad(terms["total_correlation"], list(vae.encoder.parameters()))[0].abs().sum() > 0


@pytest.mark.parametrize("spec", SPECS, ids=label)
def test_config_round_trip(spec):
    full = registry.complete(PAGE, spec)
    assert registry.complete(PAGE, full) == full
    assert registry.build(PAGE, full) == registry.build(PAGE, spec)
    assert repr(registry.build(PAGE, full)) == repr(registry.build(PAGE, spec))


@pytest.mark.parametrize("spec", SPECS, ids=label)
def test_one_step_lowers_the_same_loss(spec):
    _, vae, _, price = setting(spec)
    before = price()
    total(before).backward()
    with torch.no_grad():
        size = sum(p.grad.square().sum() for p in vae.parameters()).sqrt()
        for p in vae.parameters():
            p -= 1e-3 * p.grad / size
    after = price()
    assert total(after) - after.get("critic", 0) < total(before) - before.get("critic", 0)


@pytest.mark.parametrize("spec", SPECS, ids=label)
def test_critic_learns(spec):
    _, _, critic, price = setting(spec)
    if critic is None:
        return
    optimiser = torch.optim.Adam(critic.parameters(), lr=1e-2)
    first = price()["critic"]
    for _ in range(20):
        optimiser.zero_grad()
        price()["critic"].backward()
        optimiser.step()
    assert price()["critic"] < first


@pytest.mark.parametrize("spec", SPECS, ids=label)
def test_the_same_seed_gives_the_same_loss(spec):
    _, _, _, price = setting(spec)
    first, second = price(), price()
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("prior", ["StandardNormal", {"name": "StudentT", "df": 5.0}, "Sparse"], ids=label)
@pytest.mark.parametrize("spec", SPECS, ids=label)
def test_order_of_latents_does_not_matter(spec, prior):
    """Permuting the latents of an exchangeable prior changes no term, if noise and samples are permuted as well."""
    objective, vae, critic, _ = setting(spec, prior=prior)
    assert vae.prior.exchangeable
    order = torch.tensor([2, 0, 3, 1])
    x = torch.rand(32, 1, 4, 4, generator=torch.Generator().manual_seed(4))
    noise = torch.randn(32, 4, generator=torch.Generator().manual_seed(5))
    memory = objective.memory()
    common = {"dataset_size": 1000, "number": 3, "noise": noise, "memory": memory}
    step = forward(vae, x, critic=critic, generator=torch.Generator(), **common)
    permuted = forward(vae, x, critic=Reordered(critic, order), **common)
    object.__setattr__(permuted, "posterior", reorder(permuted.posterior, order))
    object.__setattr__(permuted, "z", permuted.z[:, order])
    object.__setattr__(permuted, "prior", Reordered.draws(vae.prior, order))
    object.__setattr__(permuted, "generator", torch.Generator())
    first, second = objective(step), objective(permuted)
    for name in set(first) - {"critic"}:
        torch.testing.assert_close(first[name], second[name], rtol=2e-5, atol=2e-5)


def reorder(posterior, order):
    return DiagonalGaussian(posterior.mean[:, order], posterior.log_variance[:, order])


class Reordered(nn.Module):
    """A critic that inverts a permutation, and a prior whose samples are permuted."""

    def __init__(self, critic, order):
        super().__init__()
        self.critic, self.inverse = critic, order.argsort()

    def forward(self, z):
        return self.critic(z[:, self.inverse])

    @staticmethod
    def draws(prior, order):
        permuted = prior.kept(list(range(prior.latents)))
        permuted.sample = lambda n, generator: prior.sample(n, generator)[:, order]
        return permuted


NEUTRAL = [
    {"name": record.name, **settings}
    for record in registry.records(PAGE)
    for settings in record.facts.get("neutral", ())
]


@pytest.mark.parametrize("spec", NEUTRAL, ids=label)
def test_neutral_weights_are_the_elbo(spec):
    _, vae, _, price = setting(spec)
    elbo = setting("ELBO")[3]
    ours, theirs = price(), elbo(vae=vae)
    ours.pop("critic", None)
    assert total(ours).item() == total(theirs).item()
    gradients = [torch.autograd.grad(total(terms), vae.encoder.mean_head.weight)[0] for terms in (ours, theirs)]
    assert torch.equal(*gradients)


@pytest.mark.parametrize("spec", SPECS, ids=label)
def test_a_copy_continues_from_finite_buffers(spec):
    """It can be saved in a checkpoint: only numbers, from the first step on, and nothing for the optimiser."""
    objective, vae, critic, _ = setting(spec)
    memory = objective.memory()
    if memory is None:
        return
    x = torch.rand(16, 1, 4, 4, generator=torch.Generator().manual_seed(4))

    def price(memory, number):
        own = torch.Generator().manual_seed(number)
        taken = forward(vae, x, number=number, dataset_size=100, generator=own, critic=critic, memory=memory)
        return total(objective(taken)).item()

    assert not list(memory.parameters())
    first = [price(memory, number) for number in range(3)]
    assert all(torch.isfinite(value) for value in memory.state_dict().values())
    copied = objective.memory()
    copied.load_state_dict(memory.state_dict())
    assert [price(memory, n) for n in range(3, 6)] == [price(copied, n) for n in range(3, 6)]
    assert len(set(first)) == 3


def test_annealed_capacity_zero_is_beta():
    annealed = AnnealedVAE(gamma=4.0, c_max=0.0)
    price, beta = setting({"name": "AnnealedVAE", **vars(annealed)})[3], setting({"name": "BetaVAE", "beta": 4.0})[3]
    assert total(price()).item() == total(beta()).item()


@pytest.mark.parametrize("spec", SPECS, ids=label)
def test_warnings_are_sentences(spec):
    objective = registry.build(PAGE, spec)
    for steps in (5, 10**6):
        for sentence in objective.warnings(steps=steps, dataset_size=100):
            assert sentence.endswith(".")
            assert "\n" not in sentence


def test_dip_covariance_is_symmetric_and_only_its_diagonal_moves():
    generator = torch.Generator().manual_seed(0)
    posterior = DiagonalGaussian(torch.randn(20, 5, generator=generator), torch.randn(20, 5, generator=generator))
    first, second = (posterior_covariance(posterior, of=of) for of in ("mean", "sample"))
    torch.testing.assert_close(first, first.T)
    difference = second - first
    torch.testing.assert_close(torch.diagonal(difference), posterior.variance.mean(0))
    assert all(difference[i, j] == 0 for i, j in itertools.permutations(range(5), 2))


@pytest.mark.parametrize("name", NAMES)
def test_default_run_starts_without_a_warning_it_could_avoid(name):
    """At the length of the papers' runs, every default has an effect."""
    assert registry.build(PAGE, name).warnings(steps=300_000, dataset_size=737_280) == []


def test_elbo_has_its_name():
    assert setting("ELBO")[0] == ELBO()
