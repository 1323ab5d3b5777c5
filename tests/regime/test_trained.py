"""Types of trained models compared with an ablation of their decoders, on images that the diagnosis does not use."""

import importlib.util
import os
import sys
import warnings
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from filelock import FileLock

from conftest import REPOSITORY
from polarised import diagnose
from polarised.theory import correlation_gap, mean_statement, mixture_distance, sample_distances, variance_statement
from sentences import contradictions

STEPS = 3_000
# Trained in every run of the suite, in about a minute of processor time; the rest of the bank takes some twelve
# minutes, in `make test-all`. POLARISED_TRAINED names a folder in which to cache them.
USUAL = ("rtc_4", "factor_100", "tc_10_mws", "annealed_25")
ESTIMATORS = ("mws", "mss0", "mss1", "eq10b", "disentanglement_lib")
REST = (
    *(f"rtc_{beta}" for beta in ("2", "10", "20", "2_falling", "10_falling")),
    "factor_10",
    *(f"tc_{beta}_{name}" for beta in (4, 10) for name in ESTIMATORS if (beta, name) != (10, "mws")),
    "dip_I",
    "dip_II",
    "annealed_10",
    "annealed_50",
    "ivae",
    *(f"beta_{beta}" for beta in (1, 4, 8)),
    "populations_6",
    "populations_12",
    "student",
    "sparse",
    "anisotropic",
    "inclusive_kl",
    "mmd",
)
SEEDS = (1, 2)


@pytest.fixture(scope="session")
def bank() -> ModuleType:
    """The script that trains and ablates the models, as a module."""
    spec = importlib.util.spec_from_file_location("unused_variables", REPOSITORY / "benchmarks" / "unused_variables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def examined(bank, tmp_path_factory):
    """Return a function from a model's name (and seed) to its VAE, encodings, types and truth, each computed once."""

    folder = Path(os.environ.get("POLARISED_TRAINED", tmp_path_factory.getbasetemp().parent / "trained"))
    folder.mkdir(parents=True, exist_ok=True)

    @cache
    def made(name, seed):
        # Several processes test at the same time: the first one that needs a model trains it for all.
        with FileLock(folder / f"{name}-{seed}.lock"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            vae = bank.trained(name, seed=seed, cache=folder)
        encodings, found = bank.regimes(name, vae)
        return vae, encodings, found, bank.ablation(vae, bank.dataset_of(bank.bank(STEPS)[name]))

    return lambda name, seed=1: made(name, seed)


def check(bank, examined, models):
    """Compare every type that is not doubtful with the ablation, and limit doubt to a tenth of the variables."""
    sums, alone = np.zeros(3, dtype=int), np.zeros(3, dtype=int)
    for name, seed in models:
        _, _, found, truth = examined(name, seed)
        right, wrong, doubtful = bank.agreement(found["used"], truth)
        assert wrong == 0, (name, seed, found["used"].why, truth)
        sums += (right, wrong, doubtful)
        alone += bank.agreement(found["encoder alone"], truth)
    assert sums[2] <= 0.1 * sums.sum()
    # Without a decoder more is doubtful, and hardly anything is wrong.
    assert alone[1] <= 0.02 * alone.sum()


def test_the_whole_bank_is_named_here(bank):
    assert {*USUAL, *REST} == set(bank.bank(STEPS))


def test_types_agree_with_the_ablation(bank, examined):
    check(bank, examined, [(name, 1) for name in USUAL])


def test_types_by_the_earlier_rules_disagree_with_the_ablation(bank, examined):
    wrong = dict.fromkeys(("relative", "standard"), 0)
    for name in USUAL:
        _, _, found, truth = examined(name)
        for rule in wrong:
            wrong[rule] += bank.agreement(found[rule], truth)[1]
    assert min(wrong.values()) >= 4


def gap_closes(bank, examined, name, seed=1):
    """Whether mean and sample are equally correlated over the dependable variables, though not over all."""
    _, encodings, found, _ = examined(name, seed)
    (all_mean, all_sample), (mean, sample) = bank.correlations(encodings, found["used"])
    return all_mean - all_sample > 0.5 and abs(mean - sample) < 0.05


@pytest.mark.parametrize("name", ["rtc_4", "factor_100", "tc_10_mws"])
def test_mean_and_sample_are_equally_correlated_without_unused_variables(bank, examined, name):
    assert gap_closes(bank, examined, name)


def test_each_unused_variable_has_a_reason(examined):
    _, _, found, _ = examined("rtc_4")
    rest = 1 / 21
    regime = found["used"]
    assert regime.rest_ratio == pytest.approx(np.full(10, rest))
    for j in regime.passive:
        assert "this objective's own variance" in regime.why[j]
        assert 0.8 <= regime.statistics.ratio_mean[j] / rest <= 1.6
    assert all("decoder loses" in words for words in regime.why)


def test_a_capacity_is_spent_on_means_that_do_not_distinguish_inputs(examined):
    _, _, found, _ = examined("annealed_25")
    statistics = found["used"].statistics
    # KL minus information: the rate spent without distinguishing inputs.
    information = -0.5 * np.log(statistics.noise_share)
    wasted = statistics.kl - information
    assert wasted.max() > 0.5
    assert any("capacity spent on its mean" in words for words in found["used"].why)


@pytest.mark.parametrize("name", USUAL)
def test_no_two_sentences_of_a_diagnosis_contradict_each_other(bank, examined, name):
    vae, _, _, _ = examined(name)
    model = bank.bank(STEPS)[name]
    for rule in ("used", "relative", "standard"):
        told = diagnose(vae, bank.dataset_of(model), examples=1000, objective=model.objective, rule=rule)
        assert contradictions(told) == []


def test_the_propositions_hold_on_a_trained_model(examined):
    _, encodings, found, _ = examined("tc_10_mws")
    regime = found["used"]
    active, passive = regime.active, regime.passive
    means, variances, distances = mean_statement(encodings), variance_statement(encodings), sample_distances(encodings)
    # Proposition 3: passive means are almost constant, active ones vary more.
    assert means.offset[passive].max() < 0.3
    assert means.variance[passive].max() < 0.1 < means.variance[active].min()
    # Proposition 4: their variances are near 1 and near 0.
    assert np.abs(variances.level[passive] - 1).max() < 0.25
    assert variances.level[active].max() < 0.1
    # Theorem 5 (i) and (ii): z is distributed as noise, or as the mean.
    assert distances.noise_ks[passive].max() < 0.1
    assert distances.mean_wasserstein[active].max() < 0.1 < 0.4 < distances.mean_wasserstein[passive].min()
    assert distances.prior_ks[passive] == pytest.approx(distances.noise_ks[passive], abs=1e-3)
    # Corollary 6: discrepancies come from the others.
    assert correlation_gap(encodings, active) < 0.02 < 0.5 < correlation_gap(encodings, range(10))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", [*USUAL, *REST])
def test_no_type_of_a_trained_model_is_wrong_beyond_doubt(bank, examined, name, seed):
    _, _, found, truth = examined(name, seed)
    assert bank.agreement(found["used"], truth)[1] == 0, (found["used"].why, truth)


@pytest.mark.slow
def test_types_of_the_whole_bank_agree_with_the_ablation(bank, examined):
    check(bank, examined, [(name, seed) for seed in SEEDS for name in (*USUAL, *REST)])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rtc_2", "rtc_10", "rtc_2_falling", "rtc_10_falling", "factor_10", "tc_4_mss1"])
def test_the_gap_closes_as_stated_in_the_papers(bank, examined, name):
    assert gap_closes(bank, examined, name)


@pytest.mark.slow
def test_a_mixed_variable_is_on_only_for_the_squares(examined):
    _, encodings, found, _ = examined("populations_12")
    regime = found["used"]
    states = regime.evidence.two_states()
    mixed = [j for j in regime.mixed if states.separation[j] >= 0.85]
    assert len(mixed) == 1
    assert "on for" in regime.why[mixed[0]]
    assert states.on[mixed[0]] == pytest.approx(0.5, abs=0.08)
    ratio = encodings.variance[:, mixed[0]]
    on = ratio < np.sqrt(states.ratio_on[mixed[0]] * states.ratio_off[mixed[0]])
    assert (on == (encodings.factors[:, 0] == 0)).mean() > 0.9
    # Theorem 5 (iii): a mixture of noise and the means of the inputs for which it is on.
    c, distance = mixture_distance(encodings, mixed[0])
    assert 1 - c == pytest.approx(states.on[mixed[0]], abs=0.03)
    assert distance < 0.2


@pytest.mark.slow
def test_the_propositions_of_the_identifiable_paper_hold(examined):
    _, encodings, found, _ = examined("ivae")
    active, passive = found["used"].active, found["used"].passive
    means, variances, distances = mean_statement(encodings), variance_statement(encodings), sample_distances(encodings)
    assert means.variance[passive].max() < 0.1 < means.variance[active].min()
    assert np.abs(variances.level[passive] - 1).max() < 0.1
    assert distances.prior_ks[passive].max() < 0.05
    assert distances.mean_wasserstein[active].max() < 0.1
    # The prior is learned and not N(0, 1): only relative to its scale do the variables follow it.
    assert distances.noise_ks[passive].min() > 0.1
