"""The full diagnosis of one VAE: types, mean and sample compared, and advice, in numbers and in words.

There is one path for every target: it is resolved to evidence, a sample of inputs and the use by its decoder
(`polarised.resolving`), and the evidence becomes types, scores and advice.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polarised._io import plain
from polarised.adapters.arrays import ScaleKind
from polarised.adapters.batches import Range
from polarised.adapters.callables import Mask, Reading
from polarised.adapters.decoding import Likelihood
from polarised.adapters.targets import made_here
from polarised.bibliography import bibtex
from polarised.errors import ConfigError, DataError, printable, suggesting_keywords
from polarised.metrics.evaluation import MOST_BINNED, beyond_doubt, compare, without_passive_by_standard
from polarised.random import stream
from polarised.regime.advice import advice, headline, listed
from polarised.regime.classify import Regime, Rule, check_rule, other_rules, sensitivity
from polarised.regime.decoder import DecoderUse, Pictures
from polarised.regime.encodings import Axis, Encodings
from polarised.registry import record
from polarised.resolving import Found, Request, resolve
from polarised.schemas import stamp
from polarised.shards import WHOLE

if TYPE_CHECKING:
    import polars

    from polarised.objectives import Objective

__all__ = ["Diagnosis", "Pictures", "Recommendation", "annotate", "build_diagnosis", "diagnose"]

# The paper whose rule decides the types: cited if no run provides more.
RULES: dict[Rule, str] = {
    "used": "Bonheme2023BeMoreActive",
    "relative": "Bonheme2023iVAE",
    "standard": "Bonheme2023BeMoreActive",
}


class Recommendation(NamedTuple):
    """The code of an input to use for predictions.

    On labelled models no other choice was more than 0.01 better on unseen rows (docs/results/mean_or_sample.md).

    Args:
        representation: "mean" or "sampled".
        variables: The variables to use.
    """

    representation: Literal["mean", "sampled"]
    variables: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Everything known about the variables of one VAE; fields without data are None.

    `encodings` are all inputs, or a sample of many; `groups` are the variables of each group of latents, if a model
    has several; `reading` says how the input was interpreted.

    Args:
        name: The name of the model.
        encodings: All inputs, or a sample of many.
        regime: The types of the variables with their evidence.
        scores: Mean and sample compared: metric, representation, variables, value.
        headline: The result in one sentence.
        advice: What to do, one sentence each.
        pictures: Images from the decoder for the variables.
        decoder_use: The loss of the decoder without each variable, in nats.
        history: The terms of the loss over training.
        forecast: The curve of the forecast of the data.
        snapshots: The types over training.
        downstream: Accuracy of predicting factors by subset of variables.
        other_rules: The variables that other rules count as used.
        sensitivity: The counts of types over a grid of thresholds.
        provenance: How the numbers were computed.
        groups: The variables of each group of latents, if a model has several.
        reading: How the input was interpreted.
        recommended: The representation and the variables to predict from.
    """

    name: str
    encodings: Encodings
    regime: Regime
    scores: "polars.DataFrame"
    headline: str
    advice: tuple[str, ...]
    pictures: Pictures | None = None
    decoder_use: "polars.DataFrame | None" = None
    history: "polars.DataFrame | None" = None
    forecast: "polars.DataFrame | None" = None
    snapshots: "polars.DataFrame | None" = None
    downstream: "polars.DataFrame | None" = None
    other_rules: "polars.DataFrame | None" = None
    sensitivity: "polars.DataFrame | None" = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    reading: str = ""
    recommended: Recommendation = field(default_factory=lambda: Recommendation("mean", ()))

    def __str__(self) -> str:
        import polars

        shown = self.table().select("variable", "why", "ratio_mean", "kl", "noise_share", "confidence")
        with polars.Config(
            tbl_rows=60,
            fmt_str_lengths=100,
            tbl_width_chars=160,
            tbl_hide_dataframe_shape=True,
            tbl_hide_column_data_types=True,
        ):
            return printable("\n".join([self.headline, str(shown), *self.advice]))

    def __repr__(self) -> str:
        return printable(f"Diagnosis({self.name}: {self.headline})")

    def _repr_html_(self) -> str:
        from polarised.regime.advice import diagnosis_html

        return diagnosis_html(self.headline, self.reading, self.regime, self.advice, self.groups)

    def table(self, *, theory: bool = False) -> "polars.DataFrame":
        """Return a row for each variable: type and all evidence, with its group if there are several.

        Args:
            theory: Whether to add the quantities of the papers' definitions, propositions and theorems, see
                `theory.statements`.

        Returns:
            The table.
        """
        import polars

        table = self.regime.table()
        if theory:
            from polarised.theory import statements

            table = table.hstack(statements(self.encodings, alpha=self.regime.alpha).drop("variable"))
        if not self.groups:
            return table
        names = {j: name for name, of in self.groups.items() for j in of}
        return table.insert_column(0, polars.Series("group", [names[j] for j in range(len(table))]))

    def to_pandas(self) -> Any:
        """Return `table` as a pandas data frame, indexed by variable; requires pandas, but not pyarrow."""
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise ConfigError("expected pandas to be installed for to_pandas; install it or use table()") from error
        table = self.table()
        columns = {name: table[name].to_list() for name in table.columns}
        return pandas.DataFrame(columns).set_index("variable")

    def report(self, path: str | Path) -> Path:
        """Write one self-contained HTML page.

        Args:
            path: The file to write.

        Returns:
            The file.
        """
        # The page is in a higher layer than the diagnosis: this one call upwards goes through the registry.
        written: Path = record("page", "report").call(self, path)
        return written

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers and sentences as plain JSON types, with "inf", "-inf" and "nan" as text."""
        regime = self.regime
        values = {
            "name": self.name,
            "headline": self.headline,
            "reading": self.reading,
            "advice": list(self.advice),
            "recommended": {
                "representation": self.recommended.representation,
                "variables": list(self.recommended.variables),
            },
            "inputs": regime.inputs,
            "rule": regime.rule,
            "alpha": regime.alpha,
            "active": regime.active,
            "mixed": regime.mixed,
            "passive": regime.passive,
            "doubtful": regime.doubtful,
            "why": list(regime.why),
            "groups": [
                {"name": name, "variables": list(of), "headline": _group_headline(name, of, regime)}
                for name, of in self.groups.items()
            ],
            "variables": _records(self.table()),
            "scores": _records(self.scores),
            "decoder_use": None if self.decoder_use is None else _records(self.decoder_use),
            "downstream": None if self.downstream is None else _records(self.downstream),
            "other_rules": None if self.other_rules is None else _records(self.other_rules),
            "sensitivity": None if self.sensitivity is None else _records(self.sensitivity),
            "provenance": dict(self.provenance),
        }
        return stamp("diagnosis", values)


@suggesting_keywords
def diagnose(
    target: Any,
    data: Any = None,
    *,
    encode: Callable[..., Any] | None = None,
    decode: Callable[..., Any] | None = None,
    log_likelihood: Likelihood | None = None,
    axis: Axis = None,
    mask: Mask | None = None,
    prior: Any = None,
    factors: ArrayLike | str | None = None,
    factor_names: Sequence[str] | None = None,
    scale_kind: ScaleKind | None = None,
    trust_scale: bool = False,
    pixel_range: Range | None = None,
    alpha: float | None = None,
    rule: Rule = "used",
    objective: "Objective | None" = None,
    decoder: DecoderUse | None = None,
    rest_ratio: ArrayLike | None = None,
    examples: int | None = None,
    batch_size: int | None = None,
    executor: Literal["local", "ray"] = "local",
    address: str | None = None,
    progress: bool | None = None,
    seed: int | None = None,
    name: str | None = None,
) -> Diagnosis:
    """Decide which latent variables of a VAE are active, mixed or passive, with evidence and advice.

    Ambiguous input is refused with a message that names the alternatives; a model is never changed.

    Args:
        target: `Encodings`; a path, paths or a pattern (files of arrays, a run, a published model); a mapping of
            arrays; a model of torch, Lightning, pythae, diffusers, scvi-tools, Keras or Flax; any function that
            encodes a batch; a VAE of this library.
        data: The data for a model to encode: an array or tensor, a loader, a dataset or its name, an iterable of
            batches of x, (x, y) or dictionaries, a folder of pictures, AnnData.
        encode: How to encode a batch, if not with the encoder of the target.
        decode: How to decode codes of the encoder's shape, if not with the decoder of the target.
        log_likelihood: Function from a batch and the outputs of the decoder to log p(x|z) in nats, if known.
        axis: The axis of the variables, for latents with more than two axes: 1 for channels first, -1 for
            sequences and channels last, several for a variable at each combination.
        mask: Which positions count: an array (n, positions), a function of a batch, or one of its keys.
        prior: Mean and variance of the prior, a distribution, or a function of a batch; default: N(0, I).
        factors: Known factors of each input, or the name of a column of AnnData; default: the labels in the data.
        factor_names: A name for each factor.
        scale_kind: The second output of the encoder: "log_variance", "variance", "std" or "log_std".
        trust_scale: Do not check `scale_kind` against the values.
        pixel_range: The range of pixels on which the model was trained, if pixels must be rescaled.
        alpha: Threshold of the types; default: 0.1, or that of a run.
        rule: "used", "relative" or "standard", see `classify`.
        objective: The training objective of a VAE of this library.
        decoder: The known use of the variables by the decoder; default: it is measured if there is a decoder.
        rest_ratio: The variance ratio of an unused variable at rest.
        examples: Number of inputs to encode; default: all, or 10,000 of a dataset of this library.
        batch_size: Number of inputs encoded at once, if data are split here; default: 256, or 8 for diffusers.
        executor: "ray" reads each of many files in a task on a cluster.
        address: The address of a running Ray cluster.
        progress: Whether to show a progress bar; default: in a terminal.
        seed: Seed of all random draws; default: 0, or that of a run.
        name: A name for titles; default: that of the target.

    Returns:
        Types with their evidence, scores and advice.

    Raises:
        DataError: If the target or the data are not recognised, or are ambiguous.
        ConfigError: If a setting is invalid, or has no effect on this target.

    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> diagnose(encodings).headline
    '1 of 2 latent variables is active, none mixed, 1 passive.'
    """
    given = {
        "data": data,
        "encode": encode,
        "decode": decode,
        "mask": mask,
        "prior": prior,
        "scale_kind": scale_kind,
        "pixel_range": pixel_range,
        "examples": examples,
        "batch_size": batch_size,
        "objective": objective,
        "executor": None if executor == "local" else executor,
        "address": address,
        "seed": seed,
    }
    known_factors = None if factors is None or isinstance(factors, str) else np.asarray(factors)
    request = Request(
        encode=encode,
        decode=decode,
        log_likelihood=log_likelihood,
        reading=Reading(scale_kind, trust_scale, axis, mask, prior, known_factors, pixel_range),
        factor=factors if isinstance(factors, str) else None,
        factor_names=factor_names,
        objective=objective,
        decoder=decoder,
        rule=rule,
        examples=examples,
        batch_size=batch_size,
        executor=executor,
        address=address,
        progress=progress,
        seed=seed or 0,
        specified=frozenset(key for key, value in given.items() if value is not None),
    )
    # Before a model encodes thousands of inputs.
    check_rule(0.1 if alpha is None else alpha, rule)
    found = resolve(target, data, request)
    found.name = name or found.name
    settings = {"alpha": found.alpha if alpha is None else alpha, "rule": rule, "seed": request.seed}
    found.provenance = {**made_here(), "settings": settings, "citation": bibtex([RULES[rule]]), **found.provenance}
    return build_diagnosis(found, alpha=alpha, rule=rule, decoder=decoder, rest_ratio=rest_ratio, seed=seed)


def annotate(adata: Any, model: Any, *, key: str = "polarised", factors: str | None = None, seed: int = 0) -> Diagnosis:
    """Write the types of a model's latent dimensions, their evidence and their order by use to AnnData.

    ``adata.obsm["X_polarised"]`` receives the means of the dimensions to keep, the most used first, ready for
    ``scanpy.pp.neighbors(adata, use_rep="X_polarised")``; ``adata.uns["polarised"]`` the table of all dimensions, those
    to keep in this order, the headline, the advice and the settings.

    Args:
        adata: The cells, which are modified in place, as in functions of scanpy.
        model: A model of scvi-tools trained on them, or any target of `diagnose` with cells as data.
        key: The key under which to write.
        factors: A column of ``adata.obs`` to use as a known factor.
        seed: Seed of all random draws.

    Returns:
        The diagnosis.

    Raises:
        DataError: If `adata` is not AnnData, or the model encodes other cells.

    >>> annotate(adata, scvi.model.SCVI.load("model", adata)).headline  # doctest: +SKIP
    '8 of 10 latent variables are active, none mixed, 2 passive.'
    """
    if not hasattr(adata, "obsm") or not hasattr(adata, "uns"):
        raise DataError(f"expected AnnData to write to, got {type(adata).__name__}")
    diagnosis = diagnose(model, adata, factors=factors, seed=seed)
    codes, regime = diagnosis.encodings.mean, diagnosis.regime
    if len(codes) != adata.n_obs:
        raise DataError(f"expected a code for each of the {adata.n_obs} cells, got {len(codes)}")
    strength = regime.statistics.kl if regime.decoder is None else regime.decoder.permuted
    order = [int(j) for j in np.argsort(-np.nan_to_num(strength, posinf=1e300), kind="stable")]
    dropped = set(regime.droppable)
    kept = [j for j in order if j not in dropped]
    adata.obsm[f"X_{key}"] = np.ascontiguousarray(codes[:, kept])
    table = diagnosis.to_pandas()
    table.index = table.index.astype(str)
    adata.uns[key] = {
        "variables": table,
        "order": np.array(order),
        "kept": np.array(kept, dtype=np.int64),
        "dropped": np.array(sorted(dropped), dtype=np.int64),
        "headline": diagnosis.headline,
        "advice": np.array(diagnosis.advice, dtype=object),
        "params": {"rule": regime.rule, "alpha": regime.alpha, "inputs": regime.inputs, "seed": seed},
    }
    return diagnosis


def build_diagnosis(
    found: Found,
    *,
    alpha: float | None = None,
    rule: Rule = "used",
    decoder: DecoderUse | None = None,
    rest_ratio: ArrayLike | None = None,
    seed: int | None = None,
) -> Diagnosis:
    """Turn evidence into types, scores and words: the last step of every diagnosis.

    Args:
        found: The resolved target.
        alpha: Threshold of the types; default: that of the target.
        rule: Rule of the types.
        decoder: The use of the variables by the decoder, replacing that of the target.
        rest_ratio: The rest of an unused variable, replacing that of the target.
        seed: Seed of the resampling; default: that of the target.

    Returns:
        The diagnosis.
    """
    draws = found.seed if seed is None else seed
    totals = found.totals
    rest = next((r for r in (rest_ratio, found.rest_ratio, found.encodings.rest_ratio) if r is not None), None)
    use = found.decoder if decoder is None else decoder
    regime = totals.evidence.classify(
        alpha=found.alpha if alpha is None else alpha, rule=rule, decoder=use, rest_ratio=rest, seed=draws
    )
    scores = _scores(found, regime, draws)
    wide = len(regime.types) > WHOLE
    remarks = list(found.remarks)
    if MOST_BINNED < len(regime.types) <= WHOLE:
        remarks.append(f"Mutual information was measured among {MOST_BINNED} of the {len(regime.types):,} variables.")
    if wide:
        compared = len(totals.compared)
        remarks.append(f"Redundancy was measured among {compared:,} of the {len(regime.types):,} variables.")
    if found.remark is not None:
        remarks = [*found.remark(regime), *remarks]
    if found.encodings.factors is not None and regime.droppable and regime.alive:
        remarks.insert(0, _advise_on_prediction(regime))
    groups = found.groups if len(found.groups) > 1 else {}
    words = [headline(regime), *(_group_headline(each, of, regime) for each, of in groups.items())]
    table = found.decoder_use
    return Diagnosis(
        name=found.name,
        encodings=found.encodings,
        regime=regime,
        scores=scores,
        headline=" ".join(words),
        advice=(
            *(() if found.opening is None else found.opening(regime)),
            *advice(
                regime,
                scores,
                None if wide else without_passive_by_standard(found.encodings, regime),
                None if wide else beyond_doubt(found.encodings, regime),
            ),
            *remarks,
        ),
        pictures=found.pictures,
        decoder_use=regime.decoder.table() if table is None and regime.decoder is not None else table,
        history=found.history,
        forecast=found.forecast,
        snapshots=found.snapshots,
        downstream=found.downstream,
        other_rules=other_rules(regime, largest_mean=totals.largest_mean()),
        sensitivity=sensitivity(regime),
        provenance=found.provenance,
        groups=groups,
        reading=found.reading,
        recommended=Recommendation("mean", tuple(range(len(regime.types)))),
    )


def _advise_on_prediction(regime: Regime) -> str:
    one = len(regime.droppable) == 1
    return (
        f"If you predict the factors from the code, keep the {'mean' if one else 'means'} of "
        f"{listed(regime.droppable)} too: the mean of a passive variable can be a faint copy of a property of the "
        "input, and accuracy often falls without it."
    )


def _scores(found: Found, regime: Regime, seed: int) -> "polars.DataFrame":
    """Score mean and sample: on every input if the covariance suffices, else on the sample of inputs."""
    totals, encodings = found.totals, found.encodings
    if len(encodings) > 10_000:
        encodings = _subsample(encodings, seed)
    if len(regime.types) > WHOLE:
        chosen = totals.compared
        regime_of_chosen = replace(regime, types=tuple(regime.types[j] for j in chosen))
        return compare(encodings.keep(chosen), regime_of_chosen, covariances=totals.covariances(regime), seed=seed)
    return compare(encodings, regime, covariances=_covariances(found, regime), seed=seed)


def _covariances(found: Found, regime: Regime) -> "dict[str, NDArray[Any]] | None":
    """Return the covariances over every input, if the encodings are a sample or there are many variables."""
    sampled = regime.rows > min(len(found.encodings), 10_000) or len(regime.types) > MOST_BINNED
    return found.totals.covariances(regime) if sampled and not found.groups else None


def _subsample(encodings: Encodings, seed: int) -> Encodings:
    rows = np.sort(stream(seed, "sample of encodings").choice(len(encodings), 10_000, replace=False))
    return Encodings(
        encodings.mean[rows],
        variance=encodings.variance[rows],
        prior_mean=encodings.prior_mean[rows] if encodings.prior_mean.ndim == 2 else encodings.prior_mean,
        prior_variance=encodings.prior_variance[rows]
        if encodings.prior_variance.ndim == 2
        else encodings.prior_variance,
    )


def _group_headline(name: str, of: Sequence[int], regime: Regime) -> str:
    counts = ", ".join(f"{sum(regime.types[j] == kind for j in of)} {kind}" for kind in ("active", "mixed", "passive"))
    return f"In {name}: {counts}."


def _records(table: "polars.DataFrame") -> list[dict[str, Any]]:
    return [plain(row) for row in table.iter_rows(named=True)]
