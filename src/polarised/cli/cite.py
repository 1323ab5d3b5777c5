"""`polarised cite`: BibTeX of exactly what a run or a study used."""

from typing import Annotated

import typer

from polarised.cli.screen import Json, print_json

__all__ = ["cite"]


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
        print_json({"keys": list(found.keys), "bibtex": found.bibtex})
    else:
        typer.echo(found.bibtex)
