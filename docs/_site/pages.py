"""The pages of the site that are made from the code: interface, catalogue, command line, bibliography."""

import html
import importlib
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from examples import example_of

from polarised import registry
from polarised.bibliography import bibliography

ROOT = Path(__file__).parents[2]
# The package itself comes first: its names are those most people need.
MODULES = (
    "polarised",
    "polarised.data",
    "polarised.models",
    "polarised.objectives",
    "polarised.training",
    "polarised.adapters",
    "polarised.metrics",
    "polarised.theory",
    "polarised.study",
    "polarised.report",
    "polarised.registry",
)
# A citation in text: [Key], [Key, eq. 3], [Key; Other, section 4].
CITATION = re.compile(r"\[([A-Z][A-Za-z]+\d{4}\w*(?:[,;][^\[\]]*)?)\](?!\()")


def public_names(module: str) -> list[str]:
    """The names a module offers that are not modules themselves."""
    loaded = importlib.import_module(module)
    return [name for name in loaded.__all__ if not inspect.ismodule(getattr(loaded, name))]


def interface() -> Iterator[tuple[str, str]]:
    """The pages of the interface, one for each module: paths and Markdown."""
    for module in MODULES:
        loaded = importlib.import_module(module)
        first, _, rest = (inspect.getdoc(loaded) or "").partition("\n")
        lines = [f"# `{module}`", "", first, "", fenced(rest.strip()), ""]
        for name in public_names(module):
            value = getattr(loaded, name)
            if callable(value):
                lines += [f"::: {module}.{name}", ""]
                if ">>>" not in (inspect.getdoc(value) or "") and (shown := example_of(name)):
                    lines += ["**Example:**", "", "```pycon", shown, "```", ""]
            else:
                lines += [f"## `{name}` {{#{module}.{name}}}", "", constant(value), ""]
        yield f"reference/api/{module}.md", "\n".join(lines)


def constant(value: object) -> str:
    """What a public constant holds, in one paragraph."""
    if isinstance(value, str):
        return f"The text `{value}`."
    try:
        shown = [f"`{each}`" for each in value]  # type: ignore[attr-defined]
    except TypeError:
        return f"`{value!r}`"
    return f"A {type(value).__name__} of {len(shown)}: {', '.join(shown)}."


def fenced(text: str) -> str:
    """Text whose `>>>` examples and `::` blocks are fenced code; what is fenced already is left alone."""
    lines: list[str] = []
    within = ""
    for row in text.splitlines():
        if within == "fence" or row.lstrip().startswith("```"):
            within = ("" if within == "fence" else "fence") if row.lstrip().startswith("```") else within
            lines.append(row)
            continue
        ends = {"example": not row.strip(), "literal": bool(row.strip()) and not row.startswith("    ")}
        if within and ends[within]:
            lines += ["```", ""]
            within = ""
        if not within and row.startswith(">>> "):
            lines += ["", "```pycon"]
            within = "example"
        if not within and row.rstrip().endswith("::") and not row.startswith(":::"):
            lines += [row.rstrip()[:-1], "", "```text"]
            within = "literal"
            continue
        lines.append(row.removeprefix("    ") if within == "literal" else row)
    return "\n".join(lines + ["```"] * (within in ("example", "literal")))


def catalogue() -> str:
    """The tables of everything a config can name, from the records."""
    lines = ["# Catalogue", "", "Everything a config or a command can name, with its settings and their defaults.", ""]
    lines += ["`{name: BetaVAE, beta: 4}` in YAML is `BetaVAE(beta=4)` in Python.", ""]
    for kind in registry.KINDS:
        place = f"`{registry.SECTIONS[kind]}:` of a config." if kind in registry.SECTIONS else ""
        lines += [f"## {kind.capitalize()}", "", place, ""]
        lines += ["| name | title | what it is | settings |", "|---|---|---|---|"]
        for each in registry.records(kind):
            told = sentence(each.call)
            works = " ".join(f"[{key}]" for key in each.reference_keys if key not in told)
            lines.append(f"| `{each.name}` | {cell(each.title)} | {cell(told)} {works} | {settings(each.call)} |")
        lines.append("")
    return "\n".join(lines)


def settings(entry: object) -> str:
    """The keyword-only parameters with their defaults, as a config names them."""
    try:
        parameters = inspect.signature(entry).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""
    named = [each for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY]
    shown = [each.name if each.default is each.empty else f"{each.name}={plain(each.default)}" for each in named]
    return cell(", ".join(f"`{text}`" for text in shown))


def plain(value: object) -> str:
    """A default as people would write it; objects without a short form are left out."""
    text = repr(value)
    return "…" if " at 0x" in text or "factory" in text or len(text) > 60 else text


def sentence(entry: object) -> str:
    """The first paragraph of what an entry is; of a constant, its type."""
    text = inspect.getdoc(entry) if callable(entry) else f"A {type(entry).__name__}."
    return (text or "").split("\n\n")[0].replace("\n", " ")


def cell(text: str) -> str:
    """Text fit for a cell of a table."""
    return text.replace("|", "\\|")


def command_line() -> str:
    """Every command with its arguments, options and example, from the command line itself."""
    from typer.cli import get_docs_for_click
    from typer.main import get_command

    from polarised.cli import app

    command = get_command(app)
    made = get_docs_for_click(obj=command, ctx=command.make_context("polarised", [], resilient_parsing=True))
    # Rich marks and escapes for HTML, where this is Markdown; lists cut what a line of a terminal cannot hold.
    made = re.sub(r"\[bold\](.*?)\[/bold\]", r"`\1`", made)
    made = re.sub(r'<span style="font-weight: bold">(.*?)</span>', r"`\1`", made, flags=re.DOTALL)
    made = re.sub(r"`[^`\n]+`", lambda found: html.unescape(found[0]), made)
    summaries = dict(summarised(command))
    made = re.sub(
        r"^\* `([\w-]+)`: .*\.\.\.$", lambda found: f"* `{found[1]}`: {summaries[found[1]]}", made, flags=re.M
    )
    head = ["# The command line", "", "`polarised COMMAND --help` shows the same on screen.", ""]
    return "\n".join(head) + made.partition("\n")[2]


def summarised(command: Any) -> Iterator[tuple[str, str]]:
    """Names and first paragraphs of a command's commands, and of theirs."""
    for name, each in getattr(command, "commands", {}).items():
        yield name, " ".join((each.help or "").split("\n\n")[0].split())
        yield from summarised(each)


def references() -> str:
    """The bibliography, each work under its key."""
    lines = ["# Bibliography", "", "The works that docstrings, pages and results cite, by the keys they use.", ""]
    for key, entry in sorted(bibliography().items(), key=lambda item: item[0].lower()):
        lines += [f"## {key} {{#{key}}}", "", described(entry), "", '??? quote "BibTeX"', "", "    ```bibtex"]
        lines += [f"    {row}" for row in entry.splitlines()] + ["    ```", ""]
    return "\n".join(lines)


def described(entry: str) -> str:
    """One line about a work: who, what, where, when."""
    field = {name.lower(): value for name, value in re.findall(r"^\s*(\w+)\s*=\s*\{(.*)\},?$", entry, re.MULTILINE)}
    field = {name: re.sub(r"[{}]", "", value) for name, value in field.items()}
    people = [" ".join(reversed(each.split(", "))) for each in field.get("author", "").split(" and ")]
    named = people[0] if len(people) == 1 else ", ".join(people[:-1]) + f" and {people[-1]}"
    place = field.get("journal") or field.get("booktitle") or field.get("publisher") or field.get("howpublished", "")
    return f"{named}: *{field.get('title', '')}*. {place}{', ' if place else ''}{field.get('year', '')}."


def glossary() -> str:
    """The glossary of CONTRIBUTING as a page of its own."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return "# Glossary\n" + text.partition("## Glossary\n")[2].partition("\n## ")[0]


def faults(page: Path, site: Path) -> list[str]:
    """What is wrong with a built page: citations that lead nowhere, anything fetched from another server."""
    text = page.read_text(encoding="utf-8")
    where = page.relative_to(site)
    # Menus repeat headings without their links.
    words = re.sub(r"<(code|pre)\b.*?</\1>", "", text.partition("<article")[2], flags=re.DOTALL)
    found = [f"{where} cites [{key}] without a link" for key in CITATION.findall(words) if key in bibliography()]
    loaded = re.findall(r'<(?:script|img|iframe)[^>]*\ssrc="(https?:[^"]+)"', text)
    loaded += re.findall(r'<link[^>]*rel="stylesheet"[^>]*href="(https?:[^"]+)"', text)
    return found + [f"{where} loads {address}" for address in loaded]


def undocumented(site: Path) -> list[str]:
    """Public names without a heading of their own on the page of their module."""
    lacking = []
    for module in MODULES:
        page = site / "reference" / "api" / f"{module}.html"
        text = page.read_text(encoding="utf-8") if page.exists() else ""
        lacking += [f"{module}.{name}" for name in public_names(module) if f'id="{module}.{name}"' not in text]
    return lacking


def notebook(path: Path) -> tuple[str, dict[str, bytes]]:
    """A stored notebook as Markdown, and the pictures it shows by their names."""
    import base64

    lines: list[str] = []
    pictures: dict[str, bytes] = {}
    for each in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(each["source"])
        if each["cell_type"] == "markdown":
            lines += [source, ""]
            continue
        lines += ["```python", source, "```", ""]
        for output in each.get("outputs", []):
            data: dict[str, Any] = output.get("data", {})
            if "image/png" in data:
                name = f"{path.stem}-{len(pictures) + 1}.png"
                pictures[name] = base64.b64decode("".join(data["image/png"]))
                lines += [f"![Output of the cell above]({name})", ""]
            elif "text/html" in data:
                lines += ['<div class="output">', "".join(data["text/html"]).replace("\n\n", "\n"), "</div>", ""]
            else:
                text = "".join(output.get("text", []) or data.get("text/plain", []))
                if text.strip():
                    lines += ["```text", text.rstrip(), "```", ""]
    return "\n".join(lines), pictures
