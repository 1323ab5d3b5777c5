"""How figures and tables name what was measured: words of the field, and the unit where there is one."""

from polarised.study.claims.numbers import words

__all__ = ["metric_name", "strength_name"]

NATS = (
    "encoder_entropy",
    "excess_information",
    "exclusive_kl",
    "inclusive_kl",
    "index_information",
    "largest_excess_information",
    "largest_pair_information",
    "mutual_information",
    "pair_information",
    "rate",
    "reconstruction",
    "total_correlation",
)
NAMES = {
    "disintegrated_nmi": "disintegrated factors, by NMI",
    "disintegrated_r2": "disintegrated factors, by R²",
    "encoder_std": "encoder standard deviation",
    "excess_information": "information beyond correlation",
    "hoyer": "sparsity (Hoyer)",
    "index_information": "information about the input",
    "largest_excess_information": "largest information beyond correlation",
    "largest_pair_information": "largest mutual information of a pair",
    "mcc": "MCC",
    "mig": "MIG",
    "overlap": "overlap of encoders",
    "pair_information": "mutual information of pairs",
    "prior_driven": "prior-driven variables",
    "retyped": "variables retyped by the standard rule",
    "sap": "SAP",
    "wasserstein_correlation": "Wasserstein correlation",
}


def metric_name(metric: str, *, unit: bool = True) -> str:
    """Return the name of a metric for an axis or a heading.

    >>> metric_name("total_correlation"), metric_name("sap"), metric_name("exclusive_kl", unit=False)
    ('total correlation, nats', 'SAP', 'KL(q ‖ p)')
    """
    return NAMES.get(metric, words(metric)) + (", nats" if unit and metric in NATS else "")


def strength_name(panel: str) -> str:
    """Return what an axis of strengths is called in a panel, whose name begins with the method.

    >>> strength_name("beta-VAE: mean representation"), strength_name("annealed VAE")
    ('strength', 'capacity (larger is weaker)')
    """
    return "capacity (larger is weaker)" if panel.startswith("annealed VAE") else "strength"
