"""What somebody points at → Diagnosis, with everything that is known of it and how its numbers were made."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars

from polarised.data.dataset import Dataset
from polarised.diagnosis import Diagnosis, diagnose, diagnose_files
from polarised.errors import ConfigError, DataError
from polarised.regime import Encodings
from polarised.regime.classify import Rule
from polarised.study.citations import bibtex, citation_keys
from polarised.study.config import read_config
from polarised.study.stages import dataset_of, load_run, made_here

if TYPE_CHECKING:
    from polarised.adapters.targets import Target

__all__ = ["diagnose_run", "diagnose_target", "images_of", "unused"]

# Whose rule decides the types: cited where no run says more.
RULES: dict[Rule, str] = {"relative": "Bonheme2023iVAE", "standard": "Bonheme2023BeMoreActive"}

# What can change nothing about a target, and why.
UNUSED: dict[str, dict[str, str]] = {
    "arrays": {"data": "it holds encodings, not a model", "examples": "all that it holds is read"},
    "run": {
        "examples": "a run is read as it was measured (with --data it encodes anew)",
        "seed": "a run has its own (with --data it encodes anew)",
        "second": "only a file of arrays leaves open what its spread is",
        "executor": "only files of arrays are read in parts",
    },
    "model": {
        "second": "only a file of arrays leaves open what its spread is",
        "executor": "only files of arrays are read in parts",
    },
}


def diagnose_target(
    targets: Sequence[str | Path],
    data: str | None = None,
    *,
    alpha: float | None = None,
    rule: Rule = "relative",
    examples: int | None = None,
    seed: int | None = None,
    **files: Any,
) -> Diagnosis:
    """Diagnose a run, a published model (on `data`, or what it was trained on), or files of arrays taken together.

    `files` are further settings of `diagnose_files`; `alpha` is 0.1, or a run's own, `examples` 10,000 and `seed` 0
    unless given. What is given and can change nothing is refused.

    >>> import tempfile, numpy
    >>> file = Path(tempfile.mkdtemp()) / "codes.npz"
    >>> numpy.savez(file, mean=numpy.random.default_rng(0).normal(size=(50, 2)), variance=numpy.full((50, 2), 0.01))
    >>> diagnose_target([file]).provenance["kind"]
    'arrays'
    """
    from polarised.adapters.targets import open_target

    opened = [open_target(path) for path in targets]
    first = opened[0]
    _refuse_unused(first.path, {"data": data, "examples": examples, "seed": seed, **files})
    if first.kind == "run" and data is None and len(opened) == 1:
        return diagnose_run(first.path, alpha=alpha, rule=rule)
    settings: dict[str, Any] = {"alpha": 0.1 if alpha is None else alpha, "rule": rule, "seed": seed or 0}
    provenance = {"target": ", ".join(str(target.path) for target in opened), "kind": first.kind}
    ours = {**made_here(), "settings": settings, "citation": bibtex([RULES[rule]])}
    if all(target.kind == "arrays" for target in opened):
        name = first.name if len(opened) == 1 else f"{len(opened)} files"
        paths = [target.path for target in opened]
        return diagnose_files(paths, name=name, provenance={**provenance, **ours}, **settings, **files)
    if len(opened) > 1:
        raise ConfigError(
            f"expected one model, or many files of arrays, got {len(opened)} with a {first.kind}; diagnose them in turn"
        )
    images = images_of(first, data)
    provenance |= {"data": images.name, **ours}
    examples = 10_000 if examples is None else examples
    return diagnose(first.vae(), images, examples=examples, name=first.name, provenance=provenance, **settings)


def images_of(target: "Target", data: str | None = None) -> Dataset:
    """Return the images to show a model: those named, or what it was trained on."""
    from polarised.adapters.targets import images_named

    if data is not None:
        return images_named(data)
    return dataset_of(load_run(target.path)) if target.kind == "run" else target.data()


def unused(target: str | Path, data: str | None = None) -> dict[str, str]:
    """Return the settings of `diagnose_target` that can change nothing about a target, and why.

    >>> import tempfile, numpy
    >>> file = Path(tempfile.mkdtemp()) / "codes.npz"
    >>> numpy.savez(file, mean=numpy.zeros((5, 2)), variance=numpy.ones((5, 2)))
    >>> list(unused(file))
    ['data', 'examples']
    """
    from polarised.adapters.targets import open_target

    kind = open_target(target).kind
    return UNUSED["arrays" if kind == "arrays" else "run" if kind == "run" and data is None else "model"]


def _refuse_unused(target: Path, given: dict[str, Any]) -> None:
    if given.get("address") is not None and given.get("executor") != "ray":
        raise ConfigError("expected --executor ray with --address: without it files are read here, not on a cluster")
    # "local" is what happens anyway.
    named = {setting for setting, value in given.items() if value not in (None, "local")}
    for setting, reason in unused(target, given["data"]).items():
        if setting in named:
            raise ConfigError(f"expected no --{setting} with {target}: {reason}; leave it out")


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
        from polarised.regime.timeline import load_timeline

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
