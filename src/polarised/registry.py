"""The catalogue: one record for everything that a config, a screen or a page can name.

An entry is a callable with a record: title, reading, references, requirements. Screens, pages, labels, citations,
documentation and law tests are derived from the records, so adding an entry touches only the file in which it is
written. The same rule applies to every kind: positional arguments are supplied by the run, keyword-only ones are the
settings that a config may name, so ``{name: BetaVAE, beta: 4}`` is ``BetaVAE(beta=4)``.

Other packages add entries through an entry point of the group ``polarised.plugins`` that names a module with registered
entries, or a config names their code in full, as ``module:name``.
"""

import difflib
import functools
import importlib
import importlib.metadata
import inspect
import os
import re
import typing
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from polarised.errors import ConfigError, DataError

if TYPE_CHECKING:
    import pydantic

__all__ = [
    "FACTS",
    "KINDS",
    "SECTIONS",
    "Output",
    "Record",
    "build",
    "complete",
    "describe",
    "entry",
    "names",
    "nearest",
    "output",
    "problem_of",
    "record",
    "records",
    "reference_key",
    "refuse_code",
    "register",
    "settings",
]

Spec = str | Mapping[str, Any]
Entry = TypeVar("Entry", bound=Callable[..., Any])

KINDS: dict[str, tuple[str, ...]] = {
    "dataset": ("data.sprites", "data.published", "data.synthetic", "data.own"),
    "architecture": ("models.architectures",),
    "likelihood": ("models.likelihoods",),
    "prior": ("models.priors",),
    "objective": ("objectives.papers", "objectives.cures"),
    "schedule": ("objectives.schedules",),
    "metric": (
        "metrics.redundancy",
        "metrics.gaps",
        "metrics.prediction",
        "metrics.interventions",
        "metrics.downstream",
    ),
    "estimator": ("metrics.estimators",),
    "adapter": ("adapters.diffusers", "adapters.pythae", "adapters.models"),
    "measure": ("study.measures", "study.further", "study.statements", "study.relations"),
    "executor": ("study.executors",),
    "claim": ("study.claims",),
    "figure": (
        "report.figures.variables",
        "report.figures.over_strength",
        "report.figures.over_training",
        "report.figures.factors",
        "report.figures.decomposition",
    ),
    "gallery": ("report.papers",),
    "page": ("report.page",),
}
"""Every kind of entry and the modules that define its entries."""

SECTIONS = {
    "dataset": "dataset",
    "architecture": "model.architecture",
    "likelihood": "model.likelihood",
    "prior": "model.prior",
    "objective": "objective",
    "measure": "evaluation.further",
    "claim": "claims",
}
"""Where the config of a run or a study names an entry of a kind."""

FACTS: dict[str, tuple[str, ...]] = {
    "dataset": ("images", "shape", "factors", "licence", "sources", "by_hand"),
    "architecture": (),
    "likelihood": ("support", "density"),
    "prior": (),
    "objective": ("titled_by", "title_given_u", "strength_title", "neutral"),
    "estimator": (),
    "adapter": ("libraries",),
    "executor": (),
}
"""The metadata that only entries of one kind have; a kind that is not listed accepts any.

A dataset: `images`, `shape` and `factors` (name to size) as published, `licence`, `sources` (the files, as
`polarised.data.cache.Source`) and `by_hand` (pictures that replace the first file). A likelihood: the values
it allows (`support`) and whether it integrates to one over them (`density`). An objective: the setting that completes
its title (`titled_by`), its title under a prior that depends on u (`title_given_u`), the title of its strength on an
axis (`strength_title`), and the settings with which it is the ELBO (`neutral`). An adapter: the packages whose classes
it recognises (`libraries`).
"""

PLUGINS = "polarised.plugins"

# External code that this process was told to use, by a config or a call of its user.
_used: set[str] = set()
_records: dict[str, dict[str, "Record"]] = {kind: {} for kind in KINDS}
# Values in the tables of a run that belong to no entry, such as its rate.
_described: dict[str, "Output"] = {}


@dataclass(frozen=True)
class Output:
    """One value that an entry returns: its name in tables, its usual name, its unit and how to read it.

    Args:
        name: The name in tables and JSON, such as ``dci_completeness``.
        title: The usual name; the name with spaces if empty.
        unit: The unit, such as ``nats``, or empty.
        reading: One plain sentence on how to read the value.
        part: The part of the entry's result; the result itself, or the first part of a tuple, if empty.
        settings: The settings with which it is computed, if they are not the defaults of the entry.
    """

    name: str
    title: str = ""
    unit: str = ""
    reading: str = ""
    part: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The title with its unit, as shown on an axis."""
        return f"{self.title}, {self.unit}" if self.unit else self.title


@dataclass(frozen=True)
class Record:
    """All metadata of one entry of the catalogue.

    Args:
        kind: One of `KINDS`.
        name: Its name in a config.
        call: The entry itself.
        title: Its usual name, such as ``beta-VAE``.
        summary: A description in a few words.
        symbol: The symbol of its strength, such as ``β``.
        strength: The settings that distinguish its models; the first is the strength.
        needs: Its requirements: ``factors``, ``decoder``, ``files``, ``u`` …
        outputs: The values it returns.
        references: The works it is based on: keys of the bibliography, or whole BibTeX entries.
        references_by_setting: Further keys, for runs whose settings have the given value.
        example: How a law test may call it: settings, several of them, or a function from an empty folder to settings.
        facts: The metadata that only entries of this kind have, see `FACTS`.
    """

    kind: str
    name: str
    call: Callable[..., Any]
    title: str = ""
    summary: str = ""
    symbol: str = ""
    strength: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    outputs: tuple[Output, ...] = ()
    references: tuple[str, ...] = ()
    references_by_setting: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    example: Any = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def reading(self) -> str:
        """How to read the entry's single value, or empty if it returns several."""
        return self.outputs[0].reading if len(self.outputs) == 1 else ""

    @property
    def reference_keys(self) -> tuple[str, ...]:
        """The keys of the works it is based on, including those with a full BibTeX entry."""
        return tuple(reference_key(reference) for reference in self.references)

    def examples(self, folder: Path | None = None) -> tuple[dict[str, Any], ...]:
        """Return the specs with which a law test may build the entry.

        Args:
            folder: An empty folder, for an entry whose example first writes a file.

        Returns:
            One mapping with the name and the settings for each example; the defaults if there is none.

        Raises:
            ConfigError: If the example needs a folder and none is given.

        >>> record("objective", "DIPVAE").examples()
        ({'name': 'DIPVAE', 'variant': 'I'}, {'name': 'DIPVAE', 'variant': 'II'})
        """
        made = self.example
        if callable(made):
            if folder is None:
                raise ConfigError(f"the example of {self.name} writes files: expected a folder for them, got none")
            made = made(folder)
        several = [made or {}] if made is None or isinstance(made, Mapping) else made
        return tuple({"name": self.name, **each} for each in several)

    def citations(self, chosen: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the keys to cite for a use of the entry with the given settings.

        Args:
            chosen: The settings of the use, as named in a config.

        Returns:
            Keys of the bibliography, those of the entry itself first.
        """
        values = [value for value in chosen.values() if isinstance(value, str)]
        further = (key for value in values for key in self.references_by_setting.get(value, ()))
        return (*self.references, *further)


def register(
    kind: str,
    *,
    name: str = "",
    title: str = "",
    summary: str = "",
    symbol: str = "",
    strength: tuple[str, ...] | None = None,
    unit: str = "",
    reading: str = "",
    needs: tuple[str, ...] = (),
    outputs: tuple[Output, ...] = (),
    references: tuple[str, ...] = (),
    references_by_setting: Mapping[str, tuple[str, ...]] | None = None,
    example: Any = None,
    **facts: Any,
) -> Callable[[Entry], Entry]:
    """Return a decorator that adds a callable to the catalogue, with its metadata.

    Args:
        kind: One of `KINDS`.
        name: The name of the entry in a config; the name of the callable if empty.
        title: Its usual name; its name with spaces if empty.
        summary: A description in a few words.
        symbol: The symbol of its strength.
        strength: The settings that distinguish its models; the first is the strength. By default the first numeric
            setting of an objective.
        unit: The unit of its single value.
        reading: One sentence on how to read its single value.
        needs: Its requirements.
        outputs: The values it returns, if there are several.
        references: The works it is based on: keys of the bibliography, or whole BibTeX entries.
        references_by_setting: Further keys, for uses whose settings have the given value.
        example: How a law test may call it.
        **facts: The metadata that only entries of this kind have, such as the licence of a dataset; see `FACTS`.

    Returns:
        A decorator that returns the callable unchanged.

    Raises:
        ConfigError: If the kind or a fact is unknown, or another module has an entry of that name.

    >>> @register("metric", reading="1 is best.", references=("Chen2018",))
    ... def share(codes): ...
    >>> record("metric", "share").reading
    '1 is best.'
    >>> del _records["metric"]["share"]
    """
    _check_kind(kind)
    for fact in facts:
        known = FACTS.get(kind, (fact,))
        if fact not in known:
            raise ConfigError(
                f"a record of kind {kind} has no {fact!r}{nearest(fact, known)}; "
                f"in addition to those of every record there are: {', '.join(known) or 'none'}"
            )

    def put(call: Entry) -> Entry:
        own = name or call.__name__
        earlier = _records[kind].get(own)
        if earlier is not None and _origin(earlier.call) != _origin(call):
            raise ConfigError(
                f"expected a new name for the {kind} {own!r} of {call.__module__}, "
                f"{earlier.call.__module__} has one of that name; register it with another name="
            )
        written = title or own.replace("_", " ")
        # A metric returns one value by default.
        single = (Output(own, written, unit, reading),) if kind == "metric" else ()
        _records[kind][own] = Record(
            kind=kind,
            name=own,
            call=call,
            title=written,
            summary=summary,
            symbol=symbol,
            strength=_strength(kind, call) if strength is None else strength,
            needs=needs,
            outputs=tuple(_titled(output) for output in outputs) or single,
            references=references,
            references_by_setting=references_by_setting or {},
            example=example,
            facts=facts,
        )
        return call

    return put


def names(kind: str) -> tuple[str, ...]:
    """Return the names of the entries of a kind, in the order in which they are written.

    Args:
        kind: One of `KINDS`.

    Returns:
        The names that a config may use.

    >>> "BetaVAE" in names("objective")
    True
    """
    return tuple(each.name for each in records(kind))


def records(kind: str) -> tuple[Record, ...]:
    """Return the records of a kind, in the order in which they are written.

    Args:
        kind: One of `KINDS`.

    Returns:
        One record for each entry, those of plugins last.

    >>> {each.kind for each in records("prior")}
    {'prior'}
    """
    _load(kind)
    homes = [f"polarised.{module}" for module in KINDS[kind]]

    def place(each: Record) -> int:
        return homes.index(each.call.__module__) if each.call.__module__ in homes else len(homes)

    # The order is that of the modules of the kind, independent of the order of imports.
    return tuple(sorted(_records[kind].values(), key=place))


def record(kind: str, name: str) -> Record:
    """Return the record of a name of the catalogue, or of ``module:name`` in a module of the user.

    Args:
        kind: One of `KINDS`.
        name: A name of the catalogue, or ``module:name``.

    Returns:
        The record; for unregistered code, one created from its name and docstring.

    Raises:
        ConfigError: If there is no such entry.

    >>> record("objective", "BetaVAE").name
    'BetaVAE'
    """
    if ":" in name:
        call = entry(kind, name)
        known = next((each for each in _records[kind].values() if each.call is call), None)
        own = name.rpartition(":")[2]
        return known or Record(
            kind, name, call, title=own, summary=_first_sentence(call), strength=_strength(kind, call)
        )
    offered = names(kind)
    if name not in offered:
        raise ConfigError(
            f"there is no {kind} {name!r}{nearest(name, offered)}; "
            f"there are {', '.join(offered)}, or name your own as 'module:name'"
        )
    return _records[kind][name]


def entry(kind: str, name: str) -> Callable[..., Any]:
    """Return the callable of a name of the catalogue, or of ``module:name`` in a module of the user.

    Args:
        kind: One of `KINDS`.
        name: A name of the catalogue, or ``module:name``.

    Returns:
        The callable.

    Raises:
        ConfigError: If there is no such entry, or the module cannot be imported.

    >>> entry("objective", "BetaVAE").__name__
    'BetaVAE'
    """
    if ":" not in name:
        return record(kind, name).call
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


def describe(*outputs: Output) -> None:
    """Define how to name and read values that no single entry returns, such as the rate of every run.

    Args:
        *outputs: The values.

    >>> describe(Output("rate_of_nothing", unit="nats"))
    >>> output("rate_of_nothing").label
    'rate of nothing, nats'
    >>> del _described["rate_of_nothing"]
    """
    _described.update({each.name: _titled(each) for each in outputs})


def output(name: str) -> Output:
    """Return how to name and read a value of a table, by its name there.

    Metrics and measures describe the values they return; if several return the same one, the description of the metric
    is used, and the others need only name it.

    Args:
        name: The name in tables, such as ``dci_completeness``.

    Returns:
        Its title, unit and reading; a value without description has its name as title.

    >>> output("total_correlation").label, output("accuracy_of_cats").title
    ('total correlation, nats', 'accuracy of cats')
    """
    found: list[Output] = []
    # Measures belong to studies: they are loaded only for a value that no metric describes.
    for kind in ("metric", "measure"):
        found += [each for entry in records(kind) for each in entry.outputs if each.name == name]
        if any(each.reading for each in found):
            break
    found += [each for each in _described.values() if each.name == name]
    return next((each for each in found if each.reading), found[0] if found else _titled(Output(name)))


def settings(callable_: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the keyword-only parameters of a catalogue entry: the settings of a config.

    Args:
        callable_: The entry.

    Returns:
        The parameters by name.

    >>> def example(shape, *, width=3): ...
    >>> list(settings(example))
    ['width']
    """
    parameters = inspect.signature(callable_).parameters.values()
    return {p.name: p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


def complete(kind: str, spec: Spec) -> dict[str, Any]:
    """Return a spec with all defaults filled in and every value checked, as plain JSON types.

    Args:
        kind: One of `KINDS`.
        spec: A name, or a mapping with a ``name`` and settings.

    Returns:
        The name and every setting.

    Raises:
        ConfigError: If the entry or a setting does not exist, or a value has the wrong type.

    >>> complete("likelihood", "Bernoulli")["name"]
    'Bernoulli'
    """
    name, values, _ = _read_checked(kind, spec)
    return {"name": name, **{key: _plain(value) for key, value in values.items()}}


def build(kind: str, spec: Spec, *supplied: Any) -> Any:
    """Call a catalogue entry with the arguments supplied by the run and the settings of the spec.

    Args:
        kind: One of `KINDS`.
        spec: A name, or a mapping with a ``name`` and settings.
        *supplied: The positional arguments, which come from the run.

    Returns:
        The return value of the entry.

    Raises:
        ConfigError: If the entry or a setting does not exist, or a value has the wrong type.

    >>> build("objective", {"name": "BetaVAE", "beta": 2}).beta
    2.0
    """
    _, values, callable_ = _read_checked(kind, spec)
    return callable_(*supplied, **values)


def refuse_code(config: Any, where: str | Path) -> None:
    """Refuse a config stored with a model that names code as ``module:name``: loading it would run that code.

    Code that this process already uses, and packages in the environment variable POLARISED_TRUST, are allowed.

    Args:
        config: The contents: mappings, lists and plain values.
        where: The file they come from, for the error message.

    Raises:
        DataError: If the config names code that is not trusted.

    >>> refuse_code({"prior": {"name": "os:system"}}, "model.safetensors")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    polarised.errors.DataError: expected only names of polarised in model.safetensors, it names os:system, ...
    """
    trusted = {package.strip() for package in os.environ.get("POLARISED_TRUST", "").split(",")} - {""}
    seen: set[int] = set()
    waiting: list[tuple[Any, Any]] = [("", config)]
    while waiting:
        key, value = waiting.pop()
        if value is None or isinstance(value, int | float):
            continue
        # Any text with a colon may be module:name, unless it is a path.
        if isinstance(value, str) and ":" in value and key != "path" and value not in _used:
            package = value.partition(":")[0].partition(".")[0]
            if package not in trusted:
                raise DataError(
                    f"expected only names of polarised in {where}, it names {value}, which would be imported and run; "
                    f"if you trust that code, set POLARISED_TRUST={package}"
                )
        elif isinstance(value, Mapping | list | tuple) and id(value) not in seen:
            # YAML can reference the same list a billion times in ten lines; each list is checked once.
            seen.add(id(value))
            waiting += value.items() if isinstance(value, Mapping) else ((key, each) for each in value)


def reference_key(reference: str) -> str:
    """Return the key of a reference, which is a key of the bibliography or a full BibTeX entry.

    Args:
        reference: The key or the entry.

    Returns:
        The key.

    >>> reference_key("Kingma2014"), reference_key("@misc{Guest2026, title = {A title}}")
    ('Kingma2014', 'Guest2026')
    """
    written = re.match(r"@\w+\s*\{\s*([^\s,]+)\s*,", reference)
    return written[1] if written else reference


def nearest(name: str, offered: Iterable[str]) -> str:
    """Return ``' (did you mean ...?)'`` for the closest of the offered names, or nothing.

    Args:
        name: The requested name.
        offered: The existing names.

    Returns:
        A hint to append to a sentence, with a leading space.

    >>> nearest("betaa", ["beta", "gamma"])
    " (did you mean 'beta'?)"
    """
    lowered = {offer.lower(): offer for offer in offered}
    close = difflib.get_close_matches(str(name).lower(), lowered, n=1, cutoff=0.5)
    return f" (did you mean {lowered[close[0]]!r}?)" if close else ""


def _check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise ConfigError(f"no kind of entry {kind!r}{nearest(kind, KINDS)}; the kinds are {', '.join(KINDS)}")


def _load(kind: str) -> None:
    _check_kind(kind)
    for module in KINDS[kind]:
        importlib.import_module(f"polarised.{module}")
    _load_plugins()


@functools.cache
def _load_plugins() -> None:
    for point in importlib.metadata.entry_points(group=PLUGINS):
        try:
            point.load()
        except (Exception, SystemExit) as error:
            # A broken external package must neither break nor end this one.
            warnings.warn(f"the plugin {point.name} ({point.value}) could not be loaded: {error!s:.200}", stacklevel=2)


def _strength(kind: str, call: Callable[..., Any]) -> tuple[str, ...]:
    """Return the first numeric setting of an objective."""
    if kind != "objective":
        return ()
    hints = _hints(call)
    return tuple(name for name in settings(call) if hints.get(name) in (int, float))[:1]


def _origin(call: Callable[..., Any]) -> tuple[Any, ...]:
    """Return what identifies a callable: where it is defined, or an instance itself."""
    written = getattr(call, "__qualname__", None)
    return (call.__module__, written) if written else (call,)


def _titled(output: Output) -> Output:
    return output if output.title else replace(output, title=output.name.replace("_", " "))


def _first_sentence(call: Callable[..., Any]) -> str:
    return (inspect.getdoc(call) or "").partition("\n")[0]


def _read_checked(kind: str, spec: Spec) -> tuple[str, dict[str, Any], Callable[..., Any]]:
    name, given, callable_ = _read(kind, spec)
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


def _read(kind: str, spec: Spec) -> tuple[str, dict[str, Any], Callable[..., Any]]:
    if isinstance(spec, str):
        spec = {"name": spec}
    if not isinstance(spec, Mapping) or not isinstance(spec.get("name"), str):
        raise ConfigError(
            f"expected the name of one {kind}, or a mapping with a 'name', got {spec!r}; "
            "write for example {name: ..., setting: value}"
        )
    given = {str(key): value for key, value in spec.items() if key != "name"}
    return spec["name"], given, entry(kind, spec["name"])


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
        raise ConfigError(f"{name}.{key}: {problem_of(error)}, got {value!r}") from error


def problem_of(error: "pydantic.ValidationError") -> str:
    """Return the first problem that a validation found, in the words of our own error if it was one.

    Args:
        error: The error of the validation.

    Returns:
        The problem, without the value.

    >>> import pydantic
    >>> try:
    ...     pydantic.TypeAdapter(int).validate_python("ten", strict=True)
    ... except pydantic.ValidationError as error:
    ...     problem_of(error)
    'input should be a valid integer'
    """
    problem = error.errors()[0]
    own = problem.get("ctx", {}).get("error")
    return str(own) if own is not None else problem["msg"].lower()


@functools.lru_cache(maxsize=512)
def _adapter(hint: Any) -> Any:
    # Cached, because a study checks the same settings thousands of times.
    import pydantic

    return pydantic.TypeAdapter(hint)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return value
