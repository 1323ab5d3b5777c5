"""`polarised evaluate`: every number of a representation, with a sentence on how to read it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from polarised.cli.screen import Json, Quiet, as_it_is, console, print_json

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["evaluate"]


def evaluate(
    target: Annotated[
        Path,
        typer.Argument(help="A run directory or an .npz of encodings (mean, variance, factors).", show_default=False),
    ],
    metrics: Annotated[str, typer.Option(help="Names separated by commas, or all.")] = "all",
    representation: Annotated[Literal["both", "mean", "sampled"], typer.Option(help="Which code to score.")] = "both",
    seed: Annotated[int, typer.Option(help="Seed of everything random.", min=0)] = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Score the mean and the sampled code with the metrics of the literature.

    Example: [bold]polarised evaluate runs/my-run --metrics total_correlation,mig,dci[/bold]
    """
    from polarised.errors import DataError
    from polarised.metrics.evaluation import evaluate as score
    from polarised.representations import Encodings

    path = target / "encodings.npz" if target.is_dir() else target
    if not path.is_file():
        raise DataError(
            f"expected a run directory with encodings.npz or an .npz file, found nothing at {path}; "
            "train a run first, or write one with Encodings.save"
        )
    kinds: tuple[Literal["mean", "sampled"], ...] = (
        ("mean", "sampled") if representation == "both" else (representation,)
    )
    names = [name.strip() for name in metrics.split(",") if name.strip()]
    scores = score(Encodings.load(path), metrics="all" if names == ["all"] else names, representation=kinds, seed=seed)
    if json:
        print_json({"target": str(target), "seed": seed, "scores": scores.to_dicts()})
        return
    _show(scores.to_dicts(), console(quiet=quiet))


def _show(scores: list[dict[str, object]], screen: "Console") -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    values = {(str(row["metric"]), str(row["representation"])): row["value"] for row in scores}
    readings = {str(row["metric"]): str(row["reading"]) for row in scores}
    kinds = list(dict.fromkeys(str(row["representation"]) for row in scores))
    drawn = Table(box=SIMPLE_HEAD, pad_edge=False)
    drawn.add_column("metric", overflow="fold")
    for kind in kinds:
        drawn.add_column(kind, justify="right", no_wrap=True)
    drawn.add_column("how to read it", overflow="fold")
    for name, sentence in readings.items():
        cells = [f"{values[name, kind]:.4g}" if (name, kind) in values else "–" for kind in kinds]
        drawn.add_row(name.replace("_", " "), *cells, as_it_is(sentence))
    screen.print(drawn)
