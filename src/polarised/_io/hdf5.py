"""Arrays of HDF5 files, read apart: whole chunks of a file may be claimed without a byte of them being there."""

from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polarised._io.apart import call_apart
from polarised._io.budget import MULTIPLE, Budget
from polarised._io.readers import Rows, refusal

__all__ = ["hdf5_array", "hdf5_names"]

KIND = "an HDF5 file"
LARGEST_CHUNK = 1 << 26
FILTERS = ("gzip", "lzf", None)


def hdf5_array(path: Path, name: str) -> Rows:
    """Read an array of an HDF5 file in chunks of rows; links, other files and what is not stored are refused.

    Args:
        path: The file.
        name: The array's name in the file, with the groups it lies in before it.

    Returns:
        The array, of which nothing but its description is read yet.

    Raises:
        DataError: It is damaged, a link or a reference, or claims far more than the file holds.
    """
    shape, dtype = call_apart(Budget.of(path), KIND, _about, str(path), name)

    def in_rows(count: int) -> Iterator[NDArray[Any]]:
        budget = Budget.of(path)
        for start in range(0, shape[0], count):
            stop = min(start + count, shape[0])
            budget.stream((stop - start) * prod(shape[1:]) * np.dtype(dtype).itemsize)
            yield call_apart(budget, KIND, _rows, str(path), name, start, stop)

    return Rows(path, shape, np.dtype(dtype), in_rows)


def hdf5_names(path: Path, group: str) -> tuple[str, ...]:
    """Return the names of the arrays in a group of an HDF5 file.

    Args:
        path: The file.
        group: The group's name at the root of the file.

    Returns:
        The names, nothing where there is no such group.

    Raises:
        DataError: The file is damaged.
    """
    names: tuple[str, ...] = call_apart(Budget.of(path), KIND, _names, str(path), group)
    return names


def _names(path: str, group: str) -> tuple[str, ...]:
    import h5py

    with h5py.File(path, "r") as file:
        if not isinstance(file.get(group, getlink=True), h5py.HardLink) or not isinstance(file[group], h5py.Group):
            return ()
        inside = file[group]
        own = (name for name in inside if isinstance(inside.get(name, getlink=True), h5py.HardLink))
        return tuple(str(name) for name in own if isinstance(inside[name], h5py.Dataset))


def _about(path: str, name: str) -> tuple[tuple[int, ...], str]:
    import h5py

    with h5py.File(path, "r") as file:
        array = _own_array(file, name, Path(path))
        return tuple(int(size) for size in array.shape), array.dtype.str


def _rows(path: str, name: str, start: int, stop: int) -> NDArray[Any]:
    import h5py

    with h5py.File(path, "r") as file:
        return np.asarray(_own_array(file, name, Path(path))[start:stop])


def _own_array(file: Any, name: str, path: Path) -> Any:
    """Return an array that lies in the file itself: HDF5 can point to any other file of the machine."""
    import h5py

    if not isinstance(file.get(name, getlink=True), h5py.HardLink) or not isinstance(file[name], h5py.Dataset):
        raise refusal(path, f"the array {name!r}", "none, or a link")
    array = file[name]
    if array.is_virtual or array.external:
        raise refusal(path, f"the array {name!r}", "a reference to other files")
    if not array.shape or min(array.shape) < 1 or array.dtype.kind not in "fiub":
        raise refusal(path, f"numbers as {name!r}", f"{str(array.dtype)[:80]} of shape {array.shape}")
    # Filters of others are plug-ins: code that HDF5 would load.
    if array.compression not in FILTERS:
        raise refusal(path, f"{name!r} plain or packed by gzip or lzf", f"packed by {array.compression}")
    stored = int(array.id.get_storage_size())
    if array.chunks is not None and prod(array.chunks) * array.dtype.itemsize > LARGEST_CHUNK:
        raise refusal(path, f"chunks of at most {LARGEST_CHUNK >> 20} MiB in {name!r}", f"{array.chunks}")
    if array.size * array.dtype.itemsize > MULTIPLE * stored:
        raise refusal(path, f"every number of {name!r}", f"{stored} bytes for the shape {array.shape}")
    return array
