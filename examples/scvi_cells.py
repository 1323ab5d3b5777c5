"""Which latent dimensions of an SCVI model do real cells use? 700 blood cells (PBMC68k), annotated in place.

scanpy carries these cells log-normalised (`raw`). Their counts are recovered here: the smallest value above zero of a
cell is log1p of one count, so expm1 over the smallest expm1 of the cell, rounded, is the count. That is good enough to
show how it goes; train on counts of your own.

Needs: pip install scvi-tools scanpy. Run: python examples/scvi_cells.py
"""

import warnings
from typing import Any

import numpy as np

import polarised as po


def counts_of_cells() -> Any:
    """Return the cells with recovered counts."""
    import scanpy

    raw = scanpy.datasets.pbmc68k_reduced().raw.to_adata()
    values = np.expm1(raw.X.toarray() if hasattr(raw.X, "toarray") else np.asarray(raw.X))
    smallest = np.where(values > 0, values, np.inf).min(axis=1, keepdims=True)
    raw.X = np.rint(values / smallest).astype(np.float32)
    return raw


def main(epochs: int = 80, latents: int = 20) -> None:
    """Train, annotate, and show what to keep for neighbours, clustering and UMAP."""
    warnings.filterwarnings("ignore")
    import scvi

    scvi.settings.seed = 0
    scvi.settings.verbosity = 30
    cells = counts_of_cells()
    scvi.model.SCVI.setup_anndata(cells)
    model = scvi.model.SCVI(cells, n_latent=latents)
    model.train(max_epochs=epochs, plan_kwargs={"n_epochs_kl_warmup": 20}, accelerator="cpu", enable_progress_bar=False)
    diagnosis = po.annotate(cells, model, factors="bulk_labels")
    print(diagnosis)
    print("kept for neighbours:", cells.uns["polarised"]["kept"], "->", cells.obsm["X_polarised"].shape)


if __name__ == "__main__":
    main()
