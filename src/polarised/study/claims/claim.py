"""The record of a citable item of a paper: its words, the measurement, the criterion, or why it cannot be tested.

Below the record are quantities that several papers use, and margins that several claims share.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import polars

from polarised.errors import ConfigError
from polarised.study.claims.decisions import LEAST_SEEDS, Kind, Region, above, within
from polarised.study.claims.expressions import Expression, Number, given, number

if TYPE_CHECKING:
    from polarised.study.claims.check import Verification

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
    "PAPERS",
    "TC_MARGIN",
    "TYPES",
    "WHOLE",
    "Claim",
    "Law",
    "Share",
    "Statistic",
    "accuracy",
    "count",
    "gap",
    "ledger_of",
    "mi",
    "rank_of",
    "tc",
]

# The titles of the papers in the order of the ledger, and their keys in references.bib.
PAPERS = {
    "be_more_active": ("Be More Active!", "Bonheme2023BeMoreActive"),
    "polarised_ivae": ("The Polarised Regime of Identifiable VAEs", "Bonheme2023iVAE"),
    "rtc_vae": ("RTC-VAE", "Cheng2021"),
    "decomposition": ("Disentangling Disentanglement", "Mathieu2019"),
    "own": ("Beyond the four papers", ""),
}
# The rules for types by which a paper's claims are decided: that of the paper and that of the library.
RULES = {"be_more_active": ("standard", "used"), "polarised_ivae": ("relative", "used")}
# Numbers of a whole model that depend on the rule.
TYPED = ("alpha_sensitivity", "type_agreement", "truly_mixed")
TYPES = ("active", "mixed", "passive", "active_mixed", "active_passive", "mixed_passive", "alive", "used")


MOST = above(0.5)


@dataclass(frozen=True)
class Statistic:
    """An effect with one value per seed, at each of its strengths, and the region that the claim needs.

    Args:
        words: A description of the effect, with its unit.
        effect: The expression for the effect.
        needed: The region that the claim needs.
        because: The reason for the margin.
        kind: Whether the mean, the median or the sign of most seeds is tested.
        strengths: Only strengths in this region count.
        deviation: The usual standard deviation between seeds, in the unit of the effect, if known.
    """

    words: str
    effect: Expression
    needed: Region
    because: str
    kind: Kind = "mean"
    strengths: Region | None = None
    deviation: float | None = None

    def numbers(self) -> tuple[Number, ...]:
        """Return the numbers of the table it needs."""
        return self.effect.numbers()

    def expressions(self) -> tuple[Expression, ...]:
        """Return its expressions."""
        return (self.effect,)


@dataclass(frozen=True)
class Share:
    """The share of seeds in which several conditions hold together, at every strength or at some.

    Args:
        words: A description of the conditions.
        holds: The conditions, as pairs of an expression and its region.
        because: The reason for the margin.
        over: Whether the conditions must hold at one strength or at every strength.
        needed: The region of the share; default: more than half of the seeds.
        strengths: Only strengths in this region count.
    """

    words: str
    holds: tuple[tuple[Expression, Region], ...]
    because: str
    over: Literal["every", "some"] = "every"
    needed: Region = MOST
    strengths: Region | None = None
    kind: Kind = "share"

    def numbers(self) -> tuple[Number, ...]:
        """Return the numbers of the table it needs."""
        return tuple(name for expression in self.expressions() for name in expression.numbers())

    def expressions(self) -> tuple[Expression, ...]:
        """Return its expressions."""
        return tuple(expression for expression, _ in self.holds)


@dataclass(frozen=True)
class Law:
    """A statement on arrays, without training, and the test that checks it."""

    test: str
    finding: str
    word: Literal["confirmed", "refuted"] = "confirmed"


@dataclass(frozen=True)
class Claim:
    """One entry of the ledger.

    Args:
        id: The name of the entry, such as "BMA-F8c-z".
        paper: A key of `PAPERS`.
        place: The place in the paper.
        quotation: The exact words; "…" marks omitted words.
        scope: The scope of the claim in the paper.
        statistics: What is measured on trained models; all of them are needed.
        methods: The methods to which it applies; none: every method of a study.
        except_for: Methods to which it does not apply.
        together: Whether all methods of a dataset are analysed together.
        law: The statement without training, and its test.
        follows: The claims that it summarises: it holds if all of them do.
        untestable: Why it cannot be tested here.
        note: Remarks on the verdict, and contradictions in the paper.
        least_seeds: The smallest number of seeds that can decide it.
    """

    id: str
    paper: str
    place: str
    quotation: tuple[str, ...]
    scope: str
    statistics: tuple[Statistic | Share, ...] = ()
    methods: tuple[str, ...] = ()
    except_for: tuple[str, ...] = ()
    together: bool = False
    law: Law | None = None
    follows: tuple[str, ...] = ()
    untestable: str = ""
    note: str = ""
    least_seeds: int = LEAST_SEEDS
    unit: str = "seed"

    def __post_init__(self) -> None:
        if self.paper not in PAPERS:
            raise ConfigError(f"expected one of the papers {', '.join(PAPERS)} for claim {self.id}, got {self.paper!r}")
        ways = [bool(self.statistics), self.law is not None, bool(self.follows), bool(self.untestable)]
        if not any(ways) or (self.untestable and sum(ways) > 1):
            raise ConfigError(
                f"expected claim {self.id} to have statistics, a law, the claims it follows from, or the reason why it "
                f"cannot be tested; got {sum(ways)} of these"
            )

    def __call__(self, table: polars.DataFrame) -> "Verification":
        """Return its verdicts on a tidy table of results.

        Args:
            table: The table, as a study collects it.

        Returns:
            A verdict for each method and dataset to which it applies.
        """
        from polarised.study.claims.check import check_claims

        return check_claims(table, [self])

    @property
    def uses_types(self) -> bool:
        """Whether its numbers depend on the rule for types."""
        numbers = [name for statistic in self.statistics for name in statistic.numbers()]
        return any(name.variables in TYPES or name.metric in TYPED for name in numbers)

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules for types that decide it: that of the paper and that of the library."""
        return RULES.get(self.paper, ("standard", "used"))

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics its statistics need."""
        return tuple(dict.fromkeys(name.metric for statistic in self.statistics for name in statistic.numbers()))

    @property
    def statistic(self) -> str:
        """A description of the measurements."""
        return "; ".join(f"{one.words}: {one.needed}" for one in self.statistics)

    @property
    def margin(self) -> str:
        """The reasons for the margins."""
        return "; ".join(dict.fromkeys(one.because for one in self.statistics))

    def concerns(self, method: str) -> bool:
        """Return whether it applies to a method."""
        return method not in self.except_for and (not self.methods or method in self.methods)


def ledger_of(claims: Iterable[Claim]) -> dict[str, Claim]:
    """Return claims by their ids.

    Raises:
        ConfigError: If two have the same id, or a claim follows from one that does not exist.
    """
    found: dict[str, Claim] = {}
    for claim in claims:
        if claim.id in found:
            raise ConfigError(f"expected unique ids of claims, but {claim.id} occurs twice")
        found[claim.id] = claim
    for claim in found.values():
        if missing := [name for name in claim.follows if name not in found]:
            raise ConfigError(
                f"expected the claims that {claim.id} follows from, but {', '.join(missing)} does not exist"
            )
    return found


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
    """Return a score (`tc` or `mi`) of the mean minus that of the sample."""
    of = tc if metric is tc else mi
    return of("mean", variables) - of("sampled", variables)


def accuracy(representation: str, variables: str = "full") -> Number:
    """Return the accuracy with which variables predict the factors."""
    return number("accuracy", representation, variables)


def rank_of(representation: str) -> Number:
    """Return the effective rank of a whole code."""
    return number("effective_rank", representation)


def count(kind: str) -> Number:
    """Return the number of variables of a type."""
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
