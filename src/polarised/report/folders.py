"""What somebody points at, a run, a study, arrays or a published model, becomes a page."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polarised._io.files import contained
from polarised._io.tables import read_table
from polarised.adapters.arrays import ScaleKind
from polarised.adapters.targets import open_target, unused_settings
from polarised.diagnosis import diagnose
from polarised.errors import ConfigError
from polarised.regime.classify import Rule
from polarised.report.page import write_report

if TYPE_CHECKING:
    from polarised.diagnosis import Diagnosis

__all__ = ["page_of", "write"]

PAGE = "report.html"


def write(
    targets: str | Path | Sequence[str | Path],
    out: str | Path | None = None,
    *,
    title: str | None = None,
    data: str | None = None,
    alpha: float | None = None,
    rule: Rule | None = None,
    scale_kind: ScaleKind | None = None,
    examples: int | None = None,
    seed: int | None = None,
) -> Path:
    """Write the page of one target or, of several models, their comparison.

    Args:
        targets: A run directory, a file of arrays, a published model, a study's folder or its ``results.parquet``; or
            several models.
        out: The file to write; in a run's or a study's folder if None, for other folders here.
        title: The title of the page.
        data: What to encode, where the model's own is not meant.
        alpha: The threshold of the types.
        rule: The rule of the types.
        scale_kind: What the scale beside the mean is, where its name does not say it.
        examples: The most images to encode.
        seed: Seed of everything random.

    Returns:
        The file.

    Raises:
        ConfigError: If there is nothing to report on, or a setting can change nothing about the target.

    >>> import tempfile, numpy
    >>> file = Path(tempfile.mkdtemp()) / "codes.npz"
    >>> numpy.savez(file, mean=numpy.random.default_rng(0).normal(size=(50, 2)), variance=numpy.full((50, 2), 0.01))
    >>> write(file, file.with_suffix(".html")).name
    'codes.html'
    """
    paths = [Path(target) for target in ([targets] if isinstance(targets, str | Path) else targets)]
    settings = {"alpha": alpha, "rule": rule, "scale_kind": scale_kind, "examples": examples, "seed": seed}
    if not paths:
        raise ConfigError("expected something to report on: a run, a study, a file of arrays or a model")
    studies = [path for path in paths if _is_study(path)]
    if studies and len(paths) > 1:
        raise ConfigError(f"expected one study or several models, got {studies[0]} among {len(paths)}; give it alone")
    given = {name: value for name, value in {"data": data, **settings}.items() if value is not None}
    if studies and given:
        raise ConfigError(f"expected no {next(iter(given))} with {studies[0]}: a study is shown as it was measured")
    name = "report" if len(paths) > 1 else paths[0].stem if paths[0].is_file() else paths[0].resolve().name
    page = Path(out) if out is not None else page_of(paths, name)
    if studies:
        return _study_page(paths[0], page, title)
    diagnoses = _diagnosed(paths, given)
    return write_report(diagnoses[0] if len(diagnoses) == 1 else diagnoses, page, title=title)


def _is_study(path: Path) -> bool:
    return path.name == "results.parquet" or (path / "study.json").is_file() or (path / "results.parquet").is_file()


def page_of(targets: Sequence[Path], name: str) -> Path:
    """Return where a page lies that nobody placed: in a run or a study, else here, for other folders are not ours.

    Args:
        targets: What the page is of.
        name: The name of the page where there is no folder of its own.

    Returns:
        The path of the page.

    >>> page_of([Path("first.npz"), Path("second.npz")], "2 files").name
    '2_files.html'
    """
    first = targets[0]
    own = len(targets) == 1 and first.is_dir() and ((first / "config.yaml").is_file() or _is_study(first))
    return first / PAGE if own else Path(f"{name.replace(' ', '_')}.html")


def _diagnosed(paths: Sequence[Path], given: dict[str, Any]) -> "list[Diagnosis]":
    useless = [set(unused_settings(open_target(path), with_data="data" in given)) for path in paths]
    # What only some of several targets have no use for is meant for the others.
    spared = [own - useless[0].intersection(*useless) for own in useless]
    diagnoses = [
        diagnose(path, **{name: value for name, value in given.items() if name not in own})
        for path, own in zip(paths, spared, strict=True)
    ]
    names = [diagnosis.name for diagnosis in diagnoses]
    return [
        replace(diagnosis, name=f"{path.resolve().parent.name}/{diagnosis.name}")
        if names.count(diagnosis.name) > 1
        else diagnosis
        for path, diagnosis in zip(paths, diagnoses, strict=True)
    ]


def _study_page(path: Path, page: Path, title: str | None) -> Path:
    from polarised.study.claims.verify import published_verdicts, verify
    from polarised.study.measures import timeline_of
    from polarised.study.results import collect
    from polarised.study.runner import read_study

    folder = path if path.is_dir() else path.parent
    known = read_study(folder) if (folder / "study.json").is_file() else None
    results = collect(folder) if path.is_dir() and known else folder / "results.parquet"
    table = read_table(results)
    found = verify(folder if path.is_dir() else path) if known else published_verdicts(folder)
    verdicts = [{**own.to_dict(), "claim": own.statement} for own in (found.verdicts if found else ())]
    runs = {str(run): contained(folder, str(run), source=results) for run in table["run"].unique(maintain_order=True)}
    links = {
        run: Path(os.path.relpath(directory / PAGE, page.parent)).as_posix()
        for run, directory in runs.items()
        if (directory / PAGE).is_file()
    }
    rule = "used" if known is None else known.rule
    seen = {run: timeline_of(directory, rule=rule) for run, directory in runs.items()}
    timelines = {run: timeline for run, timeline in seen.items() if timeline is not None}
    words = None if known is None else ", ".join(part for part in (known.name.replace("_", " "), known.scale) if part)
    return write_report(
        table, page, title=title or words or folder.name, verdicts=verdicts, links=links, timelines=timelines
    )
