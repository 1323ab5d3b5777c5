"""What to cite: the works behind exactly the data, networks, objectives and metrics that runs used."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from polarised.bibliography import cite_specs, entry_of, specs_of_config
from polarised.errors import ConfigError
from polarised.study.config import Run

__all__ = ["Citations", "cite", "cite_runs"]


class Citations(NamedTuple):
    """The works that some runs rest on.

    Args:
        keys: Their keys, in order of first use.
        bibtex: Their BibTeX entries, in the same order.
    """

    keys: tuple[str, ...]
    bibtex: str


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
        runs, named = list(study.runs), dict(entry_of(key, f"the study {study.name}") for key in study.references)
    entries = {**named, **cite_runs(runs)}
    return Citations(tuple(entries), "\n".join(entries.values()))


def cite_runs(runs: Iterable[Run]) -> dict[str, str]:
    """Return the works that some runs rest on, in order of first use.

    Args:
        runs: The runs.

    Returns:
        BibTeX entries by their keys.

    >>> run = Run.from_config({"objective": {"name": "FactorVAE"}})
    >>> "Kim2018" in cite_runs([run]), "Kumar2018" in cite_runs([run])
    (True, False)
    """
    return cite_specs(spec for run in runs for spec in specs_of_config(run.to_config()))
