"""Very many variables, and very many inputs: CPU seconds, memory and the page stay within their limits."""

import json
import subprocess
import sys

import pytest

WIDE = """
import json, resource, sys, time
import numpy as np
import torch
import polarised as po

variables = {variables}
draw = np.random.default_rng(0)
inputs = draw.normal(size=(10_000, 64)).astype(np.float32)
weights = torch.from_numpy(draw.normal(size=(64, variables)).astype(np.float32) / 8)
back = torch.from_numpy(draw.normal(size=(variables, 64)).astype(np.float32) / variables)
weights[:, ::3] = 0
width = torch.where(torch.arange(variables) % 3 == 0, 0.0, -4.0)

def encode(x):
    mean = x @ weights
    return {{"mean": mean.reshape(-1, *{shape}), "logvar": width.expand_as(mean).reshape(-1, *{shape})}}

def read(z):
    return torch.as_tensor(z).reshape(len(z), -1) @ back

started = time.process_time()
found = po.diagnose(encode, torch.from_numpy(inputs), axis={axis}, decode=read)
page = found.report("page.html")
print(json.dumps({{
    "seconds": time.process_time() - started,
    "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    "megabytes": page.stat().st_size / 1e6,
    "variables": len(found.regime.types),
    "passive": found.regime.passive == list(range(0, variables, 3)),
    "why": len(found.regime.why),
    "advice": " ".join(found.advice),
}}))
"""
LONG = """
import json, resource
import numpy as np
import polarised as po

draw = np.random.default_rng(0)
before = {{}}

def batches():
    for i in range({batches}):
        yield draw.normal(size=(10_000, 64)).astype(np.float32)
        if i == 9:
            before["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

found = po.diagnose(lambda x: {{"mean": x, "logvar": np.full_like(x, -4.0)}}, batches())
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({{"inputs": found.regime.inputs, "grew": (after - before["memory"]) / 2**10}}))
"""


def run(script, folder):
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_positions_as_variables(tmp_path):
    found = run(WIDE.format(variables=16_384, shape=(4, 64, 64), axis=(1, 2, 3)), tmp_path)
    assert (found["variables"], found["why"], found["passive"]) == (16_384, 16_384, True)
    assert found["seconds"] < 60
    assert found["gigabytes"] < 4
    assert found["megabytes"] < 5
    assert "Redundancy was measured among 512 of the 16,384 variables." in found["advice"]
    assert "The decoder was measured on 64 of the 16,384 variables." in found["advice"]


@pytest.mark.slow
def test_two_thousand_variables_are_diagnosed_completely(tmp_path):
    found = run(WIDE.format(variables=2_000, shape=(2_000,), axis=None), tmp_path)
    assert (found["variables"], found["passive"]) == (2_000, True)
    assert found["seconds"] < 10


@pytest.mark.slow
def test_a_million_inputs_from_a_generator_in_constant_memory(tmp_path):
    found = run(LONG.format(batches=100), tmp_path)
    assert found["inputs"] == 1_000_000
    assert found["grew"] < 100
