"""The provenance of a target is part of its diagnosis."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polarised.diagnosis import diagnose
from polarised.errors import ConfigError
from polarised.regime import Encodings


@pytest.fixture
def codes(tmp_path: Path) -> Path:
    draw = np.random.default_rng(0)
    for name in ("first", "second"):
        np.savez(tmp_path / f"{name}.npz", mean=draw.normal(size=(50, 2)), variance=np.full((50, 2), 0.01))
    return tmp_path


def test_diagnoses_of_files_record_their_provenance(codes: Path) -> None:
    both = diagnose([codes / "first.npz", codes / "second.npz"], rule="standard", alpha=0.2)
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
    with pytest.raises(ConfigError, match="diagnose each alone"):
        diagnose([codes / "run", codes / "first.npz"])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    draw = np.random.default_rng(0)
    Encodings(draw.normal(size=(50, 2)), variance=np.full((50, 2), 0.01)).save(folder / "encodings.npz")
    (folder / "config.yaml").write_text("seed: 0\n")
    return folder


@pytest.mark.parametrize(
    ("kind", "setting"),
    [
        ("arrays", {"examples": 100}),
        ("arrays", {"data": "dsprites"}),
        ("arrays", {"address": "auto"}),
        ("run", {"examples": 100}),
        ("run", {"seed": 0}),
        ("run", {"scale_kind": "std"}),
        ("run", {"executor": "ray"}),
        ("run", {"data": "dsprites", "executor": "ray"}),
    ],
)
def test_a_setting_without_effect_is_refused(codes: Path, run: Path, kind: str, setting: dict[str, Any]) -> None:
    target = run if kind == "run" else codes / "first.npz"
    with pytest.raises(ConfigError, match=list(setting)[-1]):
        diagnose([target], **setting)


def test_settings_with_an_effect_are_accepted(codes: Path, run: Path) -> None:
    assert diagnose([codes / "first.npz"], seed=3, executor="local").provenance["settings"]["seed"] == 3
    assert diagnose([run], alpha=0.2, rule="standard", executor="local").regime.alpha == 0.2
