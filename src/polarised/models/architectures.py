"""The networks of the papers. A page: `__all__` is the catalogue of architectures.

Every entry is called as f(shape, latents, outputs_per_value, auxiliary_size) and returns an encoder and a decoder.
"""

import itertools
import math

from torch import nn

from polarised.errors import ConfigError
from polarised.models.networks import (
    ACTIVATIONS,
    Activation,
    Decoder,
    Encoder,
    glorot,
    power_of_two_image,
)

__all__ = ["locatello_conv", "mlp"]


def locatello_conv(
    shape: tuple[int, ...], latents: int, outputs_per_value: int = 1, auxiliary_size: int = 0
) -> tuple[Encoder, Decoder]:
    """Build the convolutional network of disentanglement_lib [Locatello2019, table 1].

    Four stride-2 convolutions 32, 32 (4x4), 64, 64 (2x2; the paper's table prints 4x4), dense 256; back by dense
    256, 1024 and four 4x4 transposed convolutions 64, 32, 32, C. ReLU, Glorot-uniform, zero bias. u joins
    the flattened features.

    >>> encoder, decoder = locatello_conv((1, 64, 64), 10)
    >>> sum(p.numel() for p in encoder.parameters()), sum(p.numel() for p in decoder.parameters())
    (309204, 381313)
    """
    channels, side = power_of_two_image(shape, "locatello_conv")
    last = side // 16
    encoder = Encoder(
        nn.Sequential(
            *convolution(channels, 32, kernel=4),
            *convolution(32, 32, kernel=4),
            *convolution(32, 64, kernel=2),
            *convolution(64, 64, kernel=2),
            nn.Flatten(),
        ),
        dense(64 * last**2 + auxiliary_size, 256),
        nn.Linear(256, latents),
        nn.Linear(256, latents),
        shape=shape,
        auxiliary_size=auxiliary_size,
    )
    decoder = Decoder(
        nn.Linear(latents, 256),
        nn.Sequential(
            nn.ReLU(inplace=True),
            *dense(256, 64 * last**2),
            nn.Unflatten(1, (64, last, last)),
            *transposed(64, 64),
            *transposed(64, 32),
            *transposed(32, 32),
            nn.ConvTranspose2d(32, channels * outputs_per_value, 4, stride=2, padding=1),
        ),
        shape=shape,
    )
    glorot(encoder), glorot(decoder)
    return encoder, decoder


def mlp(
    shape: tuple[int, ...],
    latents: int,
    outputs_per_value: int = 1,
    auxiliary_size: int = 0,
    *,
    widths: tuple[int, ...] = (256, 256),
    decoder_widths: tuple[int, ...] | None = None,
    activation: Activation = "relu",
    decoder_activation: Activation | None = None,
) -> tuple[Encoder, Decoder]:
    """Build fully connected networks for data of any shape; u is joined to x.

    The decoder mirrors `widths` unless it has its own. Widths (1200, 1200) against (1200, 1200, 1200) with tanh are
    those of [Higgins2017]; xtanh is the activation of the first iVAE [Khemakhem2020].

    >>> encoder, decoder = mlp((1, 32, 32), 10)
    >>> encoder.mean_head
    Linear(in_features=256, out_features=10, bias=True)
    """
    back = tuple(reversed(widths)) if decoder_widths is None else tuple(decoder_widths)
    if not widths or not back or min(*widths, *back) < 1:
        raise ConfigError(
            f"mlp needs a hidden layer of at least one unit on both sides, got widths {widths} and {back}; try [256, 256]"
        )
    size = math.prod(shape)
    encoder = Encoder(
        nn.Flatten(),
        layers((size + auxiliary_size, *widths), activation),
        nn.Linear(widths[-1], latents),
        nn.Linear(widths[-1], latents),
        shape=shape,
        auxiliary_size=auxiliary_size,
    )
    decoder = Decoder(
        nn.Linear(latents, back[0]),
        nn.Sequential(
            ACTIVATIONS[decoder_activation or activation](),
            *layers(back, decoder_activation or activation),
            nn.Linear(back[-1], size * outputs_per_value),
            nn.Unflatten(1, (shape[0] * outputs_per_value, *shape[1:])),
        ),
        shape=shape,
    )
    return encoder, decoder


def convolution(inputs: int, outputs: int, *, kernel: int) -> nn.Sequential:
    """Return a convolution that halves the image, and ReLU."""
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride=2, padding=kernel // 2 - 1), nn.ReLU(inplace=True))


def transposed(inputs: int, outputs: int) -> nn.Sequential:
    """Return a 4x4 transposed convolution that doubles the image, and ReLU."""
    return nn.Sequential(nn.ConvTranspose2d(inputs, outputs, 4, stride=2, padding=1), nn.ReLU(inplace=True))


def dense(inputs: int, outputs: int) -> nn.Sequential:
    """Return a linear layer and ReLU."""
    return nn.Sequential(nn.Linear(inputs, outputs), nn.ReLU(inplace=True))


def layers(widths: tuple[int, ...], activation: Activation) -> nn.Sequential:
    """Return linear layers through the given widths, each followed by the activation."""
    pairs = itertools.pairwise(widths)
    return nn.Sequential(*[module for a, b in pairs for module in (nn.Linear(a, b), ACTIVATIONS[activation]())])
