import numpy as np
import pytest

from polarised import Encodings, Evidence, classify
from polarised.errors import ConfigError, DataError

N = 10_000


def draw(seed, kind, prior_variance=1.0):
    """Mean and variance of one variable of a known type, under N(0, prior_variance)."""
    generator = np.random.default_rng(seed)
    if kind == "active":
        variance = prior_variance * generator.uniform(0.005, 0.03, N)
        mean = np.sqrt(prior_variance - variance) * generator.standard_normal(N)
    elif kind == "passive":
        variance = prior_variance * generator.uniform(0.97, 1.0, N)
        mean = 0.05 * np.sqrt(prior_variance) * generator.standard_normal(N)
    else:
        on = generator.random(N) < 0.5
        variance = prior_variance * np.where(on, 0.02, 0.99)
        mean = np.sqrt(prior_variance) * np.where(on, generator.standard_normal(N), 0.02)
    return mean, variance


def encodings_of(*columns, **prior):
    means, variances = zip(*columns, strict=True)
    return Encodings(np.stack(means, 1), variance=np.stack(variances, 1), **prior)


KINDS = ("active", "passive", "mixed")


@pytest.mark.parametrize("prior_variance", [1.0, 0.003, 20.0])
def test_the_relative_rule_finds_the_type_at_any_scale(prior_variance):
    columns = [draw(i, kind, prior_variance) for i, kind in enumerate(KINDS)]
    assert classify(encodings_of(*columns, prior_variance=prior_variance)).types == KINDS


def test_the_standard_rule_fails_for_a_small_prior_variance():
    columns = [draw(i, kind, 0.003) for i, kind in enumerate(KINDS)]
    regime = classify(encodings_of(*columns, prior_variance=0.003), rule="standard")
    assert regime.types == ("active", "active", "active")


def test_rescaling_a_variable_with_its_prior_changes_nothing_but_its_scale():
    columns = [draw(i, kind) for i, kind in enumerate(KINDS)]
    plain = classify(encodings_of(*columns))
    scale = np.array([0.1, 3.0, 7.0])
    scaled = encodings_of(
        *[(m * s, v * s**2) for (m, v), s in zip(columns, scale, strict=True)], prior_variance=scale**2
    )
    other = classify(scaled)
    assert other.types == plain.types
    for name in ("ratio_mean", "ratio_variance", "shift", "kl", "polarity", "noise_share"):
        np.testing.assert_allclose(getattr(other.statistics, name), getattr(plain.statistics, name), rtol=1e-9)


def test_statistics_are_what_their_names_say():
    encodings = encodings_of(*[draw(i, kind) for i, kind in enumerate(KINDS)], prior_mean=0.3, prior_variance=2.0)
    ratio = encodings.variance / 2.0
    shift = (encodings.mean - 0.3) ** 2 / 2.0
    statistics = classify(encodings).statistics
    np.testing.assert_allclose(statistics.ratio_mean, ratio.mean(0), rtol=1e-12)
    np.testing.assert_allclose(statistics.ratio_variance, ratio.var(0), rtol=1e-10)
    np.testing.assert_allclose(statistics.shift, shift.mean(0), rtol=1e-12)
    np.testing.assert_allclose(statistics.kl, 0.5 * (ratio + shift - 1 - np.log(ratio)).mean(0), rtol=1e-10)
    share = encodings.variance.mean(0) / (encodings.variance.mean(0) + encodings.mean.var(0))
    np.testing.assert_allclose(statistics.noise_share, share, rtol=1e-10)


def test_the_kl_column_is_that_of_torch():
    import torch
    from torch.distributions import Normal, kl_divergence

    encodings = encodings_of(*[draw(i, kind) for i, kind in enumerate(KINDS)], prior_mean=0.3, prior_variance=2.0)
    posterior = Normal(torch.tensor(encodings.mean), torch.tensor(encodings.variance).sqrt())
    expected = kl_divergence(
        posterior, Normal(torch.tensor(0.3, dtype=torch.float64), torch.tensor(2.0, dtype=torch.float64).sqrt())
    ).mean(0)
    np.testing.assert_allclose(classify(encodings).table()["kl"].to_numpy(), expected.numpy(), rtol=1e-10)


@pytest.mark.parametrize("chunks", [[N], [1] * 200 + [N - 200], [3, 4096, 63, N - 3 - 4096 - 63], [N // 2, N // 2]])
def test_chunks_give_the_result_of_all_rows_at_once(chunks):
    encodings = encodings_of(*[draw(i, kind) for i, kind in enumerate(KINDS)])
    whole = classify(encodings)
    evidence, start = Evidence(), 0
    for rows in chunks:
        part = slice(start, start + rows)
        evidence.update(encodings.mean[part], variance=encodings.variance[part])
        start += rows
    regime = evidence.classify()
    assert regime.rows == N
    for name in ("ratio_mean", "ratio_variance", "shift", "kl", "noise_share", "mean_variance"):
        np.testing.assert_allclose(
            getattr(regime.statistics, name), getattr(whole.statistics, name), rtol=1e-12, atol=1e-12
        )
    np.testing.assert_allclose(regime.confidence, whole.confidence)


def test_merging_shards_in_any_order_gives_the_same_result():
    encodings = encodings_of(*[draw(i, kind) for i, kind in enumerate(KINDS)])
    shards = []
    for part in (slice(0, 17), slice(17, 5000), slice(5000, N)):
        shard = Evidence()
        shard.update(encodings.mean[part], variance=encodings.variance[part])
        shards.append(shard)
    merged = Evidence().merge(shards[2]).merge(shards[0]).merge(Evidence()).merge(shards[1])
    whole = classify(encodings).statistics
    assert merged.rows == N
    for name in ("ratio_mean", "ratio_variance", "shift", "kl", "mean_mean", "mean_variance"):
        np.testing.assert_allclose(getattr(merged.statistics(), name), getattr(whole, name), rtol=1e-12, atol=1e-12)


def test_a_mean_far_from_zero_keeps_the_precision():
    generator = np.random.default_rng(0)
    mean = 1e6 + 1e-2 * generator.standard_normal((N, 1))
    statistics = classify(Encodings(mean, variance=np.ones((N, 1)))).statistics
    np.testing.assert_allclose(statistics.mean_variance, mean.var(0), rtol=1e-6)


def test_an_unused_variable_under_a_variance_penalty_is_passive_here_and_active_by_the_standard_rule():
    generator = np.random.default_rng(0)
    mean = 0.01 * generator.standard_normal((N, 1))
    encodings = Encodings(mean, variance=np.full((N, 1), 1 / 21))
    regime = classify(encodings)
    assert regime.types == ("passive",)
    assert regime.uninformative == [0]
    assert classify(encodings, rule="standard").types == ("active",)


def test_a_variable_that_follows_a_learned_prior_mean_is_flagged():
    generator = np.random.default_rng(0)
    prior_mean = 2 * generator.standard_normal((N, 1))
    regime = classify(
        Encodings(
            prior_mean, variance=np.full((N, 1), 0.01), prior_mean=prior_mean, prior_variance=np.full((N, 1), 0.01)
        )
    )
    assert regime.types == ("passive",)
    assert regime.prior_driven == [0]
    assert regime.learned_prior_mean


def test_no_variable_is_prior_driven_under_a_constant_prior():
    mean = np.random.default_rng(0).integers(-5, 6, size=(N, 1)).astype(float)
    for prior_mean in (0.0, np.zeros((N, 1))):
        assert classify(Encodings(mean, variance=np.ones((N, 1)), prior_mean=prior_mean)).prior_driven == []


def test_a_mean_off_the_prior_is_not_passive_unless_the_shift_is_ignored():
    encodings = Encodings(np.full((N, 1), 0.8), variance=np.ones((N, 1)))
    assert classify(encodings, rule="relative").types == ("mixed",)
    assert classify(encodings, rule="relative", use_shift=False).types == ("passive",)
    # It distinguishes no inputs, so by the default rule it is not used.
    assert classify(encodings).why == ("passive: 100 % noise",)


def test_degenerate_variables_have_defined_results():
    constant = classify(Encodings(np.zeros((5, 1)), variance=np.zeros((5, 1))))
    assert constant.types == ("passive",)
    sharp = classify(Encodings(np.arange(5.0)[:, None], variance=np.zeros((5, 1))))
    assert sharp.types == ("active",)
    assert np.isposinf(sharp.statistics.kl).all()


def test_confidence_and_distance_separate_fragile_from_certain_types():
    generator = np.random.default_rng(0)
    variance = np.stack([generator.uniform(0.0, 0.2, 2000), generator.uniform(0.01, 0.03, 2000)], 1)
    regime = classify(Encodings(generator.standard_normal((2000, 2)), variance=variance), rule="relative")
    assert 0.3 < regime.confidence[0] < 0.9
    assert regime.confidence[1] == 2001 / 2002
    assert regime.distance_errors[0] < 2
    assert regime.distance_errors[1] > 50
    np.testing.assert_allclose(regime.distance[0], abs(0.1 - variance[:, 0].mean()), atol=1e-12)


def test_another_alpha_uses_the_same_evidence():
    regime = classify(Encodings(np.random.default_rng(0).standard_normal((500, 1)), variance=np.full((500, 1), 0.15)))
    assert regime.types == ("mixed",)
    assert regime.at(0.2).types == ("active",)
    assert regime.at(0.2, rule="standard").rule == "standard"


def test_the_table_has_one_complete_row_per_variable():
    table = classify(encodings_of(*[draw(i, kind) for i, kind in enumerate(KINDS)])).table()
    assert table["type"].to_list() == list(KINDS)
    assert table.null_count().sum_horizontal().item() == 0


def test_wrong_use_is_refused():
    encodings = encodings_of(draw(0, "active"))
    with pytest.raises(ConfigError, match=r"alpha between 0 and 0\.5"):
        classify(encodings, alpha=0.0)
    with pytest.raises(ConfigError, match="'relative' or 'standard'"):
        classify(encodings, rule="loose")
    with pytest.raises(DataError, match="at least two inputs"):
        Evidence().classify()
    evidence = Evidence()
    evidence.update([[0.0, 1.0]], variance=[[1.0, 1.0]])
    with pytest.raises(DataError, match="expected 2 latent variables"):
        evidence.update([[0.0]], variance=[[1.0]])


def test_plain_arrays_are_refused_with_a_hint():
    with pytest.raises(DataError, match=r"expected Encodings, got ndarray; create them .* Encodings\(mean, variance"):
        classify(np.zeros((5, 2)))
