"""Folders that other libraries save: diffusers, pythae and scvi-tools, opened without running what they hold."""

import json
import logging
import pickle
import zipfile
from pathlib import Path
from typing import Any, Literal

from polarised.errors import DataError

__all__ = ["load_diffusers", "load_pythae", "load_scvi", "saved_by"]

LARGEST_CONFIG = 1 << 20
CONTAINERS = (
    "slice",
    "set",
    "frozenset",
    "dict",
    "list",
    "tuple",
    "complex",
    "bytes",
    "bytearray",
    "int",
    "float",
    "str",
)
# What the pickle of a scvi-tools model may name: arrays, tables and plain containers, nothing that acts.
HARMLESS: dict[str, tuple[str, ...]] = {
    "collections": ("OrderedDict", "defaultdict"),
    **dict.fromkeys(("builtins", "__builtin__"), CONTAINERS),
    "_codecs": ("encode",),
    "copyreg": ("_reconstructor",),
    "numpy": ("ndarray", "dtype", "float32", "float64", "int32", "int64", "bool_"),
    "numpy.core.multiarray": ("_reconstruct", "scalar"),
    "numpy._core.multiarray": ("_reconstruct", "scalar"),
    "numpy.core.numeric": ("_frombuffer",),
    "numpy._core.numeric": ("_frombuffer",),
    "torch._utils": ("_rebuild_tensor_v2", "_rebuild_parameter"),
    "torch": ("Size", "device", "float32", "float64", "int64", "bool"),
    "scvi.utils._attrdict": ("attrdict",),
}
HARMLESS_HOMES = (
    "pandas.core.frame",
    "pandas.core.series",
    "pandas.core.indexes",
    "pandas.core.internals",
    "pandas.core.arrays",
    "pandas._libs.internals",
    "pandas._libs.arrays",
    "pandas.core.dtypes.dtypes",
    "numpy.dtypes",
)


def saved_by(folder: Path) -> Literal["diffusers", "pythae", "scvi"] | None:
    """Return whose model a folder holds: diffusers, pythae or scvi, or None.

    >>> saved_by(Path("."))
    """
    if (folder / "model_index.json").is_file() or "_class_name" in _config(folder / "config.json"):
        return "diffusers"
    if (folder / "model_config.json").is_file() and (folder / "model.pt").is_file():
        return "pythae"
    if (folder / "model.pt").is_file() and not (folder / "specs.json").is_file():
        keys = _keys_of_pickle(folder / "model.pt")
        return "scvi" if {"attr_dict", "model_state_dict"} <= keys else None
    return None


def load_diffusers(folder: Path) -> Any:
    """Return the autoencoder that diffusers saved in a folder, or in that of a pipeline; weights are safetensors only.

    Raises:
        DataError: If it is no autoencoder, or has no safetensors.
    """
    import diffusers

    place = folder
    if (folder / "model_index.json").is_file():
        place = next((folder / name for name in ("vae", "movq") if (folder / name).is_dir()), folder)
    name = str(_config(place / "config.json").get("_class_name", ""))
    if not (name.startswith("Autoencoder") or name == "VQModel") or not hasattr(diffusers, name):
        raise DataError(f"expected an autoencoder of diffusers in {place}, its config.json names {name or 'no class'}")
    if not any(place.glob("*.safetensors")):
        raise DataError(f"expected weights as safetensors in {place}, there are none; other files could run code")
    return getattr(diffusers, name).from_pretrained(str(place), local_files_only=True, use_safetensors=True)


def load_pythae(folder: Path) -> Any:
    """Return the model that pythae saved in a folder; encoders saved as code are refused.

    Raises:
        DataError: If it holds code, or weights that do not fit its config.
    """
    from pythae import models

    from polarised.adapters._state import weights_in

    code = [file.name for file in folder.glob("*.pkl")]
    config = dict(_config(folder / "model_config.json"))
    if code or not config.get("uses_default_encoder", True) or not config.get("uses_default_decoder", True):
        raise DataError(
            f"expected a model with pythae's own networks in {folder}, it has its own ({', '.join(code) or 'encoder'}), "
            "which would have to be run to be read; load it yourself and give the model to polarised.diagnose"
        )
    kind = str(config.pop("name", ""))
    name = kind.removesuffix("Config").removesuffix("_")
    if not hasattr(models, kind) or not hasattr(models, name):
        raise DataError(f"expected the config of a pythae model in {folder}, it names {kind or 'none'}")
    config["input_dim"] = tuple(config.get("input_dim") or ())
    try:
        model = getattr(models, name)(getattr(models, kind)(**config))
        model.load_state_dict(weights_in(folder / "model.pt", "model_state_dict"))
    except DataError:
        raise
    except Exception as error:
        raise DataError(f"expected weights that fit the config in {folder}: {error}") from error
    return model.eval()


def load_scvi(folder: Path, data: Any = None) -> tuple[Any, Any]:
    """Return the model that scvi-tools saved in a folder, and the cells it is for.

    The file is a pickle, so what it names is looked at before: arrays and tables are harmless, all else is refused.

    Args:
        folder: The folder.
        data: The cells, or an .h5ad of them; default: those saved with the model.

    Raises:
        DataError: If there are no cells, or the file could run code.
    """
    import anndata
    from scvi import model as models

    if data is None and not (folder / "adata.h5ad").is_file():
        raise DataError(f"expected the cells of the model in {folder}; give them as data, an .h5ad or AnnData")
    place = folder / "adata.h5ad" if data is None else data
    cells = anndata.read_h5ad(place) if isinstance(place, str | Path) else place
    named = names_in_pickle(folder / "model.pt")
    if bad := sorted(f"{home}.{name}" for home, name in named if not _harmless(home, name)):
        raise DataError(f"expected arrays and tables in {folder / 'model.pt'}, it names {bad[0]}; refused")
    kind = _model_name(folder / "model.pt")
    if kind not in models.__all__:
        raise DataError(f"expected a model of scvi-tools in {folder}, it names {kind or 'none'}, which is not known")
    # It tells on standard output what it does, where a machine may be reading.
    logger = logging.getLogger("scvi")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        return getattr(models, kind).load(str(folder), adata=cells), cells
    finally:
        logger.setLevel(level)


def names_in_pickle(path: Path) -> set[tuple[str, str]]:
    """Return the names that a file saved by torch would import, without importing any."""
    return _looked_through(path).names


class _Anything:
    """Stands for whatever a pickle names, takes everything and does nothing."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.held: dict[Any, Any] = {}

    def __call__(self, *_: Any, **__: Any) -> "_Anything":
        return _Anything()

    def __setstate__(self, _: Any) -> None: ...

    def __setitem__(self, key: Any, value: Any) -> None: ...

    def append(self, _: Any) -> None:
        """Take an item."""

    def extend(self, _: Any) -> None:
        """Take items."""

    def __hash__(self) -> int:
        return id(self)


class _Looker(pickle.Unpickler):
    """Reads a pickle with every name replaced by `_Anything`, and writes the names down."""

    def __init__(self, file: Any) -> None:
        super().__init__(file)
        self.names: set[tuple[str, str]] = set()
        self.found: Any = None

    def find_class(self, module: str, name: str) -> Any:
        self.names.add((module, name))
        return _Anything

    def persistent_load(self, _: Any) -> Any:
        return _Anything()


def _looked_through(path: Path) -> _Looker:
    try:
        with zipfile.ZipFile(path) as archive:
            member = next(i for i in archive.infolist() if i.filename.endswith("data.pkl"))
            if member.file_size > 1 << 28:
                raise DataError(f"expected a description of at most 256 MiB in {path}, it is larger")
            with archive.open(member) as file:
                looker = _Looker(file)
                looker.found = looker.load()
    except DataError:
        raise
    except Exception as error:
        raise DataError(f"expected a file that torch saved, could not read {path}: {error}") from error
    return looker


def _keys_of_pickle(path: Path) -> set[str]:
    try:
        found = _looked_through(path).found
    except DataError:
        return set()
    return set(found) if isinstance(found, dict) else set()


def _model_name(path: Path) -> str:
    """Return the name of the model in a file of scvi-tools: ``attr_dict["registry_"]["model_name"]``."""
    found = _looked_through(path).found
    registry = found.get("attr_dict", {}).get("registry_", {}) if isinstance(found, dict) else {}
    name = registry.get("model_name") if isinstance(registry, dict) else None
    return name if isinstance(name, str) else ""


def _harmless(home: str, name: str) -> bool:
    if home == "torch" and name.endswith("Storage"):
        return True
    return name in HARMLESS.get(home, ()) or any(home == one or home.startswith(f"{one}.") for one in HARMLESS_HOMES)


def _config(path: Path) -> dict[str, Any]:
    if not path.is_file() or path.stat().st_size > LARGEST_CONFIG:
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
