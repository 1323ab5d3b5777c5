"""Arrays in a file (.npz, .npy, parquet) → Encodings.

The arrays go by common names: mean (mu, loc, z_mean ...), one of variance, log_variance (logvar ...), std, log_std, and
optionally prior_mean, a prior variance, factors (labels) and factor_names. Parquet has a column for each variable
(``mean_0``, ``log_variance_0`` ...) or list columns under the same names.
"""

from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polarised.adapters.array_chunks import chunks_of_file
from polarised.adapters.array_files import LARGEST_WHOLE, open_arrays
from polarised.adapters.array_names import Names
from polarised.adapters.spread import Second
from polarised.errors import DataError
from polarised.representations import Encodings

__all__ = ["from_arrays"]


def from_arrays(
    path: str | Path, *, second: Second | None = None, examples: int | None = None, certain: bool = False
) -> Encodings:
    """Read encodings from an .npz, a parquet file, or .npy files of one folder, under common names.

    `second` overrides what the name of the spread says; `examples` reads only so many leading inputs.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "codes.npz"
    >>> np.savez(path, mu=np.zeros((5, 2)), logvar=np.full((5, 2), -1.0))
    >>> from_arrays(path)
    Encodings(5 inputs, 2 latent variables, N(0, I))
    """
    file = open_arrays(path)
    names = Names.among(file.names, str(path), second=second)
    shape = file.shape(names.mean)
    if examples is None and 16 * prod(shape) > LARGEST_WHOLE:
        raise DataError(
            f"expected encodings that fit in memory, {path} has {shape}; read some with examples=, "
            "or diagnose the file in chunks (polarised diagnose, polarised.shards)"
        )
    chunks = list(chunks_of_file(path, second=second, examples=examples, certain=certain))
    factors = (
        None if chunks[0].factors is None else np.concatenate([c.factors for c in chunks if c.factors is not None])
    )
    return Encodings(
        np.concatenate([chunk.mean for chunk in chunks]),
        variance=np.concatenate([chunk.variance for chunk in chunks]),
        prior_mean=_prior([chunk.prior_mean for chunk in chunks]),
        prior_variance=_prior([chunk.prior_variance for chunk in chunks]),
        factors=factors,
        factor_names=file.factor_names if factors is not None else None,
        kl=chunks[0].kl,
        repeats=chunks[0].repeats,
    )


def _prior(parts: list[NDArray[Any] | float]) -> NDArray[Any] | float:
    return np.concatenate(parts) if np.ndim(parts[0]) == 2 else parts[0]
