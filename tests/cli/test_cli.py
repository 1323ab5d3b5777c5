"""What holds for every command: help with an example, one-sentence errors, exit codes, no heavy import for --help."""

import json
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

from polarised.cli import app

COMMANDS = sorted([command.callback.__name__ for command in app.registered_commands])
RUNNER = CliRunner()


def test_help_imports_nothing_heavy():
    heavy = "{'torch', 'numpy', 'polars', 'sklearn', 'scipy', 'matplotlib', 'ray', 'lightning'}"
    code = f"import sys, polarised.cli; print(sorted({heavy} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_an_example(command):
    shown = RUNNER.invoke(app, [command, "--help"])
    assert shown.exit_code == 0
    assert "Example" in shown.output


def test_the_error_for_a_missing_config_is_one_sentence(tmp_path):
    shown = RUNNER.invoke(app, ["train", str(tmp_path / "absent.yaml")])
    assert shown.exit_code == 2
    assert shown.stderr.startswith("error: expected a config file")
    assert shown.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("objective.name=BetaVEA", "no objective 'BetaVEA' .did you mean 'BetaVAE'"),
        ("objective.betta=3", "did you mean 'beta'"),
        ("trainin.steps=3", "did you mean 'training'"),
        ("training.steps=many", "training.steps: .*got 'many'"),
        ("training.steps", "expected key=value"),
        ("seed=-1", "seed as a whole number"),
        ("model.latents=0", "model.latents"),
    ],
)
def test_the_error_for_a_wrong_setting_suggests_the_right_one(tmp_path, setting, says):
    (tmp_path / "run.yaml").write_text("objective: {name: BetaVAE, beta: 4}\n")
    shown = RUNNER.invoke(app, ["train", str(tmp_path / "run.yaml"), setting, "--out", str(tmp_path / "runs")])
    assert shown.exit_code == 2
    assert re.search(says, shown.stderr)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("report", "codes.npz", "--out", "folder"),
        ("diagnose", "codes.npz", "--html", "file/page.html"),
        ("train", "run.yaml", "--out", "file"),
        ("datasets", "show", "dsprites", "-o", "file/sheet.png"),
    ],
)
def test_the_error_for_an_unwritable_path_is_one_sentence(tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    np.savez("codes.npz", mean=np.random.default_rng(0).normal(size=(50, 2)), variance=np.full((50, 2), 0.01))
    (tmp_path / "run.yaml").write_text("training: {steps: 2}\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    shown = RUNNER.invoke(app, arguments)
    assert shown.exit_code == 1, shown.exception
    assert re.fullmatch(rf"error: could not write or read {arguments[-1].partition('/')[0]}.*\n", shown.stderr)
    assert ".tmp" not in shown.stderr


def test_a_contact_sheet_must_have_an_image_suffix(tmp_path):
    shown = RUNNER.invoke(app, ["datasets", "show", "dsprites", "-o", str(tmp_path / "sheet.foo")])
    assert (shown.exit_code, shown.stderr.count("\n")) == (1, 1)
    assert "expected a file of .png, .svg, .pdf, got sheet.foo" in shown.stderr


def test_names_of_datasets_are_not_wrapped_in_a_narrow_terminal(monkeypatch):
    from polarised.data import describe

    monkeypatch.setenv("COLUMNS", "80")
    shown = RUNNER.invoke(app, ["datasets"]).stdout
    assert [about.name for about in describe() if f" {about.name} " not in shown] == []


def test_wrong_use_exits_with_code_2():
    assert RUNNER.invoke(app, ["train"]).exit_code == 2
    assert RUNNER.invoke(app, ["no-such-command"]).exit_code == 2


def test_train_prints_one_json_object_and_the_second_call_does_no_work(tmp_path):
    (tmp_path / "run.yaml").write_text(
        "dataset: {name: dsprites, size: 32}\n"
        "model: {architecture: {name: mlp, widths: [16]}, latents: 3}\n"
        "training: {steps: 5, batch_size: 8}\n"
        "evaluation: {examples: 100}\n"
    )
    arguments = ["train", str(tmp_path / "run.yaml"), "--out", str(tmp_path / "runs"), "--json"]
    first = RUNNER.invoke(app, arguments)
    assert first.exit_code == 0, first.output
    result = json.loads(first.stdout)
    assert len(result["variables"]) == 3
    (directory,) = (tmp_path / "runs").iterdir()
    before = {path.name: path.stat().st_mtime_ns for path in directory.iterdir()}
    assert json.loads(RUNNER.invoke(app, arguments).stdout)["variables"] == result["variables"]
    after = {path.name: path.stat().st_mtime_ns for path in directory.iterdir()}
    assert {name for name in before if after[name] != before[name]} <= {".lock"}


@pytest.mark.parametrize(("nats", "says"), [(100, "Settled at step 9;"), (1e-9, "Not settled")])
def test_train_says_whether_the_run_settled(tmp_path, nats, says):
    (tmp_path / "run.yaml").write_text(
        "dataset: {name: dsprites, size: 32}\n"
        "model: {architecture: {name: mlp, widths: [16]}, latents: 3}\n"
        "training: {steps: 20, batch_size: 8, "
        f"settling: {{least: 4, every: 1, nats: {nats}, share: 0, examples: 20}}}}\n"
        "evaluation: {examples: 100}\n"
    )
    shown = RUNNER.invoke(app, ["train", str(tmp_path / "run.yaml"), "--out", str(tmp_path / "runs")])
    assert shown.exit_code == 0, shown.output
    assert says in shown.stdout


def test_a_warning_is_one_sentence_without_a_line_of_code(tmp_path):
    config = tmp_path / "short.yaml"
    config.write_text(
        "{dataset: {name: dsprites, size: 32}, model: {architecture: {name: mlp, widths: [4]}, latents: 2}, "
        "objective: {name: AnnealedVAE}, training: {steps: 2, batch_size: 4}, evaluation: {examples: 20}}"
    )
    shown = warnings.showwarning
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        said = RUNNER.invoke(app, ["train", str(config), "--out", str(tmp_path), "--quiet"]).stderr
    assert said.startswith("warning: ")
    assert ".py" not in said
    assert warnings.showwarning is shown
