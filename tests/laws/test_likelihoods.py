"""What holds for every likelihood of the catalogue."""

import math

import pytest
import torch
from torch import distributions

from polarised import registry
from polarised.errors import ConfigError
from polarised.models import build_vae

PAGE = "likelihood"
SPECS = [spec for record in registry.records(PAGE) for spec in record.examples()]
DENSITIES = [record for record in registry.records(PAGE) if record.facts.get("density", True)]
BOUNDED = [record for record in registry.records(PAGE) if "support" in record.facts]


def label(spec):
    return "-".join(str(value) for value in spec.values()) if isinstance(spec, dict) else spec


def outputs_for(likelihood, shape, *, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape[0], shape[1] * likelihood.outputs_per_value, *shape[2:], generator=generator)


@pytest.mark.parametrize("shape", [(4, 3, 8, 8), (4, 5)])
@pytest.mark.parametrize("spec", SPECS, ids=label)
def test_shapes_and_gradients(spec, shape):
    likelihood = registry.build(PAGE, spec)
    outputs = outputs_for(likelihood, shape).requires_grad_()
    x = torch.rand(shape, generator=torch.Generator().manual_seed(1))
    log_prob = likelihood.log_prob(x, outputs)
    assert log_prob.shape == (4,)
    assert likelihood.mean(outputs).shape == shape
    assert likelihood.check(x) == []
    log_prob.sum().backward()
    assert torch.isfinite(outputs.grad).all()
    assert outputs.grad.abs().sum() > 0
    assert all(torch.isfinite(p.grad).all() and p.grad != 0 for p in likelihood.parameters())


@pytest.mark.parametrize("spec", SPECS, ids=label)
def test_the_loss_is_a_sum_over_the_image(spec):
    """The losses of two halves of an image add up to that of the whole (except with one variance per image)."""
    likelihood = registry.build(PAGE, spec)
    x, outputs = torch.rand(3, 1, 4, 6), outputs_for(likelihood, (3, 1, 4, 6))
    parts = sum(likelihood.log_prob(x[..., part], outputs[..., part]) for part in (slice(0, 3), slice(3, 6)))
    whole = likelihood.log_prob(x, outputs)
    if "per-image" in str(spec):
        assert (parts >= whole - 1e-4).all()
    else:
        torch.testing.assert_close(parts, whole)


@pytest.mark.parametrize("spec", SPECS, ids=label)
def test_large_outputs_stay_finite(spec):
    likelihood = registry.build(PAGE, spec)
    outputs = (outputs_for(likelihood, (2, 1, 2, 2)).sign() * 60).requires_grad_()
    x = torch.tensor([0.0, 1.0]).reshape(2, 1, 1, 1).expand(2, 1, 2, 2)
    likelihood.log_prob(x, outputs).sum().backward()
    assert torch.isfinite(outputs.grad).all()


REFERENCE = {
    "Bernoulli": lambda o: distributions.Bernoulli(logits=o, validate_args=False),
    "ContinuousBernoulli": lambda o: distributions.ContinuousBernoulli(logits=o),
    "Gaussian": lambda o: distributions.Normal(o, 1.0),
    "Laplace": lambda o: distributions.Laplace(o, 0.1),
}


@pytest.mark.parametrize("name", REFERENCE)
def test_the_likelihood_is_that_of_its_distribution(name):
    likelihood = registry.build(PAGE, name)
    x, outputs = torch.rand(5, 7), outputs_for(likelihood, (5, 7))
    reference = REFERENCE[name](outputs)
    torch.testing.assert_close(likelihood.log_prob(x, outputs), reference.log_prob(x).sum(1))
    torch.testing.assert_close(likelihood.mean(outputs), reference.mean)


@pytest.mark.parametrize("record", DENSITIES, ids=lambda record: record.name)
def test_integrates_to_one(record):
    likelihood = registry.build(PAGE, record.name)
    low, high = record.facts.get("support", (-30, 30))
    x = torch.linspace(low, high, 200_001, dtype=torch.float64)[:, None]
    density = likelihood.log_prob(x, torch.full_like(x, 0.7)).exp()
    assert torch.trapezoid(density, x[:, 0]).item() == pytest.approx(1.0, abs=1e-4)


def test_learned_scale_is_a_gaussian_of_that_scale():
    likelihood = registry.build(PAGE, {"name": "Gaussian", "scale": "learned"})
    x, outputs = torch.rand(3, 2), outputs_for(likelihood, (3, 2))
    std = torch.nn.functional.softplus(outputs[:, 2:]) + 1e-6
    expected = distributions.Normal(outputs[:, :2], std).log_prob(x).sum(1)
    torch.testing.assert_close(likelihood.log_prob(x, outputs), expected)


def test_scale_of_the_image_is_the_optimal_one():
    x, outputs = torch.rand(1, 50), torch.rand(1, 50)
    best = registry.build(PAGE, {"name": "Gaussian", "scale": "per-image"}).log_prob(x, outputs).item()
    error = ((x - outputs) ** 2).mean().item()
    for variance in (0.5 * error, error, 2 * error):
        fixed = registry.build(PAGE, {"name": "Gaussian", "variance": variance}).log_prob(x, outputs).item()
        assert fixed <= best + 1e-4
        assert (variance == error) == math.isclose(fixed, best, abs_tol=1e-3)


def test_shared_scale_is_trained_and_saved():
    vae = build_vae({"architecture": "mlp", "likelihood": {"name": "Gaussian", "scale": "shared"}}, (4,))
    assert "likelihood.log_variance" in dict(vae.named_parameters())
    assert "likelihood.log_variance" in vae.state_dict()


@pytest.mark.parametrize("record", BOUNDED, ids=lambda record: record.name)
def test_images_outside_the_range_get_a_sentence(record):
    (sentence,) = registry.build(PAGE, record.name).check(torch.tensor([-0.2, 1.3]))
    assert "[-0.2, 1.3]" in sentence
    assert record.name in sentence


@pytest.mark.parametrize("spec", [{"name": "Gaussian", "variance": 0.0}, {"name": "Laplace", "scale": -1.0}], ids=label)
def test_wrong_settings_are_refused(spec):
    with pytest.raises(ConfigError, match=spec["name"]):
        registry.build(PAGE, spec)
