"""What a study will cost and can decide before anything starts: a short calibration, and the power of its seeds."""

import functools
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from polarised.study import measures
from polarised.study.claims import chosen_claims
from polarised.study.claims.check import RESERVED_SEEDS
from polarised.study.claims.claim import Claim
from polarised.study.claims.decisions import Kind, decidable_effect
from polarised.study.config import Run, check_devices
from polarised.study.further import further_scores
from polarised.study.grid import Point, Study
from polarised.study.outlook import outlook_of_runs
from polarised.study.stages import build_parts, dataset_of

__all__ = ["Cost", "Plan", "Power", "decidable", "plan", "plan_models"]


@dataclass(frozen=True)
class Cost:
    """What runs of one kind cost on one core, or the one GPU, of this machine; `longest` is the most steps of one."""

    kind: str
    runs: int
    steps: int
    longest: int
    seconds_per_step: float
    evaluation_seconds: float
    device: str = "cpu"

    @property
    def core_seconds(self) -> float:
        """The time of all these runs on one core, or one GPU."""
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

    @property
    def short(self) -> str:
        """The effect in a few letters, for a table that says what they mean.

        >>> Power("DD-F2iso", "score", "mean", 34, 0.5, 0.05).short
        '0.5 sd (0.05)'
        """
        if self.effect is None:
            return "–"
        if self.kind in ("sign", "share"):
            return f"{self.effect:.0%}"
        return f"{self.effect:.2g} sd" + ("" if self.size is None else f" ({self.size:.2g})")

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON types."""
        return asdict(self)


@dataclass(frozen=True)
class Plan:
    """The cost of a study by kind of run, what to expect of its runs, and what its seeds can decide.

    `common` says what all kinds share; the name of each kind is what tells it from the others.
    """

    costs: tuple[Cost, ...]
    title: str = ""
    outlook: str = ""
    powers: tuple[Power, ...] = ()
    common: str = ""

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
        """How long one core of this machine would need for the runs that train on one."""
        return sum(cost.core_seconds for cost in self.costs if cost.device == "cpu") / 3600

    @property
    def gpu_hours(self) -> float:
        """How long one GPU of this machine would need for the runs that train on one, a run at a time."""
        return sum(cost.core_seconds for cost in self.costs if cost.device != "cpu") / 3600

    def days(self, workers: int) -> float:
        """Return the days that `workers` cores or GPUs like this one would need: at least those of the longest run.

        >>> cost = Cost("mlp", runs=2, steps=86_400, longest=43_200, seconds_per_step=1, evaluation_seconds=0)
        >>> two = Plan((cost,))
        >>> two.days(1), two.days(2), two.days(64)
        (1.0, 0.5, 0.5)
        """
        longest = max((cost.longest_seconds for cost in self.costs), default=0.0)
        return max((self.core_hours + self.gpu_hours) / 24 / workers, longest / 86_400)


def plan(study: Study, *, calibration_steps: int = 30) -> Plan:
    """Count the runs and steps of a study and time a few steps and a small evaluation of every kind of run.

    Kinds differ in dataset, network, objective, batch, device or how often they are looked at. They are timed on the
    device that they will train on, on a processor with one thread, as the workers of a study do. A device that is not
    here is refused first.
    """
    import torch

    check_devices(run.training.device for run in study.runs)

    groups: dict[tuple[tuple[str, str], ...], list[Run]] = {}
    for run in study.runs:
        groups.setdefault(tuple(_facts(run).items()), []).append(run)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        measured = {kind: _calibrated(runs[0], calibration_steps) for kind, runs in groups.items()}
    finally:
        torch.set_num_threads(threads)
    steps = {kind: [run.training.steps for run in runs] for kind, runs in groups.items()}
    common, labels = _labels([dict(kind) for kind in groups])
    costs = tuple(
        Cost(label, len(many), sum(many), max(many), *measured[kind], device=groups[kind][0].training.device)
        for label, (kind, many) in zip(labels, steps.items(), strict=True)
    )
    powers = decidable(chosen_claims(study.claims), study.points)
    return Plan(costs, study.title, outlook_of_runs(study.runs), powers, common)


def plan_models(study: Study, count: int) -> Plan:
    """Say what it costs to measure trained models as a study does, from the evaluation of an untrained one.

    Args:
        study: The study, whose first run stands for the models.
        count: How many models there are.

    Returns:
        The plan, without training; downloads are not in it.
    """
    run = study.points[0].run
    check_devices([run.training.device])
    seconds = _calibrated(run, 1)[1]
    kind = f"{run.model['architecture']['name']}, {run.dataset['name']}, measured"
    cost = Cost(kind, count, 0, 0, 0.0, seconds, device=run.training.device)
    return Plan((cost,), f"{study.name}, trained models")


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


def _facts(run: Run) -> dict[str, str]:
    """Return what the time of a step and of an evaluation depends on, by name."""
    facts = {"objective": str(run.objective["name"])}
    for part, own in (("network", run.model["architecture"]), ("dataset", run.dataset)):
        facts[part] = str(own["name"])
        # Which draw of the data it is costs nothing.
        facts |= {f"{part}.{key}": str(value) for key, value in own.items() if key not in ("name", "seed")}
    return facts | {
        "device": run.training.device,
        "latents": str(run.model["latents"]),
        "batch_size": str(run.training.batch_size),
        "snapshots.every": str(run.snapshots.every),
    }


def _labels(kinds: Sequence[Mapping[str, str]]) -> tuple[str, list[str]]:
    """Return in words what all kinds of runs share, and of each what tells it from the others.

    >>> _labels([{"objective": "ELBO", "network": "mlp", "latents": "5"}, {"objective": "BetaVAE", "network": "mlp"}])
    ('mlp', ['ELBO, latents=5', 'BetaVAE'])
    """
    names = list(dict.fromkeys(name for kind in kinds for name in kind))
    differing = [name for name in names if len({kind.get(name) for kind in kinds}) > 1]
    common = [kinds[0][name] for name in ("network", "dataset") if name in kinds[0] and name not in differing]
    common += [
        f"{kinds[0][name]} {words}"
        for name, words in (("latents", "latents"), ("batch_size", "images a step"))
        if name in kinds[0] and name not in differing
    ]
    for name, usual, words in (("device", "cpu", "on {}"), ("snapshots.every", "0", "a look every {} steps")):
        if name not in differing and kinds[0].get(name, usual) != usual:
            common.append(words.format(kinds[0][name]))
    told = []
    for kind in kinds:
        # The objective comes first; what is a name speaks for itself, a number needs its setting's name.
        parts = [kind["objective"], *(kind[n] for n in ("network", "dataset") if n in differing and n in kind)]
        settings = [n for n in differing if n in kind and n not in ("objective", "network", "dataset")]
        parts += [f"{name.removeprefix('dataset.').removeprefix('network.')}={kind[name][:24]}" for name in settings]
        told.append(", ".join(parts))
    return ", ".join(common), told


def _calibrated(run: Run, steps: int) -> tuple[float, float]:
    """Return the seconds of a step and of an evaluation: of the processor, which others do not lengthen, or of a GPU.

    The first steps warm caches and are not counted; a look at the regime is shared among the steps between two.
    """
    import warnings

    from polarised.training import train

    dataset = dataset_of(run)
    vae, objective = build_parts(dataset, model=run.model, objective=run.objective, seed=run.seed)
    brief = functools.partial(
        train,
        vae,
        objective,
        dataset,
        batch_size=run.training.batch_size,
        precision=run.training.precision,
        device=run.training.device,
    )
    now = functools.partial(_clock, run.training.device)
    clock = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for count in (5, 5, 5 + steps):
            began = now()
            brief(steps=count, progress=False)
            clock.append(now() - began)
    looks = 0.0
    for hook in measures.snapshot_hooks(run, dataset):
        hook(0, vae)
        began = now()
        hook(hook.every, vae)
        looks += (now() - began) / hook.every
    share = 10
    asked = run.evaluation
    fewer = replace(asked, examples=max(200, asked.examples // share), downstream_test=asked.downstream_test // share)
    small = replace(run, evaluation=fewer)
    began = now()
    encodings = measures.encode(small, vae, dataset)
    measures.reconstruction(small, vae, dataset)
    measures.scores(small, encodings)
    unseen = measures.encode_unseen(small, vae, dataset) if fewer.unseen else None
    measures.downstream(small, encodings, unseen)
    per_example = (now() - began) / fewer.examples
    began = now()
    further_scores(small, vae, dataset, encodings)
    further = now() - began
    return max(clock[2] - clock[1], 0.0) / steps + looks, per_example * asked.examples + further


def _clock(device: str) -> float:
    """Return a moment in seconds: of the processor's own time, or on the wall once a GPU has done what was asked."""
    if device == "cpu":
        return time.process_time()
    import torch

    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
    return time.perf_counter()
