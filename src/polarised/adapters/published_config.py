"""What a published model says of itself: JSON beside its weights, with values as they are or as gin writes them."""

import ast
import json
from collections.abc import Sequence
from typing import Any

from polarised.adapters.archives import Folder
from polarised.errors import DataError

__all__ = ["dataset_named", "literal", "read_config"]

LARGEST_CONFIG = 1 << 20
LONGEST_LITERAL = 10_000


def read_config(folder: Folder, ends: Sequence[str]) -> dict[str, Any]:
    """Return the configuration in the first file that ends so."""
    name = folder.expect(*ends)
    content = folder.read(name, largest=LARGEST_CONFIG)
    try:
        config = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"expected JSON in {name} of {folder.path}, got {error}; get the file again") from error
    if not isinstance(config, dict):
        raise DataError(f"expected names and values in {name} of {folder.path}, got {type(config).__name__}")
    return config


def dataset_named(folder: Folder, ends: Sequence[str], key: str) -> str | None:
    """Return the dataset a model was trained on, where its configuration can be read and says so."""
    try:
        value = literal(read_config(folder, ends).get(key))
    except DataError:
        return None
    return value if isinstance(value, str) else None


def literal(value: Any) -> Any:
    """Return what a gin literal stands for; anything else is itself.

    >>> literal("'dsprites_full'"), literal("8.0"), literal("@vae()")
    ('dsprites_full', 8.0, '@vae()')
    """
    if not isinstance(value, str) or len(value) > LONGEST_LITERAL:
        return value
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return value
