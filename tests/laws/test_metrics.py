"""Laws of every metric of the catalogue."""

import inspect

import numpy as np
import pytest

from polarised import metrics, registry
from polarised.metrics import downstream, estimators, redundancy

KINDS = ("metric", "estimator")
DISENTANGLEMENT = (
    "dci",
    "explicitness",
    "infomec",
    "irs",
    "mcc",
    "mig",
    "modularity",
    "nmi_matrix",
    "r2_matrix",
    "sap",
)
DRAWING = ("factor_vae_score", "beta_vae_score")
GENERATOR = np.random.default_rng(5)
FACTORS = GENERATOR.integers([3, 4], size=(240, 2))
CODES = (np.column_stack([FACTORS, FACTORS.sum(axis=1), np.zeros(240)]) + 0.3 * GENERATOR.normal(size=(240, 4))).round(
    6
)
ORDER = [2, 0, 3, 1]


def scores(result: object) -> list[float]:
    return [x for x in (result if isinstance(result, tuple) else (result,)) if isinstance(x, float)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_entry_is_documented_with_equation_reference_and_example(kind: str) -> None:
    for name in registry.names(kind):
        text = inspect.getdoc(registry.entry(kind, name)) or ""
        assert ">>>" in text, name
        assert name == "random_guess" or "[" in text.split(">>>")[0], name
        registry.settings(registry.entry(kind, name))


@pytest.mark.parametrize("name", [name for name in redundancy.__all__ if name != "overlap"])
def test_redundancy_does_not_depend_on_the_order_of_variables_or_rows(name: str) -> None:
    metric = getattr(redundancy, name)
    assert metric(CODES[:, ORDER]) == pytest.approx(metric(CODES), rel=1e-9)
    assert metric(CODES[::-1]) == pytest.approx(metric(CODES), rel=1e-9)


@pytest.mark.parametrize("name", DISENTANGLEMENT)
def test_disentanglement_does_not_depend_on_the_order_of_variables(name: str) -> None:
    metric = getattr(metrics, name)
    first, second = metric(CODES, FACTORS), metric(CODES[:, ORDER], FACTORS)
    if name.endswith("_matrix"):
        np.testing.assert_allclose(second, first[ORDER], atol=1e-9)
    elif name == "infomec":
        # The neighbour estimator adds its own tiny noise by column.
        assert scores(second) == pytest.approx(scores(first), abs=0.02)
    else:
        assert scores(second) == pytest.approx(scores(first), abs=1e-6)


@pytest.mark.parametrize("name", DRAWING)
def test_drawing_scores_do_not_depend_on_the_order_of_variables(name: str) -> None:
    metric = getattr(metrics, name)

    def represent(rows: np.ndarray) -> np.ndarray:
        return np.column_stack([rows, rows.sum(axis=1)]).astype(float)

    counts = {"train_votes": 300, "test_votes": 200} if "factor" in name else {"train_points": 300, "test_points": 200}
    first = metric(represent, (3, 4), **counts)
    second = metric(lambda rows: represent(rows)[:, [2, 0, 1]], (3, 4), **counts)
    assert second.score == pytest.approx(first.score, abs=1e-9)


@pytest.mark.parametrize("name", downstream.__all__)
def test_downstream_does_not_depend_on_the_order_of_variables(name: str) -> None:
    metric = getattr(downstream, name)
    assert metric(CODES[:, ORDER], FACTORS).accuracy == pytest.approx(metric(CODES, FACTORS).accuracy, abs=0.015)


@pytest.mark.parametrize("name", ["mws", "mss0", "mss1", "eq10b", "exact"])
def test_parts_of_the_rate_add_up_and_do_not_depend_on_the_order_of_variables(name: str) -> None:
    estimator = getattr(estimators, name)
    mean, variance = CODES[:30], np.full((30, 4), 0.2)
    z = mean + 0.1
    settings = {} if name == "exact" else {"dataset_size": 240}
    first = estimator(z, mean, variance, **settings)
    second = estimator(z[:, ORDER], mean[:, ORDER], variance[:, ORDER], **settings)
    assert second[:3] == pytest.approx(first[:3], rel=1e-9)
    rate = (first.log_own + 0.5 * (z**2 + np.log(2 * np.pi)).sum(axis=1)).mean()
    assert sum(first[:3]) == pytest.approx(rate, rel=1e-9)


def test_arguments_are_not_changed() -> None:
    codes, factors = CODES.copy(), FACTORS.copy()
    for name in (*redundancy.__all__, *DISENTANGLEMENT, *DRAWING, "disintegration", *downstream.__all__):
        metric = getattr(metrics, name)
        if name == "overlap":
            metric(codes, np.ones_like(codes))
        elif name in redundancy.__all__:
            metric(codes)
        elif name not in DRAWING:
            metric(codes, factors)
    assert np.array_equal(codes, CODES)
    assert np.array_equal(factors, FACTORS)


SCALES = np.array([0.125, 4.0, 0.5, 64.0])
# What claims that another unit of a variable changes nothing; the others weigh variables by their spread.
UNIT_FREE = ("dci", "disintegration", "explicitness", "mcc", "mig", "modularity", "nmi_matrix", "r2_matrix")


@pytest.mark.parametrize("name", UNIT_FREE)
def test_another_unit_of_a_variable_changes_nothing(name: str) -> None:
    metric = getattr(metrics, name)
    first, second = metric(CODES, FACTORS), metric(CODES * SCALES, FACTORS)
    if name == "disintegration":
        assert first.equals(second)
    elif name.endswith("_matrix"):
        np.testing.assert_allclose(second, first, rtol=1e-9, atol=1e-12)
    else:
        assert scores(second) == pytest.approx(scores(first), abs=1e-9)


@pytest.mark.parametrize("name", ["total_correlation", "mutual_information"])
def test_another_unit_of_a_variable_does_not_change_its_redundancy(name: str) -> None:
    metric = getattr(metrics, name)
    assert metric(CODES * SCALES) == pytest.approx(metric(CODES), rel=1e-9)


def test_another_unit_of_code_and_prior_does_not_change_the_votes() -> None:
    def represent(rows: np.ndarray) -> np.ndarray:
        return np.column_stack([rows, 0.01 * rows.sum(axis=1)]).astype(float)

    few = {"train_votes": 300, "test_votes": 200}
    first = metrics.factor_vae_score(represent, (3, 4), scale=np.ones(3), **few)
    second = metrics.factor_vae_score(lambda rows: represent(rows) * SCALES[:3], (3, 4), scale=SCALES[:3], **few)
    assert second.score == first.score
    assert second.kept.tolist() == first.kept.tolist() == [0, 1]
