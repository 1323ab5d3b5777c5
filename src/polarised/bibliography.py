"""The works the library rests on, and which of them a use of catalogue entries cites."""

import inspect
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Any

from polarised import registry

__all__ = ["bibliography", "bibtex", "keys_of_specs", "specs_of_config"]

_METRICS = ("total_correlation", "mutual_information", "effective_rank", "wasserstein_correlation")
# Every diagnosis and every run rests on it.
_ALWAYS = "Bonheme2023BeMoreActive"


@cache
def bibliography() -> Mapping[str, str]:
    """Return the library's BibTeX entries by key.

    >>> "Kingma2014" in bibliography()
    True
    """
    text = (resources.files("polarised") / "references.bib").read_text(encoding="utf-8")
    entries = re.findall(r"^@\w+\{(\w+),.*?^\}$", text, flags=re.MULTILINE | re.DOTALL)
    bodies = re.findall(r"^@\w+\{\w+,.*?^\}$", text, flags=re.MULTILINE | re.DOTALL)
    return dict(zip(entries, bodies, strict=True))


def bibtex(keys: Iterable[str]) -> str:
    """Return the entries of the keys as one BibTeX text."""
    return "\n".join(bibliography()[key] for key in keys)


def keys_of_specs(specs: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """Return the keys of the works that catalogue entries with their settings rest on, in order of first use.

    Args:
        specs: Kinds, each with a name and settings.

    >>> "Kim2018" in keys_of_specs([("objective", {"name": "FactorVAE"})])
    True
    """
    used: dict[str, None] = {}
    for kind, spec in specs:
        used.update(dict.fromkeys(_keys(registry.entry(kind, spec["name"]), spec)))
    return [_ALWAYS, *(key for key in used if key != _ALWAYS)]


def specs_of_config(config: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the catalogue entries that the config of a run names, as far as it does, with the metrics of every run."""
    model = config.get("model", {})
    named = [
        ("objective", config.get("objective")),
        ("dataset", config.get("dataset")),
        *((kind, model.get(kind)) for kind in ("architecture", "prior", "likelihood")),
        *(("metric", metric) for metric in _METRICS),
        *(("measure", measure) for measure in config.get("evaluation", {}).get("further", ())),
    ]
    specs = [(kind, {"name": spec} if isinstance(spec, str) else spec) for kind, spec in named if spec is not None]
    return [(kind, spec) for kind, spec in specs if isinstance(spec, Mapping) and "name" in spec]


def _keys(entry: Any, settings: Mapping[str, Any]) -> Iterable[str]:
    text = inspect.getdoc(entry) or ""
    end, first = 0, True
    for group in re.finditer(r"\[([^\]]*)\]", text):
        found = [key for key in re.findall(r"\b[A-Z][A-Za-z]*\d{4}[A-Za-z]*\b", group[1]) if key in bibliography()]
        if found:
            quoted = re.findall(r'"([\w-]+)"', text[end : group.start()])
            if quoted[-1] in settings.values() if quoted else first:
                yield from found
            end, first = group.end(), False
