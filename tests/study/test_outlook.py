import pytest

from polarised.errors import ConfigError
from polarised.study.config import Run
from polarised.study.outlook import forecast_run, outlook, outlook_of_runs


def run(objective="ELBO", likelihood="Gaussian", prior="StandardNormal", latents=8, dataset="linear_gaussian"):
    model = {"likelihood": likelihood, "prior": prior, "latents": latents}
    return Run.from_config({"dataset": dataset, "model": model, "objective": objective})


def test_a_run_is_read_from_its_config():
    found = forecast_run(run({"name": "BetaVAE", "beta": 2.0}, {"name": "Gaussian", "variance": 0.15}))
    assert found.threshold == pytest.approx(0.3)
    assert (found.active, found.mixed, found.passive) == (2, 2, 4)


@pytest.mark.parametrize(
    ("objective", "likelihood"), [("SigmaVAE", "Gaussian"), ("ELBO", {"name": "Gaussian", "scale": "shared"})]
)
def test_a_learned_variance_is_set_to_its_optimum(objective, likelihood):
    found = forecast_run(run(objective, likelihood, latents=4), examples=4000)
    assert found.variance == pytest.approx(0.15, rel=1e-3)


def test_the_weight_of_a_bernoulli_divides_beta():
    sprites = {"name": "dsprites", "size": 32}
    plain, weighed = (
        forecast_run(
            run({"name": "BetaVAE", "beta": 8.0}, {"name": "Bernoulli", "weight": w}, dataset=sprites), examples=300
        )
        for w in (1.0, 4.0)
    )
    assert (plain.threshold, weighed.threshold) == (8.0, 2.0)
    assert plain.likelihood == "bernoulli"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"objective": "AnnealedVAE"}, "objective AnnealedVAE"),
        ({"prior": "GaussianMixture"}, "prior GaussianMixture"),
        ({"likelihood": "Laplace"}, "likelihood Laplace"),
        ({"likelihood": {"name": "Gaussian", "scale": "per-image"}}, "per-image variance"),
        ({"objective": "SigmaVAE", "likelihood": "Bernoulli"}, "objective SigmaVAE"),
    ],
)
def test_runs_without_a_forecast_give_the_reason(settings, words):
    with pytest.raises(ConfigError, match=words):
        forecast_run(run(**settings))
    line = outlook(run(**settings))
    assert line.startswith("No forecast: ")
    assert words in line


def test_the_runs_of_a_study_are_counted():
    runs = [
        run({"name": "BetaVAE", "beta": 1.0}, {"name": "Gaussian", "variance": 0.1}),
        run({"name": "BetaVAE", "beta": 40.0}, {"name": "Gaussian", "variance": 0.1}),
        run({"name": "BetaVAE", "beta": 1000.0}, {"name": "Gaussian", "variance": 0.1}),
        run("GECO"),
    ]
    assert outlook_of_runs(runs) == ("Forecast: of 4 runs 1 will collapse, 2 keep variables alive, 1 have no forecast.")
