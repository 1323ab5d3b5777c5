"""A model of somebody else is looked at and left as it was: weights, buffers, mode, device and random state."""

import functools
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

__all__ = ["models_behind", "untouched"]

# What switches layers of flax to evaluation.
FLAGS = ("deterministic", "use_running_average")


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
