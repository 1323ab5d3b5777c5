import sys
import types
from dataclasses import dataclass

import pytest

from polarised import registry
from polarised.errors import ConfigError, DataError


@dataclass(frozen=True, kw_only=True)
class Penalty:
    weight: float = 2.0
    widths: tuple[int, ...] = (1, 2)


def network(shape, *, width: int, bias: bool = True):
    return shape, width, bias


@pytest.fixture(autouse=True)
def kind(monkeypatch):
    """A separate kind with two entries, and an external module."""
    module = types.ModuleType("a_page")
    module.Penalty, module.network = Penalty, network
    monkeypatch.setitem(sys.modules, "a_page", module)
    monkeypatch.setitem(registry.KINDS, "penalty", ())
    monkeypatch.setitem(registry._records, "penalty", {})
    registry.register("penalty", title="Penalty of others")(Penalty)
    registry.register("penalty")(network)


def test_a_config_is_a_call():
    assert registry.build("penalty", {"name": "Penalty", "weight": 4}) == Penalty(weight=4.0)
    assert registry.build("penalty", {"name": "network", "width": 3}, (1, 2)) == ((1, 2), 3, True)


def test_complete_writes_every_default_as_plain_types():
    assert registry.complete("penalty", "Penalty") == {"name": "Penalty", "weight": 2.0, "widths": [1, 2]}


def test_complete_is_idempotent_and_builds_the_same():
    once = registry.complete("penalty", {"name": "Penalty", "widths": [7]})
    assert registry.complete("penalty", once) == once
    assert registry.build("penalty", once) == Penalty(widths=(7,))


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("Penaltyy", "did you mean 'Penalty'"),
        ("hidden", "no penalty 'hidden'"),
        ({"name": "Penalty", "wieght": 1}, "did you mean 'weight'"),
        ({"name": "Penalty", "weight": "heavy"}, "Penalty.weight: .*got 'heavy'"),
        ({"name": "network"}, "needs the setting 'width'"),
        ({"width": 3}, "a mapping with a 'name'"),
        (3, "a mapping with a 'name'"),
        ("no_such_module:thing", "importable 'module:name'"),
        ("a_page:absent", "importable 'module:name'"),
    ],
)
def test_invalid_specs_are_refused(spec, says):
    with pytest.raises(ConfigError, match=says):
        registry.build("penalty", spec)


def test_a_module_of_the_user_can_be_named():
    assert registry.build("objective", {"name": "a_page:Penalty", "weight": 3}) == Penalty(weight=3.0)


def test_code_in_a_config_that_came_in_a_file_is_refused(monkeypatch):
    same = ["a_page:network"]
    for _ in range(40):
        same = [same, same]
    for config in ("a_page:network", {"a": {"name": "a_page:network"}}, {"a": [{"b": ("a_page:network",)}]}, same):
        monkeypatch.setattr(registry, "_used", set())
        with pytest.raises(DataError, match=r"a_page:network.*POLARISED_TRUST=a_page"):
            registry.refuse_code(config, "config.yaml")
        registry.entry("penalty", "a_page:network")
        registry.refuse_code(config, "config.yaml")
    registry.refuse_code({"name": "from_npz", "path": "s3://bucket/file.npz", "n": 3, "more": None}, "config.yaml")


def test_a_name_used_by_another_module_is_refused():
    def other(*, weight: float = 1.0): ...

    other.__name__, other.__module__ = "Penalty", "somewhere.else"
    with pytest.raises(ConfigError, match=r"new name for the penalty 'Penalty' of somewhere.else, .* has one"):
        registry.register("penalty")(other)
    assert registry.entry("penalty", "Penalty") is Penalty
    registry.register("penalty", name="Another")(other)
    assert registry.names("penalty") == ("Penalty", "network", "Another")


def test_facts_are_those_of_the_kind(monkeypatch):
    monkeypatch.setitem(registry.FACTS, "penalty", ("licence",))
    with pytest.raises(ConfigError, match=r"a record of kind penalty has no 'licnece' \(did you mean 'licence'\?\)"):
        registry.register("penalty", licnece="MIT")
    registry.register("penalty", name="free", licence="MIT")(network)
    assert registry.record("penalty", "free").facts == {"licence": "MIT"}


def test_examples_are_specs(tmp_path):
    def written(folder):
        (folder / "file").touch()
        return {"width": 5}

    for example, expected in ((None, [{}]), ({"width": 3}, [{"width": 3}]), (({}, {"width": 4}), [{}, {"width": 4}])):
        registry.register("penalty", name="shown", example=example)(network)
        found = registry.record("penalty", "shown").examples()
        assert list(found) == [{"name": "shown", **settings} for settings in expected]
    registry.register("penalty", name="shown", example=written)(network)
    with pytest.raises(ConfigError, match="expected a folder"):
        registry.record("penalty", "shown").examples()
    assert registry.record("penalty", "shown").examples(tmp_path) == ({"name": "shown", "width": 5},)
    assert (tmp_path / "file").exists()


def test_a_setting_adds_its_references():
    by_setting = {"odd": ("B2021",)}
    registry.register("penalty", name="cited", references=("A2020",), references_by_setting=by_setting)(network)
    record = registry.record("penalty", "cited")
    assert record.citations({"name": "cited", "width": 3}) == ("A2020",)
    assert record.citations({"name": "cited", "width": "odd"}) == ("A2020", "B2021")
