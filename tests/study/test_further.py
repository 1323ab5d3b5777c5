"""Further measures, each on codes whose answer is known."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from polarised import Encodings, classify, registry
from polarised.data import dsprites, nonlinear_ica, pinwheel
from polarised.data.dataset import Dataset
from polarised.errors import ConfigError, DataError
from polarised.models import VAE, build_vae
from polarised.random import stream
from polarised.study.config import read_evaluation
from polarised.study.further import transported

PAGE = "measure"


def small_vae(dataset: Dataset, latents: int, prior: Any = "StandardNormal") -> VAE:
    config = {"architecture": {"name": "mlp", "widths": [8]}, "latents": latents, "prior": prior}
    return build_vae(config, dataset.shape, dataset.auxiliary_size, seed=0)


def measured(name: str, vae: VAE, dataset: Dataset, encodings: Encodings, **settings: Any) -> dict[str, float]:
    rows = registry.build(PAGE, {"name": name, **settings}, vae, dataset, encodings, 0)
    return {"/".join(filter(None, (metric, of, variables))): value for metric, of, variables, value in rows}


def gaussian_codes(mean: np.ndarray, variance: float) -> Encodings:
    return Encodings(mean, variance=np.full(mean.shape, variance))


def test_uncorrelated_pairs_may_depend() -> None:
    x = stream(0, "parabola").standard_normal(4000)
    codes = gaussian_codes(np.stack([x, (x**2 - 1) / math.sqrt(2)], axis=1), 1e-6)
    found = measured("pairwise_dependence", small_vae(pinwheel(), 2), pinwheel(), codes)
    assert abs(np.corrcoef(codes.mean.T)[0, 1]) < 0.1
    assert found["pair_information/mean/full"] > 0.5
    assert found["excess_information/mean/full"] == pytest.approx(found["pair_information/mean/full"], abs=0.01)


def test_gaussian_pairs_have_no_excess() -> None:
    x = stream(0, "pair").standard_normal((20_000, 2)) @ np.linalg.cholesky([[1.0, 0.6], [0.6, 1.0]]).T
    found = measured("pairwise_dependence", small_vae(pinwheel(), 2), pinwheel(), gaussian_codes(x, 1e-6))
    assert found["pair_information/mean/full"] == pytest.approx(-0.5 * math.log(1 - 0.36), abs=0.02)
    assert abs(found["excess_information/mean/full"]) < 0.02


@pytest.mark.parametrize(("apart", "information"), [(100.0, math.log(50)), (0.0, 0.0)])
def test_index_information_is_log_n_without_overlap_and_nil_with_full_overlap(apart: float, information: float) -> None:
    codes = gaussian_codes(apart * np.arange(50.0)[:, None] * [1.0, 0.0], 1.0)
    found = measured("encoder_overlap", small_vae(pinwheel(), 2), pinwheel(), codes)
    assert found["index_information/full"] == pytest.approx(information, abs=1e-9)
    assert found["overlap/full"] == pytest.approx(1 - information / math.log(50), abs=1e-9)
    assert found["encoder_entropy/full"] == pytest.approx(math.log(2 * math.pi * math.e))


def test_divergences_of_a_matched_and_of_a_moved_aggregate_posterior() -> None:
    vae = small_vae(pinwheel(), 2)
    mean = math.sqrt(0.5) * stream(0, "mean").standard_normal((2000, 2))
    matched, moved = (
        measured("prior_match", vae, pinwheel(), gaussian_codes(mean + shift, 0.5), divergences=True, draws=500)
        for shift in (0.0, 2.0)
    )
    assert abs(matched["mmd/full"]) < 0.04
    assert matched["inclusive_kl/full"] == pytest.approx(0.0, abs=0.03)
    assert matched["exclusive_kl/full"] == pytest.approx(0.0, abs=0.06)
    assert moved["exclusive_kl/full"] == pytest.approx(0.5 * 2 * 2.0**2, abs=0.2)
    assert moved["mmd/full"] > 0.5


def test_sparsity_of_one_hot_codes_is_one() -> None:
    codes = gaussian_codes(np.eye(4)[np.arange(40) % 4], 0.1)
    assert measured("sparsity", small_vae(pinwheel(), 4), pinwheel(), codes)["hoyer/mean/full"] == pytest.approx(1.0)


def test_sources_that_are_the_codes_are_found() -> None:
    dataset = nonlinear_ica(segments=4, points=50, sources=2)
    assert dataset.sources is not None
    true = dataset.sources[dataset.sample(100, 0).indices]
    found = measured("source_recovery", small_vae(dataset, 2, "Conditional"), dataset, gaussian_codes(-true, 1e-3))
    assert found["mcc/mean/full"] == pytest.approx(1.0)
    assert found["mcc_spearman/mean/full"] == pytest.approx(1.0)


def test_factors_that_are_the_codes_score_one() -> None:
    dataset = dsprites(size=32)
    batch = dataset.sample(2000, 0)
    assert batch.factors is not None
    codes = Encodings(
        batch.factors.astype(float),
        variance=np.full((2000, 5), 1e-3),
        factors=batch.factors,
        factor_names=list("abcde"),
    )
    found = measured("factor_information", small_vae(dataset, 5), dataset, codes)
    assert found["sap/mean/full"] > 0.95
    assert found["mig/mean/full"] > 0.6
    assert found["disintegrated_r2/mean/full"] == 0


def test_transport_is_monotone_and_keeps_a_nearly_normal_distribution() -> None:
    z = np.linspace(-6, 6, 101)
    assert (np.diff(transported(z, 3.0)) > 0).all()
    assert np.abs(transported(z, 1e6) - z).max() < 1e-4


def test_alignment_of_a_student_t_model_is_scored_with_and_without_transport() -> None:
    dataset = dsprites(size=32)
    vae = small_vae(dataset, 3, {"name": "StudentT", "df": 3.0})
    with torch.no_grad():
        vae.encoder.mean_head.weight.mul_(50.0)
    settings = {"votes": 60, "test_votes": 60, "batch_size": 8}
    found = measured("axis_alignment", vae, dataset, gaussian_codes(np.zeros((4, 3)), 1.0), **settings)
    assert set(found) == {"factor_vae_score/mean/full", "factor_vae_score_transported/mean/full"}
    assert all(0.1 < value <= 1.0 for value in found.values())


def test_a_passive_variable_with_a_narrow_prior_is_retyped() -> None:
    generator = stream(0, "passive")
    n = 2000
    # The last variable is nearly all noise: unused by the default rule, mixed by the two published ones.
    mean = np.stack([generator.standard_normal(n), np.zeros(n), 0.45 * generator.standard_normal(n)], axis=1)
    variance = np.stack([np.full(n, 0.01), np.full(n, 0.003), np.full(n, 0.8)], axis=1)
    codes = Encodings(mean, variance=variance, prior_variance=np.array([1.01, 0.003, 1.0]))
    assert classify(codes).types == ("active", "passive", "passive")
    dataset = nonlinear_ica(segments=4, points=50, sources=2)
    found = measured("prior_relation", small_vae(dataset, 3, "Conditional"), dataset, codes, decoder_examples=20)
    assert [found[f"count_relative/{kind}"] for kind in ("active", "mixed", "passive")] == [1, 1, 1]
    assert [found[f"count_standard/{kind}"] for kind in ("active", "mixed", "passive")] == [2, 1, 0]
    assert found["retyped/full"] == 1
    assert found["miscalibration/full"] < 0.02
    assert found["prior_variance/passive"] == pytest.approx(0.003)
    assert "permuting/active" in found


@pytest.mark.parametrize("name", ["axis_alignment", "factor_information", "source_recovery"])
def test_data_without_the_required_factors_are_an_error(name: str) -> None:
    images = np.zeros((20, 2), dtype=np.float32)
    dataset = Dataset("plain", (2,), 20, images.__getitem__)
    with pytest.raises(DataError, match=f"{name} needs a dataset with"):
        measured(name, small_vae(dataset, 2), dataset, gaussian_codes(np.zeros((20, 2)), 1.0))


def test_a_prior_that_depends_on_u_has_no_single_match() -> None:
    dataset = nonlinear_ica(segments=4, points=50, sources=2)
    with pytest.raises(DataError, match="depends on u"):
        measured("prior_match", small_vae(dataset, 2, "Conditional"), dataset, gaussian_codes(np.zeros((9, 2)), 1.0))


def test_a_config_names_measures_and_typos_are_errors() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'sparsity'"):
        read_evaluation({"further": ["sparcity"]})
    assert read_evaluation({"further": ["sparsity"]}).further == ({"name": "sparsity"},)


def test_measuring_leaves_the_global_random_state_alone() -> None:
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    vae, codes = small_vae(pinwheel(), 2), gaussian_codes(np.ones((30, 2)) * np.arange(30)[:, None], 0.5)
    measured("prior_match", vae, pinwheel(), codes)
    assert torch.equal(before, torch.random.get_rng_state())


def test_every_measure_names_its_numbers_and_references():
    for record in registry.records("measure"):
        assert record.references, record.name
        assert record.outputs, record.name
        if record.call.__module__ == transported.__module__:
            for output in record.outputs:
                assert registry.output(output.name).reading.endswith("."), output.name
