from pathlib import Path

import polars
import pytest

from polarised.errors import DataError
from polarised.study.config import Evaluation
from polarised.study.grid import load_study
from polarised.study.models import measure_models, published_point
from polarised.study.results import collect
from polarised.study.run import execute
from study.workshop import study_config, write_study


def test_published_models_are_measured_and_skipped_when_done(tmp_path: Path, reference: Path) -> None:
    study = load_study("be_more_active", scale="smoke", settings=["evaluation.examples=300"])
    folder = reference / "models" / "disentanglement_lib"
    outcomes = dict(measure_models(study, folder, tmp_path))
    failed = {path.name for path, why in outcomes.items() if why}
    assert failed == {"README.md"}
    table = polars.read_parquet(collect(tmp_path))
    counts = table.filter((polars.col("metric") == "count") & (polars.col("variables") == "passive"))
    passive = {(row["method"], row["strength"]): row["value"] for row in counts.iter_rows(named=True)}
    assert passive == {("beta-VAE", 16.0): 7.0, ("beta-VAE", 4.0): 4.0, ("annealed VAE", 5.0): 4.0}
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("encodings.npz")}
    list(measure_models(study, folder, tmp_path))
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_runs_of_ours_are_measured_elsewhere(tmp_path: Path) -> None:
    study = load_study(write_study(tmp_path / "tiny.yaml", study_config(runs=1, steps=4)))
    execute(study.runs[0], tmp_path / "trained")
    outcomes = list(measure_models(study, tmp_path / "trained", tmp_path / "measured"))
    assert [why for _, why in outcomes] == [""]
    assert not list((tmp_path / "measured").rglob("model.safetensors"))
    assert len(polars.read_parquet(collect(tmp_path / "measured")))


def test_dip_vae_has_its_second_strength_from_the_factor() -> None:
    config = {"model.name": "'dip_vae_i'", "dip_vae.lambda_od": "5.0", "dip_vae.lambda_d_factor": "10.0"}
    point = published_point(config, Evaluation())
    assert (point.run.objective["variant"], point.run.objective["lambda_d"]) == ("I", 50.0)


@pytest.mark.parametrize("name", ["'tvae'", "@vae()"])
def test_an_unknown_method_is_named(name: str) -> None:
    with pytest.raises(DataError, match="method of the study"):
        published_point({"model.name": name}, Evaluation())


def test_a_folder_without_models_is_refused(tmp_path: Path) -> None:
    study = load_study("be_more_active", scale="smoke", settings=["axes.seed=1"])
    (tmp_path / "words.txt").write_text("nothing")
    with pytest.raises(DataError, match="found none"):
        list(measure_models(study, tmp_path, tmp_path / "out"))
