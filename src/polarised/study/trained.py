"""A study on trained models: each is downloaded, measured like a run of the study, and deleted.

They are given as a list of folders, zips and addresses, or as a folder: runs of disentanglement_lib, or our own. An
archive gets a record in ``archives/``, written last, which marks it as done. Downloads are deleted, your files never.
"""

import hashlib
import json
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote, urlsplit

import polars

from polarised import registry
from polarised._io.files import Folder, expanded, private_folder, replacing
from polarised._io.tables import read_table
from polarised._io.text import parse_json, read_small
from polarised.adapters.published import LARGEST_CONFIG, literal, read_config
from polarised.data.cache import download
from polarised.errors import ConfigError, DataError, MissingFileError, PolarisedError
from polarised.regime import Encodings
from polarised.study.config import Evaluation, Run, Training, labels_of, read_evaluation
from polarised.study.grid import Point, Study
from polarised.study.leases import BusyError, leased, locked
from polarised.study.runner import FILE, are_labels, enrol, read_study
from polarised.study.stages import load_run, measure, write_config
from polarised.study.storage import (
    FAILED,
    at_hand,
    is_address,
    open_filesystem,
    put,
    read_text,
    recording_failure,
    remove,
    write_text,
)

if TYPE_CHECKING:
    from polarised.models import VAE

__all__ = [
    "Archive",
    "archive_settings",
    "measure_archive",
    "measure_models",
    "published_point",
    "read_archives",
    "refuse_addresses",
    "shared_settings",
    "stored_scores",
    "typical_run",
]

RECORD = "archive.json"
STORED = "stored.parquet"
# A published archive has tens of megabytes; a list of all 10,800 has less than one.
LARGEST_ARCHIVE, LARGEST_LIST = 1 << 31, 1 << 24
SECONDS_BETWEEN_LISTS = 30.0
COMPARED = {
    "metric": polars.String,
    "representation": polars.String,
    "theirs": polars.Float64,
    "ours": polars.Float64,
}
# The names of scores in disentanglement_lib, and our names of the same scores.
SAME = {
    "gaussian_total_correlation": "total_correlation",
    "gaussian_wasserstein_correlation": "wasserstein_correlation",
    "mutual_info_score": "mutual_information",
    "discrete_mig": "mig",
    "SAP_score": "sap",
    "modularity_score": "modularity",
    "IRS": "irs",
}
# The names of methods and settings in that study, and ours [Locatello2019, table 2].
PUBLISHED = {
    "beta_vae": ("BetaVAE", {"vae.beta": "beta"}),
    "annealed_vae": (
        "AnnealedVAE",
        {
            "annealed_vae.c_max": "c_max",
            "annealed_vae.gamma": "gamma",
            "annealed_vae.iteration_threshold": "iteration_threshold",
        },
    ),
    "factor_vae": ("FactorVAE", {"factor_vae.gamma": "gamma"}),
    "beta_tc_vae": ("BetaTCVAE", {"beta_tc_vae.beta": "beta"}),
    "dip_vae_i": ("DIPVAE", {"dip_vae.lambda_od": "lambda_od"}),
    "dip_vae_ii": ("DIPVAE", {"dip_vae.lambda_od": "lambda_od"}),
}


@dataclass(frozen=True)
class Archive:
    """A trained model at an address, to be measured with an evaluation; executors treat it as a run.

    Args:
        address: A folder or zip on this machine, or the address of a zip.
        evaluation: What to measure.
        sha256: The expected digest of the zip, if known.
        labels: The labels of the model in its own study, if known.
        training: The `device` for measuring; nothing is trained.
    """

    address: str
    evaluation: Evaluation
    sha256: str | None = None
    labels: Mapping[str, Any] | None = None
    training: Training = field(default_factory=lambda: Training(steps=1))

    @property
    def name(self) -> str:
        """Its directory inside that of the study: its own name, and a digest of the whole address."""
        own = Path(unquote(urlsplit(self.address).path) if is_address(self.address) else self.address).name
        word = re.sub(r"[^A-Za-z0-9.-]+", "_", own).strip(".")[:80] or "model"
        return f"archives/{word}-{hashlib.sha256(self.address.encode()).hexdigest()[:10]}"

    def to_config(self) -> dict[str, Any]:
        """Return everything as plain JSON types; `from_config` of it is the same archive."""
        config: dict[str, Any] = json.loads(json.dumps({**asdict(self), "archive": self.address}))
        del config["address"]
        return config

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Create an archive from the result of `to_config`.

        Args:
            config: The settings.

        Returns:
            The archive.
        """
        return cls(
            config["archive"],
            read_evaluation(config["evaluation"]),
            config.get("sha256"),
            config.get("labels"),
            Training(steps=1, device=config["training"]["device"]),
        )


def read_archives(models: str | Path, evaluation: Evaluation) -> tuple[Archive, ...]:
    """Return the archives in a folder or in the list of a text file, or a single archive.

    A line of a list is a path (relative to the list's folder) or an https address, and optionally the SHA-256 of the
    zip; empty lines and lines that begin with # are skipped. In a folder, every folder and zip is an archive.

    Args:
        models: A folder of models, a text file, a zip, or the address of a zip.
        evaluation: What to measure.

    Returns:
        The archives, each once.

    Raises:
        DataError: If there is no such file, or a line is not an archive.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "list.txt"
    >>> _ = file.write_text("# the first of beta = 8\\nhttps://example.org/200.zip\\n")
    >>> [archive.address for archive in read_archives(file, Evaluation())]
    ['https://example.org/200.zip']
    """
    if is_address(models):
        return (_archive(str(models), evaluation, Path.cwd(), str(models)),)
    path = Path(models)
    if path.is_dir():
        # The folder of a study has the labels of its models.
        ours = read_study(path).points if (path / FILE).exists() else ()
        known = {point.run.name: dict(point.labels) for point in ours}
        return tuple(
            Archive(str(entry.resolve()), evaluation, labels=known.get(entry.name))
            for entry in sorted(path.iterdir())
            if not entry.name.startswith(".") and (entry.is_dir() or entry.suffix == ".zip")
        )
    if not path.is_file():
        raise MissingFileError(
            f"expected a folder of trained models or a list of them, but {path} does not exist; check the path"
        )
    if path.suffix == ".zip":
        return (Archive(str(path.resolve()), evaluation),)
    lines = (line.strip() for line in read_small(path, largest=LARGEST_LIST).splitlines())
    named = [line for line in lines if line and not line.startswith("#")]
    found = [_archive(line, evaluation, path.resolve().parent, f"{path}: {line[:200]}") for line in named]
    return tuple({archive.address: archive for archive in found}.values())


def _archive(line: str, evaluation: Evaluation, folder: Path, where: str) -> Archive:
    address, _, digest = line.rpartition(" ")
    if not address or not re.fullmatch(r"(sha256:)?[0-9a-fA-F]{64}", digest):
        address, digest = line, ""
    address, digest = address.strip(), digest.removeprefix("sha256:").lower()
    try:
        if not is_address(address):
            return Archive(str((folder / expanded(address)).resolve()), evaluation, digest or None)
        known = urlsplit(address).scheme in ("http", "https")
    # Null characters in a path, brackets in an address.
    except ValueError:
        known = False
    if not known:
        raise DataError(f"expected paths and https addresses in a list of models, got {where}")
    return Archive(address, evaluation, digest or None)


def refuse_addresses(models: str | Path, folder: str | Path) -> None:
    """Refuse models that a study's folder names where one of them is at an address: it may be somebody else's.

    Args:
        models: The folder or list of models, or the one model, as the folder names it.
        folder: The study's folder, for the error.

    Raises:
        ConfigError: One of them is at an address.
    """
    alone = is_address(models)
    named = [str(models)] if alone else [archive.address for archive in read_archives(models, Evaluation())]
    if address := next(filter(is_address, named), None):
        raise ConfigError(
            f"expected the models to be named again, because {folder} names {address[:200]!r} and an address is never "
            "taken from a folder; give their list or address with models="
        )


def measure_models(
    study: Study,
    models: str | Path,
    root: str | Path,
    *,
    executor: str | Mapping[str, Any] | None = None,
    command: str = "",
) -> Iterator[tuple[str, str]]:
    """Measure every model of a folder or list like the runs of a study; yield (address, reason of failure or "").

    Measured models are skipped and failed ones are tried again, so the same call resumes an interrupted study. Their
    scale is called "models", because no scale of the study trained them.

    Args:
        study: The study, whose evaluation is used.
        models: A folder of models, a list of them, or one; see `read_archives`.
        root: The folder or fsspec address of the results.
        executor: ``local``, ``ray`` or a mapping with its settings; default: sequentially in this process.
        command: The command to record.

    Yields:
        Every archive with the reason of its failure, empty if it was measured; those measured earlier come first.

    Raises:
        DataError: If there is nothing to measure, or nothing that can be read.
    """
    if not study.points:
        raise DataError(f"expected a study with runs to take the evaluation from, but {study.name} has none")
    archives = read_archives(models, study.points[0].run.evaluation)
    if not archives:
        raise DataError(f"expected archives of disentanglement_lib or our own runs in {models}, but found none")
    measured = replace(study, points=(), scale="models")
    # This includes archives that could be read but not measured: the status of the study shows them as failed.
    found = {archive.name: point for archive in archives if (point := _known(archive, root)) is not None}
    if found:
        enrol(replace(measured, points=tuple(found.values())), root, executor=executor, models=models)
    left = [archive for archive in archives if _measured(archive, root) is None]
    waiting = {archive.name for archive in left}
    earlier = [archive.address for archive in archives if archive.name not in waiting]
    yield from ((address, "") for address in earlier)
    any_measured = bool(earlier)
    listed_at = time.monotonic()
    for archive, why in _events(left, root, executor, command):
        any_measured |= not why
        if (point := _known(archive, root)) is not None:
            found[archive.name] = point
            if time.monotonic() - listed_at > SECONDS_BETWEEN_LISTS:
                enrol(replace(measured, points=tuple(found.values())), root, executor=executor, models=models)
                listed_at = time.monotonic()
        yield archive.address, why
    if found:
        enrol(replace(measured, points=tuple(found.values())), root, executor=executor, models=models)
    if not any_measured:
        raise DataError(
            f"expected archives of disentanglement_lib or our own runs in {models}, but found none that can be read"
        )


def _events(
    archives: list[Archive], root: str | Path, executor: str | Mapping[str, Any] | None, command: str
) -> Iterator[tuple[Archive, str]]:
    if executor is None:
        for archive in archives:
            try:
                measure_archive(archive, str(root))
                yield archive, ""
            except Exception as error:
                yield archive, _words(error)
        return
    place = str(root) if is_address(root) else str(Path(root).resolve())
    for event in registry.build("executor", executor, archives, place, command) if archives else ():
        if event.state in ("done", "failed"):
            yield event.run, event.reason


def measure_archive(archive: Archive, root: str) -> None:
    """Download one archive, measure its model, and delete the download; do nothing if that was done before.

    At an address, the results are copied when they are complete, the record last.

    Args:
        archive: The archive.
        root: The folder or fsspec address of the results.

    Raises:
        DataError: If it is not a model that can be read.
        DownloadError: If it cannot be downloaded.
        BusyError: If another process is working on it.
    """
    if not is_address(root):
        _measure_into(archive, Path(root))
        return
    desk = private_folder(hashlib.sha256(root.encode()).hexdigest()[:12])
    with leased(root, archive.name, step=lambda: 0) as tenure:
        if _measured(archive, root) is not None:
            tenure.forget()
            return
        try:
            name = _measure_into(archive, desk)
            tenure.check()
        except BusyError:
            raise
        except Exception:
            tenure.check()
            for name in (RECORD, FAILED):
                if (text := read_text(desk, f"{archive.name}/{name}")) is not None:
                    write_text(root, f"{archive.name}/{name}", text)
            if (point := _known(archive, desk)) is not None and text is not None:
                write_text(root, f"{point.run.name}/{FAILED}", text)
            raise
        system, base = open_filesystem(root)
        system.makedirs(f"{base}/{name}", exist_ok=True)
        files = [path for path in (desk / name).iterdir() if path.name[0] != "."]
        for path in sorted(files, key=lambda path: path.name == "done.json"):
            put(root, path, f"{name}/{path.name}")
        put(root, desk / archive.name / RECORD, f"{archive.name}/{RECORD}")
        remove(root, f"{archive.name}/{FAILED}")
        tenure.forget()
        for directory in (desk / name, desk / archive.name):
            shutil.rmtree(directory)


def _measure_into(archive: Archive, root: Path) -> str:
    """Measure an archive into a local folder; return the name of its run."""
    directory = root / archive.name
    directory.mkdir(parents=True, exist_ok=True)
    with locked(directory), leased(root, archive.name, step=lambda: 0) as tenure:
        with recording_failure(directory):
            name = _measure_alone(archive, root)
        tenure.forget()
    return name


def _measure_alone(archive: Archive, root: Path) -> str:
    directory = root / archive.name
    if (earlier := _measured(archive, root)) is not None:
        return earlier.run.name
    began = time.monotonic()
    with _at_hand(archive) as (path, digest):
        point, settings = _point(path, archive)
        place = root / point.run.name
        place.mkdir(parents=True, exist_ok=True)
        record = {
            "version": 1,
            "address": archive.address,
            "sha256": digest,
            "run": point.run.to_config(),
            "labels": dict(point.labels),
            "settings": settings,
            "finished": False,
        }
        _write_record(directory, record)
        vae = _vae_of(path, place, archive)
        with locked(place), recording_failure(place):
            write_config(point.run, place, f"measured from {archive.address}")
            measure(point.run, place, vae)
            _compare(path, place)
    _write_record(directory, {**record, "finished": True, "seconds": round(time.monotonic() - began, 3)})
    return point.run.name


def _write_record(directory: Path, record: Mapping[str, Any]) -> None:
    with replacing(directory / RECORD) as temporary:
        temporary.write_text(json.dumps(record), encoding="utf-8")


def _measured(archive: Archive, root: str | Path) -> Point | None:
    """Return the run of an archive, or None if it is not measured with the requested evaluation."""
    record = _record(root, archive.name)
    return _known(archive, root) if record is not None and record.get("finished") is True else None


def _known(archive: Archive, root: str | Path) -> Point | None:
    """Return the run of an archive, measured or not."""
    record = _record(root, archive.name)
    if record is None:
        return None
    run = Run.from_config(record["run"])
    return Point(record["labels"], run) if run.evaluation == archive.evaluation else None


def _record(root: str | Path, name: str) -> dict[str, Any] | None:
    try:
        text = read_text(root, f"{name}/{RECORD}")
        record = None if text is None else parse_json(text, where=f"{name}/{RECORD} of {root}")
        if record is None:
            return None
        registry.refuse_code(record["run"], f"{name}/{RECORD} of {root}")
        return dict(record) if record["version"] == 1 and are_labels(record["labels"]) else None
    except (KeyError, TypeError, ValueError):
        return None


def archive_settings(root: str | Path) -> dict[str, dict[str, Any]]:
    """Return the records of the archives of a study, by the name of their run.

    Args:
        root: The folder or address of a study that measured trained models.

    Returns:
        For every run its `address`, `sha256` and `settings` from the archive; empty if all runs were trained here.
    """
    found: dict[str, dict[str, Any]] = {}
    with at_hand(root, only=(RECORD,)) as folder:
        for path in sorted((folder / "archives").glob(f"*/{RECORD}")):
            record = _record(folder, f"archives/{path.parent.name}")
            if record is not None and record.get("finished") is True:
                about = {key: record.get(key) for key in ("address", "sha256", "settings")}
                found[Run.from_config(record["run"]).name] = about
    return found


def shared_settings(settings: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    """Return the settings that all archives share, and the names of those in which they differ.

    Args:
        settings: The settings of each archive.

    Returns:
        The common settings, and the other names in order.

    >>> shared_settings([{"beta": 8, "seed": 0}, {"beta": 8, "seed": 1}])
    ({'beta': 8}, ['seed'])
    """
    names = dict.fromkeys(name for own in settings for name in own)
    shared = {
        name: settings[0][name]
        for name in names
        if all(name in own and own[name] == settings[0].get(name) for own in settings)
    }
    return shared, [name for name in names if name not in shared]


def stored_scores(root: str | Path) -> polars.DataFrame:
    """Return the scores in archives together with ours, one row per number.

    Args:
        root: The folder or address of a study that measured trained models.

    Returns:
        Columns run, metric, representation, theirs, ours (null if we do not measure it) and difference.
    """
    tables = []
    with at_hand(root, only=(STORED,)) as folder:
        for path in sorted(folder.glob(f"*/{STORED}")):
            table = read_table(path, columns={"metric": "text", "theirs": "number", "ours": "number"})
            tables.append(table.select(polars.lit(path.parent.name).alias("run"), *COMPARED))
    joined = polars.concat(tables) if tables else polars.DataFrame(schema={"run": polars.String, **COMPARED})
    return joined.with_columns(difference=polars.col("ours") - polars.col("theirs"))


def published_point(config: Mapping[str, str], evaluation: Evaluation) -> Point:
    """Return the run of a published model, from its configuration (strings of gin literals).

    >>> config = {"model.name": "'beta_vae'", "vae.beta": "8.0", "dataset.name": "'dsprites_full'"}
    >>> point = published_point(config, Evaluation())
    >>> point.labels["method"], point.labels["strength"], point.run.objective["name"]
    ('beta-VAE', 8.0, 'BetaVAE')
    """
    values = {key: literal(text) for key, text in config.items()}
    name = values.get("model.name")
    if not isinstance(name, str) or name not in PUBLISHED:
        raise DataError(
            f"expected a method of the study ({', '.join(PUBLISHED)}), got {name!r} in the model's configuration"
        )
    objective, settings = PUBLISHED[name]
    strength = next(iter(settings))
    if strength not in values:
        raise DataError(
            f"expected the strength of {name} as {strength} in the model's configuration, but it is missing"
        )
    # Strings and lists can be multiplied too, by any number.
    for key in (*settings, "dip_vae.lambda_d_factor"):
        if type(values.get(key, 0)) not in (int, float):
            raise DataError(f"expected a number as {key} in the model's configuration, got {str(values[key])[:80]!r}")
    chosen = {ours: values[theirs] for theirs, ours in settings.items() if theirs in values}
    if objective == "DIPVAE":
        variant = "I" if name == "dip_vae_i" else "II"
        factor = values.get("dip_vae.lambda_d_factor", 10.0 if variant == "I" else 1.0)
        chosen |= {"variant": variant, "lambda_d": chosen["lambda_od"] * factor}
    dataset = str(values.get("dataset.name", "dsprites_full")).removesuffix("_full")
    training = {
        "steps": values.get("model.training_steps", 300_000),
        "batch_size": values.get("model.batch_size", 64),
    }
    run = Run.from_config(
        {
            "dataset": dataset,
            "model": {"architecture": "locatello_conv", "latents": values.get("encoder.num_latent", 10)},
            "objective": {"name": objective, **chosen},
            "training": training,
            "evaluation": asdict(evaluation),
            "seed": values.get("model.random_seed", 0),
        }
    )
    return Point(labels_of(run), run)


@contextmanager
def _at_hand(archive: Archive) -> Iterator[tuple[Path, str | None]]:
    """Yield an archive as a local path, with its digest; a download is deleted afterwards."""
    if not is_address(archive.address):
        path = Path(archive.address)
        if not path.exists():
            raise MissingFileError(f"expected a trained model at {path}, but it does not exist; check the list")
        digest = None
        if path.is_file():
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        if archive.sha256 is not None and digest != archive.sha256:
            raise DataError(f"expected {path} to have the SHA-256 {archive.sha256}, but it has {digest}")
        yield path, digest
        return
    target = private_folder("archives") / f"{archive.name.rpartition('/')[2].removesuffix('.zip')}.zip"
    digest = download(archive.address, target, sha256=archive.sha256, largest=LARGEST_ARCHIVE)
    try:
        yield target, digest
    except DataError as error:
        # The download is deleted: its address is what can be looked at.
        raise DataError(str(error).replace(str(target), archive.address)) from error
    finally:
        target.unlink(missing_ok=True)


def _point(path: Path, archive: Archive) -> tuple[Point, dict[str, Any]]:
    """Return the run of a model, and its settings from its archive."""
    from polarised.adapters.targets import open_target

    target = open_target(path)
    if target.kind == "run":
        run = replace(load_run(path), evaluation=archive.evaluation)
        config = run.to_config()
        settings = {key: config[key] for key in ("dataset", "model", "objective", "training", "seed")}
        return Point(dict(archive.labels or labels_of(run)), run), settings
    if target.kind != "disentanglement_lib":
        raise DataError(f"expected a run of disentanglement_lib or our own run, but {archive.address} is {target.kind}")
    own = read_config(Folder(path), ["model/results/json/train_config.json"])
    return published_point(own, archive.evaluation), {str(key): str(value) for key, value in own.items()}


def typical_run(archives: Sequence[Archive]) -> Run:
    """Return a run that stands for trained models when their cost is estimated, without downloading any.

    Args:
        archives: The models, at least one.

    Returns:
        The run of the first one on this machine that can be read; if there is none, that of a published model.
    """
    for archive in archives:
        if not is_address(archive.address):
            with suppress(PolarisedError):
                return _point(Path(archive.address), archive)[0].run
    return published_point({"model.name": "'beta_vae'", "vae.beta": "1.0"}, archives[0].evaluation).run


def _vae_of(path: Path, place: Path, archive: Archive) -> "VAE":
    """Return the model of an archive, after checking that its directory does not belong to another archive."""
    from polarised.adapters.targets import open_target

    try:
        vae = open_target(path).vae()
    except Exception:
        if not (place / "source.json").exists():
            with locked(place), recording_failure(place):
                raise
        raise
    with locked(place):
        _claim(place, vae, archive)
    return vae


def _claim(place: Path, vae: "VAE", archive: Archive) -> None:
    """Refuse a second model with the same settings and seed, because the two would share a directory."""
    found = hashlib.sha256()
    for name, value in sorted(vae.state_dict().items()):
        found.update(name.encode() + value.contiguous().numpy().tobytes())
    own = {"address": archive.address, "weights": found.hexdigest()}
    file = place / "source.json"
    if file.exists():
        first = parse_json(read_small(file), where=file)
        if first.get("weights") != own["weights"]:
            raise DataError(
                f"expected one model for each setting and seed, but {archive.address} has those of "
                f"{first.get('address')} and other weights; leave one of them out"
            )
        return
    with replacing(file) as temporary:
        temporary.write_text(json.dumps(own), encoding="utf-8")


def _compare(path: Path, place: Path) -> None:
    """Write the scores in an archive together with ours, if it has any."""
    theirs = _theirs(path)
    if not theirs:
        return
    table = polars.concat(
        [read_table(place / name) for name in ("scores.parquet", "reconstruction.parquet")], how="diagonal_relaxed"
    ).filter(polars.col("variables") == "full")
    ours = {(row["metric"], row["representation"]): row["value"] for row in table.iter_rows(named=True)}
    encodings = Encodings.load(place / "encodings.npz")
    rows = [
        (metric, representation, value, ours.get((metric, representation), _score(metric, representation, encodings)))
        for (metric, representation), value in theirs.items()
    ]
    with replacing(place / STORED) as temporary:
        polars.DataFrame(rows, schema=COMPARED, orient="row").write_parquet(temporary)


def _theirs(path: Path) -> dict[tuple[str, str | None], float]:
    """Return the scores in an archive of disentanglement_lib, under our names if we have them."""
    folder = Folder(path)
    found: dict[tuple[str, str | None], float] = {}
    scores = re.compile(r"(?:^|/)metrics/(mean|sampled)/[^/]+/results/json/evaluation_results\.json$")
    for name in folder.files:
        if (place := scores.search(name)) is not None:
            for key, value in _numbers(folder, name).items():
                found[SAME.get(key, key), place.group(1)] = value
    trained = folder.ending("model/results/json/train_results.json")
    scores_of_training = {} if trained is None else _numbers(folder, trained)
    for key, ours, representation in (("reconstruction_loss", "reconstruction", "sampled"), ("kl_loss", "rate", None)):
        if key in scores_of_training:
            found[ours, representation] = scores_of_training[key]
    return found


def _numbers(folder: Folder, name: str) -> dict[str, float]:
    known = parse_json(folder.read(name, largest=LARGEST_CONFIG).decode("utf-8", "replace"), where=name)
    about = ("elapsed_time", "uuid", "global_step", "num_active_dims")
    return {
        str(key): float(value)
        for key, value in (known.items() if isinstance(known, dict) else ())
        if isinstance(value, int | float) and not isinstance(value, bool) and key not in about
    }


def _score(metric: str, representation: str | None, encodings: Encodings) -> float | None:
    """Return one of our scores that not every run has; only those that take at most a second."""
    from polarised.metrics import irs, mig, modularity, sap

    if encodings.factors is None or representation not in ("mean", "sampled"):
        return None
    codes = encodings.mean if representation == "mean" else encodings.sample(seed=0)
    if metric == "mig":
        return mig(codes, encodings.factors)
    if metric == "modularity":
        return modularity(codes, encodings.factors)
    if metric == "sap":
        return sap(codes, encodings.factors, kind="discrete").score
    if metric == "irs":
        return irs(codes, encodings.factors).score
    return None


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, PolarisedError) else f"{type(error).__name__}: {error}"
