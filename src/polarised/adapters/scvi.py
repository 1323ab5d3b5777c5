"""A model of scvi-tools → Encodings."""

from typing import Any

import numpy as np

from polarised.adapters.arrays import as_variance
from polarised.errors import DataError
from polarised.regime import Encodings

__all__ = ["from_scvi"]


def from_scvi(model: Any, adata: Any = None, *, factor: str | None = None, batch_size: int | None = None) -> Encodings:
    """Encode cells with a trained scvi-tools model that has a Gaussian posterior (SCVI, SCANVI, LinearSCVI, DRVI ...).

    `get_latent_representation(return_dist=True)` gives the mean and the variance, not the standard deviation.
    `factor` names a column of ``adata.obs`` to take as known factor.

    >>> import scvi  # doctest: +SKIP
    >>> from_scvi(scvi.model.SCVI.load("model"), adata, factor="cell_type")  # doctest: +SKIP
    Encodings(2,000 inputs × 10 variables, N(0, I), factors cell_type)
    """
    if not hasattr(model, "get_latent_representation"):
        raise DataError(f"expected a scvi-tools model with get_latent_representation, got {type(model).__name__}")
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
