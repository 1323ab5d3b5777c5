"""Every parameter of every public name is explained, and a diagnosis of arrays needs no package `study`."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "architecture.py"


@pytest.fixture(scope="module")
def architecture() -> ModuleType:
    spec = importlib.util.spec_from_file_location("architecture", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_public_parameter_is_explained(architecture: ModuleType) -> None:
    total, explained, missing = architecture.parameters()
    assert total > 800
    assert (explained, missing) == (total, [])


def test_a_parameter_without_words_is_found(architecture: ModuleType) -> None:
    def half(told: int, untold: int) -> None:
        """Do nothing.

        Args:
            told: It is.
        """

    assert architecture.undocumented(half) == (["told", "untold"], ["untold"])


def test_a_diagnosis_of_arrays_does_without_studies() -> None:
    told = subprocess.run([sys.executable, str(SCRIPT), "diagnosis"], capture_output=True, text=True, check=True)
    assert json.loads(told.stdout.splitlines()[-1])["study"] == []
