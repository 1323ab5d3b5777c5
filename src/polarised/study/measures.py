"""Measurements of a run on its trained model: types by all rules, scores by subset, histograms, predicted factors."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars
from numpy.typing import NDArray

from polarised import registry
from polarised._io.tables import read_table
from polarised.data.dataset import Dataset
from polarised.errors import DataError
from polarised.metrics.evaluation import compare, subsets
from polarised.random import seed_for
from polarised.regime import Encodings, Regime, classify
from polarised.regime.classify import RULES, Rule
from polarised.regime.decoder import DecoderUse
from polarised.regime.timeline import THRESHOLD, Timeline, load_timeline
from polarised.registry import Output
from polarised.study.config import Run

if TYPE_CHECKING:
    from polarised.models import VAE
    from polarised.training import History

__all__ = [
    "BINS",
    "OVER_TRAINING",
    "SCORE_COLUMNS",
    "downstream",
    "dynamics_of",
    "encode",
    "encode_unseen",
    "images_of_prior",
    "plane_density",
    "reconstruction",
    "regimes",
    "save_histograms",
    "scores",
    "settling",
    "snapshot_hooks",
    "timeline_of",
    "types",
]

BINS = 20


TYPES = ("active", "mixed", "passive")


SCORES = {
    "rule": polars.String,
    "metric": polars.String,
    "representation": polars.String,
    "variables": polars.String,
    "value": polars.Float64,
}


registry.describe(
    Output(
        "reconstruction",
        unit="nats",
        reading="E[-log p(x|z)], summed over pixels and averaged over inputs: smaller is closer.",
    ),
    Output("rate", unit="nats", reading="E[KL(q(z|x) ‖ p(z))], summed over variables and averaged over inputs."),
    Output("count", "variables", reading="Number of variables of each type."),
    Output(
        "accuracy",
        reading="Test accuracy of predicting the factors, averaged over them; compare it with random guessing.",
    ),
)
# The required columns of a file of scores.
SCORE_COLUMNS = dict.fromkeys(("rule", "metric", "representation", "variables"), "text") | {"value": "number"}


def encode(run: Run, vae: "VAE", dataset: Dataset) -> Encodings:
    """Encode the evaluation images of a run.

    Args:
        run: The run.
        vae: The trained model.
        dataset: The dataset it was trained on.

    Returns:
        The encodings.
    """
    from polarised.adapters import from_vae

    settings = {
        "seed": run.seed,
        "device": run.training.device,
        "objective": registry.build("objective", run.objective),
    }
    return from_vae(vae, dataset, examples=run.evaluation.examples, **settings)


def decoder_of(run: Run, vae: "VAE", dataset: Dataset) -> polars.DataFrame:
    """Return the loss of the decoder of a run when a variable is exchanged or redrawn, see `decoder_use`.

    Args:
        run: The run.
        vae: The trained model.
        dataset: The dataset it was trained on.

    Returns:
        One row per variable.
    """
    from polarised.adapters import decoder_use

    return decoder_use(vae, dataset, seed=run.seed).table()


def encode_unseen(run: Run, vae: "VAE", dataset: Dataset) -> Encodings:
    """Encode additional inputs for testing the prediction of factors.

    Args:
        run: The run.
        vae: The trained model.
        dataset: The dataset it was trained on.

    Returns:
        The encodings.
    """
    from polarised.adapters import from_vae

    seed = seed_for(run.seed, "downstream test")
    return from_vae(vae, dataset, examples=run.evaluation.unseen, seed=seed, device=run.training.device)


def snapshot_hooks(run: Run, dataset: Dataset) -> Sequence[Any]:
    """Return the hooks that record the regime while a run trains, if it requests snapshots.

    Args:
        run: The run.
        dataset: The dataset it was trained on.

    Returns:
        Hooks for `train`; none if the run does not request them.
    """
    if not run.snapshots.every:
        return ()
    from polarised.training.history import Snapshots

    objective = registry.build("objective", run.objective)
    settings = {"alpha": run.evaluation.alpha, "seed": run.seed, **asdict(run.snapshots)}
    return (Snapshots(dataset, objective=objective, **settings),)


def settling(history: "History") -> polars.DataFrame:
    """Return whether a run settled (`settled`, 1 or 0) and, if it did, after how many steps (`settled_step`)."""
    step = history.settled_step
    rows = [(None, "settled", None, "full", float(step is not None))]
    if step is not None:
        rows.append((None, "settled_step", None, "full", float(step)))
    return polars.DataFrame(rows, schema=SCORES, orient="row")


def reconstruction(run: Run, vae: "VAE", dataset: Dataset) -> polars.DataFrame:
    """Return E[-log p(x|z)] with z the mean and z sampled, and the rate E[KL(q(z|x) || p(z))], in nats per image.

    Every value of x counts once here, even if training gave it another weight (`weight` of the likelihood).
    The rate is relative to the model's own prior; if it has no closed form, it is estimated from the sample.

    Args:
        run: The run.
        vae: The trained model.
        dataset: The dataset it was trained on.

    Returns:
        One row per number: rule, metric, representation, variables, value.
    """
    import torch

    batch = dataset.sample(run.evaluation.examples, run.seed)
    generator = torch.Generator().manual_seed(seed_for(run.seed, "reconstruction"))
    sums, rate = {"mean": 0.0, "sampled": 0.0}, 0.0
    with torch.inference_mode():
        for start in range(0, len(batch), 500):
            rows = slice(start, start + 500)
            x = torch.from_numpy(batch.images[rows])
            u = None if batch.u is None else torch.from_numpy(batch.u[rows])
            posterior = vae.posterior(x, u)
            sample = posterior.sample(generator)
            for representation, z in (("mean", posterior.mean), ("sampled", sample)):
                sums[representation] -= float(vae.likelihood.log_prob(x, vae.decode(z)).double().sum())
            rate += float(vae.prior.given(u).kl(posterior, sample).double().sum())
    found = [
        *(
            (None, "reconstruction", name, "full", total / vae.likelihood.weight / len(batch))
            for name, total in sums.items()
        ),
        (None, "rate", None, "full", rate / len(batch)),
    ]
    return polars.DataFrame(found, schema=SCORES, orient="row")


def regimes(run: Run, encodings: Encodings, decoder: DecoderUse | None = None) -> dict[Rule, Regime]:
    """Return the types of a run's variables by each rule.

    Args:
        run: The run.
        encodings: The encodings of the run.
        decoder: The measured use of its decoder.

    Returns:
        The types by rule, with the rule "used" first.
    """
    alpha = run.evaluation.alpha
    first = classify(encodings, alpha=alpha, rule=RULES[0], decoder=decoder, seed=run.seed)
    return {RULES[0]: first} | {rule: first.at(alpha, rule=rule) for rule in RULES[1:]}


def types(by_rule: Mapping[Rule, Regime]) -> polars.DataFrame:
    """Return one row per variable: its type and the reason, with all evidence, and its types by the other two rules.

    Args:
        by_rule: The types of the run by each rule, see `regimes`.

    Returns:
        One row per variable.
    """
    first, *others = by_rule.values()
    return first.table().with_columns(polars.Series(f"{other.rule}_type", other.types) for other in others)


def regime_of(directory: str | Path, run: Run, *, rule: Rule = "used", alpha: float | None = None) -> Regime:
    """Return the types of a measured run's variables from its saved encodings and decoder use.

    Args:
        directory: The directory of the run.
        run: The run.
        rule: The rule of the types.
        alpha: Their threshold; default: that of the run.

    Returns:
        The types with their evidence.
    """
    directory = Path(directory)
    encodings = Encodings.load(directory / "encodings.npz")
    used = directory / "decoder_use.parquet"
    decoder = DecoderUse.of_table(read_table(used)) if used.exists() else None
    alpha = run.evaluation.alpha if alpha is None else alpha
    return classify(encodings, alpha=alpha, rule=rule, decoder=decoder, seed=run.seed)


def scores(run: Run, encodings: Encodings, by_rule: Mapping[Rule, Regime]) -> polars.DataFrame:
    """Return the number of variables of each type, the rate by type, and the scores of both representations by subset.

    Columns: rule (none if the whole code is scored), metric, representation, variables, value; the subset ``alive``
    has all variables that are not passive, in every run.

    Args:
        run: The run.
        encodings: The encodings of the run.
        by_rule: The types of the run by each rule, see `regimes`.

    Returns:
        One row per number: rule, metric, representation, variables, value.
    """
    tables, counts = [], []
    for rule, regime in by_rule.items():
        compared = compare(encodings, regime, without_passive=True, seed=run.seed)
        tables.append(compared.with_columns(polars.lit(rule).alias("rule")))
        counts += [(rule, "count", None, kind, float(regime.types.count(kind))) for kind in TYPES]
        rate = regime.statistics.kl
        parts = {name: of for name, of in subsets(regime).items() if of and name != "full"}
        counts += [(rule, "rate", None, name, float(rate[of].sum())) for name, of in parts.items()]
    tables.append(polars.DataFrame(counts, schema=SCORES, orient="row"))
    return _without_rule_of_whole(polars.concat([table.select(*SCORES) for table in tables]))


def save_histograms(run: Run, encodings: Encodings, path: Path) -> None:
    """Write 20-bin histograms of each variable: counts (3, d, 20) and edges (3, d, 21) of mean, variance, sample.

    Args:
        run: The run.
        encodings: The encodings of the run.
        path: The file to write.
    """
    tables = (encodings.mean, encodings.variance, encodings.sample(seed=run.seed))
    drawn = [[np.histogram(column, bins=BINS) for column in table.T] for table in tables]
    counts = np.array([[count for count, _ in table] for table in drawn], dtype=np.int32)
    edges = np.array([[edge for _, edge in table] for table in drawn], dtype=np.float32)
    np.savez(path, allow_pickle=False, counts=counts, edges=edges, of=np.array(["mean", "variance", "sampled"]))


def downstream(
    run: Run, encodings: Encodings, by_rule: Mapping[Rule, Regime], unseen: Encodings | None = None
) -> polars.DataFrame:
    """Return the accuracy with which each subset of variables predicts the factors, on inputs not used for fitting.

    These are `unseen`, or the last third if there are none. Metrics: accuracy (mean over factors) and
    accuracy_<factor>; variables ``random`` is guessing uniformly [Bonheme2023BeMoreActive, section 4.2].

    Args:
        run: The run.
        encodings: The encodings of the run.
        by_rule: The types of the run by each rule, see `regimes`.
        unseen: Encodings of inputs to test on.

    Returns:
        One row per number: rule, metric, representation, variables, value.
    """
    from polarised.metrics.downstream import logistic_regression

    rows: list[tuple[str | None, str, str, str, float]] = []
    if run.evaluation.downstream and encodings.factors is not None:
        names = encodings.factor_names
        guess = [1 / len(np.unique(column)) for column in encodings.factors.T]
        n_train = None if unseen is None else len(encodings)
        whole = encodings if unseen is None else _joined(encodings, unseen)
        factors = np.asarray(whole.factors)
        for representation, codes in (("mean", whole.mean), ("sampled", whole.sample(seed=run.seed))):
            known: dict[tuple[int, ...], list[float]] = {}
            for rule, regime in by_rule.items():
                for variables, indices in {**subsets(regime), "alive": regime.alive}.items():
                    key = tuple(sorted(indices))
                    if key and key not in known:
                        strengths = run.evaluation.downstream_strengths
                        scored = logistic_regression(codes[:, key], factors, n_train=n_train, strengths=strengths)
                        known[key] = [float(value) for value in scored.by_factor]
                    if key:
                        rows += _accuracy_rows(rule, representation, variables, names, known[key])
            rows += _accuracy_rows(None, representation, "random", names, guess)
    table = polars.DataFrame(rows, schema=SCORES, orient="row")
    return _without_rule_of_whole(table)


def _joined(first: Encodings, second: Encodings) -> Encodings:
    return Encodings(
        np.concatenate([first.mean, second.mean]),
        variance=np.concatenate([first.variance, second.variance]),
        factors=np.concatenate([first.factors, second.factors]),
        factor_names=first.factor_names,
    )


def _accuracy_rows(
    rule: str | None, representation: str, variables: str, names: Sequence[str], accuracies: Sequence[float]
) -> list[tuple[str | None, str, str, str, float]]:
    named = [(f"accuracy_{name}", value) for name, value in zip(names, accuracies, strict=True)]
    every = [("accuracy", float(np.mean(accuracies))), *named]
    return [(rule, metric, representation, variables, value) for metric, value in every]


def _without_rule_of_whole(table: polars.DataFrame) -> polars.DataFrame:
    """Keep the scores of the whole code once, since they are the same for every rule."""
    whole = polars.when(polars.col("variables") == "full").then(None).otherwise(polars.col("rule"))
    return table.with_columns(whole.alias("rule")).unique(maintain_order=True)


# For each variable, over its partners and the moments of training; "with" names the type of the partners.
OVER_TRAINING = (
    Output(
        "correlated_share",
        "share of correlated moments",
        reading="How often during training |correlation| with another variable exceeds 0.2.",
    ),
    Output(
        "correlated_share_with_active",
        "share of moments correlated with active variables",
        reading="How often during training |correlation| with an active variable exceeds 0.2.",
    ),
    Output(
        "late_correlated_share_with_active",
        "share of late moments correlated with active variables",
        reading="How often |correlation| with an active variable exceeds 0.2 in the second half of training.",
    ),
    Output(
        "correlation_with_active",
        "|correlation| with active variables",
        reading="Average over active partners and moments of training.",
    ),
    Output(
        "correlation_with_passive",
        "|correlation| with passive variables",
        reading="Average over passive partners and moments of training.",
    ),
    Output(
        "correlation_spread",
        "standard deviation of correlations over training",
        reading="How much correlations with other variables change while training.",
    ),
    Output(
        "correlation_spread_with_active",
        "standard deviation of correlations with active variables",
        reading="How much correlations with active variables change while training.",
    ),
    Output(
        "strongest_correlation",
        "strongest |correlation|",
        reading="The largest |correlation| with another variable at the end of training.",
    ),
    Output(
        "strongest_correlation_with_alive",
        "strongest |correlation| without passive variables",
        reading="The largest |correlation| with a variable that is not passive at the end of training.",
    ),
    Output(
        "passive_over_active_correlation",
        "least |correlation| with passive minus largest with active variables",
        reading="Averages over training; above 0 if every passive variable correlates more than any active one.",
    ),
)
registry.describe(*OVER_TRAINING)


def timeline_of(directory: str | Path, *, rule: Rule = "used") -> Timeline | None:
    """Return the timeline of a run's training, with the types of the trained model by a rule.

    Args:
        directory: The directory of the run.
        rule: The rule of the final types.

    Returns:
        The timeline, or None if the run has no snapshots.
    """
    directory = Path(directory)
    if not (directory / "snapshots.npz").exists():
        return None
    columns = {"variable": "number", "type": "text"}
    table = read_table(directory / "regime.parquet", columns=columns).sort("variable")
    types = table[type_column(table, rule)].to_list()
    if any(name not in TYPES for name in types):
        raise DataError(f"expected the types {', '.join(TYPES)} in regime.parquet of {directory}, got others")
    return load_timeline(directory / "snapshots.npz", final_types=types)


def type_column(table: polars.DataFrame, rule: Rule) -> str:
    """Return the column of a run's ``regime.parquet`` with the types by a rule.

    Runs measured before the rule "used" existed have the relative types instead.

    Args:
        table: The types of a run.
        rule: The rule.

    Returns:
        The name of the column.
    """
    return "type" if rule == "used" or f"{rule}_type" not in table.columns else f"{rule}_type"


def dynamics_of(directory: str | Path) -> Iterator[polars.DataFrame]:
    """Yield the numbers `OVER_TRAINING` of each variable of a run by each rule; nothing if it has no snapshots.

    correlated_share is how often |correlation| > 0.2, correlation its average size, spread its standard deviation
    over the moments, late the second half of training, strongest the largest at the end.

    Args:
        directory: The directory of the run.

    Yields:
        One table per rule.
    """
    for rule in RULES:
        timeline = timeline_of(directory, rule=rule)
        if timeline is not None and len(timeline) > 1:
            types = timeline.final_types
            rows = [
                (rule, metric, "mean", types[j], float(value), j)
                for metric, values in _numbers(timeline).items()
                for j, value in enumerate(values)
                if np.isfinite(value)
            ]
            yield polars.DataFrame(rows, schema={**SCORES, "variable": polars.Int64}, orient="row")


def _numbers(timeline: Timeline) -> dict[str, NDArray[Any]]:
    correlations, types = timeline.correlations, np.array(timeline.final_types)
    size, often = np.abs(correlations), np.abs(correlations) > THRESHOLD
    late = len(size) // 2
    others = ~np.eye(len(types), dtype=bool)
    active, passive, alive = (others & kind for kind in (types == "active", types == "passive", types != "passive"))
    deviation = correlations.std(axis=0)
    found = (
        _over(often.mean(axis=0), others),
        _over(often.mean(axis=0), active),
        _over(often[late:].mean(axis=0), active),
        _over(size.mean(axis=0), active),
        _over(size.mean(axis=0), passive),
        _over(deviation, others),
        _over(deviation, active),
        np.where(others, size[-1], -np.inf).max(axis=1),
        np.where(alive, size[-1], -np.inf).max(axis=1),
        np.where(passive, size.mean(axis=0), np.inf).min(axis=1)
        - np.where(active, size.mean(axis=0), -np.inf).max(axis=1),
    )
    return dict(zip((output.name for output in OVER_TRAINING), found, strict=True))


def _over(values: NDArray[Any], partners: NDArray[np.bool_]) -> NDArray[Any]:
    """Average over the partners of each variable; NaN if it has none."""
    counts = partners.sum(axis=1)
    sums: NDArray[Any] = np.where(partners, values, 0.0).sum(axis=1)
    means: NDArray[Any] = np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)
    return means


def plane_density(prior: Any, *, extent: float = 3.0, resolution: int = 200) -> NDArray[np.float64]:
    """Return the density of a prior of the catalogue over the square of two latents, rows the second coordinate.

    Args:
        prior: A prior of the catalogue, by name or with settings.
        extent: Half the side length of the square.
        resolution: Points along a side.

    Returns:
        The density (resolution, resolution).

    >>> plane_density("GaussianMixture", resolution=3).shape
    (3, 3)
    """
    import torch

    side = torch.linspace(-extent, extent, resolution, dtype=torch.float64)
    second, first = torch.meshgrid(side, side, indexing="ij")
    built = registry.build("prior", prior, 2, 0)
    with torch.inference_mode():
        log_density = built.log_prob(torch.stack([first.ravel(), second.ravel()], dim=1))
    values: NDArray[np.float64] = log_density.exp().reshape(resolution, resolution).numpy()
    return values


def images_of_prior(vae: "VAE", *, count: int = 16, seed: int = 0) -> NDArray[np.float32]:
    """Return images decoded from samples of an unconditional prior, (count, C, H, W) in [0, 1].

    Args:
        vae: The model.
        count: The number of images.
        seed: Random seed.

    Returns:
        The images.

    >>> from polarised.models import build_vae
    >>> vae = build_vae({"architecture": {"name": "mlp", "widths": [8]}, "latents": 3}, shape=(1, 16, 16))
    >>> images_of_prior(vae, count=4).shape
    (4, 1, 16, 16)
    """
    import torch

    generator = torch.Generator().manual_seed(seed_for(seed, "images of the prior"))
    with torch.inference_mode():
        images: NDArray[np.float32] = vae.generate(vae.prior.sample(count, generator)).clamp(0, 1).numpy()
    return images
