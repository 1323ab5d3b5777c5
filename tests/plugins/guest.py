"""A package of somebody else: one entry of every kind, each written here alone and put into the catalogue here."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars
import torch
from matplotlib.figure import Figure
from torch import Tensor

from polarised.adapters.callables import Model
from polarised.data import Dataset, dataset_from_arrays
from polarised.models.architectures import mlp
from polarised.models.distributions import DiagonalGaussian
from polarised.models.likelihoods import Likelihood
from polarised.models.priors import StandardNormal
from polarised.objectives import Objective, Step
from polarised.objectives.schedules import Schedule
from polarised.objectives.terms import distortion, rate
from polarised.registry import register
from polarised.study.claims.claim import Claim, Statistic
from polarised.study.claims.decisions import above
from polarised.study.claims.expressions import number
from polarised.study.config import Run
from polarised.study.executors import Event
from polarised.study.stages import execute

WORK = "@misc{{Guest2026{0},\n  title = {{The {0} of a guest}},\n  author = {{A. Guest}},\n  year = {{2026}},\n}}"


@register(
    "dataset",
    title="dots",
    summary="one bright pixel",
    references=(WORK.format("Dots"),),
    licence="made here",
    images=64,
    shape=(1, 16, 16),
    factors={"row": 8, "column": 8},
)
def guest_dots() -> Dataset:
    """Return pictures of one bright pixel in each of 64 places."""
    rows, columns = np.divmod(np.arange(64), 8)
    images = np.full((64, 1, 16, 16), 0.1)
    images[np.arange(64), 0, 2 * rows, 2 * columns] = 0.9
    return dataset_from_arrays(
        images, factors=np.stack([rows, columns], axis=1), names=["row", "column"], name="guest_dots"
    )


@register("architecture", title="guest's network", summary="dense layers", references=(WORK.format("Network"),))
def guest_network(shape, latents, outputs_per_value=1, auxiliary_size=0, *, width: int = 12):
    """Build dense layers of one width.

    Args:
        width: Units of the hidden layer.
    """
    return mlp(shape, latents, outputs_per_value, auxiliary_size, widths=(width,))


@register("likelihood", summary="squared error", density=True, references=(WORK.format("Likelihood"),))
class GuestLikelihood(Likelihood):
    """Score x by log N(x; output, 1)."""

    def log_prob(self, x: Tensor, outputs: Tensor) -> Tensor:
        return torch.distributions.Normal(outputs, 1.0).log_prob(x).flatten(1).sum(1)

    def mean(self, outputs: Tensor) -> Tensor:
        return outputs


@register("prior", summary="N(0, variance I)", references=(WORK.format("Prior"),), example=({}, {"variance": 2.0}))
class GuestPrior(StandardNormal):
    """Place p(z) = N(0, variance I) on the codes.

    Args:
        variance: The variance of every variable.
    """

    def __init__(self, latents: int, auxiliary_size: int = 0, *, variance: float = 1.5) -> None:
        super().__init__(latents)
        self.variance = variance

    def _gaussian(self, like: Tensor) -> DiagonalGaussian:
        return DiagonalGaussian(torch.zeros_like(like), torch.full_like(like, self.variance).log())

    def log_density(self, z: Tensor) -> Tensor:
        return self._gaussian(z).log_prob(z)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        return super().sample(n, generator) * self.variance**0.5

    def kl(self, posterior: DiagonalGaussian, z: Tensor) -> Tensor:
        return posterior.kl(self._gaussian(posterior.mean))

    def moments(self, n: int) -> tuple[Tensor, Tensor]:
        zeros = torch.zeros(n, self.latents)
        return zeros, zeros + self.variance

    def kept(self, keep: list[int]) -> "GuestPrior":
        return GuestPrior(len(keep), variance=self.variance)


@register(
    "objective",
    title="guest VAE",
    summary="the rate weighted",
    symbol="w",
    strength=("weight",),
    references=(WORK.format("Objective"),),
    example=({}, {"weight": 3.0}),
    neutral=({"weight": 1.0},),
)
@dataclass(frozen=True, kw_only=True)
class GuestVAE(Objective):
    """Weigh the rate.

    Args:
        weight: The weight.
    """

    weight: float = 2.0

    def __call__(self, step: Step) -> dict[str, Tensor]:
        return {"distortion": distortion(step), "rate": self.weight * rate(step)}


@register("schedule", title="guest's rate", references=(WORK.format("Schedule"),))
def guest_rate(steps: int, *, share: float = 0.5) -> Schedule:
    """Keep a share of the rate.

    Args:
        steps: The length of the run.
        share: The share.

    Returns:
        The schedule.
    """
    return Schedule(lambda number, losses: share)


@register("metric", title="guest's score", reading="Larger is wider.", references=(WORK.format("Metric"),))
def guest_score(codes, *, power: float = 2.0) -> float:
    """Return mean |z|^power over the entries of codes.  [Guest2026Metric]

    >>> guest_score([[1.0, 2.0]])
    2.5
    """
    return float((np.abs(np.asarray(codes)) ** power).mean())


@register("estimator", references=(WORK.format("Estimator"),), example={"dataset_size": 240})
def guest_estimate(z, mean, variance, *, dataset_size: int) -> float:
    """Return 0, whatever the posteriors are.  [Guest2026Estimator]

    >>> guest_estimate([[0.0]], [[0.0]], [[1.0]], dataset_size=1)
    0.0
    """
    return 0.0


@register("measure", references=(WORK.format("Measure"),))
def guest_measure(vae, dataset, encodings, seed: int, *, scale: float = 1.0):
    """Measure the mean absolute code, times `scale`."""
    return [("guest_measure", None, "full", scale * float(np.abs(encodings.mean).mean()))]


@register("executor", summary="one run after the other", example={"jobs": 1})
def guest_executor(runs: Sequence[Run], root: str, command: str = "", *, jobs: int = 1) -> Iterator[Event]:
    """Do the runs in this very process.

    Args:
        jobs: How many at a time; there is one process.
    """
    for run in runs:
        yield Event("started", run)
        execute(run, root, command=command)
        yield Event("done", run, seconds=1.0)


guest_claim = register("claim", name="guest_claim", references=(WORK.format("Claim"),))(
    Claim(
        id="guest_claim",
        paper="own",
        place="the guest's own paper",
        quotation=("The guest's measure is positive",),
        scope="every model",
        statistics=(Statistic("the guest's measure", number("guest_measure"), above(0.0), "a sign", kind="sign"),),
    )
)


@register("figure", references=(WORK.format("Figure"),))
def guest_figure(table: polars.DataFrame, *, metric: str = "guest_measure") -> Figure:
    """Draw the guest's measure against strength."""
    figure = Figure()
    chosen = table.filter(polars.col("metric") == metric)
    figure.subplots().plot(chosen["strength"], chosen["value"], "o")
    return figure


@register("gallery")
def guest_study(material):
    """Draw the figure of the guest's study."""
    yield "guest_figure", guest_figure(material.table)


@register("page")
def guest_page(subject, path, *, title: str = "") -> Path:
    """Write the headline of a diagnosis and nothing else."""
    Path(path).write_text(title + subject.headline)
    return Path(path)


class GuestModel:
    """A model of the guest's own kind, which no reader of ours would understand."""

    def run(self, batch):
        values = np.asarray(batch, dtype=np.float64).reshape(len(batch), -1)
        return {"centre": values[:, :3], "precision": np.full((len(batch), 3), 50.0)}


@register(
    "adapter",
    title="guest's models",
    summary="a model of the guest's own kind",
    references=(WORK.format("Adapter"),),
    libraries=("guest",),
)
def guest_adapter(model) -> Model:
    """Return what is known of a guest's model."""

    def encode(batch):
        said = model.run(batch)
        return said["centre"], 1 / said["precision"]

    return Model((encode,), (model,), name="a guest", scale_kind="variance", kind="guest")
