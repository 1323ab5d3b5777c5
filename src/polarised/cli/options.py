"""Options that several commands have, said once."""

from typing import Annotated, Literal

import typer

__all__ = ["Alpha", "Data", "Examples", "Json", "Quiet", "RunSeed", "Second", "Seed", "TypeRule"]

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object for machines.")]
Seed = Annotated[int, typer.Option(help="Seed of everything random.", min=0)]
RunSeed = Annotated[int | None, typer.Option(help="Seed of everything random; default: 0, or a run's.", min=0)]
Data = Annotated[
    str | None, typer.Option(help="Images to encode: a dataset's name or an .npz; default: the model's own.")
]
Examples = Annotated[int | None, typer.Option(help="Images to encode; default: 10,000.", min=2)]
Alpha = Annotated[
    float | None, typer.Option(help="Threshold of the types; default: 0.1, or the run's own.", min=0.001, max=0.499)
]
Second = Annotated[
    Literal["variance", "log_variance", "std", "log_std"] | None,
    typer.Option(help="What the spread in a file of arrays is; default: by its name."),
]
TypeRule = Annotated[Literal["relative", "standard"], typer.Option(help="Rule of the types.")]
