from typing import Any

import pytest

from polarised import registry
from polarised.study.config import Run, labels_of
from polarised.study.grid import load_study, study_names


def run_of(objective: Any, **settings: Any) -> Run:
    return Run.from_config({"objective": objective, **settings})


@pytest.mark.parametrize(
    ("objective", "method", "strength"),
    [
        ("ELBO", "VAE", None),
        ({"name": "BetaVAE", "beta": 16}, "beta-VAE", 16),
        ({"name": "AnnealedVAE", "gamma": 1000, "c_max": 75}, "annealed VAE", 75),
        ({"name": "FactorVAE", "critic_layers": 2, "gamma": 30}, "FactorVAE", 30),
        ({"name": "BetaTCVAE", "alpha": 1, "beta": 8}, "beta-TCVAE", 8),
        ({"name": "DIPVAE", "variant": "I", "lambda_od": 5}, "DIP-VAE-I", 5),
        ({"name": "DIPVAE", "variant": "II", "lambda_od": 50}, "DIP-VAE-II", 50),
        ({"name": "RTCVAE", "beta": 20}, "RTC-VAE", 20),
        ({"name": "Decomposition", "alpha": 3, "beta": 0}, "decomposition", 3),
        ({"name": "study.workshop:Watched", "tag": 7}, "Watched", 7),
    ],
)
def test_methods_and_strengths_are_those_of_the_papers(objective: Any, method: str, strength: float | None) -> None:
    labels = labels_of(run_of(objective, seed=3))
    assert labels == {"method": method, "strength": strength, "dataset": "dsprites", "seed": 3}


def test_every_objective_says_its_method_and_strength() -> None:
    for record in registry.records("objective"):
        assert record.title
        assert set(record.strength) <= set(registry.settings(record.call))
        assert record.strength or record.name in ("ELBO", "SigmaVAE")
        assert bool(record.symbol) == bool(record.strength)


def test_the_grid_of_a_paper_is_labelled_the_same_without_its_study() -> None:
    for name in ("be_more_active", "rtc_vae"):
        for point in load_study(name, scale="smoke").points:
            assert labels_of(point.run) == dict(point.labels)


@pytest.mark.parametrize("name", study_names())
def test_names_distinguish_the_runs_of_a_study_without_their_hash(name: str) -> None:
    names = [run.name.rpartition("-")[0] for run in load_study(name, scale="smoke").runs]
    assert len(set(names)) == len(names)


def test_names_read_well() -> None:
    annealed = run_of({"name": "AnnealedVAE", "c_max": 25, "iteration_threshold": 100}, seed=2)
    assert annealed.name.startswith("annealed_VAE-c_max25-dsprites-seed2-")
    conditional = {"prior": {"name": "Conditional", "mean": "learned"}}
    shape = run_of("ELBO", model=conditional, auxiliary=["shape"])
    assert shape.name.startswith("iVAE-Conditional-mean_learned-u_shape-dsprites-seed0-")


def test_the_hash_depends_only_on_the_settings() -> None:
    # Finished runs are found by it: if it changes, no existing run is found.
    assert run_of({"name": "BetaVAE", "beta": 8}).name == "beta-VAE-beta8-dsprites-seed0-8f1c85779f"
