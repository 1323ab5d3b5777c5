from dataclasses import replace
from pathlib import Path

import polars
import pytest
from typer.testing import CliRunner

from polarised.cli import app
from polarised.errors import DataError
from polarised.registry import complete
from polarised.study.config import Evaluation
from polarised.study.grid import load_study
from polarised.study.results import collect
from polarised.study.runner import enrol, read_study
from polarised.study.stages import execute
from polarised.study.trained import measure_models, published_point
from study.workshop import notes, study_config, write_study


def test_published_models_are_measured_and_skipped_when_done(tmp_path: Path, reference: Path) -> None:
    study = load_study("be_more_active", scale="smoke", settings=["evaluation.examples=300", "evaluation.further=[]"])
    folder = reference / "models" / "disentanglement_lib"
    outcomes = dict(measure_models(study, folder, tmp_path))
    # The README next to them is neither a model nor a failure.
    assert set(outcomes.values()) == {""}
    table = polars.read_parquet(collect(tmp_path))
    counts = table.filter((polars.col("metric") == "count") & (polars.col("variables") == "passive"))
    passive = {(row["method"], row["strength"]): row["value"] for row in counts.iter_rows(named=True)}
    assert passive == {("beta-VAE", 16.0): 7.0, ("beta-VAE", 4.0): 4.0, ("annealed VAE", 5.0): 4.0}
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("encodings.npz")}
    list(measure_models(study, folder, tmp_path))
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_our_runs_are_measured_in_another_folder(tmp_path: Path) -> None:
    study = load_study(write_study(tmp_path / "tiny.yaml", study_config(runs=1, steps=4)))
    execute(study.runs[0], tmp_path / "trained")
    outcomes = list(measure_models(study, tmp_path / "trained", tmp_path / "measured"))
    assert [why for _, why in outcomes] == [""]
    assert not list((tmp_path / "measured").rglob("model.safetensors"))
    assert len(polars.read_parquet(collect(tmp_path / "measured")))


OBJECTIVES = (
    {"name": "AnnealedVAE", "c_max": 5, "iteration_threshold": 1},
    {"name": "BetaTCVAE", "beta": 8},
    {"name": "DIPVAE", "variant": "I", "lambda_od": 2},
    {"name": "DIPVAE", "variant": "II", "lambda_od": 2},
)
EXPECTED = {("annealed VAE", 5.0), ("beta-TCVAE", 8.0), ("DIP-VAE-I", 2.0), ("DIP-VAE-II", 2.0)}


def test_our_runs_have_the_methods_and_strengths_of_the_study(tmp_path: Path) -> None:
    config = study_config(runs=1, steps=2)
    config["axes"] = {"seed": 1}
    study = load_study(write_study(tmp_path / "tiny.yaml", config))
    for objective in OBJECTIVES:
        execute(replace(study.runs[0], objective=complete("objective", objective)), tmp_path / "ours")
    assert [why for _, why in measure_models(study, tmp_path / "ours", tmp_path / "measured")] == [""] * 4
    table = polars.read_parquet(collect(tmp_path / "measured"))
    assert set(table.select("method", "strength").unique().iter_rows()) == EXPECTED


def test_a_folder_of_a_study_gives_its_own_labels(tmp_path: Path) -> None:
    config = study_config(runs=1, steps=2)
    config["axes"] = {"method": {"mine, wide": {"model": {"latents": 4}}}}
    study = load_study(write_study(tmp_path / "tiny.yaml", config))
    enrol(study, tmp_path / "ours")
    execute(study.runs[0], tmp_path / "ours")
    list(measure_models(study, tmp_path / "ours", tmp_path / "measured"))
    assert polars.read_parquet(collect(tmp_path / "measured"))["method"].unique().to_list() == ["mine, wide"]


def test_dip_vae_has_its_second_strength_from_the_factor() -> None:
    config = {"model.name": "'dip_vae_i'", "dip_vae.lambda_od": "5.0", "dip_vae.lambda_d_factor": "10.0"}
    point = published_point(config, Evaluation())
    assert (point.run.objective["variant"], point.run.objective["lambda_d"]) == ("I", 50.0)


@pytest.mark.parametrize("name", ["'tvae'", "@vae()"])
def test_an_unknown_method_is_named(name: str) -> None:
    with pytest.raises(DataError, match="method of the study"):
        published_point({"model.name": name}, Evaluation())


@pytest.mark.parametrize("name", ["beta_vae", "annealed_vae", "factor_vae", "beta_tc_vae", "dip_vae_i", "dip_vae_ii"])
def test_a_model_without_its_strength_does_not_get_our_default(name: str) -> None:
    with pytest.raises(DataError, match=f"expected the strength of {name} as"):
        published_point({"model.name": f"'{name}'"}, Evaluation())


def test_models_are_measured_as_in_the_paper_and_have_no_scale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Workers are separate processes, which have not imported our code yet.
    monkeypatch.setenv("POLARISED_TRUST", "study")
    config = study_config(runs=1, steps=2) | {
        "scales": {"small": {}, "paper": {"base": {"evaluation": {"examples": 50}}}},
        "default_scale": "small",
    }
    file = write_study(tmp_path / "tiny.yaml", config)
    execute(load_study(file).runs[0], tmp_path / "trained")
    (tmp_path / "trained" / "broken").mkdir()
    (tmp_path / "trained" / "broken" / "config.yaml").write_text("objective: [")
    arguments = ["study", str(file), "--models", str(tmp_path / "trained"), "--jobs", "1"]
    said = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "measured")])
    assert said.exit_code == 1
    assert "1 of 2 models measured" in said.output
    measured = read_study(tmp_path / "measured")
    assert measured.scale == "models"
    assert [run.evaluation.examples for run in measured.runs] == [50]


def test_a_folder_without_models_is_refused(tmp_path: Path) -> None:
    study = load_study("be_more_active", scale="smoke", settings=["axes.seed=1"])
    (tmp_path / "words.txt").write_text("nothing")
    with pytest.raises(DataError, match="found none"):
        list(measure_models(study, tmp_path, tmp_path / "out"))


def test_retry_measures_again_and_trains_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLARISED_TRUST", "study")
    log = tmp_path / "notes"
    study = load_study(write_study(tmp_path / "tiny.yaml", study_config(runs=1, steps=4, notes=str(log))))
    trained = execute(study.runs[0], tmp_path / "trained")
    taken = notes(log)
    model = (trained / "model.safetensors").read_bytes()
    (trained / "model.safetensors").write_bytes(b"broken")
    arguments = ["study", str(tmp_path / "tiny.yaml"), "--models", str(tmp_path / "trained"), "--jobs", "1"]
    assert CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "measured")]).exit_code == 1
    (trained / "model.safetensors").write_bytes(model)
    again = CliRunner().invoke(app, ["study", "retry", str(tmp_path / "measured"), "--jobs", "1"])
    assert again.exit_code == 0, again.output
    assert "1 of 1 model measured" in again.output
    assert notes(log) == taken
