"""Values, gradients and three updates of the six methods of disentanglement_lib, against its own numbers."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from polarised.models import build_vae
from polarised.models.likelihoods import Bernoulli, Gaussian
from polarised.objectives import DIPVAE, AnnealedVAE, BetaTCVAE, BetaVAE, FactorVAE, take_step
from polarised.objectives.terms import posterior_covariance

FOLDER = Path(__file__).parent / "losses"
RECORD = json.loads((FOLDER / "cases.json").read_text())
CASES = {case["name"]: case for case in RECORD["cases"]}
UPDATES = {case["name"]: case for case in RECORD["updates"]}

LAYERS = {
    "encoder/e1": "encoder.features.0",
    "encoder/e2": "encoder.features.2",
    "encoder/e3": "encoder.features.4",
    "encoder/e4": "encoder.features.6",
    "encoder/e5": "encoder.hidden.0",
    "encoder/means": "encoder.mean_head",
    "encoder/log_var": "encoder.log_variance_head",
    "decoder/dense": "decoder.input",
    "decoder/dense_1": "decoder.rest.1",
    "decoder/conv2d_transpose": "decoder.rest.4",
    "decoder/conv2d_transpose_1": "decoder.rest.6",
    "decoder/conv2d_transpose_2": "decoder.rest.8",
    "decoder/conv2d_transpose_3": "decoder.rest.10",
}
CRITIC = {f"discriminator/d{i + 1}": str(2 * i) for i in range(6)} | {"discriminator/logits": "12"}


def ours(name, value):
    """Bring a TensorFlow array into our layout."""
    value = np.asarray(value, dtype=np.float32)
    if name == "encoder/e5/kernel":
        value = value.reshape(4, 4, 64, -1).transpose(3, 2, 0, 1).reshape(value.shape[1], -1)
    elif name == "decoder/dense_1/kernel":
        value = value.reshape(-1, 4, 4, 64).transpose(3, 1, 2, 0).reshape(-1, value.shape[0])
    elif name == "decoder/dense_1/bias":
        value = value.reshape(4, 4, 64).transpose(2, 0, 1).reshape(-1)
    elif value.ndim == 4:
        value = value.transpose(3, 2, 0, 1)
    elif value.ndim == 2:
        value = value.T
    return torch.from_numpy(np.ascontiguousarray(value))


def key(name):
    layer, _, kind = name.rpartition("/")
    return f"{(LAYERS | CRITIC)[layer]}.{'weight' if kind == 'kernel' else 'bias'}"


def load_vae(channels):
    vae = build_vae({"architecture": "locatello_conv", "latents": 10}, (channels, 64, 64))
    with np.load(FOLDER / f"weights_{channels}ch.npz") as weights:
        vae.load_state_dict({key(name): ours(name, weights[name]) for name in weights})
    with np.load(FOLDER / f"batch_{channels}ch.npz") as batch:
        images = torch.from_numpy(batch["images"].transpose(0, 3, 1, 2).copy())
    return vae, images


def load_critic(scale=1):
    recipe = RECORD["discriminator"]
    random, arrays, inputs = np.random.RandomState(recipe["seed"]), {}, 10
    for layer, limit in recipe["limits"].items():
        outputs = 2 if layer == "logits" else 1000
        factor = scale if layer == "logits" else 1
        kernel = random.randint(-limit, limit + 1, size=(inputs, outputs), dtype=np.int32)
        bias = random.randint(-1000, 1001, size=(outputs,), dtype=np.int32)
        arrays[f"discriminator/{layer}/kernel"] = (factor * kernel / 16384).astype("<f4")
        arrays[f"discriminator/{layer}/bias"] = (factor * bias / 16384).astype("<f4")
        inputs = outputs
    digest = hashlib.sha256(b"".join(arrays[name].tobytes() for name in recipe["order"])).hexdigest()
    assert digest == recipe["sha256" if scale == 1 else "sha256_logit_scale_64"]
    critic = FactorVAE(compatibility="disentanglement_lib").critic(10)
    critic.load_state_dict({key(name): ours(name, value) for name, value in arrays.items()})
    return critic


def objective_of(case):
    strength = case["strength"]
    return {
        "beta_vae": lambda: BetaVAE(beta=strength),
        "annealed_vae": lambda: AnnealedVAE(c_max=strength),
        "factor_vae": lambda: FactorVAE(gamma=strength, compatibility="disentanglement_lib"),
        "beta_tc_vae": lambda: BetaTCVAE(beta=strength, estimator="disentanglement_lib"),
        "dip_vae_i": lambda: DIPVAE(variant="I", lambda_od=strength),
        "dip_vae_ii": lambda: DIPVAE(variant="II", lambda_od=strength),
    }[case["method"]]()


def relative(value, expected):
    value, expected = (np.asarray(torch.as_tensor(v).detach(), dtype=np.float64) for v in (value, expected))
    return np.abs(value - expected).max() / np.abs(expected).max()


@pytest.fixture
def shuffle(monkeypatch):
    """Give the critic the recorded permutation instead of a drawn one."""
    rows = []
    monkeypatch.setattr("polarised.objectives.terms.shuffled", lambda z, generator: rows.pop(0))
    return rows


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name, shuffle):
    case = CASES[name]
    scalars = case["scalars"]
    arrays = dict(np.load(FOLDER / f"{name}.npz"))
    vae, images = load_vae(case["channels"])
    factor = case["method"] == "factor_vae"
    critic = load_critic(case["discriminator_logit_scale"]) if factor else None
    if factor:
        shuffle.append(torch.from_numpy(arrays["z_permuted"]))
    step = take_step(
        vae,
        images,
        number=case["global_step"],
        dataset_size=737280,
        noise=torch.from_numpy(arrays["noise"]),
        critic=critic,
    )
    terms = objective_of(case)(step)

    assert relative(step.posterior.mean, arrays["mean"]) < 1e-5
    assert relative(step.posterior.log_variance, arrays["log_variance"]) < 1e-5
    assert relative(step.z, arrays["z"]) < 1e-5
    if "logits" in arrays:
        assert relative(step.outputs.permute(0, 2, 3, 1), arrays["logits"]) < 1e-5
    assert relative(-step.likelihood.log_prob(images, step.outputs), arrays["reconstruction_per_image"]) < 1e-5
    assert relative(terms["distortion"], scalars["reconstruction_loss"]) < 1e-5
    assert relative(step.prior.kl(step.posterior, step.z).sum(1).mean(), scalars["kl"]) < 1e-5
    regulariser = sum(value for key_, value in terms.items() if key_ not in ("distortion", "critic"))
    assert relative(regulariser, scalars["regulariser"]) < 2e-4
    loss = terms["distortion"] + regulariser
    assert relative(loss, scalars["total_loss"]) < 1e-5
    if "total_correlation" in scalars:
        weight = case["strength"] - (case["method"] == "beta_tc_vae")
        assert relative(terms["total_correlation"] / weight, scalars["total_correlation"]) < 2e-5
    if "dip_penalty" in scalars:
        of = "mean" if case["method"] == "dip_vae_i" else "sample"
        assert relative(terms["covariance"], scalars["dip_penalty"]) < 1e-5
        assert relative(posterior_covariance(step.posterior, of="mean"), arrays["covariance_of_mean"]) < 1e-5
        assert relative(posterior_covariance(step.posterior, of=of), arrays["covariance_penalised"]) < 1e-5
    if factor:
        assert relative(terms["critic"], scalars["discriminator_loss"]) < 2e-5
        assert relative(critic(step.z), arrays["discriminator_logits_z"]) < 2e-5

    torch.stack(list(terms.values())).sum().backward()
    gradients = {name_: p.grad for name_, p in vae.named_parameters()}
    if factor:
        gradients |= {name_: p.grad for name_, p in critic.named_parameters()}
        for variable, norm in case["discriminator_gradient_norms"].items():
            assert gradients[key(variable)].norm().item() == pytest.approx(norm, rel=5e-4)
    for variable, norm in case["gradient_norms"].items():
        assert gradients[key(variable)].norm().item() == pytest.approx(norm, rel=5e-4)
    recorded = [entry for entry in arrays if "gradient/" in entry]
    assert recorded
    for entry in recorded:
        variable = entry.partition("gradient/")[2]
        assert relative(gradients[key(variable)], ours(variable, arrays[entry])) < 1e-3


@pytest.mark.parametrize("name", UPDATES)
def test_three_updates(name, shuffle):
    case = UPDATES[name]
    arrays = dict(np.load(FOLDER / f"{name}.npz"))
    vae, images = load_vae(case["channels"])
    objective = objective_of(case)
    critic = load_critic() if case["method"] == "factor_vae" else None
    weights = dict(vae.named_parameters()) | (dict(critic.named_parameters()) if critic else {})
    before = {name_: weight.detach().clone() for name_, weight in weights.items()}
    groups = [{"params": list(vae.parameters())}]
    if critic is not None:
        shuffle.extend(torch.from_numpy(arrays["z_permuted"]))
        own = {"lr": objective.critic_learning_rate, "betas": objective.critic_betas}
        groups.append({"params": list(critic.parameters()), **own})
    optimiser = torch.optim.Adam(groups, lr=1e-4)
    for i, expected in enumerate(case["total_loss_before_each_update"]):
        step = take_step(
            vae,
            images,
            number=case["global_step"] + i,
            dataset_size=737280,
            noise=torch.from_numpy(arrays["noise"][i]),
            critic=critic,
        )
        terms = objective(step)
        loss = sum(value for key_, value in terms.items() if key_ != "critic")
        assert relative(loss, expected) < 2e-5
        optimiser.zero_grad()
        torch.stack(list(terms.values())).sum().backward()
        optimiser.step()
    recorded = [entry for entry in arrays if entry.startswith("after/")]
    assert recorded
    for entry in recorded:
        variable = entry.removeprefix("after/")
        expected = ours(variable, arrays[entry])
        change = (expected - before[key(variable)]).norm()
        assert (weights[key(variable)].detach() - expected).norm() < 3e-2 * change


@pytest.mark.parametrize("channels", [1, 3])
def test_reconstruction_variants(channels):
    variants = np.load(FOLDER / "reconstruction_variants.npz")
    logits = np.load(FOLDER / f"beta_vae_4_{channels}ch.npz")["logits"]
    outputs = torch.from_numpy(logits.transpose(0, 3, 1, 2).copy())
    images = load_vae(channels)[1]
    constant = images[0].numel() / 2 * np.log(np.pi)

    def loss(likelihood):
        return -likelihood.log_prob(images, outputs)

    def expected(name):
        return variants[f"{channels}ch/{name}"]

    assert relative(loss(Bernoulli()), expected("bernoulli_logits")) < 1e-5
    assert relative(loss(Bernoulli(subtract_entropy=True)), expected("bernoulli_logits_minus_entropy")) < 1e-5
    assert relative(loss(Bernoulli(activation="tanh")), expected("bernoulli_tanh")) < 2e-4
    assert relative(loss(Gaussian(variance=0.5, activation="sigmoid")) - constant, expected("l2_logits")) < 1e-5
    assert relative(loss(Gaussian(variance=0.5, activation="tanh")) - constant, expected("l2_tanh")) < 1e-5
