"""Figures of the study of factorised codes [Cheng2021]."""

import numpy as np
import polars

from polarised.metrics import nmi_matrix, r2_matrix
from polarised.metrics.estimators import mss0, mss1, mws
from polarised.randomness import stream
from polarised.report.figures import (
    estimator_bias,
    factor_against_latent,
    factor_matrices,
    latent_pairs,
    latent_walks,
    reconstructions,
    samples,
    scores_against,
    total_correlation_by_strength,
)
from polarised.report.gallery.material import Drawings, Material
from polarised.theory import gaussian_total_correlation

__all__ = ["bias_table", "rtc_vae"]

# The strengths of the paper's pair plots, figures 14 to 16.
SHOWN = {"FactorVAE": 50.0, "DIP-VAE-I": 20.0, "DIP-VAE-II": 20.0, "RTC-VAE": 20.0}


def rtc_vae(material: Material) -> Drawings:
    """Draw figures 2 to 16 of [Cheng2021] as far as the finished runs go."""
    bias = bias_table(dimensions=(2, 4, 6, 10))
    yield "figure_2_estimators", estimator_bias(bias.filter(polars.col("estimator") != "MWS, 1/(NM)"))
    yield "figure_2_with_literal_mws", estimator_bias(bias)
    yield "figure_3_4_total_correlation", total_correlation_by_strength(material.table)
    yield "pair_information", total_correlation_by_strength(material.table, metric="pair_information")
    yield "figure_10_sap", scores_against(material.table, y="sap", x=("reconstruction", "total_correlation"))
    yield "figure_10_total_correlation", scores_against(material.table, y="total_correlation", x=("reconstruction",))
    present = dict.fromkeys(str(point.labels["method"]) for point in material.done)
    for method in [name for name in SHOWN if name in present]:
        point = material.point(method, SHOWN[method])
        encodings, regime, stem = material.encodings(point), material.regime(point), method.lower().replace("-", "_")
        yield f"figure_14_16_pairs_{stem}", latent_pairs(encodings, regime)
        if encodings.factors is not None:
            names = encodings.factor_names
            yield f"figure_6_factors_{stem}", factor_against_latent(encodings, regime)
            yield f"figure_7_pairs_by_factor_{stem}", latent_pairs(encodings, regime, factor=names[-1])
            r2, nmi = (of(encodings.mean, encodings.factors) for of in (r2_matrix, nmi_matrix))
            yield f"figure_8_9_matrices_{stem}", factor_matrices(r2, nmi, names)
        shown = material.pictures(point)
        yield f"figure_12_reconstructions_{stem}", reconstructions(shown)
        yield f"figure_5_13_walks_{stem}", latent_walks(shown, regime)
        yield f"figure_13_samples_{stem}", samples(material.samples(point))


def bias_table(
    *,
    dimensions: tuple[int, ...] = (2, 4, 6, 10),
    determinants: tuple[float, ...] = (0.01, 0.1, 0.25, 0.5, 0.75, 1.0),
    batch: int = 500,
    dataset_size: int = 50_000,
    batches: int = 4,
    seed: int = 0,
) -> polars.DataFrame:
    """Return minibatch estimates of a known total correlation: z = m + 0.1 e, m equicorrelated Gaussian [Cheng2021].

    The printed MWS weight 1 / (N M) makes the estimate about (D - 1) log N too large, not too small as the paper's
    text says; with 1 / M it falls together with MSS0. The paper does not print D, M, N; these are ours.

    >>> table = bias_table(dimensions=(2,), determinants=(0.5,), batch=20, batches=1)
    >>> table.columns, len(table)
    (['dimension', 'determinant', 'estimator', 'value'], 5)
    """
    generator, rows, noise = stream(seed, "estimator bias"), [], 0.1
    for dimension in dimensions:
        for determinant in determinants:
            correlation = _equicorrelated(dimension, determinant)
            truth = gaussian_total_correlation(correlation + noise**2 * np.eye(dimension))
            rows.append((dimension, determinant, "truth", float(truth)))
            for _ in range(batches):
                mean = generator.multivariate_normal(np.zeros(dimension), correlation, batch)
                z, variance = mean + noise * generator.standard_normal(mean.shape), np.full_like(mean, noise**2)
                literal = mws(z, mean, variance, dataset_size=dataset_size).total_correlation
                found = {
                    "MWS, 1/M": literal - (dimension - 1) * np.log(dataset_size),
                    "MSS0": mss0(z, mean, variance, dataset_size=dataset_size).total_correlation,
                    "MSS1": mss1(z, mean, variance, dataset_size=dataset_size).total_correlation,
                    "MWS, 1/(NM)": literal,
                }
                rows += [(dimension, determinant, name, float(value)) for name, value in found.items()]
    return polars.DataFrame(rows, schema=["dimension", "determinant", "estimator", "value"], orient="row")


def _equicorrelated(dimension: int, determinant: float) -> np.ndarray:
    """Return the matrix of equal correlations r with (1 - r)^(D - 1) (1 + (D - 1) r) = determinant."""
    from scipy.optimize import brentq

    def excess(r: float) -> float:
        return float((1 - r) ** (dimension - 1) * (1 + (dimension - 1) * r) - determinant)

    r = 0.0 if determinant >= 1 else float(brentq(excess, 0.0, 1.0))
    return np.full((dimension, dimension), r) + (1 - r) * np.eye(dimension)
