"""A smaller copy of any torch module, and the proof on the user's data that it behaves like the larger one.

The layers around the latent variables are found by observing a copy: the heads return the output of the encoder, the
decoder's first layer takes the code. For diffusers and scvi-tools they are known, and the model is rebuilt with
fewer variables, so that its library can save and load it. The given model is only called, never changed.
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
from polarised.adapters.diffusers import channels_held, cut_diffusers, is_loadable, say_channels
from polarised.adapters.models import Model, libraries_of, model_of, untouched
from polarised.adapters.scvi import cells_of, cut_scvi
from polarised.errors import ConfigError, DataError, PolarisedError
from polarised.models.slicing import Layer, UnfitConstantsError, checked_keep, slice_layers
from polarised.random import seed_for
from polarised.resolving import remembered_of

__all__ = ["BORDER", "Asking", "Cut", "compare_models", "cut_model"]

Array = NDArray[Any]
# Some inputs as encoded by a model, and its decoder.
Look = tuple[Remembered, Decoder]

# Inputs sufficient to find the layers around the code, and images that diffusers encodes at once.
_WATCHED, _FEW = 64, 8
_SIZE_NAMES = re.compile(r"latent|^n?_?z(_?(dim|size|features))?$|^code|bottleneck")
_CONFIGS = ("config", "model_config", "cfg", "args", "hparams", "_hparams")
# Libraries whose models cannot be pruned, and why.
_REFUSED = dict.fromkeys(("keras", "flax"), "only layers of torch can be pruned")
# Differences that remain although encoder and decoder are the same.
BORDER = (
    "Outputs differ at the border of the picture: the config of diffusers has one number of channels on both sides of "
    "post_quant_conv, so the contribution of its bias and the dropped channels is added after the decoder's zero "
    "padding; polarised.prune gives the exact model in memory."
)
_IN_MEMORY = (
    "Diffusers cannot load this model from a folder, as its config has one number of channels on both sides of "
    "post_quant_conv; `polarised prune` writes the nearest model that it can load."
)
_DIFFUSION = "A diffusion model trained on all channels does not fit the smaller autoencoder."
_SECOND = (
    "The second latent variable, used only in training, was reduced to as many dimensions and must be trained again."
)


@dataclass(frozen=True)
class Asking:
    """How a module is called: each function takes the module first, so that the smaller one is called the same way.

    Args:
        encode: From module and batch to mean and scale; the encoder of the module if None.
        decode: From module and codes to outputs; the decoder of the module if None.
        scale_kind: The kind of the scale, if its name does not show it.
        pixel_range: The range of pixels on which the model was trained, if it is not known.
    """

    encode: Callable[[Any, Any], Any] | None = None
    decode: Callable[[Any, Any], Any] | None = None
    scale_kind: ScaleKind | None = None
    pixel_range: Range | None = None

    @property
    def reading(self) -> Reading:
        """How the outputs of the encoder are interpreted."""
        return Reading(self.scale_kind, pixel_range=self.pixel_range)

    def of(self, module: nn.Module) -> Model:
        """Return the description of a module, with the given functions."""
        encode, decode = (None if own is None else partial(own, module) for own in (self.encode, self.decode))
        found = model_of(module, encode=encode, decode=decode)
        if found.decode is None:
            raise ConfigError(f"expected a model with a decoder to prune, {found.name} has none; pass decode=")
        return found


@dataclass(frozen=True, eq=False)
class Cut:
    """A smaller model and the constants of its dropped variables.

    Args:
        model: The smaller model.
        constants: The constant of each variable if dropped, (d,).
        remarks: Differences that remain although encoder and decoder are the same.
        loadable: The model that its library can save and load, if it is another one.
    """

    model: Any
    constants: Array
    remarks: tuple[str, ...] = ()
    loadable: Any = None


def cut_model(
    model: Any,
    keep: Iterable[int],
    data: Any,
    *,
    constants: ArrayLike | Tensor | None = None,
    preferred: Array | None = None,
    asking: Asking,
) -> Cut:
    """Return a model of another library reduced to some latent variables, checked against the original.

    Args:
        model: The model.
        keep: The variables to keep.
        data: Some inputs.
        constants: The required constants of dropped variables.
        preferred: Their constants if the layers allow it and `constants` are not given.
        asking: How the model is called.

    Raises:
        ConfigError: If the model cannot be pruned, with the reason.
    """
    cut, chosen = _cut_of(model), [int(j) for j in keep]
    if constants is not None:
        firm = {"firm": True} if cut is _cut_autoencoder else {}
        return cut(model, chosen, data, asking, _numbers(constants), **firm)
    try:
        return cut(model, chosen, data, asking, preferred)
    except UnfitConstantsError:
        return cut(model, chosen, data, asking, None)


def _cut_of(model: Any) -> Callable[..., Cut]:
    """Return the function that prunes models of this library."""
    found = libraries_of(model)
    for library in found & _REFUSED.keys():
        raise ConfigError(
            f"expected a model that can be pruned, {type(model).__name__} of {library} cannot: {_REFUSED[library]}; "
            "use polarised.diagnose to find the variables to leave unused"
        )
    if "scvi" in found and not isinstance(model, nn.Module):
        return _cut_cells
    if "diffusers" in found:
        return _cut_autoencoder
    if not isinstance(model, nn.Module):
        raise ConfigError(
            f"expected a torch module, whose layers can be pruned, got {type(model).__name__}; "
            "pass the module that has encoder and decoder"
        )
    return _cut_watched


def _cut_cells(model: Any, keep: list[int], data: Any, asking: Asking, wanted: Array | None) -> Cut:
    """Prune a model of scvi-tools by rebuilding it with fewer dimensions."""
    with untouched():
        smaller = cut_scvi(model, keep, wanted)
    held = _constants(wanted, 0.0, model.module.n_latent)
    _check_built(model, smaller, keep, data, asking, held)
    return Cut(smaller, held, (_SECOND,) if hasattr(model.module, "encoder_z2_z1") else ())


def _cut_autoencoder(
    model: Any, keep: list[int], data: Any, asking: Asking, wanted: Array | None, *, firm: bool = False
) -> Cut:
    """Prune an autoencoder of diffusers: as described by its config if that is exact, else in memory."""
    whole = asking.of(model).things[0]
    like = next(whole.parameters())
    # Weights are merged; only single precision can show that this is exact.
    exact = whole if like.dtype == torch.float32 else copy.deepcopy(whole).float()
    held = wanted if firm and wanted is not None else channels_held(exact, keep, 0.0 if wanted is None else wanted)
    built = _built(exact, keep, held).to(like.device)
    try:
        _check_built(exact, built, keep, data, asking, held)
        smaller = built
    except _UnequalError:
        cut = _cut_watched(exact, keep, data, asking, wanted)
        smaller, held, built = cut.model, cut.constants, _built(exact, keep, cut.constants).to(like.device)
        say_channels(smaller, whole, keep)
    smaller, built = (each.to(like.dtype).train(whole.training) for each in (smaller, built))
    return Cut(smaller, held, (_DIFFUSION,), built)


def _built(whole: Any, keep: list[int], held: Array) -> Any:
    with untouched():
        return cut_diffusers(whole, keep, held)


def _check_built(before: Any, after: Any, keep: list[int], data: Any, asking: Asking, held: Array) -> None:
    with _explaining_failure(type(before).__name__):
        first, second = next(_looks(before, after, data, asking, batch_size=_WATCHED, examples=_WATCHED))
    codes = np.random.default_rng(0).normal(size=first[0].mean.shape).astype(np.float32)
    _check_equal(type(before).__name__, first, second, codes, held, keep)


def _cut_watched(model: nn.Module, keep: list[int], data: Any, asking: Asking, wanted: Array | None) -> Cut:
    """Prune a torch module whose layers around the code are found by observation."""
    smaller = _copied(model)
    known = asking.of(smaller)
    with _watching(smaller) as seen:
        batches = batches_of(data, batch_size=_WATCHED, examples=_WATCHED)
        coded = next(iter(_encoded(known, batches, asking.reading)))
        encoding, seen.calls = seen.calls, []
        remembered, scale = _remembered(coded, known), coded.groups[0].scale
        latents = remembered.mean.shape[1]
        chosen = checked_keep(keep, latents)
        codes = np.random.default_rng(0).normal(size=remembered.mean.shape).astype(np.float32)
        decoder = _decoder(known, remembered)
        with untouched(*known.things):
            decoder.decode(codes)
        decoding = seen.calls
    held = _constants(wanted, remembered.prior_mean, latents)
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
    before, after = asking.of(model), asking.of(smaller)
    with _explaining_failure(known.name):
        new = _encode_again(after, remembered, asking)
        looks = (remembered, _decoder(before, remembered)), (new, _decoder(after, new))
        _check_equal(known.name, *looks, codes, held, chosen)
    return Cut(smaller, held)


def _looks(
    before: Any, after: Any, data: Any, asking: Asking, *, batch_size: int, examples: int | None = None, seed: int = 0
) -> Iterator[tuple[Look, Look]]:
    """Yield batches as both models encode them."""
    if "scvi" in libraries_of(before):
        rows = None if examples is None else np.arange(min(examples, (before.adata if data is None else data).n_obs))
        with untouched(before.module, after.module, seed=seed):
            both = [cells_of(each, data, rows=rows, batch_size=batch_size) for each in (before, after)]
            yield from zip(*both, strict=True)
        return
    first, second = asking.of(before), asking.of(after)
    size = min(batch_size, _FEW) if first.kind == "diffusers" else batch_size
    batches = batches_of(data, batch_size=size, examples=examples, size=first.image_size, seed=seed)
    for coded in _encoded(first, batches, asking.reading, seed=seed):
        old = _remembered(coded, first)
        new = _encode_again(second, old, asking, seed=seed)
        yield (old, _decoder(first, old)), (new, _decoder(second, new))


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
    examples: int | None = None,
) -> dict[str, Any]:
    """Return the numbers of a pruning report, from the encoders and decoders of both models, batch by batch.

    Losses are -log p(x|z) if the decoder has a likelihood; otherwise both are in nats of a Gaussian with the
    variance of the reconstruction error of the larger model.

    Raises:
        DataError: If there are no inputs, or `keep` does not match the smaller model.
    """
    named = list(keep)
    autoencoder = "diffusers" in libraries_of(before)
    if constants is None and autoencoder and is_loadable(after):
        constants = channels_held(before, named)
    noise = np.random.default_rng(seed_for(seed, "pruning"))
    totals, changes, images, chosen, latents, assumed = np.zeros((2, 3)), np.zeros(2), 0, [0], 0, ""
    nats: Callable[[Array, Any], Array] | None = None
    looks = _looks(before, after, data, asking, batch_size=batch_size, examples=examples, seed=seed)
    for (old, ours), (new, theirs) in looks:
        latents = old.mean.shape[1]
        chosen = checked_keep(named, latents)
        if new.mean.shape[1] != len(chosen):
            raise DataError(
                f"expected a pruned model of {len(chosen)} latents, got {new.mean.shape[1]}; pass the same `keep`"
            )
        if nats is None or not ours.assumed:
            nats, assumed = ours.distortion, ours.assumed
        draws = noise.standard_normal(old.mean.shape)
        resting = _with_constants(_constants(constants, old.prior_mean, latents), new.mean, chosen)
        with untouched(*ours.things, *theirs.things, seed=seed):
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
        "parameters": tuple(sum(p.numel() for p in _network(each).parameters()) for each in (before, after)),
        "distortion": tuple(distortion),
        "sampled_distortion": tuple(sampled),
        "rate": tuple(rate),
        "encodings": float(changes[0]),
        "outputs": float(changes[1]),
        "assumed": assumed if not autoencoder or is_loadable(after) else f"{assumed} {_IN_MEMORY}".strip(),
    }


def _network(model: Any) -> nn.Module:
    found: nn.Module = model if isinstance(model, nn.Module) else getattr(model, "module", None) or model.vae
    return found


def _copied(model: nn.Module) -> nn.Module:
    # A module fitted with Lightning refers to its trainer, and through it to all data.
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
    """Record the inputs and outputs of every layer with its own weights."""
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
    size, latents = mean.shape[:2]
    whole = [(layer, _shaped(made, mean)) for layer, _, made in calls if isinstance(layer, Layer) and len(made) == size]
    for layer, made in whole:
        if made.shape[1] == 2 * latents:
            if any(_close(half, mean) for half in (made[:, :latents], made[:, latents:])):
                return [layer], "stacked"
            if any(_close(half, mean) for half in (made[:, ::2], made[:, 1::2])):
                return [layer], "interleaved"
    first = next((layer for layer, made in whole if _close(made, mean)), None)
    others = [(layer, made) for layer, made in whole if made.shape == mean.shape and layer is not first]
    # A scale that is transformed after its layer equals no output: then use the last layer of that size.
    second = next((layer for layer, made in others if _close(made, scale)), others[-1][0] if others else None)
    if first is None or second is None:
        part = "mean" if first is None else "scale"
        raise ConfigError(
            f"expected a linear or convolutional layer that returns the {part} of each variable, {name} has none: the "
            "output of its encoder is changed after the layer or comes from another kind of layer, and cannot be pruned"
        )
    return [first, second], "separate"


def _entries(calls: list[tuple[nn.Module, Tensor, Tensor]], codes: Array, name: str) -> list[Any]:
    found = {
        id(layer): layer
        for layer, taken, _ in calls
        if len(taken) == len(codes) and _close(_shaped(taken, codes), codes)
    }
    other = next((type(layer).__name__ for layer in found.values() if not isinstance(layer, Layer)), None)
    if not found or other is not None:
        received = f"a {other} takes it" if other else "none takes it unchanged"
        raise ConfigError(f"expected the code to enter linear or convolutional layers, in {name} {received}")
    return list(found.values())


def _check_unused(network: nn.Module, used: set[int], latents: int) -> None:
    for name, layer in network.named_modules():
        size = getattr(layer, "in_features", getattr(layer, "in_channels", None))
        if isinstance(layer, Layer) and id(layer) not in used and size == latents:
            raise ConfigError(
                f"expected only the decoder to take the code, {name} may take it too ({latents} inputs) and is not "
                "used to encode or decode: remove it from the model before pruning"
            )


def _resize(attributes: dict[str, Any], latents: int, kept: int) -> None:
    """Set the sizes that a module or its config stores under the name of the latents to the new number."""
    for name, value in list(attributes.items()):
        # The size of tiles of diffusers equals the width of latents, but is another quantity.
        if type(value) is int and value == latents and _SIZE_NAMES.search(name) and not name.startswith("tile_"):
            attributes[name] = kept
        elif name in _CONFIGS:
            inner = value if isinstance(value, dict) else getattr(value, "__dict__", None)
            if isinstance(inner, dict):
                _resize(inner, latents, kept)


class _UnequalError(ConfigError):
    """The smaller model has other outputs."""


@contextmanager
def _explaining_failure(name: str) -> Iterator[None]:
    try:
        yield
    except ConfigError:
        raise
    except (PolarisedError, RuntimeError, TypeError, ValueError, IndexError) as error:
        raise ConfigError(
            f"expected only layers to depend on the number of variables, {name} fails after pruning: {error}"
        ) from error


def _check_equal(name: str, first: Look, second: Look, codes: Array, held: Array, chosen: list[int]) -> None:
    """Check that encodings and outputs of both are the same, as they are if only the layers depend on the size."""
    (seen, ours), (new, theirs) = first, second
    resting = _with_constants(held, codes[:, chosen], chosen).astype(np.float32)
    with _explaining_failure(name), untouched(*ours.things, *theirs.things):
        outputs = [ours.draw(ours.decode(resting)), ours.draw(theirs.decode(codes[:, chosen]))]
        pairs = [(new.mean, seen.mean[:, chosen]), (new.variance, seen.variance[:, chosen]), (outputs[1], outputs[0])]
        same = all(_close(*pair) for pair in pairs)
    if not same:
        raise _UnequalError(
            f"expected the same encodings and outputs after pruning, {name} gives others: something other than the "
            "found layers takes or makes the code"
        )


def _encoded(model: Model, batches: Batches, reading: Reading, *, seed: int = 0) -> Iterator[CodedInputs]:
    return encode_batches(model, batches, reading, named=batches.named, seed=seed)


def _encode_again(model: Model, seen: Remembered, asking: Asking, *, seed: int = 0) -> Remembered:
    """Return the results of a module for inputs that are already in its form."""
    reading = replace(asking.reading, trust_scale=True, pixel_range=None)
    batches = Batches([InputBatch(seen.inputs, None)], named=True)
    coded = list(_encoded(replace(model, pixel_range=None), batches, reading, seed=seed))
    return _remembered(coded[0], model)


def _remembered(coded: CodedInputs, model: Model) -> Remembered:
    found = remembered_of(coded)
    if len(coded.groups) != 1 or (coded.groups[0].mean.ndim > 2 and model.axis != 1):
        shape = " and ".join(str(group.mean.shape[1:]) for group in coded.groups)
        raise ConfigError(
            f"expected one group of variables, or channels on the first axis of the code, {model.name} encodes to "
            f"{shape}: variables in groups or at separate positions cannot be pruned"
        )
    if not found:
        raise ConfigError(f"expected inputs that are arrays and one prior for all of them, {model.name} has others")
    return found[0]


def _decoder(model: Model, seen: Remembered) -> Decoder:
    found = decoder_of(model, seen)
    if found is None:
        raise ConfigError(f"expected a model with a decoder to prune, {model.name} has none; pass decode=")
    return found


def _rate(seen: Remembered) -> float:
    """Return the KL from the moments of the prior, summed over inputs and variables."""
    centre, width = (_broadcast(part, seen.mean) for part in (seen.prior_mean, seen.prior_variance))
    ratio = seen.variance.astype(np.float64) / width
    gap = np.square(seen.mean - centre, dtype=np.float64) / width
    return float(0.5 * (ratio + gap - 1 - np.log(ratio)).sum())


def _broadcast(values: Array | float, codes: Array) -> Array:
    """Return a number for each variable, or one for all, in a shape that broadcasts with codes (n, d, ...)."""
    return np.reshape(values, (1, -1, *(1,) * (codes.ndim - 2)))


def _with_constants(held: Array, kept: Array, chosen: list[int]) -> Array:
    """Return codes of all variables: the kept ones, and the others at their constants."""
    whole = np.broadcast_to(_broadcast(held, kept), (len(kept), len(held), *kept.shape[2:])).copy()
    whole[:, chosen] = kept
    return whole


def _constants(wanted: ArrayLike | Tensor | None, prior_mean: Array | float, latents: int) -> Array:
    values = np.asarray(prior_mean if wanted is None else _numbers(wanted), dtype=np.float64)
    return np.broadcast_to(values, (latents,))


def _shaped(values: Tensor, codes: Array) -> Array:
    """Return the input or output of a layer in the shape of codes."""
    found: Array = values.float().cpu().numpy()
    return found if found.ndim == codes.ndim and found.ndim > 2 else found.reshape(len(found), -1)


def _numbers(values: ArrayLike | Tensor) -> Array:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def _close(first: Array, second: Array) -> bool:
    if first.shape != second.shape:
        return False
    return bool(np.allclose(first, second, rtol=1e-4, atol=1e-5 * max(1.0, float(np.abs(second).max()))))
