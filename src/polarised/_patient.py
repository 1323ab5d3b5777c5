"""A model and its data during a cure: the model as a VAE of the library, its use of the code, and why it collapsed."""

import copy
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from polarised.adapters.batches import is_pair
from polarised.data.dataset import Dataset
from polarised.errors import ConfigError, DataError
from polarised.models.likelihoods import Bernoulli, Gaussian, Likelihood
from polarised.models.priors import StandardNormal
from polarised.models.vae import VAE
from polarised.random import seed_for, stream
from polarised.regime import Encodings, Regime, classify
from polarised.regime.forecast import Forecast

__all__ = [
    "CAUSES",
    "Cause",
    "Divided",
    "Evidence",
    "Images",
    "Measurement",
    "Parts",
    "Scale",
    "as_vae",
    "copy_decoder",
    "examine",
    "measure",
    "name_cause",
    "predict_factors",
    "principal_cross_entropy",
    "read_inputs",
    "read_parts",
    "split_inputs",
    "unwrapped",
    "with_fresh_weights",
]

Scale = Literal["log_variance", "variance", "log_std", "std"]
Images = NDArray[np.float32]
Array = NDArray[np.float64]
Parts = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
Cause = Literal["healthy", "diverged", "free decoder", "learning rate", "spectrum", "warm-up", "steps", "unclear"]

CAUSES: dict[Cause, str] = {
    "healthy": "the code carries what it should at this setting",
    "diverged": "training diverged: the learning rate is too high",
    "free decoder": "the decoder reconstructs as well from the code of another input: it needs no code",
    "learning rate": "the learning rate was so high that units died or the code became constant",
    "spectrum": "beta times the decoder variance is above the spectrum of the data, where no code reduces the loss",
    "warm-up": "collapse is a local minimum here, and without a slow rise of beta training does not leave it",
    "steps": "training was stopped too early: the loss is still falling",
    "unclear": "there is no evidence for any of the known causes",
}


def read_inputs(
    data: Any, factors: NDArray[Any] | None, seed: int, most: int = 20_000
) -> tuple[Images, NDArray[Any] | None]:
    """Return at most 20,000 inputs as one array, with their factors if there are any."""
    if isinstance(data, Dataset):
        drawn = data.sample(min(most, len(data)), seed)
        sources = None if data.sources is None else np.asarray(data.sources)[drawn.indices]
        known: NDArray[Any] | None = sources if sources is not None else drawn.factors
        images: NDArray[Any] = drawn.images
    else:
        if isinstance(data, tuple) and len(data) == 2 and is_pair(data):
            data, factors = data[0], data[1] if factors is None else factors
        if not hasattr(data, "shape") and isinstance(data, Iterable):
            batches = []
            for batch in data:
                batches.append(np.asarray(batch[0] if isinstance(batch, list | tuple) else batch))
                if sum(len(each) for each in batches) >= most:
                    break
            if len({each.shape[1:] for each in batches}) > 1:
                shapes = ", ".join(str(each.shape) for each in batches[:4])
                raise DataError(f"expected batches of inputs of one shape, got {shapes}; pass the inputs alone")
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


@dataclass(frozen=True, eq=False)
class Divided:
    """The inputs that a model was trained on, and those that were held out."""

    trained: Dataset
    held_out: Dataset


def read_parts(data: Any, factors: NDArray[Any] | None, seed: int) -> tuple[Images, NDArray[Any] | None, Parts]:
    """Return the inputs, their factors, and the rows for training (70%), validation (15%) and testing (15%).

    Of `Divided` data, the trained inputs are for training, and one half each of the others for validation and testing.
    """
    if not isinstance(data, Divided):
        images, known = read_inputs(data, factors, seed)
        return images, known, split_inputs(len(images), seed)
    seen, known = read_inputs(data.trained, None, seed, most=14_000)
    others, known_of_others = read_inputs(data.held_out, None, seed, most=6_000)
    if known is not None and known_of_others is not None:
        known = np.concatenate([known, known_of_others])
    order = len(seen) + stream(seed, "split of a cure").permutation(len(others))
    half = len(others) // 2
    return np.concatenate([seen, others]), known, (np.arange(len(seen)), order[:half], order[half:])


def split_inputs(count: int, seed: int) -> Parts:
    """Return 70% of the inputs for training, 15% for validation and 15% for testing."""
    order = stream(seed, "split of a cure").permutation(count)
    first, second = int(0.7 * count), int(0.85 * count)
    return order[:first], order[first:second], order[second:]


class _Encode(nn.Module):
    """The encoder of a module of another library, with the interface of this one."""

    def __init__(self, module: nn.Module, scale_kind: Scale, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.module, self.scale_kind, self.shape = module, scale_kind, shape

    def forward(self, x: Tensor, u: Tensor | None = None) -> tuple[Tensor, Tensor]:
        mean, scale = self.module.encode(x)[:2]  # type: ignore[operator]
        mean, scale = mean.flatten(1), scale.flatten(1)
        if self.scale_kind == "log_variance":
            return mean, scale
        if self.scale_kind == "log_std":
            return mean, 2 * scale
        return mean, (1 if self.scale_kind == "variance" else 2) * scale.clamp_min(1e-12).log()


class _Decode(nn.Module):
    """The decoder of a module of another library, with the interface of this one: the mean, or logits."""

    def __init__(self, module: nn.Module, shape: tuple[int, ...], latents: tuple[int, ...], *, logits: bool) -> None:
        super().__init__()
        self.module, self.shape, self.latents, self.logits = module, shape, latents, logits

    def forward(self, z: Tensor) -> Tensor:
        outputs: Tensor = self.module.decode(z.reshape(len(z), *self.latents))  # type: ignore[operator]
        outputs = outputs.reshape(len(z), *self.shape)
        return outputs if self.logits else outputs.clamp(1e-6, 1 - 1e-6).logit()


def as_vae(model: nn.Module, images: Images, likelihood: str, scale_kind: Scale, variance: float | None) -> VAE:
    """Return a copy of any model as a VAE of the library; refuse a model without encoder or decoder."""
    if isinstance(model, VAE):
        own = copy.deepcopy(model)
        if not isinstance(own.prior, StandardNormal):
            raise ConfigError("expected a model with the standard normal prior; the cures were measured only with it")
        if not isinstance(own.likelihood, Bernoulli | Gaussian) or own.likelihood.outputs_per_value != 1:
            raise ConfigError(
                "expected a Bernoulli likelihood or a Gaussian one with a single variance; the cures support no other"
            )
        if own.shape != images.shape[1:]:
            raise DataError(f"expected inputs of shape {own.shape}, as those of the model, got {images.shape[1:]}")
        return own.eval()
    for name in ("encode", "decode"):
        if not callable(getattr(model, name, None)):
            raise DataError(
                f"expected a module with encode(x) and decode(z), {type(model).__name__} has no {name}; "
                "wrap it in a module that has both"
            )
    if likelihood not in ("gaussian", "bernoulli"):
        raise ConfigError(f"expected likelihood as gaussian or bernoulli, got {likelihood!r}")
    own_module = copy.deepcopy(model).eval()
    shape = images.shape[1:]
    probe = torch.from_numpy(images[: min(len(images), 64)])
    try:
        with torch.no_grad():
            mean, scale = own_module.encode(probe)[:2]  # type: ignore[operator]
            outputs = own_module.decode(mean)  # type: ignore[operator]
    except Exception as error:
        raise DataError(
            f"expected encode(x) to return (mean, {scale_kind}) and decode(mean) to return x for inputs of shape "
            f"{shape}, got an error: {error}"
        ) from error
    if mean.shape != scale.shape or outputs.numel() != probe.numel():
        raise DataError(
            f"expected mean and {scale_kind} of one shape and an output for every value of x, got {tuple(mean.shape)}, "
            f"{tuple(scale.shape)} and {tuple(outputs.shape)} for inputs {tuple(probe.shape)}"
        )
    inside = bool(torch.isfinite(outputs).all() and outputs.min() >= 0 and outputs.max() <= 1)
    logits = likelihood == "gaussian" or not inside
    encoder = _Encode(own_module, scale_kind, shape)
    decoder = _Decode(own_module, shape, tuple(mean.shape[1:]), logits=logits)
    chosen: Likelihood = Bernoulli() if likelihood == "bernoulli" else Gaussian(variance=variance or 1.0)
    return VAE(encoder, decoder, StandardNormal(mean[0].numel()), chosen).eval()  # type: ignore[arg-type]


def unwrapped(vae: VAE) -> nn.Module:
    return vae.encoder.module if isinstance(vae.encoder, _Encode) else vae


def with_fresh_weights(vae: VAE, make: Callable[[int], nn.Module] | None, scale_kind: Scale, seed: int) -> VAE:
    """Return the same network with new weights: those of `make`, or by resetting each layer."""
    new = copy.deepcopy(vae)
    if make is not None:
        made = make(seed)
        if isinstance(made, VAE):
            return VAE(made.encoder, made.decoder, new.prior, new.likelihood)
        unwrapped(new).load_state_dict(made.state_dict())
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
            f"expected layers that can reset their weights, {left[0]} has no such layer; "
            "pass fresh=, a function that creates the module from a seed"
        )
    return new


def copy_decoder(source: VAE, target: VAE) -> None:
    """Copy the weights of the decoder from one model to another: those that affect its outputs."""
    z = torch.zeros(2, source.latents).normal_(generator=torch.Generator().manual_seed(0))
    probe = copy.deepcopy(source)
    if isinstance(probe.encoder, _Encode):
        # Some modules pass data from encode to decode.
        probe.encoder(torch.zeros(2, *source.shape))
    probe.zero_grad()
    torch.autograd.backward(probe.decode(z).sum())
    used = {name for name, parameter in probe.named_parameters() if parameter.grad is not None}
    weights = dict(source.named_parameters())
    with torch.no_grad():
        for name, parameter in target.named_parameters():
            if name in used:
                parameter.copy_(weights[name])


def principal_cross_entropy(images: Images, latents: int) -> float:
    """Return the cross-entropy of the images with their clipped reconstruction from as many principal components."""
    rows = images[:2000].reshape(min(len(images), 2000), -1).astype(np.float64)
    mean = rows.mean(axis=0)
    basis = np.linalg.svd(rows - mean, full_matrices=False)[2][:latents]
    p = (mean + (rows - mean) @ basis.T @ basis).clip(0.01, 0.99)
    return float(-(rows * np.log(p) + (1 - rows) * np.log(1 - p)).sum(axis=1).mean())


def predict_factors(
    codes: NDArray[np.float64], factors: NDArray[Any], seen: NDArray[np.float64], truth: NDArray[Any]
) -> float:
    """Return how well 15 neighbours among codes predict the factors of other codes: mean accuracy or R² over factors.

    A factor of more than 10 values is a quantity, scored by R², any other a label; a constant factor is
    excluded.
    """
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

    width = np.maximum(codes.std(axis=0), 1e-12)
    found = []
    for column, other in zip(factors.reshape(len(factors), -1).T, truth.reshape(len(truth), -1).T, strict=True):
        values = np.unique(column)
        if len(values) < 2:
            continue
        kind = KNeighborsRegressor if len(values) > 10 else KNeighborsClassifier
        predicted = kind(min(15, len(codes))).fit(codes / width, column).predict(seen / width)
        if len(values) > 10:
            total = float(((other - other.mean()) ** 2).mean())
            found.append(1 - float(((other - predicted) ** 2).mean()) / max(total, 1e-12))
        else:
            found.append(float((predicted == other).mean()))
    return float(np.mean(found)) if found else 0.0


@dataclass(frozen=True, eq=False)
class Measurement:
    """The results of a model for every input: arrays over inputs, in nats or squared units, and its regime.

    `error` is the squared error through a sample, `shuffled` that with the code of another input, `misfit` the negative
    log-likelihood if it is not a squared error.
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
        """Whether all values are finite."""
        return all(bool(np.isfinite(part).all()) for part in (self.error, self.rate, self.mean, self.variance))

    @property
    def explained(self) -> float:
        """The share of the variance of the data reconstructed through a sample."""
        return float(1 - self.error.mean() / self.total) if self.finite else -math.inf

    @property
    def regime(self) -> Regime:
        """The types of the variables."""
        return classify(Encodings(self.mean, variance=self.variance))

    def bound(self, noise: float) -> Array:
        """Return the negative evidence lower bound of every input at a decoder variance, or for binary data."""
        if self.misfit is not None and self.binary:
            return self.misfit + self.rate
        return self.error / (2 * noise) + 0.5 * self.values * math.log(2 * math.pi * noise) + self.rate

    @property
    def noise(self) -> float:
        """The decoder variance that fits these errors best."""
        return max(float(self.error.mean()) / self.values, 1e-12)


def measure(vae: VAE, images: NDArray[np.float32], *, seed: int = 0, batch: int = 256) -> Measurement:
    """Encode, sample and decode inputs once, and again with the codes of others; the model is not changed."""
    generator = torch.Generator().manual_seed(seed_for(seed, "measurement"))
    found: dict[str, list[Tensor]] = {
        name: [] for name in ("error", "shuffled", "misfit", "rate", "mean", "variance", "codes")
    }
    # A cross-entropy is a likelihood only for ones and zeros; grey values are compared by a fitted Gaussian.
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
    """The numbers that determine a cause."""

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
    """Measure a model on its training data and compare it with the forecast at its setting.

    `excess` is the loss of the model minus that of the best linear model, both divided by beta: a model with a positive
    excess is not fully trained. It is known only for a Gaussian likelihood.
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
    """Return the first cause with evidence; None if only further training can decide."""
    e = evidence
    if not e.finite or e.rate > 1e3 or e.error_share > 100:
        return "diverged"
    if e.error_share > 2:
        # Far worse than a constant: at the very start of training, or after it has diverged.
        return None if e.falling is None else "steps" if e.falling else "diverged"
    if _healthy(e, expected):
        return "healthy"
    if e.shuffled_share < 0.9 and e.shuffled_share - e.error_share < 0.1 * (1 - e.error_share):
        return "free decoder"
    # A constant code with a rate is also typical of the first steps of training.
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
    """The activations of one layer so far, by unit."""

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
        """The share of units that are 0 (or, if smooth, constant) for every input."""
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
