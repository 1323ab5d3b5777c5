"""The claims of a study on its folder, its table of results, or as they were published."""

import json
from pathlib import Path
from typing import Any

import polars

from polarised._io.tables import read_table
from polarised.errors import ConfigError, DataError
from polarised.study.claims.check import Verdict, Verification, check_claims
from polarised.study.claims.choose import chosen_claims
from polarised.study.claims.claim import Claim
from polarised.study.grid import Study, study_claims, study_names
from polarised.study.results import KINDS, LARGE, results_of
from polarised.study.runner import FILE, read_study
from polarised.study.storage import at_hand, is_address

__all__ = ["PUBLISHED", "published_verdicts", "verify"]

PUBLISHED = "verdict.json"
# A study of the four papers has some thousand verdicts of a few hundred bytes.
LARGEST = 32_000_000


def verify(results: str | Path, *, study: str | None = None) -> Verification:
    """Check the claims of a study on the runs of its folder or address, or on a table of results.

    A folder knows the types of variables by either rule, and claims about types are decided under both; a table has
    them by the one rule it was collected with.

    Args:
        results: A study's folder or fsspec address, or its results.parquet.
        study: The study whose claims to check; without it those the folder was started with.

    Returns:
        The verdicts, with their summary.

    Raises:
        DataError: If there are no results, or they do not say whose claims to check.
    """
    path = Path(results)
    whole = is_address(results) or path.is_dir()
    if not whole and not path.exists():
        raise DataError(f"expected a study's folder or table of results, {results} does not exist")
    if study is None and not whole and not (path.parent / FILE).exists():
        raise DataError(
            f"expected to know whose claims to check on {path}, there is no {FILE} beside it; "
            "name the study, such as be_more_active"
        )
    claims = chosen_claims(study_claims(study)) if study else _claims_of(read_study(results if whole else path.parent))
    if not claims:
        return Verification(())
    return check_claims(_by_both_rules(results) if whole else _read(path), claims)


def published_verdicts(folder: str | Path) -> Verification | None:
    """Return the verdicts that lie in a published folder, or None where there are none.

    Args:
        folder: A folder with a ``verdict.json``, as `publish` writes it.

    Returns:
        The verdicts.

    Raises:
        DataError: If the file is not one of verdicts.
    """
    path = Path(folder) / PUBLISHED
    if not path.is_file():
        return None
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError(f"it has more than {LARGEST:,} bytes")
        known: Any = json.loads(path.read_text(encoding="utf-8"))
        return Verification(tuple(_verdict(record) for record in known["verdicts"]))
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(f"expected the verdicts of a study in {path}, could not read them: {error}") from error


def _claims_of(study: Study) -> tuple[Claim, ...]:
    """Return the claims a folder was started with; one of an earlier version has those its study has today."""
    try:
        return chosen_claims(study.claims)
    except ConfigError:
        if study.name not in study_names():
            raise
        return chosen_claims(study_claims(study.name))


def _verdict(record: dict[str, Any]) -> Verdict:
    fields = {name: record[name] for name in Verdict.__dataclass_fields__ if name in record and name != "rules"}
    return Verdict(**fields, rules=tuple(record.get("rules", {}).items()))


def _by_both_rules(folder: str | Path) -> polars.DataFrame:
    with at_hand(folder, without=LARGE) as here:
        return results_of(read_study(folder).points, here, rule=None, named=folder)


def _read(path: Path) -> polars.DataFrame:
    table = read_table(path, columns=KINDS)
    # NaN equals nothing, itself included: a strength or seed that is none is one that is not known.
    numbers = [name for name in ("seed", "strength") if table.schema[name].is_float()]
    cast = [polars.col(name).cast(polars.String) for name, kind in KINDS.items() if kind == "text"]
    return table.with_columns(*(polars.col(name).fill_nan(None) for name in numbers), *cast).with_columns(
        polars.col("seed").cast(polars.Int64, strict=False), polars.col("value").cast(polars.Float64)
    )
