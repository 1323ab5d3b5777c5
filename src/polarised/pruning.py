"""A smaller VAE without given variables, and the proof that nothing was lost.

A passive variable tells the decoder nothing: its sample is drawn from the prior whatever the image. Taking it out drops
its rows of the encoder's heads and its column of the decoder's first layer, and leaves the constant it stood for, its
prior mean unless told, in that layer's bias.
"""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from polarised.errors import ConfigError, DataError
from polarised.models.networks import evaluating
from polarised.models.slicing import checked_keep, slice_layers
from polarised.models.vae import VAE
from polarised.random import seed_for

__all__ = ["PruningReport", "prune", "pruned_config", "pruning_report"]


def prune(
    vae: VAE,
    keep: Iterable[int],
    *,
    u: np.ndarray[Any, Any] | Tensor | None = None,
    constants: np.ndarray[Any, Any] | Tensor | None = None,
) -> VAE:
    """Return an ordinary smaller VAE with the variables in `keep` only, in that order; the given one is untouched.

    decoder'(z_keep) = decoder(z) with z_j = E[z_j] under the prior for every dropped j. Where the prior mean
    depends on auxiliary variables, their average over `u` (n, k) is the constant [Bonheme2023BeMoreActive, section 4].
    A variable that is noise about another value than the prior mean needs that value: `constants` (d,) are, as a rule,
    the averages of the encoder's means.

    >>> from polarised.models import build_vae
    >>> vae = build_vae({"architecture": "mlp", "latents": 4}, shape=(1, 16, 16))
    >>> prune(vae, [0, 3]).latents
    2
    """
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
    return pruned.to(like.device, like.dtype).train(vae.training)


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
    """

    keep: tuple[int, ...]
    dropped: tuple[int, ...]
    images: int
    parameters: tuple[int, int]
    distortion: tuple[float, float]
    sampled_distortion: tuple[float, float]
    rate: tuple[float, float]
    encodings: float

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
            [f"kept {kept}; dropped {dropped}", *lines, f"largest change of a kept encoding: {self.encodings:.2g}"]
        )


@torch.no_grad()
def pruning_report(
    before: VAE,
    after: VAE,
    images: np.ndarray[Any, Any] | Tensor,
    *,
    keep: Iterable[int],
    u: np.ndarray[Any, Any] | Tensor | None = None,
    seed: int = 0,
    batch_size: int = 256,
) -> PruningReport:
    """Compare a VAE with its pruned self on images: reconstruction, KL, encodings and size.

    >>> from polarised.models import build_vae
    >>> vae = build_vae({"architecture": "mlp", "latents": 4}, shape=(1, 16, 16))
    >>> report = pruning_report(vae, prune(vae, [0, 3]), torch.zeros(2, 1, 16, 16), keep=[0, 3])
    >>> report.encodings < 1e-6, report.dropped
    (True, (1, 2))
    """
    chosen = checked_keep(keep, before.latents)
    if after.latents != len(chosen):
        raise DataError(f"expected a pruned model of {len(chosen)} latents, got {after.latents}; is `keep` its own?")
    device = next(before.parameters()).device
    x = torch.as_tensor(images, dtype=torch.float32)
    if not len(x):
        raise DataError("expected at least one image to compare the two models on, got none")
    auxiliary = None if u is None else torch.as_tensor(u, dtype=torch.float32)
    noise = torch.randn(len(x), before.latents, generator=torch.Generator().manual_seed(seed_for(seed, "pruning")))
    totals, change = np.zeros((2, 3)), 0.0
    with evaluating(before), evaluating(after):
        for start in range(0, len(x), batch_size):
            rows = slice(start, start + batch_size)
            batch = x[rows].to(device), None if auxiliary is None else auxiliary[rows].to(device)
            part = noise[rows].to(device)
            first, totals_before = _losses(before, *batch, part)
            second, totals_after = _losses(after, *batch, part[:, chosen])
            totals += [totals_before, totals_after]
            change = max(change, (first[..., chosen] - second).abs().max().item())
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
