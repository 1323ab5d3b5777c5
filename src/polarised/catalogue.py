"""A name in a config becomes a callable of ours, or of yours as ``module:name``.

One law for every plug point: a catalogue entry is a callable whose positional arguments are supplied by the run
and whose keyword-only arguments are the settings a config may name. So ``{name: BetaVAE, beta: 4}`` is
``BetaVAE(beta=4)``. A page is a module whose ``__all__`` is its catalogue.
"""

import difflib
import functools
import importlib
import inspect
import os
import typing
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from polarised.errors import ConfigError, DataError

__all__ = ["build", "complete", "entry", "names", "nearest", "refuse_code", "settings"]

Spec = str | Mapping[str, Any]

# The code of others that this process was told to use, by a config or a call of its user.
_used: set[str] = set()


def names(page: str) -> tuple[str, ...]:
    """Return the names a page offers, in its own order.

    >>> "stream" in names("polarised.randomness")
    True
    """
    return tuple(importlib.import_module(page).__all__)


def entry(page: str, name: str) -> Callable[..., Any]:
    """Return the callable behind a name of a page, or behind ``module:name`` of a user's own module.

    >>> entry("polarised.randomness", "stream").__name__
    'stream'
    """
    if ":" in name:
        module, _, attribute = name.partition(":")
        try:
            found = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise ConfigError(
                f"expected an importable 'module:name', got {name!r}: {error}; "
                "check the spelling and that the module is on PYTHONPATH"
            ) from error
        _used.add(name)
        return typing.cast(Callable[..., Any], found)
    offered = names(page)
    if name not in offered:
        raise ConfigError(
            f"{_called(page)} has no {name!r}{nearest(name, offered)}; "
            f"it has {', '.join(offered)}, or give your own as 'module:name'"
        )
    return typing.cast(Callable[..., Any], getattr(importlib.import_module(page), name))


def settings(callable_: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the keyword-only parameters of a catalogue entry: what a config may set.

    >>> def example(shape, *, width=3): ...
    >>> list(settings(example))
    ['width']
    """
    parameters = inspect.signature(callable_).parameters.values()
    return {p.name: p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


def complete(page: str, spec: Spec) -> dict[str, Any]:
    """Return a spec with every default written out and every value checked, as plain JSON types.

    >>> complete("polarised.randomness", "stream")
    {'name': 'stream'}
    """
    name, values, _ = _read_checked(page, spec)
    return {"name": name, **{key: _plain(value) for key, value in values.items()}}


def build(page: str, spec: Spec, *supplied: Any) -> Any:
    """Call a catalogue entry with what the run supplies and what the spec sets.

    >>> build("polarised.randomness", "seed_for", 0, "noise") >= 0
    True
    """
    _, values, callable_ = _read_checked(page, spec)
    return callable_(*supplied, **values)


def refuse_code(config: Any, where: str | Path) -> None:
    """Refuse a config that lies beside somebody's model and names code as ``module:name``: reading it would run it.

    Let through is what this process uses already, and the packages in the environment variable POLARISED_TRUST.

    >>> refuse_code({"prior": {"name": "os:system"}}, "model.safetensors")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    polarised.errors.DataError: expected only names of polarised in model.safetensors, it names os:system, ...
    """
    trusted = {package.strip() for package in os.environ.get("POLARISED_TRUST", "").split(",")}
    seen: set[int] = set()
    waiting: list[tuple[Any, Any]] = [("", config)]
    while waiting:
        key, value = waiting.pop()
        # Any text with a colon may be read as module:name, but for that of a path.
        if isinstance(value, str) and ":" in value and key != "path" and value not in _used:
            package = value.partition(":")[0].partition(".")[0]
            if package not in trusted:
                raise DataError(
                    f"expected only names of polarised in {where}, it names {value}, which would be imported and run; "
                    f"if you trust that code, set POLARISED_TRUST={package}"
                )
        elif isinstance(value, Mapping | list | tuple) and id(value) not in seen:
            # YAML can name the same list a billion times in ten lines; each is looked at once.
            seen.add(id(value))
            waiting += value.items() if isinstance(value, Mapping) else ((key, each) for each in value)


def nearest(name: str, offered: Iterable[str]) -> str:
    """Return ``' (did you mean ...?)'`` for the closest of the offered names, or nothing.

    >>> nearest("betaa", ["beta", "gamma"])
    " (did you mean 'beta'?)"
    """
    lowered = {offer.lower(): offer for offer in offered}
    close = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.5)
    return f" (did you mean {lowered[close[0]]!r}?)" if close else ""


def _read_checked(page: str, spec: Spec) -> tuple[str, dict[str, Any], Callable[..., Any]]:
    name, given, callable_ = _read(page, spec)
    accepted = settings(callable_)
    for key in given:
        if key not in accepted:
            choices = ", ".join(accepted) or "none"
            raise ConfigError(f"{name} has no setting {key!r}{nearest(key, accepted)}; its settings are: {choices}")
    hints = _hints(callable_)
    values: dict[str, Any] = {}
    for key, parameter in accepted.items():
        if key in given:
            values[key] = _checked(name, key, given[key], hints.get(key, Any))
        elif parameter.default is inspect.Parameter.empty:
            raise ConfigError(f"{name} needs the setting {key!r}; write for example {{name: {name}, {key}: ...}}")
        else:
            values[key] = parameter.default
    return name, values, callable_


def _read(page: str, spec: Spec) -> tuple[str, dict[str, Any], Callable[..., Any]]:
    if isinstance(spec, str):
        spec = {"name": spec}
    if not isinstance(spec, Mapping) or not isinstance(spec.get("name"), str):
        raise ConfigError(
            f"expected a name or a mapping with a 'name' from {_called(page)}, got {spec!r}; "
            "write for example {name: ..., setting: value}"
        )
    given = {str(key): value for key, value in spec.items() if key != "name"}
    return spec["name"], given, entry(page, spec["name"])


def _called(page: str) -> str:
    """The name of a page as a config knows it: objectives are kept by paper."""
    own = page.rpartition(".")[2]
    return {"papers": "objectives"}.get(own, own)


def _hints(callable_: Callable[..., Any]) -> dict[str, Any]:
    target = callable_.__init__ if inspect.isclass(callable_) else callable_
    try:
        return typing.get_type_hints(target, include_extras=True)
    except (NameError, TypeError):
        return {}


def _checked(name: str, key: str, value: Any, hint: Any) -> Any:
    import pydantic

    try:
        return _adapter(hint).validate_python(value)
    except pydantic.ValidationError as error:
        problem = error.errors()[0]
        raise ConfigError(f"{name}.{key}: {problem['msg'].lower()}, got {value!r}") from error


@functools.lru_cache(maxsize=512)
def _adapter(hint: Any) -> Any:
    # Kept, for a study asks about the same settings thousands of times.
    import pydantic

    return pydantic.TypeAdapter(hint)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return value
