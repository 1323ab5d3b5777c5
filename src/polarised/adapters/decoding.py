"""Any decoder, called with arrays: its outputs, how much it relies on each variable, and images."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polarised.adapters.callables import call
from polarised.adapters.models import Model, untouched
from polarised.adapters.outputs import decoded_by_name
from polarised.errors import DataError
from polarised.random import stream
from polarised.regime.decoder import FEW, CodedBatch, DecoderUse, Pictures, measure_decoder_use
from polarised.regime.encodings import Axis, as_array, as_table, from_table

__all__ = ["Decoder", "Remembered", "decoder_of", "pictures_like"]

Array = NDArray[Any]
Likelihood = Callable[[Any, Any], Any]

# Codes decoded at once, and the largest number of variables measured one by one.
_AT_ONCE, MOST_VARIABLES, MOST_WALKS = 64, 128, 64


@dataclass(frozen=True)
class Remembered:
    """Some inputs with their posteriors as returned by the encoder, and the prior as tables or constants."""

    inputs: Array
    mean: Array
    variance: Array
    prior_mean: Array | float
    prior_variance: Array | float


@dataclass(frozen=True)
class Decoder:
    """A decoder that takes and returns arrays, and the distance of its outputs from the inputs, in nats.

    Args:
        decode: Codes of the encoder's shape (n, ...) → the output of the decoder, an array or a distribution.
        distortion: -log p(x|z) of inputs and outputs of `decode` (n,), up to a constant.
        draw: Outputs of `decode` → images, or the same kind of data as the inputs.
        assumed: A sentence with the assumption about the likelihood, or empty if it is known.
        things: The objects that must not be changed.
    """

    decode: Callable[[Array], Any]
    distortion: Callable[[Array, Any], Array]
    draw: Callable[[Any], Array]
    assumed: str = ""
    things: tuple[Any, ...] = ()

    def use(self, remembered: Remembered, *, axis: Axis = None, seed: int = 0) -> tuple[DecoderUse, NDArray[np.int64]]:
        """Measure how much it relies on each variable; if there are very many, on an evenly spaced subset.

        Returns:
            The use, and the variables that were measured.
        """
        variables = as_table(remembered.mean[:1], axis)[0].shape[1]
        chosen = np.arange(variables)
        if variables > MOST_VARIABLES:
            chosen = np.unique(np.linspace(0, variables - 1, MOST_VARIABLES // 2).astype(np.int64))
        with untouched(*self.things, seed=seed):
            return measure_decoder_use(self._coded(remembered, chosen, axis, seed), seed=seed), chosen

    def pictures(
        self, remembered: Remembered, *, axis: Axis = None, originals: int = 8, steps: int = 9, reach: float = 2.0
    ) -> Pictures | None:
        """Return reconstructions and traversals of each variable, or None if the inputs are not images.

        Variable j moves from -`reach` to `reach` prior standard deviations at all positions; the others stay at
        the code of the first input.
        """
        shape = _picture_shape(remembered.inputs.shape[1:])
        mean, repeats = as_table(remembered.mean[:originals], axis)
        latents = mean.shape[1]
        if shape is None or latents > MOST_WALKS:
            return None
        values = np.linspace(-reach, reach, steps)
        centre, deviation = (
            np.broadcast_to(np.asarray(part)[0] if np.ndim(part) == 2 else part, (latents,))
            for part in (remembered.prior_mean, np.sqrt(remembered.prior_variance))
        )
        moved = np.tile(mean[:repeats], (latents * steps, 1)).reshape(latents, steps, repeats, latents)
        for j in range(latents):
            moved[j, :, :, j] = (centre[j] + deviation[j] * values)[:, None]
        with untouched(*self.things):
            shown = self._drawn(remembered.mean[:originals])
            walks = self._drawn(from_table(moved.reshape(-1, latents), remembered.mean.shape[1:], axis))
        traversals = pictures_like(walks, remembered.inputs)
        return Pictures(
            pictures_like(remembered.inputs[:originals], remembered.inputs),
            pictures_like(shown, remembered.inputs),
            traversals.reshape(latents, steps, *traversals.shape[1:]),
            values,
        )

    def drawn(self, codes: Array, inputs: Array) -> NDArray[np.float32]:
        """Return the images of some codes (n, ...), rescaled from the range of the inputs to [0, 1].

        Raises:
            DataError: If the inputs are not images.
        """
        with untouched(*self.things):
            return pictures_like(self._drawn(codes), inputs)

    def _drawn(self, codes: Array) -> Array:
        parts = [self.draw(self.decode(codes[i : i + _AT_ONCE])) for i in range(0, len(codes), _AT_ONCE)]
        return np.concatenate(parts)

    def _coded(self, remembered: Remembered, chosen: NDArray[np.int64], axis: Axis, seed: int) -> Iterator[CodedBatch]:
        draws = stream(seed, "codes for a decoder")
        order = draws.permutation(len(remembered.mean))
        done, end = 0, FEW
        while done < len(order) and (done == 0 or len(order) - done >= 2):
            yield self._batch(remembered, order[done:end], chosen, axis, draws)
            done, end = end, len(order)

    def _batch(
        self, remembered: Remembered, rows: Array, chosen: NDArray[np.int64], axis: Axis, draws: np.random.Generator
    ) -> CodedBatch:
        mean, repeats = as_table(remembered.mean[rows], axis)
        variance = as_table(remembered.variance[rows], axis)[0]
        count, latents, shape = len(rows), mean.shape[1], remembered.mean.shape[1:]
        own = mean + np.sqrt(variance) * draws.standard_normal(mean.shape)
        priors = [
            as_table(np.asarray(part)[rows], axis)[0] if np.shape(part) == remembered.mean.shape else part
            for part in (remembered.prior_mean, remembered.prior_variance)
        ]
        drawn = priors[0] + np.sqrt(priors[1]) * draws.standard_normal(mean.shape)
        # Row i is the code of input i; row count + i is a sample from its prior.
        bank = np.concatenate([own, drawn]).reshape(2 * count, repeats, latents)
        inputs, everyone = remembered.inputs[rows], np.arange(count)

        def distortion(whose: Array) -> Array:
            found = []
            for start in range(0, count, _AT_ONCE):
                part = slice(start, start + _AT_ONCE)
                codes = bank[everyone[part]].copy()
                for column, j in enumerate(chosen):
                    other = whose[part, column].astype(np.int64)
                    if (other != everyone[part]).any():
                        codes[:, :, j] = bank[other, :, j]
                decoded = self.decode(from_table(codes.reshape(-1, latents), shape, axis))
                found.append(self.distortion(inputs[part], decoded))
            return np.concatenate(found)

        index = np.repeat(everyone[:, None], len(chosen), axis=1)
        return CodedBatch(distortion, index, index + count, np.zeros(count))


def decoder_of(
    model: Model, remembered: Remembered, *, log_likelihood: Likelihood | None = None, seed: int = 0
) -> Decoder | None:
    """Return a model's decoder, with what is known about its likelihood; None if it has no decoder.

    If the decoder returns a distribution or has a `log_likelihood` of inputs and outputs, that is used. Otherwise the
    likelihood is assumed to be a Gaussian whose variance is the squared error of the reconstructions:
    -log p(x|z) = |x - x̂|² / 2σ², σ² = mean |x - x̂|².

    Raises:
        DataError: If it does not accept the encoder's codes, or its outputs have another size than the inputs.
    """
    if model.decode is None:
        return None
    given = model.decode

    def decode(codes: Array) -> Any:
        return call(
            given,
            codes.astype(np.float32) if model.convert is None else model.convert(codes.astype(np.float32)),
            "decoder",
        )

    few = slice(0, _AT_ONCE)
    with untouched(*model.things, seed=seed):
        first = decode(remembered.mean[few])
    inputs = remembered.inputs[few]
    if log_likelihood is not None:
        return Decoder(
            decode, lambda x, z: -as_array(log_likelihood(x, z)).reshape(len(x)), _values, things=model.things
        )
    if hasattr(first, "log_prob"):

        def nats(x: Array, distribution: Any) -> Array:
            whole = call(distribution.log_prob, x if model.convert is None else model.convert(x), "log_prob")
            total: Array = as_array(whole).astype(np.float64).reshape(len(x), -1).sum(axis=1)
            return -total

        return Decoder(decode, nats, _values, things=model.things)
    values = _values(first)
    if values.reshape(len(values), -1).shape != inputs.reshape(len(inputs), -1).shape:
        raise DataError(
            f"expected the decoder to return the input shape of the encoder, {inputs.shape[1:]}, got {values.shape[1:]}"
        )
    target = inputs.reshape(len(inputs), -1).astype(np.float64)
    drawn = values.reshape(len(values), -1).astype(np.float64)
    logits = _looks_like_logits(target, drawn)

    def draw(output: Any) -> Array:
        found = _values(output)
        return 1 / (1 + np.exp(-found)) if logits else found

    if logits:
        drawn = 1 / (1 + np.exp(-drawn))
    variance = max(float(np.mean(np.square(target - drawn))), 1e-12)

    def squared_error(x: Array, output: Any) -> Array:
        gap = x.reshape(len(x), -1).astype(np.float64) - draw(output).reshape(len(x), -1)
        total: Array = np.square(gap).sum(axis=1)
        return total / (2 * variance)

    assumed = (
        "What the decoder loses is measured in nats of a Gaussian as wide as its own reconstruction error, because its "
        f"likelihood is not known{'; its outputs are assumed to be logits' if logits else ''}."
    )
    return Decoder(decode, squared_error, draw, assumed, model.things)


def pictures_like(values: Array, inputs: Array) -> NDArray[np.float32]:
    """Return values of the inputs' shape as images (n, channels, height, width), rescaled from their range to [0, 1].

    Raises:
        DataError: If the inputs are not images.
    """
    shape = _picture_shape(inputs.shape[1:])
    if shape is None:
        raise DataError(f"expected images as inputs, got shape {inputs.shape[1:]}")
    low, high = _range(inputs)
    scaled = (values.reshape(len(values), *inputs.shape[1:]) - low) / (high - low)
    return np.clip(_channels_first(scaled, shape), 0, 1).astype(np.float32)


def _values(output: Any) -> Array:
    """Return the output of a decoder as an array: the mean of a distribution, or a named reconstruction."""
    if isinstance(output, Mapping) or not hasattr(output, "dtype"):
        output = decoded_by_name(output)
    return as_array(output)


def _looks_like_logits(target: Array, drawn: Array) -> bool:
    """Return whether outputs for inputs in [0, 1] exceed it on both sides and fit better after a sigmoid."""
    if target.min() < 0 or target.max() > 1 or drawn.min() > -0.5 or drawn.max() < 1.5:
        return False
    squashed = 1 / (1 + np.exp(-drawn))
    return bool(np.square(target - squashed).mean() < np.square(target - drawn).mean())


def _picture_shape(shape: tuple[int, ...]) -> str | None:
    """Return the layout of images: channels first, channels last, or without channels; None if they are not images."""
    if len(shape) == 2 and min(shape) > 4:
        return "grey"
    if len(shape) == 3 and shape[0] in (1, 3) and min(shape[1:]) > 4:
        return "first"
    return "last" if len(shape) == 3 and shape[-1] in (1, 3) and min(shape[:2]) > 4 else None


def _channels_first(images: Array, shape: str | None) -> Array:
    return images[:, None] if shape == "grey" else np.moveaxis(images, -1, 1) if shape == "last" else images


def _range(inputs: Array) -> tuple[float, float]:
    low, high = float(inputs.min()), float(inputs.max())
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    return (-1.0, 1.0) if low >= -1 and high <= 1 else (low, max(high, low + 1e-6))
