"""The Python of README and tutorial runs as printed, block after block."""

import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


def blocks(path):
    return re.findall(r"^```python\n(.*?)^```", (ROOT / path).read_text(), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("path", ["README.md", "docs/tutorial.md"])
def test_python_blocks_run(path, tmp_path, monkeypatch, oracles):
    monkeypatch.chdir(tmp_path)
    with np.load(oracles / "metrics" / "c02_small_three_types.npz") as case:
        # The tutorial goes on with arrays of the reader's own; README brings all it needs.
        namespace = {} if path == "README.md" else {"mean": case["mu"], "log_variance": np.log(case["var"])}
    found = blocks(path)
    assert found
    for block in found:
        exec(compile(block, path, "exec"), namespace)
    assert list(tmp_path.glob("*.html"))


def test_the_links_of_every_page_lead_somewhere():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


def test_the_training_example_trains():
    (block,) = [text for text in blocks("docs/howto/train.md") if "history = train(" in text]
    small = block.replace('steps=2000, directory="my-run"', "steps=2, batch_size=4, progress=False")
    assert small != block
    exec(compile(small, "docs/howto/train.md", "exec"), {})
