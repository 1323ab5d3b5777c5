"""`polarised study`: many runs with one command, on a laptop or a cluster; their table and the verdicts."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from polarised.cli.screen import Json, Quiet, as_it_is, console, print_json, table
from polarised.schemas import stamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from polarised.regime.classify import Rule
    from polarised.study import StudyOutcome
    from polarised.study.planning import Plan

__all__ = ["app"]


class _RunByDefault(TyperGroup):
    """Read ``polarised study NAME`` as ``polarised study run NAME``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_RunByDefault,
    name="study",
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Name = Annotated[
    str,
    typer.Argument(
        help="be_more_active, learning_dynamics, rtc_vae, polarised_ivae, nonlinear_ica, decomposition_clustering, "
        "decomposition_alignment, decomposition_sparsity, or your own YAML file."
    ),
]
Settings = Annotated[
    list[str] | None, typer.Argument(help="key=value for every run (training.steps=100) or an axis (axes.seed=2).")
]
Scale = Annotated[
    str | None,
    typer.Option(
        help="smoke, small, paper or another scale of the study (a wrong one lists them); default: the study's own."
    ),
]
Folder = Annotated[str, typer.Argument(help="The folder (or fsspec address) of a study.")]
Jobs = Annotated[int, typer.Option(help="Parallel runs; 0: one per core, or with ray as many as fit.", min=0)]
Address = Annotated[str | None, typer.Option(help="Address of a running Ray cluster; default: start one here.")]
Cpus = Annotated[float | None, typer.Option(help="CPUs per run on Ray (default: 1).", min=0)]
Gpus = Annotated[float | None, typer.Option(help="GPUs per run on Ray (default: 0).", min=0)]
Memory = Annotated[float | None, typer.Option(help="Gigabytes per run on Ray (default: no request).", min=0)]
Attempts = Annotated[
    int | None, typer.Option(help="How often a lost run is started before it fails (default: 3).", min=1)
]
RuntimeEnv = Annotated[
    Path | None, typer.Option(help="A YAML file with Ray's runtime_env for every task: pip, env_vars, working_dir, ...")
]
Mixed = Annotated[bool, typer.Option("--mixed", help="Also use nodes of a Ray cluster that have different code.")]


@app.callback()
def _group() -> None:
    """Run a study: train and measure all models, collect the results, check the claims.

    Example: [bold]polarised study be_more_active --scale smoke[/bold]
    """


@app.command()
def run(
    name: Name,
    settings: Settings = None,
    scale: Scale = None,
    executor: Annotated[str, typer.Option(help="local, ray, or your own 'module:name'.")] = "local",
    jobs: Jobs = 0,
    address: Address = None,
    cpus: Cpus = None,
    gpus: Gpus = None,
    memory: Memory = None,
    attempts: Attempts = None,
    mixed: Mixed = False,
    runtime_env: RuntimeEnv = None,
    out: Annotated[str | None, typer.Option(help="Folder or fsspec address of the results.")] = None,
    models: Annotated[
        str | None,
        typer.Option(help="Measure trained models instead: a folder, or a text file of paths and https addresses."),
    ] = None,
    shard: Annotated[
        str | None, typer.Option(help="Do only one share of the runs, e.g. 2/8, as a job of a queue.")
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Do the runs of a study; the same command resumes an interrupted study.

    Example: [bold]polarised study be_more_active --scale laptop --jobs 2[/bold]
    """
    from polarised.errors import ConfigError
    from polarised.study import run as do

    if shard is not None and (models is not None or executor != "local"):
        raise ConfigError(
            "expected --shard with --executor local and without --models: the queue distributes the shards"
        )
    silent = quiet or json
    outcome = do(
        name,
        scale=scale,
        settings=settings or [],
        out=out,
        executor=_executor(
            executor,
            jobs,
            address,
            cpus,
            gpus,
            memory=memory,
            attempts=attempts,
            mixed=mixed,
            runtime_env=runtime_env,
        ),
        models=models,
        shard=shard,
        jobs=jobs,
        progress=not silent,
        tell=_tell(silent),
    )
    _finish(outcome, quiet=quiet, json=json)


@app.command()
def script(
    name: Name,
    settings: Settings = None,
    scale: Scale = None,
    out: Annotated[str, typer.Option(help="Folder of the results, shared by all nodes.")] = "runs/study",
    slurm: Annotated[
        bool, typer.Option("--slurm", help="Write the script for SLURM, the only supported queue.")
    ] = True,
    shards: Annotated[int, typer.Option(help="Jobs that share the runs.", min=1)] = 8,
    cpus: Annotated[int, typer.Option(help="CPUs, and parallel runs, per job.", min=1)] = 1,
    hours: Annotated[float, typer.Option(help="Time limit of a job.")] = 24.0,
    memory: Annotated[int, typer.Option(help="Gigabytes per CPU.", min=1)] = 4,
    gpus: Annotated[int, typer.Option(help="GPUs per job.", min=0)] = 0,
    json: Json = False,
) -> None:
    """Print a script that runs a study as a SLURM job array; review it before you submit it.

    Example: [bold]polarised study script be_more_active --slurm --shards 16 --out /shared/study > study.sh[/bold]
    """
    from polarised.study.grid import load_study
    from polarised.study.workflow import slurm_script

    study = load_study(name, scale=scale, settings=settings or [])
    arguments = [name, *(settings or []), *(("--scale", study.scale) if study.scale else ()), "--out", out]
    jobs = min(shards, len(study.points))
    written = slurm_script(arguments, jobs=jobs, name=study.name, cpus=cpus, hours=hours, memory=memory, gpus=gpus)
    if json:
        print_json({"jobs": jobs, "script": written})
    else:
        typer.echo(written, nl=False)


@app.command()
def plan(
    name: Name,
    settings: Settings = None,
    scale: Scale = None,
    jobs: Jobs = 0,
    models: Annotated[str | None, typer.Option(help="Plan for measuring trained models: a folder, or a list.")] = None,
    json: Json = False,
) -> None:
    """Estimate the cost of a study by a short calibration, and what its seeds can decide; nothing is run.

    Example: [bold]polarised study plan be_more_active --scale paper --jobs 64[/bold]
    """
    import os
    from dataclasses import asdict

    from polarised.study import plan as planned
    from polarised.study.runner import duration
    from polarised.study.workflow import counted

    result = planned(name, scale=scale, settings=settings or [], models=models)
    # On a GPU, the number of parallel runs must be requested; on CPUs, the default is one per core.
    workers = jobs or (1 if result.gpu_hours else os.cpu_count() or 1)
    if json:
        planned_study = stamp(
            "plan",
            {
                "runs": result.runs,
                "steps": result.steps,
                "least_steps": result.least_steps,
                "core_hours": result.core_hours,
                "gpu_hours": result.gpu_hours,
                "least_hours": result.least_hours,
                "common": result.common,
                "kinds": [asdict(cost) for cost in result.costs],
                "workers": workers,
                "days": result.days(workers),
                "decidable": [power.to_dict() for power in result.powers],
                "outlook": result.outlook,
            },
        )
        print_json(planned_study)
        return
    hours = "GPU-hours" if result.gpu_hours and not result.core_hours else "core-hours"
    # Models that are trained already take no steps.
    what, of_steps = ("models", False) if models is not None else ("runs", True)
    rows = [
        (
            as_it_is(cost.kind),
            f"{cost.runs:,}",
            *((f"{cost.steps:,}", f"{1000 * cost.seconds_per_step:.1f}") if of_steps else ()),
            f"{cost.evaluation_seconds:.1f}",
            f"{cost.core_seconds / 3600:.{1 if of_steps else 2}f}",
        )
        for cost in result.costs
    ]
    columns = (
        "kind",
        what,
        *(("steps", "ms per step", "evaluation (s)") if of_steps else ("seconds per model",)),
        hours,
    )
    screen = console()
    note = f"all: {as_it_is(result.common)}" if result.common else ""
    screen.print(table(as_it_is(result.title), columns, rows, note=note))
    taken = f"{duration(86_400 * result.days(workers))} with {workers} at a time"
    if of_steps and result.least_steps < result.steps:
        screen.print(
            f"{counted(result.runs, 'run')}, {result.least_steps:,} to {counted(result.steps, 'step')}, because runs "
            f"end once they settle: {result.least_hours:.1f} to {_hours(result)}, at most {taken}",
            soft_wrap=True,
        )
    elif of_steps:
        screen.print(f"{counted(result.runs, 'run')}, {counted(result.steps, 'step')}: about {_hours(result)}, {taken}")
    else:
        alone = f"{duration(86_400 * result.days(1))} on one {'GPU' if result.gpu_hours else 'core'}"
        screen.print(f"{counted(result.runs, 'model')}: about {alone}, {taken}; downloads are not included")
    if result.gpu_hours:
        screen.print("To share a GPU between several runs, use --jobs N, or with Ray for example --gpus 0.25.")
    if result.outlook:
        screen.print(as_it_is(result.outlook), soft_wrap=True)
    able = [power for power in result.powers if power.effect is not None]
    if able:
        decidable = [(as_it_is(one.claim), as_it_is(one.statistic), str(one.seeds), one.short) for one in able]
        note = "effect: the smallest effect that four of five such studies decide; sd: distance from the margin in "
        note += "standard deviations between seeds (the margin has its own unit); %: share of seeds on one side"
        heads = ("claim", "statistic", "seeds", "effect")
        screen.print(table("What the seeds can decide", heads, decidable, left=2, note=note))
    if lacking := len(result.powers) - len(able):
        screen.print(f"{counted(lacking, 'statistic')} of the claims cannot be decided: at least 6 seeds are needed.")


def _hours(result: "Plan") -> str:
    parts = [(result.gpu_hours, "GPU-hours"), (result.core_hours, "core-hours")]
    return " and ".join(f"{hours:.1f} {unit}" for hours, unit in parts if hours) or "no time"


@app.command()
def status(folder: Folder, json: Json = False) -> None:
    """Show the progress of a study: runs that are done, running, waiting or failed, and why.

    Example: [bold]polarised study status runs/be_more_active-laptop[/bold]
    """
    import time

    from polarised.study import status as look
    from polarised.study.runner import pace
    from polarised.study.workflow import STATES

    found = look(folder)
    if json:
        print_json(found.to_dict())
        return
    screen, counts = console(), found.counts
    screen.print(" · ".join(f"{counts[name]} {name}" for name in STATES) + f" of {len(found.runs)}")
    finished = [state.finished for state in found.runs if state.state == "done"]
    if counts["running"] and (words := pace(finished, counts["running"] + counts["waiting"], time.time())):
        screen.print(words)
    rows = [
        (as_it_is(method), *(str(own[name] or "") for name in STATES))
        for method, own in found.counts_by_method().items()
    ]
    screen.print(table("By method", ("method", *STATES), rows))
    for state in found.runs:
        if state.state == "running":
            where = f" on {as_it_is(state.host)}" if state.host else ""
            # Not known before the owner has said a second time how far it is.
            speed = f", {state.pace:.{1 if state.pace < 10 else 0}f} steps/s" if state.pace else ""
            step = f"step {state.step:,} of {state.point.run.training.steps:,}"
            words = f"running {as_it_is(state.point.run.name)}: {step}{where}{speed}"
            screen.print(words, soft_wrap=True)
    for run_name, reason in found.failures.items():
        screen.print(f"[red]failed[/] {run_name}: {as_it_is(reason)}", soft_wrap=True)
    if found.failures:
        command = f"polarised study retry {shlex.quote(folder)}"
        screen.print(f"To repeat them: [bold]{as_it_is(command)}[/bold]", soft_wrap=True)


@app.command()
def retry(
    folder: Folder,
    executor: Annotated[str | None, typer.Option(help="local, ray or 'module:name'; default: as before.")] = None,
    models: Annotated[
        str | None, typer.Option(help="List or address of the trained models, if the folder names addresses.")
    ] = None,
    jobs: Jobs = 0,
    address: Address = None,
    cpus: Cpus = None,
    gpus: Gpus = None,
    memory: Memory = None,
    attempts: Attempts = None,
    mixed: Mixed = False,
    runtime_env: RuntimeEnv = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Repeat failed runs of a study and do the remaining ones; give the address of a Ray cluster again.

    Example: [bold]polarised study retry runs/be_more_active-laptop[/bold]
    """
    from polarised.study import retry as retry_study
    from polarised.study.runner import read_executor

    before = read_executor(folder)
    name = executor or before["name"]
    chosen = _executor(
        name,
        jobs,
        address,
        cpus,
        gpus,
        memory=memory,
        attempts=attempts,
        mixed=mixed,
        runtime_env=runtime_env,
        before=before,
    )
    if chosen["name"] == "ray" and address is None:
        typer.echo(
            "Starting a Ray cluster on this machine, because the address of a cluster is never read from a folder; "
            "to use another cluster, give its --address again",
            err=True,
        )
    silent = quiet or json
    outcome = retry_study(folder, executor=chosen, models=models, jobs=jobs, progress=not silent, tell=_tell(silent))
    _finish(outcome, quiet=quiet, json=json)


@app.command()
def doctor(
    folder: Annotated[Path, typer.Argument(help="The folder of a study.")],
    repair: Annotated[bool, typer.Option("--repair", help="Move damaged files aside and measure again.")] = False,
    json: Json = False,
) -> None:
    """Check every file of a study's folder, list damaged ones, and repair what can be recomputed.

    Example: [bold]polarised study doctor runs/be_more_active-laptop --repair[/bold]
    """
    from dataclasses import asdict

    from polarised.study.doctor import examine_folder
    from polarised.study.workflow import counted

    found = list(examine_folder(folder, repair=repair))
    if json:
        print_json(stamp("doctor", {"findings": [asdict(finding) for finding in found]}))
    else:
        screen = console()
        for finding in found:
            screen.print(as_it_is(finding.sentence), soft_wrap=True)
        left = sum(not finding.repaired for finding in found)
        words = "no damaged files" if not found else f"{counted(len(found), 'file')} damaged, {left} not repaired"
        screen.print(f"{as_it_is(folder)}: {words}", soft_wrap=True)
    if not all(finding.repaired for finding in found):
        raise typer.Exit(1)


@app.command()
def collect(
    folder: Folder,
    rule: Annotated[str | None, typer.Option(help="used, relative or standard; default: the study's rule.")] = None,
    mixed: Annotated[bool, typer.Option("--mixed", help="Allow runs made by different code.")] = False,
    json: Json = False,
) -> None:
    """Write the results so far as a tidy table, results.parquet.

    Example: [bold]polarised study collect runs/be_more_active-laptop[/bold]
    """
    from polarised.errors import ConfigError
    from polarised.study.results import collect as collected

    rules: dict[str | None, Rule | None] = {None: None, "used": "used", "standard": "standard", "relative": "relative"}
    if rule not in rules:
        raise ConfigError(f"expected --rule used, relative or standard, got {rule!r}")
    path = collected(folder, rule=rules[rule], mixed=mixed)
    if json:
        print_json(stamp("results", {"results": str(path)}))
    else:
        console().print(f"Table: [bold]{as_it_is(path)}[/bold]")


@app.command()
def verify(
    results: Annotated[str, typer.Argument(help="A study's folder or fsspec address, or its results.parquet.")],
    study: Annotated[
        str | None, typer.Option(help="The study whose claims are checked; default: the folder's.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="List every verdict with its numbers.")] = False,
    mixed: Annotated[bool, typer.Option("--mixed", help="Allow runs made by different code.")] = False,
    json: Json = False,
) -> None:
    """Check the claims of the papers: confirmed, refuted, undecided or not testable, by paper and method.

    Example: [bold]polarised study verify runs/be_more_active-laptop --all[/bold]
    """
    from polarised.study import verify as verified
    from polarised.study.claims.check import WORDS, titled

    found = verified(results, study=study, mixed=mixed)
    if json:
        print_json(found.to_dict())
        return
    screen = console()
    screen.print(found.headline, soft_wrap=True)
    rows = [
        (as_it_is(titled(row["paper"])), as_it_is(row["method"] or "other"), *(str(row[word] or "") for word in WORDS))
        for row in found.summary
    ]
    if len({paper for paper, *_ in rows}) == 1:
        screen.print(table(f"{rows[0][0]} by method", ("method", *WORDS), [row[1:] for row in rows]))
    else:
        screen.print(table("By paper and method", ("paper", "method", *WORDS), rows, left=2))
    if not every:
        screen.print("For every verdict with its numbers, add [bold]--all[/bold]; docs/ledger.md lists the claims.")
        return
    colours = {"confirmed": "green", "refuted": "red", "undecided": "yellow", "not testable": "dim"}
    for name, verdicts in found.by_claim.items():
        counted_in = "holds in {} of {}: ".format(*found.holds[name]) if name in found.holds else ""
        screen.print(f"[bold]{as_it_is(name)}[/] {counted_in}{as_it_is(f'“{verdicts[0].claim}”')}", soft_wrap=True)
        for verdict in verdicts:
            stands = "" if verdict.survives is None else f" ({'stands' if verdict.survives else 'falls'} after Holm)"
            where = " on ".join(filter(None, (verdict.method, verdict.dataset)))
            word = f"[{colours[verdict.verdict]}]{verdict.verdict}[/]{stands}"
            reason = as_it_is(": ".join(filter(None, (where, verdict.evidence))))
            screen.print(f"    {word} {reason}", soft_wrap=True)


@app.command()
def publish(
    folder: Folder,
    out: Annotated[Path, typer.Option(help="Folder for the figures, the table, the verdict and their README.")],
    vector: Annotated[bool, typer.Option(help="Also write the figures as SVG and PDF.")] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep runs of this study that were published in --out before.")
    ] = False,
    mixed: Annotated[bool, typer.Option("--mixed", help="Allow runs made by different code.")] = False,
    json: Json = False,
) -> None:
    """Draw the figures of a study and write them with its table, verdict, command, time and machine.

    With --keep, a study run in parts on machines without a shared disk is published part by part.

    Example: [bold]polarised study publish runs/rtc_vae-small --out docs/results/rtc_vae[/bold]
    """
    from polarised.report.publish import publish as published
    from polarised.study.storage import at_hand

    with at_hand(folder) as here:
        formats: Any = ("png", "svg", "pdf") if vector else ("png",)
        page = published(here, out, formats=formats, keep=keep, mixed=mixed)
    if json:
        print_json(stamp("report", {"page": str(page)}))
    else:
        console().print(f"Page: [bold]{as_it_is(page)}[/bold]", soft_wrap=True)


def _executor(
    name: str,
    jobs: int,
    address: str | None,
    cpus: float | None,
    gpus: float | None,
    *,
    memory: float | None,
    attempts: int | None,
    mixed: bool,
    runtime_env: Path | None,
    before: Any = None,
) -> dict[str, Any]:
    """Return the config of the executor; options that are not given are taken from `before` if its name is the same."""
    from polarised.errors import ConfigError
    from polarised.study.config import read_config

    given: dict[str, Any] = {
        "jobs": jobs or None,
        "attempts": attempts,
        "address": address,
        "num_cpus": cpus,
        "num_gpus": gpus,
    }
    given |= {"memory": memory, "mixed": mixed or None}
    given["runtime_env"] = None if runtime_env is None else read_config(runtime_env)
    chosen = {key: value for key, value in given.items() if value is not None}
    if name == "local" and (set(chosen) - {"jobs", "attempts"}):
        raise ConfigError(
            "expected --address, --cpus, --gpus, --memory, --mixed and --runtime-env only together with --executor "
            "ray, got some of them with --executor local"
        )
    same = before is not None and before["name"] == name
    return {**(before if same else {"name": name}), **chosen}


def _tell(silent: bool) -> "Callable[[str], None]":
    screen = console(quiet=silent)
    return lambda sentence: screen.print(as_it_is(sentence), soft_wrap=True)


def _finish(outcome: "StudyOutcome", *, quiet: bool, json: bool) -> None:
    """Print the outcome of a study; exit with 1 if a run failed or none is done."""
    from polarised.study.workflow import counted

    root = outcome.folder
    # With --json no page is written; `polarised report FOLDER` writes it.
    page = None if quiet or json else _page(root, outcome.results)
    if json:
        print_json({**outcome.to_dict(), "page": page})
    else:
        screen = console(quiet=quiet)
        words = f"{outcome.done} of {counted(outcome.total, 'run')} done, {outcome.failed} failed"
        if outcome.measured:
            words = f"{outcome.done} of {counted(outcome.total, 'model')} measured"
        screen.print(f"{words}: [bold]{as_it_is(root)}[/bold]", soft_wrap=True)
        if outcome.shard is not None:
            command = f"polarised study collect {shlex.quote(root)}"
            screen.print(f"When all shares are done: [bold]{as_it_is(command)}[/bold]", soft_wrap=True)
        if outcome.results is not None:
            screen.print(f"Table: [bold]{as_it_is(outcome.results)}[/bold]", soft_wrap=True)
        if page is not None:
            screen.print(f"Page: [bold]{as_it_is(page)}[/bold]", soft_wrap=True)
    if outcome.failed:
        failed = counted(outcome.failed, "run")
        typer.echo(f"{failed} failed; see polarised study status {shlex.quote(root)}", err=True)
    if outcome.failed or not (outcome.done or outcome.shard):
        raise typer.Exit(1)


def _page(root: str, results: str | None) -> Path | None:
    """Write the page of a study if its folder is on this machine and has results."""
    from polarised._io.tables import table_about
    from polarised.report import write
    from polarised.study.storage import is_address

    if results is None or is_address(root) or not table_about(results)[1]:
        return None
    return write([root])
