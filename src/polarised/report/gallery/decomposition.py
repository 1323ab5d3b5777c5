"""Figures of the studies of decomposition [Mathieu2019]."""

import polars

from polarised.report.figures import (
    aggregate_posterior_density,
    magnitude_by_class,
    prior_density,
    reconstruction_against_score,
    scores_against,
    sparsity_by_regularisation,
)
from polarised.report.gallery.material import Drawings, Material
from polarised.study.drawn import plane_density

__all__ = ["decomposition_alignment", "decomposition_clustering", "decomposition_sparsity"]


def decomposition_alignment(material: Material) -> Drawings:
    """Draw figure 2, as scored and with Student-t codes transported, what beta does to encoders, and figure 5."""
    gaussian = polars.col("method") != "Student-t"
    usual = polars.col("method").eq("isotropic") & polars.col("strength").eq(1.0)
    yield "figure_2_top", reconstruction_against_score(material.table.filter(gaussian))
    tailed = material.table.filter(~gaussian | usual)
    yield "figure_2_bottom", reconstruction_against_score(tailed)
    yield "figure_2_bottom_transported", reconstruction_against_score(tailed, score="factor_vae_score_transported")
    top = material.table.filter(gaussian)
    yield "overlap", scores_against(top, y="encoder_entropy", x=("reconstruction", "factor_vae_score"))
    shapes = {f"ν = {df:g}": plane_density({"name": "StudentT", "df": df}) for df in (3.0, 5.0, 100.0)}
    yield "figure_5_student_t", prior_density(shapes)


def decomposition_clustering(material: Material) -> Drawings:
    """Draw figure 3 (the aggregate posterior over beta and over alpha), its numbers, and the prior of figure 6."""
    for method, symbol in (("beta", "β"), ("alpha", "α")):
        codes = {
            f"{symbol} = {strength:g}": material.encodings(material.point(method, strength))
            for strength in material.strengths(method)
        }
        yield f"figure_3_{method}", aggregate_posterior_density(codes, columns=len(codes), top=1.0)
    yield "overlap", scores_against(material.table, y="overlap", x=("mmd", "exclusive_kl"))
    yield "figure_6_prior", prior_density({"prior": plane_density("GaussianMixture", extent=2.0)}, extent=2.0)


def decomposition_sparsity(material: Material) -> Drawings:
    """Draw figure 4 (sparsity, reconstruction, mismatch over alpha), and who is used by which class."""
    yield "figure_4", sparsity_by_regularisation(material.table)
    for method in dict.fromkeys(str(point.labels["method"]) for point in material.done):
        strengths = material.strengths(method)
        for strength in (strengths[0], strengths[-1]):
            stem = "_".join("".join(c if c.isalnum() or c == "." else " " for c in method).split())
            names = stem.replace("γ", "gamma").replace("β", "beta")
            yield (
                f"magnitude_{names}_alpha_{strength:g}",
                magnitude_by_class(material.encodings(material.point(method, strength))),
            )
