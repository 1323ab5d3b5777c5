from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data import published
from polarised.data import color_dsprites, dsprites, noisy_dsprites, scream_dsprites, sprites
from polarised.data.sprites import PUBLISHED
from polarised.errors import ConfigError, DataError, DownloadError
from polarised.random import stream

SOME = np.array([0, 5000, 300_000, 737_279])


def test_half_size_is_the_mean_of_two_by_two() -> None:
    whole, half = dsprites().images[SOME], dsprites(size=32).images[SOME]
    np.testing.assert_array_equal(half, whole.reshape(4, 1, 32, 2, 32, 2).mean(axis=(3, 5)))
    assert set(np.unique(half)) <= {0, 0.25, 0.5, 0.75, 1}


def test_packed_and_drawn_are_the_same_dataset() -> None:
    np.testing.assert_array_equal(dsprites(source="packed").batch(0, 64, 0).images, dsprites().batch(0, 64, 0).images)


def test_unknown_size() -> None:
    with pytest.raises(ConfigError, match="size as one of 64, 32, got 16"):
        dsprites(size=16)  # type: ignore[arg-type]


def test_colour_is_constant_over_a_sprite_and_bright() -> None:
    mask = sprites.draw(SOME)
    images = color_dsprites().draw(SOME, stream(0, "test"))
    colour = images.max(axis=(2, 3), keepdims=True)
    np.testing.assert_array_equal(images, mask * colour)
    assert colour.min() >= 0.5
    many = color_dsprites().batch(0, 2000, 0).images.max(axis=(2, 3))
    assert many.mean() == pytest.approx(0.75, abs=0.01)
    assert many.std() == pytest.approx(0.5 / np.sqrt(12), abs=0.01)


def test_noise_is_the_background_and_the_sprite_is_white() -> None:
    mask = np.broadcast_to(sprites.draw(SOME), (4, 3, 64, 64)).astype(bool)
    images = noisy_dsprites().draw(SOME, stream(0, "test"))
    assert (images[mask] == 1).all()
    noise = images[~mask]
    assert noise.max() < 1
    assert noise.mean() == pytest.approx(0.5, abs=0.01)
    assert noise.std() == pytest.approx(1 / np.sqrt(12), abs=0.01)


@pytest.fixture
def scream(folder: Path) -> np.ndarray:
    """A picture of the shape of the painting, shrunk as in the reference."""
    (folder / "scream").mkdir()
    noise = np.random.default_rng(0).integers(0, 256, (1000, 790, 3), dtype=np.uint8)
    Image.fromarray(noise).save(folder / "scream" / "scream.jpg")
    with Image.open(folder / "scream" / "scream.jpg") as picture:
        picture.thumbnail((350, 274))
        return np.asarray(picture.convert("RGB"), dtype=np.float32) / 255


def test_scream_is_a_tinted_crop_inverted_in_the_sprite(scream: np.ndarray) -> None:
    mask = sprites.draw(SOME)[:, 0].astype(bool)
    images = scream_dsprites().draw(SOME, stream(0, "test"))
    generator = stream(0, "test")
    row, column = generator.integers(274 - 64, size=4), generator.integers(scream.shape[1] - 64, size=4)
    tint = generator.random((4, 3, 1, 1), dtype=np.float32)[..., 0, 0]
    for i in range(4):
        crop = scream[row[i] : row[i] + 64, column[i] : column[i] + 64]
        background = (crop + tint[i]) / 2
        expected = np.where(mask[i][..., None], 1 - background, background)
        np.testing.assert_allclose(images[i].transpose(1, 2, 0), expected, atol=1e-6)


def test_scream_from_a_path_and_without_a_picture(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "mine.png"
    Image.new("RGB", (200, 100), (255, 0, 0)).save(path)
    assert scream_dsprites(path=str(path)).shape == (3, 64, 64)
    Image.new("RGB", (64, 64)).save(path)
    with pytest.raises(DataError, match="both sides above 64 pixels"):
        scream_dsprites(path=str(path))
    path.write_bytes(b"not a picture")
    with pytest.raises(DataError, match=r"a picture .* in .*mine\.png"):
        scream_dsprites(path=str(path))
    with pytest.raises(DownloadError, match="there is no such file"):
        scream_dsprites(path=str(folder / "none.jpg"))

    def no_network(*_: object, **__: object) -> None:
        raise OSError("no network")

    monkeypatch.setattr("urllib.request.urlopen", no_network)
    with pytest.raises(DownloadError, match=r"scream\.jpg.*no network.*upload\.wikimedia\.org.*put it into .*scream,"):
        scream_dsprites()


def test_a_partial_published_file(folder: Path) -> None:
    """The pickled metadata of the real file is never read."""
    published.write_dsprites(folder / "dsprites" / PUBLISHED, SOME)
    dataset = dsprites(source="file", partial=True)
    np.testing.assert_array_equal(dataset.images[:], dsprites().images[SOME])
    space = dataset.factor_space
    assert space is not None
    np.testing.assert_array_equal(space.factors(slice(None)), sprites.SPACE.factors(SOME))
    np.testing.assert_array_equal(
        dsprites(source="file", partial=True, size=32).images[:], dsprites(size=32).images[SOME]
    )
    with pytest.raises(DataError, match="737280 images of dSprites"):
        dsprites(source="file")


def test_published_file_at_a_path(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "elsewhere" / "d.npz"
    published.write_dsprites(path, SOME)
    assert len(dsprites(path=str(path), partial=True)) == 4
    with pytest.raises(DataError, match="there is no such file"):
        dsprites(path=str(tmp_path / "none.npz"))


def test_published_file_of_disentanglement_lib(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISENTANGLEMENT_LIB_DATA", str(tmp_path / "theirs"))
    published.write_dsprites(tmp_path / "theirs" / "dsprites" / PUBLISHED, SOME)
    assert len(dsprites(source="file", partial=True)) == 4


def test_wrong_files_are_refused(folder: Path) -> None:
    path = folder / "dsprites" / PUBLISHED
    path.parent.mkdir()
    images, classes = np.zeros((2, 64, 64), dtype=np.uint8), np.zeros((2, 6), dtype=int)
    for arrays, says in (
        ({"imgs": images[:, :32], "latents_classes": classes}, r"\(n, 64, 64\)"),
        ({"imgs": images, "latents_classes": classes[:1]}, r"latents_classes \(n, 6\)"),
        ({"imgs": images, "latents_classes": classes + 3}, "the factors of dSprites"),
        ({"imgs": images + 2, "latents_classes": classes}, "pixels 0 and 1"),
        ({"imgs": images}, "'latents_classes'"),
    ):
        np.savez_compressed(path, **arrays)
        with pytest.raises(DataError, match=says):
            dsprites(source="file", partial=True)


@pytest.mark.slow
def test_a_complete_published_file(folder: Path) -> None:
    """A file of all 737,280 images in the published order needs no table, and equals the rendered images."""
    published.write_dsprites(folder / "dsprites" / PUBLISHED, np.arange(len(sprites.SPACE)))
    dataset = dsprites(source="file")
    assert dataset.factor_space is sprites.SPACE
    np.testing.assert_array_equal(dataset.batch(0, 256, 0).images, dsprites().batch(0, 256, 0).images)
