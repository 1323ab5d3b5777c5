"""A finished run directory → Diagnosis, with everything the run knows: its training, its decoder, its scores."""

from pathlib import Path
from typing import Any

import polars

from polarised.diagnosis import Diagnosis, diagnose
from polarised.errors import DataError
from polarised.representations import Encodings
from polarised.representations.regime import Rule
from polarised.study.run import dataset_of, load_run

__all__ = ["diagnose_run"]


def diagnose_run(
    directory: str | Path, *, alpha: float | None = None, rule: Rule = "relative", decoder: bool = True
) -> Diagnosis:
    """Diagnose the model of a run directory; `decoder=False` leaves out what needs torch."""
    directory = Path(directory)
    if not (directory / "encodings.npz").exists():
        raise DataError(
            f"expected a finished run, {directory} has no encodings.npz; start the command that made it again"
        )
    run = load_run(directory)
    more: dict[str, Any] = {}
    if decoder and (directory / "model.safetensors").exists():
        from polarised.adapters.native import decoder_use, pictures
        from polarised.models import load_vae

        vae, dataset = load_vae(directory / "model.safetensors"), dataset_of(run)
        more["pictures"] = pictures(vae, dataset, seed=run.seed)
        more["decoder_use"] = decoder_use(vae, dataset, seed=run.seed)
    if (directory / "history.parquet").exists():
        more["history"] = polars.read_parquet(directory / "history.parquet")
    return diagnose(
        Encodings.load(directory / "encodings.npz"),
        alpha=run.evaluation.alpha if alpha is None else alpha,
        rule=rule,
        seed=run.seed,
        name=directory.name,
        provenance={"config": run.to_config()},
        **more,
    )
