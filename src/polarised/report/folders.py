"""What somebody points at, a run, a study, arrays or a published model, becomes a page."""

import os
from collections.abc import Sequence
from pathlib import Path

from polarised.errors import ConfigError
from polarised.report.report import write_report
from polarised.study.examine import diagnose_target

__all__ = ["report_on"]

PAGE = "report.html"


def report_on(
    targets: Sequence[str | Path], out: str | Path | None = None, *, data: str | None = None, title: str | None = None
) -> Path:
    """Write the page of one target or, of several models, their comparison; return where it is.

    A target is a run directory, a file of arrays, a published model, a study's folder or its ``results.parquet``.
    Without `out` the page of a folder lies in it, and any other in the current directory.

    >>> import tempfile, numpy
    >>> file = Path(tempfile.mkdtemp()) / "codes.npz"
    >>> numpy.savez(file, mean=numpy.random.default_rng(0).normal(size=(50, 2)), variance=numpy.full((50, 2), 0.01))
    >>> report_on([file], file.with_suffix(".html")).name
    'codes.html'
    """
    paths = [Path(target) for target in targets]
    if not paths:
        raise ConfigError("expected something to report on: a run, a study, a file of arrays or a model")
    studies = [path for path in paths if _is_study(path)]
    if studies and len(paths) > 1:
        raise ConfigError(f"expected one study or several models, got {studies[0]} among {len(paths)}; give it alone")
    page = Path(out) if out is not None else _default(paths)
    if studies:
        return _study_page(paths[0], page, title)
    diagnoses = [diagnose_target([path], data) for path in paths]
    return write_report(diagnoses[0] if len(diagnoses) == 1 else diagnoses, page, title=title)


def _is_study(path: Path) -> bool:
    return path.name == "results.parquet" or (path / "study.json").is_file() or (path / "results.parquet").is_file()


def _default(paths: Sequence[Path]) -> Path:
    if len(paths) == 1 and paths[0].is_dir():
        return paths[0] / PAGE
    return Path(PAGE) if len(paths) > 1 else Path(f"{paths[0].stem}.html")


def _study_page(path: Path, page: Path, title: str | None) -> Path:
    import polars

    from polarised.study.conduct import read_study
    from polarised.study.dynamics import timeline_of
    from polarised.study.results import collect
    from polarised.study.verify import check_claims

    folder = path if path.is_dir() else path.parent
    known = read_study(folder) if (folder / "study.json").is_file() else None
    results = collect(folder) if path.is_dir() and known else folder / "results.parquet"
    table = polars.read_parquet(results, glob=False)
    verdicts = [] if known is None else [verdict.to_dict() for verdict in check_claims(table, known.claims)]
    links = {
        str(run): Path(os.path.relpath(folder / str(run) / PAGE, page.parent)).as_posix()
        for run in table["run"].unique()
        if (folder / str(run) / PAGE).is_file()
    }
    rule = "relative" if known is None else known.rule
    seen = {str(run): timeline_of(folder / str(run), rule=rule) for run in table["run"].unique(maintain_order=True)}
    timelines = {run: timeline for run, timeline in seen.items() if timeline is not None}
    words = None if known is None else ", ".join(part for part in (known.name.replace("_", " "), known.scale) if part)
    return write_report(
        table, page, title=title or words or folder.name, verdicts=verdicts, links=links, timelines=timelines
    )
