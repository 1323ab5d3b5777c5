"""A model object of any library → what is known of it: how to encode, which axis is the variable, how to decode."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from polarised.adapters.callables import Model, tensors_for
from polarised.errors import DataError
from polarised.registry import records, register

__all__ = ["libraries_of", "model_of", "model_of_function", "model_of_keras", "model_of_network"]

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


@register("adapter", name="torch", summary="a network of torch or Lightning", libraries=("torch",))
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


@register("adapter", name="keras", title="Keras", summary="a model of Keras", libraries=("keras",))
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


@register("adapter", name="function", summary="any function or object that encodes a batch")
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
