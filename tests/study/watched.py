"""Synthetic runs with snapshots: directories with snapshots and types, but no model."""

from pathlib import Path

import numpy as np
import polars

from polarised.regime.timeline import Timeline

TYPES = ("active", "passive", "active", "mixed", "passive", "active", "passive", "active")


def made_up(*, seed: int = 0, moments: int = 60, types: tuple[str, ...] = TYPES, turned: bool = False) -> Timeline:
    """Return a timeline as the paper has it: passive means wander with the others, active ones do not.

    `turned` makes it the other way round.
    """
    generator, d = np.random.default_rng(seed), len(types)
    restless = np.array([kind == ("active" if turned else "passive") for kind in types])
    quiet = np.array([kind == ("passive" if turned else "active") for kind in types])
    size = np.where(restless[:, None] | restless[None, :], 0.3, np.where(quiet[:, None] & quiet[None, :], 0.02, 0.15))
    # Two that are wanted quiet stay so, and a variable that is quiet is not drawn in by those that are not.
    size = np.where(turned & (quiet[:, None] | quiet[None, :]), 0.02, size)
    drawn = np.clip(generator.normal(size=(moments, d, d)) * size, -0.95, 0.95)
    correlations = np.tril(drawn, -1) + np.tril(drawn, -1).transpose(0, 2, 1) + np.eye(d)
    numbers = np.array([{"active": 0.02, "mixed": 0.5, "passive": 0.99}[kind] for kind in types])
    timeline = Timeline(warn=False)
    timeline.restore(
        {
            "step": np.arange(moments) * 50,
            "types": np.tile([("active", "mixed", "passive").index(kind) for kind in types], (moments, 1)),
            "correlations": correlations,
            "kl": np.tile(2 * (1 - numbers), (moments, 1)),
            "ratio_mean": np.tile(numbers, (moments, 1)),
            "ratio_variance": np.zeros((moments, d)),
            "noise_share": np.tile(numbers, (moments, 1)),
        }
    )
    return timeline


def made_up_run(directory: Path, *, standard: tuple[str, ...] = TYPES, **settings: object) -> Path:
    """Write the files that `timeline_of` reads; by the relative rule every variable is mixed."""
    directory.mkdir(parents=True)
    made_up(types=standard, **settings).save(directory / "snapshots.npz")  # type: ignore[arg-type]
    table = {"variable": range(len(standard)), "type": ["mixed"] * len(standard), "standard_type": standard}
    polars.DataFrame(table).write_parquet(directory / "regime.parquet")
    return directory
