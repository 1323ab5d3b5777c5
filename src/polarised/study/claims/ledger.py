"""The ledger by name: all claims of the four papers, additional ones, and those named by a study."""

from collections.abc import Iterable, Mapping
from typing import Any

from polarised import registry
from polarised.errors import ConfigError
from polarised.study.claims import be_more_active, decomposition, polarised_ivae, rtc_vae
from polarised.study.claims.claim import DIRECTION, PAPERS, Claim, Share, Statistic, ledger_of
from polarised.study.claims.decisions import above, below
from polarised.study.claims.expressions import at, method_of, number

__all__ = ["LEDGER", "chosen_claims"]

IVAES = ("iVAE", "iVAE, u = shape")
MCC = number("mcc", "mean")

# Questions of our own, and a claim of [Khemakhem2020].
OWN = (
    Claim(
        id="OWN-retyped",
        paper="own",
        place="polarised_ivae",
        quotation=("The rule for N(0, I) gives variables of an iVAE another type than the rule relative to the prior",),
        scope="iVAE with a learned prior variance",
        statistics=(
            Share(
                "some variable has another type by the other rule",
                ((number("retyped"), above(0.5)),),
                "one variable of one model is enough to mislead",
            ),
        ),
        methods=IVAES,
    ),
    Claim(
        id="OWN-calibrated",
        paper="own",
        place="polarised_ivae",
        quotation=("A learned prior variance settles where E[r] + E[s] = 1 for every variable",),
        scope="iVAE with a learned prior variance",
        statistics=(
            Statistic(
                "|E[r] + E[s] - 1|, mean over variables",
                number("miscalibration"),
                below(0.1),
                "the rule's own α = 0.1",
            ),
        ),
        methods=(*IVAES, "iVAE, learned mean"),
    ),
    Claim(
        id="OWN-driven",
        paper="own",
        place="polarised_ivae",
        quotation=(
            "With a learned prior mean the prior drives variables that then look passive; with a zero mean none",
        ),
        scope="iVAE with learned and with zero prior mean",
        statistics=(
            Statistic(
                "variables driven by a learned prior mean", number("prior_driven"), above(0.5), "one variable, rounded"
            ),
            Statistic(
                "variables driven by a prior of zero mean",
                method_of("iVAE", number("prior_driven")),
                below(0.5),
                "one variable, rounded",
            ),
        ),
        methods=("iVAE, learned mean",),
    ),
    Claim(
        id="OWN-sources",
        paper="own",
        place="nonlinear_ica",
        quotation=("Knowing u finds the sources better than VAEs that do not",),
        scope="iVAE against VAE, beta-VAE and beta-TCVAE on the same data, seed by seed [Khemakhem2020]",
        statistics=tuple(
            Statistic(
                f"MCC of the means minus that of {other}",
                MCC - method_of(other, at(MCC, "most")),
                above(0.0),
                DIRECTION,
            )
            for other in ("VAE", "beta-VAE", "beta-TCVAE")
        ),
        methods=("iVAE",),
        note="A random rotation of two sources has an MCC of 0.90 already.",
    ),
    *(
        Claim(
            id=f"OWN-plane-{beta}",
            paper="own",
            place="decomposition_clustering",
            quotation=(f"At β = {beta} any α above 0 brings q(z) closer to the prior than none",),
            scope="the plane of α and β, of which [Mathieu2019] shows two lines",
            statistics=(
                Statistic(
                    "MMD without minus with α",
                    method_of("beta", at(number("mmd"), float(beta))) - number("mmd"),
                    above(0.0),
                    DIRECTION,
                ),
            ),
            methods=(f"alpha, beta {beta}",),
            note="Written after the plane was seen.",
        )
        for beta in ("0.1", "0.5", "1", "3")
    ),
)

LEDGER: Mapping[str, Claim] = ledger_of(
    (*be_more_active.CLAIMS, *polarised_ivae.CLAIMS, *rtc_vae.CLAIMS, *decomposition.CLAIMS, *OWN)
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
    """Return the claims that a study names: by id, by paper, or as `module:name` for your own claim.

    Args:
        names: Ids such as "RTC-F3L", keys of `PAPERS` for all claims of a paper, or "module:name".

    Returns:
        The claims, each once, in the given order.

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
