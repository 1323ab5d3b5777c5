import pytest
import torch

from polarised.errors import ConfigError, DataError
from polarised.models import build_vae
from polarised.models.priors import StandardNormal


def test_parts_of_a_built_model():
    vae = build_vae({"architecture": "mlp", "latents": 3, "likelihood": "Gaussian"}, (5,))
    x = torch.rand(4, 5)
    assert vae.shape == (5,)
    assert vae.latents == 3
    assert isinstance(vae.prior, StandardNormal)
    assert torch.equal(vae.reconstruct(x), vae.generate(vae.posterior(x).mean))
    assert vae.decode(torch.zeros(4, 3)).shape == (4, 5)


def test_prior_decides_whether_u_is_used():
    x, u = torch.rand(4, 5), torch.rand(4, 2)
    plain = build_vae({"architecture": "mlp"}, (5,), auxiliary_size=2)
    assert torch.equal(plain.posterior(x, u).mean, plain.posterior(x).mean)
    conditional = build_vae({"architecture": "mlp", "prior": "Conditional"}, (5,), auxiliary_size=2)
    assert not torch.equal(conditional.posterior(x, u).mean, conditional.posterior(x, 1 - u).mean)
    with pytest.raises(DataError, match="auxiliary"):
        conditional.posterior(x)


def test_paper_s_ivae_has_its_parameters():
    vae = build_vae({"architecture": "ivae_conv", "latents": 30, "prior": "Conditional"}, (1, 64, 64), 5)
    counts = [sum(p.numel() for p in part.parameters()) for part in (vae.encoder, vae.decoder, vae.prior)]
    assert counts == [326_214, 386_433, 6_930]


@pytest.mark.parametrize("latents", [0, -1, 2.5, "10", True])
def test_latents_must_be_a_positive_whole_number(latents):
    with pytest.raises(ConfigError, match="latents"):
        build_vae({"architecture": "mlp", "latents": latents}, (5,))


def test_unknown_architecture_suggests_the_nearest():
    with pytest.raises(ConfigError, match="locatello_conv"):
        build_vae({"architecture": "locatelo_conv"}, (1, 64, 64))


def test_weights_start_as_in_the_reference():
    vae = build_vae({"architecture": "locatello_conv"}, (1, 64, 64))
    assert all((p == 0).all() for name, p in vae.named_parameters() if name.endswith("bias"))
    weight = vae.encoder.hidden[0].weight
    assert weight.abs().max().item() == pytest.approx((6 / (1024 + 256)) ** 0.5, rel=1e-3)


def test_the_whole_model_runs_in_double_precision():
    vae = build_vae({"architecture": "mlp", "prior": "Sparse"}, (5,)).double()
    assert vae.reconstruct(torch.rand(2, 5).double()).dtype == torch.float64


@pytest.mark.parametrize(
    ("name", "kernels", "widths"),
    [("locatello_conv", [4, 4, 2, 2], [64, 64, 32, 32, 1]), ("shapes_conv", [4, 4, 4, 4], [64, 64, 64, 32, 1])],
)
def test_convolutions_of_the_papers(name, kernels, widths):
    vae = build_vae({"architecture": name, "latents": 5}, (1, 64, 64))
    down = [layer for layer in vae.encoder.modules() if isinstance(layer, torch.nn.Conv2d)]
    assert [layer.kernel_size[0] for layer in down] == kernels
    assert [layer.out_channels for layer in down] == [32, 32, 64, 64]
    up = [value.shape for key, value in vae.decoder.state_dict().items() if value.ndim == 4]
    assert [shape[0] for shape in up] + [up[-1][1]] == widths
