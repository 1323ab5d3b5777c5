"""What to cite: the works behind exactly the data, networks, objectives and metrics that a run used.

The keys are those of the docstrings, so a catalogue entry is cited from the day it is written: the first reference
in brackets says whose the entry is. A later one is a remark, unless a setting in quotes stands before it: ``"shared" is
one number, trained [Dai2018]`` is cited by the runs that choose "shared".
"""

import inspect
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Any

from polarised import registry
from polarised.study.config import Run

__all__ = ["bibliography", "bibtex", "citation_keys"]

_METRICS = ("total_correlation", "mutual_information", "effective_rank", "wasserstein_correlation")


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


def citation_keys(runs: Iterable[Run]) -> list[str]:
    """Return the keys of the works that the runs rest on, in order of first use.

    >>> run = Run.from_config({"objective": {"name": "FactorVAE"}})
    >>> "Kim2018" in citation_keys([run]), "Kumar2018" in citation_keys([run])
    (True, False)
    """
    used: dict[str, None] = {}
    for run in runs:
        for page, spec in _specs(run):
            used.update(dict.fromkeys(_keys(registry.entry(page, spec["name"]), spec)))
    return ["Bonheme2023BeMoreActive", *(key for key in used if key != "Bonheme2023BeMoreActive")]


def bibtex(keys: Iterable[str]) -> str:
    """Return the entries of the keys as one BibTeX text."""
    return "\n".join(bibliography()[key] for key in keys)


def _specs(run: Run) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """Yield each page with what a run takes from it: a name and its settings."""
    yield "objective", run.objective
    yield "dataset", run.dataset
    yield "architecture", run.model["architecture"]
    yield "prior", run.model["prior"]
    yield "likelihood", run.model["likelihood"]
    for metric in _METRICS:
        yield "metric", {"name": metric}
    for measure in run.evaluation.further:
        yield "measure", measure


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
