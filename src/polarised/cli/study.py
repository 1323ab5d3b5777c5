"""`polarised study`: many runs from one command, on a laptop or a cluster; then their table and the verdict."""

import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from polarised.cli.screen import Json, Quiet, as_it_is, console, print_json, table

if TYPE_CHECKING:
    from polarised.regime.classify import Rule
    from polarised.study.grid import Study

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
        "decomposition_alignment, decomposition_sparsity, or a YAML file of yours."
    ),
]
Settings = Annotated[
    list[str] | None, typer.Argument(help="key=value for every run (training.steps=100) or an axis (axes.seed=2).")
]
Scale = Annotated[
    str | None,
    typer.Option(help="smoke, laptop, small or paper, as the study has them; none: its own choice, said at the start."),
]
Folder = Annotated[str, typer.Argument(help="The folder (or fsspec address) of a study.")]
Jobs = Annotated[int, typer.Option(help="Runs at a time; 0: one a core, with ray what the cluster takes.", min=0)]
Address = Annotated[str | None, typer.Option(help="A running Ray cluster; none: one is started here.")]
Cpus = Annotated[float | None, typer.Option(help="Processors a run takes under Ray (1).", min=0)]
Gpus = Annotated[float | None, typer.Option(help="GPUs a run takes under Ray (0).", min=0)]


@app.callback()
def _group() -> None:
    """Do a whole study: every run resumable, one table of results, claims checked by code.

    Example: [bold]polarised study be_more_active --scale smoke[/bold]
    """


@app.command()
def run(
    name: Name,
    settings: Settings = None,
    scale: Scale = None,
    executor: Annotated[str, typer.Option(help="local, ray, or 'module:name' of yours.")] = "local",
    jobs: Jobs = 0,
    address: Address = None,
    cpus: Cpus = None,
    gpus: Gpus = None,
    out: Annotated[str | None, typer.Option(help="Folder or fsspec address of the results.")] = None,
    models: Annotated[Path | None, typer.Option(help="Measure the trained models of this folder instead.")] = None,
    shard: Annotated[str | None, typer.Option(help="Do one share of the runs and end, e.g. 2/8 in a queue.")] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Do the runs of a study; the same command after a kill does what is left.

    Example: [bold]polarised study be_more_active --scale laptop --jobs 2[/bold]
    """
    from polarised._io.files import contained
    from polarised.errors import ConfigError
    from polarised.study.grid import load_study, study_scales

    # Trained models are measured as the paper did, not as a scale for small machines would.
    if models is not None and scale is None and "paper" in study_scales(name):
        scale = "paper"
    study = load_study(name, scale=scale, settings=settings or [])
    kind = "models" if models is not None else study.scale
    root = out or str(contained("runs", "-".join(filter(None, (study.name, kind))), source=name))
    chosen = _executor(executor, jobs, address, cpus, gpus)
    if shard is not None:
        if models is not None or executor != "local":
            raise ConfigError("expected --shard with --executor local and without --models: the queue deals it out")
        _do_share(study, root, chosen, shard, quiet=quiet, json=json)
        return
    if models is not None:
        if executor != "local":
            raise ConfigError(f"expected --models with --executor local, got {executor}; nothing is trained")
        failed = _measure(study, models, root, jobs, quiet=quiet or json)
    else:
        failed = _conduct(study, root, chosen, retry=False, quiet=quiet or json)
    _finish(root, failed, quiet=quiet, json=json)


def _do_share(study: "Study", root: str, executor: dict[str, Any], shard: str, *, quiet: bool, json: bool) -> None:
    """Do one share of the runs; the table is for whoever collects when all shares are done."""
    from polarised.study.queue import Shard
    from polarised.study.runner import conduct, follow

    command = shlex.join(["polarised", *sys.argv[1:]])
    share = Shard.parse(shard)
    ended = follow(
        conduct(study, root, executor={**executor, "patient": False}, shard=share, command=command), quiet=quiet or json
    )
    done, failed, total = (0, 0, 0) if ended is None else (ended.done + ended.earlier, ended.failed, ended.total)
    if json:
        print_json({"folder": root, "shard": str(share), "done": done, "failed": failed, "runs": total})
    else:
        console(quiet=quiet).print(
            f"share {share}: {done} of {_many(total, 'run')} done, {failed} failed; when all shares are: "
            f"[bold]polarised study collect {as_it_is(shlex.quote(root))}[/bold]",
            soft_wrap=True,
        )
    if failed:
        raise typer.Exit(1)


@app.command()
def script(
    name: Name,
    settings: Settings = None,
    scale: Scale = None,
    out: Annotated[str, typer.Option(help="Folder of the results, which every node sees.")] = "runs/study",
    slurm: Annotated[bool, typer.Option("--slurm", help="For SLURM, the one queue there is a script for.")] = True,
    shards: Annotated[int, typer.Option(help="Jobs that share the runs.", min=1)] = 8,
    cpus: Annotated[int, typer.Option(help="Processors, and runs at a time, of a job.", min=1)] = 1,
    hours: Annotated[float, typer.Option(help="The longest time of a job.")] = 24.0,
    memory: Annotated[int, typer.Option(help="Gigabytes for each processor.", min=1)] = 4,
    gpus: Annotated[int, typer.Option(help="GPUs of a job.", min=0)] = 0,
) -> None:
    """Print a script that does a study as an array of jobs of SLURM; look at it, then submit it.

    Example: [bold]polarised study script be_more_active --slurm --shards 16 --out /shared/study > study.sh[/bold]
    """
    from polarised.study.grid import load_study
    from polarised.study.queue import slurm_script

    study = load_study(name, scale=scale, settings=settings or [])
    arguments = [name, *(settings or []), *(("--scale", study.scale) if study.scale else ()), "--out", out]
    jobs = min(shards, len(study.points))
    typer.echo(
        slurm_script(arguments, jobs=jobs, name=study.name, cpus=cpus, hours=hours, memory=memory, gpus=gpus), nl=False
    )


@app.command()
def plan(name: Name, settings: Settings = None, scale: Scale = None, jobs: Jobs = 0, json: Json = False) -> None:
    """Say what a study will cost, from a short calibration on this machine; nothing is started.

    Example: [bold]polarised study plan be_more_active --scale paper --jobs 64[/bold]
    """
    import os

    from polarised.study.grid import load_study
    from polarised.study.plan import plan as planned
    from polarised.study.runner import duration

    study = load_study(name, scale=scale, settings=settings or [])
    result, workers = planned(study), jobs or os.cpu_count() or 1
    if json:
        print_json(
            {
                "runs": result.runs,
                "steps": result.steps,
                "core_hours": result.core_hours,
                "workers": workers,
                "days": result.days(workers),
            }
        )
        return
    rows = [
        (
            as_it_is(cost.kind),
            f"{cost.runs:,}",
            f"{cost.steps:,}",
            f"{1000 * cost.seconds_per_step:.1f}",
            f"{cost.evaluation_seconds:.1f}",
            f"{cost.core_seconds / 3600:.1f}",
        )
        for cost in result.costs
    ]
    columns = ("kind", "runs", "steps", "ms a step", "evaluation (s)", "core-hours")
    screen = console()
    screen.print(table(as_it_is(study.title), columns, rows))
    screen.print(
        f"{_many(result.runs, 'run')}, {_many(result.steps, 'step')}: about {result.core_hours:.1f} core-hours, "
        f"{duration(86_400 * result.days(workers))} with {workers} at a time"
    )


@app.command()
def status(folder: Folder, json: Json = False) -> None:
    """Show how far a study is: done, running, waiting, failed and why.

    Example: [bold]polarised study status runs/be_more_active-laptop[/bold]
    """
    import time

    from polarised.study.runner import pace, read_study, run_states

    states = list(run_states(read_study(folder).points, folder))
    counts = Counter(state.state for state in states)
    if json:
        failures = {state.point.run.name: state.reason for state in states if state.state == "failed"}
        print_json({**{name: counts[name] for name in STATES}, "failures": failures})
        return
    screen = console()
    screen.print(" · ".join(f"{counts[name]} {name}" for name in STATES) + f" of {len(states)}")
    finished = [state.finished for state in states if state.state == "done"]
    if counts["running"] and (words := pace(finished, counts["running"] + counts["waiting"], time.time())):
        screen.print(words)
    methods = dict.fromkeys(state.point.labels["method"] for state in states)
    rows = []
    for method in methods:
        own = Counter(state.state for state in states if state.point.labels["method"] == method)
        rows.append((as_it_is(method), *(str(own[name] or "") for name in STATES)))
    screen.print(table("By method", ("method", *STATES), rows))
    for state in states:
        if state.state == "running":
            where = f" on {as_it_is(state.host)}, {state.pace:.0f} steps/s" if state.host else ""
            words = f"running {state.point.run.name}: step {state.step:,} of {state.point.run.training.steps:,}{where}"
            screen.print(words, soft_wrap=True)
    for state in states:
        if state.state == "failed":
            screen.print(f"[red]failed[/] {state.point.run.name}: {as_it_is(state.reason)}", soft_wrap=True)
    if counts["failed"]:
        command = f"polarised study retry {shlex.quote(folder)}"
        screen.print(f"Try them again with [bold]{as_it_is(command)}[/bold]", soft_wrap=True)


STATES = ("done", "running", "waiting", "failed")


@app.command()
def retry(
    folder: Folder,
    executor: Annotated[str | None, typer.Option(help="local, ray or 'module:name'; none: as it was done.")] = None,
    jobs: Jobs = 0,
    address: Address = None,
    cpus: Cpus = None,
    gpus: Gpus = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Do again what failed, and what is left, of a study's folder; a Ray cluster elsewhere is named again.

    Example: [bold]polarised study retry runs/be_more_active-laptop[/bold]
    """
    from polarised.study.runner import read_executor, read_models, read_study

    study, before, models = read_study(folder), read_executor(folder), read_models(folder)
    chosen = _executor(executor or before["name"], jobs, address, cpus, gpus, before=before)
    if chosen["name"] == "ray" and address is None:
        typer.echo(
            "A Ray cluster is started on this machine: the address of another is never taken from a folder; "
            "give it again with --address to work there",
            err=True,
        )
    if models is not None:
        failed = _measure(study, models, folder, jobs, quiet=quiet or json)
    else:
        failed = _conduct(study, folder, chosen, retry=True, quiet=quiet or json)
    _finish(folder, failed, quiet=quiet, json=json)


@app.command()
def doctor(
    folder: Annotated[Path, typer.Argument(help="The folder of a study.")],
    repair: Annotated[bool, typer.Option("--repair", help="Put damaged files aside and measure again.")] = False,
    json: Json = False,
) -> None:
    """Check every file of a study's folder; say what is damaged and repair what can be computed again.

    Example: [bold]polarised study doctor runs/be_more_active-laptop --repair[/bold]
    """
    from dataclasses import asdict

    from polarised.study.doctor import examine_folder

    found = list(examine_folder(folder, repair=repair))
    if json:
        print_json({"findings": [asdict(finding) for finding in found]})
    else:
        screen = console()
        for finding in found:
            screen.print(as_it_is(finding.sentence), soft_wrap=True)
        left = sum(not finding.repaired for finding in found)
        words = "every file is as it should be" if not found else f"{_many(len(found), 'file')} damaged, {left} left"
        screen.print(f"{as_it_is(folder)}: {words}", soft_wrap=True)
    if not all(finding.repaired for finding in found):
        raise typer.Exit(1)


@app.command()
def collect(
    folder: Folder,
    rule: Annotated[str | None, typer.Option(help="standard or relative, instead of the study's own rule.")] = None,
    mixed: Annotated[bool, typer.Option("--mixed", help="Also where runs were made by different code.")] = False,
    json: Json = False,
) -> None:
    """Write the tidy table of what is done so far: results.parquet.

    Example: [bold]polarised study collect runs/be_more_active-laptop[/bold]
    """
    from polarised.errors import ConfigError
    from polarised.study.results import collect as collected

    rules: dict[str | None, Rule | None] = {None: None, "standard": "standard", "relative": "relative"}
    if rule not in rules:
        raise ConfigError(f"expected --rule standard or relative, got {rule!r}")
    path = collected(folder, rule=rules[rule], mixed=mixed)
    if json:
        print_json({"results": str(path)})
    else:
        console().print(f"The table: [bold]{as_it_is(path)}[/bold]")


@app.command()
def verify(
    results: Annotated[str, typer.Argument(help="A study's folder or fsspec address, or its results.parquet.")],
    study: Annotated[str | None, typer.Option(help="The study whose claims to check; none: the folder's.")] = None,
    json: Json = False,
) -> None:
    """Check a paper's claims on the results: confirmed, not confirmed or undecided, each with its numbers.

    Example: [bold]polarised study verify runs/be_more_active-laptop[/bold]
    """
    from polarised.study.verify import verify as verified

    verdicts = verified(results, study=study)
    if json:
        print_json({"verdicts": [verdict.to_dict() for verdict in verdicts]})
        return
    screen = console()
    colours = {"confirmed": "green", "not confirmed": "red", "undecided": "yellow"}
    for verdict in verdicts:
        screen.print(
            f"[bold {colours[verdict.verdict]}]{verdict.verdict}[/]: {as_it_is(verdict.claim)}", soft_wrap=True
        )
        screen.print(f"    {as_it_is(verdict.evidence)}", soft_wrap=True)


@app.command()
def publish(
    folder: Folder,
    out: Annotated[Path, typer.Option(help="Folder for the figures, the table, the verdict and their README.")],
    vector: Annotated[bool, typer.Option(help="Figures also as SVG and PDF.")] = False,
    json: Json = False,
) -> None:
    """Draw the figures of a study and write them down with its table, verdict, command, time and machine.

    Example: [bold]polarised study publish runs/rtc_vae-small --out docs/results/rtc_vae[/bold]
    """
    from polarised.report.publish import publish as published
    from polarised.study.storage import at_hand

    with at_hand(folder) as here:
        page = published(here, out, formats=("png", "svg", "pdf") if vector else ("png",))
    if json:
        print_json({"page": str(page)})
    else:
        console().print(f"The page: [bold]{as_it_is(page)}[/bold]", soft_wrap=True)


def _conduct(study: "Study", root: str, executor: dict[str, Any], *, retry: bool, quiet: bool) -> int:
    """Do what is left of a study; return how many runs failed."""
    from polarised.study.runner import conduct, follow

    # Hours may lie ahead: whoever did not mean that should see it before, also without a progress bar.
    console(quiet=quiet).print(
        f"{as_it_is(study.title)}: {_many(len(study.points), 'run')} into {as_it_is(root)}", soft_wrap=True
    )
    command = shlex.join(["polarised", *sys.argv[1:]])
    ended = follow(conduct(study, root, executor=executor, retry=retry, command=command), quiet=quiet)
    if ended is None:
        return 0
    done = ended.done + ended.earlier
    words = f"{done} of {_many(ended.total, 'run')} done, {ended.failed} failed"
    console(quiet=quiet).print(f"{words}: [bold]{as_it_is(root)}[/bold]", soft_wrap=True)
    if ended.failed:
        typer.echo(f"{_many(ended.failed, 'run')} failed; see polarised study status {shlex.quote(root)}", err=True)
    if not done:
        raise typer.Exit(1)
    return ended.failed


def _measure(study: "Study", models: Path, root: str, jobs: int, *, quiet: bool) -> int:
    """Measure the models of a folder; return how many failed."""
    from polarised.errors import ConfigError
    from polarised.study.storage import is_address
    from polarised.study.trained import measure_models

    if is_address(root):
        raise ConfigError(f"expected --out as a folder of this machine with --models, got {root}")
    screen, reasons = console(quiet=quiet), []
    for path, why in measure_models(study, models, root, jobs=jobs or -1):
        reasons.append(why)
        words = f"[red]failed[/] {as_it_is(f'{path.name}: {why}')}" if why else f"measured {as_it_is(path.name)}"
        screen.print(words, soft_wrap=True)
    failed = sum(map(bool, reasons))
    words = f"{len(reasons) - failed} of {_many(len(reasons), 'model')} measured"
    screen.print(f"{words}: [bold]{as_it_is(root)}[/bold]", soft_wrap=True)
    return failed


def _executor(
    name: str, jobs: int, address: str | None, cpus: float | None, gpus: float | None, *, before: Any = None
) -> dict[str, Any]:
    """Return the executor a user asks for; what is not said is as `before`, if that was the same one."""
    from polarised.errors import ConfigError

    given = {"jobs": jobs or None, "address": address, "num_cpus": cpus, "num_gpus": gpus}
    chosen = {key: value for key, value in given.items() if value is not None}
    if name == "local" and (set(chosen) - {"jobs"}):
        raise ConfigError("expected --address, --cpus and --gpus together with --executor ray, got them with local")
    same = before is not None and before["name"] == name
    return {**(before if same else {"name": name}), **chosen}


def _finish(root: str, failed: int, *, quiet: bool, json: bool) -> None:
    from polarised.study.results import collect as collected

    path = collected(root)
    # A machine that wants the page asks for it: polarised report FOLDER.
    page = None if quiet or json else _page(root, path)
    if json:
        print_json({"folder": root, "results": str(path), "page": page, "failed": failed})
    else:
        screen = console(quiet=quiet)
        screen.print(f"The table: [bold]{as_it_is(path)}[/bold]", soft_wrap=True)
        if page is not None:
            screen.print(f"The page: [bold]{as_it_is(page)}[/bold]", soft_wrap=True)
    if failed:
        raise typer.Exit(1)


def _page(root: str, results: Path | str) -> Path | None:
    """Write the page of a study that lies on this machine and has results."""
    import polars

    from polarised.report.folders import report_on
    from polarised.study.storage import is_address

    if is_address(root) or not polars.scan_parquet(results, glob=False).head(1).collect().height:
        return None
    return report_on([root])


def _many(count: int, thing: str) -> str:
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"
