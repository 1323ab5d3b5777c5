"""What a study will cost and can decide before anything starts: a short calibration, and the power of its seeds."""

import functools
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from polarised.study import measures
from polarised.study.claims import chosen_claims
from polarised.study.claims.check import RESERVED_SEEDS
from polarised.study.claims.claim import Claim
from polarised.study.claims.decisions import Kind, decidable_effect
from polarised.study.config import Run
from polarised.study.further import further_scores
from polarised.study.grid import Point, Study
from polarised.study.outlook import outlook_of_runs
from polarised.study.stages import build_parts, dataset_of

__all__ = ["Cost", "Plan", "Power", "decidable", "plan"]


@dataclass(frozen=True)
class Cost:
    """What runs of one kind cost on one core of this machine; `longest` is the most steps one of them has."""

    kind: str
    runs: int
    steps: int
    longest: int
    seconds_per_step: float
    evaluation_seconds: float

    @property
    def core_seconds(self) -> float:
        """The time of all these runs on one core."""
        return self.steps * self.seconds_per_step + self.runs * self.evaluation_seconds

    @property
    def longest_seconds(self) -> float:
        """The time of the longest of these runs."""
        return self.longest * self.seconds_per_step + self.evaluation_seconds


@dataclass(frozen=True)
class Power:
    """What the planned seeds can decide about one statistic of a claim, in four studies of five.

    `effect` is the distance from the margin in standard deviations between seeds for a mean or a median, and the share
    of seeds on one side for a sign or a share; `size` the same in the statistic's unit where that is known.
    """

    claim: str
    statistic: str
    kind: Kind
    seeds: int
    effect: float | None
    size: float | None

    @property
    def words(self) -> str:
        """The effect in words.

        >>> Power("RTC-F3L", "gap", "mean", 3, None, None).words
        'nothing: 6 seeds are the fewest'
        >>> Power("DD-F2iso", "score", "mean", 34, 0.5, 0.05).words
        '0.5 standard deviations between seeds from the margin, 0.05'
        """
        if self.effect is None:
            return "nothing: 6 seeds are the fewest"
        if self.kind in ("sign", "share"):
            return f"{self.effect:.0%} of seeds on one side"
        size = "" if self.size is None else f", {self.size:.2g}"
        return f"{self.effect:.2g} standard deviations between seeds from the margin{size}"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON types."""
        return asdict(self)


@dataclass(frozen=True)
class Plan:
    """The cost of a study by kind of run, what to expect of its runs, and what its seeds can decide."""

    costs: tuple[Cost, ...]
    title: str = ""
    outlook: str = ""
    powers: tuple[Power, ...] = ()

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return sum(cost.runs for cost in self.costs)

    @property
    def steps(self) -> int:
        """How many training steps all runs have together."""
        return sum(cost.steps for cost in self.costs)

    @property
    def core_hours(self) -> float:
        """How long one core of this machine would need."""
        return sum(cost.core_seconds for cost in self.costs) / 3600

    def days(self, workers: int) -> float:
        """Return how long `workers` cores like this one would need, in days: at least as long as the longest run.

        >>> cost = Cost("mlp", runs=2, steps=86_400, longest=43_200, seconds_per_step=1, evaluation_seconds=0)
        >>> two = Plan((cost,))
        >>> two.days(1), two.days(2), two.days(64)
        (1.0, 0.5, 0.5)
        """
        longest = max((cost.longest_seconds for cost in self.costs), default=0.0)
        return max(self.core_hours / 24 / workers, longest / 86_400)


def plan(study: Study, *, calibration_steps: int = 30) -> Plan:
    """Count the runs and steps of a study and time a few steps and a small evaluation of every kind of run.

    Kinds differ in dataset, network, objective, batch or how often they are looked at. One thread is used, as the
    workers of a study do.
    """
    import torch

    groups: dict[str, list[Run]] = {}
    for run in study.runs:
        groups.setdefault(_kind(run), []).append(run)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        measured = {kind: _calibrated(runs[0], calibration_steps) for kind, runs in groups.items()}
    finally:
        torch.set_num_threads(threads)
    steps = {kind: [run.training.steps for run in runs] for kind, runs in groups.items()}
    costs = tuple(Cost(k, len(many), sum(many), max(many), *measured[k]) for k, many in steps.items())
    powers = decidable(chosen_claims(study.claims), study.points)
    return Plan(costs, study.title, outlook_of_runs(study.runs), powers)


def decidable(claims: Iterable[Claim], points: Iterable[Point]) -> tuple[Power, ...]:
    """Return for each claim which effect the seeds of a planned study can decide.

    Args:
        claims: The claims of the study.
        points: Its runs, as they are planned.

    Returns:
        One entry for each statistic of a claim that some method of the study is about; of several methods and datasets
        the one with the fewest seeds counts.
    """
    seeds: dict[tuple[str, str], set[int]] = {}
    for point in points:
        seed = int(point.labels["seed"])
        if seed < RESERVED_SEEDS:
            seeds.setdefault((str(point.labels["method"]), str(point.labels["dataset"])), set()).add(seed)
    found = []
    for claim in claims:
        counts = [len(own) for (method, _), own in seeds.items() if claim.concerns(method)]
        for statistic in claim.statistics if counts else ():
            fewest = min(counts)
            effect = decidable_effect(fewest, kind=statistic.kind) if fewest >= claim.least_seeds else None
            deviation = getattr(statistic, "deviation", None)
            size = effect * deviation if effect is not None and deviation is not None else None
            found.append(Power(claim.id, statistic.words, statistic.kind, fewest, effect, size))
    return tuple(found)


def _kind(run: Run) -> str:
    """Return what the time of a step and of an evaluation depends on, in words."""
    parts = [run.objective["name"], _spec(run.model["architecture"]), _spec(run.dataset)]
    if (latents := run.model["latents"]) != 10:
        parts.append(f"{latents} latents")
    if (batch := run.training.batch_size) != 64:
        parts.append(f"batches of {batch}")
    if run.snapshots.every:
        parts.append(f"snapshots.every={run.snapshots.every}")
    return " · ".join(parts)


def _spec(part: Mapping[str, Any]) -> str:
    """Return a part by its name and settings.

    >>> _spec({"name": "mlp", "widths": [128, 128]}), _spec({"name": "dsprites"})
    ('mlp(widths=[128, 128])', 'dsprites')
    """
    settings = ", ".join(f"{key}={value}" for key, value in part.items() if key != "name")
    return f"{part['name']}({settings})" if settings else str(part["name"])


def _calibrated(run: Run, steps: int) -> tuple[float, float]:
    """Return processor seconds a step and an evaluation, which others on this machine do not lengthen.

    The first steps warm caches and are not counted; a look at the regime is shared among the steps between two.
    """
    import warnings

    from polarised.training import train

    dataset = dataset_of(run)
    vae, objective = build_parts(dataset, model=run.model, objective=run.objective, seed=run.seed)
    brief = functools.partial(
        train, vae, objective, dataset, batch_size=run.training.batch_size, precision=run.training.precision
    )
    clock = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for count in (5, 5, 5 + steps):
            began = time.process_time()
            brief(steps=count, progress=False)
            clock.append(time.process_time() - began)
    looks = 0.0
    for hook in measures.snapshot_hooks(run, dataset):
        hook(0, vae)
        began = time.process_time()
        hook(hook.every, vae)
        looks += (time.process_time() - began) / hook.every
    share = 10
    asked = run.evaluation
    fewer = replace(asked, examples=max(200, asked.examples // share), downstream_test=asked.downstream_test // share)
    small = replace(run, evaluation=fewer)
    began = time.process_time()
    encodings = measures.encode(small, vae, dataset)
    measures.reconstruction(small, vae, dataset)
    measures.scores(small, encodings)
    unseen = measures.encode_unseen(small, vae, dataset) if fewer.unseen else None
    measures.downstream(small, encodings, unseen)
    per_example = (time.process_time() - began) / fewer.examples
    began = time.process_time()
    further_scores(small, vae, dataset, encodings)
    further = time.process_time() - began
    return max(clock[2] - clock[1], 0.0) / steps + looks, per_example * asked.examples + further
