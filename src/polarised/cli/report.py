"""`polarised report` and `polarised explore`: a page to send, and a page to play with."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from polarised.cli.screen import Alpha, Data, Examples, Json, Quiet, RunSeed, ScaleKind, as_it_is, console, print_json

__all__ = ["explore", "report"]


def report(
    targets: Annotated[
        list[Path],
        typer.Argument(
            help="A run directory, a study's folder, a file of arrays or a published model; several are compared.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="File to write; default: report.html in a run's or a study's folder, else NAME.html here."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    data: Data = None,
    alpha: Alpha = None,
    rule: Annotated[
        Literal["used", "relative", "standard"] | None, typer.Option(help="Rule of the types; default: used.")
    ] = None,
    scale_kind: ScaleKind = None,
    examples: Examples = None,
    seed: RunSeed = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write one self-contained HTML page about a model, several side by side, or a study.

    Example: [bold]polarised report runs/my-run[/bold]  or  [bold]polarised report runs/a runs/b codes.npz[/bold]
    """
    from polarised.report import write

    page = write(
        targets,
        out,
        title=title,
        data=data,
        alpha=alpha,
        rule=rule,
        scale_kind=scale_kind,
        examples=examples,
        seed=seed,
    )
    if json:
        print_json({"page": str(page), "bytes": page.stat().st_size})
    else:
        console(quiet=quiet).print(f"The page: [bold]{as_it_is(page)}[/bold]", soft_wrap=True)


def explore(
    target: Annotated[Path, typer.Argument(help="A run directory or a published model.", show_default=False)],
    data: Annotated[str | None, typer.Option(help="Inputs to show: a dataset's name or an .npz.")] = None,
    port: Annotated[int, typer.Option(help="Port on this machine; 0: any free one.", min=0, max=65535)] = 0,
    browse: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
) -> None:
    """Open a local page whose sliders decode on the fly; only this machine can reach it; Ctrl-C ends it.

    Example: [bold]polarised explore runs/my-run[/bold]
    """
    import webbrowser

    from polarised.report.explore import ExploreServer, open_exploration

    with ExploreServer(open_exploration(target, data=data), port=port) as server:
        try:
            typer.echo(f"Exploring {target} at {server.address} (Ctrl-C ends)")
            if browse:
                webbrowser.open(server.address)
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            typer.echo("Ended.")
