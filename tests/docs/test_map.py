"""The map in CONTRIBUTING names every module of the package, and no other."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "polarised"


def _named() -> dict[str, set[str]]:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.split("## Where things are")[1].split("\n## ")[0]
    named: dict[str, set[str]] = {}
    for folder, words in re.findall(r"\*\*`([^`]+)`\*\*:?(.*?)(?=\*\*`|\Z)", section, flags=re.DOTALL):
        for word in re.findall(r"`([^`]+)`", words):
            if word == "figures/":
                break
            if re.fullmatch(r"\w+", word):
                named.setdefault(folder.rstrip("/"), set()).add(word)
        figures = re.search(r"`figures/` \(([^)]*)\)", words)
        if figures:
            named["report/figures"] = set(re.findall(r"`(\w+)`", figures[1]))
    return named


def test_every_module_is_on_the_map_in_its_folder() -> None:
    modules: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        if path.name != "__init__.py":
            modules.setdefault(path.parent.relative_to(PACKAGE).as_posix(), set()).add(path.stem)
    assert _named() == modules
