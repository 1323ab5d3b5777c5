"""What a model does with its code, measured in one pass over the data, and why it collapsed if it did."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from polarised.models.likelihoods import Gaussian
from polarised.models.vae import VAE
from polarised.random import seed_for
from polarised.regime import Encodings, Regime, classify
from polarised.regime.forecast import Forecast

__all__ = ["CAUSES", "Cause", "Evidence", "Measurement", "examine", "measure", "name_cause"]

Array = NDArray[np.float64]
Cause = Literal["healthy", "diverged", "free decoder", "learning rate", "spectrum", "warm-up", "steps", "unclear"]

CAUSES: dict[Cause, str] = {
    "healthy": "the code carries what it should at this setting",
    "diverged": "training diverged: the learning rate is too high",
    "free decoder": "the decoder reconstructs as well from the code of another input: it needs no code",
    "learning rate": "the learning rate was so high that units died and the code became constant",
    "spectrum": "beta times the decoder variance is above the spectrum of the data, where no code pays for itself",
    "warm-up": "collapse is a local minimum here, and without a slow rise of beta training does not leave it",
    "steps": "training was stopped too early: the loss is still falling",
    "unclear": "none of the known causes shows",
}


@dataclass(frozen=True, eq=False)
class Measurement:
    """What a model does with every input: arrays over inputs, in nats or squared units, and its regime.

    `error` is the squared error through a sample, `shuffled` that with the code of another input, `misfit` the negative
    log-likelihood where it is no squared error.
    """

    error: Array
    shuffled: Array
    misfit: Array | None
    rate: Array
    mean: Array
    variance: Array
    codes: Array
    binary: bool
    total: float
    values: int

    @property
    def finite(self) -> bool:
        """Whether every number is one."""
        return all(bool(np.isfinite(part).all()) for part in (self.error, self.rate, self.mean, self.variance))

    @property
    def explained(self) -> float:
        """The share of the variance of the data that is reconstructed through a sample."""
        return float(1 - self.error.mean() / self.total) if self.finite else -math.inf

    @property
    def regime(self) -> Regime:
        """The types of the variables."""
        return classify(Encodings(self.mean, variance=self.variance))

    def bound(self, noise: float) -> Array:
        """Return the negative evidence lower bound of every input at a decoder variance, or of binary data."""
        if self.misfit is not None and self.binary:
            return self.misfit + self.rate
        return self.error / (2 * noise) + 0.5 * self.values * math.log(2 * math.pi * noise) + self.rate

    @property
    def noise(self) -> float:
        """The decoder variance that fits these errors best."""
        return max(float(self.error.mean()) / self.values, 1e-12)


def measure(vae: VAE, images: NDArray[np.float32], *, seed: int = 0, batch: int = 256) -> Measurement:
    """Encode, sample and decode inputs once, and once more with the codes of others; the model is left as it was."""
    generator = torch.Generator().manual_seed(seed_for(seed, "measurement"))
    found: dict[str, list[Tensor]] = {
        name: [] for name in ("error", "shuffled", "misfit", "rate", "mean", "variance", "codes")
    }
    # A cross-entropy is a likelihood of ones and zeros alone; grey values are compared by a fitted Gaussian.
    binary = bool(np.isin(images, (0.0, 1.0)).all())
    training = vae.training
    vae.eval()
    with torch.no_grad():
        for start in range(0, len(images), batch):
            x = torch.from_numpy(images[start : start + batch])
            posterior = vae.posterior(x)
            z = posterior.sample(generator)
            outputs = vae.decode(z)
            found["error"].append(_squared(vae, x, outputs))
            found["shuffled"].append(_squared(vae, x, vae.decode(z.roll(1, 0))))
            if not isinstance(vae.likelihood, Gaussian):
                found["misfit"].append(-vae.likelihood.log_prob(x, outputs))
            found["rate"].append(vae.prior.kl(posterior, z).sum(1))
            found["mean"].append(posterior.mean)
            found["variance"].append(posterior.variance)
            found["codes"].append(z)
    vae.train(training)
    arrays: dict[str, Any] = {name: torch.cat(parts).double().numpy() for name, parts in found.items() if parts}
    flat = images.reshape(len(images), -1).astype(np.float64)
    arrays.setdefault("misfit", None)
    return Measurement(**arrays, binary=binary, total=float(flat.var(axis=0).sum()), values=flat.shape[1])


def _squared(vae: VAE, x: Tensor, outputs: Tensor) -> Tensor:
    return ((x - vae.likelihood.mean(outputs)) ** 2).flatten(1).sum(1)


@dataclass(frozen=True)
class Evidence:
    """The numbers a cause is named by."""

    finite: bool
    alive: int
    rate: float
    noise_share: float
    error_share: float
    shuffled_share: float
    explained: float
    dead_share: float
    largest_eigenvalue: float
    threshold: float
    cluster_gain: float
    excess: float | None
    excess_error: float | None
    falling: bool | None = None

    @property
    def relative(self) -> float:
        """The largest eigenvalue as a multiple of the threshold."""
        return self.largest_eigenvalue / self.threshold


def examine(
    vae: VAE, images: NDArray[np.float32], expected: Forecast, *, seed: int = 0
) -> tuple[Measurement, Evidence]:
    """Measure a model on its training data and hold it against the forecast at its own setting.

    `excess` is the model's loss minus that of the best linear model, both divided by beta: a model with a positive one
    is not trained to the end. It is known under a Gaussian likelihood only.
    """
    with _watched(vae) as layers:
        found = measure(vae, images, seed=seed)
    b = expected.threshold
    finite = found.finite
    excess = excess_error = None
    if finite and expected.likelihood == "gaussian":
        linear = (1 - expected.explained) * expected.spectrum.total / (2 * b) + expected.rate
        own = found.error / (2 * b) + found.rate
        excess, excess_error = float(own.mean() - linear), float(own.std() / math.sqrt(len(own)))
    regime = found.regime if finite else None
    return found, Evidence(
        finite=finite,
        alive=0 if regime is None else len(regime.alive),
        rate=float(found.rate.mean()) if finite else math.inf,
        noise_share=1.0 if regime is None else float(regime.statistics.noise_share.min()),
        error_share=float(found.error.mean()) / found.total if finite else math.inf,
        shuffled_share=float(found.shuffled.mean()) / found.total if finite else math.inf,
        explained=found.explained,
        dead_share=max((layer.dead for layer in layers), default=0.0),
        largest_eigenvalue=float(expected.spectrum.eigenvalues[0]),
        threshold=b,
        cluster_gain=expected.gain,
        excess=excess,
        excess_error=excess_error,
    )


def name_cause(evidence: Evidence, expected: Forecast, *, alpha: float = 0.1) -> Cause | None:
    """Return the first cause whose evidence shows; None where only training on can tell."""
    e = evidence
    if not e.finite or e.rate > 1e3 or e.error_share > 100:
        return "diverged"
    if e.error_share > 2:
        # Far worse than a constant: at the very start of a training, or after it has gone astray.
        return None if e.falling is None else "steps" if e.falling else "diverged"
    if _healthy(e, expected):
        return "healthy"
    if e.shuffled_share < 0.9 and e.shuffled_share - e.error_share < 0.1 * (1 - e.error_share):
        return "free decoder"
    # A constant code that costs something is also what the first steps of any training look like.
    constant = e.noise_share >= 1 - alpha and e.rate > 0.1
    if e.dead_share >= 0.7 or (constant and e.dead_share >= 0.5):
        return "learning rate"
    if e.relative <= 1:
        return "warm-up" if e.cluster_gain > 1 else "spectrum"
    if e.excess is not None and e.excess_error is not None and e.excess <= max(0.05, 2 * e.excess_error) and e.alive:
        return "unclear"
    if e.falling is None:
        return None
    if e.falling:
        return "steps"
    return "learning rate" if constant else "warm-up"


def _healthy(e: Evidence, expected: Forecast) -> bool:
    if not e.alive:
        return False
    trained = e.excess is not None and e.excess_error is not None and e.excess <= 2 * e.excess_error
    useful = e.explained >= 0.9 * expected.explained and e.explained > 0.05
    return useful or (trained and e.explained > 0.05)


class _Layer:
    """What one layer of activations has done so far, unit by unit."""

    def __init__(self, rectified: bool) -> None:
        self.rectified = rectified
        self.least: Tensor | None = None
        self.most: Tensor | None = None

    def see(self, values: Tensor) -> None:
        flat = values.detach().transpose(0, 1).flatten(1) if values.ndim > 2 else values.detach().T
        least, most = flat.min(1).values, flat.max(1).values
        self.least = least if self.least is None else torch.minimum(self.least, least)
        self.most = most if self.most is None else torch.maximum(self.most, most)

    @property
    def dead(self) -> float:
        """The share of units that are 0 (or, if smooth, the same) for every input."""
        if self.least is None or self.most is None:
            return 0.0
        still = self.most == 0 if self.rectified else (self.most - self.least) <= 1e-3 * self.most.abs()
        return float(still.float().mean())


@contextmanager
def _watched(vae: VAE) -> Iterator[list[_Layer]]:
    smooth = (nn.Tanh, nn.Sigmoid, nn.SiLU, nn.GELU, nn.ELU, nn.Softplus)
    layers: list[_Layer] = []
    handles = []
    for module in vae.modules():
        if isinstance(module, (nn.ReLU, *smooth)):
            layer = _Layer(isinstance(module, nn.ReLU))
            layers.append(layer)
            handles.append(module.register_forward_hook(lambda _m, _i, out, layer=layer: layer.see(out)))
    try:
        yield layers
    finally:
        for handle in handles:
            handle.remove()
