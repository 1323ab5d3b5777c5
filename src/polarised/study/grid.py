"""A study in YAML → its runs: a base, axes that vary, values linked to others, scales as blocks of overrides.

    name: example
    base: {dataset: dsprites, training: {steps: 1000}}
    axes:
      seed: 3                                      # 0, 1, 2
      model.latents: [5, 10]                       # values of one setting
      method:                                      # labelled blocks of settings, each with its own axes
        beta-VAE: {objective: {name: BetaVAE}, axes: {strength: {objective.beta: [1, 4]}}}
        DIP-VAE: {objective: {name: DIPVAE}, axes: {strength: {objective.lambda_od: [1], objective.lambda_d: [10]}}}
    scales:
      smoke: {base: {training: {steps: 10}}, axes: {seed: 1}}

The first axis is the slowest, so with `seed` first a part of the runs is a whole grid with fewer seeds. Lists under
one axis name vary together; a block that a scale sets to null is left out there. The axis `compatibility` compares a
paper with its released code: its label is added to that of the dataset, so that tables, figures and verdicts
distinguish the two.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from polarised.errors import ConfigError
from polarised.regime.classify import RULES, Rule
from polarised.registry import nearest
from polarised.study.config import Run, labels_of, overridden, read_config

__all__ = ["Point", "Study", "load_study", "study_claims", "study_names", "study_scales", "titled"]

MOST_RUNS = 100_000
KEYS = ("name", "about", "references", "base", "axes", "scales", "default_scale", "rule", "claims")


@dataclass(frozen=True)
class Point:
    """A run and its position in the study: the label of every axis."""

    labels: Mapping[str, Any]
    run: Run


@dataclass(frozen=True)
class Study:
    """A named set of runs, with the rule of their types and the claims to check on their results."""

    name: str
    scale: str | None
    points: tuple[Point, ...]
    about: str = ""
    references: tuple[str, ...] = ()
    rule: Rule = "used"
    claims: tuple[Any, ...] = field(default=())

    @property
    def title(self) -> str:
        """Its name and scale."""
        return titled(self.name, self.scale)

    @property
    def runs(self) -> list[Run]:
        """The runs, in the order of execution."""
        return [point.run for point in self.points]


def titled(name: str, scale: str | None) -> str:
    """Return the title of a study at a scale.

    >>> titled("be_more_active", "small"), titled("mine", None)
    ('be_more_active, scale small', 'mine')
    """
    return f"{name}, scale {scale}" if scale else name


def study_names() -> tuple[str, ...]:
    """Return the studies of the library.

    >>> "be_more_active" in study_names()
    True
    """
    folder = resources.files("polarised") / "studies"
    return tuple(sorted(file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml")))


def load_study(name: str | Path, *, scale: str | None = None, settings: Sequence[str] = ()) -> Study:
    """Read a study by name or file, at a scale, with additional ``key=value`` settings.

    A setting of a run (``training.steps=100``) applies to every run; ``axes.seed=2`` changes an axis.

    >>> study = load_study("be_more_active", scale="smoke", settings=["axes.seed=1"])
    >>> sorted({point.labels["method"] for point in study.points})
    ['DIP-VAE-II', 'FactorVAE', 'annealed VAE', 'beta-TCVAE', 'beta-VAE']
    """
    config = _read(name)
    for key in config:
        if key not in KEYS:
            raise ConfigError(f"a study has no {key!r}{nearest(str(key), KEYS)}; it has {', '.join(KEYS)}")
    _check_sections(config, name)
    scales = config.get("scales", {})
    scale = scale or config.get("default_scale")
    if scale is not None:
        if scale not in scales:
            raise ConfigError(
                f"{name} has no scale {scale!r}{nearest(scale, scales)}; its scales are: {', '.join(scales) or 'none'}"
            )
        config = _merged(config, scales[scale])
        _check_sections(config, name)
    of_axes = [setting for setting in settings if setting.startswith("axes.")]
    of_runs = [setting for setting in settings if not setting.startswith("axes.")]
    config = overridden(config, of_axes)
    base = config.get("base", {})
    points, names = [], set()
    for count, (labels, changes) in enumerate(_expanded(config.get("axes", {}))):
        if count >= MOST_RUNS:
            raise ConfigError(f"expected at most {MOST_RUNS:,} runs in {name}, but its axes give more; split the study")
        made = base
        for change in changes:
            made = _merged(made, change)
        run = Run.from_config(overridden(made, of_runs))
        # Additional settings can make two points of the grid the same run, which is then done once.
        if run.name not in names:
            names.add(run.name)
            points.append(Point(_labelled(run, labels), run))
    if not points:
        raise ConfigError(f"{name} has no run: an axis is empty; give every axis at least one value")
    return Study(
        name=str(config.get("name", Path(name).stem)),
        scale=scale,
        points=tuple(points),
        about=str(config.get("about", "")),
        references=tuple(config.get("references", ())),
        rule=_rule(config.get("rule", "used")),
        claims=tuple(config.get("claims", ())),
    )


def study_claims(name: str | Path) -> tuple[Any, ...]:
    """Return the claims of a study without creating its runs.

    >>> "be_more_active" in study_claims("be_more_active")
    True
    """
    config = _read(name)
    _check_sections(config, name)
    return tuple(config.get("claims", ()))


def study_scales(name: str | Path) -> tuple[str, ...]:
    """Return the scales of a study.

    Args:
        name: A study of the library, or a YAML file.

    Returns:
        The names of its scales.

    >>> study_scales("be_more_active")
    ('paper', 'released', 'small', 'laptop', 'smoke')
    """
    config = _read(name)
    _check_sections(config, name)
    return tuple(config.get("scales", ()))


def _read(name: str | Path) -> dict[str, Any]:
    if str(name) in study_names():
        with resources.as_file(resources.files("polarised") / "studies" / f"{name}.yaml") as path:
            return read_config(path)
    if not Path(name).exists():
        known = study_names()
        raise ConfigError(
            f"expected a study file or one of {', '.join(known)}, got {str(name)!r}{nearest(str(name), known)}"
        )
    return read_config(name)


def _check_sections(config: Mapping[str, Any], name: str | Path) -> None:
    """Check the types of the sections of a study before they are used."""
    wanted: dict[str, tuple[Any, str]] = {
        "base": (Mapping, "a mapping of settings"),
        "axes": (Mapping, "a mapping of what varies"),
        "scales": (Mapping, "a mapping of overrides"),
        "claims": (list, "a list of claims"),
        "references": (list, "a list of keys"),
        "default_scale": (str, "the name of a scale"),
    }
    for key, (kind, words) in wanted.items():
        if key in config and not isinstance(config[key], kind):
            raise ConfigError(f"expected {key} of {name} as {words}, got {config[key]!r}")
    for scale, block in config.get("scales", {}).items():
        if not isinstance(block, Mapping):
            raise ConfigError(f"expected the scale {scale} of {name} as a mapping of overrides, got {block!r}")


def _rule(value: Any) -> Rule:
    for rule in RULES:
        if value == rule:
            return rule
    raise ConfigError(f"expected the rule of a study as used, relative or standard, got {value!r}")


def _expanded(axes: Any) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield (labels, changes to the base) for every point of the grid, the first axis slowest."""
    if not isinstance(axes, Mapping):
        raise ConfigError(f"expected axes as a mapping of what varies, got {axes!r}")
    if not axes:
        yield {}, []
        return
    (name, values), *others = axes.items()
    for labels, changes in _values(str(name), values):
        for more_labels, more_changes in _expanded(dict(others)):
            yield {**labels, **more_labels}, [*changes, *more_changes]


def _values(name: str, values: Any) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    if isinstance(values, int) and not isinstance(values, bool) and values > 0:
        if values > MOST_RUNS:
            raise ConfigError(f"expected at most {MOST_RUNS:,} values of the axis {name!r}, got {str(values)[:30]}")
        values = list(range(values))
    if isinstance(values, list):
        values = {name: values}
    if isinstance(values, Mapping):
        values = {label: block for label, block in values.items() if block is not None}
    if isinstance(values, Mapping) and values and all(isinstance(block, Mapping) for block in values.values()):
        for label, block in values.items():
            own = {key: value for key, value in block.items() if key != "axes"}
            for labels, changes in _expanded(block.get("axes", {})):
                yield {name: label, **labels}, [own, *changes]
    elif isinstance(values, Mapping) and values and all(isinstance(many, list) for many in values.values()):
        lengths = {len(many) for many in values.values()}
        if len(lengths) != 1:
            raise ConfigError(f"expected lists of equal length under the axis {name!r}, got {sorted(lengths)} values")
        for together in zip(*values.values(), strict=True):
            paths = [f"{path}={json.dumps(value)}" for path, value in zip(values, together, strict=True)]
            first = together[0]
            yield {name: first["name"] if isinstance(first, Mapping) else first}, [overridden({}, paths)]
    else:
        raise ConfigError(
            f"expected the axis {name!r} as a count, a list, lists by setting or labelled blocks, got {values!r}"
        )


def _labelled(run: Run, labels: Mapping[str, Any]) -> dict[str, Any]:
    found = {**labels_of(run), **labels}
    if "compatibility" in labels:
        found["dataset"] = f"{found['dataset']}, {labels['compatibility']}"
    return found


def _merged(base: Any, change: Mapping[str, Any]) -> dict[str, Any]:
    """Merge one mapping into another, recursively; a new ``name`` replaces the whole spec."""
    if isinstance(base, str):
        base = {"name": base}
    if not isinstance(base, Mapping):
        raise ConfigError(f"expected a mapping in which to change {', '.join(map(str, change))}, got {base!r}")
    if "name" in change and base.get("name") not in (None, change["name"]) and "axes" not in base:
        return dict(change)
    merged = dict(base)
    for key, value in change.items():
        below = merged.get(key)
        deeper = isinstance(value, Mapping) and isinstance(below, Mapping | str)
        merged[key] = _merged(below, value) if deeper else value
    return merged
