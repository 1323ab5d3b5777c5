"""The command line: each command calls one function of the library. Heavy imports are inside the commands."""

from collections.abc import Callable
from typing import Annotated

import typer

from polarised.cli.act import cure, demo, prune, train
from polarised.cli.datasets import app as datasets
from polarised.cli.datasets import cite
from polarised.cli.failures import Commands, listening, printing
from polarised.cli.forecast import dimensions, forecast
from polarised.cli.look import diagnose, evaluate, explore, report
from polarised.cli.study import app as study

__all__ = ["app", "main"]

app = typer.Typer(
    name="polarised",
    cls=Commands,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
PANELS: dict[str, tuple[Callable[..., None], ...]] = {
    "Look": (diagnose, forecast, evaluate, report, explore),
    "Act": (train, cure, prune),
    "Study": (cite, demo),
}
for _panel, _commands in PANELS.items():
    for _command in _commands:
        app.command(rich_help_panel=_panel)(_command)
app.add_typer(study, name="study", rich_help_panel="Study")
app.add_typer(datasets, name="datasets", rich_help_panel="Study")
app.command(hidden=True)(dimensions)


def _version(show: bool) -> None:
    if show:
        from polarised._version import __version__

        typer.echo(f"polarised {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Find out which latent variables of a VAE are used: diagnose, forecast, cure, prune, train, reproduce.

    Start with [bold]polarised demo[/bold], or point [bold]polarised diagnose[/bold] at your own model.
    """


def main() -> None:
    """Run the command line."""
    with listening(), printing():
        app()
