"""What to cite: the works behind exactly the data, networks, objectives and metrics that a run used.

The keys are those of the docstrings, so a catalogue entry is cited from the day it is written: the first reference
in brackets says whose the entry is. A later one is a remark, unless a setting in quotes stands before it: ``"shared" is
one number, trained [Dai2018]`` is cited by the runs that choose "shared".
"""

from collections.abc import Iterable

from polarised.bibliography import bibliography, bibtex, keys_of_specs, specs_of_config
from polarised.study.config import Run

__all__ = ["bibliography", "bibtex", "citation_keys"]


def citation_keys(runs: Iterable[Run]) -> list[str]:
    """Return the keys of the works that the runs rest on, in order of first use.

    >>> run = Run.from_config({"objective": {"name": "FactorVAE"}})
    >>> "Kim2018" in citation_keys([run]), "Kumar2018" in citation_keys([run])
    (True, False)
    """
    return keys_of_specs(spec for run in runs for spec in specs_of_config(run.to_config()))
