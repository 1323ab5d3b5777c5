"""Damaged folders are detected, intact ones are not reported, and repairs restore every byte."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from polarised.cli import app
from polarised.errors import ConfigError, DataError
from polarised.study.doctor import examine_folder
from polarised.study.grid import load_study
from polarised.study.runner import enrol, read_study
from polarised.study.stages import execute, is_done

from .workshop import study_config, write_study


@pytest.fixture
def study(tmp_path: Path) -> Path:
    config = study_config(runs=2, steps=4)
    config["base"]["objective"] = {"name": "BetaVAE"}
    config["axes"] = {"seed": 2}
    made = load_study(write_study(tmp_path / "s.yaml", config))
    root = tmp_path / "study"
    enrol(made, root)
    for run in made.runs:
        execute(run, root)
    return root


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and path.name not in ("done.json", "training_time.json", ".lock")
        and not path.name.endswith(".damaged")
    }


def test_a_sound_folder_has_no_findings(study: Path) -> None:
    assert list(examine_folder(study)) == []
    result = CliRunner().invoke(app, ["study", "doctor", str(study)])
    assert result.exit_code == 0
    assert "no damaged files" in result.stdout.replace("\n", " ")


@pytest.mark.parametrize("name", ["scores.parquet", "encodings.npz", "regime.parquet", "histograms.npz"])
def test_files_that_depend_on_the_model_are_measured_again(study: Path, name: str) -> None:
    before = contents(study)
    first = sorted(path for path in study.iterdir() if path.is_dir())[0]
    data = bytearray((first / name).read_bytes())
    data[len(data) // 2] ^= 1
    (first / name).write_bytes(data)
    (finding,) = examine_folder(study)
    assert (finding.run, finding.file, finding.remedy, finding.repaired) == (first.name, name, "measured again", False)
    (finding,) = examine_folder(study, repair=True)
    assert finding.repaired
    assert list(examine_folder(study)) == []
    assert contents(study) == before
    assert (first / f"{name}.damaged").read_bytes() == bytes(data)


def test_a_run_with_a_damaged_model_waits_to_be_trained_again(study: Path) -> None:
    before = contents(study)
    run = read_study(study).runs[0]
    model = study / run.name / "model.safetensors"
    model.write_bytes(model.read_bytes()[:-1])
    assert {finding.remedy for finding in examine_folder(study, repair=True)} == {"trained again"}
    assert not is_done(run, study)
    execute(run, study)
    assert contents(study) == before


def test_a_damaged_list_of_runs_is_moved_aside_and_temporary_files_are_removed(study: Path) -> None:
    (study / "study.json").write_text('{"runs": ')
    first = sorted(path for path in study.iterdir() if path.is_dir())[0]
    (first / ".tmpA1b2C3").write_bytes(b"half")
    result = CliRunner().invoke(app, ["study", "doctor", str(study), "--json"])
    assert result.exit_code == 1
    found = json.loads(result.stdout)["findings"]
    assert [(one["file"], one["remedy"]) for one in found] == [
        ("study.json", "listed again"),
        (".tmpA1b2C3", "removed"),
    ]
    assert CliRunner().invoke(app, ["study", "doctor", str(study), "--repair"]).exit_code == 0
    assert not (first / ".tmpA1b2C3").exists()
    assert [finding.file for finding in examine_folder(study)] == ["study.json"]


def test_a_folder_of_version_one_opens_and_is_checked_by_reading(study: Path) -> None:
    known = json.loads((study / "study.json").read_text())
    del known["version"]
    (study / "study.json").write_text(json.dumps(known))
    for file in study.glob("*/done.json"):
        done = json.loads(file.read_text())
        del done["version"], done["files"]
        file.write_text(json.dumps(done))
    assert all(is_done(run, study) for run in read_study(study).runs)
    assert list(examine_folder(study)) == []
    first = sorted(path for path in study.iterdir() if path.is_dir())[0]
    (first / "scores.parquet").write_bytes(b"PAR1")
    assert [finding.file for finding in examine_folder(study)] == ["scores.parquet"]


def test_a_folder_of_a_later_version_is_refused_with_one_sentence(study: Path) -> None:
    known = json.loads((study / "study.json").read_text()) | {"version": 9}
    (study / "study.json").write_text(json.dumps(known))
    with pytest.raises(DataError, match="upgrade polarised"):
        read_study(study)


def test_an_address_is_refused_by_the_doctor() -> None:
    with pytest.raises(ConfigError, match="folder on this machine"):
        list(examine_folder("s3://bucket/study"))


@pytest.mark.parametrize("name", ["../../mine.txt", "{}/mine.txt", "..", "notes.txt"])
def test_files_outside_the_folder_are_not_moved_aside(study: Path, name: str) -> None:
    mine = study.parent / "mine.txt"
    mine.write_text("mine")
    first = sorted(path for path in study.iterdir() if path.is_dir())[0]
    (first / "notes.txt").write_text("a note of somebody")
    done = json.loads((first / "done.json").read_text())
    done["files"][name.format(study.parent)] = [4, "0" * 64]
    (first / "done.json").write_text(json.dumps(done))
    (finding,) = examine_folder(study, repair=True)
    assert (finding.file, finding.wrong) == ("done.json", "it cannot be read")
    assert mine.read_text() == "mine"
    assert (first / "notes.txt").exists()
    assert not list(study.parent.glob("*.damaged"))
    assert list(examine_folder(study)) == []


def test_nothing_is_written_through_a_link_in_place_of_a_run(study: Path, tmp_path: Path) -> None:
    first = sorted(path for path in study.iterdir() if path.is_dir())[0]
    outside = first.rename(tmp_path / "outside")
    first.symlink_to(outside)
    (outside / "done.json").unlink()
    (outside / "failed.txt").write_text("TrainingError: not finite\n")
    before = {path.name: path.read_bytes() for path in outside.iterdir()}
    (finding,) = examine_folder(study, repair=True)
    assert (finding.file, finding.remedy, finding.repaired) == (first.name, "by hand", False)
    result = CliRunner().invoke(app, ["study", "retry", str(study)])
    assert result.exit_code == 2
    assert "is a link to another folder" in result.stderr
    made = next(run for run in read_study(study).runs if run.name == first.name)
    with pytest.raises(ConfigError, match="is a link to another folder"):
        execute(made, study)
    assert {path.name: path.read_bytes() for path in outside.iterdir()} == before
