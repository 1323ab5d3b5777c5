"""Statements about several variables, on synthetic codes with a known answer."""

from typing import Any

import numpy as np
import polars
import pytest
import torch

from polarised.data import dsprites, pinwheel
from polarised.data.dataset import Dataset
from polarised.errors import DataError
from polarised.models import build_vae
from polarised.regime import Encodings
from polarised.study.relations import (
    component_mass,
    count_modes,
    critic_dependence,
    disentanglement,
    entropy_estimates,
    factor_carriers,
    posterior_optimum,
)

INPUTS = 4000


def rows(table: polars.DataFrame) -> dict[str, float]:
    whole = table.filter(polars.col("variable").is_null())
    return dict(whole.select("metric", "value").iter_rows())


def carried(*, parts: bool) -> Encodings:
    """Three factors: one whole, one on cos and sin of its angle, or with one half of its values on each variable."""
    generator = np.random.default_rng(0)
    factors = np.stack([generator.integers(0, size, INPUTS) for size in (3, 24, 6)], axis=1)
    angle = 2 * np.pi * factors[:, 1] / 24
    if parts:
        low, high = np.clip(factors[:, 1], 0, 12), np.clip(factors[:, 1], 12, 24)
        pair = np.stack([np.sin(2 * np.pi * low / 12), np.sin(2 * np.pi * high / 12)], axis=1)
    else:
        pair = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    mean = np.column_stack([factors[:, 0] - 1.0, pair, 0.01 * generator.normal(size=INPUTS)])
    mean += 0.02 * generator.normal(size=mean.shape)
    variance = np.full(mean.shape, 0.001)
    variance[:, 3] = 1.0
    return Encodings(mean, variance=variance, factors=factors)


def measured(parts: bool) -> polars.DataFrame:
    vae: Any = None
    return factor_carriers(vae, dsprites(size=32), carried(parts=parts), 0)


def test_cos_and_sin_of_one_angle_are_dependent_carriers() -> None:
    table = measured(parts=False)
    found = rows(table)
    assert found["dependent_carriers"] == 1
    assert found["small_gaps_nmi"] == 1
    assert found["largest_r2_gap"] > 0.9
    assert "disintegrated_gap" not in found
    # The change of a sine is the same in every half of the circle, so it does not exceed chance.
    assert found["carrier_parts_excess"] < 0.05
    modes = table.filter(metric="modes").sort("variable")
    assert modes["variable"].to_list() == [0, 1, 2]
    assert modes["value"][0] == 3
    assert modes["value"].min() >= 2  # type: ignore[operator]


def test_carriers_of_parts_of_a_factor_are_detected() -> None:
    found = rows(measured(parts=True))
    assert found["carrier_parts_excess"] > 0.2


def test_gaps_are_measured_for_disintegrated_and_whole_factors() -> None:
    generator = np.random.default_rng(1)
    pair = generator.normal(size=(INPUTS, 2))
    whole = generator.integers(0, 5, INPUTS)
    split = np.digitize(pair.sum(axis=1), [-1.0, 0.0, 1.0])
    mean = np.column_stack([pair, whole - 2.0])
    encodings = Encodings(mean, variance=np.full(mean.shape, 0.001), factors=np.stack([split, whole], axis=1))
    vae: Any = None
    found = rows(factor_carriers(vae, dsprites(size=32), encodings, 0))
    assert found["disintegrated_gap"] < 0.05
    assert found["whole_gap"] > 0.95
    assert found["small_gaps_r2"] == 1


@pytest.mark.parametrize("peaks", [1, 2, 4])
def test_modes_are_counted(peaks: int) -> None:
    generator = np.random.default_rng(peaks)
    values = generator.normal(size=2000) + 6.0 * generator.integers(0, peaks, 2000)
    assert count_modes(values) == peaks
    assert count_modes(np.zeros(10)) == 1


def test_a_critic_estimates_more_on_its_training_rows() -> None:
    generator = np.random.default_rng(0)
    mean = generator.normal(size=(100, 6))
    vae: Any = None
    data = dsprites(size=32)
    table = critic_dependence(vae, data, Encodings(mean, variance=np.full(mean.shape, 0.1)), 0)
    assert rows(table.filter(representation="mean"))["critic_training_excess"] > 0


def test_disentanglement_of_a_code_that_is_the_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    from polarised.study import relations

    data = dsprites(size=32)
    drawn = data.sample(1500, 0)
    assert drawn.factors is not None
    monkeypatch.setattr(relations, "MeanCodes", lambda vae, dataset: lambda factors: factors[:, [0, 1]] + 0.0)
    encodings = Encodings(drawn.factors[:, [0, 1]] + 0.0, variance=np.ones((1500, 2)), factors=drawn.factors[:, :2])
    vae: Any = None
    found = {name: value for name, _, _, value in disentanglement(vae, data, encodings, 0, points=60, test_points=50)}
    assert found["dci_disentanglement"] > 0.95
    assert 0 <= found["beta_vae_score"] <= 1


@pytest.mark.parametrize("likelihood", [{"name": "Gaussian", "variance": 0.2}, {"name": "Bernoulli", "weight": 2.0}])
def test_the_optimum_is_that_of_equation_11(likelihood: dict[str, Any]) -> None:
    config = {"architecture": {"name": "mlp", "widths": [6]}, "latents": 3, "likelihood": likelihood}
    vae = build_vae(config, (1, 4, 4), seed=0)
    mean = np.zeros((5, 3))
    of: Any = torch.autograd.functional.jacobian(lambda z: vae.decode(z[None]).flatten(), torch.zeros(3))
    with torch.no_grad():
        chance = torch.sigmoid(vae.decode(torch.zeros(1, 3))).double().flatten().numpy()
    # J'J / gamma for a Gaussian; J' p (1 - p) J of the logits, counted as often as the likelihood counts a pixel.
    weights = np.full(16, 1 / 0.2) if likelihood["name"] == "Gaussian" else 2.0 * chance * (1 - chance)
    optimum = 1 / (1 + (of.double().numpy() ** 2 * weights[:, None]).sum(axis=0))
    data: Any = None
    exact = Encodings(mean, variance=np.tile(optimum, (5, 1)))
    assert posterior_optimum(vae, data, exact, 0)[0][3] == pytest.approx(0.0, abs=1e-5)
    tenfold = Encodings(mean, variance=np.tile(10 * optimum, (5, 1)))
    assert posterior_optimum(vae, data, tenfold, 0)[0][3] == pytest.approx(1.0, abs=1e-5)


def test_an_empty_component_has_no_mass() -> None:
    config = {"architecture": "pinwheel_mlp", "latents": 2, "prior": "GaussianMixture", "likelihood": "Gaussian"}
    vae = build_vae(config, (2,), seed=0)
    places = np.array([[0.0, -1.0], [0.0, 1.0], [1.0, 0.0], [-1.0, 0.0]])
    spread_out = np.tile(places, (50, 1))
    all_four = component_mass(vae, pinwheel(), Encodings(spread_out, variance=np.full((200, 2), 0.01)), 0)
    assert all_four[0][3] == pytest.approx(0.25, abs=0.01)
    without_one = places[[0, 1, 2, 2] * 50]
    three = component_mass(vae, pinwheel(), Encodings(without_one, variance=np.full((200, 2), 0.01)), 0)
    assert three[0][3] < 0.01


def aggregate(std: float, latents: int) -> dict[str, float]:
    vae = build_vae({"architecture": {"name": "mlp", "widths": [4]}, "latents": latents}, (1, 4, 4), seed=0)
    mean = np.random.default_rng(0).normal(size=(1024, latents)) * np.sqrt(1 - std**2)
    data = Dataset("many", (1, 4, 4), 20_000, lambda indices: np.zeros((len(indices), 1, 4, 4), dtype=np.float32))
    found = entropy_estimates(vae, data, Encodings(mean, variance=np.full(mean.shape, std**2)), 0)
    return {name: value for name, _, _, value in found}


def test_separate_encoders_are_dominated_by_their_own_term_and_wide_ones_are_not() -> None:
    apart, wide = aggregate(0.05, 20), aggregate(0.9, 2)
    assert apart["second_term_share"] > 0.95
    assert wide["second_term_share"] == 0
    # With no overlap log q^ is log q(z|x) - log n, far above log p: a large positive estimate.
    assert apart["negative_estimate_share"] == 0


def test_negative_estimates_are_counted() -> None:
    """The estimate is minus the KL of a mixture of 64 where the own term does not count: it may fall below zero."""
    assert 0 < aggregate(0.99, 4)["negative_estimate_share"] <= 1


def test_unsupported_models_are_refused() -> None:
    vae = build_vae({"architecture": {"name": "mlp", "widths": [4]}, "latents": 2}, (1, 4, 4), seed=0)
    encodings = Encodings(np.zeros((10, 2)), variance=np.ones((10, 2)))
    data = pinwheel()
    with pytest.raises(DataError, match="needs a mixture prior"):
        component_mass(vae, data, encodings, 0)
    for measure in (factor_carriers, disentanglement):
        with pytest.raises(DataError, match="needs a dataset with factors"):
            measure(vae, data, encodings, 0)
    laplace = build_vae({"architecture": "mlp", "latents": 2, "likelihood": "Laplace"}, (1, 4, 4), seed=0)
    with pytest.raises(DataError, match="posterior_optimum needs"):
        posterior_optimum(laplace, data, encodings, 0)
