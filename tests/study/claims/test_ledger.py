"""Every entry of the ledger on tables in which it is true, is false, or holds only on average.

The tables come from `examples.json`, which says what numbers a model has where a claim holds and where it fails. They
know nothing of how a claim is computed, so a claim whose direction is turned round fails here.
"""

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

from polarised.study.claims import LEDGER, PAPERS, Claim, Share, Statistic, Verdict, check_claims
from polarised.study.claims.decisions import Region
from polarised.study.results import COLUMNS

HERE = Path(__file__).parent
IDS = (HERE / "ids.txt").read_text(encoding="utf-8").split("\n")[:-1]
EXAMPLES: dict[str, Any] = json.loads((HERE / "examples.json").read_text(encoding="utf-8"))
STRENGTHS = [1.0, 2.0, 4.0, 8.0]
TESTED = [claim.id for claim in LEDGER.values() if claim.statistics]
PARTS = [(name, k) for name in TESTED for k in range(len(LEDGER[name].statistics))]
ROOT = HERE.parents[2]


def table(name: str, *, fails: int | None = None, averaged: bool = False, dataset: str = "made") -> polars.DataFrame:
    """Return results in which a claim holds, or its part `fails` does not, at all strengths or only on average."""
    claim, example = LEDGER[name], EXAMPLES[name]
    strengths = example.get("strengths", STRENGTHS)
    numbers: dict[str, Any] = {}
    order = [k for k in range(len(example["numbers"])) if k != fails] + ([fails] if fails is not None else [])
    for k in order:
        for key, value in example["numbers"][k].items():
            if isinstance(value, dict):
                holds, wrong = value["holds"], value["fails"]
                value = holds if k != fails else _alternating(holds, wrong, strengths) if averaged else wrong
            numbers[key] = value
    rows: list[Any] = []
    generator = np.random.default_rng(0)
    main = example.get("method") or (claim.methods[0] if claim.methods else "beta-VAE")
    for seed in range(max(12, claim.least_seeds)):
        for key, value in numbers.items():
            method, _, number = key.rpartition(": ")
            metric, representation, variables = number.split("/")
            for k, strength in enumerate(strengths):
                found = value[k] if isinstance(value, list) else value
                if found == "wide":
                    found = 0.6 + 0.1 * (-1) ** seed
                if not isinstance(value, list):
                    found += 1e-4 * generator.normal()
                run = f"{method or main}-{strength}-{seed}"
                place = (method or main, strength, dataset, representation or None, variables, metric, found)
                rows.append((run, seed, *place))
                if claim.together:
                    rows.append((f"other-{run}", seed, "another", *rows[-1][3:]))
    return polars.DataFrame(rows, schema=list(COLUMNS), orient="row")


def _alternating(holds: Any, wrong: Any, strengths: list[float]) -> list[float]:
    """Return values that are wrong at every other strength and make up for it at the others."""
    first, second = (np.broadcast_to(np.asarray(v, dtype=float), len(strengths)) for v in (holds, wrong))
    odd = np.arange(len(strengths)) % 2 == 1
    return [float(value) for value in np.where(odd, second, 2 * first - second)]


def verdicts(name: str, made: polars.DataFrame, claim: Claim | None = None) -> list[Verdict]:
    """Return the verdicts of a claim for the method its example is about."""
    example, claim = EXAMPLES[name], claim or LEDGER[name]
    main = example.get("method") or (claim.methods[0] if claim.methods else "beta-VAE")
    found = check_claims(made, [replace(claim, law=None)]).verdicts
    return [v for v in found if v.method == main or (claim.together and v.method == "all methods")]


def words(name: str, made: polars.DataFrame, claim: Claim | None = None) -> set[str]:
    return {verdict.verdict for verdict in verdicts(name, made, claim)}


def test_every_row_of_the_sheets_is_an_entry() -> None:
    assert len(IDS) == 207
    assert [claim.id for claim in LEDGER.values() if claim.paper != "own"] == IDS


@pytest.mark.parametrize("name", IDS)
def test_an_entry_says_what_a_referee_asks(name: str) -> None:
    claim = LEDGER[name]
    assert all([claim.place, claim.scope, claim.quotation, *claim.quotation])
    assert (claim.unit, claim.least_seeds >= 6) == ("seed", True)
    assert claim.statistics or claim.law or claim.follows or claim.untestable
    for statistic in claim.statistics:
        assert all([statistic.words, statistic.because])
        bounds = [bound for bound in (statistic.needed.low, statistic.needed.high) if math.isfinite(bound)]
        assert bounds, "a region without a bound cannot fail"


@pytest.mark.parametrize("name", [name for name in IDS if LEDGER[name].law])
def test_a_law_names_a_test_that_is_there(name: str) -> None:
    law = LEDGER[name].law
    assert law is not None
    path, _, function = law.test.partition("::")
    assert re.search(rf"^def {function}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE), law.test
    assert law.finding


def test_every_tested_entry_has_an_example_of_each_part() -> None:
    assert set(EXAMPLES) == set(TESTED)
    for name in TESTED:
        assert len(EXAMPLES[name]["numbers"]) == len(LEDGER[name].statistics), name
        for part in EXAMPLES[name]["numbers"]:
            assert any(isinstance(value, dict) for value in part.values()), name


@pytest.mark.parametrize("name", TESTED)
def test_an_entry_is_confirmed_where_it_holds(name: str) -> None:
    found = verdicts(name, table(name))
    assert found
    assert [verdict.evidence for verdict in found if verdict.verdict != "confirmed"] == []
    assert all(verdict.survives and verdict.seeds >= 6 for verdict in found)


@pytest.mark.parametrize(("name", "part"), PARTS)
def test_an_entry_is_refuted_where_a_part_of_it_fails(name: str, part: int) -> None:
    found = verdicts(name, table(name, fails=part))
    assert [verdict.evidence for verdict in found if verdict.verdict != "refuted"] == []


def test_seeds_too_few_decide_no_entry() -> None:
    for name in TESTED:
        few = table(name).filter(polars.col("seed") < 5)
        assert words(name, few) == {"undecided"}, name
        few = table(name, fails=0).filter(polars.col("seed") < 5)
        assert words(name, few) == {"undecided"}, name


def _over_strengths(name: str, part: int) -> bool:
    """Return whether a part looks at every strength and its example differs by a plain number."""
    statistic = LEDGER[name].statistics[part]
    values = [value for value in EXAMPLES[name]["numbers"][part].values() if isinstance(value, dict)]
    plain = all(isinstance(side, float) for value in values for side in value.values())
    if isinstance(statistic, Share):
        return plain and statistic.over == "every" and statistic.strengths is None
    alone = replace(LEDGER[name], statistics=(statistic,), law=None)
    return plain and any(verdict.strength is not None for verdict in check_claims(table(name), [alone]).verdicts)


AVERAGED = [(name, part) for name, part in PARTS if _over_strengths(name, part)]


@pytest.mark.parametrize(("name", "part"), AVERAGED)
def test_an_entry_that_holds_only_on_average_over_strengths_is_refuted(name: str, part: int) -> None:
    assert words(name, table(name, fails=part, averaged=True)) == {"refuted"}


@pytest.mark.parametrize("name", TESTED)
def test_a_dataset_where_an_entry_fails_is_not_hidden_by_two_where_it_holds(name: str) -> None:
    parts = [table(name, dataset="a"), table(name, dataset="b"), table(name, fails=0, dataset="c")]
    found = verdicts(name, polars.concat(parts))
    by_dataset = {where: {v.verdict for v in found if v.dataset == where} for where in "abc"}
    assert by_dataset == {"a": {"confirmed"}, "b": {"confirmed"}, "c": {"refuted"}}


def _turned(region: Region) -> Region:
    if region.size:
        return Region(region.high, math.inf)
    if math.isinf(region.high):
        return Region(high=region.low)
    return Region(low=region.high)


@pytest.mark.parametrize(("name", "part"), PARTS)
def test_an_entry_turned_round_is_not_confirmed(name: str, part: int) -> None:
    claim = LEDGER[name]
    statistic: Statistic | Share = claim.statistics[part]
    if isinstance(statistic, Share):
        turned: Statistic | Share = replace(statistic, needed=_turned(statistic.needed))
    else:
        turned = replace(statistic, needed=_turned(statistic.needed))
    statistics = tuple(turned if k == part else own for k, own in enumerate(claim.statistics))
    assert "confirmed" not in words(name, table(name), replace(claim, statistics=statistics))


def test_papers_are_known_by_their_references() -> None:
    bibliography = (ROOT / "src/polarised/references.bib").read_text(encoding="utf-8")
    for title, key in PAPERS.values():
        assert title
        assert not key or f"{{{key}," in bibliography
