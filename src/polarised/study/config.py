"""A run as described by a config: all defaults filled in, all keys and values checked."""

import functools
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, cast

from polarised import registry
from polarised._io.text import parse_yaml, read_small
from polarised.errors import ConfigError, DataError

__all__ = [
    "Evaluation",
    "Run",
    "SnapshotSettings",
    "Training",
    "check_devices",
    "overridden",
    "read_config",
    "read_evaluation",
    "read_training",
]

S = TypeVar("S")

# The schedule of every run that names none, with all its settings.
CONSTANT = {"name": "constant", "warm_up": 0}
LARGEST_CONFIG = 1 << 20

# Settings that do not change the weights of a run.
NOT_IN_NAMES = ("device", "checkpoint_every", "log_every")


@dataclass(frozen=True, kw_only=True)
class Training:
    """How long and how fast to train; `device`, `checkpoint_every` and `log_every` do not change the result.

    `schedule` is the schedule of the learning rate. `settling` has the settings of `polarised.training.Settling` if a
    run ends when it has settled (`steps` is then the maximum). `split` is the share of the images used for training,
    if the others are used for measuring. `compiled` enables torch.compile.
    """

    steps: int = 300_000
    batch_size: int = 64
    learning_rate: float = 1e-4
    betas: tuple[float, float] = (0.9, 0.999)
    amsgrad: bool = False
    precision: Literal["float32", "bfloat16"] = "float32"
    schedule: Any = field(default_factory=lambda: dict(CONSTANT))
    settling: Any = None
    split: float | None = None
    compiled: bool = False
    device: str = "cpu"
    checkpoint_every: int = 1000
    log_every: int = 50


@dataclass(frozen=True, kw_only=True)
class SnapshotSettings:
    """Snapshots of the regime during training: every `every` steps (0: never) on `examples` fixed inputs."""

    every: int = 0
    examples: int = 1000
    keep: Literal["statistics", "encodings"] = "statistics"


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What to measure on the trained model, and on how many inputs.

    `downstream` predicts the factors from the codes by logistic regression with the best of `downstream_strengths` (C)
    by cross-validation; a single strength is used directly. It is trained on the inputs and tested on `downstream_test`
    additional ones; if that is 0, it is trained on the first two thirds of the inputs and tested on the rest.
    `further` names measures of the catalogue, in the same way as a config names an objective.
    """

    examples: int = 10_000
    alpha: float = 0.1
    downstream: bool = False
    downstream_test: int = 0
    downstream_strengths: tuple[float, ...] = tuple(10.0 ** (-4 + 8 * i / 9) for i in range(10))
    further: tuple[Any, ...] = ()

    @property
    def unseen(self) -> int:
        """The number of additional inputs for testing the prediction of factors; 0 if no factors are predicted."""
        return self.downstream_test if self.downstream else 0


@dataclass(frozen=True, kw_only=True)
class Run:
    """One training with its evaluation: dataset, model, objective, training, evaluation, seed.

    Args:
        dataset: The dataset, with its settings.
        model: Architecture, latents, prior and likelihood.
        objective: The objective, with its settings.
        auxiliary: The factors that an iVAE receives as u: names, "all" (or an empty list) for all, or None for no u.
        training: How long and how fast to train.
        snapshots: Snapshots of the regime during training.
        evaluation: What to measure.
        seed: Seed of weights, batches and noise.

    >>> run = Run.from_config({"objective": {"name": "BetaVAE", "beta": 4}, "training": {"steps": 100}})
    >>> run.objective["beta"], run.training.steps, run.seed
    (4.0, 100, 0)
    """

    dataset: Mapping[str, Any]
    model: Mapping[str, Any]
    objective: Mapping[str, Any]
    auxiliary: Sequence[str] | None = None
    training: Training = field(default_factory=Training)
    snapshots: SnapshotSettings = field(default_factory=SnapshotSettings)
    evaluation: Evaluation = field(default_factory=Evaluation)
    seed: int = 0

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Check a mapping of settings and fill in all defaults; the error for an unknown key suggests the nearest one.

        Args:
            config: A mapping of settings.

        Returns:
            The run with all defaults filled in.
        """
        keys = [f.name for f in fields(cls)]
        _check_keys(config, keys, "a run")
        model = config.get("model", {})
        _check_keys(model, ["architecture", "latents", "prior", "likelihood"], "model")
        seed = config.get("seed", 0)
        if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
            raise ConfigError(f"expected seed as a whole number of at least 0, got {seed!r}")
        latents = model.get("latents", 10)
        if not isinstance(latents, int) or isinstance(latents, bool) or latents < 1:
            raise ConfigError(f"expected model.latents as a whole number of at least 1, got {latents!r}")
        auxiliary = config.get("auxiliary")
        if isinstance(auxiliary, str):
            auxiliary = [] if auxiliary == "all" else [auxiliary]
        if auxiliary is not None and not (isinstance(auxiliary, list | tuple) and all(map(_is_text, auxiliary))):
            raise ConfigError(f"expected auxiliary as all, or as a list of factor names, got {auxiliary!r}")
        return cls(
            dataset=_completed("dataset", config.get("dataset", "dsprites")),
            model={
                "architecture": _completed("architecture", model.get("architecture", "locatello_conv")),
                "latents": latents,
                "prior": _completed("prior", model.get("prior", "StandardNormal")),
                "likelihood": _completed("likelihood", model.get("likelihood", "Bernoulli")),
            },
            objective=_completed("objective", config.get("objective", "BetaVAE")),
            auxiliary=None if auxiliary is None else list(auxiliary),
            training=read_training(config.get("training", {})),
            snapshots=_section(SnapshotSettings, config.get("snapshots", {}), "snapshots", SNAPSHOTS),
            evaluation=read_evaluation(config.get("evaluation", {})),
            seed=seed,
        )

    def to_config(self) -> dict[str, Any]:
        """Return everything as plain JSON types; `from_config` of it is the same run."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return plain

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that determine the weights: without the device, the checkpoint interval and the measures."""
        config = self.to_config()
        del config["evaluation"]
        for key in NOT_IN_NAMES:
            del config["training"][key]
        return config

    @functools.cached_property
    def name(self) -> str:
        """The name of the directory: method, strength, dataset, seed and a hash of all that differs from the defaults.

        Defaults are left out, so that a setting added later does not rename existing runs.
        """
        chosen, words = self._unseeded
        digest = hashlib.sha256(json.dumps({**chosen, "seed": self.seed}, sort_keys=True).encode()).hexdigest()[:10]
        return re.sub(r"[^A-Za-z0-9.-]+", "_", "-".join([*words, f"seed{self.seed}"])) + f"-{digest}"

    def with_seed(self, seed: int) -> Self:
        """Return the same run with another seed; the parts of its name that do not depend on the seed are reused.

        Args:
            seed: A whole number of at least 0.

        Returns:
            The new run.

        >>> run = Run.from_config({"objective": {"name": "BetaVAE", "beta": 4}})
        >>> run.with_seed(3) == Run.from_config({"objective": {"name": "BetaVAE", "beta": 4}, "seed": 3})
        True
        """
        other = replace(self, seed=seed)
        other.__dict__["_unseeded"] = self._unseeded
        return other

    @functools.cached_property
    def _unseeded(self) -> tuple[dict[str, Any], list[str]]:
        """The settings that differ from the defaults, and the words of the name, both without the seed."""
        chosen: dict[str, Any] = {
            "dataset": _chosen("dataset", self.dataset),
            "model": {
                "architecture": _chosen("architecture", self.model["architecture"]),
                "latents": self.model["latents"],
                "prior": _chosen("prior", self.model["prior"]),
                "likelihood": _chosen("likelihood", self.model["likelihood"]),
            },
            "objective": _chosen("objective", self.objective),
            "auxiliary": self.auxiliary,
            "training": self._training,
            "snapshots": _differing(self.snapshots, SnapshotSettings()),
        }
        return chosen, words_of(self, chosen["model"]["prior"])[:-1]

    @property
    def _training(self) -> dict[str, Any]:
        """The settings of the training that differ from the defaults, including those of its schedule and settling."""
        chosen = _differing(self.training, Training(), NOT_IN_NAMES)
        if "schedule" in chosen:
            chosen["schedule"] = _chosen("schedule", chosen["schedule"])
        if "settling" in chosen:
            from polarised.training.pace import Settling

            chosen["settling"] = _differing(chosen["settling"], Settling())
        return chosen


def check_devices(devices: Iterable[str]) -> None:
    """Refuse devices that this machine does not have, with one error instead of one failure per run.

    Args:
        devices: Devices as torch names them, such as cpu, cuda or cuda:1.

    Raises:
        ConfigError: If a device is not available.

    >>> check_devices(["cpu"])
    """
    wanted = sorted({device for device in devices if not device.startswith("cpu")})
    if not wanted:
        return
    import torch

    for device in wanted:
        kind, _, number = device.partition(":")
        backend = {"cuda": torch.cuda, "mps": torch.backends.mps}.get(kind)
        if backend is None:
            raise ConfigError(f"expected training.device as cpu, cuda, cuda:N or mps, got {device!r}")
        if not backend.is_available():
            raise ConfigError(
                f"expected a device {device} for training.device, but this machine has none; train on cpu, or on a "
                "cluster that has one (executor ray)"
            )
        count = torch.cuda.device_count() if kind == "cuda" else 1
        if number and not (number.isdigit() and int(number) < count):
            raise ConfigError(f"expected training.device up to {kind}:{count - 1}, got {device!r}")


def read_config(path: str | Path) -> dict[str, Any]:
    """Read a YAML mapping of settings."""
    try:
        config = parse_yaml(read_small(path, largest=LARGEST_CONFIG), where=path)
    except FileNotFoundError:
        raise ConfigError(f"expected a config file, but {path} does not exist") from None
    except IsADirectoryError:
        raise ConfigError(f"expected a file of settings, but {path} is a folder; name a YAML file in it") from None
    except OSError as error:
        raise ConfigError(f"expected a config file, but could not read {path}: {error.strerror}") from error
    except DataError as error:
        raise ConfigError(str(error)) from error
    if config is None:
        return {}
    if not isinstance(config, dict):
        raise ConfigError(f"expected a mapping of settings in {path}, got {type(config).__name__}")
    return config


def read_training(settings: Any) -> Training:
    """Check the settings of a training, including its schedule and settling, and fill in all defaults.

    Args:
        settings: A mapping of settings.

    Returns:
        The training.

    Raises:
        ConfigError: If a setting does not exist or has an invalid value.

    >>> read_training({"schedule": "cosine"}).schedule
    {'name': 'cosine', 'warm_up': 0, 'hold': 0, 'end': 0.0}
    """
    training = _section(Training, settings, "training", TRAINING)
    if training.split is not None and not 0 < training.split < 1:
        raise ConfigError(f"expected training.split above 0 and below 1, got {training.split}; a common value is 0.9")
    if training.schedule != CONSTANT:
        training = replace(training, schedule=_completed("schedule", training.schedule))
        registry.build("schedule", training.schedule, training.steps)
    if training.settling is not None:
        from polarised.training.pace import Settling, check_settling

        settling = _section(Settling, training.settling, "training.settling", {})
        check_settling(settling, training.schedule, training.steps)
        training = replace(training, settling=asdict(settling))
    return training


def read_evaluation(settings: Any) -> Evaluation:
    """Check the settings of an evaluation and fill in all defaults.

    >>> read_evaluation({"examples": 100}).alpha
    0.1
    """
    evaluation = _section(Evaluation, settings, "evaluation", EVALUATION)
    further = [_completed("measure", spec) for spec in evaluation.further]
    return replace(evaluation, further=tuple(further))


def overridden(config: Mapping[str, Any], assignments: Sequence[str]) -> dict[str, Any]:
    """Return a config with ``key.subkey=value`` assignments applied, values read as YAML.

    >>> overridden({"training": {"steps": 5}}, ["training.steps=7", "objective.name=ELBO"])
    {'training': {'steps': 7}, 'objective': {'name': 'ELBO'}}
    """
    changed: dict[str, Any] = json.loads(json.dumps(config))
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals or not path:
            raise ConfigError(f"expected key=value, got {assignment!r}; for example training.steps=1000")
        *parents, last = path.split(".")
        section = changed
        for parent in parents:
            child = section.get(parent)
            if isinstance(child, str):
                child = {"name": child}
            section[parent] = child if isinstance(child, dict) else {}
            section = section[parent]
        try:
            value = parse_yaml(text, where=f"the value of {path}")
        except DataError as error:
            raise ConfigError(str(error)) from error
        if last == "name" and parents and section.get("name") != value:
            section.clear()  # the settings belong to another entry
        section[last] = value
    return changed


def _check_keys(given: Any, known: Sequence[str], where: str) -> None:
    if not isinstance(given, Mapping):
        raise ConfigError(f"expected {where} as a mapping of {', '.join(known)}, got {given!r}")
    for key in given:
        if key not in known:
            hint = registry.nearest(str(key), known)
            raise ConfigError(f"{where} has no setting {key!r}{hint}; its settings are: {', '.join(known)}")


# The smallest valid value of each setting, so that an invalid one is reported before the first run of a study.
TRAINING = {"steps": 1, "batch_size": 2, "learning_rate": 0.0, "checkpoint_every": 1, "log_every": 1}
SNAPSHOTS = {"every": 0, "examples": 2}
EVALUATION = {"examples": 2, "alpha": 0.0}


def _section(kind: type[S], given: Any, where: str, least: Mapping[str, float]) -> S:
    try:
        section: S = _section_text(cast(Any, kind), json.dumps(given), where, tuple(least.items()))
    except TypeError:
        return _section_of(kind, given, where, least)
    return section


@functools.lru_cache(maxsize=1024)
def _section_text(kind: Any, text: str, where: str, least: tuple[tuple[str, float], ...]) -> Any:
    return _section_of(kind, json.loads(text), where, dict(least))


def _section_of(kind: type[S], given: Any, where: str, least: Mapping[str, float]) -> S:
    import pydantic

    known = [f.name for f in fields(kind)]  # type: ignore[arg-type]
    _check_keys(given, known, where)
    try:
        section: S = _adapter(kind).validate_python(dict(given))  # type: ignore[arg-type]
    except pydantic.ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(map(str, (where, *problem["loc"])))
        raise ConfigError(f"{place}: {registry.problem_of(error)}, got {problem['input']!r}") from error
    for name, smallest in least.items():
        value = getattr(section, name)
        # Not inverted, so that nan, which is not above zero either, is refused.
        if not (value > smallest if isinstance(value, float) else value >= smallest):
            words = f"above {smallest:g}" if isinstance(value, float) else f"of at least {smallest:g}"
            raise ConfigError(f"expected {where}.{name} {words}, got {value!r}")
    return section


@functools.lru_cache
def _adapter(kind: Any) -> Any:
    import pydantic

    return pydantic.TypeAdapter(kind)


def _completed(kind: str, spec: Any) -> dict[str, Any]:
    """Complete a spec; cached, because a study has the same few specs thousands of times."""
    try:
        return dict(_completed_text(kind, json.dumps(spec)))
    except TypeError:
        return registry.complete(kind, spec)


@functools.lru_cache(maxsize=1024)
def _completed_text(kind: str, text: str) -> dict[str, Any]:
    return registry.complete(kind, json.loads(text))


def _chosen(kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a completed spec without the settings that have their default."""
    try:
        return dict(_chosen_text(kind, json.dumps(spec)))
    except TypeError:
        return _chosen_of(kind, spec)


@functools.lru_cache(maxsize=1024)
def _chosen_text(kind: str, text: str) -> dict[str, Any]:
    return _chosen_of(kind, json.loads(text))


def _chosen_of(kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    known = _completed(kind, {"name": spec["name"], **_required(kind, spec)})
    return {key: value for key, value in spec.items() if key == "name" or value != known.get(key)}


def _required(kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a spec that have no default."""
    parameters = registry.settings(registry.entry(kind, spec["name"]))
    return {name: spec[name] for name, parameter in parameters.items() if parameter.default is parameter.empty}


def _differing(given: Any, default: Any, left_out: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the settings of a section or a mapping that differ from the defaults."""
    own = json.loads(json.dumps(given if isinstance(given, Mapping) else asdict(given)))
    usual = json.loads(json.dumps(asdict(default)))
    return {key: value for key, value in own.items() if key not in left_out and value != usual[key]}


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def labels_of(run: Run) -> dict[str, Any]:
    """Return the labels of a run without a study: method, strength, dataset, seed.

    >>> from polarised.study import Run
    >>> labels_of(Run.from_config({"objective": {"name": "AnnealedVAE", "c_max": 5}}))
    {'method': 'annealed VAE', 'strength': 5.0, 'dataset': 'dsprites', 'seed': 0}
    """
    method, settings = _method(run)
    strength = next((run.objective[name] for name in settings), None)
    return {"method": method, "strength": strength, "dataset": run.dataset["name"], "seed": run.seed}


def words_of(run: Run, prior: Mapping[str, Any]) -> list[str]:
    """Return the words of a run's name; `prior` has the settings of the prior that are not its defaults.

    >>> from polarised.study import Run
    >>> words_of(Run.from_config({"objective": {"name": "BetaVAE", "beta": 4}}), {"name": "StudentT", "df": 5.0})
    ['beta-VAE', 'beta4', 'StudentT', 'df5', 'dsprites', 'seed0']
    """
    method, settings = _method(run)
    words = [method, *(_word(name, run.objective[name]) for name in settings)]
    if prior["name"] != "StandardNormal":
        words += [_short(prior["name"]), *(_word(name, value) for name, value in prior.items() if name != "name")]
    if run.auxiliary:
        words.append("u " + " ".join(run.auxiliary))
    return [word for word in [*words, _short(run.dataset["name"]), f"seed{run.seed}"] if word]


def _method(run: Run) -> tuple[str, tuple[str, ...]]:
    """Return the method as named in the studies, and the settings that distinguish its models, the strength first."""
    record = registry.record("objective", run.objective["name"])
    method, completed_by = record.title, record.facts.get("titled_by")
    if completed_by:
        method += f"-{run.objective[completed_by]}"
    # An iVAE is defined by a prior that depends on u, whatever the weights of its bound.
    if "u" in registry.record("prior", run.model["prior"]["name"]).needs:
        method = record.facts.get("title_given_u", method)
    return method, record.strength


def _word(name: str, value: Any) -> str:
    if _is_number(value):
        return f"{name}{value:g}"
    if isinstance(value, str):
        return f"{name} {value}"
    return name if value is True else ""


def _short(name: str) -> str:
    """Return the name of user code without its module."""
    return name.rpartition(":")[2]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
