"""How long `study status` and `study collect` take for many finished runs: CPU time and wall-clock time.

The load average is printed because wall-clock time means little on a busy machine.

python benchmarks/study_size.py [runs]: one run is executed, the others are copies of its files.
"""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from polarised.study.grid import load_study
from polarised.study.runner import enrol
from polarised.study.stages import execute

BASE = {
    "dataset": {"name": "dsprites", "size": 32},
    "model": {"architecture": {"name": "mlp", "widths": [8]}, "latents": 10},
    "objective": {"name": "BetaVAE"},
    "training": {"steps": 4, "batch_size": 8},
    "evaluation": {"examples": 100, "downstream": True, "downstream_strengths": [1.0]},
}


def made(home: Path, runs: int) -> Path:
    file = home / "many.yaml"
    betas = [1.0, 2.0, 4.0, 8.0]
    axes = {"strength": {"objective.beta": betas}, "seed": runs // len(betas)}
    file.write_text(yaml.safe_dump({"name": "many", "base": BASE, "axes": axes}))
    study, root = load_study(file), home / "study"
    enrol(study, root)
    first = execute(study.runs[0], root)
    for run in study.runs[1:]:
        shutil.copytree(first, root / run.name, copy_function=os.link)
    return root


def measured(*command: str) -> tuple[float, float, float]:
    began = time.monotonic()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = "from polarised.cli import main; main()"
    subprocess.run([sys.executable, "-c", code, *command], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, time.monotonic() - began, after.ru_maxrss / 1024


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as home:
        root = str(made(Path(home), runs))
        print("| command | runs | CPU seconds | seconds | load | peak memory (MiB) |\n|---|---|---|---|---|---|")
        for command in ("status", "collect"):
            seconds, wall, memory = measured("study", command, root)
            load = os.getloadavg()[0]
            print(
                f"| study {command} | {runs:,} | {seconds:.1f} | {wall:.1f} | {load:.1f} | {memory:,.0f} |", flush=True
            )


if __name__ == "__main__":
    main()
