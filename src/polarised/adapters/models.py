"""A model object of any library → what is known of it: how to encode, which axis is the variable, how to decode."""

import sys
from collections.abc import Callable
from typing import Any

from polarised.adapters.callables import Model, tensors_for
from polarised.errors import DataError

__all__ = ["libraries_of", "model_of"]

ENCODE, DECODE = ("encode", "encoder"), ("decode", "decoder")


def model_of(
    target: Any, *, encode: Callable[..., Any] | None = None, decode: Callable[..., Any] | None = None
) -> Model:
    """Return what is known of a model object, or of a function that encodes.

    Args:
        target: A network of torch, Lightning, pythae, diffusers (or a pipeline), Keras or Flax, a bound method, or any
            function that takes a batch.
        encode: How to encode a batch, where that is not the target's own encoder.
        decode: How to decode codes, where that is not the target's own decoder.

    Raises:
        DataError: If the target is nothing that encodes.

    >>> model_of(lambda x: (x, x)).kind
    'function'
    """
    from dataclasses import replace

    libraries = libraries_of(target)
    if "diffusers" in libraries:
        from polarised.adapters.diffusers import model_of_diffusers

        found = model_of_diffusers(target)
    elif "pythae" in libraries:
        from polarised.adapters.pythae import model_of_pythae

        found = model_of_pythae(target)
    elif _is_torch(target):
        found = _of_network(target)
    elif "keras" in libraries:
        found = _of_keras(target)
    elif callable(target) or any(callable(getattr(target, name, None)) for name in ENCODE):
        found = _of_callable(target)
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


def _is_torch(target: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(target, torch.nn.Module)


def _of_network(network: Any) -> Model:
    """Return what can be seen of a torch network: its `encode`, its `encoder`, or itself."""
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


def _of_keras(model: Any) -> Model:
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


def _of_callable(target: Any) -> Model:
    own = [part for name in ENCODE if callable(part := getattr(target, name, None))]
    encoders = [*own, target] if callable(target) and own else own or [target]
    decode = next((part for name in DECODE if callable(part := getattr(target, name, None))), None)
    name = getattr(target, "__name__", type(target).__name__)
    return Model(tuple(encoders), (target,), name="model" if name in ("<lambda>", "encode") else name, decode=decode)
