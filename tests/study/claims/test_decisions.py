"""The statistics of verdicts: how often each kind of test confirms what is not so, and what it needs to decide."""

import numpy as np
import pytest
from scipy.stats import norm

from polarised.errors import DataError
from polarised.study.claims.decisions import (
    Decision,
    Region,
    above,
    below,
    between,
    clopper_pearson,
    decidable_effect,
    decide,
    decide_share,
    every,
    holm,
    within,
)

DRAWS = 1000
# The 99.9 % point of 1,000 draws of which one in twenty confirms by chance.
ALLOWED = 73


def confirmed(values: np.ndarray, region: Region, kind: str) -> int:
    return sum(decide(own, region, kind=kind).word == "confirmed" for own in values)  # type: ignore[arg-type]


@pytest.mark.parametrize("seeds", [6, 8, 20])
@pytest.mark.parametrize(
    ("region", "truth"),
    [(above(1.0), 1.0), (below(1.0), 1.0), (within(1.0), 1.0), (within(1.0), -1.0), (between(1.0, 4.0), 1.0)],
)
def test_a_mean_at_the_margin_is_confirmed_at_most_one_time_in_twenty(seeds: int, region: Region, truth: float) -> None:
    values = np.random.default_rng(seeds).normal(truth, 0.3, (DRAWS, seeds))
    assert confirmed(values, region, "mean") <= ALLOWED


@pytest.mark.parametrize(("seeds", "draw"), [(6, "normal"), (12, "steps"), (9, "lognormal")])
def test_a_median_at_the_margin_is_confirmed_at_most_one_time_in_twenty(seeds: int, draw: str) -> None:
    generator = np.random.default_rng(seeds)
    values = {
        "normal": generator.normal(0, 1, (DRAWS, seeds)),
        "lognormal": generator.lognormal(0, 1, (DRAWS, seeds)) - 1,
        "steps": generator.integers(-2, 3, (DRAWS, seeds)).astype(float),
    }[draw]
    assert confirmed(values, above(0.0), "median") <= ALLOWED


@pytest.mark.parametrize("strengths", [3, 5, 6])
@pytest.mark.parametrize("seeds", [6, 10, 50])
def test_rank_correlations_of_unrelated_numbers_are_rarely_confirmed(strengths: int, seeds: int) -> None:
    from scipy.stats import rankdata

    generator = np.random.default_rng(strengths)
    ranks = rankdata(generator.normal(size=(DRAWS, seeds, strengths)), axis=-1)
    centred = ranks - ranks.mean(axis=-1, keepdims=True)
    line = np.arange(strengths) - (strengths - 1) / 2
    correlations = centred @ line / (line @ line)
    assert confirmed(correlations, above(0.0), "sign") <= ALLOWED
    assert confirmed(correlations, below(0.0), "sign") <= ALLOWED


@pytest.mark.parametrize(("seeds", "share"), [(6, 0.5), (10, 0.5), (50, 0.5), (20, 0.9)])
def test_a_share_at_the_margin_is_confirmed_at_most_one_time_in_twenty(seeds: int, share: float) -> None:
    successes = np.random.default_rng(seeds).binomial(seeds, share, DRAWS)
    words = [decide_share(int(count), seeds, above(share)).word for count in successes]
    assert words.count("confirmed") <= ALLOWED
    words = [decide_share(int(count), seeds, below(share)).word for count in successes]
    assert words.count("confirmed") <= ALLOWED


def test_the_worst_of_six_strengths_is_confirmed_and_refuted_rarely_by_chance() -> None:
    """Five strengths hold by far and one sits at the margin; or all sit well inside, and none is to be refuted."""
    generator = np.random.default_rng(0)
    words = []
    for _ in range(DRAWS):
        looks = [decide(generator.normal(mean, 0.3, 8), above(0.0), looks=6) for mean in (9, 9, 9, 9, 9, 0)]
        words.append(every(looks)[0])
    assert words.count("confirmed") <= ALLOWED
    words = []
    for _ in range(DRAWS):
        looks = [decide(generator.normal(0, 0.3, 8), above(0.0), looks=6) for _ in range(6)]
        words.append(every(looks)[0])
    assert words.count("refuted") <= ALLOWED


@pytest.mark.parametrize("kind", ["mean", "median", "sign"])
def test_clear_effects_are_decided_either_way(kind: str) -> None:
    values = np.random.default_rng(1).normal(1.0, 0.1, 10)
    assert decide(values, above(0.0), kind=kind).word == "confirmed"  # type: ignore[arg-type]
    assert decide(values, below(0.0), kind=kind).word == "refuted"  # type: ignore[arg-type]
    assert decide(values, within(0.5), kind=kind).word == "refuted"  # type: ignore[arg-type]
    assert decide(values, within(2.0), kind=kind).word == "confirmed"  # type: ignore[arg-type]
    assert decide(values, between(0.5, 2.0), kind=kind).word == "confirmed"  # type: ignore[arg-type]


def test_effects_of_either_sign_do_not_cancel() -> None:
    values = np.array([2.5, -2.5] * 25) + np.random.default_rng(0).normal(0, 0.1, 50)
    assert abs(values.mean()) < 0.1
    found = decide(values, within(1.0))
    assert found.word == "refuted"
    assert found.estimate == pytest.approx(2.5, abs=0.1)


@pytest.mark.parametrize("kind", ["mean", "median", "sign"])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 6, 50])
def test_no_interval_of_equal_values_is_without_width(kind: str, count: int) -> None:
    found = decide([0.7] * count, above(0.5), kind=kind)  # type: ignore[arg-type]
    assert found.width > 0
    assert found.word == ("confirmed" if count >= 6 else "undecided")
    assert (found.low, found.high) == clopper_pearson(count, count)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_fewer_than_six_seeds_decide_nothing(count: int) -> None:
    values = 5 + np.random.default_rng(0).normal(0, 1e-3, count)
    assert decide(values, above(0.0)).word == "undecided"
    assert decide(values, below(0.0)).word == "undecided"
    assert decide_share(count, count, above(0.5)).word == "undecided"


def test_values_that_are_not_finite_are_left_out_and_none_at_all_is_an_error() -> None:
    assert decide([1.0, np.nan, 2.0], above(0)).seeds == 2
    with pytest.raises(DataError, match="at least one finite effect"):
        decide([np.nan], above(0))


def test_student_is_the_textbook_interval() -> None:
    found = decide([1.0, 2.0, 3.0], above(0.0))
    assert (found.low, found.high) == pytest.approx((-0.4841, 4.4841), abs=1e-4)


def test_the_decidable_effect_is_decided_in_four_of_five_studies() -> None:
    generator = np.random.default_rng(0)
    effect = decidable_effect(12)
    assert effect is not None
    words = [decide(generator.normal(effect, 1.0, 12), above(0.0)).word for _ in range(DRAWS)]
    assert words.count("confirmed") == pytest.approx(800, abs=45)
    share = decidable_effect(20, kind="share")
    assert share is not None
    successes = generator.binomial(20, share, DRAWS)
    words = [decide_share(int(count), 20, above(0.5)).word for count in successes]
    assert words.count("confirmed") == pytest.approx(800, abs=45)
    # The sheet's own example: a gain of half a standard deviation needs 34 seeds.
    assert decidable_effect(34) == pytest.approx(0.5, abs=0.01)


def test_holm_is_bonferroni_for_the_smallest_and_stops_at_the_first_that_falls() -> None:
    assert holm([0.0124, 0.2], level=0.025) == [True, False]
    assert holm([0.0126, 0.0126], level=0.025) == [False, False]
    assert holm([]) == []


def test_all_are_needed_and_one_refuted_is_enough() -> None:
    sure, open_, not_so = (
        decide(np.full(8, centre) + np.linspace(-spread, spread, 8), above(0.0))
        for centre, spread in ((1.0, 0.2), (0.1, 1.0), (-1.0, 0.2))
    )
    assert [d.word for d in (sure, open_, not_so)] == ["confirmed", "undecided", "refuted"]
    assert every([sure, sure]) == ("confirmed", 1)
    assert every([sure, open_]) == ("undecided", 1)
    assert every([not_so, sure, open_]) == ("refuted", 0)


def test_p_values_of_a_mean_are_student_s() -> None:
    values = norm.ppf((np.arange(30) + 0.5) / 30)
    found = decide(values, above(0.0))
    assert isinstance(found, Decision)
    assert found.p_confirmed == pytest.approx(0.5, abs=1e-9)
    assert found.p_refuted == pytest.approx(0.5, abs=1e-9)
