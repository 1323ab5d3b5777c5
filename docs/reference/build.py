"""Write what is generated: docs/reference/api.md from docstrings and records, docs/ledger.md from published verdicts.

python docs/reference/build.py (tests hold both to date).
"""

import importlib
import inspect
from pathlib import Path

from polarised import registry
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


if __name__ == "__main__":
    documentation = Path(__file__).parents[1]
    (documentation / "reference" / "api.md").write_text(reference(), encoding="utf-8")
    ledger = ledger_page(published_under(documentation / "results"))
    (documentation / "ledger.md").write_text(ledger, encoding="utf-8")
