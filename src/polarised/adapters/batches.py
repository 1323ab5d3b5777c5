"""Data in common forms → batches of inputs with their labels."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polarised._io.files import expanded
from polarised.data.dataset import Batch, Dataset
from polarised.errors import DataError
from polarised.regime.encodings import as_array

__all__ = ["Batches", "InputBatch", "batches_of", "dataset_at", "first_and_rest", "is_pair", "pixel_fit"]

Array = NDArray[Any]
Range = tuple[float, float]

INPUTS = ("image", "images", "img", "pixel_values", "x", "input", "inputs", "input_ids", "data", "features", "sample")
LABELS = ("label", "labels", "y", "target", "targets", "class", "classes", "factors")


class InputBatch(NamedTuple):
    """Inputs in the form a model takes, their labels if any, and the original batch."""

    inputs: Any
    factors: Array | None
    whole: Any = None


@dataclass(frozen=True)
class Batches:
    """Batches for a single pass; `total` is the number of inputs, if known.

    `named` is true for one of our datasets or a folder of images, whose pixels are in [0, 1].
    """

    batches: Iterable[InputBatch]
    total: int | None = None
    factor_names: tuple[str, ...] | None = None
    name: str = ""
    named: bool = False

    def __iter__(self) -> Iterator[InputBatch]:
        return iter(self.batches)


def batches_of(
    data: Any, *, batch_size: int = 256, examples: int | None = None, size: int | None = None, seed: int = 0
) -> Batches:
    """Return data in any accepted form as batches.

    Args:
        data: An array or tensor (n, ...), a loader or any iterable of batches of x, (x, y) or a dictionary, a dataset
            with items, our own or its name, a folder of images, an .npz of images, a mapping of arrays, AnnData.
        batch_size: Inputs per batch, if the data are split here.
        examples: The largest number of inputs; from one of our datasets, 10,000 are drawn by default.
        size: Side length of images from a folder, in pixels.
        seed: Seed for sampling from one of our datasets.

    Returns:
        The batches; those of an iterator can be used only once.

    Raises:
        DataError: If it is none of these forms, or is ambiguous.

    >>> [len(batch.inputs) for batch in batches_of(np.zeros((600, 3)))]
    [256, 256, 88]
    """
    if batch_size < 1:
        raise DataError(f"expected a batch_size of at least 1, got {batch_size}")
    if isinstance(data, str | Path):
        data = dataset_at(data, size)
    if isinstance(data, Dataset):
        names = data.factor_space.names if data.factor_space is not None else None
        drawn = data.sample(min(examples or 10_000, len(data)), seed)
        known = names if drawn.factors is not None else None
        return Batches(_split(drawn.images, drawn.factors, batch_size), len(drawn), known, data.name, named=True)
    if isinstance(data, Batch):
        return Batches(_split(data.images, data.factors, batch_size), len(data))
    if _is_array(data):
        if not np.ndim(data):
            raise DataError("expected inputs (n, ...), got a single number")
        length = min(len(data), examples or len(data))
        return Batches(_split(data[:length], None, batch_size), length)
    if type(data).__name__ == "AnnData":
        matrix = data.X
        length = min(data.n_obs, examples or data.n_obs)
        return Batches(_rows_of(matrix, length, batch_size), length)
    if isinstance(data, Mapping):
        inputs, labels = _of_mapping(data)
        length = min(len(inputs), examples or len(inputs))
        return Batches(_split(inputs[:length], None if labels is None else labels[:length], batch_size), length)
    if isinstance(data, tuple) and len(data) == 2 and is_pair(data):
        length = min(len(data[0]), examples or len(data[0]))
        labels = _labels(data[1], len(data[0]))
        return Batches(_split(data[0][:length], None if labels is None else labels[:length], batch_size), length)
    if isinstance(data, list | tuple):
        _refuse_single_inputs(data)
        sizes = [_length(each) for each in data]
        return Batches(_limited(data, examples), min(sum(sizes), examples or sum(sizes)))
    if hasattr(data, "__getitem__") and hasattr(data, "__len__") and not hasattr(data, "batch_size"):
        length = min(len(data), examples or len(data))
        return Batches(_collated(data, length, batch_size), length)
    if isinstance(data, Iterable):
        return Batches(_limited(data, examples), _total(data, examples))
    raise DataError(
        f"expected inputs to encode (an array, a loader or list of batches, a dataset or its name, a folder of "
        f"images), got {type(data).__name__}"
    )


def pixel_fit(
    inputs: Any, pixel_range: Range | None, *, known: Range | None = None, named: bool = False
) -> Callable[[Any], Any]:
    """Return a function that rescales pixels to the range a model was trained on; raise an error if it is ambiguous.

    Args:
        inputs: The first batch.
        pixel_range: The range given by the user; pixels in 0 to 255, or in [0, 1] if it starts at -1, are rescaled.
        known: The range on which the model's library trains, if known.
        named: Whether the inputs are from one of our datasets or a folder of images, which are in [0, 1].

    Returns:
        A function from a batch to a batch.

    Raises:
        DataError: If the pixels are probably not in the range the model was trained on.

    >>> pixel_fit(np.array([[0, 255]], dtype=np.uint8), (-1, 1))(np.array([[0, 255]], dtype=np.uint8)).tolist()
    [[-1.0, 1.0]]
    """
    if not _is_array(inputs) or np.ndim(inputs) < 2:
        return _unchanged
    inputs = inputs.detach() if hasattr(inputs, "detach") else inputs
    aim = pixel_range or known or (0.0, 1.0)
    if named:
        return partial(_rescaled, before=(0.0, 1.0), after=aim)
    if _looks_like_bytes(inputs):
        if pixel_range is None:
            raise DataError(
                "the inputs look like pixels from 0 to 255, and a model trained on another range would seem collapsed; "
                "give the range it was trained on, pixel_range=(0, 1), (-1, 1) or (0, 255), to rescale them"
            )
        return partial(_rescaled, before=(0.0, 255.0), after=aim)
    pictures = np.ndim(inputs) >= 4 and float(inputs.min()) >= 0 and float(inputs.max()) <= 1
    if pixel_range is None and known == (-1, 1) and pictures:
        raise DataError(
            "the inputs are in [0, 1], but models of this library are trained on pixels in [-1, 1]; give "
            "pixel_range=(-1, 1) to rescale them, or pixel_range=(0, 1) if this model was trained on [0, 1]"
        )
    if pixel_range is not None and pictures:
        return partial(_rescaled, before=(0.0, 1.0), after=pixel_range)
    return _unchanged


def _unchanged(inputs: Any) -> Any:
    return inputs


def _looks_like_bytes(inputs: Any) -> bool:
    kind = str(inputs.dtype)
    if "uint8" in kind:
        return True
    if "float" not in kind:
        return False
    highest, lowest = float(inputs.max()), float(inputs.min())
    if lowest < 0 or not 2 < highest <= 255:
        return False
    part = as_array(inputs[: min(len(inputs), 64)])
    whole = bool((part == np.rint(part)).all())
    # Tables of counts also have whole numbers; images have more axes, or a maximum of exactly 255.
    return highest > 16 and (np.ndim(inputs) >= 4 or (np.ndim(inputs) == 3 and whole) or (whole and highest == 255))


def _rescaled(inputs: Any, before: Range, after: Range) -> Any:
    if tuple(map(float, before)) == tuple(map(float, after)):
        return inputs if "float" in str(inputs.dtype) else inputs * 1.0
    values = inputs.astype(np.float32) if isinstance(inputs, np.ndarray) else inputs * 1.0
    share = (values - before[0]) / (before[1] - before[0])
    return share * (after[1] - after[0]) + after[0]


def dataset_at(name: str | Path, size: int | None = None) -> Dataset:
    """Return a dataset by its name in the catalogue, or the images of an .npz or a folder."""
    from polarised import registry

    spec: dict[str, Any]
    if str(name).endswith(".npz"):
        spec = {"name": "from_npz", "path": str(name)}
    elif expanded(name).is_dir():
        spec = {"name": "from_folder", "path": str(name), **({} if size is None else {"size": size})}
    else:
        spec = {"name": str(name)}
    dataset: Dataset = registry.build("dataset", spec)
    return dataset


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype") and hasattr(value, "__getitem__")


def _length(batch: Any) -> int:
    return len(_batch(batch).inputs)


def is_pair(data: tuple[Any, Any]) -> bool:
    """Return whether a tuple is (inputs, labels) and not two batches: equal lengths, but different shapes."""
    return all(_is_array(part) and np.ndim(part) for part in data) and (
        len(data[0]) == len(data[1]) and tuple(data[0].shape) != tuple(data[1].shape)
    )


def _split(inputs: Any, factors: Array | None, batch_size: int) -> Iterator[InputBatch]:
    for start in range(0, len(inputs), batch_size):
        part = slice(start, start + batch_size)
        yield InputBatch(inputs[part], None if factors is None else factors[part], inputs[part])


def _rows_of(matrix: Any, length: int, batch_size: int) -> Iterator[InputBatch]:
    for start in range(0, length, batch_size):
        part = matrix[start : min(start + batch_size, length)]
        dense = np.asarray(part.toarray() if hasattr(part, "toarray") else part)
        yield InputBatch(dense, None, dense)


def _batch(item: Any) -> InputBatch:
    """Return an item of a loader, x, (x, y, ...) or a dictionary, as inputs and labels."""
    if isinstance(item, Mapping):
        inputs, labels = _of_mapping(item)
        return InputBatch(inputs, labels, item)
    if isinstance(item, tuple | list) and item and any(_is_array(part) for part in item):
        if not _is_array(item[0]):
            raise DataError(
                f"expected batches of x or (x, y), got a {type(item).__name__} that begins with "
                f"{type(item[0]).__name__}"
            )
        return InputBatch(item[0], _labels(item[1], len(item[0])) if len(item) > 1 else None, item)
    if isinstance(item, str | bytes) or not (hasattr(item, "__len__") or _is_array(item)):
        raise DataError(
            f"expected batches (n, ...) to encode, got {type(item).__name__}; stack single inputs into batches"
        )
    return InputBatch(item, None, item)


def _of_mapping(named: Mapping[str, Any]) -> tuple[Any, Array | None]:
    lower = {str(name).lower(): name for name in named}
    found = [lower[name] for name in INPUTS if name in lower]
    if not found and len(named) == 1:
        found = list(named)
    if not found:
        raise DataError(
            f"expected a dictionary with an entry such as image, x or pixel_values to encode, but it has "
            f"{', '.join(map(str, named))}; give batches of x instead"
        )
    inputs = named[found[0]]
    labels = next((named[lower[name]] for name in LABELS if name in lower), None)
    return inputs, None if labels is None else _labels(labels, len(inputs))


def _labels(values: Any, length: int) -> Array | None:
    """Return labels as integer classes, or None if the values are not labels."""
    try:
        array = as_array(values)
    except (TypeError, ValueError):
        return None
    whole = array.dtype.kind in "iub" and 1 <= array.ndim <= 2 and len(array) == length
    return array.astype(np.int64) if whole and (array.ndim == 1 or array.shape[1] <= 64) else None


def _refuse_single_inputs(data: Sequence[Any]) -> None:
    """Refuse a list that may hold single images: read as batches, their channels would be mistaken for inputs."""
    if not data:
        raise DataError("expected at least one batch, got none")
    shapes = [tuple(each.shape) for each in data if _is_array(each)]
    if len(shapes) < 2 or len(set(shapes)) > 1 or len(shapes) < len(data) or len(shapes[0]) != 3:
        return
    if shapes[0][0] in (1, 3, 4) or shapes[0][-1] in (1, 3, 4):
        raise DataError(
            f"a list of {len(shapes)} arrays of shape {shapes[0]} could be single images or batches of them; stack "
            "single images (np.stack), or give batches with an axis for the inputs"
        )


def _collated(data: Any, length: int, batch_size: int) -> Iterator[InputBatch]:
    for start in range(0, length, batch_size):
        items = [data[i] for i in range(start, min(start + batch_size, length))]
        yield _batch(_stacked(items))


def _stacked(items: list[Any]) -> Any:
    first = items[0]
    if isinstance(first, Mapping):
        return {name: _stacked([item[name] for item in items]) for name in first}
    if isinstance(first, tuple | list):
        return tuple(_stacked([item[i] for item in items]) for i in range(len(first)))
    if hasattr(first, "detach"):
        import torch

        return torch.stack(list(items))
    return np.stack([np.asarray(item) for item in items])


def _total(data: Any, examples: int | None) -> int | None:
    dataset: Any = getattr(data, "dataset", None)
    total = len(dataset) if hasattr(dataset, "__len__") else None
    return examples if total is None else min(total, examples or total)


def _limited(data: Iterable[Any], examples: int | None) -> Iterator[InputBatch]:
    left = examples
    for each in data:
        if left is not None and left <= 0:
            return
        batch = _batch(each)
        if left is None:
            yield batch
            continue
        size = len(batch.inputs)
        if size > left:
            whole = {k: v[:left] if _is_array(v) else v for k, v in each.items()} if isinstance(each, Mapping) else None
            inputs = batch.inputs[:left]
            factors = None if batch.factors is None else batch.factors[:left]
            batch = InputBatch(inputs, factors, inputs if whole is None else whole)
        left -= min(size, left)
        yield batch


def first_and_rest(batches: Iterable[InputBatch]) -> tuple[InputBatch, Iterator[InputBatch]]:
    """Return the first batch, and an iterator over all batches including the first."""
    iterator = iter(batches)
    first = next(iterator, None)
    if first is None:
        raise DataError("expected at least one batch, got none; a generator can be used only once")
    return first, itertools.chain([first], iterator)
