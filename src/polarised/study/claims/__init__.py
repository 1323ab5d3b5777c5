"""The ledger: every citable item of four papers as a record, and the verdicts on them from a study's results."""

from polarised.study.claims.check import RESERVED_SEEDS, Verdict, Verification, check_claims
from polarised.study.claims.claim import PAPERS, Claim, Law, Share, Statistic
from polarised.study.claims.ledger import LEDGER, chosen_claims

__all__ = [
    "LEDGER",
    "PAPERS",
    "RESERVED_SEEDS",
    "Claim",
    "Law",
    "Share",
    "Statistic",
    "Verdict",
    "Verification",
    "check_claims",
    "chosen_claims",
]
