"""The examples run."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


SHORT = {
    "plain_arrays": ("numpy", {}),
    "pytorch_dataloader": ("torch", {"steps": 5}),
    "lightning_module": ("lightning", {"steps": 4}),
    "pythae_model": ("pythae", {"steps": 5}),
    "diffusers_autoencoder": ("diffusers", {"steps": 2}),
    "scvi_cells": ("scvi", {"epochs": 1}),
}
PEERS = ("pythae_model", "diffusers_autoencoder", "scvi_cells")


def test_every_example_is_here():
    assert {file.stem for file in (ROOT / "examples").glob("*.py")} == set(SHORT)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.peers) if name in PEERS else name for name in SHORT]
)
def test_examples_run(name, capsys):
    library, settings = SHORT[name]
    pytest.importorskip(library)
    example = runpy.run_path(str(ROOT / "examples" / f"{name}.py"))
    example["main"](**settings)
    said = capsys.readouterr().out
    assert "latent variables" in said
