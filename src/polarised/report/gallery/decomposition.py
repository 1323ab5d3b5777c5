"""Figures of the studies of decomposition [Mathieu2019]."""

import polars

from polarised.report.figures import (
    aggregate_posterior_density,
    magnitude_by_class,
    plane_of_strengths,
    prior_density,
    reconstruction_against_score,
    scores_against,
    sparsity_by_regularisation,
)
from polarised.report.gallery.material import Drawings, Material, stem
from polarised.study.drawn import plane_density

__all__ = ["alpha_and_beta", "decomposition_alignment", "decomposition_clustering", "decomposition_sparsity"]


def decomposition_alignment(material: Material) -> Drawings:
    """Draw figure 2, as scored and with Student-t codes transported, what beta does to encoders, and figure 5."""
    gaussian = polars.col("method") != "Student-t"
    usual = polars.col("method").eq("isotropic") & polars.col("strength").eq(1.0)
    top = material.table.filter(gaussian)
    yield "figure_2_top", reconstruction_against_score(top, symbols=dict.fromkeys(material.methods(), "β"))
    tailed, symbols = material.table.filter(~gaussian | usual), {"isotropic": "β", "Student-t": "ν"}
    for score, ending in (("factor_vae_score", ""), ("factor_vae_score_transported", "_transported")):
        yield f"figure_2_bottom{ending}", reconstruction_against_score(tailed, score=score, symbols=symbols)
    yield "overlap", scores_against(top, y="encoder_entropy", x=("reconstruction", "factor_vae_score"))
    shapes = {f"ν = {df:g}": plane_density({"name": "StudentT", "df": df}) for df in (3.0, 5.0, 100.0)}
    yield "figure_5_student_t", prior_density(shapes)


def decomposition_clustering(material: Material) -> Drawings:
    """Draw figure 3 (the aggregate posterior over beta and over alpha), both together, and the prior of figure 6."""
    for method, symbol in (("beta", "β"), ("alpha", "α")):
        codes = {
            f"{symbol} = {strength:g}": material.encodings(material.point(method, strength))
            for strength in material.strengths(method)
        }
        yield f"figure_3_{method}", aggregate_posterior_density(codes, columns=len(codes), top=1.0)
    plane = alpha_and_beta(material.table)
    yield "alpha_beta", plane_of_strengths(plane, metrics=("overlap", "mmd", "exclusive_kl", "inclusive_kl"))
    lines = material.table.filter(polars.col("method").is_in(["alpha", "beta"]))
    yield "overlap", scores_against(lines, y="overlap", x=("mmd", "exclusive_kl"))
    yield "figure_6_prior", prior_density({"prior": plane_density("GaussianMixture", extent=2.0)}, extent=2.0)


def alpha_and_beta(table: polars.DataFrame) -> polars.DataFrame:
    """Return the results as a plane: method "beta" has alpha 0, "alpha" beta 0, "alpha, beta 3" over alpha beta 3.

    Strengths that only one of the two lines has are left out.

    >>> rows = {"method": ["beta", "alpha", "alpha, beta 3"], "strength": [3.0, 20.0, 20.0]}
    >>> alpha_and_beta(polars.DataFrame(rows)).rows()
    [(0.0, 3.0), (20.0, 0.0), (20.0, 3.0)]
    """
    line = polars.col("method") == "beta"
    held = polars.col("method").str.extract("^alpha, beta (.+)$").cast(polars.Float64).fill_null(0.0)
    placed = table.with_columns(
        alpha=polars.when(line).then(0.0).otherwise(polars.col("strength")),
        beta=polars.when(line).then(polars.col("strength")).otherwise(held),
    )
    inner = placed.filter(polars.col("method").str.starts_with("alpha, beta"))
    if not inner.is_empty():
        placed = placed.filter(*(polars.col(name).is_in([0.0, *inner[name].unique()]) for name in ("alpha", "beta")))
    return placed.drop("method", "strength")


def decomposition_sparsity(material: Material) -> Drawings:
    """Draw figure 4 (sparsity, reconstruction, mismatch over alpha), and who is used by which class."""
    yield "figure_4", sparsity_by_regularisation(material.table)
    for dataset, ending in material.datasets.items():
        for method in material.methods(dataset):
            strengths = material.strengths(method, dataset=dataset)
            for strength in (strengths[0], strengths[-1]):
                point = material.point(method, strength, dataset=dataset)
                encodings = material.encodings(point)
                if encodings.factors is None:
                    continue
                classes = material.class_names(point, encodings.factor_names[0])
                yield (
                    f"magnitude_{stem(method)}_alpha_{strength:g}{ending}",
                    magnitude_by_class(encodings, class_names=classes),
                )
