"""The promise of CONTRIBUTING: an entry is written in one place, and everything else follows from its record.

An external package, `tests/plugins/guest.py`, adds one entry of every kind; it is found by an entry point of the
group `polarised.plugins`, or each entry is named in full as ``module:name``. Nothing in the library refers to it.
"""

import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
import yaml

from polarised import registry

TESTS = Path(__file__).parent
SOURCE = Path(registry.__file__).parents[1]
ENTRIES = {
    "dataset": "guest_dots",
    "architecture": "guest_network",
    "likelihood": "GuestLikelihood",
    "prior": "GuestPrior",
    "objective": "GuestVAE",
    "schedule": "guest_rate",
    "metric": "guest_score",
    "estimator": "guest_estimate",
    "adapter": "guest_adapter",
    "measure": "guest_measure",
    "executor": "guest_executor",
    "claim": "guest_claim",
    "figure": "guest_figure",
    "gallery": "guest_study",
    "page": "guest_page",
}
CITED = ("Objective", "Dots", "Network", "Prior", "Likelihood", "Measure")


def test_the_guest_has_an_entry_of_every_kind() -> None:
    assert set(ENTRIES) == set(registry.KINDS)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of installed packages that includes the guest, with an entry point."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(TESTS / "plugins" / "guest.py", folder)
    about = folder / "guest-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: guest\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[polarised.plugins]\nguest = guest\n")
    return folder


@pytest.fixture(scope="module")
def stray(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with only the guest's module, without an entry point."""
    folder = tmp_path_factory.mktemp("stray")
    shutil.copy(TESTS / "plugins" / "guest.py", folder)
    return folder


def run(arguments: list[str], *, packages: Path, cwd: Path | None = None) -> str:
    """Run Python with the guest's package on the path and return its output."""
    paths = os.pathsep.join([str(packages), str(SOURCE), str(TESTS)])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "POLARISED_TRUST": "guest"}
    command = [sys.executable, "-W", "error", *arguments]
    done = subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


ASK = """
import json, sys
from polarised import registry
entries = json.loads(sys.argv[1])
prefix = sys.argv[2]
told = {}
for kind, name in entries.items():
    full = prefix + name
    record = registry.record(kind, full)
    try:
        registry.complete(kind, {"name": full, "no_such_setting": 1})
        refused = ""
    except Exception as error:
        refused = str(error)
    told[kind] = {
        "listed": name in registry.names(kind),
        "title": record.title,
        "completed": registry.complete(kind, {**record.examples()[0], "name": full}),
        "refused": refused,
        "references": len(record.references),
    }
    if kind in ("objective", "likelihood", "dataset"):
        told[kind]["built"] = type(registry.build(kind, full)).__name__
print(json.dumps(told))
"""


@pytest.mark.parametrize("prefix", ["", "guest:"])
def test_every_kind_is_listed_validated_and_built(site: Path, stray: Path, prefix: str) -> None:
    packages = stray if prefix else site
    told: dict[str, Any] = json.loads(run(["-c", ASK, json.dumps(ENTRIES), prefix], packages=packages))
    assert told["objective"]["title"] == "guest VAE"
    assert told["objective"]["completed"] == {"name": f"{prefix}GuestVAE", "weight": 2.0}
    assert told["objective"]["built"] == "GuestVAE"
    assert told["likelihood"]["built"] == "GuestLikelihood"
    assert told["dataset"]["built"] == "Dataset"
    for kind, name in ENTRIES.items():
        about = told[kind]
        assert about["listed"], kind
        assert about["title"], kind
        assert about["completed"]["name"] == prefix + name
        assert "no setting 'no_such_setting'" in about["refused"], kind
        assert about["references"] == (0 if kind in ("executor", "gallery", "page") else 1), kind


def study_file(folder: Path, prefix: str) -> Path:
    """A study made only of the guest's entries."""
    named = {kind: prefix + name for kind, name in ENTRIES.items()}
    config = {
        "name": "guest_study",
        "base": {
            "dataset": named["dataset"],
            "model": {
                "architecture": named["architecture"],
                "latents": 2,
                "prior": named["prior"],
                "likelihood": named["likelihood"],
            },
            "objective": named["objective"],
            "training": {"steps": 4, "batch_size": 8, "schedule": named["schedule"]},
            "evaluation": {"examples": 40, "further": [{"name": named["measure"], "scale": 2.0}]},
        },
        "axes": {"seed": 6, "strength": {"objective.weight": [1.0, 2.0]}},
        "claims": [named["claim"]],
    }
    file = folder / "guest.yaml"
    file.write_text(yaml.safe_dump(config, sort_keys=False))
    return file


WALK = """
import json, sys, traceback
from typer.testing import CliRunner
from polarised.cli import app
told = []
for arguments in json.loads(sys.argv[1]):
    done = CliRunner().invoke(app, arguments)
    if done.exit_code:
        print(arguments, done.output)
        traceback.print_exception(done.exception)
        sys.exit(1)
    told.append(done.stdout)
print(json.dumps(told))
"""


@pytest.mark.parametrize("prefix", ["", "guest:"])
def test_a_study_of_guest_entries_is_run_listed_cited_judged_and_drawn(
    site: Path, stray: Path, tmp_path: Path, prefix: str
) -> None:
    file, out, page = study_file(tmp_path, prefix), tmp_path / "out", tmp_path / "page"
    executor = prefix + ENTRIES["executor"]
    commands = [
        ["study", "run", str(file), "--executor", executor, "--out", str(out), "--quiet"],
        ["datasets", "list", "--json"],
        ["cite", str(out), "--json"],
        ["study", "publish", str(out), "--out", str(page)],
    ]
    told = json.loads(run(["-c", WALK, json.dumps(commands)], packages=stray if prefix else site))
    folders = sorted(path.parent.name for path in out.glob("*/done.json"))
    assert {name.partition("-GuestPrior")[0] for name in folders} == {"guest_VAE-weight1", "guest_VAE-weight2"}
    assert len(folders) == 12

    (dots,) = [about for about in json.loads(told[1])["datasets"] if about["name"] == "guest_dots"]
    assert (dots["title"], dots["licence"], dots["images"], dots["ready"]) == ("dots", "made here", 64, True)
    assert dots["citation"] == "Guest2026Dots"

    cited = json.loads(told[2])
    assert {f"Guest2026{work}" for work in CITED} <= set(cited["keys"])
    assert "The Objective of a guest" in cited["bibtex"]
    assert not {"Higgins2017", "Matthey2017", "Kingma2014"} & set(cited["keys"])

    verdicts = json.loads((page / "verdict.json").read_text())["verdicts"]
    assert {(one["name"], one["claim"], one["verdict"]) for one in verdicts} == {
        ("guest_claim", "The guest's measure is positive", "confirmed")
    }
    assert "guest_figure.png" in {path.name for path in page.rglob("*.png")}


LAWS = {"records": 20, "datasets": 8, "architectures": 8, "likelihoods": 4, "priors": 10, "objectives": 15}


def test_the_laws_cover_guest_entries(site: Path, tmp_path: Path) -> None:
    report = tmp_path / "laws.xml"
    files = [str(TESTS / "laws" / f"test_{name}.py") for name in LAWS]
    arguments = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "guest or Guest", f"--junitxml={report}", *files]
    run(arguments, packages=site, cwd=TESTS.parent)
    cases = [case.attrib["classname"].rpartition("test_")[2] for case in ElementTree.parse(report).iter("testcase")]
    for name, least in LAWS.items():
        assert cases.count(name) >= least, name


def test_a_guest_model_is_diagnosed(site: Path) -> None:
    ask = (
        "import numpy, polarised, guest\n"
        "data = numpy.random.default_rng(0).normal(size=(500, 4))\n"
        "d = polarised.diagnose(guest.GuestModel(), data)\n"
        "print(d.regime.types)"
    )
    assert run(["-c", ask], packages=site).strip() == "('active', 'active', 'active')"


@pytest.mark.parametrize("code", [None, "raise SystemExit(3)", "raise RuntimeError('x' * 10_000)"])
def test_a_plugin_that_cannot_be_loaded_causes_only_a_warning(site: Path, tmp_path: Path, code: str | None) -> None:
    if code is not None:
        (tmp_path / "no_such_module.py").write_text(code)
    about = tmp_path / "broken-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[polarised.plugins]\nbroken = no_such_module\n")
    ask = (
        "import warnings\nfrom polarised import registry\n"
        "with warnings.catch_warnings(record=True) as told:\n"
        "    warnings.simplefilter('always')\n"
        "    assert 'ELBO' in registry.names('objective')\n"
        "print([str(each.message) for each in told])"
    )
    told = run(["-c", ask], packages=tmp_path)
    assert "the plugin broken (no_such_module) could not be loaded" in told
    assert len(told) < 500
