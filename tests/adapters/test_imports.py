"""No adapter imports its library, or torch, before it is used."""

import subprocess
import sys

SCRIPT = """
import sys
import polarised.adapters
from polarised.adapters import arrays, callables, diffusers, pythae, scvi, targets
from polarised.adapters import *
heavy = {"torch", "pythae", "diffusers", "scvi", "anndata", "lightning", "tensorflow", "ray"}
print(sorted(heavy & sys.modules.keys() - {"torch"}))
"""


def test_importing_the_adapters_loads_no_third_party_library():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_arrays_and_functions_need_no_torch():
    names = "from_arrays, from_callable, open_target"
    script = f"import sys; from polarised.adapters import {names}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
