"""Runs killed repeatedly at random moments, during training, snapshots and measuring.

python -m faults.campaign FOLDER KILLS SEED kills so often and prints as JSON how many runs that took, in which stages
it struck, and which files differ from those of a calm run. The libraries are loaded once: every attempt is a fork,
killed by SIGKILL as a machine kills.
"""

import json
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

CONFIG: dict[str, Any] = {
    "dataset": {"name": "dsprites", "size": 32},
    "model": {"architecture": {"name": "mlp", "widths": [8]}, "latents": 3},
    "objective": {"name": "study.workshop:Watched", "sleep": 0.003},
    "training": {"steps": 60, "batch_size": 8, "checkpoint_every": 4, "log_every": 5},
    "snapshots": {"every": 6, "examples": 40},
    "evaluation": {"examples": 60, "downstream": True, "downstream_strengths": [1.0]},
}
# What says when and how long, not what came out.
CLOCKED = {"done.json", "training_time.json", ".lock"}


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name not in CLOCKED}


def stage(directory: Path) -> str:
    """The progress of a run when it was killed."""
    if (directory / "model.safetensors").exists():
        return "measuring"
    return "training" if (directory / "checkpoint.safetensors").exists() else "beginning"


def begun(config: dict[str, Any], root: Path) -> int:
    """Start a run in a fork; only there may libraries compute, since their threads do not survive a fork."""
    if child := os.fork():
        return child
    from polarised.study.config import Run
    from polarised.study.stages import execute

    execute(Run.from_config(config), root)
    os._exit(0)


def main(root: Path, kills: int, seed: int) -> None:
    root.mkdir(parents=True, exist_ok=True)
    import polarised.adapters
    import polarised.training  # noqa: F401
    from polarised.study.config import Run

    rng, struck, runs = np.random.default_rng(seed), Counter[str](), 0
    differing: dict[str, list[str]] = {}
    while struck.total() < kills:
        notes = root / f"notes-{runs}.txt"
        config = {**CONFIG, "seed": runs, "objective": {**CONFIG["objective"], "notes": str(notes)}}
        name = Run.from_config(config).name
        runs += 1
        assert os.waitpid(begun(config, root / "calm"), 0)[1] == 0
        directory, ended = root / "killed" / name, False
        while not ended:
            child = begun(config, root / "killed")
            # After some more steps, or while it is measured; then at any moment.
            steps = len(notes.read_text().splitlines()) + int(rng.integers(0, 15))
            # After training it is spared half of the time, so that most kills are during training.
            spared = (directory / "model.safetensors").exists() and rng.random() < 0.5
            while not (ended := os.waitpid(child, os.WNOHANG)[0] == child):
                reached = len(notes.read_text().splitlines()) >= steps
                trained = (directory / "model.safetensors").exists()
                if struck.total() < kills and not spared and (reached or trained):
                    break
                time.sleep(0.001)
            if not ended:
                time.sleep(float(rng.uniform(0.0, 0.05)))
                struck[stage(directory)] += 1
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
        calm, found = files(root / "calm" / name), files(root / "killed" / name)
        if names := sorted(name for name in calm.keys() | found.keys() if calm.get(name) != found.get(name)):
            differing[f"seed {runs - 1}"] = names
    print(json.dumps({"runs": runs, "struck": struck, "differing": differing}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
