import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.datasets import load_digits
from torch import nn

import polarised as po
from polarised.data import (
    dataset_from_arrays,
    dsprites,
    linear_gaussian,
    nonlinear_ica,
    optimal_noise_variance,
    pinwheel,
    probabilistic_pca,
)
from polarised.errors import ConfigError, DataError
from polarised.models import VAE
from polarised.models.likelihoods import Gaussian
from polarised.models.networks import Decoder, Encoder, seeded_weights
from polarised.models.priors import StandardNormal
from polarised.objectives import ELBO
from polarised.regime import spectrum as reading
from polarised.regime.forecast import loss_threshold
from polarised.regime.spectrum import measure_spectrum
from polarised.training import train

DIGITS = load_digits().data / 16.0
ONE_HOT = 4.0 * np.eye(32)[np.random.default_rng(0).integers(32, size=4096)]


def circle():
    angle = np.random.default_rng(1).uniform(0, 2 * np.pi, 4000)[:, None]
    harmonics = np.arange(1, 9) * angle
    return np.concatenate([np.cos(harmonics), np.sin(harmonics)], axis=1)


DATA = {
    "digits": lambda: DIGITS,
    "linear_gaussian": lambda: linear_gaussian().images[:].astype(np.float64),
    "pinwheel": lambda: pinwheel().images[:].astype(np.float64),
    "nonlinear_ica": lambda: nonlinear_ica(points=100, observed=10, standardise=True).images[:].astype(np.float64),
    "sprites": lambda: dsprites(size=32).sample(1500, 0).images.reshape(1500, -1)[:, ::7].astype(np.float64),
    "circle": circle,
}
SETTINGS = [
    *[("digits", 16, b) for b in (1.0, 0.3)],
    *[pytest.param("digits", 16, b, marks=pytest.mark.slow) for b in (0.6, 0.15, 0.08, 0.03)],
    *[("linear_gaussian", 8, b) for b in (3.0, 0.4, 0.05)],
    *[("pinwheel", 4, b) for b in (0.8, 0.3, 0.03)],
    *[("nonlinear_ica", 8, b) for b in (2.5, 0.9, 0.3, 0.03)],
    *[("sprites", 10, b) for b in (0.7, 0.5, 0.1, 0.01)],
    *[("circle", 8, b) for b in (0.6, 0.3)],
]


def best_linear_vae(rows, latents, variance, beta):
    """Return posterior variance and mean square of the means of the best linear VAE, found by gradient descent.

    The expected loss is exact in the covariance: no sampling, no use of the eigenvalues.
    """
    covariance = torch.from_numpy(np.cov(rows.T, bias=True).reshape(rows.shape[1], rows.shape[1]))
    size = len(covariance)
    eye = torch.eye(latents, dtype=torch.float64)

    def parts(flat):
        decoder = flat[: size * latents].reshape(size, latents)
        encoder = flat[size * latents : 2 * size * latents].reshape(latents, size)
        return decoder, encoder, flat[2 * size * latents :]

    def loss(flat):
        decoder, encoder, log_variance = parts(flat)
        explained = encoder @ covariance @ encoder.T
        error = covariance.trace() - 2 * (decoder.T @ covariance @ encoder.T).trace()
        error = error + (decoder.T @ decoder * (explained + torch.diag(log_variance.exp()) * eye)).sum()
        kl = 0.5 * (log_variance.exp() + torch.diagonal(explained) - log_variance - 1).sum()
        return error / (2 * variance) + beta * kl

    def value_and_gradient(flat):
        point = torch.from_numpy(flat).requires_grad_()
        value = loss(point)
        value.backward()
        return value.item(), point.grad.numpy()

    start = np.concatenate([0.1 * np.random.default_rng(2).normal(size=2 * size * latents), np.zeros(latents)])
    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-13, "gtol": 1e-7, "maxcor": 30}
    found = minimize(value_and_gradient, start, jac=True, method="L-BFGS-B", options=options)
    _, encoder, log_variance = parts(torch.from_numpy(found.x))
    total = found.fun + 0.5 * size * np.log(2 * np.pi * variance)
    return log_variance.exp().numpy(), torch.diagonal(encoder @ covariance @ encoder.T).numpy(), total


def types_of(variance, square):
    """The types that `classify` gives to two rows with exactly these moments."""
    means = np.sqrt(square)
    encodings = po.Encodings(np.stack([means, -means]), variance=np.stack([variance, variance]))
    counts = po.classify(encodings, rule="relative").types
    return {kind: counts.count(kind) for kind in ("active", "mixed", "passive")}


@pytest.mark.parametrize(("name", "latents", "b"), SETTINGS)
def test_linear_vaes_keep_what_was_forecast(name, latents, b):
    rows = DATA[name]()
    beta = 2.0
    expected = po.forecast(rows, beta=beta, variance=b / beta, latents=latents)
    variance, square, loss = best_linear_vae(rows, latents, b / beta, beta)
    assert types_of(variance, square) == {
        "active": expected.active,
        "mixed": expected.mixed,
        "passive": expected.passive,
    }
    assert loss == pytest.approx(expected.loss, abs=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "latents", "b"),
    [
        ("digits", 16, 0.3),
        ("digits", 16, 0.15),
        ("linear_gaussian", 8, 0.4),
        ("pinwheel", 4, 0.3),
        ("nonlinear_ica", 8, 0.9),
        ("circle", 8, 0.3),
    ],
)
def test_linear_vaes_trained_on_samples_agree_within_one_variable(name, latents, b):
    data = dataset_from_arrays(DATA[name]().astype(np.float32))
    size = data.shape[0]
    with seeded_weights(0):
        encoder = Encoder(
            nn.Flatten(), nn.Identity(), nn.Linear(size, latents), nn.Linear(size, latents), shape=(size,)
        )
        decoder = Decoder(nn.Linear(latents, size), nn.Identity(), shape=(size,))
    vae = VAE(encoder, decoder, StandardNormal(latents), Gaussian(variance=b))
    train(vae, ELBO(), data, steps=6000, batch_size=128, learning_rate=2e-3, progress=False)
    with torch.no_grad():
        posterior = vae.posterior(torch.from_numpy(data.images[:]))
    found = po.classify(po.Encodings(posterior.mean.numpy(), variance=posterior.variance.numpy()))
    assert abs(len(found.alive) - po.forecast(data, variance=b, latents=latents).alive) <= 1


def test_the_counts_of_the_digits():
    alive = [po.forecast(DIGITS, variance=v, latents=16).alive for v in (1.0, 0.6, 0.3, 0.15, 0.08, 0.03)]
    assert alive == [0, 1, 4, 8, 12, 16]


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3])
def test_types_are_those_of_classify(alpha):
    rows = linear_gaussian(variances=tuple(np.geomspace(0.01, 100, 60)), points=400)
    expected = po.forecast(rows, latents=70, alpha=alpha)
    ratio = expected.optimum.variance
    means = np.sqrt(1 - ratio)
    theirs = po.classify(
        po.Encodings(np.stack([means, -means]), variance=np.stack([ratio] * 2)), alpha=alpha, rule="relative"
    )
    assert theirs.types == expected.types
    assert {"active", "mixed", "passive"} == set(expected.types)


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0, 3.0, 4.0])
@pytest.mark.parametrize("latents", [1, 5, 19])
def test_optimal_variance_is_the_best_of_all(beta, latents):
    spectrum = np.random.default_rng(latents).exponential(size=20)
    best = optimal_noise_variance(spectrum, latents=latents, beta=beta)

    def elbo(noise):
        return probabilistic_pca(spectrum, latents=latents, noise_variance=noise, beta=beta).elbo

    tried = np.geomspace(1e-3, 10, 4001) * spectrum.mean()
    found = tried[np.argmax([elbo(noise) for noise in tried])]
    assert best == pytest.approx(found, rel=4e-3)
    assert elbo(best) >= elbo(found) - 1e-12


def test_optimal_variance_stops_at_the_floor_where_nothing_is_discarded():
    assert optimal_noise_variance([3.0, 1.0, 0.0], latents=3) == pytest.approx(1e-3 * 4 / 3)
    with pytest.raises(ConfigError, match="positive beta"):
        optimal_noise_variance([1.0], latents=1, beta=0.0)


def test_the_three_cases_and_their_sentences():
    collapse = po.forecast(DIGITS, variance=1.0, latents=16)
    assert collapse.case == "collapse"
    assert "would collapse entirely" in collapse.sentence
    assert "The best decoder variance is 0.0147, which would keep 16 of 16 alive" in collapse.sentence
    clusters = po.forecast(ONE_HOT, variance=1.0, latents=4)
    assert clusters.case == "clusters"
    assert clusters.alive == 0
    assert clusters.gain == pytest.approx(4.3, abs=0.2)
    assert "raise beta slowly from 0" in clusters.sentence
    assert po.forecast(ONE_HOT, variance=3.0, latents=4).case == "collapse"
    linear = collapse.at(variance=0.3)
    assert linear.case == "linear"
    assert "would keep 4 of 16" in linear.sentence
    for each, words in ((collapse, "will collapse ("), (clusters, "without warm-up"), (linear, "keeps 4 of 16")):
        assert words in each.line
        assert "\n" not in each.line


def test_overfitted_clusters_do_not_count():
    noise = np.random.default_rng(3).normal(size=(600, 40))
    assert po.forecast(noise, variance=2.5, latents=4).case == "collapse"


def test_the_curve_contains_the_setting_and_decreases():
    expected = po.forecast(DIGITS, beta=4.0, variance=0.05, latents=16)
    curve = expected.curve
    here = int(np.flatnonzero(curve.threshold == expected.threshold)[0])
    assert curve.alive[here] == expected.alive
    assert curve.active[here] == expected.active
    assert curve.beta[here] == pytest.approx(4.0)
    assert (np.diff(curve.alive) <= 0).all()
    assert (curve.active[0], curve.alive[-1]) == (16, 0)
    assert expected.at(beta=1.001 * expected.largest_beta).alive == 0
    assert expected.at(beta=0.999 * expected.largest_beta).alive == 1


def test_a_variable_at_the_threshold_is_undecided():
    expected = po.forecast(linear_gaussian(variances=(8.0, 1.1, 0.9, 0.1)), variance=1.0, latents=4)
    assert expected.undecided == 2
    assert any("decided late" in note for note in expected.notes)


@pytest.mark.parametrize(
    ("reduction", "likelihood", "b"),
    [
        ("likelihood", "gaussian", 2.0),
        ("sum", "gaussian", 1.0),
        ("mean", "gaussian", 64.0),
        ("mean_of_both", "gaussian", 8.0),
        ("likelihood", "bernoulli", 2.0),
        ("sum", "bernoulli", 2.0),
        ("mean", "bernoulli", 128.0),
        ("mean_of_both", "bernoulli", 16.0),
    ],
)
def test_the_threshold_of_each_loss(reduction, likelihood, b):
    assert loss_threshold(2.0, reduction=reduction, likelihood=likelihood, values=64, latents=8) == b
    assert po.forecast(DIGITS, beta=2.0, likelihood=likelihood, reduction=reduction, latents=8).threshold == b


def test_equivalent_losses_have_the_optimum_of_their_threshold():
    """mean((x - y)^2) + KL is (2/D) times the Gaussian loss of variance 1 with beta D/2, and has the same optimum."""
    rows = DATA["linear_gaussian"]() * 3.0
    expected = po.forecast(rows, beta=0.3, reduction="mean", latents=8)
    variance, square, _ = best_linear_vae(rows, 8, 1.0, 0.3 * rows.shape[1] / 2)
    assert types_of(variance, square)["passive"] == expected.passive
    assert any("averaged over values, but the KL summed" in note for note in expected.notes)


def test_a_mean_over_pixels_is_noted():
    assert any("reduction='mean'" in note for note in po.forecast(DIGITS, variance=0.1).notes)


def test_unscaled_pixels_are_noted_and_bytes_are_scaled():
    raw = np.round(DIGITS * 255)
    assert any("divides them by 255" in note for note in po.forecast(raw, latents=4).notes)
    scaled = po.forecast(raw.astype(np.uint8), latents=4)
    assert scaled.threshold == 1.0
    np.testing.assert_allclose(scaled.spectrum.eigenvalues, po.forecast(raw / 255).spectrum.eigenvalues, atol=1e-12)


def test_bernoulli_of_binary_data_has_the_correlation_matrix():
    binary = (DIGITS > 0.5).astype(float)
    kept = binary.var(axis=0) >= 1e-3
    expected = np.linalg.eigvalsh(np.corrcoef(binary[:, kept].T))[::-1]
    found = measure_spectrum(binary, leading=5, likelihood="bernoulli")
    np.testing.assert_allclose(found.eigenvalues, expected, atol=1e-10)
    assert found.left_out == 64 - kept.sum()


def test_onset_of_collapse_under_the_cross_entropy():
    """Around the best constant, the exact loss of a small linear-logistic VAE decreases only below the threshold."""
    grey = po.forecast(DIGITS, likelihood="bernoulli", latents=1)
    assert grey.spectrum.eigenvalues[0] == pytest.approx(3.3, abs=0.1)
    mean = DIGITS.mean(axis=0)
    seen = mean * (1 - mean) >= 1e-3
    rows = torch.from_numpy(DIGITS[:, seen])
    scale = torch.from_numpy(1 / np.sqrt((mean * (1 - mean))[seen]))
    scaled = (rows - rows.mean(0)) * scale
    direction = torch.linalg.eigh(scaled.T @ scaled / len(rows))[1][:, -1]
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    weights = torch.from_numpy(weights / weights.sum())

    def change(beta, size):
        """Loss minus that of collapse, with z = size-small code along the leading direction and its optimal decoder."""
        logits = torch.logit(rows.mean(0))
        means = (scaled @ direction)[:, None] * size / grey.spectrum.eigenvalues[0] ** 0.5
        z = means + (1 - size**2) ** 0.5 * torch.from_numpy(nodes)
        decoder = scale * direction * size * grey.spectrum.eigenvalues[0] ** 0.5
        outputs = logits + z[..., None] * decoder
        cross = (torch.nn.functional.softplus(outputs) - rows[:, None] * outputs).sum(-1) @ weights
        constant = (torch.nn.functional.softplus(logits) - rows * logits).sum(-1)
        kl = 0.5 * (means[:, 0] ** 2 + (1 - size**2) - 1 - np.log(1 - size**2)).mean()
        return ((cross - constant).mean() + beta * kl).item()

    onset = grey.spectrum.eigenvalues[0]
    assert change(0.98 * onset, 0.05) < 0
    assert change(1.02 * onset, 0.05) > 0


def test_poisson_divides_by_the_mean():
    counts = np.random.default_rng(4).poisson(np.random.default_rng(5).gamma(2.0, size=(2000, 1)) * [1.0, 4.0, 9.0])
    mean = counts.mean(axis=0)
    expected = np.linalg.eigvalsh(np.cov(counts.T, bias=True) / np.sqrt(np.outer(mean, mean)))[::-1]
    found = po.forecast(counts, likelihood="poisson", latents=2)
    np.testing.assert_allclose(found.spectrum.eigenvalues, expected)
    assert found.optimal_variance is None
    assert any("Poisson" in note for note in found.notes)


def test_streams_arrays_and_datasets_give_the_same_forecast():
    whole = po.forecast(DIGITS.astype(np.float32), latents=6)
    batches = (DIGITS[start : start + 100].astype(np.float32) for start in range(0, len(DIGITS), 100))
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(torch.from_numpy(DIGITS.astype(np.float32)), torch.zeros(len(DIGITS))), 64
    )
    images = dataset_from_arrays(DIGITS.astype(np.float32).reshape(-1, 8, 8))
    for other in (batches, loader, images, torch.from_numpy(DIGITS.astype(np.float32))):
        found = po.forecast(other, latents=6)
        np.testing.assert_allclose(found.spectrum.eigenvalues, whole.spectrum.eigenvalues, rtol=1e-9, atol=1e-12)
        assert found.spectrum.rows == 1797


@pytest.mark.parametrize("limit", ["few rows", "many rows"])
@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli"])
def test_wide_data_have_the_same_forecast(monkeypatch, limit, likelihood):
    rows = DIGITS if limit == "many rows" else DIGITS[:40]
    settings = {"variance": 0.1} if likelihood == "gaussian" else {"beta": 1.5}
    exact = po.forecast(rows, latents=8, likelihood=likelihood, **settings)
    monkeypatch.setattr(reading, "DENSE", 50)
    found = po.forecast(rows, latents=8, likelihood=likelihood, **settings)
    np.testing.assert_allclose(found.spectrum.eigenvalues[:8], exact.spectrum.eigenvalues[:8], rtol=2e-4)
    assert found.spectrum.total == pytest.approx(exact.spectrum.total)
    assert found.types == exact.types
    assert found.loss == (None if likelihood == "bernoulli" else pytest.approx(exact.loss, abs=1e-3))
    assert found.optimal_variance == (None if likelihood == "bernoulli" else pytest.approx(exact.optimal_variance))


def test_wide_data_that_can_be_read_once_are_refused(monkeypatch):
    monkeypatch.setattr(reading, "DENSE", 50)
    with pytest.raises(DataError, match="read several times"):
        po.forecast(DIGITS[start : start + 100] for start in range(0, len(DIGITS), 100))
    with pytest.raises(ConfigError, match="at most 4 latents"):
        po.forecast(DIGITS, latents=4).at(latents=5)


def test_without_a_bias_the_mean_must_be_encoded():
    with_bias, without = (po.forecast(DIGITS, variance=1.0, bias=bias) for bias in (True, False))
    moments = np.linalg.eigvalsh(DIGITS.T @ DIGITS / len(DIGITS))[::-1]
    np.testing.assert_allclose(without.spectrum.eigenvalues, moments, atol=1e-10)
    assert (with_bias.alive, without.alive) == (0, 1)


def test_explained_and_rate_are_those_of_the_linear_model():
    expected = po.forecast(DIGITS, variance=0.1, latents=6)
    kept = expected.optimum
    error = expected.spectrum.total - (kept.decoder_scale**2).sum()
    assert expected.explained == pytest.approx(1 - error / expected.spectrum.total)
    assert expected.rate == pytest.approx(kept.kl.sum())


def test_as_text_and_as_plain_values():
    import json

    expected = po.forecast(DIGITS, beta=2.0, variance=0.1, latents=6)
    plain = json.loads(json.dumps(expected.to_dict()))
    assert (plain["active"], plain["mixed"], plain["passive"]) == (expected.active, expected.mixed, expected.passive)
    assert plain["threshold"] == 0.2
    assert "<- here" in str(expected)
    assert expected.sentence in str(expected)
    (own,) = [row for row in expected.table() if row[1] == expected.threshold]
    assert own == (2.0, expected.threshold, expected.active, expected.mixed, expected.passive)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"beta": 0.0}, "positive beta"),
        ({"beta": float("nan")}, "positive beta"),
        ({"variance": -1.0}, "positive variance"),
        ({"latents": 0}, "latents"),
        ({"alpha": 0.7}, "alpha"),
        ({"likelihood": "laplace"}, "there is no forecast for"),
        ({"reduction": "median"}, "reduction"),
        ({"reduction": "mean", "variance": 1.0}, "has none"),
    ],
)
def test_settings_out_of_range_are_refused(settings, words):
    with pytest.raises(ConfigError, match=words):
        po.forecast(DIGITS, **settings)


@pytest.mark.parametrize(
    ("data", "settings", "words"),
    [
        (np.zeros(5), {}, "shape"),
        (np.ones((9, 3)), {}, "every row is the same"),
        (np.array([[np.nan, 1.0], [2.0, 3.0]]), {}, "finite"),
        (np.array([["a", "b"]]), {}, "numbers"),
        (np.ones((1, 3)), {}, "at least 2 rows"),
        (np.array([[0.0, 2.0], [1.0, 0.0]]), {"likelihood": "bernoulli"}, r"values in \[0, 1\]"),
        (np.array([[0.0, -2.0], [1.0, 0.0]]), {"likelihood": "poisson"}, "counts of 0 or more"),
        (5, {}, "array"),
        (iter([np.ones((3, 2)), np.ones((3, 4))]), {}, "one shape"),
    ],
)
def test_invalid_data_are_refused(data, settings, words):
    with pytest.raises(DataError, match=words):
        po.forecast(data, **settings)
