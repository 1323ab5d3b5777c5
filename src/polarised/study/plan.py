"""What a study will cost, before anything starts: runs, steps, and core-hours from a short calibration here."""

import functools
import time
from collections import Counter
from dataclasses import dataclass, replace

from polarised import catalogue
from polarised.study import measures
from polarised.study.config import Run
from polarised.study.further.rows import further_scores
from polarised.study.grid import Study
from polarised.study.run import dataset_of

__all__ = ["Cost", "Plan", "plan"]


@dataclass(frozen=True)
class Cost:
    """What runs of one kind cost on one core of this machine."""

    kind: str
    runs: int
    steps: int
    seconds_per_step: float
    evaluation_seconds: float

    @property
    def core_seconds(self) -> float:
        """The time of all these runs on one core."""
        return self.steps * self.seconds_per_step + self.runs * self.evaluation_seconds


@dataclass(frozen=True)
class Plan:
    """The cost of a study, kind by kind."""

    costs: tuple[Cost, ...]

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
        """Return how long `workers` cores like this one would need, in days."""
        return self.core_hours / 24 / workers


def plan(study: Study, *, calibration_steps: int = 30) -> Plan:
    """Count the runs and steps of a study and time a few steps and a small evaluation of every kind of run.

    Kinds differ in dataset, network or objective. One thread is used, as the workers of a study do.
    """
    import torch

    groups: dict[str, list[Run]] = {}
    for run in study.runs:
        kind = f"{run.objective['name']} · {run.model['architecture']['name']} · {run.dataset['name']}"
        groups.setdefault(kind, []).append(run)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        measured = {kind: _calibrated(runs[0], calibration_steps) for kind, runs in groups.items()}
    finally:
        torch.set_num_threads(threads)
    counted = Counter({kind: sum(run.training.steps for run in runs) for kind, runs in groups.items()})
    return Plan(tuple(Cost(kind, len(runs), counted[kind], *measured[kind]) for kind, runs in groups.items()))


def _calibrated(run: Run, steps: int) -> tuple[float, float]:
    """Return processor seconds a step and an evaluation, which others on this machine do not lengthen.

    The first steps warm caches and are not counted.
    """
    import warnings

    from polarised.models import build_vae
    from polarised.training import train

    dataset = dataset_of(run)
    vae = build_vae(run.model, dataset.shape, dataset.auxiliary_size, run.seed)
    objective = catalogue.build("polarised.objectives.papers", run.objective)
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
    share = 10
    small = replace(run, evaluation=replace(run.evaluation, examples=max(200, run.evaluation.examples // share)))
    began = time.process_time()
    encodings = measures.encode(small, vae, dataset)
    measures.reconstruction(small, vae, dataset)
    measures.scores(small, encodings)
    measures.downstream(small, encodings)
    per_example = (time.process_time() - began) / small.evaluation.examples
    began = time.process_time()
    further_scores(small, vae, dataset, encodings)
    further = time.process_time() - began
    return max(clock[2] - clock[1], 0.0) / steps, per_example * run.evaluation.examples + further
