import base64
import json
from dataclasses import replace
from typing import Any

import numpy as np
import polars
import pytest

from polarised._io import plain
from polarised.diagnosis import Diagnosis, diagnose
from polarised.regime import Encodings, classify
from polarised.regime.advice import headline
from polarised.regime.classify import RULES, other_rules
from polarised.regime.evidence import Evidence
from polarised.report.model_page import ALPHA, MOST_HISTOGRAMS, MOST_STEPS, _thinned, model, packed
from polarised.report.study_page import study


def test_histograms_count_every_input(diagnosis: Diagnosis) -> None:
    for histogram in model(diagnosis)["histograms"]:
        assert {sum(histogram[kind]) for kind in ("mean", "sampled", "variance")} == {2000}


@pytest.mark.parametrize("centre", [0.0, 1e6, -3e5])
def test_a_nearly_constant_variable_has_a_histogram(centre: float) -> None:
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


def many(latents: int, *, rows: int = 300) -> Encodings:
    """A twentieth active, a twentieth on for some inputs, the rest passive."""
    generator, used = np.random.default_rng(0), latents // 20
    mean = 0.02 * generator.normal(size=(rows, latents)).astype(np.float32)
    variance = np.full((rows, latents), 0.98, dtype=np.float32)
    mean[:, : 2 * used] = generator.normal(size=(rows, 2 * used))
    variance[:, :used] = 0.02
    on = generator.random((rows, used)) < 0.4
    mean[:, used : 2 * used] *= on
    variance[:, used : 2 * used] = np.where(on, 0.05, 0.97)
    return Encodings(mean, variance=variance)


def of_many(diagnosis: Diagnosis, latents: int) -> Diagnosis:
    encodings = many(latents)
    regime = classify(encodings)
    told = {"headline": headline(regime), "advice": (), "other_rules": other_rules(regime)}
    bare = {"pictures": None, "snapshots": None, "decoder_use": None, "sensitivity": None}
    return replace(diagnosis, encodings=encodings, regime=regime, **told, **bare)


def test_a_thousand_variables_are_packed_compactly(diagnosis: Diagnosis) -> None:
    own = of_many(diagnosis, 1500)
    page = model(own)
    assert len(json.dumps(page)) < 600_000
    table = page["variables"]
    rates = np.frombuffer(base64.b64decode(table["packed"]["kl"]["numbers"]), "<f4")
    np.testing.assert_array_equal(rates, own.regime.statistics.kl.astype(np.float32))
    why = table["packed"]["why"]
    places = np.frombuffer(base64.b64decode(why["index"]), "<u2")
    assert tuple(why["words"][place] for place in places) == own.regime.why
    # Some histograms of every type, mostly of the most informative.
    shown = {own.regime.types[histogram["variable"]] for histogram in page["histograms"]}
    assert shown == {"active", "mixed", "passive"}
    assert len(page["histograms"]) <= MOST_HISTOGRAMS


@pytest.mark.slow
def test_the_page_of_16384_variables_stays_under_five_megabytes(diagnosis: Diagnosis) -> None:
    assert len(json.dumps(model(of_many(diagnosis, 16_384)))) < 4_000_000


def test_the_evidence_of_mixed_variables_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    states = Evidence.two_states

    def counting(self: Evidence) -> Any:
        asked.append(1)
        return states(self)

    monkeypatch.setattr(Evidence, "two_states", counting)
    regime = classify(many(200))
    before = len(asked)
    assert regime.types.count("mixed") == 10
    assert len(regime.why) == 200
    assert len(asked) - before <= 1


def test_types_over_the_slider_are_kept_as_changes(diagnosis: Diagnosis) -> None:
    for rule, own in zip(RULES, model(diagnosis)["rules"], strict=True):
        letters = list(own["start"])
        for place in range(ALPHA["places"]):
            for at, letter, changed in own["changes"]:
                if at == place:
                    for j in changed:
                        letters[j] = letter
            alpha = round((place + 1) * ALPHA["step"], 3)
            assert letters == [kind[0] for kind in diagnosis.regime.types_at(alpha, rule=rule)]


def test_flags_and_unknown_values_survive_packing() -> None:
    frame = polars.DataFrame({"doubtful": [True, False, True], "kl": [0.5, None, float("inf")]})
    found = packed(frame)["packed"]
    assert found["doubtful"]["flags"] is True
    flags = [found["doubtful"]["words"][i] for i in np.frombuffer(base64.b64decode(found["doubtful"]["index"]), "<u2")]
    assert flags == ["true", "false", "true"]
    np.testing.assert_array_equal(np.frombuffer(base64.b64decode(found["kl"]["numbers"]), "<f4"), [0.5, np.nan, np.inf])


def test_the_page_of_a_study_starts_with_its_verdicts(table: polars.DataFrame) -> None:
    law = {"claim": "a law", "verdict": "confirmed", "evidence": "", "method": "laws on arrays"}
    told = [{"claim": "c", "verdict": word, "evidence": ""} for word in ("confirmed", "confirmed", "refuted")]
    sentence = "2 confirmed, 1 refuted, 0 undecided, 0 not testable"
    assert study(table, verdicts=told)["headline"] == f"Of 3 claims: {sentence}."
    assert study(table, verdicts=[*told, law])["headline"].startswith(f"Of 3 claims: {sentence}; of the laws")
    assert study(table)["headline"] == ""
