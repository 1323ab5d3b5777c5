"""`polarised train`: one model from a config."""

from pathlib import Path
from typing import Annotated

import typer

from polarised.cli.screen import Json, Quiet, as_it_is, console, print_json, show_diagnosis

__all__ = ["train"]


def train(
    config: Annotated[Path, typer.Argument(help="YAML file of settings.")],
    settings: Annotated[list[str] | None, typer.Argument(help="Overrides such as training.steps=1000.")] = None,
    out: Annotated[Path, typer.Option(help="Folder that holds run directories.")] = Path("runs"),
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Train and measure one model; the same command after a kill continues where it stopped.

    Example: [bold]polarised train beta.yaml objective.beta=8 seed=1[/bold]
    """
    from polarised.diagnosis import diagnose
    from polarised.study import train as train_run
    from polarised.training import keep_freed_memory

    keep_freed_memory()
    screen = console(quiet=quiet or json)
    directory = train_run(
        config,
        settings=settings or [],
        out=out,
        progress=not quiet,
        tell=None if quiet or json else lambda line: screen.print(f"[dim]{as_it_is(line)}[/dim]", soft_wrap=True),
    )
    diagnosis = diagnose(directory)
    if json:
        print_json({**diagnosis.to_dict(), "directory": str(directory)})
    else:
        show_diagnosis(diagnosis, screen)
        screen.print(f"\nThe run: [bold]{as_it_is(directory)}[/bold]")
