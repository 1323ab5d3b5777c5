"""The whole answer about one VAE: types, mean against sampled, what to do, in numbers and in words.

One path for whatever people have: a target is resolved to a stream of posteriors and, where there is one, a decoder
(`polarised.adapters`), the stream becomes evidence (`polarised.shards`), the evidence types, scores and advice.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polarised._io import plain
from polarised.adapters.arrays import Chunk, Names, ScaleKind, as_variance, chunk_of_arrays, gather
from polarised.adapters.batches import Range, batches_of, dataset_at
from polarised.adapters.callables import CodedInputs, Mask, Model, Reading, encode_batches
from polarised.adapters.decoding import Likelihood, Remembered, decoder_of
from polarised.adapters.models import libraries_of, model_of
from polarised.adapters.runs import made_here, open_run
from polarised.adapters.targets import Target, open_target, paths_of, unused_settings
from polarised.bibliography import bibtex
from polarised.errors import ConfigError, DataError, PolarisedError, suggesting_keywords
from polarised.metrics.evaluation import MOST_BINNED, compare, without_passive_by_standard
from polarised.random import stream
from polarised.regime.advice import advice, headline
from polarised.regime.classify import Regime, Rule, other_rules, sensitivity
from polarised.regime.decoder import DecoderUse, Pictures
from polarised.regime.encodings import Axis, Encodings, as_array, describe
from polarised.shards import WHOLE, Totals, totals_of

if TYPE_CHECKING:
    import polars

    from polarised.objectives import Objective

__all__ = ["Diagnosis", "Pictures", "build_diagnosis", "diagnose"]

# Whose rule decides the types: cited where no run says more.
RULES: dict[Rule, str] = {
    "used": "Bonheme2023BeMoreActive",
    "relative": "Bonheme2023iVAE",
    "standard": "Bonheme2023BeMoreActive",
}
# Inputs and bytes kept of a stream to ask the decoder about.
_REMEMBERED, _REMEMBERED_BYTES = 2_000, 1 << 28


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Everything known about one VAE's variables; what it has no data for is None.

    `encodings` are all inputs, or a sample of many; `groups` are the variables of each group of latents, where a model
    has several; `reading` says what was taken as what.

    Args:
        name: What the model is called.
        encodings: All inputs, or a sample of many.
        regime: The types of the variables with their evidence.
        scores: Mean against sample: metric, representation, variables, value.
        headline: The finding in a sentence.
        advice: What to do about it, a sentence each.
        pictures: What the decoder shows of the variables.
        decoder_use: What the decoder loses without each variable, in nats.
        history: The terms of the loss over training.
        forecast: The curve of the forecast of the data.
        snapshots: The types over training.
        downstream: Accuracy of predicting factors by subset of variables.
        other_rules: Which variables other rules count as used.
        sensitivity: The counts of types over a grid of thresholds.
        provenance: How the numbers were made.
        groups: The variables of each group of latents, where a model has several.
        reading: What was taken as what.
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
            return "\n".join([self.headline, str(shown), *self.advice])

    def __repr__(self) -> str:
        return f"Diagnosis({self.name}: {self.headline})"

    def _repr_html_(self) -> str:
        from polarised.regime.advice import diagnosis_html

        return diagnosis_html(self.headline, self.reading, self.regime, self.advice, self.groups)

    def table(self, *, theory: bool = False) -> "polars.DataFrame":
        """Return a row for each variable: type and every piece of evidence, with its group where there are several.

        Args:
            theory: Whether to add what the papers' definitions, propositions and theorems say of each, see
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
        """Return `table` as a pandas data frame, indexed by variable; pandas must be installed, pyarrow need not."""
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise ConfigError("expected pandas to be installed for to_pandas; table() needs none") from error
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
        from importlib import import_module

        # The page lies above the diagnosis in the layers; this is the one step up, taken only on request.
        written: Path = import_module("polarised.report").write_report(self, path)
        return written

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers and sentences as plain JSON types, with "inf", "-inf" and "nan" for what JSON lacks."""
        regime = self.regime
        return {
            "name": self.name,
            "headline": self.headline,
            "reading": self.reading,
            "advice": list(self.advice),
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
    """Say which latent variables of a VAE are active, mixed or passive, on what evidence, and what to do about it.

    What could be read in two ways is asked about in one sentence; a model is left exactly as it was.

    Args:
        target: `Encodings`; a path, paths or a pattern (files of arrays, a run, a published model); a mapping of
            arrays; a model of torch, Lightning, pythae, diffusers, scvi-tools, Keras or Flax; any function that
            encodes a batch; a VAE of this library.
        data: What a model is to encode: an array or tensor, a loader, a dataset or its name, an iterable of batches of
            x, (x, y) or dictionaries, a folder of pictures, AnnData.
        encode: How to encode a batch, where that is not the target's own encoder.
        decode: How to decode codes of the encoder's shape, where that is not the target's own decoder.
        log_likelihood: log p(x|z) in nats of a batch and of what the decoder gave, where it is known.
        axis: Which axis of the latents is the variable, where there are more than two: 1 for channels first, -1 for
            sequences and channels last, several for a variable at each combination.
        mask: Which positions count: an array (n, positions), a function of a batch, or a key of it.
        prior: Mean and variance of the prior, a distribution, or a function of a batch; default: N(0, I).
        factors: Known factors of each input, or the name of a column of AnnData; default: the labels in the data.
        factor_names: A name for each factor.
        scale_kind: What the second output of the encoder is: "log_variance", "variance", "std" or "log_std".
        trust_scale: Take it as said, however its numbers look.
        pixel_range: The range of pixels the model was trained on, where pixels have to be brought to it.
        alpha: Threshold of the types; default: 0.1, or a run's own.
        rule: "used", "relative" or "standard", see `classify`.
        objective: What a VAE of this library was trained with.
        decoder: What is known of the decoder's use of the variables; default: it is asked, where there is one.
        rest_ratio: Where the variance ratio of an unused variable rests.
        examples: How many inputs to encode; default: all, 10,000 of a dataset of ours.
        batch_size: Inputs encoded at once, where data are split here; default: 256, 8 of diffusers.
        executor: "ray" reads each of many files as a task on a cluster.
        address: Of a running Ray cluster.
        progress: Whether to show a progress bar; default: on a terminal.
        seed: Of everything drawn; default: 0, or a run's own.
        name: A name for titles; default: the target's own.

    Returns:
        Types with their evidence, scores and advice.

    Raises:
        DataError: If the target or the data are not understood, or could be read in two ways.
        ConfigError: If a setting is wrong, or can change nothing about this target.

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
    known = {key for key, value in given.items() if value is not None}
    if executor not in ("local", "ray"):
        raise ConfigError(f"expected executor 'local' or 'ray', got {executor!r}")
    if address is not None and executor != "ray":
        raise ConfigError("expected executor='ray' with address: without it files are read here, not on a cluster")
    request = _Request(
        encode=encode,
        decode=decode,
        log_likelihood=log_likelihood,
        reading=Reading(
            scale_kind,
            trust_scale,
            axis,
            mask,
            prior,
            None if factors is None or isinstance(factors, str) else np.asarray(factors),
            pixel_range,
        ),
        factor=factors if isinstance(factors, str) else None,
        factor_names=factor_names,
        objective=objective,
        decoder=decoder,
        examples=examples,
        batch_size=batch_size,
        progress=progress,
        seed=seed or 0,
    )
    draws = request.seed
    found: Found
    paths = paths_of(target)
    if isinstance(target, Encodings):
        _refuse(known - {"seed"}, "Encodings", "they are encoded already")
        found = _of_encodings(target, axis)
    elif paths is not None:
        opened = _one_model_or_files(paths)
        for setting, reason in unused_settings(opened, with_data=data is not None).items():
            _refuse(known & {setting}, str(opened.path), reason)
        if opened.kind == "arrays":
            files = {"scale_kind": scale_kind, "trust_scale": trust_scale, "axis": axis}
            totals = totals_of(paths, executor=executor, address=address, seed=draws, **files)  # type: ignore[arg-type]
            found = _of_files(paths, totals, axis)
        elif opened.kind == "run" and data is None:
            found = _of_run(opened.path, rule)
        elif opened.kind == "scvi":
            from polarised.adapters.folders import load_scvi

            found = _of_object(*load_scvi(opened.path, data), request, opened.name)
            found.provenance |= {"target": str(opened.path)}
        else:
            found = _of_object(opened.model(), opened.data() if data is None else data, request, opened.name)
            found.provenance |= {"target": str(opened.path), "kind": opened.kind}
    elif isinstance(target, Mapping):
        _refuse(known - {"scale_kind", "seed"}, "a mapping of arrays", "they are encoded already")
        arrays = {str(key): as_array(value) for key, value in target.items()}
        names = Names.among(arrays, "the mapping", scale_kind=scale_kind)
        trusted = trust_scale or scale_kind is not None
        found = _of_chunk(chunk_of_arrays(arrays, names, axis=axis, trust_scale=trusted), axis)
    else:
        found = _of_object(target, data, request, None)
    if factors is not None and found.encodings.factors is None and not isinstance(factors, str):
        found.encodings = _with_factors(found.encodings, np.asarray(factors), factor_names)
    found.name = name or found.name
    found.provenance = {**_provenance(found, rule, alpha, draws), **found.provenance}
    return build_diagnosis(found, alpha=alpha, rule=rule, decoder=decoder, rest_ratio=rest_ratio, seed=seed)


@dataclass(frozen=True)
class _Request:
    """What the user says about a model object and its data."""

    encode: Callable[..., Any] | None
    decode: Callable[..., Any] | None
    log_likelihood: Likelihood | None
    reading: Reading
    factor: str | None
    factor_names: Sequence[str] | None
    objective: "Objective | None"
    decoder: DecoderUse | None
    examples: int | None
    batch_size: int | None
    progress: bool | None
    seed: int


@dataclass(eq=False)
class Found:
    """What a target was resolved to: the totals of its posteriors, and whatever else is known of it."""

    name: str
    totals: Totals
    encodings: Encodings
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    alpha: float = 0.1
    seed: int = 0
    decoder: DecoderUse | None = None
    rest_ratio: ArrayLike | None = None
    decoder_use: "polars.DataFrame | None" = None
    pictures: Pictures | None = None
    history: "polars.DataFrame | None" = None
    forecast: "polars.DataFrame | None" = None
    snapshots: "polars.DataFrame | None" = None
    downstream: "polars.DataFrame | None" = None
    provenance: dict[str, Any] = field(default_factory=dict)
    reading: str = ""
    remarks: list[str] = field(default_factory=list)
    remark: Callable[[Regime], tuple[str, ...]] | None = None


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
        found: What is known of the target.
        alpha: Threshold of the types; default: the target's own.
        rule: Rule of the types.
        decoder: The decoder's use of the variables, instead of what was found.
        rest_ratio: Where an unused variable rests, instead of what was found.
        seed: Of the resampling; default: the target's own.

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
            *advice(regime, scores, None if wide else without_passive_by_standard(found.encodings, regime)),
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
    )


def _scores(found: Found, regime: Regime, seed: int) -> "polars.DataFrame":
    """Score mean and sample: on every input where that follows from the covariance, else on the sample of inputs."""
    totals, encodings = found.totals, found.encodings
    if len(encodings) > 10_000:
        encodings = _thinned(encodings, seed)
    if len(regime.types) > WHOLE:
        chosen = totals.compared
        regime_of_chosen = replace(regime, types=tuple(regime.types[j] for j in chosen))
        return compare(encodings.keep(chosen), regime_of_chosen, covariances=totals.covariances(regime), seed=seed)
    every = regime.rows > len(encodings) and not found.groups
    return compare(encodings, regime, covariances=totals.covariances(regime) if every else None, seed=seed)


def _thinned(encodings: Encodings, seed: int) -> Encodings:
    rows = np.sort(stream(seed, "sample of encodings").choice(len(encodings), 10_000, replace=False))
    return Encodings(
        encodings.mean[rows],
        variance=encodings.variance[rows],
        prior_mean=encodings.prior_mean[rows] if encodings.prior_mean.ndim == 2 else encodings.prior_mean,
        prior_variance=encodings.prior_variance[rows]
        if encodings.prior_variance.ndim == 2
        else encodings.prior_variance,
    )


def _of_encodings(encodings: Encodings, axis: Axis, name: str = "model") -> Found:
    _ask_about_transposed(len(encodings) // encodings.repeats, encodings.latents, axis)
    totals = Totals()
    for mean, variance, prior_mean, prior_variance in encodings.chunks(
        rows=max(1 << 10, (1 << 24) // encodings.latents)
    ):
        chunk = Chunk(mean, variance, prior_mean, prior_variance, None, kl=encodings.kl, repeats=encodings.repeats)
        totals.update(chunk, None)
    reading = describe(len(encodings), encodings.latents, encodings.repeats)
    return Found(name, totals, encodings, reading=reading)


def _of_chunk(chunk: Chunk, axis: Axis) -> Found:
    return _of_encodings(gather([chunk]), axis)


def _of_files(paths: Sequence[Path], totals: Totals, axis: Axis) -> Found:
    latents = totals.evidence.latents or 0
    _ask_about_transposed(totals.evidence.inputs, latents, axis)
    first = open_target(paths[0])
    name = first.name if len(paths) == 1 else f"{len(paths)} files"
    provenance = {"target": ", ".join(map(str, paths)), "kind": "arrays"}
    reading = describe(totals.evidence.rows, latents, totals.evidence.rows // max(totals.evidence.inputs, 1))
    return Found(name, totals, totals.sample(), provenance=provenance, reading=reading)


def _of_run(path: Path, rule: Rule) -> Found:
    run = open_run(path)
    found = _of_encodings(run.encodings(), 1, path.resolve().name)
    found.alpha, found.seed = run.alpha, run.seed
    found.decoder = run.decoder_use()
    found.history, found.snapshots, found.downstream = run.history(), run.snapshots(), run.downstream(rule)
    found.forecast = run.forecast()
    found.provenance = {"config": dict(run.config), **run.made, "citation": run.citation()}
    if run.model.exists() and _torch_is_here():
        from polarised.models import encoding, load_vae

        vae, dataset = load_vae(run.model), run.dataset()
        found.pictures = encoding.pictures(vae, dataset, seed=run.seed)
        if found.encodings.rest_ratio is None:
            found.rest_ratio = encoding.rest_ratio_of(run.objective(), vae)
        if found.decoder is None:
            found.decoder = encoding.decoder_use(vae, dataset, seed=run.seed)
    return found


def _of_object(target: Any, data: Any, request: _Request, name: str | None) -> Found:
    """Resolve a model object, of ours or anybody's, with the data it is to encode."""
    if "scvi" in libraries_of(target):
        from polarised.adapters.scvi import look_at_scvi

        encodings, use, remark = look_at_scvi(
            target, data, factor=request.factor, batch_size=request.batch_size, seed=request.seed
        )
        found = _of_encodings(encodings, 1, name or type(target).__name__)
        found.decoder, found.remark = use, remark
        found.provenance = {"target": type(target).__name__, "kind": "scvi"}
        return found
    if data is None:
        raise DataError(
            f"expected data= to encode with {type(target).__name__}, got none; give diagnose an array, a loader, a "
            "dataset or its name, or a folder of pictures as its second argument"
        )
    if _is_ours(target):
        return _of_vae(target, data, request, name)
    model = model_of(target, encode=request.encode, decode=request.decode)
    batch_size = request.batch_size or (8 if model.kind == "diffusers" else 256)
    batches = batches_of(
        data, batch_size=batch_size, examples=request.examples, size=model.image_size, seed=request.seed
    )
    coded = encode_batches(model, batches, request.reading, named=batches.named, seed=request.seed)
    with closing(coded), closing(_shown(coded, batches.total, request.progress)) as shown:
        found = _of_stream(shown, model, request)
    names = request.factor_names or batches.factor_names
    if names is not None and found.encodings.factors is not None:
        found.encodings = _with_factors(found.encodings, found.encodings.factors, names)
    found.name = name or model.name
    found.provenance = {"target": model.name, "kind": model.kind, **({"data": batches.name} if batches.name else {})}
    return found


def _of_vae(vae: Any, data: Any, request: _Request, name: str | None) -> Found:
    from polarised.adapters._untouched import untouched
    from polarised.models import encoding

    images = dataset_at(data) if isinstance(data, str | Path) else data
    with untouched(vae, seed=request.seed):
        encodings = encoding.from_vae(
            vae, images, examples=request.examples or 10_000, objective=request.objective, seed=request.seed
        )
        found = _of_encodings(encodings, 1, name or "model")
        found.pictures = encoding.pictures(vae, images, seed=request.seed)
        found.decoder = request.decoder or encoding.decoder_use(vae, images, seed=request.seed)
    found.provenance = {"data": getattr(images, "name", "images")}
    return found


def _of_stream(coded: Iterable[CodedInputs], model: Model, request: _Request) -> Found:
    """Go through the encoded batches once: evidence of every group, a sample of inputs, some to ask the decoder."""
    axis = request.reading.axis if request.reading.axis is not None else model.axis
    order = stream(request.seed, "sample of a shard", 0)
    totals: list[Totals] = []
    kept: list[Remembered] = []
    first: CodedInputs | None = None
    for batch in coded:
        if first is None:
            first, totals = batch, [Totals() for _ in batch.groups]
        if len(batch.groups) != len(totals):
            raise DataError(f"expected {len(totals)} groups of latents in every batch, got {len(batch.groups)}")
        if len(totals) == 1:
            for chunk in batch.chunks[0]:
                totals[0].update(chunk, order.random(len(chunk.mean)))
        else:
            places = min(chunks[0].repeats for chunks in batch.chunks)
            numbers = order.random(len(batch.groups[0].mean) * places)
            for each, chunks in zip(totals, batch.chunks, strict=True):
                each.update(chunks[0], numbers, places=places)
        if model.decode is not None and len(totals) == 1 and not _remembers_enough(kept):
            kept += _remembered(batch)
    if first is None:
        raise DataError("expected at least one batch, got none")
    if len(totals) > 1:
        found = _of_groups(totals, [group.name or f"group {i}" for i, group in enumerate(first.groups)])
    else:
        found = _of_one(totals[0])
        if found.totals.evidence.rows > found.totals.evidence.inputs:
            found.reading += f", axis {axis} of the latents is the variable"
    group = first.groups[0]
    found.reading += f"; the scale is a {group.kind}, by {group.told_by}"
    found.remark = model.remarks
    if kept:
        _ask_decoder(found, model, kept, None if group.mean.ndim == 2 else axis, request)
    return found


def _remembers_enough(kept: Sequence[Remembered]) -> bool:
    held = sum(each.inputs.nbytes + each.mean.nbytes for each in kept)
    return sum(len(each.inputs) for each in kept) >= _REMEMBERED or held > _REMEMBERED_BYTES


def _remembered(batch: CodedInputs) -> list[Remembered]:
    """Return a batch to ask the decoder about, where its inputs are an array and its prior is the same for all."""
    group, chunk = batch.groups[0], batch.chunks[0][0]
    if group.kind is None or not hasattr(batch.inputs, "shape"):
        return []
    inputs, variance = as_array(batch.inputs), as_variance(group.scale, group.kind, trust_scale=True)
    if len(inputs) != len(group.mean) or np.ndim(chunk.prior_mean) > 1 or np.ndim(chunk.prior_variance) > 1:
        return []
    return [Remembered(inputs, group.mean, variance, chunk.prior_mean, chunk.prior_variance)]


def _ask_decoder(found: Found, model: Model, kept: Sequence[Remembered], axis: Axis, request: _Request) -> None:
    inputs, mean, variance = (
        np.concatenate([getattr(each, part) for each in kept]) for part in ("inputs", "mean", "variance")
    )
    remembered = Remembered(inputs, mean, variance, kept[0].prior_mean, kept[0].prior_variance)
    try:
        decoder = decoder_of(model, remembered, log_likelihood=request.log_likelihood, seed=request.seed)
        if decoder is None or len(inputs) < 2:
            return
        use, chosen = decoder.use(remembered, axis=axis, seed=request.seed)
        found.pictures = decoder.pictures(remembered, axis=axis)
    except PolarisedError as error:
        if request.decode is not None:
            raise
        found.remarks.append(f"The decoder was not asked: {error}.")
        return
    latents = found.totals.evidence.latents or 0
    if len(chosen) == latents:
        found.decoder = use
    else:
        import polars

        found.decoder_use = use.table().with_columns(polars.Series("variable", chosen))
        found.remarks.append(f"The decoder was asked about {len(chosen)} of the {latents:,} variables.")
    if decoder.assumed:
        found.remarks.append(decoder.assumed)


def _of_one(totals: Totals) -> Found:
    evidence = totals.evidence
    reading = describe(evidence.rows, evidence.latents or 0, max(evidence.rows // max(evidence.inputs, 1), 1))
    return Found("model", totals, totals.sample(), reading=reading)


def _of_groups(totals: Sequence[Totals], names: Sequence[str]) -> Found:
    """Put groups of latents side by side: one diagnosis, whose variables know their group."""
    groups: dict[str, tuple[int, ...]] = {}
    start = 0
    for name, each in zip(names, totals, strict=True):
        latents = each.evidence.latents or 0
        groups[name] = tuple(range(start, start + latents))
        start += latents
    joined = Totals()
    joined.evidence = totals[0].evidence
    for each in totals[1:]:
        joined.evidence = joined.evidence.beside(each.evidence)
    joined.ranges.lowest, joined.ranges.highest = (
        np.concatenate([getattr(each.ranges, side) for each in totals]) for side in ("lowest", "highest")
    )
    samples = [each.sample() for each in totals]
    rows = len(samples[0])
    priors = {
        part: np.concatenate([np.broadcast_to(getattr(s, part), (rows, s.latents)) for s in samples], axis=1)
        for part in ("prior_mean", "prior_variance")
    }
    constant = {part: value[0] if (value == value[0]).all() else value for part, value in priors.items()}
    encodings = Encodings(
        np.concatenate([sample.mean for sample in samples], axis=1),
        variance=np.concatenate([sample.variance for sample in samples], axis=1),
        prior_mean=constant["prior_mean"],
        prior_variance=constant["prior_variance"],
        factors=samples[0].factors,
        factor_names=samples[0].factor_names or None,
    )
    seen = [each.evidence for each in totals]
    each_in_words = "; ".join(
        f"{name}: {describe(each.rows, each.latents or 0, each.rows // each.inputs)}"
        for name, each in zip(names, seen, strict=True)
    )
    return Found("model", joined, encodings, groups, reading=f"{len(totals)} groups of latents ({each_in_words})")


def _group_headline(name: str, of: Sequence[int], regime: Regime) -> str:
    counts = ", ".join(f"{sum(regime.types[j] == kind for j in of)} {kind}" for kind in ("active", "mixed", "passive"))
    return f"In {name}: {counts}."


def _ask_about_transposed(inputs: int, latents: int, axis: Axis) -> None:
    if axis is None and latents >= 64 and latents >= 10 * inputs:
        raise DataError(
            f"{latents:,} variables of only {inputs} inputs look like a table the wrong way round: say axis=0 if a row "
            f"is a variable, axis=1 if there are {latents:,} variables"
        )


def _with_factors(encodings: Encodings, factors: NDArray[Any], names: Sequence[str] | None) -> Encodings:
    return Encodings(
        encodings.mean,
        variance=encodings.variance,
        prior_mean=encodings.prior_mean,
        prior_variance=encodings.prior_variance,
        factors=factors,
        factor_names=names,
        kl=encodings.kl,
        repeats=encodings.repeats,
        rest_ratio=encodings.rest_ratio,
    )


def _one_model_or_files(paths: Sequence[Path]) -> Target:
    """Return the first of some paths: one model, or of several files of arrays the first."""
    opened = [open_target(path) for path in paths]
    other = next((each for each in opened if each.kind != "arrays"), None)
    if len(opened) > 1 and other is not None:
        raise ConfigError(
            f"expected one model, or many files of arrays, got {len(opened)} with a {other.kind}; diagnose them in turn"
        )
    return opened[0]


def _refuse(known: set[str], target: str, reason: str) -> None:
    if known:
        raise ConfigError(f"expected no {sorted(known)[0]} with {target}: {reason}; leave it out")


def _provenance(found: Found, rule: Rule, alpha: float | None, seed: int) -> dict[str, Any]:
    settings = {"alpha": found.alpha if alpha is None else alpha, "rule": rule, "seed": seed}
    return {**made_here(), "settings": settings, "citation": bibtex([RULES[rule]])}


def _is_ours(target: Any) -> bool:
    import sys

    models = sys.modules.get("polarised.models.vae")
    return models is not None and isinstance(target, models.VAE)


def _torch_is_here() -> bool:
    from importlib.util import find_spec

    try:
        return find_spec("torch") is not None
    except (ModuleNotFoundError, ValueError):
        return False


def _shown(
    coded: Iterator[CodedInputs], total: int | None, progress: bool | None
) -> Generator[CodedInputs, None, None]:
    """Yield what comes, with a bar that tells the rate and the time left on standard error."""
    import sys

    if progress is False or (progress is None and not sys.stderr.isatty()):
        yield from coded
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("encoding"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=progress is None) as bar:
        task = bar.add_task("encoding", total=total, rate="")
        for batch in coded:
            yield batch
            bar.advance(task, len(batch.groups[0].mean))
            speed = bar.tasks[0].speed
            bar.update(task, rate="" if speed is None else f"{speed:,.0f} inputs/s")


def _records(table: "polars.DataFrame") -> list[dict[str, Any]]:
    return [plain(row) for row in table.iter_rows(named=True)]
