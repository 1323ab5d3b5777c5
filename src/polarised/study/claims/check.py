"""Check claims on a study's tidy table: a verdict for each method and dataset, and how many of them hold."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
import polars

from polarised.schemas import stamp
from polarised.study.claims.claim import PAPERS, Claim, Share, Statistic
from polarised.study.claims.decisions import LEVEL, Decision, decide, every, holm
from polarised.study.claims.expressions import Array, Grid, Table

__all__ = ["RESERVED_SEEDS", "WORDS", "Verdict", "Verification", "Word", "check_claims", "titled", "whole_seeds"]

Word = Literal["confirmed", "refuted", "undecided", "not testable"]
WORDS: tuple[Word, ...] = ("confirmed", "refuted", "undecided", "not testable")
# Seeds from this one on were used to choose presets and are never evaluated.
RESERVED_SEEDS = 1000
LAWS = "laws on arrays"
ALL = "all methods"


@dataclass(frozen=True)
class Verdict:
    """The verdict on one claim for one method on one dataset.

    `effect` with `low` and `high` is that of the worst `strength`; `survives` says whether the verdict holds after
    Holm's correction over the claims of that paper for that method and dataset (None if nothing was decided), and
    `rules` has the verdict by each rule for types.
    """

    name: str
    claim: str
    verdict: Word
    evidence: str
    paper: str = ""
    method: str = ""
    dataset: str = ""
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    seeds: int = 0
    strength: float | None = None
    p_value: float | None = None
    survives: bool | None = None
    rules: tuple[tuple[str, Word], ...] = ()

    @property
    def statement(self) -> str:
        """The claim with its name, method and dataset.

        >>> Verdict("RTC-F3R", "the disparity is eliminated", "confirmed", "", method="RTC-VAE", dataset="a").statement
        'RTC-F3R, RTC-VAE on a: “the disparity is eliminated”'
        """
        where = " on ".join(filter(None, (self.method, self.dataset)))
        return f"{', '.join(filter(None, (self.name, where)))}: “{self.claim}”"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON types."""
        return {**asdict(self), "rules": dict(self.rules)}


@dataclass(frozen=True)
class Verification:
    """The verdicts on a table of results."""

    verdicts: tuple[Verdict, ...]

    @property
    def summary(self) -> tuple[dict[str, Any], ...]:
        """The number of verdicts of each kind, by paper and method."""
        counts = Counter((v.paper, v.method, v.verdict) for v in self.verdicts)
        keys = dict.fromkeys((v.paper, v.method) for v in self.verdicts)
        return tuple(
            {"paper": paper, "method": method, **{word: counts[paper, method, word] for word in WORDS}}
            for paper, method in keys
        )

    @property
    def holds(self) -> dict[str, tuple[int, int]]:
        """For each tested claim, in how many methods and datasets it holds, and how many there are."""
        tested = [v for v in self.verdicts if v.verdict != "not testable" and v.method != LAWS]
        confirmed = Counter(v.name for v in tested if v.verdict == "confirmed")
        return {name: (confirmed[name], count) for name, count in Counter(v.name for v in tested).items()}

    @property
    def by_claim(self) -> dict[str, tuple[Verdict, ...]]:
        """The verdicts on each claim."""
        names = dict.fromkeys(verdict.name for verdict in self.verdicts)
        return {name: tuple(own for own in self.verdicts if own.name == name) for name in names}

    @property
    def headline(self) -> str:
        """The counts in one sentence; laws on arrays are counted separately, since they do not depend on runs.

        >>> law = Verdict("C", "c", "refuted", "", method="laws on arrays")
        >>> Verification((Verdict("A", "a", "confirmed", ""), Verdict("B", "b", "undecided", ""), law)).headline
        '1 confirmed, 0 refuted, 1 undecided, 0 not testable; of the laws on arrays 0 hold and 1 fails'
        """
        counts = Counter(verdict.verdict for verdict in self.verdicts if verdict.method != LAWS)
        said = ", ".join(f"{counts[word]} {word}" for word in WORDS)
        laws = [verdict.verdict for verdict in self.verdicts if verdict.method == LAWS]
        if not laws:
            return said
        hold, fail = laws.count("confirmed"), laws.count("refuted")
        return (
            f"{said}; of the laws on arrays {hold} {'holds' if hold == 1 else 'hold'} "
            f"and {fail} {'fails' if fail == 1 else 'fail'}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON types, the summary first."""
        values = {
            "headline": self.headline,
            "summary": [dict(row) for row in self.summary],
            "holds": {name: {"confirmed": k, "of": n} for name, (k, n) in self.holds.items()},
            "verdicts": [verdict.to_dict() for verdict in self.verdicts],
        }
        return stamp("verification", values)


def check_claims(table: polars.DataFrame, claims: Iterable[Claim]) -> Verification:
    """Decide claims on a tidy table, separately for each method and dataset.

    A claim over strengths is tested at each of them and the worst result is reported. If the table has a column `rule`,
    claims about types are decided by the rules of paper and library, and are undecided if the two differ, or if
    the verdict changes without the runs whose metric `settled` is 0. Seeds from 1000 on do not count.

    Args:
        table: Columns run, seed, method, strength, dataset, representation, variables, metric, value, and
            optionally `variable` and `rule`.
        claims: The claims to check.

    Returns:
        The verdicts, with their summary.
    """
    chosen = list(claims)
    parts = {rule: _Part(own) for rule, own in _by_rule(_evaluated(table)).items()}
    verdicts: list[Verdict] = []
    for claim in chosen:
        verdicts += _verdicts(claim, parts)
    verdicts = _with_holm(verdicts)
    for claim in chosen:
        if claim.follows:
            verdicts += _following(claim, verdicts)
    return Verification(tuple(verdicts))


def whole_seeds(table: polars.DataFrame) -> polars.DataFrame:
    """Remove the incomplete seeds of a method: a seed with part of the grid cannot be compared with complete ones.

    If no seed of a method is complete, as for a few published models, all are kept.

    >>> rows = {"method": "VAE", "dataset": "a", "seed": [0, 0, 1], "strength": [1.0, 2.0, 1.0]}
    >>> whole_seeds(polars.DataFrame(rows))["seed"].to_list()
    [0, 0]
    """
    of_number = {"run", "representation", "variables", "variable", "metric", "value", "rule"}
    points = table.select(name for name in table.columns if name not in of_number).unique()
    seed = ["method", "dataset", "seed"]
    wanted = points.drop("seed").unique().group_by("method", "dataset").len("wanted")
    seeds = points.group_by(seed).len("had").join(wanted, on=["method", "dataset"])
    whole = polars.col("had") == polars.col("wanted")
    kept = seeds.filter(whole | ~whole.any().over("method", "dataset"))
    return table.join(kept, on=seed, how="semi", maintain_order="left")


@dataclass(frozen=True)
class _Outcome:
    """The result of a claim for one method and dataset, by one rule and one choice of runs."""

    word: Word
    evidence: str
    decision: Decision | None = None
    strength: float | None = None
    p_value: float | None = None


class _Part:
    """A table by one rule, with and without the runs that did not settle."""

    def __init__(self, table: polars.DataFrame) -> None:
        self.every = Table(table)
        metric, value = polars.col("metric"), polars.col("value")
        unsettled = table.filter((metric == "settled") & (value == 0))["run"].unique()
        self.unsettled = len(unsettled)
        self.settled = Table(table.filter(~polars.col("run").is_in(unsettled.to_list()))) if self.unsettled else None

    def outcome(self, claim: Claim, method: str, dataset: str) -> _Outcome | None:
        """Return the result of the runs; None if no run has the numbers."""
        found = _decided(claim, self.grid(self.every, method, dataset))
        if found is None or self.settled is None:
            return found
        without = _decided(claim, self.grid(self.settled, method, dataset))
        word = without.word if without else "undecided"
        if word == found.word:
            return found
        words = f"{found.word} with all runs, {word} without those that did not settle; {found.evidence}"
        return replace(found, word="undecided", evidence=words)

    @staticmethod
    def grid(table: Table, method: str, dataset: str) -> Grid | None:
        return table.together(dataset) if method == ALL else table.grid(method, dataset)


def _evaluated(table: polars.DataFrame) -> polars.DataFrame:
    return whole_seeds(table.filter(polars.col("seed") < RESERVED_SEEDS))


def _by_rule(table: polars.DataFrame) -> dict[str, polars.DataFrame]:
    if "rule" not in table.columns:
        return {"": table}
    rule = polars.col("rule")
    rules = sorted(str(name) for name in table["rule"].drop_nulls().unique())
    return {name: table.filter(rule.is_null() | (rule == name)) for name in rules} or {"": table}


def _verdicts(claim: Claim, parts: Mapping[str, _Part]) -> list[Verdict]:
    """Return a verdict for each method and dataset, or one that gives the reason why there is none."""
    sentence = claim.quotation[0]
    blank = Verdict(claim.id, sentence, "not testable", claim.untestable, claim.paper, "")
    if claim.untestable:
        return [blank]
    found: list[Verdict] = []
    if claim.law is not None:
        held = f"{claim.law.finding} ({claim.law.test})"
        found.append(replace(blank, verdict=claim.law.word, evidence=held, method=LAWS))
    if not claim.statistics:
        return found
    tested = []
    for method, dataset in _places(claim, parts):
        found_by = {rule: part.outcome(claim, method, dataset) for rule, part in parts.items()}
        outcomes = {rule: outcome for rule, outcome in found_by.items() if outcome is not None}
        if outcomes:
            tested.append(_joined(replace(blank, method=method, dataset=dataset), claim, outcomes))
    if not tested and claim.law is None:
        tested = [replace(blank, evidence=f"these results give it no value: it needs {_lacking(claim, parts)}")]
    return [*found, *tested]


def _lacking(claim: Claim, parts: Mapping[str, _Part]) -> str:
    """Return what a claim without a value needs: more strengths, if a method has all its numbers, or its numbers."""
    names = {name for one in claim.statistics for name in one.numbers()}
    grids = [part.grid(part.every, *place) for part in parts.values() for place in _places(claim, parts)]
    complete = [grid for grid in grids if grid and all(np.isfinite(grid.values(name)).any() for name in names)]
    expressions = [expression for one in claim.statistics for expression in one.expressions()]
    fewest = max(expression.fewest() for expression in expressions)
    found = {point for grid in complete for point in grid.points}
    named = ", ".join(f"{point:g}" for point in sorted({p for each in expressions for p in each.named()} - found))
    if complete and max(len(grid.points) for grid in complete) < fewest:
        return f"at least {('two', 'three')[fewest - 2]} strengths" + (f", one of them {named}" if named else "")
    if complete and named:
        return f"strength {named}"
    return ", ".join(sorted(name.key for name in names))


def _places(claim: Claim, parts: Mapping[str, _Part]) -> list[tuple[str, str]]:
    places = next(iter(parts.values())).every.places
    own = [place for place in places if claim.concerns(place[0])]
    if not claim.together:
        return own
    return [*((ALL, dataset) for dataset in dict.fromkeys(dataset for _, dataset in places)), *own]


def _joined(blank: Verdict, claim: Claim, outcomes: Mapping[str, _Outcome]) -> Verdict:
    """Combine the results by the rules of the paper and of the library: a verdict needs the same result by both.

    Results with types that do not use the decoder have the relative rule instead of that of the library.
    """
    wanted = dict.fromkeys(rule if rule in outcomes else "relative" for rule in claim.rules)
    deciding = {rule: outcomes[rule] for rule in wanted if rule in outcomes} or outcomes
    worst = max(deciding.values(), key=lambda outcome: outcome.p_value if outcome.p_value is not None else 1.0)
    word, evidence = worst.word, worst.evidence
    if len({outcome.word for outcome in deciding.values()}) > 1:
        said = ", ".join(f"{outcome.word} by the {rule} rule" for rule, outcome in deciding.items())
        word, evidence = "undecided", f"{said}; {evidence}"
    decision = worst.decision
    named = tuple((rule, outcome.word) for rule, outcome in outcomes.items() if rule)
    verdict = replace(blank, verdict=word, evidence=evidence, rules=named if claim.uses_types else ())
    if decision is None:
        return verdict
    return replace(
        verdict,
        effect=decision.estimate,
        low=decision.low,
        high=decision.high,
        seeds=decision.seeds,
        strength=worst.strength,
        p_value=worst.p_value,
    )


def _decided(claim: Claim, grid: Grid | None) -> _Outcome | None:
    """Decide every statistic of a claim at every strength and combine them; a missing number prevents confirmation."""
    if grid is None:
        return None
    looks: list[tuple[Statistic | Share, float | None, Array]] = []
    missing = []
    for statistic in claim.statistics:
        own = list(_looks(statistic, grid))
        looks += [(statistic, *look) for look in own]
        missing += [] if own else [statistic.words]
    if not looks:
        return None
    decisions = [
        decide(values, statistic.needed, kind=statistic.kind, looks=len(looks)) for statistic, _, values in looks
    ]
    decisions = [d if d.seeds >= claim.least_seeds else replace(d, word="undecided") for d in decisions]
    word, worst = every(decisions)
    chosen, (statistic, strength, _) = decisions[worst], looks[worst]
    evidence = _evidence(claim, statistic, strength, chosen, len(looks))
    p_confirmed, p_refuted = max(d.p_confirmed for d in decisions), min(d.p_refuted for d in decisions)
    if missing:
        p_confirmed, evidence = 1.0, f"{evidence}; no run has: {', '.join(missing)}"
        word = "undecided" if word == "confirmed" else word
    p_value = {"confirmed": p_confirmed, "refuted": p_refuted, "undecided": min(p_confirmed, p_refuted)}[word]
    return _Outcome(word, evidence, chosen, strength, p_value)


def _looks(statistic: Statistic | Share, grid: Grid) -> Iterable[tuple[float | None, Array]]:
    """Yield (strength, values of the seeds) of a statistic; strengths without a value are omitted."""
    if isinstance(statistic, Share):
        successes = _successes(statistic, grid)
        if len(successes):
            yield None, successes
        return
    # With fewer strengths, a strength would be compared with itself.
    if len(grid.points) < statistic.effect.fewest():
        return
    effects = statistic.effect.evaluate(grid)
    for k, values in enumerate(effects):
        strength = grid.points[k] if len(effects) == len(grid.points) else None
        if strength is not None and statistic.strengths is not None and strength not in statistic.strengths:
            continue
        if np.isfinite(values).any():
            yield (strength if len(grid.points) > 1 else None), values


def _successes(share: Share, grid: Grid) -> Array:
    """Return 1 for a seed in which everything holds, at every strength or at some, and 0 for other measured seeds."""
    shape = (len(grid.points), len(grid.seeds))
    holds, known = np.ones(shape, dtype=bool), np.ones(shape, dtype=bool)
    for expression, region in share.holds:
        values = np.broadcast_to(expression.evaluate(grid), shape)
        sizes = np.abs(values) if region.size else values
        with np.errstate(invalid="ignore"):
            holds &= (sizes > region.low) & (sizes < region.high)
        known &= np.isfinite(values)
    wanted = np.array([share.strengths is None or point in share.strengths for point in grid.points], dtype=bool)
    holds, known = (holds & known)[wanted], known[wanted]
    found = (holds | ~known).all(axis=0) if share.over == "every" else holds.any(axis=0)
    return np.asarray(found[known.any(axis=0)], dtype=np.float64)


def _evidence(
    claim: Claim, statistic: Statistic | Share, strength: float | None, decision: Decision, looks: int
) -> str:
    place = "" if strength is None else f" at strength {strength:g}"
    seeds = "1 seed" if decision.seeds == 1 else f"{decision.seeds} seeds"
    least = max(claim.least_seeds, 1)
    few = f"; {least} seeds are the fewest that decide" if decision.seeds < least else ""
    of = f", the worst of {looks} looks" if looks > 1 else ""
    size = ", in size," if statistic.needed.size else ""
    return f"{statistic.words}{place}{size} {decision} over {seeds}, needed {statistic.needed}{of}{few}"


def _with_holm(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Set for each verdict whether it survives Holm's correction over its paper, method and dataset."""
    families: dict[tuple[str, str, str], list[int]] = {}
    for k, verdict in enumerate(verdicts):
        if verdict.p_value is not None:
            families.setdefault((verdict.paper, verdict.method, verdict.dataset), []).append(k)
    found = list(verdicts)
    for family in families.values():
        p_values = [p if (p := verdicts[k].p_value) is not None else 1.0 for k in family]
        for k, stands in zip(family, holm(p_values, level=LEVEL), strict=True):
            if verdicts[k].verdict in ("confirmed", "refuted"):
                found[k] = replace(found[k], survives=stands)
    return found


def _following(claim: Claim, verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the verdict on a summary: all claims it follows from must be confirmed; one refuted claim refutes it."""
    parts = [v for v in verdicts if v.name in claim.follows]
    words = {name: [v.verdict for v in parts if v.name == name] for name in claim.follows}
    said = ", ".join(f"{name} {_in_words(own)}" for name, own in words.items())
    word: Word = "undecided"
    if any("refuted" in own for own in words.values()):
        word = "refuted"
    elif all(own and set(own) == {"confirmed"} for own in words.values()):
        word = "confirmed"
    elif all(set(own) <= {"not testable"} for own in words.values()):
        word = "not testable"
    return [Verdict(claim.id, claim.quotation[0], word, f"follows from {said}", claim.paper, ALL)]


def _in_words(own: Sequence[Word]) -> str:
    if not own:
        return "not looked at"
    tested = [word for word in own if word != "not testable"]
    return f"confirmed in {tested.count('confirmed')} of {len(tested)}" if tested else "not testable"


def titled(paper: str) -> str:
    """Return the title of a paper of the ledger.

    >>> titled("rtc_vae")
    'RTC-VAE'
    """
    return PAPERS[paper][0] if paper in PAPERS else paper
