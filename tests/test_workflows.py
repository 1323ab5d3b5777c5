"""The workflows of GitHub, which cannot run here: their syntax, their safety, and that what they call exists."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fuzz.inputs import KINDS

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROGRAMS = Path(sys.executable).parent


def form(*files):
    command = [PROGRAMS / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", *files]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def audit(*files):
    command = [PROGRAMS / "zizmor", "--offline", "--no-progress", "--config", ROOT / ".github" / "zizmor.yml", *files]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_workflows_are_valid_and_have_no_known_weakness():
    assert len(WORKFLOWS) == 3
    assert form(*WORKFLOWS).returncode == 0
    told = audit(*WORKFLOWS)
    assert told.returncode == 0, told.stdout


def test_both_linters_can_fail(tmp_path):
    broken = tmp_path / "broken.yml"
    broken.write_text("on: push\njobs: {one: {steps: [{run: make}]}}\n")
    assert "runs-on" in form(broken).stdout
    weak = tmp_path / "weak.yml"
    step = '{run: "echo ${{ github.event.issue.title }}"}'
    weak.write_text(f"name: w\non: issues\njobs: {{one: {{runs-on: ubuntu-latest, steps: [{step}]}}}}\n")
    assert "template-injection" in audit(weak).stdout


@pytest.mark.parametrize("file", [*WORKFLOWS, ROOT / ".ci" / "run"], ids=lambda file: file.name)
def test_what_a_workflow_calls_exists(file):
    text = file.read_text()
    goals = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    called = [
        goal
        for goals_called in re.findall(r"\bmake ([a-z -]+)$", text, flags=re.MULTILINE)
        for goal in goals_called.split()
    ]
    scripts = re.findall(r"\b(?:bash|python) ([\w./]+)", text)
    assert called or scripts
    assert set(called) <= goals
    assert [script for script in scripts if not (ROOT / script).exists()] == []


def test_the_workflows_cover_what_they_promise():
    jobs = {file.stem: yaml.safe_load(file.read_text())["jobs"] for file in WORKFLOWS}
    assert set(jobs["tests"]) == {"tests", "docs", "build-without-torch"}
    assert "make test-all" in str(jobs["nightly"])
    assert "make fuzz" in str(jobs["nightly"])
    assert jobs["publish"]["publish"]["needs"] == "build"


def test_every_kind_of_file_is_fuzzed_at_night():
    nightly = yaml.safe_load((ROOT / ".github" / "workflows" / "nightly.yml").read_text())
    assert nightly["jobs"]["fuzzers"]["strategy"]["matrix"]["kind"] == sorted(KINDS)
