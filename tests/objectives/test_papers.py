import dataclasses
import math

import pytest
import torch

from polarised import registry
from polarised.errors import ConfigError
from polarised.models import DiagonalGaussian, build_vae
from polarised.models.priors import StandardNormal
from polarised.objectives import DIPVAE, IVAE, RTCVAE, AnnealedVAE, BetaTCVAE, BetaVAE, Decomposition, FactorVAE
from polarised.objectives import take_step as forward


def step(number=0, critic=None):
    vae = build_vae({"architecture": "mlp", "latents": 3}, (1, 4, 4), seed=2)
    x = torch.rand(16, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    own = torch.Generator().manual_seed(1)
    return forward(vae, x, number=number, dataset_size=500, generator=own, critic=critic)


def test_beta_warms_up():
    full = BetaVAE(beta=8.0)(step())["rate"]
    objective = BetaVAE(beta=8.0, warm_up=100)
    assert [(objective(step(t))["rate"] / full).item() for t in (0, 25, 100, 500)] == pytest.approx([0, 0.25, 1, 1])


def test_capacity_rises_from_step_zero():
    objective = AnnealedVAE(c_max=10.0, iteration_threshold=100, gamma=3.0)
    rate = BetaVAE(beta=1.0)(step())["rate"].item()
    for number, capacity in ((0, 0.0), (50, 5.0), (100, 10.0), (999, 10.0)):
        assert objective(step(number))["capacity"].item() == pytest.approx(3 * abs(rate - capacity), rel=1e-5)


def test_weights_of_the_ivae_follow_the_released_schedule():
    objective = IVAE(annealing=1000, decoder_variance=0.01)
    w = 50.0
    assert objective.weights(0) == pytest.approx((w, 0.3 * w, 0, 0.5 * w))
    assert objective.weights(500) == pytest.approx((1.5 * w, 0.15 * w, 0.5, 0.25 * w))
    assert objective.weights(999) == pytest.approx((1.999 * w, 1, 0.999, 1))
    assert objective.weights(1000) == (1, 1, 1, 1)


def test_ivae_terms_equal_those_of_the_weighted_form():
    """a distortion + b MI + c TC + d DW, up to the difference of closed-form and sampled rate."""
    taken = step()
    plain, weighted = IVAE()(taken), IVAE(a=100.0, b=2.0, c=0.0, d=10.0)(taken)
    assert weighted["distortion"].item() == pytest.approx(100 * plain["distortion"].item(), rel=1e-6)
    parts = BetaTCVAE(alpha=2.0, beta=0.0, gamma=10.0)(taken)
    for name in ("rate", "mutual_information", "total_correlation", "dimension_wise"):
        assert weighted[name].item() == pytest.approx(parts[name].item(), rel=1e-6)


@pytest.mark.parametrize(("variant", "ratio"), [("I", 10.0), ("II", 1.0)])
def test_dip_ratio_of_the_studies(variant, ratio):
    implied = DIPVAE(variant=variant, lambda_od=3.0)(step())["covariance"]
    stated = DIPVAE(variant=variant, lambda_od=3.0, lambda_d=3.0 * ratio)(step())["covariance"]
    assert implied.item() == stated.item()


@pytest.mark.parametrize(("beta", "eta"), [(2.0, 10.0), (20.0, 20.0)])
def test_noise_weight_of_rtc(beta, eta):
    critic = RTCVAE(critic_width=8).critic(3)
    taken = step(critic=critic)
    noise = RTCVAE(beta=beta)(taken)["noise"]
    assert noise.item() == pytest.approx(eta * taken.posterior.variance.sum(1).mean().item(), rel=1e-6)


def test_unused_latent_under_rtc_settles_below_one():
    """The optimum of KL + eta s over the variance s is 1 / (1 + 2 eta), against 1 in FactorVAE."""
    eta = 10.0
    log_s = torch.tensor([[-math.log(1 + 2 * eta)]], requires_grad=True)
    posterior = DiagonalGaussian(torch.zeros(1, 1), log_s)
    cost = StandardNormal(1).kl(posterior, posterior.mean) + eta * posterior.variance
    assert torch.autograd.grad(cost.sum(), log_s)[0].item() == pytest.approx(0, abs=1e-6)


def test_clipping_removes_the_gradient_of_a_saturated_critic():
    critic = FactorVAE(critic_width=8).critic(3)
    with torch.no_grad():
        critic[-1].bias[:] = torch.tensor([-40.0, 40.0])
    gradients = {}
    for compatibility in ("none", "disentanglement_lib"):
        terms = FactorVAE(compatibility=compatibility)(step(critic=critic))
        gradients[compatibility] = torch.autograd.grad(terms["critic"], critic[-1].bias)[0].abs().sum().item()
        assert terms["critic"] < 45
    assert gradients["none"] > 0.5
    assert gradients["disentanglement_lib"] == 0


@pytest.mark.parametrize(
    ("objective", "steps", "words"),
    [
        (AnnealedVAE(c_max=50.0), 25_000, "12.5 of 50"),
        (BetaVAE(beta=8.0, warm_up=1000), 500, "4 of 8"),
        (IVAE(annealing=1000), 100, "0.1 of 1"),
        (IVAE(annealing=10, a=100.0, d=2.0), 100, "a, d are not used"),
        (BetaTCVAE(beta=1.0), 100, "beta = 1"),
        (FactorVAE(gamma=0.0), 100, "gamma = 0"),
        (DIPVAE(lambda_od=0.0), 100, "lambda_od = 0"),
        (RTCVAE(beta=0.0), 100, "beta = 0"),
        (Decomposition(alpha=0.0), 100, "alpha = 0"),
    ],
)
def test_settings_without_effect_are_warned_about(objective, steps, words):
    (sentence,) = objective.warnings(steps=steps, dataset_size=1000)
    assert words in sentence


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("BetaVAE", {"beta": -1.0}),
        ("BetaVAE", {"beta": math.nan}),
        ("BetaVAE", {"warm_up": -5}),
        ("FactorVAE", {"gamma": math.inf}),
        ("BetaTCVAE", {"alpha": -math.inf}),
        ("BetaTCVAE", {"estimator": "mss2"}),
        ("DIPVAE", {"variant": "III"}),
        ("IVAE", {"decoder_variance": 0.0}),
    ],
)
def test_settings_out_of_range_are_refused(name, settings):
    with pytest.raises(ConfigError, match=f"{name}.{next(iter(settings))}"):
        registry.build("objective", {"name": name, **settings})


def test_mutual_information_may_have_a_negative_weight():
    assert BetaTCVAE(alpha=-5.0).alpha == -5.0


def test_objectives_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        BetaVAE().beta = 2.0


def test_critic_has_the_published_size():
    assert sum(p.numel() for p in FactorVAE().critic(10).parameters()) == 5_018_002
    assert len([m for m in RTCVAE().critic(10) if isinstance(m, torch.nn.Linear)]) == 6


@pytest.mark.parametrize(("objective", "hidden"), [(RTCVAE(), 5), (FactorVAE(), 6)])
def test_critics_have_the_layers_their_docstrings_name(objective, hidden):
    layers = [layer for layer in objective.critic(10).modules() if isinstance(layer, torch.nn.Linear)]
    assert len(layers) == hidden + 1
    assert {layer.out_features for layer in layers[:-1]} == {1000}
    assert f"{hidden} hidden" in (RTCVAE.__doc__ or "")
