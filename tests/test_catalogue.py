import sys
import types
from dataclasses import dataclass

import pytest

from polarised import catalogue
from polarised.errors import ConfigError, DataError


@dataclass(frozen=True, kw_only=True)
class Penalty:
    weight: float = 2.0
    widths: tuple[int, ...] = (1, 2)


def network(shape, *, width: int, bias: bool = True):
    return shape, width, bias


@pytest.fixture(autouse=True)
def page(monkeypatch):
    module = types.ModuleType("a_page")
    module.Penalty, module.network, module.hidden = Penalty, network, network
    module.__all__ = ["Penalty", "network"]
    monkeypatch.setitem(sys.modules, "a_page", module)


def test_a_config_is_a_call():
    assert catalogue.build("a_page", {"name": "Penalty", "weight": 4}) == Penalty(weight=4.0)
    assert catalogue.build("a_page", {"name": "network", "width": 3}, (1, 2)) == ((1, 2), 3, True)


def test_complete_writes_every_default_as_plain_types():
    assert catalogue.complete("a_page", "Penalty") == {"name": "Penalty", "weight": 2.0, "widths": [1, 2]}


def test_complete_is_idempotent_and_builds_the_same():
    once = catalogue.complete("a_page", {"name": "Penalty", "widths": [7]})
    assert catalogue.complete("a_page", once) == once
    assert catalogue.build("a_page", once) == Penalty(widths=(7,))


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("Penaltyy", "did you mean 'Penalty'"),
        ("hidden", "has no 'hidden'"),
        ({"name": "Penalty", "wieght": 1}, "did you mean 'weight'"),
        ({"name": "Penalty", "weight": "heavy"}, "Penalty.weight: .*got 'heavy'"),
        ({"name": "network"}, "needs the setting 'width'"),
        ({"width": 3}, "a mapping with a 'name'"),
        (3, "a mapping with a 'name'"),
        ("no_such_module:thing", "importable 'module:name'"),
        ("a_page:absent", "importable 'module:name'"),
    ],
)
def test_what_does_not_fit_is_named(spec, says):
    with pytest.raises(ConfigError, match=says):
        catalogue.build("a_page", spec)


def test_a_users_own_module_plugs_in():
    assert catalogue.build("polarised.objectives.papers", {"name": "a_page:Penalty", "weight": 3}) == Penalty(
        weight=3.0
    )


def test_code_in_a_config_that_came_in_a_file_is_refused(monkeypatch):
    same = ["a_page:network"]
    for _ in range(40):
        same = [same, same]
    for config in ("a_page:network", {"a": {"name": "a_page:network"}}, {"a": [{"b": ("a_page:network",)}]}, same):
        monkeypatch.setattr(catalogue, "_used", set())
        with pytest.raises(DataError, match=r"a_page:network.*POLARISED_TRUST=a_page"):
            catalogue.refuse_code(config, "config.yaml")
        catalogue.entry("a_page", "a_page:network")
        catalogue.refuse_code(config, "config.yaml")
    catalogue.refuse_code({"name": "from_npz", "path": "s3://bucket/file.npz", "n": 3, "more": None}, "config.yaml")
