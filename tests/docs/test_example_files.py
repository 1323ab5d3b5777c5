"""The examples run."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


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
