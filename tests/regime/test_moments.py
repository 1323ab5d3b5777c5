import numpy as np
import pytest

from polarised import Encodings, classify
from polarised.regime import Evidence
from polarised.regime._moments import (
    BLOCKS,
    LOG_RATIOS,
    blocked_moments,
    count_ratios,
    rows_per_block,
    share_below,
    two_states,
)


def table(rows: int, latents: int, dtype: type = np.float32) -> np.ndarray:
    generator = np.random.default_rng(rows + latents)
    mixed = generator.normal(size=(rows, latents)) @ generator.normal(size=(latents, latents))
    return (mixed + generator.normal(size=latents)).astype(dtype)


@pytest.mark.parametrize("rows", [1, 63, 64, 1_000, 60_003])
@pytest.mark.parametrize("latents", [1, 2, 8, 9, 10, 17, 40])
def test_moments_equal_those_of_each_block_computed_separately(rows, latents):
    values = table(rows, latents)
    moments = blocked_moments(values, products=True)
    exact = values.astype(np.float64)
    for block in (0, 5, BLOCKS - 1):
        mine = exact[block::BLOCKS]
        assert moments.counts[block] == rows_per_block(rows)[block] == len(mine)
        if len(mine):
            np.testing.assert_allclose(moments.means[block], mine.mean(0), rtol=1e-12, atol=1e-12)
            spread = np.square(mine - mine.mean(0)).sum(0)
            np.testing.assert_allclose(moments.squares[block], spread, rtol=1e-11, atol=1e-11)
    centred = exact - exact.mean(0)
    np.testing.assert_allclose(moments.products, centred.T @ centred, rtol=1e-11, atol=1e-11 * rows)


@pytest.mark.parametrize("scale", [1.0, 1e-12, 1e-30, 1e15])
def test_logarithms_of_products_equal_those_of_single_numbers(scale):
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
def test_a_constant_has_exactly_zero_variance_beside_any_column(dtype):
    values = table(10_000, 4, dtype)
    values[:, 2] = dtype(0.1)
    moments = blocked_moments(values, products=True)
    assert not moments.squares[:, 2].any()
    assert not moments.products[2].any()
    assert not moments.products[:, 2].any()


def test_precision_is_kept_if_only_later_rows_are_far_from_zero():
    generator = np.random.default_rng(0)
    values = 1e3 + np.concatenate([100 * generator.normal(size=(1_100, 2)), 1e-3 * generator.normal(size=(90_000, 2))])
    moments = blocked_moments(values, products=True)
    centred = values - values.mean(0)
    np.testing.assert_allclose(moments.products, centred.T @ centred, rtol=1e-12)
    for before, after in zip(moments, blocked_moments(values, products=True, shifted=True), strict=True):
        np.testing.assert_array_equal(before, after)


def test_the_argument_is_not_changed():
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


def test_a_constant_with_many_positions_has_zero_variance():
    assert not blocked_moments(np.full((400, 2), 0.1), repeats=4).squares.any()


N = 2000


def of(log_ratios):
    return two_states(count_ratios(np.exp(np.asarray(log_ratios))[:, None]))


def test_bins_are_fine_and_cover_the_range_of_variances():
    ratios = np.exp(np.random.default_rng(0).uniform(-15, 8, 5000))[:, None]
    counts = count_ratios(ratios)
    assert counts.sum() == 5000
    middle = np.repeat(np.exp(LOG_RATIOS), counts[:, 0])
    np.testing.assert_allclose(middle, np.sort(ratios[:, 0]), rtol=0.125)
    assert count_ratios(np.array([[0.0], [1e-30], [1e30]])).sum() == 3


@pytest.mark.parametrize("c", [0.3, 0.5, 0.9])
@pytest.mark.parametrize("spread", [0.3, 0.6])
def test_the_share_of_inputs_a_variable_is_on_for_is_found(c, spread):
    rng = np.random.default_rng(1)
    on = rng.random(N) >= c
    found = of(np.where(on, np.log(0.05) + spread * rng.normal(size=N), np.log(0.95) + 0.08 * rng.normal(size=N)))
    assert found.separation[0] >= 0.85
    assert found.on[0] == pytest.approx(on.mean(), abs=0.03)
    assert found.ratio_on[0] == pytest.approx(0.05, rel=0.15)
    assert found.ratio_off[0] == pytest.approx(0.95, rel=0.1)
    assert abs(found.on[0] - on.mean()) <= 3 * found.on_error[0]


def test_one_state_is_not_taken_for_two():
    rng = np.random.default_rng(2)
    assert of(rng.normal(size=N)).separation[0] == pytest.approx(2 / np.pi, abs=0.03)
    assert of(rng.uniform(-1, 1, size=N)).separation[0] == pytest.approx(0.75, abs=0.03)
    assert of(np.zeros(N)).separation[0] == 0.0
    # Values on both sides of an edge between bins are not two states.
    assert of(np.log(1 + 1e-3 * rng.normal(size=N))).separation[0] < 0.85


def test_counts_add_up_over_chunks_and_merges():
    rng = np.random.default_rng(3)
    mean, variance = rng.normal(size=(N, 3)), np.exp(rng.normal(size=(N, 3)))
    whole, parts, other = Evidence(), Evidence(), Evidence()
    whole.update(mean, variance=variance)
    for start in range(0, 1200, 300):
        parts.update(mean[start : start + 300], variance=variance[start : start + 300])
    other.update(mean[1200:], variance=variance[1200:])
    parts.merge(other)
    np.testing.assert_array_equal(parts.two_states().on, whole.two_states().on)
    np.testing.assert_allclose(whole.share_below(0.5), (variance < 0.5).mean(axis=0), atol=1e-9)


def test_many_inputs_are_counted_by_a_part_of_them():
    rng = np.random.default_rng(4)
    variance = np.exp(rng.normal(size=(100_000, 1)))
    evidence = Evidence()
    evidence.update(np.zeros_like(variance), variance=variance)
    assert evidence.share_below(0.5)[0] == pytest.approx((variance < 0.5).mean(), abs=0.01)
    assert share_below(count_ratios(variance), 0.5)[0] == pytest.approx((variance < 0.5).mean(), abs=1e-9)


def test_rescaling_code_and_prior_changes_no_type_and_no_reason():
    rng = np.random.default_rng(5)
    on = np.arange(N) % 2 == 0
    mean = np.column_stack([rng.normal(size=N), 0.01 * rng.normal(size=N), np.where(on, rng.normal(size=N), 0.0)])
    variance = np.column_stack([np.full(N, 0.01), np.full(N, 0.98), np.where(on, 0.03, 0.97)])
    unit = np.array([0.125, 16.0, 0.5])
    plain = classify(Encodings(mean, variance=variance))
    scaled = classify(Encodings(mean * unit, variance=variance * unit**2, prior_variance=unit**2))
    assert plain.types == scaled.types == ("active", "passive", "mixed")
    assert plain.why == scaled.why
    assert plain.why[2] == "mixed: on for 50 ± 1 % of the inputs"


def test_a_variable_is_compared_with_the_rest_of_the_objective(tmp_path):
    rng = np.random.default_rng(6)
    dead = 1 / 21
    mean = np.column_stack([rng.normal(size=N), 0.1 * rng.normal(size=N)])
    variance = np.column_stack([np.full(N, 0.002), np.full(N, dead)])
    encodings = Encodings(mean, variance=variance, rest_ratio=dead)
    regime = classify(encodings)
    assert regime.types == ("active", "passive")
    assert regime.doubtful == [1]
    assert regime.why[1].startswith("passive: rests at this objective's own variance 0.048; doubtful")
    assert regime.droppable == []
    again = Encodings.load(encodings.save(tmp_path / "codes.npz"))
    np.testing.assert_array_equal(again.rest_ratio, encodings.rest_ratio)
    assert classify(again.keep([1])).types == ("passive",)
    # If the rest is unknown, its noise share of 83% makes it look used.
    unknown = classify(Encodings(mean, variance=variance))
    assert unknown.types == ("active", "active")
    nowhere = classify(Encodings(mean, variance=variance, rest_ratio=np.nan))
    assert nowhere.doubtful == [1]


def test_variables_that_share_one_variance_are_doubtful_if_the_objective_is_unknown():
    rng = np.random.default_rng(7)
    mean = rng.normal(size=(N, 4)) * [1.0, 1.0, 0.1, 0.1]
    variance = np.broadcast_to([0.002, 0.004, 0.048, 0.05], (N, 4))
    assert classify(Encodings(mean, variance=variance)).doubtful == [2, 3]


def test_few_inputs_are_never_certain():
    rng = np.random.default_rng(8)
    regime = classify(Encodings(rng.normal(size=(5, 2)), variance=np.full((5, 2), 0.01)))
    assert regime.confidence.max() <= 6 / 7
    assert regime.fragile == [0, 1]
