"""The blocks of every page: Python runs as printed, commands and their options exist, configs are configs."""

import doctest
import re
import shlex
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from polarised.cli import app

ROOT = Path(__file__).parents[2]
# Published results are records of what was run; their pages name commands of their day.
PAGES = [
    path
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if "results" not in path.parts
]
# A page whose Python goes on with objects of the reader's own says so in a comment before the block.
NOT_RUN = re.compile(r"<!-- not run: .+ -->\n\Z")


def blocks(path, *languages):
    """The code of a page in some languages, without what says that it is not run."""
    text = path.read_text(encoding="utf-8")
    found = re.finditer(r"^```(\w+)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    return [each[2] for each in found if each[1] in languages and not NOT_RUN.search(text[: each.start()])]


def with_blocks(*languages):
    # README's Python has a fresh interpreter: test_readme.py.
    elsewhere = {ROOT / "README.md"} if "python" in languages else set()
    chosen = [path for path in PAGES if path not in elsewhere and blocks(path, *languages)]
    return pytest.mark.parametrize("path", chosen, ids=lambda path: str(path.relative_to(ROOT)))


@with_blocks("python")
def test_python_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for block in blocks(path, "python"):
        if block.startswith(">>>"):
            test = doctest.DocTestParser().get_doctest(block, namespace, path.name, str(path), 0)
            assert (
                doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, clear_globs=False).failed == 0
            )
            namespace |= test.globs
        else:
            exec(compile(block, str(path), "exec"), namespace)


def commands(text):
    """The commands of our own in a block, a line each: what is piped, redirected or remarked is left out."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(re.split(r"\s[|>#]\s?", line)[0].replace("#", " #"), comments=True)
        while words and re.fullmatch(r"\w+=\S*", words[0]):
            words = words[1:]
        if words and words[0] == "polarised":
            yield words[1:]


def unknown(words):
    """What a command line names that does not exist: a command or an option."""
    command = get_command(app)
    while words and hasattr(command, "commands"):
        if words[0] in command.commands:
            command, words = command.commands[words[0]], words[1:]
        elif "run" in command.commands and not words[0].startswith("-"):
            command = command.commands["run"]
        elif words[0].startswith("-"):
            break
        else:
            return [words[0]]
    options = {name for each in command.params for name in (*each.opts, *each.secondary_opts)} | {"--help", "-h"}
    return [word for word in words if word.startswith("-") and word.split("=")[0] not in options]


@with_blocks("sh", "console", "bash")
def test_commands_exist(path):
    told = [words for block in blocks(path, "sh", "console", "bash") for words in commands(block)]
    assert [(words, wrong) for words in told if (wrong := unknown(words))] == []


def test_what_does_not_exist_is_found():
    assert unknown(["diagnose", "codes.npz", "--detail"]) == ["--detail"]
    assert unknown(["diagnos", "codes.npz"]) == ["diagnos"]
    assert unknown(["study", "rtc_vae", "--scales", "small"]) == ["--scales"]
    (words,) = commands("PYTHONPATH=. polarised train beta.yaml seed=1   # a remark --not-an-option\n")
    assert words == ["train", "beta.yaml", "seed=1"]


@with_blocks("yaml")
def test_yaml_is_yaml(path):
    for block in blocks(path, "yaml"):
        assert isinstance(yaml.safe_load(block), dict)


def test_the_links_of_every_page_lead_somewhere():
    for page in [*PAGES, ROOT / "SECURITY.md", ROOT / "CHANGELOG.md"]:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"
