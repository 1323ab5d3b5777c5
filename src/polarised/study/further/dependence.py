"""How the variables of a code stand to each other: dependent though uncorrelated, dense or sparse."""

from typing import TYPE_CHECKING

import numpy as np

from polarised.data.dataset import Dataset
from polarised.metrics import correlation, hoyer, mutual_information_matrix
from polarised.representations import Encodings
from polarised.study.further.rows import Rows, representations

if TYPE_CHECKING:
    from polarised.models import VAE

__all__ = ["pairwise_dependence", "sparsity"]


def pairwise_dependence(vae: "VAE", dataset: Dataset, encodings: Encodings, seed: int, *, bins: int = 20) -> Rows:
    """Measure dependence of pairs that correlation, and so the Gaussian total correlation, cannot see [Cheng2021].

    pair_information is the mutual information of two variables in nats, less what shuffled variables give;
    excess_information is that minus the -log(1 - r^2) / 2 of Gaussian variables of their correlation r. Averages over
    pairs, and the largest pair.
    """
    rows: Rows = []
    for representation, codes in representations(encodings, seed):
        information = mutual_information_matrix(codes, bins=bins, correction="permutation", seed=seed)
        squared = np.minimum(correlation(codes) ** 2, 1 - 1e-12)
        excess = information + 0.5 * np.log1p(-squared)
        pairs = np.triu_indices(len(information), 1)
        for metric, matrix in (("pair_information", information), ("excess_information", excess)):
            values = matrix[pairs] if len(pairs[0]) else np.zeros(1)
            rows.append((metric, representation, "full", float(values.mean())))
            rows.append((f"largest_{metric}", representation, "full", float(values.max())))
    return rows


def sparsity(vae: "VAE", dataset: Dataset, encodings: Encodings, seed: int) -> Rows:
    """Measure the Hoyer sparsity of the means, each variable divided by its spread, and as they are [Mathieu2019].

    Without the division a collapsed variable counts as sparse.
    """
    return [
        ("hoyer", "mean", "full", hoyer(encodings.mean)),
        ("hoyer_unscaled", "mean", "full", hoyer(encodings.mean, normalised=False)),
    ]
