"""The command line: one line each to the library. Heavy imports happen inside the commands."""

import signal
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from polarised.cli.act import cure, demo, prune, train
from polarised.cli.datasets import app as datasets
from polarised.cli.datasets import cite
from polarised.cli.failures import listening, sentence_of
from polarised.cli.forecast import dimensions, forecast
from polarised.cli.look import diagnose, evaluate, explore, report
from polarised.cli.screen import as_flags
from polarised.cli.study import app as study
from polarised.errors import ConfigError, PolarisedError

__all__ = ["app", "main"]

# How to get what some commands or targets need and the package itself does not.
EXTRAS = {
    "torch": "pip install 'polarised[train]'",
    "ray": "pip install 'polarised[ray]'",
    "lightning": "pip install 'polarised[lightning]'",
    **{name: f"pip install {name}" for name in ("diffusers", "pythae", "anndata", "pandas")},
    "scvi": "pip install scvi-tools",
}


class _Commands(TyperGroup):
    """Commands whose warnings and expected errors are one sentence on standard error, never a traceback."""

    def invoke(self, ctx: Any) -> Any:
        before, warnings.showwarning = warnings.showwarning, _warn
        try:
            return super().invoke(ctx)
        except PolarisedError as error:
            typer.secho(f"error: {as_flags(str(error))}", fg=typer.colors.RED, err=True)
            # A setting that does not exist is wrong use, as an option that does not exist is.
            ctx.exit(2 if isinstance(error, ConfigError) else 1)
        except ModuleNotFoundError as error:
            if error.name not in EXTRAS:
                raise
            install = f"error: this needs {error.name}, which is not installed: {EXTRAS[error.name]}"
            typer.secho(install, fg=typer.colors.RED, err=True)
            ctx.exit(1)
        except BrokenPipeError:
            # Whoever reads what we print has seen enough: the frame around the commands ends without a word.
            raise
        except KeyboardInterrupt as interrupt:
            typer.secho(str(interrupt) or "stopped", fg=typer.colors.YELLOW, err=True)
            ctx.exit(128 + getattr(interrupt, "signal", signal.SIGINT))
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            # Wrong use that the parser itself found has an exit code and words of its own.
            if hasattr(error, "exit_code"):
                raise
            typer.secho(f"error: {sentence_of(error)}", fg=typer.colors.RED, err=True)
            ctx.exit(1)
        finally:
            warnings.showwarning = before


def _warn(message: Warning | str, *_where: Any, **_more: Any) -> None:
    """Show a warning to people: the sentence, not the line of our code that gave it."""
    typer.secho(f"warning: {message}", fg=typer.colors.YELLOW, err=True)


app = typer.Typer(
    name="polarised",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
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
    """Which latent variables of a VAE are used? Diagnose, forecast, cure, prune, train and reproduce.

    Start with [bold]polarised demo[/bold], or point [bold]polarised diagnose[/bold] at your own model.
    """


def main() -> None:
    """Run the command line."""
    with listening():
        app()
