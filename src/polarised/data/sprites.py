"""dSprites rendered from its constants: 737,280 binary images of 64x64 pixels without a file.

A sprite is a polygon of one of three shapes, scaled, rotated and translated by fractions of a pixel; a pixel is lit if
its centre lies inside. The constants were fitted to real frames, which are reproduced in every pixel; over the whole
dataset the number of lit pixels is 128,328,864, compared with the published 128,328,862. Images after [Matthey2017].

Vertices are rounded to 1/256 pixel, separately in x and y: which edges cross which rows, and how far along, depends
only on the pose and y and is tabulated once (some 16 MB per process). Rendering an image then takes one multiplication
per crossing, about two per row.
"""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polarised._io.files import expanded, refusal
from polarised._io.readers import npz_member
from polarised.data.cache import PictureStream, Source, decoded, name_of, obtain
from polarised.data.dataset import Dataset, FactorSpace, check_choice
from polarised.data.own import thumbnail
from polarised.errors import DataError, DownloadError, MissingFileError
from polarised.registry import register

__all__ = [
    "SPACE",
    "color_dsprites",
    "draw",
    "dsprites",
    "halved",
    "noisy_dsprites",
    "rows",
    "rows_packed",
    "scream_dsprites",
    "unpacked",
]

SIDE = 64


PIXEL = 256


SURELY_ON = 1e-6


CROSSING = np.dtype([("edge", np.int32), ("row", np.int16), ("upwards", np.int16), ("along", np.float64)])


BITS = np.uint64(1) << np.arange(SIDE, dtype=np.uint64)


POWERS = np.concatenate([BITS, -BITS])


SPACE = FactorSpace(
    ("shape", "scale", "orientation", "posX", "posY"),
    (3, 6, 40, 32, 32),
    values=(
        np.array(["square", "ellipse", "heart"]),
        np.linspace(0.5, 1.0, 6),
        np.linspace(0.0, 2.0 * np.pi, 40),
        np.linspace(0.0, 1.0, 32),
        np.linspace(0.0, 1.0, 32),
    ),
)


"""The factors in the order of the published file, without its constant colour; posY varies fastest."""


def draw(indices: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return the images with the given indices, with 1 for lit pixels and 0 for the others.

    Args:
        indices: Indices of the 737,280 images.

    Returns:
        Bytes 0 and 1, (n, 1, 64, 64).

    Raises:
        DataError: If an index is out of range.

    >>> int(draw(np.array([0])).sum())
    100
    """
    return unpacked(rows(indices))


def unpacked(bits: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Return images from rows of bits.

    Args:
        bits: Rows of bits, (n, 64): bit j of row i is the pixel in column j.

    Returns:
        Bytes 0 and 1, (n, 1, 64, 64).

    >>> unpacked(np.full((1, 64), 2, dtype=np.uint64))[0, 0, 0, :3]
    array([0, 1, 0], dtype=uint8)
    """
    pixels = np.unpackbits(bits.astype("<u8", copy=False).view(np.uint8), bitorder="little")
    return pixels.reshape(-1, 1, SIDE, SIDE)


def halved(bits: NDArray[np.uint64]) -> NDArray[np.float32]:
    """Return images of half the side from rows of bits: the mean of every 2x2 pixels.

    Args:
        bits: Rows of bits, (n, 64).

    Returns:
        Images of 0, 1/4, 1/2, 3/4 and 1, (n, 1, 32, 32).

    >>> halved(np.uint64(1) << np.arange(64, dtype=np.uint64)[None])[0, 0, 0, :2]
    array([0.5, 0. ], dtype=float32)
    """
    upper, lower = (
        np.ascontiguousarray(bits.reshape(-1)[first::2], dtype="<u8").view(np.uint8).astype(np.intp) for first in (0, 1)
    )
    # Eight pixels of a row and the eight below them form a 16-bit number, which encodes four means.
    lower <<= 8
    lower |= upper
    means: NDArray[np.float32] = _means().take(lower).view(np.float32)
    return means.reshape(-1, 1, SIDE // 2, SIDE // 2)


@cache
def _means() -> NDArray[np.complex128]:
    """The means of the four 2x2 squares encoded by each 16-bit number, four floats as one element, in all 1 MB."""
    pixels = np.unpackbits(np.arange(2**16, dtype="<u2").view(np.uint8), bitorder="little").reshape(-1, 2, 4, 2)
    means: NDArray[np.complex128] = pixels.mean(axis=(1, 3), dtype=np.float32).view(np.complex128)[:, 0]
    return means


def rows(indices: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the images as rows of bits, (n, 64): bit j of row i is the pixel in column j.

    A row is the sum over its crossings of +2^column on the way down and -2^column on the way up, modulo 2^64.

    Args:
        indices: Indices of the 737,280 images.

    Returns:
        Rows of bits, (n, 64).

    Raises:
        DataError: If an index is out of range.

    >>> bin(rows(np.array([0]))[0, 16])
    '0b111111111100000000000'
    """
    table = _table()
    indices = np.asarray(indices, dtype=np.int64)
    if indices.size and not 0 <= indices.min() <= indices.max() < len(SPACE):
        raise DataError(f"expected indices from 0 to {len(SPACE) - 1}, got {indices.min()} to {indices.max()}")
    at = indices // 1024 * 32 + indices % 32
    first = table.first.take(at)
    count = table.first.take(at + 1) - first
    image = np.repeat(np.arange(len(indices)), count)
    which = np.arange(len(image)) + (first - np.cumsum(count) + count).take(image)
    # take is several times faster than indexing on arrays this small.
    crossing = table.crossings.take(which)
    place = table.outline.take(indices // 32).take(image) + crossing["edge"]
    x, end = table.x.take(place), table.x.take(place + 1)
    # The first column whose centre is not left of the crossing. Fractions of an edge have denominators below 5,000, so
    # a crossing within SURELY_ON of a centre is on it, and the ceiling equals that of exact arithmetic.
    from_centre = x + (end - x) * crossing["along"] - (PIXEL / 2 + SURELY_ON)
    column = np.ceil(from_centre / PIXEL).astype(np.int64)
    filled = np.zeros(len(indices) * SIDE, dtype=np.uint64)
    np.add.at(filled, image * SIDE + crossing["row"], POWERS.take(column + crossing["upwards"]))
    return filled.reshape(-1, SIDE)


class _Table(NamedTuple):
    x: NDArray[np.int16]
    """Rounded x of the vertices of every (shape, scale, orientation, posX), with the first repeated at the end."""
    outline: NDArray[np.int32]
    """The start of the outline of each (shape, scale, orientation, posX) in `x`."""
    crossings: NDArray[np.void]
    """Every edge that crosses the centre of a row: the edge, the row, 64 if it goes up, the fraction before it."""
    first: NDArray[np.int64]
    """The start of those of each (shape, scale, orientation, posY) in `crossings`."""


@cache
def _table() -> _Table:
    outlines = [_outline(shape) for shape in range(3)]
    xs, crossings, counts = [], [], []
    for vertices in outlines:
        x, y = (_positions(vertices[..., axis]) for axis in range(2))
        start, height = y[:, :-1], np.diff(y, axis=1)
        top, bottom = np.minimum(start, y[:, 1:]), np.maximum(start, y[:, 1:])
        # A centre on a bottom edge counts as inside, on a top edge as outside: top < centre <= bottom.
        lowest, highest = (top - PIXEL // 2) // PIXEL + 1, (bottom - PIXEL // 2) // PIXEL
        crossed = highest - lowest + 1
        edges = np.arange(crossed.size, dtype=np.int32)
        outline, edge = np.divmod(np.repeat(edges, crossed.ravel()), crossed.shape[1])
        ends = np.cumsum(crossed)
        row = np.arange(ends[-1]) - np.repeat(ends - crossed.ravel() - lowest.ravel(), crossed.ravel())
        crossing = np.empty(len(row), dtype=CROSSING)
        crossing["edge"], crossing["row"] = edge, row
        crossing["upwards"] = np.where(height[outline, edge] < 0, SIDE, 0)
        crossing["along"] = (row * PIXEL + PIXEL // 2 - start[outline, edge]) / height[outline, edge]
        xs.append(x)
        crossings.append(crossing)
        counts.append(crossed.sum(axis=1))
    begins = np.cumsum([0, *(x.size for x in xs[:-1])])
    outline = np.concatenate([begin + np.arange(0, x.size, x.shape[1]) for begin, x in zip(begins, xs, strict=True)])
    return _Table(
        x=np.concatenate([x.ravel() for x in xs]).astype(np.int16),
        outline=outline.astype(np.int32),
        crossings=np.concatenate(crossings),
        first=np.concatenate([[0], np.cumsum(np.concatenate(counts))]),
    )


def _outline(shape: int) -> NDArray[np.float64]:
    """Return the vertices of a shape at every scale and orientation around its centre, in pixels, (240, V + 1, 2)."""
    if shape == 0:
        x, y = np.array([-0.5, 0.5, 0.5, -0.5]), np.array([-0.5, -0.5, 0.5, 0.5])
    elif shape == 1:
        t = 2.0 * np.pi * np.arange(100) / 100
        x, y = 0.5 * 1.33 * np.cos(t), 0.5 / 1.33 * np.sin(t)
    else:
        t = 2.0 * np.pi * np.arange(150) / 150
        x = 16.0 * np.sin(t) ** 3 / 32.0
        y = -0.075 - (13.0 * np.cos(t) - 5.0 * np.cos(2 * t) - 2.0 * np.cos(3 * t) - np.cos(4 * t)) / 29.0
    assert SPACE.values is not None
    unit = 0.3 * SIDE * SPACE.values[1][:, None, None]
    cosine, sine = np.cos(SPACE.values[2])[:, None], np.sin(SPACE.values[2])[:, None]
    turned = np.stack([unit * (cosine * x + sine * y), unit * (cosine * y - sine * x)], axis=-1)
    return np.concatenate([turned, turned[:, :, :1]], axis=2).reshape(-1, len(x) + 1, 2)


def _positions(coordinate: NDArray[np.float64]) -> NDArray[np.int32]:
    """Move outlines (240, V + 1) along one axis to its 32 positions and round them, (240 * 32, V + 1)."""
    assert SPACE.values is not None
    centres = SIDE / 4 + SIDE / 2 * SPACE.values[3]
    moved = coordinate[:, None, :] + centres[:, None]
    return np.rint(PIXEL * moved).astype(np.int32).reshape(-1, coordinate.shape[1])


TALLEST = 29


CHUNK = 8192


def rows_packed(indices: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the same rows of bits as `rows`, from a table of 87 MB that is built on first use.

    Args:
        indices: Indices of the 737,280 images.

    Returns:
        Rows of bits, (n, 64).

    >>> indices = np.array([0, 400_000, 737_279])
    >>> bool((rows_packed(indices) == rows(indices)).all())
    True
    """
    table = _packed_table()
    lit = table.rows.take(indices, axis=0).astype(np.uint64)
    lit <<= table.left.take(indices).astype(np.uint64)[:, None]
    filled = np.zeros(len(indices) * SIDE, dtype=np.uint64)
    first = np.arange(0, len(filled), SIDE) + table.top.take(indices)
    filled[first[:, None] + np.arange(TALLEST)] = lit
    return filled.reshape(-1, SIDE)


class _PackedTable(NamedTuple):
    rows: NDArray[np.uint32]
    top: NDArray[np.uint8]
    left: NDArray[np.uint8]


@cache
def _packed_table() -> _PackedTable:
    count = len(SPACE)
    table = _PackedTable(
        np.empty((count, TALLEST), dtype=np.uint32), np.empty(count, dtype=np.uint8), np.empty(count, dtype=np.uint8)
    )
    for start in range(0, count, CHUNK):
        some = slice(start, start + CHUNK)
        drawn = rows(np.arange(count)[some])
        # Sprites end above row 62, so 29 rows from the first lit one (or from 35, if it is lower) contain them all.
        top = np.minimum((drawn != 0).argmax(axis=1), SIDE - TALLEST)
        columns = np.bitwise_or.reduce(drawn, axis=1)
        left = np.log2(columns & -columns).astype(np.uint8)
        lit = np.take_along_axis(drawn, top[:, None] + np.arange(TALLEST), axis=1)
        table.rows[some] = lit >> left.astype(np.uint64)[:, None]
        table.top[some], table.left[some] = top, left
    return table


PUBLISHED = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"


DSPRITES_PAGE = "https://github.com/deepmind/dsprites-dataset"


SCREAM_ADDRESS = "https://upload.wikimedia.org/wikipedia/commons/f/f4/The_Scream.jpg"


DSPRITES_FILE = Source(
    f"dsprites/{PUBLISHED}",
    (f"{DSPRITES_PAGE}/raw/master/{PUBLISHED}",),
    DSPRITES_PAGE,
    md5="7da33b31b13a06f4b04a70402ce90c2e",
)


# An encyclopedia's copy of a painting, which may be replaced: its first download is trusted.
SCREAM_FILE = Source("scream/scream.jpg", (SCREAM_ADDRESS,), SCREAM_ADDRESS)


FACTORS = dict(zip(SPACE.names, SPACE.sizes, strict=True))


Floats = NDArray[np.float32]


Indices = NDArray[np.int64]


@register(
    "dataset",
    title="dSprites",
    summary="square, ellipse or heart",
    references=("Matthey2017",),
    images=737_280,
    shape=(1, 64, 64),
    factors=FACTORS,
    licence="Apache-2.0",
    sources=(DSPRITES_FILE,),
    example=({}, {"size": 32}),
)
def dsprites(
    *,
    size: Literal[64, 32] = 64,
    source: Literal["drawn", "packed", "file"] = "drawn",
    path: str | None = None,
    partial: bool = False,
) -> Dataset:
    """Return dSprites: 737,280 binary images of a square, an ellipse or a heart [Matthey2017].

    Args:
        size: The side of the images; 32 takes the mean of every 2x2 pixels.
        source: "drawn" renders the images on access; "packed" uses a table of 87 MB; "file" reads the
            published .npz, in which some tens of images differ by a pixel from the rendered ones.
        path: The published .npz, if it is not in the data folder.
        partial: Accept a file with fewer images.

    Returns:
        The dataset.

    Raises:
        ConfigError: If a setting is not one of its choices.
        DataError: If the file is damaged, or images are missing.

    >>> dataset = dsprites()
    >>> dataset.shape, len(dataset), dataset.factor_space.names
    ((1, 64, 64), 737280, ('shape', 'scale', 'orientation', 'posX', 'posY'))
    """
    check_choice("size", size, (64, 32))
    check_choice("source", source, ("drawn", "packed", "file"))
    space = SPACE
    bits: Callable[[Indices], NDArray[np.uint64]] = rows_packed if source == "packed" else rows
    if path is not None or source == "file":
        space, bits = _from_file(path, partial)

    def read(indices: Indices) -> Floats:
        return unpacked(bits(indices)).astype(np.float32) if size == 64 else halved(bits(indices))

    return Dataset("dsprites", (1, size, size), len(space), read, factor_space=space)


@register(
    "dataset",
    title="Color-dSprites",
    summary="sprites in random colours",
    references=("Locatello2019", "Matthey2017"),
    images=737_280,
    shape=(3, 64, 64),
    factors=FACTORS,
    licence="Apache-2.0",
)
def color_dsprites() -> Dataset:
    """Return dSprites in a random colour on black [Locatello2019; Matthey2017].

    x = mask * u, u ~ Uniform(0.5, 1) for each channel

    Returns:
        The dataset.

    >>> color_dsprites().images[[0]].max(axis=(2, 3)).round(2)
    array([[0.71, 0.74, 0.61]], dtype=float32)
    """
    return _on_background("color_dsprites", _coloured)


@register(
    "dataset",
    title="Noisy-dSprites",
    summary="sprites on random noise",
    references=("Locatello2019", "Matthey2017"),
    images=737_280,
    shape=(3, 64, 64),
    factors=FACTORS,
    licence="Apache-2.0",
)
def noisy_dsprites() -> Dataset:
    """Return dSprites in white on noise [Locatello2019; Matthey2017].

    x = min(mask + u, 1), u ~ Uniform(0, 1) for each pixel and channel

    Returns:
        The dataset.

    >>> noisy_dsprites().batch(0, 2, 0).images.shape
    (2, 3, 64, 64)
    """
    return _on_background("noisy_dsprites", _noisy)


@register(
    "dataset",
    title="Scream-dSprites",
    summary="sprites cut out of The Scream",
    needs=("files",),
    references=("Locatello2019", "Matthey2017"),
    images=737_280,
    shape=(3, 64, 64),
    factors=FACTORS,
    licence="Apache-2.0, painting in the public domain",
    sources=(SCREAM_FILE,),
)
def scream_dsprites(*, path: str | None = None) -> Dataset:
    """Return dSprites cut out of The Scream [Locatello2019; Matthey2017].

    background = (crop + tint) / 2, sprite = 1 - background

    The picture is shrunk to fit into 350x274 and cropped at random; tint ~ Uniform(0, 1) for each channel.

    Args:
        path: The picture, if it is not in the data folder.

    Returns:
        The dataset.

    Raises:
        DownloadError: If the picture is missing and cannot be downloaded.
        DataError: If it is damaged, or too small.

    >>> import tempfile
    >>> from PIL import Image
    >>> picture = Path(tempfile.mkdtemp()) / "scream.jpg"
    >>> Image.new("RGB", (270, 350), "orange").save(picture)
    >>> scream_dsprites(path=str(picture)).shape
    (3, 64, 64)
    """
    place = expanded(path) if path is not None else obtain(SCREAM_FILE)
    if not place.is_file():
        raise DownloadError(f"expected the picture The Scream at {place}, there is no such file; get {SCREAM_ADDRESS}")
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
    return Dataset(name, (3, 64, 64), len(SPACE), _drawn, factor_space=SPACE, nuisance=nuisance)


def _drawn(indices: Indices) -> Floats:
    return draw(indices).astype(np.float32)


def _coloured(mask: Floats, generator: np.random.Generator) -> Floats:
    colour = generator.random((len(mask), 3, 1, 1), dtype=np.float32) * np.float32(0.5) + np.float32(0.5)
    return mask * colour


def _noisy(mask: Floats, generator: np.random.Generator) -> Floats:
    # The centres of 65,536 intervals, four per random integer: a fifth of the time of drawing floats one by one.
    drawn = generator.integers(2**64 - 1, size=(len(mask), 3, 64, 16), dtype=np.uint64, endpoint=True)
    noise: Floats = np.multiply(drawn.view(np.uint16), np.float32(2.0**-16), dtype=np.float32)
    noise += np.float32(2.0**-17)
    return np.maximum(noise, mask, out=noise)


def _from_file(path: str | None, partial: bool) -> tuple[FactorSpace, Callable[[Indices], NDArray[np.uint64]]]:
    place = None if path is None else expanded(path)
    if place is not None and not place.is_file():
        raise MissingFileError(
            f"expected {PUBLISHED} at {place}, there is no such file; pass its path, or draw the images"
        )
    key = "dsprites" if place is None else f"dsprites-{name_of(place)}"
    found = decoded(key, (DSPRITES_FILE,), _bits, places=[] if place is None else [place])
    images, table = found.images, found.factors
    if table is None and len(images) != len(SPACE):
        raise DataError("expected decoded dSprites with its factors; delete the folder 'decoded' of the data folder")
    if table is not None and not partial:
        raise DataError(
            f"expected the 737280 images of dSprites in their published order, got {len(images)}; get "
            f"{DSPRITES_PAGE} again, or accept the existing ones with partial=True"
        )

    # The decoded file has the first of eight pixels in the highest bit, rows of bits in the lowest.
    turned = np.packbits(np.unpackbits(np.arange(256, dtype=np.uint8)), bitorder="little")

    def bits(indices: Indices) -> NDArray[np.uint64]:
        rows_of_bits: NDArray[np.uint64] = turned[images[indices]].view("<u8").astype(np.uint64, copy=False)
        return rows_of_bits

    space = SPACE
    return (space if table is None else FactorSpace(space.names, space.sizes, values=space.values, table=table)), bits


def _bits(paths: list[Path]) -> PictureStream:
    path = paths[0]
    images, classes = npz_member(path, "imgs"), npz_member(path, "latents_classes")
    count = images.shape[0]
    if images.shape[1:] != (64, 64) or images.dtype != np.uint8 or classes.shape != (count, 6):
        expected = "imgs of bytes (n, 64, 64) and latents_classes (n, 6)"
        raise refusal(path, expected, f"{images.dtype} {images.shape} and {classes.shape}")
    table = classes.whole()[:, 1:]
    try:
        published = np.array_equal(SPACE.index(table), np.arange(len(SPACE)))
    except DataError as error:
        raise refusal(path, "the factors of dSprites", str(error)) from error

    def chunks() -> Iterator[NDArray[np.uint8]]:
        for rows in images.chunks:
            if rows.max() > 1:
                raise refusal(path, "pixels 0 and 1", f"{rows.max()}")
            yield np.packbits(rows.reshape(len(rows), -1), axis=1)

    return PictureStream((count, 512), np.uint8, chunks(), None if published else table.astype(np.uint8))
