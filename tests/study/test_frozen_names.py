"""Study files of the first version expand to the run names they had: published results are found by these names."""

import hashlib
import json
from pathlib import Path

import pytest

from polarised.study.grid import load_study, study_scales

FROZEN = Path(__file__).parent / "frozen"
NAMES = json.loads((FROZEN / "run_names.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("study", "scale"), [(study, scale) for study in NAMES for scale in NAMES[study]])
def test_runs_keep_their_names(study: str, scale: str) -> None:
    names = [run.name for run in load_study(FROZEN / f"{study}.yaml", scale=scale).runs]
    digest = hashlib.sha256("\n".join(names).encode()).hexdigest()
    assert {"runs": len(names), "first": names[0], "last": names[-1], "sha256": digest} == NAMES[study][scale]


def test_every_frozen_study_is_tested() -> None:
    assert {file.stem: set(study_scales(file)) for file in FROZEN.glob("*.yaml")} == {
        study: set(scales) for study, scales in NAMES.items()
    }
