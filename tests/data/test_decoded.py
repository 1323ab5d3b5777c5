import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polarised.data.cache import PictureStream as Pictures
from polarised.data.cache import Source, decoded, reporting
from polarised.errors import DataError, DownloadError

SOURCE = (Source("toys/toys.bin"),)


def decode(paths: list[Path]) -> Pictures:
    pixels = np.frombuffer(paths[0].read_bytes(), dtype=np.uint8).reshape(-1, 1, 2, 2)
    factors = np.arange(len(pixels))[:, None]
    return Pictures(pixels.shape, np.uint8, np.array_split(pixels, 2), factors, {"toy": [1, 2]})


@pytest.fixture
def toys(folder: Path) -> Path:
    path = folder / "toys" / "toys.bin"
    path.parent.mkdir()
    path.write_bytes(bytes(range(16)))
    return path


def test_pictures_are_memory_mapped_and_decoded_once(toys: Path) -> None:
    told: list[tuple[str, int, int]] = []
    with reporting(lambda *news: told.append(news)):
        found = decoded("toys", SOURCE, decode)
        again = decoded("toys", SOURCE, lambda paths: pytest.fail("decoded twice"))
    assert isinstance(again.images, np.memmap)
    np.testing.assert_array_equal(found.images.ravel(), np.arange(16))
    np.testing.assert_array_equal(again.factors, found.factors)
    assert again.values == {"toy": [1, 2]}
    assert told[-1] == ("decoding toys", 4, 4)


def test_changed_file_is_decoded_again(toys: Path) -> None:
    decoded("toys", SOURCE, decode)
    toys.write_bytes(bytes(8))
    assert len(decoded("toys", SOURCE, decode).images) == 2


def test_decoded_pictures_are_used_if_the_file_is_gone(toys: Path) -> None:
    decoded("toys", SOURCE, decode)
    toys.unlink()
    assert len(decoded("toys", SOURCE, decode).images) == 4


def test_a_missing_file_is_a_download_error(folder: Path) -> None:
    with pytest.raises(DownloadError, match=r"toys\.bin"):
        decoded("toys", SOURCE, decode)


def test_a_failed_decoding_leaves_nothing(toys: Path, folder: Path) -> None:
    def failing(paths: list[Path]) -> Pictures:
        def chunks() -> object:
            yield np.zeros((2, 1, 2, 2), dtype=np.uint8)
            raise DataError("damaged")

        return Pictures((4, 1, 2, 2), np.uint8, chunks())  # type: ignore[arg-type]

    with pytest.raises(DataError, match="damaged"):
        decoded("toys", SOURCE, failing)
    assert list((folder / "decoded").iterdir()) == []


@pytest.mark.parametrize(("chunk", "says"), [((2, 1, 3, 3), "shape"), ((3, 1, 2, 2), "expected 4 pictures")])
def test_wrong_shape_and_wrong_number_are_refused(toys: Path, chunk: tuple[int, ...], says: str) -> None:
    with pytest.raises(DataError, match=says):
        decoded("toys", SOURCE, lambda paths: Pictures((4, 1, 2, 2), np.uint8, [np.zeros(chunk, dtype=np.uint8)]))


@pytest.mark.parametrize("name", ["images.npy", "factors.npy", "about.json"])
def test_a_damaged_decoding_is_repeated(toys: Path, folder: Path, name: str) -> None:
    decoded("toys", SOURCE, decode)
    file = folder / "decoded" / "toys" / name
    file.write_bytes(file.read_bytes()[:-3])
    np.testing.assert_array_equal(decoded("toys", SOURCE, decode).images.ravel(), np.arange(16))


def test_pickles_among_the_decoded_are_not_loaded(toys: Path, folder: Path) -> None:
    decoded("toys", SOURCE, decode)
    np.save(folder / "decoded" / "toys" / "images.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.testing.assert_array_equal(decoded("toys", SOURCE, decode).images.ravel(), np.arange(16))


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("images.npy", np.zeros((4, 1, 2, 3), np.uint8)),
        ("images.npy", np.zeros((3, 1, 2, 2), np.uint8)),
        ("images.npy", np.zeros((4, 1, 2, 2), np.float32)),
        ("images.npy", np.zeros((), np.uint8)),
        ("factors.npy", np.zeros((5, 1), np.int64)),
        ("factors.npy", np.zeros(4, np.int64)),
        ("factors.npy", np.full((4, 1), "a")),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.dtype}{value.shape}",
)
def test_another_array_among_the_decoded_is_not_used(toys: Path, folder: Path, name: str, array: Any) -> None:
    decoded("toys", SOURCE, decode)
    np.save(folder / "decoded" / "toys" / name, array)
    found = decoded("toys", SOURCE, decode)
    np.testing.assert_array_equal(found.images.ravel(), np.arange(16))
    np.testing.assert_array_equal(found.factors, np.arange(4)[:, None])


@pytest.mark.parametrize("name", ["images.npy", "factors.npy", "about.json"])
def test_a_pipe_among_the_decoded_is_not_opened(toys: Path, folder: Path, name: str) -> None:
    decoded("toys", SOURCE, decode)
    place = folder / "decoded" / "toys" / name
    place.unlink()
    os.mkfifo(place)
    np.testing.assert_array_equal(decoded("toys", SOURCE, decode).images.ravel(), np.arange(16))


def test_leftovers_of_killed_decodings_are_removed(toys: Path, folder: Path) -> None:
    old, new = folder / "decoded" / ".toys.old", folder / "decoded" / ".toys.new"
    for leftover in (old, new):
        leftover.mkdir(parents=True)
    os.utime(old, (time.time() - 1e6,) * 2)
    decoded("toys", SOURCE, decode)
    assert not old.exists()
    assert new.exists()


def test_processes_decoding_at_the_same_time_get_complete_pictures(toys: Path, folder: Path) -> None:
    code = (
        "import json; from data.test_decoded import SOURCE, decode; from polarised.data.cache import decoded;"
        "print(json.dumps([int(decoded('toys', SOURCE, decode).images.sum()) for _ in range(20)]))"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    running = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment) for _ in range(3)
    ]
    for process in running:
        out, _ = process.communicate(timeout=60)
        assert json.loads(out) == [120] * 20
