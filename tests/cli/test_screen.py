"""The printed output of `diagnose`: whole words in a narrow terminal, no empty table, no long tables."""

import io
import json

import numpy as np
import pytest
from rich.console import Console

from polarised import Encodings, diagnose
from polarised.cli.screen import print_json, show_diagnosis, table

N = 500
GENERATOR = np.random.default_rng(0)


def shown(encodings, width=80):
    screen = Console(file=io.StringIO(), width=width, highlight=False)
    show_diagnosis(diagnose(encodings), screen)
    text = screen.file.getvalue()
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    return text


def coded(levels, **more):
    scale = np.array([1.0 if level < 0.5 else 0.02 for level in levels])
    return Encodings(GENERATOR.normal(size=(N, len(levels))) * scale, variance=np.tile(levels, (N, 1)), **more)


def test_with_one_variable_nothing_is_compared():
    text = shown(coded([0.01]))
    assert "The only latent variable is active." in text
    assert "Mean or sample?" not in text


def test_alive_variables_are_compared_only_if_some_are_passive():
    assert "without passive" in shown(coded([0.01, 0.02, 0.99]))
    assert "alive" not in shown(coded([0.01, 0.02]))
    assert "alive" not in shown(coded([0.99, 0.99]))


def test_a_flag_is_not_cut_off():
    prior = 2 * GENERATOR.normal(size=(N, 2))
    level = np.full((N, 2), 0.01)
    assert "prior-driven" in shown(Encodings(prior, variance=level, prior_mean=prior, prior_variance=level))


@pytest.mark.parametrize(("rows", "left_out"), [(60, 0), (300, 260)])
def test_long_tables_show_only_the_first_rows(rows, left_out):
    screen = Console(file=io.StringIO(), width=80)
    screen.print(table("Many", ("variable", "value"), [(str(i), "0") for i in range(rows)]))
    text = screen.file.getvalue()
    assert text.count("\n") < 70
    assert (f"… and {left_out} more" in text) == bool(left_out)


def test_a_title_may_be_longer_than_its_table():
    screen = Console(file=io.StringIO(), width=80)
    screen.print(table("A title of more words than the table is wide", ("a",), [("0",)]))
    assert screen.file.getvalue().splitlines()[0] == "A title of more words than the table is wide"


def test_numbers_that_json_lacks_are_strings(capsys):
    def refused(constant):
        raise AssertionError(constant)

    print_json({"a": [float("inf"), {"b": (-np.inf, np.float64("nan"))}], "c": 0.5})
    printed = json.loads(capsys.readouterr().out, parse_constant=refused)
    assert printed == {"a": ["inf", {"b": ["-inf", "nan"]}], "c": 0.5}
