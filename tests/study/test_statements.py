"""Statements about single variables, on encodings with known types."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

from polarised import adapters, registry
from polarised.adapters import decoder_use
from polarised.data import dsprites
from polarised.models import build_vae, load_vae
from polarised.regime import Encodings
from polarised.regime.classify import RULES
from polarised.regime.decoder import DecoderUse
from polarised.study import execute
from polarised.study.claims import LEDGER
from polarised.study.config import Run
from polarised.study.further import further_scores
from polarised.study.relations import critic_dependence
from polarised.study.statements import variable_statements

KINDS = ("active", "active", "mixed", "passive", "passive")


def made(inputs: int = 4000) -> Encodings:
    """Return two active variables, one that is off for 60 % of inputs, and two passive ones whose means follow."""
    generator = np.random.default_rng(0)
    codes = generator.normal(size=(inputs, 2))
    on = np.arange(inputs) % 5 < 2
    mixed = np.where(on, generator.normal(size=inputs), 0.0)
    follow = 0.05 * codes[:, 0]
    mean = np.stack([codes[:, 0], codes[:, 1], mixed, follow, 0.01 * generator.normal(size=inputs)], axis=1)
    variance = np.stack(
        [
            np.full(inputs, 0.01),
            np.full(inputs, 0.02),
            np.where(on, 0.01, 1.0),
            np.full(inputs, 0.998),
            np.ones(inputs),
        ],
        axis=1,
    )
    return Encodings(mean, variance=variance)


@pytest.fixture(scope="module")
def measured() -> polars.DataFrame:
    vae: Any = build_vae({"architecture": "mlp", "latents": 5}, (1, 32, 32), seed=0)
    return variable_statements(vae, dsprites(size=32), made(), 0, decoder_examples=0)


def values(table: polars.DataFrame, metric: str, representation: str | None, variables: str) -> list[float]:
    of = (
        polars.col("representation").is_null()
        if representation is None
        else polars.col("representation") == representation
    )
    rule = polars.col("rule").is_null() | (polars.col("rule") == "standard")
    rows = table.filter(of & rule & (polars.col("metric") == metric) & (polars.col("variables") == variables))
    return [float(value) for value in rows["value"]]


def test_every_rule_finds_the_constructed_types(measured: polars.DataFrame) -> None:
    for rule in RULES:
        own = measured.filter(rule=rule, metric="variable_offset", representation="mean").sort("variable")
        assert tuple(own["variables"]) == KINDS


@pytest.mark.parametrize(
    ("metric", "representation", "kind", "expected", "tolerance"),
    [
        ("variable_variance", "mean", "passive", [0.0025, 0.0001], 0.001),
        ("variable_variance", "sampled", "passive", [1.0, 1.0], 0.1),
        ("variable_variance", "variance", "mixed", [0.99**2 * 0.24], 0.01),
        ("variable_offset", "mean", "passive", [0.0, 0.0], 0.01),
        ("normal_distance_ks", "sampled", "passive", [0.0, 0.0], 0.02),
        ("mean_sample_distance", None, "passive", [math.sqrt(2 / math.pi) * 0.95, math.sqrt(2 / math.pi)], 0.03),
        ("mean_sample_distance", None, "active", [0.0, 0.0], 0.03),
        ("mixture_weight", None, "mixed", [0.6], 0.02),
        ("mixture_distance", "sampled", "mixed", [0.0], 0.05),
        ("mass_near_zero", "mean", "mixed", [0.6 + 0.4 * 0.0797], 0.02),
        ("strongest_correlation", "mean", "passive", [1.0, 0.0], 0.05),
        ("strongest_correlation_with_active", "mean", "passive", [1.0, 0.0], 0.05),
        ("strongest_correlation", "sampled", "passive", [0.05, 0.02], 0.04),
        ("state_share", None, "neither", [0.0], 0.05),
        ("unpolarised_share", None, "full", [0.2], 1e-9),
        ("type_agreement", None, "full", [1.0], 1e-9),
        ("code_spread", "sampled", "full", [1.0], 0.03),
        ("noise_share", None, "full", [(0.01 + 0.02 + 0.604 + 1.998) / 5.03], 0.02),
        ("mean_variance_log_ratio", None, "passive", [], 0.0),
        ("alpha_sensitivity", None, "full", [0.0], 1e-9),
        ("mutual_information_floor", "sampled", "full", [0.038], 0.01),
    ],
)
def test_each_number_matches_its_definition(
    measured: polars.DataFrame,
    metric: str,
    representation: str | None,
    kind: str,
    expected: list[float],
    tolerance: float,
) -> None:
    assert values(measured, metric, representation, kind) == pytest.approx(expected, abs=tolerance)


def test_inflation_is_large_for_a_variable_determined_by_others(measured: polars.DataFrame) -> None:
    assert values(measured, "variance_inflation", "mean", "full")[0] > 1e6
    assert values(measured, "variance_inflation", "mean", "alive")[0] == pytest.approx(1.0, abs=0.05)


def test_the_decoder_is_measured_for_each_variable() -> None:
    vae: Any = build_vae({"architecture": "mlp", "latents": 5}, (1, 32, 32), seed=0)
    found = variable_statements(vae, dsprites(size=32), made(600), 0, decoder_examples=60)
    for metric in ("permuting", "redrawing", "decoder_weight"):
        assert found.filter(rule="standard", metric=metric).height == 5
    (used,) = found.filter(metric="count", variables="used")["value"]
    assert 0 <= used <= 5
    assert found.filter(metric="truly_mixed")["value"].is_between(0, 1).all()


def test_a_run_measures_its_decoder_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[int] = []

    def counted(*arguments: Any, **settings: Any) -> DecoderUse:
        asked.append(settings["seed"])
        return decoder_use(*arguments, **settings)

    monkeypatch.setattr(adapters, "decoder_use", counted)
    config = {
        "dataset": {"name": "dsprites", "size": 32},
        "model": {"architecture": {"name": "mlp", "widths": [8]}, "latents": 3},
        "objective": "ELBO",
        "training": {"steps": 2},
        "evaluation": {"examples": 200, "further": ["variable_statements"]},
        "seed": 4,
    }
    run = Run.from_config(config)
    directory = execute(run, tmp_path)
    assert asked == [4]
    vae, encodings = load_vae(directory / "model.safetensors"), Encodings.load(directory / "encodings.npz")
    anew = further_scores(run, vae, dsprites(size=32), encodings)
    assert asked == [4, 4]
    assert anew.equals(polars.read_parquet(directory / "further.parquet"))


def test_a_circle_is_dependent_though_uncorrelated() -> None:
    generator = np.random.default_rng(0)
    angle = generator.uniform(0, 2 * math.pi, 3000)
    mean = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    vae: Any = None
    found = critic_dependence(vae, dsprites(size=32), Encodings(mean, variance=np.full_like(mean, 0.01)), 0, inputs=800)
    of_mean = dict(found.filter(representation="mean").select("metric", "value").iter_rows())
    assert of_mean["largest_pair_correlation"] < 0.1
    assert of_mean["uncorrelated_dependent_pairs"] == 1
    assert of_mean["critic_total_correlation"] > 0.3


def test_measures_are_in_the_catalogue_under_the_names_that_claims_use() -> None:
    wanted = {metric for claim in LEDGER.values() for metric in claim.metrics}
    for name in ("variable_statements", "critic_dependence"):
        given = {output.name for output in registry.record("measure", name).outputs}
        assert given <= wanted


def test_a_learned_prior_is_what_variables_are_compared_with() -> None:
    """Posteriors that are their prior, whose mean and variance depend on the input."""
    generator = np.random.default_rng(0)
    mean, variance = generator.normal(size=(3000, 2)), generator.uniform(0.1, 2.0, size=(3000, 2))
    encodings = Encodings(mean, variance=variance, prior_mean=mean, prior_variance=variance)
    vae: Any = build_vae({"architecture": "mlp", "latents": 2}, (1, 32, 32), seed=0)
    found = variable_statements(vae, dsprites(size=32), encodings, 0, decoder_examples=0).filter(rule="relative")
    for metric in ("mean_variance_log_ratio", "variance_spread_log_ratio", "prior_offset", "prior_distance_ks"):
        assert found.filter(metric=metric)["value"].to_list() == pytest.approx([0.0, 0.0], abs=1e-6)
