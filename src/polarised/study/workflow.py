"""Operations on a study: plan, run, status, retry; and training of a single model.

Every function returns a typed result; the command line prints these results and does nothing else.
"""

import shlex
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from polarised._io.files import contained, replacing
from polarised.bibliography import cite_specs, entry_of, specs_of_config
from polarised.errors import ConfigError
from polarised.schemas import stamp
from polarised.study.config import Run, overridden, read_config
from polarised.study.grid import Study, load_study, study_scales
from polarised.study.outlook import outlook
from polarised.study.planning import Plan, plan_models
from polarised.study.planning import plan as calibrate
from polarised.study.results import collect
from polarised.study.runner import (
    RunState,
    Shard,
    conduct,
    follow,
    read_executor,
    read_models,
    read_study,
    run_states,
)
from polarised.study.stages import check_auxiliary, execute, load_run
from polarised.study.trained import measure_models, read_archives, refuse_addresses, stored_scores

__all__ = [
    "STATES",
    "Citations",
    "StudyOutcome",
    "StudyStatus",
    "cite",
    "cite_runs",
    "counted",
    "plan",
    "retry",
    "run",
    "slurm_script",
    "status",
    "train",
]

State = Literal["done", "running", "waiting", "failed"]
STATES: tuple[State, ...] = ("done", "running", "waiting", "failed")


@dataclass(frozen=True)
class StudyOutcome:
    """The outcome of a study.

    Args:
        folder: The folder or address of the results.
        total: The number of runs of the study, or of measured models.
        done: The number of finished runs, including those of earlier calls.
        failed: The number of failed runs.
        results: The tidy table (``results.parquet``), or None if nothing is finished or only a share was requested.
        shard: The requested share of the runs, such as ``2/8``, or None for all.
        measured: Whether trained models were measured instead of executing runs.
    """

    folder: str
    total: int
    done: int
    failed: int
    results: str | None
    shard: str | None = None
    measured: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as plain JSON types."""
        values = {
            "folder": self.folder,
            "total": self.total,
            "done": self.done,
            "failed": self.failed,
            "results": self.results,
            "shard": self.shard,
            "measured": self.measured,
        }
        return stamp("outcome", values)


@dataclass(frozen=True)
class StudyStatus:
    """The state of every run of a study.

    Args:
        folder: The folder or address of the study.
        runs: The state of every run, in the order of the study.
    """

    folder: str
    runs: tuple[RunState, ...]

    @property
    def counts(self) -> dict[State, int]:
        """The number of runs in each state."""
        found = Counter(state.state for state in self.runs)
        return {name: found[name] for name in STATES}

    @property
    def failures(self) -> dict[str, str]:
        """The names of the failed runs and why they failed."""
        return {state.point.run.name: state.reason for state in self.runs if state.state == "failed"}

    def counts_by_method(self) -> dict[str, dict[State, int]]:
        """Return how many runs of each method are in each state."""
        methods = dict.fromkeys(str(state.point.labels["method"]) for state in self.runs)
        own = {name: [each for each in self.runs if str(each.point.labels["method"]) == name] for name in methods}
        return {name: StudyStatus(self.folder, tuple(states)).counts for name, states in own.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return the counts, the reasons of failures and who works on what as plain JSON types."""
        at_work = [
            {
                "run": state.point.run.name,
                "step": state.step,
                "steps": state.point.run.training.steps,
                "host": state.host or None,
                "steps_per_second": state.pace or None,
            }
            for state in self.runs
            if state.state == "running"
        ]
        counts = {str(name): number for name, number in self.counts.items()}
        return stamp("status", {**counts, "failures": self.failures, "at_work": at_work})


class Citations(NamedTuple):
    """The citations of some runs.

    Args:
        keys: Their keys, in order of first use.
        bibtex: Their BibTeX entries, in the same order.
    """

    keys: tuple[str, ...]
    bibtex: str


def run(
    name: str | Path,
    *,
    scale: str | None = None,
    settings: Sequence[str] = (),
    out: str | Path | None = None,
    executor: str | Mapping[str, Any] = "local",
    models: str | Path | None = None,
    shard: str | None = None,
    jobs: int = 0,
    progress: bool = True,
    tell: Callable[[str], None] | None = None,
) -> StudyOutcome:
    """Execute the runs of a study; the same call resumes an interrupted study.

    Args:
        name: A study of the library, or a YAML file.
        scale: One of the study's scales; default: the study's own.
        settings: ``key=value`` for every run, or for an axis (``axes.seed=2``).
        out: The folder or fsspec address of the results; default: ``runs/NAME-SCALE``.
        executor: ``local``, ``ray``, or a mapping with its settings.
        models: A folder of trained models, a text file that lists them (paths and https addresses), or one of them, to
            be measured instead of training. Each is measured; downloads are deleted afterwards.
        shard: A share of the runs, such as ``2/8``, for a job of a queue: only this share is executed, without waiting
            for others, and the table must be collected when all shares are done.
        jobs: Models to measure in parallel; 0: one per core. Training uses the setting of the executor.
        progress: Whether to show the progress.
        tell: Called with a sentence before long operations and for each measured model.

    Returns:
        The outcome of the study.

    Raises:
        ConfigError: If the study, its scale, a setting or the executor is wrong.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> run("learning_dynamics", scale="smoke", settings=["training.steps=20"], out=folder, progress=False).failed
    0
    """
    study = load_study(name, scale=_scale_of(name, scale, models), settings=settings)
    kind = "models" if models is not None else study.scale
    root = str(out) if out else str(contained("runs", "-".join(filter(None, (study.name, kind))), source=name))
    if models is not None:
        return _measure(study, models, root, _jobs_of(executor, jobs), tell)
    share = None if shard is None else Shard.parse(shard)
    return _conduct(study, root, executor, again=False, progress=progress, tell=tell, share=share)


def retry(
    folder: str | Path,
    *,
    executor: str | Mapping[str, Any] | None = None,
    models: str | Path | None = None,
    jobs: int = 0,
    progress: bool = True,
    tell: Callable[[str], None] | None = None,
) -> StudyOutcome:
    """Repeat the failed runs of a study's folder, and execute the remaining ones.

    Args:
        folder: The folder or address of a study.
        executor: ``local``, ``ray`` or a mapping with its settings; default: as before. The address of a Ray
            cluster is never read from the folder.
        models: The trained models to measure, see `run`; default: those that the folder names, if none of them is at an
            address, since no address is read from the folder.
        jobs: Models to measure in parallel, if the study measures trained models.
        progress: Whether to show the progress.
        tell: Called with a sentence before long operations and for each measured model.

    Returns:
        The outcome of the study.

    Raises:
        DataError: If the folder contains no study.
        ConfigError: If the folder names models at an address and `models` is not given.
    """
    study, named = read_study(folder), read_models(folder)
    if named is None and models is not None:
        raise ConfigError(f"expected a study on trained models, but the runs of {folder} are trained here")
    if named is not None and models is None:
        refuse_addresses(named, folder)
        models = named
    if models is not None:
        return _measure(study, models, str(folder), _jobs_of(executor or read_executor(folder), jobs), tell)
    return _conduct(study, str(folder), executor or read_executor(folder), again=True, progress=progress, tell=tell)


def plan(
    name: str | Path,
    *,
    scale: str | None = None,
    settings: Sequence[str] = (),
    models: str | Path | None = None,
) -> Plan:
    """Estimate the cost of a study by a short calibration on this machine; nothing is run.

    Args:
        name: A study of the library, or a YAML file.
        scale: One of the study's scales; default: the study's own.
        settings: ``key=value`` for every run or an axis.
        models: A folder or list of trained models to measure instead of training, see `run`.

    Returns:
        Runs, steps, core-hours and GPU-hours by kind of run.

    Raises:
        ConfigError: If the study, its scale or a setting is wrong, or a device is not available.
    """
    study = load_study(name, scale=_scale_of(name, scale, models), settings=settings)
    if models is None:
        return calibrate(study)
    return plan_models(study, read_archives(models, study.points[0].run.evaluation))


def status(folder: str | Path) -> StudyStatus:
    """Return the progress of a study; nothing is written.

    Args:
        folder: The folder or address of a study.

    Returns:
        The state of every run.

    Raises:
        DataError: If the folder contains no study.
    """
    return StudyStatus(str(folder), tuple(run_states(read_study(folder).points, folder)))


def slurm_script(
    study: Sequence[str], *, jobs: int, name: str, cpus: int = 1, hours: float = 24.0, memory: int = 4, gpus: int = 0
) -> str:
    """Return a script that runs a study as a SLURM job array; review it before you submit it with ``sbatch``.

    Two minutes before its time limit a job receives SIGUSR1, saves its checkpoints and is requeued, and
    the same command resumes it.

    Args:
        study: The arguments of ``polarised study run``.
        jobs: The number of jobs that share the runs.
        name: The name of the job.
        cpus: CPUs, and parallel runs, per job.
        hours: The time limit of a job.
        memory: Gigabytes per CPU.
        gpus: GPUs per job.

    Returns:
        The text of the script.

    Raises:
        ConfigError: If a number is out of range.

    >>> print(slurm_script(["be_more_active", "--out", "/shared/study"], jobs=8, name="study").splitlines()[0])
    #!/bin/bash
    """
    if jobs < 1 or cpus < 1 or hours <= 0 or memory < 1 or gpus < 0:
        raise ConfigError(
            f"expected at least one job, CPU and gigabyte and a time above 0, got {jobs}, {cpus}, {memory} and "
            f"{hours:g} h"
        )
    minutes = max(5, round(60 * hours))
    command = shlex.join(["polarised", "study", "run", *study, "--jobs", str(cpus)])
    lines = [
        "#!/bin/bash",
        f"#SBATCH --job-name={shlex.quote(name)}",
        f"#SBATCH --array=1-{jobs}",
        f"#SBATCH --cpus-per-task={cpus}",
        f"#SBATCH --mem-per-cpu={memory}G",
        f"#SBATCH --time={minutes // 60:02d}:{minutes % 60:02d}:00",
        "#SBATCH --signal=USR1@120",
        "#SBATCH --requeue",
        f"#SBATCH --output={shlex.quote(name)}-%A-%a.log",
        *([f"#SBATCH --gpus={gpus}"] if gpus else []),
        "",
        "# The folder of the results must be shared by all nodes.",
        "export OMP_NUM_THREADS=1",
        f'srun {command} --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT"',
        "code=$?",
        "# 138: stopped by SIGUSR1 with its checkpoint saved; 143: by SIGTERM.",
        'if [ "$code" -eq 138 ]; then scontrol requeue "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"; fi',
        'exit "$code"',
    ]
    return "\n".join(lines) + "\n"


def train(
    config: str | Path | Mapping[str, Any],
    *,
    settings: Sequence[str] = (),
    out: str | Path = "runs",
    progress: bool = True,
    tell: Callable[[str], None] | None = None,
) -> Path:
    """Train and measure one model; the same call resumes an interrupted run.

    Args:
        config: A YAML file of settings, or the settings themselves.
        settings: Additional ``key=value`` settings.
        out: The folder that holds run directories.
        progress: Whether to show a progress bar.
        tell: Called with the forecast of the run in one line before the training starts.

    Returns:
        The run directory.

    Raises:
        ConfigError: If a setting does not exist or has a wrong value.

    >>> import tempfile
    >>> network = {"architecture": {"name": "mlp", "widths": [4]}, "latents": 2, "likelihood": "Gaussian"}
    >>> config = {"dataset": "pinwheel", "model": network, "training": {"steps": 5}}
    >>> train(config, out=tempfile.mkdtemp(), progress=False).is_dir()
    True
    """
    read = config if isinstance(config, Mapping) else read_config(Path(config))
    made = Run.from_config(overridden(dict(read), list(settings)))
    check_auxiliary([made])
    place = Path(out) / made.name
    if tell is not None and not (place / "model.safetensors").exists():
        tell(outlook(made, directory=place))
    return execute(made, out, progress=progress)


def cite(target: str | Path) -> Citations:
    """Return the citations of a run, a folder of runs or a study.

    Args:
        target: A run directory, a folder of runs, or the name or file of a study.

    Returns:
        The keys and BibTeX entries, starting with those named by the study.

    Raises:
        ConfigError: If there is no run and no study of that name.

    >>> cite("be_more_active").keys[0]
    'Bonheme2023BeMoreActive'
    """
    folder = Path(target)
    named: dict[str, str] = {}
    if (folder / "config.yaml").exists():
        runs = [load_run(folder)]
    elif folder.is_dir() and (found := sorted(folder.glob("*/config.yaml"))):
        runs = [load_run(path.parent) for path in found]
    elif folder.is_dir() or (folder.is_file() and folder.suffix not in (".yaml", ".yml")):
        raise ConfigError(
            f"expected a run directory, a folder of runs, or the name or .yaml file of a study, but {target} is none "
            "of them: a run has a config.yaml"
        )
    else:
        study = load_study(str(target))
        runs, named = list(study.runs), dict(entry_of(key, f"the study {study.name}") for key in study.references)
    entries = {**named, **cite_runs(runs)}
    return Citations(tuple(entries), "\n".join(entries.values()))


def cite_runs(runs: Iterable[Run]) -> dict[str, str]:
    """Return the citations of some runs, in order of first use.

    Args:
        runs: The runs.

    Returns:
        BibTeX entries by their keys.

    >>> run = Run.from_config({"objective": {"name": "FactorVAE"}})
    >>> "Kim2018" in cite_runs([run]), "Kumar2018" in cite_runs([run])
    (True, False)
    """
    return cite_specs(spec for run in runs for spec in specs_of_config(run.to_config()))


def _conduct(
    study: Study,
    root: str,
    executor: str | Mapping[str, Any],
    *,
    again: bool,
    progress: bool,
    tell: Callable[[str], None] | None,
    share: Shard | None = None,
) -> StudyOutcome:
    # A study may take hours, so its size is shown at the start, even without a progress bar.
    if tell is not None:
        tell(f"{study.title}: {counted(len(study.points), 'run')} into {root}")
    command = shlex.join(["polarised", *sys.argv[1:]])
    if share is not None:
        own = {"name": executor} if isinstance(executor, str) else dict(executor)
        executor = {**own, "patient": False}
    steps = conduct(study, root, executor=executor, retry=again, command=command, shard=share)
    ended = follow(steps, quiet=not progress)
    done = 0 if ended is None else ended.done + ended.earlier
    failed = 0 if ended is None else ended.failed
    total = len(study.points) if share is None else len(share.of(study.points))
    results = str(collect(root)) if done and share is None else None
    return StudyOutcome(root, total, done, failed, results, None if share is None else str(share))


def _measure(
    study: Study,
    models: str | Path,
    root: str,
    executor: str | Mapping[str, Any],
    tell: Callable[[str], None] | None,
) -> StudyOutcome:
    command = shlex.join(["polarised", *sys.argv[1:]])
    reasons = []
    for address, why in measure_models(study, models, root, executor=executor, command=command):
        reasons.append(why)
        if tell is not None:
            name = Path(address).name
            tell(f"failed {name}: {why}" if why else f"measured {name}")
    failed = sum(map(bool, reasons))
    results = collect(root)
    stored = stored_scores(root)
    if not stored.is_empty():
        name = results.name.replace("results", "stored")
        with replacing(results.with_name(name)) as temporary:
            stored.write_parquet(temporary)
        if tell is not None and (sizes := stored["difference"].abs().drop_nulls().to_list()):
            median = statistics.median(sizes)
            tell(
                f"{len(sizes):,} scores of the archives compared with ours in {name}: the median difference is "
                f"{median:.2g}"
            )
    return StudyOutcome(root, len(reasons), len(reasons) - failed, failed, str(results), measured=True)


def _scale_of(name: str | Path, scale: str | None, models: str | Path | None) -> str | None:
    """Return the requested scale; trained models are measured as in the paper by default, not at a reduced scale."""
    return "paper" if models is not None and scale is None and "paper" in study_scales(name) else scale


def _jobs_of(executor: str | Mapping[str, Any], jobs: int) -> str | Mapping[str, Any]:
    """Set the number of models measured in parallel for an executor that does not define it."""
    spec = {"name": executor} if isinstance(executor, str) else dict(executor)
    return {**spec, "jobs": jobs} if jobs and not spec.get("jobs") else spec


def counted(count: int, thing: str) -> str:
    """Return a count with its noun.

    Args:
        count: The count.
        thing: The noun in the singular.

    Returns:
        For example "1 run" or "1,500 runs".

    >>> counted(1, "run"), counted(1500, "run")
    ('1 run', '1,500 runs')
    """
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"
