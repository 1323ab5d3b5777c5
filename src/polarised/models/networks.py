"""Encoder and decoder, the building blocks of all architectures, and the initialisation of weights."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn

from polarised.errors import ConfigError, DataError
from polarised.models._fused import double, pass_through
from polarised.random import seed_for

__all__ = ["ACTIVATIONS", "Activation", "Decoder", "Encoder", "evaluating", "glorot", "seeded_weights"]

Activation = Literal["relu", "leaky_relu", "tanh", "xtanh"]


class LeakyTanh(nn.Module):
    """The activation tanh(t) + 0.1 t of the first iVAE code [Khemakhem2020]."""

    def forward(self, t: Tensor) -> Tensor:
        """Return tanh(t) + 0.1 t.

        Args:
            t: The inputs.

        Returns:
            The outputs, of the same shape.
        """
        return torch.tanh(t) + 0.1 * t


ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": lambda: nn.ReLU(inplace=True),
    "leaky_relu": lambda: nn.LeakyReLU(0.1, inplace=True),
    "tanh": nn.Tanh,
    "xtanh": LeakyTanh,
}


class Encoder(nn.Module):
    """Compute the mean and log-variance of q(z|x, u): features of x, combined with u, then two heads.

    Args:
        features: The layers before u is appended.
        hidden: The layers from there to the heads.
        mean_head: The layer that returns the mean.
        log_variance_head: The layer that returns the log-variance, or the input of softplus.
        shape: The shape of one image.
        auxiliary_size: The number of auxiliary variables u; 0 for a network that ignores them.
        scale: The meaning of the output h of the second head: the log-variance ("exponential"), or log-variance = 2
            log(softplus(h) + 1e-6) ("softplus").

    >>> heads = nn.Linear(4, 2), nn.Linear(4, 2)
    >>> encoder = Encoder(nn.Flatten(), nn.Identity(), *heads, shape=(1, 2, 2))
    >>> mean, log_variance = encoder(torch.zeros(3, 1, 2, 2))
    >>> tuple(mean.shape)
    (3, 2)
    """

    def __init__(
        self,
        features: nn.Module,
        hidden: nn.Module,
        mean_head: nn.Linear | nn.Conv2d,
        log_variance_head: nn.Linear | nn.Conv2d,
        *,
        shape: tuple[int, ...],
        auxiliary_size: int = 0,
        scale: Literal["exponential", "softplus"] = "exponential",
    ) -> None:
        super().__init__()
        self.features, self.hidden = features, hidden
        self.mean_head, self.log_variance_head = mean_head, log_variance_head
        self.shape, self.auxiliary_size, self.scale = tuple(shape), auxiliary_size, scale

    def forward(self, x: Tensor, u: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return mean and log-variance of q(z|x, u).

        Args:
            x: The images, (B, *shape).
            u: Their auxiliary variables, (B, k); ignored by a network built without them.

        Returns:
            Mean and log-variance, each (B, d).

        Raises:
            DataError: If the network was built with u and u is missing or has another shape.
        """
        h = self.features(x)
        if self.auxiliary_size:
            h = torch.cat([h, self._append_auxiliary(h, u)], dim=1)
        heads = self.mean_head, self.log_variance_head
        mean, log_variance = (output.flatten(1) for output in pass_through(h, [self.hidden], heads))
        if self.scale == "softplus":
            log_variance = 2 * (nn.functional.softplus(log_variance) + 1e-6).log()
        return mean, log_variance

    def _append_auxiliary(self, h: Tensor, u: Tensor | None) -> Tensor:
        if u is None or u.shape != (len(h), self.auxiliary_size):
            received = "none" if u is None else f"an array of shape {tuple(u.shape)}"
            raise DataError(
                f"expected auxiliary variables u of shape ({len(h)}, {self.auxiliary_size}), got {received}; "
                "this encoder was built with u: give the directory of its run without data=, which has u, or in "
                "Python a dataset with u (Dataset.with_auxiliary)"
            )
        return u.reshape(*u.shape, *[1] * (h.ndim - 2)).expand(-1, -1, *h.shape[2:])


class Decoder(nn.Module):
    """Compute the parameters of p(x|z) from z: a first layer that pruning can slice, then the rest.

    Args:
        input: The first layer, which takes z and which pruning can slice.
        rest: The layers after it.
        shape: The shape of one image.

    >>> decoder = Decoder(nn.Linear(2, 4), nn.Unflatten(1, (1, 2, 2)), shape=(1, 2, 2))
    >>> tuple(decoder(torch.zeros(3, 2)).shape)
    (3, 1, 2, 2)
    """

    def __init__(
        self, input: nn.Linear | nn.Conv2d | nn.ConvTranspose2d, rest: nn.Module, *, shape: tuple[int, ...]
    ) -> None:
        super().__init__()
        self.input, self.rest, self.shape = input, rest, tuple(shape)

    def forward(self, z: Tensor) -> Tensor:
        """Return the raw outputs, which the likelihood interprets.

        Args:
            z: Codes, (B, d).

        Returns:
            The raw outputs, (B, C * outputs_per_value, H, W), or (B, D * outputs_per_value).
        """
        z = z if isinstance(self.input, nn.Linear) else z[:, :, None, None]
        return pass_through(z, [self.input, self.rest])[0]


class Doubling(nn.ConvTranspose2d):
    """The 4x4 transposed convolution that doubles the side of an image, with faster gradients on a CPU.

    Args:
        inputs: The number of input channels.
        outputs: The number of output channels.
        bias: Whether to add a bias.

    >>> doubling, x = Doubling(8, 4), torch.rand(2, 8, 5, 5)
    >>> bool(torch.equal(doubling(x), nn.ConvTranspose2d.forward(doubling, x)))
    True
    """

    def __init__(self, inputs: int, outputs: int, *, bias: bool = True) -> None:
        super().__init__(inputs, outputs, 4, stride=2, padding=1, bias=bias)

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        """Return features with twice the side.

        Args:
            input: The features, (B, inputs, H, W).
            output_size: Not used; part of the signature of torch's layer.

        Returns:
            The features, (B, outputs, 2 H, 2 W).
        """
        return double(input, self.weight, self.bias)


class Pixels(Doubling):
    """The last 4x4 transposed convolution, to few channels: the same results in two thirds of the time on a CPU.

    Each output is a 2x2 convolution of the input shifted by half a pixel; four of them, interleaved, form the image.

    >>> pixels, x = Pixels(8, 1), torch.rand(2, 8, 5, 5)
    >>> bool(torch.allclose(pixels(x), nn.ConvTranspose2d.forward(pixels, x), atol=1e-5))
    True
    """

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        """Return the image with twice the side.

        Args:
            input: The features, (B, inputs, H, W).
            output_size: Not used; part of the signature of torch's layer.

        Returns:
            The image, (B, outputs, 2 H, 2 W).
        """
        inputs, outputs = self.weight.shape[:2]
        taps = self.weight.reshape(inputs, outputs, 2, 2, 2, 2).flip(2, 4)
        kernel = taps.permute(1, 3, 5, 0, 2, 4).reshape(4 * outputs, inputs, 2, 2)
        bias = None if self.bias is None else self.bias.repeat_interleave(4)
        quarters = nn.functional.conv2d(input, kernel, bias, padding=1)
        return nn.functional.pixel_shuffle(quarters, 2)[:, :, 1:-1, 1:-1]


def square_image(shape: tuple[int, ...], name: str) -> tuple[int, int]:
    """Return channels and side of a square image whose side is 16, 32, 64 or 128.

    Args:
        shape: The shape of one image.
        name: The name of the architecture, for the error message.

    Returns:
        The number of channels and the side.

    Raises:
        ConfigError: If the image is not square with such a side.
    """
    if len(shape) != 3 or shape[1] != shape[2] or shape[1] not in (16, 32, 64, 128):
        raise ConfigError(
            f"{name} expects square images (channels, side, side) with a side of 16, 32, 64 or 128, got {shape}; "
            "resize the images, or use the architecture 'mlp', which takes any shape"
        )
    return shape[0], shape[1]


def halvings(side: int) -> int:
    """Return the number of stride-2 layers that reduce an image to 4x4.

    Args:
        side: The side of the image.

    Returns:
        The number of layers.

    >>> halvings(64)
    4
    """
    return side.bit_length() - 3


def convolution(inputs: int, outputs: int, *, kernel: int = 4) -> nn.Sequential:
    """Return a convolution that halves the side of an image, and ReLU.

    Args:
        inputs: The number of input channels.
        outputs: The number of output channels.
        kernel: The side of the kernel.

    Returns:
        The two layers.
    """
    layer = nn.Conv2d(inputs, outputs, kernel, stride=2, padding=kernel // 2 - 1)
    return nn.Sequential(layer, nn.ReLU(inplace=True))


def transposed(inputs: int, outputs: int) -> nn.Sequential:
    """Return a 4x4 transposed convolution that doubles the side of an image, and ReLU.

    Args:
        inputs: The number of input channels.
        outputs: The number of output channels.

    Returns:
        The two layers.
    """
    return nn.Sequential(Doubling(inputs, outputs), nn.ReLU(inplace=True))


def dense(*widths: int, activation: Activation = "relu") -> nn.Sequential:
    """Return linear layers of the given widths, each followed by the activation.

    Args:
        *widths: The number of inputs, then the units of each layer.
        activation: The activation after each layer.

    Returns:
        The layers.
    """
    pairs = [(nn.Linear(a, b), ACTIVATIONS[activation]()) for a, b in itertools.pairwise(widths)]
    return nn.Sequential(*itertools.chain.from_iterable(pairs))


def glorot(*modules: nn.Module) -> None:
    """Initialise every linear and convolutional layer Glorot-uniform with zero bias.

    Args:
        *modules: The modules, which are changed in place.

    >>> layer = nn.Linear(2, 3)
    >>> glorot(layer)
    >>> layer.bias.tolist()
    [0.0, 0.0, 0.0]
    """
    for layer in itertools.chain.from_iterable(module.modules() for module in modules):
        if isinstance(layer, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Set a network to evaluation mode inside the block, then restore the mode of each of its modules.

    Args:
        network: The network.

    Yields:
        Nothing.

    >>> layer = nn.Dropout()
    >>> with evaluating(layer):
    ...     layer.training
    False
    >>> layer.training
    True
    """
    # A module may be frozen inside a network that trains, so each mode is stored.
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


@contextmanager
def seeded_weights(seed: int, purpose: str = "weights") -> Iterator[None]:
    """Draw the initial weights of modules built inside the block from (seed, purpose), not from torch's global state.

    Args:
        seed: The seed of the run.
        purpose: The purpose of the weights.

    Yields:
        Nothing.

    >>> with seeded_weights(0):
    ...     first = nn.Linear(1, 1)
    >>> with seeded_weights(0):
    ...     second = nn.Linear(1, 1)
    >>> bool(first.weight == second.weight)
    True
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_for(seed, purpose))
        yield
