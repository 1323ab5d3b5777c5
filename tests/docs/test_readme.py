"""Every block of README runs as printed: Python in a fresh interpreter, commands in a shell, all of it in a clone."""

import os
import re
import subprocess
import sys
import time
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)
# Commands that take seconds and need nothing but the package; the slow test runs all of them.
QUICK = ("polarised diagnose", "polarised forecast", "polarised cite")


def printed_comments(block):
    """What the comments of a block say that it prints: after a print, or alone in the line below."""
    return re.findall(r"^print\(.*headline\)(?:\s+|\n)# (.*)$", block, flags=re.MULTILINE)


def run(command, folder, **environment):
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder, env={**os.environ, **environment}
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("readme")


@pytest.fixture(scope="module")
def told(folder):
    """What the Python of README prints when it is typed into a fresh interpreter, block after block."""
    script = "\n".join(block for language, block in BLOCKS if language == "python")
    return run([sys.executable, "-W", "error", "-c", script], folder).splitlines()


def test_python_prints_what_its_comments_say(told, folder):
    said = [comment for language, block in BLOCKS if language == "python" for comment in printed_comments(block)]
    assert len(said) == 3
    assert [line for line in told if line in said] == said
    assert (folder / "page.html").stat().st_size > 10_000


def test_quick_commands_run(told, folder):
    lines = [line for language, block in BLOCKS if language == "sh" for line in block.splitlines()]
    quick = [line for line in lines if line.startswith(QUICK)]
    assert {line.split()[1] for line in quick} == {"diagnose", "forecast", "cite"}
    for line in quick:
        programs = Path(sys.executable).parent
        run(["bash", "-ec", line], folder, PATH=f"{programs}:{os.environ['PATH']}")


def test_readme_keeps_the_order_a_reader_needs():
    wanted = ["See it in two minutes", "Your model in one line", "What to do with a collapsed model"]
    assert re.findall(r"^## (.*)$", README, flags=re.MULTILINE)[:5] == [*wanted, "Reproduce a paper", "Cite"]
    assert "make demo" in README
    assert "make test" in README
    # The line for PyPI comes with the first upload.
    assert "pip install polarised" not in README


@pytest.mark.slow
def test_every_block_runs_in_a_fresh_clone_and_environment(tmp_path):
    """Word for word, in order, but for `make test`, which is this."""
    run(["git", "clone", "--quiet", str(ROOT), str(tmp_path / "polarised")], tmp_path)
    clone = tmp_path / "polarised"
    venv.create(tmp_path / "venv", with_pip=True)
    outside = {"PATH": f"{tmp_path / 'venv' / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": "", "VIRTUAL_ENV": ""}
    outside["PIP_CONSTRAINT"] = str(clone / "constraints.txt")
    python = []
    for language, block in BLOCKS:
        begun = time.monotonic()
        if language == "sh":
            commands = "\n".join(line for line in block.splitlines() if not line.startswith("make test"))
            run(["bash", "-ec", commands], clone, **outside)
        elif language == "python":
            python.append(block)
            run(["python", "-c", "\n".join(python)], clone, **outside)
        print(f"{time.monotonic() - begun:6.1f} s  {block.splitlines()[0]}")
