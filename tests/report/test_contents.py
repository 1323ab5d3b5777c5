import numpy as np
import polars
import pytest

from polarised._io import plain
from polarised.diagnosis import Diagnosis, diagnose
from polarised.regime import Encodings
from polarised.report.model_page import MOST_STEPS, _thinned, model
from polarised.report.study_page import study


def test_histograms_count_every_input(diagnosis: Diagnosis) -> None:
    for histogram in model(diagnosis)["histograms"]:
        assert {sum(histogram[kind]) for kind in ("mean", "sampled", "variance")} == {2000}


@pytest.mark.parametrize("centre", [0.0, 1e6, -3e5])
def test_a_variable_that_hardly_moves_has_a_histogram(centre: float) -> None:
    mean = np.full((50, 1), centre) + np.linspace(0, 1e-12, 50)[:, None]
    (histogram,) = model(diagnose(Encodings(mean, variance=np.zeros((50, 1)))))["histograms"]
    assert sum(histogram["mean"]) == 50


def test_correlations_are_those_of_numpy_and_constants_have_none(diagnosis: Diagnosis) -> None:
    expected = np.corrcoef(diagnosis.encodings.mean.T)
    np.testing.assert_allclose(model(diagnosis)["correlations"]["mean"], expected, atol=6e-5)
    constant = Encodings([[0.0, 1.0], [0.0, 2.0], [0.0, 4.0]], variance=np.ones((3, 2)))
    assert model(diagnose(constant))["correlations"]["mean"] == [[None, None], [None, 1.0]]


def test_evidence_is_embedded_without_rounding(diagnosis: Diagnosis) -> None:
    table = model(diagnosis)["variables"]
    at = table["columns"].index("ratio_mean")
    assert [row[at] for row in table["rows"]] == diagnosis.regime.statistics.ratio_mean.tolist()


def test_long_histories_are_thinned_to_their_ends(diagnosis: Diagnosis) -> None:
    thinned = _thinned(polars.DataFrame({"step": range(5000)}))
    assert len(thinned) == MOST_STEPS
    assert thinned["step"][0] == 0
    assert thinned["step"][-1] == 4999


def test_plain_numbers_of_every_kind() -> None:
    assert plain([np.int64(3), np.float32(np.inf), -np.inf, None, {1}, b"x"]) == [3, "inf", "-inf", None, [1], "b'x'"]
    assert plain(np.array([[1.0, np.nan]])) == [[1.0, "nan"]]


def test_a_study_becomes_a_matrix_of_runs_and_measurements(table: polars.DataFrame) -> None:
    page = study(table)
    assert len(page["runs"]) == 36
    assert len(page["values"][0]) == len(page["measurements"]) == 3 + 14 * 2
    assert all(value is not None for row in page["values"] for value in row)


def test_only_relative_links_lead_out_of_a_study(table: polars.DataFrame) -> None:
    runs = [run["run"] for run in study(table)["runs"]]
    links = {runs[0]: "a/page.html", runs[1]: "javascript:alert(1)", runs[2]: "https://elsewhere.org"}
    page = study(table, links=links)
    assert [run["link"] for run in page["runs"][:4]] == ["a/page.html", None, None, None]
