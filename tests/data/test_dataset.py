import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from polarised.data import Dataset, FactorSpace, color_dsprites, dataset_from_arrays, dsprites, nonlinear_ica, pinwheel
from polarised.errors import DataError
from polarised.random import stream

sizes = st.lists(st.integers(1, 6), min_size=1, max_size=5)


@given(sizes)
def test_index_and_factors_are_inverse(sizes: list[int]) -> None:
    space = FactorSpace([f"f{i}" for i in range(len(sizes))], sizes)
    every = np.arange(len(space))
    factors = space.factors(every)
    np.testing.assert_array_equal(space.index(factors), every)
    np.testing.assert_array_equal(factors[:, -1], every % sizes[-1])
    assert len(np.unique(factors, axis=0)) == len(space)


@given(sizes, st.integers(1, 30), st.integers(0, 1000))
def test_table_finds_an_image_with_the_factors(sizes: list[int], count: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    table = np.stack([generator.integers(size, size=count) for size in sizes], axis=1)
    space = FactorSpace([f"f{i}" for i in range(len(sizes))], sizes, table=table)
    np.testing.assert_array_equal(space.factors(space.index(table)), table)
    np.testing.assert_array_equal(space.factors(space.index(table, generator)), table)
    assert (space.index(table) <= np.arange(count)).all()


def test_label_is_drawn_evenly_among_its_images() -> None:
    space = FactorSpace(["label"], [2], table=np.array([[0], [1], [0], [0]]))
    drawn = space.index(np.zeros((3000, 1), dtype=int), stream(0, "test"))
    counts = np.bincount(drawn, minlength=4)
    assert counts[1] == 0
    assert (np.abs(counts[[0, 2, 3]] - 1000) < 120).all()


def test_sampling_with_fixed_factors() -> None:
    space = dsprites().factor_space
    assert space is not None
    drawn = space.sample(500, stream(0, "test"), fixed={"shape": 2, "posX": 31})
    assert (drawn[:, 0] == 2).all()
    assert (drawn[:, 3] == 31).all()
    assert set(drawn[:, 1]) == set(range(6))


def test_fixing_a_factor_does_not_move_the_others() -> None:
    space = FactorSpace(["a", "b"], [5, 7])
    free = space.sample(20, stream(0, "test"))
    held = space.sample(20, stream(0, "test"), fixed={"a": 3})
    np.testing.assert_array_equal(free[:, 1], held[:, 1])


def test_missing_combinations_are_named() -> None:
    space = FactorSpace(["shape", "size"], [2, 2], table=np.array([[0, 0], [1, 1]]))
    with pytest.raises(DataError, match="no image has the factors shape=0, size=1"):
        space.index([[0, 0], [0, 1]])
    with pytest.raises(DataError, match=r"no image has .*'shape': 0, 'size': 1"):
        space.sample(3, stream(0, "test"), fixed={"shape": 0, "size": 1})
    assert (space.sample(9, stream(0, "test"), fixed={"shape": 1}) == 1).all()


@pytest.mark.parametrize(
    ("factors", "says"),
    [
        ([[0, 0, 0]], r"shape \(n, 2\)"),
        ([[0, 9]], "scale between 0 and 5, got 9 in row 0"),
        ([[0, -1]], "scale between 0 and 5, got -1"),
        ([[0.5, 1]], "whole numbers"),
        ([[float("nan"), 1]], "whole numbers"),
        ([[float("inf"), 1]], "shape between 0 and 2, got inf"),
        ([["square", "big"]], "whole numbers"),
    ],
)
def test_invalid_factors_are_refused(factors: list[list[float]], says: str) -> None:
    with pytest.raises(DataError, match=says):
        FactorSpace(["shape", "scale"], [3, 6]).index(factors)


def test_invalid_spaces_are_refused() -> None:
    with pytest.raises(DataError, match="as many factor names"):
        FactorSpace(["a"], [2, 3])
    with pytest.raises(DataError, match="as many factor names"):
        FactorSpace([], [])
    with pytest.raises(DataError, match="one value for each step"):
        FactorSpace(["a"], [2], values=(np.arange(3),))
    with pytest.raises(DataError, match="2\\^63"):
        FactorSpace([str(i) for i in range(70)], [2] * 70)
    with pytest.raises(DataError, match="did you mean 'shape'"):
        FactorSpace(["shape"], [2]).sample(1, stream(0, "t"), fixed={"shapes": 0})
    with pytest.raises(DataError, match="between 0 and 1"):
        FactorSpace(["shape"], [2]).sample(1, stream(0, "t"), fixed={"shape": 2})


def test_images_are_indexed_like_arrays() -> None:
    array = np.arange(10 * 4, dtype=np.float32).reshape(10, 1, 2, 2) / 40
    images = dataset_from_arrays(array).images
    for key in (3, -1, slice(2, 9, 3), slice(None, None, -1), [1, 1, -2], np.array([4]), np.arange(10) > 6):
        np.testing.assert_array_equal(images[key], array[key])
    assert images[[]].shape == (0, 1, 2, 2)
    assert len(images) == 10
    assert len(list(images)) == 10


@pytest.mark.parametrize("key", [[10], [-11], [0.5], [[1, 2]], "all", np.array([True, False])])
def test_invalid_indices_are_refused(key: object) -> None:
    with pytest.raises(DataError):
        dataset_from_arrays(np.zeros((10, 2), dtype=np.float32)).images[key]


def test_out_of_range_is_also_an_index_error() -> None:
    with pytest.raises(IndexError, match="below 10, got 10"):
        dataset_from_arrays(np.zeros((10, 2), dtype=np.float32)).images[10]


def test_evaluation_draws_each_image_once_if_there_are_enough() -> None:
    dataset = dataset_from_arrays(np.zeros((50, 3), dtype=np.float32))
    assert sorted(dataset.sample(50, 0).indices) == list(range(50))
    assert len(dataset.sample(51, 0)) == 51


def test_batches_cover_the_dataset_evenly() -> None:
    dataset = dataset_from_arrays(np.zeros((8, 2), dtype=np.float32))
    drawn = np.concatenate([dataset.batch(step, 100, 5).indices for step in range(80)])
    counts = np.bincount(drawn, minlength=8)
    assert (np.abs(counts - 1000) < 5 * np.sqrt(1000)).all()


@pytest.mark.parametrize(("step", "size"), [(0, 0), (-1, 4)])
def test_invalid_batches_are_refused(step: int, size: int) -> None:
    with pytest.raises(DataError, match="batch size"):
        dsprites().batch(step, size, 0)
    with pytest.raises(DataError, match="at least 1 image"):
        dsprites().sample(0, 0)


def test_auxiliary_variables_are_factors_between_zero_and_one() -> None:
    dataset = dsprites().with_auxiliary()
    batch = dataset.batch(0, 32, 0)
    assert batch.u is not None
    assert batch.factors is not None
    assert dataset.auxiliary_size == 5
    np.testing.assert_allclose(batch.u * [2, 5, 39, 31, 31], batch.factors, atol=1e-5)
    one = dsprites().with_auxiliary(factors=["orientation"]).batch(0, 32, 0)
    assert one.u is not None
    np.testing.assert_array_equal(one.u[:, 0], batch.u[:, 2])
    np.testing.assert_array_equal(one.images, batch.images)


def test_a_factor_of_one_value_gives_zero() -> None:
    dataset = dataset_from_arrays(np.zeros((3, 2), dtype=np.float32), factors=np.zeros(3, dtype=int)).with_auxiliary()
    u = dataset.batch(0, 4, 0).u
    assert u is not None
    assert (u == 0).all()


def test_invalid_auxiliary_variables_are_refused() -> None:
    with pytest.raises(DataError, match="no factors for u"):
        dataset_from_arrays(np.zeros((3, 2), dtype=np.float32)).with_auxiliary()
    with pytest.raises(DataError, match="did you mean 'shape'"):
        dsprites().with_auxiliary(factors=["Shape"])
    with pytest.raises(DataError, match="list of factor names"):
        dsprites().with_auxiliary(factors="shape")


@pytest.mark.parametrize("make", [dsprites, color_dsprites, pinwheel])
@pytest.mark.parametrize("size", [3, 64])
def test_batches_read_together_equal_those_read_separately(make, size) -> None:
    data = make()
    if data.factor_space is not None:
        data = data.with_auxiliary()
    together = list(data.batches(range(5, 12), size, 3))
    assert len(together) == 7
    for step, batch in zip(range(5, 12), together, strict=True):
        alone = data.batch(step, size, 3)
        for name in ("images", "factors", "u", "indices"):
            np.testing.assert_array_equal(getattr(batch, name), getattr(alone, name))


def test_batches_are_read_together_up_to_a_few_megabytes() -> None:
    asked: list[int] = []

    def read(indices: NDArray[np.int64]) -> NDArray[np.float32]:
        asked.append(len(indices))
        return np.zeros((len(indices), 1, 32, 32), dtype=np.float32)

    data = Dataset("zeros", (1, 32, 32), 100, read)
    assert len(list(data.batches(range(40), 64, 0))) == 40
    assert asked == [1024, 1024, 512]
    asked.clear()
    next(data.batches(range(40), 5000, 0))
    assert asked == [5000]


def test_a_split_divides_images_factors_and_auxiliary_variables() -> None:
    data = dsprites(size=32).with_auxiliary()
    trained, held_out = data.split(0.9)
    assert (len(trained), len(held_out)) == (663_552, 73_728)
    batch, unseen = trained.sample(2000, 0), held_out.sample(2000, 1)
    for part in (batch, unseen):
        whole = data.factor_space.index(part.factors)
        np.testing.assert_array_equal(part.images, data.read(whole))
        np.testing.assert_array_equal(part.u, data.auxiliary(whole))
    seen = set(trained.factor_space.table @ [6 * 40 * 1024, 40 * 1024, 1024, 32, 1])
    assert len(seen) == len(trained)
    assert not seen & set(held_out.factor_space.table @ [6 * 40 * 1024, 40 * 1024, 1024, 32, 1])


def test_a_split_is_fixed_and_a_larger_one_contains_a_smaller_one() -> None:
    data = pinwheel()
    first, again, larger = (data.split(share)[0].read(np.arange(300)) for share in (0.75, 0.75, 0.9))
    np.testing.assert_array_equal(first, again)
    rows = {tuple(row) for row in data.split(0.9)[0].read(np.arange(360)).tolist()}
    assert {tuple(row) for row in first.tolist()} <= rows
    assert len(larger) == 300


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 1e-9, float("nan")])
def test_a_split_that_leaves_a_part_empty_is_refused(share) -> None:
    with pytest.raises(DataError, match="leaves no part empty"):
        pinwheel().split(share)


def test_the_sources_of_a_part_are_those_of_its_images() -> None:
    data = nonlinear_ica(segments=4, points=50)
    trained, held_out = data.split(0.9)
    whole = {tuple(x): tuple(s) for x, s in zip(data.read(np.arange(len(data))).tolist(), data.sources, strict=True)}
    for part in (trained, held_out):
        found = part.read(np.arange(len(part))).tolist()
        assert [whole[tuple(x)] for x in found] == [tuple(s) for s in part.sources]
