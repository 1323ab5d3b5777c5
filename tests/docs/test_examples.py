"""Every `>>>` example in the package runs and prints what it says."""

import doctest
import importlib
import pkgutil

import pytest

import polarised

MODULES = sorted(module.name for module in pkgutil.walk_packages(polarised.__path__, "polarised."))
NEEDS = {
    "polarised.adapters.lightning": "lightning",
}


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    results = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.failed == 0
