"""The aggregate posterior q(z) = E_x[q(z|x)]: how much its encoders overlap, and how well it matches the prior."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from polarised.data.dataset import Dataset
from polarised.errors import DataError
from polarised.randomness import seed_for
from polarised.representations import Encodings
from polarised.study.further.rows import Rows

if TYPE_CHECKING:
    from polarised.models import VAE

__all__ = ["encoder_overlap", "prior_match"]

BLOCK = 500


def encoder_overlap(vae: "VAE", dataset: Dataset, encodings: Encodings, seed: int, *, inputs: int = 1000) -> Rows:
    """Measure how wide encoders are and how much they overlap [Mathieu2019, section 4].

    encoder_entropy = E[H(q(z|x))] in nats; index_information = E[log q(z|x) - log mean_k q(z|x_k)] over `inputs`
    inputs: log n when no two encoders meet, 0 when all are one; overlap = 1 - index_information / log n.
    """
    variance = encodings.variance.astype(np.float64)
    entropy = 0.5 * (np.log(2 * np.pi * np.e * variance)).sum(axis=1).mean()
    count = min(inputs, len(encodings))
    mean, variance = encodings.mean[:count].astype(np.float64), variance[:count]
    log_each = _log_densities(encodings.sample(seed=seed)[:count].astype(np.float64), mean, variance)
    information = float((np.diag(log_each) - _log_mean(log_each)).mean())
    return [
        ("encoder_entropy", None, "full", float(entropy)),
        ("encoder_std", None, "full", float(np.sqrt(encodings.variance).mean())),
        ("index_information", None, "full", information),
        ("overlap", None, "full", 1 - information / float(np.log(count)) if count > 1 else 1.0),
    ]


def prior_match(
    vae: "VAE",
    dataset: Dataset,
    encodings: Encodings,
    seed: int,
    *,
    draws: int = 2000,
    per_variable: bool = False,
    divergences: bool = False,
) -> Rows:
    """Measure the distance of the aggregate posterior from the prior: MMD, and both KL divergences if asked for.

    MMD is the mean over blocks of 500 draws, see `objectives.terms.mmd`. inclusive_kl = KL(p(z) || q(z)), large where
    q misses a part of p, and exclusive_kl = KL(q(z) || p(z)) take q(z) as the mixture of up to 2,000 encoders, which
    is exact for small data and meaningless in many dimensions [Mathieu2019, appendix B].
    """
    import torch

    from polarised.objectives.terms import mmd

    if vae.prior.conditional:
        raise DataError("prior_match needs one prior for all inputs, this one depends on u; leave it out")
    generator = torch.Generator().manual_seed(seed_for(seed, "prior match"))
    codes = torch.from_numpy(encodings.sample(seed=seed).astype(np.float32))
    with torch.inference_mode():
        drawn = vae.prior.sample(min(draws, len(codes)), generator)
        blocks = [slice(start, start + BLOCK) for start in range(0, len(drawn), BLOCK)]
        values = [float(mmd(drawn[b], codes[b], per_variable=per_variable)) for b in blocks if len(drawn[b]) > 1]
        rows: Rows = [("mmd", None, "full", float(np.mean(values)))]
        if divergences:
            mean, variance = (array[:2000].astype(np.float64) for array in (encodings.mean, encodings.variance))
            for metric, sign, z in (("inclusive_kl", 1, drawn), ("exclusive_kl", -1, codes[:2000])):
                log_prior = vae.prior.log_prob(z).double().numpy()
                log_aggregate = _log_mean(_log_densities(z.double().numpy(), mean, variance))
                rows.append((metric, None, "full", sign * float((log_prior - log_aggregate).mean())))
    return rows


def _log_densities(
    z: NDArray[np.float64], mean: NDArray[np.float64], variance: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return log N(z_i; mean_k, variance_k) of every code under every encoder, without an array of (n, n, d)."""
    precision = 1 / variance
    squared = z**2 @ precision.T - 2 * z @ (mean * precision).T + (mean**2 * precision).sum(axis=1)
    constant = np.log(2 * np.pi * variance).sum(axis=1)
    densities: NDArray[np.float64] = -0.5 * (np.maximum(squared, 0.0) + constant)
    return densities


def _log_mean(log_each: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.special import logsumexp

    return np.asarray(logsumexp(log_each, axis=1) - np.log(log_each.shape[1]))
