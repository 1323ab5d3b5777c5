import copy
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
import yaml
from torch import nn
from typer.testing import CliRunner

import polarised as po
from polarised import curing
from polarised._patient import (
    CAUSES,
    as_vae,
    examine,
    measure,
    name_cause,
    predict_factors,
    read_inputs,
    with_fresh_weights,
)
from polarised.cli import app
from polarised.curing import cure_run
from polarised.data import dataset_from_arrays, linear_gaussian
from polarised.errors import ConfigError, DataError, DivergedError, PolarisedError
from polarised.models import build_vae
from polarised.objectives import BetaVAE
from polarised.study import execute
from polarised.study.stages import dataset_of
from polarised.training import train

DATA = linear_gaussian(variances=(8.0, 4.0, 2.0, 0.5, 0.3, 0.1), points=1200)
LABELS = (DATA.images[:][:, 0] > 0).astype(int)


class Module(nn.Module):
    """A VAE as users write it."""

    def __init__(self, values=6, latents=3, seen=0):
        super().__init__()
        self.seen, self.shown = seen, None
        self.body = nn.Sequential(nn.Linear(values, 32), nn.ReLU())
        self.mean, self.log_variance = nn.Linear(32, latents), nn.Linear(32, latents)
        self.out = nn.Sequential(nn.Linear(latents + seen, 32), nn.ReLU(), nn.Linear(32, values))

    def encode(self, x):
        self.shown = x[:, : self.seen] if self.seen else None
        hidden = self.body(x)
        return self.mean(hidden), self.log_variance(hidden)

    def decode(self, z):
        return self.out(z if self.shown is None else torch.cat([z, self.shown], dim=1))


def fitted(variance=1.0, beta=1.0, steps=400, rate=3e-3, warm_up=0, seed=0, latents=3):
    config = {
        "architecture": {"name": "mlp", "widths": [32]},
        "latents": latents,
        "likelihood": {"name": "Gaussian", "variance": variance},
    }
    vae = build_vae(config, (6,), seed=seed)
    train(vae, BetaVAE(beta=beta, warm_up=warm_up), DATA, steps=steps, learning_rate=rate, progress=False)
    return vae


def weights(module):
    return {name: value.clone() for name, value in module.state_dict().items()}


@pytest.fixture(scope="module")
def collapsed():
    return fitted(variance=12.0)


@pytest.fixture(scope="module")
def healed(collapsed):
    before = weights(collapsed)
    found = po.cure(collapsed, DATA, variance=12.0, factors=None, steps=600, learning_rate=3e-3)
    assert all(torch.equal(before[name], value) for name, value in collapsed.state_dict().items())
    return found


def test_a_model_above_the_spectrum_is_cured_and_proved(healed):
    assert healed.cause == "spectrum"
    assert healed.before.passive == 3
    assert (healed.after.active, healed.after.passive) == (2, 0)
    assert healed.after.explained > 0.8
    assert healed.after.bound < healed.before.bound - 1
    assert healed.winner == "fresh weights"
    assert "instead of 12" in healed.change
    assert healed.recipe["likelihood"]["variance"] == pytest.approx(0.3, rel=0.05)
    assert [d.name for d in healed.diagnoses] == ["before", "after"]


def test_the_proof_is_that_of_the_cured_model(healed):
    assert healed.model.likelihood.log_variance.exp().item() == pytest.approx(0.3, rel=0.05)
    images = DATA.images[:]
    assert measure(healed.model, images).explained == pytest.approx(healed.after.explained, abs=0.05)


def test_the_result_is_plain_and_readable(healed):
    plain = json.loads(json.dumps(healed.to_dict()))
    assert plain["after"]["passive"] == 0
    assert plain["recipe"]["objective"]["name"] == "BetaVAE"
    assert "Cause: beta times the decoder variance" in str(healed)
    assert healed.change in str(healed)


def test_a_healthy_model_is_not_cured():
    found = po.cure(fitted(variance=0.3, steps=1500, warm_up=300), DATA, variance=0.3)
    assert found.cause == "healthy"
    assert not found.cured
    assert found.trials == ()
    assert "healthy" in found.refusal


def test_a_mean_over_values_is_corrected_in_the_terms_of_the_user():
    model = fitted(variance=1.0, beta=4.0 * 6 / 2)
    found = po.cure(model, DATA, beta=4.0, reduction="mean", steps=600, learning_rate=3e-3)
    assert found.cause == "spectrum"
    assert found.forecast.threshold == 12.0
    # b = 0.3 is beta D / 2 with beta 0.1.
    assert float(found.change.split("beta = ")[1].split()[0]) == pytest.approx(0.1, rel=0.05)
    assert "instead of 4 in your loss" in found.change
    assert found.after.passive == 0


def test_a_foreign_module_is_returned_in_its_own_class(collapsed):
    torch.manual_seed(0)
    module = Module()
    vae = as_vae(module, DATA.images[:], "gaussian", "log_variance", 12.0)
    train(vae, BetaVAE(beta=1.0), DATA, steps=300, learning_rate=3e-3, progress=False)
    ill = vae.encoder.module
    before = weights(ill)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(torch.from_numpy(DATA.images[:]), torch.zeros(len(DATA))), 100
    )
    found = po.cure(ill, loader, variance=12.0, factors=LABELS, steps=600, learning_rate=3e-3)
    assert found.cause == "spectrum"
    assert type(found.model) is Module
    assert found.after.score > 0.75
    assert found.after.score > found.before.score + 0.15
    assert all(torch.equal(before[name], value) for name, value in ill.state_dict().items())


@pytest.mark.parametrize(
    ("settings", "cause"),
    [
        ({"variance": 12.0}, "spectrum"),
        ({"variance": 0.3, "beta": 40.0}, "spectrum"),
        ({"variance": 0.3, "steps": 15, "rate": 1e-3}, "steps"),
        ({"variance": 0.3, "steps": 300, "rate": 0.2}, ("learning rate", "diverged")),
    ],
)
def test_the_cause_is_named(settings, cause):
    found = po.cure(
        fitted(**settings),
        DATA,
        variance=settings["variance"],
        beta=settings.get("beta", 1.0),
        learning_rate=settings.get("rate", 3e-3),
        steps=200,
    )
    assert found.cause in (cause if isinstance(cause, tuple) else (cause,))
    assert found.cause in CAUSES


def test_clusters_without_warm_up_are_a_local_minimum():
    label = np.random.default_rng(0).integers(32, size=2000)
    data = dataset_from_arrays((4 * np.eye(32)[label]).astype(np.float32), factors=label)
    config = {"architecture": {"name": "mlp", "widths": [16]}, "latents": 4, "likelihood": "Gaussian"}
    vae = build_vae(config, (32,), seed=0)
    expected = po.forecast(data, variance=1.0, latents=4)
    assert expected.case == "clusters"
    train(vae, BetaVAE(beta=1.0), data, steps=500, learning_rate=3e-3, progress=False)
    evidence = examine(vae, data.images[:], expected)[1]
    assert evidence.alive == 0
    assert name_cause(evidence, expected) == "warm-up"


def test_a_decoder_that_needs_no_code_is_refused():
    torch.manual_seed(0)
    vae = as_vae(Module(seen=6), DATA.images[:], "gaussian", "log_variance", 1.0)
    train(vae, BetaVAE(beta=1.0), DATA, steps=800, learning_rate=3e-3, progress=False)
    found = po.cure(vae.encoder.module, DATA, variance=1.0)
    assert found.cause == "free decoder"
    assert "weaken" in found.refusal
    assert found.trials == ()


def test_a_model_that_is_not_finite_starts_from_fresh_weights(collapsed):
    broken = copy.deepcopy(collapsed)
    with torch.no_grad():
        next(broken.parameters()).fill_(float("nan"))
    found = po.cure(broken, DATA, variance=0.3, learning_rate=1.0, steps=600)
    assert found.cause == "diverged"
    assert found.before is None
    assert found.after.passive == 0
    assert "learning rate of 0.001" in found.change


def test_pure_noise_is_not_encoded():
    noise = np.random.default_rng(0).normal(size=(1500, 60)).astype(np.float32)
    config = {"architecture": {"name": "mlp", "widths": [8]}, "latents": 1, "likelihood": "Gaussian"}
    vae = build_vae(config, (60,), seed=0)
    found = po.cure(vae, noise, variance=5.0, steps=20)
    assert "nothing to encode" in found.refusal


def test_a_cure_that_diverges_is_one_failed_trial(collapsed, monkeypatch):
    import polarised.curing as curing

    original = curing.train

    def failing(vae, objective, *rest, **settings):
        if isinstance(objective, BetaVAE) and settings["seed"] == 3 and not failing.calls:
            failing.calls += 1
            raise DivergedError("distortion became nan at step 8")
        return original(vae, objective, *rest, **settings)

    failing.calls = 0
    monkeypatch.setattr(curing, "train", failing)
    found = po.cure(collapsed, DATA, variance=12.0, steps=400, learning_rate=3e-3, seed=3)
    assert found.trials[0].failure.startswith("diverged")
    assert found.trials[0].outcome is None
    assert found.cured
    assert found.winner != found.trials[0].name


@pytest.mark.parametrize(
    ("model", "data", "settings", "error", "words"),
    [
        (nn.Linear(6, 3), DATA, {}, DataError, "has no encode"),
        (Module(values=5), DATA, {}, DataError, "expected encode"),
        (Module(), np.zeros((5, 6)), {}, DataError, "at least 60 inputs"),
        (Module(), [np.zeros((60, 6)), np.zeros((60, 5))], {}, DataError, "one shape, got .60, 6., .60, 5."),
        (Module(), np.full((90, 6), np.nan), {}, DataError, "finite"),
        (Module(), np.ones((90, 6)), {}, DataError, "every row is the same"),
        (Module(), DATA, {"steps": 3}, ConfigError, "at least 20 steps"),
        (Module(), DATA, {"beta": -1.0}, ConfigError, "positive beta"),
        (Module(), DATA, {"likelihood": "laplace"}, ConfigError, "gaussian or bernoulli"),
        (Module(), DATA.images[:], {"factors": np.zeros(7)}, DataError, "factors of 1200"),
    ],
)
def test_invalid_input_is_refused(model, data, settings, error, words):
    with pytest.raises(error, match=words) as raised:
        po.cure(model, data, **settings)
    assert "\n" not in str(raised.value)


def test_weights_that_cannot_be_reset_are_named():
    class Odd(Module):
        def __init__(self):
            super().__init__()
            self.extra = nn.Parameter(torch.ones(6))

        def decode(self, z):
            return super().decode(z) + self.extra

    vae = as_vae(Odd(), DATA.images[:], "gaussian", "log_variance", 1.0)
    with pytest.raises(ConfigError, match="fresh="):
        with_fresh_weights(vae, None, "log_variance", 0)
    made = with_fresh_weights(vae, lambda seed: Odd(), "log_variance", 0)
    assert not torch.equal(made.encoder.module.body[0].weight, vae.encoder.module.body[0].weight)


@pytest.mark.parametrize("second", ["log_variance", "variance", "std", "log_std"])
def test_scale_kind_determines_how_the_encoder_output_is_read(second):
    class Says(Module):
        def encode(self, x):
            mean, log_variance = super().encode(x)
            return mean, {
                "log_variance": log_variance,
                "variance": log_variance.exp(),
                "std": (0.5 * log_variance).exp(),
                "log_std": 0.5 * log_variance,
            }[second]

    torch.manual_seed(0)
    module = Says()
    vae = as_vae(module, DATA.images[:], "gaussian", second, 1.0)
    x = torch.from_numpy(DATA.images[:5])
    torch.testing.assert_close(vae.posterior(x).log_variance, Module.encode(module, x)[1])


def test_probabilities_and_logits_are_distinguished():
    class Squashed(Module):
        def decode(self, z):
            return super().decode(z).sigmoid()

    torch.manual_seed(0)
    images = np.random.default_rng(0).integers(2, size=(90, 6)).astype(np.float32)
    module = Squashed()
    vae = as_vae(module, images, "bernoulli", "log_variance", None)
    z = torch.randn(4, 3)
    torch.testing.assert_close(vae.generate(z), module.decode(z))


def test_factors_are_predicted_by_neighbours():
    codes = np.random.default_rng(0).normal(size=(400, 2))
    label, quantity, constant = (codes[:, 0] > 0).astype(int), codes[:, 1], np.zeros(400)
    factors = np.stack([label, quantity, constant], axis=1)
    assert predict_factors(codes[:300], factors[:300], codes[300:], factors[300:]) > 0.9
    assert predict_factors(codes[:300, :1], factors[:300], codes[300:, :1], factors[300:]) < 0.6


CONFIG = {
    "dataset": {"name": "linear_gaussian", "variances": [8.0, 4.0, 2.0, 0.5, 0.3, 0.1], "points": 1200},
    "model": {
        "architecture": {"name": "mlp", "widths": [32]},
        "latents": 3,
        "likelihood": {"name": "Gaussian", "variance": 12.0},
    },
    "objective": "ELBO",
    "training": {"steps": 300, "learning_rate": 0.003},
    "evaluation": {"examples": 100},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return po.study.train(CONFIG, out=tmp_path_factory.mktemp("runs"), progress=False)


def test_a_run_is_cured_in_another_folder_and_resumes(run, tmp_path):
    held = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
    found = cure_run(run, directory=tmp_path / "cured", steps=600)
    assert found.cured
    assert {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()} == held
    written = yaml.safe_load((tmp_path / "cured" / "recipe.yaml").read_text())
    assert written["objective"]["name"] == "BetaVAE"
    again = cure_run(run, directory=tmp_path / "cured", steps=600)
    assert again.to_dict() == found.to_dict()
    model = po.load_vae(tmp_path / "cured" / "model.safetensors")
    assert measure(model, DATA.images[:]).explained > 0.7


def test_trials_of_another_model_are_refused(run, tmp_path):
    cure_run(run, directory=tmp_path, steps=30)
    with pytest.raises(DataError, match="use another folder"):
        cure_run(run, directory=tmp_path, steps=40)
    with pytest.raises(ConfigError, match="another folder for the cure than that of the run"):
        cure_run(run, directory=run)
    with pytest.raises(DataError, match=r"no config\.yaml"):
        cure_run(tmp_path / "nowhere")


def test_a_run_with_a_split_is_cured_on_its_own_part_and_proved_on_the_other(tmp_path, monkeypatch):
    run = po.study.Run.from_config({**CONFIG, "training": {**CONFIG["training"], "split": 0.8}})
    directory = execute(run, tmp_path)
    own, held_out = ({row.tobytes() for row in dataset_of(run, to=part).images[:]} for part in ("train", "measure"))
    assert (len(own), len(held_out)) == (960, 240)
    trained, measured = set(), []

    def watched_training(vae, objective, dataset, **settings):
        trained.update(row.tobytes() for row in dataset.images[:])
        return train(vae, objective, dataset, **settings)

    def watched_measurement(vae, images, **settings):
        measured.append({row.tobytes() for row in images})
        return measure(vae, images, **settings)

    monkeypatch.setattr(curing, "train", watched_training)
    monkeypatch.setattr(curing, "measure", watched_measurement)
    assert cure_run(directory, steps=300).cured
    assert trained == own
    # The outcome of the winner is measured last.
    proof = measured[-1]
    assert len(proof) == 120
    assert proof < held_out
    others = {frozenset(rows) for rows in measured if rows <= held_out and rows != proof}
    assert others == {frozenset(held_out - proof)}


def as_pipe(folder):
    (folder / "cure.json").unlink()
    os.mkfifo(folder / "cure.json")


def too_deep(folder):
    (folder / "cure.json").write_text("[" * 200_000, encoding="utf-8")


def truncated(folder):
    place = next(folder.glob("*/checkpoint.safetensors"))
    place.write_bytes(place.read_bytes()[:500])


def linked(folder):
    place = next(folder.glob("*/checkpoint.safetensors")).parent
    elsewhere = place.rename(folder.parent / "elsewhere")
    (elsewhere / "trial.json").unlink()
    place.symlink_to(elsewhere, target_is_directory=True)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (as_pipe, "use another folder"),
        (too_deep, "use another folder"),
        (truncated, "delete it to start afresh"),
        (linked, "inside the folder"),
    ],
)
def test_damaged_trials_are_refused_and_not_called_diverged(run, tmp_path, damage, words):
    place = tmp_path / "cured"
    cure_run(run, directory=place, steps=20)
    damage(place)
    with pytest.raises(PolarisedError, match=words):
        cure_run(run, directory=place, steps=20)
    assert damage is not linked or not (tmp_path / "elsewhere" / "trial.json").exists()


@pytest.mark.slow
def test_a_kill_in_the_middle_changes_nothing(run, tmp_path):
    command = [sys.executable, "-m", "polarised", "cure", run, "--steps", "1100", "--json", "--out"]
    process = subprocess.Popen([*map(str, command), str(tmp_path / "killed")], stdout=subprocess.PIPE)
    while process.poll() is None and not list((tmp_path / "killed").glob("*/checkpoint.safetensors")):
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    results = []
    for folder in ("killed", "whole"):
        done = subprocess.run([*map(str, command), str(tmp_path / folder)], capture_output=True, check=True)
        results.append(json.loads(done.stdout))
        del results[-1]["directory"], results[-1]["page"]
        assert (tmp_path / folder / "page.html").exists()
    assert results[0] == results[1]
    assert results[0]["after"]["passive"] == 0


def test_the_command_prints_cause_trials_and_outcome(run, tmp_path):
    invoke = CliRunner().invoke
    done = invoke(app, ["cure", str(run), "--steps", "300", "--out", str(tmp_path / "cured"), "--quiet", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["cause"] == "spectrum"
    assert (tmp_path / "cured" / "result.json").exists()
    assert (found["page"] is None) == bool(found["refusal"])
    printed = invoke(app, ["cure", str(run), "--steps", "300", "--out", str(tmp_path / "cured")]).stdout
    assert "is above the spectrum of the data" in " ".join(printed.split())
    missing = invoke(app, ["cure", str(tmp_path / "nowhere")])
    assert missing.exit_code == 2
    assert "config.yaml" in missing.stderr


def test_labels_may_come_with_the_inputs_as_a_pair():
    images = np.asarray(DATA.images[:])
    inputs, factors = read_inputs((images, LABELS), None, 0)
    np.testing.assert_array_equal(inputs, images.astype(np.float32))
    np.testing.assert_array_equal(factors, LABELS)
    assert len(read_inputs((images, images), None, 0)[0]) == 2 * len(images)
