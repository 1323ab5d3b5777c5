"""What a user points at: a run directory of ours, a file of arrays, a published model of somebody else."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from polarised._io.files import Folder
from polarised.adapters._published import dataset_named
from polarised.adapters.arrays import MEAN, open_file
from polarised.adapters.folders import saved_by
from polarised.errors import DataError, DownloadError, MissingFileError

if TYPE_CHECKING:
    from polarised.data import Dataset
    from polarised.models import VAE

__all__ = ["Target", "images_named", "open_target", "paths_of", "unused_settings"]

Kind = Literal["run", "arrays", "model", "disentangling-vae", "disentanglement_lib", "diffusers", "pythae", "scvi"]

ARRAYS = (".npz", ".npy", ".parquet", ".pq", ".csv", ".h5ad")
TENSORS = (".pt", ".pth", ".safetensors")

# What shows that a folder is somebody's model, where its configuration is, and what names the dataset there.
CONFIG = "results/json/train_config.json"
PUBLISHED: dict[Kind, tuple[str, tuple[str, ...], str]] = {
    "disentanglement_lib": ("tfhub/variables/variables.index", (f"model/{CONFIG}", CONFIG), "dataset.name"),
    "disentangling-vae": ("model.pt", ("specs.json",), "dataset"),
}


_ENCODED = "it holds encodings, not a model"
_AS_MEASURED = "a run is read as it was measured; with data it encodes anew"
_IN_PARTS = "only files of arrays are read in parts"
_OF_MODELS = ("data", "encode", "decode", "mask", "prior", "pixel_range", "batch_size", "objective")
# What can change nothing about a target, and why.
UNUSED: dict[str, dict[str, str]] = {
    "arrays": {**dict.fromkeys(_OF_MODELS, _ENCODED), "examples": "all that it holds is read"},
    "run": {
        **dict.fromkeys((*_OF_MODELS, "examples", "seed"), _AS_MEASURED),
        "scale_kind": "only arrays and encoders leave open what the scale is",
        "executor": _IN_PARTS,
        "address": _IN_PARTS,
    },
    "model": {"executor": _IN_PARTS, "address": _IN_PARTS},
}


@dataclass(frozen=True)
class Target:
    """A path and what it holds; `dataset` is the name of the data a published model says it was trained on.

    Args:
        path: Where it lies.
        kind: What it is.
        dataset: The data a published model says it was trained on.
    """

    path: Path
    kind: Kind
    dataset: str | None = None

    @property
    def name(self) -> str:
        """A short name for titles."""
        return self.path.resolve().name if self.path.is_dir() else self.path.stem

    def vae(self) -> "VAE":
        """Return the model with its weights; encodings alone have none."""
        if self.kind == "disentangling-vae":
            from polarised.adapters.disentangling_vae import load_disentangling_vae

            return load_disentangling_vae(self.path)
        if self.kind == "disentanglement_lib":
            from polarised.adapters.disentanglement_lib import load_disentanglement_lib

            return load_disentanglement_lib(self.path)
        if self.kind in ("run", "model"):
            from polarised.models.vae import load_vae

            return load_vae(self.path / "model.safetensors" if self.path.is_dir() else self.path)
        raise DataError(f"expected a model with its weights, {self.path} holds only arrays; give the run or the model")

    def model(self) -> Any:
        """Return the model to diagnose: ours, or that of another library, which must be installed."""
        from polarised.adapters import folders

        if self.kind == "diffusers":
            return folders.load_diffusers(self.path)
        return folders.load_pythae(self.path) if self.kind == "pythae" else self.vae()

    def config(self) -> tuple[dict[str, Any], int]:
        """Return the config of `build_vae` that makes this model, and the size of its auxiliary variables."""
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

    def data(self) -> "Dataset":
        """Return the images a model was trained on, where they can be drawn here."""
        if self.kind == "run":
            from polarised.adapters.runs import open_run

            return open_run(self.path).dataset()
        from polarised import registry
        from polarised.data.cache import data_folder

        page = "dataset"
        name = (self.dataset or "").removesuffix("_full")
        if name in registry.names(page):
            try:
                return images_named(name)
            except DownloadError as error:
                raise DownloadError(
                    f"expected the dataset {name}, on which {self.name} was trained, in {data_folder() / name}, it is "
                    "not there and could not be downloaded; where there is a network `polarised datasets prepare "
                    f"{name}` gets it (and says why it cannot), or give other images with data='file.npz'"
                ) from error
        came = repr(self.dataset) if self.dataset else "none"
        raise DataError(
            f"expected a model that names a dataset of ours, {self.path} names {came}; "
            "say which images to encode with data= (the name of a dataset, a file of images, or a folder of pictures)"
        )


def images_named(name: str) -> "Dataset":
    """Return a dataset by its name in the catalogue, the images of an .npz, or the pictures of a folder.

    >>> images_named("dsprites").shape
    (1, 64, 64)
    """
    from polarised.adapters.batches import dataset_at

    return dataset_at(name)


def paths_of(target: Any) -> list[Path] | None:
    """Return the paths that a target names, a pattern among them written out; None where it names none.

    Raises:
        DataError: If a pattern fits nothing.

    >>> paths_of("codes.npz"), paths_of(3)
    ([PosixPath('codes.npz')], None)
    """
    each = [target] if isinstance(target, str | Path) else target
    if not isinstance(each, list | tuple) or not each or not all(isinstance(one, str | Path) for one in each):
        return None
    found: list[Path] = []
    for one in each:
        path = Path(one).expanduser()
        if path.exists() or not any(sign in str(one) for sign in "*?["):
            found.append(path)
            continue
        fitting = sorted(Path(path.anchor or ".").glob(str(path.relative_to(path.anchor) if path.anchor else path)))
        if not fitting:
            raise DataError(f"expected at least one file of encodings, nothing fits {one}; check the pattern")
        found += fitting
    return found


def unused_settings(target: "Target", *, with_data: bool = False) -> dict[str, str]:
    """Return the settings of a diagnosis that can change nothing about a target, and why.

    >>> list(unused_settings(Target(Path("codes.npz"), "arrays")))[0]
    'data'
    """
    kind = "arrays" if target.kind == "arrays" else "run" if target.kind == "run" and not with_data else "model"
    return UNUSED[kind]


def open_target(path: str | Path) -> Target:
    """Recognise what is at a path: its kind, and the dataset it names; nothing large is read yet.

    Args:
        path: A file or folder.

    Returns:
        What is there.

    >>> import tempfile, numpy
    >>> file = Path(tempfile.mkdtemp()) / "codes.npz"
    >>> numpy.savez(file, mean=numpy.zeros((5, 2)), variance=numpy.ones((5, 2)))
    >>> open_target(file).kind
    'arrays'
    """
    path = Path(path)
    if not path.exists():
        raise MissingFileError(
            f"expected a run directory, a file of arrays or a model, {path} does not exist; check the path"
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
        # The exported network itself: its configuration lies beside it.
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
        raise DataError(f"expected one run, {path} holds {len(runs)}; give one of them, such as {runs[0]}")
    raise DataError(
        f"expected a run of ours (config.yaml), of disentanglement_lib (model/tfhub), of disentangling-vae (model.pt), "
        f"a model of diffusers, pythae or scvi-tools, or .npy files in {path}, found none; give the folder of one model"
    )


def _kind_of_tensors(path: Path) -> Kind:
    """Return whether a file of tensors is a model of ours or holds encodings; weights alone are explained."""
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
        f"expected a model with its description, got the weights {path.name} alone; give the folder that holds "
        "them and specs.json (disentangling-vae), give the model itself to polarised.diagnose, or save what your "
        f"encoder gives under the names mean and variance{refused}"
    )
