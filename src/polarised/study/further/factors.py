"""How the code stands to what is known of the data: factors, and sources of nonlinear ICA."""

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from polarised.data.dataset import Batch, Dataset
from polarised.errors import DataError
from polarised.metrics import disintegration, factor_vae_score, mcc, mig, sap
from polarised.metrics.evaluation import prior_scale
from polarised.representations import Encodings, classify
from polarised.study.further.rows import Rows, representations

if TYPE_CHECKING:
    from polarised.models import VAE

__all__ = ["axis_alignment", "factor_information", "source_recovery"]

CHUNK = 4096


def axis_alignment(
    vae: "VAE",
    dataset: Dataset,
    encodings: Encodings,
    seed: int,
    *,
    votes: int = 10_000,
    test_votes: int = 5_000,
    batch_size: int = 64,
    threshold: float = 0.05,
    pruned_by: Literal["prior", "reference"] = "prior",
) -> Rows:
    """Score how well one variable stands for one factor [Kim2018, section 4], on the means and on transported means.

    factor_vae_score takes the means as they are; factor_vae_score_transported first maps the codes of a Student-t
    prior to a normal one, z -> Phi^-1(F_t(z)), since heavy tails mislead variances [Mathieu2019, section 6.1]. Under
    other priors the two are the same. Every image is encoded once. Variables whose means vary by less than `threshold`
    of the prior's standard deviation do not vote; `pruned_by="reference"` takes the threshold as it stands, as the
    reference code does, which favours priors of large scale.
    """
    if dataset.factor_space is None:
        raise DataError(f"axis_alignment needs a dataset with factors, {dataset.name} has none; leave it out")
    codes = _Codes(vae, dataset)
    settings: dict[str, Any] = {
        "train_votes": votes,
        "test_votes": test_votes,
        "batch_size": batch_size,
        "variance_rows": min(10_000, len(dataset)),
        "threshold": threshold,
        "seed": seed,
    }
    scale = prior_scale(encodings) if pruned_by == "prior" else 1.0
    sizes = dataset.factor_space.sizes
    plain = factor_vae_score(codes, sizes, scale=scale, **settings).score
    moved = plain
    degrees, width = getattr(vae.prior, "df", None), getattr(vae.prior, "scale", 1.0)
    if degrees is not None:
        # Transported codes are held against a standard normal, whatever the scale they came from.
        moved = factor_vae_score(
            lambda rows: transported(codes(rows) / width, degrees), sizes, scale=1.0, **settings
        ).score
    return [
        ("factor_vae_score", "mean", "full", plain),
        ("factor_vae_score_transported", "mean", "full", moved),
    ]


def factor_information(
    vae: "VAE",
    dataset: Dataset,
    encodings: Encodings,
    seed: int,
    *,
    threshold: float = 0.1,
    kind: Literal["discrete", "continuous"] = "continuous",
) -> Rows:
    """Score what single variables know of single factors: SAP, MIG, disintegration [Kumar2018; Chen2018; Cheng2021].

    A factor is disintegrated if several mutually independent variables that are not passive each have R^2 (or
    normalised mutual information) above `threshold` with it [Cheng2021, section 6.3].
    """
    if encodings.factors is None:
        raise DataError(f"factor_information needs a dataset with factors, {dataset.name} has none; leave it out")
    rows: Rows = []
    for representation, codes in representations(encodings, seed):
        rows.append(("sap", representation, "full", sap(codes, encodings.factors, kind=kind).score))
        rows.append(("mig", representation, "full", mig(codes, encodings.factors)))
    used = classify(encodings, seed=seed).alive
    for measure in ("r2", "nmi"):
        spread = disintegration(encodings.mean, encodings.factors, measure=measure, threshold=threshold, used=used)
        rows.append((f"disintegrated_{measure}", "mean", "full", float(spread["disintegrated"].sum())))
    return rows


def source_recovery(vae: "VAE", dataset: Dataset, encodings: Encodings, seed: int) -> Rows:
    """Score how well the true sources are found up to order and scale, MCC by Pearson and by Spearman correlation.

    On the mean, the sample, and the mean without passive variables [Khemakhem2020, section 5].
    """
    if dataset.sources is None:
        raise DataError(f"source_recovery needs a dataset with known sources, {dataset.name} has none; leave it out")
    true = dataset.sources[dataset.sample(len(encodings), seed).indices]
    rows: Rows = []
    for representation, codes in representations(encodings, seed):
        rows.append(("mcc", representation, "full", mcc(codes, true).score))
        rows.append(("mcc_spearman", representation, "full", mcc(codes, true, method="spearman").score))
    regime = classify(encodings, seed=seed)
    if alive := sorted([*regime.active, *regime.mixed]):
        rows.append(("mcc", "mean", "active_mixed", mcc(encodings.mean[:, alive], true).score))
    return rows


def transported(codes: NDArray[Any], degrees: float) -> NDArray[np.float64]:
    """Map codes of a Student-t law to a normal one by their distribution functions, tails included.

    >>> transported(np.array([[0.0, 1e6]]), 3.0).round(1)
    array([[0. , 8.7]])
    """
    from scipy.stats import norm, t

    values = np.asarray(codes, dtype=np.float64)
    return np.sign(values) * norm.isf(t.sf(np.abs(values), degrees))


class _Codes:
    """The mean code of any combination of factors; an image is encoded when it is first asked for."""

    def __init__(self, vae: "VAE", dataset: Dataset) -> None:
        self.vae, self.dataset = vae, dataset
        self.codes = np.zeros((len(dataset), vae.latents), dtype=np.float32)
        self.known = np.zeros(len(dataset), dtype=bool)

    def __call__(self, factors: NDArray[np.int64]) -> NDArray[np.float32]:
        from polarised.adapters import from_vae

        assert self.dataset.factor_space is not None
        indices = self.dataset.factor_space.index(factors)
        missing = np.unique(indices[~self.known[indices]])
        for start in range(0, len(missing), CHUNK):
            some = missing[start : start + CHUNK]
            u = None if self.dataset.auxiliary is None else self.dataset.auxiliary(some)
            self.codes[some] = from_vae(self.vae, Batch(self.dataset.images[some], None, u, some)).mean
        self.known[missing] = True
        return self.codes[indices]
