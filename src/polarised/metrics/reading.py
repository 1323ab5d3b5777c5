"""How to read each number: one plain sentence, kept beside the metrics so that tables and pages say the same."""

from polarised.errors import ConfigError
from polarised.registry import nearest

__all__ = ["READINGS", "reading"]

READINGS: dict[str, str] = {
    "total_correlation": "0 means the variables are uncorrelated; it grows without bound as they repeat each other "
    "(nats; 10 independent variables and 10,000 rows still show about 0.002).",
    "mutual_information": "What two variables share on average, in nats; independent ones show a floor of about "
    "200/n from the 20 bins, so compare with 'mutual_information_corrected'.",
    "mutual_information_corrected": "The same with the floor of shuffled variables taken off: zero means zero.",
    "effective_rank": "How many directions the code really uses: d if all vary alike, fewer as variance concentrates.",
    "wasserstein_correlation": "Squared distance from the code to its uncorrelated twin, in squared units of the code; "
    "0 means uncorrelated, and it is blind to variables of small variance.",
    "wasserstein_correlation_normalised": "The same as a share of the total variance: free of units.",
    "hoyer": "1 if every input uses a single variable, 0 if all are used alike (variables scaled to unit deviation).",
    "overlap": "Information I(x; z) in nats: 0 if all posteriors overlap completely, at most log n if none do.",
    "mig": "How far the best variable of each factor is ahead of the second, as a share of the factor's entropy: "
    "1 is one variable a factor, 0 is a tie.",
    "sap": "How far the best single predictor of each factor is ahead of the second, in accuracy: 0 is a tie.",
    "dci_disentanglement": "1 if every variable matters for one factor only, 0 if for all alike.",
    "dci_completeness": "1 if every factor is told by one variable only, 0 if by all alike.",
    "dci_informativeness": "Accuracy of boosted trees that predict the factors: what the code knows, however hidden.",
    "modularity": "1 if every variable tells of one factor only; random codes score high too, so read it with MIG.",
    "explicitness": "How well a linear classifier separates the classes of a factor: 1 perfectly, 0.5 by chance.",
    "irs": "1 if each variable stays put while its factor is held fixed and the others change.",
    "infomec_modularity": "1 if each variable carries information of one factor only, 0 if of all alike.",
    "infomec_explicitness": "Share of the factors' entropy that a linear model explains: 1 all, 0 nothing.",
    "infomec_compactness": "1 if each factor is carried by one variable only, 0 if by all alike.",
    "mcc": "Mean |correlation| of each factor's index with the variable assigned to it: 1 recovers all up to scale.",
    "factor_vae_score": "How often the least varying variable names the factor held fixed: 1 always, 1/F by chance.",
    "beta_vae_score": "How often a linear classifier names the factor two batches share: 1 always, 1/F by chance.",
    "downstream_accuracy": "Mean test accuracy of logistic regression over factors; compare with 'random_accuracy'.",
    "random_accuracy": "Mean test accuracy of guessing at random: the line to beat.",
}


def reading(name: str) -> str:
    """Return the sentence that says how to read a metric of :func:`polarised.metrics.evaluate`.

    >>> reading("dci_completeness")
    '1 if every factor is told by one variable only, 0 if by all alike.'
    """
    if name not in READINGS:
        raise ConfigError(f"no reading for {name!r}{nearest(name, READINGS)}; there are {', '.join(READINGS)}")
    return READINGS[name]
