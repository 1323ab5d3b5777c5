"""YAML and JSON from untrusted files: limits on size, nesting and aliases, and only finite numbers."""

import json
import math
from pathlib import Path
from typing import Any

import yaml

from polarised.errors import DataError

__all__ = ["LARGEST_TEXT", "parse_json", "parse_yaml", "read_small"]

LARGEST_TEXT = 1 << 24
MOST_VALUES = 200_000
DEEPEST = 64
LONGEST_NUMBER = 400


def read_small(path: str | Path, *, largest: int = LARGEST_TEXT) -> str:
    """Return the content of a small text file; devices, pipes and larger files are refused.

    Args:
        path: The file.
        largest: The largest number of bytes.

    Returns:
        Its text.

    Raises:
        DataError: If it is not an ordinary file, too large, or not UTF-8.
        OSError: If it does not exist or cannot be read.
    """
    path = Path(path)
    # Opening a pipe or a device could block forever; for a missing file or a folder, `open` gives a better error.
    if path.exists() and not path.is_file() and not path.is_dir():
        raise DataError(f"expected a file of text, but {path} is another kind of file; check the path")
    with path.open("rb") as file:
        data = file.read(largest + 1)
    if len(data) > largest:
        raise DataError(
            f"expected at most {largest >> 10} KiB of text, but {path} is larger; check that it is the right file"
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"expected UTF-8 text, but could not read {path}: {error.reason} at {error.start}") from error


def parse_json(text: str | bytes, *, where: str | Path) -> Any:
    """Parse a JSON text; numbers that are not finite are refused.

    Args:
        text: The text, or its bytes in UTF-8.
        where: The name of the source in errors.

    Returns:
        Mappings, lists, strings, finite numbers, booleans and None.

    Raises:
        DataError: If it is not JSON, nested too deeply, or contains NaN, infinity or half a surrogate pair.

    >>> parse_json('{"a": [1, 2.5]}', where="a file")
    {'a': [1, 2.5]}
    >>> parse_json('{"a": NaN}', where="a file")
    Traceback (most recent call last):
    ...
    polarised.errors.DataError: expected JSON in a file, but could not read it: NaN is not a finite number
    """
    try:
        plain = text if isinstance(text, str) else text.decode("utf-8")
        value = json.loads(plain, parse_constant=_refuse_constant, parse_float=_finite)
        # Half a character, which an escape can write, fits in no file, table or page.
        if "\\ud" in plain.lower():
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        return value
    except RecursionError:
        raise DataError(f"expected JSON in {where}, but it is nested too deeply") from None
    except ValueError as error:
        raise DataError(f"expected JSON in {where}, but could not read it: {error}") from error


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not a finite number")


def _finite(word: str) -> float:
    number = float(word)
    if not math.isfinite(number):
        raise ValueError(f"{word[:20]} is not a finite number")
    return number


_FAST: Any = getattr(yaml, "CSafeLoader", None)
_BASES: tuple[Any, ...] = (yaml.SafeLoader,) if _FAST is None else (yaml.composer.Composer, _FAST)


class _Loader(*_BASES):  # type: ignore[misc]
    """A safe loader that counts nodes while it reads: libyaml alone nests until the stack overflows."""

    def __init__(self, text: str, where: str | Path) -> None:
        _BASES[-1].__init__(self, text)
        yaml.composer.Composer.__init__(self)
        self.where, self.depth, self.count = where, 0, 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Return the next value as a node."""
        self.depth, self.count = self.depth + 1, self.count + 1
        if self.depth > DEEPEST:
            raise DataError(f"expected at most {DEEPEST} levels in {self.where}, but it is nested more deeply")
        if self.count > MOST_VALUES:
            raise DataError(
                f"expected at most {MOST_VALUES:,} values in {self.where}, but it has more; check that it is the right "
                "file"
            )
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def parse_yaml(text: str, *, where: str | Path) -> Any:
    """Parse a YAML text: plain data, whose size is limited after all aliases are expanded.

    Args:
        text: The text.
        where: The name of the source in errors.

    Returns:
        Mappings, lists, strings, finite numbers, booleans and None.

    Raises:
        DataError: If it is not YAML, nested too deeply or in a circle, or its aliases expand to too many values.

    >>> parse_yaml("{a: &x [1, 2], b: *x}", where="a file")
    {'a': [1, 2], 'b': [1, 2]}
    """
    loader = None
    try:
        loader = _Loader(text, where)
        node = loader.get_single_node()
        if node is None:
            return None
        _measure(node, {}, 0, where)
        value = loader.construct_document(node)
        _check_plain(value, "", where)
        return value
    except DataError:
        raise
    except RecursionError:
        raise DataError(f"expected YAML in {where}, but it is nested too deeply") from None
    # Constructors of dates, numbers and base64 can raise any error.
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise DataError(f"expected YAML in {where}, but could not read it: {reason}") from error
    finally:
        if loader is not None:
            loader.dispose()


def _check_plain(value: Any, place: str, where: str | Path) -> None:
    """Refuse values that no setting can have: dates, bytes, sets and numbers that are not finite."""
    if isinstance(value, dict):
        for key, below in value.items():
            if not isinstance(key, str | int | float | bool) and key is not None:
                raise DataError(f"expected names of settings in {where}, got {str(key)[:80]!r}; put it in quotes")
            _check_plain(below, f"{place}.{key}" if place else str(key), where)
    elif isinstance(value, list):
        for number, below in enumerate(value):
            _check_plain(below, f"{place}[{number}]", where)
    elif isinstance(value, float) and not math.isfinite(value):
        raise DataError(f"expected a finite number as {place or 'the value'} in {where}, got {value}")
    elif value is not None and not isinstance(value, str | int | float):
        kind = type(value).__name__
        raise DataError(
            f"expected a number, a string or a list as {place or 'the value'} in {where}, got a {kind}; put it in "
            "quotes"
        )


def _measure(node: Any, known: dict[int, int], depth: int, where: str | Path) -> int:
    """Return the number of values in a node after aliases are expanded, counting each node once."""
    size = known.get(id(node))
    if size == 0:
        raise DataError(f"expected YAML without cycles in {where}, but a value contains itself")
    if size is not None:
        return size
    if depth > DEEPEST:
        raise DataError(f"expected at most {DEEPEST} levels in {where}, but it is nested more deeply")
    known[id(node)] = 0
    if isinstance(node, yaml.MappingNode):
        below: list[Any] = [part for pair in node.value for part in pair]
    elif isinstance(node, yaml.SequenceNode):
        below = node.value
    else:
        below = []
        if node.tag.endswith((":int", ":float")) and len(node.value) > LONGEST_NUMBER:
            raise DataError(f"expected numbers of at most {LONGEST_NUMBER} digits in {where}, but one is longer")
    size = 1 + sum(_measure(part, known, depth + 1, where) for part in below)
    if size > MOST_VALUES:
        raise DataError(
            f"expected at most {MOST_VALUES:,} values in {where}, but its aliases expand to more; write it without "
            "aliases"
        )
    known[id(node)] = size
    return size
