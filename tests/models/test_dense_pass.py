"""The pass without a graph gives what the modules give, and is only used where it does."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from polarised.models import VAE, build_vae
from polarised.models._dense_pass import plan_pass
from polarised.models.distributions import DiagonalGaussian
from polarised.objectives.step import take_step

WIDE = {"name": "mlp", "widths": [300, 40]}


def model(shape: tuple[int, ...] = (1, 8, 8), **config: Any) -> VAE:
    return build_vae({"architecture": WIDE, "latents": 4, **config}, shape, auxiliary_size=2, seed=3)


def price(posterior: DiagonalGaussian, z: Tensor, outputs: Tensor, parts: str) -> Tensor:
    """Return a loss of the given parts, each with a gradient of its own."""
    torch.manual_seed(5)
    every = {"mean": posterior.mean, "log_variance": posterior.log_variance, "z": z, "outputs": outputs}
    chosen = {name: (every[name].sin() * torch.rand_like(every[name])).sum() for name in every}
    return torch.stack([chosen[name] for name in parts.split()]).sum()


def gradients(vae: VAE) -> list[Tensor]:
    return [torch.zeros_like(w) if w.grad is None else w.grad.clone() for w in vae.parameters()]


@pytest.mark.parametrize("parts", ["mean", "log_variance", "z", "outputs", "mean log_variance z outputs"])
@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "tanh"])
def test_results_and_gradients_are_those_of_the_modules(activation: str, parts: str) -> None:
    vae = model(architecture={**WIDE, "activation": activation})
    x = torch.rand(64, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    posterior = vae.posterior(x)
    z = posterior.sample(torch.Generator().manual_seed(1))
    expected = posterior.mean, posterior.log_variance, z, vae.decode(z)
    price(posterior, z, expected[3], parts).backward()
    wanted = gradients(vae)
    vae.zero_grad()
    plan = plan_pass(vae)
    assert plan is not None
    found = plan.run(x, torch.Generator().manual_seed(1))
    for mine, right in zip((found[0].mean, found[0].log_variance, *found[1:]), expected, strict=True):
        torch.testing.assert_close(mine, right.detach(), rtol=1e-5, atol=1e-5)
    price(*found, parts).backward()
    plan.backward()
    assert any(own.abs().max() > 0 for own in wanted)
    for mine, right in zip(gradients(vae), wanted, strict=True):
        torch.testing.assert_close(mine, right, rtol=1e-4, atol=1e-5)


def test_layers_that_share_a_weight_add_their_gradients() -> None:
    vae = model()
    vae.encoder.log_variance_head.weight = vae.encoder.mean_head.weight  # type: ignore[assignment]
    x = torch.rand(6, 1, 8, 8)
    posterior = vae.posterior(x)
    z = posterior.sample(torch.Generator().manual_seed(1))
    price(posterior, z, vae.decode(z), "mean log_variance outputs").backward()
    wanted = gradients(vae)
    vae.zero_grad()
    plan = plan_pass(vae)
    assert plan is not None
    price(*plan.run(x, torch.Generator().manual_seed(1)), "mean log_variance outputs").backward()
    plan.backward()
    for mine, right in zip(gradients(vae), wanted, strict=True):
        torch.testing.assert_close(mine, right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(5,), (3, 8, 8)])
def test_outputs_have_the_shape_that_the_decoder_gives_them(shape: tuple[int, ...]) -> None:
    vae = model(shape, likelihood={"name": "Gaussian", "scale": "learned"})
    plan = plan_pass(vae)
    assert plan is not None
    x = torch.rand(6, *shape)
    assert plan.run(x, None)[2].shape == vae.decode(torch.zeros(6, 4)).shape


def test_gradients_need_a_pass_before_them() -> None:
    plan = plan_pass(model())
    assert plan is not None
    with pytest.raises(RuntimeError, match="call run first"):
        plan.backward()


def hooked(vae: VAE) -> None:
    vae.decoder.register_forward_hook(lambda *_: None)


def hooked_layer(vae: VAE) -> None:
    next(m for m in vae.encoder.modules() if isinstance(m, nn.Linear)).register_forward_pre_hook(lambda *_: None)


def frozen(vae: VAE) -> None:
    vae.encoder.mean_head.weight.requires_grad_(False)


def doubled(vae: VAE) -> None:
    vae.double()


def replaced(vae: VAE) -> None:
    class Other(type(vae.decoder)):  # type: ignore[misc]
        pass

    vae.decoder.__class__ = Other


def clipped(vae: VAE) -> None:
    vae.encoder.mean_head.weight.register_hook(lambda slope: slope.clamp(-1, 1))


def watched(vae: VAE) -> None:
    vae.encoder.mean_head.weight.register_post_accumulate_grad_hook(lambda weight: None)


def own_forward(vae: VAE) -> None:
    vae.decoder.forward = lambda z: torch.zeros(len(z), 1, 8, 8)  # type: ignore[method-assign]


def own_forward_of_a_layer(vae: VAE) -> None:
    layer = next(m for m in vae.encoder.modules() if isinstance(m, nn.Linear))
    layer.forward = lambda x: torch.zeros(len(x), layer.out_features)  # type: ignore[method-assign]


def own_decode(vae: VAE) -> None:
    vae.decode = lambda z: torch.zeros(len(z), 1, 8, 8)  # type: ignore[method-assign]


def of_others(vae: VAE) -> None:
    vae.encoder = nn.Identity()  # type: ignore[assignment]


CHANGES = [hooked, hooked_layer, frozen, doubled, replaced, clipped, watched, of_others]
CHANGES += [own_forward, own_forward_of_a_layer, own_decode]


@pytest.mark.parametrize("change", CHANGES)
def test_models_that_differ_from_their_layers_have_no_plan(change: Any) -> None:
    vae = model()
    assert plan_pass(vae) is not None
    change(vae)
    assert plan_pass(vae) is None


def test_a_hook_on_all_modules_leaves_no_plan() -> None:
    vae = model()
    handle = register_module_forward_hook(lambda *_: None)
    try:
        assert plan_pass(vae) is None
    finally:
        handle.remove()
    assert plan_pass(vae) is not None


def test_given_noise_is_used() -> None:
    vae, x, noise = model(), torch.rand(6, 1, 8, 8), torch.full((6, 4), 0.5)
    plan = plan_pass(vae)
    assert plan is not None
    taken = [take_step(vae, x, dataset_size=6, noise=noise, plan=each).z for each in (None, plan)]
    torch.testing.assert_close(*taken)


def test_models_with_other_networks_have_no_plan() -> None:
    assert plan_pass(model(prior="Conditional")) is None
    assert plan_pass(model((1, 16, 16), architecture="burgess_conv")) is None
