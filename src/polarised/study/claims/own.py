"""What studies of this library look at beyond the four papers: our own questions, and a claim of [Khemakhem2020]."""

from polarised.study.claims.claim import Claim, Share, Statistic
from polarised.study.claims.decisions import above, below
from polarised.study.claims.expressions import at, method_of, number
from polarised.study.claims.quantities import DIRECTION

__all__ = ["CLAIMS"]

IVAES = ("iVAE", "iVAE, u = shape")
MCC = number("mcc", "mean")

CLAIMS = (
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
