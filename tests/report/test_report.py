from dataclasses import replace
from pathlib import Path

import numpy as np
import polars
import pytest

from polarised.diagnosis import Diagnosis, Pictures, diagnose
from polarised.errors import DataError
from polarised.regime import Encodings
from polarised.report import write_report
from report.examples import VERDICTS


def test_a_page_is_one_small_file(diagnosis: Diagnosis, tmp_path: Path) -> None:
    path = write_report(diagnosis, tmp_path / "deep" / "page.html")
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert path.stat().st_size < 300_000
    assert [file.name for file in path.parent.iterdir()] == ["page.html"]
    assert diagnosis.report(tmp_path / "again.html").stat().st_size == path.stat().st_size


def test_the_same_diagnosis_writes_the_same_page(diagnosis: Diagnosis, tmp_path: Path) -> None:
    first, second = (write_report(diagnosis, tmp_path / name).read_bytes() for name in ("a.html", "b.html"))
    assert first == second


def test_colour_pictures_of_many_variables_stay_under_three_megabytes(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    encodings = Encodings(generator.normal(size=(300, 200)), variance=generator.uniform(0.1, 1, (300, 200)))
    noise = generator.random((200, 11, 3, 64, 64), dtype=np.float32).repeat(1, axis=0)
    pictures = Pictures(noise[0], noise[1], noise, np.linspace(-2, 2, 11))
    path = write_report(replace(diagnose(encodings), pictures=pictures), tmp_path / "page.html")
    assert path.stat().st_size < 3_000_000


@pytest.mark.parametrize("latents", [1, 2])
def test_the_smallest_codes_have_a_page(latents: int, tmp_path: Path) -> None:
    mean = np.zeros((3, latents))
    encodings = Encodings(mean, variance=np.zeros((3, latents)))
    assert write_report(diagnose(encodings), tmp_path / "page.html").exists()


def test_a_study_has_a_page(table: polars.DataFrame, tmp_path: Path) -> None:
    path = write_report(table, tmp_path / "study.html", title="Study", verdicts=VERDICTS)
    assert "refuted" in path.read_text(encoding="utf-8")
    assert "not trained here" not in path.read_text(encoding="utf-8")


def test_subjects_that_cannot_be_reported_are_an_error(
    diagnosis: Diagnosis, table: polars.DataFrame, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match="at least one diagnosis"):
        write_report([], tmp_path / "page.html")
    with pytest.raises(DataError, match="strength missing"):
        write_report(table.drop("strength"), tmp_path / "page.html")
    with pytest.raises(DataError, match="empty table"):
        write_report(table.clear(), tmp_path / "page.html")
    with pytest.raises(DataError, match="verdict"):
        write_report(table, tmp_path / "page.html", verdicts=[{"claim": "c", "verdict": "perhaps"}])
    broken = replace(diagnosis, pictures=Pictures(*(np.zeros((0, 1, 4, 4), np.float32),) * 3, np.zeros(0)))
    with pytest.raises(DataError, match="images"):
        write_report(broken, tmp_path / "page.html")
    assert not list(tmp_path.iterdir())
