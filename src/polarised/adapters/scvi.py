"""A model of scvi-tools → Encodings, and how its decoder uses the variables."""

import copy
import logging
import pickle
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from polarised._io.limits import check_room, rehearse
from polarised.adapters.arrays import as_variance
from polarised.adapters.decoding import Decoder, Remembered
from polarised.adapters.models import untouched
from polarised.adapters.published import refuse_bombs
from polarised.errors import ConfigError, DataError
from polarised.random import stream
from polarised.regime import Encodings, Regime
from polarised.regime.advice import listed
from polarised.regime.decoder import FEW, USUAL, CodedBatch, DecoderUse, measure_decoder_use

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "cells_of",
    "cut_scvi",
    "expression_of",
    "from_scvi",
    "keys_of_pickle",
    "load_scvi",
    "look_at_scvi",
    "names_in_pickle",
]

# Number of dimensions whose genes are named, and of cells used to find these genes.
MOST_WALKS, WALKED = 5, 64
LARGEST_DESCRIPTION = 1 << 26
# The exact names that the file of a scvi-tools model may use: arrays, tables and plain containers, no functions.
# Whole modules are not allowed, because their imports would be reachable through them.
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

    `get_latent_representation(return_dist=True)` returns the mean and the variance, not the standard deviation.

    Args:
        model: The trained model.
        adata: The cells; default: those it was trained on.
        factor: A column of ``adata.obs`` to use as known factor.
        batch_size: Cells per batch; default: that of the library.

    Returns:
        The encodings.

    Raises:
        DataError: If the model returns no posterior, or there is no such column.

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
            raise DataError(
                f"expected a column of adata.obs as factor, but {factor!r} is not one of {', '.join(table)}"
            )
        classes = np.unique(table[factor].astype(str), return_inverse=True)[1]
    return Encodings(
        mean,
        variance=as_variance(np.asarray(variance), "variance"),
        factors=classes,
        factor_names=[factor] if factor is not None else None,
    )


def look_at_scvi(
    model: Any, adata: Any = None, *, factor: str | None = None, batch_size: int | None = None, seed: int = 0
) -> tuple[Encodings, DecoderUse | None, Callable[[Regime], tuple[str, ...]], Callable[[Regime], tuple[str, ...]]]:
    """Return the encodings of cells, the decoder's use in nats, and the first and last sentences of the advice."""
    encodings = from_scvi(model, adata, factor=factor, batch_size=batch_size)
    use = None
    if hasattr(model.module, "generative") and hasattr(model, "_make_data_loader"):
        with untouched(model.module, seed=seed):
            use = measure_decoder_use(_coded(model, adata, len(encodings), seed), seed=seed)

    def remark(regime: Regime) -> tuple[str, ...]:
        asked = use is not None and regime.alive
        return (_responding_genes(model, adata, regime, seed),) if asked else ()

    return encodings, use, _keep_or_drop, remark


def _keep_or_drop(regime: Regime) -> tuple[str, ...]:
    kept = [j for j in range(len(regime.types)) if j not in regime.droppable]
    if not regime.droppable:
        return ("Keep all latent dimensions for neighbours, clustering and UMAP.",)
    if not regime.alive:
        return ()
    return (
        f"Keep latent dimensions {listed(kept)} and drop {listed(regime.droppable)} before neighbours, clustering and "
        "UMAP: dropped dimensions only add noise to distances between cells.",
    )


def _responding_genes(model: Any, adata: Any, regime: Regime, seed: int) -> str:
    """Name the genes that rise and fall most when each of the most used dimensions goes from -2 to 2."""
    strength = regime.statistics.kl if regime.decoder is None else regime.decoder.permuted
    used = sorted(regime.alive, key=lambda j: -strength[j])[:MOST_WALKS]
    names = (model.adata if adata is None else adata).var_names
    rows = np.sort(stream(seed, "cells to walk from").permutation(regime.inputs)[:WALKED])
    with untouched(model.module, seed=seed):
        ((seen, decoder),) = cells_of(model, adata, rows=rows, batch_size=len(rows))
        ends = {(j, end): _counts(decoder.decode(_moved(seen.mean, j, end))) for j in used for end in (-2.0, 2.0)}
    sentences = []
    for j in used:
        change = np.log2((ends[j, 2.0] + 1) / (ends[j, -2.0] + 1)).mean(axis=0)
        order = [int(g) for g in np.argsort(change)]
        up, down = ([str(names[g]) for g in part] for part in (order[::-1][:3], order[:3]))
        sentences.append(f"{j} raises {', '.join(up)} and lowers {', '.join(down)}")
    most = "the most used ones" if len(used) < len(regime.alive) else "the used ones"
    return f"Genes that change most when a dimension goes from -2 to 2, for {most}: {'; '.join(sentences)}."


def _moved(codes: Any, dimension: int, value: float) -> Any:
    moved = codes.copy()
    moved[:, dimension] = value
    return moved


def _counts(likelihood: Any) -> Any:
    """Return the expression given by a likelihood, in counts of each gene per 10,000."""
    share = np.maximum(likelihood.get_normalized("scale").cpu().numpy().astype(np.float64), 0)
    return 1e4 * share / share.sum(axis=1, keepdims=True)


def _coded(model: Any, adata: Any, cells: int, seed: int) -> Iterator[CodedBatch]:
    """Yield a few hundred cells, then more, with -log p(x|z) of the model's own likelihood."""
    order = stream(seed, "cells for a decoder").permutation(cells)[:USUAL]
    noise = np.random.default_rng(seed)
    for rows in (np.sort(order[:FEW]), np.sort(order[FEW:])):
        if len(rows) < 2:
            continue
        for seen, decoder in cells_of(model, adata, rows=rows, batch_size=len(rows)):
            codes = seen.mean + np.sqrt(seen.variance) * noise.standard_normal(seen.mean.shape)
            counts, decode, nats = seen.inputs, decoder.decode, decoder.distortion

            def distortion(z: Any, counts: Any = counts, decode: Any = decode, nats: Any = nats) -> Any:
                return nats(counts, decode(z))

            yield CodedBatch(distortion, codes, noise.standard_normal(codes.shape), np.zeros(len(rows)))


def cells_of(
    model: Any, adata: Any = None, *, rows: Any = None, batch_size: int = 256
) -> Iterator[tuple[Remembered, Decoder]]:
    """Yield cells with their posteriors, and the decoder with its other inputs for them: batch and library size.

    Args:
        model: The trained model.
        adata: The cells; default: those it was trained on.
        rows: The rows of the cells; default: all.
        batch_size: Cells per batch.

    Yields:
        The cells, and the decoder for these cells: codes → the likelihood of their counts.
    """
    import torch

    module, adata = model.module, model._validate_anndata(adata)
    device = next(module.parameters()).device
    for batch in model._make_data_loader(adata=adata, indices=rows, batch_size=batch_size):
        tensors = {name: value.to(device) for name, value in batch.items()}
        with torch.no_grad():
            inferred = module.inference(**module._get_inference_input(tensors))
            if inferred.get("ql") is not None:
                # An inferred library size is sampled at every call, so its mean is used instead.
                inferred["library"] = inferred["ql"].loc
            settings = module._get_generative_input(tensors, inferred)
        posterior = inferred["qz"]

        def decode(codes: Any, settings: dict[str, Any] = settings) -> Any:
            z = torch.as_tensor(np.asarray(codes), dtype=torch.float32, device=device)
            with torch.no_grad():
                return module.generative(**{**settings, "z": module.z_encoder.z_transformation(z)})["px"]

        def nats(counts: Any, likelihood: Any) -> Any:
            with torch.no_grad():
                log_likelihood = likelihood.log_prob(torch.as_tensor(counts, device=device))
            return -log_likelihood.sum(-1).double().cpu().numpy()

        mean, scale = (part.cpu().numpy() for part in (posterior.loc, posterior.scale))
        seen = Remembered(tensors["X"].cpu().numpy(), mean, np.square(scale), 0.0, 1.0)
        yield seen, Decoder(decode, nats, lambda likelihood: likelihood.mean.cpu().numpy(), things=(module,))


def expression_of(model: Any, adata: Any, cell: int, codes: Any) -> Any:
    """Return the decoded expression of codes (n, d), in counts of each gene per 10,000, (n, genes).

    The batch and all other inputs of the decoder are those of one cell.

    Args:
        model: The trained model.
        adata: The cells; default: those it was trained on.
        cell: The number of the cell.
        codes: The codes, one per row.

    Returns:
        The expression.
    """
    with untouched(model.module):
        rows = np.repeat(cell, len(codes))
        ((_, decoder),) = cells_of(model, adata, rows=rows, batch_size=len(rows))
        return _counts(decoder.decode(codes))


def cut_scvi(model: Any, keep: Iterable[int], constants: ArrayLike | None = None) -> Any:
    """Return a model of the same class, for the same cells, with fewer latent dimensions.

    Args:
        model: The trained model.
        keep: The dimensions to keep, in their new order.
        constants: The value of each dimension if it is dropped, (d,); default: 0.

    Returns:
        The smaller model. For SCANVI, latent space, decoder and classifier are those of the larger model; the second
        latent variable, which is used only in training, is cut to the same number of dimensions.

    Raises:
        ConfigError: If it cannot be cut; the message gives the reason.
    """
    import torch

    from polarised.models.slicing import checked_keep

    name, module = type(model).__name__, model.module
    size = getattr(module, "n_latent", None)
    if size is None or "n_latent" not in getattr(model, "init_params_", {}).get("non_kwargs", {}):
        raise ConfigError(
            f"expected a model of scvi-tools with n_latent, such as SCVI, SCANVI or LinearSCVI, got {name}"
        )
    if getattr(module, "latent_distribution", "normal") != "normal":
        raise ConfigError(
            f"expected latent dimensions without a constraint, but {name} was made with latent_distribution="
            f"{module.latent_distribution!r}, where they sum to one, so it cannot be cut"
        )
    chosen = checked_keep(keep, size)
    smaller = _of_size(model, len(chosen))
    # Weights that depend on the number of dimensions are found by changing that number.
    other = (smaller if len(chosen) != size else _of_size(model, size + 1)).module.state_dict()
    held = torch.as_tensor(np.zeros(size) if constants is None else np.array(constants), dtype=torch.float64)
    held[chosen] = 0
    new = {key: value.detach().cpu().clone() for key, value in module.state_dict().items()}
    if new.keys() != other.keys():
        raise ConfigError(
            f"expected the layers of {name} to be determined by its settings, but it has others, so it cannot be cut"
        )
    for key, value in list(new.items()):
        known = [axis for axis in range(value.ndim) if value.shape[axis] != other[key].shape[axis]]
        if 1 in known:
            if not key.startswith("decoder_z1_z2"):
                _add_to_bias(new, key, value[:, :size].double() @ held)
            new[key] = torch.cat([value[:, chosen], value[:, size:]], dim=1)
        if 0 in known:
            new[key] = new[key][chosen]
    smaller.module.load_state_dict(new)
    smaller.to_device(next(module.parameters()).device)
    smaller.module.train(module.training)
    return smaller


def _of_size(model: Any, size: int) -> Any:
    """Return an untrained model with the same settings and cells, but another number of dimensions."""
    given = copy.deepcopy(model.init_params_)
    settings = {
        **given["non_kwargs"],
        **{key: value for part in given["kwargs"].values() for key, value in part.items()},
    }
    settings.pop("unlabeled_category", None)
    with _quiet(), untouched():
        made = type(model)(model.adata, **{**settings, "n_latent": size})
    for key, value in model._get_user_attributes():
        if key.endswith("_") and key not in ("init_params_", "registry_"):
            setattr(made, key, copy.copy(value))
    return made


def _add_to_bias(weights: "dict[str, Tensor]", key: str, added: "Tensor") -> None:
    """Add the contribution of dropped dimensions at their constants to a layer or the batch normalisation after it."""
    from polarised.models.slicing import UnfitConstantsError

    if not added.any():
        return
    bias, normal = f"{key.removesuffix('weight')}bias", f"{key.removesuffix('0.weight')}1.running_mean"
    if bias in weights:
        weights[bias] = (weights[bias].double() + added).to(weights[bias])
    elif normal in weights:
        weights[normal] = (weights[normal].double() - added).to(weights[normal])
    else:
        raise UnfitConstantsError(
            f"expected constants of 0, but {key} has no bias for other values; keep these dimensions"
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Prevent scvi-tools from printing to standard output, which may have to be valid JSON."""
    logger = logging.getLogger("scvi")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def load_scvi(folder: Path, data: Any = None) -> tuple[Any, Any]:
    """Load the model that scvi-tools saved in a folder, and its cells.

    The file is a pickle, and the library would run any code in it. It is read here by an unpickler that accepts only
    the names of arrays and tables, and the library receives the result.

    Args:
        folder: The folder.
        data: The cells, or an .h5ad with them; default: those saved with the model.

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
        raise DataError(f"expected a model of scvi-tools in {folder}, but it names {kind or 'none'}, which is unknown")
    cells = anndata.read_h5ad(place) if isinstance(place, str | Path) else place
    try:
        with tempfile.TemporaryDirectory() as desk, _quiet():
            torch.save(saved, Path(desk) / "model.pt")
            return getattr(models, kind).load(desk, adata=cells), cells
    except DataError:
        raise
    except Exception as error:
        raise DataError(
            f"expected a model of scvi-tools that matches its cells in {folder}, but it cannot be loaded: {error}"
        ) from error


# The Python implementation, because in the C implementation seven bytes can allocate a table of 64 GiB.
class _Reader(pickle._Unpickler):
    """Unpickle a file that uses only harmless names; any other name is refused."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the object with this name, if it is allowed."""
        if name not in HARMLESS.get(module, ()):
            raise DataError(f"it names {module}.{name}; refused")
        return super().find_class(module, name)


class _RestrictedPickle:
    """The module that torch uses instead of pickle."""

    Unpickler = _Reader

    @staticmethod
    def load(file: Any, **options: Any) -> Any:
        return _Reader(file, **options).load()


def _read_saved(path: Path) -> dict[str, Any]:
    """Return the content of a file saved by torch, if it consists of arrays, tables and plain containers."""
    import torch

    check_room(path)
    with path.open("rb") as file:
        try:
            refuse_bombs(file, path)
            file.seek(0)
            if file.read(4) != b"PK\x03\x04":
                raise ValueError("its format is too old")
            file.seek(0)
            saved = torch.load(file, map_location="cpu", pickle_module=_RestrictedPickle, weights_only=False)
        except Exception as error:
            raise DataError(f"expected arrays and tables in {path}, but could not read it: {error}") from error
    if not isinstance(saved, dict):
        raise DataError(f"expected a model of scvi-tools in {path}, got {type(saved).__name__}")
    return saved


def names_in_pickle(path: Path) -> set[tuple[str, str]]:
    """Return the names that a file saved by torch would import, without importing any."""
    return _collect_names(path).names


class _Anything:
    """A placeholder for any name in a pickle, which accepts all calls and does nothing."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.held: dict[Any, Any] = {}

    def __call__(self, *_: Any, **__: Any) -> "_Anything":
        return _Anything()

    def __setstate__(self, _: Any) -> None: ...

    def __setitem__(self, key: Any, value: Any) -> None: ...

    def append(self, _: Any) -> None:
        """Ignore an item."""

    def extend(self, _: Any) -> None:
        """Take items."""

    def __hash__(self) -> int:
        return id(self)


class _NameCollector(pickle._Unpickler):
    """Unpickle a file with every name replaced by `_Anything`, and collect the names."""

    def __init__(self, file: Any) -> None:
        super().__init__(file)
        self.names: set[tuple[str, str]] = set()
        self.found: Any = None

    def find_class(self, module: str, name: str) -> Any:
        self.names.add((module, name))
        return _Anything

    def persistent_load(self, _: Any) -> Any:
        return _Anything()


def _collect_names(path: Path) -> _NameCollector:
    try:
        with path.open("rb") as packed, zipfile.ZipFile(packed) as archive:
            refuse_bombs(packed, path)
            member = next(i for i in archive.infolist() if i.filename.endswith("data.pkl"))
            if member.file_size > LARGEST_DESCRIPTION:
                raise DataError(f"expected a description of at most {LARGEST_DESCRIPTION >> 20} MiB in {path}")
            with archive.open(member) as file:
                looker = _NameCollector(file)
                looker.found = looker.load()
    except DataError:
        raise
    except Exception as error:
        raise DataError(f"expected a file saved by torch, but could not read {path}: {error}") from error
    return looker


def keys_of_pickle(path: Path) -> set[str]:
    """Return the keys of the dictionary that torch saved in a file, without running code in it; empty on failure."""
    try:
        found = _collect_names(path).found
    except DataError:
        return set()
    return {key for key in found if isinstance(key, str)} if isinstance(found, dict) else set()


def _model_name(saved: dict[str, Any]) -> str:
    """Return the name of the model in what scvi-tools saved: ``attr_dict["registry_"]["model_name"]``."""
    attributes = saved.get("attr_dict")
    registry = attributes.get("registry_") if isinstance(attributes, dict) else None
    name = registry.get("model_name") if isinstance(registry, dict) else None
    return name if isinstance(name, str) else ""
