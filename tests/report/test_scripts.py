"""The scripts of the pages, run by Node without a browser: what they compute and say comes from the library."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars
import pytest

from polarised import registry
from polarised.diagnosis import Diagnosis
from polarised.regime.classify import RULES
from polarised.report import write_report
from polarised.report.model_page import ALPHA

WEB = Path(__file__).parent / "web"
ROOT = Path(__file__).parents[2]
NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="no Node on this machine to run the scripts of the page")


def run(page: Path, expression: str) -> dict[str, Any]:
    command = [str(NODE), str(WEB / "page.js"), str(page), expression]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_the_scripts_pass_their_own_tests() -> None:
    done = subprocess.run([str(NODE), "--test"], cwd=WEB, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout
    # Tests that were not found would pass too.
    assert int(re.findall(r"^# pass (\d+)", done.stdout, flags=re.MULTILINE)[0]) >= 16


def test_the_scripts_pass_the_linter() -> None:
    linter = WEB / "node_modules" / ".bin" / "eslint"
    if not linter.exists():
        pytest.skip("no linter here: make check-js installs it")
    program = [str(linter), "--config", str(WEB / "eslint.config.js"), "--max-warnings", "0"]
    folders = ["src/polarised/report/web", "tests/report/web"]
    done = subprocess.run([*program, *folders], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_has_the_types_of_the_library_at_every_position_of_the_slider(
    diagnosis: Diagnosis, tmp_path: Path
) -> None:
    page = write_report(diagnosis, tmp_path / "page.html")
    alphas = [round((place + 1) * ALPHA["step"], 3) for place in range(ALPHA["places"])]
    for rule in RULES:
        asked = f"{json.dumps(alphas)}.map((alpha) => typesAt(DATA.models[0], alpha, '{rule}'))"
        expected = [list(diagnosis.regime.at(alpha, rule=rule).types) for alpha in alphas[::14]]
        assert run(page, asked)["answer"][::14] == expected


def test_titles_and_readings_on_the_page_are_those_of_the_records(diagnosis: Diagnosis, tmp_path: Path) -> None:
    shown = run(write_report(diagnosis, tmp_path / "page.html"), "null")["shown"]
    for name in ("total_correlation", "wasserstein_correlation"):
        output = registry.output(name)
        assert output.label.lower() in shown["#scores-charts"].lower()
        assert output.reading in shown["#scores-charts"]


def test_the_forecast_of_a_run_is_drawn_with_its_sentence(diagnosis: Diagnosis, tmp_path: Path) -> None:
    curve = polars.DataFrame({"beta": [0.1, 1.0, 10.0], "alive": [3, 2, 0], "active": [2, 0, 0]})
    kept = curve.with_columns(here=polars.Series([False, True, False]), sentence=polars.lit("2 would be alive."))
    shown = run(write_report(replace(diagnosis, forecast=kept), tmp_path / "page.html"), "null")["shown"]
    assert "2 would be alive." in shown["#forecast-sentence"]
    without = run(write_report(replace(diagnosis, forecast=None), tmp_path / "other.html"), "find('#forecast').hidden")
    assert without["answer"] is True


def test_a_study_names_the_metric_of_another_package(table: polars.DataFrame, tmp_path: Path) -> None:
    @registry.register("metric", title="my own score", unit="bits", reading="More is more.", references=("Chen2018",))
    def own_score(codes: object) -> float:
        return 0.0

    try:
        own = table.filter(table["metric"] == "total_correlation").with_columns(metric=polars.lit("own_score"))
        page = write_report(polars.concat([table, own]), tmp_path / "study.html")
    finally:
        del registry._records["metric"]["own_score"]
    assert "My own score, bits" in run(page, "null")["shown"]["#metric"]


def test_infinite_and_unknown_values_reach_the_page(diagnosis: Diagnosis, tmp_path: Path) -> None:
    page = write_report(diagnosis, tmp_path / "page.html")
    asked = """JSON.parse('{"a": "inf", "b": "nan", "c": "infinite"}', revive)"""
    assert run(page, f"Object.values({asked}).map(String)")["answer"] == ["Infinity", "null", "infinite"]
