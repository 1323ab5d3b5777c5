"""A study from beginning to end: what is left to do, an executor that does it, and what became of every run."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from polarised import catalogue
from polarised.errors import DataError
from polarised.files import replacing
from polarised.study.config import Run
from polarised.study.executors import Event
from polarised.study.failures import naming_full_disk, reason
from polarised.study.grid import Point, Study
from polarised.study.lock import held, locked
from polarised.study.places import is_address, write_text
from polarised.study.run import finished_at, is_done

__all__ = ["Progress", "RunState", "conduct", "enrol", "read_study", "run_states"]

FILE = "study.json"


@dataclass(frozen=True)
class RunState:
    """Where a run stands: waiting, running, done or failed; the step it reached, when it was done, why it failed."""

    point: Point
    state: str
    step: int = 0
    reason: str = ""
    finished: float = 0.0


@dataclass
class Progress:
    """What a study has come to so far; `earlier` runs were done by earlier calls, all else is of this one."""

    total: int
    done: int = 0
    earlier: int = 0
    failed: int = 0
    seconds: float = 0.0
    steps: int = 0
    steps_wanted: int = 0
    running: dict[Path, int] = field(default_factory=dict)
    latest: Event | None = None

    def steps_taken(self) -> int:
        """Return the training steps of this call so far, those of running runs as far as their checkpoints tell."""
        return self.steps + sum(max(0, _step(directory) - start) for directory, start in tuple(self.running.items()))


def conduct(
    study: Study,
    root: str | Path,
    *,
    executor: str | Mapping[str, Any] = "local",
    retry: bool = False,
    command: str = "",
) -> Iterator[Progress]:
    """Do what is not done of a study in `root`, yielding how it stands after every event.

    Runs that failed before are left alone unless `retry`. Nothing stops the rest but a full disk.
    """
    enrol(study, root)
    progress = Progress(total=len(study.points))
    left: list[Run] = []
    for point in study.points:
        if is_address(root):
            left.append(point.run)
        elif is_done(point.run, root):
            progress.earlier += 1
        elif reason(Path(root) / point.run.name) and not retry:
            progress.failed += 1
        else:
            left.append(point.run)
    progress.steps_wanted = sum(run.training.steps for run in left)
    yield progress
    if not left:
        return
    # A worker on another machine, or Ray's, does not share our working directory.
    place = str(root) if is_address(root) else str(Path(root).resolve())
    for event in catalogue.build("polarised.study.executors", executor, left, place, command):
        progress.latest = event
        directory = Path(place) / event.run.name
        if event.state == "started":
            progress.running[directory] = _step(directory)
            yield progress
            continue
        start = progress.running.pop(directory, 0)
        if event.state == "done":
            progress.done += 1
            progress.steps += event.run.training.steps - start
            progress.seconds += event.seconds
        elif event.state == "failed":
            progress.failed += 1
        yield progress


def enrol(study: Study, root: str | Path) -> None:
    """Write down the runs of a study in its folder, beside those of earlier calls, with the claims to check."""
    if is_address(root):
        write_text(str(root), FILE, json.dumps(_record(study, {})))
        return
    root = Path(root)
    root.mkdir(parents=True, exist_ok=True)
    with locked(root, patience=30), naming_full_disk(root), replacing(root / FILE) as temporary:
        known = _read(root)["runs"] if (root / FILE).exists() else {}
        temporary.write_text(json.dumps(_record(study, known)), encoding="utf-8")


def read_study(root: str | Path) -> Study:
    """Return the study a folder was enrolled with, runs of every call included."""
    known = _read(Path(root))
    return Study(
        name=known["name"],
        scale=known["scale"],
        points=tuple(Point(one["labels"], Run.from_config(one["config"])) for one in known["runs"].values()),
        about=known["about"],
        references=tuple(known["references"]),
        rule=known["rule"],
        claims=tuple(known["claims"]),
    )


def run_states(points: Iterable[Point], root: str | Path) -> Iterator[RunState]:
    """Look at the directories of runs: nothing is kept anywhere else."""
    for point in points:
        directory = Path(root) / point.run.name
        if (finished := finished_at(point.run, root)) is not None:
            yield RunState(point, "done", point.run.training.steps, finished=finished)
        elif (why := reason(directory)) is not None:
            yield RunState(point, "failed", _step(directory), why)
        else:
            yield RunState(point, "running" if held(directory) else "waiting", _step(directory))


def _record(study: Study, known: Mapping[str, Any]) -> dict[str, Any]:
    own = {point.run.name: {"labels": dict(point.labels), "config": point.run.to_config()} for point in study.points}
    return {
        "name": study.name,
        "scale": study.scale,
        "about": study.about,
        "references": list(study.references),
        "rule": study.rule,
        "claims": list(study.claims),
        "runs": {**known, **own},
    }


def _read(root: Path) -> dict[str, Any]:
    path = root / FILE
    try:
        known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(
            f"expected the folder of a study, {root} has no {FILE}; start one with polarised study NAME --out {root}"
        ) from None
    except ValueError as error:
        raise DataError(f"expected a study's list of runs, could not read {path}: {error}") from error
    return known


def _step(directory: Path) -> int:
    """Return the step of the last checkpoint: the header of the file is enough."""
    path = directory / "checkpoint.safetensors"
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(size))
        return int(json.loads(header["__metadata__"]["polarised"])["step"])
    except (OSError, ValueError, KeyError):
        return 0
