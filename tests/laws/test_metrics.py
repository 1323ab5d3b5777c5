"""Laws of every metric of the catalogue."""

import inspect

import numpy as np
import pytest

from polarised import metrics, registry
from polarised.bibliography import bibliography
from polarised.metrics.evaluation import score

KINDS = ("metric", "estimator")
METRICS = {record.name: record for record in registry.records("metric")}
GENERATOR = np.random.default_rng(5)
FACTORS = GENERATOR.integers([3, 4], size=(240, 2))
CODES = (np.column_stack([FACTORS, FACTORS.sum(axis=1), np.zeros(240)]) + 0.3 * GENERATOR.normal(size=(240, 4))).round(
    6
)
ORDER = [2, 0, 3, 1]


def supplied(needs: tuple[str, ...], columns: list[int], rows: slice = slice(None)) -> tuple[object, ...]:
    """Return what a metric is called with by its needs, the variables in a given order."""
    codes = CODES[rows, :][:, columns]
    if "drawing" in needs:
        return (lambda f: np.column_stack([f, f.sum(axis=1), f[:, 0] * f[:, 1]])[:, columns].astype(float), (3, 4))
    if "posterior" in needs:
        return codes, np.full(codes.shape, 0.2)
    return (codes, FACTORS[rows]) if "factors" in needs else (codes,)


def scored(name: str, *arguments: object) -> list[float]:
    record = METRICS[name]
    return list(score(record, *arguments, **(record.example or {})).values())


def numbers(result: object) -> list[float]:
    return [x for x in (result if isinstance(result, tuple) else (result,)) if isinstance(x, float)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_entry_is_documented_with_equation_reference_and_example(kind: str) -> None:
    for record in registry.records(kind):
        text = inspect.getdoc(record.call) or ""
        assert ">>>" in text, record.name
        assert "[" in text.split(">>>")[0], record.name
        assert record.references, record.name
        assert set(record.references) <= set(bibliography()), record.name
        registry.settings(record.call)


@pytest.mark.parametrize("name", METRICS)
def test_every_number_has_a_title_and_a_sentence_on_how_to_read_it(name: str) -> None:
    record = METRICS[name]
    assert set(record.needs) <= {"factors", "drawing", "posterior"}
    for output in record.outputs:
        assert output.title
        assert output.reading.endswith(".")
        assert output == registry.output(output.name)


def test_every_number_has_one_name() -> None:
    numbers = [output.name for record in METRICS.values() for output in record.outputs]
    assert len(numbers) == len(set(numbers))


@pytest.mark.parametrize("name", METRICS)
def test_scores_do_not_depend_on_the_order_of_variables(name: str) -> None:
    record = METRICS[name]
    # The noise of a sample depends on its position, so only averages are the same.
    tolerance = 0.15 if "posterior" in record.needs else record.facts.get("tolerance", 1e-6)
    first = scored(name, *supplied(record.needs, [0, 1, 2, 3] if "drawing" not in record.needs else [0, 1, 2]))
    second = scored(name, *supplied(record.needs, ORDER if "drawing" not in record.needs else [2, 0, 1]))
    assert second == pytest.approx(first, abs=tolerance)
    assert np.isfinite(first).all()


@pytest.mark.parametrize("name", [name for name, record in METRICS.items() if not record.needs])
def test_scores_without_factors_do_not_depend_on_the_order_of_rows(name: str) -> None:
    values = registry.record("metric", name).call
    assert values(CODES[::-1]) == pytest.approx(values(CODES), rel=1e-9)
    assert values(CODES[:, ORDER]) == pytest.approx(values(CODES), rel=1e-9)


@pytest.mark.parametrize("name", ["nmi_matrix", "r2_matrix"])
def test_matrices_follow_the_order_of_variables(name: str) -> None:
    matrix = getattr(metrics, name)
    np.testing.assert_allclose(matrix(CODES[:, ORDER], FACTORS), matrix(CODES, FACTORS)[ORDER], atol=1e-9)


@pytest.mark.parametrize("name", ["boosted_trees", "logistic_regression", "random_guess"])
def test_downstream_does_not_depend_on_the_order_of_variables(name: str) -> None:
    metric = getattr(metrics, name)
    assert metric(CODES[:, ORDER], FACTORS).accuracy == pytest.approx(metric(CODES, FACTORS).accuracy, abs=0.015)


@pytest.mark.parametrize("name", [r.name for r in registry.records("estimator") if "posterior" in r.needs])
def test_parts_of_the_rate_add_up_and_do_not_depend_on_the_order_of_variables(name: str) -> None:
    record = registry.record("estimator", name)
    mean, variance = CODES[:30], np.full((30, 4), 0.2)
    z = mean + 0.1
    settings = record.example or {}
    first = record.call(z, mean, variance, **settings)
    second = record.call(z[:, ORDER], mean[:, ORDER], variance[:, ORDER], **settings)
    assert second[:3] == pytest.approx(first[:3], rel=1e-9)
    rate = (first.log_own + 0.5 * (z**2 + np.log(2 * np.pi)).sum(axis=1)).mean()
    assert sum(first[:3]) == pytest.approx(rate, rel=1e-9)


@pytest.mark.parametrize("name", [*METRICS, "disintegration", "boosted_trees"])
def test_arguments_are_not_changed(name: str) -> None:
    codes, factors = CODES.copy(), FACTORS.copy()
    needs = METRICS[name].needs if name in METRICS else ("factors",)
    if "drawing" not in needs:
        call = METRICS[name].call if name in METRICS else getattr(metrics, name)
        call(*supplied(needs, [0, 1, 2, 3]))
    assert np.array_equal(codes, CODES)
    assert np.array_equal(factors, FACTORS)


SCALES = np.array([0.125, 4.0, 0.5, 64.0])
# Metrics that do not depend on the unit of a variable; the others weight variables by their spread.
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
        assert numbers(second) == pytest.approx(numbers(first), abs=1e-9)


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
