"""dSprites drawn from its constants: 737,280 binary images of 64x64 pixels and no file.

A sprite is a polygon of one of three shapes, scaled, turned and moved by fractions of a pixel; a pixel is lit when its
centre lies inside. The constants were fitted to real frames, which it meets in every pixel; over the whole dataset
the number of lit pixels is 128,328,864 against the published 128,328,862. Images after [Matthey2017].

Vertices are snapped to 1/256 pixel, x and y apart: which edges cross which rows, and how far along, depends on the
pose and y alone and is tabulated once (some 16 MB a process). Drawing an image is then one multiplication for each of
its crossings, about two a row.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polarised.data.dataset import FactorSpace
from polarised.errors import DataError

__all__ = ["SPACE", "draw", "halved", "rows", "unpacked"]

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
    """Return the images of these indices, (n, 1, 64, 64), lit pixels 1 and the others 0.

    >>> int(draw(np.array([0])).sum())
    100
    """
    return unpacked(rows(indices))


def unpacked(bits: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Return images (n, 1, 64, 64) from rows of bits (n, 64).

    >>> unpacked(np.full((1, 64), 2, dtype=np.uint64))[0, 0, 0, :3]
    array([0, 1, 0], dtype=uint8)
    """
    pixels = np.unpackbits(bits.astype("<u8", copy=False).view(np.uint8), bitorder="little")
    return pixels.reshape(-1, 1, SIDE, SIDE)


def halved(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return images (n, 1, 64, 64) of 0 and 1 at half the size: the mean of every 2x2 pixels.

    >>> halved(np.eye(64, dtype=np.uint8)[None, None])[0, 0, 0, :2]
    array([0.5, 0. ], dtype=float32)
    """
    # Two bytes of a row are one integer of 16 bits, so that they are added without a step over every second pixel.
    pairs = (images[:, :, ::2] + images[:, :, 1::2]).view(np.uint16)
    means: NDArray[np.float32] = ((pairs + (pairs >> 8)) & 0xFF).astype(np.float32)
    means *= np.float32(0.25)
    return means


def rows(indices: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the images as rows of bits, (n, 64): bit j of row i is the pixel in column j.

    A row is the sum over its crossings of +2^column on the way down and -2^column on the way up, modulo 2^64.

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
    # take is several times quicker than indexing on arrays this small.
    crossing = table.crossings.take(which)
    place = table.outline.take(indices // 32).take(image) + crossing["edge"]
    x, end = table.x.take(place), table.x.take(place + 1)
    # The first column whose centre is not left of the crossing. Fractions of an edge have denominators below 5,000, so
    # that a crossing within SURELY_ON of a centre is on it, and the ceiling is that of exact arithmetic.
    from_centre = x + (end - x) * crossing["along"] - (PIXEL / 2 + SURELY_ON)
    column = np.ceil(from_centre / PIXEL).astype(np.int64)
    filled = np.zeros(len(indices) * SIDE, dtype=np.uint64)
    np.add.at(filled, image * SIDE + crossing["row"], POWERS.take(column + crossing["upwards"]))
    return filled.reshape(-1, SIDE)


class _Table(NamedTuple):
    x: NDArray[np.int16]
    """Snapped x of the vertices of every (shape, scale, orientation, posX), the first again at the end."""
    outline: NDArray[np.int32]
    """Where in `x` the outline of each (shape, scale, orientation, posX) begins."""
    crossings: NDArray[np.void]
    """Every edge that meets the centre of a row: the edge, the row, 64 if it goes up, how much of it lies before."""
    first: NDArray[np.int64]
    """Where in `crossings` those of each (shape, scale, orientation, posY) begin."""


@cache
def _table() -> _Table:
    outlines = [_outline(shape) for shape in range(3)]
    xs, crossings, counts = [], [], []
    for vertices in outlines:
        x, y = (_placed(vertices[..., axis]) for axis in range(2))
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
    """Return the vertices of a shape at every scale and orientation about its centre, in pixels, (240, V + 1, 2)."""
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


def _placed(coordinate: NDArray[np.float64]) -> NDArray[np.int32]:
    """Move outlines (240, V + 1) along one axis to its 32 positions and snap them, (240 * 32, V + 1)."""
    assert SPACE.values is not None
    centres = SIDE / 4 + SIDE / 2 * SPACE.values[3]
    moved = coordinate[:, None, :] + centres[:, None]
    return np.rint(PIXEL * moved).astype(np.int32).reshape(-1, coordinate.shape[1])
