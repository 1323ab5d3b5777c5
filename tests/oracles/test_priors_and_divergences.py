"""Priors, their KL, MMD, inclusive KL and the parts of the rate, against the reference code and quadrature."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from polarised.models.distributions import DiagonalGaussian
from polarised.models.likelihoods import Gaussian
from polarised.models.priors import Anisotropic, GaussianMixture, Sparse, StandardNormal, StudentT
from polarised.objectives import Decomposition, Step
from polarised.objectives.terms import inclusive_kl, mmd, rate_parts
from polarised.regime.encodings import importance_weights

FOLDER = Path(__file__).parent / "estimators"
TRUTH = json.loads((FOLDER / "kl_ground_truth.json").read_text())
RECORD = json.loads((FOLDER / "mmd_hoyer_kl_cases.json").read_text())
ARRAYS = dict(np.load(FOLDER / "mmd_hoyer_kl_cases.npz"))
TC_RECORD = json.loads((FOLDER / "tc_cases.json").read_text())
TC_ARRAYS = dict(np.load(FOLDER / "tc_cases.npz"))


def array(case, name):
    return torch.from_numpy(ARRAYS[f"{case}__{name}"])


def posterior_of(case):
    return DiagonalGaussian(array(case, "mu"), 2 * array(case, "std").log())


def prior_of(record, latents, *, compatibility="none"):
    kind = record["type"]
    if kind == "student_t":
        return StudentT(latents, df=record["df"], scale=record.get("scale", 1.0))
    if kind == "sparse":
        return Sparse(latents, gamma=record["gamma"], width=record["spike_std"])
    if kind.startswith("gaussian_mixture"):
        means = tuple(tuple(np.atleast_1d(mean).tolist()) for mean in record["means"])
        stds = record["stds"] if "stds" in record else [record["std"]] * len(means)
        variance, weights = tuple(std**2 for std in stds), tuple(record["weights"])
        return GaussianMixture(latents, means=means, variance=variance, weights=weights, compatibility=compatibility)
    return Anisotropic(latents, variances=tuple(s**2 for s in record["scale"])).double()


def step_of(posterior, z, prior, **others):
    given = {"x": z, "u": None, "outputs": z, "likelihood": Gaussian(), "number": 0, "dataset_size": len(z)}
    return Step(posterior=posterior, z=z, prior=prior, **{**given, **others})


def fixed_draws(prior, draws):
    """Let a prior give the recorded draws."""
    prior.sample = lambda n, generator=None: draws
    return prior


@pytest.mark.parametrize("case", TRUTH["kl_1d"], ids=lambda c: f"{c['prior']['type']}-{c['mu']}-{c['std']}")
def test_quadrature_in_one_variable(case):
    prior, mean, std = prior_of(case["prior"], 1), case["mu"], case["std"]
    noise = torch.linspace(-14, 14, 200001, dtype=torch.float64)[:, None]
    posterior = DiagonalGaussian(torch.full_like(noise, mean), torch.full_like(noise, 2 * np.log(std)))
    z = posterior.sample(noise=noise)
    weight = torch.softmax(-(noise[:, 0] ** 2) / 2, 0)
    assert (weight * prior.kl(posterior, z).sum(1)).sum().item() == pytest.approx(case["kl"], abs=1e-6)


@pytest.mark.parametrize("case", TRUTH["kl_1d"], ids=lambda c: f"{c['prior']['type']}-{c['mu']}-{c['std']}")
def test_monte_carlo_in_one_variable(case):
    prior, mean, std = prior_of(case["prior"], 1), case["mu"], case["std"]
    posterior = DiagonalGaussian(torch.full((40000, 1), mean), torch.full((40000, 1), 2 * np.log(std)))
    draws = prior.kl(posterior, posterior.sample(torch.Generator().manual_seed(5))).sum(1)
    assert abs(draws.mean().item() - case["kl"]) < 4 * draws.std().item() / np.sqrt(len(draws)) + 1e-6


@pytest.mark.parametrize("case", TRUTH["kl_2d_pinwheel_prior"], ids=lambda c: str(c["mu"]))
def test_mixture_in_two_variables(case):
    axis = torch.linspace(-9, 9, 901, dtype=torch.float64)
    noise = torch.cartesian_prod(axis, axis)
    posterior = DiagonalGaussian(torch.tensor([case["mu"]]).double(), 2 * torch.tensor([case["std"]]).double().log())
    weight = torch.softmax(-(noise**2).sum(1) / 2, 0)
    kl = (weight * GaussianMixture(2).kl(posterior, posterior.sample(noise=noise)).sum(1)).sum()
    assert kl.item() == pytest.approx(case["kl"], abs=1e-6)


def test_inclusive_kl_against_the_grid():
    case = TRUTH["kl_inclusive_2d_pinwheel_prior"][0]
    rows = torch.arange(500) % len(case["mu"])
    mean, std = torch.tensor(case["mu"]).double()[rows], torch.tensor(case["std"]).double()[rows]
    posterior = DiagonalGaussian(mean, 2 * std.log())
    draws = [
        inclusive_kl(step_of(posterior, mean, GaussianMixture(2), generator=torch.Generator().manual_seed(seed))).item()
        for seed in range(40)
    ]
    assert abs(np.mean(draws) - case["kl_p_qagg"]) < 4 * np.std(draws) / np.sqrt(len(draws))


@pytest.mark.parametrize("case", ["klmc_student5", "klmc_sparse08", "klmc_gmm4"])
def test_monte_carlo_kl_of_the_reference(case):
    prior, posterior = prior_of(RECORD[case]["prior"], RECORD[case]["D"]), posterior_of(case)
    samples = array(case, "z")
    ours = torch.stack([prior.kl(posterior, z).sum(1) for z in samples]).mean(0)
    torch.testing.assert_close(ours, array(case, "kl_mc"), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(prior.log_prob(samples[0]), array(case, "log_p_joint")[0], rtol=1e-10, atol=1e-10)


def test_mixture_defect_is_reachable():
    prior = prior_of(RECORD["klmc_gmm4"]["prior"], 2, compatibility="released-code")
    ours = prior.kl(posterior_of("klmc_gmm4"), array("klmc_gmm4", "z")[0]).sum(1)
    torch.testing.assert_close(ours, array("klmc_gmm4", "kl_repo"), rtol=1e-10, atol=1e-10)


def test_anisotropic_closed_form():
    case = "kl_normal_aniso"
    prior = prior_of(RECORD[case]["prior"], 5)
    ours = prior.kl(posterior_of(case), array(case, "z")[0]).sum(1)
    torch.testing.assert_close(ours, array(case, "kl_repo"), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(prior.log_prob(array(case, "z")[0]), array(case, "log_p_joint")[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("case", ["mmd_same", "mmd_shift", "mmd_identical"])
def test_mmd(case):
    first, second = array(case, "X"), array(case, "Y")
    full = RECORD[case]["own_numpy_full_vector_C_2Dscale"]["squared"]
    assert mmd(first, second, per_variable=True).item() == pytest.approx(RECORD[case]["value"], rel=1e-10)
    assert mmd(first, second).item() == pytest.approx(full, rel=1e-10)


@pytest.mark.parametrize("case", ["kldinc_gmm4", "kldinc_normal"])
def test_inclusive_kl_of_the_reference(case):
    prior = fixed_draws(prior_of(RECORD[case]["prior"], RECORD[case]["D"]), array(case, "prior_samples"))
    value = inclusive_kl(step_of(posterior_of(case), array(case, "mu"), prior))
    assert value.item() == pytest.approx(RECORD[case]["value"], rel=1e-6)


@pytest.mark.parametrize("case", ["obj_normal_mmd", "obj_gmm4_kldinc"])
def test_alpha_beta_objective(case):
    record = RECORD[case]
    mixture = record["prior"] == "gmm4"
    prior = GaussianMixture(2, compatibility="released-code") if mixture else StandardNormal(record["D"])
    step = step_of(
        posterior_of(case),
        array(case, "z"),
        fixed_draws(prior, array(case, "prior_samples")),
        x=array(case, "x"),
        outputs=array(case, "x_mean"),
        likelihood=Gaussian(variance=record["x_std"] ** 2).double(),
    )
    objective = Decomposition(
        alpha=record["alpha"],
        beta=record["beta"],
        divergence="inclusive_kl" if mixture else "mmd",
        compatibility="released-code",
    )
    terms = objective(step)
    assert terms["distortion"].item() == pytest.approx(-record["sum_log_px_z"] / record["B"], rel=1e-6)
    assert terms["rate"].item() == pytest.approx(record["beta"] * record["sum_kl"] / record["B"], rel=1e-9)
    assert terms["divergence"].item() == pytest.approx(record["alpha"] * record["reg_value"], rel=1e-6)
    assert sum(terms.values()).item() == pytest.approx(-record["objective_sum"] / record["B"], rel=1e-6)


TC_CASES = [
    (case, estimator)
    for case, record in TC_RECORD.items()
    for estimator in record.get("estimators", {})
    if not estimator.startswith("yanndubs")
]


@pytest.mark.parametrize(("case", "estimator"), TC_CASES)
def test_parts_of_the_rate(case, estimator):
    record = TC_RECORD[case]
    mean, log_variance, z = (torch.from_numpy(TC_ARRAYS[f"{case}__{name}"]) for name in ("mu", "logvar", "z"))
    step = step_of(DiagonalGaussian(mean, log_variance), z, StandardNormal(z.shape[1]), dataset_size=record["N"])
    parts, expected = rate_parts(step, estimator=estimator), record["estimators"][estimator]
    assert parts.total_correlation.item() == pytest.approx(expected["tc_mean"], rel=1e-9, abs=1e-9)
    assert parts.mutual_information.item() == pytest.approx(expected["mi_mean"], rel=1e-9, abs=1e-9)
    assert parts.dimension_wise.item() == pytest.approx(expected["dimwise_kl_mean"], rel=1e-9, abs=1e-9)
    weights = TC_ARRAYS.get(f"{case}__{estimator}__log_weights")
    if weights is not None:
        ours = np.log(importance_weights(len(z), record["N"], estimator=estimator))
        np.testing.assert_allclose(ours, weights, rtol=1e-9)
