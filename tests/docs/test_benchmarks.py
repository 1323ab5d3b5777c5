"""Every benchmark is named on the page of benchmarks, and the page that it sends to names its command."""

import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "results" / "benchmarks.md"


def test_the_page_lists_every_script_and_sends_to_its_command() -> None:
    rows = re.findall(
        r"^\| `benchmarks/(\w+\.py)` \| [^|]+ \| (?:below|\[[^]]+\]\(([^)#]+)[^)]*\)) \|$", PAGE.read_text(), re.M
    )
    assert sorted(script for script, _ in rows) == sorted(
        path.name for path in (REPOSITORY / "benchmarks").glob("*.py")
    )
    for script, link in rows:
        target = (PAGE.parent / link).resolve() if link else PAGE
        assert f"python benchmarks/{script}" in target.read_text(), f"{target.name} has no command of {script}"
