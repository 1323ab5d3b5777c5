"""The ledger: every citable item of four papers as a record, and the verdicts of a study's results on them."""

from collections.abc import Iterable, Mapping
from typing import Any

from polarised.errors import ConfigError
from polarised.study.claims import be_more_active, decomposition, own, polarised_ivae, rtc_vae
from polarised.study.claims.check import RESERVED_SEEDS, Verdict, Verification, check_claims
from polarised.study.claims.claim import PAPERS, Claim, Law, Share, Statistic, ledger_of

__all__ = [
    "LEDGER",
    "PAPERS",
    "RESERVED_SEEDS",
    "Claim",
    "Law",
    "Share",
    "Statistic",
    "Verdict",
    "Verification",
    "check_claims",
    "chosen_claims",
]

LEDGER: Mapping[str, Claim] = ledger_of(
    claim for page in (be_more_active, polarised_ivae, rtc_vae, decomposition, own) for claim in page.CLAIMS
)


def chosen_claims(names: Iterable[Any]) -> tuple[Claim, ...]:
    """Return the claims that a study names: by id, by paper, or `module:name` of a claim of your own.

    Args:
        names: Ids such as "RTC-F3L", keys of `PAPERS` for all claims of a paper, or "module:name".

    Returns:
        The claims, each once, in the order they are named.

    Raises:
        ConfigError: If a name is none of these.

    Example:
        >>> [claim.id for claim in chosen_claims(["RTC-F3L", "RTC-F3R"])]
        ['RTC-F3L', 'RTC-F3R']
        >>> len(chosen_claims(["rtc_vae"]))
        56
    """
    found: dict[str, Claim] = {}
    for name in names:
        if isinstance(name, Claim):
            found[name.id] = name
        elif name in PAPERS:
            found |= {claim.id: claim for claim in LEDGER.values() if claim.paper == name}
        elif name in LEDGER:
            found[name] = LEDGER[name]
        elif isinstance(name, str) and ":" in name:
            claim = _imported(name)
            found[claim.id] = claim
        else:
            raise ConfigError(
                f"expected the id of a claim, one of the papers {', '.join(PAPERS)}, or module:name of a claim, "
                f"got {name!r}; docs/ledger.md lists the ids"
            )
    return tuple(found.values())


def _imported(name: str) -> Claim:
    import importlib

    module, _, attribute = name.partition(":")
    found = getattr(importlib.import_module(module), attribute, None)
    if not isinstance(found, Claim):
        raise ConfigError(f"expected {name} to be a Claim, got {type(found).__name__}")
    return found
