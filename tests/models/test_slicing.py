import pytest
import torch
from torch import nn

from polarised.errors import ConfigError
from polarised.models import slice_layers

KEEP = [3, 0]


def features(*shape):
    return torch.randn(4, *shape, generator=torch.Generator().manual_seed(0))


def test_linear_heads_and_input():
    mean, spread, decoder = nn.Linear(6, 5), nn.Linear(6, 5), nn.Linear(5, 7)
    constants = torch.arange(5.0)
    layers = slice_layers(mean, spread, decoder, KEEP, constants=constants)
    h, z = features(6), features(5)
    torch.testing.assert_close(layers.mean_head(h), mean(h)[:, KEEP])
    torch.testing.assert_close(layers.log_variance_head(h), spread(h)[:, KEEP])
    full = constants.expand(4, -1).clone()
    full[:, KEEP] = z[:, KEEP]
    torch.testing.assert_close(layers.decoder_input(z[:, KEEP]), decoder(full))
    assert (mean.out_features, decoder.in_features) == (5, 5)
    assert constants.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("layout", ["interleaved", "stacked"])
def test_one_layer_for_both(layout):
    head = nn.Linear(6, 10)
    layers = slice_layers(head, None, nn.Linear(5, 7), KEEP, layout=layout)
    assert layers.log_variance_head is layers.mean_head
    h = features(6)
    split = (
        (lambda out: out.unflatten(1, (-1, 2)).unbind(2)) if layout == "interleaved" else (lambda out: out.chunk(2, 1))
    )
    for ours, theirs in zip(split(layers.mean_head(h)), split(head(h)), strict=True):
        torch.testing.assert_close(ours, theirs[:, KEEP])


def test_convolutional_latents():
    head, decoder = nn.Conv2d(6, 10, 1), nn.Conv2d(5, 7, 3, padding=1)
    layers = slice_layers(head, None, decoder, KEEP, layout="stacked")
    h, z = features(6, 4, 4), features(5, 4, 4)
    torch.testing.assert_close(layers.mean_head(h), head(h)[:, [3, 0, 8, 5]])
    zeroed = torch.zeros_like(z)
    zeroed[:, KEEP] = z[:, KEEP]
    torch.testing.assert_close(layers.decoder_input(z[:, KEEP]), decoder(zeroed))


@pytest.mark.parametrize(
    "decoder",
    [
        nn.Conv2d(5, 7, 3),
        nn.Conv2d(5, 7, 1, bias=False),
        nn.ConvTranspose2d(5, 7, 1),
        nn.Conv2d(5, 7, 3, padding=1, padding_mode="circular"),
    ],
)
def test_a_constant_becomes_a_bias_if_possible(decoder):
    constants = torch.tensor([0.0, 2.0, -1.0, 0.5, 3.0])
    layers = slice_layers(nn.Conv2d(6, 5, 1), nn.Conv2d(6, 5, 1), decoder, KEEP, constants=constants)
    z = features(5, 4, 4)
    full = constants[None, :, None, None].expand(4, 5, 4, 4).clone()
    full[:, KEEP] = z[:, KEEP]
    torch.testing.assert_close(layers.decoder_input(z[:, KEEP]), decoder(full))


def test_transposed_head():
    head = nn.ConvTranspose2d(6, 5, 2)
    layers = slice_layers(head, nn.ConvTranspose2d(6, 5, 2), nn.Conv2d(5, 3, 1), KEEP)
    h = features(6, 4, 4)
    torch.testing.assert_close(layers.mean_head(h), head(h)[:, KEEP])


@pytest.mark.parametrize("decoder", [nn.Conv2d(5, 7, 3, padding=1), nn.ConvTranspose2d(5, 7, 4)])
def test_a_constant_that_depends_on_the_position_is_refused(decoder):
    with pytest.raises(ConfigError, match="constant"):
        slice_layers(nn.Conv2d(6, 5, 1), nn.Conv2d(6, 5, 1), decoder, KEEP, constants=torch.ones(5))


def test_invalid_layers_are_refused():
    linear = nn.Linear(6, 5)
    with pytest.raises(ConfigError, match="layout"):
        slice_layers(linear, None, nn.Linear(5, 2), KEEP)
    with pytest.raises(ConfigError, match="layout"):
        slice_layers(linear, linear, nn.Linear(5, 2), KEEP, layout="stacked")
    with pytest.raises(ConfigError, match="takes z"):
        slice_layers(linear, linear, nn.Linear(4, 2), KEEP)
    with pytest.raises(ConfigError, match="constants"):
        slice_layers(linear, linear, nn.Linear(5, 2), KEEP, constants=torch.zeros(3))
    with pytest.raises(ConfigError, match="groups"):
        slice_layers(nn.Conv2d(6, 6, 1, groups=2), nn.Conv2d(6, 6, 1), nn.Conv2d(6, 1, 1), KEEP)
