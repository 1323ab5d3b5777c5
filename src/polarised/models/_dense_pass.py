"""The forward and backward pass of a VAE with dense networks without a graph: encoder, sample and decoder.

A step of a small network spends as much time in Python and in the graph as in arithmetic. `plan_pass` looks up once
what never changes during training, and a step then calls the layers directly. The gradients differ from those of the
single modules only in their last digits.

Posterior, sample and outputs are leaves of the graph: it does not know that the outputs depend on z, nor z on the
mean. This pass is therefore only for objectives that do not differentiate one of them with respect to another.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from polarised.models._fused import (
    Activation,
    backpropagate,
    backpropagate_heads,
    fuses,
    is_hooked,
    is_linear,
    run_heads,
    run_layers,
    split_layers,
    unflattens,
    unrolled,
)
from polarised.models.distributions import DiagonalGaussian
from polarised.models.networks import Decoder, Encoder
from polarised.models.vae import VAE

__all__ = ["DensePass", "plan_pass"]


class DensePass:
    """The forward and backward pass of a VAE with dense networks, without a graph.

    Args:
        latents: The number of latent variables.
        shape: The shape of an output of the decoder.
        encoder: The activation after each layer of the encoder, without its two heads.
        decoder: The activation after each layer of the decoder.
        weights: Weight and bias of every layer: of the encoder, of its heads, of the decoder.
    """

    def __init__(
        self,
        latents: int,
        shape: tuple[int, ...],
        encoder: tuple[Activation, ...],
        decoder: tuple[Activation, ...],
        weights: Sequence[nn.Parameter],
    ) -> None:
        self.latents, self.shape = latents, shape
        self.encoder, self.decoder = encoder, decoder
        self.weights = weights
        # The same memory, unknown to the graph.
        self._values = [weight.detach() for weight in weights]
        self._needed = [True] * len(weights)
        self._trace: _Trace | None = None

    @torch.no_grad()
    def run(
        self, x: Tensor, generator: torch.Generator | None = None, noise: Tensor | None = None
    ) -> tuple[DiagonalGaussian, Tensor, Tensor]:
        """Compute the posterior of a batch, one sample of it, and the output of the decoder for the sample.

        Args:
            x: The images, (B, *shape).
            generator: The source of the noise; torch's default generator if None.
            noise: The noise, (B, d); drawn if None.

        Returns:
            The posterior, the sample z, (B, d), and the outputs; each receives its own gradient.
        """
        values, heads = self._values, 2 * len(self.encoder)
        coded = run_layers(x.flatten(1), values, self.encoder)
        mean, log_variance = run_heads(coded[-1], values[heads : heads + 4])
        if noise is None:
            noise = torch.randn((len(x), self.latents), generator=generator, dtype=x.dtype)
        shift = (log_variance * 0.5).exp_().mul_(noise)
        z = shift + mean
        decoded = run_layers(z, values[heads + 4 :], self.decoder)
        results = mean, log_variance, z.detach(), decoded[-1].view(len(x), *self.shape)
        for result in results:
            result.requires_grad_()
        self._trace = _Trace(shift, coded, decoded, results)
        return DiagonalGaussian(mean, log_variance), results[2], results[3]

    @torch.no_grad()
    def backward(self) -> None:
        """Add to the gradients of all weights, given those of the results of the last `run`.

        Raises:
            RuntimeError: If there was no pass since the last call.
        """
        if self._trace is None:
            raise RuntimeError("expected a pass before its gradients, there was none; call run first")
        shift, coded, decoded, results = self._trace
        self._trace = None
        of_mean, of_log_variance, of_z, of_outputs = (result.grad for result in results)
        values, heads = self._values, 2 * len(self.encoder)
        gradients: list[Tensor | None] = [None] * (heads + 4)
        of_decoder: list[Tensor | None] = [None] * (len(values) - heads - 4)
        if of_outputs is not None:
            slope, last = of_outputs.reshape(len(shift), -1), values[heads + 4 :]
            through = backpropagate(slope, decoded, last, self.decoder, of_decoder, self._needed, entry=True)
            of_z = _sum_of(of_z, through)
        if of_z is not None:
            of_mean, of_log_variance = _sum_of(of_mean, of_z), _sum_of(of_log_variance, (of_z * shift).mul_(0.5))
        slopes = of_mean, of_log_variance
        entry = backpropagate_heads(slopes, coded[-1], values, gradients, self._needed, start=heads)
        if entry is not None:
            backpropagate(entry, coded, values, self.encoder, gradients, self._needed)
        for weight, gradient in zip(self.weights, gradients + of_decoder, strict=True):
            # Layers may share a weight.
            weight.grad = _sum_of(weight.grad, gradient)


class _Trace(NamedTuple):
    """What the backward pass needs of a forward pass."""

    shift: Tensor
    coded: list[Tensor]
    decoded: list[Tensor]
    results: tuple[Tensor, Tensor, Tensor, Tensor]


def plan_pass(vae: VAE) -> DensePass | None:
    """Look up the layers of a VAE whose networks are dense.

    Args:
        vae: The model.

    Returns:
        The layers; None if some are of another kind, on another device or in another precision, take auxiliary
        variables, are not trained, have hooks, or if methods of a module were replaced.

    >>> from polarised.models import build_vae
    >>> plan_pass(build_vae({"architecture": "mlp"}, shape=(1, 8, 8))) is not None
    True
    >>> plan_pass(build_vae({"architecture": "locatello_conv"}, shape=(1, 16, 16))) is None
    True
    """
    encoder, decoder = vae.encoder, vae.decoder
    if [type(module) for module in (vae, encoder, decoder)] != [VAE, Encoder, Decoder]:
        return None
    own = vae, encoder, encoder.features, decoder
    if type(encoder.features) is not nn.Flatten or any(is_hooked(module) or _is_replaced(module) for module in own):
        return None
    heads = encoder.mean_head, encoder.log_variance_head
    into, before, between = split_layers(unrolled([encoder.hidden]))
    out_of, after, rest = split_layers(unrolled([decoder.input, decoder.rest]))
    dense = not between and all(is_linear(head) for head in heads) and all(unflattens(module) for module in rest)
    if not (dense and into and out_of and len(rest) <= 1):
        return None
    if encoder.auxiliary_size or encoder.scale != "exponential":
        return None
    layers: list[Any] = [*into, *heads, *out_of]
    weights = tuple(weight for layer in layers for weight in (layer.weight, layer.bias))
    if not all(weight.requires_grad and fuses(weight.detach()) for weight in weights):
        return None
    # Only the graph calls the hooks of a weight, such as those that clip its gradient.
    if any(weight._backward_hooks or weight._post_accumulate_grad_hooks for weight in weights):
        return None
    shape = tuple(rest[0].unflattened_size) if rest else (layers[-1].out_features,)  # type: ignore[arg-type]
    return DensePass(vae.latents, shape, before, after, weights)


def _is_replaced(module: nn.Module) -> bool:
    """Return whether a module has methods of its own in place of those of its class."""
    return any(callable(value) and hasattr(type(module), name) for name, value in vars(module).items())


def _sum_of(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    if first is None or second is None:
        return second if first is None else first
    return first + second
