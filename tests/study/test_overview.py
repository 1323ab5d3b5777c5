import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from polarised.study.executors import Event
from polarised.study.grid import load_study
from polarised.study.runner import Progress, _line, _note, _tell_failure
from study.workshop import study_config, write_study


def test_brackets_in_a_reason_are_printed_verbatim(tmp_path: Path) -> None:
    run = load_study(write_study(tmp_path / "tiny.yaml", study_config(runs=1))).runs[0]
    said = io.StringIO()
    for reason in ("OSError: cannot open [/data/x]", "ValueError: E[r] is [red]", "a folder named :cat:"):
        screen = Console(file=said, width=200, highlight=False, emoji=False)
        _tell_failure(Progress(total=1, latest=Event("failed", run, reason)), screen)
        assert said.getvalue().splitlines()[-1] == f"failed {run.name}: {reason}"


def progress(**numbers: Any) -> Progress:
    return Progress(**{"total": 1500, "done": 700, "seconds": 9100.0, "steps": 2_100_000, **numbers})


def test_the_line_of_progress_has_the_remaining_time() -> None:
    said = _line(progress(steps_wanted=4_500_000, failed=2, running={Path("a"): 0, Path("b"): 0}), 4200.0, 200)
    assert Text.from_markup(said).plain == (
        "700 of 1500 done · 2 running · 2 failed · 13 s per run · 600 runs per hour · 500 steps/s · 1 h 20 min left · "
        "1 h 10 min so far"
    )


def test_runs_that_settled_early_shorten_the_rest() -> None:
    # 700 of 1500 runs took a tenth of the 2,000 steps that each may take, and so will the others.
    numbers = {"steps": 140_000, "steps_spared": 1_260_000, "steps_wanted": 3_000_000}
    said = _line(progress(**numbers), 1400.0, 200)
    assert "100 steps/s" in said
    assert "27 min left" in said


def test_a_resumed_run_counts_only_the_steps_of_this_call(tmp_path: Path) -> None:
    run = load_study(write_study(tmp_path / "tiny.yaml", study_config(runs=1, steps=100))).runs[0]
    found = Progress(total=3, steps_wanted=300)
    # The first had ended and was only evaluated, the second took 8 of the 90 steps that it had left.
    for start, steps, expected in ((18, 18, (0, 82)), (10, 18, (8, 164))):
        _note(found, Event("done", run, steps=steps), tmp_path, start)
        assert (found.steps, found.steps_spared) == expected
    # Of a run from a folder of earlier code, the steps are not known.
    _note(found, Event("done", run), tmp_path, 10)
    assert (found.steps, found.steps_spared) == (98, 164)


def test_runs_that_were_only_evaluated_do_not_hide_the_rest() -> None:
    only = Progress(total=3, done=1, steps_wanted=300, steps_spared=82)
    assert only.steps_left(18) == 200


def test_nothing_is_left_when_the_rest_failed() -> None:
    said = _line(progress(total=2, done=1, failed=1, steps=60, steps_wanted=60), 30.0, 200)
    assert "left" not in said
    assert "[red]1 failed[/]" in said


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120])
def test_the_line_of_progress_fits_the_width(width: int) -> None:
    said = Text.from_markup(_line(progress(steps_wanted=4_500_000, failed=2, running={Path("a"): 0}), 4200.0, width))
    assert said.cell_len <= width
    assert said.plain.startswith("700 of 1500 done")
    assert "2 failed" in said.plain
    assert ("1 h 20 min left" in said.plain) == (width >= 60)
