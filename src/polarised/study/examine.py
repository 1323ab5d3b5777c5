"""A finished run directory → Diagnosis, with everything the run knows: its training, its decoder, its scores."""

from pathlib import Path
from typing import Any

import polars

from polarised.diagnosis import Diagnosis, diagnose
from polarised.errors import DataError
from polarised.representations import Encodings
from polarised.representations.regime import Rule
from polarised.study.citations import bibtex, citation_keys
from polarised.study.config import read_config
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
    if (directory / "snapshots.npz").exists():
        from polarised.representations.timeline import load_timeline

        more["snapshots"] = load_timeline(directory / "snapshots.npz").table()
    if (directory / "history.parquet").exists():
        more["history"] = polars.read_parquet(directory / "history.parquet", glob=False)
    if (directory / "downstream.parquet").exists():
        more["downstream"] = _accuracies(polars.read_parquet(directory / "downstream.parquet", glob=False), rule)
    keys = citation_keys([run])
    return diagnose(
        Encodings.load(directory / "encodings.npz"),
        alpha=run.evaluation.alpha if alpha is None else alpha,
        rule=rule,
        seed=run.seed,
        name=directory.name,
        provenance={"config": run.to_config(), **_made(directory), "citation": bibtex(keys)},
        **more,
    )


def _made(directory: Path) -> dict[str, Any]:
    """The command and the versions a run was made with."""
    made: dict[str, Any] = read_config(directory / "config.yaml").get("made", {})
    return made


def _accuracies(table: polars.DataFrame, rule: Rule) -> polars.DataFrame | None:
    """Rows factor, variables, representation, accuracy of the subsets by one rule; None where nothing was measured."""
    own = table.filter((table["rule"] == rule) | table["rule"].is_null())
    if not len(own):
        return None
    factor = polars.col("metric").str.strip_prefix("accuracy_").replace("accuracy", "all factors")
    return own.select(factor.alias("factor"), "variables", "representation", polars.col("value").alias("accuracy"))
