"""`polarised demo`: the whole walk once, on a VAE trained while you watch."""

from pathlib import Path
from typing import Annotated

import typer

from polarised.cli.screen import Json, Quiet, Seed, as_it_is, console, print_json, show_diagnosis

__all__ = ["demo"]


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the run and its page.")] = Path("runs"),
    steps: Annotated[int, typer.Option(help="Training steps.", min=1)] = 1600,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Train a VAE on sprites, see which variables it switches off, prune them, and get a page about it.

    Under two minutes on two CPU cores; nothing is downloaded.

    Example: [bold]polarised demo[/bold]
    """
    from polarised.demonstration import demo as show

    screen = console(quiet=quiet or json)
    shown = show(out, steps=steps, seed=seed, progress=not quiet, tell=screen.print)
    show_diagnosis(shown.diagnosis, screen)
    if (proof := shown.pruning) is not None:
        screen.print(
            f"\n[bold]Pruned to {len(proof.keep)} variables:[/bold] {proof.parameters[0] - proof.parameters[1]:,} "
            f"parameters fewer, reconstruction from the means {proof.distortion[0]:.2f} → {proof.distortion[1]:.2f} "
            f"nats ({proof.distortion_change:+.3f})."
        )
    screen.print(f"\nThe page: [bold]{as_it_is(shown.page)}[/bold]")
    if json:
        print_json(shown.to_dict())
