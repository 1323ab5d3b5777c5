"""Measurements of a trained model use its own likelihood and prior."""

from dataclasses import replace

import polars
import pytest
import torch

from polarised.models import build_vae
from polarised.study import measures
from polarised.study.config import Run
from polarised.study.stages import dataset_of


def measured(prior: dict[str, object]) -> tuple[Run, float]:
    run = Run.from_config(
        {
            "dataset": {"name": "dsprites", "size": 32},
            "model": {"architecture": {"name": "mlp", "widths": [8]}, "latents": 3, "prior": prior},
            "evaluation": {"examples": 600},
        }
    )
    dataset = dataset_of(run)
    found = measures.reconstruction(run, build_vae(run.model, dataset.shape), dataset)
    return run, float(found.filter(polars.col("metric") == "rate")["value"].item())


def test_reconstruction_counts_every_pixel_once_however_it_was_trained() -> None:
    found = []
    for weight in (1.0, 2.0):
        model = {"architecture": {"name": "mlp", "widths": [8]}, "latents": 3}
        model["likelihood"] = {"name": "Bernoulli", "weight": weight}
        run = Run.from_config({"dataset": {"name": "dsprites", "size": 32}, "model": model})
        run = replace(run, evaluation=replace(run.evaluation, examples=50))
        dataset = dataset_of(run)
        table = measures.reconstruction(run, build_vae(run.model, dataset.shape), dataset)
        found.append(table.filter(polars.col("metric") == "reconstruction")["value"].to_list())
    assert found[0] == found[1]


def test_the_rate_to_a_gaussian_prior_is_the_sum_of_the_variables_own() -> None:
    run, rate = measured({"name": "StandardNormal"})
    dataset = dataset_of(run)
    encodings = measures.encode(run, build_vae(run.model, dataset.shape), dataset)
    types = measures.types(measures.regimes(run, encodings))
    assert rate == pytest.approx(types["kl"].sum(), rel=1e-5)


def test_the_rate_to_a_sparse_prior_is_to_it_and_not_to_a_gaussian_near_it() -> None:
    run, rate = measured({"name": "Sparse", "gamma": 0.8})
    dataset = dataset_of(run)
    vae = build_vae(run.model, dataset.shape)
    x = torch.from_numpy(dataset.sample(600, run.seed).images)
    with torch.inference_mode():
        posterior = vae.posterior(x)
        z = posterior.mean + posterior.variance.sqrt() * torch.randn(400, 600, 3, generator=torch.manual_seed(0))
        expected = (posterior.log_prob(z) - vae.prior.log_density(z)).sum(2).mean(0)
    assert rate == pytest.approx(expected.mean().item(), rel=0.1)
    types = measures.types(measures.regimes(run, measures.encode(run, vae, dataset)))
    assert types["kl"].sum() == pytest.approx(rate, rel=0.1)
