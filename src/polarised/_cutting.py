"""A smaller copy of anybody's torch module, and the proof on the user's data that it does what the larger one did.

Which layers hold the latent variables is seen by watching a copy at work: the heads give what the encoder returns, the
decoder's first layer takes the code. Of diffusers and scvi-tools it is known, and a model of theirs is built anew with
fewer variables, so that the library itself can store and load it. The given model is only asked, never changed.
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
# Some inputs as a model encodes them, and its decoder.
Look = tuple[Remembered, Decoder]

# Inputs that are enough to see which layers hold the code, and images of diffusers that are encoded at once.
_WATCHED, _FEW = 64, 8
_SIZE_NAMES = re.compile(r"latent|^n?_?z(_?(dim|size|features))?$|^code|bottleneck")
_CONFIGS = ("config", "model_config", "cfg", "args", "hparams", "_hparams")
# Whose models cannot be cut, and why.
_REFUSED = dict.fromkeys(("keras", "flax"), "only layers of torch are cut")
# What is not the same although encoder and decoder are.
BORDER = (
    "Outputs differ at the border of the picture: the config of diffusers has one number of channels on both sides of "
    "post_quant_conv, so that what its bias and the dropped channels gave is added behind the decoder's zero padding; "
    "polarised.prune gives the exact model in memory."
)
_IN_MEMORY = (
    "Diffusers cannot load this model from a folder, as its config has one number of channels on both sides of "
    "post_quant_conv; `polarised prune` writes the nearest one that it can."
)
_DIFFUSION = "A diffusion model that was trained on all channels does not fit the smaller autoencoder."
_SECOND = (
    "The second latent variable, which only training uses, was cut to as many dimensions and has to be trained again."
)


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


@dataclass(frozen=True, eq=False)
class Cut:
    """A smaller model and what it holds dropped variables at.

    Args:
        model: The smaller model.
        constants: What each variable is held at where it is dropped, (d,).
        remarks: What is not the same although encoder and decoder are.
        loadable: What its library can store and load again, where that is another model.
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
    """Return a model of others cut to some latent variables, checked against the model itself.

    Args:
        model: The model.
        keep: The variables to keep.
        data: Some inputs.
        constants: What dropped variables have to be held at.
        preferred: What they are held at if the layers can hold it, where `constants` are not given.
        asking: How the model is asked.

    Raises:
        ConfigError: If the model cannot be cut, with the reason.
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
    """Return how models of this library are cut."""
    found = libraries_of(model)
    for library in found & _REFUSED.keys():
        raise ConfigError(
            f"expected a model that can be cut, {type(model).__name__} of {library} cannot: {_REFUSED[library]}; "
            "polarised.diagnose says which variables to leave unused"
        )
    if "scvi" in found and not isinstance(model, nn.Module):
        return _cut_cells
    if "diffusers" in found:
        return _cut_autoencoder
    if not isinstance(model, nn.Module):
        raise ConfigError(
            f"expected a torch module, whose layers can be cut, got {type(model).__name__}; "
            "give the module that holds encoder and decoder"
        )
    return _cut_watched


def _cut_cells(model: Any, keep: list[int], data: Any, asking: Asking, wanted: Array | None) -> Cut:
    """Cut a model of scvi-tools, which is built anew with fewer dimensions."""
    with untouched():
        smaller = cut_scvi(model, keep, wanted)
    held = _constants(wanted, 0.0, model.module.n_latent)
    _check_built(model, smaller, keep, data, asking, held)
    return Cut(smaller, held, (_SECOND,) if hasattr(model.module, "encoder_z2_z1") else ())


def _cut_autoencoder(
    model: Any, keep: list[int], data: Any, asking: Asking, wanted: Array | None, *, firm: bool = False
) -> Cut:
    """Cut an autoencoder of diffusers: as its config can describe it if that is exact, else in memory."""
    whole = asking.of(model).things[0]
    like = next(whole.parameters())
    # Weights are merged, which only single precision can show to be exact.
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
    with _telling_why(type(before).__name__):
        first, second = next(_looks(before, after, data, asking, batch_size=_WATCHED, examples=_WATCHED))
    codes = np.random.default_rng(0).normal(size=first[0].mean.shape).astype(np.float32)
    _check_equal(type(before).__name__, first, second, codes, held, keep)


def _cut_watched(model: nn.Module, keep: list[int], data: Any, asking: Asking, wanted: Array | None) -> Cut:
    """Cut a torch module whose layers around the code are seen at work."""
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
    with _telling_why(known.name):
        new = _again(after, remembered, asking)
        looks = (remembered, _decoder(before, remembered)), (new, _decoder(after, new))
        _check_equal(known.name, *looks, codes, held, chosen)
    return Cut(smaller, held)


def _looks(
    before: Any, after: Any, data: Any, asking: Asking, *, batch_size: int, examples: int | None = None, seed: int = 0
) -> Iterator[tuple[Look, Look]]:
    """Yield batches as both models see them."""
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
        new = _again(second, old, asking, seed=seed)
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
    """Return the numbers of a pruning report, asked of both models' own encoders and decoders batch by batch.

    Losses are -log p(x|z) where the decoder tells a likelihood; otherwise both are measured in nats of a Gaussian as
    wide as the reconstruction error of the larger model.

    Raises:
        DataError: If there are no inputs, or `keep` is not that of the smaller model.
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
                f"expected a pruned model of {len(chosen)} latents, got {new.mean.shape[1]}; is `keep` its own?"
            )
        if nats is None or not ours.assumed:
            nats, assumed = ours.distortion, ours.assumed
        draws = noise.standard_normal(old.mean.shape)
        resting = _resting(_constants(constants, old.prior_mean, latents), new.mean, chosen)
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
    size, latents = mean.shape[:2]
    whole = [(layer, _shaped(made, mean)) for layer, _, made in calls if isinstance(layer, Layer) and len(made) == size]
    for layer, made in whole:
        if made.shape[1] == 2 * latents:
            if any(_alike(half, mean) for half in (made[:, :latents], made[:, latents:])):
                return [layer], "stacked"
            if any(_alike(half, mean) for half in (made[:, ::2], made[:, 1::2])):
                return [layer], "interleaved"
    first = next((layer for layer, made in whole if _alike(made, mean)), None)
    others = [(layer, made) for layer, made in whole if made.shape == mean.shape and layer is not first]
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
    found = {
        id(layer): layer
        for layer, taken, _ in calls
        if len(taken) == len(codes) and _alike(_shaped(taken, codes), codes)
    }
    other = next((type(layer).__name__ for layer in found.values() if not isinstance(layer, Layer)), None)
    if not found or other is not None:
        came = f"a {other} takes it" if other else "none takes it as it is"
        raise ConfigError(f"expected the code to enter linear or convolutional layers, in {name} {came}: cannot be cut")
    return list(found.values())


def _check_unused(network: nn.Module, used: set[int], latents: int) -> None:
    for name, layer in network.named_modules():
        size = getattr(layer, "in_features", getattr(layer, "in_channels", None))
        if isinstance(layer, Layer) and id(layer) not in used and size == latents:
            raise ConfigError(
                f"expected only the decoder to take the code, {name} may take it too ({latents} inputs) and is not "
                "used to encode or decode: take it off the model before cutting"
            )


def _resize(attributes: dict[str, Any], latents: int, kept: int) -> None:
    """Let the sizes that a module or its config keeps under a latent's name say the new number."""
    for name, value in list(attributes.items()):
        # Tiles of diffusers are as large as latents are wide, which is another size.
        if type(value) is int and value == latents and _SIZE_NAMES.search(name) and not name.startswith("tile_"):
            attributes[name] = kept
        elif name in _CONFIGS:
            inner = value if isinstance(value, dict) else getattr(value, "__dict__", None)
            if isinstance(inner, dict):
                _resize(inner, latents, kept)


class _UnequalError(ConfigError):
    """A cut that is none, as the smaller model gives something else."""


@contextmanager
def _telling_why(name: str) -> Iterator[None]:
    try:
        yield
    except ConfigError:
        raise
    except (PolarisedError, RuntimeError, TypeError, ValueError, IndexError) as error:
        raise ConfigError(
            f"expected a model whose layers alone know the number of variables, {name} stops once they are cut: {error}"
        ) from error


def _check_equal(name: str, first: Look, second: Look, codes: Array, held: Array, chosen: list[int]) -> None:
    """Ask both whether encodings and outputs are the same, as they are where nothing but the layers knows the size."""
    (seen, ours), (new, theirs) = first, second
    resting = _resting(held, codes[:, chosen], chosen).astype(np.float32)
    with _telling_why(name), untouched(*ours.things, *theirs.things):
        outputs = [ours.draw(ours.decode(resting)), ours.draw(theirs.decode(codes[:, chosen]))]
        pairs = [(new.mean, seen.mean[:, chosen]), (new.variance, seen.variance[:, chosen]), (outputs[1], outputs[0])]
        same = all(_alike(*pair) for pair in pairs)
    if not same:
        raise _UnequalError(
            f"expected the same encodings and outputs after the cut, {name} gives others: something beside the "
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
    if len(coded.groups) != 1 or (coded.groups[0].mean.ndim > 2 and model.axis != 1):
        shape = " and ".join(str(group.mean.shape[1:]) for group in coded.groups)
        raise ConfigError(
            f"expected one group of variables, or channels on the first axis of the code, {model.name} encodes to "
            f"{shape}: variables in groups or at positions of their own cannot be cut"
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
    centre, width = (_along(part, seen.mean) for part in (seen.prior_mean, seen.prior_variance))
    ratio = seen.variance.astype(np.float64) / width
    gap = np.square(seen.mean - centre, dtype=np.float64) / width
    return float(0.5 * (ratio + gap - 1 - np.log(ratio)).sum())


def _along(values: Array | float, codes: Array) -> Array:
    """Return a number for each variable, or one for all, so that it goes with codes (n, d, ...)."""
    return np.reshape(values, (1, -1, *(1,) * (codes.ndim - 2)))


def _resting(held: Array, kept: Array, chosen: list[int]) -> Array:
    """Return codes of all variables: the kept ones, and the others at their constants."""
    whole = np.broadcast_to(_along(held, kept), (len(kept), len(held), *kept.shape[2:])).copy()
    whole[:, chosen] = kept
    return whole


def _constants(wanted: ArrayLike | Tensor | None, prior_mean: Array | float, latents: int) -> Array:
    values = np.asarray(prior_mean if wanted is None else _numbers(wanted), dtype=np.float64)
    return np.broadcast_to(values, (latents,))


def _shaped(values: Tensor, codes: Array) -> Array:
    """Return what a layer gave or took, laid out as codes are."""
    found: Array = values.float().cpu().numpy()
    return found if found.ndim == codes.ndim and found.ndim > 2 else found.reshape(len(found), -1)


def _numbers(values: ArrayLike | Tensor) -> Array:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def _alike(first: Array, second: Array) -> bool:
    if first.shape != second.shape:
        return False
    return bool(np.allclose(first, second, rtol=1e-4, atol=1e-5 * max(1.0, float(np.abs(second).max()))))
