"""Every citable item of "Disentangling Disentanglement in Variational Autoencoders" [Mathieu2019]."""

import math

from polarised.study.claims.claim import DIRECTION, Claim, Law, Statistic, count
from polarised.study.claims.decisions import above, below, between, within
from polarised.study.claims.expressions import (
    STRENGTH,
    at,
    deviation,
    largest,
    method_of,
    number,
    rank,
    read_off,
    rise,
    size,
    total,
)

__all__ = ["CLAIMS"]

VOTES = "seven standard errors of the votes, half a standard deviation between seeds"
QUARTER = "a quarter of the way from a Gaussian code (0.23) to the sparse prior's own draws (0.69)"
LOG_FOUR = math.log(4.0)
# The paper has γ = 0.9, the released code 0.8.
SPARSE, DENSE, HEAVIER = ("γ 0.8, β 1", "γ 0.9, β 1"), "γ 0, β 1", ("γ 0.8, β 5", "γ 0.9, β 5")

SCORE = number("factor_vae_score", "mean")
LOSS = number("reconstruction", "mean")
HOYER = number("hoyer", "mean")
MMD = number("mmd")
MATCH = 0.0 - number("exclusive_kl")
GAUSSIAN_SCORE = method_of("isotropic", at(SCORE, 1.0))
GAUSSIAN_LOSS = method_of("isotropic", at(LOSS, 1.0))
COST_OF_BETA = total(*(method_of(heavier, at(LOSS, 0.0)) for heavier in HEAVIER)) - at(LOSS, 0.0)
RANGE_OF_OVERLAP = size(at(number("overlap"), "most") - at(number("overlap"), "least"))
RANGE_OF_MATCH = size(at(number("inclusive_kl"), "most") - at(number("inclusive_kl"), "least"))

CLAIMS = (
    Claim(
        id="DD-A1, A3",
        paper="decomposition",
        place="abstract, section 1, section 4, section 7",
        quotation=(
            "the β-VAE varies from the standard VAE predominantly in its control of latent overlap",
            "better disentanglement with little or no detriment to reconstructions",
        ),
        scope="β-VAE, Gaussian prior; other priors",
        follows=("DD-F3b", "DD-F2iso", "DD-F2top", "DD-F2cost"),
        note="A summary: never confirmed from one half.",
    ),
    Claim(
        id="DD-Da",
        paper="decomposition",
        place="section 3 factor a",
        quotation=(
            "the higher the encoder variance, the higher the number of datapoints which can plausibly give rise",
        ),
        scope="Gaussian encoder",
        law=Law(
            "tests/study/claims/test_laws.py::test_wider_encoders_cover_more_points",
            "the effective number of encoders that cover a sample grows with their variance at fixed means",
        ),
    ),
    Claim(
        id="DD-Db",
        paper="decomposition",
        place="section 3 factor b",
        quotation=("The aggregate encoding q_φ(z) matching the prior",),
        scope="definition",
        law=Law(
            "tests/objectives/test_terms.py::test_mmd_is_unbiased",
            "a definition; its distances are zero in the mean where both laws agree",
        ),
        note="An estimate of MMD can be negative.",
    ),
    Claim(
        id="DD-S3",
        paper="decomposition",
        place="section 3",
        quotation=("too little, and the latents effectively become a lookup table; too much",),
        scope="extremes of β",
        statistics=(
            Statistic(
                "overlap of encoders at the least strength",
                at(number("overlap"), "least"),
                below(0.05),
                "a lookup table: within 5 % of log n",
            ),
            Statistic(
                "information of a code about its input at the largest strength (nats)",
                at(number("index_information"), "most"),
                below(0.1),
                "nothing is left",
            ),
        ),
        methods=("beta",),
    ),
    Claim(
        id="DD-S3n",
        paper="decomposition",
        place="section 3",
        quotation=("neither factor is sufficient in isolation",),
        scope="α, β plane",
        statistics=(
            Statistic(
                "KL(q ‖ p), best of either line minus best of this one (nats)",
                at(MATCH, "best")
                - largest(method_of("beta", at(MATCH, "best")), method_of("alpha", at(MATCH, "best"))),
                above(0.3),
                "a third of a nat; the best is chosen on the other seeds",
            ),
            Statistic(
                "information of a code about its input at the largest strength (nats)",
                at(number("index_information"), "most"),
                above(LOG_FOUR),
                "more than the four clusters",
            ),
        ),
        methods=("alpha, beta 0.1", "alpha, beta 0.5", "alpha, beta 1", "alpha, beta 3"),
    ),
    Claim(
        id="DD-F1",
        paper="decomposition",
        place="figure 1 top l, m, r; bottom l, r",
        quotation=("too little overlap, (m) too much overlap",),
        scope="schematic",
        untestable="a schematic drawing",
    ),
    Claim(
        id="DD-S31a",
        paper="decomposition",
        place="section 3.1",
        quotation=("One could arrive at any value for mutual information simply by an appropriate choice of λ",),
        scope="encoder λ·ball + (1−λ)·prior",
        law=Law(
            "tests/study/claims/test_laws.py::test_mixing_an_encoder_with_the_prior_gives_any_information",
            "continuous and increasing from 0 to its maximum in λ",
        ),
        note="'Any value' is up to log n.",
    ),
    Claim(
        id="DD-S31b",
        paper="decomposition",
        place="section 3.1",
        quotation=(
            "controlling the variance of q_φ(z|x) (with a fixed q_φ(z)) should similarly provide an effective means",
        ),
        scope="Gaussian encoders",
        law=Law(
            "tests/study/claims/test_laws.py::test_encoder_variance_at_a_fixed_aggregate_controls_information",
            "I(x; z) = log(Var z / σ²) / 2 for Gaussians",
        ),
    ),
    Claim(
        id="DD-E1–2",
        paper="decomposition",
        place="section 2.1 equation 1, section 4 equation 2",
        quotation=("it scales the KL term in the standard ELBO by a factor β > 1",),
        scope="definitions",
        law=Law(
            "tests/laws/test_objectives.py::test_neutral_weights_are_the_elbo",
            "β = 1 is the ELBO, and β scales its rate",
        ),
    ),
    Claim(
        id="DD-T1",
        paper="decomposition",
        place="section 4 theorem 1, equation 3",
        quotation=("can be interpreted in terms of the standard ELBO",),
        scope="any prior, any β > 0",
        law=Law("tests/theory/test_annealing.py::test_theorem_1", "the identity holds for each image"),
        note="log F is finite only where p^β can be integrated; appendix B cites (3) where it means (2).",
    ),
    Claim(
        id="DD-T1b–d",
        paper="decomposition",
        place="section 4 after theorem 1",
        quotation=(
            "independent of its mean",
            "collapse towards the modes of the prior",
            "indeed this is the only effect for generalized Gaussian distributions",
        ),
        scope="entropy of q; annealed prior p^β",
        law=Law(
            (
                "tests/study/claims/test_laws.py::test_annealing_narrows_a_prior_and_keeps_a_generalised_gaussian_in_its_family"
            ),
            "entropy does not see a mean or a rotation; p^β narrows, and of a generalised Gaussian is one again",
        ),
        note="About the annealed prior, not the trained encoder; the Student-t is not of that family.",
    ),
    Claim(
        id="DD-T1e",
        paper="decomposition",
        place="section 4",
        quotation=(
            (
                "Only incorporating the maximum-entropy regularisation will simply cause the scaling of the latent "
                "space to increase"
            ),
        ),
        scope="L_{H,β} vs L_β",
        statistics=(
            Statistic(
                "squared spread of the code over that of the β-VAE and over β, minus 1",
                number("code_spread", "sampled")
                * number("code_spread", "sampled")
                / method_of("isotropic", number("code_spread", "sampled") * number("code_spread", "sampled"))
                / STRENGTH
                - 1.0,
                within(0.2),
                "√β up to a tenth",
            ),
            Statistic(
                "spread of the β-VAE's code, minus 1",
                method_of("isotropic", number("code_spread", "sampled")) - 1.0,
                within(0.1),
                "that of the prior up to a tenth",
            ),
        ),
        methods=("entropy-regularised",),
        note="Needs training on the entropy-regularised bound of theorem 1.",
    ),
    Claim(
        id="DD-T1f",
        paper="decomposition",
        place="section 4",
        quotation=(
            (
                "large β is not universally beneficial for disentanglement, as the level of overlap can be increased "
                "too far"
            ),
        ),
        scope="β-VAE",
        statistics=(
            Statistic(
                "FactorVAE score at the largest strength minus at the best",
                at(SCORE, "most") - at(SCORE, "best"),
                below(-0.05),
                VOTES,
                deviation=0.10,
            ),
        ),
        methods=("isotropic",),
        note=(
            "The best strength is chosen on the other seeds. Where all variables are passive the score's cut-off "
            "decides."
        ),
    ),
    Claim(
        id="DD-C1",
        paper="decomposition",
        place="section 4.1 corollary 1, equation 4, 8; appendix A",
        quotation=("represent rescaled networks",),
        scope="Gaussian prior and encoder",
        law=Law("tests/theory/test_annealing.py::test_corollary_1", "the identity holds for each image"),
        note="The proof's last line prints unprimed networks.",
    ),
    Claim(
        id="DD-C2",
        paper="decomposition",
        place="section 4.1 corollary 2",
        quotation=("is a stationary point of",),
        scope="Gaussian prior and encoder",
        law=Law("tests/theory/test_annealing.py::test_corollary_2", "the gradients agree"),
    ),
    Claim(
        id="DD-C2b",
        paper="decomposition",
        place="section 4.1 equation 5",
        quotation=("optimising for (5) leads to networks equivalent to those from optimising the β-VAE objective",),
        scope="trained pairs",
        statistics=(
            Statistic(
                "reconstruction loss above the β-VAE's, as a share of it",
                rise(number("reconstruction", "sampled"), method_of("isotropic", number("reconstruction", "sampled"))),
                within(0.02),
                "2 % of the loss",
            ),
            Statistic(
                "variables that are not passive minus the β-VAE's",
                count("active") + count("mixed") - method_of("isotropic", count("active") + count("mixed")),
                within(0.5),
                "half a variable",
            ),
        ),
        methods=("entropy-regularised",),
        note="Needs training on the entropy-regularised bound of theorem 1.",
    ),
    Claim(
        id="DD-T2",
        paper="decomposition",
        place="section 4.1 theorem 2, equation 6",
        quotation=(
            "is invariant to rotations of the latent space",
            "with such rotations capable of exhibiting strong correlations between latents",
        ),
        scope="isotropic prior, full covariance encoder",
        law=Law("tests/theory/test_annealing.py::test_theorem_2", "holds for encoders of full covariance"),
        note="A diagonal encoder is not invariant: section 7 says it of an 'independent Gaussian posterior'.",
    ),
    Claim(
        id="DD-F2iso",
        paper="decomposition",
        place="section 4.1, figure 2 top isotropic",
        quotation=(
            "we did not observe any gains in disentanglement … from increasing β > 1 with an isotropic Gaussian prior",
        ),
        scope="β-VAE, dSprites, Kim–Mnih score of means",
        statistics=(
            Statistic(
                "FactorVAE score minus that at β = 1",
                SCORE - at(SCORE, 1.0),
                below(0.05),
                VOTES,
                strengths=above(1.0),
                deviation=0.10,
            ),
        ),
        methods=("isotropic",),
    ),
    Claim(
        id="DD-S41v",
        paper="decomposition",
        place="section 4.1",
        quotation=(
            (
                "extremely high levels of variation we found in the disentanglement metric scores between different "
                "random seeds"
            ),
        ),
        scope="β-VAE, dSprites, Kim–Mnih score of means",
        statistics=(
            Statistic(
                "squared deviation of the FactorVAE score from the other seeds",
                deviation(SCORE),
                above(0.0004),
                "three times the vote noise of 0.007, squared",
            ),
        ),
        methods=("isotropic",),
        note="Printed 'disentanglementmetric'; a standard deviation needs twenty seeds.",
        least_seeds=20,
    ),
    Claim(
        id="DD-E7",
        paper="decomposition",
        place="section 5 equation 7",
        quotation=("allowing control over how much factors (a) and (b) are enforced",),
        scope="α, β objective",
        statistics=(
            Statistic(
                "range of overlap over β minus over α",
                RANGE_OF_OVERLAP - method_of("alpha", RANGE_OF_OVERLAP),
                above(0.0),
                DIRECTION,
            ),
            Statistic(
                "range of KL(p ‖ q) over α minus over β (nats)",
                method_of("alpha", RANGE_OF_MATCH) - RANGE_OF_MATCH,
                above(0.0),
                DIRECTION,
            ),
        ),
        methods=("beta",),
    ),
    Claim(
        id="DD-S5m",
        paper="decomposition",
        place="section 5",
        quotation=("choosing the MMD's kernel and numerically stabilising its U-statistics estimator to be tricky",),
        scope="remark",
        untestable="an opinion about convenience",
    ),
    Claim(
        id="DD-F2top",
        paper="decomposition",
        place="section 6.1, figure 2 top",
        quotation=(
            "for a given reconstruction loss … non-isotropic Gaussian priors get better disentanglement scores",
        ),
        scope="PCA, learned vs isotropic; β grid",
        statistics=(
            Statistic(
                "FactorVAE score minus the isotropic prior's at the same reconstruction",
                SCORE - read_off("isotropic", SCORE, LOSS),
                above(0.0),
                "34 seeds decide 0.05",
                deviation=0.10,
            ),
        ),
        methods=("anisotropic, PCA", "anisotropic, learned"),
        note=(
            "The isotropic curve is read off inside its range only. The released code takes the smallest of the top "
            "20 components."
        ),
    ),
    Claim(
        id="DD-F2lrn",
        paper="decomposition",
        place="section 6.1, figure 2 top",
        quotation=("with improvement achieved when the prior variance is learnt",),
        scope="learned vs PCA",
        statistics=(
            Statistic(
                "FactorVAE score minus the PCA prior's at the same reconstruction",
                SCORE - read_off("anisotropic, PCA", SCORE, LOSS),
                above(0.0),
                "34 seeds decide 0.05",
                deviation=0.10,
            ),
        ),
        methods=("anisotropic, learned",),
    ),
    Claim(
        id="DD-F2cost",
        paper="decomposition",
        place="section 6.1, abstract",
        quotation=("reducing ν only incurs a minor reconstruction penalty",),
        scope="Student-t vs isotropic, β = 1",
        statistics=(
            Statistic(
                "reconstruction loss above the Gaussian prior's at β = 1, as a share of it",
                rise(LOSS, GAUSSIAN_LOSS),
                below(0.05),
                "'minor': a twentieth of the loss",
            ),
        ),
        methods=("Student-t",),
    ),
    Claim(
        id="DD-F2bot",
        paper="decomposition",
        place="section 6.1, figure 2 bottom",
        quotation=("for improved disentanglement",),
        scope="ν ∈ grid, β = 1",
        statistics=(
            Statistic(
                "FactorVAE score minus the Gaussian prior's at β = 1",
                SCORE - GAUSSIAN_SCORE,
                above(0.0),
                "34 seeds decide 0.05",
                strengths=above(3.5),
                deviation=0.10,
            ),
            Statistic(
                "the same of transported codes",
                number("factor_vae_score_transported", "mean") - GAUSSIAN_SCORE,
                above(0.0),
                "34 seeds decide 0.05",
                strengths=above(3.5),
                deviation=0.10,
            ),
        ),
        methods=("Student-t",),
        note=(
            "The smallest ν is DD-F2low. The paper's Student-t runs have other batches and epochs than its Gaussian "
            "ones."
        ),
    ),
    Claim(
        id="DD-F2low",
        paper="decomposition",
        place="section 6.1",
        quotation=(
            "caused the disentanglement score to drop again (though still giving higher values than the Gaussian)",
        ),
        scope="smallest ν",
        statistics=(
            Statistic(
                "FactorVAE score at the smallest ν minus at the best",
                at(SCORE, "least") - at(SCORE, "best"),
                below(0.0),
                DIRECTION,
                deviation=0.10,
            ),
            Statistic(
                "FactorVAE score at the smallest ν minus the Gaussian prior's",
                at(SCORE, "least") - GAUSSIAN_SCORE,
                above(0.0),
                DIRECTION,
                deviation=0.10,
            ),
        ),
        methods=("Student-t",),
        note="'Very low' is not given: 3 or below. The best ν is chosen on the other seeds.",
    ),
    Claim(
        id="DD-F2spec",
        paper="decomposition",
        place="section 6.1",
        quotation=("may be related to the effect of heavy tails on the disentanglement metric itself",),
        scope="speculation",
        statistics=(
            Statistic(
                "rank correlation of ν and the gain by transporting the codes",
                rank(STRENGTH, number("factor_vae_score_transported", "mean") - SCORE),
                below(0.0),
                DIRECTION,
                kind="sign",
            ),
        ),
        methods=("Student-t",),
        note="The paper calls it a speculation.",
    ),
    Claim(
        id="DD-F3b",
        paper="decomposition",
        place="section 6.2, figure 3",
        quotation=(
            (
                "increasing β increases the level of overlap in q_φ(z), as a consequence of increasing the encoder "
                "variance"
            ),
        ),
        scope="pinwheel, α = 0",
        statistics=(
            Statistic(
                "rank correlation of β and the overlap of encoders",
                rank(STRENGTH, number("overlap")),
                above(0.0),
                DIRECTION,
                kind="sign",
            ),
            Statistic(
                "rank correlation of β and the entropy of encoders",
                rank(STRENGTH, number("encoder_entropy")),
                above(0.0),
                DIRECTION,
                kind="sign",
            ),
        ),
        methods=("beta", "isotropic"),
        note="Shown on the pinwheel; from β = 1.5 on overlap is near 1.",
    ),
    Claim(
        id="DD-F3m",
        paper="decomposition",
        place="section 6.2",
        quotation=("When β is too large, the encoding of a datapoint loses meaning",),
        scope="pinwheel, α = 0",
        statistics=(
            Statistic(
                "information of a code about its input at the largest β (nats)",
                at(number("index_information"), "most"),
                below(0.1),
                "'loses meaning': a tenth of a nat",
            ),
        ),
        methods=("beta",),
    ),
    Claim(
        id="DD-F3g",
        paper="decomposition",
        place="section 6.2",
        quotation=("as a single datapoint encodes to a Gaussian distribution",),
        scope="collapsed encoder, mixture of four",
        law=Law(
            "tests/study/claims/test_laws.py::test_a_single_gaussian_is_log_four_from_the_mixture",
            "the least divergence of one Gaussian from four far components is log 4",
        ),
    ),
    Claim(
        id="DD-F3lim",
        paper="decomposition",
        place="section 6.2",
        quotation=("Because q_φ(z|x) → q_φ(z) when β → ∞",),
        scope="collapsed encoder, mixture of four",
        statistics=(
            Statistic(
                "1 minus the overlap of encoders at the largest β",
                1.0 - at(number("overlap"), "most"),
                below(0.02),
                "a limit, 2 % away",
            ),
        ),
        methods=("beta",),
    ),
    Claim(
        id="DD-F3tr",
        paper="decomposition",
        place="section 6.2, figure 3 top right",
        quotation=("overly large values of β actually cause a mismatch between",),
        scope="largest β vs best β",
        statistics=tuple(
            Statistic(
                f"{words} at the largest β minus at β = 1",
                at(number(metric), "most") - at(number(metric), 1.0),
                above(0.0),
                DIRECTION,
            )
            for metric, words in (("exclusive_kl", "KL(q ‖ p)"), ("inclusive_kl", "KL(p ‖ q)"), ("mmd", "MMD"))
        ),
        methods=("beta",),
        note=(
            "A collapsed encoder has two optima, one component or a wide one at the centre; the released code counts "
            "log p once for each latent."
        ),
    ),
    Claim(
        id="DD-F3a",
        paper="decomposition",
        place="section 6.2, figure 3",
        quotation=("Increasing α, instead always improves the match",),
        scope="pinwheel, β fixed",
        statistics=(
            Statistic(
                "KL(p ‖ q) at the next smaller α minus here (nats)",
                at(number("inclusive_kl"), "previous") - number("inclusive_kl"),
                above(0.0),
                "'always': every pair of neighbours",
                kind="sign",
            ),
        ),
        methods=("alpha",),
        note=(
            "A rank correlation over all α would hide a rise. The paper prints a sum over the batch, the code takes a"
            " mean."
        ),
    ),
    Claim(
        id="DD-F3o",
        paper="decomposition",
        place="section 6.2",
        quotation=(
            "an increase in overlap with increasing α, but only up to the level required for a non-negligible overlap",
        ),
        scope="pinwheel, β fixed",
        statistics=(
            Statistic(
                "rank correlation of α and the overlap of encoders",
                rank(STRENGTH, number("overlap")),
                above(0.0),
                DIRECTION,
                kind="sign",
            ),
            Statistic(
                "overlap of encoders at the largest α",
                at(number("overlap"), "most"),
                below(0.9),
                "not yet the overlap of a collapsed encoder",
            ),
            Statistic(
                "overlap at the largest α minus at the largest β",
                at(number("overlap"), "most") - method_of("beta", at(number("overlap"), "most")),
                below(0.0),
                DIRECTION,
            ),
        ),
        methods=("alpha",),
    ),
    Claim(
        id="DD-F3c",
        paper="decomposition",
        place="section 6.2",
        quotation=("large values of α do not cause the encodings to collapse to a mode",),
        scope="largest α",
        statistics=(
            Statistic(
                "information of a code about its input at the largest α (nats)",
                at(number("index_information"), "most"),
                above(LOG_FOUR),
                "more than the four clusters",
            ),
            Statistic(
                "mass of the emptiest component at the largest α",
                at(number("least_component_mass"), "most"),
                above(0.125),
                "half of its prior mass",
            ),
        ),
        methods=("alpha",),
    ),
    Claim(
        id="DD-S63h",
        paper="decomposition",
        place="section 6.3 Hoyer",
        quotation=("yielding 0 for a fully dense vector and 1 for a fully sparse vector",),
        scope="metric",
        law=Law(
            "tests/study/claims/test_laws.py::test_hoyer_is_zero_for_dense_and_one_for_sparse_vectors",
            "0 and 1 at its ends, whatever the scale of a vector",
        ),
        note="Unused variables make a code sparse unless each is divided by its spread.",
    ),
    Claim(
        id="DD-F4L1",
        paper="decomposition",
        place="section 6.3, figure 4 left",
        quotation=("substantial sparsity can be gained by replacing a Gaussian prior (γ=0) by a sparse prior (γ=0.9)",),
        scope="same α, β",
        statistics=(
            Statistic(
                "Hoyer sparsity minus the Gaussian prior's at the same α",
                HOYER - method_of(DENSE, HOYER),
                above(0.1),
                QUARTER,
                strengths=above(0.0),
            ),
        ),
        methods=SPARSE,
        note=(
            "Shown on CelebA at γ = 0.9. σ₀² = 0.05 in the text, σ₀ = 0.05 in appendix and code: ceilings of 0.387 "
            "and 0.690."
        ),
    ),
    Claim(
        id="DD-F4L2",
        paper="decomposition",
        place="section 6.3, figure 4 left",
        quotation=("α=0 giving far low sparsity than α>0, when using our sparse prior",),
        scope="γ .9",
        statistics=(
            Statistic(
                "Hoyer sparsity minus that at α = 0", HOYER - at(HOYER, 0.0), above(0.1), QUARTER, strengths=above(0.0)
            ),
        ),
        methods=SPARSE,
    ),
    Claim(
        id="DD-F4C1",
        paper="decomposition",
        place="section 6.3, figure 4 centre",
        quotation=("does incur a small loss in reconstruction, as does increasing α",),
        scope="γ .9 vs 0 at α = 0; α steps at γ .9",
        statistics=(
            Statistic(
                "reconstruction loss above the Gaussian prior's at α = 0, as a share of it",
                rise(at(LOSS, 0.0), method_of(DENSE, at(LOSS, 0.0))),
                between(0.0, 0.05),
                "'a small loss': a twentieth",
            ),
            Statistic(
                "reconstruction loss above that at α = 0, as a share of it",
                rise(LOSS, at(LOSS, 0.0)),
                between(0.0, 0.05),
                "'a small loss': a twentieth",
                strengths=above(0.0),
            ),
        ),
        methods=SPARSE,
    ),
    Claim(
        id="DD-F4C2",
        paper="decomposition",
        place="section 6.3",
        quotation=("both of these effects are very small compared to the losses from increasing β",),
        scope="prior effect, α effect, β effect",
        statistics=(
            Statistic(
                "cost of the sparse prior over the cost of β",
                (at(LOSS, 0.0) - method_of(DENSE, at(LOSS, 0.0))) / COST_OF_BETA,
                below(0.25),
                "'very small compared': a quarter",
                kind="median",
            ),
            Statistic(
                "cost of the largest α over the cost of β",
                (at(LOSS, "most") - at(LOSS, 0.0)) / COST_OF_BETA,
                below(0.25),
                "'very small compared': a quarter",
                kind="median",
            ),
        ),
        methods=SPARSE,
        note="The values of β are not printed; ours are 1 and 5.",
    ),
    Claim(
        id="DD-F4R",
        paper="decomposition",
        place="figure 4 right",
        quotation=(
            (
                "regularization to a Gaussian (i.e. γ=0) much easier to achieve than the sparse prior, hence the "
                "lower divergence"
            ),
        ),
        scope="γ 0 vs .9",
        statistics=(
            Statistic("MMD minus that of the Gaussian prior", MMD - method_of(DENSE, MMD), above(0.0), DIRECTION),
            Statistic(
                "MMD over that of the Gaussian prior",
                MMD / method_of(DENSE, MMD),
                above(2.0),
                "'much easier': twice",
                kind="median",
            ),
        ),
        methods=SPARSE,
    ),
    Claim(
        id="DD-F4Rb",
        paper="decomposition",
        place="figure 4 right, section 6.3",
        quotation=("Divergence (MMD) vs",),
        scope="α",
        statistics=(
            Statistic("rank correlation of α and MMD", rank(STRENGTH, MMD), below(0.0), DIRECTION, kind="sign"),
        ),
        methods=(*SPARSE, DENSE),
        note="The kernel is printed unsquared, the code squares it.",
    ),
    Claim(
        id="DD-S7a",
        paper="decomposition",
        place="section 7",
        quotation=("control of overlap is the only effect of the β-VAE",),
        scope='isotropic prior, "independent Gaussian posterior"',
        law=Law(
            "tests/theory/test_annealing.py::test_theorem_2_fails_for_a_diagonal_encoder",
            "an encoder of independent variables is not invariant: rotations cost it rate",
            "refuted",
        ),
    ),
    Claim(
        id="DD-S7b",
        paper="decomposition",
        place="section 7",
        quotation=("this stochasticity means that they need not give rise to the same ELBO scores",),
        scope="transform z by a measure-preserving map of the prior that is no rotation",
        law=Law(
            "tests/study/claims/test_laws.py::test_a_map_that_keeps_the_prior_need_not_keep_the_bound",
            "after a twist of the prior no Gaussian encoder reaches the bound it had",
        ),
        note="'Need not': existence.",
    ),
    Claim(
        id="DD-S7c",
        paper="decomposition",
        place="section 7",
        quotation=("it is possible to store more information in the prior dimension with higher variance",),
        scope="2-D prior, one wide, isotropic encoder variance",
        law=Law(
            "tests/study/claims/test_laws.py::test_a_wide_prior_variable_stores_more_information",
            "log(1 + s²/σ²) / 2 grows with the prior's variance s²",
        ),
        note="Needs an encoder with one variance for all variables.",
    ),
    Claim(
        id="DD-S7d",
        paper="decomposition",
        place="section 7",
        quotation=("The results indicate that we were successful in attaining those decompositions",),
        scope="conclusion",
        follows=("DD-F3a", "DD-F3c", "DD-F4L1", "DD-F4L2"),
    ),
    Claim(
        id="DD-Tab1, F2ci",
        paper="decomposition",
        place="appendix B table 1 a–c; figure 2 caption",
        quotation=(
            "Encoder and decoder architectures",
            "calculated using 100 separately trained networks",
        ),
        scope="networks, seeds",
        untestable="the networks and the number of seeds of the paper: a protocol, named on the page of a study",
    ),
    Claim(
        id="DD-B1, B2",
        paper="decomposition",
        place="appendix B PCA prior; inclusive KL",
        quotation=(
            "its standard deviations are set to be the first D singular values of the data",
            "approximated by the aggregate encoding of data",
        ),
        scope="PCA, learned priors; pinwheel",
        law=Law(
            "tests/laws/test_priors.py::test_anisotropic_takes_its_scales_from_the_data",
            "variances sum to the dimension, in the order of the data's",
        ),
        note="Released code: ascending order, softmax of log variances.",
    ),
    Claim(
        id="DD-F5, F6",
        paper="decomposition",
        place="figure 5; figure 6, equation 9",
        quotation=(
            "Note that p_ν(z) → N(z; 0, I) as ν → ∞",
            "PDF of Gaussian mixture model prior",
        ),
        scope="Student-t; mixture",
        law=Law(
            "tests/study/claims/test_laws.py::test_student_t_tends_to_the_normal_density",
            "the largest difference of densities falls with ν",
        ),
        note="The mixture's means are printed in {0, 1}, the code has a cross.",
    ),
    Claim(
        id="DD-AC1",
        paper="decomposition",
        place="appendix C expansion",
        quotation=("the variance in the nested (inner) estimator for q(z) induces a bias in the overall estimator",),
        scope="log of an unbiased estimate",
        law=Law(
            "tests/theory/test_estimation.py::test_density_is_unbiased_and_its_logarithm_is_low",
            "about Var / (2 Z²) low",
        ),
    ),
    Claim(
        id="DD-AC2",
        paper="decomposition",
        place="appendix C equation 10",
        quotation=("being an unbiased Monte-Carlo estimate for the remaining terms",),
        scope="eq. 10b",
        law=Law(
            "tests/theory/test_estimation.py::test_density_is_unbiased_and_its_logarithm_is_low",
            "unbiased by enumeration of batches",
        ),
    ),
    Claim(
        id="DD-AC3",
        paper="decomposition",
        place="appendix C",
        quotation=(
            "is, in practice, usually very small and dominated by the first term",
            "the resulting gradients will still, at most, be on a comparable scale",
        ),
        scope="second term of (10b), B ≪ n, trained encoders",
        statistics=(
            Statistic(
                "share of samples in which the second term is below the first",
                number("second_term_share"),
                above(0.5),
                "'usually'",
            ),
            Statistic(
                "norm of the gradient where the second term counts over where it does not",
                number("second_term_gradient"),
                below(2.0),
                "'a comparable scale': twice",
                kind="median",
            ),
        ),
        note="False in few dimensions, where a batch is near the exact entropy.",
    ),
    Claim(
        id="DD-AC4",
        paper="decomposition",
        place="appendix C",
        quotation=("we see that the estimator mimics the β-VAE regularisation up to a constant factor log n",),
        scope="B ≪ n",
        law=Law(
            "tests/theory/test_estimation.py::test_small_batches_see_no_overlap",
            "the estimate is log n plus the encoders' own entropy",
        ),
        note="In many dimensions the exact entropy is itself near that limit.",
    ),
    Claim(
        id="DD-AC5",
        paper="decomposition",
        place="appendix C",
        quotation=("to behave similarly to the β-VAE with the same regularisation term",),
        scope="training with estimated KL(q(z)‖p) weight a vs β-VAE with 1 + a",
        statistics=(
            Statistic(
                "reconstruction loss above the β-VAE's at the same weight, as a share of it",
                rise(number("reconstruction", "sampled"), method_of("isotropic", number("reconstruction", "sampled"))),
                within(0.02),
                "2 % of the loss",
            ),
            Statistic(
                "variables that are not passive minus the β-VAE's",
                count("active") + count("mixed") - method_of("isotropic", count("active") + count("mixed")),
                within(0.5),
                "half a variable",
            ),
        ),
        methods=("estimated KL",),
        note="Needs an objective with the estimated KL(q(z) ‖ p).",
    ),
    Claim(
        id="DD-AC6",
        paper="decomposition",
        place="appendix C",
        quotation=("it is possible, even likely, that negative estimates",),
        scope="training with estimated KL(q(z)‖p) weight a vs β-VAE with 1 + a",
        statistics=(
            Statistic(
                "share of batches with a negative estimate of KL(q(z) ‖ p)",
                number("negative_estimate_share"),
                above(0.5),
                "'even likely'",
            ),
        ),
    ),
    Claim(
        id="DD-AC7",
        paper="decomposition",
        place="appendix C, section 5",
        quotation=("by using very large batch sizes B, at an inevitable computational and memory cost",),
        scope="bias over B",
        law=Law(
            "tests/study/claims/test_laws.py::test_entropy_bias_falls_with_the_batch",
            "the bias of the entropy estimate falls with the batch size",
        ),
    ),
    Claim(
        id="DD-AC8",
        paper="decomposition",
        place="appendix C",
        quotation=("exacerbated in higher dimensional latent spaces and larger datasets",),
        scope="bias over D, n at fixed B",
        law=Law(
            "tests/study/claims/test_laws.py::test_entropy_bias_does_not_grow_with_every_dimension",
            "against the mixture of all encoders the bias grows and falls again where they no longer overlap",
            "refuted",
        ),
        note="Against the continuous law it grows with the other sign: the truth has to be named.",
    ),
)
