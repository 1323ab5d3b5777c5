"""`polarised report` writes a page for every kind of target; other targets give an error of one sentence."""

import json
from pathlib import Path

import numpy as np
import polars
import pytest
from typer.testing import CliRunner

from polarised.cli import app
from polarised.errors import ConfigError
from polarised.report.page import page_of, write
from report.examples import tidy


def arrays(path: Path, *, seed: int = 0) -> Path:
    generator = np.random.default_rng(seed)
    variance = np.tile([0.01, 0.02, 0.98], (200, 1))
    np.savez(path, mean=generator.normal(size=(200, 3)) * [1, 1, 0.01], variance=variance)
    return path


def test_arrays_get_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["report", str(arrays(tmp_path / "codes.npz"))])
    assert result.exit_code == 0, result.output
    assert "codes.html" in result.output
    assert "2 of 3 latent variables are active" in (tmp_path / "codes.html").read_text(encoding="utf-8")


def test_several_models_are_compared_and_json_names_the_page(tmp_path: Path) -> None:
    first, second = arrays(tmp_path / "first.npz"), arrays(tmp_path / "second.npz", seed=1)
    page = tmp_path / "both.html"
    result = CliRunner().invoke(app, ["report", str(first), str(second), "--out", str(page), "--json"])
    assert json.loads(result.output) == {
        "schema": "polarised.report/1",
        "page": str(page),
        "bytes": page.stat().st_size,
    }
    assert "2 models side by side" in page.read_text(encoding="utf-8")


def test_a_table_of_results_gets_a_page_with_links_to_its_runs(tmp_path: Path) -> None:
    table = tidy()
    table.write_parquet(tmp_path / "results.parquet")
    run = str(table["run"][0])
    (tmp_path / run).mkdir()
    (tmp_path / run / "report.html").write_text("a page", encoding="utf-8")
    page = write([tmp_path / "results.parquet"], tmp_path / "pages" / "study.html", title="A study")
    assert f'"link":"../{run}/report.html"' in page.read_text(encoding="utf-8")


def test_a_study_among_models_is_refused(tmp_path: Path) -> None:
    tidy().write_parquet(tmp_path / "results.parquet")
    targets = [str(tmp_path / "results.parquet"), str(arrays(tmp_path / "codes.npz"))]
    result = CliRunner().invoke(app, ["report", *targets])
    assert result.exit_code == 2
    assert "one study or several models" in result.output


@pytest.mark.parametrize("command", ["report", "explore"])
def test_a_missing_target_is_an_error(command: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [command, str(tmp_path / "nothing")])
    assert result.exit_code == 2
    assert "does not exist" in result.output
    assert isinstance(result.exception, SystemExit)


def test_arrays_cannot_be_explored(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["explore", str(arrays(tmp_path / "codes.npz"))])
    assert result.exit_code == 1
    assert "only arrays" in result.output


def test_a_broken_table_is_an_error(tmp_path: Path) -> None:
    polars.DataFrame({"run": ["a"]}).write_parquet(tmp_path / "results.parquet")
    result = CliRunner().invoke(app, ["report", str(tmp_path / "results.parquet")])
    assert result.exit_code == 1
    assert "expected a tidy table" in result.output


def test_the_page_uses_the_options_of_diagnose(tmp_path: Path) -> None:
    spread = np.tile([0.1, 0.14, 0.98], (200, 1))
    np.savez(tmp_path / "codes.npz", mean=np.random.default_rng(0).normal(size=(200, 3)), sigma=spread)
    page, options = tmp_path / "page.html", ("--alpha", "0.2", "--rule", "standard", "--seed", "1")
    arguments = ["report", str(tmp_path / "codes.npz"), "--out", str(page), "--scale-kind", "std", *options]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert '"alpha":0.2,"rule":"standard"' in page.read_text(encoding="utf-8")
    assert CliRunner().invoke(app, [*arguments, "--examples", "20"]).exit_code == 2


def test_an_option_applies_to_those_targets_that_support_it(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        arrays(tmp_path / folder / "codes.npz")
    (tmp_path / "b" / "config.yaml").write_text("seed: 0\n")
    (tmp_path / "b" / "codes.npz").rename(tmp_path / "b" / "encodings.npz")
    page = write([tmp_path / "a" / "codes.npz", tmp_path / "b"], tmp_path / "page.html", scale_kind="variance")
    assert "2 models side by side" in page.read_text(encoding="utf-8")
    with pytest.raises(ConfigError, match="no examples"):
        write([tmp_path / "a" / "codes.npz", tmp_path / "b"], tmp_path / "page.html", examples=20)


def test_models_with_the_same_name_are_distinguished_by_their_folders(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        arrays(tmp_path / folder / "codes.npz")
    page = write([tmp_path / folder / "codes.npz" for folder in ("a", "b")], tmp_path / "page.html")
    text = page.read_text(encoding="utf-8")
    assert '"name":"a/codes"' in text
    assert '"name":"b/codes"' in text


def test_a_page_is_written_only_into_our_own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "theirs").mkdir()
    for name in ("mean", "variance"):
        np.save(tmp_path / "theirs" / f"{name}.npy", np.full((50, 2), 0.5))
    assert write(["theirs"]) == Path("theirs.html")
    assert [file.name for file in Path("theirs").iterdir() if file.suffix == ".html"] == []
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").touch()
    assert page_of([Path("run")], "run") == Path("run/report.html")
    assert page_of([Path("run"), Path("other")], "2 files") == Path("2_files.html")
