"""Estimates before a long training: the forecast of a run from its config and some images, and how many latents
a dataset needs, from short trainings at chosen sizes (the one-shot count, and FONDUE).
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from polarised._io.files import replacing
from polarised.data.dataset import Dataset
from polarised.errors import ConfigError, DataError
from polarised.random import stream
from polarised.regime import Encodings, Regime, classify
from polarised.regime.dimensions import intrinsic_dimension_mle, intrinsic_dimension_twonn
from polarised.regime.forecast import Forecast, forecast
from polarised.study.config import Run
from polarised.study.stages import build_parts, dataset_of

__all__ = ["Trainer", "data_dimension", "forecast_run", "forecast_settings", "outlook", "outlook_of_runs"]

# Objectives with a constant weight of the rate, and the setting of that weight; other terms are not in the forecast.
WEIGHTS: dict[str, str | None] = {
    "ELBO": None,
    "BetaVAE": "beta",
    "Decomposition": "beta",
    "FactorVAE": None,
    "DIPVAE": None,
    "SigmaVAE": None,
}
# Number of images for the forecast of a run: the leading eigenvalues are then accurate to a few percent.
EXAMPLES = 2000


def forecast_run(run: Run, *, examples: int = EXAMPLES) -> Forecast:
    """Return the forecast of a run from its dataset, likelihood, objective and number of latents.

    A learned decoder variance, or that of `SigmaVAE`, is set to its optimum for a linear model.

    Args:
        run: The run, trained or not.
        examples: The largest number of images to read.

    Returns:
        The forecast at the run's own setting.

    Raises:
        ConfigError: If there is no forecast for the run's objective, prior or likelihood; the message gives the reason.
        DataError: If the data have a wrong shape.

    >>> model = {"likelihood": {"name": "Gaussian", "variance": 0.3}, "latents": 8}
    >>> run = Run.from_config({"dataset": "linear_gaussian", "model": model, "objective": "ELBO"})
    >>> forecast_run(run).alive
    4
    """
    settings = forecast_settings(run)
    learned = settings.pop("learned")
    dataset = dataset_of(run, to="train")
    images = dataset.images if len(dataset) <= examples else dataset.sample(examples, run.seed).images
    found = forecast(images, latents=run.model["latents"], seed=run.seed, **settings)
    return found.at(variance=found.optimal_variance) if learned else found


def outlook(run: Run, *, examples: int = EXAMPLES, directory: str | Path | None = None) -> str:
    """Return the forecast of a run in one line, or why there is none.

    Args:
        run: The run, trained or not.
        examples: The largest number of images to read.
        directory: The folder for the curve, ``forecast.parquet``, for the run's page; default: not written.

    Returns:
        One sentence.

    >>> outlook(Run.from_config({"dataset": "pinwheel", "objective": "AnnealedVAE"}))
    'No forecast: the objective AnnealedVAE has no constant weight of the rate.'
    """
    try:
        found = forecast_run(run, examples=examples)
    except (ConfigError, DataError) as error:
        return f"No forecast: {str(error).rstrip('.')}."
    if directory is not None:
        _keep(found, Path(directory))
    return found.line


def _keep(found: Forecast, directory: Path) -> None:
    import polars

    curve = found.curve
    columns = {"beta": curve.beta, "alive": curve.alive, "active": curve.active}
    frame = polars.DataFrame(columns).with_columns(
        here=polars.Series(curve.threshold == found.threshold), sentence=polars.lit(found.sentence)
    )
    directory.mkdir(parents=True, exist_ok=True)
    with replacing(directory / "forecast.parquet") as temporary:
        frame.write_parquet(temporary)


def outlook_of_runs(runs: Iterable[Run], *, examples: int = EXAMPLES) -> str:
    """Return in one line how many of some runs will probably collapse; each dataset is read once.

    Args:
        runs: The runs, such as those of a study.
        examples: The largest number of images to read from a dataset.

    Returns:
        One sentence.

    >>> runs = [Run.from_config({"dataset": "pinwheel", "model": {"likelihood": "Gaussian"}, "objective": "ELBO"})]
    >>> outlook_of_runs(runs)
    'Forecast: of 1 runs 1 will collapse.'
    """
    words = {
        "collapse": "will collapse",
        "clusters": "will collapse without warm-up",
        "linear": "keep variables alive",
        "none": "have no forecast",
    }
    known: dict[str, Forecast] = {}
    cases: Counter[str] = Counter()
    for run in runs:
        try:
            settings = forecast_settings(run)
            # All seeds and strengths of a model have the same spectrum.
            key = json.dumps([run.dataset, run.model["likelihood"], run.model["latents"]], sort_keys=True)
            if key not in known:
                known[key] = forecast_run(run, examples=examples)
            found = known[key].at(beta=settings["beta"])
            cases[found.at(variance=found.optimal_variance).case if settings["learned"] else found.case] += 1
        except (ConfigError, DataError):
            cases["none"] += 1
    counted = ", ".join(f"{cases[case]} {said}" for case, said in words.items() if cases[case])
    return f"Forecast: of {sum(cases.values())} runs {counted}."


def forecast_settings(run: Run) -> dict[str, Any]:
    """Return the arguments of `forecast` for a run, and whether its decoder variance is `learned`.

    Args:
        run: The run, trained or not.

    Returns:
        The settings `beta`, `variance` or `likelihood`, and `learned`.

    Raises:
        ConfigError: If there is no forecast for the run's objective, prior or likelihood; the message gives the reason.

    >>> forecast_settings(Run.from_config({"objective": {"name": "BetaVAE", "beta": 4}}))
    {'likelihood': 'bernoulli', 'beta': 4.0, 'learned': False}
    """
    objective, prior, likelihood = run.objective, run.model["prior"], run.model["likelihood"]
    name = objective["name"]
    if name not in WEIGHTS:
        raise ConfigError(f"the objective {name} has no constant weight of the rate")
    if prior["name"] != "StandardNormal":
        raise ConfigError(f"the prior {prior['name']} is not the standard normal one")
    key = WEIGHTS[name]
    beta = 1.0 if key is None else float(objective[key])
    optimal = name == "SigmaVAE"
    if likelihood["name"] == "Bernoulli" and not optimal:
        return {"likelihood": "bernoulli", "beta": beta / float(likelihood["weight"]), "learned": False}
    if likelihood["name"] == "Gaussian" and likelihood["scale"] in ("fixed", "shared"):
        learned = optimal or likelihood["scale"] == "shared"
        return {"beta": beta, "variance": float(likelihood["variance"]), "learned": learned}
    scale = f" with a {likelihood['scale']} variance" if likelihood["name"] == "Gaussian" else ""
    raise ConfigError(f"the likelihood {likelihood['name']}{scale} has none with the objective {name}")


@dataclass
class Trainer:
    """Train a fresh VAE with a given number of latents and encode evaluation images, once per size and seed.

    >>> from polarised.data import dsprites
    >>> model = {"architecture": {"name": "mlp", "widths": [16]}}
    >>> trainer = Trainer(dsprites(size=32), model=model, steps=2, examples=64)
    >>> trainer.encodings(3).latents
    3
    """

    dataset: Dataset
    model: Mapping[str, Any] = field(default_factory=dict)
    objective: Mapping[str, Any] | str = "BetaVAE"
    steps: int = 2000
    batch_size: int = 64
    learning_rate: float = 1e-3
    examples: int = 10_000
    seed: int = 0
    told: Callable[[str], None] | None = None
    _known: dict[tuple[int, int], Encodings] = field(default_factory=dict)

    def encodings(self, latents: int, *, seed: int | None = None) -> Encodings:
        """Return the encodings of a model with this number of latents."""
        from polarised.adapters import from_vae
        from polarised.training import train

        own = self.seed if seed is None else seed
        if (latents, own) not in self._known:
            if self.told is not None:
                self.told(f"training {latents} latents, seed {own}, {self.steps:,} steps")
            config = {**self.model, "latents": latents}
            vae, objective = build_parts(self.dataset, model=config, objective=self.objective, seed=own)
            train(
                vae,
                objective,
                self.dataset,
                steps=self.steps,
                batch_size=self.batch_size,
                learning_rate=self.learning_rate,
                seed=own,
                progress=False,
            )
            self._known[latents, own] = from_vae(vae, self.dataset, examples=self.examples, seed=own)
        return self._known[latents, own]

    def regime(self, latents: int, *, seed: int | None = None) -> Regime:
        """Return the types of the variables of a model with this number of latents."""
        return classify(self.encodings(latents, seed=seed))


def data_dimension(dataset: Dataset, *, points: int = 2000, estimator: str = "mle", seed: int = 0) -> float:
    """Return the intrinsic dimension of the images, at which FONDUE starts its search [Bonheme2023FONDUE].

    >>> from polarised.data import dsprites
    >>> 1 < data_dimension(dsprites(size=32), points=200) < 40
    True
    """
    indices = stream(seed, "intrinsic dimension").choice(len(dataset), min(points, len(dataset)), replace=False)
    images = np.unique(dataset.images[np.sort(indices)].reshape(len(indices), -1), axis=0)
    if estimator == "twonn":
        return intrinsic_dimension_twonn(images)
    return intrinsic_dimension_mle(images, neighbours=min(20, len(images) - 2), seed=seed)
