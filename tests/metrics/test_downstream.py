import numpy as np
import pytest

from polarised import metrics
from polarised.errors import ConfigError, DataError


def coded(rows: int = 600) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    z = generator.normal(size=(rows, 3))
    return z, np.column_stack([z[:, 0] > 0, np.digitize(z[:, 1], [-0.5, 0.5])]).astype(int)


def test_table_by_subset() -> None:
    z, factors = coded()
    table = metrics.accuracy_by_subset(
        z, factors, {"full": [0, 1, 2], "active": [0, 1], "passive": [2], "mixed": []}, factor_names=["a", "b"]
    )
    assert table.columns == ["variables", "factor", "accuracy", "train_accuracy"]
    found = {(row["variables"], row["factor"]): row["accuracy"] for row in table.iter_rows(named=True)}
    assert set(found) == {(v, f) for v in ("full", "active", "passive", "random") for f in ("mean", "min", "a", "b")}
    assert found["active", "a"] > 0.95
    assert found["passive", "mean"] < 0.65
    assert found["full", "min"] == min(found["full", "a"], found["full", "b"])
    assert found["random", "mean"] == pytest.approx((1 / 2 + 1 / 3) / 2, abs=0.08)
    with pytest.raises(DataError, match="factor_names"):
        metrics.accuracy_by_subset(z, factors, {"full": [0]}, factor_names=["a"])


def test_protocols_and_trees() -> None:
    z, factors = coded()
    reference = metrics.logistic_regression(z, factors)
    modern = metrics.logistic_regression(z, factors, protocol="modern")
    trees = metrics.boosted_trees(z, factors)
    # A middle class is not linearly separable from the rest, but a multinomial model or a tree finds it.
    assert reference.by_factor[1] < modern.by_factor[1]
    assert min(modern.accuracy, trees.accuracy) > 0.9
    scaled = metrics.logistic_regression(z * [1e-3, 1.0, 50.0], factors, protocol="modern")
    assert scaled.accuracy == pytest.approx(modern.accuracy, abs=0.01)


def test_a_single_strength_is_used_without_folds() -> None:
    from sklearn.linear_model import LogisticRegression

    z, factors = coded(300)
    weak = metrics.logistic_regression(z, factors[:, :1], strengths=(0.01,))
    known = LogisticRegression(C=0.01, tol=1e-8).fit(z[:200], factors[:200, 0])
    assert weak.accuracy == known.score(z[200:], factors[200:, 0])
    assert weak.train_accuracy == known.score(z[:200], factors[:200, 0])


def test_boosted_trees_agree_with_exact_ones() -> None:
    z, factors = coded(300)
    assert metrics.boosted_trees(z, factors).accuracy == pytest.approx(
        metrics.boosted_trees(z, factors, trees="exact").accuracy, abs=0.02
    )


def test_reduced_codes() -> None:
    z, factors = coded()
    assert metrics.reduced_downstream(z, factors).accuracy < 0.65
    kept = metrics.reduced_downstream(z, factors, importance=[[0, 0], [0, 0], [1, 1]])
    assert kept.accuracy > 0.9
    with pytest.raises(ConfigError, match="drop"):
        metrics.reduced_downstream(z, factors, drop=3)


def test_invalid_settings_are_refused() -> None:
    z, factors = coded(30)
    with pytest.raises(ConfigError, match="folds"):
        metrics.logistic_regression(z, factors, folds=1)
    with pytest.raises(ConfigError, match="strengths"):
        metrics.logistic_regression(z, factors, strengths=(0.0,))
    with pytest.raises(ConfigError, match="n_train"):
        metrics.random_guess(z, factors, n_train=30)
