"""The cost of a study from a short calibration, and what its seeds can decide, before anything starts."""

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
from polarised.study.grid import Study
from polarised.study.outlook import outlook_of_runs
from polarised.study.stages import build_parts, check_auxiliary, dataset_of
from polarised.study.trained import Archive, typical_run

__all__ = ["Cost", "Plan", "Power", "decidable", "plan", "plan_models"]


@dataclass(frozen=True)
class Cost:
    """The cost of runs of one kind on one core, or the GPU, of this machine.

    `longest` is the largest step count of a run; `least` is the number of steps of all runs if they settle as early as
    they may, which is `steps` for runs of a fixed length.
    """

    kind: str
    runs: int
    steps: int
    longest: int
    seconds_per_step: float
    evaluation_seconds: float
    device: str = "cpu"
    least: int | None = None

    @property
    def core_seconds(self) -> float:
        """The time of all these runs on one core, or one GPU."""
        return self.steps * self.seconds_per_step + self.runs * self.evaluation_seconds

    @property
    def least_seconds(self) -> float:
        """The same if all runs settle as early as they may."""
        steps = self.steps if self.least is None else self.least
        return steps * self.seconds_per_step + self.runs * self.evaluation_seconds

    @property
    def longest_seconds(self) -> float:
        """The time of the longest of these runs."""
        return self.longest * self.seconds_per_step + self.evaluation_seconds


@dataclass(frozen=True)
class Power:
    """What the planned seeds can decide about one statistic of a claim, in four of five studies.

    `effect` is the distance from the margin in standard deviations between seeds for a mean or a median, and the share
    of seeds on one side for a sign or a share; `size` is the same in the unit of the statistic, if known.
    """

    claim: str
    statistic: str
    kind: Kind
    seeds: int
    effect: float | None
    size: float | None

    @property
    def words(self) -> str:
        """The effect as text.

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
        """The effect in short form, for a table with an explanation.

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
    """The cost of a study by kind of run, the forecast of its runs, and what its seeds can decide.

    `common` describes what all kinds have in common; the name of a kind distinguishes it from the others.
    """

    costs: tuple[Cost, ...]
    title: str = ""
    outlook: str = ""
    powers: tuple[Power, ...] = ()
    common: str = ""

    @property
    def runs(self) -> int:
        """The number of runs."""
        return sum(cost.runs for cost in self.costs)

    @property
    def steps(self) -> int:
        """The number of training steps of all runs; the maximum of those that end once they have settled."""
        return sum(cost.steps for cost in self.costs)

    @property
    def least_steps(self) -> int:
        """The number of training steps if all runs settle as early as they may."""
        return sum(cost.steps if cost.least is None else cost.least for cost in self.costs)

    @property
    def least_hours(self) -> float:
        """The core-hours and GPU-hours if all runs settle as early as they may."""
        return sum(cost.least_seconds for cost in self.costs) / 3600

    @property
    def core_hours(self) -> float:
        """The hours that one core of this machine needs for the runs on CPUs."""
        return sum(cost.core_seconds for cost in self.costs if cost.device == "cpu") / 3600

    @property
    def gpu_hours(self) -> float:
        """The hours that one GPU of this machine needs for the runs on GPUs, one run at a time."""
        return sum(cost.core_seconds for cost in self.costs if cost.device != "cpu") / 3600

    def days(self, workers: int) -> float:
        """Return the days that `workers` such cores or GPUs need: at least those of the longest run.

        >>> cost = Cost("mlp", runs=2, steps=86_400, longest=43_200, seconds_per_step=1, evaluation_seconds=0)
        >>> two = Plan((cost,))
        >>> two.days(1), two.days(2), two.days(64)
        (1.0, 0.5, 0.5)
        """
        longest = max((cost.longest_seconds for cost in self.costs), default=0.0)
        return max((self.core_hours + self.gpu_hours) / 24 / workers, longest / 86_400)


def plan(study: Study, *, calibration_steps: int = 30) -> Plan:
    """Count the runs and steps of a study, and time a few steps and a small evaluation of every kind of run.

    Kinds differ in dataset, network, objective, batch, device or snapshot interval. They are timed on the
    device that they will use, on a CPU with one thread, as in the workers of a study. A device that is not
    available, or an auxiliary variable that is no factor of its dataset, is refused first.
    """
    import torch

    check_devices(run.training.device for run in study.runs)
    check_auxiliary(study.runs)

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
    least = {kind: sum(map(_fewest_steps, runs)) for kind, runs in groups.items()}
    common, labels = _labels([dict(kind) for kind in groups])
    costs = tuple(
        Cost(
            label,
            len(many),
            sum(many),
            max(many),
            *measured[kind],
            device=groups[kind][0].training.device,
            least=least[kind],
        )
        for label, (kind, many) in zip(labels, steps.items(), strict=True)
    )
    powers = decidable(chosen_claims(study.claims), [point.labels for point in study.points])
    return Plan(costs, study.title, outlook_of_runs(study.runs), powers, common)


def plan_models(study: Study, archives: Sequence[Archive]) -> Plan:
    """Return the cost of measuring trained models in a study, from the evaluation of an untrained one.

    Args:
        study: The study, whose evaluation and device are used.
        archives: The models; `typical_run` of them represents all.

    Returns:
        The plan, without training and downloads.
    """
    run, device = study.points[0].run, study.points[0].run.training.device
    check_devices([device])
    if archives:
        run = typical_run(archives)
        run = replace(run, training=replace(run.training, device=device))
    seconds = _calibrated(run, 1)[1]
    kind = f"{run.model['architecture']['name']}, {run.dataset['name']}, measured"
    cost = Cost(kind, len(archives), 0, 0, 0.0, seconds, device=device)
    return Plan((cost,), f"{study.name}, trained models")


def decidable(claims: Iterable[Claim], labels: Iterable[Mapping[str, Any]]) -> tuple[Power, ...]:
    """Return for each claim which effect the seeds of a study can decide, which does not depend on its results.

    Args:
        claims: The claims of the study.
        labels: The method, dataset and seed of every run.

    Returns:
        One entry per statistic of a claim about some method of the study; of several methods and datasets,
        the one with the fewest seeds counts.
    """
    seeds: dict[tuple[str, str], set[int]] = {}
    for run in labels:
        seed = int(run["seed"])
        if seed < RESERVED_SEEDS:
            seeds.setdefault((str(run["method"]), str(run["dataset"])), set()).add(seed)
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


def _fewest_steps(run: Run) -> int:
    from polarised.training import Settling

    settling = run.training.settling
    return run.training.steps if settling is None else Settling(**settling).fewest(run.training.steps)


def _facts(run: Run) -> dict[str, str]:
    """Return the settings on which the time of a step and of an evaluation depends, by name."""
    facts = {"objective": str(run.objective["name"])}
    for part, own in (("network", run.model["architecture"]), ("dataset", run.dataset)):
        facts[part] = str(own["name"])
        # The seed of the data does not affect the time.
        facts |= {f"{part}.{key}": str(value) for key, value in own.items() if key not in ("name", "seed")}
    return facts | {
        "device": run.training.device,
        "latents": str(run.model["latents"]),
        "batch_size": str(run.training.batch_size),
        "snapshots.every": str(run.snapshots.every),
    }


def _labels(kinds: Sequence[Mapping[str, str]]) -> tuple[str, list[str]]:
    """Return a text for what all kinds of runs share, and one for what distinguishes each kind.

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
    for name, usual, words in (("device", "cpu", "on {}"), ("snapshots.every", "0", "a snapshot every {} steps")):
        if name not in differing and kinds[0].get(name, usual) != usual:
            common.append(words.format(kinds[0][name]))
    labels = []
    for kind in kinds:
        # The objective comes first; names are shown alone, numbers with the name of their setting.
        parts = [kind["objective"], *(kind[n] for n in ("network", "dataset") if n in differing and n in kind)]
        settings = [n for n in differing if n in kind and n not in ("objective", "network", "dataset")]
        parts += [f"{name.removeprefix('dataset.').removeprefix('network.')}={kind[name][:24]}" for name in settings]
        labels.append(", ".join(parts))
    return ", ".join(common), labels


def _calibrated(run: Run, steps: int) -> tuple[float, float]:
    """Return the seconds of a step and of an evaluation: CPU time, which other processes do not affect, or GPU time.

    The first steps warm up caches and are not counted; the time of a snapshot is divided among the steps between two.
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
    regimes = measures.regimes(small, encodings)
    measures.scores(small, encodings, regimes)
    unseen = measures.encode_unseen(small, vae, dataset) if fewer.unseen else None
    measures.downstream(small, encodings, regimes, unseen)
    per_example = (now() - began) / fewer.examples
    began = now()
    further_scores(small, vae, dataset, encodings)
    further = now() - began
    return max(clock[2] - clock[1], 0.0) / steps + looks, per_example * asked.examples + further


def _clock(device: str) -> float:
    """Return the time in seconds: CPU time of the process, or wall-clock time after the GPU has finished."""
    if device == "cpu":
        return time.process_time()
    import torch

    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
    return time.perf_counter()
