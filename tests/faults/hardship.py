"""Commands in places where writing fails: a full disk, a read-only mount, a folder of another user.

python -m faults.hardship KIND FOLDER prints for each command its exit code and what it said, as a line of JSON. It is a
process of its own, since limits and users are those of a whole process.
"""

import contextlib
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import yaml

NOBODY = 65534
CONFIG: dict[str, Any] = {
    "dataset": {"name": "dsprites", "size": 32},
    "model": {"architecture": {"name": "mlp", "widths": [8]}, "latents": 3},
    "objective": {"name": "BetaVAE"},
    "training": {"steps": 4, "batch_size": 8, "checkpoint_every": 2},
    "evaluation": {"examples": 60, "downstream": False},
}


def prepared(home: Path) -> Path:
    """Write a study of one finished run, arrays and a config into a folder."""
    from polarised.study.grid import load_study
    from polarised.study.runner import enrol
    from polarised.study.stages import execute

    (home / "run.yaml").write_text(yaml.safe_dump(CONFIG))
    (home / "tiny.yaml").write_text(yaml.safe_dump({"name": "tiny", "base": CONFIG, "axes": {"seed": 1}}))
    generator = np.random.default_rng(0)
    np.savez(home / "codes.npz", mean=generator.normal(size=(60, 3)), variance=np.full((60, 3), [0.01, 0.02, 1.0]))
    study = load_study(home / "tiny.yaml")
    enrol(study, home / "study")
    execute(study.runs[0], home / "study")
    return next(path for path in (home / "study").iterdir() if path.is_dir())


def writers(home: Path, run: Path, out: Path) -> list[list[str]]:
    """Every command that writes, with what it writes inside a folder."""
    return [
        ["diagnose", str(home / "codes.npz"), "--html", str(out / "page.html")],
        ["diagnose", str(run)],
        ["report", str(home / "codes.npz"), "--out", str(out / "page.html")],
        ["prune", str(run), "--keep", "0,1", "--examples", "20", "--out", str(out / "small.safetensors")],
        ["datasets", "show", "pinwheel", "-o", str(out / "sheet.png")],
        ["forecast", "pinwheel", "--plot", str(out / "curve.png")],
        ["train", str(home / "run.yaml"), "seed=7", "--out", str(out)],
        ["study", "collect", str(home / "study")],
    ]


def readers(home: Path, run: Path) -> list[list[str]]:
    """Commands that only read."""
    return [
        ["study", "status", str(home / "study")],
        ["study", "status", str(home / "study"), "--json"],
        ["study", "doctor", str(home / "study")],
        ["cite", str(run)],
        ["diagnose", str(run), "--no-page"],
        ["evaluate", str(home / "codes.npz"), "--metrics", "total_correlation"],
    ]


@contextlib.contextmanager
def full(_home: Path) -> Iterator[None]:
    """Limit files to a kilobyte."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@contextlib.contextmanager
def readonly(home: Path) -> Iterator[None]:
    """Mount the folder read-only."""
    subprocess.run(["mount", "--bind", str(home), str(home)], check=True, capture_output=True)
    subprocess.run(["mount", "-o", "remount,ro,bind", str(home)], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(home)], check=True, capture_output=True)


@contextlib.contextmanager
def stranger(home: Path) -> Iterator[None]:
    """The folder is another user's, who lets us read it."""
    for path in (home, *home.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def main(kind: str, home: Path) -> None:
    from typer.testing import CliRunner

    from polarised.cli import app, failures

    run = prepared(home)
    runner = CliRunner()
    unforeseen: list[str] = []
    failures._write_report = lambda error: unforeseen.append(repr(error))  # type: ignore[assignment, func-returns-value]
    # Run once with write access, so that every library is loaded before the user changes.
    (home / "out").mkdir()
    looked = {" ".join(command): runner.invoke(app, command).exit_code for command in readers(home, run)}
    for command in writers(home, run, home / "out"):
        ended = runner.invoke(app, command)
        assert ended.exit_code == 0, (command, ended.output)
    before = {path: path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file()}
    with {"full": full, "readonly": readonly, "stranger": stranger}[kind](home):
        for command in [*writers(home, run, home / "out"), *readers(home, run)]:
            if "seed=7" in command:
                command[command.index("seed=7")] = "seed=8"
            ended = runner.invoke(app, command)
            told = {"command": command, "code": ended.exit_code, "said": ended.stderr, "unforeseen": unforeseen.copy()}
            told["looks"] = " ".join(command) in looked
            print(json.dumps(told), flush=True)
            unforeseen.clear()
    after = {path: path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file()}
    changed = [str(path.relative_to(home)) for path in before if after.get(path) != before[path]]
    print(json.dumps({"changed": changed, "new": [str(p.relative_to(home)) for p in after if p not in before]}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]).resolve())
