"""Write what is generated: api.md from docstrings and records, json.md from the schemas, the ledger from verdicts.

python docs/reference/build.py (tests hold them to date).
"""

import importlib
import inspect
from pathlib import Path

from polarised import registry, schemas
from polarised.study.claims.verify import ledger_page, published_under

MODULES = (
    "polarised",
    "polarised.adapters",
    "polarised.models",
    "polarised.training",
    "polarised.metrics",
    "polarised.study.config",
    "polarised.theory",
)


def settings(entry: object) -> str:
    """The keyword-only parameters with their defaults, as a config names them."""
    try:
        parameters = inspect.signature(entry).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""
    named = [p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
    shown = [p.name if p.default is p.empty else f"{p.name}={_plain(p.default)}" for p in named]
    return ", ".join(f"`{text}`" for text in shown)


def _plain(value: object) -> str:
    text = repr(value)
    return "…" if " at 0x" in text or "factory" in text or len(text) > 60 else text


def about(entry: object) -> str:
    """The docstring; of a constant, which has only that of its type, what it holds."""
    if callable(entry):
        return inspect.getdoc(entry) or ""
    if not isinstance(entry, dict):
        return f"A {type(entry).__name__}."
    key, value = next(iter(entry.items()))
    return f"A dictionary of {len(entry)} entries, such as `{key}`: {value}"


def modules() -> list[str]:
    """The tables of what modules offer, under the first sentence of each."""
    lines = []
    for name in MODULES:
        module = importlib.import_module(name)
        lines += ["", f"## {(module.__doc__ or name).splitlines()[0].rstrip('.')}", "", f"`{name}`", ""]
        lines += ["| name | what it is | settings |", "|---|---|---|"]
        found = {each: getattr(module, each) for each in module.__all__}
        shown = {each: entry for each, entry in found.items() if not inspect.ismodule(entry)}
        lines += [f"| `{each}` | {sentence(entry)} | {settings(entry)} |" for each, entry in shown.items()]
    return lines


def kinds() -> list[str]:
    """The tables of the catalogue, from its records."""
    lines = []
    for kind in registry.KINDS:
        place = f"`{registry.SECTIONS[kind]}:` of a config" if kind in registry.SECTIONS else ""
        lines += ["", f"## Catalogue: {kind}", *(["", place] if place else []), ""]
        lines += ["| name | title | what it is | settings | references |", "|---|---|---|---|---|"]
        lines += [
            f"| `{each.name}` | {each.title} | {sentence(each.call)} | {settings(each.call)} | "
            f"{', '.join(each.reference_keys)} |"
            for each in registry.records(kind)
        ]
    return lines


def sentence(entry: object) -> str:
    """The first paragraph of what an entry is, fit for a table."""
    return about(entry).split("\n\n")[0].replace("\n", " ").replace("|", "\\|")


def reference() -> str:
    """The whole page."""
    head = ["# Reference", "", "Made by `python docs/reference/build.py`; `help(name)` has the rest."]
    return "\n".join([*head, *modules(), *kinds()]) + "\n"


def json_reference() -> str:
    """The page of what machines read."""
    about = inspect.getdoc(schemas) or ""
    lines = ["# JSON", "", "Made by `python docs/reference/build.py`.", "", *about.splitlines()[2:], ""]
    lines += [
        "`polarised.schemas.json_schema(name)` gives each as JSON Schema, `polarised.schemas.validate(result)` checks",
        "a result against the one it names. Fields marked * are there only in some results.",
    ]
    for name, (version, told, fields) in schemas.SCHEMAS.items():
        lines += ["", f"## polarised.{name}/{version}", "", told, "", "| field | type | what it is |", "|---|---|---|"]
        lines += [f"| `schema` | string | `polarised.{name}/{version}` |"]
        given = schemas.json_schema(name)["properties"]
        for field, each in fields.items():
            star, words = "*" if each.optional else "", each.about.replace("|", "\\|")
            lines.append(f"| `{field}`{star} | {_type(given[field])} | {words} |")
    return "\n".join(lines) + "\n"


def _type(given: dict[str, object]) -> str:
    """A JSON Schema's type in words."""
    if "anyOf" in given:
        words = dict.fromkeys(_type(each) for each in given["anyOf"])  # type: ignore[attr-defined]
        return " or ".join(words)
    if "enum" in given or "const" in given:
        values = given.get("enum") or [given["const"]]
        return ", ".join(f'`"{value}"`' for value in values)  # type: ignore[attr-defined]
    kind = str(given.get("type", "anything"))
    if kind == "array" and "prefixItems" in given:
        return "pair"
    if kind == "array":
        return f"list of {_type(given.get('items', {}))}"  # type: ignore[arg-type]
    return kind


if __name__ == "__main__":
    documentation = Path(__file__).parents[1]
    (documentation / "reference" / "api.md").write_text(reference(), encoding="utf-8")
    (documentation / "reference" / "json.md").write_text(json_reference(), encoding="utf-8")
    ledger = ledger_page(published_under(documentation / "results"))
    (documentation / "ledger.md").write_text(ledger, encoding="utf-8")
