import json
import re

import numpy as np
import pytest

from polarised import Encodings, diagnose
from polarised.errors import ConfigError, DataError
from polarised.regime.decoder import DecoderUse

N = 2000
GENERATOR = np.random.default_rng(0)
ACTIVE = (GENERATOR.standard_normal(N), np.full(N, 0.02))
OTHER = (np.random.default_rng(1).standard_normal(N), np.full(N, 0.02))
PASSIVE = (0.03 * ACTIVE[0], np.full(N, 0.99))
HALF = (np.where(np.arange(N) % 2, GENERATOR.standard_normal(N), 0.0), np.where(np.arange(N) % 2, 0.02, 0.99))


def encodings_of(*columns, **prior):
    means, variances = zip(*columns, strict=True)
    return Encodings(np.stack(means, 1), variance=np.stack(variances, 1), **prior)


def test_the_advice_names_what_to_use_and_what_to_drop():
    diagnosis = diagnose(encodings_of(ACTIVE, PASSIVE, HALF, PASSIVE))
    assert diagnosis.headline == "1 of 4 latent variables is active, 1 mixed, 2 passive."
    assert diagnosis.advice[0] == "Use the means of variables 0 and 2; 1 and 3 are passive: drop them."
    assert any("2 is mixed" in sentence for sentence in diagnosis.advice)


def test_a_collapsed_model_is_called_so():
    diagnosis = diagnose(encodings_of(PASSIVE, PASSIVE))
    assert diagnosis.headline.startswith("Collapsed: all 2")
    assert "Start from fresh weights" in diagnosis.advice[0]


def test_a_posterior_that_is_the_same_for_all_inputs_is_called_collapsed():
    # A KL of 25 nats asked for and spent on constants: mixed and passive by the relative rule, active by the variance.
    still = 0.001 * ACTIVE[0]
    shifted, narrow, half = (4.0 + still, np.full(N, 1.0)), (4.0 + still, np.full(N, 0.02)), (still, np.full(N, 0.5))
    assert diagnose(encodings_of(shifted, narrow, half, PASSIVE)).regime.passive == [0, 1, 2, 3]
    told = diagnose(encodings_of(shifted, narrow, half, PASSIVE)).advice[0]
    assert told.startswith("The KL of 17.6 nats carries no information about the input")
    diagnosis = diagnose(encodings_of(shifted, narrow, half, PASSIVE), rule="relative")
    assert diagnosis.regime.mixed == [0, 2]
    assert diagnosis.headline.startswith("Collapsed: all 4 latent variables are nothing but noise")
    assert diagnosis.advice[0].startswith("The KL of 17.6 nats carries no information about the input")
    assert not any("Use the mean" in sentence for sentence in diagnosis.advice)
    assert "Collapsed" not in diagnose(encodings_of(shifted, narrow, half, ACTIVE)).headline


def test_a_model_without_passive_variables_keeps_all():
    advice = diagnose(encodings_of(ACTIVE, OTHER)).advice
    assert advice[0] == "Use the means of all variables: none is passive."
    assert advice[1] == "Means and samples have a total correlation below 0.01 nats."
    alike = (0.2 * ACTIVE[0] + OTHER[0], np.full(N, 0.02))
    assert diagnose(encodings_of(ACTIVE, alike)).advice[1].endswith("sampled: mean and sample agree.")


def test_identical_inputs_are_suspected_before_the_model_is():
    mean, variance = np.array([0.7, -1.2, 0.0]), np.array([0.02, 0.1, 0.98])
    same = Encodings(np.tile(mean, (N, 1)), variance=np.tile(variance, (N, 1)))
    assert diagnose(same).advice[0].startswith("All inputs have the same posterior to six digits")
    moved = Encodings(same.mean + 1e-4 * ACTIVE[0][:, None], variance=same.variance)
    assert not any("six digits" in sentence for sentence in diagnose(moved).advice)


def test_swapped_mean_and_scale_are_suspected_before_the_model_is():
    right = encodings_of(ACTIVE, OTHER, PASSIVE)
    swapped = Encodings(np.log(right.variance), log_variance=right.mean)
    assert "mean and scale are not swapped" in diagnose(swapped).advice[0]
    assert not any("swapped" in sentence for sentence in diagnose(right).advice)


def test_mean_and_sample_agree_only_where_their_scores_do():
    weak = [(ACTIVE[0] + 0.01 * GENERATOR.standard_normal(N), np.full(N, 0.5)) for _ in range(4)]
    advice = diagnose(encodings_of(*weak)).advice
    assert not any("agree" in sentence for sentence in advice)
    assert "the noise of the mixed variables hides how correlated the means are" in advice[1]
    assert advice[2].startswith("All variables are mixed (weak for all)")
    twins = [(ACTIVE[0] + 0.01 * GENERATOR.standard_normal(N), np.full(N, 0.02)) for _ in range(3)]
    advice = diagnose(encodings_of(*twins)).advice
    assert "even the little noise of active variables hides" in advice[1]
    assert "so say which one you use" in advice[1]
    among = diagnose(encodings_of(ACTIVE, OTHER, PASSIVE, *weak[:2])).advice
    assert "without the passive variables it is" in among[1]
    assert "the noise of the mixed variables 3 and 4 hides" in among[1]


def test_exactly_dependent_means_do_not_agree_with_their_sample():
    copied = diagnose(encodings_of(ACTIVE, ACTIVE)).advice[1]
    assert "is infinite (some follow exactly from others) against" in copied
    assert "agree" not in copied


def test_a_total_correlation_of_few_inputs_is_given_with_its_bias():
    means = np.random.default_rng(2).standard_normal((100, 20))
    said = diagnose(Encodings(means, variance=np.full((100, 20), 0.01))).advice[1]
    assert said.endswith("With so few inputs 20 independent variables would show about 0.95.")
    assert not any("so few" in sentence for sentence in diagnose(encodings_of(ACTIVE, OTHER)).advice)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (HALF, "on for 50 ± 1 % of the inputs"),
        ((0.6 * ACTIVE[0], np.full(N, 0.6)), "weak for all"),
        (
            (0.6 * ACTIVE[0], np.where(np.arange(N) % 4, 0.5, 0.05)),
            "strong for 25 ± 1 % of the inputs, weak for the rest",
        ),
        ((ACTIVE[0], np.full(N, 1.0)), "no narrower than the prior, yet 50 % of it is not noise"),
    ],
)
def test_the_advice_says_how_a_variable_is_mixed(column, words):
    advice = diagnose(encodings_of(OTHER, column), rule="relative").advice
    assert any(f"Variable 1 is mixed ({words})" in said for said in advice)


def test_variables_mixed_in_several_ways_share_a_sentence():
    advice = diagnose(encodings_of(ACTIVE, HALF, (0.6 * OTHER[0], np.full(N, 0.6)))).advice
    assert advice[-1] == (
        "Keep mixed variables for reconstruction, but do not trust their single values: "
        "1 (on for 50 ± 1 % of the inputs); 2 (weak for all)."
    )


def test_differences_between_rules_are_one_sentence():
    noise = (0.001 * ACTIVE[0], np.full(N, 0.05))
    parting = [
        said for said in diagnose(encodings_of(ACTIVE, OTHER, noise, noise)).advice if " rule differs on " in said
    ]
    assert len(parting) == 1
    assert parting[0].startswith(
        "The published (standard) rule differs on 2 and 3 (passive here, active there): "
        "without the variables it calls passive the total correlation is"
    )
    assert re.search(r"sampled, without the unused ones 0\.00 nats against 0\.00 sampled\.$", parting[0])


def test_few_inputs_are_pointed_out():
    means = np.random.default_rng(2).standard_normal((5, 8))
    advice = diagnose(Encodings(means, variance=np.full((5, 8), 0.01))).advice
    assert "5 inputs are too few to say how 8 variables are correlated: encode more." in advice
    assert any(sentence.startswith("Only 5 inputs were used") for sentence in advice)
    # A picture is one input, however many positions it has.
    pictures = Encodings(np.zeros((5, 1, 20, 20)), variance=np.ones((5, 1, 20, 20)), axis=1)
    assert any(sentence.startswith("Only 5 inputs were used") for sentence in diagnose(pictures).advice)
    assert not any("infinite" in sentence for sentence in advice)


def test_one_variable_is_described_in_the_singular():
    assert diagnose(encodings_of(ACTIVE)).headline == "The only latent variable is active."
    assert diagnose(encodings_of(ACTIVE)).advice == ("Use the mean: it is not noise.",)
    assert diagnose(encodings_of(PASSIVE)).headline.startswith("Collapsed: the only latent variable is passive")
    assert diagnose(encodings_of(ACTIVE, PASSIVE)).advice[0] == "Use the mean of variable 0; 1 is passive: drop it."


def test_variables_close_to_the_threshold_are_not_dropped():
    doubtful = (np.where(np.arange(N) < 7, 5.0, 0.0) * np.sign(OTHER[0]), np.full(N, 0.99))
    diagnosis = diagnose(encodings_of(ACTIVE, PASSIVE, doubtful), rule="relative")
    assert diagnosis.regime.passive == [1, 2]
    assert diagnosis.regime.droppable == [1]
    assert diagnosis.advice[0] == "Use the mean of variable 0; 1 is passive: drop it."
    assert any(sentence.startswith("Variable 2 is close to the threshold for passive") for sentence in diagnosis.advice)


def test_an_implausible_variance_is_pointed_out():
    wide = (ACTIVE[0], np.full(N, 2.7))
    assert any("the scale is of the kind you named" in sentence for sentence in diagnose(encodings_of(wide)).advice)


def test_a_prior_driven_code_is_not_called_collapsed():
    means = ACTIVE[0][:, None]
    driven = Encodings(means, variance=np.full((N, 1), 0.01), prior_mean=means, prior_variance=np.full((N, 1), 0.01))
    diagnosis = diagnose(driven)
    assert "Collapsed" not in diagnosis.headline
    assert not any("fresh weights" in sentence for sentence in diagnosis.advice)


def test_cautions_for_what_variance_rules_miss():
    noise = (0.001 * ACTIVE[0], np.full(N, 0.05))
    assert any("would pass for active" in sentence for sentence in diagnose(encodings_of(ACTIVE, noise)).advice)
    means = ACTIVE[0][:, None]
    driven = Encodings(means, variance=np.full((N, 1), 0.01), prior_mean=means, prior_variance=np.full((N, 1), 0.01))
    assert any("follows the prior" in sentence for sentence in diagnose(driven).advice)
    uncalibrated = encodings_of(ACTIVE, prior_variance=np.full(1, 9.0))
    assert any("has not settled" in sentence for sentence in diagnose(uncalibrated).advice)


def test_the_dictionary_is_plain_json_even_with_infinite_evidence():
    sharp = (ACTIVE[0], np.zeros(N))
    text = json.dumps(diagnose(encodings_of(sharp, PASSIVE)).to_dict(), allow_nan=False)
    told = json.loads(text)
    assert told["active"] == [0]
    assert told["variables"][0]["kl"] == "inf"


def test_a_model_without_data_is_refused_with_a_hint():
    with pytest.raises(DataError, match="data= to encode"):
        diagnose(object())


def decoder(permuted, error=0.02, redrawn=None):
    permuted = np.array(permuted)
    errors = np.full(len(permuted), error)
    redrawn = permuted if redrawn is None else np.array(redrawn)
    return DecoderUse(permuted, errors, redrawn, errors, np.full(len(permuted), 2000), 40.0)


def test_the_decoder_decides_where_there_is_one():
    columns = encodings_of(ACTIVE, PASSIVE, OTHER)
    diagnosis = diagnose(columns, decoder=decoder([80.0, 9.0, 0.02], redrawn=[80.0, 8.0, 0.9]))
    assert diagnosis.regime.types == ("active", "mixed", "passive")
    assert diagnosis.regime.why[2] == (
        "passive: the decoder does not read it (2 % noise), decoder loses 0.02 ± 0.02 nats (not at the prior)"
    )
    assert diagnosis.advice[0] == "Use the means of variables 0 and 1; 2 is passive: drop it."
    assert any(
        "differs on 1 (mixed here, passive there); on 2 (passive here, active there)" in x for x in diagnosis.advice
    )
    nothing_read = diagnose(columns, decoder=decoder([0.01, 0.0, 0.02]))
    assert nothing_read.headline.startswith("Collapsed: all 3 latent variables are passive")
    by_the_paper = diagnose(columns, rule="standard", decoder=decoder([80.0, 9.0, 0.02]))
    assert by_the_paper.regime.types == ("active", "passive", "active")
    assert any("The default rule" in sentence for sentence in by_the_paper.advice)


def test_a_variable_too_close_to_the_threshold_is_doubtful_and_kept():
    diagnosis = diagnose(encodings_of(ACTIVE, PASSIVE, OTHER), decoder=decoder([80.0, 0.19, 60.0]))
    assert diagnosis.regime.doubtful == [1]
    assert (
        diagnosis.headline
        == "2 of 3 latent variables are active, none mixed, 1 passive (1 of these types is doubtful)."
    )
    assert diagnosis.regime.droppable == []
    assert any(
        "costs the decoder 0.19 ± 0.02 nats, too close to the threshold of 0.2" in said for said in diagnosis.advice
    )
    assert diagnosis.regime.confidence[1] < 0.95


def test_a_diagnosis_prints_what_matters():
    diagnosis = diagnose(encodings_of(ACTIVE, PASSIVE))
    printed = str(diagnosis).splitlines()
    assert printed[0] == diagnosis.headline
    assert [line.split()[3] for line in printed if line.startswith(("│ 0", "│ 1"))] == ["active:", "passive:"]
    assert tuple(printed[-len(diagnosis.advice) :]) == diagnosis.advice


def test_passive_means_are_kept_to_predict_factors_and_all_means_recommended():
    encodings = encodings_of(ACTIVE, PASSIVE)
    labels = np.arange(len(encodings)) % 2
    labelled = Encodings(encodings.mean, variance=encodings.variance, factors=labels)
    kept = "If you predict the factors from the code, keep the mean of 1 too"
    assert any(sentence.startswith(kept) for sentence in diagnose(labelled).advice)
    assert not any(sentence.startswith(kept) for sentence in diagnose(encodings).advice)
    assert diagnose(labelled).recommended == ("mean", (0, 1))


def test_a_remnant_that_keeps_mean_and_sample_apart_is_named():
    draws = np.random.default_rng(11)
    z = draws.standard_normal((3000, 3))
    mean = np.column_stack([z[:, 0], z[:, 1], 0.35 * z[:, 0] + 0.05 * z[:, 2]])
    encodings = Encodings(mean, variance=np.broadcast_to([0.002, 0.002, 0.048], (3000, 3)), rest_ratio=[0.048] * 3)
    error, zero = np.full(3, 0.02), np.zeros(3)
    use = DecoderUse(np.array([300.0, 200.0, 0.25]), error, zero, error, np.full(3, 2000), 20.0)
    told = diagnose(encodings, decoder=use)
    assert told.regime.doubtful == [2]
    assert "(1 of these types is doubtful)" in told.headline
    (said,) = [sentence for sentence in told.advice if sentence.startswith("The total correlation of the means")]
    assert "without the doubtful variable 2 too it is 0.00 nats against 0.00 sampled" in said
    assert "interchangeable" not in " ".join(told.advice)
    assert any("less than it carries, as wide as an unused variable" in sentence for sentence in told.advice)


@pytest.mark.parametrize(("settings", "words"), [({"rule": "standart"}, "got 'standart'"), ({"alpha": 0.7}, "got 0.7")])
def test_rule_and_threshold_are_checked_before_anything_is_encoded(settings, words):
    def encode(_inputs):
        raise AssertionError

    with pytest.raises(ConfigError, match=words):
        diagnose(encode, np.zeros((5, 2)), **settings)
