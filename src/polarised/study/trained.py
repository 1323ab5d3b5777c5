"""A study on models that are trained already: a folder of disentanglement_lib's archives, or of our runs."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from polarised.adapters.published import literal, read_config
from polarised.errors import DataError, MissingFileError, PolarisedError
from polarised.study.config import Evaluation, Run, labels_of
from polarised.study.grid import Point, Study
from polarised.study.leases import locked
from polarised.study.runner import FILE, enrol, read_study
from polarised.study.stages import load_run, measure, write_config
from polarised.study.storage import recording_failure

__all__ = ["measure_models", "published_point"]

# The study's names of its methods and of their settings, and ours [Locatello2019, table 2].
PUBLISHED = {
    "beta_vae": ("BetaVAE", {"vae.beta": "beta"}),
    "annealed_vae": (
        "AnnealedVAE",
        {
            "annealed_vae.c_max": "c_max",
            "annealed_vae.gamma": "gamma",
            "annealed_vae.iteration_threshold": "iteration_threshold",
        },
    ),
    "factor_vae": ("FactorVAE", {"factor_vae.gamma": "gamma"}),
    "beta_tc_vae": ("BetaTCVAE", {"beta_tc_vae.beta": "beta"}),
    "dip_vae_i": ("DIPVAE", {"dip_vae.lambda_od": "lambda_od"}),
    "dip_vae_ii": ("DIPVAE", {"dip_vae.lambda_od": "lambda_od"}),
}


def measure_models(study: Study, folder: str | Path, root: str | Path, *, jobs: int = 1) -> Iterator[tuple[Path, str]]:
    """Measure every model of a folder as the runs of a study are; yield (model, why it failed or nothing).

    A model is a folder or a zip; other files are passed over. What is measured already is skipped, so the same call
    after a kill goes on. Their scale is called "models": none of the study's trained them.
    """
    import joblib

    folder = Path(folder)
    if not folder.is_dir():
        raise MissingFileError(f"expected a folder of trained models, {folder} is none")
    if not study.points:
        raise DataError(f"expected a study with runs to take the evaluation from, {study.name} has none")
    evaluation = study.points[0].run.evaluation
    # A folder of a study knows what its own study calls them.
    ours = read_study(folder).points if (folder / FILE).exists() else ()
    known = {point.run.name: point.labels for point in ours}
    points, paths = [], []
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or not (path.is_dir() or path.suffix == ".zip"):
            continue
        try:
            points.append(_point(path, evaluation, known))
            paths.append(path)
        except Exception as error:
            yield path, _words(error)
    if not points:
        raise DataError(
            f"expected archives of disentanglement_lib or runs of ours in {folder}, found none that can be read"
        )
    enrol(replace(study, points=tuple(points), scale="models"), root, models=folder)
    with joblib.parallel_config("loky", n_jobs=jobs, inner_max_num_threads=1):
        parallel = joblib.Parallel(return_as="generator")
        reasons = parallel(joblib.delayed(_measured)(p, q.run, str(root)) for p, q in zip(paths, points, strict=True))
        yield from zip(paths, reasons, strict=True)


def published_point(config: Mapping[str, str], evaluation: Evaluation) -> Point:
    """Return the run a published model is, from its own configuration (strings of gin literals).

    >>> config = {"model.name": "'beta_vae'", "vae.beta": "8.0", "dataset.name": "'dsprites_full'"}
    >>> point = published_point(config, Evaluation())
    >>> point.labels["method"], point.labels["strength"], point.run.objective["name"]
    ('beta-VAE', 8.0, 'BetaVAE')
    """
    values = {key: literal(text) for key, text in config.items()}
    name = values.get("model.name")
    if name not in PUBLISHED:
        raise DataError(f"expected a method of the study ({', '.join(PUBLISHED)}), the model says {name!r}")
    objective, settings = PUBLISHED[str(name)]
    strength = next(iter(settings))
    if strength not in values:
        raise DataError(f"expected the strength of {name} as {strength} in the model's configuration, it is not there")
    chosen = {ours: values[theirs] for theirs, ours in settings.items() if theirs in values}
    if objective == "DIPVAE":
        variant = "I" if name == "dip_vae_i" else "II"
        factor = values.get("dip_vae.lambda_d_factor", 10.0 if variant == "I" else 1.0)
        chosen |= {"variant": variant, "lambda_d": chosen["lambda_od"] * factor}
    dataset = str(values.get("dataset.name", "dsprites_full")).removesuffix("_full")
    training = {
        "steps": values.get("model.training_steps", 300_000),
        "batch_size": values.get("model.batch_size", 64),
    }
    run = Run.from_config(
        {
            "dataset": dataset,
            "model": {"architecture": "locatello_conv", "latents": values.get("encoder.num_latent", 10)},
            "objective": {"name": objective, **chosen},
            "training": training,
            "evaluation": asdict(evaluation),
            "seed": values.get("model.random_seed", 0),
        }
    )
    return Point(labels_of(run), run)


def _point(path: Path, evaluation: Evaluation, known: Mapping[str, Mapping[str, Any]]) -> Point:
    from polarised._io.files import Folder
    from polarised.adapters.targets import open_target

    target = open_target(path)
    if target.kind == "run":
        run = replace(load_run(path), evaluation=evaluation)
        return Point(known.get(run.name, labels_of(run)), run)
    if target.kind != "disentanglement_lib":
        raise DataError(f"expected a run of disentanglement_lib or of ours, {path} is {target.kind}")
    return published_point(read_config(Folder(path), ["model/results/json/train_config.json"]), evaluation)


def _measured(path: Path, run: Run, root: str) -> str:
    from polarised.adapters.targets import open_target

    directory = Path(root) / run.name
    directory.mkdir(parents=True, exist_ok=True)
    try:
        with locked(directory), recording_failure(directory):
            write_config(run, directory, f"measured from {path.name}")
            measure(run, directory, open_target(path).vae())
    except Exception as error:
        return _words(error)
    return ""


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, PolarisedError) else f"{type(error).__name__}: {error}"
