"""A model of scvi-tools → Encodings, and what its decoder makes of the variables."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from polarised.adapters._untouched import untouched
from polarised.adapters.arrays import as_variance
from polarised.errors import DataError
from polarised.random import stream
from polarised.regime import Encodings, Regime
from polarised.regime.advice import listed
from polarised.regime.decoder import FEW, USUAL, CodedBatch, DecoderUse, measure_decoder_use

__all__ = ["from_scvi", "look_at_scvi"]


def from_scvi(model: Any, adata: Any = None, *, factor: str | None = None, batch_size: int | None = None) -> Encodings:
    """Encode cells with a trained scvi-tools model that has a Gaussian posterior (SCVI, SCANVI, LinearSCVI, DRVI ...).

    `get_latent_representation(return_dist=True)` gives the mean and the variance, not the standard deviation.

    Args:
        model: The trained model.
        adata: The cells; default: those it was trained on.
        factor: A column of ``adata.obs`` to take as known factor.
        batch_size: Cells encoded at once; default: the library's own.

    Returns:
        The encodings.

    Raises:
        DataError: If the model gives no posterior, or there is no such column.

    >>> import scvi  # doctest: +SKIP
    >>> from_scvi(scvi.model.SCVI.load("model"), adata, factor="cell_type")  # doctest: +SKIP
    Encodings(2,000 inputs × 10 variables, N(0, I), factors cell_type)
    """
    if not hasattr(model, "get_latent_representation"):
        raise DataError(f"expected a scvi-tools model with get_latent_representation, got {type(model).__name__}")
    with untouched(model.module):
        mean, variance = model.get_latent_representation(adata, batch_size=batch_size, return_dist=True)
    classes = None
    if factor is not None:
        table = (adata if adata is not None else model.adata).obs
        if factor not in table:
            raise DataError(f"expected a column of adata.obs as factor, {factor!r} is none of {', '.join(table)}")
        classes = np.unique(table[factor].astype(str), return_inverse=True)[1]
    return Encodings(
        mean,
        variance=as_variance(np.asarray(variance), "variance"),
        factors=classes,
        factor_names=[factor] if factor is not None else None,
    )


def look_at_scvi(
    model: Any, adata: Any = None, *, factor: str | None = None, batch_size: int | None = None, seed: int = 0
) -> tuple[Encodings, DecoderUse | None, Callable[[Regime], tuple[str, ...]]]:
    """Return the encodings of cells, what the decoder makes of the variables in nats, and what to say to biologists."""
    encodings = from_scvi(model, adata, factor=factor, batch_size=batch_size)
    use = None
    if hasattr(model.module, "generative") and hasattr(model, "_make_data_loader"):
        with untouched(model.module, seed=seed):
            use = measure_decoder_use(_coded(model, adata, len(encodings), seed), seed=seed)
    return encodings, use, _keep_or_drop


def _keep_or_drop(regime: Regime) -> tuple[str, ...]:
    kept = [j for j in range(len(regime.types)) if j not in regime.droppable]
    if not regime.droppable:
        return ("Keep all latent dimensions for neighbours, clustering and UMAP.",)
    if not regime.alive:
        return ()
    return (
        f"Keep latent dimensions {listed(kept)} and drop {listed(regime.droppable)} before neighbours, clustering and "
        "UMAP: a dropped one adds only noise to distances between cells.",
    )


def _coded(model: Any, adata: Any, cells: int, seed: int) -> Iterator[CodedBatch]:
    """Yield some hundred cells, then more, with -log p(x|z) of the model's own likelihood."""
    order = stream(seed, "cells for a decoder").permutation(cells)[:USUAL]
    for rows in (order[:FEW], order[FEW:]):
        if len(rows) >= 2:
            yield _coded_batch(model, adata, np.sort(rows), seed)


def _coded_batch(model: Any, adata: Any, rows: Any, seed: int) -> CodedBatch:
    import torch

    module = model.module
    adata = model._validate_anndata(adata)
    (tensors,) = list(model._make_data_loader(adata=adata, indices=rows, batch_size=len(rows)))
    device = next(module.parameters()).device
    tensors = {name: value.to(device) for name, value in tensors.items()}
    with torch.no_grad():
        inferred = module.inference(**module._get_inference_input(tensors))
        settings = module._get_generative_input(tensors, inferred)
        posterior = inferred["qz"]
        noise = torch.Generator().manual_seed(seed)
        z = posterior.loc + posterior.scale * torch.randn(posterior.loc.shape, generator=noise).to(device)
        redrawn = torch.randn(posterior.loc.shape, generator=noise)

    def distortion(codes: Any) -> Any:
        with torch.no_grad():
            given = {**settings, "z": torch.as_tensor(codes, dtype=z.dtype, device=device)}
            likelihood = module.generative(**given)["px"]
            return -likelihood.log_prob(tensors["X"]).sum(-1).double().cpu().numpy()

    return CodedBatch(distortion, z.cpu().numpy(), redrawn.numpy(), np.zeros(len(rows)))
