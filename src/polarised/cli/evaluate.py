"""`polarised evaluate`: every number of a representation, with a sentence on how to read it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from polarised.cli.screen import Json, Quiet, as_it_is, console, print_json, table

if TYPE_CHECKING:
    from rich.console import Console

    from polarised.representations import Encodings

__all__ = ["evaluate"]


def evaluate(
    target: Annotated[
        Path,
        typer.Argument(
            help="What diagnose takes: a run directory, arrays (.npz, .npy, .parquet), a published model.",
            show_default=False,
        ),
    ],
    metrics: Annotated[str, typer.Option(help="Names separated by commas, or all.")] = "all",
    representation: Annotated[Literal["both", "mean", "sampled"], typer.Option(help="Which code to score.")] = "both",
    data: Annotated[
        str | None, typer.Option(help="Images to encode: a dataset's name or an .npz; default: the model's own.")
    ] = None,
    second: Annotated[
        Literal["variance", "log_variance", "std", "log_std"] | None,
        typer.Option(help="What the spread in a file of arrays is; default: by its name."),
    ] = None,
    examples: Annotated[int, typer.Option(help="Inputs to score.", min=2)] = 10_000,
    seed: Annotated[int, typer.Option(help="Seed of everything random.", min=0)] = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Score the mean and the sampled code with the metrics of the literature.

    With known factors (an array of that name, or a model with its data) also what each variable says of them.

    Example: [bold]polarised evaluate runs/my-run --metrics total_correlation,mig,dci[/bold]
    """
    from polarised.metrics.evaluation import evaluate as score

    encodings = _encoded(target, data, second, examples, seed)
    kinds: tuple[Literal["mean", "sampled"], ...] = (
        ("mean", "sampled") if representation == "both" else (representation,)
    )
    names = [name.strip() for name in metrics.split(",") if name.strip()]
    scores = score(encodings, metrics="all" if names == ["all"] else names, representation=kinds, seed=seed)
    if json:
        print_json({"target": str(target), "seed": seed, "scores": scores.to_dicts()})
        return
    _show(scores.to_dicts(), console(quiet=quiet))


def _encoded(target: Path, data: str | None, second: Any, examples: int, seed: int) -> "Encodings":
    from polarised.adapters.targets import images_named, open_target

    opened = open_target(target)
    if opened.kind == "arrays":
        from polarised.adapters.arrays import from_arrays

        return from_arrays(opened.path, second=second, examples=examples)
    if opened.kind == "run" and data is None:
        from polarised.adapters.arrays import from_arrays

        return from_arrays(target / "encodings.npz", examples=examples)
    from polarised.adapters.native import from_vae

    images = opened.data() if data is None else images_named(data)
    return from_vae(opened.vae(), images, examples=examples, seed=seed)


def _show(scores: list[dict[str, object]], screen: "Console") -> None:
    from rich.table import Table

    values = {(str(row["metric"]), str(row["representation"])): row["value"] for row in scores}
    readings = {str(row["metric"]): str(row["reading"]) for row in scores}
    kinds = list(dict.fromkeys(str(row["representation"]) for row in scores))
    rows = [
        (name, *(f"{values[name, kind]:.3f}" if (name, kind) in values else "–" for kind in kinds)) for name in readings
    ]
    screen.print(table("Scores", ("metric", *kinds), rows))
    drawn = Table.grid(padding=(0, 2))
    for name, sentence in readings.items():
        drawn.add_row(as_it_is(name), as_it_is(sentence))
    screen.print("[bold]How to read them[/bold]\n", drawn, sep="")
