"""A model object of any library → how it encodes and decodes, and which axis is the latent variable.

A model is never changed: weights, buffers, mode, device and random state are restored (`untouched`).
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
# The arguments that switch flax layers to evaluation.
FLAGS = ("deterministic", "use_running_average")


@dataclass(frozen=True)
class Model:
    """What is known about a user's model: how it encodes, and what its library defines about the latents.

    Args:
        encoders: Functions that may encode a batch, the most likely first.
        things: The objects that must not be changed.
        name: A short name for titles.
        scale_kind: The meaning of the second output, if the library defines it.
        axis: The axis of the latent variables, if the library defines it.
        prior: Mean and variance of the prior, if it is not N(0, I).
        convert: Converts a batch to the type and device of the encoder.
        decode: Codes of the encoder's shape → the output of the decoder.
        pixel_range: The pixel range on which models of this library are trained.
        image_size: The side length of the images it takes, if known.
        remarks: Returns sentences to add to the advice, given the types.
        kind: The library of the model.
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
    """Return what is known about a model object, or of a function that encodes.

    Args:
        target: A network of torch, Lightning, pythae, diffusers (or a pipeline), Keras or Flax, a bound method, or any
            function that takes a batch.
        encode: A function that encodes a batch, instead of the target's own encoder.
        decode: A function that decodes codes, instead of the target's own decoder.

    Returns:
        How to encode with it, and what its library defines about the latents.

    Raises:
        DataError: If the target cannot encode.

    >>> model_of(lambda x: (x, x)).kind
    'function'
    """
    if isinstance(target, type):
        raise DataError(
            f"expected a model, got the class {target.__name__}; create the model and load its weights first"
        )
    if (adapter := _adapter_for(target)) is not None:
        found = adapter(target)
    elif callable(target) or any(callable(getattr(target, name, None)) for name in ENCODE):
        found = model_of_function(target)
    else:
        raise DataError(
            f"expected encodings, a path, a mapping of arrays, a model or a function that encodes, got "
            f"{type(target).__name__}; for arrays use polarised.Encodings(mean, variance=...)"
        )
    if encode is not None:
        found = replace(found, encoders=(encode,), things=(*found.things, encode), scale_kind=None)
    if decode is not None:
        found = replace(found, decode=decode, things=(*found.things, decode))
    return found


def libraries_of(target: Any) -> set[str]:
    """Return the packages in which the classes of an object are defined.

    >>> "collections" in libraries_of(__import__("collections").Counter())
    True
    """
    return {each.__module__.split(".")[0] for each in type(target).__mro__}


def _adapter_for(target: Any) -> Callable[[Any], Model] | None:
    """Return the adapter for the classes of an object; adapters of other packages take precedence."""
    libraries = libraries_of(target)
    known = sorted(records("adapter"), key=lambda each: each.call.__module__.startswith("polarised."))
    return next((each.call for each in known if libraries.intersection(each.facts.get("libraries", ()))), None)


@register("adapter", name="torch", summary="a PyTorch or Lightning module", libraries=("torch",))
def model_of_network(network: Any) -> Model:
    """Return what is known about a torch network: its `encode`, its `encoder`, or itself.

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
    """Return whether latents with positions come from convolutions, whose channels are axis 1 in torch."""
    modules = encoder.modules() if hasattr(encoder, "modules") else network.modules()
    kinds = [type(module).__name__ for module in modules]
    recurrent = {"LSTM", "GRU", "RNN", "MultiheadAttention", "TransformerEncoder", "Embedding"}
    return any(kind in ("Conv2d", "Conv3d") for kind in kinds) and not recurrent.intersection(kinds)


@register("adapter", name="keras", title="Keras", summary="a Keras model", libraries=("keras",))
def model_of_keras(model: Any) -> Model:
    """Return what is known about a Keras model: its `encode`, its `encoder`, or itself.

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
    """Return what is known about a function, or of an object with `encode` or `encoder`.

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
    """Return a function that moves arrays to the device of a network and casts floats to the type of its weights."""
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
    """Return the networks that a function, a bound method or an object uses, as far as they can be found.

    The search covers the object itself, the owner of a method, arguments of a partial function, variables a function
    closes over or names among its globals, and the attributes of plain objects; nothing is called.
    """
    found: list[Any] = []
    _search(thing, found, set(), depth=3)
    return found


@contextmanager
def untouched(*things: Any, seed: int = 0) -> Iterator[None]:
    """Put the networks used by some objects into evaluation mode for the block, then restore everything.

    Inside, the generators of torch, NumPy and Python start from `seed`; afterwards their state is restored.
    """
    models = [model for thing in things for model in models_behind(thing)]
    with ExitStack() as stack:
        stack.enter_context(_random_state(seed))
        for model in models:
            stack.enter_context(_KEEPERS[_library(model)](model))
        yield


def _library(thing: Any) -> str:
    """Return the library of a network: torch, flax, keras, or an empty string."""
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
        raise DataError(
            f"expected a network with its weights, but those of {type(network).__name__} are not loaded yet"
        )
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
