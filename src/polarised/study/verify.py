"""Claims of a paper, checked on a study's tidy table: confirmed, not confirmed or undecided, with numbers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars

from polarised import registry
from polarised._io.tables import read_table
from polarised.errors import DataError
from polarised.study.claims.numbers import whole_seeds
from polarised.study.claims.verdict import Verdict, undecided
from polarised.study.grid import study_claims
from polarised.study.results import KINDS, collect
from polarised.study.runner import FILE, read_study
from polarised.study.storage import is_address

__all__ = ["check_claims", "verify"]


def verify(results: str | Path, *, study: str | None = None) -> list[Verdict]:
    """Check the claims of a study on its folder or address (collected anew) or on a table of results.

    `study` names whose claims to check; without it they are those the folder was started with.
    """
    path = Path(results)
    whole = is_address(results) or path.is_dir()
    if not whole and not path.exists():
        raise DataError(f"expected a study's folder or table of results, {results} does not exist")
    if study is None and not whole and not (path.parent / FILE).exists():
        raise DataError(
            f"expected to know whose claims to check on {path}, there is no {FILE} beside it; "
            "name the study: --study be_more_active"
        )
    claims = study_claims(study) if study else read_study(results if whole else path.parent).claims
    table = read_table(collect(results) if whole else path, columns=KINDS)
    return check_claims(table, claims)


def check_claims(table: polars.DataFrame, claims: Sequence[Any]) -> list[Verdict]:
    """Check claims by name; a claim may give a verdict for each method. Seeds half done do not count."""
    verdicts: list[Verdict] = []
    table = whole_seeds(table)
    for claim in claims:
        found = registry.build("claim", claim, table)
        name = str(claim["name"] if isinstance(claim, Mapping) else claim)
        verdicts += found or [undecided(name, name.replace("_", " "), "no run has the numbers it is about")]
    return verdicts
