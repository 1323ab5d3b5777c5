"""Prediction of factors from codes, whole and by subset of variables."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from polarised.errors import ConfigError, DataError
from polarised.metrics._boosting import Trees, boosted_trees_fit
from polarised.metrics._logistic import Multiclass, cross_validated_classifier, linear_classifier
from polarised.metrics.covariance import Floats, Integers, checked_pair, checked_split
from polarised.random import stream
from polarised.registry import Output, register

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "Downstream",
    "Prediction",
    "accuracy_by_subset",
    "boosted_trees",
    "logistic_regression",
    "prediction_accuracy",
    "random_guess",
    "reduced_downstream",
]

Protocol = Literal["reference", "modern"]

_STRENGTHS = tuple(float(strength) for strength in np.logspace(-4, 4, 10))


class Downstream(NamedTuple):
    """Mean test and train accuracy over factors, and both for each factor.

    Args:
        accuracy: Mean over factors on the test rows.
        train_accuracy: Mean over factors on the training rows.
        by_factor: Test accuracy (F,) of each factor.
        train_by_factor: Training accuracy (F,) of each factor.
    """

    accuracy: float
    train_accuracy: float
    by_factor: Floats
    train_by_factor: Floats


class Prediction(NamedTuple):
    """Mean test accuracy of logistic regression over factors, and that of random guessing.

    Args:
        accuracy: That of logistic regression.
        random_accuracy: That of guessing among the classes in the training rows.
    """

    accuracy: float
    random_accuracy: float


@register(
    "metric",
    name="downstream",
    title="prediction of factors",
    outputs=(
        Output(
            "downstream_accuracy",
            reading="Mean test accuracy of logistic regression over factors; compare with 'random_accuracy'.",
            part="accuracy",
        ),
        Output(
            "random_accuracy",
            "accuracy of guessing",
            reading="Mean test accuracy of random guessing: the baseline.",
            part="random_accuracy",
        ),
    ),
    needs=("factors",),
    references=("Bonheme2023BeMoreActive", "Locatello2019"),
    # With different rounding, cross-validation may select another strength.
    tolerance=0.015,
)
def prediction_accuracy(
    codes: npt.ArrayLike, factors: npt.ArrayLike, *, n_train: int | None = None, seed: int = 0
) -> Prediction:
    """Return how well the codes predict the factors, compared with random guessing.

    accuracy = mean_k P( f^_k = f_k ) on the test rows, see `logistic_regression` and `random_guess`.
    [Bonheme2023BeMoreActive, fig. 6; Locatello2019]

    Args:
        codes: Codes (n, d), one observation in each row.
        factors: Classes (n, F) of the same rows, whole numbers; a single factor may be (n,).
        n_train: Number of leading rows used for training; two thirds by default.
        seed: Seed of the guesses.

    Returns:
        Both accuracies.

    Raises:
        DataError: If codes or factors are invalid.

    >>> z = np.random.default_rng(0).normal(size=(300, 2))
    >>> prediction_accuracy(z, (z > 0).astype(int)).accuracy > 0.95
    True
    """
    guessed = random_guess(codes, factors, n_train=n_train, seed=seed)
    return Prediction(logistic_regression(codes, factors, n_train=n_train).accuracy, guessed.accuracy)


def logistic_regression(
    codes: npt.ArrayLike,
    factors: npt.ArrayLike,
    *,
    n_train: int | None = None,
    protocol: Protocol = "reference",
    standardise: bool | None = None,
    strengths: tuple[float, ...] = _STRENGTHS,
    folds: int = 5,
) -> Downstream:
    """Return the accuracy of cross-validated logistic regression, one classifier for each factor.

    The authors' protocol (``reference``): 10 strengths C from 1e-4 to 1e4, 5 contiguous folds, one class against the
    rest with its own C, unscaled codes. ``modern``: one multinomial model on standardised codes. A single strength
    is used without folds. [Bonheme2023BeMoreActive, fig. 6; Locatello2019]

    Args:
        codes: Codes (n, d), one observation in each row.
        factors: Classes (n, F) of the same rows, whole numbers; a single factor may be (n,).
        n_train: Number of leading rows used for training; two thirds by default.
        protocol: "reference" or "modern", see above.
        standardise: Whether to standardise the codes by the training rows; by default as in the protocol.
        strengths: Strengths C to choose from.
        folds: Number of folds of the cross-validation.

    Returns:
        The accuracies.

    Raises:
        DataError: If codes or factors are not finite, or have different numbers of rows.
        ConfigError: If the split, the folds or the strengths are invalid.

    >>> z = np.random.default_rng(0).normal(size=(300, 2))
    >>> logistic_regression(z, (z > 0).astype(int)).accuracy > 0.95
    True
    """
    array, labels = checked_pair(codes, factors)
    split = checked_split(len(array), n_train)
    if not 2 <= folds <= split:
        raise ConfigError(f"folds must be between 2 and the {split} training rows, got {folds}")
    if not strengths or min(strengths) <= 0:
        raise ConfigError(f"strengths must be positive numbers, got {strengths}")
    if protocol == "modern" if standardise is None else standardise:
        scale = array[:split].std(axis=0)
        array = (array - array[:split].mean(axis=0)) / np.where(scale > 0, scale, 1.0)

    multiclass: Multiclass = "one_vs_rest" if protocol == "reference" else "multinomial"

    def predict(column: Integers) -> tuple[Integers, Integers]:
        rows, labels = array[:split], column[:split]
        if len(strengths) == 1:
            model = linear_classifier(rows, labels, multiclass=multiclass, strength=strengths[0])
        else:
            model = cross_validated_classifier(rows, labels, multiclass=multiclass, strengths=strengths, folds=folds)
        return model.predict(array[:split]), model.predict(array[split:])

    return _scored(labels, split, predict)


def boosted_trees(
    codes: npt.ArrayLike,
    factors: npt.ArrayLike,
    *,
    n_train: int | None = None,
    trees: Trees = "auto",
    seed: int = 0,
) -> Downstream:
    """Return the accuracy of gradient-boosted trees, one ensemble for each factor.

    100 stages of depth 3 with learning rate 0.1 [Locatello2019]; ``trees="exact"`` is scikit-learn's
    GradientBoostingClassifier, which "auto" uses for binary factors and few rows; only it uses ``seed``.

    Args:
        codes: Codes (n, d), one observation in each row.
        factors: Classes (n, F) of the same rows, whole numbers; a single factor may be (n,).
        n_train: Number of leading rows used for training; two thirds by default.
        trees: "auto", "histogram" or "exact", see above.
        seed: Seed of exact trees.

    Returns:
        The accuracies.

    Raises:
        DataError: If codes or factors are not finite, or have different numbers of rows.
        ConfigError: If `n_train` leaves too few rows for training or testing.

    >>> z = np.random.default_rng(0).normal(size=(300, 2))
    >>> boosted_trees(z, (z > 0).astype(int)).accuracy > 0.95
    True
    """
    array, labels = checked_pair(codes, factors)
    split = checked_split(len(array), n_train)

    def predict(column: Integers) -> tuple[Integers, Integers]:
        fitted = boosted_trees_fit(array[:split], column[:split], array[split:], trees=trees, seed=seed)
        return fitted.train, fitted.test

    return _scored(labels, split, predict)


def random_guess(
    codes: npt.ArrayLike, factors: npt.ArrayLike, *, n_train: int | None = None, seed: int = 0
) -> Downstream:
    """Return the accuracy of guessing uniformly among the classes of the training rows: the baseline.

    Args:
        codes: Codes (n, d), one observation in each row.
        factors: Classes (n, F) of the same rows, whole numbers; a single factor may be (n,).
        n_train: Number of leading rows used for training; two thirds by default.
        seed: Seed of the guesses.

    Returns:
        The accuracies.

    Raises:
        DataError: If codes or factors are not finite, or have different numbers of rows.
        ConfigError: If `n_train` leaves too few rows for training or testing.

    >>> labels = np.tile([0, 1], 300)
    >>> 0.4 < random_guess(np.zeros((600, 1)), labels).accuracy < 0.6
    True
    """
    array, labels = checked_pair(codes, factors)
    split = checked_split(len(array), n_train)
    generator = stream(seed, "random guess")

    def predict(column: Integers) -> tuple[Integers, Integers]:
        guess = generator.choice(np.unique(column[:split]), size=len(column))
        return guess[:split], guess[split:]

    return _scored(labels, split, predict)


def accuracy_by_subset(
    codes: npt.ArrayLike,
    factors: npt.ArrayLike,
    subsets: Mapping[str, Sequence[int]],
    *,
    predictor: Literal["logistic_regression", "boosted_trees"] = "logistic_regression",
    factor_names: Sequence[str] | None = None,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
) -> "pl.DataFrame":
    """Return a table of accuracies for every subset of variables, and for a random guess.

    Columns: variables, factor (``mean`` and ``min`` over factors, then each), accuracy, train_accuracy; an empty subset
    has no rows. For subsets by type, use ``polarised.metrics.subsets(regime)``.
    [Bonheme2023BeMoreActive, fig. 6]

    Args:
        codes: Codes (n, d), one observation in each row.
        factors: Classes (n, F) of the same rows, whole numbers; a single factor may be (n,).
        subsets: Indices of the variables of each subset, by its name.
        predictor: The predictor.
        factor_names: Names of the factors; numbered by default.
        seed: Seed of exact trees and of the guesses.
        settings: Settings of the predictor, such as ``{"n_train": 1000}``.

    Returns:
        The table.

    Raises:
        DataError: If codes, factors or names are invalid.

    >>> z = np.random.default_rng(0).normal(size=(300, 2))
    >>> table = accuracy_by_subset(z, (z[:, 0] > 0).astype(int), {"full": [0, 1], "second": [1]})
    >>> table["variables"].unique(maintain_order=True).to_list()
    ['full', 'second', 'random']
    """
    import polars as pl

    array, labels = checked_pair(codes, factors)
    names = list(factor_names) if factor_names else [f"factor {index}" for index in range(labels.shape[1])]
    if len(names) != labels.shape[1]:
        raise DataError(f"factor_names must name {labels.shape[1]} factors, got {len(names)}")
    predictors: dict[str, Callable[..., Downstream]] = {
        "logistic_regression": logistic_regression,
        "boosted_trees": boosted_trees,
    }
    chosen_settings = {**({"seed": seed} if predictor == "boosted_trees" else {}), **(settings or {})}
    results = {
        name: predictors[predictor](array[:, list(chosen)], labels, **chosen_settings)
        for name, chosen in subsets.items()
        if len(chosen)
    }
    results["random"] = random_guess(array, labels, n_train=chosen_settings.get("n_train"), seed=seed)
    rows: list[tuple[str, str, float, float]] = []
    for name, result in results.items():
        rows.append((name, "mean", result.accuracy, result.train_accuracy))
        rows.append((name, "min", float(result.by_factor.min()), float(result.train_by_factor.min())))
        pairs = zip(names, result.by_factor.tolist(), result.train_by_factor.tolist(), strict=True)
        rows.extend((name, factor, test, train) for factor, test, train in pairs)
    return pl.DataFrame(rows, schema=["variables", "factor", "accuracy", "train_accuracy"], orient="row")


def reduced_downstream(
    codes: npt.ArrayLike,
    factors: npt.ArrayLike,
    *,
    drop: int = 1,
    n_train: int | None = None,
    importance: npt.ArrayLike | None = None,
) -> Downstream:
    """Return the accuracy of boosted trees without the most important variables of each factor.

    The accuracy of a factor carried by one variable falls to chance; that of one spread over many does not.
    [Locatello2019] ``importance`` (d, F) defaults to that of boosted trees on the full codes, as in DCI.

    Args:
        codes: Codes (n, d), one observation in each row.
        factors: Classes (n, F) of the same rows, whole numbers; a single factor may be (n,).
        drop: Number of variables to remove for each factor.
        n_train: Number of leading rows used for training; two thirds by default.
        importance: Importance (d, F) by which they are chosen.

    Returns:
        The accuracies.

    Raises:
        DataError: If codes or factors are not finite, or have different numbers of rows.
        ConfigError: If no variable would remain.

    >>> z = np.random.default_rng(0).normal(size=(300, 2))
    >>> reduced_downstream(z, (z > 0).astype(int)).accuracy < 0.7
    True
    """
    array, labels = checked_pair(codes, factors)
    split = checked_split(len(array), n_train)
    if not 1 <= drop < array.shape[1]:
        raise ConfigError(f"drop must leave at least one of the {array.shape[1]} variables, got {drop}")
    known = None if importance is None else np.asarray(importance, dtype=np.float64)
    results = []
    for index, column in enumerate(labels.T):
        if known is None:
            share = boosted_trees_fit(array[:split], column[:split], array[split:]).importance
        else:
            share = known[:, index]
        kept = np.sort(np.argsort(-share, kind="stable")[drop:])
        results.append(boosted_trees(array[:, kept], column, n_train=split))
    test = np.array([result.accuracy for result in results])
    train = np.array([result.train_accuracy for result in results])
    return Downstream(float(test.mean()), float(train.mean()), test, train)


def _scored(labels: Integers, split: int, predict: Callable[[Integers], tuple[Integers, Integers]]) -> Downstream:
    accuracies = []
    for column in labels.T:
        train, test = predict(column)
        accuracies.append((np.mean(test == column[split:]), np.mean(train == column[:split])))
    by_factor, train_by_factor = np.array(accuracies, dtype=np.float64).T
    return Downstream(float(by_factor.mean()), float(train_by_factor.mean()), by_factor, train_by_factor)
