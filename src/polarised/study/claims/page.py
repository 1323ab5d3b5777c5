"""The ledger as a page of the documentation: every entry, and its verdict at every scale that was run."""

from collections.abc import Mapping
from pathlib import Path

from polarised.study.claims.check import Verification
from polarised.study.claims.choose import LEDGER
from polarised.study.claims.claim import PAPERS, Claim
from polarised.study.claims.verify import published_verdicts

__all__ = ["ledger_page", "published_under"]

HEAD = """# The ledger

Every citable item of four papers: its words, where it stands, what is measured and what would count, or why nothing
can be. A verdict is a statistic: seeds are the units, each method and dataset has its own, a claim over strengths is
tested at each of them and reported by its worst, and six seeds are the fewest that decide
([how](explanation/verdicts.md)). "Holds in k of n" counts methods and datasets in the folders of
[published results](results/README.md); laws are statements on arrays that a test keeps watch over.

This page is generated: `python -m polarised.study.claims.page docs`.
"""


def published_under(results: str | Path) -> dict[str, Verification]:
    """Return the verdicts of every published folder below one, by the folder's path.

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


def _write(documentation: str) -> None:
    root = Path(documentation)
    (root / "ledger.md").write_text(ledger_page(published_under(root / "results")), encoding="utf-8")


if __name__ == "__main__":
    import sys

    _write(sys.argv[1])
