"""Schedules, settling and held-out data in a config."""

from pathlib import Path
from typing import Any

import polars
import pytest

from polarised import registry
from polarised.adapters.targets import open_run
from polarised.curing import cure_run
from polarised.errors import ConfigError
from polarised.regime import Encodings
from polarised.study import Run, execute
from polarised.study.config import CONSTANT, Training, read_training
from polarised.study.grid import load_study
from polarised.study.results import results_of
from polarised.study.stages import build_parts, dataset_of
from study.workshop import study_config, write_study


def run_with(**training: object) -> Run:
    base = study_config()["base"]
    return Run.from_config({**base, "objective": "BetaVAE", "training": {**base["training"], **training}})


def test_the_default_schedule_is_the_constant_one_written_out() -> None:
    assert registry.complete("schedule", "constant") == CONSTANT == Training().schedule


def test_explicit_defaults_do_not_change_the_name() -> None:
    plain = run_with().name
    assert run_with(schedule="constant").name == plain
    assert (
        run_with(schedule={"name": "constant", "warm_up": 0}, settling=None, split=None, compiled=False).name == plain
    )


@pytest.mark.parametrize(
    "setting",
    [
        {"schedule": "cosine"},
        {"schedule": {"name": "cosine", "end": 0.1}},
        {"settling": {}},
        {"split": 0.9},
        {"compiled": True},
    ],
)
def test_settings_that_change_the_weights_change_the_name(setting: dict[str, object]) -> None:
    assert run_with(**setting).name != run_with().name


def test_names_leave_out_the_defaults_within_schedule_and_settling() -> None:
    assert run_with(schedule="cosine").name == run_with(schedule={"name": "cosine", "end": 0.0}).name
    assert run_with(settling={}).name == run_with(settling={"least": 0.2, "decay": 0.25}).name
    assert run_with(settling={}).name != run_with(settling={"least": 0.3}).name


def test_a_run_with_explicit_defaults_is_the_same_run() -> None:
    run = run_with(schedule={"name": "step", "at": [0.5, 9]}, split=0.9)
    assert Run.from_config(run.to_config()) == run
    settling = run_with(settling={"least": 6, "every": 2})
    assert Run.from_config(settling.to_config()) == settling


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"schedule": "cosinus"}, "did you mean 'cosine'"),
        ({"schedule": {"name": "cosine", "hold": 2.5}}, "whole number of steps or a share"),
        ({"settling": {"leest": 4}}, "did you mean 'least'"),
        ({"settling": {}, "schedule": "cosine"}, "its own decay"),
        ({"settling": {"least": 11}, "steps": 12}, "settling.least from 1 to 9"),
        ({"split": 1.0}, "training.split above 0 and below 1"),
    ],
)
def test_invalid_settings_are_refused_before_the_first_run(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read_training({"steps": 100, **wrong})


def test_a_study_may_vary_the_schedule(tmp_path: Path) -> None:
    config = study_config()
    config["base"]["objective"] = "BetaVAE"
    config["axes"] = {"schedule": {"training.schedule": ["constant", {"name": "cosine", "end": 0.1}]}}
    study = load_study(write_study(tmp_path / "study.yaml", config))
    assert [point.labels["schedule"] for point in study.points] == ["constant", "cosine"]
    assert study.runs[1].training.schedule["end"] == 0.1


def test_when_a_run_settled_is_in_its_results(tmp_path: Path) -> None:
    config = study_config(steps=30)
    config["base"]["objective"] = "BetaVAE"
    settling = {"least": 8, "every": 2, "decay": 0.5, "nats": 1e-9, "share": 1e-9, "examples": 20}
    config["base"]["training"] |= {"settling": settling, "learning_rate": 1e-3}
    config["axes"] = {"strength": {"training.settling.nats": [1e-9, 100.0]}}
    study = load_study(write_study(tmp_path / "study.yaml", config))
    for run in study.runs:
        execute(run, tmp_path)
    table = results_of(study.points, tmp_path).filter(polars.col("metric").str.starts_with("settled"))
    # The first look whose last third holds four looks (12, 14, 16 and 18) is the one after 18 steps.
    rows = sorted(table.select("strength", "metric", "value").iter_rows())
    assert rows == [(1e-9, "settled", 0.0), (100.0, "settled", 1.0), (100.0, "settled_step", 18.0)]
    trained = [polars.read_parquet(tmp_path / run.name / "history.parquet")["step"].max() for run in study.runs]
    assert trained == [30, 27]


def test_a_run_without_settling_has_no_such_results(tmp_path: Path) -> None:
    directory = execute(run_with(), tmp_path)
    assert not (directory / "settling.parquet").exists()


def test_a_run_with_a_split_is_measured_on_held_out_data(tmp_path: Path) -> None:
    run = run_with(split=0.9)
    encodings = Encodings.load(execute(run, tmp_path) / "encodings.npz")
    whole = registry.build("dataset", run.dataset)
    places = whole.factor_space.index(encodings.factors)
    trained, held_out = (
        set(whole.factor_space.index(dataset_of(run, to=part).factor_space.table).tolist())
        for part in ("train", "measure")
    )
    assert set(places.tolist()) <= held_out
    assert not trained & held_out
    assert len(trained) + len(held_out) == len(whole)
    assert polars.read_parquet(tmp_path / run.name / "reconstruction.parquet")["value"].is_finite().all()


def test_auxiliary_variables_are_all_some_or_one() -> None:
    base = {"model": {"prior": "Conditional"}, "objective": "ELBO"}
    every = Run.from_config({**base, "auxiliary": "all"})
    assert every == Run.from_config({**base, "auxiliary": []})
    assert dataset_of(every).auxiliary_size == 5
    one = Run.from_config({**base, "auxiliary": "shape"})
    assert one == Run.from_config({**base, "auxiliary": ["shape"]})
    assert dataset_of(one).auxiliary_size == 1
    with pytest.raises(ConfigError, match="expected auxiliary as all, or as a list of factor names, got 3"):
        Run.from_config({**base, "auxiliary": 3})


def test_auxiliary_variables_that_nothing_reads_are_reported(tmp_path: Path) -> None:
    config = {**study_config()["base"], "objective": "BetaVAE", "auxiliary": "all"}
    with pytest.warns(UserWarning, match="auxiliary has no effect: the prior StandardNormal"):
        execute(Run.from_config(config), tmp_path)


def test_a_run_with_a_conditional_prior_cannot_be_cured(tmp_path: Path) -> None:
    model = {**study_config()["base"]["model"], "prior": "Conditional"}
    config = {**study_config(steps=2)["base"], "objective": "ELBO", "auxiliary": "all", "model": model}
    with pytest.raises(ConfigError, match="the prior Conditional is not the standard normal one; it cannot be cured"):
        cure_run(execute(Run.from_config(config), tmp_path))


def test_a_stored_run_is_shown_on_the_images_it_was_not_trained_on(tmp_path: Path) -> None:
    run = run_with(split=0.9)
    assert len(open_run(execute(run, tmp_path)).dataset()) == len(dataset_of(run)) < len(dataset_of(run, to="train"))


@pytest.mark.parametrize(
    ("dataset", "words"),
    [
        (
            "dsprites",
            r"set auxiliary=all, or names of its factors: auxiliary=\[shape, scale, orientation, posX, posY\]",
        ),
        ({"name": "linear_gaussian"}, "has no factors to take them from; use a dataset with factors or labels"),
    ],
)
def test_a_conditional_prior_without_u_is_refused_with_the_setting_to_change(dataset: Any, words: str) -> None:
    mlp = {"name": "mlp", "widths": [8]}
    run = Run.from_config(
        {"dataset": dataset, "model": {"architecture": mlp, "prior": "Conditional"}, "objective": "ELBO"}
    )
    with pytest.raises(ConfigError, match=words):
        build_parts(dataset_of(run), model=run.model, objective=run.objective, seed=0)
