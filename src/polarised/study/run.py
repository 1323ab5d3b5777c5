"""The spine: one run from config to scores, one statement a stage. Start reading here.

A run directory is named after its config and every stage leaves a file; a stage whose file is there is skipped, so
the same call after a kill goes on where it stopped, and new measurements on an old run cost no training.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from polarised import __version__, catalogue
from polarised.data.dataset import Dataset
from polarised.errors import PolarisedError
from polarised.files import replacing
from polarised.metrics.comparison import compare
from polarised.representations import Encodings, Regime, classify
from polarised.study.config import Run, read_config

if TYPE_CHECKING:
    import polars

__all__ = ["dataset_of", "execute", "load_run"]


def execute(run: Run, root: str | Path, *, progress: bool = False) -> Path:
    """Train and measure a run in its own directory under `root`; return the directory.

    Idempotent: what is done is not done again, what was interrupted is continued.
    """
    directory = Path(root) / run.name
    directory.mkdir(parents=True, exist_ok=True)
    with _recording_failure(directory):
        _forget_other_evaluation(run, directory)
        _stage(directory / "config.yaml", lambda path: _write_config(run, path))
        _stage(directory / "model.safetensors", lambda path: _train(run, directory, path, progress))
        _stage(directory / "encodings.npz", lambda path: _encode(run, directory).save(path))
        _stage(directory / "regime.parquet", lambda path: _regime(run, directory).table().write_parquet(path))
        _stage(directory / "scores.parquet", lambda path: _score(run, directory).write_parquet(path))
        _stage(directory / "done.json", lambda path: _write_done(run, path))
    return directory


def load_run(directory: str | Path) -> Run:
    """Read back the run a directory was made by."""
    config = read_config(Path(directory) / "config.yaml")
    config.pop("versions", None)
    return Run.from_config(config)


def dataset_of(run: Run) -> Dataset:
    """Build the dataset of a run, with its auxiliary variables where it has some."""
    dataset: Dataset = catalogue.build("polarised.data.datasets", run.dataset)
    return dataset if run.auxiliary is None else dataset.with_auxiliary(factors=run.auxiliary or None)


def _stage(path: Path, make: Callable[[Path], Any]) -> None:
    if not path.exists():
        with replacing(path) as temporary:
            make(temporary)


def _write_config(run: Run, path: Path) -> None:
    import numpy

    versions = {"polarised": __version__, "numpy": numpy.__version__}
    text = yaml.safe_dump({**run.to_config(), "versions": versions}, sort_keys=False)
    path.write_text(text, encoding="utf-8")


def _train(run: Run, directory: Path, path: Path, progress: bool) -> None:
    from polarised.models import build_vae, save_vae
    from polarised.training import train

    dataset = dataset_of(run)
    vae = build_vae(run.model, dataset.shape, dataset.auxiliary_size, run.seed)
    objective = catalogue.build("polarised.objectives.papers", run.objective)
    settings = asdict(run.training)
    history = train(vae, objective, dataset, seed=run.seed, directory=directory, progress=progress, **settings)
    with replacing(directory / "history.parquet") as temporary:
        history.table().write_parquet(temporary)
    save_vae(vae, path, config=run.model, auxiliary_size=dataset.auxiliary_size)


def _encode(run: Run, directory: Path) -> Encodings:
    from polarised.adapters import from_vae
    from polarised.models import load_vae

    vae = load_vae(directory / "model.safetensors")
    return from_vae(vae, dataset_of(run), examples=run.evaluation.examples, seed=run.seed, device=run.training.device)


def _regime(run: Run, directory: Path) -> Regime:
    return classify(Encodings.load(directory / "encodings.npz"), alpha=run.evaluation.alpha, seed=run.seed)


def _score(run: Run, directory: Path) -> "polars.DataFrame":
    encodings = Encodings.load(directory / "encodings.npz")
    return compare(encodings, classify(encodings, alpha=run.evaluation.alpha), seed=run.seed)


def _write_done(run: Run, path: Path) -> None:
    path.write_text(json.dumps({"evaluation": asdict(run.evaluation), "time": time.time()}), encoding="utf-8")


def _forget_other_evaluation(run: Run, directory: Path) -> None:
    """Let other evaluation settings measure anew, on the model that is already trained."""
    config = directory / "config.yaml"
    if config.exists() and load_run(directory).evaluation != run.evaluation:
        for name in ("config.yaml", "encodings.npz", "regime.parquet", "scores.parquet", "done.json"):
            (directory / name).unlink(missing_ok=True)


@contextmanager
def _recording_failure(directory: Path) -> Iterator[None]:
    record = directory / "failed.txt"
    record.unlink(missing_ok=True)
    try:
        yield
    except PolarisedError as error:
        record.write_text(f"{type(error).__name__}: {error}\n", encoding="utf-8")
        raise
