"""A model of scvi-tools → Encodings, and what its decoder makes of the variables."""

import logging
import pickle
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from polarised._io.limits import rehearse
from polarised.adapters.arrays import as_variance
from polarised.adapters.models import untouched
from polarised.adapters.published import refuse_bombs
from polarised.errors import DataError
from polarised.random import stream
from polarised.regime import Encodings, Regime
from polarised.regime.advice import listed
from polarised.regime.decoder import FEW, USUAL, CodedBatch, DecoderUse, measure_decoder_use

__all__ = ["from_scvi", "keys_of_pickle", "load_scvi", "look_at_scvi", "names_in_pickle"]

LARGEST_DESCRIPTION = 1 << 26
# What the file of a scvi-tools model may name, to the letter: arrays, tables and plain containers, nothing that acts.
# A whole module would be too much: what it imports can be reached through it.
_CONTAINERS = (
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
_INDEXES = {
    "base": ("Index", "_new_Index"),
    "range": ("RangeIndex",),
    "category": ("CategoricalIndex",),
    "multi": ("MultiIndex",),
}
HARMLESS: dict[str, tuple[str, ...]] = {
    "collections": ("OrderedDict", "defaultdict"),
    **dict.fromkeys(("builtins", "__builtin__"), _CONTAINERS),
    "_codecs": ("encode",),
    "numpy": ("ndarray", "dtype", "float32", "float64", "int32", "int64", "bool_"),
    **{f"numpy.{core}.multiarray": ("_reconstruct", "scalar") for core in ("core", "_core")},
    **{f"numpy.{core}.numeric": ("_frombuffer",) for core in ("core", "_core")},
    "torch._utils": ("_rebuild_tensor_v2", "_rebuild_parameter"),
    "torch": ("Size", "device", "float32", "float64", "int64", "bool"),
    "torch.serialization": ("_get_layout",),
    "scvi.utils._attrdict": ("attrdict",),
    "pandas.core.frame": ("DataFrame",),
    "pandas.core.series": ("Series",),
    **{f"pandas.core.indexes.{module}": names for module, names in _INDEXES.items()},
    "pandas.core.internals.managers": ("BlockManager", "SingleBlockManager"),
    "pandas.core.internals.blocks": ("new_block",),
    "pandas._libs.internals": ("_unpickle_block",),
    "pandas._libs.arrays": ("__pyx_unpickle_NDArrayBacked",),
    "pandas.core.arrays.categorical": ("Categorical",),
    "pandas.core.arrays.string_": ("StringArray", "StringDtype"),
    "pandas.core.dtypes.dtypes": ("CategoricalDtype",),
}


def from_scvi(model: Any, adata: Any = None, *, factor: str | None = None, batch_size: int | None = None) -> Encodings:
    """Encode cells with a trained scvi-tools model that has a Gaussian posterior (SCVI, SCANVI, LinearSCVI, DRVI ...).

    `get_latent_representation(return_dist=True)` gives the mean and the variance, not the standard deviation.

    Args:
        model: The trained model.
        adata: The cells; default: those it was trained on.
        factor: A column of ``adata.obs`` to take as known factor.
        batch_size: Cells encoded at once; default: the library's own.

    Returns:
        The encodings.

    Raises:
        DataError: If the model gives no posterior, or there is no such column.

    >>> import scvi  # doctest: +SKIP
    >>> from_scvi(scvi.model.SCVI.load("model"), adata, factor="cell_type")  # doctest: +SKIP
    Encodings(2,000 inputs × 10 variables, N(0, I), factors cell_type)
    """
    if not hasattr(model, "get_latent_representation"):
        raise DataError(f"expected a scvi-tools model with get_latent_representation, got {type(model).__name__}")
    with untouched(model.module):
        mean, variance = model.get_latent_representation(adata, batch_size=batch_size, return_dist=True)
    classes = None
    if factor is not None:
        table = (adata if adata is not None else model.adata).obs
        if factor not in table:
            raise DataError(f"expected a column of adata.obs as factor, {factor!r} is none of {', '.join(table)}")
        classes = np.unique(table[factor].astype(str), return_inverse=True)[1]
    return Encodings(
        mean,
        variance=as_variance(np.asarray(variance), "variance"),
        factors=classes,
        factor_names=[factor] if factor is not None else None,
    )


def look_at_scvi(
    model: Any, adata: Any = None, *, factor: str | None = None, batch_size: int | None = None, seed: int = 0
) -> tuple[Encodings, DecoderUse | None, Callable[[Regime], tuple[str, ...]]]:
    """Return the encodings of cells, what the decoder makes of the variables in nats, and what to say to biologists."""
    encodings = from_scvi(model, adata, factor=factor, batch_size=batch_size)
    use = None
    if hasattr(model.module, "generative") and hasattr(model, "_make_data_loader"):
        with untouched(model.module, seed=seed):
            use = measure_decoder_use(_coded(model, adata, len(encodings), seed), seed=seed)
    return encodings, use, _keep_or_drop


def _keep_or_drop(regime: Regime) -> tuple[str, ...]:
    kept = [j for j in range(len(regime.types)) if j not in regime.droppable]
    if not regime.droppable:
        return ("Keep all latent dimensions for neighbours, clustering and UMAP.",)
    if not regime.alive:
        return ()
    return (
        f"Keep latent dimensions {listed(kept)} and drop {listed(regime.droppable)} before neighbours, clustering and "
        "UMAP: a dropped one adds only noise to distances between cells.",
    )


def _coded(model: Any, adata: Any, cells: int, seed: int) -> Iterator[CodedBatch]:
    """Yield some hundred cells, then more, with -log p(x|z) of the model's own likelihood."""
    order = stream(seed, "cells for a decoder").permutation(cells)[:USUAL]
    for rows in (order[:FEW], order[FEW:]):
        if len(rows) >= 2:
            yield _coded_batch(model, adata, np.sort(rows), seed)


def _coded_batch(model: Any, adata: Any, rows: Any, seed: int) -> CodedBatch:
    import torch

    module = model.module
    adata = model._validate_anndata(adata)
    (tensors,) = list(model._make_data_loader(adata=adata, indices=rows, batch_size=len(rows)))
    device = next(module.parameters()).device
    tensors = {name: value.to(device) for name, value in tensors.items()}
    with torch.no_grad():
        inferred = module.inference(**module._get_inference_input(tensors))
        settings = module._get_generative_input(tensors, inferred)
        posterior = inferred["qz"]
        noise = torch.Generator().manual_seed(seed)
        z = posterior.loc + posterior.scale * torch.randn(posterior.loc.shape, generator=noise).to(device)
        redrawn = torch.randn(posterior.loc.shape, generator=noise)

    def distortion(codes: Any) -> Any:
        with torch.no_grad():
            given = {**settings, "z": torch.as_tensor(codes, dtype=z.dtype, device=device)}
            likelihood = module.generative(**given)["px"]
            return -likelihood.log_prob(tensors["X"]).sum(-1).double().cpu().numpy()

    return CodedBatch(distortion, z.cpu().numpy(), redrawn.numpy(), np.zeros(len(rows)))


def load_scvi(folder: Path, data: Any = None) -> tuple[Any, Any]:
    """Return the model that scvi-tools saved in a folder, and the cells it is for.

    The file is a pickle, which the library would run whatever it holds. It is read here with a reader that knows the
    names of arrays and tables only, and what was read is what the library gets.

    Args:
        folder: The folder.
        data: The cells, or an .h5ad of them; default: those saved with the model.

    Raises:
        DataError: If there are no cells, or the file could run code.
    """
    prepare()
    if data is None and not (folder / "adata.h5ad").is_file():
        raise DataError(f"expected the cells of the model in {folder}; give them as data, an .h5ad or AnnData")
    place = folder / "adata.h5ad" if data is None else data
    if isinstance(place, str | Path):
        rehearse("a model of scvi-tools with its cells", _try, folder, Path(place))
    return _load(folder, place)


def prepare() -> None:
    """Import the library before memory is limited."""
    import anndata  # noqa: F401
    import scvi  # noqa: F401


def _try(folder: str, cells: str) -> None:
    _load(Path(folder), cells)


def _load(folder: Path, place: Any) -> tuple[Any, Any]:
    import anndata
    import torch
    from scvi import model as models

    saved = _read_saved(folder / "model.pt")
    kind = _model_name(saved)
    if kind not in models.__all__:
        raise DataError(f"expected a model of scvi-tools in {folder}, it names {kind or 'none'}, which is not known")
    cells = anndata.read_h5ad(place) if isinstance(place, str | Path) else place
    # It tells on standard output what it does, where a machine may be reading.
    logger = logging.getLogger("scvi")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with tempfile.TemporaryDirectory() as desk:
            torch.save(saved, Path(desk) / "model.pt")
            return getattr(models, kind).load(desk, adata=cells), cells
    except DataError:
        raise
    except Exception as error:
        raise DataError(f"expected a model of scvi-tools that fits its cells in {folder}: {error}") from error
    finally:
        logger.setLevel(level)


# The one of Python, not that of C, for which seven bytes can ask for a table of 64 GiB.
class _Reader(pickle._Unpickler):
    """Reads a pickle that may name what is harmless, and is refused where it names anything else."""

    def find_class(self, module: str, name: str) -> Any:
        """Return what the pickle names."""
        if name not in HARMLESS.get(module, ()):
            raise DataError(f"it names {module}.{name}; refused")
        return super().find_class(module, name)


class _Careful:
    """What torch takes for the module pickle."""

    Unpickler = _Reader

    @staticmethod
    def load(file: Any, **options: Any) -> Any:
        return _Reader(file, **options).load()


def _read_saved(path: Path) -> dict[str, Any]:
    """Return what torch saved in a file, where all of it is arrays, tables and plain containers."""
    import torch

    with path.open("rb") as file:
        try:
            refuse_bombs(file, path)
            file.seek(0)
            if file.read(4) != b"PK\x03\x04":
                raise ValueError("it is of an old format")
            file.seek(0)
            saved = torch.load(file, map_location="cpu", pickle_module=_Careful, weights_only=False)
        except Exception as error:
            raise DataError(f"expected arrays and tables in {path}, could not read it: {error}") from error
    if not isinstance(saved, dict):
        raise DataError(f"expected a model of scvi-tools in {path}, got {type(saved).__name__}")
    return saved


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


class _Looker(pickle._Unpickler):
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
        with path.open("rb") as packed, zipfile.ZipFile(packed) as archive:
            refuse_bombs(packed, path)
            member = next(i for i in archive.infolist() if i.filename.endswith("data.pkl"))
            if member.file_size > LARGEST_DESCRIPTION:
                raise DataError(f"expected a description of at most {LARGEST_DESCRIPTION >> 20} MiB in {path}")
            with archive.open(member) as file:
                looker = _Looker(file)
                looker.found = looker.load()
    except DataError:
        raise
    except Exception as error:
        raise DataError(f"expected a file that torch saved, could not read {path}: {error}") from error
    return looker


def keys_of_pickle(path: Path) -> set[str]:
    """Return the keys of the dictionary that torch saved in a file, without running what it holds; else none."""
    try:
        found = _looked_through(path).found
    except DataError:
        return set()
    return {key for key in found if isinstance(key, str)} if isinstance(found, dict) else set()


def _model_name(saved: dict[str, Any]) -> str:
    """Return the name of the model in what scvi-tools saved: ``attr_dict["registry_"]["model_name"]``."""
    attributes = saved.get("attr_dict")
    registry = attributes.get("registry_") if isinstance(attributes, dict) else None
    name = registry.get("model_name") if isinstance(registry, dict) else None
    return name if isinstance(name, str) else ""
