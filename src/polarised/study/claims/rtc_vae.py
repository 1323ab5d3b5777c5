"""Every citable item of "RTC-VAE" [Cheng2021]."""

from polarised.study.claims.claim import DIRECTION, Claim, Law, Share, Statistic, count, gap, tc
from polarised.study.claims.decisions import above, below, between, within
from polarised.study.claims.expressions import STRENGTH, at, method_of, number, rank, rise

__all__ = ["CLAIMS"]

MODERATE = "'uncorrelated': not even a moderate correlation"
MUCH = "'much': five times 0.1 nats, which is twenty floors of the estimator"
PAIR = "0.05 nats is the information of a correlation of 0.31, which an eye sees in a plot of pairs"

CLAIMS = (
    Claim(
        id="RTC-I1",
        paper="rtc_vae",
        place="section 1",
        quotation=("A low TC_sample does not necessarily give rise to a low TC_mean",),
        scope="FactorVAE, β-TCVAE; Gaussian TC, all variables",
        statistics=(
            Share(
                "a total correlation of the sample below 0.1 and of the mean above 0.5 nats",
                ((tc("sampled"), below(0.1)), (tc("mean"), above(0.5))),
                "0.1 is twenty floors of the estimator, 0.5 five times that",
                over="some",
            ),
        ),
        methods=("FactorVAE", "beta-TCVAE"),
        note="An existence claim: one strength suffices; RTC-F1 is the closed form.",
    ),
    Claim(
        id="RTC-I2",
        paper="rtc_vae",
        place="section 1 (of Locatello et al.)",
        quotation=(
            (
                "as the strength of regularization on TC_sample increases, TC_sample decreases as expected, but "
                "TC_mean increases"
            ),
        ),
        scope="FactorVAE, β-TCVAE over strengths",
        statistics=(
            Statistic(
                "rank correlation of strength and the total correlation of the sample",
                rank(STRENGTH, tc("sampled")),
                below(0.0),
                DIRECTION,
                kind="sign",
            ),
            Statistic(
                "rank correlation of strength and the total correlation of the mean",
                rank(STRENGTH, tc("mean")),
                above(0.0),
                DIRECTION,
                kind="sign",
            ),
        ),
        methods=("FactorVAE", "beta-TCVAE"),
        note=(
            "Of Locatello et al. Where the sample is at the estimator's floor at every strength, 'decreases' cannot "
            "be told: the grid has to begin lower."
        ),
    ),
    Claim(
        id="RTC-I3",
        paper="rtc_vae",
        place="section 1; section 6.4",
        quotation=("the scores under disentanglement metrics are uncorrelated to the regularization strength",),
        scope="FactorVAE etc.; SAP, MIG, FactorVAE score on means",
        statistics=(
            Statistic(
                "rank correlation of strength and SAP",
                rank(STRENGTH, number("sap", "mean")),
                between(-0.5, 0.5),
                MODERATE,
            ),
            Statistic(
                "rank correlation of strength and MIG",
                rank(STRENGTH, number("mig", "mean")),
                between(-0.5, 0.5),
                MODERATE,
            ),
            Statistic(
                "rank correlation of strength and the FactorVAE score",
                rank(STRENGTH, number("factor_vae_score", "mean")),
                between(-0.5, 0.5),
                MODERATE,
            ),
        ),
        methods=("FactorVAE", "beta-TCVAE", "DIP-VAE-I", "DIP-VAE-II"),
        note="RTC-VAE is not among the methods named: beyond β = 10 its scores fall (RTC-F10a).",
    ),
    Claim(
        id="RTC-I4",
        paper="rtc_vae",
        place="section 1 implication 2; figure 10b, 11f",
        quotation=("shows no strong correlation",),
        scope="all methods × strengths of a seed; TC_mean (Gaussian) against SAP",
        statistics=(
            Statistic(
                "rank correlation of the total correlation of the mean and SAP over the models of a seed",
                rank(tc("mean"), number("sap", "mean")),
                between(-0.5, 0.5),
                "'strong' is conventionally 0.5 or more",
            ),
        ),
        together=True,
        note="All methods as one cloud mix their averages: the verdict within each method stands beside it.",
    ),
    Claim(
        id="RTC-D1",
        paper="rtc_vae",
        place="section 3 definition 1",
        quotation=(
            (
                "measures the difference between the joint distribution of multiple random variables and the product "
                "of their marginal distributions"
            ),
        ),
        scope="any x",
        law=Law(
            "tests/study/claims/test_laws.py::test_total_correlation_is_the_divergence_from_the_product_of_marginals",
            "never negative, zero only for independent variables, unchanged by relabelling single ones",
        ),
        note="The Gaussian total correlation is that of Gaussian codes only.",
    ),
    Claim(
        id="RTC-P1",
        paper="rtc_vae",
        place="section 5 proposition 1, equation 5, 14; appendix 3",
        quotation=("its ground truth TC can be explicitly calculated",),
        scope="x ~ N(0, Σ)",
        law=Law(
            "tests/theory/test_correlation.py::test_total_correlation_of_the_oracles",
            "the closed form on the correlation matrix",
        ),
        note="A singular covariance has an infinite total correlation, which is reported as such.",
    ),
    Claim(
        id="RTC-T1",
        paper="rtc_vae",
        place="section 3 theorem 1, equation 1, 13; appendix 2",
        quotation=("Then TC(z) ≤ C for some C",),
        scope="μ ~ N(0, Σ), z given μ ~ N(μ, diag σ′(μ)²), σ′ bounded as in (1)",
        law=Law(
            "tests/study/claims/test_laws.py::test_noise_bounds_the_total_correlation_of_the_sample_by_its_entropy",
            "TC(z) ≤ Σ_j (log Var z_j + log 2πe) / 2 - E[h(z_j given μ)], for constant and for shrinking noise",
        ),
        note=(
            "The bound shows that C depends on the dimension, which the theorem's list leaves out; the proof writes "
            "c₂ where c₃ is needed."
        ),
    ),
    Claim(
        id="RTC-T1b",
        paper="rtc_vae",
        place="section 3 after theorem 1",
        quotation=("make |Σ| go to zero and hence TC(μ) go to infinity",),
        scope="μ ~ N(0, Σ), z given μ ~ N(μ, diag σ′(μ)²), σ′ bounded as in (1)",
        law=Law(
            "tests/theory/test_correlation.py::test_noise_bounds_the_total_correlation_of_the_sample",
            "TC(μ) grows without bound while TC(z) tends to its limit",
        ),
        note="|Σ| means the determinant of the correlation matrix.",
    ),
    Claim(
        id="RTC-T1c",
        paper="rtc_vae",
        place="section 3 open question",
        quotation=("whether there exists a distribution of z ∼ N(μ, Σ′(μ)) with arbitrarily small TC(z) given μ",),
        scope="μ ~ N(0, Σ), z given μ ~ N(μ, diag σ′(μ)²), σ′ bounded as in (1)",
        untestable=(
            "an open question of the paper; for constant noise the limit of RTC-T1b answers it: yes, if the noise may"
            " grow"
        ),
    ),
    Claim(
        id="RTC-F1",
        paper="rtc_vae",
        place="figure 1",
        quotation=(
            "TC(μ₁,μ₂) = ∞",
            "is very low",
        ),
        scope="Σ = [[1, .1], [.1, .01]], noise .01 and 1",
        law=Law("tests/theory/test_correlation.py::test_figure_1", "TC(μ) is infinite, TC(z) 0.0049 nats"),
        note="The shut variable is μ₂, not μ₁, and 'z₂ given μ₁' means 'given μ₂'.",
    ),
    Claim(
        id="RTC-S6b",
        paper="rtc_vae",
        place="figure 1 caption, section 6, section 6.1",
        quotation=(
            "exists in β-TCVAE and FactorVAE",
            "its problem of disparity is the same as",
        ),
        scope="β-TCVAE",
        statistics=(
            Statistic("total correlation, mean minus sample (nats)", gap(tc), above(0.5), MUCH),
            Statistic(
                "that gap over FactorVAE's at the same weight, minus 1",
                gap(tc) / method_of("FactorVAE", gap(tc)) - 1.0,
                within(0.25),
                "'the same': a quarter more or less",
            ),
        ),
        methods=("beta-TCVAE",),
        note=(
            "Needs strengths that are the weight of the total correlation: β - 1 = γ. The estimator and its shutdown "
            "enter (RTC-E12c)."
        ),
    ),
    Claim(
        id="RTC-E2–4",
        paper="rtc_vae",
        place="section 4 equation 2–4",
        quotation=("we propose regularized TC-VAE (RTC-VAE)",),
        scope="RTC objective, η = max(10, β)",
        law=Law(
            "tests/objectives/test_papers.py::test_unused_latent_under_rtc_settles_below_one",
            "an unused variable settles at a variance of 1 / (1 + 2η)",
        ),
        note="The text penalises σ, the formula σ²; variance rules then call unused variables active.",
    ),
    Claim(
        id="RTC-S4a",
        paper="rtc_vae",
        place="section 4",
        quotation=("our approach will force the distribution of z to be similar to the distribution of μ",),
        scope="RTC vs FactorVAE at equal strength",
        statistics=(
            Statistic(
                "share of noise in the used variables' variance, minus FactorVAE's",
                number("noise_share", None, "used") - method_of("FactorVAE", number("noise_share", None, "used")),
                below(0.0),
                DIRECTION,
            ),
            Statistic(
                "share of noise in the used variables' variance",
                number("noise_share", None, "used"),
                below(0.1),
                "'similar': nine tenths of the variance are the mean's",
            ),
        ),
        methods=("RTC-VAE",),
        note="An unused variable is all noise whatever η is: used variables are meant.",
    ),
    Claim(
        id="RTC-S4c",
        paper="rtc_vae",
        place="section 4, section 6",
        quotation=("when β is small, we need η be strong enough",),
        scope="RTC with η = β against η = max(10, β) at β = 2, 6",
        statistics=(
            Statistic(
                "gap in total correlation with η = β minus with η = max(10, β) (nats)",
                gap(tc) - method_of("RTC-VAE", gap(tc)),
                above(0.1),
                "twenty floors of the estimator",
                strengths=below(10.0),
            ),
        ),
        methods=("RTC-VAE, η = β",),
        note="An ablation the paper does not show; the text says 'to regularize TC_sample'.",
    ),
    Claim(
        id="RTC-S4b",
        paper="rtc_vae",
        place="section 4 law of total covariance",
        quotation=("zero correlation does not necessarily imply independence",),
        scope="DIP-VAE-I, II",
        law=Law(
            "tests/study/claims/test_laws.py::test_a_circle_is_uncorrelated_and_dependent",
            "a noisy circle has no correlation and 0.6 nats of mutual information",
        ),
    ),
    Claim(
        id="RTC-S5n",
        paper="rtc_vae",
        place="section 5",
        quotation=("naive Monte Carlo method comes with an intrinsic issue of underestimation",),
        scope="estimator of TC from a batch",
        law=Law(
            "tests/study/claims/test_laws.py::test_naive_estimates_are_low_with_fresh_encoders_and_high_with_their_own",
            "low with fresh encoders, high where a point's own encoder is in the batch, as in training",
            "refuted",
        ),
        note="What 'naive' is the paper does not say.",
    ),
    Claim(
        id="RTC-O1, E7",
        paper="rtc_vae",
        place="section 5, appendix 1.3 observation 1; appendix 1.1 equation 7",
        quotation=("MWS tends to underestimate TC in general",),
        scope="MWS, D 2–10, σ = .1",
        law=Law(
            "tests/study/claims/test_laws.py::test_mws_depends_on_its_constant",
            (
                "by its definition (7) it is high by (D - 1) log N; with weights 1/B high too; low only without any "
                "constant"
            ),
            "refuted",
        ),
        note="Constants have no gradient: all three train alike.",
    ),
    Claim(
        id="RTC-O2",
        paper="rtc_vae",
        place="section 5, appendix 1.3 observation 2",
        quotation=("For latent space of dimension < 4, MSS₀ and MSS₁ are relatively accurate",),
        scope="D = 2, 3",
        law=Law(
            "tests/study/claims/test_laws.py::test_mss_is_accurate_in_two_dimensions_only",
            "within 0.25 nats in two dimensions, off by a nat in three where the truth is small",
            "refuted",
        ),
        note="'Relatively' may mean relative to four dimensions and more: so read it holds.",
    ),
    Claim(
        id="RTC-O3",
        paper="rtc_vae",
        place="section 5, appendix 1.3 observation 3; contribution 3 (section 1)",
        quotation=("both MSS₀ and MSS₁ tend to overestimate TC when the actual value of TC is small",),
        scope="D ≥ 6, det near 1",
        law=Law(
            "tests/study/claims/test_laws.py::test_mss_overestimates_small_values_in_many_dimensions",
            "high by nats from six dimensions on, and more in ten",
        ),
        note="At four dimensions MSS₁ is low.",
    ),
    Claim(
        id="RTC-O4",
        paper="rtc_vae",
        place="section 5, appendix 1.3 observation 4",
        quotation=("Overall MSS₁ estimates closer to ground truth than",),
        scope="MSS0 vs MSS1, all D, det",
        law=Law(
            "tests/study/claims/test_laws.py::test_mss1_is_closer_than_mss0_from_four_dimensions_on",
            "closer from four dimensions on, from six in every batch; not in two where the truth is zero",
        ),
        note=(
            "'Overall' is the share of settings; an average over them would let ten dimensions decide for two. The "
            "paper prints 'MMS₀'."
        ),
    ),
    Claim(
        id="RTC-E10",
        paper="rtc_vae",
        place="appendix 1.2 equation 8–10",
        quotation=("is an unbiased estimator of q(z), but it turns out",),
        scope="MSS1 (as meant)",
        law=Law(
            "tests/objectives/test_terms.py::test_bias_of_the_weights_by_enumeration",
            "MSS₁ is unbiased for the density by enumeration of batches, MSS₀ is not",
        ),
        note="Index slip: the last term stands outside the sum.",
    ),
    Claim(
        id="RTC-E11",
        paper="rtc_vae",
        place="appendix 1.3.1 equation 11; appendix 5",
        quotation=("TC(z) ≈ O((D−1) log M)",),
        scope="independent unit Gaussians, σ = .1",
        law=Law(
            "tests/study/claims/test_laws.py::test_no_overlap_formula_is_reached_by_tiny_noise_only",
            "at σ = 0.1 the estimate falls with the batch; (D - 1) log M is reached for σ far below 1 / M only",
            "refuted",
        ),
    ),
    Claim(
        id="RTC-E11b",
        paper="rtc_vae",
        place="appendix 5 claim",
        quotation=("only the elements on the diagonal plane of the box … take some bounded values O(1)",),
        scope="M×M×D densities",
        law=Law(
            "tests/study/claims/test_laws.py::test_off_diagonal_densities_are_not_negligible_for_one_variable",
            "one in six off-diagonal densities of one variable is within three standard deviations",
            "refuted",
        ),
        note="True of the product over ten variables.",
    ),
    Claim(
        id="RTC-E12",
        paper="rtc_vae",
        place="appendix 1.3.2 equation 12; appendix 6",
        quotation=("the distribution with a shutdown dimension has a lower estimation of TC",),
        scope="S of D variables shut, truth 0",
        law=Law(
            "tests/study/claims/test_laws.py::test_shutting_a_variable_lowers_the_estimate",
            "falls by about log(1 + 1/σ²) / 2 for each variable shut",
        ),
        note="The size is 2.3 nats a variable, not log M = 6.2.",
    ),
    Claim(
        id="RTC-E12b",
        paper="rtc_vae",
        place="appendix 1.3.2, appendix 6",
        quotation=("there exists an integer S₀ ∈ (0,D) at which the process of dimension shutdown stops",),
        scope="S of D variables shut, truth 0",
        law=Law(
            "tests/study/claims/test_laws.py::test_only_mss1_stops_shutting_variables",
            "MSS₁ is least with some variables left, MWS and MSS₀ fall to the last",
            "refuted",
        ),
        note="Where it stops depends on B, N and σ.",
    ),
    Claim(
        id="RTC-E12c",
        paper="rtc_vae",
        place="section 1 contribution 3, section 5, appendix 1.3.2",
        quotation=("MWS and MSS may lead to an unintended shutdown of latent dimensions",),
        scope="β-TCVAE by MWS, MSS0, MSS1 against FactorVAE (critic) at equal weight of TC",
        statistics=(
            Statistic(
                "used variables minus FactorVAE's at the same weight of the total correlation",
                count("used") - method_of("FactorVAE", count("used")),
                below(-1.0),
                "one variable in ten",
            ),
        ),
        methods=("beta-TCVAE, MWS", "beta-TCVAE, MSS0", "beta-TCVAE, MSS1"),
        note=(
            "Needs a study over estimators and batch sizes with strengths β - 1 = γ; constants of MWS have no "
            "gradient, so MWS and 1/B train alike."
        ),
    ),
    Claim(
        id="RTC-E15",
        paper="rtc_vae",
        place="appendix 4, 5 equation 15",
        quotation=("we can estimate the probability of",),
        scope="x ~ N(0, 2)",
        law=Law(
            "tests/study/claims/test_laws.py::test_probability_of_a_small_difference_is_erf",
            "P(|x| < t) = erf(t / 2) for x of variance 2: 0.0564 at t = 0.1, not 0.05",
            "refuted",
        ),
        note="A disk is taken for a square; only the order matters.",
    ),
    Claim(
        id="RTC-E6",
        paper="rtc_vae",
        place="section 5 equation 6",
        quotation=("where D is discriminator that classifies z being sampled from",),
        scope="density-ratio estimate",
        law=Law(
            "tests/objectives/test_terms.py::test_density_ratio_of_the_best_critic_is_the_total_correlation",
            "the mean log ratio of the best critic is the total correlation",
        ),
        note="Misprint: without the logarithm E[D / (1 - D)] is 1 + χ².",
    ),
    Claim(
        id="RTC-S5d",
        paper="rtc_vae",
        place="section 5",
        quotation=(
            "density-ratio trick would gain unfair advantage due to a potentially overfitting auxiliary discriminator",
        ),
        scope="critic",
        statistics=(
            Statistic(
                "total correlation by the critic, on its training rows minus on held-out ones (nats)",
                number("critic_training_excess", "mean"),
                above(0.0),
                DIRECTION,
            ),
        ),
        note="The reason the paper gives for not comparing; a critic that is read on held-out rows can be compared.",
    ),
    Claim(
        id="RTC-F2",
        paper="rtc_vae",
        place="figure 2",
        quotation=("higher dimension will cause larger error in TC estimation, especially when TC is low",),
        scope="gt, MWS, MSS0, MSS1; σ = .1",
        law=Law(
            "tests/study/claims/test_laws.py::test_bias_of_estimators_grows_with_dimension",
            "the error grows from two to ten dimensions, and is larger where the truth is small",
        ),
        note="The caption says μ ~ N(0, I), against its own axis.",
    ),
    Claim(
        id="RTC-F3L",
        paper="rtc_vae",
        place="figure 3 left, section 6.1",
        quotation=("Under all regularization strength, TC_mean is much higher than TC_sample",),
        scope="FactorVAE, γ = 2…50, all variables",
        statistics=(
            Statistic("total correlation, mean minus sample (nats)", gap(tc), above(0.5), MUCH),
            Statistic(
                "total correlation of the mean over that of the sample",
                tc("mean") / tc("sampled"),
                above(2.0),
                "'much higher': twice",
                kind="median",
            ),
        ),
        methods=("FactorVAE",),
        note="An average over strengths would hide the weakest. Passive means make the gap (BMA-I2).",
    ),
    Claim(
        id="RTC-F3R",
        paper="rtc_vae",
        place="figure 3 right, section 6.1, section 7",
        quotation=("there is almost no difference between TC_sample and TC_mean, i.e., the disparity is eliminated",),
        scope="RTC-VAE, β = 2…50",
        statistics=(
            Statistic(
                "total correlation, mean minus sample (nats)", gap(tc), within(0.1), "twenty floors of the estimator"
            ),
        ),
        methods=("RTC-VAE",),
    ),
    Claim(
        id="RTC-F4",
        paper="rtc_vae",
        place="figure 4 = 10d, section 6.1; 11a, 11b",
        quotation=("both DIP-VAEs and RTC-VAE are immune to the previously mentioned disparity",),
        scope="DIP-I, DIP-II, RTC on dSprites (4, 10d) and Cars3D (11a,b)",
        statistics=(
            Statistic(
                "total correlation, mean minus sample (nats)", gap(tc), within(0.1), "twenty floors of the estimator"
            ),
        ),
        methods=("DIP-VAE-I", "DIP-VAE-II", "RTC-VAE"),
        note="DIP-VAE-II penalises the covariance of the sample, not of the mean.",
    ),
    Claim(
        id="RTC-F4b",
        paper="rtc_vae",
        place="abstract; figure 4, 10d, 11a",
        quotation=("a mean representation with much lower total correlation",),
        scope="RTC vs FactorVAE, equal strength",
        statistics=(
            Statistic(
                "total correlation of the mean, FactorVAE's minus this (nats)",
                method_of("FactorVAE", tc("mean")) - tc("mean"),
                above(0.5),
                MUCH,
            ),
        ),
        methods=("RTC-VAE",),
    ),
    Claim(
        id="RTC-S61",
        paper="rtc_vae",
        place="section 6.1, 6.2",
        quotation=("guaranteed to have low estimated TCs",),
        scope="DIP-I, II",
        statistics=(
            Statistic(
                "total correlation of the mean (nats)", tc("mean"), below(0.1), "'low': twenty floors of the estimator"
            ),
        ),
        methods=("DIP-VAE-I", "DIP-VAE-II"),
        note="DIP-VAE-I penalises the mean, DIP-VAE-II the sample; the sentence covers both.",
    ),
    Claim(
        id="RTC-S61b",
        paper="rtc_vae",
        place="section 6.1",
        quotation=("its actual TC may be high and the corresponding learned latent representation is not factorized",),
        scope="DIP-I, II",
        statistics=(
            Statistic(
                "total correlation of the mean by a held-out critic minus the Gaussian one (nats)",
                number("critic_total_correlation", "mean") - tc("mean"),
                above(0.1),
                "twenty floors of the estimator",
            ),
        ),
        methods=("DIP-VAE-I", "DIP-VAE-II"),
        note="A critic finds a lower bound in practice; the same critic for all methods.",
    ),
    Claim(
        id="RTC-S62, F5d, F16",
        paper="rtc_vae",
        place="section 6.2; figure 5d, 16 (β = 20)",
        quotation=(
            "All dimensions are in discrete independent-like distribution",
            "both the mean and sampled latent variables of RTC-VAE are very likely to act independently",
        ),
        scope="RTC, means, all pairs",
        statistics=(
            Statistic(
                "mutual information of the most dependent pair of means (nats)",
                number("largest_pair_information", "mean"),
                below(0.05),
                PAIR,
            ),
            Statistic(
                "mutual information of the most dependent pair of samples (nats)",
                number("largest_pair_information", "sampled"),
                below(0.05),
                PAIR,
            ),
            Statistic(
                "total correlation of the mean by a held-out critic (nats)",
                number("critic_total_correlation", "mean"),
                below(0.1),
                "twenty floors of the estimator",
            ),
            Statistic(
                "total correlation of the sample by a held-out critic (nats)",
                number("critic_total_correlation", "sampled"),
                below(0.1),
                "twenty floors of the estimator",
            ),
        ),
        methods=("RTC-VAE",),
    ),
    Claim(
        id="RTC-S62b",
        paper="rtc_vae",
        place="section 6.2; figure 5d, 15, 16",
        quotation=("present features of discrete independent distributions",),
        scope="RTC, DIP-I means",
        statistics=(
            Statistic(
                "share of noise in the used variables' variance",
                number("noise_share", None, "used"),
                below(0.05),
                "points, not clouds",
            ),
            Statistic(
                "modes of a used mean, fewest",
                number("modes", "mean", "used", "min"),
                above(1.5),
                "'discrete': two at least",
            ),
        ),
        methods=("RTC-VAE", "DIP-VAE-I"),
        note="A look at a picture in the paper; the factors of dSprites are discrete themselves.",
    ),
    Claim(
        id="RTC-F5a–c, F6",
        paper="rtc_vae",
        place="figure 5 a–c, 6 L/R, section 6.3",
        quotation=("uncorrelated but not independent",),
        scope="DIP-I and RTC on Shapes3D: pairs sharing one hue",
        statistics=(
            Share(
                "some factor has two carriers that are uncorrelated and dependent",
                ((number("dependent_carriers", "mean"), above(0.5)),),
                "Clopper-Pearson on the share of seeds",
            ),
            Share(
                "none has in RTC-VAE",
                ((method_of("RTC-VAE", number("dependent_carriers", "mean")), below(0.5)),),
                "Clopper-Pearson on the share of seeds",
            ),
        ),
        methods=("DIP-VAE-I",),
        note="Shapes3D is not at hand; position and orientation of dSprites stand in for hue.",
    ),
    Claim(
        id="RTC-F5s",
        paper="rtc_vae",
        place="figure 5 caption, section 6.3",
        quotation=("each dimension covers different subsets of wall hue or floor hue",),
        scope="carriers of one factor",
        statistics=(
            Statistic(
                "share of a carrier's variance in the best half of its factor's values, above that of permuted values",
                number("carrier_parts_excess", "mean"),
                above(0.0),
                DIRECTION,
            ),
        ),
        methods=("RTC-VAE",),
        note="Needs a factor with two carriers.",
    ),
    Claim(
        id="RTC-S63",
        paper="rtc_vae",
        place="section 6.3 definition",
        quotation=("multiple independent latent variables simultaneously represent one single factor of variation",),
        scope="any model with factors",
        law=Law(
            "tests/metrics/test_disentanglement.py::test_disintegration_names_the_factor_carried_twice",
            "a factor carried by two unrelated variables is named",
        ),
    ),
    Claim(
        id="RTC-S63b",
        paper="rtc_vae",
        place="section 6.3, abstract",
        quotation=("which is a byproduct of pursuing factorized aggregated posterior",),
        scope="RTC, FactorVAE against VAE (β = 1)",
        statistics=(
            Statistic(
                "disintegrated factors minus those of a VAE",
                number("disintegrated_r2", "mean") - method_of("VAE", at(number("disintegrated_r2", "mean"), "most")),
                above(0.0),
                DIRECTION,
            ),
        ),
        methods=("RTC-VAE", "FactorVAE"),
        note="Needs a plain VAE in the study.",
    ),
    Claim(
        id="RTC-F7L",
        paper="rtc_vae",
        place="figure 7 left",
        quotation=("0.23 and 0.17 respectively",),
        scope="RTC, Shapes3D, object hue",
        untestable="numbers of one model on Shapes3D, which is not at hand",
    ),
    Claim(
        id="RTC-F7R",
        paper="rtc_vae",
        place="figure 7 right",
        quotation=("R² scores are 0.97 and 1 × 10⁻⁴",),
        scope="RTC, Shapes3D, orientation",
        statistics=(
            Share(
                "one factor is disintegrated and another has a gap above 0.5",
                ((number("disintegrated_r2", "mean"), above(0.5)), (number("largest_r2_gap", "mean"), above(0.5))),
                "the printed numbers are of one model on Shapes3D; this is their analogue",
                over="some",
            ),
        ),
        methods=("RTC-VAE",),
    ),
    Claim(
        id="RTC-F8",
        paper="rtc_vae",
        place="figure 8 L/R, section 6.4",
        quotation=("Mutual information discovers more factor disintegration",),
        scope="RTC, Shapes3D",
        statistics=(
            Statistic(
                "disintegrated factors by mutual information minus by R²",
                number("disintegrated_nmi", "mean") - number("disintegrated_r2", "mean"),
                above(0.0),
                DIRECTION,
            ),
        ),
        methods=("RTC-VAE",),
        note="Shown on Shapes3D. The two thresholds differ in meaning unless both are calibrated by chance.",
    ),
    Claim(
        id="RTC-F9",
        paper="rtc_vae",
        place="figure 9 L/R",
        quotation=("R² score seems not to show symptom of non-compactness",),
        scope="DIP-I, Shapes3D",
        statistics=(
            Statistic(
                "factors with a small gap by mutual information minus by R²",
                number("small_gaps_nmi", "mean") - number("small_gaps_r2", "mean"),
                above(0.0),
                DIRECTION,
            ),
        ),
        methods=("DIP-VAE-I",),
        note="Shown on Shapes3D.",
    ),
    Claim(
        id="RTC-S64",
        paper="rtc_vae",
        place="section 6.4, figure 7, 8",
        quotation=("the gap between top 2 correlation (with factor) is dramatically suppressed",),
        scope='any model; SAP and MIG ("no matter which metric we use": DCI, BetaVAE, FactorVAE scores beside them)',
        statistics=(
            Statistic(
                "gap of disintegrated minus gap of whole factors",
                number("disintegrated_gap", "mean") - number("whole_gap", "mean"),
                below(-0.2),
                "'dramatically'",
            ),
            Statistic(
                "rank correlation of disintegrated factors and SAP",
                rank(number("disintegrated_r2", "mean"), number("sap", "mean")),
                below(0.0),
                DIRECTION,
                kind="sign",
            ),
        ),
        law=Law(
            "tests/study/claims/test_laws.py::test_two_carriers_close_the_gap",
            "one carrier of a factor leaves a gap near 1, two or three none",
        ),
        note="Partly by definition: two carriers are a small gap.",
    ),
    Claim(
        id="RTC-S64b",
        paper="rtc_vae",
        place="section 6.4",
        quotation=(
            "SAP score has an optimal value 1",
            "MIG is bounded above by the average entropy of each ground truth factor",
        ),
        scope="metrics",
        law=Law(
            "tests/metrics/test_disentanglement.py::test_one_variable_a_factor_scores_one",
            "one linear carrier for each factor gives SAP 1",
        ),
        note="Here MIG is normalised and at most 1.",
    ),
    Claim(
        id="RTC-S64c",
        paper="rtc_vae",
        place="section 6.4 (of Locatello et al.)",
        quotation=("(MIG, DCI) are even strongly correlated with each other",),
        scope="pairs (BetaVAE, FactorVAE), (MIG, DCI)",
        statistics=(
            Statistic(
                "rank correlation of MIG and DCI over the models of a seed",
                rank(number("mig", "mean"), number("dci_disentanglement", "mean")),
                above(0.5),
                "'strongly'",
                kind="sign",
            ),
            Statistic(
                "rank correlation of BetaVAE and FactorVAE scores over the models of a seed",
                rank(number("beta_vae_score", "mean"), number("factor_vae_score", "mean")),
                above(0.5),
                "'strongly'",
                kind="sign",
            ),
        ),
        together=True,
        note="Cited from Locatello et al.",
    ),
    Claim(
        id="RTC-F10a, F11e",
        paper="rtc_vae",
        place="captions",
        quotation=("β>10 can affect the quality of reconstruction",),
        scope="RTC; dSprites (10a), Cars3D (11e)",
        statistics=(
            Statistic(
                "reconstruction loss above that at β = 10, as a share of it",
                rise(number("reconstruction", "mean"), at(number("reconstruction", "mean"), 10.0)),
                above(0.05),
                "'affect the quality': a twentieth of the loss",
                strengths=above(10.0),
            ),
        ),
        methods=("RTC-VAE",),
        note="Beyond 10 η grows with β: two causes.",
    ),
    Claim(
        id="RTC-F10c, F11c, F11d",
        paper="rtc_vae",
        place="captions",
        quotation=("The SAP score verses regularization strength on dSprites",),
        scope="all methods",
        untestable="captions without an assertion; RTC-I3 and RTC-I4 say what the pictures show",
    ),
    Claim(
        id="RTC-F12, F13",
        paper="rtc_vae",
        place="figure 12 a–d, 13 a–c",
        quotation=("Experiment results from RTC-VAE with β=10",),
        scope="RTC β = 10: reconstructions, walks, samples",
        untestable="pictures of reconstructions, walks and samples without an assertion",
    ),
    Claim(
        id="RTC-F14",
        paper="rtc_vae",
        place="figure 14",
        quotation=(
            "Some dimensions show correlation",
            "uncorrelated but not independent",
        ),
        scope="FactorVAE γ = 50, Shapes3D means",
        statistics=(
            Share(
                "some pair has a correlation above 0.3, another none and 0.05 nats of information",
                (
                    (number("largest_pair_correlation", "mean"), above(0.3)),
                    (number("uncorrelated_dependent_pairs", "mean"), above(0.5)),
                ),
                "Clopper-Pearson on the share of seeds",
                strengths=above(49.0),
            ),
        ),
        methods=("FactorVAE",),
        note="Shown on Shapes3D at γ = 50.",
    ),
    Claim(
        id="RTC-F15",
        paper="rtc_vae",
        place="figure 15, section 6.2, section 7",
        quotation=("some dimensions are apparently not independent",),
        scope="DIP-I λ_od = 20, Shapes3D",
        statistics=(
            Statistic(
                "total correlation of the mean (nats)",
                tc("mean"),
                below(0.1),
                "'uncorrelated': twenty floors of the estimator",
            ),
            Statistic(
                "information beyond correlation of the most dependent pair (nats)",
                number("largest_excess_information", "mean"),
                above(0.05),
                PAIR,
            ),
        ),
        methods=("DIP-VAE-I",),
        note="Shown on Shapes3D; other methods may show more of it, so it is not special to DIP-VAE.",
    ),
    Claim(
        id="RTC-Tab1, Tab2",
        paper="rtc_vae",
        place="tables 1, 2, section 6",
        quotation=("we set the hyperparameter η = max(10,β)",),
        scope="grids β, γ, λ; networks",
        law=Law(
            "tests/objectives/test_papers.py::test_noise_weight_of_rtc",
            "η = max(10, β), and the study has the printed grids",
        ),
        note=(
            "Table 2 prints ten encoder outputs where twenty are needed and a ReLU on the last layer where logits are."
        ),
    ),
    Claim(
        id="RTC-C7",
        paper="rtc_vae",
        place="section 7",
        quotation=("DIP-VAEs can end up with uncorrelated yet dependent latent variables",),
        scope="conclusion",
        follows=("RTC-T1", "RTC-F3R", "RTC-F15", "RTC-S64"),
    ),
)
