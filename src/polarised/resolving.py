"""Arguments of the user → evidence: recognise a target, read its posteriors once, and measure its decoder.

`polarised.adapters` recognises targets and data, `polarised.shards` accumulates the evidence; the
result is the same for all targets, so a diagnosis does not depend on the source.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polarised._io.addresses import files_at, is_address
from polarised._io.terminal import console
from polarised.adapters.arrays import Chunk, Names, as_variance, chunk_of_arrays, gather
from polarised.adapters.batches import batches_of, dataset_at
from polarised.adapters.callables import CodedInputs, Reading, encode_batches
from polarised.adapters.decoding import Likelihood, Remembered, decoder_of
from polarised.adapters.models import Model, libraries_of, model_of, untouched
from polarised.adapters.targets import ARRAYS, Target, open_run, open_target, paths_of, unused_settings
from polarised.errors import ConfigError, DataError, PolarisedError
from polarised.random import stream
from polarised.regime.classify import Regime, Rule
from polarised.regime.decoder import DecoderUse, Pictures
from polarised.regime.encodings import Axis, Encodings, as_array, describe
from polarised.shards import Totals, totals_of

if TYPE_CHECKING:
    import polars

    from polarised.objectives import Objective

__all__ = ["Found", "Request", "resolve"]

# Inputs and bytes of a stream that are kept to measure the decoder.
_REMEMBERED, _REMEMBERED_BYTES = 2_000, 1 << 28


@dataclass(frozen=True)
class Request:
    """The arguments of the user on a target and its data; `specified` has the names of those that were given."""

    encode: Callable[..., Any] | None
    decode: Callable[..., Any] | None
    log_likelihood: Likelihood | None
    reading: Reading
    factor: str | None
    factor_names: Sequence[str] | None
    objective: "Objective | None"
    decoder: DecoderUse | None
    rule: Rule
    examples: int | None
    batch_size: int | None
    executor: Literal["local", "ray"]
    address: str | None
    progress: bool | None
    seed: int
    specified: frozenset[str]


@dataclass(eq=False)
class Found:
    """A resolved target: the totals of its posteriors, and everything else known about it."""

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
    opening: Callable[[Regime], tuple[str, ...]] | None = None
    remark: Callable[[Regime], tuple[str, ...]] | None = None


def resolve(target: Any, data: Any, request: Request) -> Found:
    """Recognise a target, read its posteriors once, and measure its decoder if there is one.

    Args:
        target: Any target of `polarised.diagnose`.
        data: The data for a model to encode.
        request: The other arguments of the user.

    Returns:
        The evidence, a sample of inputs, and everything else known about the target.

    Raises:
        DataError: If the target or the data are not recognised, or are ambiguous.
        ConfigError: If a setting is invalid, or has no effect on this target.
    """
    reading, specified = request.reading, request.specified
    if request.executor not in ("local", "ray"):
        raise ConfigError(f"expected executor 'local' or 'ray', got {request.executor!r}")
    if request.address is not None and request.executor != "ray":
        raise ConfigError("expected executor='ray' with address: without it files are read here, not on a cluster")
    addresses = _addresses_of(target)
    paths = None if addresses else paths_of(target)
    if isinstance(target, Encodings):
        _refuse(specified - {"seed"}, "Encodings", "they are already encoded")
        found = _of_encodings(target, reading.axis)
    elif addresses:
        found = _of_addresses(addresses, request)
    elif paths is not None:
        found = _of_paths(paths, data, request)
    elif isinstance(target, Mapping):
        _refuse(specified - {"scale_kind", "seed"}, "a mapping of arrays", "they are already encoded")
        arrays = {str(key): as_array(value) for key, value in target.items()}
        names = Names.among(arrays, "the mapping", scale_kind=reading.scale_kind)
        trusted = reading.trust_scale or reading.scale_kind is not None
        chunk = chunk_of_arrays(arrays, names, axis=reading.axis, trust_scale=trusted)
        found = _of_encodings(gather([chunk]), reading.axis)
    else:
        found = _of_object(target, data, request, None)
    if reading.factors is not None and found.encodings.factors is None:
        found.encodings = _with_factors(found.encodings, reading.factors, request.factor_names)
    return found


def _of_paths(paths: Sequence[Path], data: Any, request: Request) -> Found:
    opened = _one_model_or_files(paths)
    for setting, reason in unused_settings(opened, with_data=data is not None).items():
        _refuse(request.specified & {setting}, str(opened.path), reason)
    if opened.kind == "arrays":
        name = opened.name if len(paths) == 1 else f"{len(paths)} files"
        return _of_totals(name, paths, _totals(paths, request), request.reading.axis)
    if opened.kind == "run" and data is None:
        return _of_run(opened.path, request.rule)
    if opened.kind == "scvi":
        from polarised.adapters.scvi import load_scvi

        found = _of_object(*load_scvi(opened.path, data), request, opened.name)
        found.provenance |= {"target": str(opened.path)}
        return found
    found = _of_object(opened.model(), opened.data() if data is None else data, request, opened.name)
    found.provenance |= {"target": str(opened.path), "kind": opened.kind}
    return found


def _addresses_of(target: Any) -> list[str]:
    """Return the addresses of files that a target names (``s3://bucket/*.npz``), or an empty list."""
    each = [target] if isinstance(target, str) else target
    if not isinstance(each, list | tuple) or not any(isinstance(one, str) and is_address(one) for one in each):
        return []
    if not all(isinstance(one, str) and is_address(one) for one in each):
        raise DataError("expected addresses or paths, got both; diagnose them separately")
    return [file for one in each for file in files_at(one, endings=ARRAYS)]


def _of_addresses(addresses: Sequence[str], request: Request) -> Found:
    known = unused_settings(Target(Path(addresses[0]), "arrays"))
    for setting, reason in known.items():
        _refuse(request.specified & {setting}, addresses[0], reason)
    totals = _totals(addresses, request)
    name = PurePosixPath(addresses[0]).stem if len(addresses) == 1 else f"{len(addresses)} files"
    return _of_totals(name, addresses, totals, request.reading.axis)


def _totals(files: Sequence[str | Path], request: Request) -> Totals:
    reading = request.reading
    return totals_of(
        files,
        executor=request.executor,
        address=request.address,
        scale_kind=reading.scale_kind,
        trust_scale=reading.trust_scale,
        axis=reading.axis,
        seed=request.seed,
    )


def _of_encodings(encodings: Encodings, axis: Axis, name: str = "model") -> Found:
    _refuse_transposed(len(encodings) // encodings.repeats, encodings.latents, axis)
    totals = Totals()
    for mean, variance, prior_mean, prior_variance in encodings.chunks(
        rows=max(1 << 10, (1 << 24) // encodings.latents)
    ):
        chunk = Chunk(mean, variance, prior_mean, prior_variance, None, kl=encodings.kl, repeats=encodings.repeats)
        totals.update(chunk, None)
    reading = describe(len(encodings), encodings.latents, encodings.repeats)
    return Found(name, totals, encodings, reading=reading)


def _of_totals(name: str, places: Sequence[str | Path], totals: Totals, axis: Axis) -> Found:
    latents = totals.evidence.latents or 0
    _refuse_transposed(totals.evidence.inputs, latents, axis)
    provenance = {"target": ", ".join(map(str, places)), "kind": "arrays"}
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
    if run.model.exists() and _torch_is_installed():
        from polarised.models import encoding, load_vae

        vae, dataset = load_vae(run.model), run.dataset()
        found.pictures = encoding.pictures(vae, dataset, seed=run.seed)
        if found.encodings.rest_ratio is None:
            found.rest_ratio = encoding.rest_ratio_of(run.objective(), vae)
        if found.decoder is None:
            found.decoder = encoding.decoder_use(vae, dataset, seed=run.seed)
    return found


def _of_object(target: Any, data: Any, request: Request, name: str | None) -> Found:
    """Resolve a model object of any library, with the data to encode."""
    if "scvi" in libraries_of(target):
        from polarised.adapters.scvi import look_at_scvi

        encodings, use, opening, remark = look_at_scvi(
            target, data, factor=request.factor, batch_size=request.batch_size, seed=request.seed
        )
        found = _of_encodings(encodings, 1, name or type(target).__name__)
        found.decoder, found.opening, found.remark = use, opening, remark
        found.provenance = {"target": type(target).__name__, "kind": "scvi"}
        return found
    if data is None:
        if _holds_arrays(target):
            raise DataError(
                f"expected a model, or means with their scale, got {type(target).__name__}; name the arrays: "
                "Encodings(mean, variance=...) or Encodings(mean, log_variance=...)"
            )
        raise DataError(
            f"expected data= to encode with {type(target).__name__}, got none; pass an array, a loader, a "
            "dataset or its name, or a folder of images as the second argument of diagnose"
        )
    if _is_ours(target):
        return _of_vae(target, data, request, name)
    model = model_of(target, encode=request.encode, decode=request.decode)
    batch_size = request.batch_size or (8 if model.kind == "diffusers" else 256)
    batches = batches_of(
        data, batch_size=batch_size, examples=request.examples, size=model.image_size, seed=request.seed
    )
    coded = encode_batches(model, batches, request.reading, named=batches.named, seed=request.seed)
    with closing(coded), closing(_with_progress(coded, batches.total, request.progress)) as shown:
        found = _of_stream(shown, model, request)
    names = request.factor_names or batches.factor_names
    if names is not None and found.encodings.factors is not None:
        found.encodings = _with_factors(found.encodings, found.encodings.factors, names)
    found.name = name or model.name
    found.provenance = {"target": model.name, "kind": model.kind, **({"data": batches.name} if batches.name else {})}
    return found


def _holds_arrays(target: Any) -> bool:
    """Whether the target is an array, or a list or tuple of arrays, of any framework."""
    each = target if isinstance(target, list | tuple) and target else (target,)
    return all(hasattr(one, "shape") and hasattr(one, "dtype") for one in each)


def _of_vae(vae: Any, data: Any, request: Request, name: str | None) -> Found:
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


def _of_stream(coded: Iterable[CodedInputs], model: Model, request: Request) -> Found:
    """Read the encoded batches once: evidence of every group, a sample of inputs, and some to measure the decoder."""
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
        if model.decode is not None and len(totals) == 1 and not _has_enough(kept):
            kept += remembered_of(batch)
    if first is None:
        raise DataError("expected at least one batch, got none; check the data")
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
        _measure_decoder(found, model, kept, None if group.mean.ndim == 2 else axis, request)
    return found


def _has_enough(kept: Sequence[Remembered]) -> bool:
    held = sum(each.inputs.nbytes + each.mean.nbytes for each in kept)
    return sum(len(each.inputs) for each in kept) >= _REMEMBERED or held > _REMEMBERED_BYTES


def remembered_of(batch: CodedInputs) -> list[Remembered]:
    """Return a batch to measure the decoder on, if its inputs are an array and its prior is the same for all."""
    group, chunk = batch.groups[0], batch.chunks[0][0]
    if group.kind is None or not hasattr(batch.inputs, "shape"):
        return []
    inputs, variance = as_array(batch.inputs), as_variance(group.scale, group.kind, trust_scale=True)
    if len(inputs) != len(group.mean) or np.ndim(chunk.prior_mean) > 1 or np.ndim(chunk.prior_variance) > 1:
        return []
    return [Remembered(inputs, group.mean, variance, chunk.prior_mean, chunk.prior_variance)]


def _measure_decoder(found: Found, model: Model, kept: Sequence[Remembered], axis: Axis, request: Request) -> None:
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
        found.remarks.append(f"The decoder was not measured: {error}.")
        return
    latents = found.totals.evidence.latents or 0
    if len(chosen) == latents:
        found.decoder = use
    else:
        import polars

        found.decoder_use = use.table().with_columns(polars.Series("variable", chosen))
        found.remarks.append(f"The decoder was measured on {len(chosen)} of the {latents:,} variables.")
    if decoder.assumed:
        found.remarks.append(decoder.assumed)


def _of_one(totals: Totals) -> Found:
    evidence = totals.evidence
    reading = describe(evidence.rows, evidence.latents or 0, max(evidence.rows // max(evidence.inputs, 1), 1))
    return Found("model", totals, totals.sample(), reading=reading)


def _of_groups(totals: Sequence[Totals], names: Sequence[str]) -> Found:
    """Combine groups of latents in one diagnosis that records the group of each variable."""
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


def _refuse_transposed(inputs: int, latents: int, axis: Axis) -> None:
    if axis is None and latents >= 64 and latents >= 10 * inputs:
        raise DataError(
            f"{latents:,} variables of only {inputs} inputs look like a transposed table: set axis=0 if a row "
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
    """Return the first of several paths: a single model, or the first of several files of arrays."""
    opened = [open_target(path) for path in paths]
    other = next((each for each in opened if each.kind != "arrays"), None)
    if len(opened) > 1 and other is not None:
        raise ConfigError(
            f"expected one model, or many files of arrays, got {len(opened)} with a {other.kind}; diagnose each alone"
        )
    return opened[0]


def _refuse(known: frozenset[str], target: str, reason: str) -> None:
    if known:
        raise ConfigError(f"expected no {sorted(known)[0]} with {target}: {reason}; omit it")


def _is_ours(target: Any) -> bool:
    import sys

    models = sys.modules.get("polarised.models.vae")
    return models is not None and isinstance(target, models.VAE)


def _torch_is_installed() -> bool:
    from importlib.util import find_spec

    try:
        return find_spec("torch") is not None
    except (ModuleNotFoundError, ValueError):
        return False


def _with_progress(
    coded: Iterator[CodedInputs], total: int | None, progress: bool | None
) -> Generator[CodedInputs, None, None]:
    """Yield the items, with a progress bar on standard error that shows the rate and the time left."""
    import sys

    if progress is False or (progress is None and not sys.stderr.isatty()):
        yield from coded
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("encoding"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"))
    with Progress(*columns, TimeRemainingColumn(), console=console(stderr=True), transient=progress is None) as bar:
        task = bar.add_task("encoding", total=total, rate="")
        for batch in coded:
            yield batch
            bar.advance(task, len(batch.groups[0].mean))
            speed = bar.tasks[0].speed
            bar.update(task, rate="" if speed is None else f"{speed:,.0f} inputs/s")
