"""Rows of the ledger that need no training: statements of the papers on arrays, true or not as they are worded."""

import functools
import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.stats import gennorm, norm, t

from polarised.metrics import hoyer, mig, mutual_information, mutual_information_matrix, sap
from polarised.metrics.estimators import decompose
from polarised.regime.encodings import Estimator, importance_weights
from polarised.theory import entropy_estimate, gaussian_total_correlation, optimal_posterior_covariance

Array = NDArray[np.float64]
STD, BATCH, SIZE = 0.1, 500, 50_000
NAMES: tuple[Estimator, ...] = ("mws", "mss0", "mss1")


def covariance(latents: int, determinant: float) -> Array:
    """Return the equicorrelated covariance of unit variances with a determinant."""
    if determinant == 1:
        return np.eye(latents)
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        found = (1 - middle) ** (latents - 1) * (1 + (latents - 1) * middle)
        low, high = (middle, high) if found > determinant else (low, middle)
    return (1 - low) * np.eye(latents) + low


def truth(latents: int, determinant: float) -> float:
    return float(gaussian_total_correlation(covariance(latents, determinant) + STD**2 * np.eye(latents)))


@functools.cache
def estimates(
    latents: int, determinant: float, *, batches: int = 4, batch: int = BATCH, std: float = STD, shut: int = 0
) -> dict[str, Array]:
    """Return the total correlation of batches by every published weight, and with weights 1/B and without any."""
    generator = np.random.default_rng(latents)
    root = np.linalg.cholesky(covariance(latents, determinant))
    rows = []
    for _ in range(batches):
        mean = generator.normal(size=(batch, latents)) @ root.T
        spread = np.full_like(mean, std)
        mean[:, :shut], spread[:, :shut] = 0.0, 1.0
        z = mean + spread * generator.normal(size=mean.shape)
        even, one = np.full((1, batch), 1 / batch), np.ones((1, batch))
        published = [importance_weights(batch, SIZE, estimator=name) for name in NAMES]
        weights = [*published, even, one]
        rows.append([part.total_correlation for part in decompose(z, mean, spread**2, weights)])
    return dict(zip((*NAMES, "even", "none"), np.array(rows).T, strict=True))


def test_annealed_capacity_punishes_a_rate_below_it_too() -> None:
    """BMA-E3: "penalised only when it is higher than 100" is not what |KL - C| does."""
    import torch

    from polarised.models import build_vae
    from polarised.objectives import AnnealedVAE, take_step
    from polarised.objectives.terms import rate

    vae = build_vae({"architecture": "mlp", "latents": 2}, (1, 4, 4), seed=0)
    step = take_step(vae, torch.rand(8, 1, 4, 4), dataset_size=100, number=10)
    spent = rate(step).item()
    above, below = (
        AnnealedVAE(gamma=10.0, c_max=capacity, iteration_threshold=1)(step)["capacity"].item()
        for capacity in (0.5 * spent, 1.5 * spent)
    )
    assert (above, below) == pytest.approx((5 * spent, 5 * spent), rel=1e-4)


def test_covariance_of_the_sample_is_that_of_the_mean_and_the_average_variance() -> None:
    """BMA-E7."""
    generator = np.random.default_rng(0)
    mean = generator.normal(size=(200_000, 2)) @ np.array([[1.0, 0.6], [0.0, 0.8]])
    variance = generator.uniform(0.1, 1.5, size=mean.shape)
    z = mean + np.sqrt(variance) * generator.normal(size=mean.shape)
    expected = np.cov(mean.T) + np.diag(variance.mean(axis=0))
    assert np.cov(z.T) == pytest.approx(expected, abs=0.02)
    assert np.cov(z.T) != pytest.approx(np.cov(mean.T) + np.diag(np.sqrt(variance).mean(axis=0)), abs=0.02)


@pytest.mark.parametrize("variables", [2, 5, 10])
def test_one_dependent_pair_is_diluted_by_the_others(variables: int) -> None:
    """BMA-E11–E13: MI_avg = 2c / (k² - k), on a discrete grid where no pair has a floor."""
    cells = np.stack(np.meshgrid(*[np.arange(2)] * variables, indexing="ij"), axis=-1).reshape(-1, variables)
    codes = cells.astype(float)
    codes[:, 1] = codes[:, 0]
    matrix = mutual_information_matrix(codes, bins=2)
    assert matrix[0, 1] == pytest.approx(math.log(2))
    assert mutual_information(codes, bins=2) == pytest.approx(2 * math.log(2) / (variables**2 - variables))


def test_expected_loss_of_a_linear_decoder_is_its_expansion() -> None:
    """IV-E1–E10: E|x - J z|² = |x - J μ|² + tr(J Σ J') for z ~ N(μ, Σ), so the expansion is exact there."""
    generator = np.random.default_rng(0)
    jacobian, mean, x = generator.normal(size=(7, 3)), generator.normal(size=3), generator.normal(size=7)
    variance, gamma = generator.uniform(0.1, 1.0, size=3), 0.3
    nodes, weights = np.polynomial.hermite_e.hermegauss(12)
    weights = weights / weights.sum()
    grid = np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 3)
    chance = np.prod(np.stack(np.meshgrid(weights, weights, weights, indexing="ij"), axis=-1).reshape(-1, 3), axis=1)
    z = mean + np.sqrt(variance) * grid
    log_density = -0.5 * (((x - z @ jacobian.T) ** 2).sum(axis=1) / gamma + 7 * math.log(2 * math.pi * gamma))
    expansion = -0.5 * (
        (((x - jacobian @ mean) ** 2).sum() + np.trace(jacobian @ np.diag(variance) @ jacobian.T)) / gamma
        + 7 * math.log(2 * math.pi * gamma)
    )
    assert chance @ log_density == pytest.approx(expansion, abs=1e-9)


def test_eigenvalues_of_the_optimum_lie_between_their_bounds() -> None:
    """IV-E12: with opposite order of λ and λ‡ always, with the same order not; and λ falls as γ."""
    generator = np.random.default_rng(0)
    same = opposite = 0
    for _ in range(300):
        latents = int(generator.integers(2, 6))
        jacobian = generator.normal(size=(8, latents))
        prior = generator.uniform(0.2, 3.0, size=latents)
        gamma = float(generator.uniform(0.01, 1.0))
        found = optimal_posterior_covariance(jacobian, prior_covariance=np.diag(prior), decoder_variance=gamma)
        ascending = np.linalg.eigvalsh(found)
        slopes = np.linalg.eigvalsh(jacobian.T @ jacobian)
        for order, name in ((slopes[::-1], "opposite"), (slopes, "same")):
            low, high = 1 / (1 / prior.min() + order / gamma), 1 / (1 / prior.max() + order / gamma)
            broken = bool((ascending < low - 1e-9).any() or (ascending > high + 1e-9).any())
            opposite, same = opposite + (name == "opposite" and broken), same + (name == "same" and broken)
    assert opposite == 0
    assert same > 250
    jacobian = generator.normal(size=(8, 3))
    gammas = np.array([1e-5, 1e-6])
    values = [
        np.linalg.eigvalsh(optimal_posterior_covariance(jacobian, prior_covariance=np.eye(3), decoder_variance=gamma))
        for gamma in gammas
    ]
    assert np.log(values[0] / values[1]) / math.log(10) == pytest.approx(np.ones(3), abs=0.05)


def test_total_correlation_is_the_divergence_from_the_product_of_marginals() -> None:
    """RTC-D1, on tables of three discrete variables."""

    def total(joint: Array) -> float:
        product = np.einsum("i,j,k->ijk", joint.sum((1, 2)), joint.sum((0, 2)), joint.sum((0, 1)))
        mask = joint > 0
        return float((joint[mask] * np.log(joint[mask] / product[mask])).sum())

    generator = np.random.default_rng(0)
    joint = generator.dirichlet(np.ones(24)).reshape(2, 3, 4)
    assert total(joint) > 0.01
    assert total(joint[:, [2, 0, 1]]) == pytest.approx(total(joint), abs=1e-12)
    independent = np.einsum("i,j,k->ijk", *(generator.dirichlet(np.ones(n)) for n in (2, 3, 4)))
    assert total(independent) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("power", [0, 1, 2])
@pytest.mark.parametrize("correlation", [0.9, 0.999, 0.999999])
def test_noise_bounds_the_total_correlation_of_the_sample_by_its_entropy(power: int, correlation: float) -> None:
    """RTC-T1: σ'(μ) = 0.3 inside the unit ball and 0.3 / |μ|^l outside; h(z) ≥ h(z|μ) and maximum entropy."""
    generator = np.random.default_rng(0)
    root = np.linalg.cholesky(np.array([[1.0, correlation], [correlation, 1.0]]))
    mean = generator.normal(size=(4000, 2)) @ root.T
    std = 0.3 / np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), 1.0) ** power * np.ones_like(mean)
    z = mean + std * generator.normal(size=mean.shape)
    each = norm.logpdf(z[:1000, None], mean[None], std[None])
    joint = np.logaddexp.reduce(each.sum(2), axis=1) - math.log(len(mean))
    product = (np.logaddexp.reduce(each, axis=1) - math.log(len(mean))).sum(axis=1)
    found = joint - product
    bound = float((0.5 * np.log(z.var(axis=0)) - np.log(std).mean(axis=0)).sum())
    assert found.mean() - 3 * found.std() / math.sqrt(len(found)) < bound
    # That of the mean has no bound.
    assert gaussian_total_correlation(np.array([[1.0, correlation], [correlation, 1.0]])) == pytest.approx(
        -0.5 * math.log(1 - correlation**2)
    )


def test_a_circle_is_uncorrelated_and_dependent() -> None:
    """RTC-S4b."""
    generator = np.random.default_rng(0)
    angle = generator.uniform(0, 2 * math.pi, 20_000)
    codes = np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.1 * generator.normal(size=(20_000, 2))
    assert abs(np.corrcoef(codes.T)[0, 1]) < 0.02
    assert mutual_information_matrix(codes, bins=20)[0, 1] > 0.5


def test_naive_estimates_are_low_with_fresh_encoders_and_high_with_their_own() -> None:
    """RTC-S5n: the same codes of four independent variables, against encoders of other points and of their own."""
    generator = np.random.default_rng(0)
    own, fresh = [], []
    for _ in range(8):
        mean, others = generator.normal(size=(2, BATCH, 4))
        z = mean + STD * generator.normal(size=mean.shape)
        for found, centres in ((own, mean), (fresh, others)):
            each = norm.logpdf(z[:, None], centres[None], STD)
            joint = np.logaddexp.reduce(each.sum(2), axis=1)
            product = np.logaddexp.reduce(each, axis=1).sum(1) - 3 * math.log(BATCH)
            found.append(float((joint - product).mean()))
    for values, sign in ((own, 1), (fresh, -1)):
        assert sign * np.mean(values) > 3 * np.std(values) / math.sqrt(len(values))


@pytest.mark.parametrize("latents", [2, 4, 10])
def test_mws_depends_on_its_constant(latents: int) -> None:
    """RTC-O1, E7: by definition (7) high by (D - 1) log N, with 1/B what MSS₀ is, low only without a constant."""
    found, exact = estimates(latents, 1.0), truth(latents, 1.0)
    assert found["mws"] - found["even"] == pytest.approx((latents - 1) * math.log(SIZE), abs=1e-6)
    assert found["mws"].mean() > exact + 1
    assert found["even"].mean() > exact
    assert found["even"] == pytest.approx(found["mss0"], abs=0.05)
    assert found["none"].mean() < exact - 1


def test_mss_is_accurate_in_two_dimensions_only() -> None:
    """RTC-O2, by a margin of a quarter of a nat."""
    for determinant in (0.01, 0.1, 0.5, 1.0):
        found = estimates(2, determinant, batches=12)
        for name in ("mss0", "mss1"):
            assert abs(found[name].mean() - truth(2, determinant)) < 0.25, (name, determinant)
    found = estimates(3, 1.0)
    assert found["mss0"].mean() - truth(3, 1.0) > 0.75
    assert found["mss1"].mean() - truth(3, 1.0) < -0.75
    # Relative to four dimensions and more three are better.
    assert abs(found["mss0"].mean()) < abs(estimates(4, 1.0)["mss0"].mean())


@pytest.mark.parametrize("name", ["mss0", "mss1"])
def test_mss_overestimates_small_values_in_many_dimensions(name: str) -> None:
    """RTC-O3."""
    six, ten = (estimates(latents, 1.0)[name].mean() - truth(latents, 1.0) for latents in (6, 10))
    assert six > 1
    assert ten > six + 1


def test_mss1_is_closer_than_mss0_from_four_dimensions_on() -> None:
    """RTC-O4: on average from four dimensions on, from six in every batch; at two and no correlation it is not."""
    for latents in (4, 6, 10):
        for determinant in (0.01, 0.5, 1.0):
            found, exact = estimates(latents, determinant), truth(latents, determinant)
            gain = np.abs(found["mss0"] - exact) - np.abs(found["mss1"] - exact)
            assert gain.mean() > 0
            assert latents == 4 or (gain > 0).all()
    found = estimates(2, 1.0, batches=12)
    assert np.abs(found["mss1"]).mean() > np.abs(found["mss0"]).mean()


def test_no_overlap_formula_is_reached_by_tiny_noise_only() -> None:
    """RTC-E11: "TC(z) ≈ O((D-1) log M)" grows with M; at σ = 0.1 the estimate falls."""
    values = [estimates(10, 1.0, batch=size, batches=count)["even"] for size, count in ((64, 24), (500, 8), (1000, 4))]
    for smaller, larger in itertools.pairwise(values):
        error = math.hypot(smaller.std() / math.sqrt(len(smaller)), larger.std() / math.sqrt(len(larger)))
        assert smaller.mean() - larger.mean() > 3 * error
    tiny = estimates(6, 1.0, batch=250, std=1e-5, batches=2)["even"].mean()
    assert tiny == pytest.approx(5 * math.log(250), abs=0.1)


def test_off_diagonal_densities_are_not_negligible_for_one_variable() -> None:
    """RTC-E11b: one in six lies within three standard deviations, of ten variables at once hardly any."""
    generator = np.random.default_rng(0)
    mean = generator.normal(size=(600, 10))
    z = mean + STD * generator.normal(size=mean.shape)
    near = np.abs(z[:, None] - mean[None]) < 3 * STD
    off = ~np.eye(600, dtype=bool)
    assert near[off][:, 0].mean() == pytest.approx(0.168, abs=0.01)
    assert near.all(axis=2)[off].mean() < 1e-4


def test_shutting_a_variable_lowers_the_estimate() -> None:
    """RTC-E12: by about log(1 + 1/σ²) / 2 = 2.3 nats a variable, not by log M."""
    for name in ("mws", "mss0", "mss1"):
        values = [estimates(10, 1.0, shut=shut, batches=2)[name].mean() for shut in (0, 2, 4)]
        falls = -np.diff(values) / 2
        assert falls == pytest.approx(np.full(2, 0.5 * math.log1p(1 / STD**2)), abs=0.3)


def test_only_mss1_stops_shutting_variables() -> None:
    """RTC-E12b: the least estimate over the number of variables shut is in the middle for MSS₁ only."""
    found = {shut: estimates(10, 1.0, shut=shut, batches=2) for shut in (0, 2, 4, 6, 8, 10)}
    least = {name: min(found, key=lambda shut: found[shut][name].mean()) for name in ("mss0", "mss1", "even")}
    assert 0 < least["mss1"] < 10
    assert least["mss0"] == 10
    assert least["even"] == 10


def test_probability_of_a_small_difference_is_erf() -> None:
    """RTC-E15: the printed t / 2 is a disk's share of a square."""
    exact = norm.cdf(0.1, scale=math.sqrt(2)) - norm.cdf(-0.1, scale=math.sqrt(2))
    assert exact == pytest.approx(math.erf(0.05), abs=1e-12)
    assert exact == pytest.approx(0.0564, abs=1e-4)
    assert exact != pytest.approx(0.05, abs=5e-3)


def test_bias_of_estimators_grows_with_dimension() -> None:
    """RTC-F2, for the weights as released."""
    for determinant in (0.01, 1.0):
        errors = [abs(estimates(d, determinant)["mss0"].mean() - truth(d, determinant)) for d in (2, 4, 6, 10)]
        assert errors == sorted(errors)
    for latents in (4, 6, 10):
        small, large = (abs(estimates(latents, d)["mss0"].mean() - truth(latents, d)) for d in (1.0, 0.01))
        assert small > large


def test_two_carriers_close_the_gap() -> None:
    """RTC-S64: k variables that carry one factor equally, of a second factor one."""
    generator = np.random.default_rng(0)
    factors = generator.integers(0, 5, size=(5000, 2))
    gaps = []
    for carriers in (1, 2, 3):
        codes = np.concatenate([np.repeat(factors[:, :1], carriers, axis=1), factors[:, 1:]], axis=1).astype(float)
        codes += 0.2 * generator.normal(size=codes.shape)
        gaps.append((sap(codes, factors, kind="continuous").score, mig(codes, factors)))
    whole, *spread = gaps
    for score, gap in spread:
        assert whole[0] - score > 0.4
        assert whole[1] - gap > 0.3


def test_wider_encoders_cover_more_points() -> None:
    """DD-Da: exp of the entropy of responsibilities, at fixed means."""
    generator = np.random.default_rng(0)
    mean, noise = generator.normal(size=(2, 300, 2))
    covered = []
    for std in (0.01, 0.05, 0.2, 1.0):
        each = norm.logpdf((mean + std * noise)[:, None], mean[None], std).sum(2)
        shares = np.exp(each - np.logaddexp.reduce(each, axis=1, keepdims=True))
        covered.append(np.exp(-(shares * np.log(np.maximum(shares, 1e-300))).sum(axis=1)).mean())
    assert covered == sorted(covered)
    assert covered[0] < 2
    assert covered[-1] > 50


def test_mixing_an_encoder_with_the_prior_gives_any_information() -> None:
    """DD-S31a: q(z|i) = λ δ_i + (1 - λ) uniform over n cells."""
    n = 50

    def information(share: float) -> float:
        own, other = share + (1 - share) / n, (1 - share) / n
        return own * math.log(own * n) + ((n - 1) * other * math.log(other * n) if other else 0.0)

    values = [information(share) for share in np.linspace(0, 1, 101)]
    assert values[0] == pytest.approx(0.0, abs=1e-12)
    assert values[-1] == pytest.approx(math.log(n))
    assert (np.diff(values) > 0).all()
    assert np.diff(values).max() < 0.2


def test_encoder_variance_at_a_fixed_aggregate_controls_information() -> None:
    """DD-S31b: I(x; z) = log(Var z / σ²) / 2, by quadrature of the Gaussian channel."""
    previous = math.inf
    for variance in (0.1, 0.3, 0.6, 0.9):
        entropy = quad(lambda z: -norm.pdf(z) * norm.logpdf(z), -12, 12)[0]
        found = entropy - norm.entropy(scale=math.sqrt(variance))
        assert found == pytest.approx(-0.5 * math.log(variance), abs=1e-8)
        assert found < previous
        previous = found


def test_annealing_narrows_a_prior_and_keeps_a_generalised_gaussian_in_its_family() -> None:
    """DD-T1b–d: entropy does not see mean or rotation; p^β of exp(-|z/a|^r) has scale a β^(-1/r); mixtures sharpen."""
    from polarised.theory import gaussian_entropy

    generator = np.random.default_rng(0)
    scale = np.diag(generator.uniform(0.2, 2.0, size=3))
    rotation = np.linalg.qr(generator.normal(size=(3, 3)))[0]
    assert gaussian_entropy(rotation @ scale @ rotation.T) == pytest.approx(gaussian_entropy(scale), abs=1e-12)
    for power in (1.0, 2.0, 4.0):
        for beta in (0.5, 3.0):
            total = quad(lambda z, b=beta, p=power: gennorm.pdf(z, p) ** b, -40, 40)[0]
            z = np.linspace(-2, 2, 9)
            narrowed = gennorm.pdf(z, power, scale=beta ** (-1 / power))
            assert gennorm.pdf(z, power) ** beta / total == pytest.approx(narrowed, rel=1e-6)
    student = t.pdf(np.array([0.0, 1.0, 3.0]), 3) ** 2
    best = min(
        abs(student / student[0] - t.pdf(np.array([0.0, 1.0, 3.0]), 3, scale=s) / t.pdf(0, 3, scale=s)).max()
        for s in np.linspace(0.2, 2, 200)
    )
    assert best > 1e-3

    def mass(beta: float) -> float:
        z = np.linspace(-8, 8, 4001)
        density = (0.5 * norm.pdf(z, -2) + 0.5 * norm.pdf(z, 2)) ** beta
        near = np.minimum(np.abs(z - 2), np.abs(z + 2)) < 1
        return float(density[near].sum() / density.sum())

    assert mass(1.0) < mass(2.0) < mass(8.0)


def test_a_single_gaussian_is_log_four_from_the_mixture() -> None:
    """DD-F3g: four components of variance 0.03 at (0, ±1) and (±1, 0)."""
    centres = np.array([[0, 1], [0, -1], [1, 0], [-1, 0]], dtype=float)
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    grid = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 2)
    chance = np.outer(weights, weights).ravel() / (2 * math.pi)

    def divergence(x: Array) -> float:
        mean, log_std = x[:2], x[2]
        z = mean + math.exp(log_std) * grid
        own = norm.logpdf(z, mean, math.exp(log_std)).sum(1)
        each = norm.logpdf(z[:, None], centres[None], math.sqrt(0.03)).sum(2) - math.log(4)
        return float(chance @ (own - np.logaddexp.reduce(each, axis=1)))

    starts = [np.array([1.0, 0.0, -2.0]), np.array([0.0, 0.0, -0.5])]
    found = [minimize(divergence, start, method="Nelder-Mead", options={"maxiter": 2000}).fun for start in starts]
    assert min(found) == pytest.approx(math.log(4), abs=1e-3)
    assert max(found) > 2


def test_hoyer_is_zero_for_dense_and_one_for_sparse_vectors() -> None:
    """DD-S63h; and unused variables make a code sparse unless each is divided by its spread."""
    dense, sparse = np.ones((4, 6)), np.eye(6)
    assert hoyer(dense, normalised=False) == pytest.approx(0.0, abs=1e-12)
    assert hoyer(sparse, normalised=False) == pytest.approx(1.0)
    codes = np.random.default_rng(0).normal(size=(2000, 50))
    assert hoyer(3 * codes, normalised=False) == pytest.approx(hoyer(codes, normalised=False))
    codes[:, 5:] *= 1e-3
    assert hoyer(codes, normalised=False) > 0.8
    assert hoyer(codes) == pytest.approx(0.231, abs=0.01)


def test_a_map_that_keeps_the_prior_need_not_keep_the_bound() -> None:
    """DD-S7b: after a twist by the radius, which keeps N(0, I), the posterior is no Gaussian: every encoder loses."""
    axis = np.linspace(-5, 5, 161)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    cell = (axis[1] - axis[0]) ** 2

    def posterior(twist: float) -> Array:
        radius = np.linalg.norm(grid, axis=1)
        angle = -twist * radius
        back = np.stack(
            [
                np.cos(angle) * grid[:, 0] - np.sin(angle) * grid[:, 1],
                np.sin(angle) * grid[:, 0] + np.cos(angle) * grid[:, 1],
            ],
            axis=1,
        )
        # A linear decoder that sees the first variable sharply: the posterior of x = 1.2.
        log_density = norm.logpdf(grid).sum(1) + norm.logpdf(1.2, back[:, 0], 0.3)
        density = np.exp(log_density - log_density.max())
        return np.asarray(density / (density.sum() * cell))

    def loss_of_best(target: Array) -> float:
        def divergence(x: Array) -> float:
            root = np.array([[math.exp(x[2]), 0.0], [x[4], math.exp(x[3])]])
            centred = (grid - x[:2]) @ np.linalg.inv(root).T
            log_own = norm.logpdf(centred).sum(1) - x[2] - x[3]
            own = np.exp(log_own)
            return float((own * (log_own - np.log(np.maximum(target, 1e-300)))).sum() * cell)

        mean = (grid * target[:, None]).sum(0) * cell
        start = np.array([*mean, -0.7, -0.2, 0.0])
        return float(minimize(divergence, start, method="Nelder-Mead", options={"maxiter": 1500}).fun)

    assert loss_of_best(posterior(0.0)) < 1e-3
    assert loss_of_best(posterior(1.0)) > 0.02


def test_a_wide_prior_variable_stores_more_information() -> None:
    """DD-S7c: one encoder variance for all, code variance s² each: log(1 + s²/σ²) / 2."""
    values = [0.5 * math.log1p(width / 0.1) for width in (0.1, 1.0, 10.0)]
    generator = np.random.default_rng(0)
    measured = []
    for width in (0.1, 1.0, 10.0):
        mean = math.sqrt(width) * generator.normal(size=200_000)
        z = mean + math.sqrt(0.1) * generator.normal(size=mean.shape)
        measured.append(-0.5 * math.log(1 - np.corrcoef(mean, z)[0, 1] ** 2))
    assert measured == pytest.approx(values, abs=0.01)
    assert measured == sorted(measured)


def test_student_t_tends_to_the_normal_density() -> None:
    """DD-F5, F6."""
    z = np.linspace(-8, 8, 2001)
    distances = [float(np.abs(t.pdf(z, degrees) - norm.pdf(z)).max()) for degrees in (1, 3, 10, 100, 10_000)]
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 1e-4


def entropy_biases(latents: int, batch: int, *, size: int = 2000, std: float = 0.3) -> float:
    """Return the minibatch estimate of H[q(z)] minus that of the mixture of all encoders."""
    generator = np.random.default_rng(latents)
    mean = generator.normal(size=(size, latents))
    z = mean + std * generator.normal(size=mean.shape)
    each = sum(norm.logpdf(z[:, None, d], mean[None, :, d], std) for d in range(latents))
    exact = -float((np.logaddexp.reduce(np.asarray(each), axis=1) - math.log(size)).mean())
    parts = generator.permutation(size)[: batch * (size // batch)].reshape(-1, batch)
    found = [entropy_estimate(z[rows], mean[rows], std, dataset_size=size) for rows in parts]
    return float(np.mean(found)) - exact


def test_entropy_bias_falls_with_the_batch() -> None:
    """DD-AC7."""
    biases = [entropy_biases(3, batch) for batch in (8, 32, 128, 512)]
    assert biases == sorted(biases, reverse=True)
    assert biases[-1] > 0


def test_entropy_bias_does_not_grow_with_every_dimension() -> None:
    """DD-AC8: against the mixture of all encoders it grows and falls again where they no longer overlap."""
    two, four, ten = (entropy_biases(latents, 64) for latents in (2, 4, 10))
    assert four > two + 0.3
    assert ten < four - 0.3
