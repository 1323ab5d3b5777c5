import re
from pathlib import Path

import pytest

import polarised
from polarised.bibliography import bibliography, bibtex
from polarised.study.config import Run
from polarised.study.workflow import cite_runs

SOURCES = sorted(Path(polarised.__file__).parent.rglob("*.py"))


def test_every_key_in_a_docstring_is_in_the_bibliography():
    cited = {
        key: path.name
        for path in SOURCES
        for group in re.findall(r"\[([A-Z][A-Za-z]+\d{4}[^\]]*)\]", path.read_text())
        for key in re.findall(r"\b[A-Z][A-Za-z]+\d{4}[A-Za-z]*", group)
    }
    assert len(cited) > 20
    assert {key: name for key, name in cited.items() if key not in bibliography()} == {}


def test_a_run_is_cited_by_what_it_used_and_nothing_else():
    keys = cite_runs([Run.from_config({"objective": {"name": "DIPVAE"}, "dataset": "dsprites"})])
    assert {"Kumar2018", "Matthey2017", "Roy2007"} <= set(keys)
    assert not {"Kim2018", "Mathieu2019", "LeCun1998"} & set(keys)


def test_a_remark_in_a_docstring_is_no_citation():
    mlp = {"architecture": "mlp", "latents": 3}
    keys = cite_runs([Run.from_config({"objective": "DIPVAE", "model": mlp})])
    assert not {"Cheng2021", "Khemakhem2020", "Higgins2017"} & set(keys)
    chosen = {**mlp, "architecture": {"name": "mlp", "activation": "xtanh"}}
    assert "Khemakhem2020" in cite_runs([Run.from_config({"objective": "DIPVAE", "model": chosen})])


@pytest.mark.parametrize(("scale", "key"), [("fixed", None), ("shared", "Dai2018"), ("per-image", "Rybkin2021")])
def test_a_setting_brings_its_own_citation(scale, key):
    model = {"architecture": "mlp", "likelihood": {"name": "Gaussian", "scale": scale}}
    found = {"Dai2018", "Rybkin2021", "Mathieu2019"} & set(cite_runs([Run.from_config({"model": model})]))
    assert found == ({key} if key else set())


def test_every_measure_and_dataset_a_run_takes_is_cited():
    run = Run.from_config({"dataset": "color_dsprites", "evaluation": {"further": ["factor_information"]}})
    assert {"Chen2018", "Kumar2018", "Cheng2021", "Matthey2017", "Locatello2019"} <= set(cite_runs([run]))


@pytest.mark.parametrize("key", sorted(bibliography()))
def test_every_entry_is_whole(key):
    entry = bibtex([key])
    assert entry.count("{") == entry.count("}")
    assert {"title", "author", "year"} <= set(re.findall(r"^  (\w+) = ", entry, flags=re.MULTILINE))
