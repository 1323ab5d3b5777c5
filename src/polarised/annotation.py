"""A diagnosis written into AnnData, where scverse looks for it."""

from typing import Any

import numpy as np

from polarised.diagnosis import Diagnosis, diagnose
from polarised.errors import DataError

__all__ = ["annotate"]


def annotate(adata: Any, model: Any, *, key: str = "polarised", factors: str | None = None, seed: int = 0) -> Diagnosis:
    """Write the types of a model's latent dimensions, their evidence and an order by use to AnnData.

    ``adata.obsm["X_polarised"]`` gets the means of the dimensions to keep, the most used first, ready for
    ``scanpy.pp.neighbors(adata, use_rep="X_polarised")``; ``adata.uns["polarised"]`` the table of all dimensions, which
    are kept and in which order, the headline, the advice and the settings.

    Args:
        adata: The cells; it is written to, as scanpy's functions do.
        model: A model of scvi-tools trained on them, or anything `diagnose` takes with cells as data.
        key: The name to write under.
        factors: A column of ``adata.obs`` to take as known factor.
        seed: Of everything drawn.

    Returns:
        The diagnosis.

    Raises:
        DataError: If this is no AnnData, or the model encodes other cells.

    >>> annotate(adata, scvi.model.SCVI.load("model", adata)).headline  # doctest: +SKIP
    '8 of 10 latent variables are active, none mixed, 2 passive.'
    """
    if not hasattr(adata, "obsm") or not hasattr(adata, "uns"):
        raise DataError(f"expected AnnData to write to, got {type(adata).__name__}")
    diagnosis = diagnose(model, adata, factors=factors, seed=seed)
    codes, regime = diagnosis.encodings.mean, diagnosis.regime
    if len(codes) != adata.n_obs:
        raise DataError(f"expected a code for each of the {adata.n_obs} cells, got {len(codes)}")
    strength = regime.statistics.kl if regime.decoder is None else regime.decoder.permuted
    order = [int(j) for j in np.argsort(-np.nan_to_num(strength, posinf=1e300), kind="stable")]
    dropped = set(regime.droppable)
    kept = [j for j in order if j not in dropped]
    adata.obsm[f"X_{key}"] = np.ascontiguousarray(codes[:, kept])
    table = diagnosis.to_pandas()
    table.index = table.index.astype(str)
    adata.uns[key] = {
        "variables": table,
        "order": np.array(order),
        "kept": np.array(kept, dtype=np.int64),
        "dropped": np.array(sorted(dropped), dtype=np.int64),
        "headline": diagnosis.headline,
        "advice": np.array(diagnosis.advice, dtype=object),
        "params": {"rule": regime.rule, "alpha": regime.alpha, "inputs": regime.inputs, "seed": seed},
    }
    return diagnosis
