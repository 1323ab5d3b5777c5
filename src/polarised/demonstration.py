"""A demonstration of the library on a small model: train, diagnose, prune, draw, report."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polarised.diagnosis import Diagnosis
from polarised.schemas import stamp

if TYPE_CHECKING:
    from polarised.pruning import PruningReport

__all__ = ["Demonstration", "demo"]


@dataclass(frozen=True, eq=False)
class Demonstration:
    """The results of the demonstration.

    Args:
        directory: The run directory with the model, its encodings and scores.
        diagnosis: The types of its variables, with advice.
        pruning: The effect of removing the passive variables, or None if none could be removed.
        page: The HTML page.
    """

    directory: Path
    diagnosis: Diagnosis
    pruning: "PruningReport | None"
    page: Path

    def to_dict(self) -> dict[str, Any]:
        """Return the diagnosis, the pruning and the paths as plain JSON types."""
        return {
            **stamp("demonstration", {k: v for k, v in self.diagnosis.to_dict().items() if k != "schema"}),
            "directory": str(self.directory),
            "page": str(self.page),
            "pruning": None if self.pruning is None else asdict(self.pruning),
        }


def demo(
    out: str | Path = "runs",
    *,
    steps: int = 1600,
    seed: int = 0,
    progress: bool = True,
    tell: Callable[[str], None] | None = None,
) -> Demonstration:
    """Train a beta-VAE on dSprites, diagnose it, prune its passive variables, and write a report page.

    Args:
        out: The folder that holds the run directory.
        steps: Training steps; 1,600 take under two minutes on two cores.
        seed: Seed of weights, batches and noise.
        progress: Whether to show a progress bar.
        tell: Called with a sentence before training starts.

    Returns:
        The run directory, the diagnosis, the proof of the pruning and the page.
    """
    from polarised.diagnosis import diagnose
    from polarised.models import load_vae, save_vae
    from polarised.pruning import prune, pruned_config, pruning_report
    from polarised.report import save
    from polarised.report.figures import overview
    from polarised.study import Run, execute
    from polarised.study.stages import dataset_of
    from polarised.training import keep_freed_memory

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
    if tell is not None:
        tell(f"Training a VAE with 10 latent variables on dSprites (64 × 64, beta 8, {steps:,} steps) …")
    directory = execute(run, out, progress=progress)
    diagnosis = diagnose(directory)
    keep = [j for j in range(len(diagnosis.regime.types)) if j not in diagnosis.regime.droppable]
    proof = None
    if keep and diagnosis.regime.droppable:
        vae = load_vae(directory / "model.safetensors")
        smaller = prune(vae, keep)
        proof = pruning_report(vae, smaller, dataset_of(run).sample(2000, seed).images, keep=keep)
        save_vae(smaller, directory / "pruned.safetensors", config=pruned_config(run.model, keep))
    save(overview(diagnosis.encodings, diagnosis.regime, seed=seed), directory / "overview")
    return Demonstration(directory, diagnosis, proof, diagnosis.report(directory / "report.html"))
