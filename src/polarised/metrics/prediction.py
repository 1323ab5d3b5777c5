"""How well factors are predicted, and by how many variables."""

import warnings
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from polarised._threads import one_blas_thread
from polarised.errors import DataError
from polarised.metrics._boosting import Trees, boosted_trees_fit
from polarised.metrics._logistic import linear_classifier
from polarised.metrics.covariance import Floats, Integers, checked_codes, checked_pair, checked_split, correlation
from polarised.metrics.information import bin_codes, entropies, information_between
from polarised.random import stream
from polarised.registry import Output, register

__all__ = [
    "DCI",
    "MCC",
    "Explicitness",
    "InfoMEC",
    "dci",
    "dci_from_importance",
    "explicitness",
    "infomec",
    "linear_r2",
    "mcc",
    "random_rotation",
]


class DCI(NamedTuple):
    """Disentanglement, completeness, informativeness (accuracies) and the importance matrix (d, F).

    Args:
        disentanglement: Whether a variable is important for one factor only.
        completeness: Whether a factor needs one variable only.
        informativeness: Mean accuracy on the test rows.
        informativeness_train: Mean accuracy on the training rows.
        importance: Importance (d, F) of each variable for each factor.
    """

    disentanglement: float
    completeness: float
    informativeness: float
    informativeness_train: float
    importance: Floats


class Explicitness(NamedTuple):
    """Mean one-vs-rest ROC area on the test and on the training rows.

    Args:
        score: On the test rows.
        train: On the training rows.
    """

    score: float
    train: float


class InfoMEC(NamedTuple):
    """Modularity, explicitness and compactness in [0, 1], the NMI matrix (d, F), and the kept variables.

    Args:
        modularity: InfoM.
        explicitness: InfoE.
        compactness: InfoC.
        nmi: Share (d, F) of each factor's entropy that each variable explains.
        kept: Variables whose range is not negligible.
    """

    modularity: float
    explicitness: float
    compactness: float
    nmi: Floats
    kept: Integers


@register(
    "metric",
    title="DCI",
    outputs=(
        Output(
            "dci_disentanglement",
            "DCI disentanglement",
            reading="1 if every variable is important for one factor only, 0 if for all equally.",
            part="disentanglement",
        ),
        Output(
            "dci_completeness",
            "DCI completeness",
            reading="1 if every factor is predicted by one variable only, 0 if by all equally.",
            part="completeness",
        ),
        Output(
            "dci_informativeness",
            "DCI informativeness",
            reading="Accuracy of boosted trees that predict the factors: all information in the code, linear or not.",
            part="informativeness",
        ),
    ),
    needs=("factors",),
    references=("Eastwood2018", "Locatello2019"),
)
def dci(
    codes: npt.ArrayLike,
    factors: npt.ArrayLike,
    *,
    n_train: int | None = None,
    trees: Trees = "auto",
    seed: int = 0,
) -> DCI:
    """Return disentanglement, completeness and informativeness from boosted trees, one ensemble per factor.

    With R_ij the importance of variable i for factor j: D = sum_i rho_i (1 - H_F(R_i. / sum R_i.)), entropy to base F,
    rho_i = sum_j R_ij / sum R; C is the same over columns, to base d; informativeness is accuracy.
    [Eastwood2018; Locatello2019] ``trees="exact"`` uses scikit-learn's GradientBoostingClassifier as in the literature;
    "auto" uses it for binary factors and fewer than 1,000 training rows, and otherwise histograms of each variable,
    which are many times faster: the three scores were then within 0.008 of the exact ones (up to 0.018 where "auto" is
    exact). Only exact trees use ``seed``.

    Args:
        codes: Codes (n, d), one observation in each row.
        factors: Classes (n, F) of the same rows, whole numbers; a single factor may be (n,).
        n_train: Number of leading rows used for training; two thirds by default.
        trees: "auto", "histogram" or "exact", see above.
        seed: Seed of exact trees.

    Returns:
        The three scores, with the importance behind them.

    Raises:
        DataError: If codes or factors are not finite, or have different numbers of rows.
        ConfigError: If `n_train` leaves too few rows for training or testing.

    >>> z = np.random.default_rng(0).normal(size=(300, 2))
    >>> result = dci(z, (z > 0).astype(int))
    >>> result.disentanglement > 0.9, result.informativeness > 0.9
    (True, True)
    """
    array, labels = checked_pair(codes, factors)
    split = checked_split(len(array), n_train)
    importance = np.zeros((array.shape[1], labels.shape[1]))
    train, test = np.zeros(labels.shape[1]), np.zeros(labels.shape[1])
    for factor, column in enumerate(labels.T):
        fitted = boosted_trees_fit(array[:split], column[:split], array[split:], trees=trees, seed=seed)
        importance[:, factor] = fitted.importance
        train[factor] = np.mean(fitted.train == column[:split])
        test[factor] = np.mean(fitted.test == column[split:])
    disentanglement, completeness = dci_from_importance(importance)
    return DCI(disentanglement, completeness, float(test.mean()), float(train.mean()), importance)


def dci_from_importance(importance: npt.ArrayLike) -> tuple[float, float]:
    """Return disentanglement and completeness of an importance matrix (d, F).

    Args:
        importance: Importance (d, F) of each variable for each factor.

    Returns:
        Disentanglement and completeness.

    >>> [round(score, 6) for score in dci_from_importance([[1.0, 0.0], [0.0, 1.0]])]
    [1.0, 1.0]
    """
    matrix = np.asarray(importance, dtype=np.float64)
    return _specialisation(matrix), _specialisation(matrix.T)


@register(
    "metric",
    reading="How well a linear classifier separates the classes of a factor: 1 perfectly, 0.5 by chance.",
    needs=("factors",),
    references=("Ridgeway2018", "Locatello2019"),
)
def explicitness(
    codes: npt.ArrayLike,
    factors: npt.ArrayLike,
    *,
    n_train: int | None = None,
    protocol: Literal["reference", "modern"] = "reference",
) -> Explicitness:
    """Return how well a linear classifier separates the classes of each factor: mean ROC area, 0.5 by chance.

    mean_k mean_c AUC( p(f_k = c | z) ), codes standardised by the training rows.  [Ridgeway2018; Locatello2019]
    ``reference`` fits each class against the rest with a shrunk intercept (scikit-learn 0.21, liblinear), ``modern``
    one multinomial model. Classes absent from training or test rows and factors with one class are excluded.

    Args:
        codes: Codes (n, d), one observation in each row.
        factors: Classes (n, F) of the same rows, whole numbers; a single factor may be (n,).
        n_train: Number of leading rows used for training; two thirds by default.
        protocol: "reference" or "modern", see above.

    Returns:
        The mean area on test and training rows.

    Raises:
        DataError: If codes or factors are not finite, or have different numbers of rows.
        ConfigError: If `n_train` leaves too few rows for training or testing.

    >>> z = np.linspace(-1.0, 1.0, 90)[:, None]
    >>> order = np.random.default_rng(0).permutation(90)
    >>> explicitness(z[order], (z[order, 0] > 0).astype(int)).score
    1.0
    """
    array, labels = checked_pair(codes, factors)
    split = checked_split(len(array), n_train)
    centre, scale = array[:split].mean(axis=0), array[:split].std(axis=0)
    array = (array - centre) / np.where(scale > 0, scale, 1.0)
    areas = []
    for column in labels.T:
        if len(np.unique(column[:split])) < 2:
            continue
        model = linear_classifier(
            array[:split],
            column[:split],
            multiclass="one_vs_rest" if protocol == "reference" else "multinomial",
            shrink_intercept=protocol == "reference",
        )
        scores = model.scores(array)
        if protocol == "reference":
            chance = 1 / (1 + np.exp(-scores))
        else:
            chance = np.exp(scores - scores.max(axis=1, keepdims=True))
        chance = chance / chance.sum(axis=1, keepdims=True)
        areas.append([_area(chance[rows], column[rows], model.classes) for rows in (slice(split, None), slice(split))])
    if not areas:
        return Explicitness(0.0, 0.0)
    test, train = np.mean(areas, axis=0)
    return Explicitness(float(test), float(train))


@register(
    "metric",
    title="InfoMEC",
    outputs=(
        Output(
            "infomec_modularity",
            "InfoMEC modularity",
            reading="1 if each variable carries information about one factor only, 0 if about all equally.",
            part="modularity",
        ),
        Output(
            "infomec_explicitness",
            "InfoMEC explicitness",
            reading="Share of the factors' entropy that a linear model explains: 1 all, 0 nothing.",
            part="explicitness",
        ),
        Output(
            "infomec_compactness",
            "InfoMEC compactness",
            reading="1 if each factor is carried by one variable only, 0 if by all equally.",
            part="compactness",
        ),
    ),
    needs=("factors",),
    references=("Hsu2023",),
    # The neighbour estimator adds its own small noise by column.
    tolerance=0.02,
)
def infomec(
    codes: npt.ArrayLike,
    factors: npt.ArrayLike,
    *,
    estimator: Literal["neighbours", "bins"] = "neighbours",
    seed: int = 0,
) -> InfoMEC:
    """Return InfoMEC: modularity, explicitness and compactness as normalised information, all in [0, 1].

    With N_ik = I(z_i; f_k) / H(f_k) over variables whose range exceeds 1/20 of the largest:
    InfoM = (mean_i max_k N_ik / sum_k N_ik - 1/F) / (1 - 1/F), InfoC the same over variables for each factor, and
    InfoE = mean_k (H(f_k) - H(f_k | z)) / H(f_k), entropies as log-losses of unpenalised balanced logistic regressions.
    [Hsu2023, sec. 4] ``neighbours`` is the authors' 10-nearest-neighbour estimator, ``bins`` the 20-bin plug-in.

    Args:
        codes: Codes (n, d), one observation in each row.
        factors: Classes (n, F) of the same rows, whole numbers; a single factor may be (n,).
        estimator: "neighbours" or "bins", see above.
        seed: Seed of the small noise that the neighbour estimator adds.

    Returns:
        The three scores, with the matrix and the variables behind them.

    Raises:
        DataError: If codes or factors are not finite, or have different numbers of rows.

    >>> z = np.random.default_rng(0).uniform(-1, 1, size=(300, 2))
    >>> result = infomec(z, (z > 0).astype(int), estimator="bins")
    >>> result.modularity > 0.8, result.compactness > 0.8
    (True, True)
    """
    array, labels = checked_pair(codes, factors)
    labels = labels[:, np.ptp(labels, axis=0) > 0]
    ranges = np.ptp(array, axis=0)
    kept = np.flatnonzero(ranges > ranges.max() / 20)
    if not labels.size or not kept.size:
        return InfoMEC(0.0, 0.0, 0.0, np.zeros((array.shape[1], labels.shape[1])), kept)
    entropy = entropies(labels)
    if estimator == "bins":
        nmi = information_between(bin_codes(codes), labels) / entropy
    else:
        nmi = _neighbour_information(array, labels, seed) / entropy
    pruned = nmi[kept]
    explained = [_explained_entropy(array, column) for column in labels.T]
    return InfoMEC(_concentration(pruned), float(np.mean(explained)), _concentration(pruned.T), nmi, kept)


def _specialisation(matrix: Floats) -> float:
    """Return the weighted mean of 1 - normalised entropy over rows; 1 if a row has a single entry."""
    shares = matrix + 1e-11
    shares = shares / shares.sum(axis=1, keepdims=True)
    entropy = -(shares * np.log(shares)).sum(axis=1) / (np.log(matrix.shape[1]) if matrix.shape[1] > 1 else 1.0)
    total = matrix.sum()
    weights = matrix.sum(axis=1) / total if total > 0 else np.full(len(matrix), 1 / len(matrix))
    return float((weights * (1 - entropy)).sum())


def _area(chance: Floats, truth: Integers, classes: Integers) -> float:
    """Return the mean over classes of the area under the ROC curve, by rank sums."""
    from scipy.stats import rankdata

    areas = []
    ranks = rankdata(chance, axis=0)
    for rank, label in zip(ranks.T, classes, strict=True):
        inside = truth == label
        positive = int(inside.sum())
        negative = len(truth) - positive
        if positive and negative:
            areas.append((rank[inside].sum() - positive * (positive + 1) / 2) / (positive * negative))
    return float(np.mean(areas)) if areas else 0.5


def _concentration(matrix: Floats) -> float:
    """Return how far the largest share of each row exceeds an equal split, averaged, in [0, 1]."""
    options = matrix.shape[1]
    if options < 2:
        return 1.0
    total = matrix.sum(axis=1)
    share = np.divide(matrix.max(axis=1), total, out=np.full(len(matrix), 1 / options), where=total > 0)
    return float((share.mean() - 1 / options) / (1 - 1 / options))


def _neighbour_information(array: Floats, labels: Integers, seed: int) -> Floats:
    from sklearn.feature_selection import mutual_info_classif

    scale = array.std(axis=0)
    standard = (array - array.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    columns = [
        # scikit-learn ignores a value that occurs once, as it has no neighbours of its class: here, all of them.
        np.zeros(standard.shape[1])
        if np.unique(column, return_counts=True)[1].max() < 2
        else mutual_info_classif(standard, column, discrete_features=False, n_neighbors=10, random_state=seed)
        for column in labels.T
    ]
    return np.stack(columns, axis=1)


@one_blas_thread()
def _explained_entropy(array: Floats, column: Integers) -> float:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    scale = array.std(axis=0)
    standard = (array - array.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    with warnings.catch_warnings():
        # The authors stop after 100 iterations, whether converged or not.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(C=np.inf, class_weight="balanced", max_iter=100).fit(standard, column)
    place = np.searchsorted(model.classes_, column)
    chance = np.clip(model.predict_proba(standard)[np.arange(len(column)), place], 1e-15, None)
    # An uninformative balanced model gives every class the same probability.
    prior = np.log(len(model.classes_))
    return float((prior + np.log(chance).mean()) / prior)


class MCC(NamedTuple):
    """The mean correlation coefficient, the variable assigned to each source, and |correlation| (sources, d).

    Args:
        score: The mean.
        assignment: The variable of each source, -1 for none.
        matrix: |correlation| (sources, d).
    """

    score: float
    assignment: Integers
    matrix: Floats


@register(
    "metric",
    title="MCC",
    reading="Mean |correlation| of each factor's index with the variable assigned to it: 1 recovers all up to scale.",
    needs=("factors",),
    references=("Khemakhem2020",),
)
def mcc(codes: npt.ArrayLike, sources: npt.ArrayLike, *, method: Literal["pearson", "spearman"] = "pearson") -> MCC:
    """Return the mean |correlation| of the true sources with the variables assigned to them one to one.

    MCC = max over assignments a of mean_k |corr(s_k, z_a(k))|.  [Khemakhem2020, sec. 5] With more sources than
    variables, the mean is over the assigned ones, and the index of the others is -1; a constant variable has 0.

    Args:
        codes: Codes (n, d), one observation in each row.
        sources: True sources (n, K) of the same rows.
        method: "pearson" or "spearman" correlation.

    Returns:
        The score, with the assignment and the matrix.

    Raises:
        DataError: If codes and sources are not finite numbers with the same rows.

    >>> s = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 5.0]])
    >>> mcc(-2 * s[:, ::-1], s).score.__round__(6)
    1.0
    """
    from scipy.optimize import linear_sum_assignment
    from scipy.stats import rankdata

    found, true = checked_codes(codes), checked_codes(sources, name="sources")
    if len(found) != len(true):
        raise DataError(f"codes and sources must have the same rows, got {len(found)} and {len(true)}")
    if method == "spearman":
        found, true = rankdata(found, axis=0), rankdata(true, axis=0)
    count = true.shape[1]
    matrix = np.abs(correlation(np.column_stack([true, found]))[:count, count:])
    rows, columns = linear_sum_assignment(matrix, maximize=True)
    assignment = np.full(count, -1, dtype=np.int64)
    assignment[rows] = columns
    return MCC(float(matrix[rows, columns].mean()), assignment, matrix)


def random_rotation(sources: npt.ArrayLike, *, draws: int = 50, seed: int = 0) -> float:
    """Return the MCC of a random rotation of the true sources: the score of a model that only finds their span.

    mean over R of MCC(S R, S), R uniform over the orthogonal matrices, S standardised.

    Args:
        sources: True sources (n, K).
        draws: The number of rotations.
        seed: Seed of the rotations.

    Returns:
        The mean score; the baseline for an MCC.

    Raises:
        DataError: If the sources are not finite numbers, or one is constant.

    >>> s = np.random.default_rng(0).normal(size=(500, 2))
    >>> 0.85 < random_rotation(s) < 0.95
    True
    """
    from scipy.stats import ortho_group

    true = checked_codes(sources, name="sources")
    deviation = true.std(axis=0)
    if not (deviation > 0).all():
        raise DataError("expected sources that vary, one of them is constant; omit it")
    standardised = (true - true.mean(axis=0)) / deviation
    count = true.shape[1]
    if count == 1:
        return 1.0
    rotations = ortho_group.rvs(count, size=draws, random_state=stream(seed, "random rotation"))
    return float(np.mean([mcc(standardised @ rotation, standardised).score for rotation in np.atleast_3d(rotations)]))


def linear_r2(codes: npt.ArrayLike, sources: npt.ArrayLike) -> float:
    """Return the share of the true sources that a linear map of the codes explains, averaged over sources.

    R^2 = mean_k 1 - |s_k - [1, Z] w_k|^2 / |s_k - mean|^2, w_k by least squares. Together with an MCC it shows whether
    information is lost (a low R^2) or only the axes (a high one).

    Args:
        codes: Codes (n, d).
        sources: True sources (n, K) of the same rows.

    Returns:
        The mean share, between 0 and 1.

    Raises:
        DataError: If codes and sources are not finite numbers with the same rows.

    >>> s = np.random.default_rng(0).normal(size=(100, 2))
    >>> round(linear_r2(s @ [[1.0, 2.0], [0.0, 1.0]], s), 6)
    1.0
    """
    found, true = checked_codes(codes), checked_codes(sources, name="sources")
    if len(found) != len(true):
        raise DataError(f"codes and sources must have the same rows, got {len(found)} and {len(true)}")
    columns = np.column_stack([np.ones(len(found)), found])
    left = true - columns @ np.linalg.lstsq(columns, true, rcond=None)[0]
    total = ((true - true.mean(axis=0)) ** 2).sum(axis=0)
    return float(np.mean(1 - (left**2).sum(axis=0) / np.where(total > 0, total, 1.0)))
