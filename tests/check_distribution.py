"""Build the wheel and the sdist, check their metadata, and use each in a fresh environment that has no torch."""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "polarised"
CONSTRAINTS = ["--constraint", str(ROOT / "constraints.txt")]
# What a reader of README does first, with data of the package itself: references, study files, the page's parts.
USE = """
import importlib.util, sys
import numpy as np
import polarised as po

assert importlib.util.find_spec("torch") is None
draw = np.random.default_rng(0)
mean, variance = draw.normal(size=(500, 2)) * [1.0, 0.05], np.tile([0.02, 0.99], (500, 1))
diagnosis = po.diagnose(po.Encodings(mean, variance=variance))
assert diagnosis.regime.types == ("active", "passive"), diagnosis.regime.types
diagnosis.report("page.html")
assert "be_more_active" in po.study.study_names()
assert "torch" not in sys.modules
np.savez("codes.npz", mean=mean, variance=variance)
"""


def run(*command: str | Path, **options: object) -> str:
    """What a command prints; its words where it fails."""
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    if done.returncode != 0:
        sys.exit(f"{' '.join(str(each) for each in command)}\n{done.stdout}\n{done.stderr}")
    return str(done.stdout)


def environment(folder: Path, *packages: str | Path) -> Path:
    """A fresh environment with some packages: the folder of its programs."""
    run(sys.executable, "-m", "venv", folder)
    run(
        folder / "bin" / "python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        *CONSTRAINTS,
        *packages,
    )
    return folder / "bin"


def missing(wheel: Path) -> list[str]:
    """Files of the package that the wheel lacks."""
    held = set(zipfile.ZipFile(wheel).namelist())
    files = [file for file in PACKAGE.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    return sorted(name for file in files if (name := str(file.relative_to(PACKAGE.parent))) not in held)


def check(distribution: Path, folder: Path) -> None:
    """Install a distribution into a fresh environment and use it there."""
    programs = environment(folder / "venv", distribution)
    run(programs / "python", "-c", USE, cwd=folder)
    told = run(programs / "polarised", "diagnose", "codes.npz", "--no-page", cwd=folder)
    assert "1 of 2 latent variables" in told, told
    asked = subprocess.run([programs / "polarised", "demo"], capture_output=True, text=True, check=False, cwd=folder)
    assert asked.returncode == 1, asked
    assert "pip install torch" in asked.stderr, asked.stderr


def main(out: Path = ROOT / "dist") -> None:
    """Build into a folder and check what was built."""
    with tempfile.TemporaryDirectory() as scratch:
        tools = environment(Path(scratch) / "tools", "build", "hatchling", "twine")
        run(tools / "python", "-m", "build", "--no-isolation", "--outdir", out, ROOT)
        (wheel,), (sdist,) = sorted(out.glob("*.whl")), sorted(out.glob("*.tar.gz"))
        print(run(tools / "twine", "check", "--strict", wheel, sdist).strip())
        if lacking := missing(wheel):
            sys.exit(f"the wheel lacks {', '.join(lacking)}")
        for distribution in (wheel, sdist):
            folder = Path(scratch) / distribution.suffix.lstrip(".")
            folder.mkdir()
            check(distribution, folder)
            print(f"{distribution.name}: installed and used in a fresh environment without torch")


if __name__ == "__main__":
    main(*[Path(each) for each in sys.argv[1:]])
