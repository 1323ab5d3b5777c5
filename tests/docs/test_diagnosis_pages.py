"""The Python of the pages on diagnosis runs, and so do the examples."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["diagnose_your_model.md", "how_many_latents.md"])
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "howto" / page).read_text(encoding="utf-8")
    found = re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    assert found
    namespace = {}
    for block in found:
        exec(compile(block, page, "exec"), namespace)


@pytest.mark.parametrize(
    "name",
    [
        "plain_arrays",
        pytest.param("pythae_model", marks=pytest.mark.peers),
        pytest.param("diffusers_autoencoder", marks=pytest.mark.peers),
    ],
)
def test_examples_run(name, capsys):
    if name != "plain_arrays":
        pytest.importorskip(name.split("_")[0])
    example = runpy.run_path(str(ROOT / "examples" / f"{name}.py"))
    example["main"](**({"steps": 5} if name == "pythae_model" else {}))
    assert "latent variables" in capsys.readouterr().out
