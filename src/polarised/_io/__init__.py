"""The only access to files: atomic writes, containment of paths, readers for untrusted files, and JSON values."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["plain"]


def plain(value: Any) -> Any:
    """Convert a value to plain JSON types; "inf", "-inf" and "nan" become strings, since JSON has no such numbers.

    Args:
        value: Mappings, sequences, sets, NumPy arrays and numbers, or anything else.

    Returns:
        The same as dictionaries, lists, numbers, strings and None; anything unknown as its string.

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
    # Arrays and numbers of NumPy, without importing NumPy.
    return plain(value.tolist()) if hasattr(value, "tolist") else str(value)
