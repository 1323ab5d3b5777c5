"""What people call a run: its method and strength as the papers name them, in tables and in names of directories."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polarised.study.config import Run

__all__ = ["METHODS", "labels_of", "words_of"]

# objective → (method as the studies name it, the settings that tell its models apart; the first is its strength).
METHODS: dict[str, tuple[str, tuple[str, ...]]] = {
    "ELBO": ("VAE", ()),
    "BetaVAE": ("beta-VAE", ("beta",)),
    "AnnealedVAE": ("annealed VAE", ("c_max",)),
    "FactorVAE": ("FactorVAE", ("gamma",)),
    "BetaTCVAE": ("beta-TCVAE", ("beta",)),
    "DIPVAE": ("DIP-VAE", ("lambda_od",)),
    "RTCVAE": ("RTC-VAE", ("beta",)),
    # The weight of total correlation; the others tell a VAE from a beta-VAE.
    "IVAE": ("weighted VAE", ("c", "a", "b", "d")),
    "Decomposition": ("decomposition", ("alpha", "beta")),
}


def labels_of(run: "Run") -> dict[str, Any]:
    """Return the labels of a run for which no study has names: method, strength, dataset, seed.

    >>> from polarised.study import Run
    >>> labels_of(Run.from_config({"objective": {"name": "AnnealedVAE", "c_max": 5}}))
    {'method': 'annealed VAE', 'strength': 5.0, 'dataset': 'dsprites', 'seed': 0}
    """
    method, settings = _method(run)
    strength = next((run.objective[name] for name in settings), None)
    return {"method": method, "strength": strength, "dataset": run.dataset["name"], "seed": run.seed}


def words_of(run: "Run", prior: Mapping[str, Any]) -> list[str]:
    """Return the words of a run's name; `prior` has the settings of the prior that are not its defaults.

    >>> from polarised.study import Run
    >>> words_of(Run.from_config({"objective": {"name": "BetaVAE", "beta": 4}}), {"name": "StudentT", "df": 5.0})
    ['beta-VAE', 'beta4', 'StudentT', 'df5', 'dsprites', 'seed0']
    """
    method, settings = _method(run)
    words = [method, *(_word(name, run.objective[name]) for name in settings)]
    if prior["name"] != "StandardNormal":
        words += [_short(prior["name"]), *(_word(name, value) for name, value in prior.items() if name != "name")]
    if run.auxiliary:
        words.append("u " + " ".join(run.auxiliary))
    return [word for word in [*words, _short(run.dataset["name"]), f"seed{run.seed}"] if word]


def _method(run: "Run") -> tuple[str, tuple[str, ...]]:
    name = run.objective["name"]
    if name not in METHODS:
        numbers = [key for key, value in run.objective.items() if _is_number(value)]
        return _short(name), tuple(numbers[:1])
    method, settings = METHODS[name]
    if name == "DIPVAE":
        method += f"-{run.objective['variant']}"
    # What makes an iVAE is a prior that knows u, whatever the weights of its bound.
    if name in ("ELBO", "IVAE") and run.model["prior"]["name"] == "Conditional":
        method = "iVAE"
    return method, settings


def _word(name: str, value: Any) -> str:
    if _is_number(value):
        return f"{name}{value:g}"
    if isinstance(value, str):
        return f"{name} {value}"
    return name if value is True else ""


def _short(name: str) -> str:
    """The name of somebody's own code without its module."""
    return name.rpartition(":")[2]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
