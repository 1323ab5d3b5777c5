import re
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from typer.testing import CliRunner

from polarised import registry
from polarised.cli import app
from polarised.errors import ConfigError
from polarised.study import execute, measures
from polarised.study import plan as plan_study
from polarised.study.config import Run, check_devices
from polarised.study.grid import load_study
from polarised.study.planning import Cost, Plan, plan
from polarised.study.stages import check_auxiliary
from study.workshop import study_config, write_study


def test_more_workers_than_runs_do_not_help() -> None:
    short = Cost("a", runs=3, steps=300, longest=100, seconds_per_step=1.0, evaluation_seconds=20.0)
    long = Cost("b", runs=1, steps=1000, longest=1000, seconds_per_step=1.0, evaluation_seconds=80.0)
    both = Plan((short, long))
    assert both.days(1) * 86_400 == pytest.approx(360 + 1080)
    assert both.days(2) * 86_400 == both.days(100) * 86_400 == pytest.approx(1080)


def test_snapshots_are_included_in_the_cost(tmp_path: Path) -> None:
    config = study_config(runs=1, steps=1000)
    rare = plan(load_study(write_study(tmp_path / "a.yaml", config)), calibration_steps=20)
    config["base"]["snapshots"] = {"every": 1, "examples": 2000}
    often = plan(load_study(write_study(tmp_path / "b.yaml", config)), calibration_steps=20)
    assert often.costs[0].seconds_per_step > 2 * rare.costs[0].seconds_per_step
    assert "a snapshot every 1 steps" in often.common


def test_networks_of_different_sizes_are_different_kinds(tmp_path: Path) -> None:
    config = study_config(runs=1, steps=10)
    config["axes"] |= {"model.architecture.widths": [[8], [16]]}
    found = plan(load_study(write_study(tmp_path / "a.yaml", config)), calibration_steps=2)
    assert [("widths=[8]" in cost.kind, "widths=[16]" in cost.kind) for cost in found.costs] == [(1, 0), (0, 1)]


def test_test_inputs_of_predicted_factors_are_included_in_the_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode, encoded = measures.encode_unseen, []

    def noted(*given: Any) -> Any:
        encoded.append(encode(*given))
        return encoded[-1]

    monkeypatch.setattr(measures, "encode_unseen", noted)
    config = study_config(runs=1, steps=10)
    for downstream, inputs in ((True, [500]), (False, [])):
        config["base"]["evaluation"] = {"examples": 200, "downstream": downstream, "downstream_test": 5000}
        plan(load_study(write_study(tmp_path / "a.yaml", config)), calibration_steps=5)
        assert [len(each) for each in encoded] == inputs
        encoded.clear()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"training": {"steps": -1}}, "training.steps of at least 1, got -1"),
        ({"training": {"batch_size": 1}}, "training.batch_size of at least 2, got 1"),
        ({"training": {"learning_rate": 0}}, "training.learning_rate above 0, got 0.0"),
        ({"training": {"learning_rate": float("nan")}}, "training.learning_rate above 0, got nan"),
        ({"snapshots": {"every": -5}}, "snapshots.every of at least 0, got -5"),
        ({"evaluation": {"examples": 0}}, "evaluation.examples of at least 2, got 0"),
    ],
)
def test_an_invalid_number_is_refused_before_a_run_starts(settings: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Run.from_config(settings)


def test_hours_of_a_gpu_are_not_hours_of_a_core() -> None:
    core = Cost("a", runs=1, steps=3600, longest=3600, seconds_per_step=1.0, evaluation_seconds=0.0)
    card = Cost("b", runs=4, steps=14_400, longest=3600, seconds_per_step=0.5, evaluation_seconds=0.0, device="cuda")
    both = Plan((core, card))
    assert (both.core_hours, both.gpu_hours) == (1.0, 2.0)
    assert both.days(1) * 24 == pytest.approx(3.0)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_missing_device_fails_once_with_one_sentence(tmp_path: Path) -> None:
    config = study_config(runs=3, steps=10)
    config["base"]["training"]["device"] = "cuda"
    file = write_study(tmp_path / "a.yaml", config)
    words = "expected a device cuda for training.device, but this machine has none"
    with pytest.raises(ConfigError, match=words):
        plan(load_study(file))
    said = CliRunner().invoke(app, ["study", str(file), "--out", str(tmp_path / "out"), "--jobs", "2"])
    assert said.exit_code == 2
    assert isinstance(said.output, str)
    assert " ".join(said.output.split()).count(words) == 1
    assert not list((tmp_path / "out").glob("*/failed.txt"))
    assert CliRunner().invoke(app, ["study", "plan", str(file)]).exit_code == 2


def test_a_misspelt_auxiliary_variable_fails_once_before_a_folder_is_made(tmp_path: Path) -> None:
    config = study_config(runs=3, steps=10)
    file, one = write_study(tmp_path / "a.yaml", config), tmp_path / "one.yaml"
    one.write_text(yaml.safe_dump({**config["base"], "objective": "BetaVAE"}))
    out = tmp_path / "out"
    words = "no factor is called 'shap' (did you mean 'shape'?)"
    place = ["--out", str(out)]
    for command in (
        ["study", str(file), "--jobs", "2", *place],
        ["study", "plan", str(file)],
        ["train", str(one), *place],
    ):
        said = CliRunner().invoke(app, [*command, "auxiliary=shap"])
        assert said.exit_code == 2
        assert " ".join(said.output.split()).count(words) == 1
        assert not out.exists()


def test_a_dataset_is_built_once_to_check_auxiliary_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    build = registry.build
    monkeypatch.setattr(registry, "build", lambda *spec: (built.append(spec[1]), build(*spec))[1])
    runs = [
        Run.from_config({"dataset": dataset, "auxiliary": u, "seed": seed})
        for seed in range(3)
        for dataset in ("dsprites", {"name": "dsprites", "size": 32}, {"name": "from_npz", "path": "missing.npz"})
        for u in (None, "all", ["shape"])
    ]
    check_auxiliary(runs)
    assert [spec["name"] for spec in built] == ["dsprites", "dsprites", "from_npz"]


@pytest.mark.parametrize("device", ["tpu", "cuda:zero"])
def test_devices_have_the_names_of_torch(device: str) -> None:
    with pytest.raises(ConfigError, match=r"training\.device"):
        check_devices([device])


def test_measuring_models_is_planned_by_the_model(tmp_path: Path) -> None:
    config = study_config(runs=1, steps=10)
    listed = tmp_path / "list.txt"
    listed.write_text("https://example.org/1.zip\nhttps://example.org/2.zip\n")
    found = plan_study(write_study(tmp_path / "a.yaml", config), models=listed)
    assert (found.runs, found.steps) == (2, 0)
    assert found.costs[0].evaluation_seconds > 0
    assert found.core_hours == pytest.approx(2 * found.costs[0].evaluation_seconds / 3600)
    said = CliRunner().invoke(app, ["study", "plan", str(tmp_path / "a.yaml"), "--models", str(listed)])
    assert said.exit_code == 0
    words = " ".join(said.output.split())
    assert "seconds per model" in words
    assert re.search(r"2 models: about \d+ s on one core, \d+ s with \d+ at a time; downloads are not included", words)
    assert "step" not in words


def test_models_are_planned_with_their_own_network(tmp_path: Path) -> None:
    study = write_study(tmp_path / "a.yaml", study_config(runs=1, steps=10))
    ours = execute(Run.from_config({**study_config(steps=1)["base"], "objective": "ELBO"}), tmp_path / "runs")
    (cost,) = plan_study(study, models=ours.parent).costs
    assert cost.kind.startswith("mlp")
    listed = tmp_path / "list.txt"
    listed.write_text("absent.zip\nhttps://example.org/1.zip\n")
    (cost,) = plan_study(study, models=listed).costs
    assert (cost.kind, cost.runs) == ("locatello_conv, dsprites, measured", 2)


def test_runs_that_end_once_they_settle_are_planned_as_a_range(tmp_path: Path) -> None:
    config = study_config(runs=2, steps=100)
    config["base"]["training"]["settling"] = {"least": 40, "every": 4, "decay": 0.25}
    file = write_study(tmp_path / "a.yaml", config)
    found = plan(load_study(file), calibration_steps=5)
    assert (found.least_steps, found.steps) == (100, 200)
    said = CliRunner().invoke(app, ["study", "plan", str(file), "--jobs", "1"]).output
    assert re.search(r"2 runs, 100 to 200 steps, because runs end once they settle: [\d.]+ to [\d.]+ core-hours", said)


def test_the_least_hours_are_those_of_the_least_steps() -> None:
    fixed = Cost("a", runs=1, steps=3600, longest=3600, seconds_per_step=1.0, evaluation_seconds=0.0)
    ending = Cost("b", runs=2, steps=7200, longest=3600, seconds_per_step=0.5, evaluation_seconds=1800.0, least=1800)
    both = Plan((fixed, ending))
    assert (both.least_steps, both.steps) == (5400, 10_800)
    assert (both.least_hours, both.core_hours) == (2.25, 3.0)
