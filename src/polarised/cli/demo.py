"""`polarised demo`: the whole walk once, on a VAE trained before your eyes."""

from dataclasses import asdict
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
    from polarised.models import load_vae, save_vae
    from polarised.pruning import prune, pruned_config, pruning_report
    from polarised.report import save
    from polarised.report.figures import overview
    from polarised.study import Run, execute
    from polarised.study.examine import diagnose_run
    from polarised.study.run import dataset_of
    from polarised.training import keep_freed_memory

    screen = console(quiet=quiet or json)
    keep_freed_memory()
    run = Run.from_config(
        {
            "dataset": "dsprites",
            "model": {"architecture": "locatello_conv", "latents": 10},
            "objective": {"name": "BetaVAE", "beta": 8.0},
            "training": {"steps": steps, "learning_rate": 1e-3},
            "snapshots": {"every": max(1, steps // 20)},
            "seed": seed,
        }
    )
    screen.print(f"Training a VAE with 10 latent variables on dSprites (64 × 64, beta 8, {steps:,} steps) …")
    directory = execute(run, out, progress=not quiet)
    diagnosis = diagnose_run(directory)
    show_diagnosis(diagnosis, screen)

    keep = [j for j in range(len(diagnosis.regime.types)) if j not in diagnosis.regime.droppable]
    proof = None
    if keep and diagnosis.regime.droppable:
        vae = load_vae(directory / "model.safetensors")
        smaller = prune(vae, keep)
        proof = pruning_report(vae, smaller, dataset_of(run).sample(2000, seed).images, keep=keep)
        save_vae(smaller, directory / "pruned.safetensors", config=pruned_config(run.model, keep))
        screen.print(
            f"\n[bold]Pruned to {len(keep)} variables:[/bold] {proof.parameters[0] - proof.parameters[1]:,} parameters "
            f"fewer, reconstruction from the means {proof.distortion[0]:.2f} → {proof.distortion[1]:.2f} nats "
            f"({proof.distortion_change:+.3f})."
        )
    save(overview(diagnosis.encodings, diagnosis.regime, seed=seed), directory / "overview")
    page = diagnosis.report(directory / "report.html")
    screen.print(f"\nThe page: [bold]{as_it_is(page)}[/bold]")
    if json:
        print_json(
            {
                **diagnosis.to_dict(),
                "directory": str(directory),
                "page": str(page),
                "pruning": asdict(proof) if proof else None,
            }
        )
