"""Layers fused into one node of the graph have the outputs, gradients and second derivatives of standard layers."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
import torch
from torch import Tensor, nn

from polarised.models import _fused, build_vae
from polarised.models._fused import (
    Dense,
    double,
    fuses,
    judge,
    kl_from_standard,
    pass_through,
    sample_gaussian,
    sum_cross_entropy,
)
from polarised.models.networks import Doubling

NOISE = torch.randn(3, 4, generator=torch.Generator().manual_seed(7))

ACTIVATIONS: list[Callable[[], nn.Module]] = [
    lambda: nn.ReLU(inplace=True),
    lambda: nn.LeakyReLU(0.2, inplace=True),
    nn.Tanh,
]

# Torch itself loads its rules for forward mode with torch.jit.script, once per process.
TORCH_JIT = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")


def plain(x: Tensor, layers: nn.Sequential, heads: list[nn.Linear]) -> tuple[Tensor, ...]:
    h = layers(x)
    return tuple(head(h) for head in heads) or (h,)


def network(activation: Callable[[], nn.Module], *, large: bool) -> tuple[nn.Sequential, list[nn.Linear]]:
    torch.manual_seed(0)
    first, second = (700, 96) if large else (7, 5)
    layers = nn.Sequential(nn.Linear(first, second), activation(), nn.Linear(second, second), activation())
    return layers, [nn.Linear(second, 3), nn.Linear(second, 4)]


def gradients(outputs: tuple[Tensor, ...], inputs: list[Tensor]) -> list[Tensor]:
    draws = torch.Generator().manual_seed(3)
    loss = sum((y * torch.randn(y.shape, generator=draws).to(y)).sum() for y in outputs)
    return list(torch.autograd.grad(loss, inputs))


@pytest.mark.parametrize("heads", [0, 1, 2])
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_outputs_and_gradients_agree_with_double_precision_up_to_rounding(
    activation: Callable[[], nn.Module], large: bool, heads: int
) -> None:
    layers, own = network(activation, large=large)
    own, layers = own[:heads], layers if heads else layers[:-1]
    x = torch.randn(64, layers[0].in_features, requires_grad=True)
    weights = [w for module in (layers, *own) for w in module.parameters()]
    fused = pass_through(x, [layers], own)
    assert all("Chain" in type(y.grad_fn).__name__ for y in fused)
    found = [*fused, *gradients(fused, [x, *weights])]
    layers.double(), [head.double() for head in own]
    exact_x = x.detach().double().requires_grad_()
    exact = plain(exact_x, layers, own)
    exact_weights = [w for module in (layers, *own) for w in module.parameters()]
    for mine, truth in zip(found, [*exact, *gradients(exact, [exact_x, *exact_weights])], strict=True):
        assert (mine - truth).abs().max() <= 2e-6 * truth.abs().max()


def test_large_layers_use_onednn_if_available(monkeypatch: pytest.MonkeyPatch) -> None:
    layers, heads = network(nn.Tanh, large=True)
    x = torch.randn(64, 700, requires_grad=True)
    inputs = [x, *layers.parameters()]
    fast = gradients(pass_through(x, [layers], heads), inputs)
    monkeypatch.setattr(_fused, "_onednn", None)
    slow = gradients(pass_through(x, [layers], heads), inputs)
    for a, b in zip(fast, slow, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("activation", ACTIVATIONS[1:])
def test_first_and_second_derivatives_pass_gradcheck(
    activation: Callable[[], nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    layers, heads = network(activation, large=False)
    layers.double(), [head.double() for head in heads]
    # Double precision is never fused on its own: only the check of the derivatives needs it.
    monkeypatch.setattr(_fused, "fuses", lambda *_: True)
    x = torch.randn(4, 7, dtype=torch.float64, requires_grad=True)
    assert "Chain" in type(pass_through(x, [layers], heads)[0].grad_fn).__name__
    weights = [w for module in (layers, *heads) for w in module.parameters()]

    def outputs(x: Tensor, *_: Tensor) -> tuple[Tensor, ...]:
        return pass_through(x, [layers], heads)

    assert torch.autograd.gradcheck(outputs, (x, *weights), check_batched_grad=True)
    assert torch.autograd.gradgradcheck(outputs, (x, *weights), check_batched_grad=True)


def test_second_derivatives_in_single_precision_equal_those_of_standard_layers() -> None:
    layers, heads = network(nn.Tanh, large=False)
    x = torch.randn(5, 7, requires_grad=True)

    def penalty(outputs: tuple[Tensor, ...]) -> list[Tensor]:
        (slope,) = torch.autograd.grad(sum(y.square().sum() for y in outputs), x, create_graph=True)
        return list(torch.autograd.grad(slope.square().sum(), [x, *layers.parameters()]))

    for a, b in zip(penalty(pass_through(x, [layers], heads)), penalty(plain(x, layers, heads)), strict=True):
        torch.testing.assert_close(a, b)


@TORCH_JIT
def test_functional_transforms_forward_mode_and_batched_gradients_agree() -> None:
    layers, _ = network(nn.Tanh, large=False)
    chain = Dense(*layers)
    x = torch.randn(5, 7)
    expected = torch.func.jacrev(layers)(x)
    torch.testing.assert_close(torch.func.jacrev(chain)(x), expected)
    torch.testing.assert_close(torch.func.jacfwd(chain)(x), expected)
    torch.testing.assert_close(torch.func.vmap(chain)(x[:, None]), layers(x)[:, None])
    vectorised = torch.autograd.functional.jacobian(chain, x, vectorize=True)
    torch.testing.assert_close(vectorised, expected)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
        tangent = torch.autograd.forward_ad.unpack_dual(chain(dual)).tangent
    torch.testing.assert_close(tangent, expected.sum((2, 3)))


def test_all_other_cases_use_the_standard_layers() -> None:
    layers, heads = network(nn.Tanh, large=False)
    x = torch.randn(5, 7)
    with torch.autocast("cpu", torch.bfloat16):
        assert not fuses(x)
        assert pass_through(x, [layers], heads)[0].dtype is torch.bfloat16
    assert not fuses(x.double())
    assert not fuses(torch.nn.Parameter(x))
    seen = []
    layers[2].register_forward_hook(lambda *_: seen.append(True))
    pass_through(x, [layers], heads)
    assert seen, "a hook on a layer has to be called"


@pytest.mark.parametrize("without", [torch.no_grad, torch.inference_mode])
def test_values_without_gradients_are_the_same_as_with_them(
    without: Callable[[], AbstractContextManager[None]],
) -> None:
    layers, heads = network(nn.Tanh, large=True)
    x, target = torch.randn(64, 700), torch.rand(64, 3)
    expected = pass_through(x, [layers], heads)
    with without():
        found = pass_through(x, [layers], heads)
        entropy = sum_cross_entropy(found[0], target)
        assert not any(y.requires_grad for y in (*found, entropy))
    assert all(torch.equal(mine, right) for mine, right in zip(found, expected, strict=True))
    assert torch.equal(entropy, sum_cross_entropy(expected[0], target))
    torch.testing.assert_close(found, plain(x, layers, heads))


def test_frozen_weights_get_no_gradient_and_inputs_do() -> None:
    critic = Dense(*network(nn.Tanh, large=False)[0])
    z = torch.randn(5, 7, requires_grad=True)
    frozen = {name: weight.detach() for name, weight in critic.named_parameters()}
    torch.func.functional_call(critic, frozen, (z,)).sum().backward()
    assert z.grad is not None
    assert all(weight.grad is None for weight in critic.parameters())


@pytest.mark.parametrize("weight", [1.0, -2.5])
@pytest.mark.parametrize("size", [1, 31, 32, 100, 1024])
def test_cross_entropy_agrees_with_double_precision_up_to_rounding(size: int, weight: float) -> None:
    torch.manual_seed(1)
    outputs = (4 * torch.randn(6, size)).requires_grad_()
    x = torch.rand(6, size).requires_grad_()
    value = sum_cross_entropy(outputs, x, weight)
    assert "CrossEntropy" in type(value.grad_fn).__name__
    found = [value, *torch.autograd.grad(value.sum(), [outputs, x])]
    exact = [outputs.detach().double().requires_grad_(), x.detach().double().requires_grad_()]
    truth = weight * nn.functional.binary_cross_entropy_with_logits(*exact, reduction="none").sum(1)
    for mine, right in zip(found, [truth, *torch.autograd.grad(truth.sum(), exact)], strict=True):
        torch.testing.assert_close(mine.double(), right, rtol=1e-6, atol=1e-6)


def test_cross_entropy_of_saturated_pixels_is_finite_and_correct() -> None:
    outputs = torch.tensor([[200.0, -200.0, 90.0, -90.0] * 32]).requires_grad_()
    right = torch.tensor([[1.0, 0.0, 1.0, 0.0] * 32])
    assert sum_cross_entropy(outputs, right).item() == 0
    torch.testing.assert_close(sum_cross_entropy(outputs, 1 - right), torch.tensor([32 * 580.0]))
    assert torch.autograd.grad(sum_cross_entropy(outputs, right).sum(), outputs)[0].abs().max() == 0


def test_derivatives_of_cross_entropy_pass_gradcheck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_fused, "fuses", lambda *_: True)
    outputs = torch.randn(3, 70, dtype=torch.float64, requires_grad=True)
    x = torch.rand(3, 70, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(sum_cross_entropy, (outputs, x), check_batched_grad=True)
    assert torch.autograd.gradgradcheck(sum_cross_entropy, (outputs, x))


@pytest.mark.parametrize("architecture", ["mlp", "locatello_conv"])
def test_a_whole_vae_has_the_gradients_of_double_precision(architecture: str) -> None:
    vae = build_vae({"architecture": architecture, "latents": 4}, shape=(1, 32, 32), seed=2)
    x = torch.rand(16, 1, 32, 32, generator=torch.Generator().manual_seed(0))
    noise = torch.randn(16, 4, generator=torch.Generator().manual_seed(1))

    def slopes(x: Tensor, noise: Tensor) -> list[Tensor]:
        posterior = vae.posterior(x)
        loss = -vae.likelihood.log_prob(x, vae.decode(posterior.sample(noise=noise))).mean()
        return list(torch.autograd.grad(loss, list(vae.parameters())))

    single = slopes(x, noise)
    vae.double()
    for mine, truth in zip(single, slopes(x.double(), noise.double()), strict=True):
        assert (mine - truth).norm() <= 1e-5 * truth.norm() + 1e-6


def test_judge_returns_the_gradients_of_the_standard_layers() -> None:
    torch.manual_seed(4)
    critic = Dense(nn.Linear(6, 300), nn.LeakyReLU(0.2), nn.Linear(300, 300), nn.LeakyReLU(0.2), nn.Linear(300, 2))
    codes, others = torch.randn(20, 6, requires_grad=True), torch.randn(20, 6)
    own, both = judge(critic, codes, others)
    assert "Judged" in type(own.grad_fn).__name__
    weights = list(critic.parameters())
    torch.testing.assert_close(torch.cat([own, both]), critic(torch.cat([codes, codes, others])))
    first = torch.autograd.grad(own.square().sum(), [codes, *weights], retain_graph=True, materialize_grads=True)
    second = torch.autograd.grad(both.square().sum(), [codes, *weights], materialize_grads=True)
    expected = torch.autograd.grad(critic(codes).square().sum(), codes)[0]
    torch.testing.assert_close(first[0], expected)
    assert all(not slope.any() for slope in first[1:]), "the weights are constants to the codes"
    assert not second[0].any(), "the codes are constants to the weights"
    plain = critic(torch.cat([codes, others]).detach()).square().sum()
    for a, b in zip(second[1:], torch.autograd.grad(plain, weights), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_derivatives_of_judge_pass_gradcheck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_fused, "fuses", lambda *_: True)
    torch.manual_seed(5)
    critic = Dense(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    codes, others = torch.randn(3, 3, dtype=torch.float64, requires_grad=True), torch.randn(2, 3, dtype=torch.float64)

    def of_codes(codes: Tensor) -> Tensor:
        return judge(critic, codes, others)[0]

    def of_weights(*_: Tensor) -> Tensor:
        return judge(critic, codes.detach(), others)[1]

    for check in (torch.autograd.gradcheck, torch.autograd.gradgradcheck):
        assert check(of_codes, (codes,), check_batched_grad=True)
        assert check(of_weights, tuple(critic.parameters()), check_batched_grad=True)


@pytest.mark.parametrize("function", [lambda m, v: sample_gaussian(m, v, NOISE.to(m)), kl_from_standard])
def test_derivatives_of_sample_and_kl_pass_gradcheck(
    function: Callable[[Tensor, Tensor], Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    mean, log_variance = (torch.randn(3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    plain = function(mean, log_variance)
    monkeypatch.setattr(_fused, "fuses", lambda *_: True)
    fused = function(mean, log_variance)
    assert type(fused.grad_fn).__name__ in ("_SampleBackward", "_StandardKLBackward")
    torch.testing.assert_close(fused, plain)
    assert torch.autograd.gradcheck(function, (mean, log_variance), check_batched_grad=True)
    assert torch.autograd.gradgradcheck(function, (mean, log_variance), check_batched_grad=True)


def slopes_of(module: nn.Module, x: Tensor, like: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad((module(x) * like).sum(), [x, *module.parameters()]))


@pytest.mark.parametrize("bias", [True, False])
def test_a_doubling_has_the_gradients_of_the_transposed_convolution(bias: bool) -> None:
    torch.manual_seed(0)
    doubling = Doubling(6, 5, bias=bias)
    x = torch.randn(3, 6, 4, 4, requires_grad=True)
    like = torch.randn(3, 5, 8, 8)
    assert "Doubled" in type(doubling(x).grad_fn).__name__
    found = slopes_of(doubling, x, like)
    plain = nn.ConvTranspose2d(6, 5, 4, stride=2, padding=1, bias=bias).double()
    plain.load_state_dict(doubling.state_dict())
    wide = x.detach().double().requires_grad_()
    for ours, theirs in zip(found, slopes_of(plain, wide, like.double()), strict=True):
        torch.testing.assert_close(ours, theirs.float(), rtol=1e-5, atol=1e-5)


def test_a_doubling_in_bfloat16_has_the_gradients_of_the_torch_layer() -> None:
    torch.manual_seed(0)
    doubling, x = Doubling(6, 5), torch.randn(3, 6, 4, 4, requires_grad=True)
    like = torch.randn(3, 5, 8, 8)
    plain = nn.ConvTranspose2d(6, 5, 4, stride=2, padding=1)
    plain.load_state_dict(doubling.state_dict())
    with torch.autocast("cpu", torch.bfloat16):
        outputs = doubling(x), plain(x)
    torch.testing.assert_close(*outputs, rtol=0, atol=0)
    assert outputs[0].dtype is torch.bfloat16
    ours = torch.autograd.grad((outputs[0] * like).sum(), [x, *doubling.parameters()])
    theirs = torch.autograd.grad((outputs[1] * like).sum(), [x, *plain.parameters()])
    for one, other in zip(ours, theirs, strict=True):
        assert one.dtype is torch.float32
        # The last of eight bits.
        torch.testing.assert_close(one, other, rtol=2**-7, atol=2**-6)


def test_a_doubling_has_second_derivatives() -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 2, 2, 2, requires_grad=True)
    weight = torch.randn(2, 3, 4, 4, requires_grad=True)
    bias = torch.randn(3, requires_grad=True)

    def slope_size(function: Callable[..., Tensor], x: Tensor, weight: Tensor, bias: Tensor) -> list[Tensor]:
        first = torch.autograd.grad(function(x, weight, bias).pow(3).sum(), [x, weight, bias], create_graph=True)
        return list(torch.autograd.grad(sum(each.pow(2).sum() for each in first), [x, weight, bias]))

    def plain(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return nn.functional.conv_transpose2d(x, weight, bias, stride=2, padding=1)

    wide = [each.detach().double().requires_grad_() for each in (x, weight, bias)]
    for ours, theirs in zip(slope_size(double, x, weight, bias), slope_size(plain, *wide), strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-3)


@TORCH_JIT
def test_a_doubling_uses_the_standard_layer_if_more_than_gradients_is_needed() -> None:
    doubling, x = Doubling(2, 3), torch.randn(1, 2, 2, 2)
    directions = torch.func.jvp(doubling, (x,), (torch.ones_like(x),))[1]
    plain = torch.func.jvp(lambda t: nn.ConvTranspose2d.forward(doubling, t), (x,), (torch.ones_like(x),))[1]
    torch.testing.assert_close(directions, plain)
