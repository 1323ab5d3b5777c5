import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import KFold
from sklearn.multiclass import OneVsRestClassifier

from polarised.metrics._logistic import cross_validated_classifier, linear_classifier
from polarised.metrics.gaps import _balanced_hinge_accuracy


def blobs(rows: int = 400, classes: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    labels = generator.integers(classes, size=rows)
    centres = generator.normal(size=(classes, 3))
    return centres[labels] + generator.normal(size=(rows, 3)), labels * 10


@pytest.mark.parametrize(("rows", "dtype"), [(400, np.float64), (8_000, np.float64), (8_000, np.float32)])
def test_multinomial_finds_the_minimum_of_scikit_learn(rows: int, dtype: type) -> None:
    z, labels = blobs(rows)
    z = z.astype(dtype)
    ours = linear_classifier(z, labels, multiclass="multinomial")
    theirs = LogisticRegression(tol=1e-10, max_iter=10_000).fit(z, labels)
    np.testing.assert_allclose(ours.weights, theirs.coef_, atol=2e-3)
    assert np.array_equal(ours.predict(z), theirs.predict(z))


def test_one_vs_rest_with_a_penalised_intercept_equals_liblinear() -> None:
    z, labels = blobs()
    ours = linear_classifier(z, labels, multiclass="one_vs_rest", shrink_intercept=True)
    theirs = OneVsRestClassifier(LogisticRegression(solver="liblinear", tol=1e-10, max_iter=1000)).fit(z, labels)
    expected = np.array([model.coef_[0] for model in theirs.estimators_])
    np.testing.assert_allclose(ours.weights, expected, atol=3e-3)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("multiclass", ["one_vs_rest", "multinomial"])
def test_cross_validation_predicts_as_scikit_learn(multiclass: str, seed: int) -> None:
    z, labels = blobs(600, 5, seed)
    strengths = np.logspace(-4, 4, 10)
    ours = cross_validated_classifier(z[:500], labels[:500], multiclass=multiclass, strengths=strengths)  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegressionCV(Cs=10, cv=KFold(5))
        theirs = (OneVsRestClassifier(model) if multiclass == "one_vs_rest" else model).fit(z[:500], labels[:500])
    assert np.mean(ours.predict(z[500:]) == theirs.predict(z[500:])) > 0.97


@pytest.mark.parametrize("multiclass", ["one_vs_rest", "multinomial"])
def test_hard_cases_converge_and_are_finite(multiclass: str) -> None:
    generator = np.random.default_rng(0)
    separable = np.repeat([0, 1, 2], 30)
    cases = {
        "separable": (separable[:, None] * 5.0 + generator.normal(size=(90, 1)) * 1e-3, separable),
        "constant codes": (np.full((90, 2), 3.0), separable),
        "one class": (generator.normal(size=(90, 2)), np.zeros(90, dtype=int)),
        "a class of one row": (generator.normal(size=(90, 2)), np.r_[5, np.zeros(44, int), np.ones(45, int)]),
        "far from zero": (1e4 + generator.normal(size=(90, 2)), separable),
        "tiny scale": (1e-6 * generator.normal(size=(90, 2)), separable),
    }
    for case, (z, labels) in cases.items():
        model = cross_validated_classifier(z, labels, multiclass=multiclass, strengths=np.logspace(-4, 4, 10))  # type: ignore[arg-type]
        assert np.isfinite(model.scores(z)).all(), case
        if case in ("separable", "one class"):
            assert np.array_equal(model.predict(z), labels), case


def test_hinge_equals_liblinear() -> None:
    from sklearn.svm import LinearSVC

    generator = np.random.default_rng(3)
    for classes in (2, 5):
        labels = generator.integers(classes, size=600)
        z = labels + generator.normal(size=600)
        svc = LinearSVC(C=0.01, class_weight="balanced", dual=False, tol=1e-8).fit(z[:400, None], labels[:400])
        expected = svc.score(z[400:, None], labels[400:])
        assert _balanced_hinge_accuracy(z[:400], labels[:400], z[400:], labels[400:]) == pytest.approx(
            expected, abs=0.006
        )


@pytest.mark.parametrize("strength", [0.01, 0.3, 10.0])
def test_two_classes_are_penalised_as_scikit_learn_does(strength: float) -> None:
    from sklearn.linear_model import LogisticRegression

    generator = np.random.default_rng(4)
    codes = generator.normal(size=(400, 3))
    labels = (codes @ [1.0, -2.0, 0.5] + generator.normal(size=400) > 0).astype(np.int64)
    ours = linear_classifier(codes, labels, multiclass="multinomial", strength=strength)
    theirs = LogisticRegression(C=strength, tol=1e-10, max_iter=10_000).fit(codes, labels)
    log_odds = np.diff(ours.scores(codes), axis=1)[:, 0]
    np.testing.assert_allclose(log_odds, theirs.decision_function(codes), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(ours.weights[1] - ours.weights[0], theirs.coef_[0], atol=2e-3)
