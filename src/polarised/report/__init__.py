"""Pages and figures of diagnoses and studies."""

from polarised.report.drawing import save
from polarised.report.page import write, write_report

__all__ = ["save", "write", "write_report"]
