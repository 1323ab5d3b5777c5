import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from polarised import ActiveVariables, Encodings, classify
from polarised.errors import ConfigError, DataError
from polarised.regime.decoder import DecoderUse

N = 600
GENERATOR = np.random.default_rng(0)
LABELS = GENERATOR.integers(2, size=N)
MEAN = np.column_stack(
    [
        np.where(LABELS, 1.0, -1.0) + 0.1 * GENERATOR.normal(size=N),
        0.02 * GENERATOR.normal(size=N),
        np.where(np.arange(N) % 2, GENERATOR.normal(size=N), 0.0),
        0.02 * GENERATOR.normal(size=N),
    ]
)
VARIANCE = np.column_stack([np.full(N, 0.01), np.ones(N), np.where(np.arange(N) % 2, 0.02, 1.0), np.ones(N)])
ENCODINGS = Encodings(MEAN, variance=VARIANCE)


@parametrize_with_checks([ActiveVariables(keep=("active", "mixed", "passive")), ActiveVariables()])
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_the_kept_columns_are_those_of_the_types():
    np.testing.assert_array_equal(ActiveVariables().fit(ENCODINGS).transform(MEAN), MEAN[:, [0, 2]])
    only = ActiveVariables(keep=["active"]).fit(ENCODINGS)
    assert only.get_support(indices=True).tolist() == [0]
    assert only.regime_.types == ("active", "passive", "mixed", "passive")
    np.testing.assert_array_equal(only.transform(ENCODINGS), MEAN[:, [0]])


@pytest.mark.parametrize("spread", ["variance", "log_variance"])
def test_variances_can_be_passed_as_columns(spread):
    columns = np.hstack([MEAN, VARIANCE if spread == "variance" else np.log(VARIANCE)])
    chosen = ActiveVariables(spread=spread).fit(columns)
    np.testing.assert_array_equal(chosen.transform(columns), MEAN[:, [0, 2]])
    assert chosen.get_feature_names_out().tolist() == ["x0", "x2"]


def test_means_alone_separate_passive_from_alive():
    """A fitted aggregate posterior has E[variance] = 1 - E[mean^2], so the types follow from the means."""
    variance = np.array([0.02, 0.99, 0.5])
    means = GENERATOR.normal(size=(5000, 3)) * np.sqrt(1 - variance)
    assert ActiveVariables().fit(means).regime_.types == ("active", "passive", "mixed")


def test_it_works_in_a_pipeline_with_cross_validation():
    columns = np.hstack([MEAN, VARIANCE])
    pipeline = make_pipeline(ActiveVariables(spread="variance"), StandardScaler(), LogisticRegression())
    scores = cross_val_score(pipeline, columns, LABELS, cv=3)
    assert scores.min() > 0.99
    assert pipeline.fit(columns, LABELS)[0].n_features_in_ == 8


def test_it_can_be_cloned_and_pickled_and_returns_frames():
    import polars

    chosen = ActiveVariables(alpha=0.2).fit(ENCODINGS)
    assert clone(chosen).get_params() == chosen.get_params()
    again = pickle.loads(pickle.dumps(chosen))
    np.testing.assert_array_equal(again.transform(MEAN), chosen.transform(MEAN))
    framed = chosen.set_output(transform="polars").transform(MEAN)
    assert isinstance(framed, polars.DataFrame)
    assert framed.columns == ["x0", "x2"]


def test_a_collapsed_code_and_wrong_settings_are_refused():
    with pytest.raises(DataError, match="all 2 are of other types"):
        ActiveVariables().fit(ENCODINGS.keep([1, 3]))
    for keep in ((), ("alive",), "active"):
        with pytest.raises(ConfigError, match="expected keep"):
            ActiveVariables(keep=keep).fit(ENCODINGS)
    with pytest.raises(ConfigError, match="expected spread"):
        ActiveVariables(spread="precision").fit(MEAN)
    with pytest.raises(DataError, match="as many columns"):
        ActiveVariables(spread="variance").fit(MEAN[:, :3])


def test_types_of_a_regime_are_used_unchanged():
    mean = np.random.default_rng(0).normal(size=(300, 3))
    encodings = Encodings(mean, variance=np.full((300, 3), 0.01))
    errors = np.full(3, 0.01)
    use = DecoderUse(np.array([50.0, 0.0, 40.0]), errors, errors, errors, np.full(3, 2000), 40.0)
    regime = classify(encodings, decoder=use)
    selector = ActiveVariables().fit(regime)
    assert selector.regime_ is regime
    np.testing.assert_array_equal(selector.transform(mean), mean[:, [0, 2]])
    # Without the decoder all three look used.
    assert ActiveVariables().fit(encodings).transform(mean).shape == (300, 3)
