"""The page in a real browser: no network request, no error, and every control works."""

import csv
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

from polarised import registry
from polarised.diagnosis import Diagnosis, diagnose
from polarised.regime import Encodings
from polarised.report import write_report
from report.browser import Visit, open_browser
from report.examples import VERDICTS, example, tidy
from study.watched import TYPES, made_up

HOSTILE = "</script><script>window.harmed = 1</script><img src=x onerror='window.harmed = 2'>\u2028"


@pytest.fixture(scope="module")
def diagnosis() -> Diagnosis:
    return example()


@pytest.fixture(scope="module")
def visit() -> Iterator[Callable[..., Visit]]:
    with open_browser() as visit:
        yield visit


@pytest.fixture(scope="module")
def page_file(diagnosis: Diagnosis, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(diagnosis, tmp_path_factory.mktemp("page") / "page.html")


def types_in(page: Any) -> tuple[str, ...]:
    rows = page.locator("#variables-table tbody tr").evaluate_all(
        "rows => rows.map(r => [Number(r.cells[0].textContent), r.querySelector('.badge').textContent])"
    )
    return tuple(kind for _, kind in sorted(rows))


def move(page: Any, selector: str, value: float) -> None:
    page.locator(selector).evaluate("(e, v) => { e.value = v; e.dispatchEvent(new Event('input')) }", str(value))


@pytest.mark.parametrize("look", [{}, {"color_scheme": "dark"}, {"viewport": {"width": 360, "height": 740}}])
def test_the_page_loads_without_errors_and_fits_its_window(
    visit: Callable[..., Visit], page_file: Path, look: dict[str, Any]
) -> None:
    with visit(page_file, **look) as page:
        assert page.locator("h1").text_content() == "5 of 10 latent variables are active, 1 mixed, 4 passive."
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.locator("main section:visible").count() == 10
        assert not page.locator("svg text", has_text="NaN").count()
        assert page_file.stat().st_size < 3e6


def test_page_prints_on_paper_in_light(visit: Callable[..., Visit], page_file: Path) -> None:
    with visit(page_file, color_scheme="dark") as page:
        page.emulate_media(media="print")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.pdf(format="A4")[:5] == b"%PDF-"


@pytest.mark.parametrize("rule", ["used", "relative", "standard"])
def test_slider_types_as_the_library_does(
    visit: Callable[..., Visit], tmp_path: Path, rule: str, diagnosis: Diagnosis
) -> None:
    # Variables on purpose near every threshold, some of them all noise, some shifted.
    generator = np.random.default_rng(0)
    levels = np.array([0.005, 0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 0.95, 1.0, 1.1, 1.3, 0.05])
    spread = np.array([0.001, 0.02, 0.05, 0.1, 0.3, 0.1, 0.3, 0.01, 0.0, 0.05, 0.5, 0.01])
    variance = np.abs(levels + spread * generator.standard_normal((400, 12)))
    mean = generator.standard_normal((400, 12)) * np.array([1, 1, 0.2, 1, 1, 0.3, 0.3, 0.1, 0.0, 0.25, 1, 0.02])
    near = replace_encodings(diagnosis, Encodings(mean, variance=variance))
    with visit(write_report(near, tmp_path / "page.html")) as page:
        page.locator(f"#rule button[value={rule}]").click()
        seen = set()
        for alpha in (0.005, 0.05, 0.1, 0.105, 0.2, 0.3, 0.45, 0.495):
            move(page, "#alpha", alpha)
            expected = near.regime.at(alpha, rule=rule).types  # type: ignore[arg-type]
            assert types_in(page) == expected
            seen.add(expected)
        assert len(seen) > 3
        assert "change" in (page.locator("#flips").text_content() or "")
        page.locator("#as-made").click()
        assert types_in(page) == near.regime.types


def test_keyboard_moves_alpha_and_walks_the_matrix(visit: Callable[..., Visit], page_file: Path) -> None:
    with visit(page_file) as page:
        page.locator("#alpha").focus()
        page.keyboard.press("ArrowRight")
        assert page.locator("#alpha-value").text_content() == "0.105"
        page.locator("#matrix-mean svg").focus()
        page.keyboard.press("ArrowRight")
        assert "correlation" in (page.locator("#mean-readout").text_content() or "")


def test_table_sorts_and_filters(visit: Callable[..., Visit], page_file: Path, diagnosis: Diagnosis) -> None:
    with visit(page_file) as page:

        def first() -> int:
            return int(page.locator("#variables-table tbody tr td").first.text_content() or -1)

        head = page.locator("#variables-table th button[data-key=kl]")
        head.click()
        assert first() == int(np.argmax(diagnosis.regime.statistics.kl))
        assert page.locator("#variables-table th[aria-sort=descending]").count() == 1
        page.locator("#variables-table th button[data-key=kl]").click()
        assert first() == int(np.argmin(diagnosis.regime.statistics.kl))
        page.locator("#type-filter button[value=active]").click()
        assert page.locator("#variables-table tbody tr").count() == 5
        assert page.locator("#shown").text_content() == "5 of 10 shown"


def test_walks_move_one_by_one_and_together(visit: Callable[..., Visit], page_file: Path) -> None:
    with visit(page_file) as page:
        frame = page.locator(".walk").first.locator("> .frame")
        before = frame.evaluate("e => getComputedStyle(e).backgroundPosition")
        move(page, ".walk:first-child input", 0)
        assert frame.evaluate("e => getComputedStyle(e).backgroundPosition") != before
        assert page.locator(".walk .value").first.text_content() == "z = −2"
        move(page, "#all-walks", 10)
        assert set(page.locator(".walk .value").all_text_contents()) == {"z = 2"}
        page.locator("#walk-view button[value=films]").click()
        assert page.locator(".film").first.is_visible()


def test_every_table_downloads(visit: Callable[..., Visit], page_file: Path, diagnosis: Diagnosis) -> None:
    with visit(page_file) as page:
        tables = {}
        for button in page.locator("#downloads button").all():
            with page.expect_download() as waiting:
                button.click()
            text = Path(waiting.value.path()).read_text(encoding="utf-8")
            tables[button.get_attribute("data-table")] = list(csv.DictReader(io.StringIO(text)))
        assert len(tables["scores"]) == len(diagnosis.scores)
        assert [row["type"] for row in tables["variables"]] == list(diagnosis.regime.types)
        assert {"training", "downstream", "dynamics", "histograms", "correlations_mean"} <= tables.keys()
        np.testing.assert_allclose(float(tables["correlations_mean"][0]["0"]), 1.0)


def test_theme_button_turns_the_page(visit: Callable[..., Visit], page_file: Path) -> None:
    with visit(page_file) as page:
        ground = "getComputedStyle(document.body).backgroundColor"
        light = page.evaluate(ground)
        page.locator("#theme").click()
        assert page.evaluate(ground) != light


def test_texts_of_users_stay_texts(visit: Callable[..., Visit], diagnosis: Diagnosis, tmp_path: Path) -> None:
    assert diagnosis.downstream is not None
    hostile = replace(
        diagnosis,
        name=HOSTILE,
        headline=HOSTILE,
        advice=(HOSTILE,),
        scores=diagnosis.scores.with_columns(metric=polars.lit(HOSTILE)),
        downstream=diagnosis.downstream.with_columns(factor=polars.lit("=HYPERLINK(1)")),
        provenance={HOSTILE: HOSTILE, "command": HOSTILE, "nested": {HOSTILE: [HOSTILE]}},
    )
    path = write_report([hostile, hostile], tmp_path / "page.html", title=HOSTILE)
    with visit(path) as page:
        assert page.evaluate("window.harmed") is None
        assert page.locator("#headline").text_content() == HOSTILE
        assert page.locator("img").count() == 0
        with page.expect_download() as waiting:
            page.locator("#downloads button[data-table=downstream]").click()
        rows = list(csv.DictReader(io.StringIO(Path(waiting.value.path()).read_text(encoding="utf-8"))))
        assert {row["factor"] for row in rows} == {"'=HYPERLINK(1)"}
        assert "/" not in waiting.value.suggested_filename
    data = path.read_text(encoding="utf-8").split('id="data">')[1].split("</script>")[0]
    assert json.loads(data)["models"][0]["name"] == HOSTILE


def test_comparison_switches_models(visit: Callable[..., Visit], diagnosis: Diagnosis, tmp_path: Path) -> None:
    other = example(name="other", seed=1, truth="apm")
    with visit(write_report([diagnosis, other], tmp_path / "page.html")) as page:
        assert page.locator("#compare-table tbody tr").count() == 2
        page.locator("#picker button", has_text="other").click()
        assert page.locator("#variables-table tbody tr").count() == 3
        assert page.locator("#headline").text_content() == other.headline


@pytest.mark.parametrize("look", [{"color_scheme": "dark"}, {"viewport": {"width": 360, "height": 740}}])
def test_comparison_tells_models_with_long_names_apart(
    visit: Callable[..., Visit], tmp_path: Path, look: dict[str, Any]
) -> None:
    models = [example(name=f"BetaVAE-beta8-dsprites-seed{seed}-{seed}f0d09b7c92", truth="apm") for seed in range(3)]
    with visit(write_report(models, tmp_path / "page.html"), **look) as page:
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        labels = page.locator("#compare-scores svg").first.locator("text.strong").all_text_contents()
        assert [label[:6] for label in labels] == ["…seed0", "…seed1", "…seed2"]


def bars(page: Any, panel: str) -> dict[str, float]:
    """The lengths of a panel's bars by the text beside them."""
    groups = page.locator(f"{panel} g[data-tip]").evaluate_all(
        "groups => groups.map(g => [g.querySelector('text').textContent, g.querySelector('rect').getBBox().width])"
    )
    return {text: float(width) for text, width in groups}


def test_infinite_information_is_drawn_longer_than_any_other(
    visit: Callable[..., Visit], diagnosis: Diagnosis, tmp_path: Path
) -> None:
    rows = [("mean", float("inf")), ("sampled", 0.002)]
    scores = polars.DataFrame(
        [("total_correlation", representation, "full", value) for representation, value in rows],
        schema=diagnosis.scores.schema,
        orient="row",
    )
    tied = replace(diagnosis, scores=scores)
    with visit(write_report([tied, diagnosis], tmp_path / "page.html")) as page:
        drawn = bars(page, "#scores-charts")
        assert drawn["0.002"] < 0.01 * drawn["∞"]
        compared = bars(page, "#compare-scores .panel:first-child")
        assert max(length for text, length in compared.items() if text != "∞") < 0.7 * compared["∞"]


def test_numbers_that_mean_nothing_are_not_shown(
    visit: Callable[..., Visit], page_file: Path, diagnosis: Diagnosis
) -> None:
    sure = replace(diagnosis.regime, distance_errors=np.full(10, 12_345.0))
    page_of_the_sure = write_report(replace(diagnosis, regime=sure), page_file.with_name("sure.html"))
    with visit(page_of_the_sure) as page:
        cells = page.locator("#variables-table tbody tr").evaluate_all(
            "rows => rows.map(r => [r.querySelector('.badge').textContent, ...[...r.cells].map(c => c.textContent)])"
        )
        assert {cells_of[13] == "–" for cells_of in cells if cells_of[0] == "passive"} == {True}
        assert {cells_of[13] == "–" for cells_of in cells if cells_of[0] != "passive"} == {False}
        assert {cells_of[14] for cells_of in cells} == {"> 999"}
        note = page.locator("[data-metric=mutual_information] .note").text_content()
        assert note is not None
        assert note.startswith(registry.output("mutual_information").reading)
        assert note.endswith("Here independent variables show about 0.090.")


def test_many_variables_are_grouped_and_found_by_number(visit: Callable[..., Visit], tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    mean = 0.01 * generator.normal(size=(400, 300))
    mean[:, :20] = generator.normal(size=(400, 20))
    variance = np.full((400, 300), 0.99)
    variance[:, :20] = 0.02
    own = diagnose(Encodings(mean, variance=variance), name="wide")
    own = replace(own, groups={"first": tuple(range(100)), "second": tuple(range(100, 300))})
    with visit(write_report(own, tmp_path / "page.html")) as page:
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        kinds = page.locator("#kinds-table tbody tr").all_text_contents()
        assert len(kinds) == 2
        assert "0–19" in kinds[0]
        assert "20–299" in kinds[1]
        assert page.locator("#variables-table tbody tr").count() == 100
        page.locator("#more").click()
        assert page.locator("#variables-table tbody tr").count() == 200
        page.locator("#kinds-table button").first.click()
        assert page.locator("#variables-table tbody tr").count() == 20
        page.locator("#go-to").fill("250")
        page.locator("#go-to").blur()
        assert (page.locator("#variables-table tr.target td").first.text_content() or "") == "250"
        panels = page.locator("#groups-panels .panel").all_text_contents()
        assert "100 variables (0 to 99)" in panels[0]
        assert "200 passive" in panels[1]
        page.locator("#groups-panels button").nth(1).click()
        assert "of second" in (page.locator("#shown").text_content() or "")
        assert page.locator("#variables-table .badge.active").count() == 0
        # What is wider than its frame says so.
        assert page.locator("#variables .scroll-hint:visible").count() >= 1


def test_study_page_filters_and_links(visit: Callable[..., Visit], tmp_path: Path) -> None:
    table = tidy()
    run = table["run"][0]
    links = {run: "runs/a.html", table["run"][-1]: "javascript:window.harmed=1"}
    page_file = write_report(table, tmp_path / "page.html", title=HOSTILE, verdicts=VERDICTS, links=links)
    with visit(page_file) as page:
        assert page.locator("#claims-table tbody tr").count() == 3
        assert page.locator("#types-charts .panel").count() == 2
        page.locator("button[data-filter=method][value=FactorVAE]").click()
        assert page.locator("#chosen").text_content() == "18 of 36 runs"
        assert page.locator("#metrics-charts .panel").count() == 1
        page.locator("#metric").select_option("effective_rank")
        assert "Effective rank" in (page.locator("#means-cut").text_content() or "")
        page.locator("#metric").select_option("accuracy")
        page.locator("#subset").select_option("*")
        assert page.locator("#metrics-charts svg").count() == 2
        assert page.locator("#metrics-charts svg path.line").count() == 10
        assert page.locator("#runs-table a").get_attribute("href") == "runs/a.html"
        with page.expect_download() as waiting:
            page.locator("#downloads button[data-table=runs]").click()
        rows = list(csv.DictReader(io.StringIO(Path(waiting.value.path()).read_text(encoding="utf-8"))))
        assert len(rows) == len(table.filter(polars.col("method") == "BetaVAE"))


@pytest.fixture(scope="module")
def watched_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = tidy(seeds=2)
    runs = [run for run in table["run"].unique(maintain_order=True) if run.startswith("BetaVAE-8")]
    timelines = {run: made_up(seed=i) for i, run in enumerate(runs)}
    return write_report(table, tmp_path_factory.mktemp("watched") / "page.html", timelines=timelines)


def downloaded(page: Any, label: str) -> list[dict[str, str]]:
    with page.expect_download() as waiting:
        page.locator(f"#learning-downloads button[data-table='{label}']").click()
    return list(csv.DictReader(io.StringIO(Path(waiting.value.path()).read_text(encoding="utf-8"))))


@pytest.mark.parametrize("look", [{}, {"color_scheme": "dark"}, {"viewport": {"width": 360, "height": 740}}])
def test_learning_is_drawn_and_its_numbers_are_the_timelines(
    visit: Callable[..., Visit], watched_file: Path, look: dict[str, Any]
) -> None:
    timeline = made_up(seed=0)
    with visit(watched_file, **look) as page:
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.locator("#counts-chart [data-tip]").count() == len(TYPES)
        assert page.locator("#partner-charts svg path.line").count() == len(TYPES) - 1
        assert page.locator("#learning svg text", has_text="NaN").count() == 0
        rows = page.locator("#learning-table tbody tr").evaluate_all("rows => rows.map(r => r.cells[2].textContent)")
        assert [int(row) for row in rows] == timeline.correlated_pairs().tolist()
        pairs = [row for row in downloaded(page, "correlations over training") if row["run"] == "BetaVAE-8-0"]
        assert len(pairs) == len(timeline) * 28
        for row in pairs[::97]:
            seen = timeline.correlations[timeline.steps.index(int(row["step"])), int(row["variable"]), int(row["with"])]
            assert float(row["correlation"]) == pytest.approx(seen, abs=5.01e-4)
        assert {row["type"] for row in downloaded(page, "over training")} == {"active", "mixed", "passive"}


def test_learning_follows_the_filters(visit: Callable[..., Visit], watched_file: Path) -> None:
    with visit(watched_file) as page:
        assert page.locator("#watched option").count() == 2
        assert "mean of the 2 chosen runs" in (page.locator("#shares-note").text_content() or "")
        page.locator("button[data-filter=seed][value='0']").click()
        assert page.locator("#watched-name").text_content() == "BetaVAE-8-1"
        assert {row["run"] for row in downloaded(page, "over training")} == {"BetaVAE-8-1"}
        page.locator("#partner").select_option("4")
        assert page.locator("#partner-title").text_content() == "Correlations of variable 4 (passive) with the others"
        page.locator("button[data-filter=method][value=BetaVAE]").click()
        assert not page.locator("#learning-charts").is_visible()
        assert "No chosen run has snapshots" in (page.locator("#watched-name").text_content() or "")
    with visit(write_report(tidy(), watched_file.with_name("unwatched.html"))) as page:
        assert not page.locator("#learning").is_visible()


def test_arrow_keys_show_the_values_of_a_chart(visit: Callable[..., Visit], watched_file: Path) -> None:
    timeline = made_up(seed=0)
    with visit(watched_file) as page:

        def told(chart: str, *keys: str) -> str:
            page.locator(f"{chart} svg").first.focus()
            for key in keys:
                page.keyboard.press(key)
            return str(page.locator("#tip").text_content())

        assert told("#counts-chart", "ArrowRight").startswith("variable 0 (active)")
        assert told("#counts-chart", "ArrowRight").startswith("variable 1 (passive)")
        assert told("#counts-chart", "ArrowLeft").startswith("variable 0 (active)")
        assert told("#types-charts", "ArrowRight").startswith("strength 1: ")
        assert told("#learning-kl", "End").startswith(f"step {timeline.steps[-1]}\nvariable 0 (active): 1.9")
        page.locator("#theme").focus()
        assert page.locator("#tip").is_hidden()


def test_many_seeds_are_chosen_from_a_list(visit: Callable[..., Visit], tmp_path: Path) -> None:
    with visit(write_report(tidy(seeds=16), tmp_path / "page.html")) as page:
        page.locator("select[data-filter=seed]").select_option("3")
        assert page.locator("#chosen").text_content() == "12 of 192 runs"
        page.locator("select[data-filter=seed]").select_option("")
        assert page.locator("#chosen").text_content() == "192 of 192 runs"


def replace_encodings(diagnosis: Diagnosis, encodings: Encodings) -> Diagnosis:
    from polarised.diagnosis import diagnose

    return diagnose(encodings, name=diagnosis.name)
