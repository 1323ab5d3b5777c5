"""A model object of any library → what is known of it: how to encode, which axis is the variable, how to decode.

Whoever's it is, it is looked at and left as it was: weights, buffers, mode, device and random state (`untouched`).
"""

import functools
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from polarised.adapters.arrays import ScaleKind
from polarised.adapters.batches import Range
from polarised.errors import DataError
from polarised.regime import Regime
from polarised.regime.encodings import Axis, as_array
from polarised.registry import records, register

__all__ = [
    "Model",
    "libraries_of",
    "model_of",
    "model_of_function",
    "model_of_keras",
    "model_of_network",
    "models_behind",
    "tensors_for",
    "untouched",
]

Encode = Callable[[Any], Any]

ENCODE, DECODE = ("encode", "encoder"), ("decode", "decoder")
# What switches layers of flax to evaluation.
FLAGS = ("deterministic", "use_running_average")


@dataclass(frozen=True)
class Model:
    """What is known of somebody's model: how it encodes, and what its library tells about the latents.

    Args:
        encoders: Ways to encode a batch, the likeliest first.
        things: The objects that must be left as they were.
        name: A short name for titles.
        scale_kind: What the second output is, where the library tells.
        axis: Which axis of the latents is the variable, where the library tells.
        prior: Mean and variance of the prior, where it is not N(0, I).
        convert: Brings a batch to the form and device the encoder takes.
        decode: Codes of the encoder's shape → what the decoder makes of them.
        pixel_range: The range of pixels that models of this library are trained on.
        image_size: The side of the pictures it takes, where it is known.
        remarks: Makes sentences to add to the advice, of the types found.
        kind: Whose model it is.
    """

    encoders: tuple[Encode, ...]
    things: tuple[Any, ...] = ()
    name: str = "model"
    scale_kind: ScaleKind | None = None
    axis: Axis = None
    prior: Any = None
    convert: Callable[[Any], Any] | None = None
    decode: Callable[[Any], Any] | None = None
    pixel_range: Range | None = None
    image_size: int | None = None
    remarks: Callable[[Regime], tuple[str, ...]] | None = None
    kind: str = "function"


def model_of(
    target: Any, *, encode: Callable[..., Any] | None = None, decode: Callable[..., Any] | None = None
) -> Model:
    """Return what is known of a model object, or of a function that encodes.

    Args:
        target: A network of torch, Lightning, pythae, diffusers (or a pipeline), Keras or Flax, a bound method, or any
            function that takes a batch.
        encode: How to encode a batch, where that is not the target's own encoder.
        decode: How to decode codes, where that is not the target's own decoder.

    Returns:
        How to encode with it, and what its library tells about the latents.

    Raises:
        DataError: If the target is nothing that encodes.

    >>> model_of(lambda x: (x, x)).kind
    'function'
    """
    if (adapter := _adapter_for(target)) is not None:
        found = adapter(target)
    elif callable(target) or any(callable(getattr(target, name, None)) for name in ENCODE):
        found = model_of_function(target)
    else:
        raise DataError(
            f"expected encodings, a path, a mapping of arrays, a model or a function that encodes, got "
            f"{type(target).__name__}; polarised.Encodings(mean, variance=...) takes arrays"
        )
    if encode is not None:
        found = replace(found, encoders=(encode,), things=(*found.things, encode), scale_kind=None)
    if decode is not None:
        found = replace(found, decode=decode, things=(*found.things, decode))
    return found


def libraries_of(target: Any) -> set[str]:
    """Return the packages that the classes of an object come from.

    >>> "collections" in libraries_of(__import__("collections").Counter())
    True
    """
    return {each.__module__.split(".")[0] for each in type(target).__mro__}


def _adapter_for(target: Any) -> Callable[[Any], Model] | None:
    """Return the adapter that knows the classes of an object; those of other packages are asked first."""
    libraries = libraries_of(target)
    known = sorted(records("adapter"), key=lambda each: each.call.__module__.startswith("polarised."))
    return next((each.call for each in known if libraries.intersection(each.facts.get("libraries", ()))), None)


@register("adapter", name="torch", summary="a PyTorch or Lightning module", libraries=("torch",))
def model_of_network(network: Any) -> Model:
    """Return what can be seen of a torch network: its `encode`, its `encoder`, or itself.

    Args:
        network: The network.

    Returns:
        How to encode with it.
    """
    owner = network
    if not any(callable(getattr(network, name, None)) for name in ENCODE):
        inside = [child for child in network.children() if any(callable(getattr(child, name, None)) for name in ENCODE)]
        owner = inside[0] if len(inside) == 1 else network
    encoders = [getattr(owner, name) for name in ENCODE if callable(getattr(owner, name, None))]
    decode = next((getattr(owner, name) for name in DECODE if callable(getattr(owner, name, None))), None)
    lightning = {"lightning", "pytorch_lightning"} & libraries_of(network)
    return Model(
        (*encoders, network),
        (network,),
        name=type(network).__name__,
        axis=1 if _convolutional(encoders[0] if encoders else network, network) else None,
        convert=tensors_for(network),
        decode=decode,
        kind="lightning" if lightning else "torch",
    )


def _convolutional(encoder: Any, network: Any) -> bool:
    """Whether the latents, if they have positions, come from convolutions, whose channels are axis 1 in torch."""
    modules = encoder.modules() if hasattr(encoder, "modules") else network.modules()
    kinds = [type(module).__name__ for module in modules]
    recurrent = {"LSTM", "GRU", "RNN", "MultiheadAttention", "TransformerEncoder", "Embedding"}
    return any(kind in ("Conv2d", "Conv3d") for kind in kinds) and not recurrent.intersection(kinds)


@register("adapter", name="keras", title="Keras", summary="a Keras model", libraries=("keras",))
def model_of_keras(model: Any) -> Model:
    """Return what can be seen of a Keras model: its `encode`, its `encoder`, or itself.

    Args:
        model: The model.

    Returns:
        How to encode with it.
    """
    owner = next((part for name in ENCODE if callable(part := getattr(model, name, None))), model)
    decode = next((part for name in DECODE if callable(part := getattr(model, name, None))), None)

    def encode(inputs: Any) -> Any:
        return owner(inputs, training=False) if "keras" in libraries_of(owner) else owner(inputs)

    encode.output_names = getattr(owner, "output_names", None)  # type: ignore[attr-defined]
    import keras

    axis = -1 if keras.config.image_data_format() == "channels_last" else 1
    return Model(
        (encode,),
        (model,),
        name=model.name,
        axis=axis if _keras_convolutional(owner) else None,
        decode=decode,
        kind="keras",
    )


def _keras_convolutional(owner: Any) -> bool:
    return any(type(layer).__name__.startswith("Conv2D") for layer in getattr(owner, "layers", []))


@register("adapter", name="function", summary="any function or object that encodes a batch (Flax and JAX included)")
def model_of_function(target: Any) -> Model:
    """Return what can be seen of a function, or of an object with `encode` or `encoder`.

    Args:
        target: The function or object.

    Returns:
        How to encode with it.
    """
    own = [part for name in ENCODE if callable(part := getattr(target, name, None))]
    encoders = [*own, target] if callable(target) and own else own or [target]
    decode = next((part for name in DECODE if callable(part := getattr(target, name, None))), None)
    name = getattr(target, "__name__", type(target).__name__)
    return Model(tuple(encoders), (target,), name="model" if name in ("<lambda>", "encode") else name, decode=decode)


def tensors_for(network: Any) -> Callable[[Any], Any]:
    """Return what brings arrays to the device of a network, and real numbers to the type of its weights."""
    import torch

    weights = next((p for p in network.parameters() if p.is_floating_point()), None)

    def convert(inputs: Any) -> Any:
        if isinstance(inputs, Mapping):
            return {name: convert(value) for name, value in inputs.items()}
        if isinstance(inputs, np.ndarray) or not hasattr(inputs, "detach"):
            inputs = torch.as_tensor(np.ascontiguousarray(as_array(inputs)))
        if weights is None:
            return inputs
        return inputs.to(weights.device, weights.dtype if inputs.is_floating_point() else None)

    return convert


def models_behind(thing: Any) -> list[Any]:
    """Return the networks that a function, a bound method or an object would use, as far as they can be seen.

    Looked at are the object itself, what a method is bound to, arguments of a partial function, variables a function
    closes over or names among its globals, and the attributes of plain objects; nothing is called.
    """
    found: list[Any] = []
    _search(thing, found, set(), depth=3)
    return found


@contextmanager
def untouched(*things: Any, seed: int = 0) -> Iterator[None]:
    """Put the networks behind some things into evaluation mode for a while, then everything back as it was.

    Inside, the random numbers of torch, NumPy and Python start from `seed`; afterwards they go on where they were.
    """
    models = [model for thing in things for model in models_behind(thing)]
    with ExitStack() as stack:
        stack.enter_context(_random_state(seed))
        for model in models:
            stack.enter_context(_KEEPERS[_library(model)](model))
        yield


def _library(thing: Any) -> str:
    """Return whose network a thing is: torch, flax, keras, or nobody's."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(thing, torch.nn.Module):
        return "torch"
    homes = {each.__module__.split(".")[0] + "." + each.__name__ for each in type(thing).__mro__}
    if "keras.Layer" in homes or "keras.Model" in homes:
        return "keras"
    nnx = sys.modules.get("flax.nnx")
    if nnx is not None and isinstance(thing, nnx.Module):
        return "flax"
    return ""


def _search(thing: Any, found: list[Any], seen: set[int], *, depth: int) -> None:
    if depth < 0 or id(thing) in seen or isinstance(thing, str | bytes | int | float | np.ndarray | type | None):
        return
    seen.add(id(thing))
    if _library(thing):
        found.append(thing)
        return
    inner: list[Any] = []
    if isinstance(thing, functools.partial):
        inner = [thing.func, *thing.args, *thing.keywords.values()]
    elif hasattr(thing, "__self__") and callable(thing):
        inner = [thing.__self__]
    elif hasattr(thing, "__code__"):
        inner = [cell.cell_contents for cell in thing.__closure__ or () if _filled(cell)]
        inner += [thing.__globals__[name] for name in thing.__code__.co_names if name in thing.__globals__]
        inner += [*(thing.__defaults__ or ()), getattr(thing, "__wrapped__", None)]
    elif isinstance(thing, list | tuple):
        inner = list(thing[:16])
    elif isinstance(thing, dict):
        inner = list(thing.values())[:64]
    elif not hasattr(thing, "__path__") and not hasattr(thing, "__spec__"):
        inner = list(getattr(thing, "__dict__", {}).values())[:64]
    for each in inner:
        _search(each, found, seen, depth=depth - 1)


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


@contextmanager
def _random_state(seed: int) -> Iterator[None]:
    ours, theirs = np.random.get_state(), random.getstate()  # noqa: NPY002
    torch = sys.modules.get("torch")
    drawn = torch.get_rng_state() if torch is not None else None
    cards = torch.cuda.get_rng_state_all() if torch is not None and torch.cuda.is_initialized() else []
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    if torch is not None:
        torch.manual_seed(seed)
    try:
        yield
    finally:
        np.random.set_state(ours)  # noqa: NPY002
        random.setstate(theirs)
        if torch is not None and drawn is not None:
            torch.set_rng_state(drawn)
            if cards:
                torch.cuda.set_rng_state_all(cards)


@contextmanager
def _keeping_torch(network: Any) -> Iterator[None]:
    import torch

    if any(parameter.is_meta for parameter in network.parameters()):
        raise DataError(f"expected a network with its weights, those of {type(network).__name__} were not loaded yet")
    modes = [(module, module.training) for module in network.modules()]
    tensors = [
        (
            held,
            name,
            tensor,
            tensor.device,
            None if tensor.is_inference() else tensor._version,
            tensor.detach().to("cpu", copy=True),
        )
        for module in network.modules()
        for held in (module._parameters, module._buffers)
        for name, tensor in held.items()
        if tensor is not None and not _is_lazy(tensor)
    ]
    network.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
        with torch.no_grad():
            for held, name, tensor, device, version, copy in tensors:
                held[name] = tensor
                if tensor.device != device or tensor.shape != copy.shape:
                    tensor.data = copy.to(device)
                elif version is None or tensor._version != version:
                    tensor.data.copy_(copy)


def _is_lazy(tensor: Any) -> bool:
    return type(tensor).__name__.startswith("Uninitialized")


@contextmanager
def _keeping_keras(model: Any) -> Iterator[None]:
    variables = list({id(v): v for v in [*model.variables, *getattr(model, "non_trainable_variables", [])]}.values())
    before = [np.array(variable) for variable in variables]
    try:
        yield
    finally:
        for variable, value in zip(variables, before, strict=True):
            if not np.array_equal(np.asarray(variable), value, equal_nan=value.dtype.kind == "f"):
                variable.assign(value)


@contextmanager
def _keeping_flax(model: Any) -> Iterator[None]:
    import jax
    from flax import nnx

    state = jax.tree.map(lambda value: value, nnx.state(model))
    flags = [
        (module, flag, getattr(module, flag))
        for _, module in nnx.iter_modules(model)
        for flag in FLAGS
        if getattr(module, flag, None) is not None
    ]
    for module, flag, _ in flags:
        setattr(module, flag, True)
    try:
        yield
    finally:
        for module, flag, value in flags:
            setattr(module, flag, value)
        nnx.update(model, state)


_KEEPERS: dict[str, Callable[[Any], Any]] = {
    "torch": _keeping_torch,
    "keras": _keeping_keras,
    "flax": _keeping_flax,
}
