"""What is known of a target comes with its diagnosis."""

from pathlib import Path

import numpy as np
import pytest

from polarised.errors import ConfigError
from polarised.study.examine import diagnose_target


@pytest.fixture
def codes(tmp_path: Path) -> Path:
    draw = np.random.default_rng(0)
    for name in ("first", "second"):
        np.savez(tmp_path / f"{name}.npz", mean=draw.normal(size=(50, 2)), variance=np.full((50, 2), 0.01))
    return tmp_path


def test_files_say_how_their_numbers_were_made(codes: Path) -> None:
    both = diagnose_target([codes / "first.npz", codes / "second.npz"], rule="standard", alpha=0.2)
    made = both.provenance
    assert both.name == "2 files"
    assert both.regime.rows == 100
    assert "first.npz" in made["target"]
    assert "second.npz" in made["target"]
    assert made["settings"] == {"alpha": 0.2, "rule": "standard", "seed": 0}
    assert "Bonheme2023BeMoreActive" in made["citation"]
    assert made["versions"]["polarised"]
    assert not made["command"].startswith("/")


def test_several_models_are_refused(codes: Path) -> None:
    (codes / "run").mkdir()
    (codes / "run" / "config.yaml").write_text("seed: 0\n")
    with pytest.raises(ConfigError, match="diagnose them in turn"):
        diagnose_target([codes / "run", codes / "first.npz"])
