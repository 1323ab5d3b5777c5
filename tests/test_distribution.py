"""The distribution: wheel and sdist work in a fresh environment, and all statements of the version agree."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

import check_distribution
import polarised

ROOT = Path(__file__).parents[1]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.mark.slow
def test_wheel_and_sdist_work_in_a_fresh_environment(tmp_path, capsys):
    check_distribution.main(tmp_path / "dist")
    assert capsys.readouterr().out.count("fresh environment without torch") == 2


def test_a_file_that_the_wheel_lacks_is_found(tmp_path):
    with zipfile.ZipFile(tmp_path / "some.whl", "w") as wheel:
        wheel.writestr("polarised/__init__.py", "")
    lacking = check_distribution.missing(tmp_path / "some.whl")
    assert "polarised/__init__.py" not in lacking
    assert {"polarised/references.bib", "polarised/py.typed"} <= set(lacking)


def releases():
    return re.findall(r"^## (\d+\.\d+\.\d+) - (\d{4}-\d{2}-\d{2})$", CHANGELOG, flags=re.MULTILINE)


def test_version_changelog_and_citation_agree():
    newest, date = releases()[0]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (citation["version"], str(citation["date-released"])) == (newest, date)
    assert citation["license"] == PROJECT["license"]
    # Between releases the package is ahead of the newest one, never behind.
    numbers = [int(part) for part in re.findall(r"\d+", polarised.__version__)[:3]]
    assert numbers >= [int(part) for part in newest.split(".")]


def test_the_citation_file_is_valid():
    command = [Path(sys.executable).parent / "check-jsonschema", "--builtin-schema", "vendor.citation-file-format"]
    told = subprocess.run([*command, ROOT / "CITATION.cff"], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout


def test_the_version_is_written_once():
    assert PROJECT["dynamic"] == ["version"]
    files = [
        file for file in (ROOT / "src").rglob("*.py") if re.search(r"^__version__ =", file.read_text(), re.MULTILINE)
    ]
    assert [file.name for file in files] == ["_version.py"]


def test_the_changelog_has_the_expected_format():
    sections = re.findall(r"^## (.*)$", CHANGELOG, flags=re.MULTILINE)
    assert sections[0] == "Unreleased"
    assert sections[1:] == [f"{version} - {date}" for version, date in releases()]
    kinds = set(re.findall(r"^### (.*)$", CHANGELOG, flags=re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_every_direct_dependency_is_pinned():
    pins = {
        line.partition("==")[0].lower().replace("_", "-") for line in (ROOT / "constraints.txt").read_text().split()
    }
    wanted = [
        *PROJECT["dependencies"],
        *(each for extra in PROJECT["optional-dependencies"].values() for each in extra),
    ]
    names = {re.split(r"[<>=!~\[;]", each)[0].lower() for each in wanted}
    assert names <= pins
