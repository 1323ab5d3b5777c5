import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from data import published
from polarised.data import dataset_from_arrays, from_folder, from_npz
from polarised.errors import DataError


def test_bytes_and_floats_and_layouts() -> None:
    generator = np.random.default_rng(0)
    pixels = generator.integers(0, 256, (5, 4, 4, 3), dtype=np.uint8)
    dataset = dataset_from_arrays(pixels, channels_last=True)
    assert dataset.shape == (3, 4, 4)
    np.testing.assert_array_equal(dataset.images[:], pixels.transpose(0, 3, 1, 2) / np.float32(255))
    assert dataset_from_arrays(pixels[..., 0]).shape == (1, 4, 4)
    vectors = generator.standard_normal((5, 7))
    np.testing.assert_array_equal(dataset_from_arrays(vectors).images[:], vectors.astype(np.float32))
    assert dataset_from_arrays(np.ones((3, 1, 2, 2), dtype=bool)).images[:].max() == 1


def test_factors_and_auxiliary_variables() -> None:
    images = np.zeros((4, 2))
    dataset = dataset_from_arrays(
        images, factors=np.array([[0, 2], [1, 0], [1, 1], [0, 2.0]]), names=["a", "b"], u=np.eye(4)
    )
    assert dataset.factor_space is not None
    assert dataset.factor_space.sizes == (2, 3)
    batch = dataset.sample(4, 0)
    np.testing.assert_array_equal(batch.u, np.eye(4)[batch.indices])
    assert dataset_from_arrays(images, factors=[0, 1, 2, 3]).factor_space.names == ("factor_0",)  # type: ignore[union-attr, arg-type]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"images": np.array(["a"])}, "expected numbers"),
        ({"images": np.zeros(3)}, "shape"),
        ({"images": np.zeros((0, 3))}, "shape"),
        ({"images": np.full((2, 3), np.nan)}, "finite images"),
        ({"images": np.zeros((2, 1, 4, 4), dtype=np.int64)}, "bytes 0 to 255"),
        ({"images": np.zeros((2, 3)), "factors": np.zeros(3)}, r"shape \(2, F\)"),
        ({"images": np.zeros((2, 3)), "factors": np.array([0.5, 1])}, "np.unique"),
        ({"images": np.zeros((2, 3)), "factors": np.array([-1, 1])}, "np.unique"),
        ({"images": np.zeros((2, 3)), "factors": np.array([0, 1]), "names": ["a", "b"]}, "1 factor names"),
        ({"images": np.zeros((2, 3)), "u": np.zeros((3, 1))}, r"u of shape \(2, k\)"),
        ({"images": np.zeros((2, 3)), "u": np.full((2, 1), np.inf)}, "finite u"),
    ],
)
def test_invalid_arrays_are_refused(arguments: dict[str, np.ndarray], says: str) -> None:
    with pytest.raises(DataError, match=says):
        dataset_from_arrays(**arguments)  # type: ignore[arg-type]


def test_npz(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    pixels = np.random.default_rng(0).integers(0, 256, (6, 1, 8, 8), dtype=np.uint8)
    np.savez(path, x=pixels, labels=np.arange(6) % 3, side=np.eye(6))
    dataset = from_npz(path=str(path), images="x", factors="labels", names=("kind",), u="side")
    assert dataset.name == "mine"
    assert dataset.auxiliary_size == 6
    assert dataset.factor_space is not None
    assert dataset.factor_space.names == ("kind",)
    np.testing.assert_array_equal(dataset.images[:], pixels / np.float32(255))
    with pytest.raises(DataError, match="which has x, labels, side"):
        from_npz(path=str(path))
    with pytest.raises(DataError, match="there is no such file"):
        from_npz(path=str(tmp_path / "none.npz"))


def test_folder_of_pictures(folder: Path, tmp_path: Path) -> None:
    pictures = tmp_path / "pictures"
    (pictures / "red").mkdir(parents=True)
    (pictures / "blue").mkdir()
    Image.new("RGB", (90, 60), (255, 0, 0)).save(pictures / "red" / "a.PNG")
    (pictures / "blue" / "b.jpeg").write_bytes(published.jpeg((0, 0, 255), (50, 80)))
    Image.new("L", (20, 20), 128).save(pictures / "blue" / "c.png")
    (pictures / "notes.txt").write_text("not a picture")
    dataset = from_folder(path=str(pictures), size=16)
    assert (len(dataset), dataset.shape, dataset.name) == (3, (3, 16, 16), "pictures")
    np.testing.assert_allclose(dataset.images[:].mean(axis=(2, 3)), [[0, 0, 1], [0.5, 0.5, 0.5], [1, 0, 0]], atol=0.02)
    space = dataset.factor_space
    assert space is not None
    assert space.values is not None
    assert space.values[0].tolist() == ["blue", "red"]
    np.testing.assert_array_equal(space.factors(slice(None))[:, 0], [0, 0, 1])
    grey = from_folder(path=str(pictures / "blue"), size=8, channels=1)
    assert grey.shape == (1, 8, 8)
    assert grey.factor_space is None


def test_a_folder_is_decoded_again_if_a_picture_is_added_or_changed(folder: Path, tmp_path: Path) -> None:
    Image.new("L", (9, 9), 0).save(tmp_path / "a.png")
    assert len(from_folder(path=str(tmp_path), size=4)) == 1
    Image.new("L", (9, 9), 255).save(tmp_path / "b.png")
    assert len(from_folder(path=str(tmp_path), size=4)) == 2
    Image.new("L", (9, 10), 255).save(tmp_path / "a.png")
    assert from_folder(path=str(tmp_path), size=4).images[0].mean() == 1


def test_invalid_folders_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="found none"):
        from_folder(path=str(tmp_path / "none"))
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n broken")
    with pytest.raises(DataError, match=r"a picture .* in .*broken\.png"):
        from_folder(path=str(tmp_path))
    with pytest.raises(DataError, match="size between"):
        from_folder(path=str(tmp_path), size=0)


def test_a_picture_that_claims_a_billion_pixels_is_refused(folder: Path, tmp_path: Path) -> None:
    Image.new("L", (100, 100)).save(tmp_path / "bomb.png")
    content = bytearray((tmp_path / "bomb.png").read_bytes())
    # Width and height of the header, and its checksum.
    content[16:24] = struct.pack(">II", 40_000, 25_000)
    content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
    (tmp_path / "bomb.png").write_bytes(content)
    with pytest.raises(DataError, match=r"pixels in .*bomb\.png, (but )?got a larger one"):
        from_folder(path=str(tmp_path))


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damaged_pictures_are_read_or_refused(folder: Path, tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(published.jpeg((10, 200, 30), (30, 20)))
    for _ in range(data.draw(st.integers(1, 5))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "a.jpg").write_bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        dataset = from_folder(path=str(tmp_path), size=8)
    except DataError:
        return
    assert dataset.images[:].shape == (1, 3, 8, 8)
