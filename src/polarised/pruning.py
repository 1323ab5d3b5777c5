"""A smaller VAE without given variables, and the proof that nothing was lost.

A passive variable carries no information for the decoder: its sample comes from the prior for every image. Removing it
drops its rows of the encoder's heads and its column of the decoder's first layer, and adds its constant value, by
default the prior mean, to the bias of that layer.
"""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from polarised._io import plain
from polarised._io.files import new_folder
from polarised.adapters.arrays import ScaleKind
from polarised.adapters.published import read_state, write_state
from polarised.adapters.targets import Target, images_named, open_target
from polarised.diagnosis import diagnose
from polarised.errors import ConfigError, DataError
from polarised.metrics.downstream import logistic_regression
from polarised.models.networks import evaluating
from polarised.models.slicing import Layer, checked_keep, slice_layers
from polarised.models.vae import VAE, save_vae
from polarised.random import seed_for
from polarised.regime import Encodings, Regime
from polarised.regime.classify import Rule
from polarised.registry import nearest
from polarised.schemas import stamp

__all__ = [
    "PrunedModel",
    "PrunedWeights",
    "PruningReport",
    "prune",
    "prune_model",
    "prune_state",
    "prune_weights",
    "pruned_config",
    "pruning_report",
]


AnyModel = TypeVar("AnyModel")


def prune(
    model: AnyModel,
    keep: Iterable[int],
    *,
    data: Any = None,
    u: np.ndarray[Any, Any] | Tensor | None = None,
    constants: np.ndarray[Any, Any] | Tensor | None = None,
    encode: Callable[[Any, Any], Any] | None = None,
    decode: Callable[[Any, Any], Any] | None = None,
    scale_kind: ScaleKind | None = None,
    pixel_range: tuple[float, float] | None = None,
) -> AnyModel:
    """Return a smaller model with only the variables in `keep`, in that order; the given model is not changed.

    decoder'(z_keep) = decoder(z) with z_j = E[z_j] under the prior for every dropped j. If the prior mean depends on
    auxiliary variables, the constant is its average over `u` (n, k) [Bonheme2023BeMoreActive, section 4].
    For other models, the layers around the code are found by observing a copy that encodes and decodes some `data`;
    a model of scvi-tools, or of diffusers if its config can describe the smaller one exactly, is rebuilt by its
    library, so that it can be saved and loaded. The result has the same outputs as the model with the dropped
    variables at their constants.

    Args:
        model: A VAE of this library, a model of pythae, diffusers or scvi-tools, a LightningModule or any torch module
            that encodes and decodes.
        keep: The variables to keep, in their new order.
        data: Some inputs, for a model of another library, in any form that `polarised.diagnose` accepts; for scvi-tools
            by default its own cells.
        u: Auxiliary variables (n, k) over which to average the prior mean, if it depends on them.
        constants: The constant of each variable if dropped, (d,): by default the prior mean. A variable that
            is noise around another value needs that value, usually the average of the encoder's means. By
            default, channels of diffusers are held at the value that needs no bias before the padding, or as close to
            it as one prior standard deviation from the prior mean allows.
        encode: How a model of another library encodes, from model and batch to mean and scale, if not recognised.
        decode: How it decodes, from model and codes to outputs, if not recognised.
        scale_kind: The kind of its scale, if its name does not show it.
        pixel_range: The range of pixels on which it was trained, if it is not known.

    Returns:
        The smaller model.

    Raises:
        ConfigError: If a variable does not exist or is named twice, or the model cannot be pruned, with the reason.

    >>> from polarised.models import build_vae
    >>> vae = build_vae({"architecture": "mlp", "latents": 4}, shape=(1, 16, 16))
    >>> prune(vae, [0, 3]).latents
    2
    """
    if not isinstance(model, VAE):
        from polarised._cutting import Asking, cut_model

        asking = Asking(encode, decode, scale_kind, pixel_range)
        smaller: AnyModel = cut_model(model, keep, data, constants=constants, asking=asking).model
        return smaller
    vae: VAE = model
    chosen = checked_keep(keep, vae.latents)
    layers = slice_layers(
        vae.encoder.mean_head,
        vae.encoder.log_variance_head,
        vae.decoder.input,
        chosen,
        constants=_prior_mean(vae, u) if constants is None else torch.as_tensor(constants),
    )
    pruned = copy.deepcopy(vae)
    pruned.encoder.mean_head = layers.mean_head
    pruned.encoder.log_variance_head = layers.log_variance_head
    pruned.decoder.input = layers.decoder_input
    pruned.prior = vae.prior.kept(chosen)
    like = next(vae.parameters())
    return pruned.to(like.device, like.dtype).train(vae.training)  # type: ignore[return-value]


def pruned_config(config: Mapping[str, Any], keep: Sequence[int]) -> dict[str, Any]:
    """Return the model section of a config with `latents`, and settings given per variable, reduced to `keep`.

    `build_vae` with this config has the shapes of the state of the pruned model.

    >>> pruned_config({"latents": 3, "prior": {"name": "Anisotropic", "variances": [3, 2, 1]}}, [0, 2])
    {'latents': 2, 'prior': {'name': 'Anisotropic', 'variances': [3, 1]}}
    """
    prior = config.get("prior", "StandardNormal")
    if isinstance(prior, Mapping):
        prior = dict(prior)
        if prior.get("variances") is not None:
            prior["variances"] = [prior["variances"][j] for j in keep]
        if prior.get("means") is not None:
            prior["means"] = [[mean[j] for j in keep] for mean in prior["means"]]
    return {**config, "latents": len(keep), "prior": prior}


@dataclass(frozen=True)
class PruningReport:
    """The effect of pruning on given images: each pair is (before, after); losses are in nats per image.

    `distortion` is -log p(x|z) at the mean of q(z|x), `sampled_distortion` at a sample with the same noise in
    the kept variables, `rate` the KL; `encodings` is the largest change of a kept mean or log-variance.

    Args:
        keep: The kept variables.
        dropped: The dropped variables.
        images: The number of images.
        parameters: The number of parameters before and after.
        distortion: -log p(x|z) at the mean, before and after.
        sampled_distortion: The same at a sample.
        rate: The KL, before and after.
        encodings: The largest change of a kept mean or log-variance.
        outputs: The largest change of the outputs of the decoder, compared with the larger model with every dropped
            variable at its constant.
        assumed: The assumption on the likelihood of a model of another library, or empty if it is known.
    """

    keep: tuple[int, ...]
    dropped: tuple[int, ...]
    images: int
    parameters: tuple[int, int]
    distortion: tuple[float, float]
    sampled_distortion: tuple[float, float]
    rate: tuple[float, float]
    encodings: float
    outputs: float
    assumed: str = ""

    @property
    def distortion_change(self) -> float:
        """The increase of the distortion at the mean, in nats."""
        return self.distortion[1] - self.distortion[0]

    def __str__(self) -> str:
        pairs = {
            "parameters": self.parameters,
            "reconstruction": self.distortion,
            "reconstruction from samples": self.sampled_distortion,
            "KL": self.rate,
        }
        lines = [f"{name:<28}{old:>14,.2f} -> {new:>14,.2f}   {new - old:+,.3f}" for name, (old, new) in pairs.items()]
        kept, dropped = ", ".join(map(str, self.keep)), ", ".join(map(str, self.dropped)) or "nothing"
        return "\n".join(
            [
                f"kept {kept}; dropped {dropped}",
                *lines,
                f"largest change of a kept encoding: {self.encodings:.2g}",
                f"largest change of an output, dropped variables at their constants: {self.outputs:.2g}",
                *([self.assumed] if self.assumed else []),
            ]
        )


@torch.no_grad()
def pruning_report(
    before: AnyModel,
    after: AnyModel,
    data: Any,
    *,
    keep: Iterable[int],
    u: np.ndarray[Any, Any] | Tensor | None = None,
    constants: np.ndarray[Any, Any] | Tensor | None = None,
    encode: Callable[[Any, Any], Any] | None = None,
    decode: Callable[[Any, Any], Any] | None = None,
    scale_kind: ScaleKind | None = None,
    pixel_range: tuple[float, float] | None = None,
    seed: int = 0,
    batch_size: int = 256,
) -> PruningReport:
    """Compare a model with its pruned version on data: reconstruction, KL, encodings, outputs and size.

    Args:
        before: The larger model.
        after: The model returned by `prune`.
        data: Images (n, channels, height, width), or for a model of another library any data of `polarised.diagnose`.
        keep: The kept variables.
        u: Auxiliary variables (n, k), if the prior depends on them.
        constants: The constants of dropped variables, if passed to `prune`.
        encode: How a model of another library encodes, as passed to `prune`.
        decode: How it decodes, as passed to `prune`.
        scale_kind: The kind of its scale, if its name does not show it.
        pixel_range: The range of pixels on which it was trained, if it is not known.
        seed: Seed of the draws.
        batch_size: Number of inputs encoded at once.

    Returns:
        The effect of pruning.

    Raises:
        DataError: If there are no inputs, or `keep` does not match the smaller model.

    >>> from polarised.models import build_vae
    >>> vae = build_vae({"architecture": "mlp", "latents": 4}, shape=(1, 16, 16))
    >>> report = pruning_report(vae, prune(vae, [0, 3]), torch.zeros(2, 1, 16, 16), keep=[0, 3])
    >>> report.encodings < 1e-6, report.dropped
    (True, (1, 2))
    """
    if not isinstance(before, VAE) or not isinstance(after, VAE):
        from polarised._cutting import Asking, compare_models

        asking = Asking(encode, decode, scale_kind, pixel_range)
        numbers = compare_models(
            before, after, data, keep=keep, constants=constants, asking=asking, seed=seed, batch_size=batch_size
        )
        return PruningReport(**numbers)
    chosen = checked_keep(keep, before.latents)
    if after.latents != len(chosen):
        raise DataError(f"expected a pruned model of {len(chosen)} latents, got {after.latents}; pass the same `keep`")
    device = next(before.parameters()).device
    x = torch.as_tensor(data, dtype=torch.float32)
    if not len(x):
        raise DataError("expected at least one image to compare the two models on, got none")
    auxiliary = None if u is None else torch.as_tensor(u, dtype=torch.float32)
    noise = torch.randn(len(x), before.latents, generator=torch.Generator().manual_seed(seed_for(seed, "pruning")))
    totals, change, outputs = np.zeros((2, 3)), 0.0, 0.0
    held = _prior_mean(before, u) if constants is None else torch.as_tensor(constants)
    with evaluating(before), evaluating(after):
        for start in range(0, len(x), batch_size):
            rows = slice(start, start + batch_size)
            batch = x[rows].to(device), None if auxiliary is None else auxiliary[rows].to(device)
            part = noise[rows].to(device)
            first, totals_before = _losses(before, *batch, part)
            second, totals_after = _losses(after, *batch, part[:, chosen])
            totals += [totals_before, totals_after]
            change = max(change, (first[..., chosen] - second).abs().max().item())
            resting = held.to(second).expand(len(part), -1).clone()
            resting[:, chosen] = second[0]
            outputs = max(outputs, (before.decode(resting) - after.decode(second[0])).abs().max().item())
    distortion, sampled, rate = (totals / len(x)).T.tolist()
    sizes = [sum(p.numel() for p in vae.parameters()) for vae in (before, after)]
    return PruningReport(
        keep=tuple(chosen),
        dropped=tuple(j for j in range(before.latents) if j not in chosen),
        images=len(x),
        parameters=(sizes[0], sizes[1]),
        distortion=(distortion[0], distortion[1]),
        sampled_distortion=(sampled[0], sampled[1]),
        rate=(rate[0], rate[1]),
        encodings=change,
        outputs=outputs,
    )


def _losses(vae: VAE, x: Tensor, u: Tensor | None, noise: Tensor) -> tuple[Tensor, list[float]]:
    posterior = vae.posterior(x, u)
    z = posterior.sample(noise=noise)
    at_mean, at_sample = (-vae.likelihood.log_prob(x, vae.decode(code)).sum().item() for code in (posterior.mean, z))
    rate = vae.prior.given(u).kl(posterior, z).sum().item()
    return torch.stack([posterior.mean, posterior.log_variance]), [at_mean, at_sample, rate]


def _prior_mean(vae: VAE, u: np.ndarray[Any, Any] | Tensor | None) -> Tensor:
    if not vae.prior.conditional:
        return vae.prior.moments(1)[0][0].detach()
    if getattr(vae.prior, "mean", None) == "zero":
        return torch.zeros(vae.latents)
    if u is None:
        raise ConfigError(
            "expected u, the auxiliary variables of the data, to prune a model whose prior mean is learned from them; "
            "call prune(vae, keep, u=...)"
        )
    like = next(vae.parameters())
    known = torch.as_tensor(u, dtype=like.dtype, device=like.device)
    with torch.no_grad():
        return vae.prior.given(known).moments(len(known))[0].mean(0)


@dataclass(frozen=True, eq=False)
class PrunedModel:
    """A smaller model and the proof that it behaves like the larger one.

    Args:
        model: The smaller model.
        config: The config with which `build_vae` builds its network; empty for a model of another library.
        auxiliary_size: The number of its auxiliary variables.
        report: The effect of pruning.
        doubtful: Passive variables that are kept because they are doubtful.
        accuracy: Accuracy of predicting the factors from the means, before and after, if there are factors.
        remarks: Further remarks on the smaller model.
        write: How its library saves a model into a new folder; None for models of this library.
    """

    model: Any
    config: Mapping[str, Any]
    auxiliary_size: int
    report: PruningReport
    doubtful: tuple[int, ...] = ()
    accuracy: tuple[float, float] | None = None
    remarks: tuple[str, ...] = ()
    write: Callable[[str], object] | None = None

    def save(self, path: str | Path) -> Path:
        """Write the smaller model: one of this library as a safetensors file, another one as its library does.

        Args:
            path: The file; for a model of another library, a folder that does not exist yet.

        Returns:
            The file or folder.

        Raises:
            DataError: If the folder already exists.
        """
        if self.write is None:
            save_vae(self.model, Path(path), config=dict(self.config), auxiliary_size=self.auxiliary_size)
        else:
            with new_folder(path) as folder:
                self.write(str(folder))
        return Path(path)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the model as plain JSON types; pairs are before and after."""
        proof = {name: value for name, value in plain(asdict(self.report)).items() if name != "assumed"}
        remarks = [each for each in (self.report.assumed, *self.remarks) if each]
        further = {"passive_but_kept": list(self.doubtful), "accuracy": plain(self.accuracy), "remarks": remarks}
        return stamp("pruning", {**proof, **further})


@dataclass(frozen=True, eq=False)
class PrunedWeights:
    """The weights of a user's network, reduced to the kept variables.

    Args:
        weights: The smaller state dict.
        keep: The kept variables.
        dropped: The dropped variables.
        parameters: The number of values in the state dict, before and after.
    """

    weights: Mapping[str, Tensor]
    keep: tuple[int, ...]
    dropped: tuple[int, ...]
    parameters: tuple[int, int]

    def save(self, path: str | Path) -> Path:
        """Write the weights as a safetensors file.

        Args:
            path: The file.

        Returns:
            The file.
        """
        write_state(dict(self.weights), Path(path))
        return Path(path)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the weights as plain JSON types; pairs are before and after."""
        lists = {"keep": list(self.keep), "dropped": list(self.dropped), "parameters": list(self.parameters)}
        return stamp("pruned_weights", lists)


def prune_model(
    target: str | Path,
    data: str | None = None,
    *,
    keep: Sequence[int] | None = None,
    alpha: float | None = None,
    rule: Rule = "used",
    pixel_range: tuple[float, float] | None = None,
    examples: int = 3000,
    seed: int = 0,
) -> PrunedModel:
    """Prune a stored model to the used variables, and measure the effect on inputs.

    Args:
        target: A run directory, a model file, or the folder of a published model or of a model of pythae, diffusers
            or scvi-tools.
        data: The inputs on which to measure: the name of a dataset, an .npz of images, a folder of pictures, or the
            .h5ad of a model of scvi-tools; by default the data of the model.
        keep: The variables to keep; by default all that are not passive beyond doubt for `diagnose`.
        alpha: The threshold of the types.
        rule: The rule of the types.
        pixel_range: The range of pixels on which a model of another library was trained, if it is not known.
        examples: The maximum number of inputs to measure on.
        seed: Seed of the draws.

    Returns:
        The smaller model, its config and the proof.

    Raises:
        DataError: If the target has no model, or every variable is passive.
    """
    opened = open_target(target)
    if opened.kind in ("pythae", "diffusers", "scvi"):
        settings: dict[str, Any] = {"alpha": alpha, "rule": rule, "seed": seed}
        return _prune_foreign(opened, data, keep, settings, pixel_range=pixel_range, examples=examples)
    vae, (config, auxiliary_size) = opened.vae(), opened.config()
    images = opened.data() if data is None else images_named(data)
    # A run has its own encodings, which are read as measured.
    own = {} if data is None and opened.kind == "run" else {"examples": examples, "seed": seed}
    found = diagnose(target, data, alpha=alpha, rule=rule, **own)  # type: ignore[arg-type]
    kept, doubtful = _choose_variables(found.regime, keep)
    batch = images.sample(min(examples, len(images)), seed)
    # A variable that is noise around its own value is replaced by that value, not by the prior mean.
    resting = found.encodings.mean.mean(axis=0, dtype=np.float64)
    smaller = prune(vae, kept, constants=resting)
    report = pruning_report(vae, smaller, batch.images, keep=kept, u=batch.u, constants=resting, seed=seed)
    accuracy = None if found.encodings.factors is None else _accuracies(found.encodings, kept, examples)
    return PrunedModel(smaller, pruned_config(config, kept), auxiliary_size, report, doubtful, accuracy)


def _choose_variables(regime: Regime, keep: Sequence[int] | None) -> tuple[list[int], tuple[int, ...]]:
    """Return the variables to keep, and those of them that are passive but doubtful if the types decide."""
    if keep is not None:
        return list(keep), ()
    kept = [j for j in range(len(regime.types)) if j not in regime.droppable]
    if not kept:
        raise DataError("expected a used variable, all are passive; name the variables to keep")
    return kept, tuple(j for j in regime.passive if j in kept)


def _prune_foreign(
    opened: Target,
    data: str | None,
    keep: Sequence[int] | None,
    settings: Mapping[str, Any],
    *,
    pixel_range: tuple[float, float] | None,
    examples: int,
) -> PrunedModel:
    """Prune a model that another library saved in a folder; the folder is only read."""
    from polarised._cutting import BORDER, Asking, compare_models, cut_model

    model, inputs = _load_model(opened, data)
    limits: dict[str, Any] = {"pixel_range": pixel_range, "examples": examples} if opened.kind != "scvi" else {}
    found = diagnose(model, inputs, **settings, **limits)
    kept, doubtful = _choose_variables(found.regime, keep)
    asking = Asking(pixel_range=pixel_range)
    resting = found.encodings.mean.mean(axis=0, dtype=np.float64)
    cut = cut_model(model, kept, inputs, preferred=resting, asking=asking)
    # A folder can contain only what its library can load.
    smaller = cut.model if cut.loadable is None else cut.loadable
    numbers = compare_models(
        model,
        smaller,
        inputs,
        keep=kept,
        constants=cut.constants,
        asking=asking,
        seed=settings["seed"],
        examples=examples,
    )
    accuracy = None if found.encodings.factors is None else _accuracies(found.encodings, kept, examples)
    remarks = cut.remarks if smaller is cut.model else (*cut.remarks, BORDER)
    write = _writer(smaller, opened)
    return PrunedModel(smaller, {}, 0, PruningReport(**numbers), doubtful, accuracy, remarks, write)


def _load_model(opened: Target, data: str | None) -> tuple[Any, Any]:
    """Return the model that another library saved in a folder, and the data to encode."""
    if opened.kind == "scvi":
        from polarised.adapters.scvi import load_scvi

        return load_scvi(opened.path, data)
    return opened.model(), opened.data() if data is None else data


def _writer(model: Any, opened: Target) -> Callable[[str], object]:
    """Return how a library saves a model into a folder: as it was saved, with its cells if they were included."""
    if opened.kind == "scvi":
        return partial(model.save, overwrite=True, save_anndata=(opened.path / "adata.h5ad").is_file())
    saved: Callable[[str], object] = model.save_pretrained if opened.kind == "diffusers" else model.save
    return saved


def prune_weights(
    path: str | Path,
    *,
    keep: Sequence[int],
    mean_head: str,
    decoder_input: str,
    log_variance_head: str | None = None,
    layout: Literal["separate", "interleaved", "stacked"] = "separate",
    transposed: bool = False,
) -> PrunedWeights:
    """Reduce the weights of a user's network to the kept variables, without running its code.

    Args:
        path: A .safetensors, .pt or .pth file of weights.
        keep: The variables to keep.
        mean_head: The layer that returns the mean.
        decoder_input: The layer that takes z.
        log_variance_head: The layer that returns the log-variance, if it is not that of the mean.
        layout: The layout of the heads: separate layers, or one with means and log-variances interleaved or stacked.
        transposed: Whether z is the input of a ConvTranspose2d.

    Returns:
        The smaller weights.

    Raises:
        DataError: If a layer is missing or has another shape.
    """
    weights = read_state(Path(path))
    smaller = prune_state(
        weights,
        list(keep),
        mean_head=mean_head,
        log_variance_head=log_variance_head,
        decoder_input=decoder_input,
        layout=layout,
        transposed=transposed,
    )
    before, after = (sum(value.numel() for value in state.values()) for state in (weights, smaller))
    heads = weights[f"{mean_head}.weight"].shape[0] // (1 if layout == "separate" else 2)
    return PrunedWeights(smaller, tuple(keep), tuple(j for j in range(heads) if j not in keep), (before, after))


def prune_state(
    weights: Mapping[str, Tensor],
    keep: Sequence[int],
    *,
    mean_head: str,
    decoder_input: str,
    log_variance_head: str | None = None,
    layout: Literal["separate", "interleaved", "stacked"] = "separate",
    transposed: bool = False,
) -> dict[str, Tensor]:
    """Return a state dict without some latent variables, given the names of the layers around them.

    `transposed` marks a four-dimensional decoder weight as that of a ConvTranspose2d. Dropped variables are held at 0,
    the mean of a standard normal prior. [Bonheme2023BeMoreActive, section 4]

    >>> import torch
    >>> weights = {"mu.weight": torch.ones(3, 4), "mu.bias": torch.ones(3), "lv.weight": torch.ones(3, 4)}
    >>> weights |= {"lv.bias": torch.ones(3), "dec.weight": torch.ones(5, 3), "dec.bias": torch.ones(5)}
    >>> smaller = prune_state(weights, [2], mean_head="mu", log_variance_head="lv", decoder_input="dec")
    >>> tuple(smaller["mu.weight"].shape), tuple(smaller["dec.weight"].shape)
    ((1, 4), (5, 1))
    """
    variance_head = None if log_variance_head is None else _layer(weights, log_variance_head)
    entry = _layer(weights, decoder_input, transposed=transposed)
    cut = slice_layers(_layer(weights, mean_head), variance_head, entry, keep, layout=layout)
    pruned = dict(weights)
    named = {mean_head: cut.mean_head, decoder_input: cut.decoder_input}
    if log_variance_head is not None:
        named[log_variance_head] = cut.log_variance_head
    for name, layer in named.items():
        pruned |= {f"{name}.{kind}": value.detach() for kind, value in layer.state_dict().items()}
    return pruned


def _layer(weights: Mapping[str, Tensor], name: str, *, transposed: bool = False) -> Layer:
    weight = weights.get(f"{name}.weight")
    if weight is None or weight.ndim not in (2, 4):
        layers = [key.removesuffix(".weight") for key in weights if key.endswith(".weight")]
        raise DataError(
            f"expected a linear or convolutional layer, there is no {name!r}{nearest(name, layers)}; "
            f"the file has {', '.join(layers)}"
        )
    bias = weights.get(f"{name}.bias")
    kernel: Any = tuple(weight.shape[2:])
    layer: Layer
    if weight.ndim == 2:
        layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    elif transposed:
        layer = nn.ConvTranspose2d(weight.shape[0], weight.shape[1], kernel, bias=bias is not None)
    else:
        layer = nn.Conv2d(weight.shape[1], weight.shape[0], kernel, bias=bias is not None)
    if bias is not None and layer.bias is not None and bias.shape != layer.bias.shape:
        kind = "Conv2d" if transposed else "ConvTranspose2d"
        raise DataError(
            f"expected {name}.bias of shape {tuple(layer.bias.shape)}, got {tuple(bias.shape)}; if it is a {kind}, "
            "change the flag transposed"
        )
    if not weight.is_floating_point():
        raise DataError(
            f"expected floating-point numbers as {name}.weight, got {weight.dtype}; save the trained weights"
        )
    layer = layer.to(weight.dtype)
    layer.load_state_dict({"weight": weight} if bias is None else {"weight": weight, "bias": bias})
    return layer


def _accuracies(encodings: Encodings, kept: list[int], examples: int) -> tuple[float, float]:
    """Return the mean accuracy of predicting every factor from the means of all and of the kept variables."""
    rows = slice(0, examples)
    before, after = (
        logistic_regression(encodings.mean[rows][:, variables], encodings.factors[rows], strengths=(1.0,)).accuracy  # type: ignore[index]
        for variables in (list(range(encodings.latents)), kept)
    )
    return before, after
