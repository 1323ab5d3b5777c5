"""The ledger by name: all claims in the catalogue, and those a study names."""

from collections.abc import Iterable, Mapping
from typing import Any

from polarised import registry
from polarised.errors import ConfigError
from polarised.study.claims import be_more_active, decomposition, own, polarised_ivae, rtc_vae
from polarised.study.claims.claim import PAPERS, Claim, ledger_of

__all__ = ["LEDGER", "chosen_claims"]

LEDGER: Mapping[str, Claim] = ledger_of(
    claim for page in (be_more_active, polarised_ivae, rtc_vae, decomposition, own) for claim in page.CLAIMS
)

for _claim in LEDGER.values():
    registry.register(
        "claim",
        name=_claim.id,
        title=_claim.quotation[0],
        summary=_claim.statistic or _claim.untestable,
        needs=_claim.metrics,
        references=tuple(filter(None, [PAPERS[_claim.paper][1]])),
    )(_claim)


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
        if not isinstance(name, str):
            raise ConfigError(
                f"expected the id of a claim, one of the papers {', '.join(PAPERS)}, or module:name of a claim, "
                f"got {name!r}"
            )
        if name in PAPERS:
            found |= {claim.id: claim for claim in LEDGER.values() if claim.paper == name}
            continue
        claim = registry.entry("claim", name)
        if not isinstance(claim, Claim):
            raise ConfigError(f"expected {name} to be a Claim, got {type(claim).__name__}")
        found[claim.id] = claim
    return tuple(found.values())
