"""Every citable item of "Be More Active!" and its poster [Bonheme2023BeMoreActive]."""

from polarised.study.claims.claim import (
    ACCURACY,
    ACTIVE_MI,
    ACTIVE_TC,
    ALIVE_PAIRS,
    DECODER,
    DIRECTION,
    GAP_GONE,
    INACTIVE,
    KS_MARGIN,
    NEGLIGIBLE,
    TC_MARGIN,
    WHOLE,
    Claim,
    Law,
    Share,
    Statistic,
    accuracy,
    count,
    gap,
    mi,
    rank_of,
    tc,
)
from polarised.study.claims.decisions import above, below, between, within
from polarised.study.claims.expressions import STRENGTH, at, given, largest, log10, number, rank, size, total

__all__ = ["CLAIMS"]

CLAIMS = (
    Claim(
        id="BMA-A1",
        paper="be_more_active",
        place="abstract; section 4.4 (italics); poster conclusion 1",
        quotation=(
            "active variables are equally disentangled in mean and sampled representations",
            "active variables are as disentangled in mean as in sampled representations",
        ),
        scope="5 methods × 6 datasets × 6 strengths; μ and z; active only",
        statistics=(ACTIVE_TC, ACTIVE_MI),
        note="'Disentangled' means uncorrelated here: the paper compares no supervised score.",
    ),
    Claim(
        id="BMA-A2, S6d",
        paper="be_more_active",
        place="abstract; section 6 Should we use…; poster box 3",
        quotation=(
            "near zero with low variance and seem to have an arbitrary high correlation with other variables",
            (
                "passive variables exhibit high correlation scores with other variables in mean representations while"
                " being fully uncorrelated in sampled ones"
            ),
        ),
        scope="passive variables; μ against z",
        statistics=(
            Statistic(
                "strongest correlation of a sampled passive variable, mean over them",
                number("strongest_correlation", "sampled", "passive"),
                below(0.05),
                "the 99 % null maximum over nine partners at 10,000 inputs is 0.033",
            ),
            Statistic(
                "strongest correlation of a passive variable, mean minus sample",
                number("strongest_correlation", "mean", "passive")
                - number("strongest_correlation", "sampled", "passive"),
                above(0.2),
                "0.2 is the paper's own threshold of a correlation (figure 12)",
            ),
        ),
        note=(
            "'High' has no number in the text. A passive type by the standard rule with a moving mean is not "
            "uncorrelated."
        ),
    ),
    Claim(
        id="BMA-A3",
        paper="be_more_active",
        place="abstract; section 6, Should we use…",
        quotation=(
            "mean representations are still good candidates for downstream tasks applications",
            "we can expect mean representations to be as useful as sampled ones for downstream tasks",
        ),
        scope="full code, logistic regression, accuracy averaged over factors",
        statistics=(
            Statistic(
                "accuracy of the whole code, mean minus sample",
                accuracy("mean") - accuracy("sampled"),
                above(-0.01),
                ACCURACY,
            ),
        ),
        note="One-sided: the mean may be the better one, equality is not said.",
    ),
    Claim(
        id="BMA-A4",
        paper="be_more_active",
        place="abstract; section 6; poster boxes 3 and conclusion 4",
        quotation=(
            (
                "it may be beneficial to remove their passive variables, especially when used with models sensitive "
                "to correlated features"
            ),
            "Passive variables should be removed from mean representations before downstream tasks",
        ),
        scope="μ, full against active+mixed; no experiment in the paper",
        statistics=(
            Statistic(
                "largest variance inflation of the means, with minus without passive variables",
                number("variance_inflation", "mean", "full") - number("variance_inflation", "mean", "alive"),
                above(0.0),
                "any fall is a benefit to a model sensitive to correlation",
                kind="median",
            ),
            Statistic(
                "accuracy without minus with passive variables",
                accuracy("mean", "alive") - accuracy("mean"),
                above(-0.01),
                ACCURACY,
            ),
        ),
        note=(
            "Advice without an experiment: passive means inform (BMA-F6a-i), so accuracy may fall where inflation "
            "does too."
        ),
    ),
    Claim(
        id="BMA-I1",
        paper="be_more_active",
        place="section 1, paragraph 3 (cites Locatello et al.); poster Truncation",
        quotation=(
            (
                "reported an increased total correlation (TC) and averaged mutual information (MI) over the "
                "dimensions of the mean representation"
            ),
        ),
        scope="5 methods; full code",
        statistics=(
            Statistic("total correlation, mean minus sample (nats)", gap(tc), above(0.0), DIRECTION),
            Statistic("averaged mutual information, mean minus sample (nats)", gap(mi), above(0.0), DIRECTION),
        ),
        note="A finding of Locatello et al., the premise of this paper.",
    ),
    Claim(
        id="BMA-I2",
        paper="be_more_active",
        place="section 1, contribution (2); section 6 paragraph 1; poster Summary and Truncation",
        quotation=(
            "are mostly due to the impact of the polarised regime, and especially of the passive variables",
            "Discrepancies between μ and z must come from passive variables.",
        ),
        scope="all methods and strengths with passive variables",
        statistics=(GAP_GONE,),
        note=(
            "The paper says 'mostly', corollary 6 'only mixed and passive', the poster 'must come from passive': "
            "three strengths of one statement; BMA-C6 and BMP-1 are the others."
        ),
    ),
    Claim(
        id="BMA-E1/E2",
        paper="be_more_active",
        place="2.1–2.2, equation 1–2",
        quotation=(
            (
                "One of the downsides of penalising the encoding more strongly is that the reconstruction is of lower"
                " quality"
            ),
        ),
        scope="β-VAE",
        statistics=(
            Statistic(
                "rank correlation of strength and reconstruction loss, by the mean",
                rank(STRENGTH, number("reconstruction", "mean")),
                above(0.0),
                DIRECTION,
                kind="sign",
            ),
            Statistic(
                "rank correlation of strength and reconstruction loss, by the sample",
                rank(STRENGTH, number("reconstruction", "sampled")),
                above(0.0),
                DIRECTION,
                kind="sign",
            ),
        ),
        methods=("beta-VAE",),
    ),
    Claim(
        id="BMA-E3",
        paper="be_more_active",
        place="section 2.2, equation 3",
        quotation=("the KL divergence will be penalised only when it is higher than 100",),
        scope="annealed VAE",
        statistics=(
            Statistic(
                "rate over capacity, minus 1",
                number("rate") / STRENGTH - 1.0,
                within(0.05),
                "a few per cent: what a penalty of 1,000 a nat leaves",
            ),
        ),
        methods=("annealed VAE",),
        law=Law(
            "tests/study/claims/test_laws.py::test_annealed_capacity_punishes_a_rate_below_it_too",
            "equation 3 punishes a rate below the capacity as one above it, against these words",
            "refuted",
        ),
        note=(
            "The text contradicts its equation: |KL - C| also punishes KL < C, which is why capacity is spent on "
            "constant means."
        ),
    ),
    Claim(
        id="BMA-E4–E6",
        paper="be_more_active",
        place="section 2.2, equation 4, 5, 6 and the unnumbered split of E[KL], density ratio",
        quotation=(
            "approximating the total correlation using mini-batch weighted sampling",
            "They concluded that enforcing a factorised",
        ),
        scope="FactorVAE, β-TCVAE",
        law=Law(
            "tests/objectives/test_terms.py::test_parts_sum_to_the_sampled_rate",
            "the parts of the rate add up to it, and the best critic's log ratio is the total correlation",
        ),
        note=(
            "Released code: beta-TCVAE puts (β - 1) TC on top of the whole KL; FactorVAE stopped after 150,000 "
            "updates. What Kim and Mnih concluded is cited, not tested."
        ),
    ),
    Claim(
        id="BMA-E7",
        paper="be_more_active",
        place="section 2.2, equation 7",
        quotation=("The second moment of the learned distribution is given by",),
        scope="any Gaussian q",
        law=Law(
            (
                "tests/study/claims/test_laws.py::test_covariance_of_the_sample_is_that_of_the_mean_and_the_average_variance"
            ),
            "Cov(z) = Cov(μ) + diag E[σ] up to sampling error",
        ),
    ),
    Claim(
        id="BMA-DIP1",
        paper="be_more_active",
        place="section 2.2, last paragraph",
        quotation=(
            "it will have a low correlation in the mean representation",
            "mirrors the correlations in the sampled representation",
        ),
        scope="DIP-VAE-I (excluded from the paper's experiments)",
        statistics=(
            Statistic(
                "total correlation of the mean (nats)",
                tc("mean"),
                below(0.1),
                "0.1 nats is twenty floors of the estimator",
            ),
            Statistic("total correlation, mean minus sample (nats)", gap(tc), within(0.05), TC_MARGIN),
        ),
        methods=("DIP-VAE-I",),
        note="Cited from Locatello et al.; a negative control: passive means must not be correlated here.",
    ),
    Claim(
        id="BMA-F1, F2, S2.3, S2.4",
        paper="be_more_active",
        place="figures 1, 2; section 2.3; section 2.4; section 6 Generalisation",
        quotation=(
            "Illustration of a VAE during the training process",
            "have been shown to reduce the sample complexity of abstract reasoning tasks",
            "a necessary condition for VAE to provide good reconstruction",
            (
                "the authors proved that unsupervised disentanglement learning was not possible without further "
                "inductive biases"
            ),
        ),
        scope="diagrams and cited statements",
        untestable="diagrams, definitions and statements of other papers, cited and not claimed",
    ),
    Claim(
        id="BMA-S3a",
        paper="be_more_active",
        place="section 3, paragraph 1",
        quotation=("are ignored by the decoder, which only uses the variables that help to reconstruct the input",),
        scope="passive variables, every method",
        statistics=(
            Statistic(
                "rise of the loss when a passive variable is permuted, largest (nats)",
                number("permuting", None, "passive", "max"),
                below(0.5),
                DECODER,
            ),
            Statistic(
                "rise of the loss when a passive variable is redrawn, largest (nats)",
                number("redrawing", None, "passive", "max"),
                below(0.5),
                DECODER,
            ),
            Statistic(
                "rise of the loss when an active variable is permuted, smallest (nats)",
                number("permuting", None, "active", "min"),
                above(5.0),
                "ten times what counts as ignored",
            ),
        ),
        note=(
            "A type by the variance alone may be used by the decoder or not; under a learned prior both interventions"
            " are needed."
        ),
    ),
    Claim(
        id="BMA-S3b",
        paper="be_more_active",
        place="section 3, paragraph 2",
        quotation=(
            "VAEs are pruning more active variables to minimise the regularisation loss",
            (
                "When this weight becomes too large, the representations collapse to the prior, containing only "
                "passive variables"
            ),
        ),
        scope="ELBO weight (β-VAE)",
        statistics=(
            Statistic(
                "rank correlation of strength and the number of active variables",
                rank(STRENGTH, count("active")),
                below(0.0),
                DIRECTION,
                kind="sign",
            ),
            Share(
                "all variables passive at a weight of 100 or more",
                ((count("active") + count("mixed"), below(0.5)), (number("rate") / WHOLE, below(0.05))),
                "0.05 nats a variable is what a type at the rule's edge costs",
                over="some",
                strengths=above(99.0),
            ),
        ),
        methods=("beta-VAE",),
        note="Cited from Lucas et al. and Dai et al.; the collapse needs strengths beyond the published 16.",
    ),
    Claim(
        id="BMA-S3c",
        paper="be_more_active",
        place="section 3.1, after definition 1",
        quotation=("prune the superfluous columns of the weights of the first layer of the decoder",),
        scope="passive variables",
        statistics=(
            Statistic(
                "norm of the decoder's first-layer column times the variable's spread, passive over active",
                number("decoder_weight", None, "passive") / number("decoder_weight", None, "active"),
                below(0.1),
                "the paper gives no number; α = 0.1",
                kind="median",
            ),
        ),
        note="Adam without decay shrinks unused columns slowly.",
    ),
    Claim(
        id="BMA-D1",
        paper="be_more_active",
        place="definition 1 (i), (ii) (Rolinek et al.)",
        quotation=("composed of a set of passive and active variables",),
        scope="each input i, each j: (i) abs μ ≪ 1, σ ≈ 1, z ≈ ε; (ii) σ ≪ 1, z ≈ μ",
        statistics=(
            Statistic(
                "share of inputs and variables that are neither passive nor active",
                number("state_share", None, "neither"),
                below(0.1),
                "a choice: 'composed of' leaves no third kind",
            ),
        ),
        note=(
            "Part (i) is about μ and σ, the rule of section 4.1 about σ only; a variable of σ = 0.5 for every input "
            "is neither."
        ),
    ),
    Claim(
        id="BMA-D2, F3",
        paper="be_more_active",
        place="definition 2 (i)–(iii), figure 3",
        quotation=(
            "A variable is passive for all the data examples.",
            "A variable is active for some data examples and passive otherwise.",
        ),
        scope="intersection over all n inputs",
        statistics=(
            Statistic(
                "agreement of definition 2, with 5 % of exceptions, and the rule of section 4.1 (Cohen's κ)",
                number("type_agreement"),
                above(0.8),
                "above 0.8 is conventionally almost perfect agreement",
            ),
        ),
        note=(
            "Literal intersections over 10,000 inputs make nearly every variable mixed; the rule's mixed ones are all"
            " the rest."
        ),
    ),
    Claim(
        id="BMA-P3i",
        paper="be_more_active",
        place="proposition 3 (i)",
        quotation=(
            "passive variables of mean representations are almost constant when considered over multiple data examples",
        ),
        scope="μ, passive by the σ rule; abs mean(μ_j) ≪ 1 and Var(μ_j) ≪ 1",
        statistics=(
            Statistic(
                "largest |average| of a passive mean",
                number("variable_offset", "mean", "passive", "max"),
                below(0.1),
                NEGLIGIBLE,
            ),
            Statistic(
                "largest variance of a passive mean",
                number("variable_variance", "mean", "passive", "max"),
                below(0.1),
                NEGLIGIBLE,
            ),
        ),
        note=(
            "The standard rule never looks at μ, so this is a test and not true by construction; annealed VAE breaks "
            "it."
        ),
    ),
    Claim(
        id="BMA-P3ii",
        paper="be_more_active",
        place="proposition 3 (ii)",
        quotation=("have a higher variance than their passive counterpart",),
        scope="all pairs (active j, passive k)",
        statistics=(
            Share(
                "every active mean has a larger variance than every passive one",
                (
                    (
                        number("variable_variance", "mean", "active", "min")
                        - number("variable_variance", "mean", "passive", "max"),
                        above(0.0),
                    ),
                ),
                "for all pairs: a difference of averages would hide violations",
            ),
        ),
    ),
    Claim(
        id="BMA-P4i–ii",
        paper="be_more_active",
        place="proposition 4 (i), (ii)",
        quotation=("will be almost constant with an expected value close to 1 (resp. 0)",),
        scope="σ over data",
        statistics=(
            Statistic(
                "share of variables whose average variance lies between 0.1 and 0.9",
                number("unpolarised_share"),
                below(0.1),
                "the paper's α on either side",
            ),
        ),
        note=(
            "True by definition for types by the rule of section 4.1; that few variables lie between is the part that"
            " can fail."
        ),
    ),
    Claim(
        id="BMA-P4iii",
        paper="be_more_active",
        place="proposition 4 (iii)",
        quotation=("they will vary more than active and passive variables",),
        scope="σ; mixed against the rest",
        statistics=(
            Statistic(
                "smallest variance over inputs of σ of a mixed variable minus the largest of the others",
                number("variable_variance", "variance", "mixed", "min")
                - largest(
                    number("variable_variance", "variance", "active", "max"),
                    number("variable_variance", "variance", "passive", "max"),
                ),
                above(0.0),
                DIRECTION,
            ),
        ),
        note=(
            "The rule also calls a variable mixed whose σ hardly varies and lies between: there it fails by "
            "construction."
        ),
    ),
    Claim(
        id="BMA-T5i",
        paper="be_more_active",
        place="theorem 5 (i); A.2; words of 4.2.1",
        quotation=("the passive variables of the sampled representations follow standard Gaussian distributions",),
        scope="z_j against N(0,1), passive j",
        statistics=(
            Statistic(
                "Kolmogorov-Smirnov distance of sampled passive variables from N(0, 1)",
                number("normal_distance_ks", "sampled", "passive"),
                below(0.05),
                KS_MARGIN,
            ),
            Statistic(
                "Wasserstein-1 distance of sampled passive variables from N(0, 1)",
                number("normal_distance_w1", "sampled", "passive"),
                below(0.1),
                "N(0, 0.9) is 0.041 away, a shift of 0.1 is 0.1 away",
            ),
        ),
        note="Needs 5,000 inputs or more; marginals only, their independence is BMA-T7.",
    ),
    Claim(
        id="BMA-T5ii, F4c, F5c",
        paper="be_more_active",
        place="theorem 5 (ii); text after it; figures 4c, 5c (10th variable)",
        quotation=(
            "follows a similar distribution as its sampled counterpart",
            (
                "active variables are the only type of variables with approximately the same distributions in mean "
                "and sampled representations"
            ),
        ),
        scope='z_j against μ_j, active j; and "only": passive and mixed must differ',
        statistics=(
            Statistic(
                "Wasserstein-1 distance of sample and mean over the sample's spread, active",
                number("mean_sample_distance", None, "active"),
                below(0.1),
                "by coupling it is at most 0.32 for any active variable, so that margin could not fail",
            ),
            Statistic(
                "the same of passive variables",
                number("mean_sample_distance", None, "passive"),
                above(0.5),
                "0.72 is expected of an ideal passive variable with Var(μ) = 0.01",
            ),
        ),
    ),
    Claim(
        id="BMA-T5iii",
        paper="be_more_active",
        place="theorem 5 (iii); section 3.3",
        quotation=("consistent with a mixture distribution",),
        scope="z_j = c·N(0,1) + (1 − c)·p(μ_j given active), 0 < c < 1, mixed j",
        statistics=(
            Statistic(
                "Wasserstein-1 distance of a mixed sample from the mixture of noise and active means, over its spread",
                number("mixture_distance", "sampled", "mixed"),
                below(0.1),
                "as for active variables (theorem 5 (ii))",
            ),
            Statistic(
                "share of inputs for which a mixed variable is passive",
                number("mixture_weight", None, "mixed"),
                between(0.05, 0.95),
                "0 and 1 are the other two types",
            ),
        ),
        note=(
            "Printed with '=', derived from '≈'; p(μ) must be that of the active inputs; weak variables have no "
            "weight c."
        ),
    ),
    Claim(
        id="BMA-C6",
        paper="be_more_active",
        place="corollary 6",
        quotation=(
            (
                "Any discrepancies between the mean and sampled representations can only come from the mixed and "
                "passive variables."
            ),
        ),
        scope="any discrepancy (TC, MI, histograms), every method",
        statistics=(ACTIVE_TC, ACTIVE_MI),
        note=(
            "'Can only': one strength with a gap refutes it. Marginal agreement does not give joint agreement: noise "
            "of share a shrinks every correlation by 1 - a."
        ),
    ),
    Claim(
        id="BMA-F4a, F5a",
        paper="be_more_active",
        place="figures 4a, 5a; section 3.3",
        quotation=(
            "both have a mean of zero",
            "close to zero in the mean representation, and to one in the sampled representation",
        ),
        scope="β-VAE β = 8, dSprites, 2nd variable, 10,000 inputs",
        statistics=(
            Statistic(
                "|average| of passive means", number("variable_offset", "mean", "passive"), below(0.1), NEGLIGIBLE
            ),
            Statistic(
                "|average| of passive samples", number("variable_offset", "sampled", "passive"), below(0.1), NEGLIGIBLE
            ),
            Statistic(
                "variance of passive means", number("variable_variance", "mean", "passive"), below(0.1), NEGLIGIBLE
            ),
            Statistic(
                "variance of passive samples, minus 1",
                number("variable_variance", "sampled", "passive") - 1.0,
                within(0.1),
                "α = 0.1 about one",
            ),
        ),
        note="One variable of one model in the paper; here all passive ones.",
    ),
    Claim(
        id="BMA-F4b, F5b",
        paper="be_more_active",
        place="figures 4b, 5b",
        quotation=(
            (
                "Their variance in the mean representation is larger than for passive variables and increases in the "
                "sampled representation."
            ),
            "a sharp peak around zero in the mean representation, which is smoothed out in the sampled one",
        ),
        scope="same model, 4th variable (mixed)",
        statistics=(
            Statistic(
                "variance of the mean, mixed minus passive",
                number("variable_variance", "mean", "mixed") - number("variable_variance", "mean", "passive"),
                above(0.0),
                DIRECTION,
            ),
            Statistic(
                "variance of a mixed variable, sample minus mean",
                number("variable_variance", "sampled", "mixed") - number("variable_variance", "mean", "mixed"),
                above(0.0),
                "an identity: Var(z) = Var(μ) + E[σ]",
            ),
            Statistic(
                "mass of a mixed variable within 0.1 of zero, mean minus sample",
                number("mass_near_zero", "mean", "mixed") - number("mass_near_zero", "sampled", "mixed"),
                above(0.0),
                DIRECTION,
            ),
        ),
    ),
    Claim(
        id="BMA-S3.3a",
        paper="be_more_active",
        place="section 3.3, paragraph 2",
        quotation=(
            "the mixed and active variables are not guaranteed to be Gaussian in mean and sampled representations",
            "compensated by passive variables that match the prior exactly",
        ),
        scope="μ and z",
        statistics=(
            Statistic(
                "Kolmogorov-Smirnov distance from normal after standardising, active means minus passive samples",
                number("standardised_ks", "mean", "active") - number("standardised_ks", "sampled", "passive"),
                above(0.0),
                "'not guaranteed': one clear case suffices, direction only",
            ),
            Statistic(
                "rate of a passive variable (nats)",
                number("rate", None, "passive") / count("passive"),
                below(0.05),
                "what a variance of 0.9 and a mean within α cost at most",
            ),
        ),
    ),
    Claim(
        id="BMA-S3.3b",
        paper="be_more_active",
        place="section 3.3, last paragraph (italics)",
        quotation=(
            "higher the regularisation weight, the greater the difference between the mean and sampled representations",
        ),
        scope="all methods (annealed reversed)",
        statistics=(
            Statistic(
                "rank correlation of strength and the gap in total correlation",
                rank(STRENGTH, gap(tc)),
                above(0.0),
                DIRECTION,
                kind="sign",
            ),
            Statistic(
                "rank correlation of strength and the gap in mutual information",
                rank(STRENGTH, gap(mi)),
                above(0.0),
                DIRECTION,
                kind="sign",
            ),
        ),
        except_for=("annealed VAE",),
        note="A larger capacity of annealed VAE is less regularisation: it is left out.",
    ),
    Claim(
        id="BMA-SETUP",
        paper="be_more_active",
        place="section 4, Empirical setup; step (i)",
        quotation=("We relied on the 9000 pre-trained models released by Locatello et al. (2019b)",),
        scope="5 methods, dSprites, colour, noisy, scream, smallNORB, Cars3D, 6 strengths, 50 seeds",
        untestable=(
            "which published models were used: the 9,000 archives are not at hand, and a study's own grid is named on"
            " its page"
        ),
    ),
    Claim(
        id="BMA-R",
        paper="be_more_active",
        place="section 4.1, rule; α",
        quotation=(
            (
                "any variable that does not satisfy both conditions required for active or passive variables becomes "
                "a mixed variable"
            ),
            "is set to 0.1",
        ),
        scope="σ̄ and Var(σ), α = 0.1",
        statistics=(
            Statistic(
                "share of variables whose type changes for α between 0.05 and 0.2",
                number("alpha_sensitivity"),
                below(0.1),
                "one variable of ten",
            ),
        ),
        note=(
            "'Thresholds properly set' is the paper's only defence of α. Released code: the variance strict, the mean"
            " inclusive, μ not used."
        ),
    ),
    Claim(
        id="BMA-F6b-p",
        paper="be_more_active",
        place="section 4.1 expectation 3; figure 6b",
        quotation=(
            "The passive variables gave equivalent results to a random",
            "Passive variables should not contribute at all",
        ),
        scope="β-VAE, dSprites, z, passive",
        statistics=(
            Statistic(
                "accuracy of sampled passive variables above guessing",
                accuracy("sampled", "passive") - accuracy("sampled", "random"),
                within(0.01),
                ACCURACY,
            ),
        ),
    ),
    Claim(
        id="BMA-F6b-m",
        paper="be_more_active",
        place="section 4.1 expectation 2; figure 6b",
        quotation=(
            "while mixed variables performed slightly better",
            "Mixed variables should contribute less and have a much lower score",
        ),
        scope="z, mixed, models with mixed ones",
        statistics=(
            Statistic(
                "accuracy of samples, mixed minus passive",
                accuracy("sampled", "mixed") - accuracy("sampled", "passive"),
                above(0.005),
                "two standard errors on 5,000 inputs",
            ),
            Statistic(
                "accuracy of samples, active minus mixed",
                accuracy("sampled", "active") - accuracy("sampled", "mixed"),
                above(0.1),
                "'much lower'",
            ),
        ),
    ),
    Claim(
        id="BMA-F6b-am",
        paper="be_more_active",
        place="section 4.1 expectations 1–2; figure 6b",
        quotation=(
            (
                "The score obtained with active and mixed representations is the same as the full score in sampled "
                "representations"
            ),
            "active variables alone or with passive variables performed a bit worse",
        ),
        scope="z",
        statistics=(
            Statistic(
                "accuracy of samples, whole code minus active and mixed",
                accuracy("sampled") - accuracy("sampled", "active_mixed"),
                within(0.01),
                ACCURACY,
            ),
            Statistic(
                "accuracy of samples, active and mixed minus active",
                accuracy("sampled", "active_mixed") - accuracy("sampled", "active"),
                above(0.0),
                DIRECTION,
            ),
            Statistic(
                "accuracy of samples, active and mixed minus active and passive",
                accuracy("sampled", "active_mixed") - accuracy("sampled", "active_passive"),
                above(0.0),
                DIRECTION,
            ),
        ),
        note="The whole code may score below active and mixed: noise overfits, so the first part has two sides.",
    ),
    Claim(
        id="BMA-F6a-s",
        paper="be_more_active",
        place="figure 6a",
        quotation=("passive variables are becoming more informative as the regularisation strength increases",),
        scope="β-VAE, dSprites, μ, passive",
        statistics=(
            Statistic(
                "rank correlation of strength and the accuracy of passive means above guessing",
                rank(STRENGTH, accuracy("mean", "passive") - accuracy("mean", "random")),
                above(0.0),
                DIRECTION,
                kind="sign",
            ),
        ),
        methods=("beta-VAE",),
        note="Confounded with the number of passive variables: more of them are more features.",
    ),
    Claim(
        id="BMA-F6a-a",
        paper="be_more_active",
        place="figure 6a",
        quotation=("the score obtained with active variables is still closer to the full representation score",),
        scope="μ; closer than passive, than mixed",
        statistics=(
            Statistic(
                "accuracy of means, active minus passive",
                accuracy("mean", "active") - accuracy("mean", "passive"),
                above(0.0),
                DIRECTION,
            ),
            Statistic(
                "accuracy of means, active minus mixed",
                accuracy("mean", "active") - accuracy("mean", "mixed"),
                above(0.0),
                DIRECTION,
            ),
        ),
        note="What it is closer than is not said: every other single type is taken.",
    ),
    Claim(
        id="BMA-F6a-ap",
        paper="be_more_active",
        place="figure 6a; section 5 paragraph 2",
        quotation=(
            (
                "in opposition to sampled representations, passive and active variables perform better than mixed and"
                " active variables"
            ),
            "the logistic regression had better accuracy with passive variables than with mixed ones",
        ),
        scope="μ, β-VAE; active_passive against active_mixed; passive against mixed",
        statistics=(
            Statistic(
                "accuracy of means, active and passive minus active and mixed",
                accuracy("mean", "active_passive") - accuracy("mean", "active_mixed"),
                above(0.005),
                "two standard errors on 5,000 inputs",
            ),
            Statistic(
                "accuracy of means, passive minus mixed",
                accuracy("mean", "passive") - accuracy("mean", "mixed"),
                above(0.005),
                "two standard errors on 5,000 inputs",
            ),
        ),
        methods=("beta-VAE",),
        note=(
            "Depends on the classifier, and on there being more passive than mixed variables; section 5 quotes the "
            "comparison of pairs as one of single types."
        ),
    ),
    Claim(
        id="BMA-F6a-i",
        paper="be_more_active",
        place="section 4.1 (italics); section 4.4",
        quotation=(
            "passive variables of the mean representation seem to capture some information about the data",
            (
                "passive variables of the mean representations performed better on downstream tasks than their "
                "sampled counterpart"
            ),
        ),
        scope="μ, passive",
        statistics=(
            Statistic(
                "accuracy of passive means above guessing",
                accuracy("mean", "passive") - accuracy("mean", "random"),
                above(0.01),
                ACCURACY,
            ),
            Statistic(
                "accuracy of passive variables, mean minus sample",
                accuracy("mean", "passive") - accuracy("sampled", "passive"),
                above(0.01),
                ACCURACY,
            ),
        ),
        note="The poster calls passive variables uninformative.",
    ),
    Claim(
        id="BMA-F7a, F7b",
        paper="be_more_active",
        place="figure 7 (a: β-TCVAE, smallNORB; b: caption lost in the text); section 4.1; section 4 paragraph 1",
        quotation=(
            "the number of passive and mixed variables increases with the regularisation strength",
            "As the number of non-active variables increases with the regularisation strength",
        ),
        scope="all methods but annealed, every dataset",
        statistics=(
            Statistic(
                "rank correlation of strength and the number of passive and mixed variables",
                rank(STRENGTH, INACTIVE),
                above(0.0),
                DIRECTION,
                kind="sign",
            ),
        ),
        except_for=("annealed VAE",),
        note="The sentence counts both kinds together; passive ones alone are another statement.",
    ),
    Claim(
        id="BMA-F7w",
        paper="be_more_active",
        place="section 4.1, after figure 6",
        quotation=(
            (
                "at the lowest regularisation strength is generally close to zero for all datasets and all models, "
                "except annealed-VAE"
            ),
        ),
        scope="4 methods × 6 datasets, weakest strength",
        statistics=(
            Statistic(
                "passive variables at the weakest strength",
                at(count("passive"), "least"),
                below(1.0),
                "'close to zero': less than one of ten",
            ),
        ),
        except_for=("annealed VAE",),
        note="Needs the balance of pixels and penalty of 64×64 pictures.",
    ),
    Claim(
        id="BMA-E8–E10, A.1",
        paper="be_more_active",
        place="4.2.1, equation 8–10; A.1; Limitations",
        quotation=(
            "We assume that all the distribution have a mean of zero.",
            "TC may provide inaccurate results",
        ),
        scope="Gaussian TC",
        law=Law(
            "tests/theory/test_correlation.py::test_total_correlation_of_the_oracles",
            "TC = (Σ log C_jj - log det C) / 2 exactly for Gaussian codes",
        ),
        note="Of other codes it may mislead, as the paper says; A.1 prints Σ̄⁻¹Σ = I where only its trace is meant.",
    ),
    Claim(
        id="BMA-T7, A.3",
        paper="be_more_active",
        place="theorem 7; equation 14–17",
        quotation=("The total correlation of sampled representations is not modified by passive variables.",),
        scope="z; every method and strength with passive variables",
        statistics=(
            Statistic(
                "total correlation of the sample, with minus without passive variables (nats)",
                given(count("passive"), tc("sampled") - tc("sampled", "alive")),
                below(0.05),
                TC_MARGIN,
            ),
        ),
        law=Law(
            "tests/theory/test_correlation.py::test_theorem_7", "uncorrelated variables of unit variance add nothing"
        ),
        note=(
            "Nested Gaussian total correlations never fall, so the upper side is the test. Figure 10's caption says "
            "the opposite."
        ),
    ),
    Claim(
        id="BMA-E11–E13",
        paper="be_more_active",
        place="4.2.2, equation 11–13; Limitations",
        quotation=(
            "They then used the averaged mutual information over all the latent factors",
            "it may diminish the strong relationships between two variables if the other MI scores are close to zero",
        ),
        scope="20 equal-width bins per variable, plug-in",
        law=Law(
            "tests/study/claims/test_laws.py::test_one_dependent_pair_is_diluted_by_the_others",
            "one pair of information c among k variables gives an average of 2c / (k² - k)",
        ),
        note="Bins are of each variable's own range; the plug-in estimate of independent variables is not zero.",
    ),
    Claim(
        id="BMA-T8, A.4",
        paper="be_more_active",
        place="theorem 8",
        quotation=(
            (
                "The averaged mutual information of sampled representations decreases with the number of passive "
                "variables."
            ),
        ),
        scope="z; all methods",
        statistics=(
            Statistic(
                "mutual information of the sample minus that of the alive variables and noise in its shares (nats)",
                given(
                    count("passive"),
                    mi("sampled")
                    - ALIVE_PAIRS * mi("sampled", "alive")
                    - (1.0 - ALIVE_PAIRS) * number("mutual_information_floor", "sampled"),
                ),
                within(0.005),
                "two standard deviations of the floor of independent variables",
            ),
        ),
        law=Law(
            "tests/theory/test_correlation.py::test_theorem_8",
            "adding independent variables to a fixed code lowers the average over pairs",
        ),
        note=(
            "The rank correlation of passive count and mutual information mixes in what else changes with strength; "
            "the identity is the theorem."
        ),
    ),
    Claim(
        id="BMA-ER",
        paper="be_more_active",
        place="4.2.3",
        quotation=(
            "its effective rank will be only slightly above one",
            "it would not make sense to measure it separately for each type of variables",
        ),
        scope="exp of the entropy of normalised singular values, in [1, l]",
        law=Law(
            "tests/metrics/test_redundancy.py::test_effective_rank_of_covariance_and_of_codes",
            "the exponential of the entropy of normalised singular values, of the codes and of their covariance",
        ),
        note=(
            "Defined on a matrix, computed on the covariance by the released code; subsets by type have no effective "
            "rank in the paper."
        ),
    ),
    Claim(
        id="BMA-S4iii",
        paper="be_more_active",
        place="section 4, step (iii); section 4.3",
        quotation=(
            (
                "Verify that the correlation of mean representations increases with the number of passive and mixed "
                "variables."
            ),
        ),
        scope="μ, full; TC and MI",
        statistics=(
            Statistic(
                "rank correlation of passive and mixed variables with the total correlation of the mean",
                rank(INACTIVE, tc("mean")),
                above(0.0),
                DIRECTION,
                kind="sign",
            ),
            Statistic(
                "rank correlation of passive and mixed variables with the mutual information of the mean",
                rank(INACTIVE, mi("mean")),
                above(0.0),
                DIRECTION,
                kind="sign",
            ),
        ),
        note="Of the mean itself, not of its gap to the sample.",
    ),
    Claim(
        id="BMA-F8a",
        paper="be_more_active",
        place="figure 8a (β-TCVAE, smallNORB); section 4.3",
        quotation=(
            "TC does not change when we increased the number of passive variables and MI decreases",
            "are increasing with the number of passive variables",
        ),
        scope="β-TCVAE, smallNORB; stated for all",
        statistics=(
            Statistic(
                "total correlation of the sample, strongest minus weakest regularisation (nats)",
                at(tc("sampled"), "most") - at(tc("sampled"), "least"),
                within(0.05),
                TC_MARGIN,
            ),
            Statistic(
                "rank correlation of passive variables and the gap in total correlation",
                rank(count("passive"), gap(tc)),
                above(0.0),
                DIRECTION,
                kind="sign",
            ),
        ),
        note=(
            "Shown for beta-TCVAE on smallNORB, said of all. Theorem 7 is about adding variables, not about strength;"
            " figure 10's caption says that the total correlation of the sample falls."
        ),
    ),
    Claim(
        id="BMA-F8b",
        paper="be_more_active",
        place="figure 8b (DIP-VAE-II, Cars3D)",
        quotation=("we can observe the same trend for mutual information in Figure 8b",),
        scope="DIP-VAE-II, Cars3D",
        statistics=(
            Statistic(
                "rank correlation of passive variables and the gap in mutual information",
                rank(count("passive"), gap(mi)),
                above(0.0),
                DIRECTION,
                kind="sign",
            ),
            Statistic(
                "rank correlation of passive variables and the mutual information of the sample",
                rank(count("passive"), mi("sampled")),
                below(0.0),
                DIRECTION,
                kind="sign",
            ),
        ),
        note=(
            "Shown for DIP-VAE-II on Cars3D; the whole code has one denominator, so averages over pairs can be "
            "compared."
        ),
    ),
    Claim(
        id="BMA-F8c-μ",
        paper="be_more_active",
        place="figure 8c (β-TCVAE, colour dSprites); section 4.3",
        quotation=("close to the total number of latent variables minus the passive ones",),
        scope="μ, full",
        statistics=(
            Statistic(
                "effective rank of the mean minus the variables that are not passive",
                rank_of("mean") - count("active") - count("mixed"),
                within(1.0),
                "one variable: the smallest difference that changes a count",
            ),
        ),
        note="A mixed variable counts 1 here and less in the rank.",
    ),
    Claim(
        id="BMA-F8c-z",
        paper="be_more_active",
        place="figure 8c; section 4.3",
        quotation=("in sampled representations, the effective rank is close to the total number of variables",),
        scope="z, full",
        statistics=(
            Statistic(
                "effective rank of the sample minus the number of variables",
                rank_of("sampled") - WHOLE,
                within(1.0),
                "one variable: the smallest difference that changes a count",
            ),
        ),
        note="Needs samples of equal variances: one of variance 10 among ten gives 5.7.",
    ),
    Claim(
        id="BMA-F9a",
        paper="be_more_active",
        place="figure 9a (DIP-VAE-II, dSprites)",
        quotation=("increases with λ leading to lower averaged MI scores for sampled representations",),
        scope="DIP-VAE-II, dSprites, full",
        statistics=(
            Statistic(
                "rank correlation of strength and the mutual information of the sample",
                rank(STRENGTH, mi("sampled")),
                below(0.0),
                DIRECTION,
                kind="sign",
            ),
            Statistic(
                "rank correlation of strength and passive variables",
                rank(STRENGTH, count("passive")),
                above(0.0),
                DIRECTION,
                kind="sign",
            ),
            Statistic(
                "mutual information of the mean, with minus without passive variables (nats)",
                mi("mean") - mi("mean", "alive"),
                above(0.0),
                DIRECTION,
            ),
        ),
        methods=("DIP-VAE-II",),
        note=(
            "Averages over other pairs are not comparable in size: leaving out four of ten variables changes the "
            "denominator sevenfold."
        ),
    ),
    Claim(
        id="BMA-F10a",
        paper="be_more_active",
        place="figure 10a (β-TCVAE, noisy dSprites)",
        quotation=("leading to lower TC scores for sampled representations",),
        scope="β-TCVAE, noisy dSprites, full",
        statistics=(
            Statistic(
                "rank correlation of strength and the total correlation of the sample",
                rank(STRENGTH, tc("sampled")),
                below(0.0),
                DIRECTION,
                kind="sign",
            ),
            Statistic(
                "total correlation of the mean, whole code minus active (nats)",
                tc("mean") - tc("mean", "active"),
                above(0.0),
                DIRECTION,
            ),
        ),
        methods=("beta-TCVAE",),
        note="The cause the caption gives contradicts theorem 7; the fall is what beta-TCVAE trains for.",
    ),
    Claim(
        id="BMA-F9b, F10b",
        paper="be_more_active",
        place="figures 9b, 10b (without passive)",
        quotation=(
            "The mean and sampled representation scores become more similar once passive variables are removed",
        ),
        scope="DIP-VAE-II dSprites (MI); β-TCVAE noisy dSprites (TC)",
        statistics=(
            Statistic(
                "gap in total correlation, with minus without passive variables (nats)",
                given(count("passive"), size(gap(tc)) - size(gap(tc, "alive"))),
                above(0.0),
                "'more similar', nothing more",
            ),
            Statistic(
                "gap in mutual information, with minus without passive variables (nats)",
                given(count("passive"), size(gap(mi)) - size(gap(mi, "alive"))),
                above(0.0),
                "'more similar', nothing more",
            ),
        ),
        note=(
            "An average over fewer pairs has another denominator: the average gap can grow while every pair's shrinks."
        ),
    ),
    Claim(
        id="BMA-F9c",
        paper="be_more_active",
        place="figure 9c (active only); section 4.4",
        quotation=("the TC and averaged MI scores of the mean and sampled representations are quite similar",),
        scope="DIP-VAE-II, dSprites; MI of active variables",
        statistics=(ACTIVE_MI,),
        methods=("DIP-VAE-II",),
        note="The paper shows DIP-VAE-II only; bins see how sharply a mean follows another.",
    ),
    Claim(
        id="BMA-F10c",
        paper="be_more_active",
        place="figure 10c (active only); section 4.4",
        quotation=("quite similar",),
        scope="β-TCVAE, noisy dSprites; TC of active variables",
        statistics=(ACTIVE_TC,),
        methods=("beta-TCVAE",),
    ),
    Claim(
        id="BMA-S4.4",
        paper="be_more_active",
        place="section 4.4",
        quotation=(
            "While the mixed variables impact the score to a small extent",
            "the passive variables lead to a dramatic score increase, especially for TC",
            "the mixed and passive variables are raising the TC and averaged MI scores of the mean representations",
        ),
        scope="μ; DIP-VAE-II (MI), β-TCVAE (TC)",
        statistics=(
            Statistic(
                "total correlation of the mean that passive variables add minus what mixed ones add (nats)",
                given(
                    count("mixed"),
                    given(
                        count("passive"),
                        tc("mean") - tc("mean", "alive") - (tc("mean", "alive") - tc("mean", "active")),
                    ),
                ),
                above(0.0),
                DIRECTION,
            ),
            Statistic(
                "rise over the active variables, log10 of total correlation minus that of mutual information",
                log10(tc("mean") / tc("mean", "active")) - log10(mi("mean") / mi("mean", "active")),
                above(0.0),
                "'especially for TC'",
                kind="median",
            ),
        ),
        note=(
            "Where unused variables are called mixed it is reversed. Counts of the two kinds differ, so this is by "
            "type and not by variable."
        ),
    ),
    Claim(
        id="BMA-S4.4c",
        paper="be_more_active",
        place="section 4.4 end; section 5 paragraph 1; poster conclusion 2",
        quotation=(
            "one should expect the passive variables in the mean representations to be correlated with active ones",
            "Passive variables are highly correlated with various active variables",
        ),
        scope="μ, pairs (passive, active)",
        statistics=(
            Statistic(
                "strongest correlation of a passive mean with an active one",
                number("strongest_correlation_with_active", "mean", "passive"),
                above(0.2),
                "0.2 is the paper's own threshold (figure 12), six times the null maximum",
            ),
        ),
        note="The poster says 'various active variables', the paper 'one or more variables'.",
    ),
    Claim(
        id="BMA-F11",
        paper="be_more_active",
        place="figure 11 (β-VAE β = 16, colour dSprites; passive 3, 5, 6, 9)",
        quotation=(
            "the passive variables tend to have strong correlation scores with one or more variables",
            "which is generally not the case for other variable types",
        ),
        scope="μ, trained model",
        statistics=(
            Statistic(
                "strongest correlation, passive means minus the others among themselves",
                number("strongest_correlation", "mean", "passive")
                - total(
                    number("strongest_correlation_with_alive", "mean", "active", "sum"),
                    number("strongest_correlation_with_alive", "mean", "mixed", "sum"),
                )
                / (count("active") + count("mixed")),
                above(0.0),
                DIRECTION,
            ),
        ),
        methods=("beta-VAE",),
        note=(
            "Correlation is symmetric, so the partners of the others leave out passive ones; a maximum over nine is "
            "biased up."
        ),
    ),
    Claim(
        id="BMA-S5t",
        paper="be_more_active",
        place="section 5, paragraph 2",
        quotation=("the variables 1, 4, and 6 were passive, the variables 0, 3 and 8 mixed",),
        scope="β-VAE β = 8, dSprites, 300,000 steps",
        untestable=(
            "describes one model whose indices mean nothing elsewhere; that beta 8 leaves mixed variables contradicts"
            " IV-B1"
        ),
    ),
    Claim(
        id="BMA-F12",
        paper="be_more_active",
        place="figure 12; section 5 paragraph 2",
        quotation=(
            (
                "the correlation score of the passive variables is more often above 0.2 than the scores of the active"
                " variables"
            ),
        ),
        scope="μ, 300 snapshots, one model",
        statistics=(
            Statistic(
                "share of moments and partners with a correlation above 0.2, passive minus active means",
                number("correlated_share", "mean", "passive") - number("correlated_share", "mean", "active"),
                above(0.0),
                DIRECTION,
            ),
        ),
        methods=("beta-VAE",),
        note=(
            "One value a model: variables of one model are not independent. Whether a snapshot counts once or for "
            "each partner is not said."
        ),
    ),
    Claim(
        id="BMA-S5v",
        paper="be_more_active",
        place="section 5, paragraph 2",
        quotation=(
            "the correlation scores of active variables remain very low",
            "varies significantly during the training process and can be relatively high",
        ),
        scope="μ over training",
        statistics=(
            Statistic(
                "share of correlated pairs of active means in the second half of training",
                number("late_correlated_share_with_active", "mean", "active"),
                below(0.05),
                "'very low': one pair in twenty; the first half is not counted, where everything is correlated",
            ),
            Statistic(
                "standard deviation of correlations over training, passive minus active among themselves",
                number("correlation_spread", "mean", "passive")
                - number("correlation_spread_with_active", "mean", "active"),
                above(0.0),
                DIRECTION,
            ),
        ),
        methods=("beta-VAE",),
    ),
    Claim(
        id="BMA-F13",
        paper="be_more_active",
        place="figure 13; poster figure",
        quotation=("We can see an increased correlation with all the passive variables (indexes 1, 4, and 6).",),
        scope="μ, active variable 2 with every other, over training",
        statistics=(
            Statistic(
                (
                    "smallest correlation over training of an active mean with a passive one minus its largest with "
                    "an active one"
                ),
                number("passive_over_active_correlation", "mean", "active", "min"),
                above(0.0),
                "'all the passive variables': the smallest counts",
            ),
        ),
        methods=("beta-VAE",),
        note="'Increased' may also mean over time; an average over passive partners would be weaker than the sentence.",
    ),
    Claim(
        id="BMA-S5q",
        paper="be_more_active",
        place="section 5, paragraph 1 end, paragraph 2 end; poster Where…",
        quotation=(
            "Are they present from the beginning of the learning process and lead these variables to become passive",
            "likely to be an inherent property of the neural network training process",
        ),
        scope="open question",
        untestable="a question the paper leaves open, not a claim",
    ),
    Claim(
        id="BMA-S6a",
        paper="be_more_active",
        place="section 6, paragraph 1; section 3 end",
        quotation=(
            "it is sufficient to obtain uncorrelated active variables in mean representations",
            "This hypothesis was consistent across different levels of regularisation",
        ),
        scope="methods that regularise z (FactorVAE, β-TCVAE, DIP-II)",
        statistics=(
            Statistic(
                "total correlation of active means minus that of the whole sample (nats)",
                tc("mean", "active") - tc("sampled"),
                below(0.05),
                TC_MARGIN,
            ),
        ),
        methods=("FactorVAE", "beta-TCVAE", "DIP-VAE-II"),
        note=(
            "Stronger than agreement: a small total correlation of the sample must make that of the active means small."
        ),
    ),
    Claim(
        id="BMA-S6b",
        paper="be_more_active",
        place="section 6, paragraph 1",
        quotation=("Our empirical results confirmed the existence and importance of such variables.",),
        scope="mixed variables",
        statistics=(
            Share(
                "some variable is used by the decoder and passive for 5 % and active for 5 % of inputs",
                ((number("truly_mixed"), above(0.5)),),
                "'existence' at some strength, in more than half of the seeds",
                over="some",
            ),
        ),
        note="Mixed by the rule is not mixed by definition 2.",
    ),
    Claim(
        id="BMA-S6e",
        paper="be_more_active",
        place="section 6, Generalisation, Other applications",
        quotation=(
            (
                "in any well-behaved VAE as long as their prior and posterior distributions are Gaussian with "
                "diagonal covariances"
            ),
            "monitor the number of passive variables and prevent posterior collapse due to over-regularisation",
        ),
        scope="iVAEs; monitoring",
        statistics=(
            Statistic(
                "rank correlation over strengths of the passive count at a fifth of training and at its end",
                rank(number("early_count", None, "passive"), count("passive")),
                above(0.5),
                "less would not be worth watching",
                kind="sign",
            ),
        ),
        note=(
            "Counts before the rates settle mean nothing: at the start all variables are passive. That iVAEs are "
            "polarised is IV-T1."
        ),
    ),
    Claim(
        id="BMA-F14",
        paper="be_more_active",
        place="figure 14 (dSprites, scream, Cars3D)",
        quotation=(
            "exhibits a high number of passive variables regardless of the regularisation strength on most datasets",
            "the near constant number of passive variables observed across all the bars in Figure 14",
        ),
        scope="annealed VAE, C 5–100",
        statistics=(
            Statistic(
                "passive variables minus their average over capacities",
                count("passive") - at(count("passive"), "mean"),
                within(1.0),
                "'4' and '3' are called near constant",
            ),
            Statistic("passive variables", count("passive"), above(1.5), "'a high number': two, rounded"),
        ),
        methods=("annealed VAE",),
        note="A larger capacity is less regularisation. First minus last would hide a hump.",
    ),
    Claim(
        id="BMA-F14a",
        paper="be_more_active",
        place="appendix B",
        quotation=("should increase with a higher value of C, but it is generally not the case in Figure 14",),
        scope="annealed VAE",
        statistics=(
            Statistic(
                "rank correlation of capacity and active variables",
                rank(STRENGTH, count("active")),
                below(0.5),
                "'not the case': no increase to speak of",
            ),
        ),
        methods=("annealed VAE",),
    ),
    Claim(
        id="BMA-F15, F16",
        paper="be_more_active",
        place="figures 15a/b (dSprites), 16a/b (Cars3D)",
        quotation=("the TC and averaged MI generally decrease with higher regularisation strengths",),
        scope="annealed VAE, full; μ and z lines",
        statistics=(
            Statistic(
                "rank correlation of capacity and total correlation of the mean",
                rank(STRENGTH, tc("mean")),
                above(0.0),
                DIRECTION,
                kind="sign",
            ),
            Statistic(
                "rank correlation of capacity and mutual information of the mean",
                rank(STRENGTH, mi("mean")),
                above(0.0),
                DIRECTION,
                kind="sign",
            ),
            Statistic(
                "rank correlation of capacity and total correlation of the sample",
                rank(STRENGTH, tc("sampled")),
                above(0.0),
                DIRECTION,
                kind="sign",
            ),
            Statistic(
                "rank correlation of capacity and mutual information of the sample",
                rank(STRENGTH, mi("sampled")),
                above(0.0),
                DIRECTION,
                kind="sign",
            ),
        ),
        methods=("annealed VAE",),
        note=(
            "More regularisation is less capacity, so the scores rise with it. The sentence does not name the "
            "representation."
        ),
    ),
    Claim(
        id="BMA-F17",
        paper="be_more_active",
        place="figure 17 (dSprites, Cars3D)",
        quotation=(
            "is close to the one obtained with a lower channel capacity and more passive variables",
            "for a channel capacity of 25 and 4 passive variables is the same as the one obtained",
        ),
        scope="annealed VAE, μ, every C; Cars3D C = 25 against 100",
        statistics=(
            Statistic(
                "effective rank of the mean minus that at a capacity of 25",
                rank_of("mean") - at(rank_of("mean"), 25.0),
                within(0.5),
                "half a variable: 'the same', read off a figure",
                strengths=above(25.0),
            ),
        ),
        methods=("annealed VAE",),
    ),
    Claim(
        id="BMA-F18",
        paper="be_more_active",
        place="figure 18a–d (scream dSprites); appendix B",
        quotation=(
            "removing the passive variables effectively reduces the overall TC and averaged MI scores",
            (
                "the passive variables of the mean representations are still responsible for the higher TC and "
                "averaged MI scores"
            ),
        ),
        scope="annealed VAE, scream, μ; full (a, b) against active only (c, d)",
        statistics=(
            Statistic(
                "total correlation of the mean, whole code minus active (nats)",
                tc("mean") - tc("mean", "active"),
                above(0.0),
                DIRECTION,
            ),
            Statistic(
                "mutual information of the mean, whole code minus active (nats)",
                mi("mean") - mi("mean", "active"),
                above(0.0),
                DIRECTION,
            ),
        ),
        methods=("annealed VAE",),
        note=(
            "The text removes passive variables, the caption keeps active ones only. A nested total correlation never"
            " rises when variables go, so only the mutual information can fail."
        ),
    ),
    Claim(
        id="BMA-SBc",
        paper="be_more_active",
        place="appendix B",
        quotation=(
            "may encourage the passive variables of mean representations to be more correlated",
            "their correlation seems to increase with the channel capacity, C",
        ),
        scope="annealed VAE, μ, passive",
        statistics=(
            Statistic(
                "rank correlation of capacity and the strongest correlation of passive means",
                rank(STRENGTH, number("strongest_correlation", "mean", "passive")),
                above(0.0),
                "'seems', 'may': direction only",
                kind="sign",
            ),
        ),
        methods=("annealed VAE",),
    ),
    Claim(
        id="BMP-1",
        paper="be_more_active",
        place="Summary 2; box 3; Conclusion; figure (= F13)",
        quotation=(
            "the lower disentanglement of mean representations is due to (uninformative) passive variables",
            "Passive variables are more correlated in μ than z.",
            "An in-depth study of the learning dynamics of VAEs would be needed to explain this phenomenon",
        ),
        scope="restates D1, A1, A2, A4, I1, I2, S4.4c, F13",
        statistics=(
            GAP_GONE,
            Statistic(
                "strongest correlation of a passive variable, mean minus sample",
                number("strongest_correlation", "mean", "passive")
                - number("strongest_correlation", "sampled", "passive"),
                above(0.0),
                DIRECTION,
            ),
            Statistic(
                "accuracy of passive means above guessing",
                accuracy("mean", "passive") - accuracy("mean", "random"),
                within(0.01),
                ACCURACY,
            ),
        ),
        note=(
            "'Uninformative' contradicts BMA-F6a-i; the poster knows no mixed variables and blames passive ones alone."
        ),
    ),
)
