"""Laws of every rule for types: another unit of code, prior and decoder gives the same types."""

import numpy as np
import pytest

from polarised import Encodings, Regime, classify
from polarised.regime.decoder import CodedBatch, DecoderUse, measure_decoder_use

N = 3000
# By column: active, at the prior, at rest at a variance of its own, on for a part, parked on a mean, weak for all.
KINDS = ("active", "passive", "passive", "mixed", "passive", "mixed")
RESTS = np.array([1.0, 1.0, 0.05, 1.0, np.nan, 1.0])
# Powers of two do not change bins and rounding.
UNITS = np.array([0.125, 64.0, 8.0, 0.5, 1024.0, 0.25])


def model() -> tuple[np.ndarray, np.ndarray]:
    draws = np.random.default_rng(3)
    on = draws.permutation(N) < 0.46 * N
    z = draws.standard_normal((N, 6))
    mean = np.column_stack(
        [z[:, 0], 0.02 * z[:, 1], 0.05 * z[:, 2], np.where(on, z[:, 3], 0.01), 3.5 + 0.1 * z[:, 4], 0.7 * z[:, 5]]
    )
    variance = np.column_stack(
        [np.full(N, 0.01), np.ones(N), np.full(N, 0.05), np.where(on, 0.02, 0.98), np.ones(N), np.full(N, 0.5)]
    )
    return mean, variance * np.exp(0.02 * draws.standard_normal((N, 6)))


def typed(units: np.ndarray, *, rule: str, decoder: bool) -> Regime:
    mean, variance = model()
    noise = np.random.default_rng(4).standard_normal((N, 6))
    codes = mean + np.sqrt(variance) * noise
    weights = np.array([30.0, 0.0, 0.0, 12.0, 0.0, 4.0])

    def distortion(z: np.ndarray) -> np.ndarray:
        return 20.0 + (np.square(z / units - codes) * weights).sum(axis=1)

    scaled = Encodings(mean * units, variance=variance * units**2, prior_variance=units**2, rest_ratio=RESTS)
    prior = np.random.default_rng(5).standard_normal((N, 6)) * units
    batch = CodedBatch(distortion, codes * units, prior, np.zeros(N))
    use = measure_decoder_use([batch]) if decoder else None
    return classify(scaled, rule=rule, decoder=use)  # type: ignore[arg-type]


@pytest.mark.parametrize(("rule", "decoder"), [("used", True), ("used", False), ("relative", False)])
def test_another_unit_of_code_prior_and_decoder_changes_no_type_and_no_certainty(rule: str, decoder: bool) -> None:
    plain, other = (typed(units, rule=rule, decoder=decoder) for units in (np.ones(6), UNITS))
    assert other.types == plain.types
    assert other.doubtful == plain.doubtful
    assert other.droppable == plain.droppable
    np.testing.assert_allclose(other.confidence, plain.confidence)
    np.testing.assert_allclose(other.distance, plain.distance, rtol=1e-9)
    same = [j for j in range(6) if "variance" not in plain.why[j]]
    assert len(same) >= 5
    assert [other.why[j] for j in same] == [plain.why[j] for j in same]


@pytest.mark.parametrize("decoder", [True, False])
def test_each_kind_of_variable_gets_its_type(decoder: bool) -> None:
    regime = typed(np.ones(6), rule="used", decoder=decoder)
    assert regime.types == KINDS
    assert regime.doubtful == []
    assert regime.why[1].startswith("passive: posterior = prior")
    assert regime.why[2].startswith("passive: rests at this objective's own variance 0.05")
    assert regime.why[3].startswith("mixed: on for 46 ± 1 % of the inputs")
    assert regime.why[4].startswith("passive: capacity spent on its mean: σ² ≈ prior, E[μ²] = 12")
    assert regime.why[5].startswith("mixed: weak for all")
    assert all(("decoder loses" in words) == decoder for words in regime.why)


def test_a_remnant_at_rest_is_doubtful_until_the_decoder_reads_it_for_what_it_carries() -> None:
    draws = np.random.default_rng(6)
    mean = draws.standard_normal((N, 2)) * [1.0, 0.35]
    variance = np.broadcast_to([0.01, 0.048], (N, 2))
    codes = mean + np.sqrt(variance) * draws.standard_normal((N, 2))
    found = []
    for weight in (0.8, 8.0):

        def distortion(z: np.ndarray, weight: float = weight) -> np.ndarray:
            return 20.0 + (np.square(z - codes) * [30.0, weight]).sum(axis=1)

        use = measure_decoder_use([CodedBatch(distortion, codes, draws.standard_normal((N, 2)), np.zeros(N))])
        found.append(classify(Encodings(mean, variance=variance, rest_ratio=[0.048, 0.048]), decoder=use))
    remnant, used = found
    # It carries 0.64 nats; the decoder loses 0.3 without it in one case, and 3 in the other.
    assert remnant.statistics.information[1] == pytest.approx(0.64, abs=0.05)
    assert remnant.decoder is not None
    assert remnant.decoder.used.all()
    assert not remnant.decoder.doubtful.any()
    assert remnant.doubtful == [1]
    assert "doubtful, less than the 0.6" in remnant.why[1]
    assert remnant.dependable == [0]
    assert used.doubtful == []
    assert used.dependable == [0, 1]


def test_certainty_includes_the_uncertainty_of_the_decoder() -> None:
    mean, variance = model()
    zero = np.zeros(6)
    settled, open_ = (
        classify(
            Encodings(mean, variance=variance, rest_ratio=RESTS),
            decoder=DecoderUse(np.array([30.0, 0.0, 0.0, 12.0, 0.0, 0.3]), error, zero, error, np.full(6, 500), 20.0),
        )
        for error in (np.full(6, 0.01), np.array([1.0, 0.01, 0.01, 1.0, 0.01, 0.2]))
    )
    assert settled.types == open_.types == KINDS
    assert settled.confidence.min() > 0.99
    # 0.3 nats are one standard error above the 0.1 that decide: one draw in six is below.
    assert open_.confidence[5] == pytest.approx(0.84, abs=0.04)
    assert open_.confidence[:5].min() > 0.99
    assert open_.doubtful == open_.fragile == [5]
