"""What to cite: the works behind exactly the data, networks, objectives and metrics that a run used.

The keys are those of the docstrings, so a catalogue entry is cited from the day it is written.
"""

import inspect
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Any

from polarised import catalogue
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
        for entry in _entries(run):
            found = re.findall(r"\b[A-Z][A-Za-z]*\d{4}[A-Za-z]*\b", inspect.getdoc(entry) or "")
            used.update(dict.fromkeys(key for key in found if key in bibliography()))
    return ["Bonheme2023BeMoreActive", *(key for key in used if key != "Bonheme2023BeMoreActive")]


def bibtex(keys: Iterable[str]) -> str:
    """Return the entries of the keys as one BibTeX text."""
    return "\n".join(bibliography()[key] for key in keys)


def _entries(run: Run) -> Iterable[Any]:
    yield catalogue.entry("polarised.objectives.papers", run.objective["name"])
    yield catalogue.entry("polarised.data.datasets", run.dataset["name"])
    for part in ("architecture", "prior", "likelihood"):
        page = {"architecture": "architectures", "prior": "priors", "likelihood": "likelihoods"}[part]
        yield catalogue.entry(f"polarised.models.{page}", run.model[part]["name"])
    for metric in _METRICS:
        yield catalogue.entry("polarised.metrics.redundancy", metric)
    for measure in run.evaluation.further:
        yield catalogue.entry("polarised.study.further", measure["name"])
