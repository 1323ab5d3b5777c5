"""Statements of the papers about single variables, measured on a trained model: one row per variable and rule."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import polars
from numpy.typing import NDArray

from polarised.data.dataset import Dataset
from polarised.errors import DataError
from polarised.metrics import correlation, mutual_information
from polarised.random import stream
from polarised.regime import Encodings, Regime, classify
from polarised.regime.classify import RULES, Rule
from polarised.regime.decoder import USUAL
from polarised.registry import Output, register

if TYPE_CHECKING:
    from polarised.models import VAE
    from polarised.regime.decoder import DecoderUse

__all__ = ["SCHEMA", "Row", "variable_statements"]

Array = NDArray[np.float64]
Row = tuple[str | None, str, str | None, str, float, int | None]
SCHEMA = {
    "rule": polars.String,
    "metric": polars.String,
    "representation": polars.String,
    "variables": polars.String,
    "value": polars.Float64,
    "variable": polars.Int64,
}
# The range of α in which a type should not depend on its choice.
ALPHAS = (0.05, 0.2)


@register(
    "measure",
    title="statements about single variables",
    outputs=(
        Output("variable_offset", "|average| of a variable"),
        Output("variable_variance", "variance of a variable over inputs"),
        Output("variable_average", "average of a variable"),
        Output("relative_variance", "variance of a mean over the prior's"),
        Output("prior_offset", "distance of a mean from the prior's"),
        Output("mean_variance_log_ratio", "log10 of a mean's variance over that of the prior's mean"),
        Output("variance_spread_log_ratio", "log10 of the spread of the variance over the prior's"),
        Output("noise_share", "share of posterior noise in the variance of a sample"),
        Output("code_spread", "spread of the code"),
        Output("normal_distance_ks", "Kolmogorov-Smirnov distance from N(0, 1)"),
        Output("normal_distance_w1", "Wasserstein distance from N(0, 1)"),
        Output("prior_distance_ks", "Kolmogorov-Smirnov distance from the prior"),
        Output("prior_distance_w1", "Wasserstein distance from the prior"),
        Output("mean_sample_distance", "Wasserstein distance of sample and mean"),
        Output("mixture_distance", "Wasserstein distance of a sample from a mixture"),
        Output("mixture_weight", "share of inputs a variable is off for"),
        Output("standardised_ks", "Kolmogorov-Smirnov distance from a normal shape"),
        Output("mass_near_zero", "mass within 0.1 of zero"),
        Output("strongest_correlation", "strongest correlation with another variable"),
        Output("strongest_correlation_with_active", "strongest correlation with an active variable"),
        Output("decoder_weight", "norm of the decoder's column times the variable's spread"),
        Output("state_share", "share of inputs and variables in a state"),
        Output("type_agreement", "agreement of definition 2 and the rule, κ"),
        Output("unpolarised_share", "share of variables neither off nor on"),
        Output("alpha_sensitivity", "share of variables whose type hangs on α"),
        Output("truly_mixed", "variables in use that are on for some inputs and off for others"),
        Output("variance_inflation", "largest variance inflation"),
        Output("mutual_information_floor", "mutual information of shuffled variables", unit="nats"),
    ),
    references=("Bonheme2023BeMoreActive", "Bonheme2023iVAE"),
)
def variable_statements(
    vae: "VAE",
    dataset: Dataset,
    encodings: Encodings,
    seed: int,
    decoder: "DecoderUse | None" = None,
    *,
    alpha: float = 0.1,
    decoder_examples: int = USUAL,
) -> polars.DataFrame:
    """Measure the definitions, propositions and theorems on each variable, see `theory.polarised`.

    Args:
        vae: The trained model.
        dataset: The dataset it was trained on.
        encodings: The encodings of the run.
        seed: Random seed.
        decoder: The result of `decoder_use` with this seed on the usual number of inputs; measured here if None.
        alpha: Threshold of the types.
        decoder_examples: Inputs on which the decoder is measured; 0: not measured.

    Returns:
        Rows of the tidy table with columns `rule` and `variable`; numbers of the whole model have no variable.
    """
    known = decoder is not None and decoder_examples == USUAL
    use = decoder if known else _decoder_use(vae, dataset, decoder_examples, seed)
    first = classify(encodings, alpha=alpha, decoder=use, seed=seed)
    regimes = {rule: first if rule == first.rule else first.at(alpha, rule=rule) for rule in RULES}
    codes = {"mean": encodings.mean.astype(np.float64), "sampled": encodings.sample(seed=seed).astype(np.float64)}
    numbers = dict(_of_variables(vae, encodings, codes, use))
    rows: list[Row] = [*_of_model(encodings, codes, alpha, seed, use)]
    average = encodings.variance.astype(np.float64).mean(axis=0)
    rows += [(None, "variable_average", "variance", "full", float(value), j) for j, value in enumerate(average)]
    for rule, regime in regimes.items():
        for (metric, representation), values in numbers.items():
            rows += [
                (rule, metric, representation, regime.types[j], float(value), j)
                for j, value in enumerate(values)
                if np.isfinite(value)
            ]
        rows += _of_types(rule, regime, encodings, codes, alpha, use)
    return polars.DataFrame(rows, schema=SCHEMA, orient="row")


def _decoder_use(vae: "VAE", dataset: Dataset, examples: int, seed: int) -> "DecoderUse | None":
    from polarised.adapters import decoder_use

    return decoder_use(vae, dataset, examples=examples, seed=seed) if examples else None


def _of_variables(
    vae: "VAE", encodings: Encodings, codes: dict[str, Array], use: "DecoderUse | None"
) -> Iterator[tuple[tuple[str, str | None], Array]]:
    """Yield a number for each variable (d,), by metric and representation."""
    from scipy.special import ndtr

    from polarised.theory import mean_statement, mixture_distance, sample_distances

    for representation, table in codes.items():
        deviation = table.std(axis=0)
        yield ("variable_offset", representation), np.abs(table.mean(axis=0))
        yield ("variable_variance", representation), table.var(axis=0)
        yield ("mass_near_zero", representation), (np.abs(table) < 0.1).mean(axis=0)
        ordered = np.sort((table - table.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0), axis=0)
        steps = (np.arange(len(table)) + 0.5)[:, None] / len(table)
        yield ("standardised_ks", representation), np.abs(ndtr(ordered) - steps).max(axis=0)
        yield ("strongest_correlation", representation), _strongest(table, np.ones(table.shape[1], dtype=bool))
    yield ("variable_variance", "variance"), encodings.variance.astype(np.float64).var(axis=0)
    statement, distances = mean_statement(encodings), sample_distances(encodings)
    yield ("prior_offset", "mean"), statement.offset
    yield ("relative_variance", "mean"), statement.variance
    prior_variance = np.broadcast_to(encodings.prior_variance, encodings.mean.shape).astype(np.float64)
    yield ("mean_variance_log_ratio", None), _log_ratio(statement.variance, statement.prior_variance)
    changes = (encodings.variance.astype(np.float64).var(axis=0), prior_variance.var(axis=0))
    yield ("variance_spread_log_ratio", None), _log_ratio(*changes)
    yield ("normal_distance_ks", "sampled"), distances.noise_ks
    yield ("normal_distance_w1", "sampled"), distances.noise_wasserstein
    yield ("prior_distance_ks", "sampled"), distances.prior_ks
    yield ("prior_distance_w1", "sampled"), distances.prior_wasserstein
    yield ("mean_sample_distance", None), distances.mean_wasserstein
    mixtures = np.full((encodings.latents, 2), np.nan)
    for j in range(encodings.latents):
        try:
            mixtures[j] = mixture_distance(encodings, j)
        except DataError:
            # A variable that is never off, or never on, is not a mixture.
            continue
    yield ("mixture_weight", None), mixtures[:, 0]
    yield ("mixture_distance", "sampled"), mixtures[:, 1]
    if (columns := _decoder_columns(vae)) is not None:
        yield ("decoder_weight", None), columns * codes["sampled"].std(axis=0)
    if use is not None:
        yield ("permuting", None), use.permuted
        yield ("redrawing", None), use.redrawn


def _of_model(
    encodings: Encodings, codes: dict[str, Array], alpha: float, seed: int, use: "DecoderUse | None"
) -> Iterator[Row]:
    """Yield the numbers that do not depend on a rule."""
    from polarised.theory import states_of_inputs, variance_statement

    states = states_of_inputs(encodings, alpha=alpha)
    for kind, state in (("active", 0), ("neither", 1), ("passive", 2)):
        yield None, "state_share", None, kind, float((states == state).mean()), None
    level = variance_statement(encodings).level
    yield None, "unpolarised_share", None, "full", float(((level > alpha) & (level < 1 - alpha)).mean()), None
    yield None, "variance_inflation", "mean", "full", _inflation(codes["mean"]), None
    noise, variance = encodings.variance.astype(np.float64).mean(axis=0), codes["sampled"].var(axis=0)
    yield None, "code_spread", "sampled", "full", float(np.sqrt(variance.mean())), None
    used = np.ones(len(noise), dtype=bool) if use is None else use.used
    for name, chosen in (("full", np.ones(len(noise), dtype=bool)), ("used", used)):
        if chosen.any() and (name == "full" or use is not None):
            yield None, "noise_share", None, name, float(noise[chosen].sum() / variance[chosen].sum()), None
    if use is not None:
        yield None, "count", None, "used", float(use.used.sum()), None
    generator = stream(seed, "mutual information floor")
    shuffled = np.stack([generator.permutation(column) for column in codes["sampled"].T], axis=1)
    yield None, "mutual_information_floor", "sampled", "full", mutual_information(shuffled), None


def _of_types(
    rule: Rule, regime: Regime, encodings: Encodings, codes: dict[str, Array], alpha: float, use: "DecoderUse | None"
) -> Iterator[Row]:
    """Yield the numbers that depend on the types by a rule."""
    from sklearn.metrics import cohen_kappa_score

    from polarised.theory import states_of_inputs, types_of_states

    types = np.array(regime.types)
    states = states_of_inputs(encodings, alpha=alpha)
    active = types == "active"
    if active.any():
        strongest = _strongest(codes["mean"], active)
        yield from (
            (rule, "strongest_correlation_with_active", "mean", str(types[j]), float(value), j)
            for j, value in enumerate(strongest)
            if np.isfinite(value)
        )
    defined = np.array(types_of_states(states, tolerance=0.05))
    # If both always give the same single type they agree, although kappa is undefined.
    same = len(set(types) | set(defined)) == 1
    agreement = 1.0 if same else float(cohen_kappa_score(types, defined))
    yield rule, "type_agreement", None, "full", agreement, None
    others = [np.array(regime.at(other, rule=rule).types) for other in ALPHAS]
    changed = np.any([other != types for other in others], axis=0)
    yield rule, "alpha_sensitivity", None, "full", float(changed.mean()), None
    alive = np.flatnonzero(types != "passive")
    if len(alive):
        yield rule, "variance_inflation", "mean", "alive", _inflation(codes["mean"][:, alive]), None
    if use is not None:
        both = ((states == 0).mean(axis=0) >= 0.05) & ((states == 2).mean(axis=0) >= 0.05)
        yield rule, "truly_mixed", None, "full", float((both & use.used).sum()), None


def _log_ratio(first: Array, second: Array) -> Array:
    """Return log10 of a ratio; NaN if one of the two never varies."""
    known = (first > 1e-12) & (second > 1e-12)
    ratio: Array = np.divide(first, second, out=np.full(first.shape, np.nan), where=known)
    return np.log10(ratio)


def _strongest(table: Array, partners: NDArray[np.bool_]) -> Array:
    """Return the largest |correlation| of each variable with one of the partners; NaN if it has none."""
    size = np.abs(np.nan_to_num(correlation(table)))
    np.fill_diagonal(size, -1.0)
    size[:, ~partners] = -1.0
    strongest: Array = size.max(axis=1)
    return np.where(strongest < 0, np.nan, strongest)


def _inflation(table: Array) -> float:
    """Return the largest of 1 / (1 - R^2) over variables, R^2 that of each from all others."""
    varying = table[:, table.std(axis=0) > 0]
    if varying.shape[1] < 2:
        return 1.0
    values, vectors = np.linalg.eigh(np.corrcoef(varying.T))
    # The inflation of a variable that the others determine exactly is infinite; the floor is the limit of float64.
    return float((vectors**2 / np.maximum(values, 1e-12)).sum(axis=1).max())


def _decoder_columns(vae: "VAE") -> Array | None:
    """Return the norms of the columns of the decoder's first layer, one per variable; None if it is not linear."""
    from torch import nn

    decoder: Any = vae.decoder
    for module in decoder.modules():
        if isinstance(module, nn.Linear):
            if module.in_features != vae.latents:
                return None
            return np.asarray(module.weight.detach().double().norm(dim=0).numpy())
    return None
