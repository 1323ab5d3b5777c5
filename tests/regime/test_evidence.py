import pickle

import numpy as np
import pytest

from polarised import Encodings, Evidence, classify
from polarised.errors import DataError

ROWS, LATENTS = 30_000, 10


def codes(dtype: type = np.float32) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    mean = generator.normal(size=(ROWS, LATENTS)) @ generator.normal(size=(LATENTS, LATENTS))
    mean[:, 3] = 0.1
    mean[:, 5] += 40.0
    variance = generator.uniform(0.01, 1.0, LATENTS) * generator.uniform(0.9, 1.1, size=(ROWS, LATENTS))
    return mean.astype(dtype), variance.astype(dtype)


def seen(mean: np.ndarray, variance: np.ndarray, chunk: int, **prior: float) -> Evidence:
    evidence = Evidence(covariance=True)
    for start in range(0, len(mean), chunk):
        evidence.update(mean[start : start + chunk], variance=variance[start : start + chunk], **prior)
    return evidence


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("chunk", [7, 4_321, ROWS])
def test_the_covariance_is_that_of_all_rows_at_once(chunk, dtype):
    mean, variance = (array[: 700 if chunk == 7 else ROWS] for array in codes(dtype))
    exact = np.cov(mean.T.astype(np.float64))
    exact[3], exact[:, 3] = 0.0, 0.0
    found = seen(mean, variance, chunk).covariance
    np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-12 * exact.max())
    assert not found[3].any()
    np.testing.assert_array_equal(found, found.T)


def test_statistics_of_single_precision_are_the_same_in_any_chunks():
    mean, variance = codes()
    whole, parts = seen(mean, variance, ROWS).statistics(), seen(mean, variance, 4_321).statistics()
    for name in ("ratio_mean", "ratio_variance", "shift", "log_ratio", "variance_variance", "mean_variance"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-12, atol=1e-12)
    exact = variance.astype(np.float64)
    np.testing.assert_allclose(whole.ratio_variance, exact.var(0), rtol=1e-12)
    np.testing.assert_allclose(whole.log_ratio, np.log(exact).mean(0), rtol=1e-12)


def test_covariance_can_be_merged_and_pickled():
    mean, variance = codes()
    shards = [seen(mean[part], variance[part], 5_000) for part in (slice(0, 11), slice(11, 9_000), slice(9_000, ROWS))]
    merged = Evidence(covariance=True)
    for shard in (shards[2], shards[0], shards[1]):
        merged.merge(pickle.loads(pickle.dumps(shard)))
    exact = seen(mean, variance, ROWS).covariance
    np.testing.assert_allclose(merged.covariance, exact, rtol=1e-12, atol=1e-12 * exact.max())
    plain = Evidence()
    plain.update(mean, variance=variance)
    with pytest.raises(DataError, match="covariance=True"):
        merged.merge(plain)
    with pytest.raises(DataError, match="covariance=True"):
        _ = plain.covariance


def test_a_prior_of_each_input_does_not_change_the_covariance():
    mean, variance = codes(np.float64)
    evidence = Evidence(covariance=True)
    prior = np.random.default_rng(1).uniform(0.5, 2.0, size=mean.shape)
    for part in (slice(0, 10_000), slice(10_000, ROWS)):
        evidence.update(mean[part], variance=variance[part], prior_mean=prior[part], prior_variance=prior[part])
    exact = seen(mean, variance, ROWS).covariance
    np.testing.assert_allclose(evidence.covariance, exact, rtol=1e-12, atol=1e-12 * exact.max())


@pytest.mark.parametrize("which", ["mean", "variance"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_invalid_number_is_located_and_changes_nothing(which, value):
    arrays = dict(zip(("mean", "variance"), codes(), strict=True))
    arrays[which][123, 4] = value
    evidence = seen(*codes(), 10_000)
    before = evidence.covariance
    with pytest.raises(DataError, match=rf"{which}.*first at \(123, 4\)"):
        evidence.update(arrays["mean"], variance=arrays["variance"])
    assert evidence.rows == ROWS
    np.testing.assert_array_equal(evidence.covariance, before)


def test_two_negative_variances_are_refused_although_their_product_is_positive():
    mean, variance = codes()
    variance[[64, 128], 2] *= -1
    with pytest.raises(DataError, match="2 negative entries"):
        Evidence().update(mean, variance=variance)


def convolutional(images: int, side: int = 6) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(2)
    own = generator.uniform(0.3, 1.5, size=(images, 3, 1, 1))
    return generator.normal(size=(images, 3, side, side)) + own, own * generator.uniform(
        0.9, 1.1, size=(images, 3, side, side)
    )


def test_positions_of_an_image_do_not_raise_the_certainty():
    variance = np.array([0.61, 1.3, 0.7, 1.25])[:, None]
    plain = classify(Encodings(np.zeros((4, 1)), variance=variance), rule="relative")
    pictures = np.broadcast_to(variance[..., None, None], (4, 1, 32, 32))
    spread = classify(Encodings(np.zeros((4, 1, 32, 32)), variance=pictures, axis=1), rule="relative")
    assert (spread.types, spread.rows, spread.inputs) == (plain.types, 4 * 32 * 32, 4)
    assert spread.confidence.tolist() == plain.confidence.tolist()
    assert plain.confidence[0] < 0.5
    np.testing.assert_allclose(spread.distance_errors, plain.distance_errors, rtol=1e-9)


@pytest.mark.parametrize("prior", ["fixed", "of each"])
def test_images_are_assigned_to_blocks_as_a_whole_for_any_chunks(prior):
    mean, variance = convolutional(70)
    given = {} if prior == "fixed" else {"prior_mean": 0.1, "prior_variance": 1.1}
    rows = 70 * 36
    tables = Encodings(mean, variance=variance, axis=1)
    if prior == "of each":
        given = {name: np.full((rows, 3), value) for name, value in given.items()}
    whole = classify(Encodings(mean, variance=variance, axis=1, **given))
    found = []
    for chunk in (1, 13, 70):
        evidence, direct = Evidence(covariance=True), Evidence(covariance=True)
        for start in range(0, 70, chunk):
            part, flat = slice(start, start + chunk), slice(36 * start, 36 * (start + chunk))
            those = {name: value[flat] for name, value in given.items()}
            evidence.update(tables.mean[flat], variance=tables.variance[flat], repeats=36, **those)
            other = Evidence(covariance=True)
            other.update(mean[part], variance=variance[part], axis=1, **those)
            direct.merge(other)
        found += [evidence, direct]
    for evidence in found:
        assert (evidence.rows, evidence.inputs) == (rows, 70)
        np.testing.assert_allclose(evidence.covariance, np.cov(tables.mean.T), rtol=1e-12, atol=1e-12)
        regime = evidence.classify()
        for name in ("distance", "distance_errors", "confidence"):
            np.testing.assert_allclose(getattr(regime, name), getattr(whole, name), rtol=1e-6, atol=1e-12)
    rowwise = classify(Encodings(tables.mean, variance=tables.variance, **given))
    for name in ("ratio_mean", "ratio_variance", "shift", "log_ratio", "mean_variance"):
        np.testing.assert_allclose(getattr(whole.statistics, name), getattr(rowwise.statistics, name), rtol=1e-9)
    assert (np.abs(whole.distance_errors) < np.abs(rowwise.distance_errors)).all()


def test_the_certainty_of_one_image_is_unknown():
    mean, variance = convolutional(1)
    regime = classify(Encodings(mean, variance=variance, axis=1))
    assert np.isnan(regime.confidence).all()
    assert np.isnan(regime.distance_errors).all()
    assert regime.fragile == [0, 1, 2]
    assert regime.droppable == []


def test_the_kl_of_the_model_s_own_prior_is_averaged():
    mean, variance = (array[:300] for array in codes(np.float64))
    evidence, other = Evidence(), Evidence()
    evidence.update(mean[:100], variance=variance[:100], kl=np.full(LATENTS, 3.0))
    other.update(mean[100:], variance=variance[100:], kl=np.zeros(LATENTS))
    np.testing.assert_allclose(evidence.merge(other).statistics().kl, 1.0)
    plain = seen(mean, variance, 300)
    assert evidence.classify().types == plain.classify().types
    with pytest.raises(DataError, match="kl of every part"):
        evidence.merge(plain)
    with pytest.raises(DataError, match=r"kl as \(10,\)"):
        evidence.update(mean, variance=variance, kl=[1.0])
