"""Laws of the record of every entry of the catalogue."""

import inspect
import re

import pytest

from polarised import registry
from polarised.bibliography import bibliography
from polarised.registry import Record

# The kinds whose records have a summary.
SUMMARISED = ("dataset", "architecture", "likelihood", "prior", "objective", "adapter", "executor")
RECORDS = [record for kind in registry.KINDS for record in registry.records(kind)]
OF_SUMMARISED = [record for record in RECORDS if record.kind in SUMMARISED]


def label(record: Record) -> str:
    return f"{record.kind}-{record.name}"


@pytest.mark.parametrize("record", RECORDS, ids=label)
def test_references_are_in_the_bibliography_or_written_out(record: Record) -> None:
    every = [*record.references, *(key for keys in record.references_by_setting.values() for key in keys)]
    for reference in every:
        assert reference in bibliography() or registry.reference_key(reference) != reference, reference


@pytest.mark.parametrize("record", RECORDS, ids=label)
def test_strengths_and_settings_that_cite_exist(record: Record) -> None:
    accepted = registry.settings(record.call)
    assert set(record.strength) <= set(accepted)
    choices = " ".join(str(parameter.annotation) for parameter in accepted.values())
    hints = " ".join(map(str, registry._hints(record.call).values()))
    assert all(f"'{value}'" in choices + hints for value in record.references_by_setting)


@pytest.mark.parametrize("record", OF_SUMMARISED, ids=label)
def test_an_entry_has_a_summary_and_documented_settings(record: Record) -> None:
    assert record.title
    assert record.summary
    assert not record.summary.endswith(".")
    text = inspect.getdoc(record.call) or ""
    explained = re.findall(r"^ +(\w+):", text.partition("Args:")[2], flags=re.MULTILINE)
    assert set(registry.settings(record.call)) <= set(explained), "every setting is explained under Args"


@pytest.mark.parametrize("record", OF_SUMMARISED, ids=label)
def test_examples_are_complete_settings(record: Record, tmp_path) -> None:
    for spec in record.examples(tmp_path):
        full = registry.complete(record.kind, spec)
        assert registry.complete(record.kind, full) == full
