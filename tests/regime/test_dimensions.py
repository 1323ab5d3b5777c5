import numpy as np
import pytest

from polarised.errors import ConfigError, DataError
from polarised.regime import Encodings, classify
from polarised.regime.dimensions import (
    fondue,
    fondue_by_types,
    intrinsic_dimension_mle,
    intrinsic_dimension_twonn,
    one_shot_count,
)

NEEDED = 5


def encode(latents, seed=0):
    """A model that uses five variables, whatever its size."""
    generator = np.random.default_rng(seed)
    variance = np.where(np.arange(latents) < NEEDED, 0.01, 1.0) * np.ones((1000, 1))
    means = generator.normal(size=(1000, latents)) * np.sqrt(np.maximum(1 - variance, 1e-4))
    return Encodings(means, variance=variance)


@pytest.mark.parametrize("estimate", [intrinsic_dimension_mle, intrinsic_dimension_twonn])
@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_the_dimension_of_a_curved_sheet_is_found(estimate, dimension):
    flat = np.random.default_rng(dimension).uniform(size=(2000, dimension))
    curved = np.column_stack([flat, np.sin(3 * flat), np.square(flat)])
    assert estimate(curved) == pytest.approx(dimension, rel=0.12)


def test_mle_is_the_published_formula():
    points = np.random.default_rng(0).normal(size=(40, 2))
    distances = np.sort(np.linalg.norm(points[:, None] - points, axis=-1), axis=1)[:, 1:5]
    local = 3 / np.log(distances[:, 3:] / distances[:, :3]).sum(axis=1)
    found = intrinsic_dimension_mle(points, neighbours=4, anchors=1.0, repeats=1)
    assert found == pytest.approx(local.mean(), rel=1e-12)


def test_twonn_is_the_published_formula():
    points = np.random.default_rng(0).normal(size=(50, 2))
    distances = np.sort(np.linalg.norm(points[:, None] - points, axis=-1), axis=1)
    ratios = np.sort(distances[:, 2] / distances[:, 1])[:45]
    empirical = np.arange(1, 46) / 50
    slope = np.linalg.lstsq(np.log(ratios)[:, None], -np.log(1 - empirical), rcond=None)[0][0]
    assert intrinsic_dimension_twonn(points) == pytest.approx(slope, rel=1e-12)


def test_duplicates_are_refused():
    points = np.repeat(np.random.default_rng(0).normal(size=(30, 2)), 2, axis=0)
    with pytest.raises(DataError, match="60 of 60 have a duplicate"):
        intrinsic_dimension_mle(points)


def test_images_are_accepted_as_points_and_invalid_points_are_refused():
    images = np.random.default_rng(0).uniform(size=(60, 1, 4, 4))
    assert intrinsic_dimension_twonn(images) > 3
    with pytest.raises(DataError, match="at least 22"):
        intrinsic_dimension_mle(images[:10])
    with pytest.raises(DataError, match="finite"):
        intrinsic_dimension_twonn(np.full((9, 2), np.nan))
    with pytest.raises(ConfigError, match="discard"):
        intrinsic_dimension_twonn(images, discard=1.0)


def test_one_shot_counts_what_is_alive():
    regimes = [classify(encode(12, seed)) for seed in range(3)]
    count = one_shot_count(regimes)
    assert (count.latents, count.each, count.passive) == (5, (5, 5, 5), (7, 7, 7))
    assert count.stable
    assert count.large_enough
    assert count.soft == pytest.approx([5 * 0.99] * 3)
    assert not one_shot_count([classify(encode(4))]).large_enough
    with pytest.raises(DataError, match="at least one run"):
        one_shot_count([])


@pytest.mark.parametrize("start", [1, 2, 3, 5, 6, 8, 11, 40])
def test_fondue_finds_the_size_from_any_start(start):
    assert fondue(encode, start=start, estimator="trace", threshold=0.5).latents == NEEDED


@pytest.mark.parametrize("estimator", ["mle", "twonn"])
def test_fondue_with_estimators_of_dimension(estimator):
    """They detect the first noise variable only partly, so one or two more may be kept."""
    assert NEEDED <= fondue(encode, start=4, estimator=estimator, threshold=1.0).latents <= NEEDED + 2


def test_fondue_visits_as_published():
    """The sequence of the fact sheet: 8, 4, (8), 6, 5, (6), each size trained once."""
    trained = []

    def counted(latents):
        trained.append(latents)
        return encode(latents)

    found = fondue(counted, start=8, estimator="trace", threshold=0.5)
    assert trained == [8, 4, 6, 5]
    assert [visit.latents for visit in found.visits] == trained
    assert found.visits[0].difference == pytest.approx(3.05, abs=0.2)


def test_the_trace_difference_is_the_mean_variance():
    visit = fondue(encode, start=8, estimator="trace", threshold=0.5).visits[0]
    assert visit.difference == pytest.approx(encode(8).variance.mean(axis=0).sum(), rel=0.05)


def test_fondue_reports_if_no_size_passes_or_none_fails():
    assert fondue(lambda p: encode(NEEDED + p), start=4, estimator="trace", threshold=0.5).latents == 0
    with pytest.raises(DataError, match="got none up to 4"):
        fondue(lambda p: encode(2), start=4, estimator="trace", largest=6)
    with pytest.raises(ConfigError, match="start"):
        fondue(encode, start=0)


def test_the_variant_by_types_doubles_until_some_are_passive():
    trained = []

    def regime(latents):
        trained.append(latents)
        return classify(encode(latents))

    assert fondue_by_types(regime, start=2).latents == NEEDED
    assert trained == [2, 4, 8]
    with pytest.raises(DataError, match="train longer"):
        fondue_by_types(lambda latents: classify(encode(2)), start=2, largest=4)


def test_points_with_equidistant_neighbours_are_refused():
    with pytest.raises(DataError, match="all 20 are equally far from 30 of the 30 points"):
        intrinsic_dimension_mle(np.eye(30))
