"""The list of accepted inputs in the README agrees with the code."""

import re
from pathlib import Path
from typing import get_args

import numpy as np
import polars
import pytest
import torch

import polarised as po
from polarised.adapters.targets import ARRAYS, DESCRIBED, TENSORS, Kind, accepted_targets, open_target

from .test_on_disk import MEAN, VARIANCE, write

README = Path(__file__).parents[2] / "README.md"


def test_readme_lists_what_is_accepted():
    marked = re.search(
        r"<!-- accepted: [^\n]* -->\n(.*?)\n<!-- end of accepted -->", README.read_text("utf-8"), flags=re.DOTALL
    )
    assert marked is not None
    assert marked[1] == accepted_targets()


def test_every_kind_is_described():
    assert set(DESCRIBED) == set(get_args(Kind))


@pytest.mark.parametrize("suffix", [*ARRAYS, *TENSORS])
def test_every_ending_on_the_list_is_diagnosed(suffix, tmp_path):
    file = tmp_path / f"codes{suffix}"
    if suffix == ".npz":
        np.savez(file, mean=MEAN, variance=VARIANCE)
    elif suffix == ".npy":
        file = tmp_path / "codes_mean.npy"
        np.save(file, MEAN)
        np.save(tmp_path / "codes_variance.npy", VARIANCE)
    elif suffix in (".parquet", ".pq"):
        columns = {f"{name}_{j}": part[:, j] for name, part in (("mean", MEAN), ("var", VARIANCE)) for j in range(3)}
        polars.DataFrame(columns).write_parquet(file)
    elif suffix == ".pth":
        torch.save({"mu": torch.tensor(MEAN), "std": torch.tensor(VARIANCE).sqrt()}, file)
    else:
        file = write(tmp_path, suffix[1:])
    assert suffix in accepted_targets()
    assert open_target(file).kind == "arrays"
    assert po.diagnose(file).regime.passive == [2]
