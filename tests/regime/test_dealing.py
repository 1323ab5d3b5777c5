import numpy as np
import pytest

from polarised.regime._moments import BLOCKS, blocked_moments, dealt


def table(rows: int, latents: int, dtype: type = np.float32) -> np.ndarray:
    generator = np.random.default_rng(rows + latents)
    mixed = generator.normal(size=(rows, latents)) @ generator.normal(size=(latents, latents))
    return (mixed + generator.normal(size=latents)).astype(dtype)


@pytest.mark.parametrize("rows", [1, 63, 64, 1_000, 60_003])
@pytest.mark.parametrize("latents", [1, 2, 8, 9, 10, 17, 40])
def test_moments_are_those_of_each_block_one_by_one(rows, latents):
    values = table(rows, latents)
    moments = blocked_moments(values, products=True)
    exact = values.astype(np.float64)
    for block in (0, 5, BLOCKS - 1):
        mine = exact[block::BLOCKS]
        assert moments.counts[block] == dealt(rows)[block] == len(mine)
        if len(mine):
            np.testing.assert_allclose(moments.means[block], mine.mean(0), rtol=1e-12, atol=1e-12)
            spread = np.square(mine - mine.mean(0)).sum(0)
            np.testing.assert_allclose(moments.squares[block], spread, rtol=1e-11, atol=1e-11)
    centred = exact - exact.mean(0)
    np.testing.assert_allclose(moments.products, centred.T @ centred, rtol=1e-11, atol=1e-11 * rows)


@pytest.mark.parametrize("scale", [1.0, 1e-12, 1e-30, 1e15])
def test_logarithms_of_products_are_those_of_single_numbers(scale):
    values = (scale * np.random.default_rng(0).uniform(0.01, 1.0, size=(70_000, 3))).astype(np.float32)
    moments = blocked_moments(values, logarithms=True)
    np.testing.assert_allclose(moments.logarithms[7], np.log(values[7::BLOCKS].astype(np.float64)).mean(0), rtol=1e-12)
    assert moments.lowest == values.min()


def test_the_logarithm_of_zero_is_minus_infinity_in_its_block_only():
    values = np.ones((5_000, 2))
    values[64 * 3 + 9, 1] = 0.0
    moments = blocked_moments(values, logarithms=True)
    assert moments.logarithms[9].tolist() == [0.0, -np.inf]
    assert np.isfinite(np.delete(moments.logarithms, 9, axis=0)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_constant_has_exactly_no_spread_whatever_stands_beside_it(dtype):
    values = table(10_000, 4, dtype)
    values[:, 2] = dtype(0.1)
    moments = blocked_moments(values, products=True)
    assert not moments.squares[:, 2].any()
    assert not moments.products[2].any()
    assert not moments.products[:, 2].any()


def test_digits_are_kept_though_the_first_rows_promise_an_easy_table():
    generator = np.random.default_rng(0)
    values = 1e3 + np.concatenate([100 * generator.normal(size=(1_100, 2)), 1e-3 * generator.normal(size=(90_000, 2))])
    moments = blocked_moments(values, products=True)
    centred = values - values.mean(0)
    np.testing.assert_allclose(moments.products, centred.T @ centred, rtol=1e-12)
    for before, after in zip(moments, blocked_moments(values, products=True, shifted=True), strict=True):
        np.testing.assert_array_equal(before, after)


def test_the_argument_is_left_alone():
    values = table(5_000, 3, np.float64)
    before = values.copy()
    blocked_moments(np.abs(values), logarithms=True, products=True)
    blocked_moments(values, products=True)
    np.testing.assert_array_equal(values, before)


@pytest.mark.parametrize("inputs", [1, 5, 64, 300])
def test_the_rows_of_an_input_go_to_one_block(inputs):
    values, repeats = np.exp(table(7 * inputs, 3)), 7
    moments = blocked_moments(values, logarithms=True, products=True, repeats=repeats)
    exact, owner = values.astype(np.float64), np.arange(7 * inputs) // repeats % BLOCKS
    assert moments.counts.tolist() == np.bincount(owner, minlength=BLOCKS).tolist()
    for block in {0, min(4, inputs - 1), owner[-1]}:
        mine = exact[owner == block]
        np.testing.assert_allclose(moments.means[block], mine.mean(0), rtol=1e-12)
        np.testing.assert_allclose(moments.squares[block], np.square(mine - mine.mean(0)).sum(0), rtol=1e-11)
        np.testing.assert_allclose(moments.logarithms[block], np.log(mine).mean(0), rtol=1e-11, atol=1e-12)
    whole = blocked_moments(values, logarithms=True, products=True)
    np.testing.assert_array_equal(moments.products, whole.products)
    assert moments.lowest == whole.lowest


def test_a_constant_of_many_positions_has_no_spread():
    assert not blocked_moments(np.full((400, 2), 0.1), repeats=4).squares.any()
