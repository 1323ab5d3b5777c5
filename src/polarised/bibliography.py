"""The works that the library is based on, and those that a use of catalogue entries cites.

The keys are those of the records, so every entry of the catalogue is citable as soon as it is registered.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Any

from polarised import registry

__all__ = ["bibliography", "bibtex", "cite_specs", "entry_of", "specs_of_config"]

# The works behind the measurements of every run, for all settings.
_METRICS = ("total_correlation", "mutual_information", "effective_rank", "wasserstein_correlation")
# Every diagnosis and every run is based on it.
_ALWAYS = "Bonheme2023BeMoreActive"


@cache
def bibliography() -> Mapping[str, str]:
    """Return the BibTeX entries of the library.

    Returns:
        The entries by their keys.

    >>> "Kingma2014" in bibliography()
    True
    """
    text = (resources.files("polarised") / "references.bib").read_text(encoding="utf-8")
    bodies = re.findall(r"^@\w+\{\w+,.*?^\}$", text, flags=re.MULTILINE | re.DOTALL)
    return {registry.reference_key(body): body for body in bodies}


def bibtex(keys: Iterable[str]) -> str:
    """Return entries of the library's bibliography as one BibTeX text.

    Args:
        keys: The keys of the entries.

    Returns:
        The entries, in the order of the keys.
    """
    return "\n".join(bibliography()[key] for key in keys)


def cite_specs(specs: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, str]:
    """Return the works that catalogue entries with their settings are based on, in order of first use.

    An entry of another package may contain the BibTeX of its references; an unknown key becomes a
    comment in the BibTeX, so that a finished run does not fail because of it.

    Args:
        specs: Kinds, each with a name and settings.

    Returns:
        BibTeX entries by their keys.

    >>> "Kim2018" in cite_specs([("objective", {"name": "FactorVAE"})])
    True
    """
    found = {_ALWAYS: bibliography()[_ALWAYS]}
    for kind, spec in specs:
        for reference in registry.record(kind, spec["name"]).citations(spec):
            found.setdefault(*entry_of(reference, f"the {kind} {spec['name']}"))
    return found


def entry_of(reference: str, whose: str) -> tuple[str, str]:
    """Return the key and the BibTeX of a reference, which is a key of the bibliography or a full BibTeX entry.

    Args:
        reference: A key, or a BibTeX entry.
        whose: The entry that cites it, for the comment if the key is unknown.

    Returns:
        The key and the entry.
    """
    if (key := registry.reference_key(reference)) != reference:
        return key, reference
    return key, bibliography().get(reference, f"% {reference}: cited by {whose}, which does not give its entry")


def specs_of_config(config: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the catalogue entries that the config of a run names, with the metrics of every run.

    Args:
        config: The config, with or without its defaults.

    Returns:
        Kinds, each with a name and settings.
    """
    model, evaluation = config.get("model") or {}, config.get("evaluation") or {}
    named = [
        ("objective", config.get("objective")),
        ("dataset", config.get("dataset")),
        *((kind, model.get(kind)) for kind in ("architecture", "prior", "likelihood")),
        *(("metric", metric) for metric in _METRICS),
        *(("measure", measure) for measure in evaluation.get("further") or ()),
    ]
    specs = [(kind, {"name": spec} if isinstance(spec, str) else spec) for kind, spec in named if spec is not None]
    return [(kind, spec) for kind, spec in specs if isinstance(spec, Mapping) and "name" in spec]
