import contextlib
import gzip
import io
import itertools
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data.published import add_to_tar, car_bytes, idx_bytes, norb_bytes
from polarised._io.readers import idx, mat_array, norb_matrix, npz_member, tar_members, zip_members
from polarised.errors import DataError

CAR = (128, 128, 3, 24, 4)
patient = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (np.arange(24, dtype=np.uint8).reshape(2, 3, 2, 2), "u1"),
        (np.array([3, -1, 2]), "<i4"),
        (np.linspace(0, 1, 6).reshape(3, 2), "<f4"),
        (np.linspace(0, 1, 6).reshape(1, 6), "<f8"),
    ],
)
def test_norb_round_trip(tmp_path: Path, array: np.ndarray, kind: str, compressed: bool) -> None:
    content = norb_bytes(array, kind)
    path = tmp_path / "m.mat"
    path.write_bytes(gzip.compress(content) if compressed else content)
    rows = norb_matrix(path)
    assert rows.shape == array.shape
    np.testing.assert_array_equal(rows.whole(), array.astype(kind))


@pytest.mark.parametrize("compressed", [False, True])
def test_idx_round_trip(tmp_path: Path, compressed: bool) -> None:
    array = np.arange(2 * 28 * 28, dtype=np.uint8).reshape(2, 28, 28)
    path = tmp_path / "images-idx3-ubyte"
    path.write_bytes(gzip.compress(idx_bytes(array)) if compressed else idx_bytes(array))
    np.testing.assert_array_equal(idx(path).whole(), array)


def test_npz_round_trip_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polarised._io.readers.CHUNK", 100)
    array = np.arange(300, dtype=np.int16).reshape(50, 6)
    path = tmp_path / "a.npz"
    np.savez_compressed(path, a=array, b=np.arange(3))
    rows = npz_member(path, "a")
    chunks = list(rows.chunks)
    assert len(chunks) > 5
    np.testing.assert_array_equal(np.concatenate(chunks), array)


def damaged(content: bytes) -> dict[str, bytes]:
    """Common kinds of damage."""
    return {
        "empty": b"",
        "cut in the header": content[:6],
        "cut in the middle": content[: len(content) // 2],
        "one byte short": content[:-1],
        "one byte long": content + b"\0",
        "wrong magic": b"\xff" * 4 + content[4:],
        "a web page": b"<!DOCTYPE html><html>not found</html>",
    }


READERS: dict[str, tuple[Callable[[Path], object], bytes]] = {
    "norb": (lambda path: norb_matrix(path).whole(), norb_bytes(np.ones((2, 2, 4, 4)), "u1")),
    "idx": (lambda path: idx(path).whole(), idx_bytes(np.ones((2, 5, 5), dtype=np.uint8))),
}


@pytest.mark.parametrize("how", list(damaged(b"")))
@pytest.mark.parametrize("reader", list(READERS))
@pytest.mark.parametrize("compressed", [False, True])
def test_damaged_arrays_are_refused_by_name(tmp_path: Path, reader: str, how: str, compressed: bool) -> None:
    read, content = READERS[reader]
    broken = damaged(content)[how]
    path = tmp_path / "broken file"
    path.write_bytes(gzip.compress(broken) if compressed else broken)
    with pytest.raises(DataError, match=r"expected .* in .*broken file, got .*; delete the file and get it again"):
        read(path)


@pytest.mark.parametrize("reader", list(READERS))
def test_bit_flips_in_compressed_files_never_change_what_is_read(tmp_path: Path, reader: str) -> None:
    read, content = READERS[reader]
    path = tmp_path / "file.gz"
    path.write_bytes(gzip.compress(content, mtime=0))
    whole, refused = read(path), 0
    packed = bytearray(path.read_bytes())
    for position, bit in itertools.product(range(len(packed)), range(8)):
        packed[position] ^= 1 << bit
        path.write_bytes(packed)
        packed[position] ^= 1 << bit
        try:
            np.testing.assert_array_equal(read(path), whole)
        except DataError:
            refused += 1
    assert refused > 0.6 * 8 * len(packed)


def test_pickled_arrays_are_refused_unread(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (Path.touch, (tmp_path / "sprung",))  # type: ignore[return-value]

    path = tmp_path / "trap.npz"
    np.savez(path, images=np.array([Trap()], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="would have to be unpickled"):
        npz_member(path, "images")
    assert not (tmp_path / "sprung").exists()


def test_npz_refusals(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, a=np.arange(3), fortran=np.asfortranarray(np.ones((3, 4))), nothing=np.ones((0, 4)))
    with pytest.raises(DataError, match="which has a, fortran, nothing"):
        npz_member(path, "b")
    assert npz_member(path, "nothing").whole().shape == (0, 4)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match="delete the file"):
        npz_member(path, "a")


def test_an_npz_stored_by_columns_reads_as_one_stored_by_rows(tmp_path: Path) -> None:
    array = np.arange(24.0).reshape(4, 3, 2)
    np.savez(tmp_path / "a.npz", rows=array, columns=np.asfortranarray(array))
    for name in ("rows", "columns"):
        np.testing.assert_array_equal(npz_member(tmp_path / "a.npz", name).whole(), array)
        parts = list(npz_member(tmp_path / "a.npz", name).in_rows(3))
        assert [len(part) for part in parts] == [3, 1]
        np.testing.assert_array_equal(np.concatenate(parts), array)


def test_a_header_that_claims_too_much_allocates_nothing(tmp_path: Path) -> None:
    """A few bytes that announce a terabyte are refused without allocating it, compressed or not."""
    claims = idx_bytes(np.ones((1, 1, 1), dtype=np.uint8))[:4] + b"\x00\x00\xff\xff" * 3
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": (2**40,)})
    with zipfile.ZipFile(tmp_path / "big.npz", "w") as archive:
        archive.writestr("a.npy", head.getvalue() + b"12345678")
    (tmp_path / "big").write_bytes(claims)
    (tmp_path / "big.gz").write_bytes(gzip.compress(claims))
    tracemalloc.start()
    for read in (
        lambda: idx(tmp_path / "big").whole(),
        lambda: idx(tmp_path / "big.gz").whole(),
        lambda: npz_member(tmp_path / "big.npz", "a").whole(),
    ):
        with pytest.raises(DataError):
            read()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e6


def test_a_bomb_is_read_only_up_to_the_announced_size(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(idx_bytes(np.ones((2, 3), dtype=np.uint8)) + bytes(1 << 26)))
    tracemalloc.start()
    with pytest.raises(DataError, match="more bytes"):
        idx(path).whole()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4e6


def test_matlab_file(tmp_path: Path) -> None:
    content, pictures = car_bytes(1)
    np.testing.assert_array_equal(mat_array(content, "im", tmp_path, shape=CAR), pictures)
    with pytest.raises(DataError, match="'im'"):
        mat_array(content, "im", tmp_path, shape=(64, 64, 3, 24, 4))
    with pytest.raises(DataError, match="'picture'"):
        mat_array(content, "picture", tmp_path, shape=CAR)
    for how in ("empty", "cut in the header", "cut in the middle", "one byte short", "one byte long", "a web page"):
        with pytest.raises(DataError, match="delete the file"):
            mat_array(damaged(content)[how], "im", tmp_path, shape=CAR)
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    with pytest.raises(DataError, match="delete the file"):
        mat_array(bytes(flipped), "im", tmp_path, shape=CAR)


def test_tar_is_read_and_never_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        link = tarfile.TarInfo("link.mat")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        device = tarfile.TarInfo("device.mat")
        device.type = tarfile.CHRTYPE
        archive.addfile(device)
        add_to_tar(archive, "good.mat", b"good")
    before = sorted(tmp_path.parent.rglob("*"))
    assert dict(tar_members(path, ".mat")) == {"good.mat": b"good"}
    assert sorted(tmp_path.parent.rglob("*")) == before


def test_zip_is_read_and_never_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("b/b.jpg", b"other")
        archive.writestr("a.jpg", b"good")
        archive.writestr("c.txt", b"other")
    before = sorted(tmp_path.parent.rglob("*"))
    assert list(zip_members(path, ".jpg")) == [("a.jpg", b"good"), ("b/b.jpg", b"other")]
    assert sorted(tmp_path.parent.rglob("*")) == before


@pytest.mark.parametrize("read", [tar_members, zip_members])
def test_huge_members_and_damaged_archives_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Path, str], object]
) -> None:
    path = tmp_path / "archive"
    if read is tar_members:
        with tarfile.open(path, "w:gz") as archive:
            add_to_tar(archive, "a.mat", bytes(5000))
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr("a.mat", bytes(5000))
    whole = path.read_bytes()
    monkeypatch.setattr("polarised._io.readers.LARGEST_MEMBER", 4999)
    with pytest.raises(DataError, match="5000 bytes"):
        list(read(path, ".mat"))  # type: ignore[call-overload]
    monkeypatch.undo()
    for content in (whole[: len(whole) // 2], b"", b"not an archive"):
        path.write_bytes(content)
        with pytest.raises(DataError, match="archive"):
            list(read(path, ".mat"))  # type: ignore[call-overload]


def every_reader(path: Path) -> None:
    """Read a file with every reader; for any contents the result is an array, a list or an error of ours."""
    for read in (
        lambda: norb_matrix(path).whole(),
        lambda: idx(path).whole(),
        lambda: npz_member(path, "a").whole(),
        lambda: list(tar_members(path, "")),
        lambda: list(zip_members(path, "")),
        lambda: mat_array(path.read_bytes(), "im", path, shape=(2, 2)),
    ):
        with contextlib.suppress(DataError):
            read()


@patient
@given(st.binary(max_size=400))
def test_readers_survive_any_bytes(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "any"
    path.write_bytes(content)
    every_reader(path)


def valid_files() -> list[bytes]:
    from scipy.io import savemat

    npz, mat, tar = io.BytesIO(), io.BytesIO(), io.BytesIO()
    np.savez_compressed(npz, a=np.arange(12).reshape(3, 4))
    savemat(mat, {"im": np.ones((2, 2), dtype=np.uint8)}, do_compression=True)
    with tarfile.open(fileobj=tar, mode="w:gz") as archive:
        add_to_tar(archive, "a.mat", b"content")
    arrays = [norb_bytes(np.ones((2, 3, 4)), "<i4"), idx_bytes(np.ones((2, 3), dtype=np.uint8))]
    return [npz.getvalue(), mat.getvalue(), tar.getvalue(), *arrays, *(gzip.compress(array) for array in arrays)]


@patient
@given(st.sampled_from(valid_files()), st.data())
def test_readers_survive_flipped_cut_and_joined_files(tmp_path: Path, content: bytes, data: st.DataObject) -> None:
    broken = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    broken = broken[: data.draw(st.integers(0, len(broken)))] + data.draw(st.binary(max_size=20))
    path = tmp_path / "any"
    path.write_bytes(broken)
    every_reader(path)
