import numpy as np
import pytest

from polarised.data import linear_gaussian, nonlinear_ica, pinwheel, probabilistic_pca, two_populations
from polarised.errors import ConfigError
from polarised.random import stream


def unwound(dataset: object, arms: int = 4) -> np.ndarray:
    """Turn points back onto their arm: radius ~ 1 + a N, across ~ b N, by solving for the angle numerically."""
    points = dataset.images[:].astype(float)  # type: ignore[attr-defined]
    arm = dataset.factor_space.factors(slice(None))[:, 0]  # type: ignore[attr-defined]
    grid = np.linspace(-0.5, 2.5, 601)
    angle = 2 * np.pi * arm[:, None] / arms + 0.25 * np.exp(grid)
    along = points[:, :1] * np.cos(angle) - points[:, 1:] * np.sin(angle)
    best = np.argmin(np.abs(along - grid), axis=1)
    rows = np.arange(len(points))
    across = points[:, :1] * np.sin(angle) + points[:, 1:] * np.cos(angle)
    return np.stack([along[rows, best], across[rows, best]], axis=1)


@pytest.mark.parametrize(("reading", "along", "across"), [("code", 0.3, 0.1), ("paper", 0.1, 0.3)])
def test_both_readings_of_the_pinwheel(reading: str, along: float, across: float) -> None:
    flat = unwound(pinwheel(points=1000, reading=reading))  # type: ignore[arg-type]
    np.testing.assert_allclose(np.median(flat, axis=0), [1, 0], atol=0.02)
    spread = np.subtract(*np.quantile(flat, [0.75, 0.25], axis=0)) / 1.349
    np.testing.assert_allclose(spread, [along, across], rtol=0.06)


def test_pinwheel_arms_and_seed() -> None:
    dataset = pinwheel(arms=3, points=7)
    assert len(dataset) == 21
    assert not np.array_equal(dataset.images[:], pinwheel(arms=3, points=7, seed=1).images[:])
    with pytest.raises(ConfigError, match="arms"):
        pinwheel(arms=0)
    with pytest.raises(ConfigError, match="did you mean 'paper'"):
        pinwheel(reading="papers")  # type: ignore[arg-type]


def test_the_scale_of_sources_changes_between_segments() -> None:
    dataset = nonlinear_ica()
    assert dataset.sources is not None
    scale = dataset.sources.reshape(40, 1000, 5).std(axis=1)
    assert scale.min() > 0.45
    assert scale.max() < 3.3
    assert scale.mean() == pytest.approx(1.75, abs=0.2)
    u = dataset.batch(0, 100, 0).u
    assert u is not None
    np.testing.assert_array_equal(u.sum(axis=1), 1)
    batch = dataset.sample(1000, 0)
    assert batch.u is not None
    assert batch.factors is not None
    np.testing.assert_array_equal(batch.u.argmax(axis=1), batch.factors[:, 0])


@pytest.mark.parametrize("distribution", ["gaussian", "laplace", "hyperbolic_secant"])
def test_distributions_of_the_sources(distribution: str) -> None:
    import scipy.stats

    dataset = nonlinear_ica(segments=1, points=20_000, sources=1, distribution=distribution)  # type: ignore[arg-type]
    assert dataset.sources is not None
    standard = dataset.sources[:, 0] / np.median(np.abs(dataset.sources))
    truth = {"gaussian": scipy.stats.norm, "laplace": scipy.stats.laplace, "hyperbolic_secant": scipy.stats.hypsecant}
    scaled = standard * truth[distribution].ppf(0.75)
    assert scipy.stats.kstest(scaled, truth[distribution].cdf).statistic < 0.015


def test_mixing_is_linear_with_one_layer_and_invertible() -> None:
    dataset = nonlinear_ica(layers=1, points=50)
    assert dataset.sources is not None
    matrix, residual, rank, _ = np.linalg.lstsq(dataset.sources, dataset.images[:].astype(float))
    assert rank == 5
    assert residual.max() < 1e-6
    np.testing.assert_allclose(np.linalg.norm(matrix, axis=0), 1, atol=1e-5)


def test_three_layers_reuse_one_matrix() -> None:
    """act^-1 inverts each layer: x B^-1 -> act^-1 -> B^-1 -> act^-1 -> A^-1 returns the sources."""
    one = nonlinear_ica(layers=1, points=50, activation="leaky_relu")
    three = nonlinear_ica(layers=3, points=50, activation="leaky_relu")
    assert one.sources is not None
    matrix = np.linalg.lstsq(one.sources, one.images[:].astype(float))[0]
    x = three.images[:].astype(float)
    for _ in range(2):
        x = x @ np.linalg.inv(matrix)
        x = np.minimum(x, 10 * x)
    np.testing.assert_allclose(x @ np.linalg.inv(matrix), three.sources, atol=2e-3)


def test_options_of_nonlinear_ica() -> None:
    assert nonlinear_ica(points=5, sources=2, observed=4).shape == (4,)
    standard = nonlinear_ica(points=50, standardise=True).images[:]
    np.testing.assert_allclose([standard.mean(axis=0), standard.std(axis=0)], [[0] * 5, [1] * 5], atol=1e-5)
    shifted = nonlinear_ica(points=500, centred=False)
    assert shifted.sources is not None
    means = shifted.sources.reshape(40, 500, 5).mean(axis=1)
    assert means.std() == pytest.approx(10 / np.sqrt(12), abs=0.4)
    stairs = nonlinear_ica(points=500, staircase=True)
    assert stairs.sources is not None
    steps = np.sort(stairs.sources.reshape(40, 500, 5).mean(axis=1)[:, 0])
    np.testing.assert_allclose(steps, 3 * np.arange(40), atol=0.6)
    assert not np.array_equal(nonlinear_ica(points=5, repeat_matrix=False).images[:], nonlinear_ica(points=5).images[:])
    noisy = nonlinear_ica(points=500, noise=0.5).images[:] - nonlinear_ica(points=500).images[:]
    assert noisy.std() == pytest.approx(0.5, abs=0.01)
    orthogonal = nonlinear_ica(points=50, layers=1, matrices="orthogonal")
    assert orthogonal.sources is not None
    lengths = [np.linalg.norm(rows, axis=1) for rows in (orthogonal.images[:], orthogonal.sources)]
    np.testing.assert_allclose(*lengths, rtol=1e-4)
    with pytest.raises(ConfigError, match="layers"):
        nonlinear_ica(layers=0)


def test_two_populations_are_squares_and_bars() -> None:
    dataset = two_populations()
    space = dataset.factor_space
    assert space is not None
    bars = dataset.images[space.index([[1, 0, 0, 0, height] for height in (0, 17, 31)])]
    np.testing.assert_allclose(bars.sum(axis=(1, 2, 3)), 3 * 32, rtol=1e-5)
    assert (bars == bars[..., :1]).all()
    assert bars[0, 0, :3].min() == 1
    assert bars[2, 0, -3:].min() == 1
    squares = dataset.images[space.index([[0, scale, 5, 9, 0] for scale in range(6)])]
    area = squares.sum(axis=(1, 2, 3))
    assert (np.diff(area) > 0).all()
    counts = np.bincount(dataset.sample(2000, 0).factors[:, 0])  # type: ignore[index]
    assert abs(counts[0] - 1000) < 150


def test_linear_gaussian_has_the_stated_covariance() -> None:
    rows = linear_gaussian().images[:].astype(float)
    np.testing.assert_allclose(rows.mean(axis=0), 0, atol=1e-6)
    eigenvalues = np.linalg.eigvalsh(np.cov(rows.T, bias=True))[::-1]
    np.testing.assert_allclose(eigenvalues, [8, 4, 2, 0.5, 0.3, 0.1, 0.1, 0.1], rtol=1e-5)
    for bad in ({"variances": ()}, {"variances": (1.0, -1.0)}, {"points": 4}):
        with pytest.raises(ConfigError, match="positive variances"):
            linear_gaussian(**bad)  # type: ignore[arg-type]


def loss(parameters: np.ndarray, covariance: np.ndarray, latents: int, noise: float, beta: float) -> float:
    """Return -ELBO of a linear VAE, q(z|x) = N(V x, diag(exp(l))), p(x|z) = N(W z, noise I), in closed form."""
    size = len(covariance)
    encoder = parameters[: latents * size].reshape(latents, size)
    decoder = parameters[latents * size : 2 * latents * size].reshape(size, latents)
    log_variance = parameters[2 * latents * size :]
    left = np.eye(size) - decoder @ encoder
    error = np.trace(left @ covariance @ left.T) + (decoder**2 @ np.exp(log_variance)).sum()
    second = np.trace(encoder @ covariance @ encoder.T)
    kl = 0.5 * (second + np.exp(log_variance).sum() - latents - log_variance.sum())
    return float(0.5 * (size * np.log(2 * np.pi * noise) + error / noise) + beta * kl)


@pytest.mark.parametrize(("latents", "beta"), [(2, 1.0), (4, 1.0), (4, 3.0)])
def test_the_optimum_is_found_by_an_optimiser(latents: int, beta: float) -> None:
    from scipy.optimize import minimize

    variances, noise = (6.0, 2.5, 0.4), 0.5
    rows = linear_gaussian(variances=variances, points=100).images[:].astype(float)
    covariance = np.cov(rows.T, bias=True)
    expected = probabilistic_pca(variances, latents=latents, noise_variance=noise, beta=beta)
    start = 0.3 * stream(0, "start").standard_normal(latents * 7)
    found = minimize(loss, start, (covariance, latents, noise, beta), method="BFGS", options={"gtol": 1e-6})
    assert -found.fun == pytest.approx(expected.elbo, abs=1e-6)
    ratios = np.sort(np.exp(found.x[-latents:]))
    alive = np.sort(expected.variance[expected.variance < 1])
    np.testing.assert_allclose(ratios.prod(), np.prod(alive), rtol=1e-3)


def test_optimum_at_its_own_parameters() -> None:
    """The stated decoder, posterior variance and ELBO are consistent, and the likelihood is that of the model."""
    variances, noise = np.array([6.0, 2.5, 0.4]), 0.5
    best = probabilistic_pca(variances, latents=3, noise_variance=noise)
    np.testing.assert_allclose(best.variance, [0.5 / 6, 0.2, 1])
    np.testing.assert_allclose(best.mean_variance + best.variance, 1)
    encoder = np.diag(best.decoder_scale / np.maximum(variances, noise))
    parameters = np.concatenate([encoder.ravel(), np.diag(best.decoder_scale).ravel(), np.log(best.variance)])
    assert -loss(parameters, np.diag(variances), 3, noise, 1.0) == pytest.approx(best.elbo, abs=1e-12)
    model = best.decoder_scale**2 + noise
    assert best.elbo == pytest.approx(-0.5 * (np.log(2 * np.pi * model) + variances / model).sum(), abs=1e-12)
    assert len(probabilistic_pca([2.0], latents=4, noise_variance=1.0).variance) == 4
    with pytest.raises(ConfigError, match="positive noise_variance"):
        probabilistic_pca([1.0], latents=1, noise_variance=0.0)
