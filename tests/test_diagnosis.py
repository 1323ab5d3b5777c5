import json

import numpy as np
import pytest

from polarised import Encodings, diagnose
from polarised.errors import DataError

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
    assert "Lower beta" in diagnosis.advice[0]


def test_a_posterior_that_is_the_same_for_all_inputs_is_called_collapsed():
    # A KL of 25 nats asked for and spent on constants: mixed and passive by the types, active by the variance.
    still = 0.001 * ACTIVE[0]
    shifted, narrow, half = (4.0 + still, np.full(N, 1.0)), (4.0 + still, np.full(N, 0.02)), (still, np.full(N, 0.5))
    diagnosis = diagnose(encodings_of(shifted, narrow, half, PASSIVE))
    assert diagnosis.regime.mixed == [0, 2]
    assert diagnosis.headline.startswith("Collapsed: all 4 latent variables are nothing but noise")
    assert diagnosis.advice[0].startswith("The KL of 17.6 nats says nothing about the input")
    assert not any("Use the mean" in sentence for sentence in diagnosis.advice)
    assert "Collapsed" not in diagnose(encodings_of(shifted, narrow, half, ACTIVE)).headline


def test_a_model_without_passive_variables_is_left_alone():
    advice = diagnose(encodings_of(ACTIVE, OTHER)).advice
    assert advice[0] == "Use the means of all variables: none is passive."
    assert advice[1].endswith("sampled: mean and sample agree.")


def test_mean_and_sample_agree_only_where_their_scores_do():
    weak = [(ACTIVE[0] + 0.01 * GENERATOR.standard_normal(N), np.full(N, 0.5)) for _ in range(4)]
    advice = diagnose(encodings_of(*weak)).advice
    assert not any("agree" in sentence for sentence in advice)
    assert "the noise of the mixed variables hides how correlated the means are" in advice[1]
    assert advice[2].startswith("All variables are mixed (weak for all inputs)")
    twins = [(ACTIVE[0] + 0.01 * GENERATOR.standard_normal(N), np.full(N, 0.02)) for _ in range(3)]
    advice = diagnose(encodings_of(*twins)).advice
    assert "even the little noise of active variables hides" in advice[1]
    assert "so say which one you use" in advice[1]
    among = diagnose(encodings_of(ACTIVE, OTHER, PASSIVE, *weak[:2])).advice
    assert "without the passive variables it is" in among[1]
    assert "the noise of the mixed variables 3 and 4 hides" in among[1]


def test_means_that_follow_from_each_other_do_not_agree_with_their_sample():
    copied = diagnose(encodings_of(ACTIVE, ACTIVE)).advice[1]
    assert "is infinite (some follow exactly from others) against" in copied
    assert "agree" not in copied


def test_a_total_correlation_of_few_inputs_comes_with_what_chance_would_show():
    means = np.random.default_rng(2).standard_normal((100, 20))
    said = diagnose(Encodings(means, variance=np.full((100, 20), 0.01))).advice[1]
    assert said.endswith("With so few inputs 20 independent variables would show about 0.95.")
    assert not any("so few" in sentence for sentence in diagnose(encodings_of(ACTIVE, OTHER)).advice)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (HALF, "on for some inputs, noise for others"),
        ((0.6 * ACTIVE[0], np.full(N, 0.6)), "weak for all inputs"),
        ((0.6 * ACTIVE[0], np.linspace(0.0, 1.0, N)), "weaker for some inputs than for others"),
        ((ACTIVE[0], np.full(N, 1.0)), "no less noisy than the prior, yet different from it"),
    ],
)
def test_a_mixed_variable_is_told_how_it_is_mixed(column, words):
    assert any(f"Variable 1 is mixed ({words})" in said for said in diagnose(encodings_of(OTHER, column)).advice)


def test_variables_mixed_in_several_ways_share_a_sentence():
    advice = diagnose(encodings_of(ACTIVE, HALF, (0.6 * OTHER[0], np.full(N, 0.6)))).advice
    assert advice[-1] == (
        "Keep mixed variables for reconstruction, mistrust their single values: "
        "1 (on for some inputs, noise for others); 2 (weak for all inputs)."
    )


def test_rules_part_once_for_many_variables():
    noise = (0.001 * ACTIVE[0], np.full(N, 0.05))
    parting = [sentence for sentence in diagnose(encodings_of(ACTIVE, noise, noise)).advice if "part on" in sentence]
    assert parting == ["The relative and the standard rule part on 1 and 2 (passive here, active there)."]


def test_few_inputs_are_told_so():
    means = np.random.default_rng(2).standard_normal((5, 8))
    advice = diagnose(Encodings(means, variance=np.full((5, 8), 0.01))).advice
    assert "5 inputs are too few to say how 8 variables are correlated: encode more." in advice
    assert any(sentence.startswith("Only 5 inputs were looked at") for sentence in advice)
    # A picture is one input, however many positions it has.
    pictures = Encodings(np.zeros((5, 1, 20, 20)), variance=np.ones((5, 1, 20, 20)))
    assert any(sentence.startswith("Only 5 inputs were looked at") for sentence in diagnose(pictures).advice)
    assert not any("infinite" in sentence for sentence in advice)


def test_one_variable_is_spoken_of_in_the_singular():
    assert diagnose(encodings_of(ACTIVE)).headline == "The only latent variable is active."
    assert diagnose(encodings_of(ACTIVE)).advice == ("Use the mean, it is not noise.",)
    assert diagnose(encodings_of(PASSIVE)).headline.startswith("Collapsed: the only latent variable is passive")
    assert diagnose(encodings_of(ACTIVE, PASSIVE)).advice[0] == "Use the mean of variable 0; 1 is passive: drop it."


def test_what_is_passive_only_just_is_not_to_be_dropped():
    doubtful = (np.where(np.arange(N) < 7, 5.0, 0.0) * np.sign(OTHER[0]), np.full(N, 0.99))
    diagnosis = diagnose(encodings_of(ACTIVE, PASSIVE, doubtful))
    assert diagnosis.regime.passive == [1, 2]
    assert diagnosis.regime.droppable == [1]
    assert diagnosis.advice[0] == "Use the mean of variable 0; 1 is passive: drop it."
    assert any(sentence.startswith("Variable 2 is passive only just") for sentence in diagnosis.advice)


def test_a_spread_that_cannot_be_a_trained_variance_is_asked_about():
    wide = (ACTIVE[0], np.full(N, 2.7))
    assert any("is the spread you gave a variance" in sentence for sentence in diagnose(encodings_of(wide)).advice)


def test_a_code_that_lives_by_its_prior_is_not_called_collapsed():
    means = ACTIVE[0][:, None]
    driven = Encodings(means, variance=np.full((N, 1), 0.01), prior_mean=means, prior_variance=np.full((N, 1), 0.01))
    diagnosis = diagnose(driven)
    assert "Collapsed" not in diagnosis.headline
    assert not any("Lower beta" in sentence for sentence in diagnosis.advice)


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


def test_a_model_without_data_is_refused_with_the_way_out():
    with pytest.raises(DataError, match="data= to encode"):
        diagnose(object())


def test_a_decoder_that_contradicts_the_types_is_heard():
    import polars

    use = polars.DataFrame({"variable": [0, 1, 2], "permuted": [80.0, 9.0, 0.02], "redrawn": [70.0, 8.0, 0.1]})
    advice = diagnose(encodings_of(ACTIVE, PASSIVE, ACTIVE), decoder_use=use).advice
    assert any(sentence.startswith("The decoder does not read variable 2:") for sentence in advice)
    assert any(sentence.startswith("The decoder reads variable 1 although passive") for sentence in advice)
    assert advice[0].startswith("Use the mean of variable 0; 1 is passive")
    nothing_read = use.with_columns(polars.Series("permuted", [0.01, 0.0, 0.02]))
    advice = diagnose(encodings_of(ACTIVE, PASSIVE, ACTIVE), decoder_use=nothing_read).advice
    assert advice[0].startswith("Mistrust the whole code: the decoder reads none")
    advice = diagnose(encodings_of(ACTIVE, ACTIVE, ACTIVE), decoder_use=use).advice
    assert advice[0] == "Use the means of variables 0 and 1; the decoder does not read 2."
    agreed = use.with_columns(polars.Series("permuted", [80.0, 0.0, 60.0]))
    advice = diagnose(encodings_of(ACTIVE, PASSIVE, ACTIVE), decoder_use=agreed).advice
    assert not any("The decoder" in sentence for sentence in advice)


def test_a_diagnosis_prints_what_matters():
    diagnosis = diagnose(encodings_of(ACTIVE, PASSIVE))
    printed = str(diagnosis).splitlines()
    assert printed[0] == diagnosis.headline
    assert [line.split()[3] for line in printed if line.startswith(("│ 0", "│ 1"))] == ["active", "passive"]
    assert tuple(printed[-len(diagnosis.advice) :]) == diagnosis.advice
