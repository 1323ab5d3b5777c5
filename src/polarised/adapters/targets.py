"""Targets of a diagnosis: a run, a file of arrays, or a saved model; a run is read without torch."""

import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from polarised import registry
from polarised._io.files import Folder, expanded
from polarised._io.tables import read_table
from polarised._io.text import parse_yaml, read_small
from polarised.adapters.arrays import MEAN, open_file
from polarised.adapters.published import config_at, dataset_named
from polarised.bibliography import cite_specs, specs_of_config
from polarised.data.dataset import Dataset
from polarised.errors import ConfigError, DataError, DownloadError, MissingFileError
from polarised.regime import Encodings

if TYPE_CHECKING:
    import polars

    from polarised.models import VAE
    from polarised.regime.decoder import DecoderUse

__all__ = [
    "StoredRun",
    "Target",
    "accepted_targets",
    "images_named",
    "made_here",
    "open_run",
    "open_target",
    "paths_of",
    "saved_by",
    "unused_settings",
]

Kind = Literal["run", "arrays", "model", "disentangling-vae", "disentanglement_lib", "diffusers", "pythae", "scvi"]

_PACKAGES = ("polarised", "torch", "numpy", "scipy", "polars")
LARGEST_CONFIG = 1 << 20
ARRAYS = (".npz", ".npy", ".parquet", ".pq", ".csv", ".h5ad")
TENSORS = (".pt", ".pth", ".safetensors")

# A description of each kind, in the order in which they are tried.
DESCRIBED: dict[Kind, str] = {
    "arrays": "files with named arrays of means and scales ({files})",
    "diffusers": "a folder with a diffusers autoencoder or pipeline",
    "pythae": "a folder with a pythae model",
    "scvi": "a folder with a scvi-tools model and its .h5ad",
    "disentanglement_lib": "a disentanglement_lib run or its zip archive",
    "disentangling-vae": "a folder with a disentangling-vae model",
    "run": "a run directory of `polarised`",
    "model": "a model file of `polarised` (.safetensors)",
}
# The file that identifies a published model, the paths of its configuration, and the key of its dataset.
CONFIG = "results/json/train_config.json"
PUBLISHED: dict[Kind, tuple[str, tuple[str, ...], str]] = {
    "disentanglement_lib": ("tfhub/variables/variables.index", (f"model/{CONFIG}", CONFIG), "dataset.name"),
    "disentangling-vae": ("model.pt", ("specs.json",), "dataset"),
}


_ENCODED = "it holds encodings, not a model"
_AS_MEASURED = "a run is read as it was measured; give data to encode again"
_IN_PARTS = "only files of arrays are read in parts"
_OF_MODELS = ("data", "encode", "decode", "mask", "prior", "pixel_range", "batch_size", "objective")
# Settings that have no effect on a kind of target, and why.
UNUSED: dict[str, dict[str, str]] = {
    "arrays": {**dict.fromkeys(_OF_MODELS, _ENCODED), "examples": "all its inputs are read"},
    "run": {
        **dict.fromkeys((*_OF_MODELS, "examples", "seed"), _AS_MEASURED),
        "scale_kind": "it applies only to arrays and encoders",
        "executor": _IN_PARTS,
        "address": _IN_PARTS,
    },
    "model": {"executor": _IN_PARTS, "address": _IN_PARTS},
}


@dataclass(frozen=True)
class Target:
    """A path and its kind; `dataset` is the name of the data on which a published model was trained, by its config.

    Args:
        path: The path.
        kind: Its kind.
        dataset: The data on which a published model was trained, by its config.
    """

    path: Path
    kind: Kind
    dataset: str | None = None

    @property
    def name(self) -> str:
        """A short name for titles."""
        return self.path.resolve().name if self.path.is_dir() else self.path.stem

    def vae(self) -> "VAE":
        """Return the model with its weights; files of encodings have none."""
        if self.kind == "disentangling-vae":
            from polarised.adapters.published import load_disentangling_vae

            return load_disentangling_vae(self.path)
        if self.kind == "disentanglement_lib":
            from polarised.adapters.published import load_disentanglement_lib

            return load_disentanglement_lib(self.path)
        if self.kind in ("run", "model"):
            from polarised.models.vae import load_vae

            return load_vae(self.path / "model.safetensors" if self.path.is_dir() else self.path)
        if self.kind != "arrays":
            raise DataError(
                f"expected our own or a published model, but {self.path} holds one of {self.kind}; load it with "
                "its library and give it to polarised.diagnose, polarised.prune or report.explore.explore_model"
            )
        raise DataError(
            f"expected a model with its weights, but {self.path} holds only arrays; give the run or the model"
        )

    def model(self) -> Any:
        """Return the model to diagnose: ours, or one of another library, which must be installed."""
        if self.kind == "diffusers":
            from polarised.adapters.diffusers import load_diffusers

            return load_diffusers(self.path)
        if self.kind == "pythae":
            from polarised.adapters.pythae import load_pythae

            return load_pythae(self.path)
        return self.vae()

    def config(self) -> tuple[dict[str, Any], int]:
        """Return the config of this model for `build_vae`, and the size of its auxiliary variables."""
        vae = self.vae()
        if self.kind == "disentangling-vae":
            return {"architecture": "burgess_conv", "latents": vae.latents}, 0
        if self.kind == "disentanglement_lib":
            return {"architecture": "locatello_conv", "latents": vae.latents}, 0
        from safetensors import safe_open

        file = self.path / "model.safetensors" if self.path.is_dir() else self.path
        with safe_open(file, framework="pt") as archive:
            header = json.loads(archive.metadata()["polarised"])
        return dict(header["config"]), int(header["auxiliary_size"])

    def data(self) -> Dataset:
        """Return the images a model is measured on, of a run with a `split` those it was not trained on."""
        if self.kind == "run":
            return open_run(self.path).dataset()
        from polarised.data.cache import data_folder

        page = "dataset"
        name = (self.dataset or "").removesuffix("_full")
        if name in registry.names(page):
            try:
                return images_named(name)
            except DownloadError as error:
                raise DownloadError(
                    f"expected the dataset {name}, on which {self.name} was trained, in {data_folder() / name}, but it "
                    "is missing and could not be downloaded; with a network connection, `polarised datasets prepare "
                    f"{name}` downloads it or says why it cannot, or give other images with data='file.npz'"
                ) from error
        came = repr(self.dataset) if self.dataset else "none"
        raise DataError(
            f"expected a model that names one of our datasets, but {self.path} names {came}; "
            "give the images to encode with data= (the name of a dataset, a file of images, or a folder of images)"
        )


def accepted_targets() -> str:
    """Return the targets that `polarised.diagnose` accepts as a list in Markdown, from the adapters and the kinds.

    Returns:
        A line about objects and a line about files and folders.

    >>> "a PyTorch or Lightning module" in accepted_targets()
    True
    """
    # Adapters of other packages are not listed, because we cannot guarantee them.
    ours = [each for each in registry.records("adapter") if each.call.__module__.startswith("polarised.")]
    objects = ["`Encodings`", "a mapping of arrays", *(each.summary for each in ours), "a scvi-tools model"]
    files = ", ".join((*ARRAYS, *TENSORS))
    disk = [text.format(files=files) for text in DESCRIBED.values()]
    return f"- In Python: {'; '.join(objects)}.\n- On disk (in Python or with `polarised diagnose`): {'; '.join(disk)}."


def images_named(name: str) -> Dataset:
    """Return a dataset by its name in the catalogue, or the images of an .npz or a folder.

    >>> images_named("dsprites").shape
    (1, 64, 64)
    """
    from polarised.adapters.batches import dataset_at

    return dataset_at(name)


def paths_of(target: Any) -> list[Path] | None:
    """Return the paths that a target names, with patterns expanded; None if it names none.

    Raises:
        DataError: If a pattern matches nothing.

    >>> paths_of("codes.npz"), paths_of(3)
    ([PosixPath('codes.npz')], None)
    """
    each = [target] if isinstance(target, str | Path) else target
    if not isinstance(each, list | tuple) or not each or not all(isinstance(one, str | Path) for one in each):
        return None
    found: list[Path] = []
    for one in each:
        path = expanded(one)
        if path.exists() or not any(sign in str(one) for sign in "*?["):
            found.append(path)
            continue
        try:
            fitting = sorted(Path(path.anchor or ".").glob(str(path.relative_to(path.anchor) if path.anchor else path)))
        except ValueError as error:
            raise DataError(f"expected a pattern such as codes/*.npz, got {one}: {error}") from error
        if not fitting:
            raise MissingFileError(
                f"expected at least one file of encodings, but nothing matches {one}; check the pattern"
            )
        found += fitting
    return found


def unused_settings(target: "Target", *, with_data: bool = False) -> dict[str, str]:
    """Return the settings of a diagnosis that have no effect on a target, and why.

    >>> list(unused_settings(Target(Path("codes.npz"), "arrays")))[0]
    'data'
    """
    kind = "arrays" if target.kind == "arrays" else "run" if target.kind == "run" and not with_data else "model"
    return UNUSED[kind]


def _holds_images(folder: Path) -> bool:
    from polarised.data.own import SUFFIXES

    return any(file.suffix.lower() in SUFFIXES for file in islice(folder.rglob("*"), 1000))


def open_target(path: str | Path) -> Target:
    """Recognise the target at a path: its kind, and the dataset it names; no large file is read yet.

    Args:
        path: A file or folder.

    Returns:
        The target.

    >>> import tempfile, numpy
    >>> file = Path(tempfile.mkdtemp()) / "codes.npz"
    >>> numpy.savez(file, mean=numpy.zeros((5, 2)), variance=numpy.ones((5, 2)))
    >>> open_target(file).kind
    'arrays'
    """
    path = Path(path)
    if not path.exists():
        raise MissingFileError(
            f"expected a run directory, a file of arrays or a model, but {path} does not exist; check the path"
        )
    if path.is_file() and path.suffix.lower() in ARRAYS:
        return Target(path, "arrays")
    if path.is_file() and path.suffix.lower() in TENSORS:
        return Target(path, _kind_of_tensors(path))
    if path.is_file() and path.suffix.lower() != ".zip":
        raise DataError(f"expected one of {', '.join((*ARRAYS, *TENSORS))} or .zip, got {path.name}")
    if (path / "config.yaml").is_file() or (path / "encodings.npz").is_file():
        return Target(path, "run")
    if path.name == "tfhub" and (path / "variables" / "variables.index").is_file():
        # The exported network itself: its configuration is next to it.
        path = path.parent
    if path.is_dir() and (library := saved_by(path)) is not None:
        return Target(path, library)
    folder = Folder(path)
    for kind, (sign, config, key) in PUBLISHED.items():
        if folder.ending(sign) is not None:
            return Target(path, kind, dataset_named(folder, config, key))
    if path.is_dir() and any(path.glob("*.npy")):
        return Target(path, "arrays")
    if runs := sorted(file.parent for file in path.glob("*/config.yaml")):
        raise DataError(f"expected one run, but {path} holds {len(runs)}; give one of them, such as {runs[0]}")
    if path.is_dir() and _holds_images(path):
        raise DataError(
            f"expected a model or encodings, got the images of {path}; give the model, and this folder as data="
        )
    raise DataError(
        "expected our own run (config.yaml), one of disentanglement_lib (model/tfhub), of disentangling-vae "
        f"(model.pt), a model of diffusers, pythae or scvi-tools, or .npy files in {path}, but found none; give the "
        "folder of one model"
    )


def _kind_of_tensors(path: Path) -> Kind:
    """Return whether a file of tensors is our own model or holds encodings; for weights alone the error explains."""
    if path.suffix.lower() == ".safetensors":
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="np") as archive:
                if "polarised" in (archive.metadata() or {}):
                    return "model"
        except (SafetensorError, OSError):
            return "model"
    refused = ""
    try:
        if {name.lower() for name in open_file(path).names} & set(MEAN):
            return "arrays"
    except DataError as error:
        refused = f" ({error})"
    raise DataError(
        f"expected a model with its description, got only the weights {path.name}; give the folder that contains "
        "them and specs.json (disentangling-vae), give the model itself to polarised.diagnose, or save the outputs of "
        f"your encoder under the names mean and variance{refused}"
    )


def saved_by(folder: Path) -> Literal["diffusers", "pythae", "scvi"] | None:
    """Return the library of the model in a folder: diffusers, pythae or scvi, or None.

    >>> saved_by(Path("."))
    """
    if (folder / "model_index.json").is_file() or "_class_name" in config_at(folder / "config.json"):
        return "diffusers"
    if (folder / "model_config.json").is_file() and (folder / "model.pt").is_file():
        return "pythae"
    if (folder / "model.pt").is_file() and not (folder / "specs.json").is_file():
        from polarised.adapters.scvi import keys_of_pickle

        keys = keys_of_pickle(folder / "model.pt")
        return "scvi" if {"attr_dict", "model_state_dict"} <= keys else None
    return None


@dataclass(frozen=True)
class StoredRun:
    """A run's folder and the settings in its ``config.yaml``."""

    directory: Path
    config: Mapping[str, Any]
    made: Mapping[str, Any]

    @property
    def alpha(self) -> float:
        """The threshold the run was measured with."""
        return float(_section(self.config, "evaluation").get("alpha", 0.1))

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return int(self.config.get("seed", 0))

    @property
    def model(self) -> Path:
        """The path of its weights."""
        return self.directory / "model.safetensors"

    def encodings(self) -> Encodings:
        """Return the encodings it was measured on.

        Raises:
            DataError: If the run is not finished.
        """
        file = self.directory / "encodings.npz"
        if not file.exists():
            raise DataError(
                f"expected a finished run, but {self.directory} has no encodings.npz; run the command that created it "
                "again"
            )
        return Encodings.load(file)

    def dataset(self) -> Dataset:
        """Return the images it is measured on: its dataset, or with a `split` the part it was not trained on.

        They have auxiliary variables if the model uses them.
        """
        dataset: Dataset = registry.build("dataset", self.config.get("dataset", "dsprites"))
        auxiliary = self.config.get("auxiliary")
        if auxiliary is not None:
            dataset = dataset.with_auxiliary(factors=list(auxiliary) or None)
        split = _section(self.config, "training").get("split")
        return dataset if split is None else dataset.split(split)[1]

    def objective(self) -> Any:
        """Return the objective it was trained with; needs torch."""
        return registry.build("objective", self.config.get("objective", "BetaVAE"))

    def history(self) -> "polars.DataFrame | None":
        """Return the log of its training, if there is one."""
        return self._table("history.parquet", {"step": "number", "loss": "number"})

    def forecast(self) -> "polars.DataFrame | None":
        """Return the forecast number of alive variables over beta, if a forecast was made before training."""
        return self._table("forecast.parquet", {})

    def snapshots(self) -> "polars.DataFrame | None":
        """Return the types over training, if they were recorded."""
        from polarised.regime.timeline import load_timeline

        file = self.directory / "snapshots.npz"
        return load_timeline(file).table() if file.exists() else None

    def decoder_use(self) -> "DecoderUse | None":
        """Return the measured use of the decoder, if there is one."""
        from polarised.regime.decoder import DecoderUse

        table = self._table("decoder_use.parquet", {})
        return None if table is None else DecoderUse.of_table(table)

    def downstream(self, rule: str) -> "polars.DataFrame | None":
        """Return factor, variables, representation and accuracy for one rule, if they were measured."""
        import polars

        scores = dict.fromkeys(("rule", "metric", "representation", "variables"), "text") | {"value": "number"}
        table = self._table("downstream.parquet", scores)
        own = None if table is None else table.filter((table["rule"] == rule) | table["rule"].is_null())
        if own is None or not len(own):
            return None
        factor = polars.col("metric").str.strip_prefix("accuracy_").replace("accuracy", "all factors")
        return own.select(factor.alias("factor"), "variables", "representation", polars.col("value").alias("accuracy"))

    def citation(self) -> str:
        """Return its citations as BibTeX."""
        return "\n".join(cite_specs(specs_of_config(self.config)).values())

    def _table(self, name: str, columns: Mapping[str, str]) -> "polars.DataFrame | None":
        file = self.directory / name
        return read_table(file, columns=columns) if file.exists() else None


def open_run(directory: str | Path) -> StoredRun:
    """Read the settings of a run's folder; code that they name is refused (`registry.refuse_code`).

    Raises:
        ConfigError: If the settings cannot be read.
    """
    file = Path(directory) / "config.yaml"
    try:
        config = parse_yaml(read_small(file, largest=LARGEST_CONFIG), where=file) if file.exists() else {}
    except (OSError, DataError) as error:
        raise ConfigError(f"expected the settings of a run, but could not read {file}: {error}") from error
    if not isinstance(config, dict):
        raise ConfigError(f"expected a mapping of settings in {file}, got {type(config).__name__}")
    made = config.pop("made", {})
    _section(config, "model")
    evaluation = _section(config, "evaluation")
    seed, alpha, further = config.get("seed", 0), evaluation.get("alpha", 0.1), evaluation.get("further") or []
    if type(seed) is not int or seed < 0 or type(alpha) not in (int, float):
        raise ConfigError(f"expected a seed of at least 0 and a number as alpha in {file}, got {seed!r} and {alpha!r}")
    if not isinstance(further, list):
        raise ConfigError(f"expected a list of measures as evaluation.further in {file}, got {further!r}")
    registry.refuse_code(config, file)
    return StoredRun(Path(directory), config, made if isinstance(made, dict) else {})


def made_here(command: str | None = None) -> dict[str, Any]:
    """Return the command (by default that of this process) and the versions of the packages in use."""
    own = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
    return {"command": command or own, "versions": {name: _version(name) for name in _PACKAGES}}


def _section(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = config.get(name) or {}
    if not isinstance(section, Mapping):
        raise ConfigError(f"expected {name} as a mapping of settings, got {section!r}")
    return section


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"
