import io
from pathlib import Path

from rich.console import Console

from polarised.study.conduct import Progress
from polarised.study.executors import Event
from polarised.study.grid import load_study
from polarised.study.overview import _tell_failure
from study.workshop import study_config, write_study


def test_brackets_in_a_reason_are_told_as_they_are(tmp_path: Path) -> None:
    run = load_study(write_study(tmp_path / "tiny.yaml", study_config(runs=1))).runs[0]
    said = io.StringIO()
    for reason in ("OSError: cannot open [/data/x]", "ValueError: E[r] is [red]", "a folder named :cat:"):
        screen = Console(file=said, width=200, highlight=False, emoji=False)
        _tell_failure(Progress(total=1, latest=Event("failed", run, reason)), screen)
        assert said.getvalue().splitlines()[-1] == f"failed {run.name}: {reason}"
