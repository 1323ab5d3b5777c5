"""The one gateway for files: atomic writes, containment, readers that trust nothing, and values as JSON knows them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["plain"]


def plain(value: Any) -> Any:
    """Return a value as JSON knows it; what JSON lacks are the texts "inf", "-inf" and "nan".

    Args:
        value: Mappings, sequences, sets, NumPy arrays and numbers, or anything else.

    Returns:
        The same as dictionaries, lists, numbers, texts and None; anything unknown as its text.

    >>> import numpy
    >>> plain({"a": (1, float("nan")), "b": numpy.float32(0.5), "c": numpy.array([-numpy.inf])})
    {'a': [1, 'nan'], 'b': 0.5, 'c': ['-inf']}
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, bytes | bytearray):
        return [plain(item) for item in value]
    # Arrays and numbers of NumPy, without importing it for those who have none.
    return plain(value.tolist()) if hasattr(value, "tolist") else str(value)
