"""Write docs/reference/api.md from the docstrings: python docs/reference/build.py (a test holds it to date)."""

import importlib
import inspect
from pathlib import Path

from polarised import registry

PAGES = {
    "polarised": "What most people need",
    "polarised.adapters": "Any VAE → Encodings",
    "dataset": "Datasets (`dataset:` of a config)",
    "polarised.models": "Models",
    "architecture": "Networks (`model.architecture:`)",
    "prior": "Priors (`model.prior:`)",
    "likelihood": "Likelihoods (`model.likelihood:`)",
    "objective": "Objectives (`objective:`)",
    "schedule": "Schedules (`training.schedule:` and `ramp` of an objective)",
    "polarised.training": "Training",
    "polarised.metrics": "Metrics",
    "polarised.metrics.estimators": "Estimators of total correlation",
    "polarised.study.config": "Settings of a run",
    "executor": "Executors",
    "measure": "Further measures (`evaluation.further:`)",
    "figure": "Figures",
    "polarised.theory": "Theory",
}


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


def entries(page: str) -> dict[str, object]:
    """What a kind of the catalogue or a module offers, by name."""
    if page in registry.KINDS:
        return {each.name: each.call for each in registry.records(page)}
    module = importlib.import_module(page)
    found = {name: getattr(module, name) for name in module.__all__}
    return {name: entry for name, entry in found.items() if not inspect.ismodule(entry)}


def reference() -> str:
    """The whole page."""
    lines = [
        "# Reference",
        "",
        "Made from the docstrings by `python docs/reference/build.py`; `help(name)` has the rest.",
    ]
    for page, title in PAGES.items():
        lines += ["", f"## {title}", "", f"`{page}`", "", "| name | what it is | settings |", "|---|---|---|"]
        for name, entry in entries(page).items():
            sentence = about(entry).split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
            lines.append(f"| `{name}` | {sentence} | {settings(entry)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("api.md").write_text(reference(), encoding="utf-8")
