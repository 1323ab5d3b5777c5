"""Published models → our VAE or Encodings: disentangling-vae, and disentanglement_lib without TensorFlow.

Their weights are loaded into one of our networks, layer by layer, so that they are used like our own models.
Files of weights are read without running any code in them.
"""

import ast
import io
import json
import pickletools
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polarised._io.files import Folder, replacing
from polarised._io.limits import check_room
from polarised.adapters._tensor_bundle import read_tensor_bundle
from polarised.data import Dataset
from polarised.errors import DataError, MissingFileError
from polarised.regime import Encodings

if TYPE_CHECKING:
    from torch import Tensor

    from polarised.models import VAE

__all__ = [
    "config_at",
    "dataset_named",
    "from_disentanglement_lib",
    "from_disentangling_vae",
    "literal",
    "load_disentanglement_lib",
    "load_disentangling_vae",
    "network_with",
    "read_config",
    "read_state",
    "refuse_bombs",
    "state_in",
    "weights_in",
    "write_state",
]

MOST_CHANNELS, MOST_LATENTS = 64, 4096
LARGEST_CONFIG, LONGEST_LITERAL = 1 << 20, 10_000
# Before 2020, torch wrote this many pickles one after the other, followed by the numbers.
PICKLES_OF_OLD = 5
# disentangling-vae: layers that end in _64 exist for images of 64 pixels; for 32 there is one halving less.
_BURGESS_ENCODER = tuple(
    f"encoder.{x}" for x in ("conv1", "conv2", "conv3", "conv_64", "lin1", "lin2", "mean", "log_variance")
)
_BURGESS_DECODER = tuple(f"decoder.{x}" for x in ("lin1", "lin2", "lin3", "convT_64", "convT1", "convT2", "convT3"))
INDEX = "tfhub/variables/variables.index"
_LOCATELLO_ENCODER = tuple(f"encoder/{x}" for x in ("e1", "e2", "e3", "e4", "e5", "means", "log_var"))
_LOCATELLO_DECODER = tuple(
    f"decoder/{x}" for x in ("dense", "dense_1", *(f"conv2d_transpose{i}" for i in ("", "_1", "_2", "_3")))
)


def from_disentangling_vae(
    path: str | Path, data: Dataset | ArrayLike, *, examples: int = 10_000, seed: int = 0
) -> Encodings:
    """Encode images with a model of disentangling-vae [Burgess2018].

    Args:
        path: The folder, or its zip.
        data: A dataset or images to encode.
        examples: The largest number of images to sample from a dataset.
        seed: Seed of the sample.

    Returns:
        The encodings.

    >>> from polarised.data import dsprites
    >>> from_disentangling_vae("results/betaH_dsprites", dsprites())  # doctest: +SKIP
    Encodings(10,000 inputs × 10 variables, N(0, I), factors shape, scale, orientation, posX, posY)
    """
    from polarised.models.encoding import from_vae

    return from_vae(load_disentangling_vae(path), data, examples=examples, seed=seed)


def load_disentangling_vae(path: str | Path) -> "VAE":
    """Load a model of disentangling-vae as our VAE with `burgess_conv`, including the decoder [Burgess2018].

    Args:
        path: The folder with `model.pt` and `specs.json`.

    Returns:
        The model with the published weights.

    >>> load_disentangling_vae("results/betaH_dsprites").latents  # doctest: +SKIP
    10
    """
    folder = Folder(Path(path))
    file = folder.expect("model.pt")
    state = state_in(io.BytesIO(folder.read(file)), folder.path / file)
    weights = separate_heads(state, "encoder.mu_logvar_gen", *_BURGESS_ENCODER[-2:])
    side = 64 if "encoder.conv_64.weight" in weights else 32
    encoder, decoder = (
        [x for x in half if side == 64 or not x.endswith("_64")] for half in (_BURGESS_ENCODER, _BURGESS_DECODER)
    )
    return network_with(weights, "burgess_conv", encoder=encoder, decoder=decoder, side=side, where=folder.path / file)


def from_disentanglement_lib(
    path: str | Path, data: Dataset | ArrayLike, *, examples: int = 10_000, seed: int = 0
) -> Encodings:
    """Encode images with a published model of disentanglement_lib [Locatello2019].

    Args:
        path: The folder, or its zip.
        data: A dataset or images to encode.
        examples: The largest number of images to sample from a dataset.
        seed: Seed of the sample.

    Returns:
        The encodings.

    >>> from polarised.data import dsprites
    >>> from_disentanglement_lib("250.zip", dsprites())  # doctest: +SKIP
    Encodings(10,000 inputs × 10 variables, N(0, I), factors shape, scale, orientation, posX, posY)
    """
    from polarised.models.encoding import from_vae

    return from_vae(load_disentanglement_lib(path), data, examples=examples, seed=seed)


def load_disentanglement_lib(path: str | Path) -> "VAE":
    """Load a published model as our VAE with `locatello_conv`, including the decoder [Locatello2019, table 1].

    Args:
        path: The folder, or its zip.

    Returns:
        The model with the published weights.

    >>> load_disentanglement_lib("250.zip").latents  # doctest: +SKIP
    10
    """
    folder = Folder(Path(path))
    # A run, its model folder, or the exported network in it.
    home = folder.expect(f"model/{INDEX}", INDEX, INDEX.removeprefix("tfhub/")).removesuffix("variables.index")
    variables = read_tensor_bundle(lambda name: folder.read(home + name))
    layers = {name.removeprefix("module/"): values for name, values in variables.items()}
    weights = as_torch(layers, image=(4, 4, 64), reading="encoder/e5", drawing="decoder/dense_1")
    return network_with(
        weights, "locatello_conv", encoder=_LOCATELLO_ENCODER, decoder=_LOCATELLO_DECODER, side=64, where=folder.path
    )


def as_torch(
    variables: Mapping[str, NDArray[Any]], *, image: tuple[int, int, int], reading: str, drawing: str
) -> "dict[str, Tensor]":
    """Convert ``layer/kernel`` and ``layer/bias`` of TensorFlow to ``layer.weight`` and ``layer.bias`` of torch.

    Convolutions (height, width, in, out) become (out, in, height, width), dense layers (in, out) become (out, in). The
    layer `reading` takes a flattened `image` (height, width, channels), the layer `drawing` returns one.

    >>> kernel = np.arange(12.0).reshape(4, 3)
    >>> as_torch({"a/kernel": kernel}, image=(2, 1, 2), reading="a", drawing="b")["a.weight"][0]
    tensor([0., 6., 3., 9.])
    """
    import torch

    channels_first = np.arange(np.prod(image)).reshape(image).transpose(2, 0, 1).ravel()
    found = {}
    for name, values in variables.items():
        layer, _, kind = name.rpartition("/")
        weight = values.transpose(3, 2, 0, 1) if values.ndim == 4 else values.T
        # Arrays of another size than the image are not changed; shapes are compared when a network is filled.
        if layer == reading and kind == "kernel" and weight.shape[-1:] == channels_first.shape:
            weight = weight[..., channels_first]
        if layer == drawing and weight.shape[:1] == channels_first.shape:
            weight = weight[channels_first]
        found[f"{layer}.{'weight' if kind == 'kernel' else kind}"] = torch.from_numpy(
            np.array(weight, dtype=np.float32, order="C")
        )
    return found


def network_with(
    weights: "Mapping[str, Tensor]",
    architecture: str,
    *,
    encoder: Sequence[str],
    decoder: Sequence[str],
    side: int,
    where: Path,
) -> "VAE":
    """Build an architecture for square images, and load the named layers into its own, in the order of use.

    The last two layers of the encoder are the heads of mean and log-variance; they give the number of latent variables.

    >>> network_with({}, "mlp", encoder=["e", "m", "v"], decoder=["d"], side=64, where=Path("a"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    polarised.errors.DataError: expected the networks of mlp in a, but e and 3 more are missing; ...
    """
    from torch import nn

    from polarised.models import build_vae

    names = [*encoder, *decoder]
    missing = [name for name in names if f"{name}.weight" not in weights or f"{name}.bias" not in weights]
    if missing:
        others = f" and {len(missing) - 1} more are" if len(missing) > 1 else " is"
        raise DataError(
            f"expected the networks of {architecture} in {where}, but {missing[0]}{others} missing; other networks are "
            "not supported, encode with from_callable instead"
        )
    first, latents = weights[f"{encoder[0]}.weight"], weights[f"{encoder[-2]}.bias"].numel()
    channels = first.shape[1] if first.ndim == 4 else 0
    # The sizes come from the file: a network is built only if they are plausible.
    if not (1 <= channels <= MOST_CHANNELS and 1 <= latents <= MOST_LATENTS):
        raise DataError(
            f"expected 1 to {MOST_CHANNELS} channels and 1 to {MOST_LATENTS} latent variables, but {where} has "
            f"{channels} and {latents}; check that it is the right network"
        )
    vae = build_vae({"architecture": architecture, "latents": latents}, (channels, side, side))
    halves = [*vae.encoder.modules(), *vae.decoder.modules()]
    layers = [module for module in halves if isinstance(module, nn.Linear | nn.Conv2d | nn.ConvTranspose2d)]
    for name, layer in zip(names, layers, strict=True):
        for kind, parameter in layer.named_parameters():
            _fill(parameter, weights[f"{name}.{kind}"], f"{name}.{kind} of {where}")
    return vae.eval()


def separate_heads(weights: "Mapping[str, Tensor]", head: str, mean: str, log_variance: str) -> "dict[str, Tensor]":
    """Split an interleaved head in two: output 2k is the mean of variable k, output 2k + 1 its log-variance.

    >>> import torch
    >>> separate_heads({"head.bias": torch.arange(4)}, "head", "m", "v")["v.bias"]
    tensor([1, 3])
    """
    separate = dict(weights)
    for kind in ("weight", "bias"):
        both = weights.get(f"{head}.{kind}")
        if both is not None and both.ndim:
            separate |= {f"{mean}.{kind}": both[0::2], f"{log_variance}.{kind}": both[1::2]}
    return separate


def _fill(parameter: "Tensor", value: "Tensor", name: str) -> None:
    import torch

    if value.shape != parameter.shape or not value.is_floating_point():
        came = f"{tuple(value.shape)} of {value.dtype}"
        raise DataError(f"expected numbers of shape {tuple(parameter.shape)} as {name}, but the file has {came}")
    if not value.isfinite().all():
        raise DataError(f"expected finite numbers as {name}, got NaN or infinity; check whether training diverged")
    with torch.no_grad():
        parameter.copy_(value)


def config_at(path: Path) -> dict[str, Any]:
    """Return the mapping in a small JSON file; empty if it is missing, too large or not a mapping."""
    if not path.is_file() or path.stat().st_size > LARGEST_CONFIG:
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def read_config(folder: Folder, ends: Sequence[str]) -> dict[str, Any]:
    """Return the configuration in the first file with this ending."""
    name = folder.expect(*ends)
    content = folder.read(name, largest=LARGEST_CONFIG)
    try:
        config = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"expected JSON in {name} of {folder.path}, got {error}; get the file again") from error
    if not isinstance(config, dict):
        raise DataError(f"expected names and values in {name} of {folder.path}, got {type(config).__name__}")
    return config


def dataset_named(folder: Folder, ends: Sequence[str], key: str) -> str | None:
    """Return the dataset a model was trained on, if its configuration names it."""
    try:
        value = literal(read_config(folder, ends).get(key))
    except DataError:
        return None
    return value if isinstance(value, str) else None


def literal(value: Any) -> Any:
    """Return the value of a gin literal; anything else is returned unchanged.

    >>> literal("'dsprites_full'"), literal("8.0"), literal("@vae()")
    ('dsprites_full', 8.0, '@vae()')
    """
    if not isinstance(value, str) or len(value) > LONGEST_LITERAL:
        return value
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return value


def read_state(path: str | Path) -> "dict[str, Tensor]":
    """Read a state dict from .safetensors, .pt or .pth; a file that contains code is refused."""
    path = Path(path)
    if path.suffix != ".safetensors":
        if not path.is_file():
            raise MissingFileError(f"expected a file of weights, but {path} is not a file; check the path")
        check_room(path)
        with path.open("rb") as file:
            return state_in(file, path)
    from safetensors.torch import load_file

    check_room(path)
    try:
        return load_file(path)
    except Exception as error:
        raise _refusal(path, error) from error


def weights_in(path: Path, key: str) -> "dict[str, Tensor]":
    """Return the state dict under a key of a .pt file; a file that contains code is refused."""
    check_room(path)
    with path.open("rb") as file:
        return state_in(file, path, key=key)


def state_in(file: IO[bytes], where: Path, *, key: str = "state_dict") -> "dict[str, Tensor]":
    """Return the state dict in an open .pt file, alone or under a key.

    >>> import torch
    >>> file = io.BytesIO()
    >>> torch.save({"mu.bias": torch.zeros(3)}, file)
    >>> list(state_in(file, Path("model.pt")))
    ['mu.bias']
    """
    import torch

    weights: Any
    try:
        size = refuse_bombs(file, where)
        _refuse_sizes(file, where)
        file.seek(0)
        weights = torch.load(file, weights_only=True, map_location="cpu")
    except DataError:
        raise
    except Exception as error:
        raise _refusal(where, error) from error
    weights = weights.get(key, weights) if isinstance(weights, dict) else weights
    if not isinstance(weights, dict) or not all(isinstance(value, torch.Tensor) for value in weights.values()):
        raise DataError(f"expected a state dict of tensors in {where}, got {type(weights).__name__}; save state_dict()")
    for name, value in weights.items():
        # A tensor may claim any size for one stored number (stride 0), or have no numbers at all (sparse, meta).
        dense = value.layout == torch.strided and value.device.type == "cpu"
        if value.is_quantized or value.is_nested:
            raise DataError(
                f"expected plain numbers as {name} in {where}, but they are quantised or nested; convert them"
            )
        if not dense or value.numel() * value.element_size() > value.untyped_storage().nbytes():
            raise DataError(
                f"expected every number of {name} in {where}, but the shape {tuple(value.shape)} has more than are "
                "stored"
            )
    stored = {value.untyped_storage().data_ptr(): value.untyped_storage().nbytes() for value in weights.values()}
    if sum(stored.values()) > size:
        raise DataError(
            f"expected at most the {size} bytes of {where} as weights, but it asks for {sum(stored.values())}"
        )
    return {str(name): value for name, value in weights.items()}


def write_state(weights: "Mapping[str, Tensor]", path: str | Path) -> Path:
    """Write a state dict as safetensors."""
    from safetensors.torch import save_file

    path = Path(path)
    with replacing(path) as temporary:
        save_file({name: value.contiguous() for name, value in weights.items()}, temporary)
    return path


def refuse_bombs(file: IO[bytes], where: Path) -> int:
    """Return the size of a file after checking that it does not unpack to more: torch stores weights uncompressed."""
    size = file.seek(0, io.SEEK_END)
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
        if unpacked > size:
            raise DataError(f"expected at most the {size} bytes of {where}, but it would unpack to {unpacked}; refused")
    return size


def _refuse_sizes(file: IO[bytes], where: Path) -> None:
    """Refuse a pickle that names arrays of bytes, which torch would make as long as the pickle says."""
    packed = zipfile.is_zipfile(file)
    file.seek(0)
    with ExitStack() as stack:
        streams: list[IO[bytes]] = [file] * PICKLES_OF_OLD
        if packed:
            archive = stack.enter_context(zipfile.ZipFile(file))
            members = [member for member in archive.infolist() if member.filename.endswith(".pkl")]
            streams = [stack.enter_context(archive.open(member)) for member in members]
        for stream in streams:
            named = {str(value) for code, value, _ in pickletools.genops(stream) if code.name == "GLOBAL"}
            if "builtins bytearray" in named or "__builtin__ bytearray" in named:
                raise DataError(f"expected tensors in {where}, but it names bytearray; save state_dict() alone")


def _refusal(where: Path, error: Exception) -> DataError:
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    # The message of torch recommends to disable weights_only, which would run any code in the file.
    if "weights_only" in str(error):
        objects = "Unsupported" in str(error)
        reason = "it contains objects that would run code; save only state_dict()" if objects else "it is damaged"
    return DataError(f"expected plain weights in {where}, but refused to read it: {reason}")
