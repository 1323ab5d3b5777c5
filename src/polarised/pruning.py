"""A smaller VAE without given variables, and the proof that nothing was lost.

A passive variable tells the decoder nothing: its sample is drawn from the prior whatever the image. Taking it out drops
its rows of the encoder's heads and its column of the decoder's first layer, and leaves the constant it stood for, its
prior mean unless told, in that layer's bias.
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
    """Return an ordinary smaller model with the variables in `keep` only, in that order; the given one is untouched.

    decoder'(z_keep) = decoder(z) with z_j = E[z_j] under the prior for every dropped j. Where the prior mean
    depends on auxiliary variables, their average over `u` (n, k) is the constant [Bonheme2023BeMoreActive, section 4].
    Of a model of others, the layers around the code are found by watching a copy of it encode and decode some `data`;
    a model of scvi-tools, or of diffusers where its config can describe the smaller one exactly, is built anew by its
    library, so that it can be stored and loaded. What is returned gives the same as the model does with the dropped
    variables at their constants.

    Args:
        model: A VAE of ours, a model of pythae, diffusers or scvi-tools, a LightningModule or any torch module that
            encodes and decodes.
        keep: The variables to keep, in the order they are to have.
        data: Some inputs of a model of others, in any form `polarised.diagnose` takes; of scvi-tools its own cells
            unless given.
        u: Auxiliary variables (n, k) to average the prior mean over, where it depends on them.
        constants: What each variable is held at where it is dropped, (d,): the prior mean unless given. A variable that
            is noise about another value needs that value, as a rule the average of the encoder's means. Channels of
            diffusers are held, if less than a standard deviation away, where they need no bias before the padding.
        encode: How a model of others encodes, from model and batch to mean and scale, where that cannot be seen.
        decode: How it decodes, from model and codes to outputs, where that cannot be seen.
        scale_kind: What its scale is, where its name does not tell.
        pixel_range: The range of pixels it was trained on, where it has to be said.

    Returns:
        The smaller model.

    Raises:
        ConfigError: If a variable does not exist or is named twice, or the model cannot be cut, with the reason.

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
    """Return the model section of a config with `latents`, and settings given per variable, cut to `keep`.

    `build_vae` of it has the shapes of the pruned model's state.

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
    """What pruning changed on given images: each pair is (before, after), in nats per image where it is a loss.

    `distortion` is -log p(x|z) at the mean of q(z|x), `sampled_distortion` at a sample with the same noise in
    the kept variables, `rate` the KL; `encodings` is the largest change of a kept mean or log-variance.

    Args:
        keep: The variables that were kept.
        dropped: Those that were not.
        images: The images it was measured on.
        parameters: The parameters before and after.
        distortion: -log p(x|z) at the mean, before and after.
        sampled_distortion: The same at a sample.
        rate: The KL, before and after.
        encodings: The largest change of a kept mean or log-variance.
        outputs: The largest change of what the decoder gives, against the larger model with every dropped variable at
            its constant.
        assumed: What was assumed of the likelihood of a model of others, or nothing where it is known.
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
        """How many nats the reconstruction at the mean lost."""
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
    """Compare a model with its pruned self on data: reconstruction, KL, encodings, outputs and size.

    Args:
        before: The larger model.
        after: What `prune` made of it.
        data: Images (n, channels, height, width), or of a model of others whatever `polarised.diagnose` takes.
        keep: The variables that were kept.
        u: Auxiliary variables (n, k), where the prior depends on them.
        constants: What dropped variables were held at, where `prune` was told.
        encode: How a model of others encodes, as `prune` was told.
        decode: How it decodes, as `prune` was told.
        scale_kind: What its scale is, where its name does not tell.
        pixel_range: The range of pixels it was trained on, where it has to be said.
        seed: Seed of the draws.
        batch_size: Inputs encoded at once.

    Returns:
        What pruning changed.

    Raises:
        DataError: If there are no inputs, or `keep` is not that of the smaller model.

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
        raise DataError(f"expected a pruned model of {len(chosen)} latents, got {after.latents}; is `keep` its own?")
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
    """A smaller model and the proof that it does what the larger one did.

    Args:
        model: The smaller model.
        config: The config of `build_vae` that makes its network; nothing for a model of another library.
        auxiliary_size: The number of its auxiliary variables.
        report: What pruning changed.
        doubtful: Variables that are passive, yet kept because that is in doubt.
        accuracy: Accuracy of predicting the factors from the means, before and after, where there are factors.
        remarks: What else is to be known of the smaller model.
        write: How its own library saves a model into a new folder; None for ours.
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
        """Write the smaller model: ours as a safetensors file, that of another library as its library does.

        Args:
            path: The file; for a model of another library a folder that does not exist yet.

        Returns:
            The file or folder.

        Raises:
            DataError: If there is such a folder already.
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
        said = [each for each in (self.report.assumed, *self.remarks) if each]
        beside = {"passive_but_kept": list(self.doubtful), "accuracy": plain(self.accuracy), "remarks": said}
        return stamp("pruning", {**proof, **beside})


@dataclass(frozen=True, eq=False)
class PrunedWeights:
    """The weights of somebody's network, cut to the variables that are kept.

    Args:
        weights: The smaller state dict.
        keep: The variables that were kept.
        dropped: Those that were not.
        parameters: The numbers in the state dict, before and after.
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
    """Cut a stored model to the variables that are used, and prove on inputs what that changes.

    Args:
        target: A run directory, a model file, a folder of a published model, or that of a model of pythae, diffusers
            or scvi-tools.
        data: The inputs to prove it on: the name of a dataset, an .npz of images, a folder of pictures, or the .h5ad of
            a model of scvi-tools; the model's own if None.
        keep: The variables to keep; all that `diagnose` does not call passive beyond doubt if None.
        alpha: The threshold of the types.
        rule: The rule of the types.
        pixel_range: The range of pixels a model of another library was trained on, where it has to be said.
        examples: The most inputs to prove it on.
        seed: Seed of the draws.

    Returns:
        The smaller model, its config and the proof.

    Raises:
        DataError: If the target holds no model, or every variable is passive.
    """
    opened = open_target(target)
    if opened.kind in ("pythae", "diffusers", "scvi"):
        settings: dict[str, Any] = {"alpha": alpha, "rule": rule, "seed": seed}
        return _prune_foreign(opened, data, keep, settings, pixel_range=pixel_range, examples=examples)
    vae, (config, auxiliary_size) = opened.vae(), opened.config()
    images = opened.data() if data is None else images_named(data)
    # A run has encodings of its own, which are read as they were measured.
    own = {} if data is None and opened.kind == "run" else {"examples": examples, "seed": seed}
    found = diagnose(target, data, alpha=alpha, rule=rule, **own)  # type: ignore[arg-type]
    kept, doubtful = _kept(found.regime, keep)
    batch = images.sample(min(examples, len(images)), seed)
    # What is noise about a value of its own must leave that value behind, not the prior mean.
    resting = found.encodings.mean.mean(axis=0, dtype=np.float64)
    smaller = prune(vae, kept, constants=resting)
    report = pruning_report(vae, smaller, batch.images, keep=kept, u=batch.u, constants=resting, seed=seed)
    accuracy = None if found.encodings.factors is None else _accuracies(found.encodings, kept, examples)
    return PrunedModel(smaller, pruned_config(config, kept), auxiliary_size, report, doubtful, accuracy)


def _kept(regime: Regime, keep: Sequence[int] | None) -> tuple[list[int], tuple[int, ...]]:
    """Return what to keep, and what of it is passive but in doubt where the types decide."""
    if keep is not None:
        return list(keep), ()
    kept = [j for j in range(len(regime.types)) if j not in regime.droppable]
    if not kept:
        raise DataError("expected a variable that is used, all are passive; name what to keep")
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
    """Cut the model that another library saved in a folder; the folder is only read."""
    from polarised._cutting import BORDER, Asking, compare_models, cut_model

    model, inputs = _loaded(opened, data)
    limits: dict[str, Any] = {"pixel_range": pixel_range, "examples": examples} if opened.kind != "scvi" else {}
    found = diagnose(model, inputs, **settings, **limits)
    kept, doubtful = _kept(found.regime, keep)
    asking = Asking(pixel_range=pixel_range)
    resting = found.encodings.mean.mean(axis=0, dtype=np.float64)
    cut = cut_model(model, kept, inputs, preferred=resting, asking=asking)
    # A folder can only hold what its library can load.
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
    said = cut.remarks if smaller is cut.model else (*cut.remarks, BORDER)
    write = _writer(smaller, opened)
    return PrunedModel(smaller, {}, 0, PruningReport(**numbers), doubtful, accuracy, said, write)


def _loaded(opened: Target, data: str | None) -> tuple[Any, Any]:
    """Return the model that another library saved in a folder, and what it is to encode."""
    if opened.kind == "scvi":
        from polarised.adapters.scvi import load_scvi

        return load_scvi(opened.path, data)
    return opened.model(), opened.data() if data is None else data


def _writer(model: Any, opened: Target) -> Callable[[str], object]:
    """Return how a library saves a model into a folder: as it was saved, with its cells if these were there."""
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
    """Cut the weights of somebody's own network to the variables that are kept; nothing of theirs is run.

    Args:
        path: A .safetensors, .pt or .pth file of weights.
        keep: The variables to keep.
        mean_head: The layer that gives the mean.
        decoder_input: The layer that takes z.
        log_variance_head: The layer that gives the log-variance, if it is another than that of the mean.
        layout: How the heads are laid out: separate layers, or one with means and log-variances interleaved or stacked.
        transposed: Whether z enters a ConvTranspose2d.

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

    `transposed` says that a four-dimensional decoder weight belongs to a ConvTranspose2d. Dropped variables stand at 0,
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
            f"expected {name}.bias of shape {tuple(layer.bias.shape)}, got {tuple(bias.shape)}: is the layer a {kind}? "
            "The flag transposed says so"
        )
    if not weight.is_floating_point():
        raise DataError(
            f"expected numbers with a fraction as {name}.weight, got {weight.dtype}; save the trained weights"
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
