"""Shells complete commands and options."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).parent / "polarised"


def run(**environment):
    return subprocess.run([PROGRAM], capture_output=True, text=True, check=False, env={**os.environ, **environment})


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_exists_for_every_shell(shell):
    told = run(_POLARISED_COMPLETE=f"source_{shell}")
    assert told.returncode == 0
    assert f"complete_{shell}" in told.stdout


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("polarised dia", ["diagnose"]),
        ("polarised study ver", ["verify"]),
        ("polarised diagnose --scale", ["--scale-kind"]),
    ],
)
def test_commands_and_options_are_completed(words, wanted):
    asked = {"_POLARISED_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    assert run(**asked).stdout.split() == wanted
