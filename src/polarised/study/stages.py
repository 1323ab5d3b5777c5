"""One run from config to scores, with one statement per stage. Start reading here.

A run directory is named after its config and every stage writes a file; a stage whose file exists is skipped, so
the same call resumes an interrupted run, and new measurements on an old run need no training.
"""

import functools
import hashlib
import json
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml

from polarised import registry
from polarised._io.files import contained, replacing
from polarised._io.limits import check_ordinary
from polarised._io.tables import read_table
from polarised._io.text import parse_json, read_small
from polarised.adapters.targets import made_here
from polarised.cluster import code_here
from polarised.data.dataset import Dataset
from polarised.errors import ConfigError, DataError, PolarisedError
from polarised.regime import Encodings, Regime
from polarised.regime.classify import Rule
from polarised.regime.decoder import DecoderUse
from polarised.study import measures
from polarised.study.config import Evaluation, Run, read_config, read_evaluation
from polarised.study.further import further_scores
from polarised.study.leases import leased, locked
from polarised.study.storage import naming_full_disk, recording_failure

if TYPE_CHECKING:
    from polarised.models import VAE
    from polarised.objectives import Objective

__all__ = [
    "Done",
    "build_parts",
    "check_auxiliary",
    "checkpoint_step",
    "dataset_of",
    "digest_of",
    "directory_of",
    "execute",
    "finished_at",
    "is_done",
    "load_run",
    "made_here",
    "measure",
    "parse_done",
    "read_done",
    "write_config",
]

TIME = "training_time.json"
VERSION = 2
LARGEST_HEADER = 1 << 24
MEASURED = (
    "encodings.npz",
    "reconstruction.parquet",
    "decoder_use.parquet",
    "regime.parquet",
    "histograms.npz",
    "scores.parquet",
    "downstream.parquet",
    "further.parquet",
    "done.json",
)
FILES = ("config.yaml", "model.safetensors", "history.parquet", "snapshots.npz", TIME, *MEASURED[:-1])


def execute(run: Run, root: str | Path, *, progress: bool = False, command: str | None = None) -> Path:
    """Train and measure a run in its own directory under `root`; return the directory.

    Idempotent: finished stages are skipped, interrupted training is resumed. If another process works on the
    same run, `BusyError` is raised, because the run would be done twice otherwise.

    Args:
        run: The run.
        root: The folder that holds run directories.
        progress: Whether to show a progress bar.
        command: The command to record; default: that of this process.

    Returns:
        The run directory.
    """
    directory = directory_of(run, root)
    with naming_full_disk(Path(root)):
        directory.mkdir(parents=True, exist_ok=True)
        with locked(directory), leased(root, run.name, step=lambda: checkpoint_step(directory)) as tenure:
            with recording_failure(directory):
                write_config(run, directory, command)
                _stage(directory / "model.safetensors", lambda path: _train(run, directory, path, progress))
                (directory / "checkpoint.safetensors").unlink(missing_ok=True)
                measure(run, directory)
            tenure.forget()
    return directory


def directory_of(run: Run, root: str | Path) -> Path:
    """Return the directory of a run; a link that leads out of the folder is refused, because nothing is written there.

    Args:
        run: The run.
        root: The folder that holds run directories.

    Returns:
        The directory, which may not exist yet.

    Raises:
        ConfigError: If it is a link to a place outside of `root`.
    """
    try:
        return contained(root, run.name, source=root)
    except DataError:
        raise ConfigError(
            f"expected the directory of the run {run.name} in {root}, but it is a link to another folder; move that "
            "folder here, or remove the link"
        ) from None


def measure(run: Run, directory: Path, vae: "VAE | None" = None) -> None:
    """Measure the model of a directory, stage by stage; `vae` is given for a model trained elsewhere."""
    began = time.monotonic()

    # Objects that several stages need are created once, and only if a file is missing.
    @functools.cache
    def model() -> "VAE":
        from polarised.models.vae import load_vae

        return load_vae(directory / "model.safetensors") if vae is None else vae

    @functools.cache
    def dataset() -> Dataset:
        return dataset_of(run)

    @functools.cache
    def encodings() -> Encodings:
        return Encodings.load(directory / "encodings.npz")

    @functools.cache
    def decoder() -> DecoderUse:
        return DecoderUse.of_table(read_table(directory / "decoder_use.parquet"))

    @functools.cache
    def regimes() -> dict[Rule, Regime]:
        return measures.regimes(run, encodings(), decoder())

    def unseen() -> Encodings | None:
        return measures.encode_unseen(run, model(), dataset()) if run.evaluation.unseen else None

    _stage(directory / "encodings.npz", lambda path: measures.encode(run, model(), dataset()).save(path))
    _table(directory / "reconstruction.parquet", lambda: measures.reconstruction(run, model(), dataset()))
    _table(directory / "decoder_use.parquet", lambda: measures.decoder_of(run, model(), dataset()))
    _table(directory / "regime.parquet", lambda: measures.types(regimes()))
    _stage(directory / "histograms.npz", lambda path: measures.save_histograms(run, encodings(), path))
    _table(directory / "scores.parquet", lambda: measures.scores(run, encodings(), regimes()))
    _table(directory / "downstream.parquet", lambda: measures.downstream(run, encodings(), regimes(), unseen()))
    if run.evaluation.further:
        further = directory / "further.parquet"
        _table(further, lambda: further_scores(run, model(), dataset(), encodings(), decoder()))
    _stage(directory / "done.json", lambda path: _write_done(run, path, time.monotonic() - began))


def load_run(directory: str | Path) -> Run:
    """Read the run of a directory; code that it names is refused (`registry.refuse_code`).

    Args:
        directory: A run directory.

    Returns:
        The run.
    """
    config = read_config(Path(directory) / "config.yaml")
    for key in ("made", "version"):
        config.pop(key, None)
    registry.refuse_code(config, Path(directory) / "config.yaml")
    return Run.from_config(config)


def is_done(run: Run, root: str | Path) -> bool:
    """Return whether a run is trained and measured with its settings."""
    return finished_at(run, root) is not None


def finished_at(run: Run, root: str | Path) -> float | None:
    """Return when a run was finished with its settings (seconds since 1970), or None if it is not."""
    done = read_done(Path(root) / run.name)
    return None if done is None or done.evaluation != run.evaluation else done.time


@dataclass(frozen=True)
class Done:
    """The content of ``done.json``: how a run was measured, when, for how long, its files, code and steps.

    Version one of the file has no digests. `steps` is 0 where it is not known.
    """

    evaluation: Evaluation
    time: float
    seconds: float
    files: Mapping[str, tuple[int, str]]
    code: str = ""
    steps: int = 0


def read_done(directory: Path) -> Done | None:
    """Return the record of a finished run's directory, or None if it is not finished or cannot be read.

    Args:
        directory: The run's directory.

    Returns:
        The checked record.
    """
    try:
        text = read_small(directory / "done.json", largest=1 << 20)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, DataError):
        return None
    return parse_done(text)


def parse_done(text: str) -> Done | None:
    """Return the record in the text of a ``done.json``, or None if it cannot be read.

    Args:
        text: The content of the file.

    Returns:
        The checked record.
    """
    try:
        done = parse_json(text, where="done.json")
        evaluation = _evaluation_of(json.dumps(done.get("evaluation", {})))
        files = {str(name): (int(size), str(digest)) for name, (size, digest) in done.get("files", {}).items()}
        # With a name outside the folder, a repair would move or overwrite files elsewhere.
        if done.get("version", 1) not in (1, VERSION) or not set(files) <= set(FILES):
            return None
        seconds, code = float(done.get("seconds", 0.0)), str(done.get("code", ""))[:64]
        return Done(evaluation, float(done["time"]), seconds, files, code, max(0, int(done.get("steps", 0))))
    except (PolarisedError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return None


# Thousands of runs of a study have the same evaluation.
@functools.lru_cache(maxsize=64)
def _evaluation_of(text: str) -> Evaluation:
    return read_evaluation(json.loads(text))


def checkpoint_step(directory: Path) -> int:
    """Return the training step saved in a run's directory, from the header of the checkpoint.

    Args:
        directory: The run's directory.

    Returns:
        The step; 0 if nothing is saved or it cannot be read.
    """
    try:
        check_ordinary(directory / "checkpoint.safetensors")
        with (directory / "checkpoint.safetensors").open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            # The size comes from the file and is not trusted.
            header = json.loads(file.read(min(size, LARGEST_HEADER)))
        step = int(json.loads(header["__metadata__"]["polarised"])["step"])
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return 0
    return max(0, min(step, 1 << 53))


def dataset_of(run: Run, *, to: Literal["train", "measure"] = "measure") -> Dataset:
    """Build the dataset of a run, with its auxiliary variables if it has some.

    Args:
        run: The run.
        to: The purpose of the images; a run with a `split` trains on one part and is measured on the other.

    Returns:
        The dataset, or that part of it.
    """
    dataset: Dataset = registry.build("dataset", run.dataset)
    if run.auxiliary is not None:
        dataset = dataset.with_auxiliary(factors=run.auxiliary or None)
    if run.training.split is None:
        return dataset
    trained, held_out = dataset.split(run.training.split)
    return trained if to == "train" else held_out


def check_auxiliary(runs: Iterable[Run]) -> None:
    """Refuse auxiliary variables that their dataset does not have, with one error instead of one failure per run.

    Every dataset is built once. One that cannot be built here is left to the runs, which may be done elsewhere.

    Args:
        runs: The runs.

    Raises:
        ConfigError: If a dataset has no factors, or not the named ones.

    >>> check_auxiliary([Run.from_config({"auxiliary": ["shape"]})])
    """
    wanted: dict[str, tuple[Mapping[str, Any], set[tuple[str, ...]]]] = {}
    for run in runs:
        if run.auxiliary is not None:
            key = json.dumps(run.dataset, sort_keys=True)
            wanted.setdefault(key, (run.dataset, set()))[1].add(tuple(run.auxiliary))
    for spec, choices in wanted.values():
        try:
            dataset: Dataset = registry.build("dataset", spec)
        # Each run reports the reason, whatever it is.
        except Exception:
            continue
        for names in sorted(choices):
            try:
                dataset.with_auxiliary(factors=names or None)
            except DataError as error:
                raise ConfigError(str(error)) from error


def _stage(path: Path, make: Callable[[Path], Any]) -> None:
    if not path.exists():
        with replacing(path) as temporary:
            make(temporary)


def _table(path: Path, make: Callable[[], Any]) -> None:
    _stage(path, lambda temporary: make().write_parquet(temporary))


def build_parts(
    dataset: Dataset, *, model: Mapping[str, Any], objective: registry.Spec, seed: int
) -> "tuple[VAE, Objective]":
    """Build the VAE and its objective for a dataset.

    Args:
        dataset: The data.
        model: The architecture, latents, prior and likelihood, as a config names them.
        objective: The objective, as a config names it.
        seed: The seed of the weights.

    Returns:
        The untrained VAE, and the objective.

    Raises:
        ConfigError: If the config names something that does not exist or does not match the data.
    """
    from polarised.models import build_vae

    prior = model.get("prior", "StandardNormal")
    name = prior if isinstance(prior, str) else str(prior.get("name"))
    if not dataset.auxiliary_size and "u" in registry.record("prior", name).needs:
        space = dataset.factor_space
        words = f"expected auxiliary variables u for the prior {name}, but {dataset.name} has"
        if space is None:
            raise ConfigError(f"{words} no factors to take them from; use a dataset with factors or labels")
        raise ConfigError(
            f"{words} none; set auxiliary=all, or names of its factors: auxiliary=[{', '.join(space.names)}]"
        )
    vae = build_vae(model, dataset.shape, dataset.auxiliary_size, seed)
    return vae, registry.build("objective", objective)


def _train(run: Run, directory: Path, path: Path, progress: bool) -> None:
    from polarised.models.vae import save_vae
    from polarised.training import Settling, train

    dataset = dataset_of(run, to="train")
    vae, objective = build_parts(dataset, model=run.model, objective=run.objective, seed=run.seed)
    if run.auxiliary is not None and not vae.prior.conditional:
        prior = run.model["prior"]["name"]
        warnings.warn(
            f"auxiliary has no effect: the prior {prior} does not depend on u; an iVAE has model.prior=Conditional",
            stacklevel=2,
        )
    hooks = measures.snapshot_hooks(run, dataset)
    settings = {name: value for name, value in asdict(run.training).items() if name != "split"}
    if run.training.settling is not None:
        settings["settling"] = Settling(**run.training.settling)
    history = train(
        vae, objective, dataset, seed=run.seed, directory=directory, hooks=hooks, progress=progress, **settings
    )
    for hook in hooks:
        hook.save(directory / "snapshots.npz")
    with replacing(directory / "history.parquet") as temporary:
        history.table().write_parquet(temporary)
    if run.training.settling is not None:
        with replacing(directory / "settling.parquet") as temporary:
            measures.settling(history).write_parquet(temporary)
    with replacing(directory / TIME) as temporary:
        spent = {"seconds": round(history.seconds, 3), "steps": int(history.steps[-1])}
        temporary.write_text(json.dumps(spent), encoding="utf-8")
    save_vae(vae, path, config=run.model, auxiliary_size=dataset.auxiliary_size)


def write_config(run: Run, directory: Path, command: str | None = None) -> None:
    """Write the config of a directory, and delete files of an earlier attempt or another evaluation."""
    # Our temporary files, and those of the library that writes weights.
    for leftover in (path for pattern in (".*.tmp*", ".tmp*") for path in directory.glob(pattern)):
        leftover.unlink(missing_ok=True)
    config = directory / "config.yaml"
    if config.exists():
        before = load_run(directory)
        # Names leave out defaults, so a changed default would go unnoticed otherwise.
        if before.identity != run.identity:
            raise ConfigError(
                f"expected {directory} to hold the run of its name, but it was made with other defaults; use another "
                "folder"
            )
        if before.evaluation != run.evaluation:
            # In this order, a kill in between leaves a run that is marked as not done.
            for name in (*reversed(MEASURED), "config.yaml"):
                (directory / name).unlink(missing_ok=True)
    _stage(config, lambda path: _write_made(run, path, command))


def _write_made(run: Run, path: Path, command: str | None) -> None:
    config = {**run.to_config(), "made": made_here(command)}
    path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")


def _write_done(run: Run, path: Path, evaluation: float) -> None:
    # In a separate file, because all other files are byte-identical however often a run was interrupted.
    training, steps = _spent(path.parent)
    kept = [file for name in FILES if (file := path.parent / name).is_file()]
    done = {
        "version": VERSION,
        "evaluation": asdict(run.evaluation),
        "time": time.time(),
        "seconds": round(training + evaluation, 3),
        "training_seconds": round(training, 3),
        "evaluation_seconds": round(evaluation, 3),
        "steps": steps,
        "code": code_here()["code"],
        "files": {file.name: (file.stat().st_size, digest_of(file)) for file in kept},
    }
    path.write_text(json.dumps(done), encoding="utf-8")


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file.

    Args:
        path: The file.

    Returns:
        Its digest, in hexadecimal.
    """
    check_ordinary(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _spent(directory: Path) -> tuple[float, int]:
    """Return the seconds and the steps of the training of a run; 0 where they are not known."""
    try:
        spent = parse_json(read_small(directory / TIME), where=directory / TIME)
        return float(spent["seconds"]), int(spent.get("steps", 0))
    except (FileNotFoundError, DataError, KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return 0.0, 0
