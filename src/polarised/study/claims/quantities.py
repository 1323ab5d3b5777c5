"""The quantities several papers speak of, and the reasons of margins that several claims share."""

from polarised.study.claims.claim import Statistic
from polarised.study.claims.decisions import above, within
from polarised.study.claims.expressions import Expression, Number, given, number

__all__ = [
    "ACCURACY",
    "ACTIVE_MI",
    "ACTIVE_TC",
    "ALIVE_PAIRS",
    "DECODER",
    "DIRECTION",
    "GAP_GONE",
    "INACTIVE",
    "KS_MARGIN",
    "NEGLIGIBLE",
    "TC_MARGIN",
    "WHOLE",
    "accuracy",
    "count",
    "gap",
    "mi",
    "rank_of",
    "tc",
]

DIRECTION = "the paper names a direction and no size"
NEGLIGIBLE = "'≪ 1' read as the paper's α = 0.1"
TC_MARGIN = "a variable of which a share α = 0.1 is predictable adds 0.053 nats; the estimator's floor is below 0.005"
KS_MARGIN = "both edges of the rule, a shift of 0.1 and a variance of 0.9, add up to 0.05"
ACCURACY = "0.01 is three to five standard errors on 5,000 test inputs"
DECODER = "half a nat of some twenty; what sampling noise of the loss hides"


def tc(representation: str, variables: str = "full") -> Number:
    """Return the Gaussian total correlation of a representation, in nats."""
    return number("total_correlation", representation, variables)


def mi(representation: str, variables: str = "full") -> Number:
    """Return the averaged mutual information of a representation, in nats."""
    return number("mutual_information", representation, variables)


def gap(metric: object, variables: str = "full") -> Expression:
    """Return a score of the mean minus that of the sample, of `tc` or `mi`."""
    of = tc if metric is tc else mi
    return of("mean", variables) - of("sampled", variables)


def accuracy(representation: str, variables: str = "full") -> Number:
    """Return the accuracy with which variables predict the factors."""
    return number("accuracy", representation, variables)


def rank_of(representation: str) -> Number:
    """Return the effective rank of a whole code."""
    return number("effective_rank", representation)


def count(kind: str) -> Number:
    """Return how many variables are of a type."""
    return number("count", None, kind)


WHOLE = count("active") + count("mixed") + count("passive")
INACTIVE = count("passive") + count("mixed")
_ALIVE = count("active") + count("mixed")
ALIVE_PAIRS = _ALIVE * (_ALIVE - 1.0) / (WHOLE * (WHOLE - 1.0))

ACTIVE_TC = Statistic(
    "total correlation of the active variables, mean minus sample (nats)", gap(tc, "active"), within(0.05), TC_MARGIN
)
ACTIVE_MI = Statistic(
    "mutual information of the active variables, mean minus sample (nats)",
    gap(mi, "active"),
    within(0.02),
    "about one floor of the metric at 10,000 inputs and 20 bins",
)
GAP_GONE = Statistic(
    "share of the gap in total correlation that is gone without passive variables",
    given(count("passive"), given(gap(tc) - 0.045, 1.0 - gap(tc, "alive") / gap(tc))),
    above(0.5),
    "'mostly': more than half, of gaps above ten floors of the estimator",
    kind="median",
)
