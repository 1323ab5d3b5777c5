"""Untrusted names and notes on pages, in notebooks and on the terminal are shown as plain text."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars
import pytest
from typer.testing import CliRunner

import polarised as po
from polarised._io.text import parse_json
from polarised.cli import app
from polarised.cli.look import _show_scores
from polarised.cli.screen import console, show_diagnosis, table
from polarised.errors import DataError
from polarised.report import write_report
from polarised.report.study_page import _title
from polarised.study.grid import load_study
from polarised.study.runner import enrol
from report.examples import example, tidy

HOSTILE = (
    "</script><script>harm()</script>--><!--<img src=x onerror=harm()>\"'`&amp;\u202e\u2066\x1b]0;owned\x07\x1b[2J[red]"
)
ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Elements(HTMLParser):
    """The elements of a page with their attributes, and the text between them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.comments: list[str] = []
        self.words = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def handle_data(self, data: str) -> None:
        self.words += data

    def shape(self) -> list[tuple[str, list[str]]]:
        return [(tag, sorted(attributes)) for tag, attributes in self.found]


def assert_inert(hostile: str, harmless: str) -> None:
    """Check that two pages that differ in untrusted text have the same elements, and that no text is executed."""
    spoilt, plain = Elements(hostile), Elements(harmless)
    assert spoilt.shape() == plain.shape()
    assert spoilt.comments == plain.comments
    assert "harm()" in spoilt.words
    assert not ACTING.search(hostile)


def diagnosis_saying(words: str) -> po.Diagnosis:
    diagnosis = example()
    assert diagnosis.downstream is not None
    return replace(
        diagnosis,
        name=words,
        headline=words,
        advice=(words,),
        reading=words,
        groups={words: tuple(range(10))},
        scores=diagnosis.scores.with_columns(metric=polars.lit(words)),
        downstream=diagnosis.downstream.with_columns(factor=polars.lit(words)),
        provenance={words: words, "nested": {words: [words]}},
    )


def test_the_page_of_a_diagnosis(tmp_path: Path) -> None:
    pages = [
        write_report([diagnosis_saying(words)] * 2, tmp_path / "page.html", title=words).read_text(encoding="utf-8")
        for words in (HOSTILE, "words")
    ]
    assert_inert(*pages)


def test_the_page_of_a_study(tmp_path: Path) -> None:
    pages = []
    for words in (HOSTILE, "words"):
        columns = ("run", "method", "dataset", "metric")
        table = tidy(seeds=2).with_columns(*((polars.lit(words) + polars.col(name)).alias(name) for name in columns))
        verdicts = [{"claim": words, "verdict": "confirmed", "evidence": words, "item": words}]
        links = {table["run"][0]: words}
        page = write_report(table, tmp_path / "page.html", title=words, verdicts=verdicts, links=links)
        pages.append(page.read_text(encoding="utf-8"))
    assert_inert(*pages)


def test_the_page_that_explores() -> None:
    pytest.importorskip("torch", reason="exploring decodes; install polarised[train]")
    from report.test_explore import small_exploration

    exploration = small_exploration()
    assert_inert(*(replace(exploration, name=words, note=words).page() for words in (HOSTILE, "words")))


def test_a_notebook() -> None:
    assert_inert(*(diagnosis_saying(words)._repr_html_() for words in (HOSTILE, "words")))


def test_an_interpreter() -> None:
    diagnosis = diagnosis_saying(HOSTILE)
    assert "harm()" in str(diagnosis)
    assert not ACTING.search(str(diagnosis) + repr(diagnosis))


def test_pages_without_hostile_text_have_no_replacement_character(tmp_path: Path) -> None:
    page = write_report(diagnosis_saying("words"), tmp_path / "page.html").read_text(encoding="utf-8")
    assert "\N{REPLACEMENT CHARACTER}" not in page


def test_a_diagnosis_and_its_scores_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    diagnosis, screen = diagnosis_saying(HOSTILE), console()
    show_diagnosis(diagnosis, screen)
    _show_scores([{"metric": HOSTILE, "representation": "mean", "value": 0.5, "reading": HOSTILE}], 100, screen)
    # Also if a caller forgot to escape an untrusted text.
    screen.print(HOSTILE, table(HOSTILE, (HOSTILE,), [(HOSTILE,)], note=HOSTILE))
    said = capsys.readouterr().out
    assert said.count("owned") == 10
    assert not ACTING.search(said)


def test_the_reasons_of_a_study_on_the_terminal(tmp_path: Path) -> None:
    from polarised.study.grid import load_study
    from polarised.study.runner import enrol
    from polarised.study.storage import record_failure
    from study.workshop import study_config, write_study

    study = load_study(write_study(tmp_path / "tiny.yaml", study_config(runs=1)))
    enrol(study, tmp_path / "runs")
    directory = tmp_path / "runs" / study.runs[0].name
    directory.mkdir()
    record_failure(directory, f"OSError: {HOSTILE}\n")
    for command in ("status", "doctor"):
        told = CliRunner().invoke(app, ["study", command, str(tmp_path / "runs")], env={"COLUMNS": "400"})
        assert not ACTING.search(told.stdout + told.stderr), command
    assert "harm()" in CliRunner().invoke(app, ["study", "status", str(tmp_path / "runs")]).stdout


def test_the_output_of_a_worker_on_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    from polarised.study.executors import Event
    from polarised.study.grid import load_study
    from polarised.study.runner import Progress, _tell_failure
    from study.workshop import study_config, write_study

    run = load_study(write_study(tmp_path / "tiny.yaml", study_config(runs=1))).runs[0]
    _tell_failure(Progress(1, latest=Event("failed", run, reason=HOSTILE, host=HOSTILE)), Console(highlight=False))
    said = capsys.readouterr().out
    assert said.count("harm()") == 4
    assert not ACTING.search(said)


def test_progress_bars_on_the_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    from rich.progress import Progress, TextColumn
    from rich.text import Text

    from polarised._io.terminal import console as made

    for columns in ((TextColumn("{task.description}", markup=False),), (TextColumn("{task.description}"),)):
        with Progress(*columns, console=made(stderr=True)) as bars:
            bars.add_task(HOSTILE, total=1)
    made(stderr=True).print(Text(HOSTILE), soft_wrap=True)
    said = capsys.readouterr().err
    assert said.count("owned") >= 3
    assert not ACTING.search(said)


def test_downloads_and_terms_with_names_of_others(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="training draws a bar; install polarised[train]")
    from polarised.cli.datasets import _progress
    from polarised.training.loop import reporting

    monkeypatch.setenv("COLUMNS", "400")
    with _progress(quiet=False) as progress:
        assert progress is not None
        progress(HOSTILE + "[/red]", 1, 2)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with reporting(0, 2, visible=True) as report:
        report(2, {HOSTILE + "[/red]": 1.0})
    said = capsys.readouterr().err
    # Output of rich may move the cursor; untrusted text may not.
    assert "owned" in said
    assert "\x1b]0;owned" not in said
    assert "\x1b[2J" not in said
    assert "[/red]" in said


@pytest.mark.parametrize("state", ["failed", "started"])
def test_a_run_whose_name_is_markup(state: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from polarised._io.terminal import console as made
    from polarised.study.executors import Event
    from polarised.study.runner import Progress, _tell_failure

    run: Any = SimpleNamespace(name=f"[/red]{HOSTILE}")
    _tell_failure(Progress(1, latest=Event(state, run, reason="", host="a")), made(stderr=True))
    said = capsys.readouterr().err
    assert said.count("[/red]") == 1
    assert not ACTING.search(said)


def test_consoles_are_made_in_one_place() -> None:
    package = Path(po.__file__).parent
    # Only `_io.terminal` creates one, of its own class.
    made = [path for path in package.rglob("*.py") if re.search(r"\bConsole\(", path.read_text(encoding="utf-8"))]
    assert [path.relative_to(package).as_posix() for path in made] == []


@pytest.mark.parametrize("text", [rb'"\ud800"', rb'{"\uDFFF": 1}', b'"\xed\xa0\x80"', '"\\ud83d"'])
def test_half_a_character_is_refused(text: str | bytes) -> None:
    with pytest.raises(DataError, match="expected JSON in a file"):
        parse_json(text, where="a file")
    assert parse_json(rb'"\ud83d\ude00"', where="a file") == "\N{GRINNING FACE}"


@pytest.mark.parametrize(
    ("label", "value"),
    [("seed", "a"), ("seed", 10**400), ("seed", -(2**63)), ("seed", 1.5), ("strength", 10**400), ("method", "\ud800")],
)
def test_labels_that_no_table_holds_are_refused(tmp_path: Path, label: str, value: object) -> None:
    study = load_study("be_more_active", scale="smoke", settings=["axes.seed=1"])
    enrol(study, tmp_path)
    known = json.loads((tmp_path / "study.json").read_text())
    for one in known["runs"].values():
        one["labels"][label] = value
    (tmp_path / "study.json").write_text(json.dumps(known))
    for command in ("status", "collect", "verify"):
        ended = CliRunner().invoke(app, ["study", command, str(tmp_path)])
        assert ended.exit_code == 1, command
        assert "expected labels and config" in ended.stderr or "expected JSON" in ended.stderr, ended.stderr


def test_notes_in_other_encodings_are_refused(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_bytes("# résumé".encode("utf-16"))
    with pytest.raises(DataError, match="expected UTF-8 text"):
        _title(tmp_path)
