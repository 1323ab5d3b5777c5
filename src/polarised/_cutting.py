"""A smaller copy of anybody's torch module, and the proof on the user's data that it does what the larger one did.

Which layers hold the latent variables is seen by watching a copy at work: the heads give what the encoder returns, the
decoder's first layer takes the code. The given module is only asked, never changed.
"""

import copy
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from polarised.adapters.arrays import ScaleKind
from polarised.adapters.batches import Batches, InputBatch, Range, batches_of
from polarised.adapters.callables import CodedInputs, Reading, encode_batches
from polarised.adapters.decoding import Decoder, Remembered, decoder_of
from polarised.adapters.models import Model, libraries_of, model_of, untouched
from polarised.errors import ConfigError, DataError, PolarisedError
from polarised.models.slicing import checked_keep, slice_layers
from polarised.random import seed_for
from polarised.resolving import remembered_of

__all__ = ["Asking", "compare_models", "cut_model"]

Array = NDArray[Any]

# Inputs that are enough to see which layers hold the code.
_WATCHED = 64
_SLICEABLE = (nn.Linear, nn.Conv2d, nn.ConvTranspose2d)
_SIZE_NAMES = re.compile(r"latent|^n?_?z(_?(dim|size|features))?$|^code|bottleneck")
_CONFIGS = ("config", "model_config", "cfg", "args", "hparams", "_hparams")
# Whose models cannot be cut, and why.
_REFUSED = {
    "diffusers": "the channels of its latents are also those of the networks trained on them and of its own config",
    "scvi": "its decoder reads batch and library size beside the code, in layers that scvi-tools builds from its setup",
    "keras": "only layers of torch are cut",
    "flax": "only layers of torch are cut",
}


@dataclass(frozen=True)
class Asking:
    """How a module is asked: each function takes the module first, so that the smaller one is asked alike.

    Args:
        encode: From module and batch to mean and scale; the module's own encoder if None.
        decode: From module and codes to outputs; the module's own decoder if None.
        scale_kind: What the scale is, where its name does not tell.
        pixel_range: The range of pixels the model was trained on, where it has to be said.
    """

    encode: Callable[[Any, Any], Any] | None = None
    decode: Callable[[Any, Any], Any] | None = None
    scale_kind: ScaleKind | None = None
    pixel_range: Range | None = None

    @property
    def reading(self) -> Reading:
        """How what the encoder returns is read."""
        return Reading(self.scale_kind, pixel_range=self.pixel_range)

    def of(self, module: nn.Module) -> Model:
        """Return what is known of a module, asked by the functions given."""
        encode, decode = (None if own is None else partial(own, module) for own in (self.encode, self.decode))
        found = model_of(module, encode=encode, decode=decode)
        if found.decode is None:
            raise ConfigError(f"expected a model with a decoder to prune, {found.name} shows none; give decode=")
        return found


def cut_model(
    model: Any, keep: Iterable[int], data: Any, *, constants: ArrayLike | Tensor | None = None, asking: Asking
) -> Any:
    """Return a copy of a torch module cut to some latent variables, checked against the module itself.

    Raises:
        ConfigError: If the module cannot be cut, with the reason.
    """
    _check_cuttable(model)
    smaller = _copied(model)
    known = asking.of(smaller)
    with _watching(smaller) as seen:
        coded = next(iter(_encoded(known, batches_of(data, batch_size=_WATCHED, examples=_WATCHED), asking.reading)))
        encoding, seen.calls = seen.calls, []
        remembered, scale = _remembered(coded, known), coded.groups[0].scale
        latents = remembered.mean.shape[1]
        chosen = checked_keep(keep, latents)
        codes = np.random.default_rng(0).normal(size=remembered.mean.shape).astype(np.float32)
        decoder = _decoder(known, remembered)
        with untouched(*known.things):
            decoder.decode(codes)
        decoding = seen.calls
    held = np.broadcast_to(remembered.prior_mean if constants is None else _numbers(constants), (latents,))
    heads, layout = _heads(encoding, remembered.mean, scale, known.name)
    entries = _entries(decoding, codes, known.name)
    _check_unused(smaller, {id(layer) for layer, _, _ in (*encoding, *decoding)}, latents)
    cut: dict[int, nn.Module] = {}
    for entry in entries:
        layers = slice_layers(
            heads[0],
            heads[1] if layout == "separate" else None,
            entry,
            chosen,
            constants=torch.as_tensor(np.array(held)),
            layout=layout,
        )
        cut |= {
            id(heads[0]): layers.mean_head,
            id(heads[-1]): layers.log_variance_head,
            id(entry): layers.decoder_input,
        }
    for module in list(smaller.modules()):
        _resize(vars(module), latents, len(chosen))
        for name, child in list(module._modules.items()):
            if id(child) in cut:
                module._modules[name] = cut[id(child)]
    if id(smaller) in cut:
        raise ConfigError(f"expected a model of several layers, {known.name} is one")
    _check_equal(asking.of(model), asking.of(smaller), asking, remembered, codes, held, chosen)
    return smaller


def compare_models(
    before: Any,
    after: Any,
    data: Any,
    *,
    keep: Iterable[int],
    constants: ArrayLike | Tensor | None = None,
    asking: Asking,
    seed: int = 0,
    batch_size: int = 256,
) -> dict[str, Any]:
    """Return the numbers of a pruning report, asked of both modules' own encoders and decoders batch by batch.

    Losses are -log p(x|z) where the decoder tells a likelihood; otherwise both are measured in nats of a Gaussian as
    wide as the reconstruction error of the larger model.

    Raises:
        DataError: If there are no inputs, or `keep` is not that of the smaller model.
    """
    first, second = asking.of(before), asking.of(after)
    noise = np.random.default_rng(seed_for(seed, "pruning"))
    totals, changes, images, chosen, latents, assumed = np.zeros((2, 3)), np.zeros(2), 0, [0], 0, ""
    nats: Callable[[Array, Any], Array] | None = None
    batches = batches_of(data, batch_size=batch_size, seed=seed)
    for coded in _encoded(first, batches, asking.reading, seed=seed):
        old = _remembered(coded, first)
        new = _again(second, old, asking, seed=seed)
        latents = old.mean.shape[1]
        chosen = checked_keep(keep, latents)
        if new.mean.shape[1] != len(chosen):
            raise DataError(
                f"expected a pruned model of {len(chosen)} latents, got {new.mean.shape[1]}; is `keep` its own?"
            )
        ours, theirs = _decoder(first, old), _decoder(second, new)
        if nats is None:
            nats, assumed = ours.distortion, ours.assumed
        draws = noise.standard_normal(old.mean.shape)
        held = np.broadcast_to(old.prior_mean if constants is None else _numbers(constants), (latents,))
        resting = np.tile(held, (len(old.mean), 1))
        resting[:, chosen] = new.mean
        with untouched(*first.things, *second.things, seed=seed):
            for row, (seen, decoder, drawn) in enumerate([(old, ours, draws), (new, theirs, draws[:, chosen])]):
                sample = seen.mean + np.sqrt(seen.variance) * drawn
                losses = [nats(seen.inputs, decoder.decode(code)).sum() for code in (seen.mean, sample)]
                totals[row] += [*losses, _rate(seen)]
            outputs = [ours.draw(ours.decode(resting)), ours.draw(theirs.decode(new.mean))]
        pairs = [(old.mean[:, chosen], new.mean), (np.log(old.variance[:, chosen]), np.log(new.variance))]
        encodings = max(float(np.abs(a - b).max()) for a, b in pairs)
        changes = np.maximum(changes, [encodings, np.abs(outputs[0] - outputs[1]).max()])
        images += len(old.mean)
    if not images:
        raise DataError("expected at least one input to compare the two models on, got none")
    distortion, sampled, rate = (totals / images).T.tolist()
    return {
        "keep": tuple(chosen),
        "dropped": tuple(j for j in range(latents) if j not in chosen),
        "images": images,
        "parameters": tuple(sum(p.numel() for p in module.parameters()) for module in (before, after)),
        "distortion": tuple(distortion),
        "sampled_distortion": tuple(sampled),
        "rate": tuple(rate),
        "encodings": float(changes[0]),
        "outputs": float(changes[1]),
        "assumed": assumed,
    }


def _check_cuttable(model: Any) -> None:
    for library in libraries_of(model) & _REFUSED.keys():
        raise ConfigError(
            f"expected a model that can be cut, {type(model).__name__} of {library} cannot: {_REFUSED[library]}; "
            "polarised.diagnose says which variables to leave unused"
        )
    if not isinstance(model, nn.Module):
        raise ConfigError(
            f"expected a torch module, whose layers can be cut, got {type(model).__name__}; "
            "give the module that holds encoder and decoder"
        )


def _copied(model: nn.Module) -> nn.Module:
    # A module that was fitted with Lightning refers to its trainer, and through it to all data.
    trainer = vars(model).get("_trainer")
    if trainer is None:
        return copy.deepcopy(model)
    vars(model)["_trainer"] = None
    try:
        return copy.deepcopy(model)
    finally:
        vars(model)["_trainer"] = trainer


@dataclass
class _Watched:
    calls: list[tuple[nn.Module, Tensor, Tensor]]


@contextmanager
def _watching(network: nn.Module) -> Iterator[_Watched]:
    """Note what goes into and comes out of every layer that has weights of its own."""
    seen = _Watched([])

    def note(layer: nn.Module, given: tuple[Any, ...], made: Any) -> None:
        taken = next((value for value in given if isinstance(value, Tensor)), None)
        if taken is not None:
            out = made if isinstance(made, Tensor) else taken
            seen.calls.append((layer, taken.detach().clone(), out.detach().clone()))

    layers = [module for module in network.modules() if module._parameters]
    hooks = [layer.register_forward_hook(note) for layer in layers]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _heads(
    calls: list[tuple[nn.Module, Tensor, Tensor]], mean: Array, scale: Array, name: str
) -> tuple[list[Any], Literal["separate", "interleaved", "stacked"]]:
    size, latents = mean.shape
    whole = [(layer, _table(made)) for layer, _, made in calls if isinstance(layer, _SLICEABLE) and len(made) == size]
    for layer, made in whole:
        if made.shape[1] == 2 * latents:
            if any(_alike(half, mean) for half in (made[:, :latents], made[:, latents:])):
                return [layer], "stacked"
            if any(_alike(half, mean) for half in (made[:, ::2], made[:, 1::2])):
                return [layer], "interleaved"
    first = next((layer for layer, made in whole if _alike(made, mean)), None)
    others = [(layer, made) for layer, made in whole if made.shape[1] == latents and layer is not first]
    # A scale that was squashed after its layer equals no output: then it is the last layer of that size.
    second = next((layer for layer, made in others if _alike(made, scale)), others[-1][0] if others else None)
    if first is None or second is None:
        part = "mean" if first is None else "scale"
        raise ConfigError(
            f"expected a linear or convolutional layer that gives the {part} of each variable, {name} has none: what "
            "its encoder returns is changed after the layer, or comes from a layer of another kind, and cannot be cut"
        )
    return [first, second], "separate"


def _entries(calls: list[tuple[nn.Module, Tensor, Tensor]], codes: Array, name: str) -> list[Any]:
    found = {id(layer): layer for layer, taken, _ in calls if len(taken) == len(codes) and _alike(_table(taken), codes)}
    other = next((type(layer).__name__ for layer in found.values() if not isinstance(layer, _SLICEABLE)), None)
    if not found or other is not None:
        came = f"a {other} takes it" if other else "none takes it as it is"
        raise ConfigError(f"expected the code to enter linear or convolutional layers, in {name} {came}: cannot be cut")
    return list(found.values())


def _check_unused(network: nn.Module, used: set[int], latents: int) -> None:
    for name, layer in network.named_modules():
        size = getattr(layer, "in_features", getattr(layer, "in_channels", None))
        if isinstance(layer, _SLICEABLE) and id(layer) not in used and size == latents:
            raise ConfigError(
                f"expected only the decoder to take the code, {name} may take it too ({latents} inputs) and is not "
                "used to encode or decode: take it off the model before cutting"
            )


def _resize(attributes: dict[str, Any], latents: int, kept: int) -> None:
    """Let the sizes that a module or its config keeps under a latent's name say the new number."""
    for name, value in list(attributes.items()):
        if type(value) is int and value == latents and _SIZE_NAMES.search(name):
            attributes[name] = kept
        elif name in _CONFIGS:
            inner = value if isinstance(value, dict) else getattr(value, "__dict__", None)
            if isinstance(inner, dict):
                _resize(inner, latents, kept)


def _check_equal(
    before: Model, after: Model, asking: Asking, seen: Remembered, codes: Array, held: Array, chosen: list[int]
) -> None:
    """Ask both whether encodings and outputs are the same, as they are where nothing but the layers knows the size."""
    resting = np.tile(held, (len(codes), 1)).astype(np.float32)
    resting[:, chosen] = codes[:, chosen]
    try:
        new = _again(after, seen, asking)
        with untouched(*before.things, *after.things):
            ours, theirs = _decoder(before, seen), _decoder(after, new)
            outputs = [ours.draw(ours.decode(resting)), ours.draw(theirs.decode(codes[:, chosen]))]
        pairs = [(new.mean, seen.mean[:, chosen]), (new.variance, seen.variance[:, chosen]), (outputs[1], outputs[0])]
        same = all(_alike(*pair) for pair in pairs)
    except (PolarisedError, RuntimeError, TypeError, ValueError, IndexError) as error:
        raise ConfigError(
            f"expected a model whose layers alone know the number of variables, {before.name} stops once they are cut: "
            f"{error}"
        ) from error
    if not same:
        raise ConfigError(
            f"expected the same encodings and outputs after the cut, {before.name} gives others: something beside the "
            "layers that were found takes or makes the code"
        )


def _encoded(model: Model, batches: Batches, reading: Reading, *, seed: int = 0) -> Iterator[CodedInputs]:
    return encode_batches(model, batches, reading, named=batches.named, seed=seed)


def _again(model: Model, seen: Remembered, asking: Asking, *, seed: int = 0) -> Remembered:
    """Return what a module makes of inputs that were brought to its form already."""
    reading = replace(asking.reading, trust_scale=True, pixel_range=None)
    batches = Batches([InputBatch(seen.inputs, None)], named=True)
    coded = list(_encoded(replace(model, pixel_range=None), batches, reading, seed=seed))
    return _remembered(coded[0], model)


def _remembered(coded: CodedInputs, model: Model) -> Remembered:
    found = remembered_of(coded)
    if len(coded.groups) != 1 or coded.groups[0].mean.ndim != 2:
        shape = " and ".join(str(group.mean.shape[1:]) for group in coded.groups)
        raise ConfigError(
            f"expected one row of variables for each input, {model.name} encodes to {shape}: variables with positions "
            "or in groups cannot be cut, as layers between them would have to be cut too"
        )
    if not found:
        raise ConfigError(f"expected inputs that are arrays and one prior for all of them, {model.name} has others")
    return found[0]


def _decoder(model: Model, seen: Remembered) -> Decoder:
    found = decoder_of(model, seen)
    if found is None:
        raise ConfigError(f"expected a model with a decoder to prune, {model.name} shows none; give decode=")
    return found


def _rate(seen: Remembered) -> float:
    """Return the KL from the prior's moments, summed over inputs and variables."""
    ratio = seen.variance.astype(np.float64) / seen.prior_variance
    gap = np.square(seen.mean - seen.prior_mean, dtype=np.float64) / seen.prior_variance
    return float(0.5 * (ratio + gap - 1 - np.log(ratio)).sum())


def _table(values: Tensor) -> Array:
    found: Array = values.reshape(len(values), -1).float().cpu().numpy()
    return found


def _numbers(values: ArrayLike | Tensor) -> Array:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def _alike(first: Array, second: Array) -> bool:
    if first.shape != second.shape:
        return False
    return bool(np.allclose(first, second, rtol=1e-4, atol=1e-5 * max(1.0, float(np.abs(second).max()))))
