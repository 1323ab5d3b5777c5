"""Figures that any study over strengths has."""

from polarised.report.figures import metric_over_passive, total_correlation_by_strength, types_by_strength
from polarised.report.gallery.material import Drawings, Material

__all__ = ["any_study"]


def any_study(material: Material) -> Drawings:
    """Draw types, and redundancy of both representations, against strength [Bonheme2023BeMoreActive]."""
    yield "types", types_by_strength(material.table)
    yield "total_correlation_over_passive", metric_over_passive(material.table)
    yield "total_correlation", total_correlation_by_strength(material.table)
