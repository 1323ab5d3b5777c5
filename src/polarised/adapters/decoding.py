"""Anybody's decoder, asked with arrays: what it makes of codes, how much it relies on each variable, pictures."""

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

# Codes decoded at once, and variables that are asked about one by one.
_AT_ONCE, MOST_VARIABLES, MOST_WALKS = 64, 128, 64


@dataclass(frozen=True)
class Remembered:
    """Some inputs with their posteriors as the encoder gave them, and the prior as tables or constants."""

    inputs: Array
    mean: Array
    variance: Array
    prior_mean: Array | float
    prior_variance: Array | float


@dataclass(frozen=True)
class Decoder:
    """A decoder that takes and gives arrays, and how far its outputs are from the inputs, in nats.

    Args:
        decode: Codes of the encoder's shape (n, ...) → what the decoder makes of them, an array or a distribution.
        distortion: -log p(x|z) of inputs and what `decode` gave (n,), up to a constant.
        draw: What `decode` gave → pictures or whatever the inputs are.
        assumed: The sentence that says what was assumed of the likelihood, or nothing where it is known.
        things: The objects that must be left as they were.
    """

    decode: Callable[[Array], Any]
    distortion: Callable[[Array, Any], Array]
    draw: Callable[[Any], Array]
    assumed: str = ""
    things: tuple[Any, ...] = ()

    def use(self, remembered: Remembered, *, axis: Axis = None, seed: int = 0) -> tuple[DecoderUse, NDArray[np.int64]]:
        """Measure how much it relies on each variable; of very many on a sample spread evenly over them.

        Returns:
            The use, and which variables it is of.
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
        """Return reconstructions and walks along each variable, or None where the inputs are no pictures.

        Variable j moves from -`reach` to `reach` prior standard deviations at all positions alike; the others stay at
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
        """Return the pictures of some codes (n, ...), in the range of the inputs brought to [0, 1].

        Raises:
            DataError: If the inputs are no pictures.
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
        # Codes are told by whose they are: row i is that of input i, row count + i a draw from its prior.
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
    """Return a model's decoder, with what can be said of its likelihood; None where it has none.

    A decoder that returns a distribution, or a `log_likelihood` of inputs and what it gave, tells nats. Otherwise the
    likelihood is taken as a Gaussian whose variance is the squared error of the reconstructions themselves:
    -log p(x|z) = |x - x̂|² / 2σ², σ² = mean |x - x̂|².

    Raises:
        DataError: If it does not take the encoder's codes, or gives something of another size than the inputs.
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
            f"expected the decoder to give what the encoder takes, {inputs.shape[1:]}, it gives {values.shape[1:]}"
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
        "What the decoder loses is measured in nats of a Gaussian as wide as its own reconstruction error, as its "
        f"likelihood is not known{'; its outputs were taken for logits' if logits else ''}."
    )
    return Decoder(decode, squared_error, draw, assumed, model.things)


def pictures_like(values: Array, inputs: Array) -> NDArray[np.float32]:
    """Return values of the inputs' shape as pictures (n, channels, height, width) in [0, 1], by the inputs' range.

    Raises:
        DataError: If the inputs are no pictures.
    """
    shape = _picture_shape(inputs.shape[1:])
    if shape is None:
        raise DataError(f"expected inputs that are pictures, got shape {inputs.shape[1:]}")
    low, high = _range(inputs)
    scaled = (values.reshape(len(values), *inputs.shape[1:]) - low) / (high - low)
    return np.clip(_channels_first(scaled, shape), 0, 1).astype(np.float32)


def _values(output: Any) -> Array:
    """Return what a decoder gave as an array: of a distribution its mean, of a named output the reconstruction."""
    if isinstance(output, Mapping) or not hasattr(output, "dtype"):
        output = decoded_by_name(output)
    return as_array(output)


def _looks_like_logits(target: Array, drawn: Array) -> bool:
    """Whether outputs for inputs in [0, 1] leave it on both sides and come closer once squashed."""
    if target.min() < 0 or target.max() > 1 or drawn.min() > -0.5 or drawn.max() < 1.5:
        return False
    squashed = 1 / (1 + np.exp(-drawn))
    return bool(np.square(target - squashed).mean() < np.square(target - drawn).mean())


def _picture_shape(shape: tuple[int, ...]) -> str | None:
    """Return how pictures lie: channels first, channels last, or without channels; None where they are none."""
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
