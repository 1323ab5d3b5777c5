"""What to cite: the works behind exactly the data, networks, objectives and metrics that a run used.

The keys are those of the records, so an entry of the catalogue is cited from the day it is written.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from polarised import registry
from polarised.errors import ConfigError
from polarised.study.config import Run

__all__ = ["Citations", "bibliography", "bibtex", "citation_keys", "cite", "cite_runs"]

# What every run is measured by, whatever its settings.
_METRICS = ("total_correlation", "mutual_information", "effective_rank", "wasserstein_correlation")
_LIBRARY = "Bonheme2023BeMoreActive"


class Citations(NamedTuple):
    """The works that some runs rest on.

    Args:
        keys: Their keys, in order of first use.
        bibtex: Their BibTeX entries, in the same order.
    """

    keys: tuple[str, ...]
    bibtex: str


@cache
def bibliography() -> Mapping[str, str]:
    """Return the library's own BibTeX entries.

    Returns:
        The entries by their keys.

    >>> "Kingma2014" in bibliography()
    True
    """
    text = (resources.files("polarised") / "references.bib").read_text(encoding="utf-8")
    bodies = re.findall(r"^@\w+\{\w+,.*?^\}$", text, flags=re.MULTILINE | re.DOTALL)
    return {registry.reference_key(body): body for body in bodies}


def cite(target: str | Path) -> Citations:
    """Return what a run, a folder of runs or a study rests on.

    Args:
        target: A run directory, a folder of runs, or the name or file of a study.

    Returns:
        The keys and BibTeX entries, those that a study names itself first.

    Raises:
        ConfigError: If there is no run and no study of that name.

    >>> cite("be_more_active").keys[0]
    'Bonheme2023BeMoreActive'
    """
    from polarised.study.grid import load_study
    from polarised.study.stages import load_run

    folder = Path(target)
    named: dict[str, str] = {}
    if (folder / "config.yaml").exists():
        runs = [load_run(folder)]
    elif folder.is_dir() and (found := sorted(folder.glob("*/config.yaml"))):
        runs = [load_run(path.parent) for path in found]
    elif folder.is_dir() or (folder.is_file() and folder.suffix not in (".yaml", ".yml")):
        raise ConfigError(
            f"expected a run directory, a folder of runs, or the name or .yaml file of a study, {target} is none: "
            "a run has a config.yaml"
        )
    else:
        study = load_study(str(target))
        runs, named = list(study.runs), dict(_entry(key, f"the study {study.name}") for key in study.references)
    entries = {**named, **cite_runs(runs)}
    return Citations(tuple(entries), "\n".join(entries.values()))


def cite_runs(runs: Iterable[Run]) -> dict[str, str]:
    """Return the works that some runs rest on, in order of first use.

    An entry of somebody else's package may write out the BibTeX of its references; a key that nobody knows becomes a
    remark in the BibTeX, for a finished run shall not fail over it.

    Args:
        runs: The runs.

    Returns:
        BibTeX entries by their keys.

    >>> run = Run.from_config({"objective": {"name": "FactorVAE"}})
    >>> "Kim2018" in cite_runs([run]), "Kumar2018" in cite_runs([run])
    (True, False)
    """
    found = {_LIBRARY: bibliography()[_LIBRARY]}
    for run in runs:
        for kind, spec in _specs(run):
            for reference in registry.record(kind, spec["name"]).citations(spec):
                found.setdefault(*_entry(reference, f"the {kind} {spec['name']}"))
    return found


def citation_keys(runs: Iterable[Run]) -> list[str]:
    """Return the keys of the works that some runs rest on.

    Args:
        runs: The runs.

    Returns:
        The keys, in order of first use.
    """
    return list(cite_runs(runs))


def bibtex(keys: Iterable[str]) -> str:
    """Return entries of the library's bibliography as one BibTeX text.

    Args:
        keys: The keys of the entries.

    Returns:
        The entries, in the order of the keys.
    """
    return "\n".join(bibliography()[key] for key in keys)


def _entry(reference: str, whose: str) -> tuple[str, str]:
    """Return the key and the BibTeX of a reference, which is a key of the bibliography or written out in full."""
    if (key := registry.reference_key(reference)) != reference:
        return key, reference
    return key, bibliography().get(reference, f"% {reference}: cited by {whose}, which does not give its entry")


def _specs(run: Run) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """Yield each kind with what a run takes of it: a name and its settings."""
    yield "objective", run.objective
    yield "dataset", run.dataset
    yield "architecture", run.model["architecture"]
    yield "prior", run.model["prior"]
    yield "likelihood", run.model["likelihood"]
    for metric in _METRICS:
        yield "metric", {"name": metric}
    for measure in run.evaluation.further:
        yield "measure", measure
