"""Linear layers with activations, and the cross-entropy, each as one node of the autograd graph: small networks trained
on a CPU spend more time on the graph than on arithmetic. Also a transposed convolution with faster gradients.

These functions change results only in their last digits. They are used in single precision on a CPU; in all other
cases (second derivatives, `torch.func`, forward mode, torch.compile, other devices and precisions, hooks) the
standard layers run.
"""

import platform
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call
from torch.nn.functional import binary_cross_entropy_with_logits, conv2d, conv_transpose2d, leaky_relu, linear
from torch.nn.grad import conv2d_weight
from torch.nn.modules.module import _has_any_global_hook

__all__ = [
    "NO_ACTIVATION",
    "Activation",
    "Dense",
    "backpropagate",
    "backpropagate_heads",
    "double",
    "fuses",
    "graph_wanted",
    "is_hooked",
    "is_linear",
    "judge",
    "kl_from_standard",
    "pass_through",
    "run_heads",
    "run_layers",
    "sample_gaussian",
    "split_layers",
    "sum_cross_entropy",
    "unflattens",
    "unrolled",
]

# Below this number of multiplications the call of oneDNN costs more than its faster kernel saves.
_LARGE = 1 << 20
# x W^T + b with an activation by oneDNN, or None where that is not the faster kernel.
_onednn: Callable[..., Tensor] | None = None
if platform.machine() in ("x86_64", "AMD64") and torch._C._has_mkldnn:
    _onednn = getattr(getattr(torch.ops.mkldnn, "_linear_pointwise", None), "default", None)
# A product of this many factors in [1/2, 1) stays far above the smallest number of single precision.
_FACTORS = 32


class Activation(NamedTuple):
    """The activation after a linear layer: its name in oneDNN and, for a leaky ReLU, its slope.

    Args:
        name: "none", "relu", "leaky_relu" or "tanh".
        slopes: The slope of a leaky ReLU, otherwise empty.
    """

    name: str
    slopes: list[float]


NO_ACTIVATION, _RELU, _TANH = Activation("none", []), Activation("relu", []), Activation("tanh", [])
_relu_backward = torch.ops.aten.threshold_backward.default


def fuses(*tensors: Tensor) -> bool:
    """Return whether only values and first derivatives in single precision on a CPU are needed.

    Args:
        *tensors: The inputs of the layers.

    Returns:
        Whether one node may replace several.

    >>> fuses(torch.zeros(2)), fuses(torch.zeros(2, dtype=torch.float64))
    (True, False)
    """
    return (
        all(type(t) is Tensor and t.dtype is torch.float32 and t.device.type == "cpu" for t in tensors)
        and not torch.is_autocast_enabled("cpu")
        and _eager()
    )


def _eager() -> bool:
    return not torch.compiler.is_compiling() and not torch._C._is_tracing() and not _transformed()


def _transformed() -> bool:
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


def graph_wanted(slope: Tensor) -> bool:
    """Return whether the backward pass is itself differentiated, or runs for a batch of gradients.

    Args:
        slope: A gradient received by the backward pass.

    Returns:
        Whether the standard layers must be used.
    """
    return torch.is_grad_enabled() or _transformed() or torch._C._functorch.is_legacy_batchedtensor(slope)


def pass_through(x: Tensor, modules: Iterable[nn.Module], heads: Sequence[nn.Module] = ()) -> tuple[Tensor, ...]:
    """Apply modules one after the other, then each head to the result; leading linear layers become one node.

    Args:
        x: The inputs, (B, ...).
        modules: The modules; sequences are flattened.
        heads: Modules that are all applied to the output of the last module.

    Returns:
        The outputs of the heads, or that of the last module if there are none.

    >>> layers = nn.Linear(3, 4), nn.ReLU()
    >>> [tuple(y.shape) for y in pass_through(torch.zeros(2, 3), layers, [nn.Linear(4, 1), nn.Linear(4, 5)])]
    [(2, 1), (2, 5)]
    """
    layers = unrolled(modules)
    if x.ndim == 2 and fuses(x):
        linears, activations, rest = split_layers(layers)
        own = heads if not rest and all(is_linear(head) for head in heads) else ()
        if len(linears) + len(own) > 1:
            weights = [weight for layer in (*linears, *own) for weight in layer._parameters.values()]
            shape: tuple[int, ...] = ()
            if rest and unflattens(rest[0]):
                shape, rest = (len(x), *rest[0].unflattened_size), rest[1:]  # type: ignore[misc]
            outputs: tuple[Tensor, ...] = _Chain.apply(activations, len(own), shape, x, *weights)  # type: ignore[no-untyped-call]
            if own:
                return outputs
            (x,), layers = outputs, rest
    for layer in layers:
        x = layer(x)
    return tuple(head(x) for head in heads) or (x,)


class Dense(nn.Sequential):
    """A sequence whose leading linear layers, with their activations, are one node of the graph.

    >>> tuple(Dense(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))(torch.zeros(2, 3)).shape)
    (2, 1)
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the output of the last module.

        Args:
            input: The inputs, (B, ...).

        Returns:
            The outputs.
        """
        return pass_through(input, self)[0]


def unrolled(modules: Iterable[nn.Module]) -> list[nn.Module]:
    """Return the modules with the contents of sequences in their place.

    Args:
        modules: The modules.

    Returns:
        The modules; a sequence with hooks stays a sequence.
    """
    layers: list[nn.Module] = []
    for module in modules:
        if type(module) in (nn.Sequential, Dense) and not is_hooked(module):
            layers += unrolled(module._modules.values())  # type: ignore[arg-type]
        else:
            layers.append(module)
    return layers


def is_hooked(module: nn.Module) -> bool:
    """Return whether a module has hooks or a ``forward`` of its own, which only a call of the module runs.

    Args:
        module: The module.

    Returns:
        Whether it has any, or there are hooks for all modules.
    """
    own = module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    return bool(own or "forward" in module.__dict__ or _has_any_global_hook())  # type: ignore[no-untyped-call]


def is_linear(module: nn.Module) -> bool:
    """Return whether a module is a linear layer with a bias and without hooks.

    Args:
        module: The module.

    Returns:
        Whether it is one.
    """
    return type(module) is nn.Linear and module._parameters["bias"] is not None and not is_hooked(module)


def unflattens(module: nn.Module) -> bool:
    """Return whether a module only gives each row another shape.

    Args:
        module: The module.

    Returns:
        Whether it does nothing else.
    """
    return type(module) is nn.Unflatten and module.dim == 1 and not is_hooked(module)


def split_layers(layers: list[nn.Module]) -> tuple[list[nn.Module], tuple[Activation, ...], list[nn.Module]]:
    """Split modules after their leading linear layers.

    Args:
        layers: The modules, without sequences.

    Returns:
        The leading linear layers, the activation after each of them, and the remaining modules.
    """
    linears, activations = [], []
    for place, layer in enumerate(layers):
        if is_linear(layer):
            linears.append(layer)
            activations.append(NO_ACTIVATION)
        elif linears and activations[-1] is NO_ACTIVATION and (known := _activation_of(layer)) is not None:
            activations[-1] = known
        else:
            return linears, tuple(activations), layers[place:]
    return linears, tuple(activations), []


def _activation_of(module: nn.Module) -> Activation | None:
    kind = type(module)
    if kind not in (nn.ReLU, nn.LeakyReLU, nn.Tanh) or is_hooked(module):
        return None
    if isinstance(module, nn.LeakyReLU):
        return Activation("leaky_relu", [module.negative_slope]) if module.negative_slope > 0 else None
    return _RELU if kind is nn.ReLU else _TANH


class _Chain(torch.autograd.Function):
    """Linear layers with their activations, then parallel heads or a change of shape.

    Weights and biases alternate in the arguments.
    """

    @staticmethod
    def forward(
        ctx: Any,
        activations: tuple[Activation, ...],
        heads: int,
        shape: tuple[int, ...],
        x: Tensor,
        *weights: Tensor,
    ) -> Any:
        hidden = run_layers(x, weights, activations)
        ctx.activations, ctx.heads, ctx.reshaped = activations, heads, bool(shape)
        last = hidden[-1]
        # The output itself is needed only if an activation was applied to it.
        ctx.save_for_backward(*(hidden if heads or activations[-1] is not NO_ACTIVATION else hidden[:-1]), *weights)
        if not heads:
            return (last.view(shape) if shape else last,)
        return run_heads(last, weights[2 * len(activations) :])

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        activations, depth = ctx.activations, len(ctx.activations)
        count = 2 * (depth + ctx.heads)
        saved = ctx.saved_tensors
        hidden, weights = saved[:-count], saved[-count:]
        plain = graph_wanted(slopes[0])
        if plain:
            # Run the layers again with a graph, as the saved tensors have none.
            hidden = _run_with_graph(hidden[0], weights, activations)
        gradients: list[Tensor | None] = [None] * count
        needed, asked = ctx.needs_input_grad[4:], ctx.needs_input_grad[3]
        slope: Any
        if ctx.heads:
            slope = backpropagate_heads(slopes, hidden[-1], weights, gradients, needed, start=2 * depth)
        else:
            slope = slopes[0].reshape(len(hidden[0]), -1) if ctx.reshaped else slopes[0]
        entry = backpropagate(slope, hidden, weights, activations, gradients, needed, plain=plain, entry=asked)
        return None, None, None, entry, *gradients


def run_layers(x: Tensor, weights: Sequence[Tensor], activations: Sequence[Activation]) -> list[Tensor]:
    """Return the inputs and the output of each layer.

    Args:
        x: The inputs of the first layer, (B, k).
        weights: The weight and the bias of every layer.
        activations: The activation after every layer.

    Returns:
        The inputs of every layer, and the output of the last.
    """
    hidden, rows = [x], len(x) if _onednn is not None else 0
    for place, activation in enumerate(activations):
        weight, bias = weights[2 * place], weights[2 * place + 1]
        if rows * weight.numel() > _LARGE:
            x = _onednn(x, weight, bias, activation.name, activation.slopes, "")  # type: ignore[misc]
        else:
            x = torch.addmm(bias, x, weight.t())
            if activation is _RELU:
                x.relu_()
            elif activation is _TANH:
                x.tanh_()
            elif activation is not NO_ACTIVATION:
                leaky_relu(x, activation.slopes[0], inplace=True)
        hidden.append(x)
    return hidden


def run_heads(x: Tensor, weights: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the outputs of parallel linear layers.

    Args:
        x: The inputs of all of them, (B, k).
        weights: The weight and the bias of every layer.

    Returns:
        The output of each.
    """
    return tuple(torch.addmm(bias, x, weight.t()) for weight, bias in zip(weights[::2], weights[1::2], strict=True))


def backpropagate_heads(
    slopes: Sequence[Tensor | None],
    x: Tensor,
    weights: Sequence[Tensor],
    gradients: list[Tensor | None],
    needed: Sequence[bool],
    *,
    start: int,
) -> Tensor | None:
    """Store the gradients of parallel linear layers; return that of their common inputs.

    Args:
        slopes: The gradient of the output of each layer, None if there is none.
        x: The inputs of all layers, (B, k).
        weights: Weights and biases, those of the layers from `start` on.
        gradients: Where the gradients are stored, at the places of their weights.
        needed: Whether each weight needs a gradient.
        start: The place of the first layer.

    Returns:
        The gradient of the inputs, None if no output has one.
    """
    entry: Tensor | None = None
    for place, own in zip(range(start, start + 2 * len(slopes), 2), slopes, strict=True):
        if own is None:
            continue
        if needed[place]:
            gradients[place] = own.t().mm(x)
        if needed[place + 1]:
            gradients[place + 1] = own.sum(0)
        entry = own.mm(weights[place]) if entry is None else torch.addmm(entry, own, weights[place])
    return entry


def _run_with_graph(x: Tensor, weights: Sequence[Tensor], activations: Sequence[Activation]) -> list[Tensor]:
    """Return the same as `run_layers`, with a graph for second derivatives."""
    hidden = [x]
    for place, activation in enumerate(activations):
        x = linear(x, weights[2 * place], weights[2 * place + 1])
        if activation is _RELU:
            x = x.relu()
        elif activation is _TANH:
            x = x.tanh()
        elif activation is not NO_ACTIVATION:
            x = leaky_relu(x, activation.slopes[0])
        hidden.append(x)
    return hidden


def backpropagate(
    slope: Tensor,
    hidden: Sequence[Tensor],
    weights: Sequence[Tensor],
    activations: Sequence[Activation],
    gradients: list[Tensor | None],
    needed: Sequence[bool],
    *,
    plain: bool = False,
    entry: bool = False,
) -> Tensor | None:
    """Store the gradients of all weights that need one; return the gradient of the inputs if needed.

    Args:
        slope: The gradient of the output of the last layer, (B, k).
        hidden: The results of `run_layers`; the last may be missing if no activation follows the last layer.
        weights: The weight and the bias of every layer.
        activations: The activation after every layer.
        gradients: Where the gradients are stored, at the places of their weights.
        needed: Whether each weight needs a gradient.
        plain: Whether the gradients are themselves differentiated.
        entry: Whether the gradient of the inputs is needed.

    Returns:
        The gradient of the inputs, or None.
    """
    rows = 0 if plain or _onednn is None else len(slope)
    for place in range(len(activations) - 1, -1, -1):
        activation, x, weight = activations[place], hidden[place], weights[2 * place]
        if activation is _RELU:
            slope = _relu_backward(slope, hidden[place + 1], 0)
        elif activation is _TANH:
            slope = torch.ops.aten.tanh_backward(slope, hidden[place + 1])
        elif activation is not NO_ACTIVATION:
            slope = torch.ops.aten.leaky_relu_backward(slope, hidden[place + 1], activation.slopes[0], True)
        large = rows * weight.numel() > _LARGE
        if needed[2 * place]:
            across = slope.t()
            gradients[2 * place] = _onednn(across, x.t(), None, "none", [], "") if large else across.mm(x)  # type: ignore[misc]
        if needed[2 * place + 1]:
            gradients[2 * place + 1] = slope.sum(0)
        if not place and not entry:
            return None
        slope = _onednn(slope, weight.t(), None, "none", [], "") if large else slope.mm(weight)  # type: ignore[misc]
    return slope


def judge(network: nn.Module, codes: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
    """Apply a network once to codes and other codes, and return its outputs with two different gradients.

    The first outputs, those for the codes, are differentiable in the codes with constant weights; the second, those for
    the codes followed by the others, in the weights with constant codes.

    Args:
        network: The network, such as a critic.
        codes: Codes, (B, d).
        others: Further codes, (C, d).

    Returns:
        The outputs for the codes, (B, k), and for both, (B + C, k).

    >>> first, second = judge(Dense(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)), torch.ones(4, 2), torch.ones(5, 2))
    >>> tuple(first.shape), tuple(second.shape)
    ((4, 1), (9, 1))
    """
    if fuses(codes, others) and codes.ndim == 2:
        linears, activations, rest = split_layers(unrolled([network]))
        if linears and not rest:
            weights = [weight for layer in linears for weight in layer._parameters.values()]
            judged: tuple[Tensor, Tensor] = _Judged.apply(activations, codes, others.detach(), *weights)  # type: ignore[no-untyped-call]
            return judged
    frozen = {name: weight.detach() for name, weight in network.named_parameters()}
    first: Tensor = functional_call(network, frozen, (codes,))
    return first, network(torch.cat([codes, others]).detach())


class _Judged(torch.autograd.Function):
    """The outputs of layers for codes, as a function of the codes; and for codes and others, as one of the weights."""

    @staticmethod
    def forward(ctx: Any, activations: tuple[Activation, ...], codes: Tensor, others: Tensor, *weights: Tensor) -> Any:
        hidden = run_layers(torch.cat([codes, others]), weights, activations)
        ctx.activations, ctx.size = activations, len(codes)
        ctx.save_for_backward(codes, others, *hidden, *weights)
        return hidden[-1][: len(codes)].clone(), hidden[-1]

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        activations, size, count = ctx.activations, ctx.size, 2 * len(ctx.activations)
        saved = ctx.saved_tensors
        codes, others, *hidden = saved[:-count]
        weights = saved[-count:]
        plain = graph_wanted(slopes[0])
        gradients: list[Tensor | None] = [None] * count
        constants = [weight.detach() for weight in weights]
        own = [each[:size] for each in hidden]
        if plain:
            own = _run_with_graph(codes, constants, activations)
            hidden = _run_with_graph(torch.cat([codes, others]).detach(), weights, activations)
        entry = None
        if ctx.needs_input_grad[1]:
            nothing = [False] * count
            entry = backpropagate(slopes[0], own, constants, activations, gradients, nothing, plain=plain, entry=True)
        if any(ctx.needs_input_grad[3:]):
            needed = ctx.needs_input_grad[3:]
            backpropagate(slopes[1], hidden, weights, activations, gradients, needed, plain=plain)
        return None, entry, None, *gradients


def double(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Apply the 4x4 transposed convolution that doubles the side of an image.

    Args:
        x: The features, (B, C, H, W).
        weight: The weights, (C, D, 4, 4).
        bias: The bias, (D,), or None.

    Returns:
        The features with twice the side, (B, D, 2 H, 2 W).

    >>> tuple(double(torch.zeros(1, 2, 3, 3), torch.zeros(2, 5, 4, 4), None).shape)
    (1, 5, 6, 6)
    """
    halved = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") is torch.bfloat16
    if x.device.type == "cpu" and (halved or x.dtype is torch.float32) and torch.is_grad_enabled() and _eager():
        return _Doubled.apply(x, weight, bias)  # type: ignore[no-untyped-call, no-any-return]
    return conv_transpose2d(x, weight, bias, stride=2, padding=1)


class _Doubled(torch.autograd.Function):
    """A transposed convolution with the gradients of the convolution that it transposes; half the time in bfloat16."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return conv_transpose2d(x, weight, bias, stride=2, padding=1)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        slope, kernel = slopes[0], weight.to(slopes[0].dtype)
        entry = own = shift = None
        if ctx.needs_input_grad[0]:
            entry = conv2d(slope, kernel, stride=2, padding=1).to(x.dtype)
        if ctx.needs_input_grad[1]:
            taps: Tensor = conv2d_weight(slope, weight.shape, x.to(slope.dtype), stride=2, padding=1)  # type: ignore[no-untyped-call]
            own = taps.to(weight.dtype)
        if ctx.needs_input_grad[2]:
            shift = slope.sum((0, 2, 3)).to(weight.dtype)
        return entry, own, shift


def sum_cross_entropy(outputs: Tensor, x: Tensor, weight: float = 1.0) -> Tensor:
    """Return the cross-entropy of sigmoid(outputs) with x, summed over everything but the batch.

    Args:
        outputs: The logits, (B, ...).
        x: The values in [0, 1], (B, ...).
        weight: What the sums are multiplied by.

    Returns:
        One value per image, (B,).

    >>> sum_cross_entropy(torch.zeros(1, 2), torch.ones(1, 2)).tolist()
    [1.3862943649291992]
    """
    if fuses(outputs, x) and outputs.shape == x.shape:
        return _CrossEntropy.apply(outputs, x, weight)  # type: ignore[no-untyped-call, no-any-return]
    return weight * binary_cross_entropy_with_logits(outputs, x, reduction="none").flatten(1).sum(1)


class _CrossEntropy(torch.autograd.Function):
    """sum_i max(o_i, 0) - x_i o_i - log sigmoid|o_i| of every image, weighted, with one logarithm per 32 values."""

    @staticmethod
    def forward(ctx: Any, outputs: Tensor, x: Tensor, weight: float) -> Tensor:
        ctx.save_for_backward(outputs, x)
        ctx.weight = weight
        rows, targets = outputs.flatten(1), x.flatten(1)
        near = rows.abs().sigmoid_()
        size = near.shape[1]
        whole = size - size % _FACTORS
        # Multiply values that are far apart in memory, which vectorises.
        logs = near[:, :whole].view(len(near), _FACTORS, -1).prod(1).log_().sum(1)
        if whole < size:
            logs += near[:, whole:].prod(1).log_()
        sums = rows.clamp_min(0).addcmul_(targets, rows, value=-1).sum(1).sub_(logs)
        return sums if weight == 1 else sums.mul_(weight)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        outputs, x = ctx.saved_tensors
        slope = slopes[0] if ctx.weight == 1 else slopes[0] * ctx.weight
        slope = slope.view(-1, *[1] * (outputs.ndim - 1))
        first = second = None
        if ctx.needs_input_grad[0]:
            ours = not graph_wanted(slope)
            first = outputs.sigmoid().sub_(x).mul_(slope) if ours else (outputs.sigmoid() - x) * slope
        if ctx.needs_input_grad[1]:
            second = -outputs * slope
        return first, second, None


def sample_gaussian(mean: Tensor, log_variance: Tensor, noise: Tensor) -> Tensor:
    """Return mean + exp(log_variance / 2) noise.

    Args:
        mean: The means.
        log_variance: The log-variances, of the same shape.
        noise: The noise, of a broadcastable shape.

    Returns:
        The samples.

    >>> sample_gaussian(torch.ones(2), torch.zeros(2), torch.ones(2)).tolist()
    [2.0, 2.0]
    """
    if noise.shape == mean.shape and fuses(mean, log_variance, noise) and not noise.requires_grad:
        return _Sample.apply(mean, log_variance, noise)  # type: ignore[no-untyped-call, no-any-return]
    return torch.addcmul(mean, (log_variance / 2).exp(), noise)


class _Sample(torch.autograd.Function):
    """mean + exp(log_variance / 2) noise."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, log_variance: Tensor, noise: Tensor) -> Tensor:
        shift = (log_variance * 0.5).exp_().mul_(noise)
        ctx.save_for_backward(log_variance, noise, shift)
        return shift + mean

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, Tensor, None]:
        log_variance, noise, shift = ctx.saved_tensors
        if graph_wanted(slopes[0]):
            # The saved shift has no graph.
            shift = (log_variance * 0.5).exp() * noise
        return slopes[0], slopes[0] * shift * 0.5, None


def kl_from_standard(mean: Tensor, log_variance: Tensor) -> Tensor:
    """Return KL(N(mean, variance) || N(0, 1)) of every variable, (mean^2 + variance - 1 - log variance) / 2.

    Args:
        mean: The means.
        log_variance: The log-variances, of the same shape.

    Returns:
        The KL of every variable in nats.

    >>> kl_from_standard(torch.ones(2), torch.zeros(2)).tolist()
    [0.5, 0.5]
    """
    if fuses(mean, log_variance) and mean.shape == log_variance.shape:
        return _StandardKL.apply(mean, log_variance)  # type: ignore[no-untyped-call, no-any-return]
    return 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance)


class _StandardKL(torch.autograd.Function):
    """(mean^2 + variance - 1 - log variance) / 2."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, log_variance: Tensor) -> Tensor:
        excess = log_variance.expm1()
        ctx.save_for_backward(mean, log_variance, excess)
        return torch.addcmul(excess, mean, mean).sub_(log_variance).mul_(0.5)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_variance, excess = ctx.saved_tensors
        if graph_wanted(slopes[0]):
            # The saved excess has no graph.
            excess = log_variance.expm1()
        return mean * slopes[0], excess * slopes[0] * 0.5
