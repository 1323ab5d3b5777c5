"""A small study for the tests, with an objective that logs its steps, can be slow and can fail."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor

from polarised.objectives import Objective, Step
from polarised.objectives.terms import distortion, rate


@dataclass(frozen=True, kw_only=True)
class Watched(Objective):
    """A plain VAE that logs every step to a file, sleeps, and can diverge or use much memory at a step."""

    tag: int = 0
    notes: str = ""
    sleep: float = 0.0
    diverge_at: int = 1_000_000
    grow_at: int = 1_000_000

    def __call__(self, step: Step) -> dict[str, Tensor]:
        if self.notes:
            with Path(self.notes).open("a") as file:
                file.write(f"{self.tag} {step.number} {os.getpid()}\n")
        time.sleep(self.sleep)
        if step.number == self.grow_at:
            # In parts, up to twice the room that a test leaves: what others on the machine take meanwhile varies.
            hoard = []
            for _ in range(32):
                hoard.append(torch.ones(1 << 26))
                time.sleep(0.1)
            time.sleep(60)
        broken = torch.tensor(float("nan") if step.number == self.diverge_at else 0.0)
        return {"distortion": distortion(step), "rate": rate(step), "broken": broken}


def pondering(
    _vae: Any, _dataset: Any, _encodings: Any, _seed: int, *, notes: str, seconds: float
) -> list[tuple[str, None, str, float]]:
    """A measure that takes its time, noting every twentieth of a second."""
    for tick in range(int(20 * seconds)):
        with Path(notes).open("a") as file:
            file.write(f"0 {tick} {os.getpid()}\n")
        time.sleep(0.05)
    return [("pondering", None, "full", 1.0)]


def pondered(path: Path, *, ticks: Path, steps: int, notes: Path, seconds: float) -> Path:
    """Write a study of one run whose measuring takes `seconds` and is noted in `ticks`."""
    config = study_config(runs=1, steps=steps, notes=str(notes))
    measure = {"name": "study.workshop:pondering", "notes": str(ticks), "seconds": seconds}
    config["base"]["evaluation"]["further"] = [measure]
    return write_study(path, config)


def study_config(*, runs: int = 2, steps: int = 12, **objective: Any) -> dict[str, Any]:
    """Settings of a study of `runs` tiny models."""
    return {
        "name": "tiny",
        "base": {
            "dataset": {"name": "dsprites", "size": 32},
            "model": {"architecture": {"name": "mlp", "widths": [8]}, "latents": 3},
            "objective": {"name": "study.workshop:Watched", **objective},
            "training": {"steps": steps, "batch_size": 8, "checkpoint_every": 5, "log_every": 5},
            "evaluation": {"examples": 60, "downstream": True, "downstream_strengths": [1.0]},
        },
        "axes": {"strength": {"objective.tag": list(range(runs))}},
    }


def write_study(path: Path, config: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path


def notes(path: Path) -> list[tuple[int, int]]:
    """Return (tag, step) of every step done."""
    return [(int(tag), int(step)) for tag, step, _ in map(str.split, path.read_text().splitlines())]


def until(condition: Callable[[], object], *, seconds: float = 300) -> None:
    """Wait until a condition is true; fail if it does not become true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def workers_of(parent: int) -> set[int]:
    """The worker processes of a process, as the system lists them."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                above = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                command = (entry / "cmdline").read_text()
            except OSError:
                continue
            if above == parent and "spawn_main" in command:
                found.add(int(entry.name))
    return found


def start(file: Path, root: Path | str, *more: str, **settings: str) -> "subprocess.Popen[bytes]":
    """Start a study from the command line as a process of its own; what it says goes to a file beside the study.

    `settings` are variables of its environment.
    """
    code = "from polarised.cli import main; main()"
    command = [sys.executable, "-c", code, "study", str(file), "--out", str(root), *more]
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "RAY_USAGE_STATS_ENABLED": "0", **settings}
    with (file.parent / "said.txt").open("a") as said:
        return subprocess.Popen(command, env=environment, stdout=said, stderr=said, cwd=file.parent)


def finish(process: "subprocess.Popen[bytes]", file: Path, *, code: int = 0) -> str:
    """Wait for a study to finish successfully; return its output."""
    process.wait(timeout=400)
    said = (file.parent / "said.txt").read_text()
    assert process.returncode == code, said
    return said
