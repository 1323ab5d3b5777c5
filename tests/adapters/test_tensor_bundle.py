import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polarised.adapters._tensor_bundle import _masked_crc, read_tensor_bundle
from polarised.errors import DataError


def varint(number):
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value)


def block(entries):
    contents, previous = b"", b""
    for key, value in entries:
        shared = next((i for i, (a, b) in enumerate(zip(previous, key, strict=False)) if a != b), 0)
        contents += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        previous = key
    return contents + (0).to_bytes(4, "little") + (1).to_bytes(4, "little")


def closed(contents, *, kind=0):
    body = contents + bytes([kind])
    return body + _masked_crc(body).to_bytes(4, "little")


def bundle(arrays, *, blocks=1, **changes):
    """A checkpoint of float32 arrays, as TensorFlow writes it; `changes` damages fields of its first entry."""
    data, entries = b"", [(b"", field(1, 1))]
    for name, array in sorted(arrays.items()):
        raw = array.astype("<f4").tobytes()
        values = {"dtype": 1, "offset": len(data), "size": len(raw), "shape": array.shape} | changes
        shape = b"".join(field(2, field(1, size)) for size in values["shape"])
        entry = field(1, values["dtype"]) + field(2, shape) + field(4, values["offset"]) + field(5, values["size"])
        entries.append((name.encode(), entry + varint(6 << 3 | 5) + _masked_crc(raw).to_bytes(4, "little")))
        data += raw
        changes = {}
    return finished(block(entries), data, blocks=blocks)


def finished(contents, data=b"", *, blocks=1):
    """The two files around the contents of a data block, which the index names `blocks` times."""
    table = closed(contents)
    index = closed(block([(f"{i:06d}".encode(), varint(0) + varint(len(contents))) for i in range(blocks)]))
    footer = varint(0) * 2 + varint(len(table)) + varint(len(index) - 5)
    magic = 0xDB4775248B80FB57.to_bytes(8, "little")
    return {
        "variables.index": table + index + footer.ljust(40, b"\0") + magic,
        "variables.data-00000-of-00001": data,
    }


ARRAYS = {"encoder/e1/bias": np.arange(3.0), "encoder/e1/kernel": np.arange(6.0).reshape(2, 3)}


def test_the_checksum_is_crc32c():
    crc = 0xE3069283  # of "123456789", from the standard
    assert _masked_crc(b"123456789") == (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def test_arrays_come_back_as_they_were_written():
    found = read_tensor_bundle(bundle(ARRAYS).__getitem__)
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": 7}, "type 7"),
        ({"size": 11}, "claims 11"),
        ({"offset": 10**6}, "claims 12 at 1000000"),
        ({"shape": (2**50,)}, "plausible sizes"),
        ({"shape": (2**39, 2**39)}, "the download is damaged"),
    ],
)
def test_an_inconsistent_entry_is_refused(change, message):
    with pytest.raises(DataError, match=message):
        read_tensor_bundle(bundle(ARRAYS, **change).__getitem__)


def test_damaged_numbers_are_detected():
    files = bundle(ARRAYS)
    data = bytearray(files["variables.data-00000-of-00001"])
    data[5] ^= 1
    with pytest.raises(DataError, match="checksum"):
        read_tensor_bundle({**files, "variables.data-00000-of-00001": bytes(data)}.__getitem__)


def test_a_compressed_block_is_refused_with_a_message():
    contents = block([(b"", field(1, 1))])
    files = finished(contents)
    index = files["variables.index"].replace(closed(contents), closed(contents, kind=1))
    with pytest.raises(DataError, match="compression 1"):
        read_tensor_bundle({"variables.index": index}.__getitem__)


def test_overlapping_blocks_and_tensors_are_refused():
    with pytest.raises(DataError, match="blocks that do not overlap"):
        read_tensor_bundle(bundle(ARRAYS, blocks=1000).__getitem__)
    raw = np.ones(3, dtype="<f4").tobytes()
    entry = field(1, 1) + field(2, field(2, field(1, 3))) + field(5, 12)
    entries = [(b"", field(1, 1)), *((f"{i:03d}".encode(), entry) for i in range(50))]
    with pytest.raises(DataError, match="tensors that do not overlap"):
        read_tensor_bundle(finished(block(entries), raw).__getitem__)


@given(st.binary(max_size=300))
def test_any_bytes_end_in_a_data_error(noise):
    with pytest.raises(DataError):
        read_tensor_bundle({"variables.index": noise}.__getitem__)


@given(st.integers(0, 10**6), st.integers(0, 255))
def test_any_changed_byte_is_refused_or_harmless(position, value):
    files = bundle(ARRAYS)
    index = bytearray(files["variables.index"])
    index[position % len(index)] = value
    files["variables.index"] = bytes(index)
    try:
        found = read_tensor_bundle(files.__getitem__)
    except DataError:
        return
    assert all(np.array_equal(found[name], array) for name, array in ARRAYS.items())


@given(st.binary(min_size=8, max_size=120))
def test_messages_behind_a_good_checksum_still_cannot_break_it(contents):
    file = finished(contents)["variables.index"]
    # KeyError is raised by the mapping for a missing data file.
    with contextlib.suppress(DataError, KeyError):
        assert isinstance(read_tensor_bundle({"variables.index": file}.__getitem__), dict)
