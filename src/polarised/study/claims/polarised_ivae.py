"""Every citable item of "The Polarised Regime of Identifiable VAEs" [Bonheme2023iVAE]."""

from polarised.study.claims.claim import DIRECTION, KS_MARGIN, NEGLIGIBLE, Claim, Law, Share, Statistic, count, tc
from polarised.study.claims.decisions import above, below, between, within
from polarised.study.claims.expressions import STRENGTH, at, given, log10, number, rank, slope

__all__ = ["CLAIMS"]

IVAES = ("iVAE", "iVAE, u = shape", "iVAE, learned mean")

CLAIMS = (
    Claim(
        id="IV-A, BG",
        paper="polarised_ivae",
        place="abstract; Motivation; section 1 (definitions, cited benefits)",
        quotation=(
            (
                "Their natively disentangled latent representations are semantically meaningful, fair, and beneficial"
                " for abstract reasoning"
            ),
            "iVAEs also behave in a polarised regime and are thus likely to exhibit the same behaviour",
        ),
        scope="iVAE, Gaussian prior with learned mean and/or variance",
        follows=("IV-T1, B2", "IV-T2i, F4a, F4b", "IV-T2ii", "IV-T2iii"),
        note="'Likely': not shown. The benefits are cited from other papers.",
    ),
    Claim(
        id="IV-T1, B2",
        paper="polarised_ivae",
        place="theorem 1; A.1; appendix B (30 latents)",
        quotation=(
            "to ensure the presence of superfluous (passive) variables",
            "Any well-behaved iVAE learns in a polarised regime.",
            "passive variables will only depend on the prior while active variables will have very low variance",
        ),
        scope='iVAE at its optimum ("converging to the lowest reconstruction error and KL")',
        statistics=(
            Statistic(
                "share of variables whose variance is between 0.1 and 0.9 of the prior's",
                number("unpolarised_share"),
                below(0.1),
                "α on either side, one variable of ten",
            ),
            Share(
                "there are active and passive variables",
                ((count("active"), above(0.5)), (count("passive"), above(0.5))),
                "both kinds in six of six seeds bound the share above one half",
            ),
        ),
        methods=IVAES,
        note=(
            "Types relative to the prior. The theorem is a limit γ → 0 with a known dimension of the data; a "
            "Bernoulli decoder has no γ."
        ),
    ),
    Claim(
        id="IV-E1–E10",
        paper="polarised_ivae",
        place="A.1, equation 1–10 and the limit before (7)",
        quotation=("Now suppose that the reconstruction is highly precise",),
        scope="Gaussian decoder N(μ‡, γI), diagonal q and p",
        law=Law(
            "tests/study/claims/test_laws.py::test_expected_loss_of_a_linear_decoder_is_its_expansion",
            "for a linear decoder the expansion (9)-(10) is the exact expected loss",
        ),
        note="Equations 5 and 6 print the number of latents where the density of x needs that of the data.",
    ),
    Claim(
        id="IV-E11",
        paper="polarised_ivae",
        place="equation 11",
        quotation=("must thus satisfy",),
        scope="Σ = (Σ†⁻¹ + J'J/γ)⁻¹",
        statistics=(
            Statistic(
                "|log10| of measured over optimal posterior variance, median over variables",
                number("optimum_log_ratio"),
                below(0.3),
                "a factor of two",
            ),
        ),
        methods=IVAES,
        law=Law("tests/theory/test_optimum.py::test_covariance_is_a_minimum", "Σ = (Σ†⁻¹ + J'J / γ)⁻¹ is the minimum"),
        note="The optimum of a diagonal posterior is 1 / diag(Σ⁻¹), not diag(Σ).",
    ),
    Claim(
        id="IV-E12",
        paper="polarised_ivae",
        place="equation 12",
        quotation=(
            "both sides of the inequality converge to 0",
            "become arbitrarily small at a rate proportional to",
        ),
        scope="eigenvalues of Σ, λ† of the prior, λ‡ of J'J",
        law=Law(
            "tests/study/claims/test_laws.py::test_eigenvalues_of_the_optimum_lie_between_their_bounds",
            "holds with the eigenvalues in opposite order, and fails in the same order; they fall as γ",
        ),
        note="† and ‡ are easily confused in the printed fraction: the term of γ is λ‡.",
    ),
    Claim(
        id="IV-E13–E15",
        paper="polarised_ivae",
        place="equation 13–15; A.1 end",
        quotation=("any additional variables introduced by increasing k will not improve the reconstruction",),
        scope="iVAE, k latents beyond the manifold's dimension",
        statistics=(
            Statistic(
                "reconstruction loss minus that at the fewest latents (nats)",
                given(
                    STRENGTH - at(STRENGTH, "least"),
                    number("reconstruction", "sampled") - at(number("reconstruction", "sampled"), "least"),
                ),
                within(1.0),
                "a nat, about a per cent of the loss",
            ),
            Statistic(
                "slope of passive variables in the number of latents, minus 1",
                slope(STRENGTH, count("passive")) - 1.0,
                within(0.2),
                "one for one",
            ),
        ),
        methods=("iVAE, latents",),
        note=(
            "Here the strength is the number of latents, from the smallest that suffices. The factor 2 in (13) and "
            "'2E[log p] ≥ 0' are wrong as printed; the conclusion does not need them."
        ),
    ),
    Claim(
        id="IV-D1, P1",
        paper="polarised_ivae",
        place="A.2 definition 1; proposition 1 (i), (ii)",
        quotation=(
            "passive variables to be as close as possible to the prior",
            "active variables have high precision (i.e., low variance) while increasing the KL divergence",
        ),
        scope="each pair (x, u): (i) μ ≈ μ†, σ ≈ σ†, z ≈ z†; (ii) σ ≪ 1, z ≈ μ",
        statistics=(
            Statistic(
                "share of inputs and variables that are neither passive nor active relative to the prior",
                number("state_share", None, "neither"),
                below(0.1),
                "'composed of' leaves no third kind",
            ),
        ),
        methods=IVAES,
        note="'σ ≪ 1' is absolute; only the ratio to the prior's variance is unchanged by rescaling.",
    ),
    Claim(
        id="IV-P2i",
        paper="polarised_ivae",
        place="proposition 2 (i); A.3",
        quotation=(
            (
                "the passive variables of the mean representation are always close to the mean of their corresponding"
                " prior"
            ),
        ),
        scope="iVAE with learned prior mean; passive j: mean(μ_j) ≈ mean(μ†_j), Var(μ_j) ≈ Var(μ†_j)",
        statistics=(
            Statistic(
                "|average| of passive means minus the prior's, in its standard deviations",
                number("prior_offset", "mean", "passive"),
                below(0.1),
                "α",
            ),
            Statistic(
                "log10 of the variance of passive means over that of the prior's mean",
                number("mean_variance_log_ratio", None, "passive"),
                within(0.1),
                "a quarter more or less",
            ),
        ),
        methods=("iVAE, learned mean",),
        note="The paper's own experiment fixes the prior mean at 0, so this part was never illustrated.",
    ),
    Claim(
        id="IV-P2ii, F1a",
        paper="polarised_ivae",
        place="proposition 2 (ii); A.3; figure 1a",
        quotation=(
            "consistently takes values very close to zero",
            "If the mean of the prior is fixed to some vector",
        ),
        scope="zero prior mean; passive j: mean(μ_j) ≈ μ†_j, Var(μ_j) ≪ 1",
        statistics=(
            Statistic(
                "|average| of passive means minus the prior's, in its standard deviations, largest",
                number("prior_offset", "mean", "passive", "max"),
                below(0.1),
                "α",
            ),
            Statistic(
                "variance of passive means, largest",
                number("variable_variance", "mean", "passive", "max"),
                below(0.1),
                NEGLIGIBLE,
            ),
            Statistic(
                "variance of passive means over the prior's variance, largest",
                number("relative_variance", "mean", "passive", "max"),
                below(0.1),
                "α, unchanged by rescaling",
            ),
        ),
        methods=("iVAE", "iVAE, u = shape"),
        note="The absolute form says nothing where the prior's variance itself is small; the relative one is the test.",
    ),
    Claim(
        id="IV-P3i, F1b, F1c; P3ii, F2b, F2c",
        paper="polarised_ivae",
        place="proposition 3; A.4; figures 1b, 1c, 2b, 2c",
        quotation=(
            "stay close to the variance representation of the prior to minimise the KL divergence",
            "also depart from their prior distribution",
            (
                "the variance representation will be close to zero for active variables and to the prior's variance "
                "for passive variables"
            ),
        ),
        scope="(i) passive: mean σ ≈ mean σ†, Var σ ≈ Var σ†; (ii) active: mean σ ≪ 1, Var σ ≪ 1",
        statistics=(
            Statistic(
                "log10 of posterior over prior variance, passive",
                log10(number("posterior_variance", None, "passive") / number("prior_variance", None, "passive")),
                within(0.05),
                "a ratio of 0.9 to 1.1",
            ),
            Statistic(
                "log10 of the variance over inputs of posterior over prior variance, passive",
                number("variance_spread_log_ratio", None, "passive"),
                within(0.1),
                "a quarter more or less",
            ),
            Statistic(
                "posterior variance, active", number("posterior_variance", None, "active"), below(0.1), NEGLIGIBLE
            ),
            Statistic(
                "log10 of prior over posterior variance, active",
                log10(number("prior_variance", None, "active") / number("posterior_variance", None, "active")),
                above(1.0),
                "α: a tenth",
            ),
        ),
        methods=IVAES,
        note="The first part is the relative rule itself; the second is the test.",
    ),
    Claim(
        id="IV-T2i, F4a, F4b",
        paper="polarised_ivae",
        place="theorem 2 (i); A.5; figure 4",
        quotation=(
            "the sampled representations of the prior and posterior are very similar",
            "passive variables of the sampled representation follow the prior distribution",
        ),
        scope="z_j against z†_j drawn from p(z given u) for the same u, passive",
        statistics=(
            Statistic(
                "Kolmogorov-Smirnov distance of passive samples of posterior and prior",
                number("prior_distance_ks", "sampled", "passive"),
                below(0.05),
                KS_MARGIN,
            ),
            Statistic(
                "Wasserstein-1 distance of passive samples of posterior and prior, over their spread",
                number("prior_distance_w1", "sampled", "passive"),
                below(0.1),
                "a shift of α standard deviations",
            ),
        ),
        methods=IVAES,
        note=(
            "The aggregate over u, not N(0, 1). The text calls figure 4 the second point of the theorem, it is the "
            "first; A.5 cites proposition 2 where 3 is meant."
        ),
    ),
    Claim(
        id="IV-T2ii",
        paper="polarised_ivae",
        place="theorem 2 (ii)",
        quotation=("active variables are close to their corresponding mean representation",),
        scope="z_j against μ_j, active",
        statistics=(
            Statistic(
                "Wasserstein-1 distance of active sample and mean over the sample's spread",
                number("mean_sample_distance", None, "active"),
                below(0.1),
                "by coupling it is at most 0.32",
            ),
            Statistic(
                "Wasserstein-1 distance of active samples of posterior and prior, over their spread",
                number("prior_distance_w1", "sampled", "active"),
                above(0.1),
                "what passive ones may have at most",
            ),
        ),
        methods=IVAES,
    ),
    Claim(
        id="IV-T2iii",
        paper="polarised_ivae",
        place="theorem 2 (iii)",
        quotation=("is distributed according to a mixture distribution",),
        scope="mixed; c p(z†) + (1 − c) p(μ)",
        statistics=(
            Statistic(
                "Wasserstein-1 distance of a mixed sample from the mixture of prior and active means, over its spread",
                number("mixture_distance", "sampled", "mixed"),
                below(0.1),
                "as for active variables",
            ),
            Statistic(
                "share of inputs for which a mixed variable is passive",
                number("mixture_weight", None, "mixed"),
                between(0.05, 0.95),
                "0 and 1 are the other two types",
            ),
        ),
        methods=IVAES,
        note="No mixed variable was seen in the paper, so this part was never illustrated.",
    ),
    Claim(
        id="IV-C1, C4",
        paper="polarised_ivae",
        place="conclusion",
        quotation=(
            "can be seen as a specific case of the polarised regime of iVAEs",
            "can be generalised to VAEs with any Gaussian prior and posterior with diagonal covariances",
        ),
        scope="prior N(0, I) or any diagonal Gaussian",
        law=Law(
            "tests/regime/test_regime.py::test_rescaling_a_variable_with_its_prior_changes_nothing_but_its_scale",
            "types by the relative rule do not change when code and prior are rescaled",
        ),
        note="The relative rule has a clause on the mean that the standard one lacks: they part for annealed VAE.",
    ),
    Claim(
        id="IV-C2",
        paper="polarised_ivae",
        place="conclusion",
        quotation=(
            (
                "the mean representations of iVAEs should be pruned of their passive variables when used on "
                "downstream tasks"
            ),
        ),
        scope="iVAE μ, full against without passive",
        statistics=(
            Statistic(
                "MCC of the means, with minus without passive variables",
                number("mcc", "mean", "full") - number("mcc", "mean", "active_mixed"),
                within(0.02),
                "the smallest change of MCC a user would act on",
            ),
            Statistic(
                "total correlation of the mean, with minus without passive variables (nats)",
                given(count("passive"), tc("mean") - tc("mean", "alive")),
                above(0.0),
                DIRECTION,
            ),
        ),
        methods=IVAES,
        note=(
            "Advice by analogy, without an experiment. Under a learned prior mean, variables that seem passive may "
            "carry u."
        ),
    ),
    Claim(
        id="IV-C3",
        paper="polarised_ivae",
        place="conclusion",
        quotation=(
            "iVAEs are likely to be sensitive to posterior collapse when the pressure on the KL divergence is too high",
        ),
        scope="iVAE with β·KL",
        statistics=(
            Statistic(
                "rank correlation of the weight of the rate and active variables",
                rank(STRENGTH, count("active")),
                below(0.0),
                DIRECTION,
                kind="sign",
            ),
            Share(
                "all variables passive at some weight",
                ((count("active") + count("mixed"), below(0.5)),),
                "collapse in six of six seeds bounds the share above one half",
                over="some",
            ),
        ),
        methods=("iVAE, beta",),
        note="'Likely'. A learned prior can absorb u: a collapse of the rate is then none of the content.",
    ),
    Claim(
        id="IV-B1",
        paper="polarised_ivae",
        place="appendix B, paragraph 1",
        quotation=("we did not observe any mixed variables when training iVAEs on this dataset",),
        scope="iVAE, dSprites, 30 latents, 300,000 steps",
        statistics=(
            Share(
                "no variable is mixed",
                ((count("mixed"), below(0.5)),),
                "none in six of six seeds bounds the share above one half",
            ),
        ),
        methods=IVAES,
        note=(
            "How types were told is not said; 'as with VAEs' contradicts the mixed variables of Be More Active at β ="
            " 8. Runs that did not settle leave mixed ones."
        ),
    ),
    Claim(
        id="IV-Tab1, Tab2",
        paper="polarised_ivae",
        place="tables 1, 2",
        quotation=(
            "FC, output shape=261, activation=ReLU",
            "Train/test split",
        ),
        scope="networks, optimiser",
        law=Law(
            "tests/models/test_vae.py::test_paper_s_ivae_has_its_parameters",
            "326,214, 386,433 and 6,930 parameters, as the released code has them",
        ),
        note="The tables print kernels and activations that the released code does not have.",
    ),
    Claim(
        id="IV-F2a",
        paper="polarised_ivae",
        place="figure 2a",
        quotation=(
            (
                "the active variables of the mean representation tend to have higher variance as they encode more "
                "information"
            ),
        ),
        scope="μ, active against passive",
        statistics=(
            Statistic(
                "smallest variance of an active mean minus the largest of a passive one",
                number("variable_variance", "mean", "active", "min")
                - number("variable_variance", "mean", "passive", "max"),
                above(0.0),
                DIRECTION,
            ),
            Statistic(
                "the same, each over the prior's variance",
                number("relative_variance", "mean", "active", "min")
                - number("relative_variance", "mean", "passive", "max"),
                above(0.0),
                DIRECTION,
            ),
        ),
        methods=IVAES,
        note="The scale is free under a learned prior: the relative form decides.",
    ),
    Claim(
        id="IV-F1c-0",
        paper="polarised_ivae",
        place="appendix B, after proposition 3 (sentence runs over the page of figures)",
        quotation=(
            "prior stays close to zero",
            "iVAEs seems to behave in a near-deterministic way",
        ),
        scope="passive: σ† ≈ 0; hence σ low for both kinds",
        statistics=(
            Statistic(
                "prior variance of passive variables",
                number("prior_variance", None, "passive"),
                below(0.1),
                "'close to zero': α, absolute as in the paper",
            ),
            Statistic(
                "posterior variance of any variable, largest",
                number("variable_average", "variance", "full", "max"),
                below(0.1),
                "'near-deterministic': α",
            ),
        ),
        methods=("iVAE", "iVAE, u = shape"),
        note=(
            "The absolute scale of a variable is free. The released code used the prior variance of a batch's last "
            "example for all until April 2023."
        ),
    ),
    Claim(
        id="IV-F3a–c",
        paper="polarised_ivae",
        place="figure 3; Illustration of theorem 2",
        quotation=(
            "the sampled representations of active variables are very close to the corresponding mean representation",
            "a strong difference between the sampled representation of the posterior and the prior",
        ),
        scope="active: z against μ (a, c), z against z† (a, b)",
        statistics=(
            Statistic(
                "Wasserstein-1 distance of active sample and mean over the sample's spread",
                number("mean_sample_distance", None, "active"),
                below(0.1),
                "by coupling it is at most 0.32",
            ),
            Statistic(
                "Wasserstein-1 distance of active samples of posterior and prior, over their spread",
                number("prior_distance_w1", "sampled", "active"),
                above(0.2),
                "'strong': twice what counts as a difference",
            ),
        ),
        methods=IVAES,
        note=(
            "With a calibrated prior both samples have the same first two moments given u: only the shape can differ,"
            " so this may fail."
        ),
    ),
)
