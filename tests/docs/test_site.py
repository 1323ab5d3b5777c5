"""What the site is made from: every public name has an example, every example runs, every citation has a work."""

import doctest
import importlib
import inspect
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "_site"))
import examples  # noqa: E402
import pages  # noqa: E402


def test_every_public_name_has_an_example():
    lacking = []
    for module in pages.MODULES:
        loaded = importlib.import_module(module)
        for name in pages.public_names(module):
            value = getattr(loaded, name)
            told = (inspect.getdoc(value) or "") + examples.example_of(name)
            if callable(value) and ">>>" not in told:
                lacking.append(f"{module}.{name}")
    assert lacking == []


@pytest.mark.parametrize("names", examples.EXAMPLES, ids=lambda names: names[0])
def test_examples_run(names, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    test = doctest.DocTestParser().get_doctest(examples.EXAMPLES[names], {}, names[0], None, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    assert runner.run(test).failed == 0


def test_citations_have_works():
    known = set(pages.bibliography())
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md")]
    cited = {
        re.split(r"[, ]", part.strip())[0]: file.name
        for file in files
        for found in pages.CITATION.findall(file.read_text(encoding="utf-8"))
        for part in found.split(";")
    }
    assert {key: file for key, file in cited.items() if key not in known} == {}


def test_pages_are_made_from_the_code():
    assert "## `polarised study verify`" in (line := pages.command_line())
    assert "[bold]" not in line
    assert not re.search(r"^\* `\w+`: .*\.\.\.$", line, flags=re.MULTILINE)
    assert "| `BetaTCVAE` |" in pages.catalogue()
    assert "::: polarised.diagnose" in dict(pages.interface())["reference/api/polarised.md"]
    assert pages.glossary().count("\n| ") > 30


GALLERY = ROOT / "docs" / "gallery"


@pytest.mark.parametrize("page", sorted((GALLERY / "pages").glob("*.html")), ids=lambda page: page.stem)
def test_pages_of_the_gallery_stand_alone(page):
    text = page.read_text(encoding="utf-8")
    assert 50_000 < len(text) < 2_000_000
    assert not re.search(r"<(?:script|img|link|iframe)[^>]*(?:src|href)=[\"']?https?:", text)
    assert f"(pages/{page.name})" in (GALLERY / "README.md").read_text(encoding="utf-8")
    assert str(ROOT) not in text


def test_examples_of_docstrings_become_code():
    assert pages.fenced("Say.\n\n>>> 1 + 1\n2\n\nMore.").split("\n")[2:6] == ["", "```pycon", ">>> 1 + 1", "2"]
    text = "```python\n>>> 1\n1\n```"
    assert pages.fenced(text) == text
