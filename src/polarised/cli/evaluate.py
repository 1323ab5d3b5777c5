"""`polarised evaluate`: every number of a representation, with a sentence on how to read it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from polarised.cli.screen import Data, Json, Quiet, ScaleKind, Seed, as_it_is, console, print_json, table

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from polarised.adapters.targets import Target
    from polarised.regime import Encodings

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
    data: Data = None,
    scale_kind: ScaleKind = None,
    examples: Annotated[int, typer.Option(help="Inputs to score.", min=2)] = 10_000,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Score the mean and the sampled code with the metrics of the literature.

    With known factors (an array of that name, or a model with its data) also what each variable says of them. Of a
    model factor_vae_score and beta_vae_score are made where they are named: each encodes about a million images.

    Example: [bold]polarised evaluate runs/my-run --metrics total_correlation,mig,dci[/bold]
    """
    from polarised.adapters.targets import open_target
    from polarised.metrics.evaluation import evaluate as score
    from polarised.registry import record

    opened = open_target(target)
    encodings = _encoded(opened, data, scale_kind, examples, seed)
    kinds: tuple[Literal["mean", "sampled"], ...] = (
        ("mean", "sampled") if representation == "both" else (representation,)
    )
    names = [name.strip() for name in metrics.split(",") if name.strip()]
    everything = names == ["all"]
    # Arrays hold the images that were encoded; a model with its data can encode any.
    drawn = opened.kind != "arrays" and not everything and any("drawing" in record("metric", n).needs for n in names)
    draw = _drawing(opened, data, seed) if drawn else None
    scores = score(encodings, metrics="all" if everything else names, representation=kinds, draw=draw, seed=seed)
    if json:
        print_json({"target": str(target), "seed": seed, "scores": scores.to_dicts()})
        return
    _show(scores.to_dicts(), console(quiet=quiet))


def _encoded(opened: "Target", data: str | None, scale_kind: Any, examples: int, seed: int) -> "Encodings":
    if opened.kind == "arrays":
        from polarised.adapters.arrays import from_arrays

        return from_arrays(opened.path, scale_kind=scale_kind, examples=examples)
    if opened.kind == "run" and data is None:
        from polarised.adapters.arrays import from_arrays

        return from_arrays(opened.path / "encodings.npz", examples=examples)
    from polarised.models.encoding import from_vae

    return from_vae(opened.vae(), _images(opened, data), examples=examples, seed=seed)


def _images(opened: "Target", data: str | None) -> Any:
    from polarised.adapters.targets import images_named

    return opened.data() if data is None else images_named(data)


def _drawing(opened: "Target", data: str | None, seed: int) -> "Callable[[Any], Any]":
    """Return how to encode images of any combination of factors, for scores that hold a factor fixed."""
    from polarised.models.encoding import represent_by_drawing

    vae, images = opened.vae(), _images(opened, data)
    return lambda kind: represent_by_drawing(vae, images, kind, seed=seed)


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
