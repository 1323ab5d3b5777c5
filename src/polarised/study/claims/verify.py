"""Verify the claims of a study on its folder, its table of results or a published folder; and the ledger as a page."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars

from polarised._io.tables import read_table
from polarised._io.text import parse_json, read_small
from polarised.errors import ConfigError, DataError, MissingFileError
from polarised.study.claims.check import Verdict, Verification, check_claims
from polarised.study.claims.claim import PAPERS, Claim
from polarised.study.claims.ledger import LEDGER, chosen_claims
from polarised.study.grid import Study, study_claims, study_names
from polarised.study.results import KINDS, LARGE, results_of
from polarised.study.runner import FILE, read_study
from polarised.study.storage import at_hand, is_address

__all__ = ["PUBLISHED", "claims_of", "ledger_page", "published_under", "published_verdicts", "verify", "write_ledger"]

PUBLISHED = "verdict.json"
# A study of the four papers has about a thousand verdicts of a few hundred bytes.
LARGEST = 32_000_000

HEAD = """# The ledger

Every citable item of four papers: its words, its place, what is measured and which result would confirm it, or why it
cannot be tested. A verdict is a statistic: seeds are the units, each method and dataset has its own, a claim over
strengths is tested at each of them and reported by its worst, and at least six seeds are needed for a decision
([how](explanation/verdicts.md)). "Holds in k of n" counts methods and datasets in the folders of
[published results](results/README.md); laws are statements on arrays that are checked by a test.

This page is generated: `python -c "from polarised.study.claims.verify import write_ledger; write_ledger('docs')"`.
"""


def verify(results: str | Path, *, study: str | None = None, mixed: bool = False) -> Verification:
    """Check the claims of a study on the runs of its folder or address, or on a table of results.

    A folder has the types of variables by both rules, and claims about types are decided by both; a table has
    only those of the rule with which it was collected.

    Args:
        results: A study's folder or fsspec address, or its results.parquet.
        study: The study whose claims to check; default: that of the folder.
        mixed: Whether runs made by different code may be used together.

    Returns:
        The verdicts, with their summary.

    Raises:
        DataError: If there are no results, or their study is unknown.
    """
    path = Path(results)
    whole = is_address(results) or path.is_dir()
    if not whole and not path.exists():
        raise MissingFileError(f"expected a study's folder or table of results, but {results} does not exist")
    if study is None and not whole and not (path.parent / FILE).exists():
        raise DataError(
            f"expected to know the study of {path}, but there is no {FILE} next to it; "
            "name the study, such as be_more_active"
        )
    claims = chosen_claims(study_claims(study)) if study else claims_of(read_study(results if whole else path.parent))
    if not claims:
        return Verification(())
    return check_claims(_by_both_rules(results, mixed=mixed) if whole else _read(path), claims)


def published_verdicts(folder: str | Path) -> Verification | None:
    """Return the verdicts in a published folder, or None if there are none.

    Args:
        folder: A folder with a ``verdict.json``, as `publish` writes it.

    Returns:
        The verdicts.

    Raises:
        DataError: If the file does not contain verdicts.
    """
    path = Path(folder) / PUBLISHED
    if not path.is_file():
        return None
    try:
        known: Any = parse_json(read_small(path, largest=LARGEST), where=path)
        return Verification(tuple(_verdict(record) for record in known["verdicts"]))
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(f"expected the verdicts of a study in {path}, but could not read them: {error}") from error


def claims_of(study: Study) -> tuple[Claim, ...]:
    """Return the claims with which a folder was created; for a folder of an earlier version, the current ones.

    Args:
        study: The study of the folder.

    Returns:
        Its claims.
    """
    try:
        return chosen_claims(study.claims)
    except ConfigError:
        if study.name not in study_names():
            raise
        return chosen_claims(study_claims(study.name))


def _verdict(record: dict[str, Any]) -> Verdict:
    fields = {name: record[name] for name in Verdict.__dataclass_fields__ if name in record and name != "rules"}
    return Verdict(**fields, rules=tuple(record.get("rules", {}).items()))


def _by_both_rules(folder: str | Path, *, mixed: bool) -> polars.DataFrame:
    with at_hand(folder, without=LARGE) as here:
        return results_of(read_study(folder).points, here, rule=None, named=folder, mixed=mixed)


def _read(path: Path) -> polars.DataFrame:
    table = read_table(path, columns=KINDS)
    # NaN is not equal to itself: a missing strength or seed is treated as unknown.
    numbers = [name for name in ("seed", "strength") if table.schema[name].is_float()]
    cast = [polars.col(name).cast(polars.String) for name, kind in KINDS.items() if kind == "text"]
    return table.with_columns(*(polars.col(name).fill_nan(None) for name in numbers), *cast).with_columns(
        polars.col("seed").cast(polars.Int64, strict=False), polars.col("value").cast(polars.Float64)
    )


def published_under(results: str | Path) -> dict[str, Verification]:
    """Return the verdicts of all published folders below a folder, by their paths.

    Args:
        results: A folder such as docs/results.

    Returns:
        The verdicts, in the order of the folders' names.
    """
    root = Path(results)
    found = {path.parent.relative_to(root).as_posix(): path.parent for path in sorted(root.rglob("verdict.json"))}
    read = {name: published_verdicts(folder) for name, folder in found.items()}
    return {name: verdicts for name, verdicts in read.items() if verdicts is not None}


def ledger_page(published: Mapping[str, Verification]) -> str:
    """Return the ledger as Markdown.

    Args:
        published: Verdicts by the folder they were published in.

    Returns:
        The page.
    """
    parts = [HEAD, _overview()]
    for paper, (title, key) in PAPERS.items():
        own = [claim for claim in LEDGER.values() if claim.paper == paper]
        parts.append(f"## {title}{f' [{key}]' if key else ''}\n")
        parts += [_entry(claim, published) for claim in own]
    return "\n".join(parts)


def write_ledger(documentation: str | Path) -> Path:
    """Write ``ledger.md`` in the folder of the documentation, with the verdicts published in its ``results``.

    Args:
        documentation: The folder.

    Returns:
        The page.
    """
    page = Path(documentation) / "ledger.md"
    page.write_text(ledger_page(published_under(page.parent / "results")), encoding="utf-8")
    return page


def _overview() -> str:
    lines = [
        "| paper | entries | on trained models | laws on arrays | summaries | not testable |",
        "|---|---|---|---|---|---|",
    ]
    for paper, (title, _) in PAPERS.items():
        own = [claim for claim in LEDGER.values() if claim.paper == paper]
        counts = (
            len(own),
            sum(bool(claim.statistics) for claim in own),
            sum(claim.law is not None for claim in own),
            sum(bool(claim.follows) for claim in own),
            sum(bool(claim.untestable) for claim in own),
        )
        lines.append(f"| {title} | {' | '.join(map(str, counts))} |")
    return "\n".join(lines) + "\n"


def _entry(claim: Claim, published: Mapping[str, Verification]) -> str:
    quoted = " … ".join(f"“{words}”" for words in claim.quotation)
    lines = [f"### {claim.id}", "", f"{_upper(claim.place)}: {quoted}", "", f"- Scope: {claim.scope}"]
    lines += [f"- Measured: {one.words}; needed {one.needed}, since {one.because}" for one in claim.statistics]
    said = "" if not claim.methods else f", said of {', '.join(claim.methods)}"
    said += "" if not claim.except_for else f", not of {', '.join(claim.except_for)}"
    if claim.statistics:
        types = "; types by both rules" if claim.uses_types else ""
        lines.append(f"- Unit: a {claim.unit}, at least {claim.least_seeds}{said}{types}")
    if claim.law is not None:
        lines.append(f"- Law, {claim.law.word}: {claim.law.finding} (`{claim.law.test}`)")
    if claim.follows:
        lines.append(f"- Follows from {'; '.join(claim.follows)}")
    if claim.untestable:
        lines.append(f"- Not testable here: {claim.untestable}")
    if claim.note:
        lines.append(f"- Note: {claim.note}")
    lines += [f"- {told}" for folder, found in published.items() if (told := _told(claim, folder, found))]
    return "\n".join(lines) + "\n"


def _told(claim: Claim, folder: str, found: Verification) -> str:
    own = [v for v in found.verdicts if v.name == claim.id and v.method != "laws on arrays"]
    decided = [v for v in own if v.verdict != "not testable"]
    if not decided:
        return ""
    confirmed = sum(v.verdict == "confirmed" for v in decided)
    each = "; ".join(f"{v.method} {v.verdict}{_beside(v.survives)}" for v in decided)
    return f"**{folder}**: holds in {confirmed} of {len(decided)} ({each})"


def _beside(survives: bool | None) -> str:
    return " but not after Holm" if survives is False else ""


def _upper(words: str) -> str:
    return words[:1].upper() + words[1:]
