"""`polarised cite`: BibTeX of exactly what a run or a study used."""

from pathlib import Path
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
    from polarised.errors import ConfigError
    from polarised.study.citations import bibtex, citation_keys
    from polarised.study.grid import load_study
    from polarised.study.stages import load_run

    folder = Path(target)
    more: list[str] = []
    if (folder / "config.yaml").exists():
        runs = [load_run(folder)]
    elif folder.is_dir() and (found := sorted(folder.glob("*/config.yaml"))):
        runs = [load_run(path.parent) for path in found]
    elif folder.is_dir() or (folder.is_file() and folder.suffix not in (".yaml", ".yml")):
        raise ConfigError(
            f"expected a run directory, a folder of runs, or the name or .yaml file of a study, {target} is none: "
            "a run has a config.yaml"
        )
    else:
        study = load_study(target)
        runs, more = study.runs, list(study.references)
    keys = list(dict.fromkeys([*more, *citation_keys(runs)]))
    if json:
        print_json({"keys": keys, "bibtex": bibtex(keys)})
    else:
        typer.echo(bibtex(keys))
