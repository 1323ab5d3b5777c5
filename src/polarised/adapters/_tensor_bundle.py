"""Read the weights of a TensorFlow checkpoint (a "tensor bundle") without TensorFlow.

``variables.index`` is a sorted string table (the LevelDB format) from names to (type, shape, offset);
``variables.data-*`` are the raw numbers. Every size is checked against the length of the file, so a damaged or
hostile file ends in a `DataError` and never in a large allocation.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from polarised.errors import DataError

__all__ = ["read_tensor_bundle"]

Read = Callable[[str], bytes]


MAGIC = 0xDB4775248B80FB57


FOOTER = 48


TRAILER = 5


TYPES = {1: "<f4", 2: "<f8", 3: "<i4", 9: "<i8"}


MASK_DELTA = 0xA282EAD8


# Names share a prefix with the previous name, so that a few bytes can represent a name of any length.
LONGEST_NAME = 4096


def read_tensor_bundle(read: Read, prefix: str = "variables") -> dict[str, NDArray[Any]]:
    """Return every variable of a checkpoint by name; `read` returns the bytes of a file by its name.

    >>> read_tensor_bundle({"variables.index": b""}.__getitem__)
    Traceback (most recent call last):
    ...
    polarised.errors.DataError: expected a TensorFlow index file, but variables.index has only 0 bytes
    """
    name = f"{prefix}.index"
    table = dict(_entries(read(name), name))
    header = _numbers(table.pop(b"", b""), name)
    if header.get(2, 0) != 0:
        raise DataError(
            f"expected little-endian numbers in {name}, got big-endian; export the model on another machine"
        )
    shards = int(header.get(1, 1))
    if not 1 <= shards <= 1000:
        raise DataError(f"expected between 1 and 1000 data files, but {name} claims {shards}; the file is damaged")
    data: dict[int, bytes] = {}
    variables = {}
    taken = 0
    for key, value in table.items():
        fields = _numbers(value, name)
        shard, taken = int(fields.get(3, 0)), taken + int(fields.get(5, 0))
        if shard >= shards:
            raise DataError(f"expected data file number below {shards}, but {name} names {shard}; the file is damaged")
        if shard not in data:
            data[shard] = read(f"{prefix}.data-{shard:05d}-of-{shards:05d}")
        # Tensors must not overlap: many tensors that share the same bytes could exhaust the memory.
        if taken > sum(map(len, data.values())):
            raise DataError(f"expected tensors that do not overlap, but some in {name} do; the file is damaged")
        variable = key.decode("utf-8", "replace")
        variables[variable] = _tensor(value, data[shard], f"{variable} of {name}")
    return variables


def _tensor(entry: bytes, data: bytes, where: str) -> NDArray[Any]:
    fields = _numbers(entry, where)
    kind, start, size = int(fields.get(1, 0)), int(fields.get(4, 0)), int(fields.get(5, 0))
    if kind not in TYPES or 7 in fields:
        raise DataError(f"expected whole float or integer tensors, but {where} has type {kind}; only weights are read")
    shape = _shape(fields.get(2, b""), where)
    expected = int(np.dtype(TYPES[kind]).itemsize) * int(np.prod(np.array(shape, dtype=object)) if shape else 1)
    if size != expected or start + size > len(data):
        raise DataError(
            f"expected {expected} bytes for shape {shape} inside {len(data)}, but {where} claims {size} at {start}; "
            "the download is damaged or incomplete"
        )
    raw = data[start : start + size]
    if 6 in fields and _masked_crc(raw) != fields[6]:
        raise DataError(f"the checksum of {where} does not match its bytes; the download is damaged, get it again")
    return np.frombuffer(raw, dtype=TYPES[kind]).reshape(shape)


def _shape(message: Any, where: str) -> tuple[int, ...]:
    dimensions = [value for field, value in _fields(_bytes(message, where), where) if field == 2]
    sizes = tuple(int(_numbers(_bytes(value, where), where).get(1, 0)) for value in dimensions)
    if len(sizes) > 16 or any(size >= 2**40 for size in sizes):
        raise DataError(f"expected a shape of at most 16 plausible sizes, but {where} has {sizes}; the file is damaged")
    return sizes


def _entries(data: bytes, where: str) -> Iterator[tuple[bytes, bytes]]:
    if len(data) < FOOTER:
        raise DataError(f"expected a TensorFlow index file, but {where} has only {len(data)} bytes")
    footer = data[-FOOTER:]
    if int.from_bytes(footer[-8:], "little") != MAGIC:
        raise DataError(f"expected a TensorFlow index file, but {where} does not end in its magic number")
    position = 0
    handle = []
    for _ in range(4):
        number, position = _varint(footer, position, where)
        handle.append(number)
    read = 0
    for _, value in _block(data, handle[2], handle[3], where):
        offset, after = _varint(value, 0, where)
        size, _ = _varint(value, after, where)
        read += size
        if read > len(data):
            raise DataError(f"expected blocks that do not overlap, but some in {where} do; the file is damaged")
        yield from _block(data, offset, size, where)


def _block(data: bytes, offset: int, size: int, where: str) -> Iterator[tuple[bytes, bytes]]:
    whole = data[offset : offset + size + TRAILER]
    if len(whole) != size + TRAILER or size < 4:
        raise DataError(f"expected a block of {size} bytes at {offset}, but {where} ends early; the file is incomplete")
    if whole[size] != 0:
        raise DataError(
            f"expected uncompressed blocks, but {where} has compression {whole[size]}; only plain ones are read"
        )
    if _masked_crc(whole[: size + 1]) != int.from_bytes(whole[size + 1 :], "little"):
        raise DataError(
            f"the checksum of a block of {where} does not match its bytes; the file is damaged, get it again"
        )
    restarts = int.from_bytes(whole[size - 4 : size], "little")
    end = size - 4 - 4 * restarts
    if end < 0:
        raise DataError(f"expected at most {size // 4} restart points, but {where} claims {restarts}")
    position, key = 0, b""
    while position < end:
        shared, position = _varint(whole, position, where)
        unshared, position = _varint(whole, position, where)
        length, position = _varint(whole, position, where)
        if shared > len(key) or position + unshared + length > end:
            raise DataError(f"expected an entry inside its block, but one in {where} exceeds it; the file is damaged")
        if shared + unshared > LONGEST_NAME:
            raise DataError(
                f"expected names of at most {LONGEST_NAME} bytes, but {where} has one of {shared + unshared}; the file "
                "is damaged"
            )
        key = key[:shared] + whole[position : position + unshared]
        position += unshared
        yield key, whole[position : position + length]
        position += length


def _numbers(message: Any, where: str) -> Mapping[int, Any]:
    """Return the last value of each field of a protocol-buffer message."""
    return dict(_fields(_bytes(message, where), where))


def _fields(message: bytes, where: str) -> Iterator[tuple[int, Any]]:
    position = 0
    while position < len(message):
        tag, position = _varint(message, position, where)
        kind = tag & 7
        if kind == 0:
            value, position = _varint(message, position, where)
            yield tag >> 3, value
            continue
        if kind == 2:
            length, position = _varint(message, position, where)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise DataError(f"expected a protocol-buffer message in {where}, got wire type {kind}; the file is damaged")
        content = message[position : position + length]
        if len(content) != length:
            raise DataError(
                f"expected {length} bytes in a message of {where}, but it ends early; the file is incomplete"
            )
        position += length
        yield tag >> 3, content if kind == 2 else int.from_bytes(content, "little")


def _bytes(value: Any, where: str) -> bytes:
    if not isinstance(value, bytes):
        raise DataError(f"expected a message in {where}, got a number; the file is damaged")
    return value


def _varint(data: bytes, position: int, where: str) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            raise DataError(f"expected a number in {where}, but it ends early; the file is incomplete")
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
    raise DataError(f"expected a number of at most ten bytes in {where}, got a longer one; the file is damaged")


def _masked_crc(data: bytes) -> int:
    crc = int(google_crc32c.value(data))
    return (((crc >> 15) | (crc << 17)) + MASK_DELTA) & 0xFFFFFFFF
