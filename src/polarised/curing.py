"""From a collapsed model to one whose sampled code is useful: the cause, short trials of cures in order, and the proof.

The order is what measurements support: weights that ignore the code hardly ever learn to use it again, so fresh ones
with the forecast's setting and a slow rise of beta come first and continuing comes last.
"""

import copy
import hashlib
import json
import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from polarised._causes import CAUSES, Cause, Evidence, Measurement, examine, measure, name_cause
from polarised._io.files import replacing
from polarised.data.dataset import Dataset
from polarised.diagnosis import Diagnosis, diagnose
from polarised.errors import ConfigError, DataError, TrainingError
from polarised.models.likelihoods import Bernoulli, Gaussian, Likelihood
from polarised.models.priors import StandardNormal
from polarised.models.vae import VAE
from polarised.objectives import GECO, BetaVAE, Objective
from polarised.random import seed_for, stream
from polarised.regime import Encodings
from polarised.regime.forecast import Forecast, Reduction, forecast
from polarised.training import train

__all__ = ["Cure", "Outcome", "Trial", "cure"]

Scale = Literal["log_variance", "variance", "log_std", "std"]
Weights = Literal["fresh", "decoder", "none"]
Images = NDArray[np.float32]

# What the loss must gain over the collapsed model, in standard errors, to count.
SURE = 3.0
PROBE = 0.1
STARTS: tuple[tuple[str, Weights, str], ...] = (
    ("fresh weights", "fresh", "start from fresh weights"),
    ("new decoder", "decoder", "start the decoder afresh"),
    ("continued", "none", "train on"),
)
# The share of the variance that is noise where the forecast has no optimum of its own.
LEAST_NOISE = 0.05


@dataclass(frozen=True)
class Outcome:
    """What a model is worth on inputs it was not trained on.

    `explained` is the share of their variance reconstructed through a *sample* of the code, `bound` the negative
    evidence lower bound in nats with the decoder variance fitted to the training data, `score` how well 15 neighbours
    among sampled codes tell the factors, where there are any.
    """

    active: int
    mixed: int
    passive: int
    explained: float
    rate: float
    bound: float
    score: float | None

    def __str__(self) -> str:
        told = "" if self.score is None else f", factors told {self.score:.2f}"
        return (
            f"{self.active} active, {self.mixed} mixed, {self.passive} passive; explained through a sample "
            f"{self.explained:.2f}{told}; rate {self.rate:.1f}, negative bound {self.bound:.1f} nats"
        )


@dataclass(frozen=True)
class Trial:
    """One cure that was tried: its name, what it changes in words, and what came of it on the validation data.

    `gain` is how much better its bound is than that of the collapsed model, `gain_error` the standard error of that.
    A trial that diverged has no outcome and `failure` says why.
    """

    name: str
    change: str
    outcome: Outcome | None = None
    gain: float = -math.inf
    gain_error: float = math.inf
    failure: str = ""


@dataclass(frozen=True, eq=False)
class Cure:
    """What was found and what was done: cause, trials, the winner and its proof on test data.

    `refusal` is the reason where nothing was done or nothing helped; `model` is then None. Nothing of the model that
    was given is changed.
    """

    cause: Cause
    evidence: Evidence
    forecast: Forecast
    before: Outcome | None
    after: Outcome | None = None
    trials: tuple[Trial, ...] = ()
    winner: str = ""
    change: str = ""
    refusal: str = ""
    model: nn.Module | None = field(default=None, repr=False)
    diagnoses: tuple[Diagnosis, ...] = field(default=(), repr=False)

    @property
    def cured(self) -> bool:
        """Whether a trial gave a model with a useful code."""
        return self.model is not None

    def to_dict(self) -> dict[str, Any]:
        """Return everything but models as plain numbers, lists and texts."""
        return {
            "cause": self.cause,
            "because": CAUSES[self.cause],
            "evidence": asdict(self.evidence),
            "before": None if self.before is None else asdict(self.before),
            "after": None if self.after is None else asdict(self.after),
            "trials": [asdict(trial) for trial in self.trials],
            "winner": self.winner,
            "change": self.change,
            "refusal": self.refusal,
        }

    def __str__(self) -> str:
        lines = [f"Cause: {CAUSES[self.cause]}.", f"Before: {self.before or 'not finite'}"]
        for trial in self.trials:
            said = trial.failure or f"gains {trial.gain:.2f} ± {trial.gain_error:.2f} nats; {trial.outcome}"
            lines.append(f"  {trial.name}: {said}")
        if self.refusal:
            return "\n".join([*lines, f"Left alone: {self.refusal}"])
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
    second: Scale = "log_variance",
    fresh: Callable[[int], nn.Module] | None = None,
    steps: int = 2000,
    learning_rate: float = 1e-3,
    batch_size: int = 64,
    directory: str | Path | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Cure:
    """Find out why a model collapsed and bring its code back, or say why that is not to be done.

    Trials, in this order, each of `steps` steps with beta rising linearly over the first half: fresh weights at the
    forecast's decoder variance (or beta); the old encoder under a new decoder; the old weights; fresh weights at the
    setting as it is, where a code could pay there; GECO with a capped multiplier [Rezende2018]. They end with the
    first that explains 0.95 of what the forecast expects and whose bound beats the old one by 3 standard errors. The
    winner is the best bound on validation data among those that explain 0.9 of the best; the proof is on test data.

    Args:
        model: A VAE of ours, or any module with ``encode(x) -> (mean, second)`` and ``decode(z)``; never changed.
        data: Inputs (n, ...), a `Dataset`, or an iterable of batches, as the model sees them.
        beta: The weight of the KL it was trained with.
        variance: The variance of its Gaussian decoder; 1 unless given.
        likelihood: What its reconstruction term is; for "bernoulli" the decoder gives logits, or values in [0, 1].
        reduction: How its loss adds up, see `forecast`.
        factors: What the codes ought to tell, (n,) or (n, F) whole numbers or measurements; those of a `Dataset` are
            used by themselves.
        second: What ``encode`` returns beside the mean.
        fresh: Makes the same module with new weights from a seed; without it every layer resets its own.
        steps: The steps of each trial; at least as many as the model had is fair.
        learning_rate: The learning rate it was trained with.
        batch_size: Inputs in a step.
        directory: Where trials are kept, one folder each, so that a call that was stopped goes on; none if not given.
        seed: Of the split, the new weights and every draw.
        progress: Whether to show a progress bar for each trial.

    Returns:
        The cause with its evidence, the trials, and the cured model with its proof, or the reason there is none.

    Raises:
        ConfigError: Where a setting makes no sense.
        DataError: Where the model has no encoder or decoder that fits the data, or the data are not numbers.

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
    images, known = _inputs(data, factors, seed)
    vae = _as_vae(model, images, likelihood, second, variance)
    if isinstance(model, VAE):
        likelihood = "gaussian" if isinstance(vae.likelihood, Gaussian) else "bernoulli"
    parts = _split(len(images), seed)
    expected = forecast(
        images[parts[0]],
        beta=beta,
        variance=variance,
        latents=vae.latents,
        likelihood=likelihood,
        reduction=reduction,
        seed=seed,
    )
    clinic = _Clinic(
        vae=vae,
        images=images,
        factors=known,
        parts=parts,
        expected=expected,
        fresh=partial(_fresh, vae, fresh, second),
        steps=steps,
        learning_rate=learning_rate,
        batch_size=batch_size,
        directory=None if directory is None else Path(directory),
        seed=seed,
        progress=progress,
    )
    return clinic.treat()


@dataclass(frozen=True, eq=False)
class _Clinic:
    """One model with its data and its forecast, under treatment."""

    vae: VAE
    images: Images
    factors: NDArray[Any] | None
    parts: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
    expected: Forecast
    fresh: Callable[..., VAE]
    steps: int
    learning_rate: float
    batch_size: int
    directory: Path | None
    seed: int
    progress: bool

    def treat(self) -> Cure:
        """Name the cause, try the cures in order, choose, and prove."""
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
        collapsed = self._constant_bound() if old is None else old.bound(noise)
        trials: list[tuple[Trial, VAE | None]] = []
        for plan in self._plans(cause):
            trials.append(self._try(plan, collapsed))
            done = trials[-1][0]
            if done.outcome and done.outcome.explained >= 0.95 * self.hoped and done.gain > SURE * done.gain_error:
                break
        known = replace(known, trials=tuple(trial for trial, _ in trials))
        helpful = [
            (trial, vae) for trial, vae in trials if trial.outcome and vae and trial.gain > SURE * trial.gain_error
        ]
        if not helpful:
            return replace(known, refusal="no trial improved the bound on validation data by 3 standard errors.")
        most = max(trial.outcome.explained for trial, _ in helpful if trial.outcome)
        useful = [(t, vae) for t, vae in helpful if t.outcome and t.outcome.explained >= 0.9 * most]
        winner, vae = max(useful, key=lambda pair: pair[0].gain)
        if winner.outcome is None or winner.outcome.explained < 0.05:
            return replace(known, refusal="the best trial explains less than 0.05 of the data through a sample.")
        assert vae is not None
        fitted = measure(vae, training, seed=self.seed).noise
        after = self._outcome(vae, fitted, 2)
        return replace(
            known,
            after=after,
            winner=winner.name,
            change=winner.change,
            model=_unwrapped(vae),
            diagnoses=(self._diagnosis(self.vae, "before"), self._diagnosis(vae, "after")),
        )

    @property
    def best(self) -> Forecast:
        """The forecast at the setting that the cures use: the best decoder variance, or a beta at which codes pay."""
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
    def hoped(self) -> float:
        """The share of the variance a cured model ought to explain: that of a linear model, or of clusters."""
        best, total = self.best, self.expected.spectrum.total
        between = max((each.between for each in self.expected.spectrum.clusters), default=0.0)
        # A Gaussian code leaves some of what it costs less to leave; that of clusters is told without any noise.
        return best.explained if best.explained >= 0.2 else max(best.explained, 0.9 * between / total)

    def _reason_to_refuse(self, cause: Cause) -> str:
        if cause == "healthy":
            return "the model is healthy: its sampled code explains what is to be expected at this setting."
        if cause == "free decoder":
            return (
                "the decoder needs no code; weaken what it sees besides the code, or raise its noise. A code can be "
                "forced on it, not made useful."
            )
        if self.hoped < 0.05:
            return "there is nothing to encode: neither a linear code nor clusters explain 0.05 of the data."
        return ""

    def _plans(self, cause: Cause) -> list["_Plan"]:
        best, own = self.best, self.expected
        rate = min(self.learning_rate / 10, 1e-3) if cause in ("learning rate", "diverged") else self.learning_rate
        slow = f"with beta rising linearly from 0 over the first {self.steps // 2:,} of {self.steps:,} steps"
        if cause in ("learning rate", "diverged"):
            slow += f" and a learning rate of {rate:g}"
        setting = self._setting_in_words(best)
        raised = BetaVAE(beta=best.beta, warm_up=self.steps // 2)
        likelihood = self._likelihood(best.variance)
        plans = [
            _Plan(
                "fresh weights", "fresh", raised, likelihood, rate, f"start from fresh weights with {setting}, {slow}."
            ),
            _Plan(
                "new decoder", "decoder", raised, likelihood, rate, f"start the decoder afresh with {setting}, {slow}."
            ),
            _Plan("continued", "none", raised, likelihood, rate, f"train on with {setting}, {slow}."),
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
        target = _principal_cross_entropy(self.images[self.parts[0]], best.latents)
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
                _copy_decoder(new, old)
            else:
                old = new
        return VAE(old.encoder, old.decoder, StandardNormal(old.latents), plan.likelihood)

    def _train(self, plan: "_Plan", vae: VAE, steps: int, folder: Path | None) -> None:
        rows = self.images[self.parts[0]]
        dataset = Dataset("training data", rows.shape[1:], len(rows), rows.__getitem__)
        with warnings.catch_warnings():
            # A probe is shorter than a warm-up on purpose.
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
        folder = None if self.directory is None else self.directory / plan.name.replace(" ", "-")
        try:
            vae = self._start(plan)
            self._train(plan, vae, self.steps, folder)
        except TrainingError as error:
            return replace(trial, failure=f"diverged: {error}"), None
        fitted = measure(vae, self.images[self.parts[0]][:2000], seed=self.seed)
        found = measure(vae, self.images[self.parts[1]], seed=self.seed)
        if not (fitted.finite and found.finite):
            return replace(trial, failure="diverged: the model gives numbers that are not finite"), None
        gain = collapsed - found.bound(fitted.noise)
        spread = max(float(gain.std() / math.sqrt(len(gain))), 1e-9)
        outcome = self._outcome(vae, fitted.noise, 1)
        done = replace(trial, outcome=outcome, gain=float(gain.mean()), gain_error=spread)
        if folder is not None:
            with replacing(folder / "trial.json") as temporary:
                temporary.write_text(json.dumps(asdict(done), indent=2), encoding="utf-8")
        return done, vae

    def _still_falling(self, training: Images) -> bool:
        """Train a copy on for a tenth of the steps, as it was trained, and see whether its loss falls."""
        own = self.expected
        objective = BetaVAE(beta=own.threshold / (own.variance or 1.0))
        plan = _Plan("probe", "none", objective, self._likelihood(own.variance), self.learning_rate, "")
        vae = self._start(plan)
        before = self._loss(vae, training)
        try:
            self._train(plan, vae, max(10, int(PROBE * self.steps)), None)
        except TrainingError:
            return False
        fall = before - self._loss(vae, training)
        return bool(fall.mean() > 2 * fall.std() / math.sqrt(len(fall)))

    def _loss(self, vae: VAE, images: Images) -> NDArray[np.float64]:
        """Return the loss of every input as it is minimised, divided by beta."""
        found = measure(vae, images, seed=self.seed)
        return (found.error / 2 if found.misfit is None else found.misfit) / self.expected.threshold + found.rate

    def _constant_bound(self) -> NDArray[np.float64]:
        """Return the bound of the best constant on the validation data, in place of a model that is not finite."""
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
        return tell_factors(codes, self.factors[rows], found.codes, self.factors[self.parts[part]])

    def _diagnosis(self, vae: VAE, name: str) -> Diagnosis:
        found = measure(vae, self.images[self.parts[2]], seed=self.seed)
        if not found.finite:
            vae = self.fresh(self.seed)
            found = measure(vae, self.images[self.parts[2]], seed=self.seed)
        return diagnose(Encodings(found.mean, variance=found.variance), name=name, seed=self.seed)

    def _claim_directory(self) -> None:
        """Refuse a folder that holds the trials of another model or other data."""
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
            same = json.loads(place.read_text(encoding="utf-8")) == identity
        except ValueError:
            same = False
        if not same:
            raise DataError(
                f"expected the trials of this model with these settings in {self.directory}, it holds others; "
                "use another folder"
            )


@dataclass(frozen=True)
class _Plan:
    """A trial to come: where its weights come from, what it minimises, and the change in words."""

    name: str
    weights: Weights
    objective: Objective
    likelihood: Likelihood
    learning_rate: float
    change: str


def tell_factors(
    codes: NDArray[np.float64], factors: NDArray[Any], seen: NDArray[np.float64], truth: NDArray[Any]
) -> float:
    """Return how well 15 neighbours among codes tell factors of other codes: accuracy or R², averaged over factors.

    A factor of more than 10 values is a quantity and scored by R², any other a label; a factor that never changes is
    left out.
    """
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

    width = np.maximum(codes.std(axis=0), 1e-12)
    found = []
    for column, other in zip(factors.reshape(len(factors), -1).T, truth.reshape(len(truth), -1).T, strict=True):
        values = np.unique(column)
        if len(values) < 2:
            continue
        kind = KNeighborsRegressor if len(values) > 10 else KNeighborsClassifier
        told = kind(min(15, len(codes))).fit(codes / width, column).predict(seen / width)
        if len(values) > 10:
            spread = float(((other - other.mean()) ** 2).mean())
            found.append(1 - float(((other - told) ** 2).mean()) / max(spread, 1e-12))
        else:
            found.append(float((told == other).mean()))
    return float(np.mean(found)) if found else 0.0


class _Encode(nn.Module):
    """The encoder of a module of others, as one of ours."""

    def __init__(self, module: nn.Module, second: Scale, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.module, self.second, self.shape = module, second, shape

    def forward(self, x: Tensor, u: Tensor | None = None) -> tuple[Tensor, Tensor]:
        mean, spread = self.module.encode(x)[:2]  # type: ignore[operator]
        mean, spread = mean.flatten(1), spread.flatten(1)
        if self.second == "log_variance":
            return mean, spread
        if self.second == "log_std":
            return mean, 2 * spread
        return mean, (1 if self.second == "variance" else 2) * spread.clamp_min(1e-12).log()


class _Decode(nn.Module):
    """The decoder of a module of others, as one of ours: the mean, or logits."""

    def __init__(self, module: nn.Module, shape: tuple[int, ...], latents: tuple[int, ...], *, logits: bool) -> None:
        super().__init__()
        self.module, self.shape, self.latents, self.logits = module, shape, latents, logits

    def forward(self, z: Tensor) -> Tensor:
        outputs: Tensor = self.module.decode(z.reshape(len(z), *self.latents))  # type: ignore[operator]
        outputs = outputs.reshape(len(z), *self.shape)
        return outputs if self.logits else outputs.clamp(1e-6, 1 - 1e-6).logit()


def _as_vae(model: nn.Module, images: Images, likelihood: str, second: Scale, variance: float | None) -> VAE:
    """Return a copy of the model as a VAE of ours, whatever it was; refuse what has no encoder or decoder."""
    if isinstance(model, VAE):
        own = copy.deepcopy(model)
        if not isinstance(own.prior, StandardNormal):
            raise ConfigError(
                "expected a model under the standard normal prior; the cures were measured under no other"
            )
        if not isinstance(own.likelihood, Bernoulli | Gaussian) or own.likelihood.outputs_per_value != 1:
            raise ConfigError(
                "expected a Bernoulli likelihood or a Gaussian one of one variance; the cures know no other"
            )
        if own.shape != images.shape[1:]:
            raise DataError(f"expected inputs of shape {own.shape}, as the model has, got {images.shape[1:]}")
        return own.eval()
    for name in ("encode", "decode"):
        if not callable(getattr(model, name, None)):
            raise DataError(
                f"expected a module with encode(x) and decode(z), {type(model).__name__} has no {name}; a model "
                "without it cannot be cured, wrap it in one that has both"
            )
    if likelihood not in ("gaussian", "bernoulli"):
        raise ConfigError(f"expected likelihood as gaussian or bernoulli, got {likelihood!r}")
    own_module = copy.deepcopy(model).eval()
    shape = images.shape[1:]
    probe = torch.from_numpy(images[: min(len(images), 64)])
    try:
        with torch.no_grad():
            mean, spread = own_module.encode(probe)[:2]  # type: ignore[operator]
            outputs = own_module.decode(mean)  # type: ignore[operator]
    except Exception as error:
        raise DataError(
            f"expected encode(x) to return (mean, {second}) and decode(mean) to return x for inputs of shape {shape}, "
            f"got an error: {error}"
        ) from error
    if mean.shape != spread.shape or outputs.numel() != probe.numel():
        raise DataError(
            f"expected mean and {second} of one shape and an output for every value of x, got {tuple(mean.shape)}, "
            f"{tuple(spread.shape)} and {tuple(outputs.shape)} for inputs {tuple(probe.shape)}"
        )
    inside = bool(torch.isfinite(outputs).all() and outputs.min() >= 0 and outputs.max() <= 1)
    logits = likelihood == "gaussian" or not inside
    encoder = _Encode(own_module, second, shape)
    decoder = _Decode(own_module, shape, tuple(mean.shape[1:]), logits=logits)
    chosen: Likelihood = Bernoulli() if likelihood == "bernoulli" else Gaussian(variance=variance or 1.0)
    return VAE(encoder, decoder, StandardNormal(mean[0].numel()), chosen).eval()  # type: ignore[arg-type]


def _unwrapped(vae: VAE) -> nn.Module:
    return vae.encoder.module if isinstance(vae.encoder, _Encode) else vae


def _fresh(vae: VAE, make: Callable[[int], nn.Module] | None, second: Scale, seed: int) -> VAE:
    """Return the same network with new weights: those of `make`, or each layer's own way to begin."""
    new = copy.deepcopy(vae)
    if make is not None:
        made = make(seed)
        if isinstance(made, VAE):
            return VAE(made.encoder, made.decoder, new.prior, new.likelihood)
        _unwrapped(new).load_state_dict(made.state_dict())
        return new
    reset: set[int] = set()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed % 2**63)
        for module in new.modules():
            if callable(again := getattr(module, "reset_parameters", None)):
                again()
                reset |= {id(parameter) for parameter in module.parameters(recurse=False)}
    left = [name for name, parameter in new.named_parameters() if id(parameter) not in reset]
    if left:
        raise ConfigError(
            f"expected layers that can reset their own weights, {left[0]} has no such layer; "
            "give fresh=, a function that makes the module anew from a seed"
        )
    return new


def _copy_decoder(source: VAE, target: VAE) -> None:
    """Put the decoder's weights of one model into another: those that what it decodes depends on."""
    z = torch.zeros(2, source.latents).normal_(generator=torch.Generator().manual_seed(0))
    probe = copy.deepcopy(source)
    if isinstance(probe.encoder, _Encode):
        # Some modules hand things from encode to decode.
        probe.encoder(torch.zeros(2, *source.shape))
    probe.zero_grad()
    torch.autograd.backward(probe.decode(z).sum())
    used = {name for name, parameter in probe.named_parameters() if parameter.grad is not None}
    weights = dict(source.named_parameters())
    with torch.no_grad():
        for name, parameter in target.named_parameters():
            if name in used:
                parameter.copy_(weights[name])


def _inputs(
    data: Any, factors: NDArray[Any] | None, seed: int, most: int = 20_000
) -> tuple[Images, NDArray[Any] | None]:
    """Return at most 20,000 inputs as one array, with their factors where there are any."""
    if isinstance(data, Dataset):
        drawn = data.sample(min(most, len(data)), seed)
        sources = None if data.sources is None else np.asarray(data.sources)[drawn.indices]
        known: NDArray[Any] | None = sources if sources is not None else drawn.factors
        images: NDArray[Any] = drawn.images
    else:
        if not hasattr(data, "shape") and isinstance(data, Iterable):
            batches = []
            for batch in data:
                batches.append(np.asarray(batch[0] if isinstance(batch, list | tuple) else batch))
                if sum(len(each) for each in batches) >= most:
                    break
            images = np.concatenate(batches)[:most] if batches else np.empty((0, 1))
        else:
            images = np.asarray(data)[:most]
        known = None if factors is None else np.asarray(factors)[: len(images)]
    if images.dtype.kind not in "fiub" or images.ndim < 2 or len(images) < 60:
        raise DataError(
            f"expected at least 60 inputs as numbers of shape (n, ...), got {images.dtype} of shape {images.shape}"
        )
    images = images.astype(np.float32) / (255.0 if images.dtype == np.uint8 else 1.0)
    if not np.isfinite(images).all():
        raise DataError("expected finite numbers in the data, got NaN or infinite values; clean them first")
    if known is not None and len(known) != len(images):
        raise DataError(f"expected factors of {len(images)} inputs, got {len(known)}")
    return np.ascontiguousarray(images, dtype=np.float32), known


def _split(count: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return 70% of the inputs to train on, 15% to choose by and 15% to prove it on."""
    order = stream(seed, "split of a cure").permutation(count)
    first, second = int(0.7 * count), int(0.85 * count)
    return order[:first], order[first:second], order[second:]


def _principal_cross_entropy(images: Images, latents: int) -> float:
    """Return the cross-entropy of the images with their reconstruction from as many principal components, clipped."""
    rows = images[:2000].reshape(min(len(images), 2000), -1).astype(np.float64)
    mean = rows.mean(axis=0)
    basis = np.linalg.svd(rows - mean, full_matrices=False)[2][:latents]
    p = (mean + (rows - mean) @ basis.T @ basis).clip(0.01, 0.99)
    return float(-(rows * np.log(p) + (1 - rows) * np.log(1 - p)).sum(axis=1).mean())
