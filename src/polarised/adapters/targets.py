"""What a user points at: a run directory of ours, a file of arrays, a published model of somebody else."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from polarised._io.archives import Folder
from polarised.adapters._published import dataset_named
from polarised.errors import DataError, DownloadError

if TYPE_CHECKING:
    from polarised.data import Dataset
    from polarised.models import VAE

__all__ = ["Target", "images_named", "open_target"]

Kind = Literal["run", "arrays", "model", "disentangling-vae", "disentanglement_lib"]

ARRAYS = (".npz", ".npy", ".parquet", ".pq")

# What shows that a folder is somebody's model, where its configuration is, and what names the dataset there.
CONFIG = "results/json/train_config.json"
PUBLISHED: dict[Kind, tuple[str, tuple[str, ...], str]] = {
    "disentanglement_lib": ("tfhub/variables/variables.index", (f"model/{CONFIG}", CONFIG), "dataset.name"),
    "disentangling-vae": ("model.pt", ("specs.json",), "dataset"),
}


@dataclass(frozen=True)
class Target:
    """A path and what it holds; `dataset` is the name of the data a published model says it was trained on."""

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
        """Return the images a published model was trained on, where they can be drawn here."""
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
                    f"{name}` gets it (and says why it cannot), or give other images with --data file.npz"
                ) from error
        came = repr(self.dataset) if self.dataset else "none"
        raise DataError(
            f"expected a model that names a dataset of ours, {self.path} names {came}; "
            "say which images to encode with --data (the name of a dataset, or a file of images)"
        )


def images_named(name: str) -> "Dataset":
    """Return a dataset by its name in the catalogue, or the images of an .npz.

    >>> images_named("dsprites").shape
    (1, 64, 64)
    """
    from polarised import registry

    spec = {"name": "from_npz", "path": name} if name.endswith(".npz") else {"name": name}
    dataset: Dataset = registry.build("dataset", spec)
    return dataset


def open_target(path: str | Path) -> Target:
    """Recognise what is at a path: its kind, and the dataset it names; nothing large is read yet.

    >>> import tempfile, numpy
    >>> file = Path(tempfile.mkdtemp()) / "codes.npz"
    >>> numpy.savez(file, mean=numpy.zeros((5, 2)), variance=numpy.ones((5, 2)))
    >>> open_target(file).kind
    'arrays'
    """
    path = Path(path)
    if not path.exists():
        raise DataError(f"expected a run directory, a file of arrays or a model, {path} does not exist; check the path")
    if path.is_file() and path.suffix.lower() in ARRAYS:
        return Target(path, "arrays")
    if path.is_file() and path.suffix == ".safetensors":
        return Target(path, "model")
    if path.is_file() and path.suffix.lower() in (".pt", ".pth"):
        raise DataError(
            f"expected a model with its description, got the weights {path.name} alone; give the folder that holds "
            "them and specs.json (disentangling-vae), or save what your encoder gives with numpy.savez"
        )
    if path.is_file() and path.suffix.lower() != ".zip":
        raise DataError(f"expected one of {', '.join(ARRAYS)}, .safetensors or .zip, got {path.name}")
    if (path / "config.yaml").is_file() or (path / "encodings.npz").is_file():
        return Target(path, "run")
    if path.name == "tfhub" and (path / "variables" / "variables.index").is_file():
        # The exported network itself: its configuration lies beside it.
        path = path.parent
    folder = Folder(path)
    for kind, (sign, config, key) in PUBLISHED.items():
        if folder.ending(sign) is not None:
            return Target(path, kind, dataset_named(folder, config, key))
    if path.is_dir() and any(path.glob("*.npy")):
        return Target(path, "arrays")
    if runs := sorted(file.parent for file in path.glob("*/config.yaml")):
        raise DataError(f"expected one run, {path} holds {len(runs)}; give one of them, such as {runs[0]}")
    raise DataError(
        f"expected a run of ours (config.yaml), of disentanglement_lib (model/tfhub), of disentangling-vae (model.pt) "
        f"or .npy files in {path}, found none; give the folder of one model"
    )
