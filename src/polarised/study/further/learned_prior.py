"""Posteriors beside a prior that is learned: who follows it, who is driven by it, and is it calibrated."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from polarised.data.dataset import Dataset
from polarised.representations import Encodings, classify
from polarised.study.further.rows import Rows

if TYPE_CHECKING:
    from polarised.models import VAE

__all__ = ["prior_relation"]

KINDS = ("active", "mixed", "passive", "prior_driven")


def prior_relation(
    vae: "VAE", dataset: Dataset, encodings: Encodings, seed: int, *, alpha: float = 0.1, decoder_examples: int = 300
) -> Rows:
    """Compare each variable with its own prior [Bonheme2023iVAE].

    count_relative and count_standard are the types by both rules; retyped counts the variables on which they differ;
    prior_driven those that seem passive but follow u. miscalibration = mean_j |E[r_j] + E[s_j] - 1|, nil when the prior
    variance is learned well. prior_variance and posterior_variance are medians over variables of a type; permuting and
    redrawing say what replacing such a variable costs the decoder, in nats (`decoder_examples` 0: not measured).
    """
    relative = classify(encodings, alpha=alpha, seed=seed)
    standard = relative.at(alpha, rule="standard")
    rows: Rows = []
    for kind in KINDS[:3]:
        rows.append(("count_relative", None, kind, float(len(getattr(relative, kind)))))
        rows.append(("count_standard", None, kind, float(len(getattr(standard, kind)))))
    retyped = sum(a != b for a, b in zip(relative.types, standard.types, strict=True))
    statistics = relative.statistics
    rows += [
        ("retyped", None, "full", float(retyped)),
        ("prior_driven", None, "full", float(len(relative.prior_driven))),
        ("miscalibration", None, "full", float(np.abs(statistics.calibration - 1).mean())),
    ]
    shape = encodings.mean.shape
    variances = {
        "prior_variance": np.broadcast_to(encodings.prior_variance, shape).mean(axis=0),
        "posterior_variance": encodings.variance.mean(axis=0),
    }
    costs = _decoder_costs(vae, dataset, decoder_examples, seed)
    for kind in KINDS:
        if variables := list(getattr(relative, kind)):
            rows += [(name, None, kind, float(np.median(of[variables]))) for name, of in variances.items()]
            rows += [(name, None, kind, float(np.mean(of[variables]))) for name, of in costs.items()]
    return rows


def _decoder_costs(vae: "VAE", dataset: Dataset, examples: int, seed: int) -> dict[str, NDArray[np.float64]]:
    from polarised.adapters.native import decoder_use

    if not examples:
        return {}
    table = decoder_use(vae, dataset, examples=examples, seed=seed)
    return {"permuting": table["permuted"].to_numpy(), "redrawing": table["redrawn"].to_numpy()}
