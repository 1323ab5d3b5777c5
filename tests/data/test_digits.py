from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data import published
from polarised.data import fashion_mnist, mnist
from polarised.errors import DataError, DownloadError


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize(("name", "load"), [("mnist", mnist), ("fashion_mnist", fashion_mnist)])
def test_pictures_and_labels(folder: Path, name: str, load: object, compressed: bool) -> None:
    images, labels = published.write_digits(folder, name, compressed=compressed)
    dataset = load(size=28, partial=True)  # type: ignore[operator]
    np.testing.assert_array_equal(dataset.images[:][:, 0], images / np.float32(255))
    np.testing.assert_array_equal(dataset.factor_space.factors(slice(None))[:, 0], labels)
    assert dataset.factor_space.sizes == (10,)
    assert len(dataset.factor_space.values[0]) == 10


def test_resized_by_bilinear_interpolation(folder: Path) -> None:
    images, _ = published.write_digits(folder, "mnist")
    dataset = mnist(partial=True, split="test")
    assert dataset.shape == (1, 32, 32)
    expected = Image.fromarray(images[0]).resize((32, 32), Image.Resampling.BILINEAR)
    np.testing.assert_array_equal(dataset.images[0][0], np.asarray(expected) / np.float32(255))


def test_refusals(folder: Path) -> None:
    published.write_digits(folder, "mnist", compressed=False)
    with pytest.raises(DataError, match="60000 pictures of mnist as published, got 5"):
        mnist()
    with pytest.raises(DataError, match="10000 pictures"):
        mnist(split="test")
    with pytest.raises(DataError, match="size between 1 and 1024"):
        mnist(size=0)
    place = folder / "mnist"
    labels = place / "train-labels-idx1-ubyte"
    for array, says in (
        (np.zeros(4, dtype=np.uint8), "5 labels"),
        (np.full(5, 10, dtype=np.uint8), "labels 0 to 9"),
        (np.zeros((5, 1), dtype=np.uint8), "5 labels"),
    ):
        labels.write_bytes(published.idx_bytes(array))
        with pytest.raises(DataError, match=says):
            mnist(partial=True)
    images = place / "train-images-idx3-ubyte"
    images.write_bytes(published.idx_bytes(np.zeros((5, 27, 28), dtype=np.uint8)))
    with pytest.raises(DataError, match=r"pictures \(n, 28, 28\)"):
        mnist(partial=True)
    images.unlink()
    with pytest.raises(DownloadError, match=r"train-images-idx3-ubyte\.gz.*put it into"):
        mnist(partial=True, size=30)
