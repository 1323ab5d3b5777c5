"""What holds for every architecture of the catalogue, at every size it takes."""

import pytest
import torch

from polarised import registry
from polarised.errors import ConfigError, DataError
from polarised.models import build_vae
from polarised.objectives import ELBO, take_step
from polarised.pruning import prune, pruned_config, pruning_report

PAGE = "architecture"
NAMES = registry.names(PAGE)
CONVOLUTIONAL = [record.name for record in registry.records(PAGE) if "square" in record.needs]


def images(shape, n=2):
    return torch.rand(n, *shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("side", [16, 32, 64, 128])
@pytest.mark.parametrize("name", NAMES)
def test_every_size_goes_through(name, side):
    shape = (2, side, side)
    encoder, decoder = registry.build(PAGE, name, shape, 3, 2, 4)
    x = images(shape)
    mean, log_variance = encoder(x, torch.rand(2, 4))
    assert mean.shape == log_variance.shape == (2, 3)
    assert decoder(mean).shape == (2, 4, side, side)
    assert encoder.shape == decoder.shape == shape


@pytest.mark.parametrize("name", CONVOLUTIONAL)
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 64, 32), (1, 8, 8), (1, 256, 256), (10,)])
def test_size_that_does_not_fit_names_those_that_do(name, shape):
    with pytest.raises(ConfigError, match=rf"{name}.*16, 32, 64 or 128.*mlp"):
        registry.build(PAGE, name, shape, 3, 1, 0)


@pytest.mark.parametrize("name", NAMES)
def test_auxiliary_variables_reach_the_heads(name):
    encoder, _ = registry.build(PAGE, name, (1, 16, 16), 3, 1, 2)
    encoder.eval()
    x = images((1, 16, 16))
    first, second = encoder(x, torch.zeros(2, 2))[0], encoder(x, torch.ones(2, 2))[0]
    assert (first - second).abs().max() > 0
    for wrong in (None, torch.zeros(2, 3), torch.zeros(3, 2)):
        with pytest.raises(DataError, match=r"auxiliary variables u of shape .* directory of its run without data="):
            encoder(x, wrong)
    without, _ = registry.build(PAGE, name, (1, 16, 16), 3, 1, 0)
    without.eval()
    assert torch.equal(without(x)[0], without(x, torch.zeros(2, 7))[0])


@pytest.mark.parametrize("name", NAMES)
def test_every_weight_is_trained(name):
    vae = build_vae({"architecture": name, "latents": 3}, (1, 16, 16))
    terms = ELBO()(take_step(vae, images((1, 16, 16), 8), dataset_size=8))
    sum(terms.values()).backward()
    for name_, weight in vae.named_parameters():
        assert weight.grad is not None, name_
        assert torch.isfinite(weight.grad).all(), name_
        assert weight.grad.abs().sum() > 0, name_


@pytest.mark.parametrize("name", NAMES)
def test_memory_format_does_not_matter(name):
    vae = build_vae({"architecture": name, "latents": 3}, (3, 32, 32)).eval()
    x = images((3, 32, 32))
    expected = vae.decode(vae.posterior(x).mean)
    fast = vae.to(memory_format=torch.channels_last)
    mean = fast.posterior(x.to(memory_format=torch.channels_last)).mean
    torch.testing.assert_close(fast.decode(mean), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_weights_and_torch_is_left_alone(name):
    state = torch.random.get_rng_state()
    first, second, third = (build_vae({"architecture": name}, (1, 16, 16), seed=seed) for seed in (0, 0, 1))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert not torch.equal(first.encoder.mean_head.weight, third.encoder.mean_head.weight)


PRIORS = [
    "StandardNormal",
    {"name": "Anisotropic", "variances": [2.0, 0.5, 0.3, 1.2]},
    "StudentT",
    "Sparse",
    "GaussianMixture",
    {"name": "GaussianMixture", "means": [[0.5, 1.0, -1.0, 0.2], [1.5, 0.0, 0.0, 0.0]]},
    "Conditional",
    {"name": "Conditional", "mean": "learned"},
]


PRUNED = [("mlp", prior) for prior in PRIORS] + [(name, PRIORS[i]) for name in CONVOLUTIONAL for i in (0, 5, 7)]


@pytest.mark.parametrize(("name", "prior"), PRUNED, ids=str)
def test_pruning_is_exact_and_leaves_an_ordinary_model(name, prior):
    """decoder'(z_keep) = decoder(z) with the dropped variables at their prior mean; heads keep their rows."""
    config = {"architecture": name, "latents": 4, "prior": prior}
    vae = build_vae(config, (1, 16, 16), auxiliary_size=2, seed=3).eval()
    with torch.no_grad():
        for weight in vae.parameters():
            weight += 0.05 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1))
    before = {key: value.clone() for key, value in vae.state_dict().items()}
    u = torch.rand(50, 2, generator=torch.Generator().manual_seed(2))
    keep = [3, 1]
    pruned = prune(vae, keep, u=u)
    assert pruned.latents == 2
    assert all(torch.equal(before[key], value) for key, value in vae.state_dict().items())

    x = images((1, 16, 16), 50)
    whole, part = vae.posterior(x, u), pruned.posterior(x, u)
    torch.testing.assert_close(part.mean, whole.mean[:, keep])
    torch.testing.assert_close(part.log_variance, whole.log_variance[:, keep])
    z = vae.prior.given(u).moments(50)[0].mean(0).expand(50, -1).clone()
    z[:, keep] = whole.mean[:, keep]
    torch.testing.assert_close(pruned.decode(part.mean), vae.decode(z), rtol=1e-4, atol=1e-5)

    again = build_vae(pruned_config(config, keep), (1, 16, 16), auxiliary_size=2).eval()
    again.load_state_dict(pruned.state_dict())
    torch.testing.assert_close(again.reconstruct(x, u), pruned.reconstruct(x, u))

    report = pruning_report(vae, pruned, x, keep=keep, u=u)
    assert report.parameters[0] > report.parameters[1]
    assert report.encodings < 1e-5
    assert report.dropped == (0, 2)
