"""From a collapsed model to one with a useful sampled code: the cause, short trials of cures in order, and the proof.

The order follows from measurements: weights that ignore the code hardly ever learn to use it again, so new weights
with the setting of the forecast and a slow rise of beta come first and continuing comes last.
"""

import copy
import hashlib
import json
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import yaml
from numpy.typing import NDArray
from torch import nn

from polarised._io.files import contained, replacing
from polarised._io.text import parse_json, read_small
from polarised._patient import (
    CAUSES,
    Cause,
    Divided,
    Evidence,
    Images,
    Measurement,
    Parts,
    Scale,
    as_vae,
    copy_decoder,
    examine,
    measure,
    name_cause,
    predict_factors,
    principal_cross_entropy,
    read_parts,
    unwrapped,
    with_fresh_weights,
)
from polarised.data.dataset import Dataset
from polarised.diagnosis import Diagnosis, diagnose
from polarised.errors import ConfigError, DataError, DivergedError, MissingFileError
from polarised.models.likelihoods import Gaussian, Likelihood
from polarised.models.priors import StandardNormal
from polarised.models.vae import VAE, build_vae, load_vae, save_vae
from polarised.objectives import GECO, BetaVAE, Objective
from polarised.random import seed_for
from polarised.regime import Encodings
from polarised.regime.forecast import Forecast, Reduction, forecast
from polarised.schemas import stamp
from polarised.study.outlook import forecast_run, forecast_settings
from polarised.study.stages import dataset_of, load_run
from polarised.training import train

__all__ = ["Cure", "Outcome", "Trial", "cure", "cure_run"]

Weights = Literal["fresh", "decoder", "none"]

# The gain in loss over the collapsed model, in standard errors, that counts.
SURE = 3.0
LEAST_EXPLAINED = 0.05
PROBE = 0.1
STARTS: tuple[tuple[str, Weights, str], ...] = (
    ("fresh weights", "fresh", "start from fresh weights"),
    ("new decoder", "decoder", "start the decoder from fresh weights"),
    ("continued", "none", "train on"),
)
# The noise share of the variance if the forecast has no optimum.
LEAST_NOISE = 0.05


@dataclass(frozen=True)
class Outcome:
    """The quality of a model on inputs it was not trained on.

    `explained` is the share of their variance reconstructed through a *sample* of the code, `bound` the negative
    evidence lower bound in nats with the decoder variance fitted to the training data, `score` how well 15 neighbours
    among sampled codes predict the factors, if there are any.
    """

    active: int
    mixed: int
    passive: int
    explained: float
    rate: float
    bound: float
    score: float | None

    def __str__(self) -> str:
        factors = "" if self.score is None else f", factors predicted {self.score:.2f}"
        return (
            f"{self.active} active, {self.mixed} mixed, {self.passive} passive; explained through a sample "
            f"{self.explained:.2f}{factors}; rate {self.rate:.1f}, negative bound {self.bound:.1f} nats"
        )


@dataclass(frozen=True)
class Trial:
    """One tried cure: its name, its change in words, and its outcome on the validation data.

    `gain` is the improvement of its bound over that of the collapsed model, or of a constant reconstruction if that
    has the better bound; `gain_error` is its standard error.
    A trial that diverged has no outcome, and `failure` gives the reason.
    """

    name: str
    change: str
    outcome: Outcome | None = None
    gain: float = -math.inf
    gain_error: float = math.inf
    failure: str = ""


@dataclass(frozen=True, eq=False)
class Cure:
    """The result of a cure: cause, trials, the winner and its proof on test data.

    `change` says what to change in the code of the user, `recipe` the same as settings of this library. `refusal` is
    the reason if nothing was done or nothing helped; `model` is then None. The given model is never changed.

    Args:
        cause: The cause, or "unclear".
        evidence: The evidence for it.
        forecast: The forecast from the spectrum of the data.
        before: The outcome of the given model on test data; None if it is not finite.
        after: The outcome of the winner.
        trials: Every tried cure.
        winner: The name of the winning trial.
        change: What to change in the code of the user, in a line.
        recipe: The same as settings of this library.
        refusal: Why nothing was done, or nothing helped.
        model: The cured model, or None.
        diagnoses: The diagnoses before and after.
    """

    cause: Cause
    evidence: Evidence
    forecast: Forecast
    before: Outcome | None
    after: Outcome | None = None
    trials: tuple[Trial, ...] = ()
    winner: str = ""
    change: str = ""
    recipe: Mapping[str, Any] = field(default_factory=dict)
    refusal: str = ""
    model: nn.Module | None = field(default=None, repr=False)
    diagnoses: tuple[Diagnosis, ...] = field(default=(), repr=False)

    @property
    def cured(self) -> bool:
        """Whether a trial produced a model with a useful code."""
        return self.model is not None

    def to_dict(self) -> dict[str, Any]:
        """Return everything but models as plain numbers, lists and strings."""
        values = {
            "cause": self.cause,
            "because": CAUSES[self.cause],
            "evidence": asdict(self.evidence),
            "before": None if self.before is None else asdict(self.before),
            "after": None if self.after is None else asdict(self.after),
            "trials": [asdict(trial) for trial in self.trials],
            "winner": self.winner,
            "change": self.change,
            "recipe": dict(self.recipe),
            "refusal": self.refusal,
        }
        return stamp("cure", values)

    def __str__(self) -> str:
        lines = [f"Cause: {CAUSES[self.cause]}.", f"Before: {self.before or 'not finite'}"]
        for trial in self.trials:
            result = trial.failure or f"gains {trial.gain:.2f} ± {trial.gain_error:.2f} nats; {trial.outcome}"
            lines.append(f"  {trial.name}: {result}")
        if self.refusal:
            return "\n".join([*lines, f"Not cured: {self.refusal}"])
        return "\n".join([*lines, f"After ({self.winner}): {self.after}", f"Change: {self.change}"])


def cure(
    model: nn.Module,
    data: Any,
    *,
    beta: float = 1.0,
    variance: float | None = None,
    likelihood: Literal["gaussian", "bernoulli"] = "gaussian",
    reduction: Reduction = "likelihood",
    factors: NDArray[Any] | None = None,
    scale_kind: Scale = "log_variance",
    fresh: Callable[[int], nn.Module] | None = None,
    steps: int = 2000,
    learning_rate: float = 1e-3,
    batch_size: int = 64,
    directory: str | Path | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Cure:
    """Find out why a model collapsed and restore its code, or say why this is not possible.

    Trials, in this order, each of `steps` steps with beta rising linearly over the first half: fresh weights at the
    decoder variance (or beta) of the forecast; the old encoder with a new decoder; the old weights; fresh weights at
    the original setting, if a code could reduce the loss there; GECO with a capped multiplier [Rezende2018]. They end
    with the first that explains 0.95 of what the forecast expects and whose bound beats the old one by 3 standard
    errors. The winner has the best bound on validation data among those that explain 0.9 of the best; the proof is on
    test data.

    Args:
        model: A VAE of this library, or any module with ``encode(x) -> (mean, scale_kind)`` and ``decode(z)``; not
            changed.
        data: Inputs (n, ...), a pair (inputs, labels), a `Dataset`, or an iterable of batches, as the model sees them.
        beta: The weight of the KL in its training.
        variance: The variance of its Gaussian decoder; 1 by default.
        likelihood: Its reconstruction term; for "bernoulli" the decoder returns logits, or values in [0, 1].
        reduction: How its loss is summed, see `forecast`.
        factors: The factors that the codes should predict, (n,) or (n, F) whole numbers or measurements; those of a
            `Dataset` are used automatically.
        scale_kind: What ``encode`` returns after the mean.
        fresh: Creates the same module with new weights from a seed; without it every layer resets its own.
        steps: The steps of each trial; for a fair comparison, at least as many as the model had.
        learning_rate: The learning rate of its training.
        batch_size: Number of inputs in a step.
        directory: Where to save the trials, one folder each, so that an interrupted call resumes; not saved by default.
        seed: Seed of the split, the new weights and all random draws.
        progress: Whether to show a progress bar for each trial.

    Returns:
        The cause with its evidence, the trials, and the cured model with its proof, or the reason if there is none.

    Raises:
        ConfigError: If a setting is invalid.
        DataError: If the model has no encoder or decoder that fits the data, or the data are not numbers.

    >>> from polarised.data import linear_gaussian
    >>> from polarised.models import build_vae
    >>> config = {"architecture": {"name": "mlp", "widths": [16]}, "latents": 2, "likelihood": "Gaussian"}
    >>> found = cure(build_vae(config, (8,)), linear_gaussian(points=400), variance=20.0, steps=40)
    >>> found.cause
    'spectrum'
    """
    if steps < 20 or batch_size < 2 or not learning_rate > 0:
        raise ConfigError(
            f"expected at least 20 steps, a batch of 2 and a positive learning rate, got {steps}, {batch_size} and "
            f"{learning_rate}"
        )
    images, known, parts = read_parts(data, factors, seed)
    vae = as_vae(model, images, likelihood, scale_kind, variance)
    if isinstance(model, VAE):
        likelihood = "gaussian" if isinstance(vae.likelihood, Gaussian) else "bernoulli"
    expected = forecast(
        images[parts[0]],
        beta=beta,
        variance=variance,
        latents=vae.latents,
        likelihood=likelihood,
        reduction=reduction,
        seed=seed,
    )
    treatment = _Treatment(
        vae=vae,
        images=images,
        factors=known,
        parts=parts,
        expected=expected,
        fresh=partial(with_fresh_weights, vae, fresh, scale_kind),
        steps=steps,
        learning_rate=learning_rate,
        batch_size=batch_size,
        directory=None if directory is None else Path(directory),
        seed=seed,
        progress=progress,
    )
    return treatment.run()


def cure_run(
    run_directory: str | Path,
    *,
    steps: int | None = None,
    directory: str | Path | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Cure:
    """Cure the model of a run, whose config says how it was trained, see `cure`.

    If the run has a `training.split`, the trials train on the part that it was trained on; the winner is chosen on one
    half of the held-out part and evaluated on the other, so the data of the proof are new to both models.

    With a `directory`, the cured model is written there as ``model.safetensors``, its settings as
    ``recipe.yaml``, and the result as ``result.json``. The run itself is only read.

    Args:
        run_directory: The directory of a trained run.
        steps: The steps of each trial; by default those of the run, but at least 1,000.
        directory: Where to save the trials, so that an interrupted call resumes, and the result.
        seed: Seed of the split, the new weights and all random draws.
        progress: Whether to show a progress bar for each trial.

    Returns:
        The cause with its evidence, the trials, and the cured model with its proof, or the reason if there is none.

    Raises:
        ConfigError: If there is no forecast for the objective, prior or likelihood of the run.
        DataError: If the directory has no trained run.
    """
    place = Path(run_directory)
    if not (place / "config.yaml").is_file():
        raise MissingFileError(f"expected the directory of a trained run, {place} has no config.yaml; check the path")
    if directory is not None and Path(directory).resolve() == place.resolve():
        raise ConfigError(f"expected another folder for the cure than that of the run, got {place}; choose a new one")
    run = load_run(place)
    vae = load_vae(place / "model.safetensors")
    dataset = dataset_of(run)
    try:
        settings = forecast_settings(run)
    except ConfigError as error:
        raise ConfigError(
            f"expected a run for which collapse can be forecast, but {error}; it cannot be cured"
        ) from error
    if settings.pop("learned"):
        settings["variance"] = forecast_run(run).variance
    found = cure(
        vae,
        dataset if run.training.split is None else Divided(dataset_of(run, to="train"), dataset),
        **settings,
        fresh=lambda own: build_vae(run.model, dataset.shape, dataset.auxiliary_size, own),
        steps=max(run.training.steps, 1000) if steps is None else steps,
        learning_rate=run.training.learning_rate,
        batch_size=run.training.batch_size,
        directory=directory,
        seed=seed,
        progress=progress,
    )
    if directory is not None:
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        if isinstance(found.model, VAE):
            config = {**run.model, "likelihood": found.recipe["likelihood"]}
            save_vae(found.model, folder / "model.safetensors", config=config, auxiliary_size=dataset.auxiliary_size)
            recipe = {"dataset": run.dataset, "model": config, **found.recipe, "seed": seed}
            with replacing(folder / "recipe.yaml") as temporary:
                temporary.write_text(yaml.safe_dump(json.loads(json.dumps(recipe)), sort_keys=False), encoding="utf-8")
        with replacing(folder / "result.json") as temporary:
            temporary.write_text(json.dumps(found.to_dict(), indent=2), encoding="utf-8")
    return found


@dataclass(frozen=True, eq=False)
class _Treatment:
    """One model with its data and its forecast, during the cure."""

    vae: VAE
    images: Images
    factors: NDArray[Any] | None
    parts: Parts
    expected: Forecast
    fresh: Callable[..., VAE]
    steps: int
    learning_rate: float
    batch_size: int
    directory: Path | None
    seed: int
    progress: bool

    def run(self) -> Cure:
        """Name the cause, try the cures in order, choose one, and prove it."""
        training = self.images[self.parts[0]][:2000]
        found, evidence = examine(self.vae, training, self.expected, seed=self.seed)
        cause = name_cause(evidence, self.expected)
        if cause is None:
            evidence = replace(evidence, falling=self._still_falling(training))
            cause = name_cause(evidence, self.expected) or "unclear"
        noise = found.noise if found.finite else 1.0
        before = self._outcome(self.vae, noise, 2) if found.finite else None
        known = Cure(cause, evidence, self.expected, before)
        if reason := self._reason_to_refuse(cause):
            return replace(known, refusal=reason)
        if self.directory is not None:
            self._claim_directory()
        old = measure(self.vae, self.images[self.parts[1]], seed=self.seed) if found.finite else None
        constant = self._constant_bound()
        collapsed = constant if old is None or constant.mean() < old.bound(noise).mean() else old.bound(noise)
        trials: list[tuple[Trial, VAE | None]] = []
        for plan in self._plans(cause):
            trials.append(self._try(plan, collapsed))
            done = trials[-1][0]
            if done.outcome and done.outcome.explained >= 0.95 * self.attainable and done.gain > SURE * done.gain_error:
                break
        known = replace(known, trials=tuple(trial for trial, _ in trials))
        helpful = [
            (trial, vae) for trial, vae in trials if trial.outcome and vae and trial.gain > SURE * trial.gain_error
        ]
        if not helpful:
            return replace(known, refusal="no trial improved the bound on validation data by 3 standard errors.")
        most = max(trial.outcome.explained for trial, _ in helpful if trial.outcome)
        if most < LEAST_EXPLAINED:
            return replace(known, refusal="the best trial explains less than 0.05 of the data through a sample.")
        useful = [(t, vae) for t, vae in helpful if t.outcome and t.outcome.explained >= 0.9 * most]
        winner, vae = max(useful, key=lambda pair: pair[0].gain)
        assert vae is not None
        fitted = measure(vae, training, seed=self.seed).noise
        after = self._outcome(vae, fitted, 2)
        return replace(
            known,
            after=after,
            winner=winner.name,
            change=winner.change,
            recipe=self._recipe(winner.name, cause),
            model=unwrapped(vae),
            diagnoses=(self._diagnosis(self.vae, "before"), self._diagnosis(vae, "after")),
        )

    def _recipe(self, name: str, cause: Cause) -> dict[str, Any]:
        plan = next(plan for plan in self._plans(cause) if plan.name == name)
        likelihood: dict[str, Any] = {"name": type(plan.likelihood).__name__}
        if isinstance(plan.likelihood, Gaussian):
            variance = float(plan.likelihood.log_variance.exp())
            likelihood |= {"variance": variance, "activation": plan.likelihood.activation}
        return {
            "weights": plan.weights,
            "likelihood": likelihood,
            "objective": {"name": type(plan.objective).__name__, **vars(plan.objective)},
            "training": {"steps": self.steps, "learning_rate": plan.learning_rate, "batch_size": self.batch_size},
        }

    @property
    def best(self) -> Forecast:
        """The forecast at the setting of the cures: the best decoder variance, or a beta at which codes are useful."""
        expected = self.expected
        if expected.likelihood == "gaussian":
            plain = replace(expected, beta=1.0, variance=1.0, reduction="likelihood", threshold=1.0)
            spectrum = expected.spectrum
            full = expected.latents >= int((spectrum.eigenvalues > 1e-9 * spectrum.eigenvalues[0]).sum())
            least = LEAST_NOISE * spectrum.total / len(spectrum.eigenvalues)
            return plain.at(variance=max(plain.optimal_variance or 0.0, least if full else 0.0))
        weakest = expected.spectrum.eigenvalues[min(expected.latents, len(expected.spectrum.eigenvalues)) - 1]
        beta = min(expected.threshold, float(weakest) / 10, 1.0)
        return replace(expected, reduction="likelihood", beta=max(beta, 1e-3), threshold=max(beta, 1e-3))

    @property
    def attainable(self) -> float:
        """The share of the variance that a cured model should explain: that of a linear model, or of clusters."""
        best, total = self.best, self.expected.spectrum.total
        between = max((each.between for each in self.expected.spectrum.clusters), default=0.0)
        # A Gaussian code leaves out what is cheaper to leave out; a code of clusters has no noise.
        return best.explained if best.explained >= 0.2 else max(best.explained, 0.9 * between / total)

    def _reason_to_refuse(self, cause: Cause) -> str:
        if cause == "healthy":
            return "the model is healthy: its sampled code explains what is expected at this setting."
        if cause == "free decoder":
            return (
                "the decoder needs no code; weaken its other inputs, or raise its noise. A code can be "
                "forced on it, not made useful."
            )
        if self.attainable < 0.05:
            return "there is nothing to encode: neither a linear code nor clusters explain 0.05 of the data."
        return ""

    def _plans(self, cause: Cause) -> list["_Plan"]:
        best, own = self.best, self.expected
        rate = self.learning_rate
        if cause in ("learning rate", "diverged"):
            rate = max(min(rate / 10, 1e-3), 1e-4)
        elif cause == "steps":
            rate = max(rate, 1e-3)
        slow = f"with beta rising linearly from 0 over the first {self.steps // 2:,} of {self.steps:,} steps"
        if rate != self.learning_rate:
            slow += f" and a learning rate of {rate:g}"
        setting = self._setting_in_words(best)
        raised = BetaVAE(beta=best.beta, warm_up=self.steps // 2)
        likelihood = self._likelihood(best.variance)
        plans = [
            _Plan(name, weights, raised, likelihood, rate, f"{begin} with {setting}, {slow}.")
            for name, weights, begin in STARTS
        ]
        if cause in ("diverged", "learning rate"):
            plans = plans[:1]
        if own.case != "collapse":
            weight = BetaVAE(beta=own.threshold / (own.variance or 1.0), warm_up=self.steps // 2)
            words = f"start from fresh weights with your own setting, {slow}."
            plans.append(_Plan("own setting", "fresh", weight, self._likelihood(own.variance), rate, words))
        plans.append(
            _Plan("GECO", "fresh", self._geco(best), likelihood, rate, self._geco_in_words(best)),
        )
        return plans

    def _setting_in_words(self, best: Forecast) -> str:
        own = self.expected
        if best.variance is not None and own.reduction == "likelihood":
            was = own.variance if own.beta == 1 else own.threshold
            return f"a decoder variance of {best.variance:.3g} instead of {was:.3g} and beta 1"
        factor = best.threshold / own.threshold
        return f"beta = {own.beta * factor:.3g} instead of {own.beta:g} in your loss"

    def _geco_in_words(self, best: Forecast) -> str:
        target = self._geco(best).kappa ** 2
        what = "squared error" if best.likelihood == "gaussian" else "cross-entropy"
        return f"minimise the KL under the constraint that the summed {what} is at most {target:.3g} (GECO, capped)."

    def _geco(self, best: Forecast) -> GECO:
        if best.variance is not None:
            values, spectrum = self.images[0].size, self.expected.spectrum
            noise = best.variance
            if best.explained < 0.2 and best.gain > 0:
                between = max(each.between for each in spectrum.clusters)
                noise = max(spectrum.total - between, 0.1 * spectrum.total) / values
            return GECO(kappa=math.sqrt(values * noise), start=0.5 / noise, cap=1 / noise)
        target = principal_cross_entropy(self.images[self.parts[0]], best.latents)
        return GECO(kappa=math.sqrt(target), start=1 / best.beta, cap=2 / best.beta, constraint="distortion")

    def _likelihood(self, variance: float | None) -> Likelihood:
        own = self.vae.likelihood
        if isinstance(own, Gaussian):
            return Gaussian(variance=1.0 if variance is None else variance, activation=own.activation)
        return own

    def _start(self, plan: "_Plan") -> VAE:
        old = copy.deepcopy(self.vae)
        if plan.weights != "none":
            new = self.fresh(seed_for(self.seed, "fresh weights"))
            if plan.weights == "decoder":
                copy_decoder(new, old)
            else:
                old = new
        return VAE(old.encoder, old.decoder, StandardNormal(old.latents), plan.likelihood)

    def _train(self, plan: "_Plan", vae: VAE, steps: int, folder: Path | None) -> None:
        rows = self.images[self.parts[0]]
        dataset = Dataset("training data", rows.shape[1:], len(rows), rows.__getitem__)
        with warnings.catch_warnings():
            # A probe is intentionally shorter than a warm-up.
            warnings.simplefilter("ignore")
            train(
                vae,
                plan.objective,
                dataset,
                steps=steps,
                batch_size=self.batch_size,
                learning_rate=plan.learning_rate,
                seed=self.seed,
                directory=folder,
                checkpoint_every=500,
                progress=self.progress,
            )

    def _try(self, plan: "_Plan", collapsed: NDArray[np.float64]) -> tuple[Trial, VAE | None]:
        trial = Trial(plan.name, plan.change)
        folder = None
        if self.directory is not None:
            folder = contained(self.directory, plan.name.replace(" ", "-"), source=self.directory)
        try:
            vae = self._start(plan)
            self._train(plan, vae, self.steps, folder)
        except DivergedError as error:
            return replace(trial, failure=f"diverged: {error}"), None
        fitted = measure(vae, self.images[self.parts[0]][:2000], seed=self.seed)
        found = measure(vae, self.images[self.parts[1]], seed=self.seed)
        if not (fitted.finite and found.finite):
            return replace(trial, failure="diverged: the model returns numbers that are not finite"), None
        gain = collapsed - found.bound(fitted.noise)
        uncertain = max(float(gain.std() / math.sqrt(len(gain))), 1e-9)
        outcome = self._outcome(vae, fitted.noise, 1)
        done = replace(trial, outcome=outcome, gain=float(gain.mean()), gain_error=uncertain)
        if folder is not None:
            with replacing(folder / "trial.json") as temporary:
                temporary.write_text(json.dumps(asdict(done), indent=2), encoding="utf-8")
        return done, vae

    def _still_falling(self, training: Images) -> bool:
        """Train a copy for another tenth of the steps, as before, and test whether its loss decreases."""
        own = self.expected
        objective = BetaVAE(beta=own.threshold / (own.variance or 1.0))
        plan = _Plan("probe", "none", objective, self._likelihood(own.variance), self.learning_rate, "")
        vae = self._start(plan)
        before = self._loss(vae, training)
        try:
            self._train(plan, vae, max(10, int(PROBE * self.steps)), None)
        except DivergedError:
            return False
        fall = before - self._loss(vae, training)
        return bool(fall.mean() > 2 * fall.std() / math.sqrt(len(fall)))

    def _loss(self, vae: VAE, images: Images) -> NDArray[np.float64]:
        """Return the minimised loss of every input, divided by beta."""
        found = measure(vae, images, seed=self.seed)
        return (found.error / 2 if found.misfit is None else found.misfit) / self.expected.threshold + found.rate

    def _constant_bound(self) -> NDArray[np.float64]:
        """Return the bound of the best constant on the validation data, which may be better than the model."""
        rows = self.images.reshape(len(self.images), -1).astype(np.float64)
        mean = rows[self.parts[0]].mean(axis=0)
        seen = rows[self.parts[1]]
        if self.expected.likelihood == "bernoulli" and bool(np.isin(self.images, (0.0, 1.0)).all()):
            p = mean.clip(1e-6, 1 - 1e-6)
            return -np.asarray(seen @ np.log(p) + (1 - seen) @ np.log(1 - p))
        noise = float(((rows[self.parts[0]] - mean) ** 2).mean())
        error = ((seen - mean) ** 2).sum(axis=1)
        return np.asarray(error / (2 * noise) + 0.5 * rows.shape[1] * math.log(2 * math.pi * noise))

    def _outcome(self, vae: VAE, noise: float, part: int) -> Outcome | None:
        found = measure(vae, self.images[self.parts[part]], seed=self.seed)
        if not found.finite:
            return None
        regime = found.regime
        return Outcome(
            active=len(regime.active),
            mixed=len(regime.mixed),
            passive=len(regime.passive),
            explained=found.explained,
            rate=float(found.rate.mean()),
            bound=float(found.bound(noise).mean()),
            score=self._score(vae, found, part),
        )

    def _score(self, vae: VAE, found: Measurement, part: int) -> float | None:
        if self.factors is None:
            return None
        rows = self.parts[0][:4000]
        codes = measure(vae, self.images[rows], seed=self.seed + 1).codes
        return predict_factors(codes, self.factors[rows], found.codes, self.factors[self.parts[part]])

    def _diagnosis(self, vae: VAE, name: str) -> Diagnosis:
        found = measure(vae, self.images[self.parts[2]], seed=self.seed)
        if not found.finite:
            vae = self.fresh(self.seed)
            found = measure(vae, self.images[self.parts[2]], seed=self.seed)
        return diagnose(Encodings(found.mean, variance=found.variance), name=name, seed=self.seed)

    def _claim_directory(self) -> None:
        """Refuse a folder with the trials of another model or other data."""
        assert self.directory is not None
        self.directory.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256()
        for name, value in self.vae.state_dict().items():
            digest.update(name.encode() + value.detach().cpu().contiguous().numpy().tobytes())
        digest.update(np.ascontiguousarray(self.images).tobytes())
        settings = [self.steps, self.learning_rate, self.batch_size, self.seed, self.expected.threshold]
        identity = {"model and data": digest.hexdigest(), "settings": settings}
        place = self.directory / "cure.json"
        if not place.exists():
            with replacing(place) as temporary:
                temporary.write_text(json.dumps(identity), encoding="utf-8")
            return
        try:
            same = parse_json(read_small(place), where=place) == identity
        except DataError:
            same = False
        if not same:
            raise DataError(
                f"expected the trials of this model with these settings in {self.directory}, got others; "
                "use another folder"
            )


@dataclass(frozen=True)
class _Plan:
    """A planned trial: the source of its weights, its objective, and the change in words."""

    name: str
    weights: Weights
    objective: Objective
    likelihood: Likelihood
    learning_rate: float
    change: str
