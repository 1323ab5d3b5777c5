"""The Python of the how-to runs as printed, block after block."""

import re
from pathlib import Path

import pytest

from polarised import registry

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "report.md"


def test_python_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), namespace)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "both.html", "gap.svg", "overview.pdf", "overview.png", "overview.svg", "page.html", "study.html",
    ]  # fmt: skip


def test_every_figure_is_in_the_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"`{name}" in text for name in registry.names("figure"))
