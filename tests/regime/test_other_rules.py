import numpy as np
import pytest

from polarised.errors import ConfigError
from polarised.regime import Encodings, classify
from polarised.regime.classify import counts_by_rule, other_rules, sensitivity, stable_range

N = 4000
GENERATOR = np.random.default_rng(0)
Z = GENERATOR.normal(size=N) / 1.0


def exact(deviation):
    """A column with exactly this standard deviation (n - 1)."""
    return (Z - Z.mean()) / Z.std(ddof=1) * deviation


def column(deviation, variance):
    return exact(deviation), np.full(N, variance)


def of(*columns, **prior):
    means, variances = zip(*columns, strict=True)
    return Encodings(np.stack(means, 1), variance=np.stack(variances, 1), **prior)


@pytest.mark.parametrize(
    ("rule", "just_below", "just_above"),
    [
        ("active_unit", column(0.0999, 1.0), column(0.1001, 1.0)),
        ("factor_vae", column(0.0499, 1.0), column(0.0501, 1.0)),
        # With variance 1 the KL is half the mean square.
        ("kl", column(np.sqrt(0.0199), 1.0), column(np.sqrt(0.0201), 1.0)),
        ("not_vanished", column(0.0999 / np.abs(exact(1)).max(), 1.0), column(0.1001 / np.abs(exact(1)).max(), 1.0)),
    ],
)
def test_every_rule_has_its_own_threshold(rule, just_below, just_above):
    encodings = of(just_below, just_above)
    largest = np.abs(encodings.mean).max(axis=0)
    assert other_rules(classify(encodings), largest_mean=largest)[rule].to_list() == [False, True]


def test_papers_count_differently():
    encodings = of(column(1.0, 0.01), column(0.15, 0.98), column(0.001, 0.048), column(0.0, 1.0))
    regime = classify(encodings)
    counts = counts_by_rule(regime, encodings)
    assert regime.types == ("active", "passive", "passive", "passive")
    assert counts == {
        "used": 1,
        "relative": 1,
        "standard": 2,
        "active_unit": 2,
        "kl": 3,
        "factor_vae": 2,
        "not_vanished": 2,
    }
    # The same for any initial rule.
    assert counts_by_rule(classify(encodings, rule="standard"), encodings) == counts


def test_an_unused_variable_under_a_variance_penalty_is_not_called_active():
    """The optimum of an unused variable under RTC-VAE is 1/(1 + 2 eta): 0.048 at eta 10, without information."""
    dead = 1 / (1 + 2 * 10)
    encodings = of(column(1.0, 0.01), column(0.001, dead))
    relative, standard = classify(encodings), classify(encodings, rule="standard")
    assert standard.types == ("active", "active")
    assert relative.types == ("active", "passive")
    assert relative.uninformative == [1]
    assert standard.uninformative == [1]


def test_without_the_largest_mean_the_last_rule_is_left_out():
    assert "not_vanished" not in other_rules(classify(of(column(1.0, 0.1)))).columns


def test_types_over_a_grid_of_alpha():
    regime = classify(of(column(1.0, 0.04), column(0.3, 0.8), column(0.0, 1.0)), rule="relative")
    frame = sensitivity(regime, alphas=(0.02, 0.1, 0.3))
    assert frame["alpha 0.02"].to_list() == ["mixed", "mixed", "passive"]
    assert frame["alpha 0.1"].to_list() == list(regime.types)
    assert frame["alpha 0.3"].to_list() == ["active", "passive", "passive"]
    assert stable_range(regime, alphas=(0.02, 0.05, 0.1, 0.15, 0.3)) == [(0.05, 0.3), (0.02, 0.15), (0.02, 0.3)]
    with pytest.raises(ConfigError, match="at least one alpha"):
        sensitivity(regime, alphas=())
