"""The networks of the papers.

Every entry is called as f(shape, latents, outputs_per_value, auxiliary_size) and returns an encoder and a decoder.
Convolutional networks accept any number of channels and a side of 16, 32, 64 or 128; u is appended to the features.
"""

import math
from collections.abc import Callable
from itertools import pairwise

from torch import nn

from polarised.errors import ConfigError
from polarised.models.networks import (
    ACTIVATIONS,
    Activation,
    Decoder,
    Doubling,
    Encoder,
    Pixels,
    convolution,
    dense,
    glorot,
    halvings,
    square_image,
    transposed,
)
from polarised.registry import register

__all__ = [
    "burgess_conv",
    "dcgan",
    "fashion_conv",
    "ivae_conv",
    "locatello_conv",
    "mlp",
    "pinwheel_mlp",
    "rtc_conv",
    "shapes_conv",
]

Halves = tuple[Encoder, Decoder]


@register(
    "architecture",
    title="convolutional (Locatello)",
    summary="four stride-2 convolutions and a dense layer",
    needs=("square",),
    references=("Locatello2019",),
)
def locatello_conv(
    shape: tuple[int, ...], latents: int, outputs_per_value: int = 1, auxiliary_size: int = 0, *, hidden: int = 256
) -> Halves:
    """Build the convolutional network of disentanglement_lib [Locatello2019, table 1].

    Four stride-2 convolutions 32, 32 (4x4), 64, 64 (2x2; the paper's table prints 4x4), dense 256; the decoder has
    dense 256, 1024 and four 4x4 transposed convolutions 64, 32, 32, C. ReLU, Glorot-uniform, zero bias.

    Args:
        shape: The shape of one image.
        latents: The number of latent variables.
        outputs_per_value: Decoder outputs for each value of the image, as the likelihood requires.
        auxiliary_size: The number of auxiliary variables u that the encoder takes; 0 if none.
        hidden: Units of the dense layer of the encoder.

    Returns:
        The encoder and the decoder.

    Raises:
        ConfigError: If the image is not square with a side of 16, 32, 64 or 128.

    >>> encoder, decoder = locatello_conv((1, 64, 64), 10)
    >>> sum(p.numel() for p in encoder.parameters()), sum(p.numel() for p in decoder.parameters())
    (309204, 381313)
    """
    encoder, decoder = _four_convolutions(
        ("locatello_conv", shape, latents, outputs_per_value, auxiliary_size),
        kernel=2,
        hidden=dense,
        widths=(hidden, 256),
        back=(64, 64, 32, 32),
    )
    glorot(encoder, decoder)
    return encoder, decoder


@register(
    "architecture",
    title="convolutional (iVAE)",
    summary="the network of Locatello with u appended to its features",
    needs=("square",),
    references=("Bonheme2023iVAE",),
)
def ivae_conv(shape: tuple[int, ...], latents: int, outputs_per_value: int = 1, auxiliary_size: int = 0) -> Halves:
    """Build `locatello_conv` with u appended to the flattened features and a dense layer of 256 + dim(u).

    [Bonheme2023iVAE, table 1], corrected by the released code: 2x2 kernels in convolutions 3 and 4, a dense 1024 in
    the decoder, linear outputs. The third network of that table is the prior `Conditional`.

    Args:
        shape: The shape of one image.
        latents: The number of latent variables.
        outputs_per_value: Decoder outputs for each value of the image, as the likelihood requires.
        auxiliary_size: The number of auxiliary variables u that the encoder takes; 0 if none.

    Returns:
        The encoder and the decoder.

    Raises:
        ConfigError: If the image is not square with a side of 16, 32, 64 or 128.

    >>> encoder, decoder = ivae_conv((1, 64, 64), 30, 1, 5)
    >>> sum(p.numel() for p in encoder.parameters()), sum(p.numel() for p in decoder.parameters())
    (326214, 386433)
    """
    square_image(shape, "ivae_conv")
    return locatello_conv(shape, latents, outputs_per_value, auxiliary_size, hidden=256 + auxiliary_size)


@register(
    "architecture",
    title="convolutional (Burgess)",
    summary="convolutions of 32 filters and two dense layers",
    needs=("square",),
    references=("Burgess2018",),
)
def burgess_conv(shape: tuple[int, ...], latents: int, outputs_per_value: int = 1, auxiliary_size: int = 0) -> Halves:
    """Build the network of [Burgess2018, appendix A]: 4x4 stride-2 convolutions of 32 filters to 4x4, dense 256, 256.

    Args:
        shape: The shape of one image.
        latents: The number of latent variables.
        outputs_per_value: Decoder outputs for each value of the image, as the likelihood requires.
        auxiliary_size: The number of auxiliary variables u that the encoder takes; 0 if none.

    Returns:
        The encoder and the decoder.

    Raises:
        ConfigError: If the image is not square with a side of 16, 32, 64 or 128.

    >>> encoder, decoder = burgess_conv((1, 64, 64), 10)
    >>> sum(p.numel() for half in (encoder, decoder) for p in half.parameters())
    502005
    """
    channels, side = square_image(shape, "burgess_conv")
    between = halvings(side) - 1
    encoder = Encoder(
        nn.Sequential(*convolution(channels, 32), *[convolution(32, 32) for _ in range(between)], nn.Flatten()),
        dense(512 + auxiliary_size, 256, 256),
        nn.Linear(256, latents),
        nn.Linear(256, latents),
        shape=shape,
        auxiliary_size=auxiliary_size,
    )
    decoder = Decoder(
        nn.Linear(latents, 256),
        nn.Sequential(
            nn.ReLU(inplace=True),
            *dense(256, 256, 512),
            nn.Unflatten(1, (32, 4, 4)),
            *[transposed(32, 32) for _ in range(between)],
            Pixels(32, channels * outputs_per_value),
        ),
        shape=shape,
    )
    return encoder, decoder


@register(
    "architecture",
    title="convolutional (2D shapes)",
    summary="four stride-2 convolutions, linear features",
    needs=("square",),
    references=("Mathieu2019",),
)
def shapes_conv(shape: tuple[int, ...], latents: int, outputs_per_value: int = 1, auxiliary_size: int = 0) -> Halves:
    """Build the 2D-shapes network of [Mathieu2019, table 1a]; the 128 features before the heads have no activation.

    Unlike the released code, it does not add 1e-6 to the standard deviation.

    Args:
        shape: The shape of one image.
        latents: The number of latent variables.
        outputs_per_value: Decoder outputs for each value of the image, as the likelihood requires.
        auxiliary_size: The number of auxiliary variables u that the encoder takes; 0 if none.

    Returns:
        The encoder and the decoder.

    Raises:
        ConfigError: If the image is not square with a side of 16, 32, 64 or 128.

    >>> encoder, decoder = shapes_conv((1, 64, 64), 10)
    >>> encoder.hidden
    Linear(in_features=1024, out_features=128, bias=True)
    """
    return _four_convolutions(
        ("shapes_conv", shape, latents, outputs_per_value, auxiliary_size),
        kernel=4,
        hidden=nn.Linear,
        widths=(128, 128),
        back=(64, 64, 64, 32),
    )


@register(
    "architecture",
    title="convolutional (RTC-VAE)",
    summary="a fully convolutional network",
    needs=("square",),
    references=("Cheng2021",),
)
def rtc_conv(shape: tuple[int, ...], latents: int, outputs_per_value: int = 1, auxiliary_size: int = 0) -> Halves:
    """Build the fully convolutional network of RTC-VAE [Cheng2021, table 2] with 2 x latents outputs and linear pixels.

    The table prints one head of `latents` outputs and a ReLU on the image; both must be misprints.

    Args:
        shape: The shape of one image.
        latents: The number of latent variables.
        outputs_per_value: Decoder outputs for each value of the image, as the likelihood requires.
        auxiliary_size: The number of auxiliary variables u that the encoder takes; 0 if none.

    Returns:
        The encoder and the decoder.

    Raises:
        ConfigError: If the image is not square with a side of 16, 32, 64 or 128.

    >>> encoder, decoder = rtc_conv((3, 64, 64), 10)
    >>> encoder.mean_head
    Conv2d(512, 10, kernel_size=(1, 1), stride=(1, 1))
    """
    channels, side = square_image(shape, "rtc_conv")
    count = halvings(side)
    widths = [channels, 32, *[64] * (count - 1)]
    back = [64, *[64] * (count - 3), 32, 32][:count]
    encoder = Encoder(
        nn.Sequential(*[convolution(a, b) for a, b in pairwise(widths)]),
        nn.Sequential(nn.Conv2d(64 + auxiliary_size, 512, 4), nn.ReLU(inplace=True)),
        nn.Conv2d(512, latents, 1),
        nn.Conv2d(512, latents, 1),
        shape=shape,
        auxiliary_size=auxiliary_size,
    )
    decoder = Decoder(
        nn.ConvTranspose2d(latents, 512, 1),
        nn.Sequential(
            nn.ReLU(inplace=True),
            nn.ConvTranspose2d(512, 64, 4),
            nn.ReLU(inplace=True),
            *[transposed(a, b) for a, b in pairwise(back)],
            Pixels(back[-1], channels * outputs_per_value),
        ),
        shape=shape,
    )
    return encoder, decoder


@register(
    "architecture",
    title="DCGAN",
    summary="convolutions with batch normalisation",
    needs=("square",),
    references=("Mathieu2019",),
)
def dcgan(
    shape: tuple[int, ...], latents: int, outputs_per_value: int = 1, auxiliary_size: int = 0, *, width: int = 32
) -> Halves:
    """Build the CelebA network of [Mathieu2019, table 1c]: convolutions 32, 64, 128, 256 with batch norm, and reversed.

    The first layer of the decoder, a 4x4 transposed convolution of a single point, is implemented as a linear layer.

    Args:
        shape: The shape of one image.
        latents: The number of latent variables.
        outputs_per_value: Decoder outputs for each value of the image, as the likelihood requires.
        auxiliary_size: The number of auxiliary variables u that the encoder takes; 0 if none.
        width: Filters of the first convolution; each following one has twice as many.

    Returns:
        The encoder and the decoder.

    Raises:
        ConfigError: If the image is not square with a side of 16, 32, 64 or 128.

    >>> encoder, decoder = dcgan((3, 64, 64), 50)
    >>> encoder.mean_head
    Conv2d(256, 50, kernel_size=(4, 4), stride=(1, 1))
    """
    return _batch_normalised("dcgan", shape, latents, outputs_per_value, auxiliary_size, width=width)


@register(
    "architecture",
    title="convolutional (Fashion-MNIST)",
    summary="the DCGAN of the released code of the decomposition paper",
    needs=("square",),
    references=("Mathieu2019",),
)
def fashion_conv(
    shape: tuple[int, ...], latents: int, outputs_per_value: int = 1, auxiliary_size: int = 0, *, width: int = 32
) -> Halves:
    """Build the Fashion-MNIST network of the released code of the decomposition paper [Mathieu2019].

    Like `dcgan`, without bias in the convolutions and without batch norm after the first; std = softplus + 1e-6;
    weights are initialised from N(0, 0.02^2). The images are 32x32. Unlike the released code, the decoder's first layer
    has a bias.

    Args:
        shape: The shape of one image.
        latents: The number of latent variables.
        outputs_per_value: Decoder outputs for each value of the image, as the likelihood requires.
        auxiliary_size: The number of auxiliary variables u that the encoder takes; 0 if none.
        width: Filters of the first convolution; each following one has twice as many.

    Returns:
        The encoder and the decoder.

    Raises:
        ConfigError: If the image is not square with a side of 16, 32, 64 or 128.

    >>> encoder, decoder = fashion_conv((1, 32, 32), 50)
    >>> encoder.mean_head
    Conv2d(128, 50, kernel_size=(4, 4), stride=(1, 1))
    """
    encoder, decoder = _batch_normalised(
        "fashion_conv", shape, latents, outputs_per_value, auxiliary_size, width=width, released=True
    )
    for layer in [*encoder.modules(), *decoder.modules()]:
        if isinstance(layer, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
            nn.init.normal_(layer.weight, 0.0, 0.02)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return encoder, decoder


@register(
    "architecture",
    title="fully connected",
    summary="dense layers for data of any shape",
    references_by_setting={"xtanh": ("Khemakhem2020",)},
)
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
) -> Halves:
    """Build fully connected networks for data of any shape; u is appended to x.

    [Higgins2017] uses widths (1200, 1200) and decoder_widths (1200, 1200, 1200) with tanh.

    Args:
        shape: The shape of one image or vector.
        latents: The number of latent variables.
        outputs_per_value: Decoder outputs for each value of it, as the likelihood requires.
        auxiliary_size: The number of auxiliary variables u that the encoder takes; 0 if none.
        widths: Units of the encoder's hidden layers.
        decoder_widths: Units of the decoder's hidden layers; by default those of the encoder in reverse.
        activation: The activation after each hidden layer; "xtanh" is that of the first iVAE [Khemakhem2020].
        decoder_activation: The activation of the decoder; by default that of the encoder.

    Returns:
        The encoder and the decoder.

    Raises:
        ConfigError: If encoder or decoder has no hidden layer, or a layer has no unit.

    >>> encoder, decoder = mlp((1, 32, 32), 10)
    >>> encoder.mean_head
    Linear(in_features=256, out_features=10, bias=True)
    """
    back = tuple(reversed(widths)) if decoder_widths is None else tuple(decoder_widths)
    if not widths or not back or min(*widths, *back) < 1:
        raise ConfigError(
            f"mlp needs at least one hidden layer in encoder and decoder and a unit in each, got {widths} and {back}; "
            "try widths: [256, 256]"
        )
    size = math.prod(shape)
    encoder = Encoder(
        nn.Flatten(),
        dense(size + auxiliary_size, *widths, activation=activation),
        nn.Linear(widths[-1], latents),
        nn.Linear(widths[-1], latents),
        shape=shape,
        auxiliary_size=auxiliary_size,
    )
    decoder = Decoder(
        nn.Linear(latents, back[0]),
        nn.Sequential(
            ACTIVATIONS[decoder_activation or activation](),
            *dense(*back, activation=decoder_activation or activation),
            nn.Linear(back[-1], size * outputs_per_value),
            nn.Unflatten(1, (shape[0] * outputs_per_value, *shape[1:])),
        ),
        shape=shape,
    )
    return encoder, decoder


@register(
    "architecture",
    title="fully connected (pinwheel)",
    summary="one hidden layer in encoder and decoder",
    references=("Mathieu2019",),
)
def pinwheel_mlp(
    shape: tuple[int, ...], latents: int, outputs_per_value: int = 1, auxiliary_size: int = 0, *, width: int = 100
) -> Halves:
    """Build the pinwheel network of [Mathieu2019, table 1b]: one hidden layer of 100 in each, std = softplus + 1e-6.

    The softplus scale of the decoder is provided by the likelihood `Gaussian(scale="learned")`.

    Args:
        shape: The shape of one image or vector.
        latents: The number of latent variables.
        outputs_per_value: Decoder outputs for each value of it, as the likelihood requires.
        auxiliary_size: The number of auxiliary variables u that the encoder takes; 0 if none.
        width: Units of the hidden layer.

    Returns:
        The encoder and the decoder.

    >>> encoder, decoder = pinwheel_mlp((2,), 2, 2)
    >>> encoder.scale
    'softplus'
    """
    encoder, decoder = mlp(shape, latents, outputs_per_value, auxiliary_size, widths=(width,))
    encoder.scale = "softplus"
    return encoder, decoder


def _four_convolutions(
    asked: tuple[str, tuple[int, ...], int, int, int],
    *,
    kernel: int,
    hidden: Callable[[int, int], nn.Module],
    widths: tuple[int, int],
    back: tuple[int, int, int, int],
) -> Halves:
    """Build convolutions 32, 32 (4x4), 64, 64 (`kernel`), a dense layer in each half, and transposed ones by `back`."""
    name, shape, latents, outputs_per_value, auxiliary_size = asked
    channels, side = square_image(shape, name)
    last = side // 16
    encoder = Encoder(
        nn.Sequential(
            *convolution(channels, 32),
            *convolution(32, 32),
            *convolution(32, 64, kernel=kernel),
            *convolution(64, 64, kernel=kernel),
            nn.Flatten(),
        ),
        hidden(64 * last**2 + auxiliary_size, widths[0]),
        nn.Linear(widths[0], latents),
        nn.Linear(widths[0], latents),
        shape=shape,
        auxiliary_size=auxiliary_size,
    )
    decoder = Decoder(
        nn.Linear(latents, widths[1]),
        nn.Sequential(
            nn.ReLU(inplace=True),
            *dense(widths[1], 64 * last**2),
            nn.Unflatten(1, (64, last, last)),
            *[layer for a, b in pairwise(back) for layer in transposed(a, b)],
            Pixels(back[-1], channels * outputs_per_value),
        ),
        shape=shape,
    )
    return encoder, decoder


def _batch_normalised(
    name: str,
    shape: tuple[int, ...],
    latents: int,
    outputs_per_value: int,
    auxiliary_size: int,
    *,
    width: int,
    released: bool = False,
) -> Halves:
    channels, side = square_image(shape, name)
    widths = [channels, *[width * 2**i for i in range(halvings(side))]]
    down: list[nn.Module] = []
    for i, (a, b) in enumerate(pairwise(widths)):
        norm = [] if released and i == 0 else [nn.BatchNorm2d(b)]
        down += [nn.Conv2d(a, b, 4, 2, 1, bias=not released), *norm, nn.LeakyReLU(0.2, inplace=True)]
    back = widths[:0:-1]
    up: list[nn.Module] = [nn.Unflatten(1, (back[0], 4, 4)), nn.BatchNorm2d(back[0]), nn.ReLU(inplace=True)]
    for a, b in pairwise(back):
        up += [Doubling(a, b, bias=not released), nn.BatchNorm2d(b), nn.ReLU(inplace=True)]
    encoder = Encoder(
        nn.Sequential(*down),
        nn.Identity(),
        nn.Conv2d(widths[-1] + auxiliary_size, latents, 4),
        nn.Conv2d(widths[-1] + auxiliary_size, latents, 4),
        shape=shape,
        auxiliary_size=auxiliary_size,
        scale="softplus" if released else "exponential",
    )
    pixels = Pixels(width, channels * outputs_per_value, bias=not released)
    decoder = Decoder(nn.Linear(latents, back[0] * 16), nn.Sequential(*up, pixels), shape=shape)
    return encoder, decoder
