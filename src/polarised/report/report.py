"""One self-contained HTML file for a diagnosis, several side by side, or a study: no network, no server."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polarised.errors import DataError
from polarised.files import replacing

if TYPE_CHECKING:
    import polars

    from polarised.diagnosis import Diagnosis
    from polarised.representations.timeline import Timeline

__all__ = ["write_report"]

CORE = ("core.js", "shell.js", "scores.js", "time.js")
MODELS = (*CORE, "regime.js", "variables.js", "correlations.js", "pictures.js", "training.js", "models.js")
STUDY = (*CORE, "learning.js", "study.js")


def write_report(
    subject: "Diagnosis | Sequence[Diagnosis] | polars.DataFrame",
    path: str | Path,
    *,
    title: str | None = None,
    verdicts: Sequence[Mapping[str, Any]] = (),
    links: Mapping[str, str] | None = None,
    timelines: "Mapping[str, Timeline] | None" = None,
) -> Path:
    """Write the page of one diagnosis, of several beside each other, or of a study's tidy table.

    A study's table has the columns run, seed, method, strength, dataset, representation, variables, metric, value;
    `verdicts` are records of claim, verdict (confirmed, not confirmed, undecided) and evidence; `links` leads from a
    run's name to its own page, `timelines` to what was seen while it trained.

    >>> import tempfile, polarised
    >>> encodings = polarised.Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> page = write_report(polarised.diagnose(encodings), Path(tempfile.mkdtemp()) / "page.html")
    >>> page.read_text()[:15]
    '<!doctype html>'
    """
    import polars

    from polarised.report import contents
    from polarised.report.rendering import rendered

    if isinstance(subject, polars.DataFrame):
        from polarised.report.study import study

        page = rendered(
            "study.html",
            study(subject, verdicts=verdicts, links=links, title=title or "A study", timelines=timelines),
            title=title or "A study",
            scripts=STUDY,
        )
    else:
        diagnoses = list(subject) if isinstance(subject, Sequence) else [subject]
        if not diagnoses:
            raise DataError("expected at least one diagnosis to report on, got none; make one with polarised.diagnose")
        page = rendered(
            "models.html",
            {"models": [contents.model(diagnosis) for diagnosis in diagnoses]},
            title=title or " · ".join(str(diagnosis.name) for diagnosis in diagnoses[:4]),
            scripts=MODELS,
        )
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return path
