"""The execution of a study: the remaining runs, an executor for them, and the state of every run."""

import json
import socket
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from polarised import registry
from polarised._io.files import replacing
from polarised._io.terminal import console
from polarised._io.text import parse_json
from polarised.errors import ConfigError, DataError, MissingFileError, printable
from polarised.regime.classify import RULES
from polarised.study.config import Run
from polarised.study.executors import Event
from polarised.study.grid import Point, Study, titled
from polarised.study.leases import LEASE, LOCK, claimed, held, locked, read_lease
from polarised.study.stages import check_auxiliary, checkpoint_step, directory_of, finished_at
from polarised.study.storage import (
    FAILED,
    at_hand,
    is_address,
    listed,
    naming_full_disk,
    read_text,
    reason,
    remove,
    write_text,
)

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "Progress",
    "RunState",
    "Shard",
    "are_labels",
    "conduct",
    "duration",
    "enrol",
    "follow",
    "pace",
    "read_executor",
    "read_models",
    "read_study",
    "run_states",
]

FILE = "study.json"
VERSION = 2
REPAIR = "run polarised study doctor {} to find out what can be repaired"
PLAIN = str | int | float | None
# As a number with a fraction, it can still be turned back into a whole number of 64 bits.
LARGEST_NUMBER = 2**62
T = TypeVar("T")


@dataclass(frozen=True)
class Shard:
    """One of `count` equal shares of the runs of a study, numbered from 1.

    >>> Shard.parse("2/3").of(["a", "b", "c", "d", "e"])
    ['b', 'e']
    """

    number: int
    count: int

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count:
            raise ConfigError(f"expected a share from 1/{self.count} to {self.count}/{self.count}, got {self}")

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Read ``i/n``.

        Args:
            text: Two whole numbers separated by a slash.

        Returns:
            The share.

        Raises:
            ConfigError: If it has another form.
        """
        number, slash, count = text.partition("/")
        if not slash or not all(part.isascii() and part.isdigit() and len(part) < 10 for part in (number, count)):
            raise ConfigError(f"expected a share such as 2/8, the second of eight, got {text!r}")
        return cls(int(number), int(count))

    def of(self, runs: Sequence[T]) -> list[T]:
        """Return the runs of this share: every `count`-th run, so that long and short runs are distributed evenly.

        Args:
            runs: All runs.

        Returns:
            The runs of the share; together, the shares contain every run once.
        """
        return list(runs[self.number - 1 :: self.count])


@dataclass(frozen=True)
class RunState:
    """The state of a run: waiting, running, done or failed; its step, when it was finished, why it failed."""

    point: Point
    state: str
    step: int = 0
    reason: str = ""
    finished: float = 0.0
    host: str = ""
    pace: float = 0.0


@dataclass
class Progress:
    """The progress of a study; `earlier` counts the runs finished by earlier calls, everything else is of this call.

    `running` has the step of every running run when this call started. `steps_wanted` is what the settings of the runs
    allow, of which finished runs left `steps_spared`, because they had settled before.
    """

    total: int
    done: int = 0
    earlier: int = 0
    failed: int = 0
    seconds: float = 0.0
    steps: int = 0
    steps_wanted: int = 0
    steps_spared: int = 0
    running: dict[Path, int] = field(default_factory=dict)
    latest: Event | None = None

    def steps_taken(self) -> int:
        """Return the training steps of this call so far; those of running runs are read from their checkpoints."""
        return self.steps + sum(
            max(0, checkpoint_step(directory) - start) for directory, start in tuple(self.running.items())
        )

    def steps_left(self, taken: int) -> float:
        """Return the expected number of further steps, if the other runs end as early as the finished ones.

        >>> Progress(2, done=1, steps=10, steps_wanted=200, steps_spared=90).steps_left(10)
        10.0
        """
        # Finished runs that had only to be evaluated tell nothing about the others.
        share = self.steps / (self.steps + self.steps_spared) if self.steps else 1.0
        return (self.steps_wanted - self.steps_spared - taken) * share


def conduct(
    study: Study,
    root: str | Path,
    *,
    executor: str | Mapping[str, Any] = "local",
    retry: bool = False,
    shard: Shard | None = None,
    command: str = "",
) -> Iterator[Progress]:
    """Execute the remaining runs of a study in `root`, or of a share of it, and yield the progress after every event.

    Runs that failed before are skipped unless `retry`. Only a full disk stops the other runs.
    """
    # Wrong use is reported before anything is written, even if nothing is left to do.
    registry.complete("executor", executor)
    if not is_address(root):
        for run in study.runs:
            directory_of(run, root)
    check_auxiliary(study.runs)
    enrol(study, root, executor=executor)
    ours = _written(root)
    points = study.points if shard is None else shard.of(study.points)
    progress = Progress(total=len(points))
    left: dict[str, Run] = {}
    begun: dict[str, int] = {}
    for state in run_states(points, root):
        if state.state == "done":
            progress.earlier += 1
        elif state.state == "failed" and not retry:
            progress.failed += 1
        else:
            # A failure found after this point is that of another command in the same attempt.
            if state.state == "failed":
                remove(root, f"{state.point.run.name}/{FAILED}")
            left[state.point.run.name], begun[state.point.run.name] = state.point.run, state.step
    progress.steps_wanted = sum(run.training.steps - begun[name] for name, run in left.items())
    yield progress
    if not left:
        return
    # A worker on another machine, or of Ray, does not have our working directory.
    place = str(root) if is_address(root) else str(Path(root).resolve())
    try:
        for event in registry.build("executor", executor, list(left.values()), place, command):
            _note(progress, event, Path(place) / event.run.name, begun[event.run.name])
            # Another command on the same folder removes those of our runs that had not started yet.
            if event.state in ("done", "failed") and _written(root) != ours:
                enrol(study, root, executor=executor)
                ours = _written(root)
            yield progress
    finally:
        enrol(study, root, executor=executor)


def _note(progress: Progress, event: Event, directory: Path, start: int) -> None:
    progress.latest = event
    if event.state == "started":
        progress.running[directory] = start
        return
    progress.running.pop(directory, None)
    if event.state == "done":
        progress.done += 1
        allowed = event.run.training.steps - start
        taken = min(allowed, max(0, event.steps - start)) if event.steps else allowed
        progress.steps += taken
        progress.steps_spared += allowed - taken
        progress.seconds += event.seconds
    elif event.state == "failed":
        progress.failed += 1
        progress.steps_wanted -= event.run.training.steps - start


def enrol(
    study: Study,
    root: str | Path,
    *,
    executor: str | Mapping[str, Any] | None = None,
    models: str | Path | None = None,
) -> None:
    """Write the list of runs of a study to its folder, with the claims to check and the executor.

    `models` is the folder of the trained models, if the runs are not trained here.

    Runs of earlier calls stay in the list if they were started and no run of this call has their labels; others
    are removed, so that a study whose file or settings have changed has its current runs, each once. The folder
    of another study or another scale is refused, because the numbers of both would be averaged.
    """
    if is_address(root):
        with claimed(str(root)) as claim:
            text = read_text(str(root), FILE)
            known = {} if text is None else _parsed(text, root)
            record = json.dumps(_record(study, known, root, executor, models))
            claim.check()
            write_text(str(root), FILE, record)
        return
    root = Path(root)
    root.mkdir(parents=True, exist_ok=True)
    with locked(root, patience=30), naming_full_disk(root), replacing(root / FILE) as temporary:
        known = _read(root) if (root / FILE).exists() else {}
        temporary.write_text(json.dumps(_record(study, known, root, executor, models)), encoding="utf-8")


def read_study(root: str | Path) -> Study:
    """Read the study of a folder or address; code that it names is refused (`registry.refuse_code`)."""
    known = _read(root)
    where = f"{FILE} of {root}"
    registry.refuse_code(known["claims"], where)
    runs = zip(known["runs"].values(), _runs(known, where), strict=True)
    return Study(
        name=known["name"],
        scale=known["scale"],
        points=tuple(Point(one["labels"], run) for one, run in runs),
        about=known["about"],
        references=tuple(known["references"]),
        rule=known["rule"],
        claims=tuple(known["claims"]),
    )


def _runs(known: Mapping[str, Any], where: str) -> Iterator[Run]:
    """Yield the runs of a study's record; runs that differ only in the seed are checked once."""
    checked: dict[str, Run] = {}
    for one in known["runs"].values():
        config, seed = one["config"], one["config"].get("seed")
        if type(seed) is not int or seed < 0:
            registry.refuse_code(config, where)
            yield Run.from_config(config)
            continue
        text = json.dumps({**config, "seed": 0})
        if text not in checked:
            registry.refuse_code(config, where)
            checked[text] = Run.from_config({**config, "seed": 0})
        yield checked[text].with_seed(seed)


def read_models(root: str | Path) -> str | None:
    """Return the folder or list of trained models measured in a folder, or None if its runs are trained here."""
    models = _read(root)["models"]
    return None if models is None else str(models)


def read_executor(root: str | Path) -> dict[str, Any]:
    """Return the executor last used for a folder or address, without the address of its cluster.

    An address in an untrusted file could make this machine connect to a hostile cluster, and a
    ``runtime_env`` could make its nodes install and run any code.
    """
    chosen = _read(root)["executor"] or "local"
    spec = {"name": chosen} if isinstance(chosen, str) else dict(chosen)
    if not isinstance(spec.get("name"), str):
        raise DataError(f"expected the name of an executor in {FILE} of {root}, got {spec!r}")
    registry.refuse_code(spec["name"], f"study.json of {root}")
    return _without_address(spec)


def run_states(points: Iterable[Point], root: str | Path) -> Iterator[RunState]:
    """Return the states of runs from their directories, which are the only record.

    Runs in progress on other machines, and at an address, are known by their leases.
    """
    with at_hand(root, only=("done.json", FAILED, LEASE)) as folder:
        for point in points:
            directory = folder / point.run.name
            if (finished := finished_at(point.run, folder)) is not None:
                yield RunState(point, "done", point.run.training.steps, finished=finished)
            elif (why := reason(directory)) is not None:
                yield RunState(point, "failed", checkpoint_step(directory), why)
            else:
                yield _running_or_waiting(point, directory)


def _running_or_waiting(point: Point, directory: Path) -> RunState:
    step, lease = checkpoint_step(directory), read_lease(directory.parent, directory.name)
    here = lease is not None and lease.host == socket.gethostname()
    # On this machine the lock of the folder is reliable; for other machines and addresses there is only the lease.
    running = held(directory) or (
        lease is not None and lease.is_fresh() and (not here or not (directory / LOCK).exists())
    )
    if not running or lease is None:
        return RunState(point, "running" if running else "waiting", step)
    return RunState(point, "running", max(step, lease.step), host=lease.host, pace=lease.pace)


def _record(study: Study, known: Mapping[str, Any], root: str | Path, executor: Any, models: Any) -> dict[str, Any]:
    if known and (known["name"], known["scale"]) != (study.name, study.scale):
        raise ConfigError(
            f"expected {root} to be new or of {study.title}, but it holds {titled(known['name'], known['scale'])}; "
            "give another --out"
        )
    own = {point.run.name: {"labels": dict(point.labels), "config": point.run.to_config()} for point in study.points}
    taken = {_key(one["labels"]) for one in own.values()}
    begun = listed(root)
    earlier = {
        name: one
        for name, one in known.get("runs", {}).items()
        if name in own or (name in begun and _key(one["labels"]) not in taken)
    }
    return {
        "version": VERSION,
        "name": study.name,
        "scale": study.scale,
        "about": study.about,
        "references": list(study.references),
        "rule": study.rule,
        "claims": list(study.claims),
        "executor": _without_address(executor) if isinstance(executor, Mapping) else executor,
        "models": None if models is None else str(models) if is_address(models) else str(Path(models).resolve()),
        "runs": {**earlier, **own},
    }


def _without_address(executor: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in executor.items() if key not in ("address", "runtime_env")}


def _key(labels: Mapping[str, Any]) -> str:
    return json.dumps(dict(labels), sort_keys=True)


def _written(root: str | Path) -> int:
    """Return when the list of runs was last written; constant for an address, where the request is expensive."""
    return 0 if is_address(root) else (Path(root) / FILE).stat().st_mtime_ns


def _read(root: str | Path) -> dict[str, Any]:
    text = read_text(root, FILE)
    if text is None:
        here = is_address(root) or Path(root).exists()
        lack = f"{root} has no {FILE}" if here else f"{root} does not exist"
        raise MissingFileError(
            f"expected the folder of a study, but {lack}; start one with polarised.study.run(NAME, out=...)"
        )
    return _parsed(text, root)


def _parsed(text: str, root: str | Path) -> dict[str, Any]:
    """Return the checked record of a study; fields missing in version one are filled in."""
    where = f"{FILE} of {root}"
    known = parse_json(text, where=where)
    if not isinstance(known, dict) or not isinstance(known.get("runs"), dict):
        raise DataError(f"expected a study's list of runs in {where}, but it has none")
    version = known.get("version", 1)
    if version not in (1, VERSION):
        raise DataError(
            f"expected a study of version 1 to {VERSION} in {where}, but it is of version {version!r}; upgrade "
            "polarised"
        )
    wanted: dict[str, tuple[Any, str, Any]] = {
        "name": (str, "a name", None),
        "scale": (str | None, "a scale or nothing", None),
        "about": (str, "a sentence", ""),
        "references": (list, "a list", []),
        "rule": (str, "the name of a rule", "relative"),
        "claims": (list, "a list", []),
        "executor": (str | dict | None, "a name or its settings", None),
        "models": (str | None, "a folder or nothing", None),
    }
    for key, (kind, words, default) in wanted.items():
        known.setdefault(key, default)
        if not isinstance(known[key], kind):
            raise DataError(f"expected {words} as {key!r} in {where}, got {known[key]!r}; {REPAIR.format(root)}")
    if known["rule"] not in RULES:
        raise DataError(f"expected one of {', '.join(RULES)} as 'rule' in {where}, got {known['rule']!r}")
    for name, one in known["runs"].items():
        fits = isinstance(one, dict) and isinstance(one.get("config"), dict)
        if not fits or not are_labels(one.get("labels")):
            raise DataError(f"expected labels and config of the run {name!r} in {where}; {REPAIR.format(root)}")
    return known


def are_labels(labels: object) -> bool:
    """Return whether these are what a table can hold: texts and numbers by their names, and the seed a whole number.

    >>> are_labels({"method": "VAE", "strength": 2.5, "seed": 3}), are_labels({"seed": "three"})
    (True, False)
    """
    if not isinstance(labels, dict) or not all(isinstance(value, PLAIN) for value in labels.values()):
        return False
    numbers = [value for value in labels.values() if isinstance(value, int)]
    seed = labels.get("seed")
    return all(abs(number) < LARGEST_NUMBER for number in numbers) and (seed is None or isinstance(seed, int))


def follow(progress: Iterable[Progress], *, quiet: bool = False) -> Progress | None:
    """Execute a study and show its progress; return the final progress (None: there was nothing to do)."""
    screen = console(stderr=True, quiet=quiet)
    if quiet or not sys.stderr.isatty():
        return _plainly(progress, screen)
    from rich.live import Live

    began, last = time.monotonic(), None

    def line() -> str:
        return _line(last, time.monotonic() - began, screen.width)

    with Live(console=screen, refresh_per_second=4, get_renderable=line):
        for last in progress:
            _tell_failure(last, screen)
    return last


def duration(seconds: float) -> str:
    """Format a duration.

    >>> duration(42), duration(4000), duration(200_000)
    ('42 s', '1 h 06 min', '2.3 days')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    if seconds < 86_400:
        return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60):02d} min"
    return f"{seconds / 86_400:.1f} days"


def pace(finished: Sequence[float], left: int, now: float) -> str:
    """Return how many runs were finished in the last hour, and an estimate of the remaining time.

    >>> pace([0.0, 600.0, 1200.0], left=6, now=1800.0)
    '3 in the last 30 min: about 1 h 00 min left'
    """
    # If the clock was set back, finished runs may be in the future: they are ignored.
    recent = [moment for moment in finished if 0 <= now - moment < 3600]
    if not recent or not left:
        return ""
    span = now - min(recent)
    return f"{len(recent)} in the last {duration(span)}: about {duration(left * span / len(recent))} left"


def _plainly(progress: Iterable[Progress], screen: "Console") -> Progress | None:
    last = None
    for last in progress:
        _tell_failure(last, screen)
    return last


def _tell_failure(progress: Progress, screen: "Console") -> None:
    from rich.markup import escape

    event = progress.latest
    if event is None:
        return
    run = escape(printable(event.run.name))
    where = f" on {escape(printable(event.host))}" if event.host else ""
    # Of a run that waits for another node, the node was named already.
    if event.state in ("failed", "lost"):
        # A reason may be a message of any library, with brackets.
        screen.print(f"[red]{event.state}[/] {run}{where}: {escape(printable(event.reason))}", soft_wrap=True)
    elif event.state == "started" and event.host:
        again = f", attempt {event.attempt}" if event.attempt > 1 else ""
        screen.print(f"started {run}{where}{again}", soft_wrap=True)


def _line(progress: Progress | None, elapsed: float, width: int) -> str:
    """Return the progress of a study in a line of `width` characters; the least important parts are dropped."""
    from rich.text import Text

    if progress is None:
        return "checking which runs are done …"
    # (importance, text), in the order of the line.
    parts = [(9, f"[bold]{progress.done + progress.earlier}[/] of {progress.total} done")]
    if progress.running:
        parts.append((5, f"{len(progress.running)} running"))
    parts.append((8, f"[red]{progress.failed} failed[/]") if progress.failed else (4, "none failed"))
    if progress.done:
        parts.append((2, f"{progress.seconds / progress.done:.0f} s per run"))
        parts.append((1, f"{3600 * progress.done / elapsed:.0f} runs per hour"))
    steps = progress.steps_taken()
    if steps:
        parts.append((3, f"{steps / elapsed:.0f} steps/s"))
    left = progress.steps_left(steps)
    if steps and left > 0:
        parts.append((7, f"{duration(left * elapsed / steps)} left"))
    parts.append((6, f"{duration(elapsed)} so far"))
    while len(parts) > 1 and Text.from_markup(" · ".join(words for _, words in parts)).cell_len > width:
        parts.remove(min(parts))
    return " · ".join(words for _, words in parts)
