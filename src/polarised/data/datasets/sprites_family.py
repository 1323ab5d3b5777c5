"""dSprites and its three harder relatives, drawn when they are asked for."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from polarised.data import sprites
from polarised.data.checks import check_choice
from polarised.data.dataset import Dataset, FactorSpace
from polarised.data.decoded import Pictures, decoded, name_of
from polarised.data.download import Source, obtain
from polarised.data.packed_sprites import draw_packed
from polarised.data.pictures import thumbnail
from polarised.data.readers import npz_member, refusal
from polarised.errors import DataError, DownloadError

__all__ = ["SOURCES", "color_dsprites", "dsprites", "noisy_dsprites", "scream_dsprites"]

PUBLISHED = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"
DSPRITES_PAGE = "https://github.com/deepmind/dsprites-dataset"
SCREAM_ADDRESS = "https://upload.wikimedia.org/wikipedia/commons/f/f4/The_Scream.jpg"

SOURCES = {
    "dsprites": (Source(f"dsprites/{PUBLISHED}", (f"{DSPRITES_PAGE}/raw/master/{PUBLISHED}",), DSPRITES_PAGE),),
    "scream_dsprites": (Source("scream/scream.jpg", (SCREAM_ADDRESS,), SCREAM_ADDRESS),),
}

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Indices = NDArray[np.int64]


def dsprites(
    *,
    size: Literal[64, 32] = 64,
    source: Literal["drawn", "packed", "file"] = "drawn",
    path: str | None = None,
    partial: bool = False,
) -> Dataset:
    """Return dSprites: 737,280 binary images of a square, an ellipse or a heart [Matthey2017].

    The images are drawn when asked for; `source` "packed" keeps a table of 87 MB, "file" reads the published .npz (or
    the one at `path`), of which some tens of images differ from the drawn ones by a pixel. `size` 32 takes the
    mean of every 2x2 pixels. `partial` accepts a file with fewer images.

    >>> dataset = dsprites()
    >>> dataset.shape, len(dataset), dataset.factor_space.names
    ((1, 64, 64), 737280, ('shape', 'scale', 'orientation', 'posX', 'posY'))
    """
    check_choice("size", size, (64, 32))
    check_choice("source", source, ("drawn", "packed", "file"))
    space = sprites.SPACE
    masks: Callable[[Indices], Bytes] = draw_packed if source == "packed" else sprites.draw
    if path is not None or source == "file":
        space, masks = _from_file(path, partial)

    def read(indices: Indices) -> Floats:
        mask = masks(indices)
        return mask.astype(np.float32) if size == 64 else sprites.halved(mask)

    return Dataset("dsprites", (1, size, size), len(space), read, factor_space=space)


def color_dsprites() -> Dataset:
    """Return dSprites in a random colour on black [Locatello2019; Matthey2017].

    x = mask * u, u ~ Uniform(0.5, 1) a channel

    >>> color_dsprites().images[[0]].max(axis=(2, 3)).round(2)
    array([[0.71, 0.74, 0.61]], dtype=float32)
    """
    return _on_background("color_dsprites", _coloured)


def noisy_dsprites() -> Dataset:
    """Return dSprites in white on noise [Locatello2019; Matthey2017].

    x = min(mask + u, 1), u ~ Uniform(0, 1) a pixel and channel

    >>> noisy_dsprites().batch(0, 2, 0).images.shape
    (2, 3, 64, 64)
    """
    return _on_background("noisy_dsprites", _noisy)


def scream_dsprites(*, path: str | None = None) -> Dataset:
    """Return dSprites cut out of The Scream [Locatello2019; Matthey2017].

    background = (crop + tint) / 2, sprite = 1 - background

    The picture comes from `path` or the data folder, is shrunk into 350x274 and cropped anywhere, tint ~ Uniform(0, 1)
    a channel.

    >>> import tempfile
    >>> from PIL import Image
    >>> picture = Path(tempfile.mkdtemp()) / "scream.jpg"
    >>> Image.new("RGB", (270, 350), "orange").save(picture)
    >>> scream_dsprites(path=str(picture)).shape
    (3, 64, 64)
    """
    place = Path(path).expanduser() if path is not None else obtain(SOURCES["scream_dsprites"][0])
    if not place.is_file():
        raise DownloadError(f"expected the picture The Scream at {place}, where there is no file; get {SCREAM_ADDRESS}")
    scene = thumbnail(place, width=350, height=274)
    if min(scene.shape[1:]) <= 64:
        raise refusal(place, "a picture with both sides above 64 pixels", f"{scene.shape[2]}x{scene.shape[1]}")
    windows = np.lib.stride_tricks.sliding_window_view(scene, (64, 64), axis=(1, 2)).transpose(1, 2, 0, 3, 4)

    def nuisance(mask: Floats, generator: np.random.Generator) -> Floats:
        row, column = (generator.integers(side - 64, size=len(mask)) for side in scene.shape[1:])
        background: Floats = windows[row, column] + generator.random((len(mask), 3, 1, 1), dtype=np.float32)
        background *= np.float32(0.5)
        # 1 - background inside, background outside, without a branch: |mask - background|.
        np.subtract(mask, background, out=background)
        return np.abs(background, out=background)

    return _on_background("scream_dsprites", nuisance)


def _on_background(name: str, nuisance: Callable[[Floats, np.random.Generator], Floats]) -> Dataset:
    return Dataset(name, (3, 64, 64), len(sprites.SPACE), _drawn, factor_space=sprites.SPACE, nuisance=nuisance)


def _drawn(indices: Indices) -> Floats:
    return sprites.draw(indices).astype(np.float32)


def _coloured(mask: Floats, generator: np.random.Generator) -> Floats:
    colour = generator.random((len(mask), 3, 1, 1), dtype=np.float32) * np.float32(0.5) + np.float32(0.5)
    return mask * colour


def _noisy(mask: Floats, generator: np.random.Generator) -> Floats:
    # The middles of 65,536 steps, four of a random integer: a fifth of the time of floats drawn one by one.
    drawn = generator.integers(2**64 - 1, size=(len(mask), 3, 64, 16), dtype=np.uint64, endpoint=True)
    noise: Floats = np.multiply(drawn.view(np.uint16), np.float32(2.0**-16), dtype=np.float32)
    noise += np.float32(2.0**-17)
    return np.maximum(noise, mask, out=noise)


def _from_file(path: str | None, partial: bool) -> tuple[FactorSpace, Callable[[Indices], Bytes]]:
    place = None if path is None else Path(path).expanduser()
    if place is not None and not place.is_file():
        raise DataError(f"expected {PUBLISHED} at {place}, where there is no file; give its path, or draw the images")
    key = "dsprites" if place is None else f"dsprites-{name_of(place)}"
    found = decoded(key, SOURCES["dsprites"], _bits, places=[] if place is None else [place])
    images, table = found.images, found.factors
    if table is None and len(images) != len(sprites.SPACE):
        raise DataError("expected decoded dSprites with its factors; delete the folder 'decoded' of the data folder")
    if table is not None and not partial:
        raise DataError(
            f"expected the 737280 images of dSprites in their published order, got {len(images)}; get "
            f"{DSPRITES_PAGE} again, or accept what is there with partial=True"
        )

    def read(indices: Indices) -> Bytes:
        return np.unpackbits(images[indices], axis=1).reshape(-1, 1, 64, 64)

    space = sprites.SPACE
    return (space if table is None else FactorSpace(space.names, space.sizes, values=space.values, table=table)), read


def _bits(paths: list[Path]) -> Pictures:
    path = paths[0]
    images, classes = npz_member(path, "imgs"), npz_member(path, "latents_classes")
    count = images.shape[0]
    if images.shape[1:] != (64, 64) or images.dtype != np.uint8 or classes.shape != (count, 6):
        expected = "imgs of bytes (n, 64, 64) and latents_classes (n, 6)"
        raise refusal(path, expected, f"{images.dtype} {images.shape} and {classes.shape}")
    table = classes.whole()[:, 1:]
    try:
        published = np.array_equal(sprites.SPACE.index(table), np.arange(len(sprites.SPACE)))
    except DataError as error:
        raise refusal(path, "the factors of dSprites", str(error)) from error

    def chunks() -> Iterator[NDArray[np.uint8]]:
        for rows in images.chunks:
            if rows.max() > 1:
                raise refusal(path, "pixels 0 and 1", f"{rows.max()}")
            yield np.packbits(rows.reshape(len(rows), -1), axis=1)

    return Pictures((count, 512), np.uint8, chunks(), None if published else table.astype(np.uint8))
