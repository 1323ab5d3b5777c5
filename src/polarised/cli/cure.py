"""`polarised cure`: bring the code of a collapsed model back, with the proof."""

from pathlib import Path
from typing import Annotated

import typer

from polarised.cli.screen import Json, Quiet, Seed, as_it_is, console, print_json, table

__all__ = ["cure"]


def cure(
    target: Annotated[Path, typer.Argument(help="The directory of a trained run.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for trials, model and page; default: <run>-cured beside the run.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Steps of each trial; default: the run's.", min=20)] = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Say why a model collapsed, try the cures in order, and prove the best one on data it has not seen.

    The run is only read. The same command after a kill goes on where it stopped.

    Example: [bold]polarised cure runs/beta-vae-1a2b3c --steps 5000[/bold]
    """
    from polarised._patient import CAUSES
    from polarised.curing import cure_run
    from polarised.report import write_report

    screen = console(quiet=quiet or json)
    folder = out or target.resolve().parent / f"{target.resolve().name}-cured"
    found = cure_run(target, steps=steps, directory=folder, seed=seed, progress=not (quiet or json))
    screen.print(f"\n[bold]{as_it_is(CAUSES[found.cause].capitalize())}.[/bold]\n")
    rows = [
        (
            as_it_is(name),
            f"{outcome.active}/{outcome.mixed}/{outcome.passive}",
            f"{outcome.explained:.2f}",
            "–" if outcome.score is None else f"{outcome.score:.2f}",
            f"{outcome.rate:.1f}",
            f"{outcome.bound:.1f}",
        )
        for name, outcome in (
            ("before", found.before),
            *((trial.name, trial.outcome) for trial in found.trials),
            (f"after: {found.winner}", found.after),
        )
        if outcome is not None
    ]
    columns = ("", "active/mixed/passive", "explained", "factors", "rate", "negative bound")
    note = "explained: share of the variance reconstructed through a sample; before and after on test data, trials on "
    screen.print(table("Before, trials, after", columns, rows, note=note + "validation data"))
    for trial in found.trials:
        if trial.failure:
            screen.print(f"{as_it_is(trial.name)}: {as_it_is(trial.failure)}")
    page = None
    if found.diagnoses:
        page = write_report(list(found.diagnoses), folder / "page.html", title="Before and after")
        screen.print(f"To do in your own code: [bold]{as_it_is(found.change)}[/bold]")
        screen.print(
            f"The model: [bold]{as_it_is(folder / 'model.safetensors')}[/bold], before and after: {as_it_is(page)}"
        )
    else:
        screen.print(f"[bold]Left alone:[/bold] {as_it_is(found.refusal)}")
    if json:
        print_json({**found.to_dict(), "directory": str(folder), "page": None if page is None else str(page)})
