"""Any model or function that encodes a batch → a checked stream of posteriors."""

import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polarised.adapters.arrays import Chunk, ScaleKind, as_variance, gather, laid_out
from polarised.adapters.batches import Batches, InputBatch, Range, batches_of, first_and_rest, pixel_fit
from polarised.adapters.models import Encode, Model, models_behind, tensors_for, untouched
from polarised.adapters.outputs import AmbiguousTupleError, Posterior, names_returned, read_output
from polarised.errors import DataError
from polarised.regime import Encodings
from polarised.regime.encodings import Axis, as_array

__all__ = [
    "CodedInputs",
    "Reading",
    "call",
    "encode_batches",
    "from_callable",
    "gathered",
    "model_of_callable",
]

Array = NDArray[Any]
Mask = ArrayLike | Callable[[Any], Any] | str


@dataclass(frozen=True)
class Reading:
    """How to interpret the outputs of an encoder, as given by the user; what is `None` is inferred.

    Args:
        scale_kind: The meaning of the second output.
        trust_scale: Skip the checks whether the scale is plausible and the mean reproducible.
        axis: The axis of the latent variables.
        mask: The valid positions: an array (n, positions), a function of a batch, or a key of it.
        prior: Mean and variance of the prior, a distribution, or a function of a batch that returns one of them.
        factors: Known factors of each input.
        pixel_range: The pixel range the model was trained on.
    """

    scale_kind: ScaleKind | None = None
    trust_scale: bool = False
    axis: Axis = None
    mask: Mask | None = None
    prior: Any = None
    factors: Array | None = None
    pixel_range: Range | None = None


class CodedInputs(NamedTuple):
    """One encoded batch: the inputs of the encoder, and each group of latents as returned and as chunks of tables."""

    inputs: Any
    groups: tuple[Posterior, ...]
    chunks: tuple[tuple[Chunk, ...], ...]


def encode_batches(
    model: Model, batches: Batches, reading: Reading, *, named: bool = False, seed: int = 0
) -> Generator[CodedInputs, None, None]:
    """Encode batch by batch in evaluation mode without gradients; the model is not changed.

    The first batch determines how the outputs are interpreted. It is encoded again, whole and in halves: a mean that
    changes is a sample or depends on the other inputs of the batch, which is an error.

    Args:
        model: The model.
        batches: The inputs.
        reading: How the user interprets the outputs.
        named: Whether the inputs are images in [0, 1] from one of our datasets.
        seed: Seed for all random numbers that a model may draw.

    Yields:
        The encoded batches.

    Raises:
        DataError: If the outputs are not understood or ambiguous.
    """
    with untouched(*model.things, seed=seed):
        first, rest = first_and_rest(batches)
        fit = pixel_fit(first.inputs, reading.pixel_range, known=model.pixel_range, named=named)
        asked, inputs = _understood(model, fit(first.inputs), first, reading)
        start = 0
        for number, batch in enumerate(rest):
            inputs = _prepared(model, fit(batch.inputs))
            groups = asked(inputs)
            _check_rows(groups, inputs)
            if number == 0:
                _check_repeated(asked, inputs, groups, reading)
            yield _coded(model, groups, inputs, batch, start, reading, trusted=reading.trust_scale or number > 0)
            start += len(groups[0].mean)


def from_callable(
    encode: Encode,
    data: Any,
    *,
    scale_kind: ScaleKind | None = None,
    trust_scale: bool = False,
    axis: Axis = None,
    prior_mean: ArrayLike = 0.0,
    prior_variance: ArrayLike = 1.0,
    factors: ArrayLike | None = None,
    factor_names: Sequence[str] | None = None,
    batch_size: int = 256,
    pixel_range: Range | None = None,
) -> Encodings:
    """Encode data with any function that returns mean and scale of q(z|x), in any framework.

    Args:
        encode: A function or network that takes a batch and returns a pair, a distribution or named arrays.
        data: The inputs, in any form that `polarised.diagnose` accepts.
        scale_kind: The meaning of the second output, if its name does not give it.
        trust_scale: Skip the check whether the values are plausible.
        axis: The axis of the latent variables, if there are more than two axes.
        prior_mean: A number, (d,) or (n, d).
        prior_variance: A number, (d,) or (n, d).
        factors: Known factors of each input; default: the labels in the batches.
        factor_names: A name for each factor.
        batch_size: Inputs per batch, if the data are split here.
        pixel_range: The pixel range the model was trained on, if it is not known.

    Returns:
        The encodings.

    Raises:
        DataError: If something is ambiguous.

    >>> batches = [[[0.5], [-1.0]], [[2.0]]]
    >>> from_callable(lambda x: (x, [[-4.0]] * len(x)), batches, scale_kind="log_variance")
    Encodings(3 inputs × 1 variable, N(0, I))
    """
    given = None if factors is None else np.asarray(factors)
    reading = Reading(scale_kind, trust_scale, axis, factors=given, pixel_range=pixel_range)
    found = batches_of(data, batch_size=batch_size)
    names = factor_names if factor_names is not None else found.factor_names
    encodings = gathered(encode_batches(model_of_callable(encode), found, reading), names)
    if np.ndim(prior_mean) or np.ndim(prior_variance) or (prior_mean, prior_variance) != (0.0, 1.0):
        return Encodings(
            encodings.mean,
            variance=encodings.variance,
            prior_mean=prior_mean,
            prior_variance=prior_variance,
            factors=encodings.factors,
            factor_names=encodings.factor_names or None,
            repeats=encodings.repeats,
        )
    return encodings


def gathered(coded: Iterator[CodedInputs], factor_names: Sequence[str] | None = None) -> Encodings:
    """Return a stream of one group of latents as encodings."""
    chunks: list[Chunk] = []
    for batch in coded:
        if len(batch.chunks) > 1:
            raise DataError(
                f"expected one group of latents, got {len(batch.chunks)}; polarised.diagnose accepts several"
            )
        chunks += batch.chunks[0]
    return gather(chunks, factor_names)


def model_of_callable(encode: Encode, *, name: str = "model") -> Model:
    """Return what is known about a function, a bound method or a network of any framework."""
    return Model((encode,), (encode,), name=name)


def _prepared(model: Model, inputs: Any) -> Any:
    return inputs if model.convert is None else model.convert(inputs)


def _understood(
    model: Model, fitted: Any, batch: InputBatch, reading: Reading
) -> tuple[Callable[[Any], tuple[Posterior, ...]], Any]:
    """Return the first encoder whose output is understood, and the batch in the form it takes."""
    inputs = _prepared(model, fitted)
    refused: DataError | None = None
    for encode in model.encoders:
        names = getattr(encode, "output_names", None) or names_returned(encode)
        try:
            output = call(encode, inputs)
            chosen = _settled(encode, inputs, output, names)
        except DataError as error:
            refused = refused or error
            continue

        def asked(
            x: Any, encode: Encode = encode, chosen: Callable[[Any], list[Posterior]] = chosen
        ) -> tuple[Posterior, ...]:
            return tuple(_with_kind(each, model, reading) for each in chosen(call(encode, x)))

        asked(inputs)
        return asked, inputs
    raise refused or DataError("expected a way to encode a batch, got none")


def call(encode: Encode, inputs: Any, what: str = "encoder") -> Any:
    """Call a user's function without gradients, with tensors if arrays fail; an error of it becomes a DataError."""
    try:
        with _without_gradients():
            return encode(inputs)
    except DataError:
        raise
    except Exception as error:
        if isinstance(inputs, np.ndarray) and (home := _torch_home(encode)) is not None:
            try:
                with _without_gradients():
                    return encode(home(inputs))
            except Exception:
                pass
        shape = tuple(getattr(inputs, "shape", ())) or type(inputs).__name__
        reason = f"{type(error).__name__}: {error}".strip()
        raise DataError(
            f"expected the {what} to accept the batches, but it failed on one of shape {shape}: {reason}"
        ) from error


def _torch_home(encode: Encode) -> Callable[[Any], Any] | None:
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    networks = [model for model in models_behind(encode) if isinstance(model, torch.nn.Module)]
    return tensors_for(networks[0]) if networks else None


def _settled(
    encode: Encode, inputs: Any, output: Any, names: Sequence[str | None] | None
) -> Callable[[Any], list[Posterior]]:
    """Return how to interpret an output; of several arrays, those that are equal in a second call are chosen."""
    try:
        read_output(output, names=names)
    except AmbiguousTupleError:
        again = call(encode, inputs)
        parts, others = [as_array(part) for part in output], [as_array(part) for part in again]
        still = [i for i, pair in enumerate(zip(parts, others, strict=True)) if _alike(*pair)]
        pair = _pair_among([parts[i].shape for i in still], tuple(getattr(inputs, "shape", ())))
        if pair is None:
            raise
        still = [still[i] for i in pair]
        return lambda found: read_output((found[still[0]], found[still[1]]))
    return lambda found: read_output(found, names=names)


def _pair_among(shapes: list[tuple[int, ...]], inputs: tuple[int, ...]) -> tuple[int, int] | None:
    """Return the only two arrays of equal shape, excluding the shape of the inputs (a reconstruction) if possible.

    >>> _pair_among([(9, 5), (9, 3), (9, 3)], (9, 5))
    (1, 2)
    """
    for spared in ({inputs}, set()):
        twice = [shape for shape in set(shapes) - spared if shapes.count(shape) > 1]
        if len(twice) == 1 and shapes.count(twice[0]) == 2:
            first = shapes.index(twice[0])
            return first, shapes.index(twice[0], first + 1)
    return None


def _with_kind(found: Posterior, model: Model, reading: Reading) -> Posterior:
    if reading.scale_kind is not None:
        return replace(found, kind=reading.scale_kind, told_by="scale_kind")
    if found.kind is not None:
        return found
    if model.scale_kind is not None:
        return replace(found, kind=model.scale_kind, told_by=model.kind)
    negative = bool((found.scale < 0).any())
    likely = "'log_variance' or 'log_std'" if negative else "'variance' or 'std' (or 'log_variance', 'log_std')"
    values = "falls below zero" if negative else "is never below zero"
    raise DataError(
        f"the second output of the encoder {values}, which does not determine its kind; give scale_kind={likely}"
    )


def _check_rows(groups: tuple[Posterior, ...], inputs: Any) -> None:
    size = len(inputs) if hasattr(inputs, "__len__") and not isinstance(inputs, Mapping) else None
    for group in groups:
        if size is not None and (group.mean.ndim < 2 or len(group.mean) != size):
            raise DataError(
                f"expected a row for each of the {size} inputs of a batch, but the encoder returned means of shape "
                f"{group.mean.shape}; the first axis must be the inputs"
            )


def _check_repeated(
    asked: Callable[[Any], tuple[Posterior, ...]], inputs: Any, groups: tuple[Posterior, ...], reading: Reading
) -> None:
    if reading.trust_scale:
        return
    again = asked(inputs)
    if not all(_alike(a.mean, b.mean) for a, b in zip(groups, again, strict=True)):
        raise DataError(
            "expected the same mean for the same batch, got two different ones; check whether the encoder returns a "
            "sample instead of the mean, or uses dropout although the model is in evaluation mode (model.eval()); use "
            "trust_scale=True to accept it anyway"
        )
    size = len(groups[0].mean)
    if size < 2 or not hasattr(inputs, "__getitem__") or isinstance(inputs, Mapping):
        return
    half = size // 2
    try:
        parts = [asked(inputs[:half]), asked(inputs[half:])]
    except (DataError, TypeError):
        return  # An encoder with a fixed batch size cannot be checked.
    for i, whole in enumerate(groups):
        together = (
            np.concatenate([part[i].mean for part in parts]) if all(len(part) > i for part in parts) else whole.mean
        )
        if not _alike(whole.mean, together):
            raise DataError(
                "expected the code of an input not to depend on the others in its batch, but half a batch gives "
                "different means; check whether batch normalisation is in training mode or statistics are computed "
                "over the batch; use batch_size=1 to encode each input alone, or trust_scale=True to accept it anyway"
            )


def _alike(first: Array, second: Array) -> bool:
    # Rounding may differ between calls and batch sizes; numbers that are not finite are reported later.
    if first.shape != second.shape:
        return False
    with np.errstate(invalid="ignore"):
        level = float(np.nanstd(first)) if np.isfinite(first).any() else 0.0
    return np.allclose(first, second, rtol=1e-3, atol=1e-5 + 2e-3 * level, equal_nan=True)


def _coded(
    model: Model,
    groups: tuple[Posterior, ...],
    inputs: Any,
    batch: InputBatch,
    start: int,
    reading: Reading,
    *,
    trusted: bool,
) -> CodedInputs:
    axis = reading.axis if reading.axis is not None else model.axis
    factors = batch.factors if reading.factors is None else reading.factors[start : start + len(groups[0].mean)]
    chunks: list[tuple[Chunk, ...]] = []
    for group in groups:
        if group.kind is None:
            raise DataError("expected the kind of the second output to be known")
        variance = as_variance(group.scale, group.kind, trust_scale=trusted)
        prior_mean, prior_variance = _prior(group, model, reading, batch)
        own = None if group.mean.ndim == 2 and axis in (None, 1, -1, (1,), (-1,), model.axis) else axis
        if factors is not None and len(factors) != len(group.mean):
            raise DataError(f"expected a row of factors for each input, got {len(factors)} for {len(group.mean)}")
        if reading.mask is None:
            chunks.append((laid_out(group.mean, variance, prior_mean, prior_variance, factors, own),))
        else:
            mask = _mask_of(reading.mask, batch, start, len(group.mean))
            whole = laid_out(group.mean, variance, prior_mean, prior_variance, factors, own)
            chunks.append(_masked(whole, group.mean.shape, mask))
    return CodedInputs(inputs, groups, tuple(chunks))


def _prior(group: Posterior, model: Model, reading: Reading, batch: InputBatch) -> tuple[Array | float, Array | float]:
    prior = reading.prior if reading.prior is not None else model.prior
    if prior is None:
        mean = 0.0 if group.prior_mean is None else group.prior_mean
        if group.prior_scale is None or group.prior_kind is None:
            return mean, 1.0
        return mean, as_variance(group.prior_scale, group.prior_kind, trust_scale=True)
    prior = prior(batch.inputs) if callable(prior) and not hasattr(prior, "variance") else prior
    if isinstance(prior, tuple | list) and len(prior) == 2:
        return as_array(prior[0]), as_array(prior[1])
    found = read_output(prior)[0]
    if found.kind is None:
        raise DataError("expected the prior as (mean, variance) or as a distribution")
    return found.mean, as_variance(found.scale, found.kind, trust_scale=True)


def _mask_of(mask: Mask, batch: InputBatch, start: int, size: int) -> NDArray[np.bool_]:
    if isinstance(mask, str):
        if not isinstance(batch.whole, Mapping) or mask not in batch.whole:
            raise DataError(f"expected batches that are dictionaries with the mask {mask!r}, got another form")
        found = as_array(batch.whole[mask])
    elif callable(mask):
        found = as_array(mask(batch.whole))
    else:
        found = as_array(mask)[start : start + size]
    if len(found) != size:
        raise DataError(f"expected a row of the mask for each input, got {len(found)} for {size}")
    return found.astype(bool)


def _masked(chunk: Chunk, shape: tuple[int, ...], mask: NDArray[np.bool_]) -> tuple[Chunk, ...]:
    """Return one chunk for each number of valid positions, so that all rows of an input stay together."""
    try:
        flat = np.broadcast_to(mask.reshape(len(mask), -1), (len(mask), chunk.repeats))
    except ValueError as error:
        raise DataError(
            f"expected a mask with {chunk.repeats} positions per input, got shape {mask.shape} for latents {shape}"
        ) from error
    counts = flat.sum(axis=1)
    found = []
    for count in np.unique(counts[counts > 0]):
        inputs = counts == count
        rows = (flat & inputs[:, None]).ravel()
        both = (chunk.prior_mean, chunk.prior_variance)
        priors = [np.asarray(prior)[rows] if np.ndim(prior) == 2 else prior for prior in both]
        factors = None if chunk.factors is None else chunk.factors[inputs]
        found.append(Chunk(chunk.mean[rows], chunk.variance[rows], priors[0], priors[1], factors, repeats=int(count)))
    if not found:
        raise DataError("expected a mask that keeps some positions, got one that keeps none")
    return tuple(found)


def _without_gradients() -> AbstractContextManager[Any]:
    torch = sys.modules.get("torch")
    return torch.no_grad() if torch is not None else nullcontext()
