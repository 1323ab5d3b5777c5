"""Checkpoints that are damaged or belong to another run are refused with one sentence, before they are used."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from safetensors import safe_open
from safetensors.numpy import save_file
from typer.testing import CliRunner

pytest.importorskip("torch", reason="checkpoints are of training; install polarised[train]")

from polarised.cli import app
from polarised.data import dsprites
from polarised.errors import TrainingError
from polarised.models import build_vae
from polarised.objectives import BetaVAE
from polarised.training import History, Settling, train
from polarised.training.history import CHECKPOINT, Snapshots
from study.workshop import study_config, write_study

DATA = dsprites(size=32)
Arrays = dict[str, np.ndarray[Any, Any]]
Header = dict[str, Any]


def fit(directory: Path, *, widths: int = 8, amsgrad: bool = False) -> History:
    vae = build_vae({"architecture": {"name": "mlp", "widths": [widths]}, "latents": 3}, DATA.shape, seed=0)
    looks = Snapshots(DATA, every=3, examples=20, ask_decoder=False)
    settings: dict[str, Any] = {"steps": 8, "batch_size": 8, "amsgrad": amsgrad, "progress": False}
    rule = Settling(least=4, every=2, nats=0.0, share=0.0, examples=20)
    with pytest.warns(UserWarning, match="this run cannot settle"):
        return train(vae, BetaVAE(), DATA, directory=directory, hooks=[looks], settling=rule, **settings)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    fit(folder)
    return folder / CHECKPOINT


def parts_of(path: Path) -> tuple[Header, Arrays]:
    with safe_open(path, framework="numpy") as archive:
        header = json.loads(archive.metadata()["polarised"])
        return header, {name: archive.get_tensor(name) for name in archive.keys()}  # noqa: SIM118


def forged(sound: Path, folder: Path, change: Callable[[Header, Arrays], object], *, checksum: bool) -> Path:
    """Write a modified checkpoint; without its checksum it has the format of earlier versions."""
    header, arrays = parts_of(sound)
    if not checksum:
        header.pop("checksum", None)
    change(header, arrays)
    save_file(arrays, folder / CHECKPOINT, metadata={"polarised": json.dumps(header)})
    return folder


def resized(
    name: str, shape: tuple[int, ...], dtype: str = "float32", value: int = 1
) -> Callable[[Header, Arrays], object]:
    return lambda _, arrays: arrays.update({name: np.full(shape, value, dtype=dtype)})


def without(name: str) -> Callable[[Header, Arrays], object]:
    return lambda _, arrays: arrays.pop(name)


def headed(**changes: object) -> Callable[[Header, Arrays], object]:
    return lambda header, _: header.update(changes)


BIAS = "vae.decoder.input.bias"
CHANGES = {
    "no step": (headed(step=None), "does not give the step"),
    "a text as step": (headed(step="8"), "does not give the step"),
    "a step before the first": (headed(step=-1), "does not give the step"),
    "a step beyond 64 bits": (headed(step=2**63), "does not give the step"),
    "no identity": (headed(identity=[]), "does not describe the run"),
    "weights lost": (without(f"modules.{BIAS}"), "is missing"),
    "weights of another shape": (resized(f"modules.{BIAS}", (3,)), r"\(3,\) of torch.float32, but this model has"),
    "weights of another kind": (resized(f"modules.{BIAS}", (8,), "int64"), "torch.int64, but this model has"),
    "weights of another model": (resized("modules.vae.more", (3,)), "is not part of this model"),
    "states lost": (without(f"optimiser.{BIAS}/exp_avg"), "exp_avg is missing"),
    "states of another shape": (resized(f"optimiser.{BIAS}/exp_avg", (3,)), r"exp_avg is \(3,\)"),
    "a count of another kind": (resized(f"optimiser.{BIAS}/step", (), "int64"), "step is .* torch.int64"),
    "a tensor of nothing": (resized("stray", (3,)), "is not part of this model"),
    "terms lost": (without("arrays.history.names"), "history.names' is missing"),
    "terms that are no text": (resized("arrays.history.names", (3,), "int64"), "are inconsistent"),
    "means of another shape": (resized("arrays.history.means", (2, 7), "float64"), "are inconsistent"),
    "a window of another shape": (resized("arrays.history.window", (3,), "float64"), "are inconsistent"),
    "seconds of nothing": (resized("arrays.history.seconds", (0,), "float64"), "index 0 is out of bounds"),
    "losses in a table": (resized("arrays.pace.losses", (2, 2), "float64"), "not a row of numbers"),
    "settled after the end": (resized("arrays.pace.settled", (), "int64", 10**9), "it settled at step 1000000000"),
    "settled or not is lost": (without("arrays.pace.settled"), "settled' is missing"),
    "moments lost": (without("arrays.hooks.0.kl"), "expected snapshots with"),
    "moments of another shape": (resized("arrays.hooks.0.types", (1, 9), "int64"), "expected snapshots of"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_checkpoint_that_does_not_match_the_run_is_refused(name: str, sound: Path, tmp_path: Path) -> None:
    change, sentence = CHANGES[name]
    with pytest.raises(TrainingError, match=rf"{CHECKPOINT}: .*({sentence}).*; delete it to start afresh"):
        fit(forged(sound, tmp_path, change, checksum=False))


@pytest.mark.parametrize("name", [name for name, (_, sentence) in CHANGES.items() if "does not" not in sentence])
def test_the_checksum_detects_lost_and_changed_arrays(name: str, sound: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="its checksum does not match its contents; delete it to start afresh"):
        fit(forged(sound, tmp_path, CHANGES[name][0], checksum=True))


@pytest.mark.parametrize("change", [lambda *_: None, lambda header, _: header.pop("checksum")])
def test_a_valid_checkpoint_is_resumed_with_and_without_a_checksum(
    change: Callable[[Header, Arrays], object], sound: Path, tmp_path: Path
) -> None:
    expected = fit(sound.parent)
    np.testing.assert_array_equal(fit(forged(sound, tmp_path, change, checksum=True)).loss, expected.loss)


def test_other_terms_than_before_are_refused(sound: Path, tmp_path: Path) -> None:
    def rename(header: Header, arrays: Arrays) -> None:
        header["step"] = 7
        arrays["arrays.history.names"] = np.frombuffer(b"distortion\nkindness", dtype=np.uint8).copy()

    with pytest.raises(TrainingError, match="expected the terms distortion, kindness as before, got distortion, rate"):
        fit(forged(sound, tmp_path, rename, checksum=False))


def test_a_model_or_optimiser_of_another_kind_is_refused(sound: Path) -> None:
    with pytest.raises(TrainingError, match="but this model has"):
        fit(sound.parent, widths=9)
    with pytest.raises(TrainingError, match="max_exp_avg_sq is missing"):
        fit(sound.parent, amsgrad=True)


def test_every_flipped_bit_is_detected(sound: Path, tmp_path: Path) -> None:
    whole = sound.read_bytes()
    begin = 8 + int.from_bytes(whole[:8], "little")
    for place in np.random.default_rng(0).integers(begin, len(whole), 20):
        spoilt = bytearray(whole)
        spoilt[place] ^= 1 << int(place % 8)
        (tmp_path / CHECKPOINT).write_bytes(spoilt)
        with pytest.raises(TrainingError, match="its checksum does not match its contents"):
            fit(tmp_path)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def claim(path: Path) -> None:
    path.write_bytes(b"\xff" * 8 + path.read_bytes()[8:])


def strip(path: Path) -> None:
    save_file(parts_of(path)[1], path)


def swap(path: Path) -> None:
    save_file(parts_of(path)[1], path, metadata={"polarised": '["\\u001b[2J"]'})


def lose(path: Path) -> None:
    header, arrays = parts_of(path)
    save_file(dict(list(arrays.items())[3:]), path, metadata={"polarised": json.dumps(header)})


def turn_to_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES = (truncate, empty, claim, strip, swap, lose, turn_to_a_folder)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run and a study of it, both stopped after the checkpoint of step 5."""
    folder = tmp_path_factory.mktemp("stopped")
    config = study_config(runs=1, diverge_at=8)
    write_study(folder / "study.yaml", config)
    (folder / "run.yaml").write_text(yaml.safe_dump(config["base"]))
    assert CliRunner().invoke(app, ["train", str(folder / "run.yaml"), "--out", str(folder / "runs")]).exit_code == 1
    arguments = ["study", "run", str(folder / "study.yaml"), "--out", str(folder / "study")]
    assert CliRunner().invoke(app, [*arguments, "--executor", "study.test_runner:here"]).exit_code == 1
    return folder


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_command_line_reports_it_in_one_sentence(
    damage: Callable[[Path], None], stopped: Path, tmp_path: Path
) -> None:
    shutil.copytree(stopped, tmp_path, dirs_exist_ok=True)
    for kind in ("runs", "study"):
        (path,) = (tmp_path / kind).glob(f"*/{CHECKPOINT}")
        damage(path)
    told = CliRunner().invoke(app, ["train", str(tmp_path / "run.yaml"), "--out", str(tmp_path / "runs"), "--quiet"])
    assert told.exit_code == 1
    assert told.stderr.startswith("error: expected a checkpoint of polarised, could not read ")
    assert told.stderr.endswith("; delete it to start afresh\n")
    assert (told.stderr.count("\n"), "\x1b" in told.stderr) == (1, False)
    again = CliRunner().invoke(app, ["study", "retry", str(tmp_path / "study")], env={"COLUMNS": "200"})
    assert again.exit_code == 1
    assert "TrainingError: expected a checkpoint of polarised, could not read " in again.output
    assert "Traceback" not in again.output
