"""One self-contained HTML file for a diagnosis, several side by side, or a study: no network, no server."""

import base64
import hashlib
import importlib.resources
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polarised._io import plain
from polarised._io.files import replacing
from polarised.adapters.arrays import ScaleKind
from polarised.adapters.targets import open_target, unused_settings
from polarised.diagnosis import Diagnosis, diagnose
from polarised.errors import ConfigError, DataError
from polarised.regime.classify import COLUMNS, OTHER_RULES, Rule
from polarised.registry import register
from polarised.report import theme
from polarised.report.model_page import ALPHA, MOST_VARIABLES, model

if TYPE_CHECKING:
    import polars

    from polarised.regime.timeline import Timeline

__all__ = ["embedded", "page_of", "rendered", "write", "write_report"]

PAGE = "report.html"
CORE = ("core.js", "shell.js", "scores.js", "time.js")
MODELS = (*CORE, "regime.js", "variables.js", "correlations.js", "pictures.js", "training.js", "models.js")
STUDY = (*CORE, "learning.js", "study.js")


@register("page", name="report", title="page", summary="one self-contained HTML file with all results")
def write_report(
    subject: "Diagnosis | Sequence[Diagnosis] | polars.DataFrame",
    path: str | Path,
    *,
    title: str | None = None,
    verdicts: Sequence[Mapping[str, Any]] = (),
    links: Mapping[str, str] | None = None,
    timelines: "Mapping[str, Timeline] | None" = None,
    provenance: str = "",
) -> Path:
    """Write the page of one diagnosis, of several side by side, or of a study's tidy table.

    A study's table has the columns run, seed, method, strength, dataset, representation, variables, metric, value;
    `verdicts` are records of claim, verdict (confirmed, refuted, undecided, not testable) and evidence; `links` maps
    a run's name to its own page, `timelines` to the timeline of its training.

    Args:
        subject: A diagnosis, several, or the tidy table of a study.
        path: The file to write.
        title: The title of the page; default: the names of the models.
        verdicts: Verdicts on the claims of a study.
        links: The page of each run, relative to this one.
        timelines: The timeline of each run's training.
        provenance: Where the runs of a study come from, in a sentence.

    Returns:
        The file.

    Raises:
        DataError: If there is nothing to report on, or the table lacks columns.

    >>> import tempfile, polarised
    >>> encodings = polarised.Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> page = write_report(polarised.diagnose(encodings), Path(tempfile.mkdtemp()) / "page.html")
    >>> page.read_text()[:15]
    '<!doctype html>'
    """
    import polars

    if isinstance(subject, polars.DataFrame):
        from polarised.report.study_page import study

        title = title or "A study"
        data = study(subject, verdicts=verdicts, links=links, title=title, timelines=timelines, provenance=provenance)
        page = rendered("study.html", data, title=title, scripts=STUDY)
    else:
        diagnoses = list(subject) if isinstance(subject, Sequence) else [subject]
        if not diagnoses:
            raise DataError("expected at least one diagnosis to report on, got none; make one with polarised.diagnose")
        page = rendered(
            "models.html",
            {
                "models": [model(diagnosis) for diagnosis in diagnoses],
                "alpha": ALPHA,
                "many": MOST_VARIABLES,
                "metrics": theme.described(name for diagnosis in diagnoses for name in diagnosis.scores["metric"]),
                "other_rules": OTHER_RULES,
                "evidence": COLUMNS,
            },
            title=title or " · ".join(str(diagnosis.name) for diagnosis in diagnoses[:4]),
            scripts=MODELS,
        )
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return path


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
    """Write the page of one target, or a comparison of several models.

    Args:
        targets: A run directory, a file of arrays, a published model, a study's folder or its ``results.parquet``; or
            several models.
        out: The file to write; default: in the folder of a run or a study, else in the current folder.
        title: The title of the page.
        data: The data to encode, instead of the model's own.
        alpha: The threshold of the types.
        rule: The rule of the types.
        scale_kind: The meaning of the scale, if its name does not give it.
        examples: The largest number of images to encode.
        seed: Random seed.

    Returns:
        The file.

    Raises:
        ConfigError: If there is nothing to report on, or a setting has no effect on the target.

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
        from polarised.report.study_page import read_folder

        table, about = read_folder(paths[0], page)
        return write_report(table, page, **about | ({} if title is None else {"title": title}))
    diagnoses = _diagnosed(paths, given)
    return write_report(diagnoses[0] if len(diagnoses) == 1 else diagnoses, page, title=title)


def _is_study(path: Path) -> bool:
    return path.name == "results.parquet" or (path / "study.json").is_file() or (path / "results.parquet").is_file()


def page_of(targets: Sequence[Path], name: str) -> Path:
    """Return the default path of a page: in the folder of a run or a study, else in the current folder.

    Args:
        targets: The targets of the page.
        name: The name of the page, if it is in the current folder.

    Returns:
        The path of the page.

    >>> page_of([Path("first.npz"), Path("second.npz")], "2 files").name
    '2_files.html'
    """
    first = targets[0]
    own = len(targets) == 1 and first.is_dir() and ((first / "config.yaml").is_file() or _is_study(first))
    return first / PAGE if own else Path(f"{name.replace(' ', '_')}.html")


def _diagnosed(paths: Sequence[Path], given: dict[str, Any]) -> list[Diagnosis]:
    useless = [set(unused_settings(open_target(path), with_data="data" in given)) for path in paths]
    # A setting without effect on some of several targets applies to the others.
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


def embedded(data: Any) -> str:
    """Return data as JSON that is safe inside a script element: no text in it can close or open an element.

    Args:
        data: Plain JSON types.

    Returns:
        The text to put between the tags.

    >>> embedded("</script>") == '"\\\\u003c/script\\\\u003e"'
    True
    """
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        # A model with damaged weights may have such numbers; the page shows the rest.
        text = json.dumps(plain(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return _encodable(text)


# All control characters except tab and line ends, and characters that change the direction of text.
_HARMFUL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def _encodable(text: str) -> str:
    """Return a text that can be encoded and has no character that affects the text around it.

    A lone surrogate, as in a file name that is not UTF-8, cannot be encoded.
    """
    return _HARMFUL.sub("\N{REPLACEMENT CHARACTER}", text.encode("utf-8", "replace").decode("utf-8"))


def rendered(
    template: str,
    data: Mapping[str, Any],
    *,
    title: str,
    scripts: Sequence[str],
    images: str = "",
    connect: str = "'none'",
) -> str:
    """Fill a template of this folder with data, our styles and the named scripts.

    The content security policy allows no network and only the script with the given digest; `images` and `connect`
    extend it for a page with a server.

    Args:
        template: The name of the template.
        data: The data for the scripts.
        title: The title of the page.
        scripts: The names of the scripts, in order.
        images: Additional sources of images.
        connect: The addresses to which the page may connect.

    Returns:
        The page.

    >>> rendered("frame.html", {}, title="<b>", scripts=["core.js"]).count("<b>")
    0
    """
    import jinja2
    import markupsafe

    from polarised._version import __version__

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_text), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    script = "\n".join(_text(name) for name in scripts)
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    own = {
        "style": _text("page.css"),
        "light": theme.style_sheet("light"),
        "dark": theme.style_sheet("dark"),
        "script": script,
        "json": embedded({**data, "subsets": theme.SUBSETS, "looks": theme.page_looks()}),
    }
    page = environment.get_template(template).render(
        title=title,
        data=data,
        version=__version__,
        digest=digest,
        images=images,
        connect=markupsafe.Markup(connect),
        **{name: markupsafe.Markup(text) for name, text in own.items()},
    )
    return _encodable(page)


def _text(name: str) -> str:
    return importlib.resources.files("polarised.report").joinpath("web", name).read_text(encoding="utf-8")
