import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polarised.data import dsprites, sprites
from polarised.errors import DataError


def inside(shape: int, scale: float, angle: float, x: float, y: float) -> np.ndarray:
    """Draw one sprite pixel by pixel by counting the crossings left of each centre: slow, simple and independent."""
    if shape == 0:
        outline = np.array([(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)])
    elif shape == 1:
        t = 2 * np.pi * np.arange(100) / 100
        outline = np.stack([0.665 * np.cos(t), 0.5 / 1.33 * np.sin(t)], axis=1)
    else:
        t = 2 * np.pi * np.arange(150) / 150
        high = (13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)) / 29
        outline = np.stack([np.sin(t) ** 3 / 2, -0.075 - high], axis=1)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    corners = np.rint(256 * (19.2 * scale * outline @ turn + (16 + 32 * x, 16 + 32 * y))) / 256
    picture = np.zeros((64, 64), dtype=bool)
    for (ax, ay), (bx, by) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        for i in range(64):
            centre = i + 0.5
            if min(ay, by) < centre <= max(ay, by):
                crossing = ax + (centre - ay) * (bx - ax) / (by - ay)
                picture[i] ^= np.arange(64) + 0.5 >= crossing
    return picture


@pytest.mark.parametrize("shape", [0, 1, 2])
def test_images_equal_an_independent_rendering(shape: int) -> None:
    generator = np.random.default_rng(shape)
    factors = np.stack([np.full(6, shape), *(generator.integers(size, size=6) for size in (6, 40, 32, 32))], axis=1)
    drawn = sprites.draw(sprites.SPACE.index(factors))[:, 0]
    values = sprites.SPACE.values
    assert values is not None
    for picture, row in zip(drawn, factors, strict=True):
        where = [float(values[i][row[i]]) for i in range(1, 5)]
        np.testing.assert_array_equal(picture.astype(bool), inside(shape, *where))


def test_upright_square_of_full_size() -> None:
    picture = sprites.draw(sprites.SPACE.index([[0, 5, 0, 0, 0]]))[0, 0]
    assert picture.sum() == 400
    assert picture[16, 16] == 1


@pytest.mark.parametrize("index", [-1, 737_280])
def test_indices_out_of_range(index: int) -> None:
    with pytest.raises(DataError, match="from 0 to 737279"):
        sprites.draw(np.array([0, index]))


def test_types_and_shapes() -> None:
    indices = np.array([3, 700_000])
    assert sprites.draw(indices).dtype == np.uint8
    assert sprites.draw(indices).shape == (2, 1, 64, 64)
    assert sprites.draw(np.array([], dtype=np.int64)).shape == (0, 1, 64, 64)


@settings(deadline=None)
@given(st.lists(st.integers(0, 737_279), min_size=1, max_size=40))
def test_an_image_does_not_depend_on_the_others(indices: list[int]) -> None:
    together = sprites.rows(np.array(indices))
    alone = np.concatenate([sprites.rows(np.array([index])) for index in indices])
    np.testing.assert_array_equal(together, alone)


@settings(deadline=None)
@given(st.lists(st.integers(0, 737_279), min_size=1, max_size=64))
def test_packed_table_equals_drawing(indices: list[int]) -> None:
    np.testing.assert_array_equal(sprites.rows_packed(np.array(indices)), sprites.rows(np.array(indices)))


@settings(deadline=None)
@given(st.lists(st.integers(0, 737_279), min_size=1, max_size=40))
def test_half_the_size_is_the_mean_of_four_pixels(indices: list[int]) -> None:
    whole = sprites.draw(np.array(indices)).astype(np.float64)
    means = whole.reshape(-1, 1, 32, 2, 32, 2).mean(axis=(3, 5))
    np.testing.assert_array_equal(sprites.halved(sprites.rows(np.array(indices))), means)


def test_packed_table_holds_every_lit_pixel() -> None:
    lit = sum(
        int(np.unpackbits(some.view(np.uint8)).sum()) for some in np.array_split(sprites._packed_table().rows, 20)
    )
    assert lit == 128_328_864


def test_tables_are_small() -> None:
    assert sum(array.nbytes for array in sprites._table()) < 20e6


def test_drawing_a_batch_needs_little_more_memory_than_the_batch() -> None:
    indices = np.random.default_rng(0).integers(len(sprites.SPACE), size=256)
    read = dsprites().read
    read(indices)
    tracemalloc.start()
    read(indices)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * 256 * 4096 * 4
