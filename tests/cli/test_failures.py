"""Failures of every command: exit codes, one sentence, JSON, hostile file names, unwritable output."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from polarised.cli import app

RUNNER = CliRunner()
ABSENT = [
    ["diagnose", "absent.npz"],
    ["diagnose", "absent-*.npz"],
    ["evaluate", "absent.npz"],
    ["report", "absent"],
    ["explore", "absent"],
    ["forecast", "absent.npz"],
    ["forecast", "absent.yaml"],
    ["train", "absent.yaml"],
    ["cure", "absent"],
    ["prune", "absent"],
    ["prune", "absent.pt", "--mean-head", "a", "--decoder-input", "b", "--keep", "0"],
    ["cite", "absent.yaml"],
    ["study", "run", "absent.yaml"],
    ["study", "run", "be_more_active", "--models", "absent"],
    ["study", "plan", "absent.yaml"],
    ["study", "script", "absent.yaml"],
    ["study", "status", "absent"],
    ["study", "retry", "absent"],
    ["study", "collect", "absent"],
    ["study", "verify", "absent"],
    ["study", "verify", "absent.parquet"],
    ["study", "doctor", "absent"],
    ["study", "publish", "absent", "--out", "out"],
    ["datasets", "prepare", "absent"],
    ["datasets", "show", "from_npz", "path=absent.npz"],
    ["datasets", "show", "from_folder", "path=absent"],
]


def leaves(group: typer.Typer, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return every command of the program, with its groups."""
    own = [(*path, command.name or command.callback.__name__) for command in group.registered_commands]
    below = [leaf for one in group.registered_groups for leaf in leaves(one.typer_instance, (*path, one.name))]
    return own + below


COMMANDS = sorted(leaves(app))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_json_and_an_example(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = RUNNER.invoke(app, [*command, "--help"])
    assert shown.exit_code == 0
    assert "--json" in shown.stdout
    assert "Example" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 80


@pytest.mark.parametrize("arguments", ABSENT, ids=" ".join)
def test_a_missing_target_is_wrong_use_in_every_command(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = RUNNER.invoke(app, arguments)
    assert shown.exit_code == 2, shown.stderr
    assert shown.stderr.startswith("error: ")
    assert shown.stderr.count("\n") == 1
    assert "absent" in shown.stderr
    assert shown.stdout == ""
    told = RUNNER.invoke(app, [*arguments, "--json"])
    error = json.loads(told.stdout)["error"]
    assert (told.exit_code, error["exit_code"]) == (2, 2)
    assert f"error: {error['message']}\n" == told.stderr == shown.stderr


def test_the_list_of_missing_targets_covers_every_command():
    named = {tuple(word for word in arguments[:2] if (word,) in PREFIXES or word in SUB) for arguments in ABSENT}
    without_files = {("demo",), ("dimensions",), ("datasets", "list")}
    assert {command for command in COMMANDS if command not in named} <= without_files


PREFIXES = {(command[0],) for command in COMMANDS}
SUB = {command[1] for command in COMMANDS if len(command) > 1}


@pytest.mark.parametrize(
    "arguments", [["diagnose", "a", "--no-such"], ["no-such-command"], ["diagnose", "a", "--alpha", "7"], ["study"]]
)
def test_wrong_use_prints_one_sentence_and_a_json_object(arguments):
    shown = RUNNER.invoke(app, arguments)
    assert shown.exit_code == 2
    if arguments != ["study"]:
        assert shown.stderr.startswith("error: ")
        assert shown.stderr.count("\n") == 1
        assert "--help" in shown.stderr
        assert json.loads(RUNNER.invoke(app, [*arguments, "--json"]).stdout)["error"]["exit_code"] == 2


def test_damaged_data_exit_with_code_1(tmp_path):
    (tmp_path / "codes.npz").write_bytes(b"PK damaged")
    told = RUNNER.invoke(app, ["diagnose", str(tmp_path / "codes.npz"), "--json"])
    assert (told.exit_code, json.loads(told.stdout)["error"]["kind"]) == (1, "DataError")


def test_names_of_files_cannot_move_the_cursor(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hostile = "\x1b]0;owned\x07\x1b[2Jcodes\r\nerror: all fine"
    generator = np.random.default_rng(0)
    with (tmp_path / f"{hostile}.npz").open("wb") as file:
        np.savez(file, mean=generator.normal(size=(60, 3)), variance=np.full((60, 3), [0.01, 0.02, 1.0]))
    for arguments in (
        ["diagnose", f"{hostile}.npz", "--details"],
        ["evaluate", f"{hostile}.npz", "--metrics", "total_correlation"],
        ["report", f"{hostile}.npz", "--out", f"{hostile}.html"],
        ["diagnose", f"{hostile}.parquet"],
        ["study", "status", hostile],
        ["cite", hostile],
        ["train", f"{hostile}.yaml"],
        ["diagnose", f"{hostile}.npz", "--json"],
    ):
        shown = RUNNER.invoke(app, arguments)
        assert "\x1b" not in shown.stdout + shown.stderr, arguments
        assert "\x07" not in shown.stdout + shown.stderr, arguments
        assert shown.stderr.count("error: all fine") == 0 or shown.stderr.count("\n") == 1, arguments


@pytest.mark.parametrize("stream", ["stdout", "stderr", "both"])
def test_a_full_or_closed_stream_gives_no_traceback(stream, tmp_path):
    np.savez(tmp_path / "codes.npz", mean=np.random.default_rng(0).normal(size=(60, 2)), variance=np.full((60, 2), 0.1))
    command = [sys.executable, "-c", "from polarised.cli import main; main()", "evaluate", str(tmp_path / "codes.npz")]
    command += ["--metrics", "total_correlation", "--json"]
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        pipes |= dict.fromkeys(("stdout", "stderr") if stream == "both" else (stream,), full)
        ended = subprocess.run(command, check=False, text=True, **pipes)
    if stream == "stderr":
        assert (ended.returncode, "scores" in json.loads(ended.stdout)) == (0, True)
        return
    assert ended.returncode == 1
    if stream == "stdout":
        assert ended.stderr.count("\n") == 1
        assert ended.stderr.startswith("error: the disk is full")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_with_a_small_character_set_is_no_error(encoding, tmp_path):
    np.savez(tmp_path / "codes.npz", mean=np.random.default_rng(0).normal(size=(60, 2)), variance=np.full((60, 2), 0.1))
    command = [sys.executable, "-c", "from polarised.cli import main; main()", "diagnose", "codes.npz", "--no-page"]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    ended = subprocess.run(command, check=False, capture_output=True, env=environment, cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert b"? active" in ended.stdout


@pytest.mark.parametrize("name", [b"caf\xe9.npz", b"a" * 251 + b".npz"])
def test_file_names_that_are_not_text_or_of_maximum_length_get_a_page(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = os.fsdecode(name)
    with open(path, "wb") as file:  # noqa: PTH123
        np.savez(file, mean=np.random.default_rng(0).normal(size=(60, 2)), variance=np.full((60, 2), 0.1))
    out = path.replace(".npz", ".htm")
    told = RUNNER.invoke(app, ["diagnose", path, "--html", out])
    assert told.exit_code == 0, told.stderr
    assert Path(out).read_text(encoding="utf-8").startswith("<!doctype html>")


NOWHERE = "~nobody-of-that-name/codes"


@pytest.mark.parametrize(
    "command",
    [
        ["diagnose", f"{NOWHERE}.npz"],
        ["forecast", f"{NOWHERE}.npz"],
        ["forecast", NOWHERE],
        ["datasets", "show", "from_npz", f"path={NOWHERE}.npz"],
        ["datasets", "show", "from_folder", f"path={NOWHERE}"],
        ["diagnose", "a**b.npz"],
        ["diagnose", "***"],
    ],
    ids=" ".join,
)
def test_homes_of_nobody_and_wrong_patterns_are_one_sentence(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ended = RUNNER.invoke(app, command)
    assert ended.exit_code in (1, 2)
    assert ended.stderr.count("error: ") == ended.stderr.count("\n") == 1
    assert "went wrong" not in ended.stderr


@pytest.mark.parametrize("variable", ["POLARISED_DATA", "DISENTANGLEMENT_LIB_DATA"])
def test_a_data_folder_of_nobody_is_empty(variable, monkeypatch):
    monkeypatch.setenv(variable, NOWHERE)
    assert RUNNER.invoke(app, ["datasets", "--json"]).exit_code == 0
