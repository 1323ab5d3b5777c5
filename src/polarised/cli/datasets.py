"""`polarised datasets` lists, prepares and shows datasets; `polarised cite` prints citations."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polarised.cli.screen import Json, Quiet, as_it_is, console, print_json
from polarised.schemas import stamp

if TYPE_CHECKING:
    from polarised.data import Description
    from polarised.data.cache import Progress

__all__ = ["app", "cite"]

app = typer.Typer(
    help="List, prepare and view datasets.\n\nExample: polarised datasets show dsprites",
    rich_markup_mode="rich",
)

Name = Annotated[str, typer.Argument(help="A name from the list of `polarised datasets`.", show_default=False)]
Settings = Annotated[list[str] | None, typer.Argument(help="Settings of the dataset as key=value.", show_default=False)]


@app.callback(invoke_without_command=True)
def datasets(context: typer.Context, as_json: Json = False) -> None:
    """List, prepare and view datasets; without a command, list them.

    Example: polarised datasets
    """
    if context.invoked_subcommand is None:
        list_datasets(as_json)


@app.command("list")
def list_datasets(as_json: Json = False) -> None:
    """List every dataset with its size, factors, licence and citation, and whether it is ready.

    Example: polarised datasets list --json
    """
    from polarised.data import describe
    from polarised.data.cache import data_folder

    if as_json:
        known = [asdict(about) for about in describe()]
        print_json(stamp("datasets", {"folder": str(data_folder()), "datasets": known}))
        return
    _print_table(describe(), str(data_folder()))


@app.command()
def prepare(
    name: Name,
    settings: Settings = None,
    mirror: Annotated[
        str | None, typer.Option(help="Address or path of a folder with the files.", show_default=False)
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Download and decode a dataset for use without a network connection.

    Example: polarised datasets prepare shapes3d
    """
    from polarised.data import prepare as prepare_dataset

    with _progress(quiet or as_json) as progress:
        dataset = prepare_dataset(_spec(name, settings), progress=progress, mirror=mirror)
    if as_json:
        print_json(stamp("dataset", {"name": name, "images": len(dataset), "shape": list(dataset.shape)}))
    elif not quiet:
        typer.echo(f"{name} is ready: {len(dataset):,} of shape {' × '.join(map(str, dataset.shape))}")


@app.command()
def show(
    name: Name,
    settings: Settings = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="File to write; default: NAME.png.", show_default=False)
    ] = None,
    columns: Annotated[int, typer.Option(help="Images per row.", min=1, max=40)] = 10,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a contact sheet that shows the effect of each factor of a dataset.

    Example: polarised datasets show dsprites -o dsprites.png
    """
    from polarised.data import contact_sheet
    from polarised.data import prepare as prepare_dataset

    with _progress(quiet or as_json) as progress:
        dataset = prepare_dataset(_spec(name, settings), progress=progress)
    path = contact_sheet(dataset, output or f"{name}.png", columns=columns, seed=seed)
    if as_json:
        print_json(stamp("dataset", {"name": name, "path": str(path)}))
    elif not quiet:
        typer.echo(str(path))


def _spec(name: str, settings: list[str] | None) -> dict[str, Any]:
    from polarised._io.text import parse_yaml
    from polarised.errors import ConfigError, DataError

    spec: dict[str, Any] = {"name": name}
    for setting in settings or []:
        key, equals, value = setting.partition("=")
        if not key or not equals:
            raise ConfigError(f"expected a setting as key=value, such as size=32, got {setting!r}")
        try:
            spec[key] = parse_yaml(value, where=key)
        except DataError as error:
            raise ConfigError(f"expected a YAML value for {key}, got {value!r}; quote it") from error
    return spec


@contextmanager
def _progress(quiet: bool) -> "Iterator[Progress | None]":
    """Show a progress bar for each download or decoding on standard error."""
    if quiet:
        yield None
        return
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    share = TextColumn("{task.percentage:>3.0f}%")
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), share, TimeRemainingColumn())
    bars = Progress(*columns, console=console(stderr=True))
    tasks: dict[str, TaskID] = {}

    def progress(doing: str, done: int, total: int) -> None:
        if doing not in tasks:
            bars.start()
            tasks[doing] = bars.add_task(doing, total=total or None)
        bars.update(tasks[doing], completed=done)

    try:
        yield progress
    finally:
        if tasks:
            bars.stop()


def _print_table(described: "list[Description]", folder: str) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    screen = console()
    table = Table(box=SIMPLE_HEAD, pad_edge=False, title="Datasets", title_justify="left", title_style="bold")
    for heading in ("dataset", "ready", "images", "shape", "factors, licence, citation"):
        # In a narrow terminal words may wrap, but numbers may not.
        whole = heading in ("ready", "images", "shape")
        table.add_column(heading, justify="right" if heading == "images" else "left", no_wrap=whole)
    table.columns[0].min_width = max(len(about.name) for about in described)
    for about in described:
        table.add_row(
            f"{about.name}\n[dim]{about.summary}[/dim]",
            ("[green]● yes[/]" if about.ready else "[yellow]○ no[/]")
            + (f"\n[dim]{about.verified}[/dim]" if about.verified else ""),
            f"{about.images:,}" if about.images else "",
            "×".join(map(str, about.shape)),
            "\n".join(
                line
                for line in (
                    ", ".join(f"{factor} ({size})" for factor, size in about.factors.items()),
                    ", ".join(filter(None, (about.licence, about.citation))),
                )
                if line
            ),
        )
    screen.print(table)
    screen.print(f"Datasets are stored in {as_it_is(folder)}; set POLARISED_DATA to change it.", soft_wrap=True)
    for about in (about for about in described if not about.ready):
        files = about.files[0] if len(about.files) == 1 else f"{len(about.files)} files ({about.files[0]}, ...)"
        origin = f"from {about.pages[0]} " if about.pages else ""
        screen.print(as_it_is(f"  {about.name}: {files} {origin}into {about.folder}"), style="dim", soft_wrap=True)
    screen.print(
        "`polarised datasets prepare NAME` downloads a dataset if possible; `show NAME` draws a contact sheet."
    )


def cite(
    target: Annotated[str, typer.Argument(help="A run directory, a folder of runs, or the name or file of a study.")],
    json: Json = False,
) -> None:
    """Print the BibTeX entries of the methods, data and metrics that a run or a study used.

    Example: [bold]polarised cite be_more_active > references.bib[/bold]
    """
    from polarised.study.workflow import cite as cite_target

    found = cite_target(target)
    if json:
        print_json(stamp("citations", {"keys": list(found.keys), "bibtex": found.bibtex}))
    else:
        typer.echo(found.bibtex)
