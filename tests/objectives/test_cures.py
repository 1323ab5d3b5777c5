import numpy as np
import pytest
import torch
from torch import nn

from polarised.data import linear_gaussian, probabilistic_pca
from polarised.errors import ConfigError
from polarised.models import VAE, DiagonalGaussian, build_vae
from polarised.models.likelihoods import Gaussian
from polarised.models.networks import Decoder, Encoder, seeded_weights
from polarised.models.priors import StandardNormal
from polarised.objectives import ELBO, GECO, FreeBits, SigmaVAE
from polarised.objectives import take_step as forward
from polarised.objectives.cures import Multiplier, squared_error
from polarised.training import train

VARIANCES = (8.0, 4.0, 2.0, 0.5)
DATA = linear_gaussian(variances=VARIANCES, points=2000)


def step(number=0, likelihood="Gaussian", memory=None, seed=0):
    vae = build_vae({"architecture": "mlp", "latents": 3, "likelihood": likelihood}, (1, 4, 4), seed=2)
    x = torch.rand(16, 1, 4, 4, generator=torch.Generator().manual_seed(seed))
    own = torch.Generator().manual_seed(1)
    return forward(vae, x, number=number, dataset_size=500, generator=own, memory=memory)


def linear_vae(latents=4, seed=0):
    with seeded_weights(seed):
        encoder = Encoder(nn.Flatten(), nn.Identity(), nn.Linear(4, latents), nn.Linear(4, latents), shape=(4,))
        decoder = Decoder(nn.Linear(latents, 4), nn.Identity(), shape=(4,))
    return VAE(encoder, decoder, StandardNormal(latents), Gaussian())


def total(terms):
    return torch.stack(list(terms.values())).sum()


def test_free_bits_apply_to_the_mean_over_the_batch():
    taken = step()
    posterior = DiagonalGaussian(torch.randn(16, 3, generator=torch.Generator().manual_seed(0)), torch.zeros(16, 3))
    object.__setattr__(taken, "posterior", posterior)
    kl = taken.prior.kl(taken.posterior, taken.z)
    floor = float(kl.mean(0).median())
    terms = FreeBits(nats=floor)(taken)
    assert terms["rate"].item() == ELBO()(taken)["rate"].item()
    charged = (terms["rate"] + terms["free_bits"]).item()
    assert charged == pytest.approx(kl.mean(0).clamp_min(floor).sum().item(), rel=1e-5)
    assert charged != pytest.approx(kl.clamp_min(floor).mean(0).sum().item(), rel=1e-3)


@pytest.mark.parametrize(
    ("size", "groups"), [(1, [[0], [1], [2]]), (2, [[0, 1], [2]]), (3, [[0, 1, 2]]), (9, [[0, 1, 2]])]
)
def test_groups_share_a_minimum(size, groups):
    taken = step()
    kl = taken.prior.kl(taken.posterior, taken.z).mean(0)
    terms = FreeBits(nats=0.05, group_size=size)(taken)
    expected = sum(max(0.05, kl[group].sum().item()) for group in groups)
    assert (terms["rate"] + terms["free_bits"]).item() == pytest.approx(expected, rel=1e-5)


def test_below_the_minimum_the_rate_has_no_gradient():
    taken = step()
    terms = FreeBits(nats=100.0)(taken)
    charged = terms["rate"] + terms["free_bits"]
    (gradient,) = torch.autograd.grad(charged, taken.posterior.mean, retain_graph=True)
    assert gradient.abs().max().item() < 1e-9
    (gradient,) = torch.autograd.grad(terms["rate"], taken.posterior.mean)
    assert gradient.abs().max().item() > 1e-6


def test_geco_follows_the_algorithm():
    """Compare with a transcription of the algorithm: the average, then value and gradient, then the multiplier."""
    objective = GECO(kappa=1.2, alpha=0.9, nu=0.05, start=2.0, cap=2.2)
    memory = objective.memory()
    average, multiplier = None, 2.0
    for number in range(30):
        taken = step(number, memory=memory, seed=number)
        error = ((taken.x - taken.outputs) ** 2).flatten(1).sum(1).mean()
        violation = error.item() - 1.44
        average = violation if average is None else 0.9 * average + 0.1 * violation
        terms = objective(taken)
        assert total(terms).item() == pytest.approx(terms["rate"].item() + multiplier * average, rel=1e-4, abs=1e-4)
        wanted = torch.autograd.grad(multiplier * error + terms["rate"], taken.z, retain_graph=True)[0]
        torch.testing.assert_close(torch.autograd.grad(total(terms), taken.z)[0], wanted)
        multiplier = min(multiplier * np.exp(0.05 * np.clip(average / 1.44, -1, 1)), 2.2)
    assert multiplier == 2.2


def test_geco_converges_to_the_noise_of_its_constraint(monkeypatch):
    """In a linear model the error at noise b is k b + a constant: the multiplier converges to 1 / 2b."""
    noise = 0.8
    best = probabilistic_pca(VARIANCES, latents=4, noise_variance=noise)
    error = sum(VARIANCES) - float((best.decoder_scale**2).sum())
    objective = GECO(kappa=error**0.5, nu=0.005, alpha=0.9)
    memories = []
    monkeypatch.setattr(GECO, "memory", lambda self: memories.append(Multiplier(start=1.0)) or memories[0])
    train(linear_vae(), objective, DATA, steps=2500, batch_size=256, learning_rate=5e-3, progress=False)
    assert 0.5 / memories[0].multiplier.item() == pytest.approx(noise, rel=0.05)


@pytest.mark.parametrize("stop", [1, 2, 7])
def test_geco_resumes_exactly(tmp_path, stop):
    def fit(vae, steps, **where):
        return train(
            vae,
            GECO(kappa=1.5, cap=1.05),
            DATA,
            steps=steps,
            batch_size=16,
            learning_rate=1e-2,
            progress=False,
            log_every=1,
            **where,
        )

    whole, resumed = linear_vae(), linear_vae(seed=5)
    expected = fit(whole, 12)
    fit(linear_vae(), stop, directory=tmp_path)
    history = fit(resumed, 12, directory=tmp_path)
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), resumed.parameters(), strict=True))
    np.testing.assert_array_equal(history.loss, expected.loss)
    assert len(set(expected.terms["distortion"] / expected.terms["rate"])) > 1


def test_sigma_is_optimal_for_the_batch_and_its_gradient_that_of_a_constant():
    taken = step()
    ours = SigmaVAE()(taken)["distortion"]
    variance = squared_error(taken).item() / 16
    fixed = -Gaussian(variance=variance).log_prob(taken.x, taken.outputs).mean()
    assert ours.item() == pytest.approx(fixed.item(), rel=1e-6)
    for other in (0.8, 1.25):
        assert ours < -Gaussian(variance=variance * other).log_prob(taken.x, taken.outputs).mean()
    logarithm = 0.5 * 16 * squared_error(taken).log()
    for wanted in (fixed, logarithm):
        torch.testing.assert_close(
            torch.autograd.grad(ours, taken.z, retain_graph=True)[0],
            torch.autograd.grad(wanted, taken.z, retain_graph=True)[0],
        )


def test_sigma_has_a_floor():
    taken = step()
    object.__setattr__(taken, "outputs", taken.x.clone())
    spread = taken.x.flatten(1).var(0, unbiased=False).mean().item()
    expected = 0.5 * 16 * (np.log(2 * np.pi) + np.log(1e-3 * spread))
    assert SigmaVAE()(taken)["distortion"].item() == pytest.approx(expected, rel=1e-5)


def test_sigma_and_rate_equal_those_of_probabilistic_pca():
    """With two latents the optimal noise of a linear model is the mean of the two remaining variances."""
    vae = linear_vae(latents=2)
    train(vae, SigmaVAE(warm_up=300), DATA, steps=2500, batch_size=256, learning_rate=5e-3, progress=False)
    x = torch.from_numpy(DATA.images[:])
    with torch.no_grad():
        taken = forward(vae, x, dataset_size=len(x), generator=torch.Generator().manual_seed(0))
        variance = squared_error(taken).item() / 4
        rate = ELBO()(taken)["rate"].item()
    # Each used variable contributes the noise itself to the error: (2 s + 2.5) / 4 = s.
    assert variance == pytest.approx(1.25, rel=0.05)
    assert rate == pytest.approx(0.5 * np.log(8 / 1.25) + 0.5 * np.log(4 / 1.25), rel=0.05)


def test_learned_sigma_is_the_variance_of_the_likelihood():
    taken = step(likelihood={"name": "Gaussian", "scale": "shared", "variance": 0.3})
    assert SigmaVAE(sigma="learned")(taken)["distortion"].item() == ELBO()(taken)["distortion"].item()
    with pytest.raises(ConfigError, match="scale: shared"):
        SigmaVAE(sigma="learned")(step())


def test_rate_warms_up():
    full = SigmaVAE()(step())["rate"].item()
    found = [SigmaVAE(warm_up=100)(step(number))["rate"].item() / full for number in (0, 25, 100, 500)]
    assert found == pytest.approx([0, 0.25, 1, 1])


@pytest.mark.parametrize(
    ("objective", "settings", "words"),
    [
        (FreeBits, {"group_size": 0}, "FreeBits.group_size"),
        (FreeBits, {"nats": -1.0}, "FreeBits.nats"),
        (GECO, {"kappa": 0.0}, "GECO.kappa"),
        (GECO, {"cap": 0.0}, "GECO.cap"),
        (GECO, {"alpha": 1.0}, "GECO.alpha"),
        (SigmaVAE, {"warm_up": -1}, "SigmaVAE.warm_up"),
    ],
)
def test_settings_out_of_range_are_refused(objective, settings, words):
    with pytest.raises(ConfigError, match=words):
        objective(**settings)


def test_geco_without_memory_names_what_is_missing():
    with pytest.raises(ConfigError, match=r"objective.memory\(\)"):
        GECO()(step())


@pytest.mark.parametrize(
    ("objective", "words"), [(SigmaVAE(warm_up=1000), "0.1 of 1"), (FreeBits(nats=0.0), "nats = 0")]
)
def test_settings_without_effect_are_warned_about(objective, words):
    (sentence,) = objective.warnings(steps=100, dataset_size=1000)
    assert words in sentence
